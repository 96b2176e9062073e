"""The mouse over a picture: a click points at a step, the wheel zooms around one, a drag moves the axis along."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widget import Widget

NOTCH = 0.8
"""Of the steps shown stay with a notch of the wheel."""


class CursorMoved(Message):
    """The user pointed at the place `x` of the step axis, or chose a row that stands there."""

    def __init__(self, control: Widget, x: float) -> None:
        super().__init__()
        self._control = control
        self.x = x

    @property
    def control(self) -> Widget:
        """The widget it happened in."""
        return self._control


class Dragged(Message):
    """What stood at the place `was` of the axis was drawn to where `now` stood."""

    def __init__(self, was: float, now: float) -> None:
        super().__init__()
        self.was = was
        self.now = now


class Zoomed(Message):
    """The wheel was turned over the place `x`: `factor` times the steps are to be shown."""

    def __init__(self, x: float, factor: float) -> None:
        super().__init__()
        self.x = x
        self.factor = factor


class PointedWidget(Widget):
    """A widget whose columns stand for steps, by `step_at`; where they do not, nothing is said."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._grabbed: int | None = None
        """The column that is held by the pressed button."""
        self._dragged = False

    def step_at(self, column: int) -> float | None:
        """The step at a column of the widget; None where there is none."""
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the axis."""
        self._dragged = False
        place = _place(self, event)
        self._grabbed = place[0] if place and event.button == 1 else None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Draw it along. A terminal tells moves only while a button is held."""
        place = _place(self, event)
        if self._grabbed is None or place is None or place[0] == self._grabbed:
            return
        was = self.step_at(self._grabbed)
        if was is not None:
            self._dragged, self._grabbed = True, place[0]
            self.post_message(Dragged(was, place[1]))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go."""
        self._grabbed = None

    def on_click(self, event: events.Click) -> None:
        """Point at a step, unless this is the end of a drag."""
        if self._dragged:
            event.stop()
        elif (place := _place(self, event)) is not None:
            self.post_message(CursorMoved(self, place[1]))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Fewer steps."""
        self._zoom(event, NOTCH)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """More steps."""
        self._zoom(event, 1 / NOTCH)

    def _zoom(self, event: events.MouseEvent, factor: float) -> None:
        if (place := _place(self, event)) is not None:
            event.stop()
            self.post_message(Zoomed(place[1], factor))


def _place(widget: PointedWidget, event: events.MouseEvent) -> tuple[int, float] | None:
    """The column under the pointer and the step there; None where that has none."""
    offset = event.get_content_offset(widget)
    step = None if offset is None else widget.step_at(offset.x)
    return None if offset is None or step is None else (offset.x, step)
