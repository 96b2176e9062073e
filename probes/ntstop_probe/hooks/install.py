"""Arm and disarm the hooks of one process. Import this only once torch is loaded."""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from typing import Any

from ..arrivals import Arrivals
from ..outbox import Outbox
from ..progress import Progress
from ..traceable import optimizer_hooks, wrap_clip, wrap_total_norm, wrap_zero_grad
from .compiler import skip_hooks
from .facts import ModelFacts
from .settings import HookSettings
from .torch_hooks import TorchHooks
from .wrappers import wrap_backward, wrap_next, wrap_scale, wrap_scaler_step

__all__ = ["HookSettings", "Hooks", "ModelFacts", "arm"]

EVALUATION = frozenset({"eval", "evaluation", "validation", "val", "test"})
"""Names of a phase that all mean "eval"."""

_armed: weakref.WeakSet[Hooks] = weakref.WeakSet()
_watching_forks = False


def arm(outbox: Outbox, progress: Progress, settings: HookSettings) -> Hooks:
    """Put the hooks of `patches` in place. From then on finished steps come out of `outbox`.

    Raises nothing for a version of torch that lacks one of the places: what is not there is not measured.
    """
    hooks = Hooks(outbox, progress, settings)
    hooks.arm()
    _armed.add(hooks)
    _watch_for_forks()
    return hooks


def _watch_for_forks() -> None:
    global _watching_forks
    if not _watching_forks and hasattr(os, "register_at_fork"):
        _watching_forks = True
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    """A child (a loader's worker, say) is not the training process: it gets torch as it was."""
    for hooks in list(_armed):
        hooks.disarm(forked=True)


class Hooks:
    """Armed hooks. `disarm` and `finish` belong on the training thread, or to a moment when nothing trains."""

    def __init__(self, outbox: Outbox, progress: Progress, settings: HookSettings) -> None:
        self._facts = ModelFacts()
        self._progress = progress
        self._hooks = TorchHooks(outbox, progress, settings, self._facts)
        self._compiler: Arrivals | None = None

    def arm(self) -> None:
        """Done by `arm`, and to be done again only after `disarm`: the count of steps goes on."""
        hooks = self._hooks
        hooks.active = True
        self._progress.saw_torch = True
        self._compiler = self._compiler or skip_hooks(self._progress)
        before, after = optimizer_hooks(hooks)
        wrappers = {
            "next": wrap_next,
            "backward": wrap_backward,
            "total_norm": wrap_total_norm,
            "clip": wrap_clip,
            "scale": wrap_scale,
            "scaler_step": wrap_scaler_step,
            "zero_grad": wrap_zero_grad,
        }
        hooks.patched.apply(
            {name: functools.partial(wrap, hooks) for name, wrap in wrappers.items()},
            {"optimizer_pre": before, "optimizer_post": after},
        )

    def disarm(self, forked: bool = False) -> None:
        """Put back every function that was replaced; the training thread is left alone.

        From another thread than the one that trains, torch's own list of hooks is left alone (it may be going through
        it right now): the two entries in it stay, and do nothing. A process just `forked` has no other thread.
        """
        hooks = self._hooks
        training_elsewhere = not forked and hooks.owner not in (None, threading.get_ident())
        hooks.active = False
        hooks.owner = None
        hooks.patched.put_back()
        if self._compiler is not None:
            self._compiler.stop()
            self._compiler = None
        if not training_elsewhere:
            hooks.patched.unregister()
        _armed.discard(self)

    def watch(self, model: Any | None, *optimizers: Any) -> None:
        """Names and parameter counts come from `model` (and what `optimizers` hold besides)."""
        self._hooks.layers.watch(model, optimizers)

    def enter_phase(self, name: str) -> None:
        """The time from now on is `name`'s ("eval", "checkpoint", or the user's own). On the training thread."""
        if self._hooks.active:
            self._hooks.machine.phase_begin(time.monotonic(), "eval" if name in EVALUATION else name)

    def exit_phase(self) -> None:
        """The phase entered last ends."""
        if self._hooks.active:
            self._hooks.machine.phase_end(time.monotonic())

    def note_step(self, step: int, source: str, epoch: int | None = None) -> None:
        """The open step is the job's own `step`, says `source`: "trainer" (believed at once) or "user" (when it fits).

        On the training thread, from the step's first fetch or backward on, up to the fetch after its optimizer step;
        calls from other threads are ignored.
        """
        hooks = self._hooks
        if hooks.active and hooks.owner == threading.get_ident():
            hooks.machine.note_step(step, source, epoch)

    def losses_times(self, factor: float) -> float | None:
        """Until it is called again: the roots of backwards are losses divided by `factor`. Returns what it was before;
        None on another than the training thread, where nothing is done."""
        hooks = self._hooks
        if not hooks.active or hooks.owner not in (None, threading.get_ident()):
            return None
        before, hooks.loss_factor = hooks.loss_factor, factor
        return before

    def facts(self) -> ModelFacts:
        """What has been seen of the training so far; the same object each time, `version` tells of changes."""
        return self._facts

    @property
    def missing(self) -> list[str]:
        """Places of the patch table that this version of torch does not have."""
        return self._hooks.patched.missing

    def finish(self) -> None:
        """The training is over: close the open step, and let go of rows that wait for numbers."""
        if self._hooks.active:
            if self._hooks.compiled.optimizer is not None:
                self._hooks.compiled_step()
            self._hooks.finish()
