"""TensorBoard's usual events, thousands at once: those of a time, a step, and one tag with one float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Floats, Mask

Bytes = NDArray[np.uint8]
_STEP_AT = 10
_LONGEST_STEP = 9
"""Bytes of a step that is not negative."""
_SHORT = 129
"""Bytes of a summary whose lengths are one byte each, with its head."""


def read_events(events: list[bytes]) -> tuple[Batch | None, list[bytes]]:
    """The rows of the usual events, one a step, and the events that are none. None: the steps do not keep apart."""
    by_length: dict[int, list[int]] = {}
    for index, event in enumerate(events):
        by_length.setdefault(len(event), []).append(index)
    count = len(events)
    steps, walls, values = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
    tags = np.full(count, -1)
    names: dict[bytes, int] = {}
    for length, places in by_length.items():
        indices = np.array(places)
        rows = np.frombuffer(b"".join([events[index] for index in places]), np.uint8).reshape(-1, length)
        for size in range(1, _LONGEST_STEP + 1):
            chosen = _usual(rows, size)
            if chosen is None or not chosen.any():
                continue
            part, where = rows[chosen], indices[chosen]
            for digit in range(size):
                steps[where] |= (part[:, _STEP_AT + digit].astype(np.int64) & 0x7F) << (7 * digit)
            walls[where] = np.ascontiguousarray(part[:, 1:9]).view("<f8")[:, 0]
            values[where] = np.ascontiguousarray(part[:, -4:]).view("<f4")[:, 0]
            tags[where] = _tags(part[:, _STEP_AT + size + 6 : -5], names)
    others = [events[index] for index in np.flatnonzero(tags < 0).tolist()]
    there = tags >= 0
    batch = _by_step(steps[there], walls[there], values[there], tags[there], [*names])
    return batch, others


def _usual(rows: Bytes, size: int) -> Mask | None:
    """Which of the events of one length are usual ones whose step has `size` bytes."""
    length = rows.shape[1]
    at = _STEP_AT + size
    left = length - at
    name = left - 11
    if left > _SHORT or name < 1:
        return None
    mask: Mask = (rows[:, 0] == 0x09) & (rows[:, 9] == 0x10) & (rows[:, at - 1] < 0x80)
    mask &= (rows[:, _STEP_AT : at - 1] >= 0x80).all(axis=1)
    for place, byte in ((at, 0x2A), (at + 1, left - 2), (at + 2, 0x0A), (at + 3, left - 4), (at + 4, 0x0A),
                        (at + 5, name), (length - 5, 0x15)):  # fmt: skip
        mask &= rows[:, place] == byte
    return mask


def _tags(part: Bytes, names: dict[bytes, int]) -> NDArray[np.int64]:
    """The number of each tag; new ones are added to `names`."""
    width = part.shape[1]
    raw = np.ascontiguousarray(part).view(f"V{width}")[:, 0]
    found, inverse = np.unique(raw, return_inverse=True)
    numbers = np.array([names.setdefault(tag.tobytes(), len(names)) for tag in found], np.int64)
    return numbers[inverse]


def _by_step(
    steps: NDArray[np.int64], walls: Floats, values: Floats, tags: NDArray[np.int64], names: list[bytes]
) -> Batch | None:
    """One row for the events of one step that follow each other; None where a tag comes twice in one."""
    if not len(steps):
        return Batch(0, steps, walls, {})
    row = np.concatenate(([0], np.cumsum(steps[1:] != steps[:-1])))
    last = np.append(np.flatnonzero(np.diff(row)), len(row) - 1)
    count = len(last)
    columns: dict[str, tuple[Floats, Mask | None]] = {}
    for number, name in enumerate(names):
        mine = tags == number
        rows = row[mine]
        if (np.diff(rows) == 0).any():
            return None
        mask = np.zeros(count, np.bool_)
        mask[rows] = True
        numbers = np.zeros(count)
        numbers[rows] = values[mine]
        columns[name.decode("utf-8", "replace")] = numbers, None if mask.all() else mask
    return Batch(count, steps[last], walls[last], columns) if len(columns) == len(names) else None
