"""Be told when the job has imported a module, without importing it for a job that does not use it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from .hooks.early import NotifyingLoader


class Arrivals(MetaPathFinder):
    """Calls `arrived(name)` for each of `names`, once: at `start` when it is there already, else when it is imported.

    Stands in `sys.meta_path` and finds nothing itself. What `arrived` raises is swallowed: an import never fails
    because of us. A module that is half imported at `start` is looked at again with every later import, and by `again`.
    """

    def __init__(self, names: Iterable[str], arrived: Callable[[str], None]) -> None:
        self._waiting = dict.fromkeys(names)
        self._late: list[str] = []
        """Modules whose import had begun before we were there to follow it."""
        self._arrived = arrived
        self._searching: set[str] = set()

    def start(self) -> None:
        """Look at what has been imported, and wait for the rest."""
        sys.meta_path.insert(0, self)
        self._late = [name for name in self._waiting if name in sys.modules]
        self.again()

    def stop(self) -> None:
        """Wait no more."""
        self._waiting.clear()
        self._late = []
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def again(self) -> None:
        """Look at the modules whose import we could not follow."""
        for name in list(self._late):
            module = sys.modules.get(name)
            if module is None or not _is_importing(module):
                self._late.remove(name)
                if module is not None:
                    self._tell(name)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, with a loader that tells us when it is done; None for most modules."""
        # What goes wrong with another finder goes wrong again when that is asked itself.
        with contextlib.suppress(Exception):
            return self._find(fullname, path, target)
        return None

    def _find(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        if self._late:
            self.again()
        if fullname not in self._waiting or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = NotifyingLoader(spec.loader, lambda: self._tell(fullname))
        return spec

    def _ask_others(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _tell(self, name: str) -> None:
        if name in self._waiting:
            del self._waiting[name]
            with contextlib.suppress(Exception):
                self._arrived(name)


def _is_importing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
