"""Text that is drawn: harmless, and as wide as it says it is."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ntstop import text
from ntstop.tui.raster.alike import ascii_of


def test_after_safe_rich_and_this_module_agree_on_the_width_of_every_character_there_is() -> None:
    wrong = []
    for code in range(sys.maxunicode + 1):
        cleaned = text.safe(f"a{chr(code)}b")
        if cell_len(cleaned) != text.cell_width(cleaned):
            wrong.append(hex(code))
    assert wrong == []


@pytest.mark.parametrize(
    ("raw", "drawn"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("a\x1b", "a"),
        ("a\tb\r\nc\x00\x07d", "a b cd"),
        ("right\u202eto left", "rightto left"),
        ("e\u0301", "é"),
        ("损失", "损失"),
        ("👩\u200d🚀", "👩🚀"),
        ("👍🏽", "👍"),
        ("\ue000", "?"),
        ("\udc80", "?"),
    ],
)
def test_escape_sequences_controls_and_joiners_are_not_drawn(raw: str, drawn: str) -> None:
    assert text.safe(raw) == drawn


@given(st.text(max_size=40), st.integers(0, 20), st.booleans(), st.booleans())
def test_fit_gives_exactly_the_cells_that_were_asked_for(raw: str, width: int, right: bool, left: bool) -> None:
    fitted = text.fit(raw, width, right=right, left=left)
    assert cell_len(fitted) == width
    assert "\x1b" not in fitted and fitted.isprintable()


def test_a_wide_character_that_would_be_cut_in_half_is_left_out() -> None:
    assert text.fit("损失函数", 6) == "损失… "
    assert text.fit("损失函数", 6, left=True) == "…函数 "
    assert text.fit("损失函数", 8) == "损失函数"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (2.345, "2.345"),
        (0.000123, "1.23e-4"),
        (0.12345, "0.1235"),
        (12_345, "12.3k"),
        (999.97, "1000"),
        (9999.6, "10.0k"),
        (1_234_567, "1.23M"),
        (-3.5e-7, "-3.50e-7"),
        (0.0, "0"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (None, "–"),
    ],
)
def test_numbers_have_four_digits_and_missing_is_not_zero(value: float | None, told: str) -> None:
    assert text.number(value) == told


@given(st.floats())
def test_a_number_never_takes_more_cells_than_promised(value: float) -> None:
    told = text.number(value)
    assert len(told) <= 7 + told.startswith("-")
    if math.isfinite(value) and value and abs(value) < 1e300:
        number = float(told.translate({ord("k"): "e3", ord("M"): "e6", ord("G"): "e9", ord("T"): "e12"}))
        assert number == pytest.approx(value, rel=6e-3 if 1e-9 < abs(value) < 1e15 else 0.5)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0000123, "12.3 µs"),
        (0.322, "322 ms"),
        (59.99, "1m 00s"),
        (187, "3m 07s"),
        (3720, "1h 02m"),
        (86400 * 3 + 4 * 3600, "3d 04h"),
        (None, "–"),
        (math.inf, "–"),
    ],
)
def test_durations(seconds: float | None, told: str) -> None:
    assert text.duration(seconds) == told


def test_sizes_rates_shares_and_counts() -> None:
    assert text.size(61.2 * 2**30) == "61.2 GiB"
    assert text.size(512) == "512 B"
    assert text.size(1023) == "1.00 KiB"
    assert text.size(None, 6) == "     –"
    assert text.rate(3.1) == "3.10/s"
    assert text.rate(0.05) == "3.00/min"
    assert text.rate(0.0001) == "0.36/h"
    assert text.percent(0.413) == "41%"
    assert text.percent(0.0031) == "0.3%"
    assert text.count(12340, 8) == "  12,340"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "blocks.10.attention_norm.weight"),
        (27, "b.10.attention_norm.weight"),
        (20, "b.10.a.weight"),
        (11, "b.10.a.we…t"),
        (6, "…eight"),
    ],
)
def test_a_dotted_name_keeps_its_numbers_and_its_last_part(width: int, shown: str) -> None:
    assert text.dotted("blocks.10.attention_norm.weight", width) == shown


@given(st.text())
def test_in_ascii_a_text_is_as_wide_as_before(raw: str) -> None:
    drawn = text.safe(raw)
    assert ascii_of(drawn).isascii()
    assert len(ascii_of(drawn)) == text.cell_width(drawn)
    assert ascii_of("\x1b[1;31m╭─ … ─╮▌│×中") == "\x1b[1;31m+- ~ -+||x??"


@pytest.mark.parametrize("wall", [math.nan, math.inf, -math.inf, 1e18, -1e11, 3e11])
def test_a_moment_that_no_calendar_has_is_unknown(wall: float) -> None:
    assert text.moment(wall, "%H:%M") == "?"
    assert text.moment(None, "%H:%M") == "–" and ":" in text.moment(1.7e9, "%H:%M")
