"""The publisher thread's work: drain the outbox, record, publish, sample, and beat, in bursts of about a millisecond.

Long bursts hold the interpreter's lock, and the training thread with it: 10 ms at once moved the p99.5 of a step from
3.5 to 13 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .blocks import records_of
from .identity import identify
from .introduction import Introduction
from .live import LiveSocket
from .outbox import Outbox
from .progress import Progress
from .pulse import Pulse, missing_step
from .recording import RETRY_SECONDS, Recording
from .rows import EventRow
from .sampling import standard_samplers
from .sampling.rota import SamplingThread
from .say import say
from .told import Told
from .transmitter import Transmitter
from .wire import STREAM_CORE, STREAM_LAYERS, Device, Heartbeat, Record

TICK = 0.25
"""Seconds between flushes: what a kill -9 can lose, and how late a curve is."""
BEAT = 1.0
BURST = 0.0005
"""Seconds of work to aim for before resting."""
REST = 0.002
MIN_ROWS, MAX_ROWS = 16, 256
"""Of one block."""
FAREWELL = 1.0
"""Seconds that the last flush may take: more than a full outbox needs."""
SETTLE = 0.3
"""Seconds that a job which ends early waits for the answer of git."""
PATIENCE = 30.0
"""Seconds after which a launched job without a step is told why."""


class Publisher:
    """Made and run in the publisher thread.

    `facts` gives what the hooks know (`hooks.facts.ModelFacts`) or None; `training` whether the process trains,
    or only waits to be of use. `explain_waiting`: say on stderr why no step has come after `PATIENCE` seconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        progress: Progress,
        told: Told,
        facts: Callable[[], Any],
        training: Callable[[], bool],
        stop: threading.Event,
        *,
        explain_waiting: bool = False,
    ) -> None:
        self._outbox = outbox
        self._progress = progress
        self._training = training
        self._explain_at = time.monotonic() + PATIENCE if explain_waiting else float("inf")
        self._stop = stop
        self._rows = MAX_ROWS // 4
        self._said: set[str] = set()
        self._lost_before = 0
        self._announce_at = 0.0
        self._identity = identify()
        self._introduction = Introduction(self._identity, told, facts)
        self._transmitter = Transmitter(self._identity.writer, self._introduction.hello)
        self._pulse = Pulse(progress)
        self._sampling = SamplingThread(standard_samplers())

    def run(self) -> None:
        """Publish until `stop` is set. What fails is said once and tried again at the next tick."""
        self._guarded("live socket", self._open_live)
        self._guarded("samplers", self._sampling.start)
        beat_at = 0.0
        while True:
            stopping = self._stop.is_set()
            self._guarded("publisher", self._flush)
            if stopping or time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT
                self._guarded("heartbeat", self._each_second)
            if stopping:
                break
            self._stop.wait(TICK)
        self._guarded("publisher", self._last_words)

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._warn(name, f"{name}: {type(error).__name__}: {error}; the job goes on")

    def _warn(self, key: str, text: str) -> None:
        """Say `text` on stderr and in the stream, once for each `key`."""
        if self._say(key, text):
            self._outbox.put(EventRow(time.monotonic(), "warning", text, self._progress.steps, self._progress.step))

    def _say(self, key: str, text: str) -> bool:
        if key in self._said:
            return False
        self._said.add(key)
        say(text)
        return True

    def _open_live(self) -> None:
        try:
            self._transmitter.live = LiveSocket(self._identity.writer)
        finally:
            live = self._transmitter.live
            self._introduction.endpoint = live.endpoint if live else None
            self._guarded("recording", self._announce)

    def _announce(self) -> None:
        """Make the process folder, if it is not there yet, and keep `process.json` true; retried after a while."""
        now = time.monotonic()
        if now < self._announce_at:
            return
        try:
            self._introduction.announce()
        except OSError as error:
            self._announce_at = now + RETRY_SECONDS
            self._warn(
                "recording", f"cannot record: {error.strerror or error} ({self._identity.folder}); the job goes on"
            )
            return
        if self._transmitter.recording is None:
            self._transmitter.recording = Recording(self._identity.folder)

    def _flush(self, patience: float = TICK, rest: float = REST) -> None:
        """Everything in the outbox, in short bursts; no longer than `patience` seconds, for the beat must go on."""
        transmitter = self._transmitter
        if transmitter.live is not None and transmitter.live.newcomers():
            transmitter.introduce(STREAM_CORE)
        deadline = time.monotonic() + patience
        while rows := self._outbox.drain(self._rows):
            began = time.thread_time()
            layers, core = records_of(rows, self._identity.attempt)
            transmitter.send(STREAM_LAYERS, layers)
            transmitter.send(STREAM_CORE, core)
            took = time.thread_time() - began
            self._rows = max(MIN_ROWS, min(MAX_ROWS, int(len(rows) * BURST / max(took, 1e-6))))
            if not len(self._outbox) or time.monotonic() > deadline:
                break
            time.sleep(rest)

    def _each_second(self) -> None:
        introduction = self._introduction
        introduction.training = self._training()
        if introduction.refresh():
            self._transmitter.introduce(STREAM_CORE)
        self._announce()
        records = self._samples()
        records.append(self._beat())
        self._transmitter.send(STREAM_CORE, records)
        self._watch_recording()
        self._watch_live()
        self._explain_waiting()

    def _samples(self) -> list[Record]:
        records = self._sampling.take()
        for failed in self._sampling.disabled:
            self._warn(failed, f"sampler switched off: {failed}")
        for failed in list(self._progress.disabled):
            self._say(failed, f"switched off: {failed}; the job goes on")
        for record in records:
            if isinstance(record, Device) and record.memory_total:
                described = f"{record.name}, {record.memory_total / 2**30:.0f} GiB, {record.uuid}"
                self._introduction.hardware[f"gpu{record.index}"] = described
        return records

    def _beat(self) -> Heartbeat:
        live = self._transmitter.live
        return self._pulse.beat(
            dropped=self._outbox.dropped + self._transmitter.unencodable,
            unrecorded=self._transmitter.unrecorded,
            viewers=live.viewers if live else 0,
            disabled=[*self._progress.disabled, *self._sampling.disabled],
        )

    def _watch_recording(self) -> None:
        """Say that the disk fails, and that it works again."""
        recording = self._transmitter.recording
        if recording is None:
            return
        if recording.problem:
            self._warn("recording", f"cannot record: {recording.problem}; the job goes on")
        elif self._transmitter.unrecorded > self._lost_before:
            lost, self._lost_before = self._transmitter.unrecorded - self._lost_before, self._transmitter.unrecorded
            self._warn(f"recording again {self._lost_before}", f"recording again; {lost} frames are missing from it")

    def _watch_live(self) -> None:
        """Go on without the live socket where the job has closed its descriptors."""
        live = self._transmitter.live
        if live is not None and not live.intact:
            self._transmitter.live, self._introduction.endpoint = None, None
            live.close()
            self._warn("live socket", "the job has closed the live socket; viewers read the recording")

    def _explain_waiting(self) -> None:
        reason = missing_step(self._progress)
        if reason and time.monotonic() >= self._explain_at and not self._identity.layout.rank:
            self._warn("waiting", f"no training step after {PATIENCE:.0f} s: {reason}")

    def _last_words(self) -> None:
        self._sampling.stop()
        if self._introduction.settle(SETTLE):
            self._transmitter.introduce(STREAM_CORE)
        self._flush(FAREWELL, rest=0.0)
        if self._transmitter.recording is not None:
            self._transmitter.recording.close()
        if self._transmitter.live is not None:
            self._transmitter.live.close()
