"""What the probe costs, how often it looks, and what it has lost: the instrument is measured too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...run.process import ProcessState
from ...session import Session
from ...text import count, duration, percent, safe
from ..facts import SILENT
from ..raster.ink import Ink
from ..workspace import Look
from .lines import Entry, LinesPane

BUDGET = {
    "full": "kept with all that is measured",
    "no update ratio": "kept without update ratios",
    "no parameter norms": "kept without update ratios and norms of parameters",
    "no layers": "kept without looking at layers",
    "no details": "kept by reading learning rates and norms in some steps only",
    "timing thinned": "kept by timing phases, and reading rates and norms, in some steps only",
    "disarmed": "could not be kept: the probe has taken itself out",
}
"""What each tier means for who reads it."""
_PATH = re.compile(r"\(/[^)]*?/([^/)]+/[^/)]+)\)")
"""The file of a frame: its folder and its name say enough, and `D` says all."""


def probe_entries(session: Session, process: ProcessState) -> list[Entry]:
    """The lines on the probe and on the reading of what it wrote."""
    state = session.entry.state if session.entry else ""
    if session.is_log:
        return [Entry("probe", "none: this is the log of another tool", Ink.DIM), *_reading(session, process)]
    return [*_standing(process, state), *_probe(process), *_reading(session, process)]


def _standing(process: ProcessState, state: str) -> Iterator[Entry]:
    """Where a run stands, or stood last, that does not go on: phase, since when, the stacks of its last heartbeat."""
    beat = process.heartbeat
    if beat is not None and state in SILENT:
        yield Entry("last seen", f"in {beat.phase} for {duration(beat.age)}, {count(beat.ordinal)} steps", Ink.WARNING)
    elif beat is not None and process.standing is not None:
        phase, age = process.standing
        yield Entry("stands in", f"{phase}, for {duration(age)}", Ink.WARNING)
    else:
        return
    for stack in beat.stacks:
        for place, frame in enumerate(reversed(stack.frames)):
            yield Entry("" if place else stack.thread, _PATH.sub(r"(…/\1)", frame), Ink.TEXT if place else Ink.STRONG)


def _probe(process: ProcessState) -> Iterator[Entry]:
    beat = process.heartbeat
    if beat is None:
        yield Entry("probe", "no heartbeat: nothing is known of it", Ink.DIM)
        return
    probe = beat.probe
    if probe.cost is not None:
        yield Entry("cost", f"{duration(probe.cost)} a step on the training thread, {percent(probe.share)} of it")
    else:
        yield Entry("cost", "not measured yet", Ink.DIM)
    if probe.setup is not None:
        yield Entry("set-up", f"{duration(probe.setup)}, once, at the first step")
    if probe.publisher_cpu is not None:
        yield Entry("publisher", f"{percent(probe.publisher_cpu)} of a core")
    yield Entry("budget", BUDGET.get(probe.tier, safe(probe.tier) or "not told"))
    yield Entry("layers", _every(probe.layer_interval) + _since(process, "layers", probe.layer_interval))
    yield Entry("update ratio", _every(probe.ratio_interval) + _since(process, "ratio", probe.ratio_interval))
    yield Entry("timing", _every(probe.timing_interval) + _since(process, "timing", probe.timing_interval))
    yield Entry("viewers", count(probe.viewers))
    yield _lost("dropped", probe.dropped, "rows that the queue had no room for")
    yield _lost("unrecorded", probe.unrecorded, "frames that could not be written to disk")
    for name in probe.disabled:
        yield Entry("off", name, Ink.WARNING)
    for event in list(process.warnings)[-5:]:
        yield Entry("said", event.text, Ink.WARNING)


def _reading(session: Session, process: ProcessState) -> Iterator[Entry]:
    status = session.status
    yield Entry("reading")
    if session.path is not None:
        yield Entry("through", "the live socket" if status.live else "the recording")
    yield _lost("gaps", status.gaps, "stretches of records that never came")
    yield _lost("damaged", status.corrupt, "frames whose checksum is wrong")
    yield _lost("unknown", status.skipped, "records of a kind that this version does not know")
    yield _lost("misfits", process.misfits, "records that do not fit together")
    if status.removed:
        yield Entry("removed", status.removed)
    if status.problem:
        yield Entry("problem", status.problem, Ink.WARNING)


def _every(interval: int | None) -> str:
    if interval is None:
        return "not measured"
    return "in every step" if interval == 1 else f"every {count(interval)} steps"


def _since(process: ProcessState, name: str, interval: int | None) -> str:
    """From which step on it is looked at so often, and why, as far as events of it are kept."""
    since, was_other = None, False
    for event in reversed(process.events):
        if event.kind == "sampling":
            was_other = event.data.get(name) != interval
            if was_other:
                break
            since = event.ordinal
    # What was never measured may be switched off.
    if since is None or interval == 1 or (interval is None and not was_other):
        return ""
    why = "more would not fit the budget" if interval is None else "as often as the budget allows"
    return f" since step {count(since)}: {why}"


def _lost(label: str, amount: int, what: str) -> Entry:
    return Entry(label, f"{count(amount)} {what}", Ink.WARNING) if amount else Entry(label, "none", Ink.DIM)


class ProbePane(LinesPane):
    """The probe's own account."""

    NAME = "probe"
    HELP = "What the probe costs by its own account, how often it looks at what, and what was lost on the way here."

    entries: Sequence[Entry] = ()

    def gather(self, look: Look) -> None:
        """The newest heartbeat, and the state of the reading."""
        self.entries = probe_entries(look.session, look.process)

    def present(self) -> None:
        """Show it."""
        self.set_entries(self.entries)
