"""What the logged parts of a loss say about its divergence: training went wrong, or what it is after has changed."""

from __future__ import annotations

from dataclasses import replace

from .. import curve_claims as claims
from ..context import Context
from ..detectors import regressed
from ..detectors.divergence import Divergence
from ..detectors.parts import Parts, PartsWatch
from ..finding import Claim, Finding, Severity


class ObjectiveWatch(PartsWatch):
    """The parts, and the divergence that they are asked about."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._name = ""
        self._told: Divergence | None = None
        self._usual: Severity = "warning"
        self._lowered = False

    def judge(self, name: str, found: Divergence, usual: Severity) -> tuple[Claim, Severity]:
        """What is said of a divergence, and how heavy it is: a note where by the weights of before nothing is lost."""
        self._name, self._told, self._usual = name, replace(found), usual
        parts = self.since(found.first_x)
        self._lowered = self._nothing_lost(found, parts)
        return claims.divergence(name, found, self.context.rate, parts), "info" if self._lowered else usual

    def follow(self, finding: Finding) -> None:
        """Ask again, of the divergence that was judged last and is open: the parts are logged behind it."""
        found = self._told
        parts = None if found is None else self.since(found.first_x)
        if found is None or parts is None or not (parts.changed or parts.apart):
            return
        claim = claims.divergence(self._name, found, self.context.rate, parts)
        finding.claim = claim
        lowered = self._nothing_lost(found, parts)
        if lowered != self._lowered:
            finding.severity = "info" if lowered else self._usual
            self._lowered = lowered
        self.context.book.changed()

    def _nothing_lost(self, found: Divergence, parts: Parts | None) -> bool:
        return claims.nothing_lost(found, parts, self.context.value(regressed.RISE))
