"""`ntstop relay RUN | ntstop -` as people use it: piped on, in a terminal, and over a real ssh."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.sources.pipe import Pipe
from ntstop.sources.stdio import RelaySource
from tests.helpers import wait_until
from tests.sshd import Sshd
from tests.tmux import Terminal

from .relaying import finished
from .writer import Writer

NTSTOP = str(Path(sys.executable).with_name("ntstop"))


def test_without_a_terminal_a_piped_run_is_told_as_text() -> None:
    finished()
    shell = f"{shlex.quote(NTSTOP)} relay run-1 | {shlex.quote(NTSTOP)} -"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, timeout=60)
    assert "finished: it recorded its exit" in done.stdout
    assert "last 299" in done.stdout


def test_in_a_terminal_the_keys_come_from_the_terminal_and_the_frames_from_the_pipe() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 100)
    script = f"(echo a banner; exec {shlex.quote(NTSTOP)} relay run-1) | {shlex.quote(NTSTOP)} -"
    with Terminal(["bash", "-c", f"set -o pipefail; {script}"]) as terminal:
        terminal.wait_for("step 99")
        terminal.keys("?")
        terminal.wait_for("quit the viewer; the training goes on")
        terminal.keys("Escape")
        writer.train(100, 50)
        terminal.wait_for("step 149")
        terminal.keys("q")
        # The relay's, which found nobody to read: the viewer's own is 0.
        terminal.wait_for("left with 1")
    writer.close()


@pytest.mark.slow
def test_over_a_real_ssh_the_run_is_followed_to_its_end(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd:
        writer = Writer("run-1", live=True)
        writer.train(0, 100)
        environment = [f"{name}={shlex.quote(os.environ[name])}" for name in ("NTSTOP_HOME", "XDG_RUNTIME_DIR")]
        remote = shlex.join(
            ["sh", "-c", f"echo a banner; {' '.join(environment)} exec {shlex.quote(NTSTOP)} relay run-1"]
        )
        with subprocess.Popen([*sshd.ssh, remote], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as ssh:
            assert ssh.stdout is not None
            with Session(RelaySource(Pipe(os.dup(ssh.stdout.fileno())))) as session:
                wait_until(lambda: session.status.complete, what="the recording")
                live = writer.transmitter.live
                assert live is not None
                wait_until(lambda: (writer.pump(), live.viewers)[1])
                writer.train(100, 50)
                wait_until(lambda: (p := session.state.primary) is not None and p.steps == 150, what="live steps")
                writer.exit()
                writer.close()
                wait_until(lambda: session.entry is not None and session.entry.state == "finished")
            ssh.stdout.close()
            assert ssh.wait(20) == 0


@pytest.mark.slow
def test_over_a_real_ssh_in_a_terminal_q_ends_the_relay_on_the_other_side(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as sshd:
        writer = Writer("run-1", live=True)
        writer.train(0, 100)
        environment = [f"{name}={shlex.quote(os.environ[name])}" for name in ("NTSTOP_HOME", "XDG_RUNTIME_DIR")]
        remote = f"{' '.join(environment)} {shlex.quote(NTSTOP)} relay run-1"
        # -n: an ssh that reads the terminal too would take keys away from the viewer.
        ssh = shlex.join([*sshd.ssh[:1], "-n", *sshd.ssh[1:], remote])
        with Terminal(["bash", "-c", f"{ssh} | {shlex.quote(NTSTOP)} -"]) as terminal:
            terminal.wait_for("step 99")
            live = writer.transmitter.live
            assert live is not None
            wait_until(lambda: (writer.pump(), live.viewers)[1])
            terminal.keys("q")
            terminal.wait_for("left with 0")
            wait_until(lambda: (writer.pump(), not live.viewers)[1], what="the relay's end")
        writer.close()
