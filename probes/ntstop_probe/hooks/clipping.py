"""What passes by when gradients are clipped: their norm, what it is clipped to, and the norms of single gradients."""

from __future__ import annotations

import functools
import time
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .torch_hooks import TorchHooks

_clock = time.monotonic
_thread_clock = time.thread_time


class Clipping:
    """Behind the wrappers of the two halves of `clip_grad_norm_`: one measures, one scales."""

    def __init__(self, hooks: TorchHooks) -> None:
        self._hooks = hooks
        self._norm_is_2 = False
        """Of the norm that was measured last."""

    def measured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Clipping is about to measure a norm, of this type. True: its single norms are wanted."""
        hooks = self._hooks
        if get_ident() != hooks.owner or hooks.machine.light:
            return False
        try:
            self._norm_is_2 = float(args[1] if len(args) > 1 else kwargs.get("norm_type", 2.0)) == 2.0
        except Exception:
            self._norm_is_2 = False
        return self._norm_is_2 and hooks.machine.ordinal >= hooks.layers.next_due and not hooks.capturing()

    def measure(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let clipping measure its norm, and keep the norms of the single gradients."""
        hooks = self._hooks
        captured = hooks.layers.captured
        total = captured.during(functools.partial(original, *args, **kwargs))
        started, began = _clock(), _thread_clock()
        try:
            captured.complete(args[0] if args else kwargs["tensors"])
        except Exception as error:
            hooks.fail_layers(error)
        hooks.layers.charge(_thread_clock() - began)
        took = _clock() - started
        hooks.looking += took
        hooks.progress.cost += took
        return total

    def scales(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Clipping has measured, and is about to scale the gradients."""
        hooks = self._hooks
        if get_ident() != hooks.owner:
            return
        if not hooks.machine.details:
            self._norm_is_2 = False
            return
        started = _clock()
        try:
            norm = args[2] if len(args) > 2 else kwargs["total_norm"]
            limit = float(args[1] if len(args) > 1 else kwargs["max_norm"])
            if self._norm_is_2 and norm.__class__ is torch.Tensor:
                hooks.machine.note_norm(hooks.readback.read(norm.detach()), limit)
            elif self._norm_is_2 and hasattr(norm, "to_local"):
                # Ranks that have not put their parts together yet know no norm of the whole, nor how far it is clipped.
                whole = all(placement.is_replicate() for placement in norm.placements)
                hooks.machine.note_norm(hooks.readback.read(norm.to_local().detach()), limit if whole else None)
            self._norm_is_2 = False
        except Exception as error:
            hooks.fail("gradient clipping", error)
        hooks.progress.cost += _clock() - started
