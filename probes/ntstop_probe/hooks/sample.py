"""One look at the layers, in one step: blocks of numbers, some of them still on their way from a device."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .readback import Ticket
from .readings import Reading

Block = list[float] | Ticket | None
"""Numbers that are there, are coming, or were lost."""


@dataclass(slots=True)
class _Gradients:
    indices: list[int]
    block: Block
    grad_scale: Reading
    """What the gradients were multiplied by when they were read."""
    clip: tuple[Reading, float] | None
    """Norm and limit of the one clipping that has already been applied to them."""
    counted: bool
    """They take part in the global norm: an optimizer uses them."""


@dataclass(slots=True)
class LayerSample:
    """The layers of schema `schema` (of `size` layers) in one step."""

    schema: int
    size: int
    interval: int
    gradients: list[_Gradients] = field(default_factory=list)
    parameters: list[tuple[list[int], Block]] = field(default_factory=list)
    updates: list[tuple[list[int], list[int], Block]] = field(default_factory=list)
    """As `norms.UpdateProbe.finish` gives them."""
    zeros: list[tuple[list[int], list[int], Block]] = field(default_factory=list)

    def add_gradients(
        self,
        indices: list[int],
        block: Block,
        grad_scale: Reading,
        clip: tuple[Reading, float] | None,
        counted: bool,
    ) -> None:
        """Norms of gradients, with what must be undone to have them unscaled and before clipping."""
        self.gradients.append(_Gradients(indices, block, grad_scale, clip, counted))

    @property
    def ready(self) -> bool:
        """Nothing is under way any more."""
        for part in self.gradients:
            if _waits(part.block) or _waits(part.grad_scale) or (part.clip is not None and _waits(part.clip[0])):
                return False
        blocks = [block for _, block in self.parameters]
        blocks += [block for _, _, block in (*self.updates, *self.zeros)]
        return not any(_waits(block) for block in blocks)

    def fields(self) -> tuple[dict[str, list[float | None]], float | None]:
        """The columns of the sample, and the global gradient norm over what the optimizers hold (None: not read)."""
        fields: dict[str, list[float | None]] = {}
        squares: float | None = None
        for part in self.gradients:
            numbers, factor = _numbers(part.block), _undo(part)
            if numbers is None or factor is None:
                continue
            column = fields.setdefault("grad_norm", [None] * self.size)
            nonfinite = fields.setdefault("grad_nonfinite", [None] * self.size)
            for index, value in zip(part.indices, numbers, strict=False):
                norm = value * factor
                column[index] = norm
                nonfinite[index] = int(not math.isfinite(norm))
                if part.counted:
                    squares = (squares or 0.0) + norm * norm
        for indices, block in self.parameters:
            numbers = _numbers(block)
            if numbers is not None:
                column = fields.setdefault("param_norm", [None] * self.size)
                for index, value in zip(indices, numbers, strict=False):
                    column[index] = value
        for indices, sizes, block in self.updates:
            numbers = _numbers(block)
            if numbers is not None:
                count = len(indices)
                column = fields.setdefault("update_ratio", [None] * self.size)
                unchanged = fields.setdefault("unchanged", [None] * self.size)
                for position, index in enumerate(indices):
                    before = numbers[count + position]
                    column[index] = numbers[position] / before if before else None
                    unchanged[index] = numbers[2 * count + position] / sizes[position]
        for indices, sizes, block in self.zeros:
            numbers = _numbers(block)
            if numbers is not None:
                column = fields.setdefault("grad_zero", [None] * self.size)
                for position, index in enumerate(indices):
                    column[index] = numbers[position] / sizes[position]
        return fields, None if squares is None else math.sqrt(squares)


def _waits(block: Block | Reading) -> bool:
    return isinstance(block, Ticket) and not block.ready


def _numbers(block: Block) -> list[float] | None:
    if isinstance(block, Ticket):
        return block.values or None
    return block


def _undo(part: _Gradients) -> float | None:
    """The factor from the gradients as read to the gradients as the backward made them; None: it never arrived."""
    factor = 1.0
    if part.grad_scale is not None:
        scale = part.grad_scale if isinstance(part.grad_scale, float) else part.grad_scale.value
        if not scale:
            return None
        factor /= scale
    if part.clip is not None:
        reading, limit = part.clip
        norm = reading if isinstance(reading, float) else reading.value if reading is not None else None
        if norm is None:
            return None
        if norm > limit > 0.0 and math.isfinite(norm):
            factor *= (norm + 1e-6) / limit
    return factor
