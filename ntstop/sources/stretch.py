"""A stretch of a recording, read again: what memory keeps only in coarse buckets is all there on disk."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ntstop_probe import registry
from ntstop_probe.wire import FrameReader, Hello, Layers, Record, ScalarBlock, Scalars, Schema, Steps

from . import columns
from .base import SourceError
from .decoding import Decoder
from .segments import CHUNK, segments

STREAMS = ("layers", "core")
"""Layers before the steps that they belong to, as in the recording."""


def read_stretch(folder: Path, x0: float, x1: float) -> Iterator[list[Record]]:
    """The introductions, and all steps, layers and logged numbers with x0 <= x <= x1, of a process folder.

    A list for every megabyte that was read, with the streams one after the other and each in its order. Only segments
    that may hold some of the stretch are read; of a block of steps that begins or ends in it all come. What cannot be
    read is left out.
    """
    for stream in STREAMS:
        for number in _candidates(folder, stream, x0, x1):
            for records in _records(folder / registry.segment_name(stream, number)):
                yield [record for record in records if _belongs(record, x0, x1)]


def _candidates(folder: Path, stream: str, x0: float, x1: float) -> list[int]:
    """Segments whose first steps, and those of the next, say that they may reach into the stretch."""
    try:
        numbers = segments(folder, stream)
    except SourceError:
        return []
    starts = [_first_x(folder / registry.segment_name(stream, number)) for number in numbers]
    ends = [*starts[1:], *([math.inf] if starts else [])]
    return [
        number
        for number, start, end in zip(numbers, starts, ends, strict=True)
        # Where the steps go back from one segment to the next, nobody knows how far they went in it.
        if end < start or (start <= x1 and end >= x0)
    ]


def _first_x(path: Path) -> float:
    """The first step that a segment tells of; minus infinity where its first megabyte tells of none."""
    for records in itertools.islice(_records(path), 1):
        for record in records:
            if (span := span_of(record)) is not None:
                return span[0]
    return -math.inf


def _records(path: Path) -> Iterator[list[Record]]:
    reader, decoder = FrameReader(), Decoder()
    try:
        descriptor = registry.open_file(path)
    except OSError:
        return
    try:
        for offset in itertools.count(0, CHUNK):
            data = os.pread(descriptor, CHUNK, offset)
            if not data:
                return
            yield [arrival.record for arrival in decoder.arrivals(reader.feed(data))]
    except OSError:
        return
    finally:
        os.close(descriptor)


def _belongs(record: Record, x0: float, x1: float) -> bool:
    if isinstance(record, Hello | Schema):
        return True
    span = span_of(record)
    return span is not None and span[0] <= x1 and span[1] >= x0


def span_of(record: Record) -> tuple[float, float] | None:
    """First and last step of a record that tells of steps; None for any other, and for one that makes no sense."""
    if isinstance(record, Layers | Scalars):
        x = float(record.ordinal if record.step is None else record.step)
        return x, x
    if isinstance(record, ScalarBlock):
        return _span_of_rows(record)
    if not isinstance(record, Steps) or record.count <= 0:
        return None
    first, last = float(record.ordinal), float(record.ordinal + record.count - 1)
    if record.step is not None:
        try:
            steps = columns.to_floats(record.step)
        except ValueError:
            return None
        known = steps[steps == steps]
        if len(known):
            first, last = float(known.min()), float(known.max())
    return first, last


def _span_of_rows(block: ScalarBlock) -> tuple[float, float] | None:
    try:
        x = columns.to_floats(block.ordinal)
        if block.step is not None:
            steps = columns.to_floats(block.step)
            x = np.where(np.isnan(steps), x, steps)
    except ValueError:
        return None
    return (float(x.min()), float(x.max())) if len(x) else None
