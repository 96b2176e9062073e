"""What the open step has come to so far: seconds by phase, losses, norms, rates; and the row it becomes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..progress import Progress
from ..rows import StepRow
from .axis import StepAxis
from .readings import Norm, Reading, Readings

MAX_LOSSES = 8
"""Losses and learning-rate families named in one step."""
NO_CLOCKS: dict[str, str] = {}
"""All phases are on the host's clock: one dict for all rows."""
NOTHING = Readings([], [])
"""The row of a step is complete already."""
NEVER = 1 << 62
"""A step that never comes."""
SMOOTHING = 0.1
"""Weight of the newest step in `Progress.step_time`."""
Rates = list[float | None] | dict[int, float | None]
"""Learning rates by number of the parameter group; None where one would have to be waited for."""


class Ledger:
    """The open step. What happened since its last optimizer step is kept apart (`_tail_…`).

    Without a loader it is known only when an optimizer steps again that the tail belonged to the next step.
    """

    __slots__ = (
        "_begin",
        "_cut",
        "_emit",
        "_first",
        "_losses",
        "_lrs",
        "_micro",
        "_norms",
        "_optimizers",
        "_phases",
        "_progress",
        "_repeats",
        "_rich",
        "_scale",
        "_skipped",
        "_stepped",
        "_tail_losses",
        "_tail_micro",
        "_tail_norms",
        "_tail_phases",
        "_tail_zeros",
        "_zeros",
        "axis",
        "batch",
        "busy",
        "cost_before",
        "details",
        "details_mask",
        "epoch",
        "light",
        "loader",
        "metered",
        "ordinal",
        "samples",
        "timed",
        "timing_mask",
        "whole",
    )

    def __init__(self, emit: Callable[[StepRow, Readings], None], progress: Progress) -> None:
        self._emit = emit
        self._progress = progress
        self.ordinal = progress.steps
        """Number of the open step. Hooks that are armed anew go on where the ones before stopped."""
        self.epoch = 0
        self.loader = False
        """A fetch has been followed by a backward: steps are cut at fetches."""
        self._first = self.ordinal
        self._begin = 0.0
        self._cut = 0.0
        """End of the last optimizer step."""
        self._stepped: set[Hashable] = set()
        self._tail_phases: dict[str, float] = {}
        self._tail_losses: list[Reading] = []
        self._tail_norms: list[Norm] = []
        self._tail_micro = 0
        self._tail_zeros = 0
        self.axis = StepAxis()
        self.batch: int | None = 0
        """Samples in the batch that was fetched last; None: that cannot be told."""
        self.samples: int | None = 0
        """Samples that a backward has followed; None once the size of such a batch was not known."""
        self.timing_mask = 0
        """Steps whose ordinal has none of these bits are timed: their rows have a duration and phases."""
        self.details_mask = 0
        self.whole = True
        """The step that was closed last ended at a fetch, not with its optimizer."""
        self.light = False
        """Nothing is due in the open step, and it goes the short way (`light.TrainingMachine`)."""
        self.busy = NEVER
        """The first step in which something else than times and details is due."""
        self.metered = True
        """What the open step costs the job is measured: any but most of the light ones."""
        self.cost_before = 0.0
        """`Progress.cost` when a step began that is metered."""
        self._open()

    def _open(self) -> None:
        self._phases: dict[str, float] = {}
        self._losses: list[list[Reading]] = []
        self._norms: list[Norm] = []
        self._lrs: dict[str, float] = {}
        self._micro = 0
        self._optimizers = 0
        self._stepped.clear()
        self._repeats = 0
        self._scale: Reading = None
        self._skipped: int | None = None
        self._zeros = 0
        self._rich = False
        """There is more to tell of the open step than losses."""
        self.timed = not self.ordinal & self.timing_mask
        self.details = not self.ordinal & self.details_mask
        """Learning rates, norms of clipping and the loss scale are read in this step."""

    def note_step(self, step: int, source: str, epoch: int | None = None) -> None:
        """The open step is the job's own `step`, and in its `epoch`, where that is known; `source` as in `wire`."""
        self._rich = True
        self.axis.note(self.ordinal, step, source)
        if epoch is not None:
            self.epoch = epoch
        self._progress.step = self.axis.at(self.ordinal)

    def note_norm(self, norm: Reading, limit: float | None = None) -> None:
        """The gradient norm before clipping to `limit` (None: nobody clips), of what the next optimizer step uses."""
        self._tail_norms.append(Norm(norm, limit))
        self._rich = True

    def note_scale(self, scale: Reading, skipped: bool | None) -> None:
        """The loss scale of the last optimizer step, and whether it was skipped, where that is known."""
        self._scale = scale
        self._rich = True
        if skipped is not None:
            self._skipped = max(self._skipped or 0, int(skipped))

    def note_scaled(self, scale: Reading) -> None:
        """The norms noted since the last optimizer step were of gradients that were still multiplied by `scale`."""
        for norm in self._tail_norms:
            norm.scale = scale

    def note_zero_grad(self) -> None:
        """Somebody has cleared gradients."""
        self._tail_zeros += 1

    def _use_batch(self) -> None:
        """A backward followed the last fetch: its samples count, once."""
        if self.samples is not None:
            self.samples = None if self.batch is None else self.samples + self.batch
        self.batch = 0

    @property
    def clipped(self) -> list[Norm]:
        """Norms noted since the last optimizer step."""
        return self._tail_norms

    def _book(self, phase: str, seconds: float) -> None:
        if seconds > 0.0:
            phases = self._tail_phases
            phases[phase] = phases.get(phase, 0.0) + seconds

    def _count_step(self, now: float, optimizer: Hashable) -> None:
        """An optimizer has stepped: what happened up to `now` is part of the open step."""
        if not self._phases:
            self._phases = self._tail_phases
            self._tail_phases = {}
        elif self._tail_phases:
            phases = self._phases
            for phase, seconds in self._tail_phases.items():
                phases[phase] = phases.get(phase, 0.0) + seconds
            self._tail_phases = {}
        if self._tail_losses:
            if len(self._losses) < MAX_LOSSES:
                self._losses.append(self._tail_losses)
            self._tail_losses = []
        if self._tail_norms:
            self._norms += self._tail_norms
            self._tail_norms = []
        self._micro += self._tail_micro
        self._zeros += self._tail_zeros
        self._tail_micro = self._tail_zeros = 0
        self._optimizers += 1
        self._stepped.add(optimizer)
        self._cut = now

    def _name_lrs(self, lrs: Rates) -> None:
        self._rich = True
        for group, lr in lrs.items() if isinstance(lrs, dict) else enumerate(lrs):
            if lr is not None:
                self._lrs[f"lr/{self._optimizers}.{group}" if group or self._optimizers else "lr"] = lr

    def _forget(self, now: float) -> None:
        """Drop what belongs to no step; the next one begins at `now`."""
        self._tail_phases = {}
        self._tail_losses = []
        self._tail_norms = []
        self._tail_micro = self._tail_zeros = 0
        self._begin = self._cut = now

    def _close(self, cut: float, whole: bool) -> None:
        """End the open step at `cut`; `whole`: with the time since the last optimizer step, else without."""
        self.whole = whole
        if whole:
            self._zeros += self._tail_zeros
            self._tail_zeros = 0
            if self._tail_phases:
                phases = self._phases
                for phase, seconds in self._tail_phases.items():
                    phases[phase] = phases.get(phase, 0.0) + seconds
                self._tail_phases = {}
        progress, ordinal, axis = self._progress, self.ordinal, self.axis
        timed, phases, losses = self.timed, self._phases, self._losses
        duration = cut - self._begin if timed else None
        step = axis.at(ordinal) if axis.source else None
        # Almost every step has one loss, which is there already.
        loss = losses[0][0] if len(losses) == 1 and len(losses[0]) == 1 else None
        quick = loss.__class__ is float and not self._norms and self._scale is None
        row = StepRow(
            ordinal,
            cut,
            duration,
            step,
            self.epoch if self.loader or step is not None else None,
            self.samples or None,
            None,
            self._micro,
            self._optimizers,
            {"loss": loss} if quick else {},  # type: ignore[dict-item]
            self._lrs,
            phases if timed else {},
            NO_CLOCKS,
            None,
            None,
            None,
            self._skipped,
            axis.source,
            self._zeros,
        )
        readings = NOTHING if quick else Readings(losses, self._norms, self._scale)
        if timed:
            usual = cut - self._begin
            if "eval" in phases or "checkpoint" in phases:
                usual -= phases.get("eval", 0.0) + phases.get("checkpoint", 0.0)
            known = progress.step_time
            # The first step also compiles, allocates and starts workers.
            early = known is None or ordinal <= self._first + 1
            progress.step_time = usual if early else known + SMOOTHING * (usual - known)  # type: ignore[operator]
        self.ordinal = ordinal + 1
        self._begin = self._cut = cut
        self._open()
        progress.steps = ordinal + 1
        progress.step = None if step is None else axis.at(ordinal + 1)
        self._emit(row, readings)
