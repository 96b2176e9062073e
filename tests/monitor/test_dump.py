"""Stacks of a process from outside: what is said where it works, and where it does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ntstop import dump as dumping
from ntstop.dump import dump, py_spy

SLEEPER = """
import threading, time
def waits_for_nothing():
    print("here", flush=True)
    time.sleep(60)
waits_for_nothing()
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        yield process
        process.kill()


def test_every_thread_is_shown_where_py_spy_may_look(sleeper: subprocess.Popen[bytes]) -> None:
    told = dump(sleeper.pid)
    if told.problem:
        # Not installed, or ptrace is not allowed: then exactly that is said, in a line.
        assert told.problem.startswith("py-spy") and "\n" not in told.problem
    else:
        assert "waits_for_nothing" in told.text
    assert sleeper.poll() is None


def test_a_process_that_is_gone_is_a_line_and_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    told = dump(process.pid)
    assert told.problem and not told.text


def test_a_torn_stack_is_read_again_with_a_pause_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text(
        "#!/bin/sh\n"
        "case \"$*\" in *--nonblocking*) echo 'Error: Failed to copy frame' >&2; exit 1;; esac\n"
        "echo 'Thread 1'\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(dumping, "py_spy", lambda: str(fake))
    told = dump(1)
    assert (told.text, told.problem, told.paused) == ("Thread 1\n", "", True)


def test_what_is_not_allowed_is_not_tried_with_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    fake = tmp_path / "py-spy"
    fake.write_text(
        f"#!/bin/sh\necho x >> {calls}\necho 'Permission Denied: Try running again with sudo' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(dumping, "py_spy", lambda: str(fake))
    told = dump(1)
    assert "ptrace" in told.problem and "\n" not in told.problem
    assert calls.read_text() == "x\n"


def test_one_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(dumping, "py_spy", lambda: str(fake))
    monkeypatch.setattr(dumping, "TIMEOUT", 0.2)
    assert "did not answer" in dump(1).problem


def test_the_py_spy_of_this_environment_is_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert py_spy() is None
    (tmp_path / "py-spy").touch()
    assert py_spy() == str(tmp_path / "py-spy")
