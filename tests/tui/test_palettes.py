"""The palettes: contrast of text and lines on their grounds, and lines that stay apart for every kind of eyes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.color import Color, ColorSystem

from ntstop.tui.raster.ink import Ink
from ntstop.tui.styles.paint import choose
from ntstop.tui.styles.palette import DARK, LIGHT, MONO, SIXTEEN, SIXTEEN_LIGHT, Palette
from ntstop.tui.styles.safe import SAFE
from ntstop.tui.themes import DARK as DARK_THEME
from ntstop.tui.themes import LIGHT as LIGHT_THEME

TEXT, SIGN = 4.5, 3.0
"""WCAG 2.1: success criteria 1.4.3 and 1.4.11."""
APART = 12.0
"""CIE 1976 colour difference: seen at a glance, in thin lines too."""
PHASES_APART, HEAT_APART = 11.0, 7.9
"""Surfaces, in an order that is known, and levels whose glyphs have another height each."""
WORDS = (Ink.TEXT, Ink.STRONG, Ink.DIM, Ink.GOOD, Ink.WARNING, Ink.CRITICAL, Ink.INFO, Ink.NONFINITE, Ink.CURSOR)
LINES = tuple(Ink(Ink.LINE_0 + index) for index in range(8))
PHASES = tuple(ink for ink in Ink if ink.name.startswith("PHASE"))
HEAT = tuple(ink for ink in Ink if ink.name.startswith("HEAT"))
EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""On linear RGB: Machado, Oliveira and Fernandes 2009, severity 1."""
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], LUMINANCE, [0.0193339, 0.1191920, 0.9503041]])

EVERY = [DARK, LIGHT, *SAFE]


def linear(colour: str) -> NDArray[np.float64]:
    """`#rrggbb` as linear RGB."""
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG, 1 to 21."""
    dark, light = sorted(float(LUMINANCE @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def difference(one: str, other: str, eyes: str) -> float:
    """How far apart two colours are for such eyes."""

    def lab(colour: str) -> NDArray[np.float64]:
        seen = XYZ @ np.clip(EYES[eyes] @ linear(colour), 0, 1) / np.array([0.95047, 1.0, 1.08883])
        f = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    return float(np.linalg.norm(lab(one) - lab(other)))


def colour(palette: Palette, ink: Ink) -> str:
    found = palette.inks[ink].colour
    assert found is not None
    return found


def low(palette: Palette, pairs: list[tuple[Ink, str]], least: float) -> list[tuple[str, float]]:
    """The inks that stand out too little from the ground beside them."""
    ratios = [(ink.name, round(contrast(colour(palette, ink), ground), 2)) for ink, ground in pairs]
    return [(name, ratio) for name, ratio in ratios if ratio < least]


@pytest.fixture(params=EVERY, ids=lambda palette: palette.name)
def palette(request: pytest.FixtureRequest) -> Palette:
    found: Palette = request.param
    return found


def grounds(palette: Palette) -> tuple[str, str]:
    """The ground of the panes, and that of the first and the last line."""
    theme = DARK_THEME if palette.name.startswith("dark") else LIGHT_THEME
    return str(theme.background), str(theme.panel)


def test_every_word_can_be_read_on_the_panes_and_on_the_bars(palette: Palette) -> None:
    assert not low(palette, [(ink, ground) for ink in WORDS for ground in grounds(palette)], TEXT)


def test_lines_and_their_labels_stand_out_from_the_ground_and_from_their_own_bands(palette: Palette) -> None:
    background, _ = grounds(palette)
    assert not low(palette, [(ink, background) for ink in (*LINES, Ink.MARK)], TEXT)
    assert not low(palette, [(ink, palette.grounds[ink + 8]) for ink in LINES], SIGN)
    assert not low(palette, [(Ink.CURSOR_LINE, background)], SIGN)


def test_phases_stand_out_from_the_ground_and_carry_their_names(palette: Palette) -> None:
    background, _ = grounds(palette)
    assert not low(palette, [(ink, background) for ink in PHASES], SIGN)
    assert not low(palette, [(Ink.ON_PHASE, palette.grounds[ink]) for ink in PHASES], TEXT)


def test_what_is_not_healthy_stands_out_in_the_map(palette: Palette) -> None:
    loud = [ink for ink in HEAT if ink is not Ink.HEAT_OK]
    assert not low(palette, [(ink, palette.grounds[ink]) for ink in loud], SIGN)


@pytest.mark.parametrize("eyes", EYES)
def test_lines_states_phases_and_heat_stay_apart_for_all_eyes_in_every_palette(palette: Palette, eyes: str) -> None:
    groups = {LINES: APART, (Ink.GOOD, Ink.WARNING, Ink.CRITICAL): APART, PHASES: PHASES_APART, HEAT: HEAT_APART}
    for group, least in groups.items():
        colours = [colour(palette, ink) for ink in group]
        closest = min((difference(a, b, eyes), a, b) for a, b in itertools.combinations(colours, 2))
        assert closest[0] >= least, closest


def test_heat_in_cividis_is_lighter_the_higher_it_is_where_it_is_not_healthy() -> None:
    dark = next(one for one in SAFE if one.name == "dark cividis")
    levels = [ink for ink in HEAT if ink <= Ink.HEAT_HIGH_3 and ink is not Ink.HEAT_OK]
    lightness = [float(LUMINANCE @ linear(colour(dark, ink))) for ink in levels]
    assert len(levels) == 6 and lightness == sorted(lightness)


def test_256_colours_keep_the_lines_apart(palette: Palette) -> None:
    few = {Color.parse(colour(palette, ink)).downgrade(ColorSystem.EIGHT_BIT).number for ink in LINES}
    assert len(few) == 8


def test_a_name_chooses_where_there_are_colours_and_nothing_where_there_are_few_or_none() -> None:
    assert choose(colours=256, dark=True, no_color=False, name="cividis").name == "dark cividis"
    assert choose(colours=256, dark=False, no_color=False, name="blue-orange").name == "light blue-orange"
    assert choose(colours=256, dark=True, no_color=False, name="standard") is DARK
    assert choose(colours=16, dark=True, no_color=False, name="cividis") is SIXTEEN
    assert choose(colours=16, dark=False, no_color=False) is SIXTEEN_LIGHT
    assert choose(colours=256, dark=True, no_color=True, name="cividis") is MONO


def test_on_a_white_ground_of_16_colours_no_line_and_no_word_is_nearly_white() -> None:
    pale = {"bright_white", "white", "bright_yellow", "yellow", "bright_cyan", "bright_green"}
    assert pale.isdisjoint(
        SIXTEEN_LIGHT.inks[ink].colour for ink in (*LINES, *WORDS, Ink.MARK) if ink in SIXTEEN_LIGHT.inks
    )
