"""Bytes that nobody means, typed into the viewer: a paste gone wrong, a mouse report, half a character."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers import wait_until
from tests.monitor.writer import Writer
from tests.tmux import Terminal

NTSTOP = str(Path(sys.executable).with_name("ntstop"))


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x80",
        b"\x1b[200~pasted \xff\x1b[201~",
        b"\xe8\xae",
        b"\x1b[<0;9999999999;1M\x1b[M\xff\xff\xff",
        b"\x1b]11;rgb:x",
    ],
)
def test_what_is_no_key_does_not_end_the_viewer(home: Path, garbage: bytes) -> None:
    writer = Writer("run-1")
    writer.train(0, 50)
    writer.exit()
    writer.close()
    with Terminal([NTSTOP, "run-1"]) as terminal:
        terminal.wait_for("findings")
        terminal.keys("-l", os.fsdecode(garbage))
        # The first key may still be taken for the end of what came before it, and `q` closes the help first.
        press_until(terminal, "?", "quit the viewer")
        assert "Traceback" not in terminal.screen()
        press_until(terminal, "q", "left with 0")


def press_until(terminal: Terminal, key: str, text: str) -> None:
    def seen() -> bool:
        if text in terminal.screen():
            return True
        # Letters of what is no key may have asked for a step to go to.
        terminal.keys("Escape" if "go to a step" in terminal.screen() else key)
        return False

    wait_until(seen, 60, 0.5, text)
