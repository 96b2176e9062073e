"""False alarms and catches of the diagnosis on the development curves, by workload.

    python -m tests.bench.detectors_on_curves [--curves FOLDER] [--misses]

A healthy run counts as a false alarm when anything at warning or above was said at any moment of it, not only at
its end; a bad run as caught likewise. Lateness is the share of the run between the onset and the first such moment.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

CURVES = Path(__file__).resolve().parents[3] / "shared" / "curves"
QUIET = ("healthy", "warmup")


@dataclass(slots=True)
class Outcome:
    """What the diagnosis said of one curve."""

    workload: str
    label: str
    id: str
    points: int
    onset: int | None
    alarm: int | None
    """Step of the first block after which something weighed warning or more."""
    said: dict[str, str]
    """kind -> the weightiest severity it ever had."""
    longest_recovered: int
    """Points of the longest spike that came back by itself."""
    late: float | None


def records(run: dict[str, Any], block: int) -> list[wire.Steps]:
    """The curve as blocks of steps."""
    blocks: list[wire.Steps] = []
    for start in range(0, len(run["step"]), block):
        cut = slice(start, start + block)
        steps = run["step"][cut]
        clock = wire.pack("f8", [float(step) for step in steps])
        assert clock is not None
        columns = {name: wire.pack("f8", run[name][cut]) for name in ("loss", "lr", "grad_norm")}
        blocks.append(
            wire.Steps(
                count=len(steps),
                ordinal=start,
                t=clock,
                step=wire.pack("i8", steps),
                losses={} if columns["loss"] is None else {"loss": columns["loss"]},
                lrs={} if columns["lr"] is None else {"lr": columns["lr"]},
                grad_norm=columns["grad_norm"],
            )
        )
    return blocks


def judge(run: dict[str, Any]) -> Outcome:
    """Replay one curve and note what was said, and when first."""
    engine, alarm = Engine(), None
    said: dict[str, str] = {}
    longest = 0
    position = {step: index for index, step in enumerate(run["step"])}
    version = -1
    for record in records(run, 1):
        engine.observe(1, record)
        if engine.version == version:
            continue
        version = engine.version
        for finding in engine.findings:
            known = said.get(finding.kind, "info")
            order = ("info", "warning", "critical")
            said[finding.kind] = max(known, finding.severity, key=order.index)
            if finding.severity != "info" and alarm is None:
                alarm = run["step"][record.ordinal]
            if finding.kind == "loss-spike" and finding.status == "resolved":
                longest = max(longest, position[finding.last_step] - position[finding.first_step])
    late = None
    if alarm is not None and run["onset"] is not None:
        late = max(0.0, (alarm - run["onset"]) / max(1, run["step"][-1] - run["step"][0]))
    return Outcome(run["workload"], run["label"], run["id"], len(run["step"]), run["onset"], alarm, said, longest, late)


def table(outcomes: list[Outcome]) -> str:
    """One line a workload and label, then the sums."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.label, outcome.workload].append(outcome)
    lines = [f"{'label':<14} {'workload':<32} {'runs':>5} {'alarmed':>8}  what was said (worst severity)"]
    for (label, workload), group in sorted(groups.items()):
        alarmed = sum(outcome.alarm is not None for outcome in group)
        tally: dict[str, int] = defaultdict(int)
        for outcome in group:
            for kind, severity in outcome.said.items():
                tally[f"{kind}:{severity}"] += 1
        text = ", ".join(f"{name} {number}" for name, number in sorted(tally.items()))
        lines.append(f"{label:<14} {workload:<32} {len(group):>5} {alarmed:>8}  {text}")
    for name, wanted in (("false alarms", True), ("caught", False)):
        group = [outcome for outcome in outcomes if (outcome.label in QUIET) == wanted]
        alarmed = sum(outcome.alarm is not None for outcome in group)
        lines.append(f"{name}: {alarmed} of {len(group)} ({alarmed / max(1, len(group)):.1%})")
    lates = [outcome.late for outcome in outcomes if outcome.late is not None]
    if lates:
        lines.append(f"within 5 % of the run after the onset: {sum(late <= 0.05 for late in lates)} of {len(lates)}")
    healed = max((outcome.longest_recovered for outcome in outcomes if outcome.label in QUIET), default=0)
    lines.append(f"longest spike of a healthy run that came back: {healed} points")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and the time a point takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--misses", action="store_true", help="name the false alarms and the misses")
    arguments = parser.parse_args()
    path = arguments.curves / "algoperf_dev.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"no curves at {path}; give their folder with --curves")
    with gzip.open(path, "rt") as file:
        runs = [json.loads(text) for text in file]
    outcomes = [judge(run) for run in runs]
    print(table(outcomes))
    blocks = [record for run in runs if run["label"] == "healthy" for record in records(run, 256)]
    start = time.process_time()
    engine = Engine()
    for record in blocks:
        engine.observe(1, record)
    seconds = time.process_time() - start
    print(f"{seconds / sum(record.count for record in blocks) * 1e6:.1f} µs of CPU a step, in blocks of 256")
    if arguments.misses:
        for outcome in outcomes:
            if (outcome.alarm is not None) == (outcome.label in QUIET):
                print(outcome.label, outcome.id, outcome.points, "alarm", outcome.alarm, outcome.said)


if __name__ == "__main__":
    main()
