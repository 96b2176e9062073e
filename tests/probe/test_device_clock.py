"""Phases on a device's clock, on a device that is as fast as the test says."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from ntstop_probe.hooks import device as device_module
from ntstop_probe.hooks.completion import Completion
from ntstop_probe.hooks.device import DeviceClock, DeviceTimer
from ntstop_probe.hooks.readback import Readback, Ticket
from ntstop_probe.hooks.readings import Readings
from ntstop_probe.outbox import Outbox
from ntstop_probe.rows import StepRow


class Stream:
    """A device whose clock stands at `now` (ms) for what is recorded next, and has passed all up to `passed`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.passed = float("inf")
        self.created = 0
        self.capturing = False
        stream = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing
                stream.created += 1
                self.at = -1.0
                self.pending = False

            def record(self, _: object) -> None:
                self.at = stream.now

            def query(self) -> bool:
                assert not stream.capturing
                return self.at <= stream.passed

            def elapsed_time(self, other: Any) -> float:
                assert other.at <= stream.passed, "asked for a time that is not known yet"
                return float(other.at - self.at)

        cuda = types.SimpleNamespace(
            Event=Event, is_current_stream_capturing=lambda: self.capturing, current_stream=lambda _: "stream"
        )
        fake = types.SimpleNamespace(cuda=cuda)
        monkeypatch.setattr(device_module, "sys", types.SimpleNamespace(modules={**sys.modules, "torch": fake}))

    def marks(self, clock: DeviceClock, *pairs: tuple[str, float]) -> None:
        for phase, milliseconds in pairs:
            self.now += milliseconds
            clock.mark(phase)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(monkeypatch)


STEP = (("data", 1.0), ("forward", 10.0), ("backward", 20.0), ("other", 0.5), ("optimizer", 4.0), ("other", 0.5))
HOST = {"data": 0.001, "forward": 0.001, "backward": 0.001, "optimizer": 0.001, "other": 0.03}


def row(ordinal: int = 0, **phases: float) -> StepRow:
    return StepRow(ordinal, 1.0, 0.034, phases=phases or dict(HOST))


def test_the_stretches_of_a_step_are_those_of_the_device_and_add_up(stream: Stream) -> None:
    clock = DeviceClock("cuda:0")
    assert clock.close(row(), True) is None, "the beginning of the first step is not known"
    for _ in range(3):
        stream.marks(clock, *STEP)
        tape = clock.close(row(), True)
        assert tape is not None
        measured = row()
        tape.fill(measured)
        tape.recycle()
        assert measured.phases == pytest.approx(
            {"data": 0.001, "forward": 0.010, "backward": 0.020, "other": 0.001, "optimizer": 0.004}
        )
        assert measured.clocks == dict.fromkeys(measured.phases, "device")


def test_no_event_is_made_once_enough_are_there(stream: Stream) -> None:
    clock = DeviceClock("cuda:0")
    clock.close(row(), True)
    for index in range(50):
        stream.marks(clock, *STEP)
        tape = clock.close(row(), True)
        assert tape is not None
        tape.recycle()
        if index == 2:
            made = stream.created
    assert stream.created == made


def test_without_a_loader_a_step_ends_with_its_optimizer(stream: Stream) -> None:
    clock = DeviceClock("cuda:0")
    seen = []
    for _ in range(4):
        stream.marks(clock, ("input+forward", 10.0), ("backward", 20.0), ("other", 1.0))
        tape = clock.close(row(), False)
        if tape is not None:
            measured = row()
            tape.fill(measured)
            seen.append(measured.phases)
        stream.marks(clock, ("optimizer", 4.0))
    expected = {"input+forward": 0.010, "backward": 0.020, "other": 0.001, "optimizer": 0.004}
    assert seen == [pytest.approx(expected)] * 2


def test_a_step_with_an_evaluation_or_a_capture_in_it_stays_on_the_host_s_clock(stream: Stream) -> None:
    clock = DeviceClock("cuda:0")
    clock.close(row(), True)
    stream.marks(clock, *STEP)
    assert clock.close(row(eval=1.0, data=0.1), True) is None
    stream.marks(clock, *STEP)
    assert clock.close(row(), True) is not None
    stream.marks(clock, *STEP[:2])
    stream.capturing = True
    stream.marks(clock, *STEP[2:4])
    stream.capturing = False
    stream.marks(clock, *STEP[4:])
    assert clock.close(row(), True) is None
    stream.marks(clock, *STEP)
    assert clock.close(row(), True) is not None


def test_an_event_that_an_unread_step_ends_with_is_not_used_again(stream: Stream) -> None:
    clock = DeviceClock("cuda:0")
    clock.close(row(), True)
    stream.marks(clock, *STEP)
    tape = clock.close(row(), True)
    assert tape is not None
    clock.spoil()
    clock.close(row(), True)
    for _ in range(3):
        stream.marks(clock, *STEP)
        clock.close(row(), True)
    measured = row()
    tape.fill(measured)
    assert sum(measured.phases.values()) == pytest.approx(0.036)


def test_a_row_waits_for_the_device_and_is_not_asked_for_during_a_capture(stream: Stream) -> None:
    outbox, readback = Outbox(), Readback()
    completion = Completion(outbox, readback, lambda: None)
    clock = DeviceClock("cuda:0")
    clock.close(row(), True)
    stream.passed = 5.0
    stream.marks(clock, *STEP)
    measured = row()
    completion.step(measured, Readings([], [], tape=clock.close(measured, True)))
    assert len(outbox) == 0
    readback.poll = lambda: False  # type: ignore[method-assign]
    stream.capturing = True
    completion.release()
    stream.capturing = False
    readback.poll = lambda: True  # type: ignore[method-assign]
    completion.release()
    assert len(outbox) == 0
    stream.passed = 100.0
    completion.release()
    [taken] = outbox.drain(5)
    assert isinstance(taken, StepRow)
    assert taken.clocks["forward"] == "device"


def test_a_step_that_is_given_up_keeps_the_host_s_phases(stream: Stream) -> None:
    outbox = Outbox()
    completion = Completion(outbox, Readback(), lambda: None)
    clock = DeviceClock("cuda:0")
    clock.close(row(), True)
    stream.passed = -1.0
    stream.marks(clock, *STEP)
    completion.step(row(), Readings([[Ticket()]], [], tape=clock.close(row(), True)))
    completion.release(everything=True)
    [taken] = outbox.drain(5)
    assert isinstance(taken, StepRow)
    assert (taken.phases, taken.clocks) == (HOST, {})


def test_what_the_device_takes_over_the_norms_is_known_of_the_look_before(stream: Stream) -> None:
    timer = DeviceTimer()
    tensors = [types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"))]
    for milliseconds in (3.0, 5.0):
        timer.start(tensors)
        stream.now += milliseconds
        timer.stop()
        assert stream.created == 2
    assert timer.seconds == pytest.approx(0.003)
    stream.passed = -1.0
    timer.start(tensors)
    assert timer.seconds == pytest.approx(0.003)
    timer.start([torch.ones(1)])
    timer.stop()
