"""Rows of a log to the records of the wire: what has a role becomes `Steps`, all else `Scalars`.

Rows that follow each other with one step are one step. The training loss is "loss", the learning rate "lr", and so on,
so that state, diagnosis and screens need not know where the numbers come from. A role that several names could have
goes to the surest of them; what has lost it, or never had one, keeps its own name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import Column, Event, Record, Scalars, Steps, pack

from .batch import Batch, Floats, Mask
from .batch import column as batched
from .reader import Row
from .roles import COMPONENT, Guess, Role, Roles

SOURCE = "log"
"""`step_source` of what is read from a log."""
_BLOCK = 256
_BIG_BLOCK = 2048
"""Steps of a block, where they come one by one and where they come as columns."""
_FEW = 8
"""Rows of which it makes no difference."""
_ROOTS = 4
"""Losses of one step that are told apart; further ones keep their own names only."""
_COLUMNS: dict[Role, str] = {
    "grad_norm": "grad_norm",
    "step_time": "duration",
    "epoch": "epoch",
    "tokens": "tokens",
    "samples": "samples",
    "loss_scale": "loss_scale",
}
"""Roles whose column in a `Steps` has one series."""
_TRAINING: tuple[Role, ...] = ("train_loss", "lr", "grad_norm", "step_time")
"""A row with one of these is a training step; an epoch beside an evaluation is none."""
_LONGEST_STEP = 1e7
"""Seconds; a longer distance between two times of a log is no step time."""


@dataclass(slots=True)
class _Step:
    """One step as it is put together."""

    step: int
    wall: float | None
    losses: dict[str, float] = field(default_factory=dict)
    lrs: dict[str, float] = field(default_factory=dict)
    columns: dict[str, float] = field(default_factory=dict)
    training: bool = False


class Assembler:
    """Puts the rows of one run together. `add` and `flush` return records in order."""

    def __init__(self, roles: Roles | None = None) -> None:
        self._roles = roles or Roles()
        self._series: dict[str, tuple[str, float, bool] | None] = {}
        """Name in the log to (column, factor, training) of what it goes to; None: its own name."""
        self._loss_rank = 99
        self._taken: dict[str, str] = {}
        """Column to the name in the log that it comes from."""
        self._open: _Step | None = None
        self._block: list[_Step] = []
        self._records: list[Record] = []
        self._ordinal = 0
        self._rows = 0
        self._newest: int | None = None
        """The last step that the log has named."""
        self._last: tuple[int, float] | None = None
        """Step and time of the training step before, to take the step time from."""
        self._first: int | None = None
        self._before: tuple[int, int] | None = None
        """The first training step, and the last two."""

    @property
    def mapping(self) -> dict[str, str]:
        """Series to the name of the log's metric, of the roles that were found."""
        return dict(self._taken)

    @property
    def names(self) -> list[str]:
        """The names of the log's metrics, in the order in which they came."""
        return list(self._series)

    @property
    def told(self) -> set[str]:
        """The names whose roles the user has said."""
        return self._roles.named

    @property
    def counted(self) -> bool:
        """Whether the log names no steps, so that its rows are counted."""
        return self._newest is None and self._rows > 0

    @property
    def pending(self) -> bool:
        """A step is open that a further row might belong to."""
        return self._open is not None

    def add(self, rows: Iterable[Row]) -> list[Record]:
        """Records that are complete with these rows; the last step stays open."""
        for row in rows:
            self._add(row)
        return self._take()

    def add_batch(self, batch: Batch) -> list[Record]:
        """The same for rows that come as columns; those whose steps rise are never looked at one by one."""
        count = batch.count
        steps = batch.steps
        if steps is None and self._newest is None:
            steps = np.arange(self._rows, self._rows + count)
        if count < _FEW or steps is None or not self._rises(steps):
            return self.add(batch.rows())
        # The last row stays open: what comes next may belong to it.
        self._close_step()
        self._close_block()
        self._add_columns(batch.part(slice(0, count - 1)), steps[:-1])
        self._newest = None if batch.steps is None else int(steps[-2])
        self._rows += count - 1
        self._add(batch.row(count - 1))
        return self._take()

    def _rises(self, steps: NDArray[np.int64]) -> bool:
        before = self._open.step if self._open is not None else self._before[1] if self._before else None
        return bool((steps[1:] > steps[:-1]).all()) and (before is None or int(steps[0]) > before)

    def _add_columns(self, batch: Batch, steps: NDArray[np.int64]) -> None:
        named = sorted(batch.values.items(), key=lambda item: 0 if item[1][1] is None else int(np.argmax(item[1][1])))
        named = [(name, found) for name, found in named if found[1] is None or found[1].any()]
        for name, _ in named:
            if name not in self._series:
                self._place(name)
        others: list[tuple[str, Floats, Mask | None]] = []
        targets: dict[str, tuple[Floats, Mask | None]] = {}
        training = np.zeros(batch.count, np.bool_)
        for name, (numbers, mask) in named:
            target = self._series[name]
            if target is None:
                others.append((name, numbers, mask))
                continue
            column, factor, trains = target
            targets[column] = numbers * factor, mask
            if trains:
                training |= True if mask is None else mask
        self._scalars(batch, steps, others)
        if training.any():
            walls = np.full(batch.count, math.nan) if batch.walls is None else batch.walls
            chosen = {name: (numbers[training], None if mask is None else mask[training])
                      for name, (numbers, mask) in targets.items()}  # fmt: skip
            self._add_steps(steps[training], walls[training], chosen)

    def _scalars(self, batch: Batch, steps: NDArray[np.int64], others: list[tuple[str, Floats, Mask | None]]) -> None:
        """One record a row of what has no role."""
        if not others:
            return
        rows: list[dict[str, float]] = [{} for _ in range(batch.count)]
        for name, numbers, mask in others:
            there = range(batch.count) if mask is None else np.flatnonzero(mask).tolist()
            plain = numbers.tolist()
            for index in there:
                rows[index][name] = plain[index]
        walls = [math.nan] * batch.count if batch.walls is None else batch.walls.tolist()
        ordinal = max(0, self._ordinal - 1)
        self._records += [
            Scalars(t=wall, step=step, ordinal=ordinal, values=values)
            for values, wall, step in zip(rows, walls, steps.tolist(), strict=True)
            if values
        ]

    def _add_steps(
        self, steps: NDArray[np.int64], walls: Floats, targets: dict[str, tuple[Floats, Mask | None]]
    ) -> None:
        """Blocks of training steps that rise."""
        if "duration" not in targets and "duration" not in self._taken and np.isfinite(walls).all():
            targets = {**targets, "duration": self._step_times(steps, walls)}
        if np.isfinite(walls[-1]):
            self._last = int(steps[-1]), float(walls[-1])
        last_two = [self._before[1]] if self._before is not None else []
        last_two = [*last_two, *steps[-2:].tolist()][-2:]
        self._before = last_two[0], last_two[-1]
        self._first = int(steps[0]) if self._first is None else self._first
        for start in range(0, len(steps), _BIG_BLOCK):
            part = slice(start, start + _BIG_BLOCK)
            cut = {name: (numbers[part], None if mask is None else mask[part])
                   for name, (numbers, mask) in targets.items()}  # fmt: skip
            self._emit(walls[part], steps[part], cut)

    def _step_times(self, steps: NDArray[np.int64], walls: Floats) -> tuple[Floats, Mask]:
        before = self._last if self._last is not None else (int(steps[0]), float(walls[0]))
        apart = np.diff(steps, prepend=before[0])
        seconds = np.diff(walls, prepend=before[1])
        there = (apart > 0) & (seconds > 0.0) & (seconds < _LONGEST_STEP)
        return np.divide(seconds, apart, out=np.zeros(len(steps)), where=there), there

    def _emit(self, walls: Floats, steps: NDArray[np.int64], targets: dict[str, tuple[Floats, Mask | None]]) -> None:
        columns = {
            name: packed
            for name, (numbers, mask) in targets.items()
            if (packed := batched("f4" if name == "duration" else "f8", numbers, mask)) is not None
        }
        clock = batched("f8", walls, None)
        assert clock is not None
        self._records.append(
            Steps(
                count=len(steps),
                ordinal=self._ordinal,
                t=clock,
                duration=columns.get("duration"),
                step=Column("i8", steps.astype("<i8").tobytes()),
                step_source=SOURCE,
                epoch=columns.get("epoch"),
                samples=columns.get("samples"),
                tokens=columns.get("tokens"),
                losses={name: found for name, found in columns.items() if _is_loss(name)},
                lrs={name: found for name, found in columns.items() if _is_lr(name)},
                grad_norm=columns.get("grad_norm"),
                loss_scale=columns.get("loss_scale"),
            )
        )
        self._ordinal += len(steps)

    def flush(self) -> list[Record]:
        """The records of what is still open."""
        self._close_step()
        self._close_block()
        return self._take()

    def settle(self) -> list[Record]:
        """The records of every step that is complete: what grows without a pause is not to wait for a whole block."""
        self._close_block()
        return self._take()

    def new_attempt(self) -> list[Record]:
        """`flush`, and from here on the log is another: counted from 0 again."""
        records = self.flush()
        self._ordinal = self._rows = 0
        self._newest = self._last = self._first = self._before = None
        return records

    def _take(self) -> list[Record]:
        records, self._records = self._records, []
        return records

    def _add(self, row: Row) -> None:
        step = self._step_of(row)
        wall = row.wall
        current = self._open
        if current is None or current.step != step:
            self._close_step()
            current = self._open = _Step(step, wall)
        elif wall is not None:
            current.wall = wall
        others: dict[str, float] = {}
        for name, value in row.values.items():
            target = self._series[name] if name in self._series else self._place(name)
            if target is None:
                others[name] = value
                continue
            column, factor, training = target
            current.training = current.training or training
            if _is_loss(column):
                current.losses[column] = value
            elif _is_lr(column):
                current.lrs[column] = value
            else:
                current.columns[column] = value * factor
        if others:
            # What came before stands before it: readers see steps and scalars in the order of the log.
            t = math.nan if wall is None else wall
            self._records.append(Scalars(t=t, step=step, ordinal=max(0, self._ordinal - 1), values=others))

    def _step_of(self, row: Row) -> int:
        """Where a log names steps, a row without one belongs to the last; where it names none, rows are counted."""
        if row.step is not None:
            self._newest = row.step
        self._rows += 1
        return self._rows - 1 if self._newest is None else self._newest

    def _place(self, name: str) -> tuple[str, float, bool] | None:
        """Decide, once, where the numbers of `name` go."""
        guess = self._roles.of(name)
        target = self._column(name, guess)
        result = None if target is None else (target, guess.factor, guess.role in _TRAINING)
        if target is not None:
            self._taken[target] = name
        self._series[name] = result
        return result

    def _column(self, name: str, guess: Guess) -> str | None:
        if guess.role == "train_loss":
            return self._root(guess.rank)
        if guess.role == "lr":
            return "lr" if "lr" not in self._taken else name if name.startswith("lr/") else f"lr/{name}"
        column = _COLUMNS.get(guess.role)
        return None if column in self._taken else column

    def _root(self, rank: int) -> str | None:
        """The root of a loss of this rank: a surer name takes "loss" over, components stand beside each other."""
        roots = [column for column in self._taken if column == "loss" or column.startswith("loss/")]
        if rank < self._loss_rank:
            self._loss_rank = rank
            for column in roots:
                self._series[self._taken.pop(column)] = None
            return "loss"
        if rank == COMPONENT == self._loss_rank and len(roots) < _ROOTS:
            return f"loss/{len(roots)}"
        return None

    def _close_step(self) -> None:
        step, self._open = self._open, None
        if step is None or not step.training:
            return
        self._notice_resume(step)
        if step.wall is not None:
            if self._last is not None and "duration" not in step.columns and "duration" not in self._taken:
                steps, seconds = step.step - self._last[0], step.wall - self._last[1]
                if steps > 0 and 0.0 < seconds < _LONGEST_STEP:
                    step.columns["duration"] = seconds / steps
            self._last = step.step, step.wall
        self._block.append(step)
        if len(self._block) >= _BLOCK:
            self._close_block()

    def _notice_resume(self, step: _Step) -> None:
        """Say that the steps have gone back, behind the last two, so that a single odd one does not count; and not to
        the first of all, as the steps of an epoch do."""
        if self._first is None:
            self._first = step.step
        if self._before is not None and self._first < step.step < min(self._before):
            self._close_block()
            text = f"the log goes back from step {self._before[1]:,} to {step.step:,}"
            t = 0.0 if step.wall is None else step.wall
            self._records.append(Event(t, "resume", text, ordinal=self._ordinal, step=step.step))
        self._before = step.step if self._before is None else self._before[1], step.step

    def _close_block(self) -> None:
        block, self._block = self._block, []
        if not block:
            return
        clock = pack("f8", [math.nan if step.wall is None else step.wall for step in block])
        assert clock is not None
        self._records.append(
            Steps(
                count=len(block),
                ordinal=self._ordinal,
                t=clock,
                duration=_column("f4", [step.columns.get("duration") for step in block]),
                step=pack("i8", [step.step for step in block]),
                step_source=SOURCE,
                epoch=_column("f8", [step.columns.get("epoch") for step in block]),
                samples=_column("f8", [step.columns.get("samples") for step in block]),
                tokens=_column("f8", [step.columns.get("tokens") for step in block]),
                losses=_columns([step.losses for step in block]),
                lrs=_columns([step.lrs for step in block]),
                grad_norm=_column("f8", [step.columns.get("grad_norm") for step in block]),
                loss_scale=_column("f8", [step.columns.get("loss_scale") for step in block]),
            )
        )
        self._ordinal += len(block)


def _is_loss(column: str) -> bool:
    return column.startswith("loss") and column != "loss_scale"


def _is_lr(column: str) -> bool:
    return column == "lr" or column.startswith("lr/")


def _column(kind: str, values: list[float | None]) -> Column | None:
    return pack("f4" if kind == "f4" else "f8", values)


def _columns(rows: list[dict[str, float]]) -> dict[str, Column]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column for name in names if (column := pack("f8", [row.get(name) for row in rows])) is not None}
