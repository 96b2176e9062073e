"""Real small trainings under `ntstop run`, then `ntstop diagnose`: is the right thing said, first, of the right place?

    python -m tests.bench.faults [--seeds 0 1 2] [--only NAME ...] [--jobs 2] [--markdown] [--keep FOLDER [--again]]

A step of these trainings takes some 2 ms, and 1 % of that leaves nothing for layers: the probe gets `--budget` 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import expectation
from tests.faults.expectation import Expectation

BUDGET = 0.1
LONGEST = 180.0
"""Seconds after which a training is given up."""
PATIENCE = 60.0
"""Seconds after the start in which a run that hangs is looked at again and again."""
ALWAYS = ("unreproducible",)
"""Said of any script outside a repository: no part of the score."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of one run, beside what was expected."""

    case: Expectation
    seed: int
    findings: list[dict[str, Any]]
    """All but those that are said of any run, the weightiest first."""
    seconds: float
    """Of the training and its diagnosis."""

    @property
    def first(self) -> dict[str, Any] | None:
        """The weightiest finding."""
        return self.findings[0] if self.findings else None

    @property
    def flagged(self) -> bool:
        """Something at warning or above was said."""
        return any(finding["severity"] != "info" for finding in self.findings)

    @property
    def right_kind(self) -> bool:
        """The weightiest finding has one of the kinds that were expected."""
        return self.first is not None and self.first["kind"] in self.case.kinds

    @property
    def right_place(self) -> bool:
        """That finding is of the right layer, step, phase and rank."""
        finding, case = self.first, self.case
        if finding is None or not self.right_kind:
            return False
        told = " ".join([finding["where"], finding["symptom"], *(item["text"] for item in finding["evidence"])])
        return (
            re.search(case.where, f"{finding['where']} {finding['symptom']}") is not None
            and (case.steps is None or case.steps[0] <= finding["first_step"] <= case.steps[1])
            and (case.phase is None or re.search(case.phase, told) is not None)
            and (case.rank is None or finding["rank"] == case.rank)
        )

    @property
    def good(self) -> bool:
        """As it ought to be, the place aside."""
        return not self.flagged if self.case.healthy else self.right_kind


def play(case: Expectation, seed: int, home: Path, budget: float = BUDGET, *, again: bool = False) -> Verdict:
    """Train in `home` (made if need be) and diagnose. Raises `RuntimeError` when there is nothing to be read.

    `again`: what has been trained there already, and has ended by itself, is only diagnosed.
    """
    run = f"{case.name}-{seed}"
    with _runtime_folder() as runtime:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NTSTOP_")}
        environment |= {"NTSTOP_HOME": str(home), "NTSTOP_BUDGET": str(budget), "OMP_NUM_THREADS": "1"}
        environment["XDG_RUNTIME_DIR"] = runtime
        began = time.monotonic()
        if again and case.look_after is None and (home / "runs" / run).is_dir():
            findings = _diagnose(run, environment)
        else:
            with _trained(case, seed, home, environment) as job:
                findings = _diagnose(run, environment)
                while not findings and job.poll() is None and time.monotonic() - began < PATIENCE:
                    time.sleep(2.0)
                    findings = _diagnose(run, environment)
    return Verdict(case, seed, findings, time.monotonic() - began)


@contextmanager
def _trained(
    case: Expectation, seed: int, home: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The training when it has ended, or is to be looked at; in the end it is gone, and all that it started."""
    work = home / "work"
    for old in (home / "runs" / f"{case.name}-{seed}", work):
        # Else it would be another attempt of the run that is kept, or resume from its checkpoint.
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir(parents=True)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.ranks}"]
    script = [*(launcher if case.ranks > 1 else []), str(case.path), "--seed", str(seed)]
    start = [sys.executable, "-m", "ntstop", "run", "--name", f"{case.name}-{seed}", "--", sys.executable, *script]
    for _ in range(case.starts):
        with open(home / "output.log", "ab") as output:
            job = subprocess.Popen(
                start, cwd=work, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        with suppress(subprocess.TimeoutExpired):
            job.wait(LONGEST if case.look_after is None else case.look_after)
    try:
        yield job
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _diagnose(run: str, environment: dict[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "ntstop", "diagnose", "--json", run], env=environment, capture_output=True, text=True
    )
    if not done.stdout.strip():
        raise RuntimeError(f"{run}: {done.stderr.strip()[-300:]}")
    findings: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["findings"]
    return [f for f in findings if f["kind"] not in ALWAYS and not (f["kind"] == "exited" and f["severity"] == "info")]


@contextmanager
def _runtime_folder() -> Iterator[str]:
    """Sockets need a path under 107 bytes."""
    folder = tempfile.mkdtemp(prefix="ntf-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line(verdict: Verdict) -> tuple[str, ...]:
    """Script, seed, what was expected, what was said first and of what, and whether that is right."""
    case, first = verdict.case, verdict.first
    if case.healthy:
        right = "FLAGGED" if verdict.flagged else "quiet"
    else:
        right = "right" if verdict.right_place else "right kind" if verdict.right_kind else "WRONG"
    said = "nothing" if first is None else f"{first['severity']} {first['kind']} [{first['where']}]"
    return (
        case.name,
        str(verdict.seed),
        case.kinds[0] if case.kinds else "nothing",
        said,
        "" if first is None else str(first["first_step"]),
        right,
        f"{verdict.seconds:.0f}",
    )


HEAD = ("training", "seed", "expected", "said first", "step", "verdict", "s")


def table(rows: list[tuple[str, ...]], *, markdown: bool) -> str:
    """The lines under their head."""
    if markdown:
        lines = [HEAD, tuple("---" for _ in HEAD), *rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)
    widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (HEAD, *rows)
    )


def totals(verdicts: list[Verdict]) -> str:
    """How many are as they ought to be."""
    faults = [verdict for verdict in verdicts if not verdict.case.healthy]
    healthy = [verdict for verdict in verdicts if verdict.case.healthy]
    lines = []
    if faults:
        kinds = sum(verdict.right_kind for verdict in faults)
        places = sum(verdict.right_place for verdict in faults)
        named = sum(any(f["kind"] in v.case.kinds for f in v.findings) for v in faults)
        lines.append(
            f"faults: right kind first {_share(kinds, len(faults))}; of the right layer, step and phase too "
            f"{_share(places, len(faults))}; right kind anywhere {_share(named, len(faults))}"
        )
    if healthy:
        lines.append(f"healthy: flagged {_share(sum(verdict.flagged for verdict in healthy), len(healthy))}")
    return "\n".join(lines)


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.0%})"


def main() -> None:
    """Print the table, and totals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the runs, which else are deleted")
    parser.add_argument("--again", action="store_true", help="diagnose what is kept there, without training")
    arguments = parser.parse_args()
    cases = [expectation.read(name) for name in arguments.only] if arguments.only else expectation.every()
    base = arguments.keep or Path(tempfile.mkdtemp(prefix="ntfaults-"))

    def judge(case: Expectation, seed: int) -> Verdict | None:
        try:
            folder = base / f"{case.name}-{seed}"
            verdict = play(case, seed, folder, arguments.budget, again=arguments.again)
        except RuntimeError as error:
            print(f"could not be diagnosed: {error}", file=sys.stderr, flush=True)
            return None
        print(" ".join(line(verdict)), file=sys.stderr, flush=True)
        return verdict

    with ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(judge, case, seed) for case in cases for seed in arguments.seeds]
        verdicts = [verdict for future in futures if (verdict := future.result()) is not None]
    if not arguments.keep:
        shutil.rmtree(base, ignore_errors=True)
    print(table([line(verdict) for verdict in verdicts], markdown=arguments.markdown))
    print(totals(verdicts))


if __name__ == "__main__":
    main()
