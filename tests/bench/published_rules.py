"""Rules that others have published, as a measure for ours: each takes a run and gives the first step it fires at."""

from __future__ import annotations

import math
from collections.abc import Callable

from .curves import Run

PublishedRule = Callable[[Run], int | None]


def points(run: Run) -> list[tuple[int, float]]:
    """(step, loss) of the finite losses."""
    return [(x, y) for x, y in zip(run.step, run.loss, strict=True) if y is not None and math.isfinite(y)]


def loss_not_decreasing(run: Run) -> int | None:
    """Amazon SageMaker Debugger, LossNotDecreasing: every 10 steps, less than 0.1 % under the loss 10 steps before."""
    known = points(run)
    return next((x for at, (x, y) in enumerate(known) if at and at % 10 == 0 and y > known[at - 10][1] * 0.999), None)


def overfit(run: Run) -> int | None:
    """Amazon SageMaker Debugger, Overfit: validation over training loss by 10 %, `patience` 1."""
    for x, train, val in zip(run.eval_step, run.eval_train, run.eval_val, strict=True):
        if x <= run.step[-1] and train and val is not None and (val - train) / abs(train) > 0.1:
            return x
    return None


def thedeepchecker(run: Run) -> int | None:
    """TheDeepChecker, diverging loss: five losses in a row at least twice the lowest one so far."""
    lowest, high = math.inf, 0
    for x, y in points(run):
        lowest = min(lowest, y)
        high = high + 1 if lowest > 0 and y >= 2 * lowest else 0
        if high == 5:
            return x
    return None


def autotrainer(run: Run) -> int | None:
    """AutoTrainer, the rule on losses: NaN, Inf, or a validation loss of 100,000. Its others need accuracies."""
    train = [x for x, y in zip(run.step, run.loss, strict=True) if y is not None and not math.isfinite(y)]
    val = [x for x, y in zip(run.eval_step, run.eval_val, strict=True) if y is not None and not y < 1e5]
    return min(train + val, default=None)


def ema_z(limit: float, alpha: float = 0.99, warm_up: int = 20) -> PublishedRule:
    """A loss `limit` standard deviations over its moving average, as recipes and blog posts have it."""

    def fired(run: Run) -> int | None:
        return _z(points(run), limit, alpha, warm_up)

    return fired


def zclip(run: Run) -> int | None:
    """ZClip (bluorion-com/ZClip): gradient norm 2.5 deviations over its moving average, alpha 0.97, after 25."""
    norms = [(x, y) for x, y in zip(run.step, run.grad_norm, strict=True) if y is not None and math.isfinite(y)]
    return _z(norms, 2.5, 0.97, 25)


def _z(series: list[tuple[int, float]], limit: float, alpha: float, warm_up: int) -> int | None:
    if len(series) <= warm_up:
        return None
    first = [y for _, y in series[:warm_up]]
    mean = sum(first) / warm_up
    variance = sum((y - mean) ** 2 for y in first) / warm_up
    for x, y in series[warm_up:]:
        if (y - mean) / (math.sqrt(variance) + 1e-6) > limit:
            return x
        mean = alpha * mean + (1 - alpha) * y
        variance = alpha * variance + (1 - alpha) * (y - mean) ** 2
    return None


RULES: dict[str, PublishedRule] = {
    "SageMaker LossNotDecreasing": loss_not_decreasing,
    "SageMaker Overfit": overfit,
    "TheDeepChecker diverging loss": thedeepchecker,
    "AutoTrainer NaN loss": autotrainer,
    "moving average, z > 3": ema_z(3.0),
    "moving average, z > 6": ema_z(6.0),
    "ZClip, z > 2.5 on the gradient norm": zclip,
}
