"""Made-up curves of many shapes: what is healthy raises nothing, what is bad is told, whatever it looks like."""

from __future__ import annotations

import pytest

from tests.bench import shapes
from tests.bench.curves import judge

NOT_TOLD_APART = (shapes.restarts_without_rate,)
"""What the README says is not known: a restart in a log without a rate."""


def names(known: tuple[shapes.Shape, ...]) -> list[shapes.Shape]:
    return [shape for shape in known if shape not in NOT_TOLD_APART]


@pytest.mark.parametrize("shape", names(shapes.HEALTHY), ids=lambda shape: shape.__name__)
def test_healthy_shape_raises_nothing(shape: shapes.Shape) -> None:
    outcome = judge(shapes.run_of(shape, 0, 400, 50))
    assert outcome.alarm is None, outcome.said


@pytest.mark.parametrize("shape", names(shapes.BAD), ids=lambda shape: shape.__name__)
def test_bad_shape_is_told(shape: shapes.Shape) -> None:
    run = shapes.run_of(shape, 0, 400, 50)
    outcome = judge(run)
    assert outcome.alarm is not None and run.onset is not None
    assert outcome.alarm <= run.onset + 0.15 * run.span
