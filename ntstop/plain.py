"""The overview of a run as lines of text: for a pipe, a dumb terminal, and the end of a headless demo."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ntstop.curves.series import Series
from ntstop.diagnosis.report import line
from ntstop.run.process import ProcessState
from ntstop.session import Session
from ntstop.tui import text
from ntstop.tui.widgets.sparkline import spark

_SPARK = 60
"""Cells of a curve."""
_PHASE_STEPS = 64
"""Newest steps that the shares of the phases are taken over."""
_SHOWN = ("loss", "lr", "grad_norm", "step_time")
_NOT_SHOWN = ("clip", "loss_scale", "skipped", "micro", "epoch", "samples", "tokens")
_SAMPLES = re.compile(r"(lr|phase|host|gpu\d+|alloc\d+)/")


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
        status = session.status
        if status.corrupt or status.gaps:
            lines.append(f"{'reading':<10} {status.corrupt} damaged and {status.gaps} missing frames")
        if status.problem:
            lines.append(f"{'reading':<10} {text.safe(status.problem)}")
        lines += ["findings", *(f"  {text.safe(line(finding))}" for finding in session.findings)]
        if not session.findings:
            lines[-1] = "findings   none"
    return "\n".join(lines)


def _headline(session: Session, process: ProcessState | None) -> Iterator[str]:
    entry = session.entry
    run = entry.id if entry else session.state.run
    hello = process.hello if process else None
    parts = [run, hello.title or "" if hello else "", f"{len(session.state.ranks)} ranks", hello.host if hello else ""]
    yield " · ".join(text.safe(part) for part in parts if part and part != "1 ranks")
    if entry is not None:
        yield f"{'state':<10} {entry.state}: {text.safe(entry.why)}"
    if process is None or process.ordinal is None:
        yield f"{'steps':<10} none yet{_reason(process)}"
        return
    total = f" of {hello.total_steps:,}" if hello and hello.total_steps else ""
    is_live = entry is not None and entry.active
    eta = f", {text.duration(process.eta)} to go" if is_live and process.eta else ""
    status = process.heartbeat.probe if process.heartbeat else None
    cost = f", probe {text.percent(status.share)}" if status and status.share is not None else ""
    yield f"{'steps':<10} last {process.x:,.0f}{total}, {text.rate(process.rate)}{eta}{cost}"


def _reason(process: ProcessState | None) -> str:
    heartbeat = process.heartbeat if process else None
    if heartbeat is None:
        return ""
    if heartbeat.reason:
        return f": {text.safe(heartbeat.reason)}"
    return f", in {text.safe(heartbeat.phase)} for {text.duration(heartbeat.age)}"


def _curves(process: ProcessState) -> Iterator[str]:
    """The probe's main curves, then what the user logs."""
    series = process.series
    others = sorted(name for name in series if name not in (*_SHOWN, *_NOT_SHOWN) and not _SAMPLES.match(name))
    for name in (*_SHOWN, *others):
        if name in series and series[name].count:
            yield _curve(name, series[name])


def _curve(name: str, series: Series) -> str:
    low, high = series.x_range or (0.0, 0.0)
    values = series.window(low, high, _SPARK).mean
    last = (text.duration if name == "step_time" else text.number)(series.last_y, 8)
    broken = ""
    if series.nonfinite:
        broken = f"  {series.nonfinite:,} not finite, the first at step {series.first_nonfinite_x:,.0f}"
    return f"{_label(name)} {last}  {spark(values, min(_SPARK, len(values)))}{broken}"


def _label(name: str) -> str:
    name = text.clip(name, 30)
    return text.fit(name, max(10, text.cell_width(name)))


def _phases(process: ProcessState) -> Iterator[str]:
    """Where the newest steps spent their time."""
    seconds = {name: series.recent(_PHASE_STEPS)[1].sum() for name, series in process.phases.items()}
    whole = sum(seconds.values())
    if whole > 0:
        shares = ", ".join(f"{text.safe(name)} {text.percent(spent / whole)}" for name, spent in seconds.items())
        yield f"{'phases':<10} {shares}"


def _host(process: ProcessState) -> Iterator[str]:
    """Cores and memory, and each accelerator that answers."""

    def last(name: str) -> float | None:
        series = process.series.get(name)
        return series.last_y if series is not None else None

    if last("host/process_cpu") is not None:
        yield (
            f"{'host':<10} process {text.number(last('host/process_cpu'))} of {text.count(last('host/cores'))} cores, "
            f"{text.size(last('host/process_rss'))}; host {text.number(last('host/host_cpu'))} cores, "
            f"{text.size(last('host/memory_used'))} of {text.size(last('host/memory_total'))}"
        )
    for index, name in process.devices.items():
        busy = last(f"gpu{index}/utilization")
        yield (
            f"{f'gpu {index}':<10} {text.safe(name)}, busy {text.percent(None if busy is None else busy / 100)}, "
            f"{text.size(last(f'gpu{index}/memory_used'))} of {text.size(last(f'gpu{index}/memory_total'))}"
        )
