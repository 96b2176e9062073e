"""How a run is that is only heard of: its records come through a pipe, and there is no folder to look into."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ntstop.sources import runs
from ntstop.sources.evidence import Verdict, judge
from ntstop.sources.runs import ProcessEntry, RunEntry
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.wire import Hello

from .process import ProcessState
from .state import RunState

_NOWHERE = Path("-")
"""In place of the folder."""


class Heard:
    """Keeps when each process was heard, by this host's clock: that of the other may be off by seconds."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def note(self, writer: int) -> None:
        """A record of `writer` has come that was written just now; not one of its past."""
        self._at[writer] = time.monotonic()

    def entry(self, state: RunState, gone: Mapping[int, str]) -> RunEntry | None:
        """The run by what it recorded; None before a process has introduced itself.

        `gone`: writers that are known to have gone without an exit record, and the evidence.
        """
        processes = [
            self._process(process, hello, gone.get(process.writer, ""))
            for process in state.processes.values()
            if (hello := process.hello) is not None
        ]
        if not processes:
            return None
        entry = runs.sum_up(_NOWHERE, processes)
        entry.id = state.run
        return entry

    def _process(self, process: ProcessState, hello: Hello, gone: str) -> ProcessEntry:
        info = info_of(process, hello)
        activity = self._last_activity(process, hello)
        exception = (process.exception.text or "an exception").splitlines()[0] if process.exception else ""
        code = process.exit.data.get("code") if process.exit else None
        code = code if isinstance(code, int) else None
        verdict = judge(
            info,
            spoke=True,
            exited=process.exit is not None,
            exit_code=code,
            exception=exception,
            last_activity=activity,
            now=time.time(),
        )
        if gone and process.exit is None:
            verdict = Verdict("failed" if exception else "died", gone)
        beat = process.heartbeat
        return ProcessEntry(
            Path(hello.writer),
            info,
            verdict.state,
            verdict.why,
            rank=hello.rank,
            attempt=hello.attempt,
            first_step=None if process.first_x is None else int(process.first_x),
            last_step=int(process.x) if process.steps else None,
            last_loss=process.newest("loss"),
            rate=process.rate,
            phase=process.phase,
            exit_code=code,
            last_activity=activity,
            reason=beat.reason if beat else "",
        )

    def _last_activity(self, process: ProcessState, hello: Hello) -> float:
        """Unix time by this host's clock; of what was recorded before we listened, by the clock of the other."""
        heard = self._at.get(process.writer)
        if heard is not None:
            return time.time() - (time.monotonic() - heard)
        return min((process.heartbeat or hello).wall, time.time())


def info_of(process: ProcessState, hello: Hello) -> ProcessInfo:
    """The announcement of a process, as far as its records tell: all but the address of its socket."""
    return ProcessInfo(
        protocol=hello.protocol,
        run=hello.run,
        folder=hello.writer,
        writer=process.writer,
        host=hello.host,
        boot=hello.boot,
        pid_namespace=hello.pid_namespace,
        pid=hello.pid,
        started=hello.started,
        wall=hello.wall,
        rank=hello.rank,
        world=hello.world,
        attempt=hello.attempt,
        title=hello.title,
        probe=hello.probe,
        # A launcher has no rank and takes no steps.
        training=process.steps > 0 or hello.rank is not None,
    )
