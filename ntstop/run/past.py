"""What a replay keeps of the moments it has passed, so that a step back need not begin at the first record."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ntstop.sources.base import Arrival
from ntstop.sources.playing import Clock
from ntstop.sources.replay import Mark
from ntstop_probe.wire import Record

from .state import RunState

_ENGINE_SECONDS, _STATE_SECONDS = 0.1, 0.2
"""CPU seconds of reading between two that are kept, at least: what a step back takes beside what it shows."""
_ENGINE_BYTES, _STATE_BYTES = 32 * 1024 * 1024, 64 * 1024 * 1024
"""Most that is kept: 40 curves of a million steps are 33 MB, their diagnosis 1 MB."""
_COST_SHARE = 0.1
"""Share of the reading that the keeping may take."""


class Observer(Protocol):
    """What is kept of a diagnosis engine."""

    def observe(self, writer: int, record: Record) -> None:
        """Take in one record."""
        ...


E = TypeVar("E", bound=Observer)


@dataclass(slots=True)
class Rebuilt(Generic[E]):
    """The state of a run that is on its way to a moment, and its diagnosis, which may have seen more of it already."""

    state: RunState
    engine: E
    seen: int
    """Records that the engine has seen."""

    def take(self, arrivals: Sequence[Arrival], count: int) -> None:
        """Apply records; `count` came before them."""
        for place, (writer, _, record) in enumerate(arrivals, count):
            self.state.apply(writer, record)
            if place >= self.seen:
                self.engine.observe(writer, record)


@dataclass(frozen=True, slots=True)
class _Kept:
    mark: Mark
    data: bytes


class _Shelf:
    """Copies of one thing at some of the moments it went through, at about even distances of work, so many bytes."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._work = 0.0
        self._off = False
        self.kept: list[_Kept] = []

    def offer(self, mark: Mark, thing: object, work: float) -> None:
        """Keep a copy when it is time for one. `work`: CPU seconds of reading since the last offer."""
        self._work += work
        if self._off or self._work < self._seconds or (self.kept and mark.count <= self.kept[-1].mark.count):
            return
        begin = time.thread_time()
        try:
            # Read by this process only, and never written: no more can be in it than in the thing itself.
            data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError):
            self._off = True
            return
        self.kept.append(_Kept(mark, data))
        self._work = 0.0
        self._seconds = max(self._seconds, (time.thread_time() - begin) / _COST_SHARE)
        while len(self.kept) > 1 and sum(len(kept.data) for kept in self.kept) > self._most:
            del self.kept[::2]
            self._seconds *= 2

    def latest(self, moment: float, count: int | None = None) -> _Kept | None:
        """The last one from not after `moment`, nor after so many records."""
        for kept in reversed(self.kept):
            if kept.mark.time <= moment and (count is None or kept.mark.count <= count):
                return kept
        return None


class Past(Generic[E]):
    """Copies of the state and of the diagnosis of a run that has ended. One thread must make all calls."""

    def __init__(self) -> None:
        self._engines = _Shelf(_ENGINE_SECONDS, _ENGINE_BYTES)
        self._states = _Shelf(_STATE_SECONDS, _STATE_BYTES)
        self._clock = Clock()
        self._count = 0

    def heard(self, arrivals: Sequence[Arrival], engine: E, work: float) -> None:
        """Take in what the run, which must be one of one process, has told before it was replayed, from the first
        record on. `work`: CPU seconds that it took."""
        moment = self._clock.now
        for arrival in arrivals:
            moment = self._clock.at(arrival.record)
        self._count += len(arrivals)
        self._engines.offer(Mark(self._count, moment, ()), engine, work)

    def passed(self, mark: Mark, state: RunState, engine: E | None, work: float) -> None:
        """Take in how all stands at a mark of a replay; no engine where it has seen more than that."""
        self._states.offer(mark, state, work)
        if engine is not None:
            self._engines.offer(mark, engine, work)

    def anchor(self, moment: float) -> Mark | None:
        """Where to begin in order to show `moment`; None: at the first record."""
        state, _ = self._latest(moment)
        return state.mark if state is not None else None

    def begin(self, moment: float, renew: Callable[[], E]) -> Rebuilt[E]:
        """What is to be built from that anchor on."""
        state, engine = self._latest(moment)
        return Rebuilt(
            pickle.loads(state.data) if state is not None else RunState(),
            pickle.loads(engine.data) if engine is not None else renew(),
            engine.mark.count if engine is not None else 0,
        )

    def _latest(self, moment: float) -> tuple[_Kept | None, _Kept | None]:
        """State and engine to begin with: an engine that has seen no less than the state, if there is one."""
        engine = self._engines.latest(moment)
        return self._states.latest(moment, engine.mark.count if engine is not None else 0), engine
