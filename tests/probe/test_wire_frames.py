"""Frames survive what happens to files and pipes: flipped bits, torn tails, garbage, pieces of any size."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop_probe.wire import (
    HEADER_SIZE,
    MAGIC,
    MAX_PAYLOAD,
    STREAM_CORE,
    STREAM_LAYERS,
    Frame,
    FrameReader,
    decode_frame,
    encode_frame,
    stream_prefix,
)

WRITER = 0xFEDCBA9876543210
PAYLOADS = [b"first payload", b"", b"the third one, " * 9]


def three_frames() -> list[bytes]:
    return [encode_frame(STREAM_CORE, WRITER, sequence, payload) for sequence, payload in enumerate(PAYLOADS, 1)]


def read(data: bytes) -> tuple[list[Frame], FrameReader]:
    reader = FrameReader()
    return reader.feed(data) + reader.finish(), reader


def header(*, version: int = 1, flags: int = 0, length: int = 0, payload: bytes = b"") -> bytes:
    """A header by the book, made without the code under test."""
    body = struct.pack("<4sBBHQQII", b"\xf1NTS", version, 0, flags, WRITER, 7, length or len(payload), crc32(payload))
    return body + struct.pack("<I", crc32(body))


def test_a_frame_is_laid_out_as_the_description_says() -> None:
    payload = b"\x93abc"
    assert encode_frame(STREAM_CORE, WRITER, 7, payload) == header(payload=payload) + payload
    assert HEADER_SIZE == 36


@pytest.mark.parametrize("byte", range(HEADER_SIZE))
def test_a_flipped_bit_in_a_header_costs_that_frame_and_no_other(byte: int) -> None:
    for bit in range(8):
        for damaged in range(3):
            frames = three_frames()
            broken = bytearray(frames[damaged])
            broken[byte] ^= 1 << bit
            frames[damaged] = bytes(broken)
            got, reader = read(b"".join(frames))
            assert [frame.sequence for frame in got] == [n for n in (1, 2, 3) if n != damaged + 1]
            assert [frame.payload for frame in got] == [p for i, p in enumerate(PAYLOADS) if i != damaged]
            assert reader.corrupt == 1
            assert reader.skipped_bytes == len(broken)
            assert reader.newer == 0


def test_a_flipped_bit_in_a_payload_costs_that_frame_and_no_other() -> None:
    frames = three_frames()
    for position in range(HEADER_SIZE, len(frames[0])):
        for bit in range(8):
            broken = bytearray(frames[0])
            broken[position] ^= 1 << bit
            got, reader = read(bytes(broken) + frames[1] + frames[2])
            assert [frame.sequence for frame in got] == [2, 3]
            assert reader.corrupt == 1


def test_a_file_cut_at_any_length_gives_the_whole_frames_before_the_cut() -> None:
    frames = three_frames()
    data = b"".join(frames)
    ends = [sum(len(frame) for frame in frames[: count + 1]) for count in range(3)]
    for length in range(len(data) + 1):
        reader = FrameReader()
        got = reader.feed(data[:length])
        whole = sum(end <= length for end in ends)
        assert [frame.sequence for frame in got] == [1, 2, 3][:whole]
        assert reader.corrupt == 0, "a torn tail is not damage"
        assert reader.pending == length - ([0, *ends][whole])
        assert [frame.sequence for frame in reader.feed(data[length:])] == [1, 2, 3][whole:]


def test_a_write_that_broke_off_does_not_hide_the_frames_behind_it() -> None:
    frames = three_frames()
    for kept in range(len(frames[2])):
        got, reader = read(frames[2][:kept] + frames[0] + frames[1])
        assert [frame.sequence for frame in got] == [1, 2]
        assert reader.corrupt == (kept > 0)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_frames_are_the_same_however_the_bytes_are_split(data: st.DataObject) -> None:
    payloads = data.draw(st.lists(st.binary(max_size=80), max_size=6))
    whole = b"".join(encode_frame(STREAM_LAYERS, 1, n, payload) for n, payload in enumerate(payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    reader, got = FrameReader(), list[Frame]()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += reader.feed(whole[start:end])
    assert got == [Frame(STREAM_LAYERS, 1, n, payload) for n, payload in enumerate(payloads)]
    assert (reader.corrupt, reader.skipped_bytes, reader.pending) == (0, 0, 0)


@given(st.lists(st.binary(max_size=60).filter(lambda junk: MAGIC[:1] not in junk), min_size=4, max_size=4))
@settings(max_examples=200, deadline=None)
def test_garbage_between_frames_is_counted_and_skipped(junk: list[bytes]) -> None:
    frames = three_frames()
    got, reader = read(junk[0] + frames[0] + junk[1] + frames[1] + junk[2] + frames[2] + junk[3])
    assert [frame.sequence for frame in got] == [1, 2, 3]
    assert reader.skipped_bytes == sum(map(len, junk))
    assert reader.corrupt == sum(bool(piece) for piece in junk)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5))
@settings(max_examples=200, deadline=None)
def test_no_bytes_at_all_make_the_reader_raise_and_none_are_unaccounted_for(data: bytes, magics: list[int]) -> None:
    spiked = bytearray(data)
    for position in magics:
        spiked[position:position] = MAGIC
    reader = FrameReader()
    half = len(spiked) // 2
    frames = reader.feed(bytes(spiked[:half])) + reader.feed(bytes(spiked[half:])) + reader.finish()
    assert frames == []
    assert reader.skipped_bytes == len(spiked)
    assert reader.pending == 0


def test_false_starts_in_front_of_a_frame_do_not_hide_it() -> None:
    frame = three_frames()[0]
    for start in (MAGIC[:1], MAGIC[:3], MAGIC, MAGIC * 3, header(length=10, payload=b"xx")[:20], frame[:HEADER_SIZE]):
        got, _ = read(start + frame)
        assert [item.sequence for item in got] == [1]


def test_a_header_that_claims_more_than_the_limit_is_not_waited_for() -> None:
    claim = header(length=MAX_PAYLOAD + 1)
    reader = FrameReader()
    assert [frame.sequence for frame in reader.feed(claim + three_frames()[0])] == [1]


def test_a_frame_of_a_newer_layout_is_skipped_whole_and_counted() -> None:
    payload = b"from the future"
    got, reader = read(three_frames()[0] + header(version=2, payload=payload) + payload + three_frames()[2])
    assert [frame.sequence for frame in got] == [1, 3]
    assert (reader.newer, reader.corrupt) == (1, 0)


def test_flags_and_streams_that_are_not_known_yet_are_passed_over() -> None:
    payload = b"x"
    got, reader = read(header(flags=0x8001, payload=payload) + payload + encode_frame(9, WRITER, 8, b"y"))
    assert [(frame.stream, frame.sequence) for frame in got] == [(0, 7), (9, 8)]
    assert reader.corrupt == 0


def test_a_payload_over_the_limit_is_refused_by_the_writer() -> None:
    with pytest.raises(ValueError, match="limit"):
        encode_frame(STREAM_CORE, WRITER, 1, bytes(MAX_PAYLOAD + 1))


def test_every_frame_of_a_stream_begins_with_its_prefix() -> None:
    assert encode_frame(STREAM_CORE, 1, 1, b"").startswith(stream_prefix(STREAM_CORE))
    assert not encode_frame(STREAM_LAYERS, 1, 1, b"").startswith(stream_prefix(STREAM_CORE))


@given(st.binary(max_size=200), st.integers(0, 3), st.data())
def test_whole_message_is_a_frame_or_nothing(payload: bytes, stream: int, data: st.DataObject) -> None:
    message = encode_frame(stream, 7, 9, payload)
    assert decode_frame(message) == Frame(stream, 7, 9, payload)
    assert decode_frame(message[:-1]) is None and decode_frame(message + b"x") is None
    at = data.draw(st.integers(0, len(message) - 1))
    flipped = bytearray(message)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    assert decode_frame(bytes(flipped)) is None
