"""A line for a step to go to."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from ...text import count, safe
from .. import bindings
from ..view import StepView
from ..widgets.entry import Entry
from .dialog import Dialog

_NUMBER: Final = re.compile(r"(\d{1,3}(?:[,_ ]\d{3})+|\d+)?(\.\d+)?([kmb]?)", re.IGNORECASE)
_TIMES: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
LONGEST: Final = 30
"""Characters of what is typed."""


def step_meant(text: str, first: float, last: float) -> int:
    """The step that is written: `1234`, `1,234`, `1.2k`, `3M`.

    Raises `ValueError` with one line where that is no step, or not one from `first` to `last`.
    """
    words = text.strip()
    found = _NUMBER.fullmatch(words)
    if not found or not (found[1] or found[2]):
        raise ValueError(f"“{words}” is no step: write a number, such as 1234, 1,234 or 1.2k")
    whole, part, unit = (piece or "" for piece in found.groups())
    digits = re.sub(r"\D", "", whole)
    parts: int = 10 ** len(part[1:])
    step, rest = divmod(int(digits + part[1:]) * _TIMES[unit.lower()], parts)
    if rest:
        raise ValueError(f"“{words}” is no step: steps are whole numbers")
    if not first <= step <= last:
        raise ValueError(f"there is no step {count(step)} to be seen: there are {count(first)} to {count(last)}")
    return step


class GoToScreen(Dialog[int | None]):
    """Gives the step back that was typed, or None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = bindings.GO_TO

    def __init__(self, view: StepView) -> None:
        super().__init__()
        self.view = view
        self.says = Static(self._range(), markup=False)

    def _range(self) -> str:
        return f"a step from {count(self.view.first)} to {count(self.view.shown_last)}, such as 1234, 1,234 or 1.2k"

    def compose(self) -> ComposeResult:
        """What may be typed, and the line."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = "go to a step"
            dialog.border_subtitle = self.frame_keys("enter: go")
            yield self.says
            yield Entry(placeholder="a number", max_length=LONGEST, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go there, or say why not."""
        if not self.is_active:  # a second enter, that came before this was gone
            return
        try:
            step = step_meant(event.value, self.view.first, self.view.shown_last)
        except ValueError as error:
            self.says.update(safe(str(error)))
        else:
            self.dismiss(step)
        self.query_one(Entry).answered()
