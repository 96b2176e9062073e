"""How soon faults of known size are seen when they are put into healthy real curves.

    python -m tests.bench.injected_faults [--curves FOLDER] [--runs N] [--markdown]

Into up to N healthy runs of each workload, one fault at a time, at a third and two thirds of the run. A fault counts as
found when a finding of the kinds in its line reaches its severity within the 30 % of the run behind it; the delay is
that of the record after which it was there. The rate of false alarms is that of the same curves as they are.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import WEIGHT, Severity
from ntstop_probe import wire
from tests.bench.figures import in_rows

from .curves import CURVES, Run, load, records, share

Losses = list[float | None]
Change = Callable[[Losses, int], Losses]
IN_TIME = 0.05
PLACES = (1 / 3, 2 / 3)
WINDOW = 0.3
RAMP = 0.1
"""Share of what is left of the run over which a ramp rises."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one size: what it does to the losses from a place on, and what should be said of it."""

    name: str
    change: Change
    kinds: tuple[str, ...]
    severity: Severity


@dataclass(frozen=True, slots=True)
class Found:
    """One injection; `points` and `delay` (share of the run) up to the finding, None when there was none in time."""

    fault: str
    workload: str
    points: int | None
    delay: float | None


def scaled(factor: Callable[[int, int], float]) -> Change:
    """Multiply the loss at the `i`-th of `n` points behind the place by `factor(i, n)`."""

    def change(losses: Losses, at: int) -> Losses:
        count = len(losses) - at
        behind = [None if y is None else y * factor(index, count) for index, y in enumerate(losses[at:])]
        return losses[:at] + behind

    return change


def spike(size: float, points: int) -> Change:
    """`points` points of `size` times the loss."""
    return scaled(lambda index, _: size if index < points else 1.0)


def ramp(size: float) -> Change:
    """A rise to `size` times the loss over `RAMP` of what is left of the run, then it stays."""
    return scaled(lambda index, count: 1.0 + (size - 1.0) * min(1.0, index / max(1.0, RAMP * count)))


def drift(size: float) -> Change:
    """A steady rise to `size` times the loss at the end of the run."""
    return scaled(lambda index, count: 1.0 + (size - 1.0) * index / count)


def one_nan(losses: Losses, at: int) -> Losses:
    """A single NaN."""
    return [*losses[:at], math.nan, *losses[at + 1 :]]


def freeze(losses: Losses, at: int) -> Losses:
    """The last loss again and again."""
    return losses[:at] + [losses[at]] * (len(losses) - at)


LOST = ("loss-spike", "divergence")
"""Both are right: a spike that is over ten times the lowest loss is told as an explosion until it is back."""
FAULTS = (
    *(Fault(f"spike {size}×, 1 point", spike(size, 1), LOST, "info") for size in (2, 5, 20)),
    *(Fault(f"spike {size}×, 5 points", spike(size, 5), LOST, "info") for size in (2, 5, 20)),
    Fault("single NaN", one_nan, ("nonfinite-loss",), "warning"),
    *(Fault(f"step to {size}×", spike(size, 1 << 60), LOST, "warning") for size in (1.1, 1.3, 2.0, 5.0)),
    *(Fault(f"ramp to {size}×", ramp(size), LOST, "warning") for size in (1.3, 2.0, 5.0)),
    *(Fault(f"drift to {size}× by the end", drift(size), LOST, "warning") for size in (1.3, 2.0)),
    Fault("freeze", freeze, ("plateau", "never-learned", *LOST), "warning"),
)


def inject(run: Run, fault: Fault, place: float) -> Found:
    """Put the fault in and see when it is told."""
    at = int(place * len(run.step))
    changed = msgspec.structs.replace(run, loss=fault.change(run.loss, at), eval_step=[], eval_train=[], eval_val=[])
    end = min(len(run.step), at + int(WINDOW * len(run.step)))
    # What is dated by blocks may begin one of them before the fault.
    since = run.step[at] - run.span // 64
    engine, version = Engine(), -1
    for record in records(changed)[:end]:
        assert isinstance(record, wire.Steps)
        engine.observe(1, record)
        if record.ordinal < at or engine.version == version:
            continue
        version = engine.version
        told = (f for f in engine.findings if f.kind in fault.kinds and f.first_step >= since)
        if any(WEIGHT[f.severity] >= WEIGHT[fault.severity] for f in told):
            delay = (run.step[record.ordinal] - run.step[at]) / run.span
            return Found(fault.name, run.workload, record.ordinal - at, delay)
    return Found(fault.name, run.workload, None, None)


def false_alarms(runs: Sequence[Run]) -> str:
    """Warnings and notes of spikes on the same curves as they are, per 100,000 points and steps."""
    points = steps = weighty = notes = 0
    for run in runs:
        engine = Engine()
        for record in records(run, evaluations=False):
            engine.observe(1, record)
        points += len(run.step)
        steps += run.span
        weighty += sum(finding.severity != "info" for finding in engine.findings)
        notes += sum(finding.kind == "loss-spike" for finding in engine.findings)
    upper = (weighty + 3.0 if weighty == 0 else weighty + 2 * math.sqrt(weighty) + 2) / points * 1e5
    return (
        f"the same {len(runs)} curves as they are: {weighty / points * 1e5:.2g} warnings per 100,000 points "
        f"(at most {upper:.2g} with 95 %), {weighty / steps * 1e5:.2g} per 100,000 steps; {notes / points * 1e5:.2g} "
        f"notes of spikes per 100,000 points; {points:,} points, {steps:,} steps"
    )


def chosen(runs: Sequence[Run], number: int) -> list[Run]:
    """The first healthy runs of each workload, of different submissions first."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.workload, run.id.split("/")[-1], run.id)):
        if run.label == "healthy" and len(run.step) >= 100:
            groups[run.workload].append(run)
    return [run for group in groups.values() for run in group[:: max(1, len(group) // number)][:number]]


def table(found: Sequence[Found], *, markdown: bool) -> str:
    """One line a fault."""
    heads = ["fault", "found", "within 5 % of the run", "median delay, points", "share of the run", "worst workload"]
    rows = [heads]
    for name in dict.fromkeys(item.fault for item in found):
        group = [item for item in found if item.fault == name]
        points = [item.points for item in group if item.points is not None]
        delays = [item.delay for item in group if item.delay is not None]
        workloads: dict[str, list[bool]] = defaultdict(list)
        for item in group:
            workloads[item.workload].append(item.points is not None)
        worst = min(workloads, key=lambda workload: sum(workloads[workload]) / len(workloads[workload]))
        rows.append(
            [
                name,
                share(len(points), len(group)),
                f"{sum(delay <= IN_TIME for delay in delays) / len(group):.0%}",
                f"{median(points):g}" if points else "",
                f"{median(delays):.1%}" if delays else "",
                f"{worst} {sum(workloads[worst])} of {len(workloads[worst])}",
            ]
        )
    return in_rows(rows, markdown=markdown)


def main() -> None:
    """Print the table and the rate of false alarms."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--runs", type=int, default=4, help="runs of each workload")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    runs = chosen(load(arguments.curves), arguments.runs)
    found = [inject(run, fault, place) for fault in FAULTS for run in runs for place in PLACES]
    print(table(found, markdown=arguments.markdown))
    print(false_alarms(runs))


if __name__ == "__main__":
    main()
