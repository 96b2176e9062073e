"""Readers of structured logs, against files that the tools themselves have written."""

from __future__ import annotations

import json
import math
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ntstop.sources.logs.crc import masked_crc, masked_crcs
from ntstop.sources.logs.events import EventReader
from ntstop.sources.logs.jsonlines import JsonLinesReader
from ntstop.sources.logs.reader import Reader
from ntstop.sources.logs.table import TableReader
from ntstop.sources.logs.text import TextReader
from ntstop.sources.logs.trainer_state import TrainerStateReader
from ntstop.sources.logs.wandb import WandbReader

from .logs import EVENTS, GOLDEN, WANDB, curve, in_pieces, loaded, same

READERS = [EventReader, WandbReader, TableReader, JsonLinesReader, TrainerStateReader, TextReader]


def test_crc32c_has_the_check_value_of_the_standard() -> None:
    crc = 0xE3069283
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc(b"123456789") == masked
    import numpy as np

    assert masked_crcs(np.frombuffer(b"123456789" * 3, dtype=np.uint8).reshape(3, 9)).tolist() == [masked] * 3


def test_tensorboard_events_become_the_curves_of_a_run() -> None:
    session = loaded(EVENTS)
    loss, rate = curve(session, "loss"), curve(session, "lr")
    assert [x for x, _ in loss] == list(range(0, 60, 2)) == [x for x, _ in rate]
    assert loss[0][1] == pytest.approx(4.5168886) and math.isnan(dict(loss)[50])
    assert rate[0][1] == pytest.approx(1e-3)
    # A scalar of the new style is a tensor; a histogram and a text are none.
    assert [x for x, _ in curve(session, "val/loss")] == [0, 20, 40]
    assert set(session.state.primary.series) == {"loss", "lr", "val/loss", "step_time"}  # type: ignore[union-attr]
    assert [f.kind for f in session.findings] == ["nonfinite-loss"]


def test_wandb_offline_files_become_the_curves_of_a_run() -> None:
    session = loaded(WANDB)
    loss = curve(session, "loss")
    assert [x for x, _ in loss] == list(range(30)) and math.isnan(loss[25][1])
    assert [x for x, _ in curve(session, "val.loss")] == [0, 10, 20]
    assert session.entry is not None and session.entry.state == "finished"
    process = session.state.primary
    assert process is not None and process.hello is not None and process.hello.title == "offline-one"


def test_the_sparse_columns_of_lightning_are_absent_not_zero() -> None:
    session = loaded(GOLDEN / "lightning-metrics.csv")
    assert [x for x, _ in curve(session, "loss")] == list(range(0, 200, 5))
    assert [x for x, _ in curve(session, "val_loss")] == [45, 95, 145, 195]
    assert min(y for _, y in curve(session, "train_loss_epoch")) > 0


def test_a_trainer_state_has_its_steps_and_how_many_are_to_come() -> None:
    session = loaded(GOLDEN / "trainer_state.json")
    assert [x for x, _ in curve(session, "loss")] == list(range(10, 401, 10))
    assert {x for x, _ in curve(session, "eval_loss")} == {100, 200, 300, 400}
    process = session.state.primary
    assert process is not None and process.hello is not None and process.hello.total_steps == 500


def test_of_a_trainer_state_that_is_cut_off_the_complete_entries_are_used() -> None:
    whole = (GOLDEN / "trainer_state.json").read_bytes()
    rows = TrainerStateReader().feed(whole)
    assert same(TrainerStateReader().feed(whole[:2000]), rows[: len(TrainerStateReader().feed(whole[:2000]))])
    assert 5 < len(TrainerStateReader().feed(whole[:2000])) < len(rows)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("path", "make"), [(EVENTS, EventReader), (WANDB, WandbReader)])
def test_pieces_of_any_size_give_the_same_rows(path: Path, make: type[Reader], size: int) -> None:
    data = path.read_bytes()
    assert same(in_pieces(make(), data, size), make().feed(data))


def test_a_bad_checksum_in_the_middle_costs_one_event() -> None:
    data = bytearray(EVENTS.read_bytes())
    rows = EventReader().feed(bytes(data))
    at = data.find(b"train/loss", len(data) // 2)
    data[at + 2] ^= 0xFF
    reader = EventReader()
    assert len(reader.feed(bytes(data))) == len(rows) - 1
    assert reader.facts.corrupt == 1


def test_behind_a_damaged_length_reading_goes_on() -> None:
    data = bytearray(EVENTS.read_bytes())
    size = struct.unpack_from("<Q", data)[0]
    data[size + 16] ^= 0xFF
    reader = EventReader()
    assert len(reader.feed(bytes(data))) >= len(EventReader().feed(EVENTS.read_bytes())) - 1
    assert reader.facts.corrupt == 1


def test_a_wandb_file_with_a_flipped_bit_goes_on_at_the_next_record() -> None:
    data = bytearray(WANDB.read_bytes())
    rows = WandbReader().feed(bytes(data))
    data[len(data) // 2] ^= 1
    reader = WandbReader()
    assert len(rows) - 2 <= len(reader.feed(bytes(data))) <= len(rows)
    assert reader.facts.corrupt == 1


@pytest.mark.parametrize("make", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces=st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_make_a_reader_raise(make: type[Reader], pieces: list[bytes]) -> None:
    reader = make()
    for piece in pieces:
        reader.feed(piece)
    reader.end()


@pytest.mark.parametrize(("path", "make"), [(EVENTS, EventReader), (WANDB, WandbReader),
                                            (GOLDEN / "trainer_state.json", TrainerStateReader)])  # fmt: skip
@settings(max_examples=60, deadline=None)
@given(at=st.floats(0, 1), bits=st.integers(1, 255))
def test_no_damage_makes_a_reader_raise(path: Path, make: type[Reader], at: float, bits: int) -> None:
    data = bytearray(path.read_bytes())
    data[min(int(at * len(data)), len(data) - 1)] ^= bits
    make().feed(bytes(data))


def rows_of(text: str | bytes, delimiter: str = ",") -> tuple[list[tuple[int | None, dict[str, float]]], int]:
    reader = TableReader(delimiter)
    rows = reader.feed(text.encode() if isinstance(text, str) else text) + reader.end()
    return [(row.step, row.values) for row in rows], reader.facts.bad


def test_padded_headers_of_yolo() -> None:
    rows, bad = rows_of(
        "                  epoch,         train/box_loss,       lr/pg0\n                      1,      1.5,   0.01\n"
    )
    assert rows == [(1, {"train/box_loss": 1.5, "lr/pg0": 0.01})] and not bad


def test_losses_that_are_parts_of_one_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(
        "epoch,train/box_loss,train/cls_loss,val/box_loss,lr/pg0,lr/pg1\n1,1.5,2.5,3,.01,.02\n2,1,2,3,.01,.02\n"
    )
    session = loaded(path)
    assert curve(session, "loss") == [(1, 1.5), (2, 1.0)]
    assert curve(session, "loss/1") == [(1, 2.5), (2, 2.0)]
    assert curve(session, "val/box_loss") == [(1, 3.0), (2, 3.0)]
    assert curve(session, "lr/pg1") == [(1, 0.02), (2, 0.02)]
    assert session.entry is not None and "loss/1 = train/cls_loss" in session.entry.why


def test_numbers_as_they_are_written() -> None:
    text = 'step,a,b\n1,nan,NaN\n2,Infinity,-inf\n3,"1,234.5",1e-4\n4,3e,5\n5,,-\n'
    rows, bad = rows_of(text)
    assert math.isnan(rows[0][1]["a"]) and math.isnan(rows[0][1]["b"])
    assert rows[1:] == [(2, {"a": math.inf, "b": -math.inf}), (3, {"a": 1234.5, "b": 1e-4}), (4, {"b": 5.0})]
    assert bad == 1


def test_a_header_that_comes_again_and_lines_that_do_not_fit() -> None:
    rows, bad = rows_of("step,loss\n1,2\nstep,loss\n2,1\n3\n4,1,1\n5,0.5\n")
    assert [step for step, _ in rows] == [1, 2, 5] and bad == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, end: str) -> None:
    text = end.join(["step,loss,größe", "1,2.5,3", "2,2.25,4", ""])
    rows, bad = rows_of(text.encode(encoding))
    assert rows == [(1, {"loss": 2.5, "größe": 3.0}), (2, {"loss": 2.25, "größe": 4.0})] and not bad


def test_a_line_of_ten_megabytes_is_left_out() -> None:
    reader = TableReader()
    rows = in_pieces(reader, b"step,loss\n1,2\n" + b"7" * 10_000_000 + b",1\n3,4\n", 1 << 20)
    assert [row.step for row in rows] == [1, 3] and reader.facts.bad == 1


def test_a_torn_last_line_waits() -> None:
    reader = TableReader()
    assert [row.step for row in reader.feed(b"step,loss\n1,2\n2,1.")] == [1]
    assert [row.values for row in reader.feed(b"75\n")] == [{"loss": 1.75}]


def test_json_lines_nested_and_broken() -> None:
    reader = JsonLinesReader()
    lines = [
        json.dumps({"step": 5, "train": {"loss": 1.5}, "timestamp": 1.7e9}),
        "{broken",
        "[1]",
        '{"step": 6, "x": NaN}',
    ]
    rows = reader.feed("\n".join([*lines, ""]).encode())
    assert (rows[0].step, rows[0].values, rows[0].wall) == (5, {"train/loss": 1.5}, 1.7e9)
    assert rows[1].step == 6 and math.isnan(rows[1].values["x"]) and reader.facts.bad == 2


def test_a_log_is_known_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    for number, path in enumerate(sorted(GOLDEN.iterdir())):
        if path.suffix != ".md":
            shutil.copy(path, tmp_path / f"{number}.dat")
            assert len(curve(loaded(tmp_path / f"{number}.dat"), "loss")) >= 30


def test_roles_may_be_told(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss,mlm\n1,9,3\n2,8,2\n")
    assert curve(loaded(path), "loss") == [(1, 9), (2, 8)]
    told = loaded(path, {"mlm": "train_loss"})
    assert curve(told, "loss") == [(1, 3), (2, 2)]


def test_without_a_step_the_rows_are_counted_and_without_a_time_there_is_no_duration(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("loss,acc\n3,0.5\n2,0.5\n1,0.5\n")
    session = loaded(path)
    assert curve(session, "loss") == [(0, 3), (1, 2), (2, 1)]
    process = session.state.primary
    assert process is not None and "step_time" not in process.series and process.rate is None


def test_times_of_a_log_give_the_time_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(
        "".join(json.dumps({"step": 10 * n, "loss": 1.0, "_timestamp": 1.7e9 + n}) + "\n" for n in range(5))
    )
    assert curve(loaded(path), "step_time") == [(x, pytest.approx(0.1)) for x in (10, 20, 30, 40)]
