"""The functions that stand in torch's place while the hooks are armed. They turn what passes into events of the step.

Each does its own work inside `try`: what fails there disarms the hooks, is said once, and the job goes on. Each adds
what it took to `Progress.cost`.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch

from ..outbox import Outbox
from ..progress import Progress
from ..rows import EventRow, StepRow
from .completion import Completion
from .facts import ModelFacts, leading_dimension
from .layers import LayerSampler
from .patches import Patched
from .readback import Readback
from .readings import Reading, Readings
from .settings import HookSettings
from .steps import StepMachine

MAX_GROUPS = 8
"""Learning rates a step per optimizer: some recipes make a group for every tensor."""
TAKEOVER = 1.0
"""Seconds between two looks whether the training thread is still alive, when another one trains."""

_clock = time.monotonic
_is_finite = math.isfinite
_Tensor = torch.Tensor


class TorchHooks:
    """The state behind the wrappers: one training thread, its step machine and its layers."""

    __slots__ = (
        "_batch",
        "_completion",
        "_dynamo_told",
        "_looked",
        "_norm_is_2",
        "_outbox",
        "_settings",
        "_tentative",
        "active",
        "facts",
        "in_backward",
        "layers",
        "machine",
        "optimizer_steps",
        "owner",
        "patched",
        "progress",
        "readback",
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
        self.layers = LayerSampler(self.readback, outbox.put, progress, facts, settings.budget, settings.layers)
        self._completion = Completion(outbox, self.readback, self._late_nonfinite)
        self.machine = StepMachine(self._step_closed, outbox.put, progress)
        self.in_backward = False
        self.unscaled: tuple[weakref.ReferenceType[Any], Any] | None = None
        """The tensor a gradient scaler made last, and the loss it was made of."""
        self.optimizer_steps = 0
        self._norm_is_2 = False
        self._batch: tuple[int | None, int | None] | None = None
        self._dynamo_told = False

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
        if not self.active:
            return False
        me = get_ident()
        if self._tentative or self._owner_is_gone():
            if self.owner not in (None, me):
                self.machine.finish(_clock())
            self.owner = me
            self.progress.thread = me
            if self._tentative:
                self._tentative = False
                self._skip_in_dynamo()
                if self._settings.on_training is not None:
                    self._settings.on_training()
        return self.owner == me

    def _owner_is_gone(self) -> bool:
        now = _clock()
        if self.owner == get_ident() or now - self._looked < TAKEOVER:
            return False
        self._looked = now
        return all(thread.ident != self.owner for thread in threading.enumerate())

    def _skip_in_dynamo(self) -> None:
        """Tell torch.compile, once it is loaded, not to look into the hooks."""
        rules = sys.modules.get("torch._dynamo.trace_rules")
        if rules is None or self._dynamo_told:
            return
        self._dynamo_told = True
        try:
            for name in (__package__, Outbox.__module__):
                rules.add(name)
        except Exception as error:
            self.progress.disabled.append(f"torch.compile: {error}")

    # What the machine hands on

    def _step_closed(self, row: StepRow, readings: Readings) -> None:
        layers = self.layers
        if layers.sample is not None:
            self._completion.step(row, readings, layers.take(row.ordinal))
        elif not self._completion.quick(row, readings):
            self._completion.step(row, readings)

    def _late_nonfinite(self) -> None:
        self.layers.force(self.machine.ordinal)

    def finish(self) -> None:
        """Close the open step; what has not arrived from the device by now stays out."""
        self.machine.finish(_clock())
        self._completion.release(everything=True)

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
                if value.__class__ is float and not _is_finite(value):
                    self.layers.force(self.machine.ordinal)
                return value if value.__class__ is float else None
            return self.readback.read(root) if root.numel() == 1 else None
        except (RuntimeError, TypeError, ValueError):
            # A fake or functorch tensor: it has no value.
            return None

    def norm_measured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Clipping is about to measure a norm, of this type."""
        if get_ident() != self.owner:
            return
        try:
            self._norm_is_2 = float(args[1] if len(args) > 1 else kwargs.get("norm_type", 2.0)) == 2.0
        except (TypeError, ValueError):
            self._norm_is_2 = False

    def clipping(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Clipping has measured, and is about to scale the gradients."""
        if get_ident() != self.owner:
            return
        started = _clock()
        try:
            norm = args[2] if len(args) > 2 else kwargs["total_norm"]
            limit = float(args[1] if len(args) > 1 else kwargs["max_norm"])
            if self._norm_is_2 and norm.__class__ is torch.Tensor:
                self.machine.note_norm(self.readback.read(norm.detach()), limit)
            self._norm_is_2 = False
        except Exception as error:
            self.fail("gradient clipping", error)
        self.progress.cost += _clock() - started

    # The optimizer

    def look(self, optimizer: Any, closure: bool) -> None:
        """Before a step: meet the optimizer, and look at its layers when it is time."""
        layers, machine = self.layers, self.machine
        if id(optimizer) not in layers.known:
            self.progress.saw_optimizer = True
            layers.meet(optimizer)
        if machine.ordinal >= layers.next_due and not closure:
            layers.before(optimizer, machine.ordinal, machine.clipped, ratio=True)
        machine.own_work(_clock())

    def look_after(self, optimizer: Any, closure: bool) -> None:
        """After a step: a closure has made the gradients only now."""
        layers, machine = self.layers, self.machine
        if closure and machine.ordinal >= layers.next_due and id(optimizer) in layers.known:
            layers.before(optimizer, machine.ordinal, [], ratio=False)
        layers.after()
        machine.own_work(_clock())

    # The batch

    def batch_seen(self, iterator: Any, batch: Any) -> None:
        """Remember the size of a batch until it is known to be one for training."""
        self._batch = leading_dimension(batch), getattr(iterator, "_num_workers", None)

    def batch_trained(self) -> None:
        """A backward followed the fetch."""
        if self._batch is not None:
            self.facts.batch_size, self.facts.workers = self._batch
            self.facts.version += 1
            self._batch = None


def wrap_next(hooks: TorchHooks, original: Any) -> Any:
    """`_BaseDataLoaderIter.__next__`."""
    machine, progress, facts = hooks.machine, hooks.progress, hooks.facts
    ref, grad_enabled = weakref.ref, torch.is_grad_enabled

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if get_ident() != hooks.owner and not hooks.claim_fetch():
            return original(self)
        now = _clock()
        token = ref(self)
        try:
            machine.next_begin(now, token, grad_enabled())
        except Exception as error:
            hooks.fail("DataLoader", error)
        progress.cost += _clock() - now
        try:
            batch = original(self)
        except BaseException as error:
            if hooks.active:
                exhausted = isinstance(error, StopIteration)
                machine.next_end(_clock(), token, exhausted, not exhausted)
            raise
        if not hooks.active:
            return batch
        now = _clock()
        try:
            machine.next_end(now, token)
            if facts.batch_size is None:
                hooks.batch_seen(self, batch)
        except Exception as error:
            hooks.fail("DataLoader", error)
        progress.cost += _clock() - now
        return batch

    return __next__


def wrap_backward(hooks: TorchHooks, original: Any) -> Any:
    """`torch.autograd.backward`. Nested calls (reentrant checkpointing) are part of the outer one."""
    machine, progress, facts = hooks.machine, hooks.progress, hooks.facts
    read_root, claim = hooks.read_root, hooks.claim

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if hooks.in_backward or get_ident() != hooks.owner or not progress.saw_backward:
            if not claim() or hooks.in_backward:
                return original(*args, **kwargs)
            progress.saw_backward = True
        now = _clock()
        hooks.in_backward = True
        try:
            machine.backward_begin(now, read_root(args[0] if args else kwargs.get("tensors")))
            if facts.batch_size is None:
                hooks.batch_trained()
        except Exception as error:
            hooks.fail("backward", error)
        progress.cost += _clock() - now
        try:
            return original(*args, **kwargs)
        finally:
            hooks.in_backward = False
            if hooks.active:
                now = _clock()
                machine.backward_end(now)
                progress.cost += _clock() - now

    return backward


def optimizer_hooks(hooks: TorchHooks) -> tuple[Callable[..., None], Callable[..., None]]:
    """The global hooks before and after an optimizer's step."""
    machine, progress, layers, known = hooks.machine, hooks.progress, hooks.layers, hooks.layers.known
    claim, look, look_after = hooks.claim, hooks.look, hooks.look_after

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if (get_ident() != hooks.owner or not progress.saw_optimizer) and not claim():
            return
        now = _clock()
        try:
            # Without more arguments than the optimizer itself there is none.
            closure = (len(args) > 1 or bool(kwargs)) and _has_closure(args, kwargs)
            machine.optimizer_begin(now, id(optimizer), closure)
            if machine.ordinal >= layers.next_due or id(optimizer) not in known:
                look(optimizer, closure)
        except Exception as error:
            hooks.fail("optimizer", error)
        progress.cost += _clock() - now

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if get_ident() != hooks.owner:
            return
        now = _clock()
        try:
            hooks.optimizer_steps += 1
            groups = optimizer.param_groups
            if len(groups) == 1:
                lr = groups[0].get("lr")
                lrs = [lr if lr.__class__ is float else _number(lr)]
            else:
                lrs = [_number(group.get("lr")) for group in groups[:MAX_GROUPS]]
            machine.optimizer_end(now, id(optimizer), lrs)
            if layers.update is not None or machine.ordinal >= layers.next_due:
                look_after(optimizer, _has_closure(args, kwargs))
        except Exception as error:
            hooks.fail("optimizer", error)
        progress.cost += _clock() - now

    # As `torch._dynamo.disable` does, but without loading it, and without the wrapper it puts around: 2 µs a step.
    for hook in (before_step, after_step):
        hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    return before_step, after_step


def _has_closure(args: Any, kwargs: Any) -> bool:
    return (len(args) > 1 and callable(args[1])) or (bool(kwargs) and callable(kwargs.get("closure")))


def _number(lr: Any) -> float | None:
    """A learning rate; one that is a tensor on a device would have to be waited for."""
    if lr.__class__ is float:
        return lr
    if isinstance(lr, torch.Tensor):
        return float(lr.item()) if lr.device.type == "cpu" and lr.numel() == 1 else None
    return float(lr) if isinstance(lr, (int, float)) else None


def wrap_scale(hooks: TorchHooks, original: Any) -> Any:
    """`GradScaler.scale`: keep the loss, as a detached alias, until its backward begins."""

    @functools.wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        if get_ident() == hooks.owner and outputs.__class__ is torch.Tensor and scaled is not outputs:
            hooks.unscaled = weakref.ref(scaled), outputs.detach()
        return scaled

    return scale


def wrap_scaler_step(hooks: TorchHooks, original: Any) -> Any:
    """`GradScaler.step`: a skipped step fires no hook of the optimizer, and ends the step all the same."""
    machine = hooks.machine

    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if get_ident() != hooks.owner or not self.is_enabled():
            return original(self, optimizer, *args, **kwargs)
        before, scale = hooks.optimizer_steps, None
        try:
            scale = None if self._scale is None else hooks.readback.read(self._scale)
        except Exception as error:
            hooks.fail("GradScaler", error)
        result = original(self, optimizer, *args, **kwargs)
        if not hooks.active:
            return result
        try:
            skipped = hooks.optimizer_steps == before
            if skipped:
                machine.optimizer_skipped(_clock(), id(optimizer))
            # A fused optimizer decides on the device: whether it skipped is not known here.
            fused = getattr(optimizer, "_step_supports_amp_scaling", False)
            machine.note_scale(scale, None if fused else skipped)
        except Exception as error:
            hooks.fail("GradScaler", error)
        return result

    return step
