"""The one table of what the probe changes in torch, why, and how it is undone. Nothing is changed per module.

A *replacement* puts a wrapper where a function was and puts that very function back; a *registration* uses a hook that
torch offers to everyone. If somebody has wrapped our wrapper meanwhile, it stays, and only passes calls through.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Replacement:
    """`attribute` ("name" or "Class.name") of `module` is replaced by what `wrapper` makes of it."""

    module: str
    attribute: str
    wrapper: str
    why: str


@dataclass(frozen=True, slots=True)
class Registration:
    """`function` of `torch.optim.optimizer` is called with `hook`; its handle removes the hook."""

    function: str
    hook: str
    why: str


REPLACEMENTS = (
    Replacement(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter.__next__",
        "next",
        "when the job waits for data. Not DataLoader.__iter__: that would draw the base seed at another moment",
    ),
    Replacement(
        "torch.autograd",
        "backward",
        "backward",
        "every loss root: Tensor.backward looks this attribute up when it is called",
    ),
    Replacement(
        "torch.nn.utils.clip_grad",
        "_get_total_norm",
        "total_norm",
        "which norm clipping measures; also for those who imported clip_grad_norm_ before",
    ),
    Replacement(
        "torch.nn.utils.clip_grad",
        "_clip_grads_with_norm_",
        "clip",
        "the gradient norm before clipping and what it is clipped to, without computing it again",
    ),
    Replacement(
        "torch.amp.grad_scaler",
        "GradScaler.scale",
        "scale",
        "the loss before it is scaled",
    ),
    Replacement(
        "torch.amp.grad_scaler",
        "GradScaler.step",
        "scaler_step",
        "the loss scale, and the steps that are skipped: those fire no optimizer hook",
    ),
    Replacement(
        "torch.optim.optimizer",
        "Optimizer.zero_grad",
        "zero_grad",
        "whether gradients are cleared between steps, as evidence: forgotten, they pile up",
    ),
    Replacement("torch.nn.modules.module", "Module.zero_grad", "zero_grad", "the same, where the model is asked to"),
)

WHILE_CLIPPING = Replacement(
    "torch",
    "_foreach_norm",
    "captured",
    "the norms of single gradients that clipping takes on its way; only while it measures, in a step that is looked at",
)
"""The one that is not there all the time: `replaced` puts it in and back again."""

REGISTRATIONS = (
    Registration("register_optimizer_step_pre_hook", "optimizer_pre", "when an optimizer begins to step"),
    Registration("register_optimizer_step_post_hook", "optimizer_post", "when an optimizer has stepped"),
)


@contextlib.contextmanager
def replaced(entry: Replacement, replacement: Callable[..., Any]) -> Iterator[None]:
    """`replacement` stands in the place of `entry`, a plain function of its module, for the time being."""
    module = importlib.import_module(entry.module)
    original = getattr(module, entry.attribute)
    setattr(module, entry.attribute, replacement)
    try:
        yield
    finally:
        if getattr(module, entry.attribute) is replacement:
            setattr(module, entry.attribute, original)


class Patched:
    """What has been changed, and the way back."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._handles: list[Any] = []
        self.missing: list[str] = []
        """Replacements that this version of torch has no place for."""

    def apply(self, wrappers: Mapping[str, Callable[[Any], Any]], hooks: Mapping[str, Any]) -> None:
        """Do all of the table; `wrappers` and `hooks` by the names in it."""
        for entry in REPLACEMENTS:
            owner_path, _, name = entry.attribute.rpartition(".")
            try:
                owner = importlib.import_module(entry.module)
                if owner_path:
                    owner = getattr(owner, owner_path)
                original = vars(owner)[name]
            except (ImportError, AttributeError, KeyError):
                self.missing.append(f"{entry.module}.{entry.attribute}")
                continue
            replacement = wrappers[entry.wrapper](original)
            setattr(owner, name, replacement)
            self._replaced.append((owner, name, original, replacement))
        optimizer = importlib.import_module("torch.optim.optimizer")
        for registration in REGISTRATIONS:
            self._handles.append(getattr(optimizer, registration.function)(hooks[registration.hook]))

    def put_back(self) -> None:
        """Undo the replacements. Safe inside a hook."""
        replaced, self._replaced = self._replaced, []
        for owner, name, original, replacement in reversed(replaced):
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)

    def unregister(self) -> None:
        """Undo the registrations. Not inside an optimizer's step: torch is going through its hooks then."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
