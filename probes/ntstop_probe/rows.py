"""What the training thread hands over: plain rows, as cheap to make as Python allows.

The publisher thread turns them into the records of `wire`, whose field descriptions hold here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class StepRow:
    """One finished step. Seconds; None and absent keys: not measured."""

    ordinal: int
    t: float
    duration: float | None = None
    step: int | None = None
    epoch: int | None = None
    samples: int | None = None
    tokens: int | None = None
    micro: int | None = None
    optimizers: int | None = None
    losses: dict[str, float] = field(default_factory=dict)
    lrs: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    clocks: dict[str, str] = field(default_factory=dict)
    grad_norm: float | None = None
    clip: float | None = None
    loss_scale: float | None = None
    skipped: int | None = None
    step_source: str = ""
    zero_grads: int | None = None


PlainStep = tuple[int, float, int | None, int | None, float, int]
"""An ordinary step that was not timed, as the training thread can make it fastest: ordinal, t, epoch, samples, loss,
zero_grads. One backward, one optimizer."""


def step_of(plain: PlainStep) -> StepRow:
    """The same as a row like any other."""
    ordinal, t, epoch, samples, loss, zero_grads = plain
    row = StepRow(ordinal, t, None, None, epoch, samples or None, None, 1, 1, {"loss": loss})
    row.zero_grads = zero_grads
    return row


@dataclass(slots=True)
class SchemaRow:
    """The layers, before the first `LayerRow` that carries their `id`."""

    id: int
    names: list[str]
    numel: list[int]
    dtypes: list[str]
    frozen: list[bool]
    in_optimizer: list[bool]
    shards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LayerRow:
    """The layers at one sampled step: each field a list as long as the schema, None where nothing was measured."""

    schema: int
    ordinal: int
    step: int | None
    t: float
    fields: dict[str, list[float | None]]
    interval: int = 1


@dataclass(slots=True)
class ScalarRow:
    """Numbers the user logged together."""

    t: float
    step: int | None
    ordinal: int
    values: dict[str, float]


@dataclass(slots=True)
class EventRow:
    """Something that happened once; kinds as in `wire.Event`."""

    t: float
    kind: str
    text: str = ""
    ordinal: int | None = None
    step: int | None = None
    duration: float | None = None
    data: dict[str, object] = field(default_factory=dict)


Row = StepRow | SchemaRow | LayerRow | ScalarRow | EventRow
