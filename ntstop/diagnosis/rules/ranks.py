"""The ranks of a run beside each other: one that is late, and steps that are not the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..detectors.peers import Gathered, Local, windows
from ..evidence import seconds
from ..finding import Book, Claim, Evidence, Finding
from ..thresholds import threshold
from .base import RunRule, across

AREA: Final[Area] = "parallelism/collectives"
STRAGGLER = kind(
    "straggler",
    "distributed",
    AREA,
    meaning="One rank takes longer than the others, which wait for it in every step.",
    detector="What each rank does without the others (its input and its forward pass) against the median of its "
    "peers, over the same steps, many steps in a row.",
    severity="warning.",
)
DESYNC = kind(
    "rank-desync",
    "distributed",
    AREA,
    meaning="Ranks that should step together are at different steps at the same time.",
    detector="The steps that each rank's heartbeat has counted, at the same wall clock.",
    severity="warning.",
)
EXCESS = threshold(
    "straggler.excess",
    0.15,
    unit="of the step",
    low=0.01,
    high=10.0,
    meaning="Share of the step by which the rank takes longer than the median of its peers. Raised, small delays are "
    "not told.",
    source="a shift of a tenth is what the literature on fail-slow calls slow; two processes on one busy host differ "
    "by up to that",
)
STRETCHES = threshold(
    "straggler.windows",
    4,
    unit="windows",
    low=2,
    meaning="Windows of 16 steps (256 later on) in a row in which the rank must be late. Raised, it is told later, "
    "and short delays are not.",
    source="64 steps: a garbage collection, a checkpoint or a long batch are over by then",
)
BEHIND = threshold(
    "rank-desync.steps",
    10,
    unit="steps",
    low=2,
    meaning="Steps by which a rank is behind, beyond what it makes in three seconds. Raised, smaller gaps are not "
    "told.",
    source="a collective in each step holds ranks within one step; clocks of hosts differ by under a second",
)
LASTS: Final = 1.0
SKEW: Final = 3.0
BEATS: Final = 5


def world(context: Context) -> int:
    """Ranks of the run that the context belongs to; all of them are waited for, so 1 where it is not known."""
    return context.hello.world or 1 if context.hello is not None else 1


def named(context: Context) -> str:
    """As a sentence calls it."""
    return f"rank {context.rank}" if context.rank is not None else "a rank"


SILENT: Final = 30.0
"""Seconds without a heartbeat, while others beat, after which a rank is not waited for."""


class PeersRule(RunRule):
    """Base of what compares a step of all ranks: it knows how many of them there are to be waited for.

    That is all of the run's, until everything recorded is read; then those that still beat: a rank may have died, or
    its node's recording may not be here.
    """

    def __init__(self, book: Book, ranks: Sequence[Context]) -> None:
        super().__init__(book, ranks)
        self._heard: dict[int, float] = {}
        """Unix seconds of the newest heartbeat, by writer."""
        self.there: int | None = None
        """Ranks that beat; None before everything was read, and with fewer than two."""

    def heartbeat(self, context: Context, beat: wire.Heartbeat) -> None:
        self._heard[context.writer] = beat.wall

    def settled(self) -> None:
        newest = max(self._heard.values(), default=0.0)
        there = sum(newest - wall <= SILENT for wall in self._heard.values())
        self.there = there if there >= 2 else None
        if self.missing:
            self.catch_up()

    def catch_up(self) -> None:
        """Compare what waited for ranks that are not there."""

    @property
    def missing(self) -> bool:
        """Whether ranks of the run are not there."""
        return self.there is not None and any(world(known) > self.there for known in self.ranks)

    def awaited(self, context: Context) -> int:
        """Ranks whose readings of a step belong together."""
        return world(context) if self.there is None else min(world(context), self.there)


MANY_PEERS = 16
"""From so many ranks on the median of all stands for that of the others: one among them does not move it."""


def _middle(locals_: list[Local]) -> tuple[float, float, float]:
    """Medians of step, data and forward."""
    step, data, forward = np.median([(local.step, local.data, local.forward) for local in locals_], axis=0).tolist()
    return step, data, forward


@across
class StragglerRule(PeersRule):
    """straggler."""

    def __init__(self, book: Book, ranks: Sequence[Context]) -> None:
        super().__init__(book, ranks)
        self._parts: dict[int, list[tuple[int, float, float, float, int, int, int]]] = {}
        self._windows: Gathered[Local] = Gathered()
        self._streaks: dict[int, list[tuple[Local, Local]]] = {}
        self._findings: dict[int, Finding] = {}
        self._calm: dict[int, int] = {}

    def steps(self, context: Context, block: StepBlock) -> None:
        data, step = block.phases.filled("data"), block.seconds
        if data is None or step is None or world(context) < 2:
            return
        forward = block.phases.filled("forward")
        if forward is None:
            forward = np.zeros_like(data)
        timed = np.isfinite(step) & np.isfinite(data)
        ordinals = np.arange(block.ordinal, block.ordinal + block.count)
        found = windows(ordinals)
        parts = self._parts.setdefault(context.writer, [])
        for window in np.unique(found).tolist():
            inside = np.nonzero((found == window) & timed)[0]
            if parts and parts[0][0] != window:
                self._close(context)
            if len(inside):
                sums = (float(column[inside].sum()) for column in (step, data, np.nan_to_num(forward)))
                total, fetched, forwarded = sums
                first, last = int(inside[0]), int(inside[-1])
                parts.append((window, total, fetched, forwarded, len(inside), block.x[first], block.x[last]))

    def _close(self, context: Context) -> None:
        parts = self._parts[context.writer]
        window = parts[0][0]
        count = sum(part[4] for part in parts)
        total, data, forward = (sum(part[at] for part in parts) / count for at in (1, 2, 3))
        local = Local(parts[0][5], parts[-1][6], count, total, data, forward)
        parts.clear()
        self._windows.add(window, context.writer, local)
        self._judge(window, self.awaited(context))

    def catch_up(self) -> None:
        for window in self._windows:
            self._judge(window, self.there or 0)

    def _judge(self, window: int, ranks: int) -> None:
        both = self._windows.complete(window, ranks)
        if both is not None:
            middle = _middle(list(both.values())) if len(both) >= MANY_PEERS else None
            for known in self.ranks:
                if known.writer in both:
                    self._compare(known, both, middle)

    def _compare(self, context: Context, window: dict[int, Local], middle: tuple[float, float, float] | None) -> None:
        mine = window[context.writer]
        if middle is None:
            middle = _middle([local for writer, local in window.items() if writer != context.writer])
        peers = Local(mine.x0, mine.x1, mine.count, *middle)
        limit = context.value(EXCESS) * mine.step
        # The others may wait for it in forward (broadcast buffers): then its input alone tells.
        late = mine.own - peers.own > limit or mine.data - peers.data > limit
        streak = self._streaks.setdefault(context.writer, [])
        finding = self._findings.get(context.writer)
        if late:
            self._calm[context.writer] = 0
            streak.append((mine, peers))
            lasted = sum(local.step * local.count for local, _ in streak)
            if finding is None and len(streak) >= context.value(STRETCHES) and lasted >= LASTS:
                self._findings[context.writer] = self._open(context, streak)
            elif finding is not None:
                finding.last_step = mine.x1
                del streak[:-4]
            return
        streak.clear()
        self._calm[context.writer] = self._calm.get(context.writer, 0) + 1
        if finding is not None and self._calm[context.writer] >= context.value(STRETCHES):
            finding.resolve(mine.x1, "info")
            finding.claim.symptom += f"; it keeps up since step {mine.x0:,}"
            del self._findings[context.writer]
            self.book.changed()

    def _open(self, context: Context, streak: list[tuple[Local, Local]]) -> Finding:
        def mean(which: int, name: str) -> float:
            return float(np.mean([getattr(pair[which], name) for pair in streak]))

        data, forward, step = (mean(0, name) - mean(1, name) for name in ("data", "forward", "step"))
        phase = "data" if data >= forward else "forward"
        late, whole = max(data + forward, data), mean(0, "step")
        first, last = streak[0][0].x0, streak[-1][0].x1
        claim = Claim(
            symptom=(
                f"{named(context)} takes {seconds(late)} longer than its peers in {phase} ({late / whole:.0%} of the "
                f"step) since step {first:,}"
            ),
            hypothesis=(
                "Its input is slower: another disk or mount, larger shards, fewer cores for its workers."
                if phase == "data"
                else "Its GPU or host is slower, or its batches are longer."
            ),
            fix=(
                "Compare where the ranks read from and how many cores their workers have; balance the shards by size."
                if phase == "data"
                else "Compare clocks, temperature and load of the GPUs and hosts; sort batches by length across ranks."
            ),
            confidence="high that it is late: the same steps of all ranks. Medium on the cause: swapping two hosts "
            "would tell whether it moves along.",
            evidence=[
                Evidence(
                    f"{name}: {seconds(mean(0, name))} a step, peers {seconds(mean(1, name))}",
                    name,
                    last,
                    mean(0, name),
                    "s",
                )
                for name in ("data", "forward")
            ]
            + [
                Evidence(f"a step takes {seconds(whole)}; {seconds(abs(step))} apart", "step_time", last, whole, "s"),
                Evidence(
                    f"without it the step would be {seconds(late)} shorter",
                    "step_time",
                    last,
                    late,
                    "s",
                    "estimated",
                ),
            ],
            open_questions=[
                "Is it always on the same host or GPU?",
                *([f"Only {self.there} of {world(context)} ranks are heard: are others later?"] * self.missing),
            ],
        )
        return context.open(
            "straggler",
            claim,
            severity="warning",
            area=AREA,
            failure_mode="pipeline",
            where=phase,
            first_x=first,
            last_x=last,
        )


@across
class DesyncRule(RunRule):
    """rank-desync."""

    def __init__(self, book: Book, ranks: Sequence[Context]) -> None:
        super().__init__(book, ranks)
        self._beats: dict[int, deque[tuple[float, int]]] = {}
        self._looked = 0.0
        self._fresh: set[int] = set()
        """Writers that have beaten a second after the last look: it is time for the next when all have."""
        self._behind: dict[int, int] = {}
        self._findings: dict[int, Finding] = {}

    def heartbeat(self, context: Context, beat: wire.Heartbeat) -> None:
        if world(context) < 2:
            return
        self._beats.setdefault(context.writer, deque(maxlen=600)).append((beat.wall, beat.ordinal))
        if beat.wall - self._looked >= 1.0:
            self._fresh.add(context.writer)
        if len(self._fresh) < len(self._beats) or len(self._beats) < world(context):
            return
        hellos = [known.hello for known in self.ranks if known.writer in self._beats]
        if len({hello.attempt for hello in hellos if hello is not None}) != 1:
            return
        horizon = min(beats[-1][0] for beats in self._beats.values())
        if horizon - self._looked < 1.0:
            return
        self._looked = horizon
        self._fresh = {writer for writer, beats in self._beats.items() if beats[-1][0] - horizon >= 1.0}
        counts: dict[int, tuple[int, int]] = {}
        for writer, beats in self._beats.items():
            while len(beats) > 1 and beats[1][0] <= horizon:
                beats.popleft()
            # Of a rank that was read ten minutes ahead of the others the beats of then are gone: it is not compared.
            if beats[0][0] <= horizon:
                is_exact = len(beats) == 1 or beats[0][0] == horizon
                counts[writer] = beats[0][1], beats[0 if is_exact else 1][1]
        self._compare(counts)

    def _compare(self, counts: dict[int, tuple[int, int]]) -> None:
        """`counts`: the least and the most steps that each rank can have made by one moment, by its beats before and
        after it. What quick steps do between two beats sets nobody apart."""
        first = max(least for least, _ in counts.values())
        for context in self.ranks:
            if context.writer not in counts:
                continue
            _, mine = counts[context.writer]
            pace = 1.0 / context.times.p99 if context.times.p99 > 0 else 0.0
            behind = first - mine > context.value(BEHIND) + SKEW * pace
            self._behind[context.writer] = self._behind.get(context.writer, 0) + 1 if behind else 0
            finding = self._findings.get(context.writer)
            if finding is None and self._behind[context.writer] >= BEATS and mine > 0:
                self._findings[context.writer] = self._open(context, first, mine)
            elif finding is not None and not behind and first - mine <= 1:
                finding.resolve(context.last_x, "info")
                del self._findings[context.writer]
                self.book.changed()

    def _open(self, context: Context, first: int, mine: int) -> Finding:
        # What is read of it may lie far behind the moment at which they were compared.
        x = context.x_of(mine - 1)
        claim = Claim(
            symptom=f"{named(context)} has made {mine:,} steps while another has made {first:,}",
            hypothesis="The ranks do not wait for each other: no collective joins them, or their loaders differ in "
            "length and one began its next epoch.",
            fix="Give every rank the same number of batches (drop_last=True, DistributedSampler), and see that each "
            "step's gradients are reduced over all ranks.",
            confidence="medium: heartbeats of the same wall clock, seconds long. Ranks that are meant to run apart "
            "(parameter servers, local SGD, separate trials) would change it.",
            evidence=[
                Evidence(f"{named(context)}: {mine:,} steps", "step", x, float(mine)),
                Evidence(f"the one in front: {first:,} steps", "step", x, float(first)),
            ],
            open_questions=["Is every rank meant to make the same steps?"],
        )
        return context.open(
            "rank-desync",
            claim,
            severity="warning",
            area=AREA,
            failure_mode="pipeline",
            where="steps",
            first_x=x,
        )
