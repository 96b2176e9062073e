"""What a cell is, not how it looks: the palette turns these into colours."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Ink(IntEnum):
    """The class of a cell's glyph, or of its ground; below 256, so that a picture keeps them in bytes."""

    NONE = 0
    TEXT = 1
    DIM = 2
    STRONG = 3
    AXIS = 4
    GRID = 5
    CURSOR = 6
    NONFINITE = 7
    INFO = 8
    WARNING = 9
    CRITICAL = 10
    SPAN = 11
    """Ground of a shaded stretch of steps (evaluation, a pause)."""
    SPAN_WARNING = 12
    SPAN_CRITICAL = 13
    HEALTHY = 14
    """Ground of a healthy range of values, and the tick marks that name it."""
    MARK = 15
    BACKDROP = 42
    """The widget's own ground, as the ink of a block that covers a part of another ground."""

    LINE_0 = 16
    LINE_1 = 17
    LINE_2 = 18
    LINE_3 = 19
    LINE_4 = 20
    LINE_5 = 21
    LINE_6 = 22
    LINE_7 = 23

    BAND_0 = 24
    BAND_1 = 25
    BAND_2 = 26
    BAND_3 = 27
    BAND_4 = 28
    BAND_5 = 29
    BAND_6 = 30
    BAND_7 = 31

    HEAT_LOW_3 = 32
    """Furthest below the healthy band; LOW_1 is just below it."""
    HEAT_LOW_2 = 33
    HEAT_LOW_1 = 34
    HEAT_OK = 35
    HEAT_HIGH_1 = 36
    HEAT_HIGH_2 = 37
    HEAT_HIGH_3 = 38
    HEAT_ZERO = 39
    """Exactly zero: a layer that gets no gradient at all."""
    HEAT_NONFINITE = 40

    GOOD = 41
    """What is as it should be: a run that is alive."""
    CURSOR_LINE = 43
    """The thin line down a plot; CURSOR is its label, and its ground where it crosses something."""

    PHASE_DATA = 48
    PHASE_FORWARD = 49
    PHASE_BACKWARD = 50
    PHASE_OPTIMIZER = 51
    PHASE_OTHER = 52
    PHASE_EVAL = 53
    PHASE_CHECKPOINT = 54
    ON_PHASE = 55
    """Text on the ground of a phase."""


def line(index: int) -> Ink:
    """The ink of the `index`-th series; the eight colours repeat."""
    return Ink(Ink.LINE_0 + index % 8)


def band_of(ink: Ink) -> Ink:
    """The quiet ink of a series' min–max band, from the ink of its line."""
    return Ink(ink + 8) if Ink.LINE_0 <= ink <= Ink.LINE_7 else Ink.DIM
