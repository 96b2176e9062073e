"""Bytes to keys: what is broken is lost, what comes behind it is not."""

from __future__ import annotations

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from ntstop.tui.typed import LONGEST_WAIT, Typed


def keys(typed: Typed, data: bytes, now: float = 0.0) -> str:
    """The characters of the keys that these bytes are."""
    return "".join(event.character or "" for event in typed.read(data, now) if isinstance(event, events.Key))


def pastes(typed: Typed, now: float) -> list[str]:
    return [event.text for event in typed.overdue(now) if isinstance(event, events.Paste)]


@pytest.mark.parametrize("begin", [[b"\x1b[200~never ended"], [b"x\x1b[2", b"00~never ended"]])
def test_a_paste_whose_end_is_lost_does_not_keep_the_keys_for_ever(begin: list[bytes]) -> None:
    typed = Typed()
    for data in begin:
        keys(typed, data)
    for second in (0.5, 1.0, 1.5):
        assert keys(typed, b"q", second) == "" and pastes(typed, second) == [], "it may still go on"
    assert pastes(typed, 2.1) == ["never endedqqq"] and keys(typed, b"q", 2.2) == "q"


def test_a_paste_in_pieces_is_one_however_long_it_takes() -> None:
    typed = Typed()
    keys(typed, b"\x1b[200~")
    for second in range(5):
        assert keys(typed, b"loss=3 q\n", second) == "" and pastes(typed, second + 1.9) == []
    told = [event.text for event in typed.read(b"\x1b[201~", 6.0) if isinstance(event, events.Paste)]
    assert told == ["loss=3 q\n" * 5] and pastes(typed, 99.0) == [] and keys(typed, b"q", 99.0) == "q"


def test_half_a_character_and_bytes_of_none_are_lost_and_whole_ones_in_two_pieces_are_not() -> None:
    typed = Typed()
    assert keys(typed, b"a\xff\xfe\x80b\xe8\xaec") == "abc"
    assert keys(typed, "é".encode()[:1]) == "" and keys(typed, "é".encode()[1:]) == "é"


def test_where_the_parser_breaks_off_the_next_key_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = Typed()
    with monkeypatch.context() as patched:
        patched.setattr(XTermParser, "feed", lambda parser, text: int("no number"))
        assert keys(typed, b"\x1b[<9;9;9M") == ""
    assert keys(typed, b"q") == "q"


def test_a_lone_escape_is_waited_for_no_longer_than_it_takes() -> None:
    typed = Typed()
    assert typed.patience == LONGEST_WAIT
    keys(typed, b"\x1b")
    assert 0 <= typed.patience < LONGEST_WAIT
