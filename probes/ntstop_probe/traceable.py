"""Hooks of clipping, clearing gradients and optimizers, apart from the others: torch.compile may trace into them.

It finds nothing there, or next to nothing. The folder `hooks` it is told to skip, and a skipped function breaks a
graph, or is an error inside `fullgraph=True`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch

from .hooks.rates import rates
from .hooks.torch_hooks import TorchHooks

_is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
"""In code that is traced it is known to be true, and what follows if it were not is never looked at."""
_clock = time.monotonic


def wrap_total_norm(hooks: TorchHooks, original: Any) -> Any:
    """`_get_total_norm(tensors, norm_type=2.0, ...)`: remember which norm it was."""

    clipping = hooks.clipping

    @functools.wraps(original)
    def _get_total_norm(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling() and clipping.measured(args, kwargs):
            return clipping.measure(original, args, kwargs)
        return original(*args, **kwargs)

    return _get_total_norm


def wrap_clip(hooks: TorchHooks, original: Any) -> Any:
    """`_clip_grads_with_norm_(parameters, max_norm, total_norm, ...)`: both numbers that matter pass by."""

    clipping = hooks.clipping

    @functools.wraps(original)
    def _clip_grads_with_norm_(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling():
            clipping.scales(args, kwargs)
        return original(*args, **kwargs)

    return _clip_grads_with_norm_


def wrap_zero_grad(hooks: TorchHooks, original: Any) -> Any:
    """`zero_grad` of optimizers and of modules: that gradients were cleared."""

    @functools.wraps(original)
    def zero_grad(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling():
            hooks.zeroed()
        return original(*args, **kwargs)

    return zero_grad


def optimizer_hooks(hooks: TorchHooks) -> tuple[Callable[..., None], Callable[..., None]]:
    """The global hooks before and after an optimizer's step."""
    machine, progress, layers, known = hooks.machine, hooks.progress, hooks.layers, hooks.layers.known
    claim, look, look_after, mark = hooks.claim, hooks.look, hooks.look_after, hooks.mark
    clock, ident, compiled = _clock, get_ident, hooks.compiled

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if _is_compiling():
            return
        key = id(optimizer)
        if (ident() != hooks.owner or key not in known) and not claim():
            return
        now = clock()
        try:
            if machine.light and len(args) == 1 and not kwargs and key in known:
                machine.optimizer_light(now, key)
            else:
                if compiled.optimizer is not None:
                    hooks.compiled_step()
                    now = clock()
                closure = _has_closure(args, kwargs)
                if hooks.clock is not None:
                    mark("other")
                    if closure:
                        hooks.clock.spoil()
                machine.optimizer_begin(now, key, closure)
                if machine.ordinal >= layers.next_due or key not in known:
                    look(optimizer, closure)
        except Exception as error:
            hooks.fail("optimizer", error)
        if machine.metered:
            progress.cost += clock() - now

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if _is_compiling():
            compiled.optimizer = optimizer
            return
        if ident() != hooks.owner:
            return
        now = clock()
        try:
            hooks.stepped = True
            if machine.light:
                machine.optimizer_light_end(now)
                if not machine.light and hooks.clock is not None:
                    hooks.clock.begin()
            else:
                lrs = rates(optimizer.param_groups) if machine.details else None
                if hooks.clock is not None:
                    mark("optimizer")
                machine.optimizer_end(now, id(optimizer), lrs)
                if layers.update is not None or machine.ordinal >= layers.next_due:
                    look_after(optimizer, _has_closure(args, kwargs))
        except Exception as error:
            hooks.fail("optimizer", error)
        if machine.metered:
            progress.cost += clock() - now

    return before_step, after_step


def _has_closure(args: Any, kwargs: Any) -> bool:
    return (len(args) > 1 and callable(args[1])) or (bool(kwargs) and callable(kwargs.get("closure")))
