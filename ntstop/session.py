"""A run under observation: a reader thread that feeds the run's state and the diagnosis, and a lock around both."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import Finding
from ntstop.diagnosis.protocol import Diagnosis
from ntstop.run.heard import Heard
from ntstop.run.past import Past, Rebuilt
from ntstop.run.state import RunState
from ntstop.run.zoom import Zoom
from ntstop.sources import runs
from ntstop.sources.base import Arrival, Source, SourceError, SourceStatus
from ntstop.sources.feed import SILENCE
from ntstop.sources.live import RunSource
from ntstop.sources.logs.printed import TextSource
from ntstop.sources.logs.source import LogSource
from ntstop.sources.replay import ReplaySource
from ntstop.sources.stdio import RelaySource
from ntstop.sources.watch import RunWatch
from ntstop.turns import TurnLock
from ntstop.upkeep import Upkeep
from ntstop.viewer_state import ViewerState

_POLL = 0.25
"""Seconds that the reader waits for news at most; what `stop` waits for."""
_EVIDENCE_EVERY = 1.0
"""Seconds between two looks at whether the processes live."""
_EVIDENCE_SHARE = 0.05
"""Share of the reader's time these looks may take, when there are a thousand processes."""
_EVIDENCE_SLICE = 0.005
"""Seconds of a look at a time; in between records are applied."""
_SWITCH = 0.001
"""Seconds after which a thread that computes lets another one go on that waits: a key needs several such turns until it
is painted, and Python's own 5 ms each would be felt."""

_upkeep = Upkeep()
"""One for all the sessions of a process."""


class Session:
    """Watches one run: `start`, look at it under `lock` as often as `version` has changed, `stop`.

    `target` is a run id, a unique beginning of one, a folder (with a slash; it may come into being later), or a
    `Source`. Everything of `state` and `findings` may be touched only while `lock` is held: even reading a curve
    settles what waits in it. `error` is one line once the reading has ended for good. Raises `SourceError` when there
    is no such run.
    """

    def __init__(
        self,
        target: str | Path | Source,
        engine: Diagnosis | None = None,
        *,
        renew: Callable[[], Diagnosis] | None = None,
    ) -> None:
        """`renew` makes an engine, for the beginning and for each step back in a replay; default: as `engine` is."""
        self.lock = TurnLock()
        self.state = RunState()
        self.version = 0
        """Goes up with everything that could be drawn anew."""
        self.error: str | None = None
        self.notice = ""
        """One line that whoever shows the run is to show too: something beside the reading has failed."""
        self.status = SourceStatus()
        """How the reading goes; replaced, never changed."""
        self.entry: runs.RunEntry | None = None
        """The evidence on whether the run lives, about a second old; replaced, never changed. None before the first."""
        self.renew: Callable[[], Diagnosis] = renew or (Engine if engine is None else type(engine))
        self._engine: Diagnosis = self.renew() if engine is None else engine
        self.path, self._source = _open(target)
        self.is_removed = False
        """Whether the run's folder, which was there, is there no more: what was read of it is all there is."""
        self.zoom = Zoom(self.path if isinstance(self._source, RunSource) else None, self._touch)
        """Looks at curves and layers as finely as the recording has them. Under `lock`, as all else."""
        self._heard = Heard() if isinstance(self._source, RelaySource) else None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._answer = threading.Condition()
        self._asked = 0
        """How often somebody has asked whether all is read."""
        self._refreshed = 0
        """The last of these questions for which the source was told to look."""
        self._answered = 0
        """The last of these questions that is answered with yes."""
        self._kept = ViewerState(None)
        self._watch = RunWatch(self.path) if self.path is not None else None
        self._heard_at = 0.0
        self._evidence_at = 0.0
        self._evidence_took = 0.0
        """Seconds that the present look has taken so far."""
        self._gone: set[int] = set()
        self.replay: ReplaySource | None = None
        """What plays the run again, once `begin_replay` was called."""
        self._rebuilt: Rebuilt[Diagnosis] | None = None
        """What is built after a step back, to be shown when it has come to the position."""
        self._past: Past[Diagnosis] = Past()
        self._is_followed = isinstance(self._source, RunSource)
        """Whether what is read first is kept for a replay, as long as one may follow."""

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings, the weightiest first."""
        return self._engine.findings

    @property
    def engine(self) -> Any:
        """The diagnosis engine."""
        return self._engine

    @property
    def kept(self) -> ViewerState:
        """What the viewers keep of this run. Before its name is known nothing is kept, and another one is given."""
        if self._kept.key is None and (key := self._key()):
            self._kept = ViewerState(key)
        return self._kept

    def _key(self) -> str | None:
        if isinstance(self._source, LogSource):
            # Names of logs are names of files, and many are called train.log.
            return str(self._source.target.path.absolute())
        if isinstance(self._source, TextSource):
            return None
        return (self.entry.id if self.entry is not None else self.state.run) or None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can come of the run, nor is it played again."""
        return self.replay is None and self.entry is not None and self.entry.state in runs.ENDED

    @property
    def is_read(self) -> bool:
        """Whether all that is to be shown has been read: what was recorded, in a replay up to its position."""
        return self.status.complete if self.replay is None else self.replay.settled and self._rebuilt is None

    @property
    def is_log(self) -> bool:
        """Whether what is read is the log of another tool."""
        return isinstance(self._source, LogSource | TextSource)

    @property
    def remarks(self) -> list[str]:
        """What was assumed of a log, and what is missing in it; one line each."""
        return self._source.remarks if isinstance(self._source, LogSource | TextSource) else []

    def start(self) -> None:
        """Begin to read, in a thread of its own. Once only."""
        sys.setswitchinterval(min(_SWITCH, sys.getswitchinterval()))
        self._thread = threading.Thread(target=self._run, name="ntstop-reader", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop reading, without waiting for the thread."""
        self._stop.set()
        self.zoom.close()

    def stop(self) -> None:
        """Stop reading; waits for the thread, 2 seconds at most."""
        self.end()
        if self._thread is not None:
            self._thread.join(2.0)

    def load(self) -> None:
        """Read everything there is now, in the calling thread, without `start`. Raises `SourceError`."""
        if isinstance(self._source, RunSource):
            self._source.live = False
        # What has been recorded is on its way through a pipe, while a file has it now.
        is_pipe = isinstance(self._source, RelaySource | TextSource)
        if isinstance(self._source, LogSource):
            self._source.live = False
        try:
            while (arrivals := self._source.poll(_POLL if is_pipe else 0.0)) or (
                is_pipe and not self._source.status.complete
            ):
                self._apply(arrivals)
            self._engine.settle()
            self.status = self._source.status
            self._look_for_evidence(time.monotonic())
        finally:
            self._source.close()

    def begin_replay(self) -> bool:
        """From now on the run is played: `replay` says how. False where it has not ended, or is not in a folder."""
        entry = self.entry
        has_ended = entry is not None and not entry.active and bool(entry.processes) and not self.is_removed
        if self.replay is None and isinstance(self._source, RunSource) and entry is not None and has_ended:
            self.replay = ReplaySource(entry)
            self.replay.anchor = lambda moment: self._past.anchor(moment)
        return self.replay is not None

    def wait_for_end(self, timeout: float = 10.0) -> bool:
        """Wait until all that has been recorded by now is read.

        False when that took longer than `timeout` seconds, or the reading has ended (see `error`).
        """
        with self._answer:
            self._asked += 1
            question = self._asked
            self._answer.wait_for(lambda: self._answered >= question or self.error is not None, timeout)
            return self._answered >= question

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        except SourceError as error:
            self._fail(str(error))
        except Exception as error:
            # A viewer that goes blind must say so.
            self._fail(f"the reader has failed: {type(error).__name__}: {error}")
        finally:
            self._source.close()

    def _turn(self) -> None:
        # Read before polling: what is on disk when the question is put will have been read when nothing more comes.
        question = self._asked
        if question > self._refreshed:
            self._source.refresh()
            self._refreshed = question
        if self.replay is not None and self._source is not self.replay:
            self._source.close()
            self._source = self.replay
        past = not self.status.complete
        arrivals = self._source.poll(_POLL)
        if self.replay is not None and self._source is self.replay:
            self._rebuild(self.replay, arrivals)
        else:
            begin = time.thread_time()
            self._apply(arrivals)
            self._follow(arrivals, time.thread_time() - begin)
        if not past and self._heard is not None:
            for writer in {arrival.writer for arrival in arrivals}:
                self._heard.note(writer)
        status = self._source.status
        if status != self.status:
            self.status = status
            self.version += 1
        nothing_left = not arrivals or (isinstance(self._source, RunSource) and self._source.refreshed)
        done = question > self._answered and nothing_left and status.complete
        if arrivals:
            self._heard_at = time.monotonic()
        if status.complete and (past or not arrivals or done):
            self._settle(patient=not done and time.monotonic() - self._heard_at < SILENCE)
        if status.complete:
            _upkeep.tend(time.monotonic())
        self._look_for_evidence(time.monotonic(), _EVIDENCE_SLICE if not done else math.inf)
        if done:
            with self._answer:
                self._answered = question
                self._answer.notify_all()

    def _settle(self, *, patient: bool) -> None:
        """Let the engine judge all that it has; who waits for the lock gets it in between."""
        settled = False
        while not settled:
            with self.lock:
                settled = self._engine.settle(lambda: self.lock.wanted, patient=patient)
            self.lock.give_way()

    def _apply(self, arrivals: list[Arrival]) -> None:
        waiting = iter(arrivals)
        left = len(arrivals)
        while left:
            with self.lock:
                for writer, _, record in waiting:
                    self.state.apply(writer, record)
                    self._engine.observe(writer, record)
                    left -= 1
                    if self.lock.wanted:
                        break
                self.version += 1
            self.lock.give_way()

    def _rebuild(self, replay: ReplaySource, arrivals: list[Arrival]) -> None:
        """Apply; after a step back to what nobody sees yet, for a curve that grows again from nothing is no picture."""
        begin = time.thread_time()
        if replay.rewound():
            self._rebuilt = self._past.begin(replay.promised, self.renew)
        rebuilt = self._rebuilt
        if rebuilt is None:
            self._apply(arrivals)
            with self.lock:
                self._past.passed(replay.mark, self.state, self._engine, time.thread_time() - begin)
            return
        count = replay.count - len(arrivals)
        rebuilt.take(arrivals, count)
        engine = rebuilt.engine if replay.count >= rebuilt.seen else None
        self._past.passed(replay.mark, rebuilt.state, engine, time.thread_time() - begin)
        if replay.settled:
            rebuilt.engine.settle()
            with self.lock:
                self.state, self._engine = rebuilt.state, rebuilt.engine
                self._rebuilt = None
                self._gone.clear()
                self.version += 1

    def _follow(self, arrivals: list[Arrival], work: float) -> None:
        """Keep what a replay can begin with, of a run that has ended and of which one process tells."""
        if not self._is_followed:
            return
        entry = self.entry
        if entry is not None and (entry.active or len(entry.processes) != 1):
            self._past, self._is_followed = Past(), False
        elif arrivals and not self._gone:
            self._past.heard(arrivals, self._engine, work)

    def _look_for_evidence(self, now: float, seconds: float = math.inf) -> None:
        """Find out whether the processes live, and tell the engine of those that died, or are stopped.

        Of a thousand, as far as that can be found in so many seconds, and the rest at the next call; infinite: now.
        """
        if now < self._evidence_at and seconds < math.inf:
            return
        begin = time.perf_counter()
        try:
            entry = self._find_evidence(seconds)
        except SourceError:
            self._evidence_at = now + _EVIDENCE_EVERY
            if self.path is not None and self.entry is not None and not self.is_removed:
                self.is_removed = not self.path.exists()
                self.version += 1
            return
        self.is_removed = False
        self._evidence_took += time.perf_counter() - begin
        if entry is None and self._watch is not None:
            return
        self._evidence_at = now + max(_EVIDENCE_EVERY, self._evidence_took / _EVIDENCE_SHARE)
        self._evidence_took = 0.0
        if entry is None:
            return
        self.entry = entry
        self.version += 1
        if not self.status.complete:
            return
        for process in entry.processes:
            writer = process.info.writer if process.info else None
            if writer is None:
                continue
            if process.state == "stopped":
                with self.lock:
                    self._engine.process_stopped(writer, process.why)
            elif process.state in ("died", "failed") and writer not in self._gone:
                self._gone.add(writer)
                with self.lock:
                    self._engine.process_gone(writer, process.why)

    def _find_evidence(self, seconds: float) -> runs.RunEntry | None:
        if self._watch is not None:
            return self._watch.look() if seconds == math.inf else self._watch.look_for(seconds)
        if self._heard is not None and isinstance(self._source, RelaySource):
            with self.lock:
                return self._heard.entry(self.state, self._source.gone)
        if isinstance(self._source, LogSource | TextSource):
            return self._source.evidence()
        return None

    def _touch(self) -> None:
        self.version += 1

    def _fail(self, text: str) -> None:
        self.error = text
        self.version += 1
        with self._answer:
            self._answer.notify_all()


def _open(target: str | Path | Source) -> tuple[Path | None, Source]:
    if isinstance(target, str):
        target = Path(target) if "/" in target else runs.resolve(target).path
    if isinstance(target, Path):
        return target, RunSource(target)
    return getattr(target, "folder", None), target
