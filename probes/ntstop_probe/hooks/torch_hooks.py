"""What stands behind the wrappers: who trains, the open step, its layers, and what to do when our own part fails."""

from __future__ import annotations

import math
import threading
import time
import weakref
from dataclasses import replace
from threading import get_ident
from typing import Any

import torch

from ..outbox import Outbox
from ..progress import Progress
from ..rows import EventRow, StepRow
from .autocast import autocast_of
from .budget import WORDS, Budget
from .clipping import Clipping
from .compiler import CompiledSteps
from .completion import Completion
from .device import DeviceClock
from .facts import ModelFacts
from .layers import LayerSampler
from .light import TrainingMachine
from .patches import Patched
from .rates import rates
from .readback import Readback, Ticket
from .readings import Reading, Readings
from .settings import HookSettings

TAKEOVER = 1.0
"""Seconds between two looks whether the training thread is still alive, when another one trains."""

_clock = time.monotonic
_thread_clock = time.thread_time
"""Goes on only while the thread runs, for what takes long enough to be interrupted; ten times as dear to read."""
_is_finite = math.isfinite
_Tensor = torch.Tensor


class TorchHooks:
    """The state behind the wrappers: one training thread, its step machine and its layers."""

    __slots__ = (
        "_batch",
        "_looked",
        "_outbox",
        "_settings",
        "_tentative",
        "active",
        "budget",
        "clipping",
        "clock",
        "compiled",
        "completion",
        "facts",
        "in_backward",
        "layers",
        "looking",
        "loss_factor",
        "machine",
        "owner",
        "patched",
        "progress",
        "readback",
        "stepped",
        "unscaled",
    )

    def __init__(self, outbox: Outbox, progress: Progress, settings: HookSettings, facts: ModelFacts) -> None:
        self.active = True
        self.owner: int | None = None
        """Ident of the training thread: who ran the first backward or optimizer step. Other threads are ignored."""
        self._tentative = True
        """Only fetches were seen: the owner may be a thread that fetches ahead."""
        self._looked = 0.0
        self._outbox = outbox
        self.progress = progress
        self._settings = settings
        self.facts = facts
        self.patched = Patched()
        self.readback = Readback()
        self.budget = Budget(settings.budget, settings.layers)
        self.layers = LayerSampler(
            self.readback, outbox.put, progress, facts, self.budget, settings.layers, self.tell_sampling
        )
        self.completion = Completion(outbox, self.readback, self._look_now)
        self.machine = TrainingMachine(self._step_closed, outbox.append, outbox.put, progress)
        self.looking = 0.0
        """Seconds of the open step that went into looking at its layers: they are not part of the floor."""
        self.clock: DeviceClock | None = None
        """Of the device that the first loss on one was on."""
        self.clipping = Clipping(self)
        self.compiled = CompiledSteps()
        self.in_backward = False
        self.unscaled: tuple[weakref.ReferenceType[Any], Any] | None = None
        """The tensor a gradient scaler made last, and the loss it was made of."""
        self.loss_factor = 1.0
        """What a framework has just divided the loss by, before its backward."""
        self.stepped = False
        """An optimizer has stepped since somebody set this to False."""
        self._batch: tuple[int | None, int | None] | None = None

    # Who trains

    def claim_fetch(self) -> bool:
        """Whether the calling thread's fetches count."""
        if not self.active:
            return False
        me = get_ident()
        if self.owner is None:
            self.owner = me
            self.progress.saw_loader = True
        return self.owner == me

    def claim(self) -> bool:
        """Whether the calling thread, which does a backward or an optimizer step, is the training thread."""
        try:
            return self.active and self._claim(get_ident())
        except Exception as error:
            self.fail("training thread", error)
            return False

    def _claim(self, me: int) -> bool:
        if self._tentative or self._owner_is_gone():
            if self.owner not in (None, me):
                self.machine.finish(_clock())
            self.owner = me
            self.progress.thread = me
            if self._tentative:
                self._tentative = False
                if self._settings.on_training is not None:
                    self._settings.on_training()
        return self.owner == me

    def _owner_is_gone(self) -> bool:
        if self.owner is None:
            return True
        now = _clock()
        if self.owner == get_ident() or now - self._looked < TAKEOVER:
            return False
        self._looked = now
        return all(thread.ident != self.owner for thread in threading.enumerate())

    # What the machine hands on

    def _step_closed(self, row: StepRow, readings: Readings) -> None:
        layers, machine, budget = self.layers, self.machine, self.budget
        if self.clock is not None and not machine.light:
            tape = self.clock.close(row, machine.whole)
            if tape is not None:
                readings = replace(readings, tape=tape)
        if not machine.light:
            cost = self.progress.cost
            budget.floor.long_step(cost - machine.cost_before - self.looking)
            machine.cost_before = cost
            self.looking = 0.0
        if layers.sample is not None:
            started, began = _clock(), _thread_clock()
            self.completion.step(row, readings, layers.take(row.ordinal))
            layers.charge(_thread_clock() - began)
            self.looking += _clock() - started
        elif not self.completion.quick(row, readings):
            self.completion.step(row, readings)
        if row.ordinal >= budget.next_review:
            self._review(row.ordinal)
        if machine.timing_mask:
            machine.busy = min(layers.next_due, budget.next_review)
            machine.plain_rows = self.clock is None and not self.completion.held and not self._outbox.full

    def _review(self, ordinal: int) -> None:
        """Does the probe keep to its budget? If not, less is done from here on."""
        budget, progress, machine = self.budget, self.progress, self.machine
        budget.floor.light_steps(machine.light_costs)
        machine.light_costs.clear()
        if budget.review(ordinal, progress.step_time):
            machine.timing_mask, machine.details_mask = budget.timing_mask, budget.details_mask
            self.layers.schedule(ordinal)
            self.tell_sampling(ordinal)
        machine.light_cost = budget.floor.light
        if budget.disarmed and self.active:
            self.active = False
            self.owner = None
            self.patched.put_back()

    def tell_sampling(self, ordinal: int) -> None:
        """What is looked at from now on, for the viewer and as an event."""
        budget, progress = self.budget, self.progress
        progress.tier = WORDS[budget.tier]
        progress.layer_interval, progress.ratio_interval = budget.layer_interval, budget.ratio_interval
        progress.timing_interval = budget.timing_interval
        data: dict[str, object] = {
            "tier": progress.tier,
            "layers": progress.layer_interval,
            "ratio": progress.ratio_interval,
            "timing": progress.timing_interval,
        }
        text = budget.describe()
        if budget.disarmed:
            text = f"the hooks are taken out: they cost far more than {100 * budget.share:g} % of so short a step"
        self._outbox.put(EventRow(_clock(), "sampling", text, ordinal=ordinal, data=data))

    def _look_now(self) -> None:
        """A loss was not finite: the open step is looked at."""
        self.layers.force(self.machine.ordinal)
        if self.machine.ordinal >= self.layers.next_due:
            self.machine.look_now(_clock())

    def finish(self) -> None:
        """Close the open step; what has not arrived from the device by now stays out."""
        self.machine.finish(_clock())
        self.completion.release(everything=True)

    # When something fails

    def fail(self, part: str, error: BaseException) -> None:
        """Disarm: from now on every wrapper only passes calls through."""
        if not self.active:
            return
        self.active = False
        self.owner = None
        self.patched.put_back()
        text = f"{part}: {type(error).__name__}: {error}"
        self.progress.disabled.append(f"hooks: {text}")
        self._outbox.put(EventRow(_clock(), "warning", f"the hooks switched themselves off: {text}"))

    # Loss, norms, scale

    def read_root(self, root: Any) -> Reading:
        """The value at the root of a backward; None when it is no single number that may be read."""
        if root.__class__ is not _Tensor:
            if not isinstance(root, (list, tuple)) or len(root) != 1 or root[0].__class__ is not _Tensor:
                return None
            root = root[0]
        unscaled = self.unscaled
        if unscaled is not None:
            self.unscaled = None
            if unscaled[0]() is root:
                root = unscaled[1]
        try:
            if root.is_cpu:
                value = root.item() if root.numel() == 1 else None
                if value.__class__ is not float:
                    return None
                if not _is_finite(value):
                    self._look_now()
                return value if self.loss_factor == 1.0 else value * self.loss_factor
            if self.clock is None and root.is_cuda:
                self.clock = DeviceClock(root.device)
            if root.numel() != 1:
                return None
            reading = self.readback.read(root)
            if isinstance(reading, Ticket):
                reading.factor = self.loss_factor
            return reading
        except (RuntimeError, TypeError, ValueError):
            # A fake or functorch tensor: it has no value.
            return None

    def capturing(self) -> bool:
        """A CUDA graph is being captured: what is done now would be done again at each replay."""
        return self.clock is not None and torch.cuda.is_current_streamcapturing()

    def mark(self, phase: str) -> None:
        """On the device's clock, `phase` ends here."""
        if self.clock is not None:
            self.clock.mark(phase)

    def zeroed(self) -> None:
        """Somebody clears gradients."""
        if get_ident() == self.owner:
            try:
                self.machine.note_zero_grad()
            except Exception as error:
                self.fail("zero_grad", error)

    def is_unscaled(self, scaler: Any, optimizer: Any) -> bool:
        """The job has called `unscale_` for this step itself, before it clipped."""
        state = scaler._per_optimizer_states.get(id(optimizer)) or {}
        return getattr(state.get("stage"), "name", "") != "READY" and bool(state)

    # The optimizer

    def look(self, optimizer: Any, closure: bool) -> None:
        """Before a step: meet the optimizer, and look at its layers when it is time."""
        layers, machine, progress = self.layers, self.machine, self.progress
        started = _clock()
        try:
            if id(optimizer) not in layers.known:
                progress.saw_optimizer = True
                layers.meet(optimizer)
                progress.setup += _clock() - started
            if machine.ordinal >= layers.next_due and not closure and not self.capturing():
                layers.before(optimizer, machine.ordinal, machine.clipped, ratio=True)
        except Exception as error:
            self.fail_layers(error)
        self._looked_since(started)

    def look_after(self, optimizer: Any, closure: bool) -> None:
        """After a step: a closure has made the gradients only now."""
        layers, machine = self.layers, self.machine
        started = _clock()
        try:
            if closure and machine.ordinal >= layers.next_due and id(optimizer) in layers.known:
                layers.before(optimizer, machine.ordinal, [], ratio=False)
            layers.after()
        except Exception as error:
            self.fail_layers(error)
        self._looked_since(started)

    def _looked_since(self, started: float) -> None:
        now = _clock()
        self.looking += now - started
        self.machine.own_work(now)

    def compiled_step(self) -> None:
        """An optimizer has stepped in compiled code, some time since the last event."""
        optimizer, machine, layers = self.compiled.take(), self.machine, self.layers
        if not self.claim():
            return
        now = _clock()
        if self.clock is not None:
            self.clock.spoil()
        self.stepped = True
        machine.optimizer_begin(now, id(optimizer))
        try:
            if id(optimizer) not in layers.known:
                self.progress.saw_optimizer = True
                layers.meet(optimizer)
                self.progress.setup += _clock() - now
            layers.after()
        except Exception as error:
            self.fail_layers(error)
        self._looked_since(now)
        machine.optimizer_end(_clock(), id(optimizer), rates(optimizer.param_groups) if machine.details else None)

    def look_before_compiled(self) -> None:
        """After a backward: where the optimizer's step is compiled, its layers are looked at here."""
        optimizer = None if self.compiled.seen is None else self.compiled.seen()
        if optimizer is None or id(optimizer) not in self.layers.known or self.capturing():
            return
        started = _clock()
        try:
            # One more micro-batch has come: the gradients are other ones now.
            self.layers.forget()
            self.layers.before(optimizer, self.machine.ordinal, self.machine.clipped, ratio=True)
        except Exception as error:
            self.fail_layers(error)
        self._looked_since(started)

    def fail_layers(self, error: Exception) -> None:
        """A kind of tensor that cannot be measured, say: time and loss go on without the layers."""
        if self.layers.switch_off():
            text = f"layers: {type(error).__name__}: {error}"
            self.progress.disabled.append(text)
            self._outbox.put(EventRow(_clock(), "warning", f"layers are not looked at any more: {text}"))

    # The batch

    def fetch_raised(self, token: object, exhausted: bool) -> None:
        """A fetch ended in an exception of the job's own, mostly StopIteration."""
        if self.active:
            try:
                self.machine.next_end(_clock(), token, exhausted, not exhausted)
            except Exception as error:
                self.fail("DataLoader", error)

    def batch_seen(self, iterator: Any, size: int | None) -> None:
        """Remember the size of a batch until it is known to be one for training."""
        self.progress.saw_loader = True
        self._batch = size, getattr(iterator, "_num_workers", None)

    def first_backward(self, root: Any) -> None:
        """What only has to be seen once: how large a batch is, and what autocast makes of it."""
        if self.facts.autocast is None:
            self.facts.autocast = found = autocast_of(root)
            if found and self.facts.precision is not None:
                self.facts.precision += f", autocast {found}"
            self.facts.version += 1
        if self._batch is not None:
            self.facts.batch_size, self.facts.workers = self._batch
            self.facts.version += 1
            self._batch = None
