"""Live is the recording, only sooner: whatever the socket loses, garbles or never says, the state is the same."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.run.state import RunState
from ntstop.sources.base import Arrival
from ntstop.sources.feed import Feed
from ntstop.sources.live import RunSource
from ntstop.sources.segments import ProcessRecording
from ntstop.sources.sequencer import PATIENCE, Sequencer
from ntstop.sources.subscriber import Subscriber
from ntstop_probe.live import LiveSocket
from ntstop_probe.wire import STREAM_CORE, Frame, Layers, Schema, Steps, stream_prefix

from ..helpers import wait_until
from .writer import Writer, column


class Watcher:
    """Polls a source in the test's own thread until something is true of what it brought."""

    def __init__(self, folder: Path, *, live: bool = True) -> None:
        self.source = RunSource(folder, live=live)
        self.arrivals: list[Arrival] = []

    def until(self, condition: Callable[[], object], writer: Writer | None = None) -> None:
        def look() -> bool:
            if writer is not None:
                writer.pump()
            self.arrivals += self.source.poll(0.02)
            return bool(condition())

        wait_until(look, interval=0.0, timeout=20)

    def listening(self, writer: Writer) -> None:
        """Until the subscription has taken hold and the recording is read."""
        live = writer.transmitter.live
        assert live is not None
        self.until(lambda: live.viewers and self.source.status.complete and self.source.status.live, writer)

    @property
    def steps(self) -> list[int]:
        return [
            record.ordinal + index
            for _, _, record in self.arrivals
            if isinstance(record, Steps)
            for index in range(record.count)
        ]

    def has(self, count: int) -> Callable[[], bool]:
        return lambda: sum(record.count for _, _, record in self.arrivals if isinstance(record, Steps)) >= count

    @property
    def state(self) -> RunState:
        state = RunState()
        for writer, _, record in self.arrivals:
            state.apply(writer, record)
        return state


def lossy(live: LiveSocket, keep: Callable[[bytes], bool]) -> None:
    """Make a socket lose the frames for which `keep` is false, as one at its high-water mark does."""
    send = live.send
    live.send = lambda frame: send(frame) if keep(frame) else None  # type: ignore[method-assign]


def train_with_layers(writer: Writer, first: int, count: int) -> None:
    for step in range(first, first + count):
        if step % 5 == 0:
            writer.send_layers(Layers(1, step, None, 1.0, {"grad_norm": column("f4", [float(step), None])}))
        writer.train(step, 1)


def assert_same(one: RunState, other: RunState) -> None:
    assert one.processes.keys() == other.processes.keys()
    for writer, process in one.processes.items():
        twin = other.processes[writer]
        assert process.series.keys() == twin.series.keys()
        for name, series in process.series.items():
            np.testing.assert_array_equal(series.recent(4_000), twin.series[name].recent(4_000))
        assert process.layers.keys() == twin.layers.keys()
        for name, matrix in process.layers.items():
            np.testing.assert_array_equal(matrix.window(0, 1e9, 999).mean, twin.layers[name].window(0, 1e9, 999).mean)


def test_a_viewer_that_opens_late_sees_everything_from_step_0() -> None:
    writer = Writer(live=True)
    writer.train(0, 500)
    watcher = Watcher(writer.folder.parent)
    watcher.until(watcher.has(500), writer)
    watcher.listening(writer)
    writer.train(500, 100)
    watcher.until(watcher.has(600))
    assert watcher.steps == list(range(600))
    watcher.source.close()
    writer.close()


def test_live_frames_come_through_the_socket_at_once() -> None:
    writer = Writer(live=True)
    writer.train(0, 10)
    watcher = Watcher(writer.folder)
    watcher.listening(writer)
    for segment in writer.folder.glob("*.nts"):
        segment.unlink()
    writer.train(10, 10)
    watcher.until(watcher.has(20))
    assert watcher.steps == list(range(20))
    assert watcher.source.status.gaps == 0
    watcher.source.close()
    writer.close()


@pytest.mark.parametrize("loss", [0.1, 0.5, 0.95])
def test_frames_lost_at_random_are_read_from_the_recording_and_the_state_is_the_same(loss: float) -> None:
    chance = random.Random(7)
    writer = Writer(live=True, segment_bytes=8_000)
    assert writer.transmitter.live is not None
    lossy(writer.transmitter.live, lambda frame: chance.random() > loss)
    writer.send_layers(Schema(1, ["a", "b"]))
    train_with_layers(writer, 0, 100)
    watcher = Watcher(writer.folder.parent)
    watcher.listening(writer)
    for first in range(100, 600, 20):
        train_with_layers(writer, first, 20)
        watcher.arrivals += watcher.source.poll(0.001)
    watcher.until(watcher.has(600), writer)
    replay = Watcher(writer.folder.parent, live=False)
    replay.until(replay.has(600))
    assert [arrival.sequence for arrival in watcher.arrivals] == [arrival.sequence for arrival in replay.arrivals]
    assert_same(watcher.state, replay.state)
    assert watcher.source.status.gaps == 0
    watcher.source.close()
    writer.close()


def test_what_was_lost_and_not_recorded_either_is_counted_and_passed_over() -> None:
    writer = Writer(live=True, record=False)
    assert writer.transmitter.live is not None
    watcher = Watcher(writer.folder)
    watcher.listening(writer)
    writer.train(0, 10)
    lossy(writer.transmitter.live, lambda frame: False)
    writer.train(10, 30)
    del writer.transmitter.live.send
    writer.train(40, 10)
    watcher.until(watcher.has(20))
    assert watcher.steps == [*range(10), *range(40, 50)]
    assert watcher.source.status.gaps == 3
    watcher.source.close()
    writer.close()


def test_garbage_on_the_socket_is_counted_and_harmless() -> None:
    writer = Writer(live=True)
    live = writer.transmitter.live
    assert live is not None
    writer.train(0, 10)
    watcher = Watcher(writer.folder)
    watcher.listening(writer)
    raw = live._socket
    prefix = stream_prefix(STREAM_CORE)
    for message in (prefix, prefix + b"\0" * 200, prefix + random.Random(1).randbytes(5_000), b"", b"\xff" * 64):
        raw.send(message)
    writer.train(10, 10)
    watcher.until(watcher.has(20))
    assert watcher.steps == list(range(20))
    assert watcher.source.status.corrupt == 3
    watcher.source.close()
    writer.close()


def test_a_stranger_on_the_socket_is_not_believed() -> None:
    writer, other = Writer(live=True), Writer("run-2", live=True)
    watcher = Watcher(writer.folder)
    watcher.listening(writer)
    live, foreign = writer.transmitter.live, other.transmitter.live
    assert live is not None and foreign is not None
    foreign.send = live.send  # type: ignore[method-assign]
    other.transmitter.live = foreign
    other.train(0, 10)
    writer.train(0, 10)
    watcher.until(watcher.has(10))
    watcher.arrivals += watcher.source.poll(0.05)
    assert {arrival.writer for arrival in watcher.arrivals} == {writer.writer}
    watcher.source.close()
    writer.close()
    other.close()


def test_when_the_socket_dies_the_file_is_followed() -> None:
    writer = Writer(live=True)
    watcher = Watcher(writer.folder)
    writer.train(0, 10)
    watcher.listening(writer)
    assert writer.transmitter.live is not None
    writer.transmitter.live.close()
    writer.transmitter.live = None
    writer.train(10, 50)
    watcher.until(watcher.has(60))
    assert watcher.steps == list(range(60))
    watcher.until(lambda: not watcher.source.status.live)
    watcher.source.close()


def test_an_endpoint_that_never_answers_does_not_hold_up_the_recording() -> None:
    writer = Writer(live=True)
    assert writer.transmitter.live is not None
    writer.transmitter.live.close()
    writer.transmitter.live = None
    writer.train(0, 10)
    watcher = Watcher(writer.folder)
    begin = time.monotonic()
    watcher.until(watcher.has(10))
    assert time.monotonic() - begin < 1.0
    writer.train(10, 10)
    watcher.until(watcher.has(20))
    watcher.source.close()


def test_ranks_and_attempts_that_appear_while_watching_are_taken_in() -> None:
    first = Writer("run-1", rank=0, live=True)
    first.train(0, 20)
    watcher = Watcher(first.folder.parent)
    watcher.until(watcher.has(20), first)
    second = Writer("run-1", rank=1, live=True)
    second.train(0, 20)
    watcher.until(watcher.has(40), second)
    first.close()
    again = Writer("run-1", rank=0, attempt=1, live=True)
    again.train(10, 20)
    watcher.until(watcher.has(60), again)
    state = watcher.state
    assert state.primary is not None and state.primary.writer == again.writer
    x, _, _ = state.primary.series["loss"].recent(99)
    assert x.tolist() == [*range(20), *range(10, 30)]
    assert len(state.processes) == 3 and list(state.ranks) == [0, 1]
    watcher.source.close()
    second.close()
    again.close()


def test_earlier_attempts_are_read_before_later_ones() -> None:
    later = Writer("run-1", rank=0, attempt=1)
    later.train(15, 10)
    earlier = Writer("run-1", rank=0, attempt=0)
    earlier.train(0, 20)
    watcher = Watcher(earlier.folder.parent)
    watcher.until(watcher.has(30))
    assert watcher.steps == [*range(20), *range(15, 25)]
    watcher.source.close()


def test_a_viewer_that_fell_behind_catches_up_from_the_recording() -> None:
    writer = Writer(live=True)
    watcher = Watcher(writer.folder)
    watcher.listening(writer)
    publisher = threading.Thread(target=lambda: [writer.train(step, 1) for step in range(8_000)])
    publisher.start()
    publisher.join()
    watcher.until(watcher.has(8_000), writer)
    assert watcher.steps == list(range(8_000))
    watcher.source.close()
    writer.close()


def test_a_run_opened_before_anything_was_flushed_waits_and_then_draws() -> None:
    writer = Writer(live=True)
    watcher = Watcher(writer.folder.parent)
    watcher.listening(writer)
    assert watcher.arrivals == []
    writer.train(0, 10)
    watcher.until(watcher.has(10))
    watcher.source.close()
    writer.close()


def frame(sequence: int) -> Frame:
    return Frame(STREAM_CORE, 1, sequence, b"\x91\x90")


@given(st.permutations(range(1, 12)), st.sets(st.integers(1, 11)), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_whatever_order_frames_come_in_each_is_given_out_once_in_order(
    order: list[int], twice: set[int], burst: int
) -> None:
    sequencer, out = Sequencer(), list[int]()
    out += [given.sequence for given in sequencer.through([frame(0)])]
    for index, number in enumerate([*order, *twice]):
        sequencer.put(frame(number))
        if index % burst == 0:
            out += [given.sequence for given in sequencer.take(0.0)]
    out += [given.sequence for given in sequencer.take(0.0)]
    assert out == list(range(12))
    assert sequencer.lost == 0


def test_a_missing_frame_is_given_up_after_patience_and_not_before() -> None:
    sequencer = Sequencer()
    sequencer.through([frame(1)])
    sequencer.put(frame(4))
    assert sequencer.gap
    assert sequencer.take(10.0) == []
    assert sequencer.take(10.0 + PATIENCE / 2) == []
    assert [given.sequence for given in sequencer.take(10.0 + PATIENCE)] == [4]
    assert sequencer.lost == 2
    assert not sequencer.gap


def test_what_the_recording_lacks_is_taken_from_the_socket_in_its_place() -> None:
    sequencer = Sequencer()
    sequencer.through([frame(1)])
    sequencer.put(frame(2))
    assert [given.sequence for given in sequencer.through([frame(3), frame(4)])] == [2, 3, 4]
    assert sequencer.lost == 0


def test_a_stream_that_is_heard_from_its_middle_has_a_gap_before() -> None:
    sequencer = Sequencer()
    sequencer.put(frame(3))
    assert sequencer.take(0.0) == [] and sequencer.gap
    assert [given.sequence for given in sequencer.through([frame(1), frame(2)])] == [1, 2]
    assert [given.sequence for given in sequencer.take(0.0)] == [3]
    assert sequencer.lost == 0


def test_what_waits_is_shared_among_the_processes() -> None:
    subscriber = Subscriber()
    try:
        waters = []
        for processes in (1, 32, 1024, 100_000):
            subscriber.share(processes)
            waters.append(subscriber._socket.getsockopt(zmq.RCVHWM))
        assert waters == [4096, 512, 16, 16]
    finally:
        subscriber.close()


def test_a_long_recording_is_read_while_frames_come_and_few_of_them_are_held() -> None:
    writer = Writer(live=True)
    feed = Feed(writer.folder)
    writer.train(0, 3000, block=10)
    frames = ProcessRecording(writer.folder).read()
    for frame in frames[100:]:
        feed.hear(frame, 0.0)
    assert len(feed.sequencer._held) == 64
    found: list[int] = []
    while not feed.complete or found[-1] != frames[-1].sequence:
        found += [frame.sequence for frame in feed.frames(0.0)]
    assert found == [frame.sequence for frame in frames] and feed.lost == 0
    writer.close()
