"""A real terminal for tests: one tmux server a test, so that none sees another's."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

import pytest

from tests.helpers import wait_until


def require_tmux() -> None:
    """Skip without tmux, but not in CI, where a skipped terminal would go unseen."""
    if shutil.which("tmux") is None:
        if os.environ.get("NTSTOP_CI"):
            pytest.fail("tmux is not installed")
        pytest.skip("needs tmux")


class Terminal:
    """Runs `command` in a terminal of `columns` × `rows`; when it ends, the screen says `left with N`, its exit code.

    These are words that nothing under test says; a card says "exit code 0". Use it in a `with`: leaving it ends the
    terminal and what runs in it.
    """

    def __init__(self, command: Sequence[str], *, columns: int = 120, rows: int = 40, **environment: str) -> None:
        require_tmux()
        # In the folder of this test, which goes with it.
        self._socket = f"{os.environ['XDG_RUNTIME_DIR']}/tmux-{secrets.token_hex(2)}"
        variables = {**os.environ, "TERM": "xterm-256color", **environment}
        # The shell stays, so that the last screen can still be read.
        script = f"{shlex.join(command)}; echo left with $?; exec sleep 600"
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", str(columns), "-y", str(rows), script, env=variables)

    def screen(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p")

    def format(self, format: str) -> str:
        """What tmux knows of the terminal, by its names: `#{pane_pid}`."""
        return self._tmux("display-message", "-p", format).strip()

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names: "q", "C-c", "Enter"."""
        self._tmux("send-keys", *names)

    def wait_for(self, text: str, timeout: float = 60.0) -> str:
        """The screen once `text` is on it. Raises `AssertionError` with the screen when it does not come."""
        try:
            return wait_until(lambda: screen if text in (screen := self.screen()) else "", timeout, interval=0.1)
        except AssertionError:
            raise AssertionError(f"{text!r} did not come; the screen:\n{self.screen()}") from None

    def _tmux(self, *words: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", self._socket, *words]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=30).stdout

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")
