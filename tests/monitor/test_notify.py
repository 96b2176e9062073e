"""`--notify CMD`: each finding is told once, whoever watches, and a command that misbehaves keeps nobody waiting."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ntstop.notify import Notifier, Told
from ntstop.session import Session
from ntstop.viewer_state import ViewerState
from tests.helpers import wait_until
from tests.monitor.test_cli import learn, ntstop, recorded, with_nan
from tests.monitor.writer import Writer, steps

NAN = float("nan")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where the command of `append` writes."""
    return tmp_path / "told.jsonl"


def append(path: Path) -> str:
    """A command that appends its stdin to a file, in one write."""
    program = (
        "import os, sys; text = sys.stdin.buffer.read()\n"
        f"os.write(os.open({str(path)!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), text)"
    )
    return shlex.join([sys.executable, "-c", program])


def lines(path: Path) -> list[dict[str, object]]:
    """What was told so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A configuration with this text."""
    path = tmp_path / "ntstop.toml"
    path.write_text(text)
    monkeypatch.setenv("NTSTOP_CONFIG", str(path))


@pytest.fixture
def going() -> Iterator[Writer]:
    """A run that goes on, and is healthy so far."""
    writer = Writer("going")
    learn(writer, 50)
    writer.beat(50)
    yield writer
    writer.close()


def turn_bad(writer: Writer) -> None:
    """The loss is NaN from here on."""
    writer.send(steps(50, [NAN] * 10))
    writer.beat(60)


def is_caught_up(session: Session) -> bool:
    """Whether the viewer has read all there is, and knows that the run lives."""
    return session.status.complete and session.entry is not None and session.entry.state == "live"


# --- once, in a call that prints --------------------------------------------------------------------------------------


def test_each_finding_is_told_once_as_it_stands_in_the_report(told: Path) -> None:
    with_nan()
    done = ntstop("diagnose", "bad", "--json", "--notify", append(told))
    assert done.returncode == 1 and not done.stderr
    weighty = [f for f in json.loads(done.stdout)["findings"] if f["severity"] != "info"]
    assert weighty and lines(told) == weighty
    again = ntstop("diagnose", "bad", "--json", "--notify", append(told))
    assert again.stdout == done.stdout and lines(told) == weighty


def test_nothing_is_told_of_a_healthy_run_nor_of_what_is_acknowledged(told: Path) -> None:
    recorded("good")
    with_nan()
    for finding in json.loads(ntstop("diagnose", "bad", "--json").stdout)["findings"]:
        ViewerState("bad").acknowledge(finding["id"], "")
    ntstop("diagnose", "good", "bad", "--notify", append(told))
    assert not lines(told)


def test_the_words_of_a_command_are_no_shell(told: Path, tmp_path: Path) -> None:
    with_nan()
    ntstop(
        "diagnose",
        "bad",
        "--notify",
        f"true; touch {tmp_path}/shell $(touch {tmp_path}/shell) | touch {tmp_path}/shell",
    )
    assert not (tmp_path / "shell").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [("false", "exit code 1"), ("no-such-program-at-all", "No such file"), ("/", "ermission denied"),
     ("sh -c 'kill -9 $$'", "exit code -9")],
)  # fmt: skip
def test_a_command_that_fails_is_one_line_and_changes_no_exit_code(command: str, says: str) -> None:
    with_nan()
    done = ntstop("diagnose", "bad", "--notify", command)
    assert done.returncode == 1 and "nonfinite-loss" in done.stdout
    assert len(done.stderr.splitlines()) == 1 and says in done.stderr and command in done.stderr


@pytest.mark.parametrize("command", ["", "  ", "it's"])
def test_what_is_no_command_is_said_before_anything_is_read(command: str) -> None:
    done = ntstop("diagnose", "bad", "--notify", command)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "--notify" in done.stderr


def test_a_command_that_hangs_and_one_that_floods_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_nan()
    configure(tmp_path, monkeypatch, "[notify]\ntimeout = 0.5")
    pid = tmp_path / "pid"
    command = shlex.join(["sh", "-c", f"echo $$ >{pid}; yes & yes >&2"])
    done = ntstop("diagnose", "bad", "--notify", command)
    assert done.returncode == 1 and "ended after 0.5 s" in done.stderr
    wait_until(lambda: not is_alive(int(pid.read_text())), what="the end of the command and its children")


def is_alive(group: int) -> bool:
    """Whether a process of the group is there."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def test_after_three_failures_in_a_row_nothing_more_is_tried(tmp_path: Path) -> None:
    log = tmp_path / "log"
    session = Session(with_nan().folder.parent)
    session.load()
    notifier = Notifier(session, Told(f"sh -c 'echo >>{log}; exit 3'"))
    for _ in range(5):
        # The same finding, as if it were another one each time.
        session.kept.path.unlink(missing_ok=True)  # type: ignore[union-attr]
        notifier._mine.clear()
        notifier.tell()
    assert len(log.read_text().splitlines()) == 3
    assert "exit code 3" in session.notice and "nothing more is tried" in session.notice


def test_what_cannot_be_kept_is_told_all_the_same(told: Path, home: Path) -> None:
    with_nan()
    (home / "viewer").write_text("a file where the folder should be")
    done = ntstop("diagnose", "bad", "--notify", append(told))
    assert lines(told) and "is not kept" in done.stderr


# --- beside a viewer --------------------------------------------------------------------------------------------------


def test_two_viewers_of_a_live_run_tell_what_is_new_once(going: Writer, told: Path) -> None:
    command = Told(append(told))
    with Session("going") as first, Session("going") as second, Notifier(first, command), Notifier(second, command):
        wait_until(lambda: is_caught_up(first) and is_caught_up(second))
        assert not lines(told)
        turn_bad(going)
        wait_until(lambda: lines(told) and first.findings and second.findings)
        # Both have looked at it when there was time for two more looks.
        time.sleep(1.2)
    assert [finding["kind"] for finding in lines(told)] == ["nonfinite-loss"]
    with Session("going") as third, Notifier(third, Told(append(told))):
        wait_until(lambda: is_caught_up(third))
        time.sleep(1.2)
    assert len(lines(told)) == 1, "a viewer that is started again repeats nothing"


def test_a_command_that_hangs_keeps_the_viewer_neither_from_reading_nor_from_leaving(going: Writer) -> None:
    with Session("going") as session:
        with Notifier(session, Told("sleep 60")):
            wait_until(lambda: is_caught_up(session))
            turn_bad(going)
            wait_until(is_claimed)
            going.send(steps(60, [NAN] * 10))
            wait_until(lambda: session.state.primary and session.state.primary.x == 69)
            left = time.monotonic()
        assert time.monotonic() - left < 10.0
        assert "ended with the viewer" in session.notice


def is_claimed() -> bool:
    """Whether a viewer has begun to tell of a finding."""
    state = ViewerState("going")
    state.untold([])
    return bool(state._kept.told)


def test_the_findings_of_an_old_recording_are_no_news_to_a_viewer(told: Path) -> None:
    with_nan()
    with Session("bad") as session, Notifier(session, Told(append(told))):
        assert session.wait_for_end() and wait_until(lambda: session.entry)
        time.sleep(1.2)
    assert not lines(told)


def test_the_end_of_a_run_that_was_watched_is_news(told: Path) -> None:
    writer = Writer("going")
    learn(writer, 50)
    writer.beat(50)
    with Session("going") as session, Notifier(session, Told(append(told))) as notifier:
        wait_until(lambda: is_caught_up(session) and notifier._news)
        writer.send(steps(50, [NAN] * 10))
        writer.exit(1)
        writer.close()
        wait_until(lambda: any(finding["kind"] == "nonfinite-loss" for finding in lines(told)))


def test_the_command_of_the_configuration_serves_a_viewer_and_not_a_call_that_prints(
    tmp_path: Path, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ntstop.commands.options import gather

    with_nan()
    configure(tmp_path, monkeypatch, f"[notify]\ncommand = {json.dumps(append(told))}\ntimeout = 5")
    assert gather().notify == Told(append(told), 5.0)
    assert ntstop("diagnose", "bad").returncode == 1 and ntstop("bad").returncode == 0
    assert not lines(told)


def test_notify_stands_where_there_is_a_viewer() -> None:
    for words in (["--notify", "true", "ls"], ["run", "--notify", "true", "--", "true"]):
        done = ntstop(*words)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "--notify" in done.stderr
