"""A job from its start to every kind of end: what is lost, what is left behind, and that the job never notices."""

from __future__ import annotations

import os
import re
import signal
import textwrap
import time
from pathlib import Path

import pytest

from ntstop_probe import registry
from ntstop_probe.wire import Heartbeat, Hello

from ..helpers import wait_until
from .jobs import TORCH, launched, run, running, said_steps
from .reading import events, frames_of, logged, process_folders, records, step_ordinals, the_folder

VIEWER = """
import sys, zmq
from pathlib import Path
from ntstop_probe import registry
socket = zmq.Context().socket(zmq.SUB)
socket.setsockopt(zmq.SUBSCRIBE, b"")
socket.connect(registry.read_process_info(Path(sys.argv[1])).endpoint)
while True:
    socket.recv()
    print(flush=True)
"""


def scalars(folder: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in logged(records(folder)):
        found |= row.values
    return found


def steps_are_recorded(home: Path) -> bool:
    folders = process_folders(home)
    return bool(folders) and len(step_ordinals(records(folders[0]))) > 0


def test_a_job_that_ends_has_lost_nothing_and_has_said_so(home: Path) -> None:
    done = run("train(0.6)")
    assert (done.returncode, done.stderr) == (0, "")
    told = [ordinal for ordinal, _ in said_steps(done.stdout)]
    folder = the_folder(home)
    assert step_ordinals(records(folder)) == told == list(range(len(told)))
    assert [(event.kind, event.data) for event in events(folder)] == [("exit", {"code": None})]
    last = records(folder)[-1]
    assert isinstance(last, Heartbeat)
    assert last.phase == "idle"
    assert registry.read_process_info(folder).pid
    assert not list(Path(os.environ["XDG_RUNTIME_DIR"]).iterdir()), "no socket is left"


def test_a_job_so_short_that_the_publisher_has_hardly_begun_is_recorded_whole(home: Path) -> None:
    done = run("train(0.01)")
    assert step_ordinals(records(the_folder(home))) == [ordinal for ordinal, _ in said_steps(done.stdout)]


@pytest.mark.parametrize("end", ["kill", "_exit"])
def test_a_job_that_is_gone_at_once_loses_at_most_its_last_second(home: Path, end: str) -> None:
    script = "train_until(recorded); train(1.0); os._exit(3)" if end == "_exit" else "train(60)"
    with running(script) as job:
        if end == "kill":
            wait_until(lambda: steps_are_recorded(home))
            time.sleep(0.7)  # Anywhere between two flushes; nothing waits for this.
            job.kill()
        out, err = job.communicate(timeout=30)
    assert job.returncode == (3 if end == "_exit" else -signal.SIGKILL)
    assert err == ""
    told = said_steps(out)
    kept = step_ordinals(records(the_folder(home)))
    assert kept == list(range(len(kept)))
    lost = [moment for ordinal, moment in told if ordinal >= len(kept)]
    assert kept
    if lost:
        moments = [moment for _, moment in told]
        starved = sum(gap for gap in map(float.__sub__, moments[1:], moments) if gap > 0.05)
        assert max(lost) - min(lost) < 1.0 + starved, "a step takes 2 ms wherever the machine has time for the job"
    assert "exit" not in [event.kind for event in events(the_folder(home))]


def test_an_exception_is_recorded_and_reaches_the_jobs_own_hook_unchanged(home: Path) -> None:
    script = """
        def mine(kind, value, trace):
            print("my hook:", kind.__name__, value, trace.tb_next.tb_frame.f_code.co_name)
        sys.excepthook = mine
        def broken():
            raise ValueError("loss is 名 \\x1b[31m")
        train(0.3)
        broken()
    """
    done = run(script)
    assert done.returncode == 1
    assert "my hook: ValueError loss is 名" in done.stdout
    assert done.stdout.rstrip().endswith("broken")
    exception, end = events(the_folder(home))[-2:]
    assert (exception.kind, exception.text) == ("exception", "ValueError: loss is 名 \x1b[31m")
    assert exception.data["type"] == "ValueError"
    assert re.fullmatch(r"broken \(<string>:\d+\)", str(exception.data["where"]))
    assert (end.kind, end.data) == ("exit", {"code": 1})


def test_an_exception_without_a_message_is_recorded_by_its_name_alone(home: Path) -> None:
    assert run("train(0.3)\nraise KeyboardInterrupt").returncode
    exception = events(the_folder(home))[-2]
    assert (exception.kind, exception.text) == ("exception", "KeyboardInterrupt")


def test_a_traceback_is_printed_as_without_the_probe(home: Path) -> None:
    def without_lines(text: str) -> str:
        return re.sub(r"line \d+", "line", text)

    watched = run("train(0.2)\nraise KeyError('x')")
    alone = run("raise KeyError('x')", prelude="")
    assert without_lines(watched.stderr) == without_lines(alone.stderr)
    assert watched.returncode == alone.returncode == 1


def test_stop_undoes_what_was_changed_and_nothing_is_published_after_it(home: Path) -> None:
    script = """
        import threading, atexit
        before = sys.excepthook, list(sys.meta_path)
        train(0.3)
        ntstop_probe.stop()
        assert (sys.excepthook, list(sys.meta_path)) == before
        while threading.active_count() > 1:
            time.sleep(0.01)
        ntstop_probe.log(after=1.0); ntstop_probe.mark("after"); ntstop_probe.watch(); ntstop_probe.stop()
        assert threading.active_count() == 1
    """
    done = run(script)
    assert done.returncode == 0, done.stderr
    kinds = [event.kind for event in events(the_folder(home))]
    assert kinds == ["exit"]
    assert "after" not in scalars(the_folder(home))


def test_a_stopped_job_goes_on_where_it_was(home: Path) -> None:
    with running("train(60)") as job:
        wait_until(lambda: steps_are_recorded(home))
        job.send_signal(signal.SIGSTOP)
        folder = the_folder(home)
        wait_until(lambda: "T" in Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0])
        size = len(step_ordinals(records(folder)))
        job.send_signal(signal.SIGCONT)
        wait_until(lambda: len(step_ordinals(records(folder))) > size + 100)
        job.kill()
        job.communicate()
    kept = step_ordinals(records(folder))
    assert kept == list(range(len(kept)))
    numbers = [frame.sequence for frame in frames_of(folder)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("fate", [signal.SIGSTOP, signal.SIGKILL])
def test_a_viewer_that_is_stopped_or_killed_changes_nothing_for_the_job(home: Path, fate: signal.Signals) -> None:
    stop_file = home.parent / "stop"

    def viewers() -> list[int]:
        return [beat.probe.viewers for beat in records(folder) if isinstance(beat, Heartbeat)]

    with running("train(60, stop_file=sys.argv[1])", str(stop_file)) as job:
        wait_until(lambda: steps_are_recorded(home))
        folder = the_folder(home)
        with running("", str(folder), prelude=VIEWER) as viewer:
            wait_until(lambda: viewers()[-1:] == [1])
            viewer.send_signal(fate)
            before = len(step_ordinals(records(folder)))
            wait_until(lambda: len(step_ordinals(records(folder))) > before + 300)
            if fate == signal.SIGKILL:
                wait_until(lambda: viewers()[-1] == 0)
            stop_file.touch()
            out, err = job.communicate(timeout=30)
            ended = time.monotonic()
        told = said_steps(out)
        assert (job.returncode, err) == (0, "")
        assert ended - told[-1][1] < 10.0, "a dead peer does not hold up the end"
        assert step_ordinals(records(folder)) == [ordinal for ordinal, _ in told]
        last = records(folder)[-1]
        assert isinstance(last, Heartbeat)
        assert last.probe.dropped == 0


def test_a_forked_child_is_no_part_of_the_probe_and_ends_in_peace(home: Path) -> None:
    """As loader workers are: forked right after the start, while the publisher still imports, and again later."""
    script = """
        import threading
        own = probe()
        def child():
            ntstop_probe.log(child=1.0); ntstop_probe.mark("child")
            assert core.current() is None and threading.active_count() == 1
            import psutil, zmq, msgspec, pynvml  # whose import locks the parent's publisher may hold
            sys.exit(0)
        def fork():
            pid = os.fork()
            if pid == 0:
                child()
            return pid
        pids = [fork() for _ in range(3)]
        train(0.5)
        pids += [fork() for _ in range(3)]
        train(0.5)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 6
        print("done")
    """
    done = run(script)
    assert done.stdout.endswith("done\n"), done.stderr
    assert done.stderr == ""
    folder = the_folder(home)
    kept = step_ordinals(records(folder))
    assert kept == list(range(len(kept)))
    assert [event.kind for event in events(folder)] == ["exit"]
    assert "child" not in scalars(folder)


def test_a_forked_child_that_asks_for_the_probe_gets_one_of_its_own(home: Path) -> None:
    script = """
        import multiprocessing
        def child():
            train(0.3)
            ntstop_probe.log(who=2.0)
        ntstop_probe.log(who=1.0)
        other = multiprocessing.get_context("fork").Process(target=child)
        other.start(); other.join()
        assert other.exitcode == 0
    """
    done = run(script, environment={**os.environ, "NTSTOP_RUN_ID": "family"})
    assert done.returncode == 0, done.stderr
    parent, child = sorted(process_folders(home), key=lambda folder: scalars(folder)["who"])
    assert step_ordinals(records(parent)) == []
    assert len(step_ordinals(records(child))) > 10
    assert [event.kind for event in events(child)] == ["exit"], "though such a child ends without atexit"
    writers = {registry.read_process_info(folder).writer for folder in (parent, child)}
    assert len(writers) == 2


def test_a_job_that_replaces_itself_by_exec_goes_on_in_a_folder_of_its_own(home: Path) -> None:
    script = """
        from pathlib import Path
        train(0.3)
        if "again" not in sys.argv:
            while not list(Path(os.environ["NTSTOP_HOME"]).glob("runs/*/*/core-*.nts")):
                train(0.1)
            os.execv(sys.executable, [*sys.orig_argv, "again"])
    """
    done = run(script, environment={**os.environ, "NTSTOP_RUN_ID": "same"})
    assert (done.returncode, done.stderr) == (0, "")
    first, second = process_folders(home)
    assert second.name == f"{first.name}-2"
    for folder in (first, second):
        assert step_ordinals(records(folder))
        assert registry.read_process_info(folder).folder == folder.name


def test_two_jobs_at_once_have_runs_of_their_own(home: Path) -> None:
    with running("train(1.0)") as first, running("train(1.0)") as second:
        assert [job.wait(30) for job in (first, second)] == [0, 0]
    folders = process_folders(home)
    assert len({folder.parent for folder in folders}) == 2
    assert len({registry.read_process_info(folder).endpoint for folder in folders}) == 2
    for folder in folders:
        kept = step_ordinals(records(folder))
        assert kept
        assert kept == list(range(len(kept)))


def test_a_second_start_of_a_run_is_its_next_attempt(home: Path) -> None:
    environment = {**os.environ, "NTSTOP_RUN_ID": "again"}
    for _ in range(3):
        run("train(0.05)", environment=environment)
    folders = sorted(process_folders(home), key=lambda folder: registry.read_process_info(folder).attempt)
    assert [registry.read_process_info(folder).attempt for folder in folders] == [0, 1, 2]
    assert {folder.parent.name for folder in folders} == {"again"}


def test_every_folder_that_is_made_is_private_whatever_the_umask(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NTSTOP_HOME", str(home / "above" / "home"))
    assert run("os.umask(0); train(0.3)").returncode == 0
    made = [home / "above", *(path for path in (home / "above").rglob("*"))]
    assert len(made) > 5
    assert {path.stat().st_mode & 0o077 for path in made} == {0}


def test_odd_values_are_said_once_and_never_raise(home: Path) -> None:
    script = """
        class Device:
            type = "cuda"
            def __str__(self): return "cuda:0"
        class Rude:
            def __float__(self): raise RuntimeError("no")
            def __repr__(self): raise RuntimeError("no")
        train(0.1)
        for _ in range(3):
            ntstop_probe.log({"text": "x", "none": None, "rude": Rude(), "good": 1, 7: True, "huge": 10**400}, step="a")
        ntstop_probe.log(None); ntstop_probe.log({}); ntstop_probe.log(5); ntstop_probe.log("loss")
        ntstop_probe.log(nan=float("nan"), inf=float("-inf"), step=2**70)
        ntstop_probe.log({"\\ud800 名前 🚀": 1.5}, step=3.0)
        ntstop_probe.log({"名前 🚀": 2.5}, step=3.0)
        ntstop_probe.mark(Rude()); ntstop_probe.checkpoint(None, "slow"); ntstop_probe.phase(None).__enter__()
        ntstop_probe.watch(config=Rude(), total_steps="many", budget="x")
        print("fine")
    """
    done = run(script)
    assert done.stdout.endswith("fine\n"), done.stderr
    assert 0 < len(done.stderr.splitlines()) <= 6, done.stderr
    assert all(line.startswith("ntstop: ") for line in done.stderr.splitlines())
    found = scalars(the_folder(home))
    assert found["good"] == found["7"] == 1.0
    assert found["名前 🚀"] == 2.5
    assert not {"text", "none", "rude", "huge"} & set(found)


def test_what_the_user_says_of_the_run_is_in_its_hello(home: Path) -> None:
    script = """
        ntstop_probe.watch(config={"lr": 3e-4, "api_key": "abc123"}, data_hash="d41d8", total_steps=500, title="mine")
        train(0.3)
        with ntstop_probe.phase("eval"):
            assert core.current().progress.phase == "eval"
        ntstop_probe.checkpoint("/data/last.pt", 1.5)
        ntstop_probe.mark("half way")
    """
    done = run(script)
    assert done.returncode == 0, done.stderr
    hello = [record for record in records(the_folder(home)) if isinstance(record, Hello)][-1]
    assert (hello.total_steps, hello.title) == (500, "mine")
    assert hello.manifest.data_hash == "d41d8"
    assert hello.manifest.config == {"lr": 3e-4, "api_key": "[redacted]"}
    assert [(event.kind, event.text, event.duration) for event in events(the_folder(home))][1:3] == [
        ("checkpoint", "/data/last.pt", 1.5),
        ("mark", "half way", None),
    ]


@pytest.mark.slow
def test_a_launched_job_that_goes_into_the_background_before_it_trains_is_seen(home: Path) -> None:
    script = """
        import os
        if os.fork():
            os._exit(0)
    """
    done = run(textwrap.dedent(script) + TORCH + "train([torch.ones(4, 8)] * 5)", prelude="", environment=launched())
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: process_folders(home) and events(the_folder(home)))
    assert step_ordinals(records(the_folder(home))) == list(range(5))


@pytest.mark.slow
def test_a_torch_job_with_workers_forked_after_the_start_is_recorded_whole(home: Path) -> None:
    """Tensors are logged where that costs nothing, and left out where it would make a device wait."""
    script = """
        import ntstop_probe
        ntstop_probe.watch(model, optimizer)
        data = torch.utils.data.TensorDataset(torch.ones(320, 8))
        loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=4)
        train(x for (x,) in loader)
        loss = torch.tensor(0.25, requires_grad=True)
        ntstop_probe.log({"loss tensor": loss, "many": torch.ones(3), "device": torch.ones((), device="meta")}, step=40)
        print(torch.initial_seed())
    """
    done = run(script, prelude="import warnings; warnings.simplefilter('ignore')\n" + TORCH)
    assert done.returncode == 0, done.stderr
    folder = the_folder(home)
    kept = records(folder)
    assert step_ordinals(kept) == list(range(40))
    assert scalars(folder) == {"loss tensor": 0.25}
    assert done.stderr.count("\n") == 2
    assert "is on meta" in done.stderr
    hello = [record for record in kept if isinstance(record, Hello)][-1]
    assert hello.manifest.seed == int(done.stdout)
    assert hello.manifest.trainable_parameters == 9
    assert hello.manifest.workers == 4
    assert "torch" in hello.manifest.versions
    assert [event.kind for event in events(folder)][-1] == "exit"
