"""Where one training step ends and the next begins, and what the time between was spent on.

Pure: no torch and no clock of its own. Every event comes with its time; all time from the first event on is booked to
exactly one phase of exactly one step, so the phases of a step add up to its duration. A stretch whose meaning is known
only afterwards (a fetch: for training, or for an evaluation?) waits as a *gap* or a *visit* until the next event tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from ..progress import Progress
from ..rows import EventRow, StepRow

FETCH, BACKWARD, OPTIMIZER = "data", "backward", "optimizer"
MAX_REPEATS = 16
"""Steps of one optimizer on one fetched batch that still are one step (WGAN's critic takes 5). Beyond it, the batch
was not a mini-batch, and the loop is taken for one without a loader until the next fetch."""
MAX_LOSSES = 8
"""Losses and learning-rate families named in one step."""
SMOOTHING = 0.1
"""Weight of the newest step in `Progress.step_time`."""


class Ticket(Protocol):
    """A number on its way from a device. `ready` turns True when `value` (None: lost) is final."""

    @property
    def ready(self) -> bool: ...

    @property
    def value(self) -> float | None: ...


Reading = float | Ticket | None
"""A number that is there, is coming, or could not be read."""


@dataclass(slots=True)
class Readings:
    """The numbers of a step as they were read; the row gets what they come to."""

    losses: list[list[Reading]]
    """For each optimizer that had backwards of its own before its step: their roots."""
    norms: list[tuple[Reading, float | None]]
    """Gradient norms before clipping, and what they were clipped to (None: not clipped)."""
    scale: Reading = None


@dataclass(slots=True)
class _Visit:
    """Fetches from one iterator that no backward followed so far."""

    data: float = 0.0
    gap: float = 0.0
    count: int = 0
    ended: bool = False
    blind: bool = False
    """A fetch happened with gradients switched off."""


@dataclass(slots=True)
class _Tail:
    """What happened since the last optimizer step: it belongs to the step that the next one will belong to."""

    phases: dict[str, float] = field(default_factory=dict)
    losses: list[Reading] = field(default_factory=list)
    norms: list[tuple[Reading, float | None]] = field(default_factory=list)
    micro: int = 0


class StepMachine:
    """Turns the events of a training loop into `StepRow`s (through `emit`) and `EventRow`s (through `tell`).

    Never raises, whatever the order of the events. Times are monotonic seconds and never go back.
    """

    def __init__(
        self, emit: Callable[[StepRow, Readings], None], tell: Callable[[EventRow], None], progress: Progress
    ) -> None:
        self._emit = emit
        self._tell = tell
        self._progress = progress
        self.ordinal = progress.steps
        """Number of the open step. Hooks that are armed anew go on where the ones before stopped."""
        self.epoch = 0
        self.loader = False
        """A fetch has been followed by a backward: steps are cut at fetches."""
        self._first = self.ordinal
        self._at: float | None = None
        self._begin = 0.0
        self._cut = 0.0
        self._gap = 0.0
        self._stack: list[str] = []
        self._user: list[str] = []
        self._fetching: Hashable = None
        self._fetch_time = 0.0
        self._fetch_blind = False
        self._pending: _Visit | None = None
        self._pending_from: Hashable = None
        self._trained: Hashable = None
        self._visits: dict[Hashable, _Visit] = {}
        self._depth = 0
        self._closure = False
        self._closure_roots = 0
        self._optimizer: Hashable = None
        self._tail = _Tail()
        self._open()

    def _open(self) -> None:
        self._phases: dict[str, float] = {}
        self._losses: list[list[Reading]] = []
        self._norms: list[tuple[Reading, float | None]] = []
        self._lrs: dict[str, float] = {}
        self._micro = 0
        self._optimizers = 0
        self._stepped: set[Hashable] = set()
        self._repeats = 0
        self._scale: Reading = None
        self._skipped: int | None = None

    # The loader

    def next_begin(self, now: float, iterator: Hashable, grad_enabled: bool = True) -> None:
        """The job asks `iterator` for a batch."""
        self._account(now)
        if self._user:
            return
        if self._stack:
            if self._stack[-1] is not OPTIMIZER or self._closure:
                return
            self._lose_optimizer()
        self._settle_gap()
        if self._optimizers:
            self._book_visits(None)
            self._close(now, whole=True)
        self._stack.append(FETCH)
        self._fetching = iterator
        self._fetch_time = 0.0
        self._fetch_blind = not grad_enabled
        self._enter("eval" if self._is_visiting(iterator) else "data", now)

    def next_end(self, now: float, iterator: Hashable, exhausted: bool = False, failed: bool = False) -> None:
        """`iterator` gave a batch, or had none left (`exhausted`), or raised (`failed`)."""
        self._account(now)
        if not self._stack or self._stack[-1] is not FETCH or iterator is not self._fetching:
            return
        self._stack.pop()
        self._fetching = None
        if not (exhausted or failed):
            self._pending = _Visit(self._fetch_time, 0.0, 1, False, self._fetch_blind)
            self._pending_from = iterator
            self._enter("eval" if self._is_visiting(iterator) else "forward", now)
            return
        visit = self._visits.get(iterator)
        if visit is not None:
            visit.gap += self._fetch_time
            visit.ended = True
            if visit.count > 1 and iterator is not self._trained:
                del self._visits[iterator]
                self._book_evaluation(visit)
        else:
            self._book("other", self._fetch_time)
        if exhausted and iterator is self._trained:
            self._trained = None
            self._tell(EventRow(now, "epoch", ordinal=self.ordinal, data={"epoch": self.epoch}))
            self.epoch += 1
        self._enter("other", now)

    def _is_visiting(self, iterator: Hashable) -> bool:
        if self._fetch_blind:
            return True
        return self.loader and iterator is not self._trained and iterator in self._visits

    def _settle_gap(self) -> None:
        """What the gap was, now that it ends without a backward or an optimizer step."""
        pending = self._pending
        if pending is None:
            self._book("other", self._gap)
        else:
            visit = self._visits.setdefault(self._pending_from, _Visit())
            visit.data += pending.data
            visit.gap += self._gap
            visit.count += 1
            visit.blind = visit.blind or pending.blind
            self._pending = None
        self._gap = 0.0

    def _book_visits(self, trained: Hashable) -> None:
        """Decide what the fetches were for that no backward followed.

        Several in a row from one iterator, or all it had, or any with gradients off: an evaluation. Otherwise data
        for training: a pre-fetch, a skipped batch, one of several loaders that are read side by side.
        """
        visits, self._visits = self._visits, {}
        for iterator, visit in visits.items():
            ours = iterator is trained or iterator is self._trained
            if visit.blind or (not ours and (visit.count > 1 or visit.ended)):
                self._book_evaluation(visit)
            else:
                self._book("data", visit.data)
                self._book("other", visit.gap)

    def _book_evaluation(self, visit: _Visit) -> None:
        duration = visit.data + visit.gap
        self._book("eval", duration)
        event = EventRow(self._now, "evaluation", ordinal=self.ordinal, duration=duration)
        event.data["batches"] = visit.count
        self._tell(event)

    # Backward

    def backward_begin(self, now: float, loss: Reading = None) -> None:
        """A backward from a root of the job's own begins; `loss` is the root's value."""
        self._account(now)
        if self._user:
            return
        if self._stack:
            if self._stack[-1] is not OPTIMIZER:
                return
            if not self._closure:
                self._lose_optimizer()
        if not self._stack:
            self._begin_backward_of_loop()
            self._tail.losses.append(loss)
        else:
            # A line search evaluates its closure many times: the first is the loss at the present weights.
            self._closure_roots += 1
            if self._closure_roots == 1:
                self._tail.losses.append(loss)
        self._tail.micro += 1
        self._stack.append(BACKWARD)
        self._enter("backward", now)

    def _begin_backward_of_loop(self) -> None:
        pending, gap = self._pending, self._gap
        if pending is not None and not pending.blind:
            self._book("data", pending.data)
            self._pending = None
            self.loader = True
            self._trained = self._pending_from
            self._book_visits(self._trained)
        else:
            if pending is not None:
                self._gap = 0.0
                self._settle_gap()
            if self._visits:
                self._book_visits(None)
        self._book("forward" if self.loader else "input+forward", gap)
        self._gap = 0.0

    def backward_end(self, now: float) -> None:
        """The backward returned or raised."""
        self._account(now)
        stack = self._stack
        if BACKWARD not in stack:
            return
        while stack.pop() is not BACKWARD:
            self._depth = 0
        self._enter("optimizer" if stack else "other", now)

    # Optimizer

    def optimizer_begin(self, now: float, optimizer: Hashable, closure: bool = False) -> None:
        """`optimizer` starts a step; `closure`: it will call back for the loss. Nested steps count as one."""
        self._account(now)
        if self._user:
            # Training inside a phase ends the phase's claim on the time.
            self._user.clear()
        top = self._stack[-1] if self._stack else None
        if top is OPTIMIZER:
            self._depth += 1
            return
        if top is FETCH:
            return
        if top is None:
            self._settle_before_optimizer()
        if optimizer in self._stepped:
            self._repeats += 1
            if not self.loader or self._repeats > MAX_REPEATS:
                self.loader = False
                self._close(self._cut, whole=False)
        self._stack.append(OPTIMIZER)
        self._depth = 1
        self._closure = closure
        self._closure_roots = 0
        self._optimizer = optimizer
        self._enter("optimizer", now)

    def _settle_before_optimizer(self) -> None:
        pending = self._pending
        if pending is not None and not pending.blind:
            # Gradients came some way that is not seen: the batch was for training all the same.
            self._book("data", pending.data)
            self._pending = None
            self.loader = True
            self._trained = self._pending_from
        elif pending is not None:
            self._settle_gap()
        if self._visits:
            self._book_visits(None)
        self._book("other", self._gap)
        self._gap = 0.0

    def optimizer_end(self, now: float, optimizer: Hashable, lrs: list[float | None] | None = None) -> None:
        """`optimizer` is done with its step, with `lrs` in force, one a parameter group."""
        self._account(now)
        if not self._stack or self._stack[-1] is not OPTIMIZER:
            return
        self._depth -= 1
        if self._depth > 0:
            return
        self._stack.pop()
        self._count_step(now, self._optimizer, lrs)
        self._enter("backward" if self._stack else "other" if self.loader else "input+forward", now)

    def _count_step(self, now: float, optimizer: Hashable, lrs: list[float | None] | None) -> None:
        tail = self._tail
        phases = self._phases
        if phases:
            for phase, seconds in tail.phases.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
        else:
            self._phases = tail.phases
        if lrs and self._optimizers < MAX_LOSSES:
            self._name_lrs(lrs)
        if tail.losses and len(self._losses) < MAX_LOSSES:
            self._losses.append(tail.losses)
        self._norms += tail.norms
        self._micro += tail.micro
        self._optimizers += 1
        self._stepped.add(optimizer)
        self._cut = now
        self._tail = _Tail()

    def _name_lrs(self, lrs: list[float | None]) -> None:
        for group, lr in enumerate(lrs):
            if lr is not None:
                self._lrs[f"lr/{self._optimizers}.{group}" if group or self._optimizers else "lr"] = lr

    def optimizer_skipped(self, now: float, optimizer: Hashable) -> None:
        """A gradient scaler kept `optimizer` from stepping: the step ends all the same, marked as skipped."""
        if self._stack or self._user:
            self._account(now)
            return
        self.optimizer_begin(now, optimizer)
        self.optimizer_end(now, optimizer)
        self._skipped = 1

    def note_norm(self, norm: Reading, limit: float | None = None) -> None:
        """The gradient norm before clipping to `limit` (None: nobody clips), of what the next optimizer step uses."""
        self._tail.norms.append((norm, limit))

    def note_scale(self, scale: Reading, skipped: bool | None) -> None:
        """The loss scale of the last optimizer step, and whether it was skipped, where that is known."""
        self._scale = scale
        if skipped is not None:
            self._skipped = max(self._skipped or 0, int(skipped))

    @property
    def clipped(self) -> list[tuple[Reading, float | None]]:
        """Norms noted since the last optimizer step."""
        return self._tail.norms

    def own_work(self, now: float) -> None:
        """Since the last event the probe itself was at work: that is nobody's phase."""
        at, self._at = self._at, now
        if at is not None:
            self._book(self._user[-1] if self._user else "other", now - at)

    # Phases the user names

    def phase_begin(self, now: float, name: str) -> None:
        """All time is `name`'s until the phase ends, or an optimizer steps in it."""
        self._account(now)
        self._user.append(name)
        self._enter(name, now)

    def phase_end(self, now: float) -> None:
        """The innermost phase ends."""
        self._account(now)
        if not self._user:
            return
        self._user.pop()
        self._enter(self._user[-1] if self._user else "other", now)

    # The end

    def finish(self, now: float) -> None:
        """No more events will come: close the open step at its last optimizer step, and forget the rest."""
        if self._at is None:
            return
        self._account(now)
        self._stack.clear()
        self._settle_gap()
        self._book_visits(None)
        if self._optimizers:
            self._close(self._cut, whole=False)
        self._user.clear()
        self._tail = _Tail()
        self._begin = now
        self._enter("idle", now)

    # Bookkeeping

    def _account(self, now: float) -> None:
        """Book the time since the last event to where the loop stood."""
        at, self._at = self._at, now
        self._now = now
        if at is None:
            self._begin = self._cut = now
            return
        seconds = now - at
        if self._user:
            self._book(self._user[-1], seconds)
        elif not self._stack:
            self._gap += seconds
        elif self._stack[-1] is FETCH:
            self._fetch_time += seconds
        else:
            self._book(self._stack[-1], seconds)

    def _book(self, phase: str, seconds: float) -> None:
        if seconds > 0.0:
            phases = self._tail.phases
            phases[phase] = phases.get(phase, 0.0) + seconds

    def _lose_optimizer(self) -> None:
        """The optimizer's step raised: its end was never told."""
        self._stack.clear()
        self._depth = 0

    def _enter(self, phase: str, now: float) -> None:
        self._progress.phase = phase
        self._progress.since = now

    def _close(self, cut: float, whole: bool) -> None:
        """End the open step at `cut`; `whole`: with the time since the last optimizer step, else without."""
        phases = self._phases
        if whole:
            for phase, seconds in self._tail.phases.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
            self._tail.phases = {}
        duration = cut - self._begin
        row = StepRow(
            self.ordinal,
            cut,
            duration,
            epoch=self.epoch if self.loader else None,
            micro=self._micro,
            optimizers=self._optimizers,
            lrs=self._lrs,
            phases=phases,
            skipped=self._skipped,
        )
        readings = Readings(self._losses, self._norms, self._scale)
        self.ordinal += 1
        self._begin = self._cut = cut
        self._open()
        progress = self._progress
        progress.steps = self.ordinal
        usual = duration - phases.get("eval", 0.0) - phases.get("checkpoint", 0.0)
        known = progress.step_time
        if known is None or self.ordinal <= self._first + 2:
            # The first step also compiles, allocates and starts workers.
            progress.step_time = usual
        else:
            progress.step_time = known + SMOOTHING * (usual - known)
        self._emit(row, readings)
