"""`ntstop --once`: the overview as rows of text, sized to the terminal, coloured only there."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.settings import View
from ntstop.text import cell_width
from ntstop.tui.once import overview_rows
from tests.monitor.test_cli import is_one_line, ntstop, recorded
from tests.tui import feed

NTSTOP = str(Path(sys.executable).with_name("ntstop"))


def printed_on_a_terminal(words: list[str], **environment: str) -> str:
    """What `ntstop WORDS` writes to a terminal of its own."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(NTSTOP, [NTSTOP, *words], {**os.environ, "TERM": "xterm-256color", **environment})
    output = b""
    with contextlib.suppress(OSError):
        while piece := os.read(master, 65536):
            output += piece
    os.close(master)
    assert os.waitpid(pid, 0)[1] == 0, output.decode()
    return output.decode()


def rows_of(size: tuple[int, int], *, colours: bool = False) -> list[str]:
    with Session(feed.FedSource(feed.training(1200, nan_from=1100))) as session:
        assert session.wait_for_end(30)
        return overview_rows(session, View(), size, colours=colours).splitlines()


def test_piped_it_is_the_panes_as_plain_rows_of_the_size_that_is_asked_for() -> None:
    recorded()
    environment: Mapping[str, str] = {**os.environ, "COLUMNS": "90", "LINES": "30"}
    for words in (["--once", "run-1"], ["run-1", "--once"]):
        done = ntstop(*words, env=environment)
        rows = done.stdout.splitlines()
        assert done.returncode == 0 and not done.stderr and "\x1b" not in done.stdout
        assert "FINISHED" in rows[0] and len(rows) == 29 and max(map(cell_width, rows)) <= 90
        assert all(any(name in row for row in rows) for name in ("── loss", "── step time", "── findings"))
        assert not any("quit" in row for row in rows), "there are no keys to press"


def test_without_a_size_it_is_that_of_a_usual_large_terminal() -> None:
    recorded()
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    assert len(ntstop("--once", "run-1", env=environment).stdout.splitlines()) == 39


def test_what_is_too_small_to_draw_on_gets_the_smallest_overview_and_not_a_word_about_size() -> None:
    rows = rows_of((5, 2))
    assert len(rows) == 10 and any("loss" in row for row in rows) and "too small" not in "".join(rows)


def test_more_findings_than_fit_get_more_rows() -> None:
    rows = rows_of((120, 40))
    assert any("nonfinite-loss" in row for row in rows) and any("unreproducible" in row for row in rows)


def test_without_colours_surfaces_are_characters() -> None:
    with_colours, without = rows_of((120, 40), colours=True), rows_of((120, 40))
    assert any("\x1b[" in row for row in with_colours) and not any("\x1b" in row for row in without)
    assert any("healthy" in row and "▄" in row for row in without), "the heat map is told by blocks"


@pytest.mark.parametrize(
    ("environment", "painted"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colours_unless_it_has_none_or_wants_none(environment: dict[str, str], painted: bool) -> None:
    recorded()
    assert ("\x1b[" in printed_on_a_terminal(["--once", "run-1"], **environment)) is painted


def test_without_a_live_run_it_does_not_wait_for_one() -> None:
    recorded()
    done = ntstop("--once")
    assert is_one_line(done) and "no run is live" in done.stderr


def test_a_command_does_not_take_it() -> None:
    assert is_one_line(ntstop("--once", "ls"))
