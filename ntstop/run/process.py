"""The state of one process of a run: who it is, its curves and layers, and how it was when it last spoke."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ntstop.curves.matrix import LayerMatrix
from ntstop.curves.series import Series
from ntstop_probe.wire import Device, Event, Heartbeat, Hello, Manifest, Schema, Steps

from .brief import STEP_TIME, Brief
from .logged import LoggedRows
from .names import logged_name
from .waiting import WaitingSteps

MANY = 32
"""Processes of which all curves are kept; of further ranks only what is shown beside each other."""
EVENTS = 1000
"""Newest events that are kept; `events_seen` counts all."""
WARNINGS = 100

_RATE_STEPS = 64
"""Newest steps that the rate is measured over."""
_STANDING_SECONDS, _STANDING_STEPS = 5.0, 10.0


@dataclass
class Track:
    """The curves and layers of a rank, on one axis over all of its attempts."""

    rank: int | None
    attempts: set[int] = field(default_factory=set)
    layers: dict[str, LayerMatrix] = field(default_factory=dict)
    """By field: "grad_norm", "param_norm", "update_ratio", "ratio" (gradient over parameter norm) …"""
    layer_names: tuple[str, ...] = ()
    brief: Brief | None = None
    """In place of all curves, where this is one rank among many."""
    _series: dict[str, Series] = field(default_factory=dict)
    _logged: LoggedRows = field(default_factory=lambda: LoggedRows(logged_name))
    _waiting: WaitingSteps = field(default_factory=WaitingSteps)
    _owner: ProcessState | None = None
    """Whose steps wait."""

    @property
    def series(self) -> dict[str, Series]:
        """Curves by name. Get them anew for every look: what has come since is added then."""
        self.settle()
        if self._logged:
            self._logged.settle(self.get)
        if self.brief is not None:
            self._series[STEP_TIME] = self.brief.settle()
        return self._series

    def wait(self, process: ProcessState, block: Steps) -> tuple[float, float, float] | None:
        """Let the steps of a block wait until somebody looks, or they are many; see `WaitingSteps.add`."""
        if self._owner is not process:
            self.settle()
            self._owner = process
        ends = self._waiting.add(block)
        if ends is None or self._waiting.full:
            self.settle()
        return ends

    def settle(self) -> None:
        """Add the steps that wait to the curves."""
        if self._waiting and self._owner is not None:
            self._owner.misfits += self._waiting.settle(self.take)

    def take(self, name: str, x: NDArray[Any], y: NDArray[Any], t: NDArray[Any]) -> None:
        """Add points to a curve; see `Series.extend`."""
        if self.brief is None:
            self.get(name).extend(x, y, t)
        else:
            self.brief.extend(name, x.tolist(), y.tolist(), t.tolist())

    def be_brief(self) -> None:
        """Keep no curves from now on, but what is shown of one rank among many."""
        if self.brief is None:
            self.brief = Brief()
            for name, series in self.series.items():
                self.brief.extend(name, *(column.tolist() for column in series.recent(series.count)))
            self._series = {}

    def get(self, name: str) -> Series:
        """The series of this name, made when there is none; to be written to."""
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = Series(name)
        return series

    def log(self, x: float, t: float, values: Mapping[str, float]) -> None:
        """Add one value to each of some series."""
        if not self._logged.takes(values):
            self._logged.settle(self.get)
        self._logged.add(x, t, values)

    def settle_logged(self) -> None:
        """Add the rows of what was logged that wait to the curves."""
        if self._logged:
            self._logged.settle(self.get)

    def layers_are(self, names: tuple[str, ...]) -> None:
        """From now on the layers are `names`; the matrices start anew when they were others."""
        if names != self.layer_names:
            self.layer_names, self.layers = names, {}


@dataclass
class ProcessState:
    """One process. Seconds are the writer's monotonic clock unless they say otherwise."""

    writer: int
    track: Track
    hello: Hello | None = None
    schema: Schema | None = None
    heartbeat: Heartbeat | None = None
    heartbeat_arrival: float | None = None
    """The viewer's `time.monotonic()` when the newest heartbeat was applied (from a recording: read, not sent)."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS))
    events_seen: int = 0
    warnings: deque[Event] = field(default_factory=lambda: deque(maxlen=WARNINGS))
    """What the probe could not do or has switched off."""
    exit: Event | None = None
    exception: Event | None = None
    checkpoint: Event | None = None
    """The newest checkpoint."""
    clocks: dict[str, str] = field(default_factory=dict)
    """Phases that are not on the host's clock."""
    phase_names: list[str] = field(default_factory=list)
    """Phases in the order in which they were first seen."""
    devices: dict[int, str] = field(default_factory=dict)
    """Names of the accelerators by index."""
    loader_most: int | None = None
    """Batches that the workers of the data loader make ahead at most, as it was told last: at the end there is none."""
    accelerators: dict[int, Device] = field(default_factory=dict)
    """The newest record of each: what the driver does not say now is None there, whatever the curve was before."""
    steps: int = 0
    """Steps this process has finished."""
    ordinal: int | None = None
    """Number of the last finished step, from 0."""
    x: float = 0.0
    """The same on the step axis."""
    stride: float = 1.0
    """How far the axis moves in one step."""
    first_x: float | None = None
    last_t: float | None = None
    """End of the last finished step."""
    misfits: int = 0
    """Records, and columns of them, that did not fit and were left out; counted when the curves are looked at."""
    skipped_layers: int = 0
    """Layer samples whose schema was never seen."""

    @property
    def rank(self) -> int | None:
        """Rank in its world; None when it is not known, or there is no world."""
        return self.hello.rank if self.hello else None

    @property
    def attempt(self) -> int:
        """0 for the first start of the run, one more for each restart or requeue."""
        return self.hello.attempt if self.hello else 0

    @property
    def manifest(self) -> Manifest:
        """What makes the run repeatable; empty until the process has introduced itself."""
        return self.hello.manifest if self.hello else Manifest()

    @property
    def series(self) -> dict[str, Series]:
        """Curves by name, over all attempts of the rank."""
        return self.track.series

    @property
    def layers(self) -> dict[str, LayerMatrix]:
        """Layer matrices by field, over all attempts of the rank; rows in the order of `layer_names`."""
        return self.track.layers

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Names of the rows of the layer matrices."""
        return self.track.layer_names

    @property
    def phases(self) -> dict[str, Series]:
        """Seconds of each step by phase, in the order in which the phases were first seen."""
        self.track.settle()
        return {name: self.track.get(f"phase/{name}") for name in self.phase_names}

    @property
    def phase(self) -> str:
        """The phase that the newest heartbeat names, "" before the first."""
        return self.heartbeat.phase if self.heartbeat else ""

    @property
    def standing(self) -> tuple[str, float] | None:
        """The phase that does not end and its age in seconds, when it is far longer than a step has taken lately.

        No judgement: whether it is a stall, the findings say. Rate and time left are then of steps long past.
        """
        beat = self.heartbeat
        if beat is None or beat.age < _STANDING_SECONDS:
            return None
        rate = self.rate
        if not rate or beat.age < _STANDING_STEPS / rate:
            return None
        return beat.phase, beat.age

    @property
    def micro_batches(self) -> int:
        """Backward passes that the newest loss is the mean of; 1 where each root is a loss of its own (a GAN)."""
        micro = self.series["micro"].last_y if "micro" in self.series else None
        return round(micro) if micro and micro > 1 and "loss/1" not in self.series else 1

    @property
    def rate(self) -> float | None:
        """Steps a second over the last 64 steps; None before there are two."""
        if self.steps < 2:
            return None
        took = self.recent(STEP_TIME, min(_RATE_STEPS, self.steps))
        total = sum(took)
        return len(took) / total if total > 0 else None

    def recent(self, name: str, count: int) -> list[float]:
        """Those of the newest `count` values of a curve that are finite, oldest first; "step_time" and "phase/data" of
        any rank, other curves of those that have them. None at all, where there is no such curve."""
        brief = self.track.brief
        if brief is not None:
            values = list(brief.recent.get(name, ()))[-count:]
        else:
            series = self.track.series.get(name)
            values = [] if series is None else series.recent(count)[1].tolist()
        # A sum is quick, and becomes what one of them is.
        return values if math.isfinite(sum(values)) else [value for value in values if math.isfinite(value)]

    def newest(self, name: str) -> float | None:
        """The last value of a curve, NaN and Inf included; None where there is none."""
        brief = self.track.brief
        if brief is not None:
            return brief.newest.get(name)
        series = self.track.series.get(name)
        return None if series is None else series.last_y

    def at(self, name: str, x: float) -> float | None:
        """The value of a curve at `x`, see `Series.y_at`; None where there is no such curve, or it is not kept."""
        brief = self.track.brief
        if brief is not None:
            return brief.at(x) if name == STEP_TIME else None
        series = self.track.series.get(name)
        return None if series is None else series.y_at(x)

    @property
    def eta(self) -> float | None:
        """Seconds to the last step at the present rate; None where the total or the rate is not known."""
        total = self.hello.total_steps if self.hello else None
        if total is None or self.ordinal is None or not self.rate:
            return None
        return max(0.0, (total - self.x) / self.stride) / self.rate

    def wall_at(self, t: float) -> float | None:
        """Unix time of a moment of the writer's monotonic clock; None before the process has introduced itself."""
        anchor = self.heartbeat or self.hello
        return anchor.wall + (t - anchor.t) if anchor else None
