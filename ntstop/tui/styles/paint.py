"""Pictures to textual strips: the one place where an ink becomes a rich style."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ..raster.ink import Ink
from ..raster.picture import Picture
from ..raster.spec import Colours, Glyphs
from .palette import DARK, LIGHT, MONO, SIXTEEN, SIXTEEN_LIGHT, Look, Palette

if TYPE_CHECKING:
    from textual.app import App

_PALETTES = {palette.name: palette for palette in (DARK, LIGHT, SIXTEEN, SIXTEEN_LIGHT, MONO)}
"""By name; those of `safe` once one of them is asked for."""
_COLOURS = {None: 0, "standard": 16, "windows": 16, "256": 256, "truecolor": 1 << 24}


def choose(*, colours: int, dark: bool, no_color: bool, name: str = "standard") -> Palette:
    """The palette for a terminal with `colours` colours (0, 8, 16, 256 or more); `name`: that of the configuration."""
    if no_color or colours < 8:
        return MONO
    if colours <= 16:
        return SIXTEEN if dark else SIXTEEN_LIGHT
    plain = DARK if dark else LIGHT
    if name == "standard":
        return plain
    if (full := f"{plain.name} {name}") not in _PALETTES:
        from .safe import SAFE

        _PALETTES.update({palette.name: palette for palette in SAFE})
    return _PALETTES[full]


def palette_of(app: App[Any]) -> Palette:
    """The palette that suits the app's terminal and theme. An app may say `few_colours = True` for 16 colours,
    and `without_colours = True` for none.
    """
    if getattr(app, "without_colours", False):
        return MONO
    colours = 16 if getattr(app, "few_colours", False) else _COLOURS.get(app.console.color_system, 256)
    if app.is_headless and "NO_COLOR" not in os.environ:
        colours = max(colours, 16 if getattr(app, "few_colours", False) else 256)
    return choose(
        colours=colours,
        dark=app.current_theme.dark,
        no_color="NO_COLOR" in os.environ,
        name=getattr(app, "palette", "standard"),
    )


def glyphs_of(app: App[Any]) -> Glyphs:
    """ASCII where the app says `ascii_only`, else braille."""
    return Glyphs.ASCII if getattr(app, "ascii_only", False) else Glyphs.BRAILLE


def colours_of(palette: Palette) -> Colours:
    """How much a picture may rely on the colours of this palette."""
    few = {SIXTEEN.name: Colours.FEW, SIXTEEN_LIGHT.name: Colours.FEW}
    return {MONO.name: Colours.NONE, **few}.get(palette.name, Colours.MANY)


@lru_cache(maxsize=2048)
def style_of(palette: str, ink: int, ground: int) -> Style:
    """The rich style of a cell in the palette of this name; what that does not say stays as the widget has it."""
    colours = _PALETTES[palette]
    look = colours.inks.get(ink, Look())
    return Style(
        color=look.colour,
        bgcolor=colours.grounds.get(ground),
        bold=look.bold or None,
        dim=look.dim or None,
        reverse=look.reverse or None,
    )


@lru_cache(maxsize=4096)
def _drawn(palette: str, ink: int, ground: int, base: Style) -> Style:
    """`style_of` over the widget's own style; a backdrop has the colour of the widget's ground."""
    style = base + style_of(palette, ink, ground)
    return style + Style(color=base.bgcolor) if ink == Ink.BACKDROP else style


def strip_of(picture: Picture, row: int, palette: Palette, base: Style) -> Strip:
    """One row of a picture as a strip over the widget's own style `base`."""
    name = palette.name
    return Strip(
        [Segment(run.text, _drawn(name, run.ink, run.ground, base)) for run in picture.runs(row)], picture.width
    )
