"""The part of the run that is looked at: one step axis, one cursor, one pause, shared by every pane."""

from __future__ import annotations

import math
from dataclasses import dataclass

NARROWEST = 20.0
"""Steps below which zooming in stops: fewer points than that are no curve."""
LEAPS = 10
"""The right edge moves on by about a tenth of the axis, but by this many steps at least."""
LEAST_LEAP = 25.0
SMOOTHINGS = ("off", "light", "strong")


@dataclass
class StepView:
    """What part of the step axis is shown. All positions are steps.

    The right edge moves in leaps, not with every step: a curve that grows into free space repaints a few cells, one
    that is rescaled repaints all of them.
    """

    first: float = 0.0
    last: float = 0.0
    """The first and the last step there is."""
    span: float | None = None
    """Steps shown; None: the whole run."""
    end: float | None = None
    """Right edge; None: the tail is followed."""
    cursor: float | None = None
    frozen: float | None = None
    """Where the run stood when the view was paused; None: not paused."""
    log: bool = False
    smoothing: str = "light"

    @property
    def shown_last(self) -> float:
        """The last step that may be drawn."""
        return self.last if self.frozen is None else self.frozen

    @property
    def told_at(self) -> float:
        """The step whose values are told: that under the cursor, else the last that may be drawn."""
        return self.shown_last if self.cursor is None else self.cursor

    @property
    def window(self) -> tuple[float, float]:
        """First and last step of the axis; the second is always greater."""
        if self.span is None:
            extent = max(self.shown_last - self.first, 1.0)
            leap = max(LEAST_LEAP, _round_down(extent / LEAPS))
            return self.first, self.first + math.ceil(extent / leap) * leap
        if self.end is not None:
            return self.end - self.span, self.end
        leap = self.span / LEAPS
        right = max(math.ceil((self.shown_last - self.first) / leap) * leap, self.span)
        return self.first + right - self.span, self.first + right

    @property
    def query(self) -> tuple[float, float]:
        """First and last step to ask a series for.

        Not the newest step but the edge of the axis, so that the columns a series is folded into stand still; paused,
        where the run stood.
        """
        left, right = self.window
        return left, right if self.frozen is None else min(right, self.frozen)

    @property
    def key(self) -> tuple[object, ...]:
        """Changes with everything that changes the picture but new data."""
        return self.span, self.end, self.cursor, self.frozen, self.log, self.smoothing

    def extend(self, first: float, last: float) -> None:
        """Take over how far the run reaches."""
        self.first, self.last = first, last

    def pause(self) -> None:
        """Stop at the newest step, or go on."""
        self.frozen = self.last if self.frozen is None else None

    def zoom(self, factor: float, around: float | None = None) -> None:
        """Multiply the steps shown by `factor`: `around` a step, else the cursor, or else at the tail.

        Who follows the tail goes on to, as long as that stays in view.
        """
        left, right = self.window
        whole = max(self.shown_last - self.first, 1.0)
        span = max((right - left) * factor, min(NARROWEST, whole))
        if span >= whole:
            self.span = self.end = None
            return
        self.span = span
        anchor = self.cursor if around is None else around
        if anchor is not None:
            share = (anchor - left) / (right - left)
            end = anchor + span * (1 - share)
            if around is None or self.end is not None or end < self.shown_last:
                self._place(end)
        elif self.end is not None:
            self._place((left + right) / 2 + span / 2)

    def pan(self, steps: float) -> None:
        """Move the axis on by so many steps, where it does not show the whole run anyway; the tail is let go of."""
        if self.span is not None:
            self._place(self.window[1] + steps)

    def follow(self) -> None:
        """Back to the tail; when already there, back to the whole run."""
        if self.end is None and self.cursor is None:
            self.span = None
        self.end = self.cursor = None

    def back(self) -> None:
        """One layer out: clear the cursor, else follow the tail, else show the whole run."""
        if self.cursor is not None:
            self.cursor = None
        else:
            self.follow()

    def stride(self, columns: float, width: int) -> float:
        """Steps that the cursor goes in `columns` of a chart `width` columns wide: one at least."""
        left, right = self.window
        return max(columns * (right - left) / max(width, 1), 1.0)

    def move_cursor(self, columns: float, width: int) -> None:
        """Move by `columns` of a chart `width` columns wide, at least one step; the axis goes along at its edges."""
        left, right = self.window
        if self.cursor is None:
            self.cursor = min(right, self.shown_last)
            return
        distance = math.copysign(self.stride(abs(columns), width), columns)
        self.cursor = min(max(round(self.cursor + distance), self.first), self.shown_last)
        if self.span is not None and not left <= self.cursor <= right:
            self._place(self.cursor + self.span / 2)

    def show(self, step: float) -> None:
        """Put the cursor on `step` and bring it into view."""
        self.cursor = min(max(step, self.first), self.shown_last)
        left, right = self.window
        if self.span is not None and not left <= self.cursor <= right:
            self._place(self.cursor + self.span / 2)

    def go_to(self, step: float) -> None:
        """Put the cursor on `step`, in the middle of the axis where that does not show the whole run."""
        self.cursor = min(max(step, self.first), self.shown_last)
        if self.span is not None:
            self._place(self.cursor + self.span / 2)

    def next_smoothing(self) -> None:
        """off, light, strong, off …"""
        self.smoothing = SMOOTHINGS[(SMOOTHINGS.index(self.smoothing) + 1) % len(SMOOTHINGS)]

    def _place(self, end: float) -> None:
        """Put the right edge at `end`, inside the run."""
        assert self.span is not None
        self.end = min(max(end, self.first + self.span), self.shown_last)


def _round_down(steps: float) -> float:
    """The next of 1, 2, 5, 10 … at or below `steps`."""
    power = 10.0 ** math.floor(math.log10(steps))
    return next(part * power for part in (5, 2, 1) if part * power <= steps * (1 + 1e-9))
