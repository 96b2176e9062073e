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
from .descriptors import descriptors_left
from .disk import limit_from_environment
from .identity import identify
from .introduction import Introduction
from .live import LiveSocket
from .outbox import Outbox
from .progress import Progress
from .pulse import Pulse, missing_step, plain_beat
from .recording import RETRY_SECONDS, Recording
from .rows import EventRow, Row
from .sampling import standard_samplers
from .sampling.rota import SamplingThread
from .say import say
from .told import Told
from .transmitter import Transmitter
from .wire import STREAM_CORE, STREAM_LAYERS, Device, Record

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
RESERVED_DESCRIPTORS = 64
"""Below RLIMIT_NOFILE, that are left to the job: the live socket takes about ten, the recording two."""
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
        self._faults: list[str] = []
        self._samples: list[Record] = []
        """That go out with the next heartbeat."""
        self._lost_before = 0
        self._announce_at = 0.0
        self._identity = identify()
        self._introduction = Introduction(self._identity, told, facts)
        self._transmitter = Transmitter(self._identity.writer, self._introduction.hello)
        self._pulse = Pulse(progress)
        self._sampling = SamplingThread(standard_samplers())

    def run(self) -> None:
        """Publish until `stop` is set. What fails is said once and tried again at the next tick: the loop goes on."""
        self._guarded("live socket", self._open_live)
        self._guarded("samplers", self._sampling.start)
        beat_at = 0.0
        while True:
            stopping = self._stop.is_set()
            if stopping:
                self._guarded("recording", self._make_room)
            self._guarded("publisher", self._flush)
            self._guarded("modes", self._pulse.glance)
            if stopping or time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT
                self._each_second()
            if stopping:
                break
            self._stop.wait(TICK)
        self._last_words()

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            # Also what is no Exception: nothing but the end of the job is to end this thread.
            self._fault(name, error)

    def _fault(self, name: str, error: BaseException) -> None:
        """Part `name` of the publisher has failed, and is tried again: said once, and shown from then on."""
        reason = f"{name}: {type(error).__name__}: {error}"[:200]
        if name not in self._said:
            self._faults.append(reason)
        self._warn(name, f"{reason}; the job goes on")

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
            left = descriptors_left()
            if left is not None and left < RESERVED_DESCRIPTORS:
                raise OSError(f"only {left} file descriptors are left to the job; viewers read the recording")
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
            self._transmitter.recording = Recording(self._identity.folder, max_bytes=limit_from_environment())

    def _flush(self, patience: float = TICK, rest: float = REST) -> None:
        """Everything in the outbox, in short bursts; no longer than `patience` seconds, for the beat must go on."""
        transmitter = self._transmitter
        if transmitter.newcomers():
            transmitter.introduce(STREAM_CORE)
        deadline = time.monotonic() + patience
        while rows := self._outbox.drain(self._rows):
            began = time.thread_time()
            layers, core = self._records_of(rows)
            transmitter.send(STREAM_LAYERS, layers)
            transmitter.send(STREAM_CORE, core)
            took = time.thread_time() - began
            self._rows = max(MIN_ROWS, min(MAX_ROWS, int(len(rows) * BURST / max(took, 1e-6))))
            if not len(self._outbox) or time.monotonic() > deadline:
                break
            time.sleep(rest)

    def _records_of(self, rows: list[Row]) -> tuple[list[Record], list[Record]]:
        """Records of the layers and of the core stream. A row of which none can be made is left out, and counted."""
        attempt = self._identity.attempt
        try:
            return records_of(rows, attempt)
        except BaseException as error:
            if len(rows) == 1:
                self._transmitter.unencodable += 1
                self._fault("rows", error)
                return [], []
        pairs = [self._records_of([row]) for row in rows]
        return [record for layers, _ in pairs for record in layers], [record for _, core in pairs for record in core]

    def _each_second(self) -> None:
        self._guarded("introduction", self._refresh)
        self._guarded("recording", self._announce)
        self._guarded("samplers", self._take_samples)
        self._guarded("heartbeat", self._beat)
        self._guarded("recording", self._watch_recording)
        self._guarded("live socket", self._watch_live)
        self._guarded("publisher", self._explain_waiting)

    def _refresh(self) -> None:
        introduction = self._introduction
        introduction.training = self._training()
        if introduction.refresh():
            self._transmitter.introduce(STREAM_CORE)

    def _take_samples(self) -> None:
        records = self._sampling.take()
        for failed in self._sampling.disabled:
            self._warn(failed, f"sampler switched off: {failed}")
        for failed in list(self._progress.disabled):
            self._say(failed, f"switched off: {failed}; the job goes on")
        for record in records:
            if isinstance(record, Device):
                self._look_at(record)
        self._samples = records

    def _look_at(self, device: Device) -> None:
        if device.memory_total:
            described = f"{device.name}, {device.memory_total / 2**30:.0f} GiB, {device.uuid}"
            self._introduction.hardware[f"gpu{device.index}"] = described
        if device.lost:
            self._warn(f"lost {device.uuid}", f"gpu {device.index} ({device.uuid}) is lost: the driver cannot reach it")

    def _beat(self) -> None:
        live = self._transmitter.live
        off = [*self._progress.disabled, *self._sampling.disabled, *self._transmitter.faults, *self._faults]
        try:
            beat = self._pulse.beat(
                dropped=self._outbox.dropped + self._transmitter.unencodable,
                unrecorded=self._transmitter.unrecorded,
                viewers=live.viewers if live else 0,
                disabled=off,
            )
        except BaseException as error:
            self._fault("heartbeat", error)
            beat = plain_beat(self._progress, off)
        samples, self._samples = self._samples, []
        self._transmitter.send(STREAM_CORE, [*samples, beat])

    def _watch_recording(self) -> None:
        """Say that the disk fails, and that it works again."""
        recording = self._transmitter.recording
        if recording is None:
            return
        if recording.layers_stopped:
            self._warn("disk", "NTSTOP_MAX_DISK is reached by the curves alone: layers are recorded no more")
        if recording.problem:
            self._warn("recording", f"cannot record: {recording.problem}; the job goes on")
        elif self._transmitter.unrecorded > self._lost_before and not self._stop.is_set():
            lost, self._lost_before = self._transmitter.unrecorded - self._lost_before, self._transmitter.unrecorded
            self._warn(f"recording again {self._lost_before}", f"recording again; {lost} frames are missing from it")

    def _watch_live(self) -> None:
        """Go on without the live socket where it has failed, or the job has closed its descriptors."""
        transmitter = self._transmitter
        live = transmitter.live
        if live is not None and not live.intact:
            transmitter.live = None
            live.close()
            self._warn("live socket", "the job has closed the live socket; viewers read the recording")
        if transmitter.live is None:
            self._introduction.endpoint = None
        for fault in transmitter.faults:
            self._warn(fault.partition(":")[0], f"{fault}; the job goes on")

    def _explain_waiting(self) -> None:
        reason = missing_step(self._progress)
        if reason and time.monotonic() >= self._explain_at and not self._identity.layout.rank:
            self._warn("waiting", f"no training step after {PATIENCE:.0f} s: {reason}")

    def _last_words(self) -> None:
        self._guarded("samplers", self._sampling.stop)
        self._guarded("introduction", self._settle)
        self._guarded("publisher", lambda: self._flush(FAREWELL, rest=0.0))
        recording, live = self._transmitter.recording, self._transmitter.live
        if recording is not None:
            self._guarded("recording", recording.close)
        if live is not None:
            self._guarded("live socket", live.close)

    def _make_room(self) -> None:
        if self._transmitter.recording is not None:
            self._transmitter.recording.last_words()

    def _settle(self) -> None:
        if self._introduction.settle(SETTLE):
            self._transmitter.introduce(STREAM_CORE)
