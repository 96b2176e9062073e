"""What a job logs is the same whether it comes row by row or in blocks: curves, findings, a stretch read again."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from ntstop.diagnosis.engine import Engine
from ntstop.run.state import RunState
from ntstop.sources.logs.assembler import Assembler
from ntstop.sources.logs.table import TableReader
from ntstop.sources.playing import time_of
from ntstop.sources.soundness import is_sound
from ntstop.sources.stretch import read_stretch, span_of
from ntstop_probe import wire
from ntstop_probe.wire import Column, Record, ScalarBlock, Scalars, in_blocks

from .records import Script, hello
from .writer import EPOCH, Writer, column, steps

EVERY = 50
"""Steps between two evaluations."""
STEPS = 30 * EVERY


def logged(start: int, count: int) -> list[Scalars]:
    """What is logged in each step, and evaluations that overfit; one in ten rows says no step."""
    rows = []
    for n in range(start, start + count):
        values = {"accuracy": n / STEPS, "loss": falling(n), "odd": math.nan if n % 7 == 0 else math.inf}
        if n % EVERY == 0:
            values["val/loss"] = 1.0 + 0.01 * (n / EVERY - 8) ** 2
        rows.append(Scalars(EPOCH + 0.1 * n, None if n % 10 == 0 else n, n, values))
    return rows


def falling(step: int) -> float:
    return 0.2 + 2.0 * math.exp(-step / EVERY / 8)


def run(*, blocks: bool) -> list[Record]:
    script = Script(block=20, t=EPOCH)
    script.add(hello())
    for start in range(0, STEPS, EVERY):
        script.steps([falling(n) for n in range(start, start + EVERY)])
        rows = logged(start, EVERY)
        script.add(*(in_blocks(rows) if blocks else rows))
    return script.records


def test_curves_of_blocks_are_those_of_rows() -> None:
    states = {}
    for blocks in (False, True):
        state = states[blocks] = RunState()
        for record in run(blocks=blocks):
            state.apply(1, record)
        assert state.primary is not None
        assert not state.primary.misfits
    one, other = states[False].primary, states[True].primary
    assert one is not None
    assert other is not None
    assert one.series.keys() == other.series.keys()
    assert {"val/loss", "accuracy", "logged/loss", "odd"} <= one.series.keys()
    for name, series in one.series.items():
        for mine, theirs in zip(series.recent(STEPS), other.series[name].recent(STEPS), strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_findings_of_blocks_are_those_of_rows() -> None:
    told = []
    for blocks in (False, True):
        engine = Engine()
        for record in run(blocks=blocks):
            engine.observe(1, record)
        told.append([repr(finding) for finding in engine.findings])
    assert any("overfit" in finding for finding in told[0])
    assert told[0] == told[1]


def test_a_block_knows_its_time_and_its_steps() -> None:
    (block,) = in_blocks(logged(100, 30))
    assert isinstance(block, ScalarBlock)
    assert time_of(block) == EPOCH + 12.9
    assert span_of(block) == (100.0, 129.0)
    assert is_sound(block)


def test_blocks_that_make_no_sense_are_left_out() -> None:
    t, whole, values = column("f8", [1.0, 2.0]), column("i8", [0, 1]), {"a": column("f8", [1.0, 2.0])}
    assert is_sound(ScalarBlock(2, t, whole, whole, values))
    for odd in (
        ScalarBlock(0, t, whole, None, values),
        ScalarBlock(3, t, whole, None, values),
        ScalarBlock(2, column("f8", [1.0, math.nan]), whole, None, values),
        ScalarBlock(2, column("f8", [1.0, 1e30]), whole, None, values),
        ScalarBlock(2, column("f4", [1.0, 2.0]), whole, None, values),
        ScalarBlock(2, t, column("f8", [0.0, 1.0]), None, values),
        ScalarBlock(2, t, column("i8", [0, None]), None, values),
        ScalarBlock(2, t, whole, column("i8", [1]), values),
        ScalarBlock(2, t, Column("i8", b"123"), None, values),
    ):
        assert not is_sound(odd)


def test_a_column_of_a_block_that_does_not_fit_costs_that_column_alone() -> None:
    state = RunState()
    values = {"a": column("f8", [1.0]), "b": column("f8", [1.0, 2.0])}
    state.apply(1, ScalarBlock(2, column("f8", [1.0, 2.0]), column("i8", [0, 1]), None, values))
    assert state.primary is not None
    assert "a" not in state.primary.series
    assert state.primary.series["b"].count == 2
    assert state.primary.misfits == 1


def test_a_stretch_of_a_recording_has_the_blocks_that_reach_into_it() -> None:
    writer = Writer()
    for start in range(0, 100, 20):
        writer.send(steps(start, [1.0] * 20), *in_blocks(logged(start, 20)))
    writer.close()
    found = [record for records in read_stretch(writer.folder, 45, 55) for record in records]
    (block,) = [record for record in found if isinstance(record, ScalarBlock)]
    assert span_of(block) == (40.0, 59.0)


def test_an_export_of_blocks_is_that_of_rows(home: Path, tmp_path: Path) -> None:
    tables = []
    for run_id, blocks in (("rows", False), ("blocks", True)):
        writer = Writer(run_id)
        rows = logged(0, 100)
        writer.send(steps(0, [1.0] * 100, at=1000), *(in_blocks(rows) if blocks else rows))
        writer.exit()
        writer.close()
        out = tmp_path / f"{run_id}.csv"
        command = [
            sys.executable,
            "-m",
            "ntstop",
            "export",
            run_id,
            "--to",
            "csv",
            "--table",
            "scalars",
            "-o",
            str(out),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        with out.open() as file:
            found = [(row["step"], row["name"], row["value"]) for row in csv.DictReader(file)]
        tables.append(found)
    # Four names a row, in whichever order of a row's names.
    assert sorted(tables[0]) == sorted(tables[1])
    assert ("1010", "accuracy", repr(10 / STEPS)) in tables[1]
    assert ("1", "odd", "inf") in tables[1]
    assert len(tables[1]) == 302


def test_columns_of_a_log_without_a_role_are_blocks_and_evaluations_come_behind_their_step(tmp_path: Path) -> None:
    lines = ["step,train_loss,temperature,val_loss"]
    lines += [f"{n},{3 - n / 500},{n % 9},{2.5 if n % 100 == 0 else ''}" for n in range(1000)]
    reader, assembler = TableReader(), Assembler()
    batch = reader.feed_batch("\n".join([*lines, ""]).encode())
    assert not isinstance(batch, list)
    records = [*assembler.add_batch(batch), *assembler.flush()]
    assert len(records) < 50
    newest = -1
    evaluated: list[tuple[int | None, int]] = []
    for record in records:
        if isinstance(record, wire.Steps):
            assert record.step is not None
            newest = int(wire.unpack(record.step)[-1] or 0)
        elif isinstance(record, ScalarBlock | Scalars):
            rows = wire.rows_of(record) if isinstance(record, ScalarBlock) else [record]
            evaluated += [(row.step, newest) for row in rows if "val_loss" in row.values]
    assert evaluated == [(n, n) for n in range(0, 1000, 100)]
