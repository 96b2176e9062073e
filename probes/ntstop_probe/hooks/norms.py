"""Norms of many tensors at once, and strided samples of them: the only arithmetic the probe does on the job's tensors.

Everything here reads; nothing is written to a tensor of the job, and no reference to one is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

SAMPLE_PER_PARAMETER = 16_384
"""Elements of a parameter looked at for its update ratio: within about 5 % of the whole."""
SAMPLE_TOTAL = 524_288
"""Elements over all parameters, so that a model of many layers costs no more than a few milliseconds of copying."""
SAMPLE_LEAST = 1_024


def local(tensor: Any) -> Any | None:
    """The part of `tensor` that is here, as a detached dense floating tensor; None: there is nothing to measure.

    Left out are sparse, quantized, fp8 and meta tensors. A sharded tensor (DTensor) gives its local shard.
    """
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    if tensor.is_complex():
        return torch.view_as_real(tensor.detach())
    # One byte a floating element is fp8, which has no norm.
    if not tensor.is_floating_point() or tensor.element_size() < 2:
        return None
    return tensor.detach()


def norms(tensors: Sequence[Any | None]) -> list[tuple[list[int], Any]]:
    """2-norms in float32 (float64 stays so), as [(indices into `tensors`, flat tensor of their norms)] by device.

    None and tensors that `local` leaves out have no index in the result. An empty shard has norm 0.
    """
    torch = sys.modules["torch"]
    groups: dict[tuple[Any, bool], tuple[list[int], list[Any]]] = {}
    for index, tensor in enumerate(tensors):
        if tensor is None:
            continue
        dense = local(tensor)
        if dense is None:
            continue
        key = (dense.device, dense.dtype is torch.float64)
        group = groups.get(key)
        if group is None:
            group = groups[key] = ([], [])
        group[0].append(index)
        group[1].append(dense)
    result = []
    with torch.no_grad():
        for (_, double), (indices, group_tensors) in groups.items():
            # In the dtype of half-precision gradients the sum of squares overflows at a norm of a few hundred.
            dtype = torch.float64 if double else torch.float32
            result.append((indices, torch.stack(torch._foreach_norm(group_tensors, 2, dtype=dtype))))
    return result


def sample_cap(parameters: int) -> int:
    """Elements to look at in each of so many parameters."""
    return max(SAMPLE_LEAST, min(SAMPLE_PER_PARAMETER, SAMPLE_TOTAL // max(1, parameters)))


def strided_sample(tensor: Any, cap: int) -> Any | None:
    """About `cap` elements of `tensor`, evenly spread, as a flat view (no copy); None where that is not possible.

    The stride is odd: an even one would keep meeting the same columns of a matrix. (A contiguous block would do for
    dense layers, but not for embeddings, of which a step touches a few rows.)
    """
    dense = local(tensor)
    if dense is None or not dense.numel():
        return None
    count = dense.numel()
    if dense.is_contiguous():
        flat = dense.view(-1)
    elif sys.modules["torch"].ops.aten.is_non_overlapping_and_dense(dense):
        flat = dense.as_strided((count,), (1,))
    else:
        return None
    step = -(-count // cap)
    return flat if step <= 1 else flat[:: step | 1]


Blocks = list[tuple[list[int], list[int], Any]]
"""[(indices of parameters, elements in the sample of each, flat tensor of numbers)] by device and dtype."""


class UpdateProbe:
    """A strided sample of parameters, before and after a step: what moved, relative to what was there."""

    def __init__(self, parameters: Sequence[Any | None]) -> None:
        torch = sys.modules["torch"]
        self._cap = sample_cap(len(parameters))
        self._gradients = [None if parameter is None else parameter.grad for parameter in parameters]
        with torch.no_grad():
            self._groups = [(indices, views, torch.cat(views)) for indices, views in self._samples(parameters)]

    def _samples(self, tensors: Sequence[Any | None]) -> list[tuple[list[int], list[Any]]]:
        groups: dict[tuple[Any, Any], tuple[list[int], list[Any]]] = {}
        for index, tensor in enumerate(tensors):
            sample = None if tensor is None else strided_sample(tensor, self._cap)
            if sample is None:
                continue
            group = groups.setdefault((sample.device, sample.dtype), ([], []))
            group[0].append(index)
            group[1].append(sample)
        return list(groups.values())

    def zero_gradients(self) -> Blocks:
        """Before the step, once: how many elements in the same sample of the gradients are exactly 0."""
        torch = sys.modules["torch"]
        gradients, self._gradients = self._gradients, []
        result: Blocks = []
        with torch.no_grad():
            for indices, views in self._samples(gradients):
                sizes = [view.numel() for view in views]
                zeros = torch.cat(views).eq_(0).to(torch.float32).split(sizes)
                result.append((indices, sizes, torch.stack(torch._foreach_norm(zeros, 1))))
        return result

    def finish(self) -> Blocks:
        """After the step: the norms of the changes, then the norms before, then how many elements did not change."""
        torch = sys.modules["torch"]
        result: Blocks = []
        with torch.no_grad():
            for indices, views, before in self._groups:
                sizes = [view.numel() for view in views]
                dtype = torch.float64 if before.dtype is torch.float64 else torch.float32
                before = before.to(dtype)
                change = torch.cat(views).to(dtype).sub_(before)
                pieces = [*change.split(sizes), *before.split(sizes)]
                moved = torch._foreach_norm(pieces, 2)
                unchanged = torch._foreach_norm(change.eq_(0).split(sizes), 1)
                result.append((indices, sizes, torch.stack([*moved, *unchanged])))
        self._groups = []
        return result
