"""A block of steps as the rules see it: columns that are unpacked when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop_probe import wire

Values = list[float | None]
Floats = NDArray[np.float64]

_DTYPES: dict[str, np.dtype[Any]] = {kind: np.dtype("<" + kind) for kind in ("f4", "f8", "i4", "i8", "u1")}


class Columns(Mapping[str, Values]):
    """Columns by name, in the order of the names; a million steps have no time for lists that nobody reads."""

    def __init__(self, columns: Mapping[str, wire.Column]) -> None:
        self._columns = {name: columns[name] for name in sorted(columns)}
        self.names = tuple(self._columns)
        self._unpacked: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        values = self._unpacked.get(name)
        if values is None:
            values = self._unpacked[name] = wire.unpack(self._columns[name])
        return values

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def array(self, name: str) -> Floats | None:
        """A column as numbers, None where it is absent or holds less than every step."""
        return _array(self._columns.get(name))

    def filled(self, name: str) -> Floats | None:
        """A column as numbers, NaN where a step has none; None where the column is absent."""
        return filled(self._columns.get(name))

    @cached_property
    def table(self) -> Floats:
        """All columns as rows of numbers, in the order of `names`; NaN where a step has none."""
        columns = self._columns.values()
        kinds = {column.kind for column in columns}
        if len(kinds) == 1 and not any(column.present for column in columns):
            numbers = np.frombuffer(b"".join(column.data for column in columns), _DTYPES[kinds.pop()])
            return numbers.reshape(len(columns), -1).astype(np.float64)
        return np.array([filled(column) for column in columns])

    @cached_property
    def finite(self) -> bool:
        """Every step is there in every column, and every number of them is finite."""
        columns = self._columns.values()
        if not columns:
            return True
        if any(column.present for column in columns):
            return False
        if all(column.kind == "f8" for column in columns):
            numbers = np.frombuffer(b"".join(column.data for column in columns), "<f8")
            return bool(np.isfinite(numbers).all())
        return all(bool(np.isfinite(np.frombuffer(c.data, _DTYPES[c.kind])).all()) for c in columns)


class StepBlock:
    """A `wire.Steps` of sound columns. As lists these are `count` long, None where a step has no number; a column that
    is absent is None itself."""

    def __init__(self, record: wire.Steps, steps: Values | None) -> None:
        self.count = record.count
        self.ordinal = record.ordinal
        self.losses = Columns(record.losses)
        self.lrs = Columns(record.lrs)
        self.phases = Columns(record.phases)
        """Seconds by phase, None in steps that were not timed."""
        self.clocks = record.clocks
        self._record = record
        self._steps = steps

    @classmethod
    def of(cls, record: wire.Steps) -> StepBlock | None:
        """The block of a record; None when a column is not as long as the record says."""
        columns = (
            record.t, record.step, record.duration, record.grad_norm, record.loss_scale, record.skipped,
            record.optimizers, record.micro, record.zero_grads, record.clip, record.epoch, record.samples,
            record.tokens, *record.losses.values(), *record.lrs.values(), *record.phases.values(),
        )  # fmt: skip
        count = record.count
        bitmaps = (0, (count + 7) // 8)
        for column in columns:
            if column is not None and (
                len(column.data) != count * wire.ITEM_SIZES[column.kind] or len(column.present) not in bitmaps
            ):
                return None
        if count <= 0:
            return None
        return cls(record, None if record.step is None else wire.unpack(record.step))

    @property
    def numbered(self) -> bool:
        """The job numbers its steps itself."""
        return self._steps is not None

    @cached_property
    def x(self) -> Sequence[int]:
        """The step axis: the job's global step where known, else the ordinal."""
        ordinals = range(self.ordinal, self.ordinal + self.count)
        if self._steps is None:
            return ordinals
        return [ordinal if step is None else int(step) for ordinal, step in zip(ordinals, self._steps, strict=True)]

    @cached_property
    def duration(self) -> Values | None:
        """Seconds."""
        return _values(self._record.duration)

    @cached_property
    def durations(self) -> Floats | None:
        """The same as numbers; None where it is absent or lacks a step."""
        return _array(self._record.duration)

    @cached_property
    def seconds(self) -> Floats | None:
        """The duration of each step, NaN in those that were not timed; None where none was."""
        return filled(self._record.duration)

    @cached_property
    def grad_norm(self) -> Values | None:
        """The global norm."""
        return _values(self._record.grad_norm)

    @cached_property
    def grad_norms(self) -> Floats | None:
        """The same as numbers; None where it is absent or lacks a step."""
        return _array(self._record.grad_norm)

    @cached_property
    def grad_norm_finite(self) -> bool:
        """No gradient norm of the block is NaN or Inf; those that are missing are not."""
        column = self._record.grad_norm
        return column is None or bool(np.isfinite(np.frombuffer(column.data, _DTYPES[column.kind])).all())

    @property
    def scaled(self) -> bool:
        """Whether a loss scale is told."""
        return self._record.loss_scale is not None

    @cached_property
    def skipped(self) -> Values | None:
        """1 where the optimizer was kept from stepping."""
        return _values(self._record.skipped)

    @cached_property
    def t(self) -> Values:
        """The writer's monotonic seconds at the end of each step."""
        return wire.unpack(self._record.t)

    @cached_property
    def micro(self) -> Values | None:
        """Backward passes in the step."""
        return _values(self._record.micro)

    @cached_property
    def zero_grads(self) -> Values | None:
        """Calls of `zero_grad` in the step."""
        return _values(self._record.zero_grads)

    @cached_property
    def optimizers(self) -> Values | None:
        """Optimizer steps in the step."""
        return _values(self._record.optimizers)

    @cached_property
    def clip(self) -> Values | None:
        """Clip coefficient, 1 where nothing was clipped."""
        return _values(self._record.clip)

    @cached_property
    def loss_scale(self) -> Values | None:
        """What the loss was multiplied by before backward."""
        return _values(self._record.loss_scale)

    @cached_property
    def epoch(self) -> Values | None:
        """Passes over the data, from 0."""
        return _values(self._record.epoch)

    @cached_property
    def epochs(self) -> Floats | None:
        """The same as numbers, NaN where one is missing; None where there are none."""
        return filled(self._record.epoch)

    @cached_property
    def samples(self) -> Values | None:
        """Samples seen, cumulative."""
        return _values(self._record.samples)

    @cached_property
    def samples_seen(self) -> Floats | None:
        """The same as numbers, NaN where one is missing; None where there are none."""
        return filled(self._record.samples)

    @cached_property
    def tokens(self) -> Values | None:
        """Tokens seen, cumulative."""
        return _values(self._record.tokens)

    @cached_property
    def rate(self) -> Values | None:
        """Largest learning rate of all groups."""
        if self.rates is not None:
            return list(self.rates.tolist())
        columns = [wire.unpack(column) for column in self._record.lrs.values()]
        return _largest(columns) if columns else None

    @cached_property
    def rates(self) -> Floats | None:
        """The same as numbers; None where there is none, or one lacks a step or is not finite."""
        arrays = [_array(column) for column in self._record.lrs.values()]
        known = [array for array in arrays if array is not None]
        if not known or len(known) < len(arrays):
            return None
        largest: Floats = known[0] if len(known) == 1 else np.maximum.reduce(known)
        return largest if np.isfinite(largest).all() else None


def _values(column: wire.Column | None) -> Values | None:
    return None if column is None else wire.unpack(column)


def _array(column: wire.Column | None) -> Floats | None:
    if column is None or column.present:
        return None
    return np.frombuffer(column.data, _DTYPES[column.kind]).astype(np.float64, copy=False)


def filled(column: wire.Column | None) -> Floats | None:
    """The numbers of a column, NaN where one is missing."""
    if column is None:
        return None
    values: Floats = np.frombuffer(column.data, _DTYPES[column.kind]).astype(np.float64)
    if column.present:
        there = np.unpackbits(np.frombuffer(column.present, np.uint8), count=len(values), bitorder="little")
        values[there == 0] = np.nan
    return values


def _largest(rates: Iterable[Values]) -> Values:
    return [max((rate for rate in row if rate is not None), default=None) for row in zip(*rates, strict=True)]
