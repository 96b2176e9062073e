"""What one job logs into several TensorBoard folders is one run; several jobs in a folder are several."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ntstop.export.events import varint
from ntstop.session import Session
from ntstop.sources.logs.crc import masked_crc
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.source import LogSource
from ntstop_probe.wire import Record, ScalarBlock, Scalars, Steps, rows_of, unpack
from tests.helpers import wait_until

from .logs import curve, loaded

START = 1.7e9


def write(folder: Path, tag: str, steps: range, value: Callable[[int], float] = float, *, number: int = 0) -> Path:
    """An event file of one scalar, a step a second."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.17000{number:05d}.host"
    name = tag.encode()
    with path.open("ab") as file:
        for step in steps:
            told = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", value(step))
            summary = b"\x0a" + bytes([len(told)]) + told
            event = b"\x09" + struct.pack("<d", START + step) + b"\x10" + varint(step)
            event += b"\x2a" + bytes([len(summary)]) + summary
            length = struct.pack("<Q", len(event))
            file.write(length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event)))
    return path


def names(session: Session) -> set[str]:
    process = session.state.primary
    assert process is not None
    return set(process.series)


def test_what_add_scalars_and_add_hparams_write_beside_the_run_is_in_it(tmp_path: Path) -> None:
    for run in ("exp1", "exp2"):
        write(tmp_path / run, "Loss/train", range(100))
        write(tmp_path / run / "Acc_top_val", "Acc/top", range(0, 100, 10))
        write(tmp_path / run / "Acc_top_train", "Acc/top", range(0, 100, 10))
        write(tmp_path / run / "1796037503.52", "hparam/metric", range(1))
    assert {target.name for target in log_targets(tmp_path)} == {"exp1", "exp2"}
    session = loaded(tmp_path / "exp1")
    assert {"loss", "Acc/top/val", "Acc/top/train", "hparam/metric"} <= names(session)
    assert curve(session, "loss") == [(n, n) for n in range(100)]
    assert curve(session, "Acc/top/val") == [(n, n) for n in range(0, 100, 10)]


@pytest.mark.parametrize(("train", "val"), [("train", "validation"), ("train", "val"), ("", "eval"), ("Train", "Test")])
def test_training_and_validation_in_two_folders_are_one_run(tmp_path: Path, train: str, val: str) -> None:
    write(tmp_path / "job" / train, "epoch_loss", range(50))
    write(tmp_path / "job" / val, "epoch_loss", range(0, 50, 10), lambda step: step + 0.5)
    session = loaded(tmp_path)
    assert session.entry is not None
    assert session.entry.id == "job"
    assert curve(session, "loss") == [(n, n) for n in range(50)]
    assert curve(session, f"{val}/epoch_loss") == [(n, n + 0.5) for n in range(0, 50, 10)]


def test_an_evaluation_comes_behind_the_steps_before_it(tmp_path: Path) -> None:
    write(tmp_path / "train", "loss", range(200))
    write(tmp_path / "val", "loss", range(0, 200, 20))
    source = LogSource(log_targets(tmp_path)[0])
    source.live = False
    newest, seen = -1, []
    records: list[Record] = []
    while arrivals := source.poll(0.0):
        records += [arrival.record for arrival in arrivals]
    for record in records:
        if isinstance(record, Steps):
            assert record.step is not None
            newest = int(unpack(record.step)[-1] or 0)
        elif isinstance(record, Scalars | ScalarBlock):
            rows = rows_of(record) if isinstance(record, ScalarBlock) else [record]
            seen += [(row.step, newest) for row in rows]
    assert seen == [(n, n) for n in range(0, 200, 20)]


def test_folders_that_only_lie_in_each_other_stay_runs_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "loss", range(10))
    write(tmp_path / "run_a", "loss", range(10))
    write(tmp_path / "validation", "loss", range(10))
    write(tmp_path / "other" / "train", "loss", range(10))
    found = {target.path.relative_to(tmp_path).as_posix() for target in log_targets(tmp_path)}
    assert found == {".", "run_a", "other/train"}


def test_a_folder_that_comes_later_and_files_that_follow_each_other_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "train", "loss", range(50))
    write(tmp_path / "val", "loss", range(0, 50, 10))
    source = LogSource(log_targets(tmp_path)[0])
    with Session(source) as session:
        assert session.wait_for_end()
        write(tmp_path / "train", "loss", range(50, 100), number=1)
        write(tmp_path / "val", "loss", range(50, 100, 10))
        write(tmp_path / "test", "loss", range(90, 91))
        source.refresh()

        def all_there() -> bool:
            with session.lock:
                return {"loss", "val/loss", "test/loss"} <= names(session) and len(curve(session, "loss")) == 100

        wait_until(all_there)
        with session.lock:
            assert curve(session, "loss") == [(n, n) for n in range(100)]
            assert curve(session, "val/loss") == [(n, n) for n in range(0, 100, 10)]
            process = session.state.primary
            assert process is not None
            assert not [event for event in process.events if event.kind == "resume"]
