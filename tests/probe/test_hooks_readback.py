"""Numbers that come later from a device, with a device that answers when the test says so; and with a real one."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import pytest
import torch

from ntstop_probe.hooks import readback as readback_module
from ntstop_probe.hooks.completion import MAX_HELD, Completion
from ntstop_probe.hooks.readback import Readback, Ticket
from ntstop_probe.hooks.readings import Norm, Readings
from ntstop_probe.outbox import Outbox
from ntstop_probe.rows import StepRow


class Device:
    """Stands in for torch.cuda: events are done when `finish` says so."""

    def __init__(self) -> None:
        self.done = 0
        self.recorded = 0
        self.created = 0
        self.capturing = False
        device = self

        class Event:
            def __init__(self) -> None:
                device.created += 1
                self.number = -1

            def record(self, stream: object) -> None:
                device.recorded += 1
                self.number = device.recorded

            def query(self) -> bool:
                assert not device.capturing, "queried while a graph is captured"
                return self.number <= device.done

        cuda = types.SimpleNamespace(
            Event=Event,
            is_current_stream_capturing=lambda: device.capturing,
            current_stream=lambda _: "stream",
        )
        self.torch = types.SimpleNamespace(
            cuda=cuda,
            float32=torch.float32,
            no_grad=torch.no_grad,
            empty=lambda shape, dtype, pin_memory: torch.empty(shape, dtype=dtype),
        )

    def tensor(self, *values: float) -> Any:
        real = torch.tensor(values)
        return types.SimpleNamespace(
            device=types.SimpleNamespace(type="cuda", index=0), numel=real.numel, detach=lambda: real
        )

    def finish(self, count: int = 1) -> None:
        self.done += count


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    fake = Device()
    monkeypatch.setattr(readback_module, "sys", types.SimpleNamespace(modules={**sys.modules, "torch": fake.torch}))
    return fake


def test_a_number_arrives_when_its_event_is_done_and_not_before(device: Device) -> None:
    readback = Readback()
    first, second = readback.read(device.tensor(1.5)), readback.read(device.tensor(2.5))
    assert isinstance(first, Ticket)
    assert isinstance(second, Ticket)
    readback.poll()
    assert (first.ready, first.value) == (False, None)
    device.finish()
    readback.poll()
    assert (first.value, second.ready) == (1.5, False)
    device.finish()
    readback.poll()
    assert second.value == 2.5


def test_a_full_ring_drops_and_no_event_is_made_after_the_first_use(device: Device) -> None:
    readback = Readback()
    tickets = [readback.read(device.tensor(1.0)) for _ in range(readback_module.SCALAR_SLOTS + 10)]
    assert tickets[-10:] == [None] * 10
    assert device.created == readback_module.SCALAR_SLOTS
    device.finish(5)
    readback.poll()
    assert [readback.read(device.tensor(1.0)) is None for _ in range(6)] == [False] * 5 + [True]
    assert device.created == readback_module.SCALAR_SLOTS


def test_nothing_is_read_or_asked_while_a_graph_is_captured(device: Device) -> None:
    readback = Readback()
    ticket = readback.read(device.tensor(1.0))
    device.capturing = True
    assert readback.read(device.tensor(2.0)) is None
    device.finish(10)
    readback.poll()
    assert isinstance(ticket, Ticket)
    assert not ticket.ready
    device.capturing = False
    readback.poll()
    assert ticket.value == 1.0


def test_a_wider_block_gets_a_wider_ring(device: Device) -> None:
    readback = Readback()
    small = readback.read_block(device.tensor(*[1.0] * 3))
    wide = readback.read_block(device.tensor(*[2.0] * 3_000))
    assert isinstance(small, Ticket)
    assert isinstance(wide, Ticket)
    assert (small.ready, small.values) == (True, [])
    device.finish(2)
    readback.poll()
    assert wide.values == [2.0] * 3_000


def row(ordinal: int) -> StepRow:
    return StepRow(ordinal, float(ordinal))


def test_rows_wait_for_their_numbers_and_keep_their_order() -> None:
    outbox, ticket = Outbox(), Ticket()
    completion = Completion(outbox, Readback(), lambda: None)
    completion.step(row(0), Readings([[ticket]], []))
    assert not completion.quick(row(1), Readings([[2.0]], []))
    completion.step(row(1), Readings([[2.0]], []))
    assert len(outbox) == 0
    ticket.settle([1.0])
    completion.step(row(2), Readings([[3.0, 5.0]], []))
    drained = [taken for taken in outbox.drain(10) if isinstance(taken, StepRow)]
    assert [taken.losses["loss"] for taken in drained] == [1.0, 2.0, 4.0]


def test_a_row_does_not_wait_forever() -> None:
    outbox = Outbox()
    completion = Completion(outbox, Readback(), lambda: None)
    for ordinal in range(MAX_HELD + 3):
        completion.step(row(ordinal), Readings([[Ticket()]], [Norm(Ticket(), 1.0)]))
    drained = [taken for taken in outbox.drain(100) if isinstance(taken, StepRow)]
    assert [taken.ordinal for taken in drained] == [0, 1, 2]
    assert all(taken.losses == {} and taken.grad_norm is None and taken.clip is None for taken in drained)
    completion.release(everything=True)
    assert len(outbox) == MAX_HELD


def test_a_loss_that_arrives_as_nan_is_told() -> None:
    told: list[bool] = []
    ticket = Ticket()
    completion = Completion(Outbox(), Readback(), lambda: told.append(True))
    completion.step(row(0), Readings([[ticket]], []))
    assert told == []
    ticket.settle([math.nan])
    completion.release()
    assert told == [True]
