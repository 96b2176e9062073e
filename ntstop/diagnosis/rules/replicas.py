"""Replicas of one model on several ranks: the same gradients, the same weights, or not any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.peers import Gathered, spread, taken
from ..finding import Book, Claim, Evidence, Finding
from .base import across
from .ranks import AREA, PeersRule, named, world

DIVERGENCE = kind(
    "rank-divergence",
    "distributed",
    AREA,
    meaning="Ranks that were replicas of one model are not any more: they train different models.",
    detector="Gradient norms and parameter norms of the same step, which were the same on all ranks and are not now. "
    "Sharded parameters are not compared.",
    severity="critical.",
)
SAME: Final = 1e-5
OTHER: Final = 1e-3
"""Replicas are equal to the bit; reductions in another order move a norm by its rounding, far below a thousandth."""
READINGS: Final = 3


@across
class ReplicaRule(PeersRule):
    """rank-divergence: by gradient norms, and by the parameters themselves."""

    def __init__(self, book: Book, ranks: Sequence[Context]) -> None:
        super().__init__(book, ranks)
        self._norms: Gathered[tuple[int, float]] = Gathered()
        self._layers: Gathered[LayerSample] = Gathered(256)
        self._same = {"grad_norm": 0, "param_norm": 0}
        self._apart: dict[str, list[tuple[int, str]]] = {"grad_norm": [], "param_norm": []}
        self._finding: Finding | None = None

    def steps(self, context: Context, block: StepBlock) -> None:
        if world(context) < 2 or self._finding is not None or block.grad_norm is None:
            return
        norms = block.grad_norm
        ordinals = np.arange(block.ordinal, block.ordinal + block.count)
        for index in np.nonzero(taken(ordinals))[0].tolist():
            norm = norms[index]
            if norm is None or not math.isfinite(norm):
                continue
            key = block.ordinal + index
            self._norms.add(key, context.writer, (block.x[index], norm))
            self._compare_norms(key, self.awaited(context))

    def catch_up(self) -> None:
        for key in self._norms:
            self._compare_norms(key, self.there or 0)
        for key in self._layers:
            self._compare_layers(key, self.there or 0)

    def _compare_norms(self, key: int, ranks: int) -> None:
        known = self._norms.complete(key, ranks)
        if known is not None:
            values = {writer: norm for writer, (_, norm) in known.items()}
            x = next(x for x, _ in known.values())
            self._look("grad_norm", x, spread(list(values.values())), "gradient norm", values, 8)

    def layers(self, context: Context, sample: LayerSample) -> None:
        if world(context) < 2 or self._finding is not None or "param_norm" not in sample.columns:
            return
        if any(shards > 1 for shards in sample.schema.shards):
            return
        self._layers.add(sample.ordinal, context.writer, sample)
        self._compare_layers(sample.ordinal, self.awaited(context))

    def _compare_layers(self, ordinal: int, ranks: int) -> None:
        known = self._layers.complete(ordinal, ranks)
        if known is None or len({tuple(item.schema.names) for item in known.values()}) > 1:
            return
        sample = next(iter(known.values()))
        table = {writer: item.columns["param_norm"] for writer, item in known.items()}
        worst, where, values = 0.0, "", {}
        for index, name in enumerate(sample.schema.names):
            row = {writer: norm for writer, norms in table.items() if (norm := norms[index]) is not None}
            if len(row) == len(known) and all(map(math.isfinite, row.values())):
                apart = spread(list(row.values()))
                if apart >= worst:
                    worst, where, values = apart, name, row
        if where:
            self._look("param_norm", sample.x, worst, where, values, 1)

    def _look(self, what: str, x: int, apart: float, where: str, values: dict[int, float], needed: int) -> None:
        """Equal first, `needed` times in a row; then apart, `READINGS` times in a row."""
        if apart < SAME:
            self._same[what] += 1
            self._apart[what].clear()
            return
        if self._same[what] < needed:
            self._same[what] = 0
            return
        text = ", ".join(f"{named(known)} {values[known.writer]:.6g}" for known in self.ranks if known.writer in values)
        self._apart[what].append((x, text))
        if apart > OTHER and len(self._apart[what]) >= READINGS and self._finding is None:
            self._open(what, x, apart, where, values)

    def _open(self, what: str, x: int, apart: float, where: str, values: dict[int, float]) -> None:
        middle = float(np.median(list(values.values())))
        accused = max(self.ranks, key=lambda known: abs(values.get(known.writer, middle) - middle))
        first, text = self._apart[what][0]
        weights = what == "param_norm"
        many = len(values) > 2
        claim = Claim(
            symptom=(
                f"the ranks' {'weights' if weights else 'gradients'} are not the same since step {first:,}: "
                f"{apart:.2%} apart in {where}"
            ),
            hypothesis=(
                "Gradients are not averaged over the ranks: a model that is not wrapped, a no_sync() that never ends, "
                "parameters that were added after wrapping, or a rank that skipped a step (NaN, loss scale)."
            ),
            fix=(
                "Wrap the model before the optimizer is built and call the wrapper, not the module inside; broadcast "
                "the weights from rank 0 and compare a checksum of them every 1,000 steps."
            ),
            confidence="high: they were equal to the bit before. Parameters that are meant to differ (experts) would "
            "change it.",
            evidence=[
                Evidence(f"equal up to step {first:,}", what, first, basis="measured"),
                Evidence(f"at step {first:,}: {text}", what, first),
                Evidence(f"at step {x:,}: {self._apart[what][-1][1]}", what, x, apart),
            ],
            open_questions=[f"What did {named(accused)} do at step {first:,} that the others did not?"] if many else [],
        )
        self._finding = accused.open(
            "rank-divergence",
            claim,
            severity="critical",
            area=AREA,
            failure_mode="optimization",
            where=where if weights else "gradients",
            first_x=first,
            last_x=x,
        )
