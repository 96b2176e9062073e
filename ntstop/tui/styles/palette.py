"""How each class of cell looks: colours for dark and light grounds, for 16 colours and for none. Pure data.

Hues after Okabe and Ito, "Color Universal Design", 2008, moved until lines, phases, states and levels of heat stay
apart for who tells red from green, or blue from yellow, badly; heat runs from blue over grey to orange. Nothing is told
by colour alone, and `safe` has palettes of fewer hues. Text reaches a contrast of 4.5 (WCAG 2.1, 1.4.3) on its ground,
other signs 3 (1.4.11); tests measure all of it.
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


_DARK_LINES = ["#0896d1", "#eb9c39", "#d779b0", "#48c39e", "#eadd5a", "#d3aeff", "#e77752", "#bfc7d1"]
_DARK_BANDS = ["#103243", "#423322", "#3d2c3c", "#1e3c38", "#424229", "#3c374d", "#412b27", "#383d43"]

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
        **_plain(HEAT_LOW_3="#4d97e9", HEAT_LOW_2="#4682bf", HEAT_LOW_1="#67809d", HEAT_OK="#4c545e"),
        **_plain(HEAT_HIGH_1="#8f7a54", HEAT_HIGH_2="#e59b44", HEAT_HIGH_3="#f17227", HEAT_ZERO="#7cc0ff"),
        Ink.HEAT_NONFINITE: Look("#f9604a", bold=True),
        **_plain(PHASE_DATA="#c1812c", PHASE_FORWARD="#4699cb", PHASE_BACKWARD="#637cd2", PHASE_OPTIMIZER="#8078a2"),
        **_plain(PHASE_OTHER="#8d7b78", PHASE_EVAL="#4cbc9e", PHASE_CHECKPOINT="#b9b155"),
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
        Ink.PHASE_DATA: "#c1812c",
        Ink.PHASE_FORWARD: "#4699cb",
        Ink.PHASE_BACKWARD: "#637cd2",
        Ink.PHASE_OPTIMIZER: "#8078a2",
        Ink.PHASE_OTHER: "#8d7b78",
        Ink.PHASE_EVAL: "#4cbc9e",
        Ink.PHASE_CHECKPOINT: "#b9b155",
    },
)

_LIGHT_LINES = ["#0e73c4", "#b35901", "#b04189", "#137154", "#574d00", "#503eb7", "#c12b2c", "#49525e"]
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
        **_plain(HEALTHY="#7d8896", SPAN="#6a7380", SPAN_WARNING="#684600", SPAN_CRITICAL="#c41f2b"),
        Ink.STRONG: Look("#10161e", bold=True),
        Ink.CURSOR: Look("#10161e", bold=True),
        Ink.NONFINITE: Look("#c41f2b", bold=True),
        Ink.GOOD: Look("#00705a", bold=True),
        Ink.WARNING: Look("#684600", bold=True),
        Ink.CRITICAL: Look("#c41f2b", bold=True),
        **_plain(HEAT_LOW_3="#154fae", HEAT_LOW_2="#3469af", HEAT_LOW_1="#5d84a8", HEAT_OK="#b4bcc6"),
        **_plain(HEAT_HIGH_1="#a87c3c", HEAT_HIGH_2="#ba6902", HEAT_HIGH_3="#c34c1f", HEAT_ZERO="#0a3c88"),
        Ink.HEAT_NONFINITE: Look("#b60905", bold=True),
        **_plain(PHASE_DATA="#9b6105", PHASE_FORWARD="#1879bb", PHASE_BACKWARD="#233a76", PHASE_OPTIMIZER="#4a3abb"),
        **_plain(PHASE_OTHER="#687981", PHASE_EVAL="#266a4c", PHASE_CHECKPOINT="#594e04"),
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
        Ink.PHASE_DATA: "#9b6105",
        Ink.PHASE_FORWARD: "#1879bb",
        Ink.PHASE_BACKWARD: "#233a76",
        Ink.PHASE_OPTIMIZER: "#4a3abb",
        Ink.PHASE_OTHER: "#687981",
        Ink.PHASE_EVAL: "#266a4c",
        Ink.PHASE_CHECKPOINT: "#594e04",
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

_ANSI_LIGHT_LINES = ["blue", "red", "magenta", "black", "green", "bright_blue", "bright_black", "cyan"]

SIXTEEN_LIGHT = Palette(
    "16 light",
    {
        **SIXTEEN.inks,
        **_series(_ANSI_LIGHT_LINES, ["bright_cyan"] + ["white"] * 7),
        **_plain(MARK="magenta", INFO="blue", SPAN_WARNING="magenta", SPAN_CRITICAL="red"),
        Ink.NONFINITE: Look("red", bold=True),
        Ink.GOOD: Look("green", bold=True),
        Ink.WARNING: Look("magenta", bold=True),
        Ink.CRITICAL: Look("red", bold=True),
        **_plain(HEAT_LOW_3="blue", HEAT_LOW_2="bright_blue", HEAT_LOW_1="cyan"),
        **_plain(HEAT_HIGH_1="green", HEAT_HIGH_2="magenta", HEAT_HIGH_3="red", HEAT_ZERO="black"),
        Ink.HEAT_NONFINITE: Look("red", bold=True),
    },
    {**SIXTEEN.grounds, Ink.SPAN: "white", Ink.SPAN_WARNING: "white", Ink.SPAN_CRITICAL: "white", Ink.CURSOR: "white"},
)
"""The same on a white ground, on which the bright ones are not to be seen."""

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
