"""Runs the samplers in a thread of their own, so that a driver which does not answer stops nothing but itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from ..imports import importing
from ..wire import Record
from . import Closing, Factory, Sampler

POLL = 0.25
"""Seconds between looks at who is due."""
REST = 0.002
"""Seconds between two samplers: the training thread may want the interpreter's lock."""
SILENCE = 10.0
"""Seconds after which a sampler that has not come back is said to hang. NVML on a lost GPU may never do so."""
PARTING = 0.1
"""Seconds that a stop waits for the measurement under way."""
CAPACITY = 1000
"""Records kept for a publisher that does not take them."""


class Rota:
    """Asks samplers when they are due. One that raises is dropped; the others go on."""

    def __init__(self, factories: dict[str, Factory]) -> None:
        self.failed: list[str] = []
        """Which failed and why, each "name: reason"."""
        self.busy: tuple[str, float] | None = None
        """Name of the sampler that is at work, and since when."""
        self._waiting = dict(factories)
        self._samplers: list[Sampler] = []
        self._due: dict[str, float] = {}

    def due(self, now: float) -> Iterator[Callable[[], list[Record]]]:
        """The measurements to take at `now`, monotonic seconds; the caller may rest between them. None raises."""
        while self._waiting:
            name, factory = self._waiting.popitem()
            yield partial(self._guarded, name, partial(self._begin, factory))
        for sampler in list(self._samplers):
            if now >= self._due[sampler.name]:
                self._due[sampler.name] = now + sampler.interval
                yield partial(self._guarded, sampler.name, partial(_sample, sampler))

    def _guarded(self, name: str, work: Callable[[], list[Record]]) -> list[Record]:
        self.busy = name, time.monotonic()
        try:
            return work()
        except BaseException as error:
            self._drop(name, error)
            return []
        finally:
            self.busy = None

    def _drop(self, name: str, error: BaseException) -> None:
        self.failed.append(f"{name}: {type(error).__name__}: {error}"[:200])
        dropped = [sampler for sampler in self._samplers if sampler.name == name]
        self._samplers = [sampler for sampler in self._samplers if sampler.name != name]
        for sampler in dropped:
            _close(sampler)

    def close(self) -> None:
        """The samplers let go of what they hold outside the process. Raises nothing."""
        samplers, self._samplers = self._samplers, []
        for sampler in samplers:
            _close(sampler)

    def _begin(self, factory: Factory) -> list[Record]:
        with importing():
            sampler = factory()
        if sampler is not None:
            self._samplers.append(sampler)
            self._due[sampler.name] = 0.0
        return []


def _close(sampler: Sampler) -> None:
    if isinstance(sampler, Closing):
        with contextlib.suppress(Exception):
            sampler.close()


def _sample(sampler: Sampler) -> list[Record]:
    return list(sampler.sample())


class SamplingThread:
    """The rota at work. `take` what it has measured, from any thread."""

    def __init__(self, factories: dict[str, Factory]) -> None:
        self._rota = Rota(factories)
        self._measured: deque[Record] = deque(maxlen=CAPACITY)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ntstop-samples", daemon=True)

    def start(self) -> None:
        """Raises `RuntimeError` where no thread can be started any more."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further measurement; one under way is hardly waited for."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PARTING)

    def take(self) -> list[Record]:
        """What has been measured since the last call, oldest first."""
        return [self._measured.popleft() for _ in range(len(self._measured))]

    @property
    def disabled(self) -> list[str]:
        """Samplers that have failed, or hang, each "name: reason"."""
        busy = self._rota.busy
        if busy is not None and time.monotonic() - busy[1] > SILENCE:
            return [*self._rota.failed, f"{busy[0]}: does not answer"]
        return list(self._rota.failed)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._round()
            except BaseException as error:
                # Not of a sampler but of the rota itself: said once, and tried again.
                text = f"samplers: {type(error).__name__}: {error}"[:200]
                if text not in self._rota.failed:
                    self._rota.failed.append(text)
            self._stop.wait(POLL)
        self._rota.close()

    def _round(self) -> None:
        for measure in self._rota.due(time.monotonic()):
            self._measured.extend(measure())
            if self._stop.wait(REST):
                return
