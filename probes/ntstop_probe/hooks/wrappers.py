"""The functions that stand in torch's place while the hooks are armed. They turn what passes into events of the step.

Each does its own work inside `try`: what fails there disarms the hooks, is said once, and the job goes on. Each adds
what it took to `Progress.cost`.
"""

from __future__ import annotations

import functools
import time
import weakref
from threading import get_ident
from typing import Any

import torch

from .facts import leading_dimension
from .torch_hooks import TorchHooks

_clock = time.monotonic


def wrap_next(hooks: TorchHooks, original: Any) -> Any:
    """`_BaseDataLoaderIter.__next__`."""
    machine, progress, facts, mark = hooks.machine, hooks.progress, hooks.facts, hooks.mark
    compiled = hooks.compiled
    clock, ident, ref, grad_enabled, Tensor = _clock, get_ident, weakref.ref, torch.is_grad_enabled, torch.Tensor

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if ident() != hooks.owner and not hooks.claim_fetch():
            return original(self)
        if compiled.optimizer is not None:
            hooks.compiled_step()
        now = clock()
        try:
            was_light = machine.light
            if not was_light or not machine.next_light(now, ref(self), grad_enabled()):
                if hooks.clock is not None:
                    hooks.clock.begin() if was_light else mark("other")
                token = ref(self)
                # A reference that was never hashed cannot be once its iterator is gone.
                hash(token)
                machine.next_begin(now, token, grad_enabled())
        except Exception as error:
            hooks.fail("DataLoader", error)
        if machine.metered:
            progress.cost += clock() - now
        try:
            batch = original(self)
        except BaseException as error:
            hooks.fetch_raised(ref(self), isinstance(error, StopIteration))
            raise
        if machine.metered:
            now = clock()
        try:
            # Most batches are a tensor, or a list of them.
            first: Any = batch[0] if batch.__class__ is list and batch else batch
            size = first.shape[0] if first.__class__ is Tensor and first.ndim else leading_dimension(batch)
            machine.batch = size
            if machine.light:
                progress.phase = "forward"
            elif hooks.active:
                machine.next_end(now, ref(self))
                if hooks.clock is not None:
                    mark("data")
                if facts.batch_size is None:
                    hooks.batch_seen(self, size)
        except Exception as error:
            hooks.fail("DataLoader", error)
        if machine.metered:
            progress.cost += clock() - now
        return batch

    return __next__


def wrap_backward(hooks: TorchHooks, original: Any) -> Any:
    """`torch.autograd.backward`. Nested calls (reentrant checkpointing) are part of the outer one."""
    machine, progress, facts, mark = hooks.machine, hooks.progress, hooks.facts, hooks.mark
    read_root, claim, held, release = hooks.read_root, hooks.claim, hooks.completion.held, hooks.completion.release
    clock, ident, compiled, layers = _clock, get_ident, hooks.compiled, hooks.layers

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if hooks.in_backward or ident() != hooks.owner or not progress.saw_backward:
            if not claim() or hooks.in_backward:
                return original(*args, **kwargs)
            progress.saw_backward = True
        if compiled.optimizer is not None:
            hooks.compiled_step()
        now = clock()
        hooks.in_backward = True
        try:
            root = args[0] if args else kwargs.get("tensors")
            loss = read_root(root)
            if machine.light:
                machine.backward_light(now, loss)
            else:
                if hooks.clock is not None:
                    mark("forward" if machine.loader else "input+forward")
                machine.backward_begin(now, loss)
                if facts.batch_size is None or facts.autocast is None:
                    hooks.first_backward(root)
        except Exception as error:
            hooks.fail("backward", error)
        if machine.metered:
            progress.cost += clock() - now
        try:
            return original(*args, **kwargs)
        finally:
            hooks.in_backward = False
            if machine.metered:
                now = clock()
            try:
                if machine.light:
                    progress.phase = "other"
                elif hooks.active:
                    machine.backward_end(now)
                    if hooks.clock is not None:
                        mark("backward")
                    if compiled.seen is not None and machine.ordinal >= layers.next_due:
                        hooks.look_before_compiled()
                if held:
                    release()
            except Exception as error:
                hooks.fail("backward", error)
            if machine.metered:
                progress.cost += clock() - now

    return backward


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
        scale = None
        try:
            if self._scale is not None and (machine.details or machine.clipped):
                scale = hooks.readback.read(self._scale)
                if machine.clipped and not hooks.is_unscaled(self, optimizer):
                    machine.note_scaled(scale)
        except Exception as error:
            hooks.fail("GradScaler", error)
        hooks.stepped = False
        result = original(self, optimizer, *args, **kwargs)
        if not hooks.active:
            return result
        try:
            if hooks.compiled.optimizer is not None:
                hooks.compiled_step()
            skipped = not hooks.stepped
            if skipped:
                machine.optimizer_skipped(_clock(), id(optimizer))
            # A fused optimizer decides on the device: whether it skipped is not known here.
            fused = getattr(optimizer, "_step_supports_amp_scaling", False)
            machine.note_scale(scale, None if fused else skipped)
        except Exception as error:
            hooks.fail("GradScaler", error)
        return result

    return step
