"""`ntstop RUN` in a real terminal beside a real training: how it looks, how it ends, and what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ntstop.sources.base import SourceError
from ntstop.sources.runs import read_run
from tests.helpers import wait_until
from tests.tmux import Terminal, require_tmux

NTSTOP = str(Path(sys.executable).with_name("ntstop"))
SHELL = "left with"


@dataclass
class Job:
    """A training that goes on for the whole module."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]

    @property
    def home(self) -> str:
        """Its NTSTOP_HOME."""
        return self.environment["NTSTOP_HOME"]

    @property
    def last_step(self) -> int:
        """The newest step on disk."""
        try:
            return read_run(Path(self.home) / "runs" / "job").last_step or 0
        except SourceError:
            return 0

    def open(self, columns: int = 120, rows: int = 40, **environment: str) -> Terminal:
        """`ntstop job` in a terminal."""
        return Terminal([NTSTOP, "job"], columns=columns, rows=rows, **{**self.environment, **environment})

    def is_going_on(self) -> bool:
        """Whether it still makes steps."""
        before = self.last_step
        wait_until(lambda: self.last_step > before, 60, 0.2, "another step of the job")
        return self.process.poll() is None


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    require_tmux()
    folder = tempfile.mkdtemp(prefix="nts-")
    environment = {
        "NTSTOP_HOME": f"{folder}/home",
        "XDG_RUNTIME_DIR": folder,
        "NTSTOP_RUN_ID": "job",
        "OMP_NUM_THREADS": "1",
        "COLORTERM": "truecolor",
    }
    command = [sys.executable, "-m", "ntstop.demo.train", "--steps", "100000"]
    process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=folder, stdout=subprocess.DEVNULL)
    started = Job(process, environment)
    try:
        wait_until(lambda: started.last_step >= 5, 90, 0.2, "the first steps of the job")
        yield started
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def viewer_of(job: Job) -> psutil.Process:
    """The one `ntstop` that looks at this job."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[1:] == [NTSTOP, "job"] and process.environ().get("NTSTOP_HOME") == job.home:
                return process
    raise AssertionError("no viewer")


def test_a_live_run_is_drawn_in_a_real_terminal_and_q_leaves_the_job_alive(job: Job) -> None:
    with job.open() as terminal:
        screen = terminal.wait_for("● LIVE")
        terminal.wait_for("layers")
        assert "step time" in screen or "step time" in terminal.wait_for("step time")
        terminal.keys("q")
        screen = terminal.wait_for(f"{SHELL} 0")
        assert "LIVE" not in screen, "the screen from before is back"
    assert job.is_going_on()


def test_sigterm_and_sighup_leave_the_screen_as_it_was(job: Job) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        with job.open() as terminal:
            terminal.wait_for("● LIVE")
            viewer = viewer_of(job)
            viewer.send_signal(number)
            screen = terminal.wait_for(f"{SHELL} {128 + number}")
            assert "LIVE" not in screen and "\x1b" not in screen


def test_ctrl_z_gives_the_terminal_back_and_it_comes_again(job: Job) -> None:
    with job.open() as terminal:
        terminal.wait_for("● LIVE")
        viewer = viewer_of(job)
        terminal.keys("C-z")
        wait_until(lambda: viewer.status() == psutil.STATUS_STOPPED, 20, what="the viewer is stopped")
        assert "LIVE" not in terminal.screen()
        viewer.send_signal(signal.SIGCONT)
        terminal.wait_for("● LIVE")
        terminal.keys("q")
        terminal.wait_for(f"{SHELL} 0")
    assert job.is_going_on()


def test_a_tiny_terminal_gets_text(job: Job) -> None:
    with job.open(columns=20, rows=5) as terminal:
        assert "terminal too small" in terminal.wait_for("LIVE")


def test_a_locale_without_unicode_gets_ascii_and_exported_columns_are_not_believed(job: Job) -> None:
    with job.open(PYTHONIOENCODING="latin-1", COLUMNS="60", LINES="12") as terminal:
        screen = terminal.wait_for("* LIVE")
        assert screen.isascii()
        assert max(map(len, screen.splitlines())) > 100


def test_a_terminal_of_ascii_gets_nothing_else_in_dialogs_either(job: Job) -> None:
    with job.open(NTSTOP_ASCII="1") as terminal:
        terminal.wait_for("* LIVE")
        for key, words in (("R", "x: remove"), ("?", "quit the viewer"), ("m", "a note, or nothing")):
            terminal.keys(key)
            screen = terminal.wait_for(words)
            assert screen.isascii() and "---+" in screen, screen
            terminal.keys("Escape")
            wait_until(lambda: words not in terminal.screen(), what=f"{words} is gone")  # noqa: B023 - at once


def test_sixteen_colours_are_enough(job: Job) -> None:
    with job.open(columns=80, rows=24, TERM="screen", COLORTERM="") as terminal:
        screen = terminal.wait_for("● LIVE")
        terminal.wait_for("findings")
        assert len(screen.splitlines()) <= 24


@pytest.mark.parametrize("elsewhere", ["2>/dev/null", "2>&-"])
def test_what_draws_does_not_need_standard_error(job: Job, elsewhere: str) -> None:
    command = ["/bin/sh", "-c", f'exec "$@" {elsewhere}', "sh", NTSTOP, "job"]
    with Terminal(command, columns=120, rows=40, **job.environment) as terminal:
        terminal.wait_for("● LIVE")
        terminal.keys("q")
        terminal.wait_for(f"{SHELL} 0")


def test_a_terminal_that_takes_no_more_does_not_keep_the_viewer_from_ending(job: Job) -> None:
    pid, master = started(job, [NTSTOP, "job"])
    viewer = psutil.Process(pid)
    written = [0]

    def is_stuck() -> bool:
        for rows in (39, 40):  # each has it draw everything anew
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 120, 0, 0))
            time.sleep(0.1)
        written.append(viewer.io_counters().write_chars)
        # Its threads wake each other by a few bytes; a screen are thousands.
        return len(written) > 4 and written[-1] - written[-4] < 2_000

    try:
        read_until(master, "● LIVE")
        wait_until(is_stuck, 60, what="nothing more is written")
        viewer.send_signal(signal.SIGTERM)
        assert wait_until(lambda: status_of(pid), 30, what="the viewer has ended") == [128 + signal.SIGTERM]
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(master)
    assert job.is_going_on()


@pytest.mark.parametrize("written", ["\x1b[?1049h", "\x1b[?2026$p"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_moment_in_which_the_terminal_is_taken_gives_it_back(
    job: Job, number: signal.Signals, written: str
) -> None:
    pid, master = started(job, [NTSTOP, "job"])
    before = termios.tcgetattr(master)[3] & termios.ICANON
    seen = read_until(master, written)
    os.kill(pid, number)

    def ended() -> list[int]:
        nonlocal seen
        while select.select([master], [], [], 0)[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:  # nobody is at the other end any more
                break
        return status_of(pid)

    try:
        assert wait_until(ended, 30, what="the viewer has ended") == [128 + number]
        assert b"\x1b[?1049l" in seen and b"Traceback" not in seen
        assert before and termios.tcgetattr(master)[3] & termios.ICANON
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(master)


def started(job: Job, command: list[str]) -> tuple[int, int]:
    """The command in a terminal of 120×40: its pid, and the terminal's other end."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**os.environ, **job.environment, "TERM": "xterm-256color"})
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    return pid, master


def read_until(master: int, text: str) -> bytes:
    """What is drawn up to this, and hardly further."""
    seen = b""
    end = time.monotonic() + 60
    while text.encode() not in seen:
        assert time.monotonic() < end, seen[-500:]
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 65536)
    return seen


def status_of(pid: int) -> list[int]:
    """The exit code of a child, once it has one."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return [os.waitstatus_to_exitcode(status)] if ended else []


@pytest.mark.parametrize("ignores_hangup", [False, True])
def test_a_terminal_that_goes_away_ends_the_viewer(job: Job, ignores_hangup: bool) -> None:
    command = [NTSTOP, "job"]
    if ignores_hangup:
        command = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command]
    pid, master = started(job, command)
    read_until(master, "● LIVE")
    os.close(master)
    try:
        wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 20, what="the viewer has ended, and does not spin")
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    assert job.is_going_on()
