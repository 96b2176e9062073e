"""Detectors against plain restatements of what they claim, and what holds for all: causal, bounded, without a unit."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_ind_from_stats

from ntstop.diagnosis.detectors import fallen
from ntstop.diagnosis.detectors.constant import BEFORE, DISTINCT, ConstantDetector
from ntstop.diagnosis.detectors.evaluations import NOISE, RISE, RUN, EvaluationWatch
from ntstop.diagnosis.detectors.levels import Block, Levels, lowest, pooled
from ntstop.diagnosis.detectors.regressed import Z, memory, regressed
from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.rules.optimization import LossCurveRule
from ntstop_probe import wire
from tests.bench.curves import wilson
from tests.bench.shapes import wandering

from .records import Script, descent, diagnose, hello, wobble


@given(st.integers(0, 50), st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_interval_of_a_share_is_that_of_scipy(hits: int, more: int) -> None:
    total = hits + more + 1
    expected = binomtest(hits, total).proportion_ci(0.95, method="wilson")
    assert wilson(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-4)


@given(st.lists(st.booleans(), min_size=1, max_size=150), st.integers(0, 150))
@settings(max_examples=100, deadline=None)
def test_fallen_is_eleven_of_the_last_twelve_after_few_of_the_36_before(flags: list[bool], lowered: int) -> None:
    """The line comes down once, to where half of the points that were under it are over it."""
    detector = fallen.FallenDetector()
    values = [3.0 if high else 1.0 + at % 2 for at, high in enumerate(flags)]
    lines = [2.5 if at < lowered else 1.5 for at in range(len(flags))]
    over = [value > line for value, line in zip(values, lines, strict=True)]
    for at, high in enumerate(over):
        told = detector.add(at, values[at], lines[at])
        late, before = over[max(0, at - 11) : at + 1], over[max(0, at - 47) : max(0, at - 11)]
        usual = values[max(0, at - 47) : max(0, at - 11)]
        now = [value > lines[at] for value in usual]
        expected = high and len(late) + len(before) >= 23 and sum(late) >= 11 and sum(before) <= 0.25 * len(before)
        if expected := expected and sum(now) <= 0.5 * len(now):
            noise = 1.4826 / math.sqrt(2) * float(np.median(np.abs(np.diff(usual))))
            expected = bool(np.median(values[at - 11 : at + 1]) - np.median(usual) >= 1.5 * noise)
        assert (told is not None) == expected
        if told is not None:
            assert told == next(x for x in range(at - 11, at + 1) if over[x])


@given(st.floats(0.01, 100), st.floats(1.3, 1000), st.floats(0.1, 1.0))
def test_line_of_the_fallen_lies_at_its_share_of_the_descent(low: float, times: float, part: float) -> None:
    start = low * times
    logs, linear = (fallen.line(start, low, part, logs=value) for value in (True, False))
    assert math.log(logs / low) / math.log(times) == pytest.approx(part, abs=1e-6)
    assert (linear - low) / (start - low) == pytest.approx(part, abs=1e-6)
    assert fallen.line(low, start, part, logs=False) == fallen.line(low * 1.1, low, part, logs=True) == math.inf


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=80))
@settings(max_examples=100, deadline=None)
def test_constant_is_a_long_run_of_equal_points_where_points_used_to_differ(stretches: list[tuple[int, int]]) -> None:
    values = [float(value) for value, count in stretches for _ in range(count)]
    detector = ConstantDetector(same=8)
    told = [x for x, value in enumerate(values) if detector.add(x, value) is not None]
    expected, begin = [], 0
    for _, group in itertools.groupby(values):
        length = len(list(group))
        moved = [x == 0 or values[x] != values[x - 1] for x in range(max(0, begin - BEFORE), begin)]
        if length >= 8 and len(moved) == BEFORE and sum(moved) >= DISTINCT * BEFORE:
            expected.append(begin + 7)
        begin += length
    assert told == expected


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_worse_evaluations_are_three_in_a_row_over_the_best(values: list[float]) -> None:
    watch, high, steps = EvaluationWatch(), 0, list[float]()
    levels = [statistics.median(values[max(0, at - 2) : at + 1]) for at in range(len(values))]
    for at, value in enumerate(values):
        worse, best = watch.add(at, value), min(levels[: at + 1])
        noise = 1.4826 / math.sqrt(2) * statistics.median(steps[-32:] or [0.0])
        if value > best + max(RISE * best, NOISE * noise):
            high += 1
        else:
            high = 0
            steps += [abs(value - values[at - 1])] if at else []
        coming_back = high >= RUN and value < values[at - 2] - 0.5 * (values[at - 2] - best)
        assert (worse is not None) == (high >= RUN and not coming_back)
        if worse is not None:
            assert (worse.best, worse.first_x, worse.level) == (best, at - high + 1, value)


def levels_of(values: list[float]) -> Levels:
    levels = Levels()
    for x, value in enumerate(values):
        levels.add(x, value)
    return levels


@pytest.mark.parametrize("seed", range(12))
def test_regressed_is_a_welch_test_of_the_best_eighth_and_a_late_stretch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rise = 0.06 + 0.02 * seed
    values = [*rng.normal(1.0, 0.1, 60).tolist(), *rng.normal(1.0 + rise, 0.1, 24).tolist()]
    levels = levels_of(values)
    blocks = levels.blocks
    found = regressed(levels, 2.0, least=0.0)
    start = lowest(blocks, 10, 5, len(blocks) - 24 - 10)
    assert start is not None
    late, best = pooled(blocks[-24:]), pooled(blocks[start : start + 10])
    welch = ttest_ind_from_stats(
        late[0], math.sqrt(late[1] * 24 / 23), 24, best[0], math.sqrt(best[1] * 10 / 9), 10, equal_var=False
    )
    if found is not None:
        assert found.level - found.reference == pytest.approx(late[0] - best[0])
        # With the variance of the sample in place of the population's, 10 points make 5 % less.
        assert welch.statistic > Z.value * 0.94
    elif seed >= 10:
        pytest.fail("a rise by a quarter at a noise of a tenth was not seen")


@pytest.mark.parametrize("length", [0.1, 2.0, 4.0])
def test_noise_that_remembers_itself_makes_errors_larger_and_a_descent_does_not(
    length: float,
) -> None:
    rng = np.random.default_rng(5)
    noise = np.log(wandering(rng, 240, 0.1, length))
    blocks = [Block(x, x, 1, y, y * y) for x, y in enumerate((noise - 0.01 * np.arange(240)).tolist())]
    together = math.exp(-1.0 / length)
    assert memory(blocks) == pytest.approx(math.sqrt((1 + together) / (1 - together)), rel=0.35)


def test_what_goes_up_and_down_again_and_again_is_a_habit_and_not_stuck() -> None:
    """Batches sorted by difficulty: each epoch ends in a quarter of hard ones."""
    epoch = [*[1.0] * 75, *[1.6] * 25]
    curve = [*descent(100, start=4.0, end=1.0), *(value + 0.03 * wobble(at) for at, value in enumerate(epoch * 12))]
    told = [end for end in range(400, 1300, 5) if regressed(levels_of(curve[:end]), 4.0) is not None]
    assert told == []
    assert regressed(levels_of([*curve[:700], *[2.4] * 80]), 4.0) is not None


def told_by(losses: list[float]) -> list[tuple[int, str, str, str]]:
    """(step after which, kind, severity, status) of everything that the curve rule ever says."""
    engine, at = Engine([LossCurveRule]), 0
    said: dict[str, tuple[str, str, str]] = {}
    events: list[tuple[int, str, str, str]] = []
    for record in Script(block=1).add(hello()).steps(losses, rate=None).records:
        engine.observe(1, record)
        at = record.ordinal if isinstance(record, wire.Steps) else at
        now: dict[str, tuple[str, str, str]] = {
            finding.id: (finding.kind, finding.severity, finding.status) for finding in engine.findings
        }
        events += [(at, *state) for id_, state in now.items() if said.get(id_) != state]
        said = now
    return events


CURVES = {
    "healthy": descent(900),
    "spike": [*descent(600)[:400], 6.0, 7.0, 6.0, 5.0, *descent(600)[400:]],
    "falls back": [*descent(600)[:300], *[3.6 + 0.1 * wobble(step) for step in range(200)]],
    "above its start": [*descent(600)[:100], *[6.0 + 0.1 * wobble(step) for step in range(100)]],
    "flat": [4.6 + 0.02 * wobble(step) for step in range(700)],
    "negative": [0.5 - 0.01 * step + 0.02 * wobble(step) for step in range(500)],
    "constant": [*descent(300), *[1.5] * 100],
}


@pytest.mark.parametrize("name", CURVES)
def test_what_is_said_of_a_prefix_does_not_depend_on_what_follows(name: str) -> None:
    curve = CURVES[name]
    whole = told_by(curve)
    for cut in (len(curve) // 3, len(curve) // 2, 3 * len(curve) // 4):
        other = told_by([*curve[:cut], *[50.0] * 40])
        last = max((at for at, *_ in other), default=0)
        before = [event for event in whole if event[0] < min(last, cut)]
        assert [event for event in other if event[0] < min(last, cut)] == before
        assert [event for event in told_by(curve[:cut]) if event[0] < cut] == [e for e in whole if e[0] < cut]


@pytest.mark.parametrize("factor", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize("name", ["healthy", "spike", "falls back", "above its start", "flat", "constant"])
def test_the_unit_of_a_positive_loss_does_not_matter(name: str, factor: float) -> None:
    if name == "flat" and factor == 1e-6:
        pytest.skip("a loss under a millionth means nothing to never-learned")
    assert told_by([factor * value for value in CURVES[name]]) == told_by(CURVES[name])


def test_a_loss_that_may_be_negative_and_falls_back_is_seen() -> None:
    curve = [-5.0 + 8.0 * math.exp(-step / 60) + 0.1 * wobble(step) for step in range(400)]
    assert not [event for event in told_by(curve) if event[2] != "info"]
    lost = told_by([*curve[:300], *[0.5 + 0.1 * wobble(step) for step in range(60)]])
    assert [event[1] for event in lost if event[2] == "warning"] == ["divergence"]
    assert min(event[0] for event in lost if event[1] == "divergence") <= 300 + 20


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_a_run_of_a_few_points_is_judged_without_an_alarm(count: int) -> None:
    assert told_by(descent(count)) == []


def test_every_hundredth_step_is_enough_to_see_that_nothing_was_learned() -> None:
    losses: list[float | None] = [6.9 + 0.02 * wobble(step) for step in range(60)]
    engine = diagnose(Script(block=1).add(hello()).steps(losses, rate=None, stride=100).records)
    (finding,) = engine.findings
    assert (finding.kind, finding.severity) == ("never-learned", "warning")


def size(thing: object, depth: int = 0) -> int:
    """Numbers that are held in attributes and containers, however deep."""
    if depth > 8 or thing is None or isinstance(thing, (int, float, str, bool)):
        return 1
    if isinstance(thing, Mapping):
        return sum(size(item, depth + 1) for item in thing.values())
    if isinstance(thing, (list, tuple, deque)):
        return sum(size(item, depth + 1) for item in thing)
    names = [*getattr(thing, "__dict__", {}), *getattr(type(thing), "__slots__", ())]
    return 1 + sum(size(getattr(thing, name, None), depth + 1) for name in names if name not in ("context", "__dict__"))


def test_what_the_detectors_keep_does_not_grow_with_the_run() -> None:
    sizes = []
    for count in (4_000, 60_000):
        rng = np.random.default_rng(0)
        curve = (0.3 + 3 * np.exp(-np.arange(count) / 5000)) * np.exp(0.2 * rng.normal(size=count))
        curve[1000::977] *= 30.0
        script = Script(block=256).add(hello()).steps(curve.tolist(), rate=None)
        engine = diagnose(script.records, engine=Engine([LossCurveRule]))
        rules = engine._ranks[0].rules
        assert rules is not None
        (rule,) = rules
        sizes.append(size(rule))
    assert sizes[1] <= 1.2 * sizes[0] < 20_000
