"""The ring holds what a plain table would, however it was put in; what two of them hold alike is there once."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.curves import interning
from ntstop.curves.interning import interned
from ntstop.curves.ring import Ring, Table
from ntstop.curves.series import Series
from ntstop.upkeep import give_back_arrays

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.one_of(st.integers(0, 40), st.integers(0, 700))),
        st.tuples(st.just("drop"), st.one_of(st.integers(0, 15), st.integers(0, 90))),
        st.tuples(st.just("replace"), st.integers(0, 200)),
    ),
    max_size=25,
)


def numbered(first: int, count: int) -> Table:
    numbers = np.arange(first, first + count, dtype=np.float64)
    return np.stack([numbers, np.sin(numbers), np.sin(numbers).astype(np.float32)])


def fill(ring: Ring, count: int, at_once: int, change: float = 0.0) -> None:
    for first in range(0, count, at_once):
        block = numbered(first, min(at_once, count - first))
        block[1] += change
        block[2] = 1.0
        ring.append(block)


@given(capacity=st.sampled_from([1, 4, 16, 100, 256, 300]), actions=ACTIONS, cut=st.integers(0, 300))
@settings(max_examples=300, deadline=None)
def test_it_is_the_end_of_a_plain_table(capacity: int, actions: list[tuple[str, int]], cut: int) -> None:
    ring, plain, number = Ring(3, capacity), numbered(0, 0), 0
    for action, count in actions:
        if action == "drop":
            ring.drop_last(count)
            plain = plain[:, : max(0, plain.shape[1] - count)]
            continue
        block = numbered(number, count if action == "append" else min(count, capacity))
        number += count
        plain = np.concatenate((plain, block), axis=1)[:, -capacity:] if action == "append" else block
        (ring.append if action == "append" else ring.replace)(block)
        assert ring.nbytes <= 24 * max(16, 2 * len(ring), len(ring) + 2 * max(16, capacity // 16) + 16)
    assert len(ring) == plain.shape[1]
    np.testing.assert_array_equal(ring.all(), plain)
    np.testing.assert_array_equal(ring.last(cut), plain[:, max(0, plain.shape[1] - cut) :])
    begin = min(cut // 2, len(ring))
    np.testing.assert_array_equal(ring.part(begin, min(cut, len(ring))), plain[:, begin:cut])
    for row in range(3):
        np.testing.assert_array_equal(ring.row(row), plain[row])
    limit = number - cut
    found, expected = ring.newest_at_most(0, limit), plain[:, plain[0] <= limit]
    assert (found is None) == (not expected.shape[1])
    if found is not None:
        np.testing.assert_array_equal(found, expected[:, -1])


@pytest.mark.parametrize("at_once", [1, 7, 64, 300, 5000])
def test_what_rings_hold_alike_they_hold_once_however_it_came(at_once: int) -> None:
    one, other = Ring(3, 1024, (0,)), Ring(3, 1024, (0,))
    fill(one, 5000, 64)
    fill(other, 5000, at_once, change=1.0)
    for ring in (one, other):
        # A few blocks are settled at a time, once something has come after them.
        fill(ring, 8, 1)
    same = {id(row) for block in one._full for row in block} & {id(row) for block in other._full for row in block}
    own = {id(row) for block in other._full for row in block} - same
    assert len(own) == len(other._full), "only the row that differs is its own"
    assert len(same) == len(one._full) + 1, "and what is the same throughout is there once"


def test_nobody_can_write_to_shared_numbers_and_they_go_with_the_last_who_has_them() -> None:
    numbers = np.array([1.0, 7.0, -0.0])
    kept = interned(numbers)
    assert interned(numbers.copy()) is kept
    assert interned(np.array([1.0, 7.0, 0.0])) is not kept, "bit for bit"
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 2.0
    numbers[0] = 5.0
    assert kept[0] == 1.0
    before = len(interning._known)
    del kept
    gc.collect()
    assert len(interning._known) < before


def test_curves_on_the_same_steps_share_most_of_their_memory() -> None:
    steps, curves = np.arange(60_000, dtype=np.float64), [Series(str(index)) for index in range(10)]
    random = np.random.default_rng(0)
    for first in range(0, len(steps), 500):
        x = steps[first : first + 500]
        for index, curve in enumerate(curves):
            curve.extend(x, random.normal(size=500), x * 0.1)
            if (first // 500 + index) % 7 == 0:
                curve.recent(1)
    # Looked at at different times, as panes do: what lies in full blocks is shared all the same.
    rows = [
        row
        for curve in curves
        for ring in (curve._raw, *curve._pyramid._rings)
        for block in ring._full
        if isinstance(block, tuple)
        for row in block
    ]
    assert len(rows) > 1000
    assert len({id(row) for row in rows}) < 0.55 * len(rows)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_glibc_gives_back_what_large_arrays_take() -> None:
    assert give_back_arrays()
