"""What all screens share: the runs that are looked at, one step axis with one cursor, the findings."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curves.buckets import Buckets
from ..curves.matrix import MatrixWindow
from ..diagnosis.finding import Finding
from ..launch import OUTPUT_FILE
from ..run.names import TRAIN_NAMES
from ..run.process import ProcessState
from ..session import Session
from ..viewer_state import Mark
from .colours import PLACES, ColourBook
from .marks import markers_of
from .raster.ink import Ink
from .raster.spec import Marker, Span
from .reading import Reading, reading_at
from .view import StepView


@dataclass(frozen=True, eq=False)
class Shown:
    """A run on the screen, and what it is called there, "" where it is the only one."""

    session: Session
    name: str = ""


@dataclass(frozen=True, eq=False)
class Look:
    """What panes copy from, valid only while they do: the sessions are locked."""

    session: Session
    """The run that the screens are about."""
    process: ProcessState
    """Its first rank."""
    view: StepView
    markers: Sequence[Marker]
    """Events and findings on the step axis."""
    spans: Sequence[Span]
    """The steps of the finding that was chosen, while the cursor is set."""
    findings: Sequence[Finding]
    """Copies, the weightiest first; they may be kept."""
    runs: Sequence[tuple[Shown, ProcessState]]
    """Every run that has begun, the one above first."""
    marks: Mapping[int, Mark]
    """What viewers have noted, by step."""
    at_leisure: bool = False
    """Nobody has pressed a key that is to be seen: what takes long and can wait is done now."""

    @property
    def noted(self) -> str:
        """The note of the mark that the cursor stands on, else ""."""
        known = None if self.view.cursor is None else self.marks.get(round(self.view.cursor))
        return "" if known is None else known.note

    @property
    def whose(self) -> list[str]:
        """Of a run of several ranks the one that all this is of: ["rank 0"]."""
        hello = self.process.hello
        ranks = max(len(self.session.state.ranks), (hello.world or 0) if hello else 0)
        return [f"rank {hello.rank or 0}"] if hello and ranks > 1 else []

    @property
    def told_at(self) -> float:
        """Where values are told: at the cursor, where the picture was stopped, else the newest there are."""
        view = self.view
        return next((x for x in (view.cursor, view.frozen) if x is not None), np.inf)

    def window(self, name: str, x0: float, x1: float, columns: int, *, edges: bool = False) -> Buckets:
        """`Series.window` of the first run's series `name`, as fine as the recording has it. Raises `KeyError`."""
        return self.session.zoom.window(self.session.state, self.process, name, x0, x1, columns, edges=edges)

    def reading(self, name: str, process: ProcessState | None = None) -> Reading:
        """The value of a series where values are told, and the step it is of; of the first rank, or of `process`."""
        process = process or self.process
        series = process.series.get(name)
        if series is None:
            return Reading()
        point = self.session.zoom.point_at(process, name, self.told_at)
        return reading_at(point, series.spacing, self.view.cursor, self.view.shown_last)

    def layer_reading(self, field: str, y: float) -> Reading:
        """`y`, which layers have of `field` where values are told, and the step of that sample."""
        matrix, view = self.process.layers.get(field), self.view
        steps = None if matrix is None else self.sample_at(field)
        if matrix is None or steps is None:
            return Reading(y)
        return reading_at((min(steps[1], view.told_at), y), matrix.spacing, view.cursor, view.shown_last)

    def layers(self, field: str, x0: float, x1: float, columns: int) -> MatrixWindow:
        """`LayerMatrix.window` of `field`, as fine as the recording has it. Raises `KeyError`."""
        return self.session.zoom.layers(self.session.state, self.process, field, x0, x1, columns)

    def layers_at(self, field: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """`LayerMatrix.column_at` of the same, where values are told."""
        return self.session.zoom.layers_at(self.process, field, self.view.told_at)

    def sample_at(self, field: str) -> tuple[float, float] | None:
        """`LayerMatrix.steps_at` of the same."""
        return self.session.zoom.sample_at(self.process, field, self.view.told_at)


class Workspace:
    """Shared by all screens, so that a cursor, a zoom or a chosen finding is there on each of them."""

    def __init__(self, runs: Sequence[Shown], *, title: str | None = None, output_path: str | None = None) -> None:
        self.runs = list(runs)
        self.title = title
        """What to call the run; None: its own title or id."""
        self.output_path = output_path
        """Where the job's own output goes."""
        self.view = StepView()
        self.book = ColourBook()
        """Colour and sign of each run and curve."""
        self.findings: Sequence[Finding] = ()
        """Copies of the first run's findings."""
        self.notes: Mapping[str, str] = {}
        """Id of a finding that somebody has acknowledged, to their note."""
        self.marks: Mapping[int, Mark] = {}
        """What viewers have noted, by step; replaced when that has changed."""
        self._chosen: str | None = None
        self._engine: Any = None
        self._engine_version = -1

    @property
    def session(self) -> Session:
        """The run that the screens are about."""
        return self.runs[0].session

    def switch(self, path: Path) -> str:
        """Look at the run in this folder alone; why that cannot be, "" when it can. Raises `SourceError`."""
        if self.session.path is None:
            return "what has no folder could not be opened again"
        known = next((shown for shown in self.runs if shown.session.path == path), None)
        kept = known or Shown(self._open(path), path.name)
        for shown in self.runs:
            if shown is not kept:
                self._let_go(shown)
        output = path / OUTPUT_FILE
        self.runs, self.title, self._chosen = [kept], None, None
        self.output_path = str(output) if output.exists() else None
        self.view.span = self.view.end = self.view.cursor = self.view.frozen = None
        return ""

    def toggle(self, path: Path) -> str:
        """Lay the run in this folder over the others, or no longer; why that cannot be, "" when it can."""
        place = next((place for place, shown in enumerate(self.runs) if shown.session.path == path), None)
        if place == 0:
            return "this is the run that others are laid over"
        if place is not None:
            self._let_go(self.runs.pop(place))
        elif len(self.runs) >= PLACES:
            return f"{PLACES} runs at most are told apart on one axis"
        else:
            self.runs = [self._named(shown) for shown in self.runs] + [Shown(self._open(path), path.name)]
        return ""

    def close(self) -> None:
        """Read nothing any more."""
        for shown in self.runs:
            self._let_go(shown)

    def _open(self, path: Path) -> Session:
        session = Session(path, renew=self.session.renew)
        session.start()
        return session

    def _let_go(self, shown: Shown) -> None:
        """Read it no more; who looks at it again opens it again."""
        if shown.session.path is not None:
            shown.session.end()

    def _named(self, shown: Shown) -> Shown:
        path = shown.session.path
        return shown if shown.name else replace(shown, name=path.name if path else shown.session.state.run or "run")

    @property
    def version(self) -> int:
        """Goes up with everything that could be drawn anew."""
        return sum(shown.session.version for shown in self.runs)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the locks of all sessions, always in the same order."""
        with contextlib.ExitStack() as stack:
            for shown in self.runs:
                stack.enter_context(shown.session.lock)
            yield

    def ask_for_quiet(self) -> None:
        """A key was pressed: whoever reads and judges is to wait until what it changes is painted. From any thread."""
        for shown in self.runs:
            shown.session.lock.ask_for_quiet(QUIET)

    def look(self, *, at_leisure: bool = False) -> Look | None:
        """What is there now, or None before the first process; under `locked`. Takes over how far the runs reach."""
        self._copy_findings()
        runs = [(shown, process) for shown in self.runs if (process := shown.session.state.primary) is not None]
        if not runs or runs[0][0] is not self.runs[0]:
            return None
        ranges = [extent(process) for _, process in runs]
        self.view.extend(min(low for low, _ in ranges), max(high for _, high in ranges))
        process = runs[0][1]
        markers = markers_of(process, self.findings, self.marks)
        spans = self._spans()
        return Look(self.session, process, self.view, markers, spans, self.findings, runs, self.marks, at_leisure)

    def _spans(self) -> list[Span]:
        finding = self.finding
        if finding is None or finding.id != self._chosen or self.view.cursor is None:
            return []
        return [self.span_of(finding)]

    def span_of(self, finding: Finding) -> Span:
        """Its steps: to its end, or as far as the run is shown."""
        end = finding.last_step if finding.status == "resolved" else self.view.shown_last
        return Span(finding.first_step, max(end, finding.first_step), _SPAN_INKS[finding.severity])

    @property
    def place(self) -> int:
        """Index of the chosen finding; the first, where none was chosen or it is gone."""
        return next((place for place, finding in enumerate(self.findings) if finding.id == self._chosen), 0)

    @property
    def finding(self) -> Finding | None:
        """The chosen finding, or the weightiest; None where there is none."""
        return self.findings[self.place] if self.findings else None

    def choose(self, offset: int) -> Finding | None:
        """Choose another finding, around the ends; it stays chosen when the order changes. The axis goes to it."""
        if not self.findings:
            return None
        finding = self.findings[(self.place + offset) % len(self.findings)]
        self.pick(finding)
        return finding

    def jump(self, offset: int) -> Finding | None:
        """`choose`, but where none was chosen yet, forwards is the first of them and backwards the last."""
        if any(finding.id == self._chosen for finding in self.findings):
            return self.choose(offset)
        return self.choose(offset - 1 if offset > 0 else offset)

    def pick(self, finding: Finding) -> None:
        """Choose this one."""
        self._chosen = finding.id
        self.view.show(finding.first_step)

    def step_to_mark(self, columns: int) -> int:
        """The step of the mark that is drawn under the cursor, where the axis has so many columns, else the cursor's.

        Without a cursor it is the newest step that is drawn.
        """
        step = round(self.view.shown_last if self.view.cursor is None else self.view.cursor)
        left, right = self.view.window
        nearest = min(self.session.kept.marks, key=lambda marked: abs(marked - step), default=step)
        return nearest if abs(nearest - step) <= (right - left) / columns / 2 else step

    def _copy_findings(self) -> None:
        kept = self.session.kept
        self.notes = {finding: said.note for finding, said in kept.acknowledged.items()}
        self.marks = kept.marks
        engine = self.session.engine
        # Another engine: a replay has gone back.
        if engine is not self._engine or engine.version != self._engine_version:
            self._engine, self._engine_version = engine, engine.version
            self.findings = [copy.copy(finding) for finding in engine.findings]


QUIET = 0.04
"""Seconds: from a key to its paint it takes 20 ms where nobody else computes."""
_SPAN_INKS = {"critical": Ink.SPAN_CRITICAL, "warning": Ink.SPAN_WARNING, "info": Ink.SPAN}
_EXTENT = (*TRAIN_NAMES, "step_time")


def extent(process: ProcessState) -> tuple[float, float]:
    """First and last step of a process's curves."""
    ranges = [series.x_range for name in _EXTENT if (series := process.series.get(name))]
    known = [found for found in ranges if found is not None]
    if not known:
        return 0.0, max(process.x, 0.0)
    return min(low for low, _ in known), max(high for _, high in known)
