"""What can watch a training, each as it is meant to be used, and each to be switched off and on again in one process.

`off` leaves no hook of the watcher's that does anything, so that a block of steps with it off is what the block with
it on is compared with: two processes of the same program differ by more than what is measured here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from tests.bench.workloads import Workload


class Watcher:
    """Nothing at all: also the base of the others."""

    def __init__(self, workload: Workload) -> None:
        """Begins switched on."""
        self.workload = workload

    def off(self) -> None: ...

    def on(self) -> None: ...

    def around(self) -> Any:
        """What the training loop puts around a step, when it is on."""
        return contextlib.nullcontext()

    def stepped(self, loss: Any) -> None:
        """What the training loop calls after a step, when it is on."""

    def own_seconds(self) -> float | None:
        """What it says it has spent on the training thread, in all."""
        return None

    def interval(self) -> int | None:
        """Steps from one look at the layers to the next, as it is now."""
        return None


class Ntstop(Watcher):
    """`ntstop_probe.watch`, timing and loss only."""

    layers = False

    def __init__(self, workload: Workload) -> None:
        import ntstop_probe
        from ntstop_probe import core

        super().__init__(workload)
        ntstop_probe.watch(workload.model, workload.optimizer, layers=self.layers)
        probe = core.current()
        assert probe is not None
        assert probe.hooks is not None
        self._probe, self._hooks = probe, probe.hooks
        self._pause = contextlib.ExitStack()

    def off(self) -> None:
        # The time until `on` is told as an evaluation: it must not count as a step of many seconds.
        import ntstop_probe

        self._pause.enter_context(ntstop_probe.phase("eval"))
        self._hooks.disarm()

    def on(self) -> None:
        self._hooks.arm()
        self._pause.close()

    def own_seconds(self) -> float:
        return self._probe.progress.cost

    def interval(self) -> int | None:
        return self._probe.progress.layer_interval


class NtstopLayers(Ntstop):
    """The same with layer statistics, at the default budget."""

    layers = True


class TraceML(Watcher):
    """`traceml run`, `init`, and `trace_step` around each step; off: all its patches but that of DataLoader undone."""

    def __init__(self, workload: Workload) -> None:
        import traceml_ai

        super().__init__(workload)
        places: list[tuple[Any, str]] = [
            (torch.nn.Module, "__call__"),
            (torch.Tensor, "backward"),
            (torch.autograd, "backward"),
            (torch.Tensor, "to"),
        ]
        self._other = [(owner, name, getattr(owner, name)) for owner, name in places]
        self._optimizer_hooks: list[dict[Any, Any]] = [{}, {}]
        traceml_ai.init(mode="auto")
        self._trace_step = traceml_ai.trace_step

    def off(self) -> None:
        self._swap()

    def on(self) -> None:
        self._swap()

    def _swap(self) -> None:
        for index, (owner, name, other) in enumerate(self._other):
            self._other[index] = owner, name, getattr(owner, name)
            setattr(owner, name, other)
        registered = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks
        for index, hooks in enumerate(registered):
            self._optimizer_hooks[index], now = dict(hooks), self._optimizer_hooks[index]
            hooks.clear()
            hooks.update(now)

    def around(self) -> Any:
        return self._trace_step(self.workload.model)


class Wandb(Watcher):
    """`wandb.watch(model, log="all")` and the loss through `log`, offline; off: its hooks are taken out."""

    def __init__(self, workload: Workload) -> None:
        import wandb

        super().__init__(workload)
        self._run = wandb.init(mode="offline", project="bench", settings=wandb.Settings(silent=True))
        self._run.watch(workload.model, log="all", log_freq=int(os.environ["BENCH_WANDB_EVERY"]))
        self._removed: list[tuple[Any, Any, Any]] = []

    def off(self) -> None:
        # Not `unwatch`: a hook set anew would count its steps from 0 and never come to look.
        for handle in self._run._torch._hook_handles.values():
            hooks = handle.hooks_dict_ref()
            self._removed.append((hooks, handle.id, hooks.pop(handle.id)))

    def on(self) -> None:
        for hooks, key, hook in self._removed:
            hooks[key] = hook
        self._removed.clear()

    def stepped(self, loss: Any) -> None:
        self._run.log({"loss": loss.item()})


WATCHERS: dict[str, Callable[[Workload], Watcher]] = {
    "bare": Watcher,
    "ntstop timing": Ntstop,
    "ntstop layers": NtstopLayers,
    "traceml-ai": TraceML,
    "wandb.watch": Wandb,
}
