"""What the gradients of the layers were in the last samples before numbers stopped being numbers: did one announce
it?"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ..finding import Evidence
from ..layer_names import NAMED

SAMPLES: Final = 5
"""Newest samples that are kept, the last one and those it is compared with."""
LEAST: Final = 3
"""So many before the last one make a level."""
GREW: Final = 10.0
"""Times its level: the bound of exploding-gradients."""


@dataclass(frozen=True, slots=True)
class _Sample:
    ordinal: int
    x: int
    names: Sequence[str]
    norms: Sequence[float | None]


class Foregoing:
    """Feed it the samples in which all is finite; ask it for what came before a step."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    def add(self, ordinal: int, x: int, names: Sequence[str], norms: Sequence[float | None] | None) -> None:
        """One sample of the norms of the layers' gradients."""
        if norms is not None:
            self._samples.append(_Sample(ordinal, x, names, norms))

    def evidence(self, ordinal: int) -> Evidence | None:
        """The last sample before the step `ordinal`, and the layers whose gradient had grown in it by then."""
        before = [sample for sample in self._samples if sample.ordinal < ordinal]
        if not before:
            return None
        last = before[-1]
        text = f"all gradients were finite in the last sample before, step {last.x:,}"
        earlier = [sample for sample in before[:-1] if sample.names == last.names]
        if len(earlier) < LEAST:
            return Evidence(text, "grad_norm", last.x)
        grown = sorted(_growths(last, earlier), reverse=True)
        if not grown:
            since = f"of the {len(earlier)} samples from step {earlier[0].x:,} on"
            return Evidence(f"{text}, none over {GREW:.0f} times its level {since}", "grad_norm", last.x)
        named = ", ".join(f"{name} to {times:,.0f} times" for times, name in grown[:NAMED])
        more = f" and {len(grown) - NAMED} more" if len(grown) > NAMED else ""
        return Evidence(f"{text}, and had grown in {named} its level{more}", "grad_norm", last.x, grown[0][0], "times")


def _growths(last: _Sample, earlier: Sequence[_Sample]) -> list[tuple[float, str]]:
    found = []
    for index, (name, norm) in enumerate(zip(last.names, last.norms, strict=False)):
        known = [norms[index] for norms in (sample.norms for sample in earlier) if index < len(norms)]
        level = median([one for one in known if one is not None] or [0.0])
        if norm is not None and level > 0.0 and norm >= GREW * level:
            found.append((norm / level, name))
    return found
