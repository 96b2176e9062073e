"""One cause, one card: which kinds of findings explain which others, that are then told as their symptoms."""

from __future__ import annotations

from typing import Final

EXPLAINS: Final[dict[str, tuple[str, ...]]] = {
    "nonfinite-loss": (
        "loss-spike", "divergence", "plateau", "never-learned", "dead-layer", "vanishing-gradients",
        "exploding-gradients", "update-ratio-high", "update-ratio-low", "params-not-updating", "overfit",
    ),
    "nonfinite-grad": (
        "nonfinite-loss", "loss-spike", "divergence", "plateau", "never-learned", "dead-layer", "vanishing-gradients",
        "exploding-gradients", "update-ratio-high", "update-ratio-low", "params-not-updating", "overfit",
    ),
    "loss-scale-collapse": ("params-not-updating", "plateau", "never-learned", "update-ratio-low", "update-underflow"),
    "update-underflow": ("plateau", "never-learned", "params-not-updating", "update-ratio-low"),
    "divergence": (
        "loss-spike", "plateau", "never-learned", "exploding-gradients", "update-ratio-high", "dead-layer", "overfit",
    ),
    "params-not-updating": (
        "plateau", "never-learned", "frozen-layers", "update-ratio-low", "dead-layer", "vanishing-gradients",
    ),
    "frozen-layers": ("plateau", "never-learned", "update-ratio-low", "dead-layer"),
    "lr-zero": ("params-not-updating", "plateau", "never-learned", "update-ratio-low", "frozen-layers"),
    "lr-jump": (
        "divergence", "loss-spike", "plateau", "never-learned", "exploding-gradients", "update-ratio-high",
        "dead-layer", "vanishing-gradients", "nonfinite-loss", "nonfinite-grad",
    ),
    "gradient-accumulating": (
        "divergence", "loss-spike", "exploding-gradients", "plateau", "never-learned", "update-ratio-high",
    ),
    "vanishing-gradients": ("plateau", "never-learned", "update-ratio-low", "dead-layer"),
    "dead-layer": (
        "divergence", "loss-spike", "plateau", "never-learned", "update-ratio-low", "vanishing-gradients",
    ),
    "exploding-gradients": ("divergence", "loss-spike", "update-ratio-high"),
    "update-ratio-high": (
        "loss-spike", "divergence", "plateau", "never-learned", "exploding-gradients", "dead-layer",
        "vanishing-gradients", "nonfinite-loss", "nonfinite-grad",
    ),
    "update-ratio-low": ("plateau", "never-learned"),
    "leakage-suspect": ("overfit", "early-stop"),
    "overfit": ("early-stop",),
    "input-bound": ("gpu-underutilized", "step-time-regression"),
    "transfer-bound": ("gpu-underutilized",),
    "recompile-storm": ("step-time-regression",),
    "straggler": ("input-bound", "step-time-regression"),
    "resume-discontinuity": ("lr-jump", "divergence", "loss-spike", "plateau"),
    "step-rewind": ("divergence", "loss-spike", "resume-discontinuity"),
    "thermal-throttle": ("step-time-regression", "straggler"),
    "memory-growth": ("oom-risk",),
    "fragmentation": ("oom-risk",),
    "oom": ("oom-risk", "memory-growth", "fragmentation", "exited", "died"),
}  # fmt: skip
"""Kind to the kinds that follow from it on the same rank, when they begin with it or later."""

GENERAL: Final = frozenset({"divergence"})
"""Kinds that say what the loss does. Where such a one and another explain each other, the earlier is the cause; of two
that begin together it is the other one, which says what broke."""
TOGETHER: Final = 64
"""Steps within which two begin together: layers are looked at in one of 64 steps and fewer."""
FROM_THE_START: Final = frozenset({"never-learned"})
"""Kinds that are dated from the first step, whatever made them so: they may seem to begin before their cause."""
SLACK: Final = 0.02
"""Share of the steps seen so far by which a symptom may seem to begin before its cause: both are dated by windows."""
SLACK_STEPS: Final = 5
"""Its least, in steps."""

CAUSES: Final[dict[str, tuple[str, ...]]] = {
    symptom: tuple(cause for cause, symptoms in EXPLAINS.items() if symptom in symptoms)
    for symptom in sorted({name for names in EXPLAINS.values() for name in names})
}
"""The same, the other way round."""


def takes_over(kind: str, first: int, general: str, since: int, stride: int) -> bool:
    """Whether a finding of `kind` from step `first` on is the cause of the open one that would explain it."""
    mutual = general in EXPLAINS.get(kind, ()) and general in GENERAL
    return mutual and first <= since + TOGETHER * stride
