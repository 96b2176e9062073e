"""The development curves: real training runs with labels, as records for the engine, and the interval of a share."""

from __future__ import annotations

import gzip
import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.rules import Rule
from ntstop_probe import wire

CURVES = Path(__file__).resolve().parents[3] / "shared" / "curves"
FILE = "algoperf_dev.jsonl.gz"
QUIET = ("healthy", "warmup")
BLOCK = 16
MEDIAN = 33


class Run(msgspec.Struct, frozen=True):
    """One training run. Columns are as long as `step`, or as `eval_step`, None where nothing was logged."""

    id: str
    workload: str
    submission: str
    label: str
    onset: int | None
    """For bad runs: the step from which a person would see it."""
    step: list[int]
    loss: list[float | None]
    grad_norm: list[float | None]
    lr: list[float | None]
    eval_step: list[int]
    eval_train: list[float | None]
    eval_val: list[float | None]

    @property
    def healthy(self) -> bool:
        """Nothing at warning or above may be said of it."""
        return self.label in QUIET

    @property
    def span(self) -> int:
        """Steps from the first to the last."""
        return max(1, self.step[-1] - self.step[0])


@dataclass(slots=True)
class Outcome:
    """What the diagnosis said of one curve."""

    run: Run
    alarm: int | None
    """Step of the first record after which something weighed warning or more."""
    said: dict[str, str]
    """kind -> the weightiest severity it ever had."""
    longest_recovered: int
    """Points of the longest spike that came back by itself."""

    @property
    def late(self) -> float | None:
        """Share of the run between the onset and the alarm, 0 when it came before; None without one of them."""
        if self.alarm is None or self.run.onset is None:
            return None
        return max(0.0, (self.alarm - self.run.onset) / self.run.span)


def load(folder: Path = CURVES) -> list[Run]:
    """All runs of the file in the folder. Raises `SystemExit` with one line when there is none."""
    path = folder / FILE
    if not path.exists():
        raise SystemExit(f"no curves at {path}; give their folder with --curves")
    with gzip.open(path, "rt") as file:
        # The standard library's reader takes the bare NaN and Infinity that stand in the file.
        return [msgspec.convert(json.loads(line), Run) for line in file]


def resampled(run: Run, seed: int) -> Run:
    """The same curve with noise that might have been: blocks of `BLOCK` residuals, drawn from an eighth of the run to
    both sides, on the running median of `MEDIAN` points (of the log loss). Without evaluations; for losses above 0."""
    loss = np.array([math.nan if y is None else y for y in run.loss])
    logs = np.log(np.where(loss > 0, loss, 1.0))
    n, rng = len(logs), np.random.default_rng(seed)
    half = [min(MEDIAN // 2, at, n - 1 - at) for at in range(n)]
    level = np.array([np.median(logs[at - width : at + width + 1]) for at, width in enumerate(half)])
    residuals, drawn = logs - level, np.empty(n)
    for at in range(0, n, BLOCK):
        low, high = max(0, at - n // 8), min(n - BLOCK, at + n // 8)
        start = int(rng.integers(min(low, n - BLOCK), high + 1))
        drawn[at : at + BLOCK] = residuals[start : start + min(BLOCK, n - at)]
    made = np.where(loss > 0, np.exp(level + drawn), loss)
    # The first point is where everything is measured from.
    made[0] = loss[0]
    return msgspec.structs.replace(run, loss=list(made.tolist()), eval_step=[], eval_train=[], eval_val=[])


def records(run: Run, block: int = 1, *, evaluations: bool = True) -> list[wire.Record]:
    """The curve as blocks of steps, each evaluation behind the block in which it was made."""
    made: list[wire.Record] = []
    done = 0
    for start in range(0, len(run.step), block):
        cut = slice(start, start + block)
        steps = run.step[cut]
        clock = wire.pack("f8", [float(step) for step in steps])
        loss, rate = wire.pack("f8", run.loss[cut]), wire.pack("f8", run.lr[cut])
        assert clock is not None
        made.append(
            wire.Steps(
                count=len(steps),
                ordinal=start,
                t=clock,
                step=wire.pack("i8", steps),
                losses={} if loss is None else {"loss": loss},
                lrs={} if rate is None else {"lr": rate},
                grad_norm=wire.pack("f8", run.grad_norm[cut]),
            )
        )
        last = start + len(steps) - 1
        while evaluations and done < len(run.eval_step) and run.eval_step[done] <= steps[-1]:
            if (value := run.eval_val[done]) is not None:
                at = run.eval_step[done]
                made.append(wire.Scalars(t=float(at), step=at, ordinal=last, values={"val/loss": value}))
            done += 1
    return made


def judge(
    run: Run,
    thresholds: Mapping[str, float] | None = None,
    *,
    evaluations: bool = True,
    rules: list[type[Rule]] | None = None,
) -> Outcome:
    """Replay one curve and note what was said, and when first; by all rules unless told which."""
    engine, alarm, at = Engine(rules, thresholds=thresholds), None, run.step[0]
    order = ("info", "warning", "critical")
    said: dict[str, str] = {}
    longest, version = 0, -1
    for record in records(run, evaluations=evaluations):
        engine.observe(1, record)
        if isinstance(record, wire.Steps):
            at = run.step[record.ordinal]
        if engine.version == version:
            continue
        version = engine.version
        for finding in engine.findings:
            said[finding.kind] = max(said.get(finding.kind, "info"), finding.severity, key=order.index)
            if finding.severity != "info" and alarm is None:
                alarm = at
            if finding.kind == "loss-spike" and finding.status == "resolved":
                points = bisect_left(run.step, finding.last_step) - bisect_left(run.step, finding.first_step)
                longest = max(longest, points)
    return Outcome(run, alarm, said, longest)


def wilson(hits: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which holds for few runs and shares near 0 or 1 as well."""
    if total == 0:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(hits: int, total: int) -> str:
    """ "3 of 10, 30 % (11 to 60 %)"."""
    low, high = wilson(hits, total)
    return f"{hits} of {total}, {hits / max(1, total):.1%} ({low:.0%} to {high:.0%})"
