"""What fails in the probe takes only itself away: job, heartbeat and recording go on, and it is told once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zmq

from ntstop_probe import introduction, live, pulse, recording, registry, say
from ntstop_probe import publisher as publisher_module
from ntstop_probe.descriptors import identity
from ntstop_probe.outbox import Outbox
from ntstop_probe.progress import Progress
from ntstop_probe.publisher import Publisher
from ntstop_probe.rows import EventRow, ScalarRow, SchemaRow, StepRow
from ntstop_probe.sampling import rota, standard_samplers
from ntstop_probe.sampling.allocator import AllocatorSampler
from ntstop_probe.sampling.compiler import CompilerSampler
from ntstop_probe.sampling.host import HostSampler
from ntstop_probe.told import Told
from ntstop_probe.wire import Event, FrameReader, Heartbeat, Host, decode_batch

from ..helpers import wait_until
from .reading import process_folders, records, step_ordinals

FAULTS = [RuntimeError("broken"), MemoryError(), RecursionError("too deep"), SystemExit(3)]
"""Of the kinds that come without a reason in the code. KeyboardInterrupt is the user's, and only the main thread's."""


class Job:
    """A publisher in its thread, and a training thread that makes a step every few milliseconds."""

    def __init__(self) -> None:
        self.outbox, self.progress = Outbox(), Progress()
        self.stop_event = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._publish, self._train)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        Publisher(self.outbox, self.progress, Told(), lambda: None, lambda: True, self.stop_event).run()

    def _train(self) -> None:
        self.outbox.put(SchemaRow(0, ["a"], [1], ["float32"], [False], [True]))
        while not self.stop_event.is_set():
            ordinal, now = self.progress.steps, time.monotonic()
            self.outbox.put(StepRow(ordinal, now, 0.001, losses={"loss": 1.0}))
            self.outbox.put(ScalarRow(now, None, ordinal, {"own": 1.0}))
            self.progress.steps += 1
            time.sleep(0.004)

    def stop(self) -> None:
        self.stop_event.set()
        for thread in reversed(self._threads):
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def start(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Job]]:
    """Starts a job whose publisher ticks fast; it is stopped at the end, if it was not."""
    monkeypatch.setattr(publisher_module, "TICK", 0.02)
    monkeypatch.setattr(publisher_module, "BEAT", 0.05)
    monkeypatch.setattr(publisher_module, "SETTLE", 0.0)
    monkeypatch.setattr(publisher_module, "standard_samplers", dict)
    # Only now is stderr what the tests read.
    monkeypatch.setattr(say, "_stderr", identity(2))
    jobs: list[Job] = []

    def begin() -> Job:
        jobs.append(Job())
        return jobs[-1]

    yield begin
    for job in jobs:
        job.stop()


def failing(error: BaseException, after: int = 0, work: Any = None) -> Callable[..., Any]:
    """A function that works `after` times, and then raises for ever."""
    left = [after]

    def fail(*args: Any, **kwargs: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            return work(*args, **kwargs)
        raise error

    return fail


def beats(folder: Path) -> list[Heartbeat]:
    return [record for record in records(folder) if isinstance(record, Heartbeat)]


def warnings(folder: Path) -> list[str]:
    return [record.text for record in records(folder) if isinstance(record, Event) and record.kind == "warning"]


PARTS: list[tuple[object, str, int, str]] = [
    (live.LiveSocket, "__init__", 0, "live socket"),
    (live.LiveSocket, "newcomers", 3, "live socket"),
    (live.LiveSocket, "send", 0, "live socket"),
    (live.LiveSocket, "welcome", 3, "live socket"),
    (introduction.Introduction, "refresh", 1, "introduction"),
    (introduction.Introduction, "hello", 0, "introduction"),
    (registry, "write_process_info", 1, "recording"),
    (pulse.Pulse, "beat", 2, "heartbeat"),
    (pulse, "missing_step", 2, "heartbeat"),
    (publisher_module, "missing_step", 2, "publisher"),
    (publisher_module.SamplingThread, "start", 0, "samplers"),
    (publisher_module.SamplingThread, "take", 3, "samplers"),
    (recording.Recording, "wants_segment", 8, "recording"),
]
"""What is broken, how often it works before, and the part that is said to have failed."""


@pytest.mark.parametrize(
    ("owner", "name", "after", "part", "error"),
    [(*row, FAULTS[place % len(FAULTS)]) for place, row in enumerate(PARTS)],
    ids=[f"{part}:{name}" for _, name, _, part in PARTS],
)
def test_a_fault_in_the_publisher_costs_neither_heartbeat_nor_recording_and_is_told_once(
    owner: object,
    name: str,
    after: int,
    part: str,
    error: BaseException,
    start: Callable[[], Job],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(owner, name, failing(error, after, getattr(owner, name)))
    job = start()
    folder = wait_until(lambda: process_folders(home))[0]
    count = len(wait_until(lambda: beats(folder)))
    wait_until(lambda: len(beats(folder)) > count + 4)
    job.stop()
    kept = step_ordinals(records(folder))
    assert kept == list(range(job.progress.steps)), "no step is lost"
    told = [text for text in warnings(folder) if type(error).__name__ in text]
    shown = [text for text in beats(folder)[-1].probe.disabled if type(error).__name__ in text]
    said = [line for line in capfd.readouterr().err.splitlines() if type(error).__name__ in line]
    assert [len(told), len(shown), len(said)] == [1, 1, 1], (told, shown, said)
    for text in (*told, *shown):
        assert text.startswith(part)


def test_a_recorder_that_fails_for_good_leaves_the_viewers_with_everything(
    start: Callable[[], Job], home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recording.Recording, "write", failing(MemoryError(), 10, recording.Recording.write))
    job = start()
    folder = wait_until(lambda: process_folders(home))[0]
    endpoint = wait_until(lambda: registry.read_process_info(folder).endpoint)
    with zmq.Context() as context, context.socket(zmq.SUB) as viewer:
        viewer.setsockopt(zmq.LINGER, 0)
        viewer.setsockopt(zmq.SUBSCRIBE, b"")
        viewer.connect(endpoint)
        seen: list[Any] = []

        def last_beat() -> Heartbeat | None:
            while viewer.poll(0):
                for frame in FrameReader().feed(viewer.recv()):
                    seen.extend(decode_batch(frame.payload)[0])
            found = [record for record in seen if isinstance(record, Heartbeat)]
            return found[-1] if found else None

        wait_until(lambda: (beat := last_beat()) is not None and beat.probe.unrecorded > 30)
        beat = last_beat()
        assert beat is not None
        assert beat.probe.disabled == ["recording: MemoryError: "]
        ordinals = step_ordinals(seen)
        assert ordinals == list(range(ordinals[0], ordinals[-1] + 1))
        job.stop()
    assert capfd.readouterr().err.count("recording: MemoryError") == 1


def test_a_row_nothing_can_be_made_of_is_left_out_alone(
    start: Callable[[], Job], home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = publisher_module.records_of

    def records_or_not(rows: list[Any], attempt: int) -> Any:
        if any(isinstance(row, EventRow) and row.kind == "poison" for row in rows):
            raise RecursionError("too deep")
        return made(rows, attempt)

    monkeypatch.setattr(publisher_module, "records_of", records_or_not)
    job = start()
    for _ in range(3):
        job.outbox.put(EventRow(time.monotonic(), "poison", ""))
    folder = wait_until(lambda: process_folders(home))[0]
    wait_until(lambda: len(beats(folder)) > 3)
    job.stop()
    assert step_ordinals(records(folder)) == list(range(job.progress.steps))
    assert sum("rows: RecursionError" in text for text in warnings(folder)) == 1
    assert beats(folder)[-1].probe.dropped == 3
    assert capfd.readouterr().err.count("rows: RecursionError") == 1


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("sampler", [HostSampler, AllocatorSampler, CompilerSampler])
def test_a_sampler_that_fails_is_told_once_and_the_others_go_on(
    sampler: type[Any],
    error: BaseException,
    start: Callable[[], Job],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Other:
        name, interval = "other", 0.0

        def sample(self) -> Sequence[Host]:
            return [Host(time.monotonic(), cores=1)]

    monkeypatch.setattr(rota, "POLL", 0.01)
    monkeypatch.setattr(publisher_module, "standard_samplers", lambda: {**standard_samplers(), "other": Other})
    monkeypatch.setattr(sampler, "sample", failing(error))
    job = start()
    folder = wait_until(lambda: process_folders(home))[0]
    wait_until(lambda: beats(folder) and beats(folder)[-1].probe.disabled)
    count = sum(isinstance(record, Host) for record in records(folder))
    wait_until(lambda: sum(isinstance(record, Host) for record in records(folder)) > count + 3)
    job.stop()
    (off,) = beats(folder)[-1].probe.disabled
    assert off.startswith(f"{sampler.name}: {type(error).__name__}")
    assert warnings(folder) == [f"sampler switched off: {off}"]
    assert capfd.readouterr().err.count(type(error).__name__) == 1
    assert step_ordinals(records(folder)) == list(range(job.progress.steps))
