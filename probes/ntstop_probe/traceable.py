"""Wrappers of clipping and clearing gradients, apart from the other hooks: torch.compile may trace into them.

It finds nothing there. The folder `hooks` it is told to skip, and a skipped function inside `fullgraph=True` would be
an error.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .hooks.torch_hooks import TorchHooks

_is_compiling = torch.compiler.is_compiling


def wrap_total_norm(hooks: TorchHooks, original: Any) -> Any:
    """`_get_total_norm(tensors, norm_type=2.0, ...)`: remember which norm it was."""

    @functools.wraps(original)
    def _get_total_norm(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling() and hooks.norm_measured(args, kwargs):
            return hooks.measure(original, args, kwargs)
        return original(*args, **kwargs)

    return _get_total_norm


def wrap_clip(hooks: TorchHooks, original: Any) -> Any:
    """`_clip_grads_with_norm_(parameters, max_norm, total_norm, ...)`: both numbers that matter pass by."""

    @functools.wraps(original)
    def _clip_grads_with_norm_(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling():
            hooks.clipping(args, kwargs)
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
