"""What torch.compile is told about the hooks: not to look into them. The probe never imports it."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..arrivals import Arrivals
from ..outbox import Outbox
from ..progress import Progress

RULES = "torch._dynamo.trace_rules"

_told = False
"""Once a process: each time costs torch.compile 50 ms and a longer list."""


class CompiledSteps:
    """The steps of optimizers whose hooks torch.compile has traced.

    A hook that it does not trace breaks the graph; all that it can trace without is that `optimizer` is set here. That
    happens when the compiled code has run, and is noticed at the next event.
    """

    __slots__ = ("optimizer", "seen")

    def __init__(self) -> None:
        self.optimizer: Any = None
        """The one that has stepped; taken away at once, so that nothing keeps it alive."""
        self.seen: weakref.ReferenceType[Any] | None = None
        """The last one of which that was noticed."""

    def take(self) -> Any:
        """The optimizer that has stepped."""
        optimizer, self.optimizer = self.optimizer, None
        self.seen = weakref.ref(optimizer)
        return optimizer


def skip_hooks(progress: Progress) -> Arrivals:
    """Have torch.compile skip the hooks, from when the job first uses it; `stop` the result to wait no more."""

    def arrived(name: str) -> None:
        global _told
        if _told:
            return
        _told = True
        try:
            for place in (__package__, Outbox.__module__):
                sys.modules[name].add(place)
        except Exception as error:
            progress.disabled.append(f"torch.compile: {error}")

    arrivals = Arrivals([RULES], arrived)
    arrivals.start()
    return arrivals
