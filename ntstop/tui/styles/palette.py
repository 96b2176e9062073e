"""How each class of cell looks: colours for dark and light grounds, for 16 colours and for none. Pure data.

Hues after Okabe and Ito, "Color Universal Design", 2008; heat runs from blue over grey to orange. Nothing is told by
colour alone, and `safe` has palettes for who tells some colours badly. Text reaches a contrast of 4.5 (WCAG 2.1, 1.4.3)
on its ground, other signs 3 (1.4.11); tests measure it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..raster.ink import Ink


class Look(NamedTuple):
    """Colours as rich names or `#rrggbb`; None leaves the widget's own."""

    colour: str | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


class Palette(NamedTuple):
    """The look of a glyph by its ink, and the colour behind it by its ground; what is absent looks like its widget."""

    name: str
    inks: Mapping[int, Look]
    grounds: Mapping[int, str]


def _series(lines: list[str], bands: list[str]) -> dict[int, Look]:
    looks = {Ink.LINE_0 + index: Look(colour) for index, colour in enumerate(lines)}
    return looks | {Ink.BAND_0 + index: Look(colour) for index, colour in enumerate(bands)}


def _shades(bands: list[str]) -> dict[int, str]:
    """Inside a band glyph and ground have one colour: a surface without dots."""
    return {Ink.BAND_0 + index: colour for index, colour in enumerate(bands)}


def _plain(**colours: str) -> dict[int, Look]:
    return {Ink[name]: Look(colour) for name, colour in colours.items()}


_DARK_LINES = ["#58b4f0", "#f0a03c", "#e07fb8", "#4fc4a0", "#e8dc5c", "#b09af0", "#f07f5c", "#b8c0cc"]
_DARK_BANDS = ["#1d3346", "#43321c", "#402b38", "#1d3831", "#3e3c22", "#332e45", "#432a22", "#363a41"]

DARK = Palette(
    "dark",
    {
        **_series(_DARK_LINES, _DARK_BANDS),
        **_plain(
            TEXT="#b4bcc8",
            DIM="#8a93a1",
            AXIS="#4a525e",
            GRID="#343b45",
            MARK="#f0a03c",
            INFO="#58b4f0",
            ON_PHASE="#0c1014",
        ),
        **_plain(CURSOR_LINE="#8a94a2", ON_PHASE="#0c1014"),
        **_plain(HEALTHY="#6d7a8a", SPAN="#79828f", SPAN_WARNING="#d8b84a", SPAN_CRITICAL="#ff6a55"),
        Ink.STRONG: Look("#eef2f6", bold=True),
        Ink.CURSOR: Look("#eef2f6", bold=True),
        Ink.NONFINITE: Look("#ff6a55", bold=True),
        Ink.GOOD: Look("#4fc4a0", bold=True),
        Ink.WARNING: Look("#f5c04a", bold=True),
        Ink.CRITICAL: Look("#ff6a55", bold=True),
        **_plain(HEAT_LOW_3="#3f8fe0", HEAT_LOW_2="#4a82bd", HEAT_LOW_1="#647f9e", HEAT_OK="#4c545e"),
        **_plain(HEAT_HIGH_1="#8f7a54", HEAT_HIGH_2="#e0963a", HEAT_HIGH_3="#ff7a3c", HEAT_ZERO="#7cc0ff"),
        Ink.HEAT_NONFINITE: Look("#ff6a55", bold=True),
        **_plain(PHASE_DATA="#c8893a", PHASE_FORWARD="#4e90bf", PHASE_BACKWARD="#6a7ab8", PHASE_OPTIMIZER="#9080bc"),
        **_plain(PHASE_OTHER="#7e868f", PHASE_EVAL="#3f9a80", PHASE_CHECKPOINT="#b0a848"),
    },
    {
        Ink.SPAN: "#222a34",
        Ink.SPAN_WARNING: "#3a3320",
        Ink.SPAN_CRITICAL: "#42231f",
        Ink.HEALTHY: "#1f2730",
        Ink.CURSOR: "#3c4653",
        **_shades(_DARK_BANDS),
        Ink.HEAT_LOW_3: "#16365c",
        Ink.HEAT_LOW_2: "#1a3350",
        Ink.HEAT_LOW_1: "#1e2a38",
        Ink.HEAT_OK: "#1f242b",
        Ink.HEAT_HIGH_1: "#302b22",
        Ink.HEAT_HIGH_2: "#523720",
        Ink.HEAT_HIGH_3: "#66301a",
        Ink.HEAT_ZERO: "#0f2c50",
        Ink.HEAT_NONFINITE: "#4a1a16",
        Ink.PHASE_DATA: "#c8893a",
        Ink.PHASE_FORWARD: "#4e90bf",
        Ink.PHASE_BACKWARD: "#6a7ab8",
        Ink.PHASE_OPTIMIZER: "#9080bc",
        Ink.PHASE_OTHER: "#7e868f",
        Ink.PHASE_EVAL: "#3f9a80",
        Ink.PHASE_CHECKPOINT: "#b0a848",
    },
)

_LIGHT_LINES = ["#0a66b0", "#a65200", "#a8347c", "#00755a", "#7a6c00", "#5b3fb8", "#c0281c", "#4a525e"]
_LIGHT_BANDS = ["#b4d4ee", "#f0d3b0", "#ecc4dc", "#b4e0d2", "#e6dfa8", "#d0c6f0", "#f0c4b4", "#d0d5dc"]

LIGHT = Palette(
    "light",
    {
        **_series(_LIGHT_LINES, _LIGHT_BANDS),
        **_plain(
            TEXT="#3a424e",
            DIM="#5c6672",
            AXIS="#a4acb8",
            GRID="#ccd2da",
            MARK="#a65200",
            INFO="#0a62a8",
            ON_PHASE="#ffffff",
        ),
        **_plain(CURSOR_LINE="#707a88", ON_PHASE="#ffffff"),
        **_plain(HEALTHY="#7d8896", SPAN="#6a7380", SPAN_WARNING="#7a5e00", SPAN_CRITICAL="#c02414"),
        Ink.STRONG: Look("#10161e", bold=True),
        Ink.CURSOR: Look("#10161e", bold=True),
        Ink.NONFINITE: Look("#c02414", bold=True),
        Ink.GOOD: Look("#006e54", bold=True),
        Ink.WARNING: Look("#7a5e00", bold=True),
        Ink.CRITICAL: Look("#c02414", bold=True),
        **_plain(HEAT_LOW_3="#0a50b0", HEAT_LOW_2="#3070b8", HEAT_LOW_1="#5a80a4", HEAT_OK="#b4bcc6"),
        **_plain(HEAT_HIGH_1="#a87c3c", HEAT_HIGH_2="#b86a10", HEAT_HIGH_3="#c04a00", HEAT_ZERO="#0a3c88"),
        Ink.HEAT_NONFINITE: Look("#c02414", bold=True),
        **_plain(PHASE_DATA="#9a5c0c", PHASE_FORWARD="#2874b4", PHASE_BACKWARD="#1a4c8a", PHASE_OPTIMIZER="#6a50c4"),
        **_plain(PHASE_OTHER="#666f7b", PHASE_EVAL="#127a62", PHASE_CHECKPOINT="#70660c"),
    },
    {
        Ink.SPAN: "#e2e7ed",
        Ink.SPAN_WARNING: "#f6ecc8",
        Ink.SPAN_CRITICAL: "#f8d8d2",
        Ink.HEALTHY: "#e8ecf0",
        Ink.CURSOR: "#c4ccd6",
        **_shades(_LIGHT_BANDS),
        Ink.HEAT_LOW_3: "#b8d4f4",
        Ink.HEAT_LOW_2: "#cce0f4",
        Ink.HEAT_LOW_1: "#dde8f2",
        Ink.HEAT_OK: "#eceff2",
        Ink.HEAT_HIGH_1: "#f4eadb",
        Ink.HEAT_HIGH_2: "#f6dfc0",
        Ink.HEAT_HIGH_3: "#fad2b8",
        Ink.HEAT_ZERO: "#a4c4ec",
        Ink.HEAT_NONFINITE: "#f8d0ca",
        Ink.PHASE_DATA: "#9a5c0c",
        Ink.PHASE_FORWARD: "#2874b4",
        Ink.PHASE_BACKWARD: "#1a4c8a",
        Ink.PHASE_OPTIMIZER: "#6a50c4",
        Ink.PHASE_OTHER: "#666f7b",
        Ink.PHASE_EVAL: "#127a62",
        Ink.PHASE_CHECKPOINT: "#70660c",
    },
)

_ANSI_LINES = [
    "bright_cyan",
    "bright_yellow",
    "bright_magenta",
    "bright_white",
    "yellow",
    "bright_blue",
    "white",
    "cyan",
]

SIXTEEN = Palette(
    "16",
    {
        **_series(_ANSI_LINES, ["blue"] + ["bright_black"] * 7),
        **_plain(
            DIM="bright_black",
            AXIS="bright_black",
            GRID="bright_black",
            MARK="bright_yellow",
            INFO="bright_cyan",
            ON_PHASE="black",
        ),
        **_plain(HEALTHY="bright_black", SPAN="bright_black", SPAN_WARNING="yellow", SPAN_CRITICAL="bright_red"),
        Ink.STRONG: Look(bold=True),
        Ink.CURSOR: Look(bold=True),
        Ink.NONFINITE: Look("bright_red", bold=True),
        Ink.GOOD: Look("bright_green", bold=True),
        Ink.WARNING: Look("bright_yellow", bold=True),
        Ink.CRITICAL: Look("bright_red", bold=True),
        **_plain(HEAT_LOW_3="bright_blue", HEAT_LOW_2="bright_blue", HEAT_LOW_1="blue", HEAT_OK="bright_black"),
        **_plain(HEAT_HIGH_1="yellow", HEAT_HIGH_2="bright_yellow", HEAT_HIGH_3="bright_red", HEAT_ZERO="bright_cyan"),
        Ink.HEAT_NONFINITE: Look("bright_red", bold=True),
        **_plain(PHASE_DATA="yellow", PHASE_FORWARD="bright_cyan", PHASE_BACKWARD="blue", PHASE_OPTIMIZER="magenta"),
        **_plain(PHASE_OTHER="bright_black", PHASE_EVAL="cyan", PHASE_CHECKPOINT="bright_yellow"),
    },
    {
        Ink.SPAN: "bright_black",
        Ink.SPAN_WARNING: "bright_black",
        Ink.SPAN_CRITICAL: "bright_black",
        Ink.CURSOR: "bright_black",
        Ink.PHASE_DATA: "yellow",
        Ink.PHASE_FORWARD: "bright_cyan",
        Ink.PHASE_BACKWARD: "blue",
        Ink.PHASE_OPTIMIZER: "magenta",
        Ink.PHASE_OTHER: "bright_black",
        Ink.PHASE_EVAL: "cyan",
        Ink.PHASE_CHECKPOINT: "bright_yellow",
    },
)

_QUIET = (Ink.DIM, Ink.AXIS, Ink.GRID, *(Ink.BAND_0 + index for index in range(8)), Ink.HEAT_OK, Ink.PHASE_OTHER)
_LOUD = (
    Ink.STRONG,
    Ink.GOOD,
    Ink.CURSOR,
    Ink.NONFINITE,
    Ink.WARNING,
    Ink.CRITICAL,
    Ink.HEAT_HIGH_3,
    Ink.HEAT_NONFINITE,
)

MONO = Palette(
    "mono",
    {ink: Look(dim=True) for ink in _QUIET} | {ink: Look(bold=True) for ink in _LOUD},
    {},
)
"""No colours: light and bold only. Draw with `mono=True`, so that grounds become characters."""
