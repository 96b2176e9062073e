"""The path of evaluation: the same weights are judged otherwise than they are trained."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..catalogue import kind
from ..context import Context, StepBlock
from ..detectors.jumps import FALL, JUMP, LEAST, Jumps, jumps
from ..detectors.patience import Evaluation
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity

PARITY = kind(
    "parity-mismatch",
    "pipeline",
    "update/memory/step profile",
    meaning="Evaluation goes another way than training: the validation loss jumps up and down by factors from one "
    "evaluation to the next, while the training loss is smooth. It is no overfitting.",
    detector=f"Log ratios of neighbours among the last {LEAST} evaluations, beside those of the training loss at the "
    "same steps.",
    severity="info; warning while training has come down, over these evaluations or more, and validation not.",
)
CALM: Final = 0.5
"""Share of what counts as a jump under which it is over."""
SMALL: Final = 8
"""A batch of so many times fewer samples than the largest is a rest of an epoch."""
BEFORE: Final = 2
"""Steps before an evaluation that are looked at for such a batch."""


class EvaluationPath:
    """parity-mismatch, from the curve of evaluations that `GeneralizationRule` keeps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._jump, self._fall = context.value(JUMP), context.value(FALL)
        self._finding: Finding | None = None
        self._seen = math.nan
        """Samples seen up to the newest step."""
        self._largest = 0.0
        self._small: deque[tuple[int, int]] = deque(maxlen=256)
        """Step and samples of the small batches."""

    def resumed(self) -> None:
        """The samples may be counted anew."""
        self._seen = math.nan

    def steps(self, block: StepBlock) -> None:
        """Look for batches that are far smaller than the others."""
        seen = block.samples_seen
        if seen is None:
            return
        sizes = np.diff(seen, prepend=self._seen)
        self._seen = float(seen[-1])
        self._largest = max(self._largest, float(np.fmax.reduce(sizes)))
        small = (sizes > 0) & (sizes * SMALL <= self._largest)
        if small.any():
            self._small.extend((block.x[at], int(sizes[at])) for at in np.flatnonzero(small).tolist())

    def judge(self, name: str, kept: Sequence[Evaluation]) -> None:
        """Look at the newest of the evaluations `kept` of the loss `name`."""
        context, finding, x = self._context, self._finding, kept[-1].x
        found = jumps(kept, self._jump if finding is None else CALM * self._jump)
        if found is None:
            if finding is not None and finding.status == "open":
                finding.claim.symptom += f"; no longer by step {x:,}"
                finding.resolve(x)
                context.book.changed()
            self._finding = None
            return
        worse = found.fell >= self._fall
        severity: Severity = "warning" if worse or (finding is not None and finding.severity == "warning") else "info"
        if finding is not None:
            if worse and finding.severity == "info":
                finding.claim = self._claim(name, found, kept)
            finding.severity, finding.last_step = severity, x
            context.book.changed()
            return
        self._finding = context.open(
            PARITY.name,
            self._claim(name, found, kept),
            severity=severity,
            area=PARITY.area,
            failure_mode="generalization",
            where=name,
            first_x=found.first_x,
            last_x=x,
        )

    def _claim(self, name: str, found: Jumps, kept: Sequence[Evaluation]) -> Claim:
        first, last = found.train
        rests = self._rests([one.x for one in kept[-LEAST:]])
        tiny = f"a last batch of {rests[0][1]:,}, for which drop_last=True is made; " if rests else ""
        return Claim(
            symptom=(
                f"{name} jumps by a factor of {math.exp(found.jump):.1f} from one evaluation to the next (between "
                f"{found.low.value:.4g} and {found.high.value:.4g}), while training is smooth"
                + ("; training has come down meanwhile, it has not" if found.fell >= self._fall else "")
            ),
            hypothesis=(
                "No overfitting, which does not go back: the model is evaluated otherwise than it is trained. "
                f"Running statistics of BatchNorm that are those of the last few batches (a momentum near 1; {tiny}"
                "batches of few samples; a high rate, at which they lag behind the weights), or a validation set of "
                "few samples."
            ),
            fix=(
                "Evaluate the same training batches twice, by model.train() and by model.eval(). If only the second "
                "jumps, it is the running statistics: momentum=0.1 or less, drop_last=True, or GroupNorm. If neither, "
                "take more validation samples."
            ),
            confidence=(
                f"high that it jumps: {LEAST} evaluations, the largest jumps left out. "
                f"{'Medium' if rests else 'Low'} on the cause: a loss of both modes on one batch would tell. A high "
                "rate that is still to decay would change it."
            ),
            evidence=[
                point(name, found.low.x, found.low.value, "lowest"),
                point(name, found.high.x, found.high.value, "highest"),
                *(point(name, one.x, one.value) for one in kept[-4:]),
                point("training loss", first.x, first.train or 0.0, f"{found.fell_over} evaluations back"),
                point("training loss", last.x, last.train or 0.0, "now"),
                Evidence(
                    f"training moves by a factor of {math.exp(found.train_jump):.2f} between the same evaluations",
                    "training loss",
                    last.x,
                    found.train_jump,
                    basis="estimated",
                ),
                *_rests_evidence(rests, self._largest),
            ],
            open_questions=["How many samples does the validation set have?", "Are there BatchNorm layers?"],
        )

    def _rests(self, evaluated: Sequence[int]) -> list[tuple[int, int]]:
        """The small batches that came last before one of these evaluations."""
        near = BEFORE * self._context.stride
        return [(x, size) for x, size in self._small if any(0 <= at - x <= near for at in evaluated)]


def _rests_evidence(rests: Sequence[tuple[int, int]], largest: float) -> list[Evidence]:
    if not rests:
        return []
    x, size = rests[-1]
    text = (
        f"the last batch before an evaluation had {size:,} of {largest:,.0f} samples, {len(rests)} times of {LEAST}; "
        f"at last at step {x:,}"
    )
    return [Evidence(text, "samples", x, float(size), "samples")]
