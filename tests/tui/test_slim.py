"""What is sent to the terminal with fewer bytes looks the same there."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from ntstop.tui.slim import Slimmer

colours = st.sampled_from([None, "#123456", "#fedcba", "red", "bright_blue", "color(141)", "default"])
styles = st.builds(
    lambda fore, back, bold, dim, reverse: Style(
        color=fore and Color.parse(fore), bgcolor=back and Color.parse(back), bold=bold, dim=dim, reverse=reverse
    ),
    colours, colours, st.sampled_from([None, True]), st.sampled_from([None, True]), st.sampled_from([None, True]),
)  # fmt: skip
pieces = st.lists(st.tuples(styles, st.sampled_from(["a", "bc", " ", "│⡇", "\x1b[3;4H", "\x1b[K", "\n"])), max_size=12)


def seen(data: str) -> list[tuple[str, str, str, frozenset[str]]]:
    """Every character with the colours and attributes it is written in, those of sequences too but for the cursor's."""
    fore, back, kept = "", "", set[str]()
    found = []
    for place, piece in enumerate(re.split(r"\x1b\[([0-9;]*)m", data)):
        if not place % 2:
            for character in re.sub(r"\x1b\[\d+;\d+H", "", piece):
                # The colour of a blank cannot be seen.
                is_blank = character.isspace() and "7" not in kept
                found.append((character, "" if is_blank else fore, back, frozenset(kept)))
            continue
        for word in re.findall(r"[34]8;2;\d+;\d+;\d+|[34]8;5;\d+|\d+", piece or "0"):
            if word == "0":
                fore, back, kept = "", "", set()
            elif word.startswith(("3", "9")) and len(word) > 1:
                fore = "" if word == "39" else word
            elif word.startswith(("4", "10")) and len(word) > 1:
                back = "" if word == "49" else word
            else:
                kept.add(word)
    return [*found, ("end", fore, back, frozenset(kept))]


@example([[(Style(), "a"), (Style(color="#123456", reverse=True), "a"), (Style(), " ")]])
@given(st.lists(pieces, max_size=4))
def test_each_character_keeps_its_colours_and_no_write_leaves_another_state_behind(writes: list[object]) -> None:
    slimmer = Slimmer()
    before = after = ""
    places = re.compile(r"\x1b\[\d+;\d+H")
    for write in writes:
        data = "".join(style.render(text) for style, text in write)  # type: ignore[attr-defined]
        before, after = before + data, after + slimmer.slim(data)
        assert seen(after) == seen(before) and places.findall(after) == places.findall(before)
    assert len(after) <= len(before)


def test_what_stays_the_same_is_not_said_again() -> None:
    write = "\x1b[38;2;1;2;3;48;2;9;9;9mab\x1b[0m\x1b[38;2;4;5;6;48;2;9;9;9mcd\x1b[0m"
    assert Slimmer().slim(write) == "\x1b[38;2;1;2;3;48;2;9;9;9mab\x1b[38;2;4;5;6mcd\x1b[0m"


def test_a_state_that_was_left_open_goes_on_in_the_next_write() -> None:
    slimmer = Slimmer()
    assert slimmer.slim("\x1b[1;31ma") == "\x1b[1;31ma"
    assert slimmer.slim("\x1b[1;31mb\x1b[0m") == "b\x1b[0m"
