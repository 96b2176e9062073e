"""What curves are called, which of them are losses, and the order in which people look for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ntstop.curves.series import Series

TRAIN_NAMES = ("loss", "train/loss", "train_loss", "training/loss")
"""Where the training loss is looked for, in this order: the probe's own name first."""
_EVALUATION = re.compile(r"(^|[/_. -])(val|valid|validation|eval|dev|test)([/_. -]).*loss|^(val|eval|test)loss$", re.I)
MOST_LINES = 3

STEP_COLUMNS = {
    "grad_norm": "grad_norm",
    "clip": "clip",
    "loss_scale": "loss_scale",
    "skipped": "skipped",
    "micro": "micro",
    "duration": "step_time",
    "epoch": "epoch",
    "samples": "samples",
    "tokens": "tokens",
    "zero_grads": "zero_grads",
}
"""Columns of a steps record and the series they go to."""
_MEASURED = re.compile(r"(loss|lr)(/\d+(\.\d+)?)?|(phase|host|compile|loader)/.*|(gpu|alloc)\d+/.*")
"""Names of series that the probe measures itself, besides those of `STEP_COLUMNS`."""

LOADER_QUEUE = "loader/ready"
"""Batches that the loader's workers have ready, once a second."""
_GROUPS = tuple(
    re.compile(pattern)
    for pattern in (
        "lr", "grad_norm", "step_time", r"lr/.*", r"phase/.*", r"loader/.*", "clip|loss_scale|skipped", r"gpu\d+/.*",
        r"alloc\d+/.*", r"host/.*", r"compile/.*", "epoch|samples|tokens|micro|zero_grads",
    )
)  # fmt: skip
"""What the probe measures besides losses, the most looked for first; what the job logs itself comes before all."""
_LAST = re.compile(
    r"host/(cores|memory_total|shared.*|children.*)|gpu\d+/(memory_total|power_limit)|alloc\d+/(retries|ooms)"
)
"""Curves that are flat in almost every run."""


_SET = re.compile(r"(.*/)?(lr|learning_rate)([-_/].*)?|loss_scale|epoch|samples|tokens|micro", re.I)
"""Curves that the job sets or counts: "lr", "lr/0.1", "train/learning_rate", "lr-AdamW/pg1"."""


def is_set(name: str) -> bool:
    """Whether a curve has no noise: what the job sets is read as it is, and an average of it was never true."""
    return _SET.fullmatch(name) is not None


def train_losses(series: Mapping[str, Series]) -> list[str]:
    """Names of the training losses: the main one, then those of further roots ("loss/1" …)."""
    main = [name for name in TRAIN_NAMES if name in series][:1]
    return main + sorted(name for name in series if re.fullmatch(r"loss/\d+", name))[: MOST_LINES - 1]


def evaluation_losses(series: Mapping[str, Series]) -> list[str]:
    """Names of losses that the user logs and that are not of the training data."""
    return sorted(name for name in series if _EVALUATION.search(name))[:MOST_LINES]


def main_curve(series: Mapping[str, Series]) -> str | None:
    """The training loss; without one the first curve there is."""
    return next(iter(train_losses(series)), None) or min(series, key=_place, default=None)


def in_order(names: Iterable[str]) -> list[str]:
    """Losses first, then what the job logs, then what the probe measures; alike ones by name."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[int, str]:
    if name in TRAIN_NAMES or re.fullmatch(r"loss/\d+", name):
        return -3, name
    if _EVALUATION.search(name):
        return -2, name
    if _LAST.fullmatch(name):
        return len(_GROUPS), name
    return next((place for place, group in enumerate(_GROUPS) if group.fullmatch(name)), -1), name


def logged_name(name: str) -> str:
    """The series of what a job logs as `name`: its own, unless the probe measures something of that name itself."""
    return f"logged/{name}" if name in STEP_COLUMNS.values() or _MEASURED.fullmatch(name) else name
