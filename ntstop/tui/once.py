"""The overview as text, printed once: the app draws it without a terminal, and its rows are taken from it."""

from __future__ import annotations

from textual.pilot import Pilot

from ..session import Session
from ..settings import View
from .app import NtstopApp, screen_text
from .terminal import SMALLEST
from .widgets.findings import FindingsPane
from .widgets.hints import Hints

_MOST_FINDINGS = 3
"""Parts of the screen of which the findings may take one: nobody can scroll in what is printed."""


def overview_rows(session: Session, begin: View, size: tuple[int, int], *, colours: bool) -> str:
    """The overview of a session that is read, in at most `size` columns and rows, the last row left to a prompt.

    With `colours` the text carries the escape sequences of the terminal's colours, else none; surfaces that only a
    colour would tell are then made of characters, as on a terminal without colours.
    """
    width, height = max(size[0], SMALLEST[0]), max(size[1] - 1, SMALLEST[1])
    app = NtstopApp(session, begin=begin)
    app.without_colours = not colours
    rows: list[str] = []

    async def draw(pilot: Pilot[object]) -> None:
        while (screen := app.run_screen) is None or not screen.is_current:
            await pilot.pause()
        screen.query_one(Hints).display = False
        findings = screen.query_one(FindingsPane)
        if (count := len(session.findings)) > findings.size.height - 1:
            findings.styles.height = max(min(count + 1, height // _MOST_FINDINGS), findings.size.height)
        await pilot.pause()
        screen.set_focus(None)
        # The second time with the margins that the first has found.
        screen.redraw()
        screen.redraw()
        await pilot.pause()
        if colours:
            rows.extend(strip.render(app.console) for strip in screen._compositor.render_strips())
        else:
            rows.extend(screen_text(screen).splitlines())
        app.exit(return_code=0)

    app.run(headless=True, mouse=False, size=(width, height), auto_pilot=draw)
    return "\n".join(rows)
