"""The short way through a step in which nothing is due: its boundaries and losses, and where the loop stands.

A loop of a millisecond a step is timed in one of k steps only. In the others nothing is booked, no rate is read and no
layer looked at; a step that turns out not to be ordinary (an evaluation, another loader, a closure, a phase of the
user's) goes on the long way. What a light step costs the job is itself measured in one of `METERED` of them.

All of this is written for few bytecodes: with cold caches, some 20 ns each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise

from ..progress import Progress
from ..rows import EventRow, PlainStep, StepRow
from .fetches import BACKWARD, FETCH, OPTIMIZER
from .ledger import MAX_LOSSES
from .readings import Reading, Readings
from .steps import MAX_REPEATS, StepMachine

METERED = 8
"""Light steps from one whose cost to the job is measured to the next: a power of two."""
_ONE = [1]


class TrainingMachine(StepMachine):
    """A `StepMachine` with a second set of events, to be used while `light` is set. Nothing is on its stack then.

    `put` takes plain steps; rows of any other kind go through `emit`. In a light step the losses stand in one list,
    and where an optimizer stepped is an index into it.
    """

    __slots__ = ("_ends", "_put", "_roots", "_until", "light_cost", "light_costs", "plain_rows")

    def __init__(
        self,
        emit: Callable[[StepRow, Readings], None],
        put: Callable[[PlainStep], None],
        tell: Callable[[EventRow], None],
        progress: Progress,
    ) -> None:
        super().__init__(emit, tell, progress)
        self._put = put
        self._roots: list[Reading] = []
        self._ends: list[int] = []
        self._until = 0
        """The first step that will not be light."""
        self.plain_rows = True
        """Rows may be handed on as they are: nothing before them is on its way from a device."""
        self.light_cost = 0.0
        """Seconds that a light step is taken to cost the job, when that is not measured."""
        self.light_costs: list[float] = []
        """Of the light steps in which it was measured, the oldest first; somebody else takes them away."""
        progress.pending = self.pending
        progress.trained = self.trained

    def pending(self) -> int:
        """Backward passes since the last optimizer step; from any thread, so a moment may be missed."""
        if self.light:
            ends = self._ends
            return max(0, len(self._roots) - (ends[-1] if ends else 0))
        return self._tail_micro

    # The events

    def next_light(self, now: float, iterator: Hashable, grad_enabled: bool) -> bool:
        """As `next_begin`, in a light step. False: the long way is to be gone."""
        if iterator is not self._visits.trained or not grad_enabled:
            self._leave_light(now)
            return False
        if self._ends:
            self._close_light(now)
            if self.ordinal >= self._until:
                self._leave_at_boundary(now)
                self._open()
                self._to_ledger()
                self._begin = self._cut = now
                return False
        self._depth = 0
        progress = self._progress
        progress.phase = FETCH
        progress.since = now
        return True

    def backward_light(self, now: float, loss: Reading) -> None:
        """As `backward_begin`."""
        batch = self.batch
        if batch is None or self.samples is None:
            self._use_batch()
        else:
            self.samples += batch
            self.batch = 0
        self._roots.append(loss)
        self._depth = 0
        progress = self._progress
        progress.phase = BACKWARD
        progress.since = now

    def optimizer_light(self, now: float, optimizer: Hashable) -> None:
        """As `optimizer_begin`, without a closure."""
        depth = self._depth = self._depth + 1
        if depth > 1:
            return
        if self._ends:
            if not self.loader:
                if optimizer in self._stepped:
                    self._close_light(self._cut)
                    self._stepped.clear()
            elif len(self._ends) > MAX_REPEATS:
                self._depth = 0
                self.optimizer_begin(now, optimizer)
                return
        self._optimizer = optimizer
        progress = self._progress
        progress.phase = OPTIMIZER
        progress.since = now

    def optimizer_light_end(self, now: float) -> None:
        """As `optimizer_end`."""
        depth = self._depth = self._depth - 1
        if depth > 0:
            return
        self._ends.append(len(self._roots))
        self._cut = now
        progress = self._progress
        if self.loader:
            progress.phase = "other"
            return
        self._depth = 0
        self._stepped.add(self._optimizer)
        self._zeros += self._tail_zeros
        self._tail_zeros = 0
        # What comes now is part of this step or of the next.
        if self.ordinal + 1 >= self._until:
            self._leave_at_boundary(now)
            self.timed = False
            self._to_ledger()
        progress.phase = "input+forward"
        progress.since = now

    # From one step to the next

    def _close_light(self, cut: float) -> None:
        """As `_close`. Most steps have one loss, which is there already, and nothing else to tell."""
        progress, ordinal, roots = self._progress, self.ordinal, self._roots
        if self.metered:
            self.light_costs.append(progress.cost - self.cost_before)
            self.metered = False
        else:
            progress.cost += self.light_cost
        if len(roots) != 1 or self._ends != _ONE or self._rich or roots[0].__class__ is not float:
            self._to_ledger()
            self._close(cut, self.loader)
            self._from_ledger()
        elif self.loader:
            self._put((ordinal, cut, self.epoch, self.samples, roots.pop(), self._tail_zeros))  # type: ignore[arg-type]
            self._ends.clear()
            self._tail_zeros = 0
            self.ordinal = progress.steps = ordinal + 1
        else:
            self._put((ordinal, cut, None, self.samples, roots.pop(), self._zeros))  # type: ignore[arg-type]
            self._ends.clear()
            self._zeros = 0
            self.ordinal = progress.steps = ordinal + 1
        if not ordinal & (METERED - 1):
            self.metered = True
            self.cost_before = progress.cost

    def _enter_light(self) -> None:
        if self._micro != sum(map(len, self._losses)) or len(self._losses) != self._optimizers:
            # Rare (a closure, a step without a backward): what is open cannot be told in the short way.
            return
        self._from_ledger()
        self.light = True
        self.metered = not (self.ordinal - 1) & (METERED - 1)

    def _leave_light(self, now: float) -> None:
        """Something that is not ordinary: from here on the long way. What went before was not timed."""
        self._leave_at_boundary(now)
        self.timed = self.details = False
        self._to_ledger()

    def _leave_at_boundary(self, now: float) -> None:
        self.light = False
        self._at = now
        self._gap = 0.0
        self._depth = 0
        if not self.metered:
            self.metered = True
            self.cost_before = self._progress.cost

    def look_now(self, now: float) -> None:
        """In the open step, before its backward, something has become due."""
        if self.light:
            self._leave_light(now)
            self._use_batch()

    def _from_ledger(self) -> None:
        """The open step, so far, as light steps have it."""
        self._roots = [loss for losses in (*self._losses, self._tail_losses) for loss in losses]
        self._ends, end = [], 0
        for losses in self._losses:
            end += len(losses)
            self._ends.append(end)
        self._tail_losses = []
        self._tail_micro = 0
        self._phases, self._tail_phases = {}, {}
        self._rich = self._rich or bool(self.axis.source) or not self.plain_rows
        ordinal = self._until = self.ordinal
        if self._is_plain(ordinal):
            self._until = min((ordinal | self.timing_mask) + 1, (ordinal | self.details_mask) + 1, self.busy)

    def _to_ledger(self) -> None:
        """And the way back."""
        roots, ends = self._roots, self._ends
        last = ends[-1] if ends else 0
        parts = [roots[begin:end] for begin, end in pairwise((0, *ends)) if begin < end]
        self._losses = [part for part in parts if part][:MAX_LOSSES]
        self._tail_losses = roots[last:]
        self._micro, self._tail_micro = last, len(roots) - last
        self._optimizers = len(ends)
        if ends and self.loader:
            self._stepped.add(self._optimizer)
        self._roots, self._ends = [], []
