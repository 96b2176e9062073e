"""Rows that are read as columns are the rows that are read one by one, whatever the table holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.export.events import frame, scalar_frames, text_event, version_event
from ntstop.run.state import RunState
from ntstop.sources.logs.assembler import Assembler
from ntstop.sources.logs.batch import Batch
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.events import EventReader
from ntstop.sources.logs.reader import Row
from ntstop.sources.logs.source import LogSource
from ntstop.sources.logs.table import TableReader

from .logs import drained, same

ODD = ["nan", "NaN", "Infinity", "-inf", "1,234.5",
       '"1,234.5"', "3e", "1_0", "", "", " ", "None", "text", "a_b", "#", "é",
       "2024-01-01 00:00:00", "1e400", "-", "0x10", "true"]  # fmt: skip
STEPS = ["0", "1", "1", "1.0", "7", "3", "", "nan", "x", "1e9", "99999999999999999999", "12"]
HEADERS = ["step,loss,acc", "epoch, loss,timestamp", "loss,lr,val_loss", "step,timestamp,loss", ",loss,lr"]
numbers = st.floats(-1e9, 1e9).map(str)
plain = st.lists(st.tuples(numbers, numbers), max_size=40).map(
    lambda rows: [f"{step},{a},{b}" for step, (a, b) in enumerate(rows)]
)
strange = st.lists(
    st.lists(st.sampled_from(ODD) | numbers | st.sampled_from(STEPS), min_size=2, max_size=4).map(",".join)
)
tables = st.tuples(
    st.sampled_from(HEADERS), plain, strange, plain, st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans()
)


def text_of(table: tuple[str, list[str], list[str], list[str], str, bool]) -> bytes:
    header, before, odd, after, end, again = table
    return end.join([header, *before, *odd, *([header] if again else []), *after, ""]).encode()


def batches(reader: TableReader, data: bytes, size: int) -> list[Row]:
    rows: list[Row] = []
    for at in range(0, len(data), size):
        found = reader.feed_batch(data[at : at + size])
        rows += found.rows() if isinstance(found, Batch) else found
    return rows


@settings(max_examples=300, deadline=None)
@given(tables, st.integers(1, 400))
def test_a_table_is_the_same_line_by_line_and_in_blocks(table: object, size: int) -> None:
    data = text_of(table)  # type: ignore[arg-type]
    slow, fast = TableReader(","), TableReader(",")
    assert same(batches(fast, data, size), slow.feed(data))
    assert same(fast.end(), slow.end()) and fast.facts.bad == slow.facts.bad


values = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf")])
rows = st.lists(st.tuples(st.integers(1, 3), values, values, values, values), min_size=1, max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-30, 5), st.booleans(), rows), min_size=1, max_size=4))
def test_rows_and_batches_become_the_same_curves(parts: list[tuple[int, bool, list[tuple[object, ...]]]]) -> None:
    one, many = RunState(), RunState()
    slow, fast = Assembler(), Assembler()
    step = 0
    for jump, timed, found in parts:
        step += jump
        batch = batch_of(step, found, timed)
        step = int(batch.steps[-1]) if batch.steps is not None and batch.count else step
        for record in slow.add(list(batch.rows())):
            one.apply(1, record)
        for record in fast.add_batch(batch):
            many.apply(1, record)
    for state, assembler in ((one, slow), (many, fast)):
        for record in assembler.flush():
            state.apply(1, record)
    assert slow.mapping == fast.mapping
    assert one.processes.keys() == many.processes.keys()
    for writer, process in one.processes.items():
        other = many.processes[writer]
        assert process.series.keys() == other.series.keys()
        for name, series in process.series.items():
            for left, right in zip(series.recent(4096), other.series[name].recent(4096), strict=True):
                np.testing.assert_array_equal(left, right)
        assert [event.step for event in process.events] == [event.step for event in other.events]


def batch_of(start: int, found: list[tuple[object, ...]], timed: bool) -> Batch:
    steps = start + np.cumsum([row[0] for row in found], dtype=np.int64)
    columns = {}
    for index, name in enumerate(("loss", "acc", "lr", "grad_norm"), 1):
        cells = [row[index] for row in found]
        mask = np.array([cell is not None for cell in cells])
        if mask.any():
            numbers = np.array([0.0 if cell is None else cell for cell in cells], np.float64)
            columns[name] = (numbers, None if mask.all() else mask)
    batch = Batch(len(found), steps, 1.7e9 + 0.5 * steps if timed else None, columns)
    filled = np.zeros(len(found), bool)
    for _, mask_ in columns.values():
        filled |= True if mask_ is None else mask_
    return batch.part(filled)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_a_large_table_in_any_encoding_is_read_whole(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "m.csv"
    lines = [f"{step},{3 / (step + 1):.6f},é" for step in range(20_000)]
    path.write_bytes("\r\n".join(["step,loss,größe", *lines, ""]).encode(encoding))
    state = RunState()
    for arrival in drained(LogSource(log_targets(path)[0])):
        state.apply(arrival.writer, arrival.record)
    assert state.primary is not None and state.primary.series["loss"].count == 20_000


tags = st.sampled_from(["loss", "lr", "acc", "a/very/long/name" * 10, "é"])
events = st.lists(st.tuples(st.integers(0, 3), st.lists(tags, min_size=1, max_size=4), st.integers(0, 9)), max_size=30)


@settings(max_examples=100, deadline=None)
@given(events, st.sampled_from([0, 120, 2**14 - 5, 2**40]), st.booleans(), st.integers(50, 4000))
def test_events_are_the_same_one_by_one_and_in_blocks(
    found: list[tuple[int, list[str], int]], start: int, odd: bool, size: int
) -> None:
    step, data = start, frame(version_event(1.0))
    for jump, names, value in found:
        step += jump
        for name in names:
            value_ = float("nan") if value == 9 else value / 7
            data += b"".join(scalar_frames(name, np.array([step]), np.array([1.7e9 + step]), np.array([value_], "f4")))
        if odd and value == 3:
            data += frame(text_event("note", step, 1.0, "words"))
    curves = []
    for batched in (False, True):
        reader, assembler, state = EventReader(), Assembler(), RunState()
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            rows_ = reader.feed_batch(piece) if batched else reader.feed(piece)
            for record in assembler.add_batch(rows_) if isinstance(rows_, Batch) else assembler.add(rows_):
                state.apply(1, record)
        for record in assembler.flush():
            state.apply(1, record)
        process = state.primary
        curves.append({name: series.recent(4096)[:2] for name, series in process.series.items()} if process else {})
    one, many = curves
    assert one.keys() == many.keys()
    for name, points in one.items():
        for left, right in zip(points, many[name], strict=True):
            np.testing.assert_array_equal(left, right)
