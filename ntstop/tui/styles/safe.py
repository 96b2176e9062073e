"""Two palettes that do without red and green: blue and orange, and cividis (blue to yellow).

Heat in cividis runs as in Nuñez, Anderton and Renslow, "Optimizing colormaps with consideration for color vision
deficiency", 2018, from blue over grey to yellow, over that part of it which stands out from the ground. On 16 colours
and without any there is nothing to choose: the terminal decides.
"""

from __future__ import annotations

from typing import NamedTuple

from ..raster.ink import Ink
from .palette import DARK, LIGHT, Look, Palette

BAND = 0.22
"""How much of a line's colour its quiet band has, on the ground."""
_PHASES = (
    *(Ink.PHASE_DATA, Ink.PHASE_FORWARD, Ink.PHASE_BACKWARD, Ink.PHASE_OPTIMIZER),
    *(Ink.PHASE_OTHER, Ink.PHASE_EVAL, Ink.PHASE_CHECKPOINT),
)
_HEAT = (
    *(Ink.HEAT_LOW_3, Ink.HEAT_LOW_2, Ink.HEAT_LOW_1, Ink.HEAT_OK, Ink.HEAT_HIGH_1, Ink.HEAT_HIGH_2, Ink.HEAT_HIGH_3),
    *(Ink.HEAT_ZERO, Ink.HEAT_NONFINITE),
)


class Choice(NamedTuple):
    """What a palette has of its own; colours as `#rrggbb`, lists as words."""

    lines: str
    good: str
    warning: str
    critical: str
    info: str
    phases: str
    """In the order of `_PHASES`."""
    heat: str
    """Glyphs on the levels of `_HEAT`, and below their grounds; "" keeps those of the plain palette."""
    heat_grounds: str


def derived(base: Palette, name: str, ground: str, choice: Choice) -> Palette:
    """`base` with the colours of `choice`; `ground`: that of the theme."""
    lines, phases = choice.lines.split(), choice.phases.split()
    bands = [mix(line, ground, BAND) for line in lines]
    inks = dict(base.inks)
    grounds = dict(base.grounds)
    for index, (line, band) in enumerate(zip(lines, bands, strict=True)):
        inks[Ink.LINE_0 + index] = Look(line)
        inks[Ink.BAND_0 + index] = Look(band)
        grounds[Ink.BAND_0 + index] = band
    for ink, colour in zip(_PHASES, phases, strict=True):
        inks[ink], grounds[ink] = Look(colour), colour
    for ink, colour in ((Ink.GOOD, choice.good), (Ink.WARNING, choice.warning), (Ink.CRITICAL, choice.critical)):
        inks[ink] = Look(colour, bold=True)
    inks[Ink.NONFINITE] = Look(choice.critical, bold=True)
    inks[Ink.INFO] = Look(choice.info)
    inks[Ink.MARK] = Look(choice.warning)
    for ink, colour in ((Ink.SPAN_WARNING, choice.warning), (Ink.SPAN_CRITICAL, choice.critical)):
        inks[ink], grounds[ink] = Look(colour), mix(colour, ground, BAND)
    for ink, glyph, colour in zip(_HEAT, choice.heat.split(), choice.heat_grounds.split(), strict=False):
        inks[ink], grounds[ink] = Look(glyph), colour
    inks[Ink.HEAT_NONFINITE] = inks[Ink.HEAT_NONFINITE]._replace(bold=True)
    return Palette(name, inks, grounds)


def mix(colour: str, ground: str, share: float) -> str:
    """`share` of one colour on another, each `#rrggbb`."""
    parts = (
        round(int(colour[at : at + 2], 16) * share + int(ground[at : at + 2], 16) * (1 - share)) for at in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


_DARK_GROUND, _LIGHT_GROUND = "#12161b", "#f8f9fb"

BLUE_ORANGE_DARK = derived(
    DARK,
    "dark blue-orange",
    _DARK_GROUND,
    Choice(
        lines="#58b4f0 #f0a03c #c1dff6 #b68235 #447ee4 #efe3c8 #828c96 #d8b279",
        good="#58b4f0",
        warning="#f5cf8a",
        critical="#ff8a1e",
        info="#c1dff6",
        phases="#f0a03c #8cc8f4 #5a96e0 #c8c0b0 #8a929c #efe3c8 #b68235",
        heat="#5ca3ee #518ed1 #7493b4 #5a626c #b09468 #da8f32 #fe891c #a8d4ff #101010",
        heat_grounds="#16365c #1a3350 #1e2a38 #1f242b #302b22 #523720 #66301a #0f2c50 #e8e8e8",
    ),
)
BLUE_ORANGE_LIGHT = derived(
    LIGHT,
    "light blue-orange",
    _LIGHT_GROUND,
    Choice(
        lines="#0a5ea8 #a85000 #091d3e #774422 #646464 #371c10 #194257 #373737",
        good="#0a5ea8",
        warning="#7a5a20",
        critical="#5a1e00",
        info="#194257",
        phases="#a85000 #2a74b8 #0d3f78 #6a5a48 #646c76 #8a6430 #5c3000",
        heat="#0d51b1 #1772bc #5b7b9d #b4bcc6 #a36f2e #b3630e #a74302 #0a3c88 #f8f9fb",
        heat_grounds="#b8d4f4 #cce0f4 #e4eef6 #eceff2 #f8f0e4 #f6dfc0 #fad2b8 #a4c4ec #1c222a",
    ),
)
CIVIDIS_DARK = derived(
    DARK,
    "dark cividis",
    _DARK_GROUND,
    Choice(
        lines="#7fa6f0 #fee838 #c8d2ef #a97d04 #557ce7 #e4b944 #828282 #afafaf",
        good="#7fa6f0",
        warning="#c3a53c",
        critical="#fee838",
        info="#c8d2ef",
        phases="#e4d038 #86a4d8 #6484c8 #c3b369 #8a9098 #c8d2ef #a98a2c",
        heat="#4874c3 #718ec4 #7f92ac #5c626c #a39b70 #cbb95a #fee838 #a8c8ff #101010",
        heat_grounds="#1c2740 #1f2b3c #252d38 #1f242b #2c2b24 #3c3820 #4c4616 #001436 #f4f4f4",
    ),
)
CIVIDIS_LIGHT = derived(
    LIGHT,
    "light cividis",
    _LIGHT_GROUND,
    Choice(
        lines="#1f4fa0 #7d6a00 #022b5a #463402 #2e64fa #555555 #191919 #373737",
        good="#1f4fa0",
        warning="#6f6228",
        critical="#463402",
        info="#022b5a",
        phases="#7d6a00 #3a68c0 #12305f #5c5638 #646c76 #4a5f8a #463402",
        heat="#001d46 #26467b #4d6993 #b4bcc6 #787451 #796b23 #594e00 #012d65 #f8f9fb",
        heat_grounds="#b4c4dc #ccd6e6 #e2e7ef #eceff2 #f0eedf #f2e6a4 #fee838 #9fb6dc #1c222a",
    ),
)
SAFE = (BLUE_ORANGE_DARK, BLUE_ORANGE_LIGHT, CIVIDIS_DARK, CIVIDIS_LIGHT)
