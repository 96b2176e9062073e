"""A stretch of points taken in at once tells what the same points tell one by one, to the last bit."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.diagnosis.rules import optimization
from ntstop_probe import wire

from .records import Script, diagnose, hello, schema

EVENTS = ("spike", "hole", "nan", "jump", "level", "negative", "restart", "blow up", "flat", "missing")


def curve_of(seed: int, events: list[tuple[str, int]], steps: int) -> tuple[list[float | None], list[float]]:
    """A noisy descent with a cosine rate, and events at their places."""
    random = np.random.default_rng(seed)
    index = np.arange(steps)
    loss = 0.3 + 3.0 * np.exp(-index / 300) + random.normal(0, random.choice([0.0, 0.003, 0.05]), steps)
    rate = 1e-3 * np.minimum(1, (index + 1) / 50) * (0.6 + 0.4 * np.cos(np.pi * index / steps))
    missing = set()
    for event, at in events:
        match event:
            case "spike":
                loss[at : at + int(random.integers(1, 90))] *= random.choice([1.3, 2.0, 8.0])
            case "hole":
                loss[at : at + 5] *= 0.1
            case "nan":
                loss[at] = random.choice([math.nan, math.inf])
            case "jump":
                rate[at:] *= 4.0
            case "level":
                loss[at:] += random.choice([0.1, 1.0, 4.0])
            case "negative":
                loss[at:] -= 1.0
            case "restart":
                rate[at:] = np.maximum(rate[at:], rate.max() * 0.9)
            case "blow up":
                loss[at:] += 1.1 ** np.minimum(np.arange(steps - at), 300)
            case "flat":
                loss[at:] = loss[at]
            case _:
                missing.add(at)
    return [None if at in missing else value for at, value in enumerate(loss.tolist())], list(rate.tolist())


def told(losses: list[float | None], rates: list[float], block: int) -> bytes:
    script = Script(block=block).add(hello(total_steps=len(losses)), schema()).steps(losses, rate=rates)
    findings = diagnose(script.event("exit", code=0).records).findings
    return repr([(f.id, f.severity, f.status, f.first_step, f.last_step, f.claim) for f in findings]).encode()


@given(
    st.integers(0, 10_000),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(20, 1900)), max_size=4),
    st.sampled_from([17, 64, 256]),
)
@settings(max_examples=60, deadline=None)
def test_stretches_and_points_tell_the_same(seed: int, events: list[tuple[str, int]], block: int) -> None:
    losses, rates = curve_of(seed, events, 2000)
    at_once = told(losses, rates, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimization, "AT_ONCE", 1 << 60)
        assert told(losses, rates, block) == at_once


def test_most_of_a_calm_run_is_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slowly = 0
    point = optimization.LossCurveRule._point

    def counted(rule: optimization.LossCurveRule, x: int, loss: float | None, rate: float | None) -> None:
        nonlocal slowly
        slowly += 1
        point(rule, x, loss, rate)

    monkeypatch.setattr(optimization.LossCurveRule, "_point", counted)
    losses, rates = curve_of(1, [], 60_000)
    told(losses, rates, 256)
    assert slowly < 20_000


def test_state_of_every_detector_is_the_same_after_a_stretch() -> None:
    losses, rates = curve_of(3, [("spike", 700), ("restart", 1200)], 2000)
    states = []
    for fewest in (16, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimization, "AT_ONCE", fewest)
            script = Script(block=256).add(hello(), schema()).steps(losses, rate=rates)
            engine = diagnose(script.records)
            rule = next(r for r in engine._ranks[0].rules if isinstance(r, optimization.LossCurveRule))
            parts = (rule._spike, rule._spike._baseline, rule._divergence, rule._levels, rule.context.rate)
            states.append([repr(vars(part)) for part in parts[1:]])
    assert states[0] == states[1]


def test_calm_losses_are_what_came_before_a_nan() -> None:
    names = {"a": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, math.nan, 7.0], "b": [0.5] * 8}
    records: list[wire.Record] = [hello()]
    for at in range(8):
        losses = {name: wire.Column("f8", np.array([values[at]]).tobytes()) for name, values in names.items()}
        records.append(wire.Steps(1, at, wire.Column("f8", np.array([float(at)]).tobytes()), losses=losses))
    engine = diagnose([msgspec.msgpack.decode(msgspec.msgpack.encode(r), type=wire.Record) for r in records])
    (finding,) = [f for f in engine.findings if f.kind == "nonfinite-loss"]
    assert [(item.step, item.value) for item in finding.evidence[:4]] == [(2, 3.0), (3, 4.0), (4, 5.0), (5, 6.0)]
