"""What torch.compile has done so far, from the counts that it keeps itself. Nothing of it is imported or patched."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..wire import Compiler, Record

_WHOLE_COMPILATIONS = ("_compile.compile_inner", "entire_frame_compile")
"""Where the seconds of each compilation are kept, newest torch first."""


class CompilerSampler:
    """Silent until the job has compiled something."""

    name = "compiler"
    interval = 1.0

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def sample(self) -> Sequence[Record]:
        """A `Compiler` record, once there are graphs, breaks or recompilations."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        counters: Any = getattr(utils, "counters", None)
        if not isinstance(counters, Mapping):
            return []
        # Looked up with `get`: the counters are made by asking for them.
        graphs = self._total("graphs", _get(counters, "stats").get("unique_graphs", 0))
        breaks = self._total("breaks", sum(list(_get(counters, "graph_break").values())))
        recompiles = self._total("recompiles", _recompiles())
        if not graphs and not breaks and not recompiles:
            return []
        return [
            Compiler(
                t=time.monotonic(),
                graphs=_whole(graphs),
                graph_breaks=_whole(breaks),
                recompiles=_whole(recompiles),
                seconds=self._total("seconds", _seconds(utils)),
            )
        ]

    def _total(self, name: str, count: float | None) -> float | None:
        """`count` since the start, although `torch._dynamo.reset()` begins anew."""
        if count is None:
            if name not in self._last:
                return None
            count = 0.0
        last = self._last.get(name, 0.0)
        if count < last:
            self._before[name] = self._before.get(name, 0.0) + last
        self._last[name] = count
        return self._before.get(name, 0.0) + count


def _recompiles() -> float | None:
    """Compilations of a frame beyond its first."""
    counts: Any = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    return sum(max(0, count - 1) for count in list(counts.values())) if isinstance(counts, Mapping) else None


def _seconds(utils: Any) -> float | None:
    times: Any = getattr(utils, "compilation_time_metrics", None)
    if not isinstance(times, Mapping):
        return None
    found = next((times[name] for name in _WHOLE_COMPILATIONS if name in times), None)
    return None if found is None else float(sum(list(found)))


def _get(counters: Mapping[str, Any], name: str) -> Mapping[Any, Any]:
    found = counters.get(name)
    return found if isinstance(found, Mapping) else {}


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)
