"""What the status line says, in the order in which it may be left out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ntstop_probe.wire import ProbeStatus

from ..run.process import ProcessState
from ..session import Session
from ..sources.base import newer_protocol
from ..sources.replay import ReplaySource
from ..text import clip, count, duration, number, percent, rate
from .raster.ink import Ink
from .view import StepView
from .widgets.message import Line
from .widgets.statusline import Part
from .workspace import extent

GLYPHS = {
    "live": ("●", "*", Ink.GOOD),
    "waiting": ("◌", "o", Ink.DIM),
    "reading": ("◌", "o", Ink.DIM),
    "stopped": ("‖", "=", Ink.WARNING),
    "finished": ("■", "=", Ink.STRONG),
    "failed": ("✖", "x", Ink.CRITICAL),
    "died": ("✖", "x", Ink.CRITICAL),
    "stale": ("◌", "?", Ink.WARNING),
    "removed": ("✖", "x", Ink.WARNING),
    "growing": ("●", "*", Ink.GOOD),
    "quiet": ("◌", "o", Ink.DIM),
    "paused": ("‖", "=", Ink.WARNING),
    "replay": ("▶", ">", Ink.STRONG),
    "halted": ("‖", "=", Ink.STRONG),
}
"""State: glyph, glyph in ASCII, ink. The word stands beside it, in capitals."""
SILENT = ("stopped", "died", "stale")
"""States of which nothing more is heard, though the run has not said that it ends."""
QUIET_SECONDS = 3.0
"""A heartbeat comes every second: data older than three of them is worth a word."""
TIME_LINE = 20
"""Cells of the line that shows how far a replay is."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything the status line needs. None: not known."""

    title: str
    state: str
    """A key of `GLYPHS`."""
    ranks: int | None = None
    host: str = ""
    hardware: str = ""
    silent: float | None = None
    """Seconds since anything was heard, of a run that should be heard of."""
    step: int | None = None
    total: int | None = None
    per_second: float | None = None
    probe_share: float | None = None
    """Cost of the probe as a share of the step time."""
    sampling: str = ""
    """How often the probe looks at the layers, and at the phases when that is not in every step."""
    behind: int | None = None
    """Steps the paused picture is behind; None: it is not paused."""
    back: int = 0
    """Steps from the right edge of the axis to the newest, where the tail is not followed."""
    problem: str = ""
    """What cannot be read, was lost, or what the probe could not do."""
    why: str = ""
    """What the state rests on."""
    reason: str = ""
    """Why there are no steps yet, as the probe says it."""
    stuck: str = ""
    """The phase that does not end, and for how long, or that was the last to be heard of; "" when all goes on."""
    loss: float | None = None
    replay: Replay | None = None
    attempt: int = 0
    """0: the first."""
    is_from_disk: bool = False
    """It lives, and is followed by its recording: no socket speaks."""
    is_catching_up: bool = False
    """What was recorded is read still: the newest step that is known is not that of the run, or of the replay."""
    is_reading: bool = False
    """Old steps are being read from the recording, for a view into them."""


@dataclass(frozen=True)
class Replay:
    """How far a replay is. Seconds since the run began; `speed` of them pass in one."""

    position: float
    length: float
    speed: int
    playing: bool


def replay_parts(replay: Replay, ascii_only: bool) -> list[Part]:
    """Where the replay stands, in numbers and on a line."""
    glyph, plain, ink = GLYPHS["replay" if replay.playing else "halted"]
    clock = f"{_clock(replay.position)} / {_clock(replay.length)} ×{replay.speed}"
    done = round(TIME_LINE * replay.position / replay.length) if replay.length else TIME_LINE
    line = "━" * done + "●" + "─" * (TIME_LINE - done)
    if ascii_only:
        line = "=" * done + "o" + "-" * (TIME_LINE - done)
        clock = clock.replace("×", "x")
    return [Part(f"{plain if ascii_only else glyph} REPLAY {clock}", ink, 100), Part(line, Ink.DIM, 55)]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def state_part(facts: Facts, ascii_only: bool) -> Part:
    """The state as glyph and word."""
    glyph, plain, ink = GLYPHS[facts.state]
    return Part(f"{plain if ascii_only else glyph} {facts.state.upper()}", ink, 100)


def status_parts(facts: Facts, ascii_only: bool = False) -> tuple[Sequence[Part], Sequence[Part]]:
    """The left and the right side of the status line."""
    ranks = f"{facts.ranks} ranks" if facts.ranks and facts.ranks > 1 else ""
    left = [
        Part(facts.title, Ink.STRONG, 10),
        Part(f"attempt {facts.attempt + 1}" if facts.attempt else "", Ink.TEXT, 7),
        Part(ranks, Ink.TEXT, 6),
        Part(facts.host, Ink.TEXT, 5),
        Part(facts.hardware, Ink.DIM, 4),
    ]
    right = replay_parts(facts.replay, ascii_only) if facts.replay else [state_part(facts, ascii_only)]
    if facts.behind is not None:
        glyph, plain, ink = GLYPHS["paused"]
        right.append(Part(f"{plain if ascii_only else glyph} PAUSED +{count(facts.behind)} steps", ink, 90))
    elif facts.back:
        right.append(Part(f"{'<' if ascii_only else '◂'} {count(facts.back)} to the tail", Ink.STRONG, 78))
    if facts.silent is not None and facts.silent > QUIET_SECONDS:
        right.append(Part(f"data {_age(facts.silent)} old", Ink.WARNING, 70))
    if facts.is_catching_up:
        right.append(Part(f"{'...' if ascii_only else '…'} reading", Ink.STRONG, 79))
    elif facts.is_reading:
        right.append(Part(f"{'...' if ascii_only else '…'} reading old steps", Ink.STRONG, 65))
    elif facts.is_from_disk and (facts.silent is None or facts.silent <= QUIET_SECONDS):
        right.append(Part("from disk", Ink.DIM, 15))
    right.append(Part(clip(facts.problem, 40), Ink.WARNING, 30))
    if facts.step is not None:
        total = f" / {count(facts.total)}" if facts.total else ""
        right.append(Part(f"step {count(facts.step)}{total}", Ink.STRONG, 80))
    if facts.stuck:
        right.append(Part(facts.stuck, Ink.WARNING, 75))
    elif facts.state in ("live", "growing") and facts.per_second and not facts.is_catching_up:
        right.append(Part(rate(facts.per_second), Ink.TEXT, 60))
        if facts.total and facts.step is not None and facts.total > facts.step:
            right.append(Part(f"ETA {duration((facts.total - facts.step) / facts.per_second)}", Ink.TEXT, 50))
    if facts.probe_share is not None:
        share = f"probe {percent(facts.probe_share)}"
        right.append(Part(f"{share} of step", Ink.DIM, 20, share))
        right.append(Part(facts.sampling, Ink.DIM, 3))
    return left, right


def tiny_lines(facts: Facts, width: int, ascii_only: bool = False) -> list[Line]:
    """State, step and loss for a terminal that is too small for anything else."""
    state = state_part(facts, ascii_only)
    step = "" if facts.step is None else f"  step {count(facts.step)}"
    loss = [] if facts.loss is None else [(f"loss {number(facts.loss)}", Ink.STRONG)]
    return [(clip(state.text + step, width - 2), state.ink), *loss, ("terminal too small", Ink.DIM)]


def waiting_lines(facts: Facts, output_path: str | None) -> list[Line]:
    """What a run without a step is waiting for."""
    ended = facts.state in ("finished", "failed", "died", "stale") and facts.replay is None
    first = "the run has ended before its first step" if ended else "waiting for the first step"
    lines: list[Line] = [(first, Ink.STRONG), ("", Ink.TEXT)]
    lines += [(text, Ink.TEXT) for text in (facts.problem, facts.reason, facts.why) if text]
    if output_path:
        lines += [("", Ink.TEXT), (f"the command's output: {output_path}", Ink.DIM)]
    return lines


def facts_of(session: Session, process: ProcessState | None, view: StepView, title: str | None) -> Facts:
    """What is known now. Call it under the session's lock."""
    entry = session.entry
    hello = process.hello if process else None
    beat = process.heartbeat if process else None
    state = entry.state if entry else _state_of(process, is_in_folder=session.path is not None)
    if session.is_removed and not session.status.live:
        state = "removed"
    has_steps = process is not None and process.steps > 0
    loss = process.series.get("loss") if process else None
    return Facts(
        title=title or (hello.title if hello else None) or session.state.run or (entry.id if entry else ""),
        state=state,
        ranks=max(len(session.state.ranks), hello.world or 0 if hello else 0),
        host=hello.host if hello else "",
        hardware=_hardware(process),
        silent=_silence(session, process) if state in ("live", "stopped", "stale", "quiet") and has_steps else None,
        step=_step(process, view) if process is not None and has_steps else None,
        total=hello.total_steps if hello else None,
        per_second=process.rate if process else None,
        probe_share=beat.probe.share if beat else None,
        sampling=_sampling(beat.probe) if beat else "",
        behind=None if view.frozen is None else round(view.last - view.frozen),
        back=0 if view.end is None else max(round(view.last - view.end), 0),
        problem=_problem(session, process),
        stuck=_stuck(process, state),
        attempt=process.attempt if process else 0,
        why=entry.why if entry and session.replay is None else "",
        reason=beat.reason if beat else "",
        loss=loss.last_y if loss else None,
        replay=_replay(session.replay),
        is_reading=session.zoom.is_reading,
        is_catching_up=session.path is not None and state != "reading" and not session.is_read,
        is_from_disk=state == "live"
        and session.path is not None
        and session.status.complete
        and not session.status.live,
    )


def _step(process: ProcessState, view: StepView) -> int:
    """The step that the process is at, or was where the picture was stopped.

    Not the end of its curves: an earlier attempt may have come further. Nor a stray step, which is beyond that end.
    """
    return round(min(view.shown_last, extent(process)[1], process.x))


def _replay(replay: ReplaySource | None) -> Replay | None:
    if replay is None:
        return None
    position = replay.position
    return Replay(position - replay.start, replay.end - replay.start, replay.speed, replay.playing)


def _state_of(process: ProcessState | None, *, is_in_folder: bool) -> str:
    """The state before there is evidence: in a folder there soon is; else what was recorded is all."""
    if process is None or process.hello is None:
        return "waiting"
    if is_in_folder:
        # A long recording is read first: of a run that has ended long ago its exit is not known yet.
        return "reading"
    return "live" if process.exit is None else "finished"


def _silence(session: Session, process: ProcessState | None) -> float | None:
    if session.status.live and process is not None and process.heartbeat_arrival is not None:
        return time.monotonic() - process.heartbeat_arrival
    if session.entry is None or session.entry.last_activity is None:
        return None
    return time.time() - session.entry.last_activity


def _hardware(process: ProcessState | None) -> str:
    names = list(process.devices.values()) if process else []
    return ", ".join(f"{names.count(name)}× {name}" for name in sorted(set(names)))


def _problem(session: Session, process: ProcessState | None) -> str:
    """The weightiest thing that is wrong with the reading or the recording, in a few words."""
    status = session.status
    if session.error or status.newer is not None:
        return session.error or newer_protocol(status.newer or 0)
    if session.is_removed:
        return "its folder is gone"
    probe = process.heartbeat.probe if process and process.heartbeat else None
    if probe and probe.unrecorded:
        return f"{_counted(probe.unrecorded, 'frame')} not on disk"
    if status.problem or session.notice:
        return status.problem or session.notice
    if failed := getattr(session.engine, "failed", None):
        return str(next(iter(failed.values())))
    if status.corrupt:
        return _counted(status.corrupt, "damaged frame")
    if probe and probe.dropped:
        return f"{_counted(probe.dropped, 'row')} dropped"
    if process and process.warnings:
        return process.warnings[-1].text
    return f"switched off: {probe.disabled[-1]}" if probe and probe.disabled else ""


def _counted(number: int, what: str) -> str:
    return f"{count(number)} {what}{'s' * (number != 1)}"


def _sampling(probe: ProbeStatus) -> str:
    """ "layers every 16 steps, phases every 4"; what is looked at in every step is left out."""
    if probe.tier == "disarmed":
        return "disarmed"
    intervals = (("layers", probe.layer_interval), ("phases", probe.timing_interval))
    told = [f"{name} every {count(interval)}" for name, interval in intervals if interval and interval > 1]
    return ", ".join((f"{told[0]} steps", *told[1:])) if told else ""


def _stuck(process: ProcessState | None, state: str) -> str:
    if process is None:
        return ""
    if state in SILENT:
        return f"last in {process.phase}" if process.phase else ""
    standing = process.standing if state == "live" else None
    return f"in {standing[0]} for {_age(standing[1])}" if standing else ""


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else duration(seconds)
