"""Read back what a probe has written, in the tests' own few lines rather than with the monitor's code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.wire import (
    Event,
    Frame,
    FrameReader,
    Record,
    ScalarBlock,
    Scalars,
    Steps,
    decode_batch,
    rows_of,
    unpack,
)


def process_folders(home: Path) -> list[Path]:
    """Every process folder under `home`."""
    return sorted(path.parent for path in home.glob(f"runs/*/*/{registry.PROCESS_FILE}"))


def the_folder(home: Path) -> Path:
    """The folder of the one process that has run under `home`."""
    (folder,) = process_folders(home)
    return folder


def frames_of(folder: Path, stream: str = "*") -> list[Frame]:
    """The frames of a process folder in the order of their sequence numbers. A damaged file fails the test."""
    frames: list[Frame] = []
    for path in sorted(folder.glob(f"{stream}-*.nts")):
        reader = FrameReader()
        frames += reader.feed(path.read_bytes()) + reader.finish()
        assert (reader.corrupt, reader.newer) == (0, 0), path
    return sorted(frames, key=lambda frame: frame.sequence)


def records_of(frames: Iterable[Frame]) -> list[Record]:
    """All records of `frames`, in order; an undecodable one fails the test."""
    records: list[Record] = []
    for frame in frames:
        decoded, skipped = decode_batch(frame.payload)
        assert skipped == 0
        records += decoded
    return records


def records(folder: Path) -> list[Record]:
    """Everything a process has recorded."""
    return records_of(frames_of(folder))


def events(folder: Path) -> list[Event]:
    """The events that a process has recorded."""
    return [record for record in records(folder) if isinstance(record, Event)]


def step_ordinals(items: Iterable[Record]) -> list[int]:
    """The ordinal of every step in `items`."""
    return [item.ordinal + index for item in items if isinstance(item, Steps) for index in range(item.count)]


def logged(items: Iterable[Record]) -> list[Scalars]:
    """What the job has logged, row by row."""
    found: list[Scalars] = []
    for item in items:
        if isinstance(item, ScalarBlock):
            found += rows_of(item)
        elif isinstance(item, Scalars):
            found.append(item)
    return found


def losses(items: Iterable[Record]) -> list[float | int | None]:
    """The loss of every step in `items`; None where a block has none."""
    found: list[float | int | None] = []
    for item in items:
        if isinstance(item, Steps):
            column = item.losses.get("loss")
            found += unpack(column) if column is not None else [None] * item.count
    return found
