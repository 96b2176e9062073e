"""The layer matrix: bounded columns, true means, missing told from nonfinite."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.curves.matrix import COLUMNS, LayerMatrix


def filled(values: np.ndarray, steps: np.ndarray | None = None) -> LayerMatrix:
    matrix = LayerMatrix(values.shape[1])
    for index, row in enumerate(values.astype(np.float32)):
        matrix.append(float(index if steps is None else steps[index]), row)
    return matrix


@given(count=st.integers(1, 9_000), width=st.integers(1, 200), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_every_column_is_the_mean_of_its_samples(count: int, width: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    found = filled(values).window(0, count, width)
    assert len(found) <= max(1, width) + 1
    assert found.mean.shape == found.high.shape == found.nonfinite.shape == (3, len(found))
    assert found.x_first[0] == 0 and found.x_last[-1] == count - 1
    for column, (first, last) in enumerate(zip(found.x_first, found.x_last, strict=True)):
        part = values[int(first) : int(last) + 1]
        np.testing.assert_allclose(found.mean[:, column], part.mean(axis=0), atol=1e-4)
        np.testing.assert_array_equal(found.high[:, column], part.max(axis=0))


def test_missing_is_not_nonfinite_and_neither_is_zero() -> None:
    matrix = LayerMatrix(4)
    matrix.append(7, np.array([1, 0, np.nan, np.inf], np.float32), np.array([True, False, True, True]))
    mean, nonfinite = matrix.column_at(7)
    np.testing.assert_array_equal(mean, [1, np.nan, np.nan, np.nan])
    assert nonfinite.tolist() == [False, False, True, True]
    found = matrix.window(0, 10, 5)
    assert found.nonfinite[:, 0].tolist() == [False, False, True, True]


def test_one_nan_does_not_spoil_the_column_it_is_folded_into() -> None:
    values = np.ones((4 * COLUMNS, 2), np.float32)
    values[100, 0] = np.nan
    found = filled(values).window(0, 4 * COLUMNS, 50)
    assert (found.mean == 1).all()
    assert found.nonfinite.sum() == 1 and found.nonfinite[0].any()


def test_there_are_never_more_buckets_than_the_limit() -> None:
    values = np.arange(20_000, dtype=np.float32)[:, None]
    found = filled(values).window(0, 20_000, 10_000_000)
    assert COLUMNS / 2 <= len(found) <= COLUMNS
    assert found.mean[0, -1] == pytest.approx(19_990, abs=20)


def test_thousands_of_layers_get_fewer_columns_instead_of_more_memory() -> None:
    matrix = LayerMatrix(20_000)
    for step in range(300):
        matrix.append(step, np.full(20_000, step, np.float32))
    found = matrix.window(0, 300, 1_000)
    assert 64 <= len(found) <= 128
    assert found.x_last[-1] == 299


def test_a_resume_begins_a_column_of_its_own() -> None:
    steps = np.concatenate((np.arange(3_000), np.arange(2_500, 4_000)))
    values = np.concatenate((np.zeros(3_000), np.ones(1_500)))[:, None]
    found = filled(values, steps).window(0, 4_000, 100)
    assert set(np.unique(found.mean)) == {0.0, 1.0}
    assert len(set(found.segment)) == 2


def test_a_step_shows_the_newest_bucket_that_begins_before_it() -> None:
    matrix = filled(np.arange(10.0)[:, None])
    assert matrix.column_at(4.5)[0].tolist() == [4.0]
    assert np.isnan(matrix.column_at(-1)[0]).all()


def test_an_empty_matrix_says_so() -> None:
    matrix = LayerMatrix(3)
    assert (matrix.samples, matrix.last_x, matrix.x_range) == (0, None, None)
    assert matrix.window(0, 10, 5).mean.shape == (3, 0)


def test_values_of_other_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values for 3 layers"):
        LayerMatrix(3).append(0, np.zeros(2, np.float32))
