"""Whether what is trained is in training mode: looked at from the publisher thread, by plain attributes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import Any


class TrainedModels:
    """The models whose parameters the optimizers hold. Weak: nothing of the job is kept alive."""

    def __init__(self, models: Iterable[Any]) -> None:
        roots = list(models)
        self._roots = [weakref.ref(model) for model in roots]
        self.sensitive = sum(map(_sensitive, roots))
        """Modules that do something else in evaluation mode: dropout that drops something, batch norm."""

    def evaluating(self) -> bool | None:
        """Whether all models are in evaluation mode (a part may be on purpose); None: there is none any more."""
        modes = [root.__dict__.get("training") for ref in self._roots if (root := ref()) is not None]
        return not any(modes) if modes else None


def _sensitive(root: Any) -> int:
    """Walks by `__dict__`: an attribute of a module may be code of the job."""
    nn = sys.modules["torch"].nn
    drops, norms = nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm
    found, seen, waiting = 0, set[int](), [root]
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if issubclass(type(module), drops):
            found += bool(module.__dict__.get("p"))
        elif issubclass(type(module), norms):
            found += bool(module.__dict__.get("track_running_stats"))
        waiting.extend(child for child in module.__dict__.get("_modules", {}).values() if child is not None)
    return found
