"""How much is done in a second: steps, samples and tokens, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from textual.app import ComposeResult

from ...curves.smooth import SHARES, smoothed
from ...text import number, rate
from ..raster.ink import Ink
from ..raster.spec import ChartSpec, Trace
from ..workspace import Look
from .chart import Chart
from .pane import Pane, value
from .phases import STEP_TIME

STEPS = 64
"""Steps that a rate is told over."""


@dataclass(frozen=True)
class Throughput:
    """A second; None: not known."""

    steps: float | None
    samples: float | None
    tokens: float | None


def throughput(look: Look) -> Throughput:
    """Steps a second, and what the counters say of samples and tokens: of the newest steps, or those to the cursor."""
    process, at = look.process, look.told_at
    per_second = process.rate if at == np.inf else _rate_to(look, at)

    def counted(name: str) -> float | None:
        if name not in process.series or per_second is None:
            return None
        newest = min(at, process.series[name].last_x or 0.0)
        total = look.window(name, newest - STEPS, newest, STEPS)
        steps = float(total.x_last[-1] - total.x_last[0]) if len(total) else 0.0
        return float(total.last[-1] - total.last[0]) / steps * per_second if steps > 0 else None

    samples = counted("samples")
    if samples is None and per_second is not None and process.manifest.batch_size:
        samples = per_second * process.manifest.batch_size * process.micro_batches
    return Throughput(per_second, samples, counted("tokens"))


def _rate_to(look: Look, at: float) -> float | None:
    """Steps a second over the steps to `at`; None where none of them was timed."""
    if STEP_TIME not in look.process.series:
        return None
    took = look.window(STEP_TIME, at - STEPS, at, STEPS)
    known = np.isfinite(took.mean)
    total = float((took.mean * took.count)[known].sum())
    return float(took.count[known].sum()) / total if total > 0 else None


def rate_spec(look: Look, columns: int) -> ChartSpec:
    """Steps a second over the steps: one over the step time, smoothed as the loss is, over its range."""
    view = look.view
    left, right = view.window
    traces: tuple[Trace, ...] = ()
    if STEP_TIME in look.process.series:
        took = look.window(
            STEP_TIME, left - SHARES[view.smoothing] * (right - left), view.query[1], columns, edges=True
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, low, high = (
                np.where(seconds > 0, 1.0 / seconds, np.nan)
                for seconds in (smoothed(took, view.smoothing, right - left), took.hi, took.lo)
            )
        none = np.zeros(len(took), np.int64)
        traces = (Trace(took.x, mean, low, high, nonfinite=none, segment=took.segment, ink=Ink.LINE_2),)
    return ChartSpec(
        traces=traces,
        x_range=(left, right),
        log=view.log,
        cursor_x=view.cursor,
        markers=tuple(look.markers),
        spans=tuple(look.spans),
        legend=False,
        empty="no step times yet",
    )


class ThroughputPane(Pane):
    """Steps a second over the steps."""

    NAME = "throughput"
    HELP = (
        "Steps a second: one over the step time, averaged as the loss is, over the band from the slowest to the "
        "fastest step. In the title: of the newest 64 steps, or of the 64 to the cursor. Samples and tokens are told "
        "where the job counts them, or where the batch size is known."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.chart = Chart()
        self.spec = ChartSpec()
        self.now = Throughput(None, None, None)

    def body(self) -> ComposeResult:
        """The curve."""
        yield self.chart

    def gather(self, look: Look) -> None:
        """The curve, and the newest rates."""
        self.spec = rate_spec(look, self.chart.dot_columns or 2)
        self.now = throughput(look)

    def present(self) -> None:
        """The curve, the rates in the title."""
        self.chart.show(self.spec)
        told = [value(rate(self.now.steps))] if self.now.steps is not None else []
        if self.now.samples is not None:
            told.append(value(f"{number(self.now.samples)}/s", key="samples"))
        if self.now.tokens is not None:
            told.append(value(f"{number(self.now.tokens)}/s", key="tokens"))
        self.head(told, "steps a second")
