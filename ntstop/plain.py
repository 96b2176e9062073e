"""The overview of a run as lines of text: for a pipe, a dumb terminal, and the end of a headless demo."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ntstop import text
from ntstop.curves.series import Series
from ntstop.diagnosis.report import line
from ntstop.run.process import ProcessState
from ntstop.session import Session
from ntstop.sparkline import spark

_SPARK = 60
"""Cells of a curve."""
_TIMED_STEPS = 64
"""Newest steps that the step time is the median of."""
_SHOWN = ("loss", "lr", "grad_norm", "step_time")
_NOT_SHOWN = ("clip", "loss_scale", "skipped", "micro", "epoch", "samples", "tokens")
_MOST_LOGGED = 50
"""Curves of the user's own that are printed: some jobs log a name for every step."""
_SAMPLES = re.compile(r"(lr|phase|host|gpu\d+|alloc\d+|compile)/")


def overview(session: Session) -> str:
    """State, steps, curves, phases, host and findings of the run's first rank, several lines."""
    with session.lock:
        process = session.state.primary
        lines = list(_headline(session, process))
        if process is not None:
            lines += _curves(process)
            lines += _phases(process)
            lines += _host(process)
            lines += [f"{'warning':<10} {text.safe(event.text)}" for event in process.warnings]
            beat = process.heartbeat
            lines += [f"{'off':<10} {text.safe(part)}" for part in (beat.probe.disabled if beat else [])]
        lines += [f"{'read':<10} {text.safe(remark)}" for remark in session.remarks]
        status = session.status
        if status.corrupt or status.gaps:
            lines.append(f"{'reading':<10} {status.corrupt} damaged and {status.gaps} missing frames")
        if status.removed:
            lines.append(f"{'reading':<10} {status.removed}")
        if status.problem:
            lines.append(f"{'reading':<10} {text.safe(status.problem)}")
        lines += [f"{'off':<10} {text.safe(what)}" for what in session.engine.failed.values()]
        lines += [
            "findings",
            *(f"  {text.safe(line(finding, session.kept.note(finding.id)))}" for finding in session.findings),
        ]
        if not session.findings:
            lines[-1] = "findings   none"
    return "\n".join(lines)


def _headline(session: Session, process: ProcessState | None) -> Iterator[str]:
    entry = session.entry
    run = entry.id if entry else session.state.run
    hello = process.hello if process else None
    ranks = len(session.state.ranks)
    attempt = process.attempt if process else 0
    parts = [
        run,
        hello.title or "" if hello else "",
        f"{ranks} ranks" if ranks > 1 else "",
        hello.host if hello else "",
        f"attempt {attempt + 1}" if attempt else "",
    ]
    yield " · ".join(text.safe(part) for part in parts if part)
    if entry is not None:
        yield f"{'state':<10} {entry.state}: {text.safe(entry.why)}"
    if process is None or process.ordinal is None:
        yield f"{'steps':<10} none yet{_reason(process)}"
        return
    total = f" of {hello.total_steps:,}" if hello and hello.total_steps else ""
    pace = text.rate(process.rate)
    if entry is not None and entry.state in ("live", "growing"):
        eta = f", {text.duration(process.eta)} to go" if process.eta else ""
        pace = _standing(process) or pace + eta
    status = process.heartbeat.probe if process.heartbeat else None
    cost = f", probe {text.percent(status.share)}" if status and status.share is not None else ""
    once = f" and {text.duration(status.setup)} once" if cost and status and status.setup else ""
    yield f"{'steps':<10} last {process.x:,.0f}{total}, {pace}{cost}{once}"


def _standing(process: ProcessState) -> str:
    """The phase that does not end, in place of a rate and a time left that are those of steps long past."""
    standing = process.standing
    return f"in {text.safe(standing[0])} for {text.duration(standing[1])}" if standing else ""


def _reason(process: ProcessState | None) -> str:
    heartbeat = process.heartbeat if process else None
    if heartbeat is None:
        return ""
    standing = f", in {text.safe(heartbeat.phase)} for {text.duration(heartbeat.age)}"
    return f"{standing}: {text.safe(heartbeat.reason)}" if heartbeat.reason else standing


def _curves(process: ProcessState) -> Iterator[str]:
    """The probe's main curves, then what the user logs."""
    series = process.series
    others = sorted(name for name in series if name not in (*_SHOWN, *_NOT_SHOWN) and not _SAMPLES.match(name))
    for name in (*_SHOWN, *others[:_MOST_LOGGED]):
        if name in series and series[name].count:
            yield _curve(name, series[name]) + (_averaged(process) if name == "loss" else "")
    if len(others) > _MOST_LOGGED:
        yield f"{'…':<10} and {len(others) - _MOST_LOGGED:,} more curves"


def _averaged(process: ProcessState) -> str:
    """Said where a job accumulates gradients: many divide the loss of a micro-batch, and print the sum."""
    return f"  mean of {process.micro_batches} backward passes a step" if process.micro_batches > 1 else ""


def _curve(name: str, series: Series) -> str:
    low, high = series.x_range or (0.0, 0.0)
    window = series.window(low, high, _SPARK)
    # In the order of the steps: attempts of a run may lie over each other.
    values = _without_rounding(window.mean[np.argsort(window.x, kind="stable")])
    last = text.number(series.last_y, 8)
    remark = ""
    if name == "step_time":
        # The newest step alone may hold an evaluation.
        newest = np.sort(series.recent(_TIMED_STEPS)[1])
        last = text.duration(float(newest[len(newest) // 2]), 8)
        remark = f"  median of the newest {len(newest)} steps" if len(newest) > 1 else ""
    broken = ""
    if series.nonfinite:
        broken = f"  {series.nonfinite:,} not finite, the first at step {series.first_nonfinite_x:,.0f}"
    return f"{_label(name)} {last}  {spark(values, min(_SPARK, len(values)))}{remark}{broken}"


def _without_rounding(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A constant rate of 0.003 is no square wave: the means of its buckets differ in the last bit."""
    largest = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
    return np.round(values / largest, 9) if 0.0 < largest < np.inf else values


def _label(name: str) -> str:
    name = text.clip(name, 30)
    return text.fit(name, max(10, text.cell_width(name)))


def _phases(process: ProcessState) -> Iterator[str]:
    """Where the time of the run went, evaluations that few steps have among it."""
    seconds = {name: _total(series) for name, series in process.phases.items()}
    whole = sum(seconds.values())
    if whole > 0:
        shares = ", ".join(f"{text.safe(name)} {text.percent(spent / whole)}" for name, spent in seconds.items())
        yield f"{'phases':<10} {shares}, over the whole run"


def _total(series: Series) -> float:
    """The sum of all its finite values."""
    if series.x_range is None:
        return 0.0
    window = series.window(*series.x_range, _SPARK)
    return float(np.nansum(window.mean * (window.count - window.nonfinite)))


def _host(process: ProcessState) -> Iterator[str]:
    """Cores and memory, and each accelerator that answers."""

    def last(name: str) -> float | None:
        series = process.series.get(name)
        return series.last_y if series is not None else None

    if last("host/process_cpu") is not None:
        yield (
            f"{'host':<10} process {_cores(last('host/process_cpu'))} of {text.count(last('host/cores'))} cores, "
            f"{text.size(last('host/process_rss'))}; host {_cores(last('host/host_cpu'))} cores, "
            f"{text.size(last('host/memory_used'))} of {text.size(last('host/memory_total'))}"
        )
    for index, name in process.devices.items():
        now = process.accelerators[index]
        if now.lost:
            yield f"{f'gpu {index}':<10} {text.safe(name)}, lost: the driver cannot reach it"
            continue
        busy = "n/a" if now.utilization is None else text.percent(now.utilization / 100)
        memory = "n/a"
        if now.memory_used is not None:
            memory = f"{text.size(now.memory_used)} of {text.size(now.memory_total)}"
        slowed = "".join(f", slowed: {text.safe(reason)}" for reason in now.throttle)
        yield f"{f'gpu {index}':<10} {text.safe(name)}, busy {busy}, memory {memory}{slowed}"


def _cores(busy: float | None) -> str:
    return "–" if busy is None else f"{busy:.1f}"
