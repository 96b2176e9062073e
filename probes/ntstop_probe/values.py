"""What a user logs, as plain numbers: never waiting for a device, never raising anything but `Unusable`."""

from __future__ import annotations

import operator
import sys
from typing import Any


class Unusable(Exception):
    """A value that cannot be logged; the text completes "'name' …". `kind` tells the reasons apart."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def as_float(value: object) -> float:
    """A float, int, bool, numpy scalar, or a tensor of one element in host memory."""
    if isinstance(value, float | int):
        try:
            return float(value)
        except OverflowError as error:
            raise Unusable("number", "is too large") from error
    torch: Any = sys.modules.get("torch")
    tensor_class = getattr(torch, "Tensor", None)
    if tensor_class is not None and isinstance(value, tensor_class):
        return _tensor(value)
    if isinstance(value, str | bytes | None) or getattr(value, "shape", ()) not in ((), (1,)):
        raise Unusable("number", f"is no number ({type(value).__name__})")
    try:
        return float(value)  # type: ignore[arg-type]
    except Exception as error:
        raise Unusable("number", f"is no number ({type(value).__name__})") from error


def _tensor(tensor: Any) -> float:
    if tensor.device.type != "cpu":
        raise Unusable("device", f"is on {tensor.device}: reading it would make the GPU wait; log a number instead")
    if tensor.numel() != 1:
        raise Unusable("number", f"is a tensor of {tensor.numel()} elements")
    try:
        return float(tensor.detach().item())
    except Exception as error:
        raise Unusable("number", f"is a tensor without a number ({type(error).__name__})") from error


def as_step(value: object) -> int:
    """A step number: an int, an integral float, a numpy or host tensor integer."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    number = as_float(value)
    if number != number // 1:
        raise Unusable("step", "is no whole number")
    return int(number)
