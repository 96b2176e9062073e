"""Records: what one version writes every other can read, and no bytes break a reader."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop_probe.wire import (
    Column,
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    ScalarBlock,
    Scalars,
    Schema,
    Stack,
    Steps,
    decode_batch,
    encode_batch,
    pack,
    unpack,
)

DTYPES = {"f4": "<f4", "f8": "<f8", "i4": "<i4", "i8": "<i8", "u1": "|u1"}
integers = {
    "i4": st.integers(-(2**31), 2**31 - 1),
    "i8": st.integers(-(2**63), 2**63 - 1),
    "u1": st.integers(0, 255),
}
floats = {"f4": st.floats(width=32), "f8": st.floats()}


def same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return left == right or (math.isnan(left) and math.isnan(right))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_columns_are_what_numpy_makes_of_the_same_numbers(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(DTYPES)))
    values = data.draw(st.lists(st.none() | {**integers, **floats}[kind], min_size=1, max_size=40))
    column = pack(kind, values)
    if all(value is None for value in values):
        assert column is None
        return
    assert column is not None
    filled = np.array([0 if value is None else value for value in values], dtype=DTYPES[kind])
    decoded = np.frombuffer(column.data, dtype=DTYPES[kind])
    assert np.array_equal(decoded, filled, equal_nan=kind.startswith("f"))
    present = np.array([value is not None for value in values])
    if column.present:
        assert column.present == np.packbits(present, bitorder="little").tobytes()
    else:
        assert present.all()
    assert len(column) == len(values)
    assert all(same(a, b) for a, b in zip(unpack(column), values, strict=True))


def test_a_float_too_large_for_a_column_is_infinite_as_in_numpy() -> None:
    column = pack("f4", [1e300, -1e300, math.nan, None])
    assert column is not None
    values = unpack(column)
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2] or 0.0)
    assert values[3] is None


def test_an_integer_outside_its_type_is_refused() -> None:
    with pytest.raises(OverflowError):
        pack("i4", [2**31])
    with pytest.raises(OverflowError):
        pack("u1", [-1])


@pytest.mark.parametrize("column", [Column("f8", b"\0" * 9), Column("f4", b"\0" * 8, b"\xff\xff")])
def test_a_column_whose_bytes_do_not_fit_is_refused(column: Column) -> None:
    with pytest.raises(ValueError, match="bytes"):
        unpack(column)


def some_records() -> list[object]:
    t = pack("f8", [1.0, 2.0])
    assert t is not None
    return [
        Hello(1, "run", "w", "host", "boot", "ns", 3, 4.5, 0, 1.0, 2.0, rank=3, title="名前 🚀"),
        Schema(7, ["a.weight", "b"], [4, 2], ["float32"] * 2, [False, True], [True, False]),
        Steps(2, 0, t, losses={"loss": pack("f8", [math.nan, math.inf])}, clocks={"forward": "device"}),  # type: ignore[dict-item]
        Layers(7, 0, None, 1.0, {"grad_norm": pack("f4", [None, 1.0])}),  # type: ignore[dict-item]
        Scalars(1.0, None, 5, {"val/loss": -math.inf}),
        ScalarBlock(2, t, pack("i8", [5, 6]), None, {"val/loss": pack("f8", [None, -math.inf])}),  # type: ignore[arg-type, dict-item]
        Event(1.0, "exception", "KeyError: \x1b[31mred", data={"code": None, "nested": [1, {"a": 2.5}]}),
        Heartbeat(1.0, 2.0, "data", 0.5, 9, stacks=[Stack("MainThread", ["f (x.py:1)"])]),
        Host(1.0),
    ]


def test_a_batch_comes_back_as_it_was() -> None:
    records = some_records()
    decoded, skipped = decode_batch(encode_batch(records))  # type: ignore[arg-type]
    assert skipped == 0
    # Compared as text: NaN is not equal to itself.
    assert [repr(record) for record in decoded] == [repr(record) for record in records]


def test_an_unknown_kind_of_record_is_skipped_without_its_neighbours() -> None:
    first, *rest = [msgspec.msgpack.decode(encode_batch([record])) for record in some_records()]  # type: ignore[list-item]
    payload = msgspec.msgpack.encode([*first, ["hologram", 1, {"x": 2}], *rest[0], 17, None, {"no": "record"}])
    decoded, skipped = decode_batch(payload)
    assert [type(record) for record in decoded] == [Hello, Schema]
    assert skipped == 4


def test_fields_that_a_newer_writer_appends_are_passed_over() -> None:
    for record in some_records():
        (fields,) = msgspec.msgpack.decode(encode_batch([record]))  # type: ignore[list-item]
        decoded, skipped = decode_batch(msgspec.msgpack.encode([[*fields, "new", {"and": [1, 2]}]]))
        assert skipped == 0
        assert repr(decoded) == repr([record])


def test_fields_that_an_older_writer_did_not_have_get_their_defaults() -> None:
    payload = msgspec.msgpack.encode([["heartbeat", 1.0, 2.0, "data", 0.5, 9], ["event", 1.0, "mark"]])
    decoded, skipped = decode_batch(payload)
    assert skipped == 0
    assert decoded == [Heartbeat(1.0, 2.0, "data", 0.5, 9), Event(1.0, "mark")]


def test_a_field_of_the_wrong_type_costs_its_record_only() -> None:
    payload = msgspec.msgpack.encode([["event", "soon", "mark"], ["event", 1.0], ["event", 2.0, "mark"]])
    decoded, skipped = decode_batch(payload)
    assert decoded == [Event(2.0, "mark")]
    assert skipped == 2


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_payload_makes_the_decoder_raise(payload: bytes) -> None:
    records, skipped = decode_batch(payload)
    assert records == [] or skipped >= 0


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_no_damage_to_a_payload_makes_the_decoder_raise(position: int, value: int) -> None:
    payload = bytearray(encode_batch(some_records()))  # type: ignore[arg-type]
    payload[position % len(payload)] = value
    records, _ = decode_batch(bytes(payload))
    assert len(records) <= len(some_records())


def test_a_payload_nested_without_end_is_skipped() -> None:
    assert decode_batch(b"\x91" * 100_000) == ([], 1)
    records, skipped = decode_batch(b"\x92" + encode_batch([Event(1.0, "mark")])[1:] + b"\x91" * 100_000 + b"\x01")
    assert skipped >= 1
    assert len(records) <= 1
