"""Rows wait here, in order, until the numbers they were promised have arrived from the device."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from ..outbox import Outbox
from ..rows import LayerRow, StepRow
from .ledger import NOTHING
from .readback import Readback, Ticket
from .readings import Norm, Reading, Readings
from .sample import LayerSample

MAX_HELD = 64
"""Steps a row is held back for its numbers; after that it goes out without them. The queue of a CUDA device is about
1,000 kernels deep, so that with small steps the host runs some dozens of them ahead."""
LOSS_NAMES = ("loss", *(f"loss/{index}" for index in range(1, 64)))


class Completion:
    """Takes rows with what was read for them, and puts them into the outbox in the order of the steps."""

    def __init__(self, outbox: Outbox, readback: Readback, on_nonfinite: Callable[[], None]) -> None:
        self._outbox = outbox
        self._on_nonfinite = on_nonfinite
        """Told of a loss that turned out not to be finite when it arrived late."""
        self._readback = readback
        self.held: deque[tuple[StepRow, Readings, LayerSample | None]] = deque()
        """Steps that are not complete, oldest first."""

    def quick(self, row: StepRow, readings: Readings) -> bool:
        """The ordinary step, whose row is complete: done, True. False: it takes `step`."""
        if self.held or readings is not NOTHING:
            return False
        self._outbox.put(row)
        return True

    def step(self, row: StepRow, readings: Readings, sample: LayerSample | None = None) -> None:
        """A step has closed. `sample`: the layers as they were in it."""
        if sample is None and not self.held and readings.tape is None and _ready(readings):
            _fill(row, readings)
            self._outbox.put(row)
            return
        self.held.append((row, readings, sample))
        self.release()

    def release(self, everything: bool = False) -> None:
        """Let go what is complete, or too old (`everything`: all of it)."""
        held = self.held
        if not held:
            return
        may_ask = self._readback.poll()
        while held:
            row, readings, sample = held[0]
            complete = may_ask and _ready(readings) and (sample is None or sample.ready)
            if not (complete or everything or len(held) > MAX_HELD):
                return
            held.popleft()
            _fill(row, readings)
            if readings.tape is not None and complete:
                readings.tape.fill(row)
                readings.tape.recycle()
            if _late_nonfinite(readings):
                self._on_nonfinite()
            if sample is not None:
                self._layers(row, sample)
            self._outbox.put(row)

    def _layers(self, row: StepRow, sample: LayerSample) -> None:
        fields, norm = sample.fields()
        if row.grad_norm is None:
            row.grad_norm = norm
        if fields:
            self._outbox.put(LayerRow(sample.schema, row.ordinal, row.step, row.t, fields, sample.interval))


def _ready(readings: Readings) -> bool:
    for losses in readings.losses:
        for loss in losses:
            if not (loss is None or isinstance(loss, float) or loss.ready):
                return False
    for part in readings.norms:
        for number in (part.norm, part.scale):
            if not (number is None or isinstance(number, float) or number.ready):
                return False
    scale = readings.scale
    if not (scale is None or isinstance(scale, float) or scale.ready):
        return False
    return readings.tape is None or readings.tape.ready


def _late_nonfinite(readings: Readings) -> bool:
    """A loss that came from a device was not finite (one that was there at once was seen at its backward)."""
    tickets = [loss for losses in readings.losses for loss in losses if isinstance(loss, Ticket)]
    return any(value is not None and not math.isfinite(value) for value in (ticket.value for ticket in tickets))


def number(reading: Reading) -> float | None:
    """What a reading came to; None: it never arrived."""
    return reading if reading is None or isinstance(reading, float) else reading.value


def _fill(row: StepRow, readings: Readings) -> None:
    for name, losses in zip(LOSS_NAMES, readings.losses, strict=False):
        if len(losses) == 1:
            value = number(losses[0])
            if value is not None:
                row.losses[name] = value
            continue
        numbers = [value for value in map(number, losses) if value is not None]
        if numbers:
            row.losses[name] = sum(numbers) / len(numbers)
    if readings.norms:
        unscaled = [value for value in map(_unscaled, readings.norms) if value is not None]
        if len(unscaled) == len(readings.norms):
            row.grad_norm = unscaled[0] if len(unscaled) == 1 else math.hypot(*unscaled)
        row.clip = _clip_coefficient(readings)
    if readings.scale is not None:
        row.loss_scale = number(readings.scale)


def _unscaled(part: Norm) -> float | None:
    norm, scale = number(part.norm), 1.0 if part.scale is None else number(part.scale)
    return norm / scale if norm is not None and scale else None


def _clip_coefficient(readings: Readings) -> float | None:
    """The smallest factor that clipping applied; None when nobody clipped, or a norm is not known."""
    smallest: float | None = None
    for part in readings.norms:
        norm, limit = number(part.norm), part.limit
        if limit is None or norm is None:
            continue
        # As in torch.nn.utils.clip_grads_with_norm_; a NaN norm makes every gradient NaN, and so the factor.
        coefficient = min(limit / (norm + 1e-6), 1.0) if norm == norm else norm
        smallest = coefficient if smallest is None or not coefficient >= smallest else smallest
    return smallest
