"""What a metric is, by its name: so that the diagnosis, which asks for the loss, finds `train/loss_step`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Role = Literal[
    "train_loss", "val_loss", "lr", "grad_norm", "accuracy", "step_time", "epoch", "tokens", "samples", "loss_scale",
    "other",
]  # fmt: skip
ROLES: tuple[Role, ...] = get_args(Role)
SHARED: tuple[Role, ...] = ("val_loss", "lr", "accuracy", "other")
"""Roles that several metrics of one log may have."""

COMPONENT = 4
"""Rank of a loss that is one of several: `train/box_loss` beside `train/cls_loss`."""
_TRAIN_RANKS = (
    {"loss"},
    {"train_loss", "training_loss", "loss_train", "loss_training", "trainloss", "train_loss_step", "loss_step",
     "step_loss", "train_step_loss", "batch_loss", "lm_loss", "train_lm_loss", "train_batch_loss", "loss_batch",
     "train_train_loss", "loss_loss"},
    {"total_loss", "train_total_loss", "loss_total", "avg_loss", "mean_loss", "global_avg_loss", "train_avg_loss",
     "loss_metrics_global_avg_loss", "losses_total_loss", "running_loss", "train_running_loss"},
    {"train_loss_epoch", "epoch_loss", "train_epoch_loss", "loss_epoch", "train_epoch_epoch_loss"},
)  # fmt: skip
"""Names of the loss over the training data, the surest first; all normalised."""
_OTHER_DATA = {"val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout"}
_NOT_A_LOSS = {"max", "min", "std", "var", "scale", "scaler", "time", "ratio", "weight", "coef", "norm", "best"}
_PARTS = {
    "kl", "kld", "kldiv", "recon", "reconstruction", "rec", "nll", "mse", "mae", "bce", "ce", "l1", "l2", "vq",
    "commit", "commitment", "codebook", "penalty", "reg", "regularization", "regularizer", "adv", "perceptual", "lpips",
    "style", "content", "contrastive", "triplet", "consistency", "cycle", "distill", "distillation", "aux", "physics",
    "boundary",
}  # fmt: skip
"""Words for a term of a loss where "loss" itself is not in the name: `train/kl` beside `train/recon`."""
_LR = re.compile(r"(^|_)(lr|learning_?rate)(_|$)")
_NOT_AN_LR = re.compile(r"ratio|decay|multiplier|scale|warmup|loss")
_GRAD_NORM = re.compile(
    r"((train(ing|er)?|optim(izer)?|actor|policy|debug)_)?((global|total)_)?(grad(ient)?s?_?norm|gnorm)(_total|_global)?"
    r"|grad_2_0_norm_total"
)
_STEP_TIME = re.compile(
    r"((train|perf|timing|time|throughput)_)?(step_?time|iter(ation)?_?time|time_per_(step|iter(ation)?)|batch_?time"
    r"|(s|sec|secs|seconds|ms)_(per_)?(step|it|iter|batch)|elapsed_time_per_iteration|dt)(_s|_ms|_sec|_seconds|_step)?"
)
_MILLISECONDS = re.compile(r"(^|[_ (/.])ms([_ )/]|$)|milli", re.I)
_ACCURACY = {"acc", "accuracy", "acc1", "acc5", "top1", "top5", "acc_1"}
_COUNTS: dict[str, Role] = {
    "epoch": "epoch", "epochs": "epoch", "train_epoch": "epoch",
    "tokens": "tokens", "num_tokens": "tokens", "tokens_seen": "tokens", "total_tokens": "tokens",
    "train_tokens": "tokens", "consumed_tokens": "tokens", "num_input_tokens_seen": "tokens", "n_tokens_seen": "tokens",
    "samples": "samples", "consumed_samples": "samples", "samples_seen": "samples", "consumed_train_samples": "samples",
    "loss_scale": "loss_scale", "train_loss_scale": "loss_scale", "grad_scale": "loss_scale",
    "loss_scaler": "loss_scale",
}  # fmt: skip


class Guess(NamedTuple):
    """The role of a name. Of several names with one role, the lowest `rank` has it."""

    role: Role
    rank: int = 0
    factor: float = 1.0
    """What brings its numbers to seconds."""


def normalised(name: str) -> str:
    """Lower case, words joined by single underscores: "Loss/Train" is "loss_train"."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


@functools.lru_cache(maxsize=65_536)
def guess(name: str) -> Guess:
    """The role of a metric by its name."""
    plain = normalised(name)
    if plain in _COUNTS:
        return Guess(_COUNTS[plain])
    words = set(plain.split("_"))
    if words & _OTHER_DATA or re.match(r"(val|valid|eval|test)[a-z]*loss", plain):
        if "loss" in plain and not words & _NOT_A_LOSS:
            return Guess("val_loss")
        return Guess("accuracy") if words & _ACCURACY else Guess("other")
    for rank, names in enumerate(_TRAIN_RANKS):
        if plain in names:
            return Guess("train_loss", rank)
    if _GRAD_NORM.fullmatch(plain):
        return Guess("grad_norm")
    if _STEP_TIME.fullmatch(plain):
        return Guess("step_time", 0, 1e-3 if _MILLISECONDS.search(name) else 1.0)
    if _LR.search(plain) and not _NOT_AN_LR.search(plain):
        return Guess("lr")
    if any(word.endswith("loss") for word in words) and not words & _NOT_A_LOSS:
        return Guess("train_loss", COMPONENT)
    return Guess("accuracy") if words & _ACCURACY else Guess("other")


@functools.lru_cache(maxsize=65_536)
def is_part(name: str) -> bool:
    """Whether a metric of the training data may be one of the terms that its loss is the weighted sum of."""
    words = set(normalised(name).split("_"))
    if words & (_OTHER_DATA | _NOT_A_LOSS):
        return False
    guessed = guess(name)
    return bool(words & _PARTS) if guessed.role == "other" else guessed == Guess("train_loss", COMPONENT)


class Roles:
    """The roles of the metrics of one log, by name or as the user says."""

    def __init__(self, told: Mapping[str, Role] | None = None) -> None:
        self._told = dict(told or {})
        self._train = {name for name, role in self._told.items() if role == "train_loss"}

    def of(self, name: str) -> Guess:
        """The role of `name`. Where the user has named the training loss, no other name is one."""
        role = self._told.get(name)
        guessed = guess(name)
        if role is not None:
            return Guess(role, 0 if role == "train_loss" else guessed.rank, guessed.factor)
        if self._train and guessed.role == "train_loss":
            return Guess("other")
        return guessed

    @property
    def named(self) -> set[str]:
        """The names that the user has given a role."""
        return set(self._told)


def parse(options: tuple[str, ...]) -> dict[str, Role]:
    """`--role NAME=ROLE` options as a table. Raises `ValueError` with one line where one is none."""
    table: dict[str, Role] = {}
    for option in options:
        name, _, text = option.rpartition("=")
        role = next((known for known in ROLES if known == text.strip()), None)
        if not name or role is None:
            raise ValueError(f"--role {option}: NAME=ROLE is meant, with one of the roles {', '.join(ROLES)}")
        name = name.strip()
        if table.setdefault(name, role) != role:
            raise ValueError(f"--role {name}={role}: it is said to be {table[name]} too; which of the two?")
        other = next((known for known, its in table.items() if its == role and known != name), None)
        if other is not None and role not in SHARED:
            raise ValueError(
                f"--role {name}={role}: {other} is said to be the {role} too, and there is one; which of the two?"
            )
    return table
