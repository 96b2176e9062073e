"""The fetches of a training loop: what the job waits for, which of them were for training, and when an epoch ends.

The lower half of `steps.StepMachine`, with the state that both share.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping

from ..progress import Progress
from ..rows import EventRow, StepRow
from .ledger import Ledger
from .readings import Readings
from .visits import Visit, Visits

FETCH, BACKWARD, OPTIMIZER = "data", "backward", "optimizer"
"""Phases of the same names, compared by identity."""


class FetchMachine(Ledger):
    """Events of the loaders, and where the loop stands: `_stack`, `_gap`, `_pending`, `_visits`."""

    __slots__ = (
        "_ahead",
        "_at",
        "_closure",
        "_closure_roots",
        "_depth",
        "_epoch_done",
        "_fetch_blind",
        "_fetch_time",
        "_fetching",
        "_gap",
        "_optimizer",
        "_pending",
        "_stack",
        "_tell",
        "_user",
        "_user_began",
        "_visits",
    )

    def __init__(
        self, emit: Callable[[StepRow, Readings], None], tell: Callable[[EventRow], None], progress: Progress
    ) -> None:
        super().__init__(emit, progress)
        self._tell = tell
        self._at: float | None = None
        """Time of the last event."""
        self._gap = 0.0
        self._stack: list[str] = []
        """What is going on, outermost first; empty in a gap."""
        self._user: list[str] = []
        self._user_began: list[float] = []
        self._fetching: Hashable = None
        self._fetch_time = 0.0
        self._fetch_blind = False
        self._pending: Hashable = None
        """Iterator of the last fetch, while no backward has followed; its time is still in `_fetch_time`."""
        self._visits = Visits()
        self._depth = 0
        self._epoch_done = False
        self._ahead: Hashable = None
        """The iterator that is trained on, if it is asked for a batch before the one it gave is used."""
        self._closure = False
        self._closure_roots = 0
        self._optimizer: Hashable = None

    def trained(self) -> Mapping[str, object]:
        """The attributes of the iterator that is trained on; from any thread, so it may be the one before.

        Not the iterator: whoever lets go of it last stops its workers, and that is the job's affair.
        """
        token = self._visits.trained
        return getattr(token(), "__dict__", {}) if isinstance(token, weakref.ref) else {}

    # The loader

    def next_begin(self, now: float, iterator: Hashable, grad_enabled: bool = True) -> None:
        """The job asks `iterator` for a batch."""
        if self.light:
            self._leave_light(now)
        if self._user or self._stack or self._at is None:
            self._account(now)
            if self._user:
                return
            if self._stack:
                if self._stack[-1] is not OPTIMIZER or self._closure:
                    return
                self._lose_optimizer()
        else:
            self._gap += now - self._at
            self._at = now
        if self._pending is not None:
            self._leave_pending()
        else:
            self._book("other", self._gap)
            self._gap = 0.0
        if self._optimizers:
            if self._visits.undecided:
                self._decide_visits(None)
            self._close(now, whole=True)
            if self._epoch_done:
                self._end_epoch(now)
            if (
                self.timing_mask
                and self.loader
                and grad_enabled
                and iterator is self._visits.trained
                and self._is_plain(self.ordinal)
            ):
                self._enter_light()
                self._progress.enter(FETCH, now)
                return
        self._stack.append(FETCH)
        self._fetching = iterator
        self._fetch_time = 0.0
        self._fetch_blind = not grad_enabled
        progress = self._progress
        visiting = not grad_enabled or (self._visits.undecided and self._visits.goes_on(iterator))
        progress.phase = "eval" if visiting else FETCH
        progress.since = now

    def next_end(self, now: float, iterator: Hashable, exhausted: bool = False, failed: bool = False) -> None:
        """`iterator` gave a batch, or had none left (`exhausted`), or raised (`failed`)."""
        if self.light:
            self._leave_light(now)
            self._fetch_time = 0.0
            self._end_iterator(now, iterator, exhausted)
            self._progress.enter("other", now)
            return
        stack = self._stack
        if self._user or not stack or stack[-1] is not FETCH or self._at is None:
            self._account(now)
        else:
            self._fetch_time += now - self._at
            self._at = now
        if not stack or stack[-1] is not FETCH or iterator is not self._fetching:
            return
        stack.pop()
        self._fetching = None
        progress = self._progress
        progress.since = now
        if exhausted or failed:
            self._end_iterator(now, iterator, exhausted)
            progress.phase = "other"
            return
        self._pending = iterator
        # What the fetch began as, the stretch after it goes on as.
        progress.phase = "forward" if progress.phase is FETCH else "eval"

    def _end_iterator(self, now: float, iterator: Hashable, exhausted: bool) -> None:
        visited, evaluation = self._visits.end(iterator, self._fetch_time)
        if not visited:
            self._book("other", self._fetch_time)
        if evaluation is not None:
            self._book_evaluation(now, evaluation)
        if exhausted and iterator is self._visits.trained:
            self._visits.trained = None
            self._epoch_done = True
            if not visited and iterator is not self._ahead:
                self._end_epoch(now)

    def _end_epoch(self, now: float) -> None:
        """The loader has no more, and (some fetch a batch ahead) its last batch has been trained on."""
        self._epoch_done = False
        # What follows may be a loop without a loader; the next fetch that a backward follows tells.
        self.loader = False
        self._tell(EventRow(now, "epoch", "", self.ordinal, self.axis.at(self.ordinal), data={"epoch": self.epoch}))
        self.epoch += 1

    def _leave_pending(self) -> None:
        """No backward followed the last fetch."""
        self._visits.add(self._pending, self._fetch_time, self._gap, self._fetch_blind)
        self._pending = None
        self._gap = 0.0

    def _use_pending(self, gap_phase: str) -> None:
        """The last fetch was for training."""
        self._book(FETCH, self._fetch_time)
        self._book(gap_phase, self._gap)
        self._gap = 0.0
        self.loader = True
        self._use_batch()
        self._visits.trained = trained = self._pending
        self._pending = None
        if self._visits.undecided:
            if trained in self._visits.undecided:
                self._ahead = trained
            self._decide_visits(trained)

    def _decide_visits(self, trained: Hashable) -> None:
        for evaluation, visit in self._visits.decide(trained):
            if evaluation:
                self._book_evaluation(self._at or 0.0, visit)
            else:
                self._book(FETCH, visit.data)
                self._book("other", visit.gap)

    def _book_evaluation(self, now: float, visit: Visit) -> None:
        duration = visit.data + visit.gap
        self._book("eval", duration)
        data: dict[str, object] = {"batches": visit.count}
        self._tell(EventRow(now, "evaluation", "", self.ordinal, self.axis.at(self.ordinal), duration, data))

    # A step in which nothing is due

    def _is_plain(self, ordinal: int) -> bool:
        """Step `ordinal` is not timed, and nothing is to be looked at in it."""
        return bool(ordinal & self.timing_mask and ordinal & self.details_mask and ordinal < self.busy)

    def _enter_light(self) -> None:
        """From here on the short way may be gone, and `light` says so."""

    def _leave_light(self, now: float) -> None:
        """From here on the long way."""

    # Bookkeeping

    def _account(self, now: float) -> None:
        """Book the time since the last event to where the loop stood."""
        at = self._at
        self._at = now
        if at is None:
            self._begin = self._cut = now
        elif self._user:
            self._book(self._user[-1], now - at)
        elif not self._stack:
            self._gap += now - at
        elif self._stack[-1] is FETCH:
            self._fetch_time += now - at
        else:
            self._book(self._stack[-1], now - at)

    def _lose_optimizer(self) -> None:
        """The optimizer's step raised: its end was never told."""
        self._stack.clear()
        self._depth = 0
