"""Blocks of what a job logs: the same numbers as row by row, in a fraction of the records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop_probe.blocks import records_of
from ntstop_probe.rows import ScalarRow
from ntstop_probe.wire import (
    Column,
    ScalarBlock,
    Scalars,
    decode_batch,
    encode_batch,
    in_blocks,
    pack,
    rows_of,
)

names = st.sampled_from(["a", "b", "train/loss", "名前", ""])
numbers = st.floats(allow_nan=True) | st.integers(-5, 5).map(float)
rows = st.builds(
    Scalars,
    st.floats(-1e6, 1e6) | st.just(math.nan),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    st.integers(0, 3),
    st.dictionaries(names, numbers, max_size=4),
)


def points(records: Iterable[Scalars | ScalarBlock]) -> dict[str, list[tuple[int | None, int, str, float]]]:
    """(step, ordinal, value as text, t) by name, in order."""
    found: dict[str, list[tuple[int | None, int, str, float]]] = defaultdict(list)
    for record in records:
        for row in rows_of(record) if isinstance(record, ScalarBlock) else [record]:
            for name, value in row.values.items():
                found[name].append((row.step, row.ordinal, repr(value), row.t))
    return found


def column(kind: str, values: list[float | int | None]) -> Column:
    packed = pack(kind, values)  # type: ignore[arg-type]
    assert packed is not None
    return packed


@given(st.lists(rows, max_size=40) | st.lists(rows, max_size=5).map(lambda some: some * 8))
@settings(max_examples=300, deadline=None)
def test_every_number_comes_back_at_its_step_in_its_order_and_within_a_tenth_of_a_second(given: list[Scalars]) -> None:
    payload = encode_batch(in_blocks(given))
    records, skipped = decode_batch(payload)
    assert skipped == 0
    before, after = points(given), points(record for record in records if isinstance(record, Scalars | ScalarBlock))
    assert before.keys() == after.keys()
    for name, sent in before.items():
        assert [point[:3] for point in after[name]] == [point[:3] for point in sent]
        for (*_, t0), (*_, t1) in zip(sent, after[name], strict=True):
            assert (math.isnan(t0) and math.isnan(t1)) or abs(t0 - t1) <= 0.1


def test_a_drain_of_rows_with_the_same_names_is_one_block() -> None:
    logged: list[object] = [ScalarRow(float(n), n, n, {"a": n / 2, "b": math.nan}) for n in range(200)]
    _, (block,) = records_of(logged, attempt=0)  # type: ignore[arg-type]
    assert isinstance(block, ScalarBlock)
    assert block.count == 200
    assert len(encode_batch([block])) < 200 * 5 * 8 + 100
    assert [row.values["a"] for row in rows_of(block)] == [n / 2 for n in range(200)]


def test_what_is_logged_one_by_one_in_a_step_becomes_one_row() -> None:
    given = [Scalars(n + place / 1e4, n, n, {tag: 1.0}) for n in range(8) for place, tag in enumerate("abc")]
    (block,) = in_blocks(given)
    assert isinstance(block, ScalarBlock)
    assert block.count == 8
    assert [len(row.values) for row in rows_of(block)] == [3] * 8


def test_a_name_that_is_logged_twice_in_a_step_keeps_both_numbers() -> None:
    assert [row.values for row in in_blocks([Scalars(1.0, 5, 5, {"a": 1.0}), Scalars(1.0, 5, 5, {"a": 2.0})])] == [
        {"a": 1.0},
        {"a": 2.0},
    ]


def test_a_number_in_a_hundred_rows_has_no_column_of_holes() -> None:
    rare = [Scalars(float(n), n, n, {f"only/{n}": 1.0}) for n in range(100)]
    assert all(isinstance(record, Scalars) for record in in_blocks(rare))
    often = [Scalars(float(n), n, n, {"a": 1.0, "b": 2.0} | ({"val": 3.0} if n == 50 else {})) for n in range(100)]
    (block,) = in_blocks(often)
    assert isinstance(block, ScalarBlock)
    assert [row.step for row in rows_of(block, {"val"})] == [50]


@pytest.mark.parametrize("odd", [Scalars(1.0, 10**30, 0, {"a": 1.0}), Scalars(1.0, 1, 0, {"a": "text"})])  # type: ignore[dict-item]
def test_what_no_column_can_hold_stays_as_it_is(odd: Scalars) -> None:
    given = [Scalars(float(n), n, n, {"a": 1.0}) for n in range(10, 20)]
    assert odd in in_blocks([*given, odd])


@pytest.mark.parametrize(
    "block",
    [
        ScalarBlock(3, column("f8", [1.0, 2.0]), column("i8", [0, 1, 2]), None, {"a": column("f8", [1.0, 2.0, 3.0])}),
        ScalarBlock(2, column("f8", [1.0, 2.0]), column("i8", [0]), None, {"a": column("f8", [1.0, 2.0])}),
        ScalarBlock(2, column("f8", [1.0, 2.0]), column("i8", [0, 1]), column("i8", [0]), {}),
        ScalarBlock(1, Column("f8", b"\0" * 9), column("i8", [0]), None, {}),
    ],
)
def test_times_or_steps_that_do_not_fit_are_refused(block: ScalarBlock) -> None:
    with pytest.raises(ValueError, match=r"fit|bytes"):
        list(rows_of(block))


def test_a_column_that_does_not_fit_is_left_out_and_the_others_stay() -> None:
    a, b = column("f8", [1.0, 2.0]), column("f8", [1.0])
    block = ScalarBlock(2, column("f8", [1.0, 2.0]), column("i8", [0, 1]), None, {"a": a, "b": b})
    assert [row.values for row in rows_of(block)] == [{"a": 1.0}, {"a": 2.0}]
