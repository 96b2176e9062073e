"""The overview: alive, learning, waiting for what, broken where. One axis, one cursor, all panes."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen

from ...diagnosis.finding import Finding
from ...diagnosis.report import reproduction_of
from ...run.process import ProcessState
from ...session import Session
from ...text import count
from .. import bindings
from ..facts import Facts, facts_of, status_parts, tiny_lines, waiting_lines
from ..layout import layout_classes
from ..marks import markers_of
from ..view import StepView
from ..widgets.chart import CursorMoved
from ..widgets.findings import FindingsPane
from ..widgets.hints import Hints
from ..widgets.host import HostPane
from ..widgets.layers import LayersPane
from ..widgets.loss import LossPane, train_losses
from ..widgets.message import Message
from ..widgets.pane import Pane, is_ascii
from ..widgets.phases import PhasesPane
from ..widgets.statusline import StatusLine
from .card import CardScreen

TICK = 0.25
"""Seconds from one look at the session to the next."""
TURNS = ("loss", "", "phases", "", "loss", "", "layers", "", "loss", "", "phases", "", "loss", "", "host", "")
"""Whose turn it is to be drawn at each tick while nobody presses a key: the loss once a second, the rest less often."""
SEEK = 1 / 20
"""Of the run that a key press of the replay goes back or on."""
STATUS_TICKS = 2
"""Ticks from one look at the status to the next."""


class Overview(Screen[None]):
    """One screen for one run."""

    BINDINGS: ClassVar = bindings.OVERVIEW

    def __init__(self, session: Session, *, title: str | None, output_path: str | None) -> None:
        super().__init__()
        self.session = session
        self.given_title = title
        self.output_path = output_path
        self.view = StepView()
        self._drawn: Hashable = None
        self._versions: dict[str | None, int] = {}
        self._turn = 0
        self._findings: Sequence[Finding] = ()
        self._findings_version = -1
        self._engine: Any = None

    def compose(self) -> ComposeResult:
        """Status, panes in two columns, findings, hints."""
        yield StatusLine()
        yield Message(id="message")
        with Container(id="body"):
            with Container(id="left"):
                yield LossPane(id="loss")
                yield LayersPane(id="layers")
            with Container(id="right"):
                yield PhasesPane(id="phases")
                yield HostPane(id="host")
        yield FindingsPane(id="findings")
        yield Hints()

    def on_mount(self) -> None:
        """Look at the session four times a second."""
        self.query_one(LossPane).focus()
        self.set_interval(TICK, self.tick)
        self.call_after_refresh(self.tick)

    def on_resize(self, event: events.Resize) -> None:
        """Another size has room for other panes."""
        for name, is_on in layout_classes(event.size.width, event.size.height).items():
            self.set_class(is_on, name)
        self._drawn = None
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Take what is new from the session, holding its lock only to copy; then draw what differs."""
        session, view = self.session, self.view
        gathered: list[Pane] = []
        with session.lock:
            process = session.state.primary
            if process is not None:
                view.extend(*extent(process))
            facts = facts_of(session, process, view, self.given_title)
            self._copy_findings()
            gathered = self._due() if process is not None else []
            if process is not None and gathered:
                markers = markers_of(process, self._findings)
                # The loss last: its axis begins where that of the layers below it does.
                for pane in reversed(gathered):
                    pane.gather(process, view, markers)
                    if isinstance(pane, LayersPane):
                        self.query_one(LossPane).indent(pane.axis_start)
        for pane in gathered:
            pane.present()
        if gathered or self._turn % STATUS_TICKS == 0:
            self._say(facts, has_steps=process is not None and process.steps > 0)

    def _due(self) -> list[Pane]:
        """The panes to draw: all when the axis or the size has changed, else the one whose turn it is, if it has news.

        One at a time, because textual repaints everything between two places of one row that change together.
        """
        panes = [pane for pane in self.query(Pane) if pane.display and pane.size]
        key = (self.view.key, self.view.window, self.size)
        if key != self._drawn:
            self._drawn = key
            self._versions = dict.fromkeys((pane.id for pane in panes), self.session.version)
            return panes
        self._turn = (self._turn + 1) % len(TURNS)
        name, version = TURNS[self._turn], self.session.version
        if self.view.frozen is not None or self._versions.get(name) == version:
            return []
        self._versions[name] = version
        return [pane for pane in panes if pane.id == name]

    def _copy_findings(self) -> None:
        engine = self.session.engine
        # Another engine: a replay has gone back.
        if engine is not self._engine or engine.version != self._findings_version:
            self._engine, self._findings_version = engine, engine.version
            self._findings = [copy.copy(finding) for finding in engine.findings]

    def _say(self, facts: Facts, *, has_steps: bool) -> None:
        """The lines above and below the panes, and the words in their place."""
        plain = is_ascii(self.app)
        self.query_one(StatusLine).set(*status_parts(facts, plain))
        nothing = f"nothing found in {count(facts.step)} steps" if has_steps else "nothing found yet"
        self.query_one(FindingsPane).set(
            self._findings,
            nothing,
            facts.why if facts.state in ("stopped", "failed", "died", "stale", "quiet") else "",
            self.output_path or "",
        )
        is_tiny = self.has_class("-tiny")
        is_message = not has_steps or is_tiny
        if self.has_class("-message") and not is_message:
            # Panes that were hidden have lost the focus.
            self.call_after_refresh(self.query_one(LossPane).focus)
        self.set_class(is_message, "-message")
        if is_tiny:
            self.query_one(Message).say(*tiny_lines(facts, self.size.width, plain))
        elif not has_steps:
            self.query_one(Message).say(*waiting_lines(facts, self.output_path))

    def on_cursor_moved(self, event: CursorMoved) -> None:
        """A click puts the cursor where it points."""
        if event.pinned and event.x is not None:
            self.view.show(event.x)
            self.tick()

    def action_pause(self) -> None:
        """Stop the picture, or go on; in a replay, play it or stop it."""
        if self.session.replay is not None:
            self.session.replay.toggle()
        else:
            self.view.pause()
        self.tick()

    def action_seek(self, places: int) -> None:
        """Go back in a run that has ended, or on; the first time begins the replay."""
        if not self.session.begin_replay() or self.session.replay is None:
            self.app.notify("only a run that has ended, in a folder of its own, can be replayed", timeout=3)
            return
        self.view.frozen = None
        self.session.replay.seek(places * SEEK)
        self.tick()

    def action_speed(self, places: int) -> None:
        """Play slower or faster."""
        if self.session.replay is not None:
            self.session.replay.change_speed(places)
            self.tick()

    def action_cursor(self, columns: float) -> None:
        """Move the cursor."""
        self.view.move_cursor(columns, max(self.query_one(LossPane).chart.dot_columns // 2, 1))
        self.tick()

    def action_zoom(self, factor: float) -> None:
        """Show fewer or more steps."""
        self.view.zoom(factor)
        self.tick()

    def action_follow(self) -> None:
        """Back to the tail."""
        self.view.follow()
        self.tick()

    def action_log(self) -> None:
        """Linear or logarithmic loss."""
        self.view.log = not self.view.log
        self.tick()

    def action_smoothing(self) -> None:
        """The next smoothing."""
        self.view.next_smoothing()
        self.tick()

    def action_back(self) -> None:
        """One layer out: the cursor, then the zoom, then the pause."""
        self.view.back()
        self.tick()

    def action_finding(self, offset: int) -> None:
        """Choose another finding and show where it began."""
        finding = self.query_one(FindingsPane).select(offset)
        if finding is not None and self._findings:
            self.view.show(finding.first_step)
            self.tick()

    def action_card(self) -> None:
        """Open the card of the chosen finding."""
        finding = self.query_one(FindingsPane).current
        if finding is not None:
            with self.session.lock:
                how = reproduction_of(self.session.engine, finding)
            self.app.push_screen(CardScreen(finding, how))


def extent(process: ProcessState) -> tuple[float, float]:
    """First and last step of a process's curves."""
    ranges = [
        series.x_range for name in (*train_losses(process.series), "step_time") if (series := process.series.get(name))
    ]
    known = [found for found in ranges if found is not None]
    if not known:
        return 0.0, max(process.x, 0.0)
    return min(low for low, _ in known), max(high for _, high in known)
