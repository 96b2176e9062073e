"""What all screens of a run have in common: status above, hints below, when to draw, and the keys of the step axis."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Container
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from ...sources.evidence import is_here
from .. import bindings
from ..facts import Facts, facts_of, status_parts, tiny_lines, waiting_lines
from ..keymap import PLAIN_KEYS, Keymap
from ..layout import is_tiny
from ..widgets.findings import FindingRows
from ..widgets.hints import Hints
from ..widgets.message import Message
from ..widgets.pane import Pane, is_ascii
from ..widgets.pointer import CursorMoved, Dragged, Zoomed
from ..widgets.statusline import StatusLine
from ..workspace import Look, Workspace
from .card import CardScreen
from .dump import DumpScreen
from .go_to import GoToScreen
from .note import NoteScreen, acknowledgement, mark

SEEK = 1 / 20
"""Of the run that a key press of the replay goes back or on."""
STATUS_TICKS = 2
"""Ticks from one look at the status to the next."""
OWED = 0.1
"""Seconds after the last key until what it left to be drawn is drawn."""
PAGE = 60
"""Columns that the cursor steps are told in where a screen has no chart."""


class RunScreen(Screen[None]):
    """A screen over the shared workspace. The app calls `tick` four times a second while it is on top."""

    BINDINGS: ClassVar = bindings.RUN
    TITLE: ClassVar[str] = ""
    """What the help calls it."""
    TURNS: ClassVar[tuple[str, ...]] = ()
    """Ids of panes: whose turn it is at each tick, "" for nobody's, while nobody presses a key. Empty: all in turn."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.view = workspace.view
        self._panes: list[Pane] = []
        """Found once: none comes or goes."""
        self._drawn: Hashable = None
        self._versions: dict[str | None, int] = {}
        self._turn = 0
        self._is_due = False
        self._seen: Size | None = None
        """Size of the app when this came on top; None where all has to be found anew."""
        self._owed: Timer | None = None
        """Goes off when it is time to draw what is owed."""

    @property
    def _binding_chain(self) -> list[tuple[DOMNode, BindingsMap]]:
        """The bindings that act, each where the user has put its keys."""
        keymap: Keymap = getattr(self.app, "keymap", PLAIN_KEYS)
        return keymap.chain(super()._binding_chain, self.app)

    @classmethod
    def hidden_why(cls, workspace: Workspace) -> str:
        """Why there is nothing to be seen on this screen, "" when there is."""
        return ""

    def body(self) -> ComposeResult:
        """The panes."""
        yield from ()

    def foot(self) -> ComposeResult:
        """What stands between the panes and the hints, on short runs too."""
        yield from ()

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """Classes for a terminal of this size, and whether each is on."""
        return {}

    def compose(self) -> ComposeResult:
        """Status, panes, hints."""
        yield StatusLine()
        yield Message(id="message")
        with Container(id="body"):
            yield from self.body()
        yield from self.foot()
        yield Hints()

    def home(self) -> Widget | None:
        """What has the focus at first."""
        return next(iter(self.query(Pane)), None)

    def on_mount(self) -> None:
        """Draw as soon as there is a size."""
        if (home := self.home()) is not None:
            home.focus()
        self.call_after_refresh(self.tick)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """What has happened since, on another screen or to the terminal, is drawn at once.

        Where nothing has changed around it, all styles are what they were: textual need not find that out.
        """
        if not self._is_there:
            return
        self.query_one(Hints).redraw()
        seen, self._seen = self._seen, self.app.size
        if seen == self._seen:
            event.refresh_styles = False
            self.redraw()
        else:
            self._fit(*self.app.size)

    @property
    def _is_there(self) -> bool:
        """Whether its widgets are: not yet, or no more, where somebody leaves in the moment in which it comes."""
        return self.is_mounted and self.app.is_running and bool(self.children)

    def restyle(self) -> None:
        """Another theme was chosen: the styles are found anew when this comes on top."""
        self._seen = None

    def on_resize(self, event: events.Resize) -> None:
        """Another size has room for other panes."""
        self._fit(event.size.width, event.size.height)

    def _fit(self, width: int, height: int) -> None:
        for name, is_on in {"-tiny": is_tiny(width, height), **self.layout_classes(width, height)}.items():
            self.set_class(is_on, name)
        self._drawn = None
        self.call_after_refresh(self.tick)

    def tick(self, *, at_leisure: bool = False) -> None:
        """Take what is new from the sessions, holding their locks only to copy; then draw what differs.

        `at_leisure`: nobody has pressed a key that is to be seen.
        """
        if not self._is_there:
            return
        workspace = self.workspace
        gathered: list[Pane] = []
        with workspace.locked():
            look = workspace.look(at_leisure=at_leisure)
            process = look.process if look else None
            facts = facts_of(workspace.session, process, self.view, workspace.title)
            if look is not None:
                gathered = self.due()
                self.gather(look, gathered)
        for pane in gathered:
            pane.present()
        if gathered or self._turn % STATUS_TICKS == 0:
            self._say(facts, has_steps=process is not None and process.steps > 0)
        if not at_leisure and any(pane.owes for pane in gathered):
            self._pay_soon()

    def _pay_soon(self) -> None:
        """Draw what is owed once no key has come for a moment."""
        if self._owed is not None:
            self._owed.stop()
        self._owed = self.set_timer(OWED, self._pay)

    def _pay(self) -> None:
        if self.is_current:
            self.tick(at_leisure=True)

    def gather(self, look: Look, panes: list[Pane]) -> None:
        """Let the panes copy what they are about to draw; the sessions are locked."""
        stride = 1.0 if self.view.cursor is None else self.view.stride(1, max(self.cursor_columns(), 1))
        for pane in panes:
            pane.stride = stride
            pane.run_name = look.runs[0][0].name if len(look.runs) > 1 else ""
            pane.gather(look)

    def axis_key(self) -> Hashable:
        """Changes with everything but new data that changes what all panes show."""
        return self.view.key, self.view.window, self.size, tuple(self.workspace.marks.items())

    def due(self) -> list[Pane]:
        """The panes to draw: all when the axis or the size has changed, else the one whose turn it is, if it has news.

        One at a time, because textual repaints everything between two places of one row that change together.
        """
        if not self._panes:
            self._panes = list(self.query(Pane))
        panes = [pane for pane in self._panes if pane.display and pane.size]
        key, version = self.axis_key(), self.workspace.version
        if key != self._drawn:
            self._drawn = key
            self._versions = dict.fromkeys((pane.id for pane in panes), version)
            return panes
        turns = self.TURNS or tuple(pane.id or "" for pane in panes)
        if not turns:
            return []
        self._turn = (self._turn + 1) % len(turns)
        name = turns[self._turn]
        has_news = self.view.frozen is None and self._versions.get(name) != version
        if has_news:
            self._versions[name] = version
        return [pane for pane in panes if pane.owes or (has_news and pane.id == name)]

    def redraw(self) -> None:
        """Draw all panes now: something of the screen's own has changed."""
        self._drawn = None
        self.tick()

    def say(self, facts: Facts, *, has_steps: bool) -> None:
        """Further words of a screen's own, where it has any."""

    def _say(self, facts: Facts, *, has_steps: bool) -> None:
        """The lines above and below the panes, and the words in their place."""
        plain = is_ascii(self.app)
        self.query_one(StatusLine).set(*status_parts(facts, plain))
        self.say(facts, has_steps=has_steps)
        is_tiny = self.has_class("-tiny")
        is_message = not has_steps or is_tiny
        if self.has_class("-message") and not is_message and (home := self.home()) is not None:
            # Panes that were hidden have lost the focus.
            self.call_after_refresh(home.focus)
        self.set_class(is_message, "-message")
        if is_tiny:
            self.query_one(Message).say(*tiny_lines(facts, self.size.width, plain))
        elif not has_steps:
            self.query_one(Message).say(*waiting_lines(facts, self.workspace.output_path))

    def on_axis(self) -> set[str]:
        """Kinds of the markers that are in view on the step axis."""
        left, right = self.view.window
        with self.workspace.locked():
            look = self.workspace.look()
            return {marker.kind for marker in look.markers if left <= marker.x <= right} if look is not None else set()

    def step_of(self, place: float) -> float:
        """The step at a place of the axis that is drawn."""
        return place

    def on_cursor_moved(self, event: CursorMoved) -> None:
        """A click puts the cursor where it points."""
        self.view.show(round(self.step_of(event.x)))
        self.tick()

    def on_dragged(self, event: Dragged) -> None:
        """The axis goes along with the pointer."""
        self.view.pan(self.step_of(event.was) - self.step_of(event.now))
        self._tick_soon()

    def on_zoomed(self, event: Zoomed) -> None:
        """Fewer or more steps, around the one under the pointer."""
        self.view.zoom(event.factor, self.step_of(event.x))
        self._tick_soon()

    def _tick_soon(self) -> None:
        """Draw once for all that the mouse has sent by then."""
        if not self._is_due:
            self._is_due = True
            self.call_later(self._tick_now)

    def _tick_now(self) -> None:
        self._is_due = False
        self.tick()

    def on_finding_rows_chosen(self, event: FindingRows.Chosen) -> None:
        """A finding was clicked: the cursor shows where it began, a second click its card."""
        self.workspace.pick(event.finding)
        self.redraw()
        if event.opened:
            self.action_card()

    def cursor_columns(self) -> int:
        """Cells of the widest step axis on the screen: one is a step of the cursor."""
        return PAGE

    def action_pause(self) -> None:
        """Stop the picture, or go on; in a replay, play it or stop it."""
        if self.workspace.session.replay is not None:
            self.workspace.session.replay.toggle()
        else:
            self.view.pause()
        self.tick()

    def action_seek(self, places: int) -> None:
        """Go back in a run that has ended, or on; the first time begins the replay."""
        session = self.workspace.session
        if not session.begin_replay() or session.replay is None:
            self.app.notify("only a run that has ended, in a folder of its own, can be replayed", timeout=3)
            return
        self.view.frozen = None
        session.replay.seek(places * SEEK)
        self.tick()

    def action_speed(self, places: int) -> None:
        """Play slower or faster."""
        if self.workspace.session.replay is not None:
            self.workspace.session.replay.change_speed(places)
            self.tick()

    def action_cursor(self, columns: float) -> None:
        """Move the cursor."""
        self.view.move_cursor(columns, max(self.cursor_columns(), 1))
        self.tick()

    def action_go_to(self) -> None:
        """Ask for a step, and put the cursor there."""

        def go(step: int | None) -> None:
            if step is not None:
                self.view.go_to(step)
                self.tick()

        self.app.push_screen(GoToScreen(self.view), go)

    def action_zoom(self, factor: float) -> None:
        """Show fewer or more steps."""
        self.view.zoom(factor)
        self.tick()

    def action_follow(self) -> None:
        """Back to the tail."""
        self.view.follow()
        self.tick()

    def action_log(self) -> None:
        """Linear or logarithmic."""
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
        if self.workspace.choose(offset) is not None:
            self.redraw()

    def action_jump(self, offset: int) -> None:
        """The same, and the first time to the weightiest, or to the last."""
        if self.workspace.jump(offset) is not None:
            self.redraw()

    def action_card(self) -> None:
        """Open the card of the chosen finding."""
        if (finding := self.workspace.finding) is not None:
            self.app.push_screen(CardScreen(self.workspace, finding))

    def action_dump(self) -> None:
        """Show the stacks of the first rank, where it runs on this host."""
        with self.workspace.session.lock:
            process = self.workspace.session.state.primary
            entry = self.workspace.session.entry
            hello = process.hello if process else None
        states = {one.info.pid: one.state for one in entry.processes if one.info and is_here(one.info)} if entry else {}
        if hello is None or hello.pid not in states:
            self.app.notify("stacks can be asked only of a job that runs on this host", timeout=3)
        elif states[hello.pid] not in ("live", "stopped"):
            self.app.notify(f"pid {hello.pid} is gone: it has no stacks any more", timeout=3)
        else:
            self.app.push_screen(DumpScreen(hello.pid))

    def action_acknowledge(self) -> None:
        """Ask for a note on the chosen finding."""
        finding = self.workspace.finding
        if finding is not None and self._keeps_notes():
            self.app.push_screen(NoteScreen(acknowledgement(finding, self.workspace.session.kept)))

    def _keeps_notes(self) -> bool:
        """Whether notes may be kept; of a run that was removed, what was kept went with it."""
        if self.workspace.session.is_removed:
            self.app.notify("the run's folder is gone, and what was noted of it: nothing is kept", timeout=3)
        return not self.workspace.session.is_removed

    def action_mark(self) -> None:
        """Ask for a note on the step under the cursor; on a mark that is drawn there, on that one."""
        if not self._keeps_notes():
            return
        step = self.workspace.step_to_mark(max(self.cursor_columns(), 1))
        self.app.push_screen(NoteScreen(mark(step, self.workspace.session.kept)))
