"""False alarms and catches of the diagnosis on real curves, by workload, beside rules that others have published.

    python -m tests.bench.detectors_on_curves [--curves FOLDER] [--misses] [--held-out] [--resampled N] [--markdown]

A healthy run counts as a false alarm when anything at warning or above was said at any moment of it, not only at
its end; a bad run as caught likewise, and as caught in time when that was at most 5 % of the run after the onset.
With `--resampled N` the healthy curves are told N times with their noise drawn anew, in blocks of 16 points.
With `--held-out` each workload is judged with the thresholds that do best on all the others (2 minutes on 2 cores).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.rules import Rule
from ntstop.diagnosis.rules import load as load_rules
from ntstop.diagnosis.rules.optimization import LossCurveRule
from ntstop.diagnosis.thresholds import REGISTRY
from ntstop_probe import wire
from tests.bench.figures import in_rows

from .curves import CURVES, Outcome, Run, judge, load, records, resampled, share
from .published_rules import RULES

IN_TIME = 0.05
GRID = {
    "divergence.errors": (3.5, 7.0),
    "divergence.rise": (0.03, 0.1),
    "divergence.lost": (0.35, 0.7),
    "loss-spike.z": (6.0, 15.0),
    "loss-spike.linger": (20.0, 64.0),
}
"""What decides between an excursion and a loss that is lost: each is moved down and up by itself, about a factor of
1.5, the others left at their defaults."""


@dataclass(frozen=True, slots=True)
class Score:
    """How one way of judging did on some runs."""

    name: str
    quiet: int
    false: int
    bad: int
    caught: int
    in_time: int
    delay: float | None
    """Median share of the run between onset and alarm, of those caught."""

    @property
    def loss(self) -> tuple[float, int]:
        """What tuning minimises: misses and false alarms by their share of what is allowed, then lateness."""
        missed = 1 - self.caught / max(1, self.bad)
        return missed / 0.05 + self.false / max(1, self.quiet) / 0.02, -self.in_time


def score(name: str, runs: Sequence[Run], alarms: Sequence[int | None]) -> Score:
    """Count alarms (the first step of each run, None without)."""
    pairs = list(zip(runs, alarms, strict=True))
    quiet = [alarm for run, alarm in pairs if run.healthy]
    bad = [Outcome(run, alarm, {}, 0) for run, alarm in pairs if not run.healthy]
    lates = [outcome.late for outcome in bad if outcome.late is not None]
    return Score(
        name,
        quiet=len(quiet),
        false=sum(alarm is not None for alarm in quiet),
        bad=len(bad),
        caught=sum(outcome.alarm is not None for outcome in bad),
        in_time=sum(late <= IN_TIME for late in lates),
        delay=median(lates) if lates else None,
    )


def compared(runs: Sequence[Run], ours: Score) -> list[Score]:
    """Ours and the published rules on the same runs."""
    return [ours, *(score(name, runs, [rule(run) for run in runs]) for name, rule in RULES.items())]


def in_lines(scores: Sequence[Score], *, markdown: bool) -> str:
    """One line a score, as text or as a Markdown table."""
    heads = ("", "healthy runs alarmed", "bad runs caught", "caught within 5 % of the run", "median delay")
    rows = [heads] + [
        (
            item.name,
            share(item.false, item.quiet),
            share(item.caught, item.bad),
            share(item.in_time, item.bad),
            "" if item.delay is None else f"{item.delay:.1%}",
        )
        for item in scores
    ]
    return in_rows(rows, markdown=markdown)


def by_workload(outcomes: Sequence[Outcome]) -> str:
    """One line a label and workload."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.run.label, outcome.run.workload].append(outcome)
    lines = [
        f"{'label':<14} {'workload':<32} {'runs':>5} {'alarmed':>8} {'in time':>8}  what was said (worst severity)"
    ]
    for (label, workload), group in sorted(groups.items()):
        alarmed = sum(outcome.alarm is not None for outcome in group)
        lates = [outcome.late for outcome in group if outcome.late is not None]
        in_time = str(sum(late <= IN_TIME for late in lates)) if not group[0].run.healthy else ""
        tally = Counter(f"{kind}:{severity}" for outcome in group for kind, severity in outcome.said.items())
        text = ", ".join(f"{name} {number}" for name, number in sorted(tally.items()))
        lines.append(f"{label:<14} {workload:<32} {len(group):>5} {alarmed:>8} {in_time:>8}  {text}")
    healed = max((outcome.longest_recovered for outcome in outcomes if outcome.run.healthy), default=0)
    lines.append(f"longest spike of a healthy run that came back: {healed} points")
    return "\n".join(lines)


def held_out(runs: Sequence[Run]) -> str:
    """Each workload by the thresholds that do best on the others; ties go to the defaults, then to the quieter.

    Only the rule that reads the grid is run for each setting; what the others say is the same for all of them.
    """
    settings: list[dict[str, float]] = [{}, *({name: value} for name, pair in GRID.items() for value in pair[::-1])]
    others = [rule for rule in load_rules() if rule is not LossCurveRule]
    with ProcessPoolExecutor() as pool:
        fixed = list(pool.map(partial(_alarm, rules=others), runs, chunksize=8))
        tuned = [
            list(pool.map(partial(_alarm, told=told, rules=[LossCurveRule]), runs, chunksize=8)) for told in settings
        ]
    alarms = [[_earlier(*pair) for pair in zip(fixed, row, strict=True)] for row in tuned]
    lines, together = [f"{'held out':<32} {'false':>10} {'caught':>10} {'in time':>10}  thresholds"], []
    for workload in sorted({run.workload for run in runs}):
        inside = [at for at, run in enumerate(runs) if run.workload == workload]
        rest = [at for at, run in enumerate(runs) if run.workload != workload]

        def on(which: list[int], index: int) -> Score:
            return score("", [runs[at] for at in which], [alarms[index][at] for at in which])

        best = min(range(len(settings)), key=lambda index: (on(rest, index).loss, index))
        item = on(inside, best)
        together += [(runs[at], alarms[best][at]) for at in inside]
        lines.append(
            f"{workload:<32} {f'{item.false} of {item.quiet}':>10} {f'{item.caught} of {item.bad}':>10}"
            f" {f'{item.in_time} of {item.bad}':>10}  {_in_words(settings[best])}"
        )
    total = score("all, held out", [run for run, _ in together], [alarm for _, alarm in together])
    lines.append(in_lines([total], markdown=False))
    lines += [
        f"{_in_words(told):<40} on all: {item.false} false, {item.caught} caught, {item.in_time} in time"
        for told, item in ((told, score("", runs, row)) for told, row in zip(settings, alarms, strict=True))
    ]
    return "\n".join(lines)


def redrawn(runs: Sequence[Run], times: int) -> str:
    """Alarms on healthy runs with other noise, and of which they are."""
    made = [resampled(run, seed) for run in runs if run.healthy for seed in range(times)]
    with ProcessPoolExecutor() as pool:
        alarms = list(pool.map(partial(_alarm, rules=load_rules()), made, chunksize=8))
    alarmed = [run for run, alarm in zip(made, alarms, strict=True) if alarm is not None]
    of = ", ".join(f"{name} {number}" for name, number in Counter(run.workload for run in alarmed).most_common())
    return f"healthy runs with their noise drawn anew, {times} times: {share(len(alarmed), len(made))} alarmed; {of}"


def _alarm(run: Run, *, told: dict[str, float] | None = None, rules: list[type[Rule]]) -> int | None:
    """The step of the alarm under these thresholds, by these rules."""
    return judge(run, told, rules=rules).alarm


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((alarm for alarm in (first, second) if alarm is not None), default=None)


def _in_words(told: dict[str, float]) -> str:
    moved = ", ".join(f"{name} {value:g} (default {REGISTRY[name].value:g})" for name, value in told.items())
    return moved or "the defaults"


def cost(runs: Sequence[Run]) -> float:
    """CPU seconds a step, in blocks of 256."""
    curves = [records(run, 256) for run in runs if run.label == "healthy"]
    start = time.process_time()
    for curve in curves:
        engine = Engine()
        for record in curve:
            engine.observe(1, record)
    seconds = time.process_time() - start
    return seconds / sum(record.count for curve in curves for record in curve if isinstance(record, wire.Steps))


def main() -> None:
    """Print the tables, and the time a point takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--misses", action="store_true", help="name the false alarms, the misses and the late ones")
    parser.add_argument("--held-out", action="store_true", help="judge each workload by thresholds from the others")
    parser.add_argument("--resampled", type=int, default=0, help="judge healthy runs with their noise drawn anew")
    parser.add_argument("--markdown", action="store_true", help="only the comparison, as a Markdown table")
    arguments = parser.parse_args()
    runs = load(arguments.curves)
    if arguments.resampled:
        print(redrawn(runs, arguments.resampled))
        return
    if arguments.held_out:
        print(held_out(runs))
        return
    outcomes = [judge(run) for run in runs]
    ours = score("ntstop", runs, [outcome.alarm for outcome in outcomes])
    alone = score("ntstop, without evaluations", runs, [judge(run, evaluations=False).alarm for run in runs])
    first, *others = compared(runs, ours)
    print(in_lines([first, alone, *others], markdown=arguments.markdown))
    if arguments.markdown:
        return
    print(by_workload(outcomes))
    print(f"{cost(runs) * 1e6:.1f} µs of CPU a step, in blocks of 256")
    if arguments.misses:
        for outcome in outcomes:
            late = outcome.late is not None and outcome.late > IN_TIME
            if (outcome.alarm is not None) == outcome.run.healthy or late:
                run = outcome.run
                print(run.label, run.id, len(run.step), "onset", run.onset, "alarm", outcome.alarm, outcome.said)


if __name__ == "__main__":
    main()
