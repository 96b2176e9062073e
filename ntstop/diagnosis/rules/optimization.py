"""The loss curve as a whole: spikes, divergence, plateau, never learned."""

from __future__ import annotations

import math

import numpy as np

from ntstop.sources.logs.roles import is_part
from ntstop_probe import wire

from .. import curve_claims as claims
from ..context import Context, StepBlock
from ..curve_kinds import AREA
from ..detectors import constant, fallen, regressed, spike, unlearned
from ..detectors import divergence as diverge
from ..detectors.constant import Constant, ConstantDetector
from ..detectors.divergence import Divergence, DivergenceDetector
from ..detectors.evaluations import EvaluationWatch, training_rose
from ..detectors.levels import Levels
from ..detectors.plateau import SMALL, SOLVED, plateau
from ..detectors.spike import Spike, SpikeDetector
from ..finding import Claim, FailureMode, Finding, Severity
from .base import Rule, rule
from .objective import ObjectiveWatch

MODE: FailureMode = "optimization"
BROKEN = ("nonfinite-loss", "nonfinite-grad")
STILL = "params-not-updating"
PATIENCE = 3
"""Evaluations in a row without it before a slow finding (plateau, regressed, never-learned) is resolved."""
OVER = {"plateau": "it moves again", "never-learned": "it has come down since,", "divergence": "it came back"}
MOST = 0.5
"""Share of the steps so far that a divergence from the start must have lasted for its end to be no good news: nothing
was learned in them."""
LEARNED = 1.25
"""Until the loss is so many times under where it began."""
AT_ONCE = 16
"""Fewest points that are worth looking at all at once."""
SLOWLY = 16
"""Points looked at one by one before all at once is tried again."""
SAME_HEIGHT = 2.0
"""Times the level that the loss has come back from before; up to there another such rise is a note."""
STAYS = 2.0
"""Times the longest such rise: one that lasts longer does not come back."""
AROUND_ZERO = 0.1
"""Share of the points on the rarer side of 0 from which a loss is noise around it, without a level to fall back from
(a policy gradient with a baseline)."""
PLATEAU_EVERY = 4
"""Blocks between two looks at the slope: it is half a run long, and costs a millisecond."""


@rule
class LossCurveRule(Rule):
    """Judges one loss: the only one, or the first of several.

    With several losses in a step (a GAN) a level means nothing, since one falls as the other rises: only a spike and
    an explosion are told then. Nothing new is told while numbers are nonfinite or parameters stand still.
    """

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._name = ""
        self._alone = True
        self._restarted = False
        value = context.value
        self._spike = SpikeDetector(value(spike.HIGH_Z), value(spike.HIGH_RISE), int(value(spike.LINGER)))
        self._divergence = DivergenceDetector(value(diverge.ABOVE_RATIO), value(diverge.EXPLOSION), value(fallen.LOST))
        self._constant = ConstantDetector(int(value(constant.SAME)))
        self._same: Finding | None = None
        self._levels = Levels()
        self._parts = ObjectiveWatch(context)
        self._evaluations: dict[str, EvaluationWatch] = {}
        self._worse: Finding | None = None
        self._spike_finding: Finding | None = None
        self._diverged: Finding | None = None
        self._bruised: Finding | None = None
        """A divergence that took most of the run and has led back to no more than its start."""
        self._reached = self._survived = 0.0
        """Where the divergence that is open began to be told, and the highest such level it came back from."""
        self._relearns_until = -1
        """Step up to which an outlier may take to be forgotten: what is slow to tell is not told before."""
        self._longest = 0
        """Steps that it took for that, at most."""
        self._signs = [0, 0]
        """Points at or below 0, and above."""
        self._slow: dict[str, Finding] = {}
        self._resumes = False
        """The next step is the first of another attempt, which may go back."""
        self._missing: dict[str, int] = {}

    def steps(self, block: StepBlock) -> None:
        if not block.losses:
            return
        name = "loss" if "loss" in block.losses else next(iter(block.losses))
        self._name = self._name or name
        self._alone = self._alone and len(block.losses) == 1
        if self._name not in block.losses:
            return
        if self._resumes:
            self._levels.rewind(block.x[0])
            self._resumes = False
        if (losses := block.losses.filled(self._name)) is not None:
            self._parts.steps(block.x, losses)
        index = 0
        while (index := index + self._calm_points(block, index)) < block.count:
            values, rates = block.losses[self._name], block.rate
            for at in range(index, min(index + SLOWLY, block.count)):
                self._point(block.x[at], values[at], None if rates is None else rates[at])
            index += SLOWLY

    def _calm_points(self, block: StepBlock, start: int) -> int:
        """Take in points in which nothing happens, from `start` on, at once; how many these were.

        It is what makes a million steps quick to read, and changes nothing: no detector has anything to tell of them.
        """
        y, rates, watch = block.losses.array(self._name), block.rates, self.context.rate
        if y is None or self._same is not None or (rates is None and block.lrs):
            return 0
        y = y[start : start + self._levels.room]
        if len(y) < AT_ONCE or not np.isfinite(y).all():
            return 0
        y = y[: self._divergence.calm(y)]
        y = y[: self._constant.calm(y)]
        if rates is not None:
            y = y[: watch.steady(rates[start : start + len(y)])]
        if len(y) < AT_ONCE:
            return 0
        x = block.x[start : start + len(y)]
        taken = self._spike.extend(x, y)
        if taken:
            x, y = x[:taken], y[:taken]
            below = int((y <= 0).sum())
            self._signs[0] += below
            self._signs[1] += taken - below
            self._divergence.extend(x, y)
            self._constant.extend(x, y)
            self._levels.extend(x, y)
            if rates is not None:
                watch.extend(rates[start : start + taken])
        return taken

    def _point(self, x: int, loss: float | None, rate: float | None) -> None:
        watch = self.context.rate
        if rate is not None:
            climbed, restarts = watch.climbing, watch.add(x, rate)
            if restarts or (climbed and not watch.climbing):
                self._restart()
        if loss is None or not math.isfinite(loss):
            return
        self._signs[loss > 0] += 1
        warming = watch.warming
        if (excursion := self._spike.add(x, loss, warming=warming)) is not None:
            self._tell_spike(excursion)
        if (divergence := self._divergence.add(x, loss, warming=warming)) is not None:
            self._tell_divergence(divergence)
        if (same := self._constant.add(x, loss)) is not None:
            self._tell_constant(same)
        elif self._same is not None and not self._constant.repeats:
            self._same.resolve(x, "info")
            self._same = None
            self.context.book.changed()
        if self._levels.add(x, loss) and self._alone and not watch.climbing:
            self._slow_rules()

    def scalars(self, scalars: wire.Scalars) -> None:
        for name, value in scalars.values.items():
            if self.context.roles.of(name).role == "val_loss" and math.isfinite(value):
                x = self.context.x_of(scalars.ordinal) if scalars.step is None else scalars.step
                self._evaluation(name, x, value)
            elif is_part(name) and math.isfinite(value):
                self._parts.add(
                    self.context.x_of(scalars.ordinal) if scalars.step is None else scalars.step, name, value
                )

    def _evaluation(self, name: str, x: int, loss: float) -> None:
        """A validation loss that rose and stays there, and the training loss with it: no overfitting."""
        watch = self._evaluations.setdefault(name, EvaluationWatch())
        worse = watch.add(x, loss)
        if worse is None or not self._alone:
            if watch.good and self._worse is not None and self._worse.where == name:
                self._end_worse(x)
            return
        training = training_rose(self._levels, worse)
        if training is None or self._muted() or self.context.is_open("divergence"):
            return
        claim = claims.both_rose(name, worse, self._name, training, self.context.rate)
        self._worse = self._open("divergence", claim, "warning", worse.first_x, worse.last_x, where=name)

    def _end_worse(self, x: int) -> None:
        """The validation loss is near its best again."""
        if self._worse is not None and self._worse.status == "open":
            self._worse.resolve(x, "info")
            self._worse.claim.symptom += f"; it came back by step {x:,}"
            self.context.book.changed()
        self._worse = None

    def resumed(self) -> None:
        self._end_spike(self._spike.quiet())
        self._resumes = True

    def _restart(self) -> None:
        """A planned rise of the rate, or its end: a higher loss is expected, and the level is learned anew."""
        self._end_spike(self._spike.quiet())
        self._divergence.restart()
        self._relearns_until = -1
        self._evaluations.clear()
        self._levels.clear()
        self._restarted = True
        for finding in self._slow.values():
            finding.resolve(self.context.last_x)
        self._slow.clear()
        self.context.book.changed()

    def _muted(self) -> bool:
        return self.context.is_open(*BROKEN, STILL)

    def _end_spike(self, ended: Spike | None) -> None:
        if ended is not None:
            self._tell_spike(ended)

    def _tell_spike(self, told: Spike) -> None:
        finding = self._spike_finding
        claim = claims.spike(self._name, told, self.context.rate)
        if finding is None:
            if told.state == "recovered" or self._muted() or self.context.is_open("divergence"):
                return
            # While the rate goes on rising, what it has thrown up does not come back by itself.
            warming = self.context.rate.warming and self._alone and told.points > 1
            severity: Severity = "warning" if warming or told.state == "lingering" else "info"
            self._spike_finding = self._open("loss-spike", claim, severity, told.first_x)
            return
        finding.claim = claim
        finding.last_step = told.last_x
        if told.state == "lingering" and self._alone:
            finding.severity = "warning"
        elif told.state == "recovered":
            finding.resolve(told.last_x, "info")
            self._spike_finding = None
        self.context.book.changed()

    def _tell_divergence(self, divergence: Divergence) -> None:
        first_x = self.context.first_x or 0
        if divergence.over:
            if self._diverged is not None:
                self._survived = max(self._survived, self._reached)
                self._longest = max(self._longest, divergence.below_x - self._diverged.first_step)
                lasted = divergence.below_x - self._diverged.first_step
                wasted = divergence.how == "above-start" and lasted >= MOST * (divergence.last_x - first_x)
                self._bruised = self._diverged if wasted else None
                self._diverged.resolve(divergence.last_x, "warning" if wasted else "info")
                self._diverged.claim.symptom += f"; back below from step {divergence.below_x:,} on"
                self._diverged = None
                self.context.book.changed()
            return
        if self._muted() or (divergence.how in ("above-start", "fallen") and not self._alone):
            return
        thrown = self._spike.spike
        if divergence.how == "fallen" and thrown is not None and thrown.outlier(divergence.level):
            # The weights are thrown off, the data and the rate are as before: it may take as long as it took to learn.
            self._relearns_until = thrown.first_x + (thrown.first_x - first_x)
            thrown.state = "lingering"
            self._tell_spike(thrown)
            return
        earlier = self._told_less("divergence")
        self._spike_finding = None
        self._slow.clear()
        # It began where the spike did: an explosion is told from two rising points, which noise may put later.
        spikes = [finding for finding in earlier if finding.kind == "loss-spike"]
        divergence.first_x = min([divergence.first_x, *(finding.first_step for finding in spikes)])
        usual: Severity = "warning" if divergence.how == "fallen" else "critical"
        claim, severity = self._parts.judge(self._name, divergence, usual)
        for finding in spikes:
            claim.evidence[:0] = finding.evidence
        self._reached = divergence.level
        if divergence.level <= SAME_HEIGHT * self._survived:
            # It has been there and came back: two models in turn, or a rate that swings. Worse only if it stays longer.
            severity = "info"
        self._diverged = self._open("divergence", claim, severity, divergence.first_x)
        self.context.take_in(self._diverged, earlier)

    def _told_less(self, *more: str) -> list[Finding]:
        """What is open and says less than a divergence does, which then has it on its card, with the weight of its own.

        Among `more` kinds.
        """
        kinds = ("loss-spike", "plateau", "never-learned", *more)
        earlier = [finding for kind in kinds for finding in self.context.book.find(kind, self.context.writer)]
        for finding in earlier:
            finding.severity = "info"
        return earlier

    def _tell_constant(self, same: Constant) -> None:
        """A loss that does not move in its last bit is no noisy plateau: something has stopped."""
        if same.level == 0.0 or abs(same.level) < SOLVED * abs(self._divergence.initial) or self._muted():
            return
        severity: Severity = "info" if self.context.rate.near_zero else "warning"
        claim = claims.constant(self._name, same, self.context.rate)
        self._same = self._open("plateau", claim, severity, same.first_x, same.last_x)

    def _slow_rules(self) -> None:
        """What takes a whole stretch of curve to say; looked at when a block of `Levels` is complete."""
        context, levels = self.context, self._levels
        if len(levels.blocks) < 16:
            return
        muted = self._muted() or self._diverged is not None or levels.blocks[-1].x1 < self._relearns_until
        diverged = self._diverged
        if diverged is not None:
            self._parts.follow(diverged)
        stays = diverged is not None and levels.blocks[-1].x1 - diverged.first_step > STAYS * self._longest > 0
        if diverged is not None and diverged.severity == "info" and stays:
            diverged.severity = "critical"
            context.book.changed()
        initial = self._divergence.initial
        if self._bruised is not None and LEARNED * (levels.blocks[-1].mean + levels.origin) < initial:
            self._bruised.severity, self._bruised = "info", None
            context.book.changed()
        if muted:
            return
        value = context.value
        fell_back = regressed.regressed(
            levels,
            initial,
            sudden=self._spike.shaken,
            least=value(regressed.RISE),
            errors=value(regressed.Z),
        )
        if fell_back is not None and min(self._signs) < AROUND_ZERO * sum(self._signs):
            told = self._slow.get("divergence")
            earlier = [finding for finding in self._told_less("divergence") if finding is not told]
            if self._worse is not None:
                earlier.append(self._worse)
                self._worse = None
            claim, severity = self._parts.judge(self._name, fell_back, "warning")
            self._keep("divergence", claim, severity, fell_back.first_x, fell_back.last_x)
            context.take_in(self._slow["divergence"], earlier)
            self._spike_finding = None
            self._slow.pop("plateau", None)
            self._slow.pop("never-learned", None)
            return
        self._miss("divergence")
        if not self._restarted and self._spike.logs:
            never = unlearned.unlearned(
                levels,
                initial,
                total_steps=context.total_steps,
                steps=value(unlearned.FLAT_STEPS),
                z=value(unlearned.WORSE_Z),
            )
            if never is not None:
                claim = claims.never_learned(self._name, never, context.rate)
                self._keep("never-learned", claim, "warning", never.initial_x, never.last_x)
            else:
                self._miss("never-learned")
        if len(levels.blocks) % PLATEAU_EVERY == 0 and "never-learned" not in self._slow and self._same is None:
            flat = plateau(levels, initial, move=value(SMALL))
            if flat is not None:
                severity = claims.plateau_severity(flat, context.rate, context.total_steps)
                claim = claims.plateau(self._name, flat, context.rate, context.total_steps)
                self._keep("plateau", claim, severity, flat.first_x, flat.last_x)
            else:
                self._miss("plateau")

    def _keep(self, kind: str, claim: Claim, severity: Severity, first_x: int, last_x: int) -> None:
        """Open a slow finding, or bring the one that is open up to date."""
        self._missing[kind] = 0
        finding = self._slow.get(kind)
        if finding is None or finding.status != "open" or not self.context.is_told(finding):
            self._slow[kind] = self._open(kind, claim, severity, first_x, last_x)
            return
        finding.claim, finding.severity, finding.last_step = claim, severity, last_x
        self.context.book.changed()

    def _miss(self, kind: str) -> None:
        finding = self._slow.get(kind)
        if finding is None:
            return
        self._missing[kind] = self._missing.get(kind, 0) + 1
        if self._missing[kind] >= PATIENCE:
            last_x = self._levels.blocks[-1].x1
            finding.resolve(last_x, "info")
            finding.claim.symptom += f"; {OVER[kind]} by step {last_x:,}"
            del self._slow[kind]
            self.context.book.changed()

    def _open(
        self, kind: str, claim: Claim, severity: Severity, first_x: int, last_x: int | None = None, where: str = ""
    ) -> Finding:
        return self.context.open(
            kind, claim, severity=severity, area=AREA, failure_mode=MODE, where=where or self._name, first_x=first_x,
            last_x=last_x,
        )  # fmt: skip
