"""How much is done in a second: steps, samples and tokens, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from textual.app import ComposeResult

from ...run.process import ProcessState
from ...text import number, rate
from ..raster.ink import Ink
from ..raster.spec import ChartSpec, Marker, Trace
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .pane import Pane, value
from .phases import STEP_TIME


@dataclass(frozen=True)
class Throughput:
    """Of the newest steps; None: not known."""

    steps: float | None
    samples: float | None
    tokens: float | None


def throughput(process: ProcessState) -> Throughput:
    """Steps a second, and what the counters say of samples and tokens."""
    per_second = process.rate

    def counted(name: str) -> float | None:
        series = process.series.get(name)
        if series is None or per_second is None:
            return None
        _, total, t = series.recent(64)
        return float((total[-1] - total[0]) / (t[-1] - t[0])) if len(total) > 1 and t[-1] > t[0] else None

    samples = counted("samples")
    if samples is None and per_second is not None and process.manifest.batch_size:
        samples = per_second * process.manifest.batch_size * process.micro_batches
    return Throughput(per_second, samples, counted("tokens"))


def rate_spec(process: ProcessState, view: StepView, columns: int, markers: tuple[Marker, ...]) -> ChartSpec:
    """Steps a second over the steps: one over the mean step time of each column."""
    traces: tuple[Trace, ...] = ()
    series = process.series.get(STEP_TIME)
    if series is not None:
        buckets = series.window(*view.query, columns, edges=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            per_second = np.where(buckets.mean > 0, 1.0 / buckets.mean, np.nan)
        traces = (
            Trace(
                buckets.x,
                per_second,
                segment=buckets.segment,
                nonfinite=np.zeros(len(buckets), np.int64),
                ink=Ink.LINE_2,
            ),
        )
    return ChartSpec(
        traces=traces,
        x_range=view.window,
        cursor_x=view.cursor,
        markers=markers,
        legend=False,
        empty="no step times yet",
    )


class ThroughputPane(Pane):
    """Steps a second over the steps."""

    NAME = "throughput"
    HELP = "Steps a second. Samples and tokens are told where the job counts them, or where the batch size is known."

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
        self.spec = rate_spec(look.process, look.view, self.chart.dot_columns or 2, tuple(look.markers))
        self.now = throughput(look.process)

    def present(self) -> None:
        """The curve, the rates in the title."""
        self.chart.show(self.spec)
        told = [value(rate(self.now.steps))] if self.now.steps is not None else []
        if self.now.samples is not None:
            told.append(value(f"{number(self.now.samples)}/s", key="samples"))
        if self.now.tokens is not None:
            told.append(value(f"{number(self.now.tokens)}/s", key="tokens"))
        self.head(told, "steps a second")
