"""What stands on the step axis of every pane: events of the job, notes of its people, and where findings began."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ntstop_probe.wire import Event

from ..diagnosis.finding import Finding
from ..run.process import ProcessState
from .raster.spec import Marker

_KINDS: dict[str, Literal["checkpoint", "epoch", "eval", "resume", "mark", "sampling"]] = {
    "checkpoint": "checkpoint",
    "epoch": "epoch",
    "evaluation": "eval",
    "resume": "resume",
    "mark": "mark",
    "sampling": "sampling",
}
"""Events that are drawn."""


def event_step(event: Event) -> int | None:
    """Where an event stands on the step axis; None: nowhere."""
    return event.step if event.step is not None else event.ordinal


def markers_of(process: ProcessState, findings: Sequence[Finding], noted: Iterable[int] = ()) -> list[Marker]:
    """Markers of one process, findings last so that they are drawn over the events; info findings are left out.

    `noted`: the steps that viewers have marked.
    """
    marks = []
    tier: object = "full"
    for event in process.events:
        kind = _KINDS.get(event.kind)
        if kind == "sampling":
            # An interval that moved is no mark; that something is left out, or comes back, is.
            before, tier = tier, event.data.get("tier", "full")
            kind = None if tier == before else kind
        step = event_step(event)
        if kind and step is not None:
            marks.append(Marker(float(step), kind))
    marks += [Marker(float(step), "note") for step in noted]
    weighty = [finding for finding in reversed(findings) if finding.severity != "info"]
    return marks + [Marker(float(finding.first_step), finding.severity) for finding in weighty]
