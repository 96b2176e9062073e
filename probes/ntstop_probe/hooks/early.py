"""Wait until the job has imported torch, without importing it for a job that does not use it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

TRIGGER = "torch"
"""`import torch` imports `torch.optim` half way through; the hooks need the rest of torch to be there as well."""


def when_torch_is_used(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` once, when `import torch` (and with it `torch.optim`) is done; at once when it has been already.

    Returns a function that gives up waiting. What `callback` raises is swallowed: an import never fails because of us.
    """
    if _is_imported():
        _call(callback)
        return _nothing
    watcher = _Watcher(callback)
    sys.meta_path.insert(0, watcher)
    return watcher.remove


def _is_imported() -> bool:
    module = sys.modules.get(TRIGGER)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def _nothing() -> None:
    pass


def _call(callback: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        callback()


class _Watcher(MetaPathFinder):
    """First in `sys.meta_path`: finds nothing itself, but wraps the loader that the others find for the trigger."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TRIGGER or self._searching:
            return None
        self._searching = True
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = NotifyingLoader(spec.loader, self._imported)
        return spec

    @staticmethod
    def _ask_others(fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            if isinstance(finder, _Watcher):
                continue
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                return spec
        return None

    def _imported(self) -> None:
        self.remove()
        _call(self._callback)

    def remove(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)


class NotifyingLoader(Loader):
    """The real loader, with a call at the end of `exec_module`; the module is given its real loader back."""

    def __init__(self, loader: Loader, done: Callable[[], None]) -> None:
        self._loader = loader
        self._done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
