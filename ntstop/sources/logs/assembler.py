"""Rows of a log to the records of the wire: what has a role becomes `Steps`, all else `Scalars`.

Rows that follow each other with one step are one step. The training loss is "loss", the learning rate "lr", and so on,
so that state, diagnosis and screens need not know where the numbers come from. A role that several names could have
goes to the surest of them; what has lost it, or never had one, keeps its own name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import Event, Record, ScalarBlock, Scalars, in_blocks

from .batch import Batch, Floats, Mask
from .batch import column as batched
from .clock import StepClock
from .reader import Row
from .roles import COMPONENT, Guess, Role, Roles
from .steps import OneStep, is_loss, is_lr, of_columns, of_steps, whole

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
_JUDGED: tuple[Role, ...] = ("val_loss", "accuracy")
"""What is judged beside the training steps before it."""
_MOST_CUTS = 1024
"""Evaluations before which a block of steps is cut off; of more than that, the last ones come up to a block early."""


class Assembler:
    """Puts the rows of one run together. `add` and `flush` return records in order."""

    def __init__(self, roles: Roles | None = None) -> None:
        self._roles = roles or Roles()
        self._series: dict[str, tuple[str, float, bool] | None] = {}
        """Name in the log to (column, factor, training) of what it goes to; None: its own name."""
        self._loss_rank = 99
        self._taken: dict[str, str] = {}
        """Column to the name in the log that it comes from."""
        self._open: OneStep | None = None
        self._block: list[OneStep] = []
        self._records: list[Record] = []
        self._ordinal = 0
        self._cuts = 0
        self._rows = 0
        self._newest: int | None = None
        """The last step that the log has named."""
        self._clock = StepClock()
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
        for part in self._parts(batch, [name for name, _ in named]):
            self._add_part(batch.part(part), steps[part], [name for name, _ in named])

    def _parts(self, batch: Batch, names: list[str]) -> Iterator[slice]:
        """Pieces that are told one after the other, each up to an evaluation: that is judged by the steps before it."""
        judged = np.zeros(batch.count, np.bool_)
        for name in names:
            if self._series[name] is None and self._is_judged(name):
                mask = batch.values[name][1]
                judged |= True if mask is None else mask
        cuts = (np.flatnonzero(judged) + 1).tolist()[: max(0, _MOST_CUTS - self._cuts)]
        self._cuts += len(cuts)
        for start, stop in pairwise(sorted({0, batch.count, *cuts})):
            yield slice(start, stop)

    def _is_judged(self, name: str) -> bool:
        return self._roles.of(name).role in _JUDGED

    def _add_part(self, batch: Batch, steps: NDArray[np.int64], names: list[str]) -> None:
        others: list[tuple[str, Floats, Mask | None]] = []
        targets: dict[str, tuple[Floats, Mask | None]] = {}
        training = np.zeros(batch.count, np.bool_)
        for name in names:
            numbers, mask = batch.values[name]
            if mask is not None and not mask.any():
                continue
            target = self._series[name]
            if target is None:
                others.append((name, numbers, mask))
                continue
            column, factor, trains = target
            targets[column] = numbers * factor, mask
            if trains:
                training |= True if mask is None else mask
        if training.any():
            walls = np.full(batch.count, math.nan) if batch.walls is None else batch.walls
            chosen = {name: (numbers[training], None if mask is None else mask[training])
                      for name, (numbers, mask) in targets.items()}  # fmt: skip
            self._add_steps(steps[training], walls[training], chosen)
        self._scalars(batch, steps, others)

    def _scalars(self, batch: Batch, steps: NDArray[np.int64], others: list[tuple[str, Floats, Mask | None]]) -> None:
        """What has no role, in blocks."""
        if not others:
            return
        walls = np.full(batch.count, math.nan) if batch.walls is None else batch.walls
        ordinals = np.full(batch.count, max(0, self._ordinal - 1))
        for start in range(0, batch.count, _BIG_BLOCK):
            part = slice(start, start + _BIG_BLOCK)
            columns = {
                name: packed
                for name, numbers, mask in others
                if (packed := batched("f8", numbers[part], None if mask is None else mask[part])) is not None
            }
            clock = batched("f8", walls[part], None)
            if columns and clock is not None:
                count = len(steps[part])
                self._records.append(ScalarBlock(count, clock, whole(ordinals[part]), whole(steps[part]), columns))

    def _add_steps(
        self, steps: NDArray[np.int64], walls: Floats, targets: dict[str, tuple[Floats, Mask | None]]
    ) -> None:
        """Blocks of training steps that rise."""
        if "duration" not in targets and "duration" not in self._taken and np.isfinite(walls).any():
            targets = {**targets, "duration": self._clock.steps(steps, walls)}
        last_two = [self._before[1]] if self._before is not None else []
        last_two = [*last_two, *steps[-2:].tolist()][-2:]
        self._before = last_two[0], last_two[-1]
        self._first = int(steps[0]) if self._first is None else self._first
        for start in range(0, len(steps), _BIG_BLOCK):
            part = slice(start, start + _BIG_BLOCK)
            cut = {name: (numbers[part], None if mask is None else mask[part])
                   for name, (numbers, mask) in targets.items()}  # fmt: skip
            self._emit(walls[part], steps[part], cut)

    def _emit(self, walls: Floats, steps: NDArray[np.int64], targets: dict[str, tuple[Floats, Mask | None]]) -> None:
        self._records.append(of_columns(self._ordinal, walls, steps, targets))
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
        self._newest = self._first = self._before = None
        self._clock = StepClock()
        return records

    def _take(self) -> list[Record]:
        """The records, with the rows of what has no role in blocks where they follow each other."""
        records, self._records = self._records, []
        found: list[Record] = []
        rows: list[Scalars] = []
        for record in records:
            if isinstance(record, Scalars):
                rows.append(record)
                continue
            found += in_blocks(rows)
            found.append(record)
            rows = []
        return found + in_blocks(rows)

    def _add(self, row: Row) -> None:
        step = self._step_of(row)
        wall = row.wall
        current = self._open
        if current is None or current.step != step:
            self._close_step()
            current = self._open = OneStep(step, wall)
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
            if is_loss(column):
                current.losses[column] = value
            elif is_lr(column):
                current.lrs[column] = value
            else:
                current.columns[column] = value * factor
        if others:
            current.others.append((math.nan if wall is None else wall, others))

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
        if step is None:
            return
        if step.training:
            self._close_training(step)
        names = {name for _, values in step.others for name in values}
        if self._block and self._cuts < _MOST_CUTS and any(map(self._is_judged, names)):
            self._cuts += 1
            self._close_block()
        ordinal = max(0, self._ordinal + len(self._block) - 1)
        self._records += [Scalars(t, step.step, ordinal, values) for t, values in step.others]

    def _close_training(self, step: OneStep) -> None:
        self._notice_resume(step)
        if step.wall is not None and "duration" not in step.columns and "duration" not in self._taken:
            seconds = self._clock.step(step.step, step.wall)
            if seconds is not None:
                step.columns["duration"] = seconds
        self._block.append(step)
        if len(self._block) >= _BLOCK:
            self._close_block()

    def _notice_resume(self, step: OneStep) -> None:
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
        if block:
            self._records.append(of_steps(self._ordinal, block))
            self._ordinal += len(block)
