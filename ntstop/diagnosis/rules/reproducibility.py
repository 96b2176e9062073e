"""Could someone run this again: a note once a run, because a diagnosis of an unrepeatable run cannot be checked."""

from __future__ import annotations

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, StepBlock
from ..finding import Claim, Evidence, Finding
from ..reproduction import missing_parts
from .base import Rule, rule

KIND = "unreproducible"
UNREPRODUCIBLE = kind(
    KIND,
    "reproducibility",
    "checkpoint/recovery",
    meaning="The run cannot be repeated exactly, so what is said of it cannot be checked by a second run.",
    detector="What the manifest lacks of commit, clean tree, seed, configuration, data hash and versions, once git has "
    "answered; said once for a run.",
    severity="info.",
)


@rule
class UnreproducibleRule(Rule):
    """unreproducible: info, once a run, with what is missing; resolved when a later manifest has it all.

    Said of a process that trains, once its manifest is settled: git may answer a second after the first steps.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._finding: Finding | None = None

    def hello(self, hello: wire.Hello) -> None:
        if self._finding is not None or self.context.steps:
            self._update(hello)

    def steps(self, block: StepBlock) -> None:
        hello = self.context.hello
        if self._finding is None and hello is not None:
            self._update(hello)

    def _update(self, hello: wire.Hello) -> None:
        if hello.rank or not hello.manifest.settled:
            return
        missing = missing_parts(hello.manifest)
        if not missing:
            if self._finding is not None and self._finding.status == "open":
                self._finding.resolve(self.context.last_x)
                self.context.book.changed()
            return
        claim = Claim(
            symptom=f"cannot be repeated exactly: no {', no '.join(missing)}",
            hypothesis=_hypothesis(missing),
            fix=_fix(missing),
            confidence="high: the manifest says so. What is absent from it may be known outside the run.",
            evidence=[Evidence(_EVIDENCE.get(part, f"{part}: none in the manifest"), "manifest") for part in missing],
        )
        if self._finding is None:
            # One for the run: another process of it may have said so already.
            if any(finding.kind == KIND for finding in self.context.book):
                return
            self._finding = self.context.open(
                KIND,
                claim,
                severity="info",
                area=UNREPRODUCIBLE.area,
                failure_mode=None,
                where="manifest",
                first_x=self.context.first_x or 0,
            )
        elif self._finding.claim.symptom != claim.symptom:
            self._finding.claim = claim
            self.context.book.changed()


_DIRTY = "clean git tree"
_EVIDENCE = {_DIRTY: "git: files differed from the commit when the run began"}


def _hypothesis(missing: list[str]) -> str:
    """Why it is so: what was changed after the commit is there for all to see, the rest nobody has said."""
    unsaid = "The job did not say it, and the probe could not find it by itself."
    if _DIRTY not in missing:
        return unsaid
    dirty = "The run began with changes that are in no commit."
    return dirty if len(missing) == 1 else f"{dirty} The rest the job did not say, and the probe could not find."


def _fix(missing: list[str]) -> str:
    hints = {
        "git SHA": "run from a git checkout",
        "clean git tree": "commit before the run",
        "seed": "call torch.manual_seed(n)",
        "config": "watch(config={...})",
        "data hash": 'watch(data_hash="...")',
        "versions": "install the packages with metadata",
    }
    return "; ".join(hints[part] for part in missing if part in hints) + "."
