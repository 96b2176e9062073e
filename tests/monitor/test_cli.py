"""The command line as its user meets it: what it prints, what it exits with, and one line for bad input."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ntstop_probe.wire import PROTOCOL
from tests.monitor.writer import Writer, core, steps

NTSTOP = str(Path(sys.executable).parent / "ntstop")


def ntstop(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `ntstop WORDS` without a terminal."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([NTSTOP, *words], capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


def learn(writer: Writer, count: int) -> None:
    """`count` steps in which the loss falls, the last one to 1."""
    writer.send(steps(0, [1.0 + 0.02 * (count - 1 - index) for index in range(count)]))


def recorded(run: str = "run-1", count: int = 50, **options: object) -> Writer:
    """A run that has ended well after `count` steps."""
    writer = Writer(run, **options)  # type: ignore[arg-type]
    learn(writer, count)
    writer.beat(count)
    writer.exit(0)
    writer.close()
    return writer


def is_one_line(done: subprocess.CompletedProcess[str]) -> bool:
    """Exit code 2, nothing on stdout and one line on stderr."""
    return done.returncode == 2 and not done.stdout and len(done.stderr.splitlines()) == 1


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--bogus"],
        ["ls", "--bogus"],
        ["ls", "extra"],
        ["run"],
        ["run", "--bogus", "--", "true"],
        ["diagnose"],
        ["demo", "--fault", "none-such"],
        ["demo", "--at", "5", "--headless"],
        ["demo", "--at", "5"],
        ["demo", "--fault", "nan", "--at", "400"],
        ["demo", "--fault", "nan", "--at", "50", "--steps", "50", "--headless"],
        ["demo", "--steps", "0"],
        ["no-such-run"],
        ["./no/such/folder"],
        ["no-such-run", "extra"],
        [""],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str]) -> None:
    assert is_one_line(done := ntstop(*words)), done


def test_an_unknown_run_names_the_nearest() -> None:
    recorded("train-k7q2")
    done = ntstop("train-k7q3")
    assert is_one_line(done)
    assert "train-k7q2" in done.stderr


@pytest.mark.parametrize(
    ("words", "command"),
    [(["expalin"], "explain"), (["rnu", "--", "python", "x.py"], "run"), (["diagnos", "train-k7q2"], "diagnose")],
)
def test_a_word_that_is_nearly_a_command_names_it(words: list[str], command: str) -> None:
    recorded("train-k7q2")
    done = ntstop(*words)
    assert is_one_line(done)
    assert done.stderr == f"ntstop: there is no run {words[0]!r}; did you mean the command {command}?\n"


def test_a_word_that_is_near_nothing_is_told_no_command() -> None:
    recorded("train-k7q2")
    for words in (["xyz"], ["train-k7q2", "expalin"]):
        done = ntstop(*words)
        assert is_one_line(done)
        assert "did you mean" not in done.stderr and "; the newest: train-k7q2; " in done.stderr


def test_a_run_from_a_newer_version_says_so_instead_of_a_guess() -> None:
    recorded().announce(protocol=PROTOCOL + 1)
    for words in (["run-1"], ["diagnose", "run-1", "--json"]):
        done = ntstop(*words)
        assert is_one_line(done)
        assert "newer" in done.stderr


# --- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["id", "prefix", "folder", "process folder"])
def test_a_run_opens_by_id_prefix_and_folder_and_a_pipe_gets_text(how: str) -> None:
    folder = recorded("run-1", title="a title").folder
    target = {"id": "run-1", "prefix": "run-", "folder": str(folder.parent), "process folder": str(folder)}[how]
    done = ntstop(target)
    assert done.returncode == 0, done.stderr
    assert "run-1 · a title" in done.stdout
    assert "finished: it recorded its exit" in done.stdout
    assert "last 49 of 1,000" in done.stdout


def test_a_run_named_like_a_command_opens_by_its_folder(home: Path) -> None:
    recorded("ls")
    assert "last 49" in ntstop("./runs/ls", cwd=home).stdout


def test_alone_it_opens_the_live_run() -> None:
    recorded("over")
    live = Writer("going")
    live.train(0, 20)
    live.beat(20)
    done = ntstop()
    assert done.returncode == 0
    assert done.stdout.startswith("going")
    assert "live" in done.stdout


def test_of_several_live_runs_it_takes_the_newest_where_nobody_can_choose() -> None:
    for run in ("older", "newer"):
        writer = Writer(run)
        writer.train(0, 20)
        writer.beat(20)
    done = ntstop()
    assert done.stdout.startswith("newer")
    assert "2 runs are live" in done.stderr


def test_of_several_live_runs_the_user_chooses_by_number() -> None:
    for run in ("older", "newer"):
        writer = Writer(run)
        writer.train(0, 20)
        writer.beat(20)
    main, other = pty.openpty()
    try:
        os.write(main, b"2\n")
        done = ntstop(stdin=other)
    finally:
        os.close(main)
        os.close(other)
    assert done.stdout.startswith("older")
    assert [line.split()[:3] for line in done.stderr.splitlines()[1:3]] == [
        ["1", "live", "newer"],
        ["2", "live", "older"],
    ]


def test_with_no_live_run_it_says_so_and_waits_for_one() -> None:
    recorded("over")
    viewer = subprocess.Popen([NTSTOP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert viewer.stderr is not None
    sentence = viewer.stderr.readline()
    assert "No run is live" in sentence
    assert "ntstop over" in sentence
    waiting = viewer.stderr.readline()
    assert waiting.startswith("Waiting for one") and len(waiting) <= 80, "no word is broken on a narrow terminal"
    writer = Writer("begins")
    writer.train(0, 20)
    writer.beat(20)
    output, _ = viewer.communicate(timeout=30)
    assert output.startswith("begins")


def test_ctrl_c_leaves_the_waiting_with_130_and_no_traceback() -> None:
    def listen() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell starts what is in its background deaf to it

    viewer = subprocess.Popen([NTSTOP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    assert viewer.stderr is not None
    viewer.stderr.readline()
    viewer.send_signal(signal.SIGINT)
    _, errors = viewer.communicate(timeout=30)
    assert viewer.returncode == 130
    assert "Traceback" not in errors


def test_a_reader_that_closes_the_pipe_early_causes_no_traceback() -> None:
    recorded()
    done = subprocess.run(["bash", "-c", f"{NTSTOP} run-1 | true; exit ${{PIPESTATUS[0]}}"], capture_output=True)
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)


def test_escape_sequences_in_names_do_not_reach_the_terminal() -> None:
    recorded("run-1", title="evil\x1b]0;title\x07\x1b[31m 漢字 🚀")
    for words in (["run-1"], ["ls"], ["diagnose", "run-1"], ["diagnose", "run-1", "--md"]):
        output = ntstop(*words).stdout
        assert "evil" in output
        assert "\x1b" not in output
        assert "\x07" not in output


def test_a_terminal_without_unicode_gets_the_text_all_the_same() -> None:
    recorded("run-1", title="漢字")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = ntstop("run-1", env=environment, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert "last 49" in done.stdout


# --- listing -------------------------------------------------------------------------------------------------------


def test_ls_says_state_steps_age_loss_and_rate() -> None:
    recorded("over", title="the first")
    live = Writer("going")
    live.train(0, 20)
    live.beat(20)
    rows = {line.split()[1]: line.split() for line in ntstop("ls").stdout.splitlines()}
    assert rows["RUN"] == ["STATE", "RUN", "STEP", "LOSS", "RATE", "AGE", "TITLE"]
    assert rows["over"][0] == "finished"
    assert rows["over"][2] == "49"
    assert rows["over"][-2:] == ["the", "first"]
    assert rows["going"][0] == "live"
    assert rows["going"][2:4] == ["19", "19.00"]


def test_ls_json_is_one_object_a_line_with_null_for_what_is_not_known() -> None:
    recorded("over")
    Writer("silent")
    lines = {line["id"]: line for line in map(json.loads, ntstop("ls", "--json").stdout.splitlines())}
    assert lines["over"]["state"] == "finished"
    assert (lines["over"]["last_step"], lines["over"]["last_loss"]) == (49, 1.0)
    assert lines["silent"]["last_step"] is None
    assert lines["silent"]["state"] == "waiting"


def test_ls_without_a_run_says_how_to_get_one() -> None:
    done = ntstop("ls")
    assert (done.returncode, done.stdout) == (0, "")
    assert "ntstop run" in done.stderr


def test_ls_shows_the_newest_and_with_all_every_run() -> None:
    for number in range(25):
        recorded(f"run-{number}", count=1)
    assert len(ntstop("ls").stdout.splitlines()) == 1 + 20
    assert len(ntstop("ls", "--all").stdout.splitlines()) == 1 + 25


# --- diagnosing ----------------------------------------------------------------------------------------------------


def with_nan() -> Writer:
    """A run whose loss is NaN from step 50 on."""
    writer = Writer("bad")
    learn(writer, 50)
    writer.send(steps(50, [float("nan")] * 10))
    writer.beat(60)
    writer.exit(0)
    writer.close()
    return writer


def test_diagnose_prints_one_json_object_a_target_and_exits_by_severity() -> None:
    recorded("good")
    with_nan()
    good = ntstop("diagnose", "good", "--json")
    assert good.returncode == 0
    assert json.loads(good.stdout)["run"]["id"] == "good"
    both = ntstop("diagnose", "good", "bad", "--json")
    assert both.returncode == 1
    reports = [json.loads(line) for line in both.stdout.splitlines()]
    assert [report["target"] for report in reports] == ["good", "bad"]
    worst = reports[1]["findings"][0]
    assert (worst["kind"], worst["severity"], worst["first_step"]) == ("nonfinite-loss", "critical", 50)
    assert reports[1]["run"]["source"] == "recording"
    assert (reports[1]["run"]["first_step"], reports[1]["run"]["last_step"]) == (0, 59)


def test_diagnose_exits_2_for_an_unreadable_target_and_reports_the_others() -> None:
    with_nan()
    done = ntstop("diagnose", "none-such", "bad", "--json")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert json.loads(done.stdout)["target"] == "bad"


def test_diagnose_writes_cards_in_markdown_and_a_list_for_people() -> None:
    with_nan()
    cards = ntstop("diagnose", "bad", "--md").stdout
    assert cards.startswith("# bad: finished, steps 0 to 59\n")
    assert "nonfinite-loss" in cards
    assert "**Hypothesis.**" in cards
    lines = ntstop("diagnose", "bad").stdout.splitlines()
    assert lines[0] == "bad: finished, steps 0 to 59"
    assert "✖ CRIT nonfinite-loss" in lines[1]


def test_numbers_that_overflow_bring_no_warnings_of_numpy_to_the_screen(home: Path) -> None:
    writer = Writer("huge")
    writer.send(steps(0, [1.7e308] * 200))
    writer.beat(200)
    writer.exit(0)
    writer.close()
    done = ntstop("huge")
    assert done.returncode == 0 and not done.stderr and "loss" in done.stdout


def test_a_recording_that_is_damaged_throughout_is_not_called_healthy() -> None:
    recording = core(recorded("bad"))
    recording.write_bytes(bytes(byte ^ 1 for byte in recording.read_bytes()))
    assert is_one_line(ntstop("diagnose", "bad"))
    recording.unlink()
    recording.mkdir()
    assert is_one_line(ntstop("diagnose", "bad"))
    assert "Not a file" in ntstop("bad").stdout


def test_names_of_phases_and_layers_do_not_reach_the_terminal_as_they_are() -> None:
    writer = Writer("bad")
    writer.beat(0, phase="\x1b]0;title\x07")
    done = ntstop("bad")
    assert "\x1b" not in done.stdout and "none yet, in" in done.stdout


@pytest.mark.parametrize("place", ["~nobody-has-this-name/x", "/dev/null"])
def test_a_home_that_is_nowhere_is_one_line(place: str) -> None:
    for words in (["ls"], ["run-1"], []):
        assert is_one_line(ntstop(*words, env={**os.environ, "NTSTOP_HOME": place}))


def test_a_home_relative_to_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    for words in (["ls"], ["run", "--", "true"]):
        command = ["/bin/sh", "-c", script, "sh", NTSTOP, *words]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "NTSTOP_HOME": "here"}, capture_output=True, text=True, timeout=60
        )
        assert is_one_line(done)


def test_names_of_any_bytes_are_listed_and_diagnosed_as_json(home: Path) -> None:
    name = os.fsdecode(b"run-\xff\x1b[31m")
    (home / "runs" / name / "p").mkdir(parents=True)
    (home / "runs" / name / "p" / "process.json").write_text("{}")
    for words in (["ls", "--json"], ["diagnose", name, "--json"]):
        done = ntstop(*words)
        assert done.returncode == 0 and not done.stderr
        assert "run-?" in done.stdout and json.loads(done.stdout)
    assert "\x1b" not in ntstop("ls").stdout


@pytest.mark.parametrize(
    ("redirection", "code", "lines"),
    [("| true", 0, 0), (">&-", 0, 0), ("2>&-", 0, 0), ("<&-", 0, 0), (">/dev/full", 2, 1)],
)
def test_an_output_that_is_closed_or_full_brings_no_traceback(redirection: str, code: int, lines: int) -> None:
    recorded()
    for words in ("ls", "ls --json", "--help"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{NTSTOP} {words} {redirection}"], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (code, lines), done.stderr


@pytest.mark.parametrize(("words", "says"), [("run-1", "finished"), ("run-1 run-1", "finished"), ("-", "")])
def test_a_standard_input_that_is_closed_is_one_of_which_nothing_comes(words: str, says: str) -> None:
    recorded()
    done = subprocess.run(["/bin/sh", "-c", f"{NTSTOP} {words} <&-"], capture_output=True, text=True, timeout=60)
    assert says in done.stdout and "Traceback" not in done.stderr
