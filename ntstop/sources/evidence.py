"""Whether a process lives, by evidence: its exit record, its pid with start time, its last beat. Never by silence."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal, NamedTuple

from ntstop_probe import registry
from ntstop_probe.registry import ProcessInfo

State = Literal["waiting", "live", "stopped", "finished", "failed", "died", "stale", "growing", "quiet"]
"""waiting: announced, nothing recorded yet · live · stopped: held by SIGSTOP or a debugger · finished: exit code 0, or
one that is not known · failed: another exit code, or an exception · died: gone without an exit record · stale: silent,
where a pid proves nothing (another host or container) · growing, quiet: a log of another tool, which shows no more than
whether it grows."""

STALE_AFTER = 15.0
"""Seconds without a beat, of which one comes every second."""
_SAME_START = 0.02
"""Seconds; start times are counted in hundredths."""


class Verdict(NamedTuple):
    """A state, and the sentence that says what it rests on."""

    state: State
    why: str


def judge(
    info: ProcessInfo | None,
    *,
    spoke: bool,
    exited: bool,
    exit_code: int | None,
    exception: str,
    last_activity: float | None,
    now: float,
) -> Verdict:
    """The state of a process. `spoke`: it has recorded something; times are Unix seconds."""
    # Older probes recorded a colon behind the name of an exception without a message.
    exception = exception.rstrip(": ")
    if exited:
        if exit_code or (exception and exit_code is None):
            return Verdict("failed", f"it ended with {exception or f'exit code {exit_code}'}")
        return Verdict("finished", "it recorded its exit" + ("; exit code unknown" if exit_code is None else ""))
    silence = None if last_activity is None else max(0.0, now - last_activity)
    heard = "" if silence is None else f", last heard {_ago(silence)}"
    if info is None or not is_here(info):
        return _elsewhere(info, silence, spoke)
    life = process_life(info)
    if life == "gone":
        if exception:
            return Verdict("failed", f"it raised {exception}, and pid {info.pid} is gone")
        return Verdict("died", f"pid {info.pid} is gone and left no exit record{heard}")
    if life == "stopped":
        return Verdict("stopped", f"pid {info.pid} is stopped (SIGSTOP or ctrl-z){heard}")
    if life == "traced" and silence is not None and silence > STALE_AFTER:
        return Verdict("stopped", f"pid {info.pid} is held by a debugger{heard}")
    if not spoke:
        return Verdict("waiting", f"pid {info.pid} runs and has recorded nothing yet")
    return Verdict("live", f"pid {info.pid} runs{heard}")


def is_here(info: ProcessInfo) -> bool:
    """Whether a pid of the writer means something here: same host, same boot, same pid namespace."""
    return (
        info.host == socket.gethostname()
        and bool(info.boot)
        and info.boot == registry.boot_id()
        and info.pid_namespace == registry.pid_namespace()
    )


def process_life(info: ProcessInfo) -> Literal["alive", "stopped", "traced", "gone"]:
    """What /proc says of a process of this host; a zombie is gone.

    Traced: held by a debugger at this moment, as profilers do a hundred times a second.
    """
    started = registry.process_start_time(info.pid)
    if started is None or abs(started - info.started) > _SAME_START:
        return "gone"
    try:
        letter = Path(f"/proc/{info.pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "gone"
    if letter in "ZX":
        return "gone"
    if letter == "T":
        return "stopped"
    return "traced" if letter == "t" else "alive"


def _elsewhere(info: ProcessInfo | None, silence: float | None, spoke: bool) -> Verdict:
    place = f"on {info.host}" if info is not None else "in an unknown place"
    if info is not None and info.host == socket.gethostname():
        rebooted = info.boot != registry.boot_id()
        place = "before this host was booted last" if rebooted else "in another container of this host"
    if silence is not None and silence <= STALE_AFTER:
        return Verdict("live" if spoke else "waiting", f"it runs {place}, last heard {_ago(silence)}")
    heard = "never heard" if silence is None else f"last heard {_ago(silence)}"
    return Verdict("stale", f"it ran {place}, where its pid cannot be checked; {heard}")


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h ago"
    return f"{seconds / 86_400:.0f} days ago"
