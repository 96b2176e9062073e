"""Validation beside training: past its best, memorizing, or not to be believed."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..detectors.patience import EvaluationCurve, Past
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule
from .parity import EvaluationPath

AREA: Final[Area] = "update/memory/step profile"
OVERFIT = kind(
    "overfit",
    "generalization",
    AREA,
    meaning="The model memorizes: the validation loss has come down and rises again while the training loss falls.",
    detector="Medians of three evaluations against the best of them: the rise, its slope with an interval, and the "
    "training loss at the same steps. Never from a single pair.",
    severity="warning.",
)
LEAKAGE = kind(
    "leakage-suspect",
    "generalization",
    AREA,
    meaning="Training and validation tell stories that do not fit together: the data of one are broken, or leak the "
    "answer.",
    detector="The validation loss rises from the first evaluation on while training falls; or it lies under a quarter "
    "of the training loss from the first on; or its accuracy is perfect while the training loss is far from 0.",
    severity="warning.",
)
EARLY_STOP = kind(
    "early-stop",
    "generalization",
    AREA,
    meaning="The run is past its best: the best validation loss lies many evaluations back.",
    detector="Patience over medians of three evaluations, with the noise between neighbours taken into account.",
    severity="info; warning when the best lies in the first quarter of many evaluations and the training loss has not "
    "come down since either: all the steps after it have led nowhere.",
)
RISE = threshold(
    "overfit.rise",
    0.05,
    unit="of the best",
    low=0.001,
    meaning="Share of its best by which the validation loss must lie over it. Raised, small rises are not told.",
    source="measured on the evaluations of 140 healthy AlgoPerf runs: at 0.05 one is called, with a "
    "loss that really rises, at 0.03 four are; published rules use 0 to 0.1",
)
EVALUATIONS = threshold(
    "overfit.evaluations",
    5,
    unit="evaluations",
    low=3,
    meaning="Evaluations after the best one. Raised, it is told later.",
    source="three make a median, and two more the trend",
)
SIGMAS = threshold(
    "overfit.sigmas",
    8.0,
    unit="sigmas",
    low=1.0,
    meaning="The rise in units of the noise between neighbouring evaluations. Raised, rises of a noisy curve are not "
    "told.",
    source="measured: at 4 three of 140 healthy AlgoPerf runs are called whose validation is wild at a high rate and "
    "comes back when it decays (4.1 to 7.4); at 8 none of them",
)
PATIENCE = threshold(
    "early-stop.patience",
    10,
    unit="evaluations",
    low=3,
    meaning="Evaluations after the best one from which the run is past it. Raised, it is told later.",
    source="Keras' and Lightning's examples use 3 to 10 epochs; the upper end, because it costs nothing to wait",
)
AT_ONCE = threshold(
    "leakage-suspect.rise",
    0.1,
    unit="of the best",
    low=0.01,
    meaning="Share of its best by which the validation loss must have risen from its first evaluations on. Raised, "
    "only larger rises are told.",
    source="three times what counts as a rise later on: the first evaluations of a healthy run fall",
)
FAR_BELOW = threshold(
    "leakage-suspect.ratio",
    0.25,
    low=0.01,
    high=0.9,
    meaning="Ratio of the validation loss to the training loss under which it is not believed. Raised, smaller "
    "differences are told too.",
    source="dropout, augmentation and label smoothing explain a half, as in the public ImageNet recipes",
)
NOWHERE: Final = 2.0
"""Times the patience after which a best in the first quarter of the evaluations is a warning: of 140 healthy AlgoPerf
runs five have such a one for a while, all with a training loss that comes down."""
EARLY: Final = 0.25
NOWHERE_RISE: Final = 0.01
NOWHERE_SIGMAS: Final = 1.5
"""And the lowest smoothed evaluation of the later half must lie 1 % and so many sigmas over the best."""
PERFECT: Final = 0.9995
TRAIN_FELL: Final = 0.02
"""Least share of its level by which the training loss must have come down since the best evaluation."""
DESCENDED: Final = 0.7
"""When training has come down to this share before the first evaluation, a rise from there may be memorizing."""
REPEATED: Final = 2
"""Or when every sample has been seen so many times before it."""
INITIAL: Final = 8
"""Steps that the initial level is taken from."""


@rule
class GeneralizationRule(Rule):
    """overfit, leakage-suspect, early-stop and parity-mismatch, from the main validation loss: the first logged."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._rise, self._least, self._sigmas = context.value(RISE), context.value(EVALUATIONS), context.value(SIGMAS)
        self._patience = context.value(PATIENCE)
        self._name = ""
        self._curve = EvaluationCurve()
        self._path = EvaluationPath(context)
        self._logged: float | None = None
        self._total, self._count = 0.0, 0
        """The training loss of the steps since the last evaluation."""
        self._initial: list[float] = []
        self._epochs = 0
        """Epochs that had ended at the first evaluation."""
        self._checkpoints: deque[tuple[int, str]] = deque(maxlen=256)
        self._findings: dict[str, Finding] = {}
        self._below = self._compared = self._perfect = 0

    def resumed(self) -> None:
        self._path.resumed()

    def steps(self, block: StepBlock) -> None:
        self._path.steps(block)
        if not self._name and block.epoch is not None and (epoch := block.epoch[-1]) is not None:
            self._epochs = int(epoch)
        values = block.losses.filled("loss") if "loss" in block.losses else None
        if values is None:
            return
        if not np.isfinite(values).all():
            values = values[np.isfinite(values)]
        if len(self._initial) < INITIAL:
            self._initial.extend(values[: INITIAL - len(self._initial)].tolist())
        self._total += float(values.sum())
        self._count += len(values)

    def event(self, event: wire.Event) -> None:
        if event.kind == "checkpoint":
            x = event.step if event.step is not None else self.context.x_of(event.ordinal or self.context.last_ordinal)
            self._checkpoints.append((x, event.text))

    def scalars(self, scalars: wire.Scalars) -> None:
        x = scalars.step if scalars.step is not None else self.context.x_of(scalars.ordinal)
        evaluated: float | None = None
        for name, value in scalars.values.items():
            role = self.context.roles.of(name).role
            if role == "train_loss" and math.isfinite(value):
                self._logged = value
                if not self._initial:
                    self._initial.append(value)
            elif role == "val_loss" and math.isfinite(value) and self._name in ("", name):
                self._name, evaluated = name, value
            elif role == "accuracy" and any(word in name.lower() for word in ("val", "eval", "test", "dev")):
                self._accuracy(name, x, value)
        if evaluated is not None:
            train = self._logged if self._logged is not None else self._mean()
            if self._curve.add(x, evaluated, train):
                self._total, self._count = 0.0, 0
                self._judge(x, evaluated, train)

    def _mean(self) -> float | None:
        return self._total / self._count if self._count else None

    def _judge(self, x: int, value: float, train: float | None) -> None:
        self._far_below(x, value, train)
        self._path.judge(self._name, self._curve.kept)
        past = self._curve.past()
        if past is None:
            return
        found = self._kind(past)
        for name in ("overfit", "leakage-suspect", "early-stop"):
            finding = self._findings.get(name)
            if name == found:
                self._keep(name, past)
            elif finding is not None and finding.where == self._name and past.rise < self._rise / 2:
                finding.claim.symptom += f"; {past.now:.4g} again by step {x:,}"
                finding.resolve(x, "info")
                del self._findings[name]
                self.context.book.changed()

    def _kind(self, past: Past) -> str | None:
        """Which of them it is, if any."""
        rises = past.rising and past.sigmas >= self._sigmas and past.count >= self._least
        if rises and self._falls(past) and past.rise >= self._rise:
            if past.index <= 1 and past.rise >= self.context.value(AT_ONCE) and not self._had_descended(past):
                return "leakage-suspect"
            return "overfit"
        over = past.rising and past.sigmas >= self._sigmas / 2 and past.rise >= self._rise / 3
        if self._nowhere(past):
            return "early-stop"
        return "early-stop" if over and past.count >= self._patience else None

    def _falls(self, past: Past) -> bool | None:
        """Whether training has come down since the best evaluation; None when it is not known."""
        before, now = self._curve.train_near(past.best.x), self._curve.train_now()
        if before is None or now is None:
            return None
        return before - now > max(2 * self._curve.train_noise(), TRAIN_FELL * abs(before))

    def _nowhere(self, past: Past) -> bool:
        """Neither curve has been better since the first quarter of the evaluations."""
        if past.count < NOWHERE * self._patience or past.index >= EARLY * past.of or self._falls(past) is not False:
            return False
        over = past.floor - past.level
        return NOWHERE_RISE * abs(past.level) <= over < math.inf and over >= NOWHERE_SIGMAS * past.noise

    def _had_descended(self, past: Past) -> bool:
        """Training had come down before the first evaluation, so that the best may lie before it."""
        if self._epochs >= REPEATED:
            return True
        if not self._initial or past.first.train is None:
            return False
        start = sum(self._initial) / len(self._initial)
        return start > 0 and past.first.train < DESCENDED * start

    def _keep(self, name: str, past: Past) -> None:
        claim = self._claim(name, past)
        severity: Severity = "info" if name == "early-stop" and not self._nowhere(past) else "warning"
        finding = self._findings.get(name)
        if finding is not None and finding.status == "open":
            finding.claim, finding.severity, finding.last_step = claim, severity, past.last.x
            self.context.book.changed()
            return
        first = past.first.x if name == "leakage-suspect" else past.best.x
        self._findings[name] = self._open(name, claim, severity, self._name, first, past.last.x)

    def _open(self, name: str, claim: Claim, severity: Severity, where: str, first: int, last: int) -> Finding:
        return self.context.open(
            name,
            claim,
            severity=severity,
            area=AREA,
            failure_mode="generalization",
            where=where,
            first_x=first,
            last_x=last,
        )

    def _evidence(self, past: Past) -> list[Evidence]:
        items = [
            point(self._name, past.first.x, past.first.value, "first"),
            point(self._name, past.best.x, past.best.value, "best"),
            point(self._name, past.last.x, past.last.value, "now"),
            Evidence(
                f"over its best by {past.rise:.1%}, {min(past.sigmas, 999):.1f} times the noise between neighbours",
                self._name,
                past.last.x,
                past.rise,
                "of the best",
                "estimated",
            ),
        ]
        before, now = self._curve.train_near(past.best.x), self._curve.train_now()
        if before is not None and now is not None:
            items.append(point("training loss", past.best.x, before, "at the best"))
            items.append(point("training loss", past.last.x, now, "now"))
        else:
            items.append(Evidence("the training loss is not known", "loss", past.last.x, basis="unchecked"))
        return items

    def _nearest(self, x: int) -> tuple[int, str] | None:
        return min(self._checkpoints, key=lambda known: abs(known[0] - x), default=None)

    def _claim(self, name: str, past: Past) -> Claim:
        best, evidence, saved = past.best, self._evidence(past), self._nearest(past.best.x)
        if saved is not None:
            evidence.append(
                Evidence(f"nearest checkpoint: step {saved[0]:,} {saved[1]}".rstrip(), "checkpoint", saved[0])
            )
            keep = f"the checkpoint of step {saved[0]:,}"
        else:
            evidence.append(Evidence("no checkpoint was seen", "checkpoint", best.x, basis="unchecked"))
            keep = f"a checkpoint of step {best.x:,}, which a repeated run would have to write"
        questions = [] if saved is not None else [f"Is there a checkpoint near step {best.x:,}?"]
        since = f"{past.count} evaluations since its best, {best.value:.4g} at step {best.x:,}"
        if name == "early-stop":
            nowhere = self._nowhere(past)
            return Claim(
                symptom=f"{self._name} is past its best: {past.now:.4g} now, {since}"
                + ("; training has not come down since either" if nowhere else ""),
                hypothesis=(
                    "Nothing has been learned since: one bad update has cost what the model could do (dead units, "
                    "broken optimizer moments), or the rate has been too high from there on."
                    if nowhere
                    else "More steps at this rate do not generalize better."
                ),
                fix=f"Stop, and use {keep}; or lower the rate (×0.1) from there.",
                confidence="medium: over its noise for that long. A planned decay of the rate may bring it down again.",
                evidence=evidence,
                open_questions=questions,
            )
        if name == "overfit":
            return Claim(
                symptom=f"{self._name} rises while training falls: {past.now:.4g} now, {since}",
                hypothesis="The model has learned what the data have in common and goes on to learn them by heart.",
                fix=f"Stop at step {best.x:,} and use {keep}. For the next run more or augmented data first, then "
                "weight decay or dropout, then a smaller model.",
                confidence="high: both curves, over several evaluations. A validation set of few samples would "
                "change it.",
                evidence=evidence,
                open_questions=questions,
            )
        low = "low" if not self._initial else "medium"
        return Claim(
            symptom=f"{self._name} has risen from the first evaluation on, {past.first.value:.4g} to {past.now:.4g}, "
            "while training falls",
            hypothesis=(
                "A feature of the training data gives the answer away and is not there, or not true, in validation; or "
                "the validation data are prepared otherwise (normalization, order of columns, labels)."
            ),
            fix=(
                "Evaluate the training data by the validation code: if that is bad too, the code or the preparation is "
                "broken. If it is good, drop features one by one until training gets worse: that one leaks."
            ),
            confidence=f"{low}: no evaluation was ever better than the first. Very few training samples that are "
            "learned by heart before the second evaluation look the same.",
            evidence=evidence,
            open_questions=["Are both sets prepared by the same code?", "Which features are not known in validation?"],
        )

    # Too good

    def _far_below(self, x: int, value: float, train: float | None) -> None:
        known = train is not None and train > 0 and value >= 0
        self._compared += known
        low = known and train is not None and value < self.context.value(FAR_BELOW) * train
        self._below = self._below + 1 if low else 0
        if self._below < self._least or self._below < self._compared or "leakage-suspect" in self._findings:
            return
        kept = self._curve.kept
        claim = Claim(
            symptom=f"{self._name} is {value:.3g} where training is at {train:.3g}, from the first evaluation on",
            hypothesis="Validation samples are in the training data, or their loss is computed over something else "
            "(padding that counts, another reduction).",
            fix="Look for duplicates between both sets by hash; compute the loss of one training batch by both paths.",
            confidence="low: a ratio of losses. Heavy dropout, mixup or label smoothing in training would change it.",
            evidence=[
                *(point(self._name, item.x, item.value, "validation") for item in (kept[0], kept[-1])),
                point("training loss", x, train or 0.0, "now"),
            ],
            open_questions=["Are both losses computed the same way?"],
        )
        self._findings["leakage-suspect"] = self._open("leakage-suspect", claim, "warning", self._name, kept[0].x, x)

    def _accuracy(self, name: str, x: int, value: float) -> None:
        """Perfect validation while the model is far from having solved the training data."""
        level = self._mean() if self._count else self._logged
        start = sum(self._initial) / len(self._initial) if self._initial else 0.0
        unsolved = level is not None and start > 0 and level > 0.5 * start
        self._perfect = self._perfect + 1 if unsolved and PERFECT <= value <= 1.0 else 0
        if self._perfect < self._least or "leakage-suspect" in self._findings:
            return
        claim = Claim(
            symptom=f"{name} is {value:.4g} while training is still at {level:.3g}, from {start:.3g} at the start",
            hypothesis="The answer is among the validation inputs, or the set is tiny or has one class only.",
            fix="Print ten validation samples with predictions; shuffle their labels: accuracy must fall to chance.",
            confidence="medium: perfect for several evaluations, and training is not. Other data in training may be "
            "harder.",
            evidence=[point(name, x, value, "now"), point("training loss", x, level or 0.0, "now")],
            open_questions=["How many samples and classes does the validation set have?"],
        )
        self._findings["leakage-suspect"] = self._open("leakage-suspect", claim, "warning", name, x, x)
