"""Names of columns that are no metrics: the step and the time."""

from __future__ import annotations

import functools

from .roles import normalised

_STEPS = (
    "global_step", "globalstep", "trainer_global_step", "train_global_step", "step", "steps", "train_step",
    "iteration", "iterations", "iter", "iters", "it", "num_updates", "update", "updates", "n_iter", "global_iter",
    "batch", "batch_idx", "step_num", "num_steps", "current_step", "current_steps", "total_steps_done",
    "epoch", "epochs", "train_epoch",
)  # fmt: skip
"""Usual names of the step axis, the surest first; an epoch only where nothing finer is there."""
_RANKS = {name: rank for rank, name in enumerate(_STEPS)}
_TIMES = frozenset({"timestamp", "wall_time", "walltime", "time", "datetime", "date", "created_at", "ts", "asctime"})


@functools.lru_cache(maxsize=65_536)
def step_rank(name: str) -> int:
    """How sure it is that `name` is the step axis, 0 the surest; large when it is none."""
    return _RANKS.get(normalised(name), len(_RANKS))


def is_step(name: str) -> bool:
    """Whether a column of this name is a step axis."""
    return step_rank(name) < len(_RANKS)


@functools.lru_cache(maxsize=65_536)
def is_time(name: str) -> bool:
    """Whether a column of this name holds Unix times or dates, if its values are such."""
    return normalised(name).rpartition("_")[2] in _TIMES or normalised(name) in _TIMES
