"""Where one training step ends and the next begins, and what the time between was spent on.

Pure: no torch and no clock of its own. Every event comes with its time; all time from the first event on is booked to
exactly one phase of exactly one step, so the phases of a step add up to its duration. A stretch whose meaning is known
only afterwards waits: as a *gap* for the event that ends it, as a *visit* until it is known what a fetch was for.

This runs on the training thread several times a step, mostly with cold caches: some lines are repeated to save calls.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..rows import EventRow
from .fetches import BACKWARD, FETCH, OPTIMIZER, FetchMachine
from .ledger import MAX_LOSSES, Rates
from .readings import Reading

MAX_REPEATS = 16
"""Steps of one optimizer on one fetched batch that still are one step (WGAN's critic takes 5). Beyond it, the batch
was not a mini-batch, and the loop is taken for one without a loader until the next fetch."""


class StepMachine(FetchMachine):
    """Turns the events of a training loop into `StepRow`s (through `emit`) and `EventRow`s (through `tell`).

    Never raises, whatever the order of the events. Times are monotonic seconds and never go back.
    """

    __slots__ = ()

    # Backward

    def backward_begin(self, now: float, loss: Reading = None) -> None:
        """A backward from a root of the job's own begins; `loss` is the root's value."""
        stack = self._stack
        if self._user or stack or self._at is None:
            self._account(now)
        else:
            self._gap += now - self._at
            self._at = now
        if self._user:
            return
        if stack:
            if stack[-1] is not OPTIMIZER:
                return
            if not self._closure:
                self._lose_optimizer()
        if not stack:
            if self._pending is not None and not self._fetch_blind:
                self._use_pending("forward")
            else:
                self._begin_without_fetch()
            self._tail_losses.append(loss)
        else:
            # A line search evaluates its closure many times: the first is the loss at the present weights.
            self._closure_roots += 1
            if self._closure_roots == 1:
                self._tail_losses.append(loss)
        self._tail_micro += 1
        stack.append(BACKWARD)
        progress = self._progress
        progress.phase = BACKWARD
        progress.since = now

    def _begin_without_fetch(self) -> None:
        gap, self._gap = self._gap, 0.0
        if self._pending is not None:
            self._leave_pending()
        if self._visits.undecided:
            self._decide_visits(None)
        self._book("forward" if self.loader else "input+forward", gap)

    def backward_end(self, now: float) -> None:
        """The backward returned or raised."""
        stack = self._stack
        if self._user or not stack or stack[-1] is not BACKWARD or self._at is None:
            self._account(now)
            if BACKWARD not in stack:
                return
        else:
            phases = self._tail_phases
            phases[BACKWARD] = phases.get(BACKWARD, 0.0) + (now - self._at)
            self._at = now
        while stack.pop() is not BACKWARD:
            self._depth = 0
        progress = self._progress
        progress.phase = OPTIMIZER if stack else "other"
        progress.since = now

    # Optimizer

    def optimizer_begin(self, now: float, optimizer: Hashable, closure: bool = False) -> None:
        """`optimizer` starts a step; `closure`: it will call back for the loss. Nested steps count as one."""
        if self.light:
            self._leave_light(now)
            self._use_batch()
        stack = self._stack
        if self._user or stack or self._at is None:
            self._account(now)
            # Training inside a phase ends the phase's claim on the time.
            self._user.clear()
            self._user_began.clear()
        else:
            self._gap += now - self._at
            self._at = now
        if not stack:
            if self._pending is None and not self._visits.undecided:
                self._book("other", self._gap)
                self._gap = 0.0
            else:
                self._settle_before_optimizer()
        elif stack[-1] is OPTIMIZER:
            self._depth += 1
            return
        elif stack[-1] is FETCH:
            return
        if optimizer in self._stepped:
            self._repeats += 1
            if not self.loader or self._repeats > MAX_REPEATS:
                self.loader = False
                self._close(self._cut, whole=False)
        stack.append(OPTIMIZER)
        self._depth = 1
        self._closure = closure
        self._closure_roots = 0
        self._optimizer = optimizer
        progress = self._progress
        progress.phase = OPTIMIZER
        progress.since = now

    def _settle_before_optimizer(self) -> None:
        if self._pending is not None and self._fetch_blind:
            self._leave_pending()
        elif self._pending is not None:
            # Gradients came some way that is not seen: the batch was for training all the same.
            self._use_pending("other")
        self._decide_visits(None)
        self._book("other", self._gap)
        self._gap = 0.0

    def optimizer_end(self, now: float, optimizer: Hashable, lrs: Rates | None = None) -> None:
        """`optimizer` is done with its step, with `lrs` in force, by number of the parameter group."""
        stack = self._stack
        if self._user or not stack or stack[-1] is not OPTIMIZER or self._at is None:
            self._account(now)
            if not stack or stack[-1] is not OPTIMIZER:
                return
        else:
            phases = self._tail_phases
            phases[OPTIMIZER] = phases.get(OPTIMIZER, 0.0) + (now - self._at)
            self._at = now
        self._depth -= 1
        if self._depth > 0:
            return
        stack.pop()
        if lrs and self._optimizers < MAX_LOSSES:
            if self._optimizers or len(lrs) > 1:
                self._name_lrs(lrs)
            elif lrs[0] is not None:
                self._lrs["lr"] = lrs[0]
        self._count_step(now, self._optimizer)
        # Without a loader, what comes now is part of this step or of the next.
        if not (self.loader or self.timed or stack) and self._is_plain(self.ordinal + 1):
            self._enter_light()
        progress = self._progress
        progress.phase = BACKWARD if stack else "other" if self.loader else "input+forward"
        progress.since = now

    def optimizer_skipped(self, now: float, optimizer: Hashable) -> None:
        """A gradient scaler kept `optimizer` from stepping: the step ends all the same, marked as skipped."""
        if self._stack or self._user:
            self._account(now)
            return
        if self.light:
            self._leave_light(now)
        self.optimizer_begin(now, optimizer)
        self.optimizer_end(now, optimizer)
        self._skipped = 1

    # What is not training

    def own_work(self, now: float) -> None:
        """Since the last event the probe itself was at work: that is nobody's phase."""
        if self._at is not None and not self.light:
            self._book(self._user[-1] if self._user else "other", now - self._at)
            self._at = now

    def phase_begin(self, now: float, name: str) -> None:
        """All time is `name`'s until the phase ends, or an optimizer steps in it."""
        if self.light:
            self._leave_light(now)
        self._account(now)
        self._user.append(name)
        self._user_began.append(now)
        self._progress.enter(name, now)

    def phase_end(self, now: float) -> None:
        """The innermost phase ends; an evaluation is told as an event."""
        self._account(now)
        if self._user:
            name, began = self._user.pop(), self._user_began.pop()
            if name == "eval" and name not in self._user:
                self._tell(EventRow(now, "evaluation", "", self.ordinal, self.axis.at(self.ordinal), now - began))
            self._progress.enter(self._user[-1] if self._user else "other", now)

    def finish(self, now: float) -> None:
        """No more events will come: close the open step at its last optimizer step, and forget the rest."""
        if self._at is None:
            return
        if self.light:
            self._leave_light(now)
        self._account(now)
        self._stack.clear()
        if self._pending is not None:
            self._leave_pending()
        self._decide_visits(None)
        if self._optimizers:
            self._close(self._cut, whole=False)
        if self._epoch_done:
            self._end_epoch(now)
        self._user.clear()
        self._user_began.clear()
        self._gap = 0.0
        self._forget(now)
        self._progress.enter("idle", now)
