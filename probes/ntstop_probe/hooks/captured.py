"""Norms of single gradients that `clip_grad_norm_` computes anyway, kept as they pass by."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from .norms import norms
from .patches import WHILE_CLIPPING, replaced


class Captured:
    """The norms of one step, by gradient; clipping's own where they are wide: in half precision they overflow."""

    def __init__(self) -> None:
        self._norms: dict[int, tuple[weakref.ReferenceType[Any], Any]] = {}

    def during(self, work: Callable[[], Any]) -> Any:
        """Do `work` (which measures a norm) and keep the single norms that it takes with `torch._foreach_norm`.

        That name is looked up in torch when it is called; what other threads take passes through.
        """
        torch: Any = sys.modules["torch"]
        original, me = torch._foreach_norm, get_ident()

        @functools.wraps(original)
        def _foreach_norm(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(tensors, *args, **kwargs)
            if get_ident() == me:
                # What is not kept is measured again.
                with contextlib.suppress(Exception):
                    self._keep(torch, tensors, found)
            return found

        with replaced(WHILE_CLIPPING, _foreach_norm):
            return work()

    def _keep(self, torch: Any, tensors: Sequence[Any], found: Sequence[Any]) -> None:
        plain, wide = torch.Tensor, (torch.float32, torch.float64)
        for tensor, norm in zip(tensors, found, strict=True):
            if tensor.__class__ is plain and norm.__class__ is plain and tensor.dtype in wide:
                self._norms[id(tensor)] = weakref.ref(tensor), norm

    def complete(self, tensors: Any) -> None:
        """Before they are clipped: the norms of those of `tensors` that are none of the kept, in float32."""
        missing = [tensor for tensor in tensors if id(tensor) not in self._norms] if isinstance(tensors, list) else []
        for positions, block in norms(missing):
            for position, norm in zip(positions, block.unbind(), strict=True):
                self._norms[id(missing[position])] = weakref.ref(missing[position]), norm

    def take(self, gradients: Sequence[Any | None]) -> list[tuple[list[int], Any]]:
        """The norms that are known, as [(indices into `gradients`, flat tensor of norms)] by device and dtype."""
        known = self._norms
        if not known:
            return []
        groups: dict[tuple[Any, Any], tuple[list[int], list[Any]]] = {}
        for index, gradient in enumerate(gradients):
            entry = known.get(id(gradient))
            if entry is not None and entry[0]() is gradient:
                norm = entry[1]
                indices, found = groups.setdefault((norm.device, norm.dtype), ([], []))
                indices.append(index)
                found.append(norm)
        torch = sys.modules["torch"]
        with torch.no_grad():
            return [(indices, torch.stack(found)) for indices, found in groups.values()]

    def clear(self) -> None:
        """The step is over."""
        self._norms.clear()
