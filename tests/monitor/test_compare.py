"""Several runs on one axis as text, and how runs are laid on axes of time and tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.curves.alignment import STEPS, alignment_of
from ntstop.curves.series import Series
from ntstop.tui.choice import MOST_OVERLAID, CurveChoice
from ntstop.tui.colours import PLACES, ColourBook
from tests.monitor.test_cli import NTSTOP, is_one_line, ntstop
from tests.monitor.writer import Writer, steps
from tests.tmux import Terminal


def ended(run: str, losses: list[float]) -> Writer:
    writer = Writer(run)
    writer.send(steps(0, losses))
    writer.exit(0)
    writer.close()
    return writer


def ramp(steps: np.ndarray, t: np.ndarray, tokens: np.ndarray | None = None) -> dict[str, Series]:
    found = {"loss": Series("loss")}
    found["loss"].extend(steps.astype(float), np.ones(len(steps)), t.astype(float))
    if tokens is not None:
        found["tokens"] = Series("tokens")
        found["tokens"].extend(steps.astype(float), tokens.astype(float), t.astype(float))
    return found


# --- the table -----------------------------------------------------------------------------------------------------


def test_piped_two_runs_are_a_table_with_the_difference_at_the_last_common_step(home: object) -> None:
    ended("alpha", [2.0] * 100)
    ended("beta", [2.5] * 60 + [1.5] * 300)
    done = ntstop("alpha", "beta")
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].split("  ")[0] == "loss, smoothed" and "less alpha" in table[0]
    assert table[1].split() == ["alpha", "2.000", "2.000", "0"]
    beta = table[2].split()
    assert beta[:3] == ["beta", "1.500", "1.500"] and beta[-3:] == ["at", "step", "99"]
    assert -0.5 <= float(beta[4]) < -0.3, "a smoothed curve has nearly come down by then"
    assert lines[1].split() == ["alpha", "finished", "99", "10.0/s"]


def test_a_log_of_another_tool_is_compared_with_a_run(home: object, tmp_path: object) -> None:
    ended("alpha", [2.0] * 50)
    path = f"{tmp_path}/log.csv"
    with open(path, "w") as file:
        file.write("step,loss\n" + "".join(f"{step},3.0\n" for step in range(80)))
    done = ntstop("alpha", path)
    assert done.returncode == 0, done.stderr
    assert "+1.000 at step 49" in done.stdout and "log.csv" in done.stdout


@pytest.mark.parametrize(
    "words", [["alpha", "none-such"], ["none-such", "alpha"], ["alpha", "-"], ["alpha", "/none/x"]]
)
def test_a_target_that_cannot_be_read_is_one_line_and_exit_code_2(home: object, words: list[str]) -> None:
    ended("alpha", [2.0] * 10)
    assert is_one_line(ntstop(*words))


def test_more_runs_than_can_be_told_apart_are_refused(home: object) -> None:
    ended("alpha", [2.0] * 10)
    done = ntstop(*["alpha"] * 9)
    assert is_one_line(done) and "8 at most" in done.stderr


def test_runs_without_a_finite_loss_or_any_step_are_named_as_such(home: object) -> None:
    ended("alpha", [2.0] * 50)
    ended("bad", [float("nan")] * 50)
    empty = Writer("empty")
    empty.exit(1)
    empty.close()
    done = ntstop("alpha", "bad", "empty")
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n\n")[1].splitlines()
    assert table[2].split() == ["bad", "nan", "–", "–", "none", "finite"]
    assert table[3].split() == ["empty", "–", "–", "–", "not", "measured"]
    assert table[4] == "bad: 50 not finite, the first at step 0"


def test_a_loss_that_is_nan_by_now_is_not_told_as_what_it_was_last(home: object) -> None:
    ended("alpha", [2.5] * 120 + [float("nan")] * 80)
    ended("beta", [2.0] * 50 + [float("inf")] + [2.0] * 149)
    done = ntstop("alpha", "beta")
    table = done.stdout.split("\n\n")[1].splitlines()
    assert table[1].split()[:3] == ["alpha", "nan", "2.500"]
    assert table[2].split()[:3] == ["beta", "2.000", "2.000"] and table[2].endswith("  -0.5000 at step 119")
    assert table[3:] == [
        "alpha: 80 not finite, the first at step 120",
        "beta: 1 not finite, the first at step 50",
    ]


def test_the_last_value_is_that_of_the_last_attempt_though_an_earlier_one_came_further(home: object) -> None:
    for attempt, losses in enumerate(([2.0] * 100, [3.0] * 50)):
        writer = Writer("alpha", attempt=attempt)
        writer.send(steps(0, losses, attempt=attempt))
        writer.exit(0)
        writer.close()
    ended("beta", [2.5] * 100)
    lines = ntstop("alpha", "beta").stdout.splitlines()
    assert lines[1].split()[:3] == ["alpha", "finished", "49"] and lines[5].split()[:2] == ["alpha", "3.000"]


def test_the_same_run_twice_differs_by_nothing(home: object) -> None:
    ended("alpha", [3.0 - 0.01 * step for step in range(100)])
    done = ntstop("alpha", "alpha")
    assert "0 at step 99" in done.stdout and "alpha (2)" in done.stdout


def test_in_a_terminal_both_are_drawn_with_their_names_and_the_keys_work(home: object) -> None:
    ended("alpha", [2.0] * 100)
    ended("beta", [2.5] * 100)
    with Terminal([NTSTOP, "alpha", "beta"]) as terminal:
        terminal.wait_for("beta")
        terminal.keys("d")
        terminal.wait_for("less alpha")
        terminal.keys("Escape")
        terminal.wait_for("step_time")
        terminal.keys("q")
        terminal.wait_for("left with 0")


# --- axes ----------------------------------------------------------------------------------------------------------


def test_steps_lie_where_they_are_on_their_own_axis() -> None:
    assert alignment_of("step", {}, "loss") is STEPS
    assert STEPS.place(123.0) == 123.0 and STEPS.step(-4.0) == -4.0


def test_time_is_that_of_training_without_what_lies_between_attempts() -> None:
    x = np.concatenate((np.arange(1000), np.arange(900, 2000)))
    t = np.concatenate((np.arange(1000) * 0.1, 50_000 + np.arange(1100) * 0.1))
    found = alignment_of("time", ramp(x, t), "loss")
    assert found is not None
    assert found.place(500) == pytest.approx(50, rel=0.02)
    assert found.place(1999) == pytest.approx(210, rel=0.02), "100 s, then 110 s in which 100 steps were made again"
    assert found.step(found.place(1500)) == pytest.approx(1500, rel=0.01)


def test_a_clock_that_falls_back_makes_no_time_negative() -> None:
    t = np.arange(2000) * 0.1
    t[1000:] -= 3600.0
    found = alignment_of("time", ramp(np.arange(2000), t), "loss")
    assert found is not None
    assert (np.diff(found.places) > 0).all() and found.places[0] >= 0


def test_tokens_go_on_evenly_beyond_what_was_measured() -> None:
    x = np.arange(100)
    found = alignment_of("tokens", ramp(x, x, 1000 * (x + 1)), "loss")
    assert found is not None
    assert found.place(50) == pytest.approx(51_000)
    assert found.place(199) == pytest.approx(200_000, rel=0.01)


@pytest.mark.parametrize("axis", ["time", "tokens"])
def test_what_was_not_measured_is_no_axis(axis: str) -> None:
    assert alignment_of(axis, ramp(np.arange(100), np.zeros(100)), "loss") is None  # type: ignore[arg-type]
    assert alignment_of(axis, {}, "loss") is None  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e3, 1e9)), min_size=1, max_size=60),
    st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_any_clock_gives_a_rising_axis_or_none(points: list[tuple[float, float]], asked: list[float]) -> None:
    x, t = (np.array(column) for column in zip(*points, strict=True))
    found = alignment_of("time", ramp(x, t), "loss")
    if found is not None:
        assert (np.diff(found.steps) > 0).all() and (np.diff(found.places) > 0).all()
        assert np.isfinite(found.to_places(np.array(asked))).all()


# --- what is chosen ------------------------------------------------------------------------------------------------


def test_a_name_keeps_its_place_and_eight_names_have_eight() -> None:
    book = ColourBook()
    names = [f"run-{index}" for index in range(PLACES)]
    first = [book.of(name) for name in names]
    assert sorted(first) == list(range(PLACES)) == sorted(book.of(name) for name in reversed(names))
    assert [book.of(name) for name in names] == first
    assert 0 <= book.of("one more") < PLACES


def test_a_filter_takes_all_of_its_words_in_any_order() -> None:
    choice = CurveChoice(names=["train/loss", "val/loss", "val/accuracy", "lr"], filter="LOSS val")
    assert choice.shown(lambda name: 0.0) == ["val/loss"]


def test_pins_come_first_and_only_those_that_pass_the_filter() -> None:
    choice = CurveChoice(names=["loss", "a", "b"], pinned=["b", "gone"])
    assert choice.shown(lambda name: 0.0) == ["b", "loss", "a"]
    choice.filter = "a"
    assert choice.shown(lambda name: 0.0) == ["a"]


def test_no_more_are_laid_over_than_the_limit() -> None:
    choice = CurveChoice(names=[str(index) for index in range(10)])
    taken = []
    for name in choice.names:
        choice.chosen = name
        taken.append(choice.overlay())
    assert taken == [True] * MOST_OVERLAID + [False] * (10 - MOST_OVERLAID)
    assert len(choice.together()) == MOST_OVERLAID
