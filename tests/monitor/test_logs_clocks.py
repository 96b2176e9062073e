"""Times in a log that are missing, jump or come from hosts that disagree: a step time is right, or there is none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntstop.session import Session
from ntstop.sources.logs.clock import StepClock
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.source import LogSource

STEPS = 300
START = 1.7e9
EACH = 0.5


def even(step: int) -> float:
    return START + EACH * step


TIMES: dict[str, Callable[[int], float]] = {
    "set back by an hour": lambda step: even(step) - (3600 if step > 150 else 0),
    "set on by an hour": lambda step: even(step) + (3600 if step > 150 else 0),
    "two hosts that differ": lambda step: even(step) + (37 if step % 2 else 0),
    "missing now and then": lambda step: math.nan if step % 7 == 3 else even(step),
    "infinite once": lambda step: math.inf if step == 100 else even(step),
    "never a number": lambda step: math.nan,
}


def table(times: Sequence[float]) -> str:
    return "step,loss,timestamp\n" + "".join(f"{n},{3 - n / 200},{t}\n" for n, t in enumerate(times))


def json_lines(times: Sequence[float]) -> str:
    return "".join(
        json.dumps({"step": n, "loss": 3 - n / 200, "_timestamp": t}) + "\n" for n, t in enumerate(times)
    )  # fmt: skip


def text(times: Sequence[float]) -> str:
    def clock(t: float) -> str:
        return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if math.isfinite(t) else "unknown"

    return "".join(f"{clock(t)} step {n} loss {3 - n / 200}\n" for n, t in enumerate(times))


@pytest.mark.parametrize("write", [table, json_lines, text])
@pytest.mark.parametrize("how", TIMES)
def test_a_step_time_is_never_negative_and_mostly_right(
    tmp_path: Path, how: str, write: Callable[[Sequence[float]], str]
) -> None:
    log = tmp_path / "log"
    log.write_text(write([TIMES[how](step) for step in range(STEPS)]))
    session = Session(LogSource(log_targets(log)[0]))
    session.load()
    process = session.state.primary
    assert process is not None
    assert process.series["loss"].count == STEPS
    assert session.status.problem == ""
    if how == "never a number":
        assert "step_time" not in process.series
        return
    _, seconds, _ = process.series["step_time"].recent(STEPS)
    assert (seconds > 0).all()
    # A clock that is set on looks like a long step: once.
    assert np.count_nonzero(np.abs(seconds - EACH) > 1e-3) <= 1
    assert len(seconds) >= STEPS / 3
    assert process.rate == pytest.approx(1 / EACH, rel=0.01)


@given(
    st.lists(st.floats(-1e12, 1e12) | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=40), st.integers(1, 9)
)
def test_steps_one_by_one_and_together_have_the_same_times(walls: list[float], apart: int) -> None:
    steps = np.arange(len(walls)) * apart
    one, many = StepClock(), StepClock()
    each = [one.step(int(step), wall) for step, wall in zip(steps, walls, strict=True)]
    seconds, there = many.steps(steps, np.array(walls))
    assert [found is not None for found in each] == there.tolist()
    np.testing.assert_allclose([found for found in each if found is not None], seconds[there])
    assert (seconds[there] > 0).all()
