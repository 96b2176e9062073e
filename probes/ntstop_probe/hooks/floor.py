"""What every step pays for the hooks, by what the steps took one by one. Pure.

An average would do on an idle machine. On a busy one a step is now and then interrupted in the middle of a hook, for
some milliseconds, a hundred times what the hook takes: such steps are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

REMEMBERED = 32
"""Steps of a kind whose costs are remembered."""
WILD = 0.25
"""Of those, how many may have been interrupted: the dearest, which do not count."""


class Floor:
    """Seconds by kind of step, without what looking at layers took: those that go the long way, and the light ones."""

    def __init__(self) -> None:
        self._long: deque[float] = deque(maxlen=REMEMBERED)
        self._light: deque[float] = deque(maxlen=REMEMBERED)
        self._count = 0

    def long_step(self, seconds: float) -> None:
        """A step that went the long way."""
        self._long.append(seconds)
        self._count += 1

    def light_steps(self, seconds: Sequence[float]) -> None:
        """Light steps, as many as were measured."""
        self._light.extend(seconds)

    @property
    def light(self) -> float:
        """Of a light step."""
        return typical(self._light)

    def per_step(self, steps: int) -> float:
        """Over the last `steps` steps, since the last time: all that did not go the long way were light."""
        long, self._count = min(self._count, steps), 0
        return (long * typical(self._long) + (steps - long) * self.light) / steps

    def forget(self) -> None:
        """What was measured so far says nothing about what comes."""
        self._long.clear()
        self._light.clear()
        self._count = 0


def typical(seconds: Sequence[float]) -> float:
    """The mean without the dearest quarter; 0 for none."""
    if not seconds:
        return 0.0
    usual = sorted(seconds)[: max(1, int(len(seconds) * (1.0 - WILD)))]
    return sum(usual) / len(usual)
