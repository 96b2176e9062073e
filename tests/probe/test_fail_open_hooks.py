"""A fault in whatever of the probe the training thread runs: the job never sees it, and comes to the same weights.

Every function of the hooks that a training enters is made to fail in turn, by a trace function that raises as it is
entered: none has to be listed here, and none can be forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from torch import nn

import ntstop_probe
from ntstop_probe import core
from ntstop_probe.core import Probe
from ntstop_probe.hooks.install import Hooks, HookSettings, arm
from ntstop_probe.outbox import Outbox
from ntstop_probe.progress import Progress
from ntstop_probe.rows import EventRow

from .training import armed, loader, loss_of, mlp, train

PACKAGE = str(Path(ntstop_probe.__file__).parent)
FAULTS: tuple[type[BaseException], ...] = (RuntimeError, MemoryError, RecursionError)


def training(hooks: Hooks | None = None) -> str:
    """Something of everything that is followed; the SHA-256 of the weights and of the state of the random numbers."""
    model, critic = mlp(0), mlp(1)
    if hooks is not None:
        # Or the models would be searched for among all objects there are, which takes a while when it is traced.
        for module in (model, critic):
            with contextlib.suppress(Exception):  # As `ntstop_probe.watch` does.
                hooks.watch(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    other = torch.optim.LBFGS(critic.parameters(), lr=0.1, max_iter=2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2)
    batches, held_out = loader(), loader(16)
    for epoch in range(3):
        for place, batch in enumerate(batches):
            loss = loss_of(model, batch)
            if epoch == 1:
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
            else:
                loss.backward()
            if place % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if epoch == 1:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            for batch in held_out:
                loss_of(model, batch)
    whole = next(iter(loader(32, 32)))

    def closure() -> torch.Tensor:
        other.zero_grad()
        loss = loss_of(critic, whole)
        loss.backward()
        return loss

    for _ in range(2):
        other.step(closure)
    optimizer.add_param_group({"params": [critic[3].bias], "lr": 0.1})
    (loss_of(model, whole) * float("nan")).backward()
    digest = hashlib.sha256()
    for tensor in (*model.state_dict().values(), *critic.state_dict().values(), torch.get_rng_state()):
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


GUARDS = {
    *(f"TorchHooks.{name}" for name in ("claim", "claim_fetch", "fetch_raised", "fail", "zeroed")),
    *(f"Clipping.{name}" for name in ("measured", "measure", "scales")),
    *("Captured.during", "Captured.during.<locals>._foreach_norm"),
}
"""Called by the wrappers outside of their own `try`: each begins with one, or has nothing in it that can fail."""


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


class Tracer:
    """What the training thread enters of the probe, and a fault at the `nth` time that it enters `target`."""

    def __init__(self, target: CodeType | None = None, nth: int = 1, error: type[BaseException] = RuntimeError) -> None:
        self.entered: Counter[CodeType] = Counter()
        self.doors: set[CodeType] = set()
        """Functions that the job calls, or that do nothing but guard: a fault before their first line is not ours."""
        self.fired = False
        self._target, self._nth, self._error = target, nth, error

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not is_ours(code):
            return
        caller = frame.f_back
        if caller is None or not is_ours(caller.f_code) or code.co_qualname in GUARDS:
            self.doors.add(code)
        self.entered[code] += 1
        if code is self._target and self.entered[code] >= self._nth:
            self.fired = True
            raise self._error("injected")

    def train(self, hooks: Hooks) -> str:
        sys.settrace(self)
        try:
            return training(hooks)
        finally:
            sys.settrace(None)


@pytest.fixture(scope="module")
def bare() -> str:
    return training()


@pytest.fixture(scope="module")
def functions() -> dict[CodeType, int]:
    """The functions behind the doors, and how often one training enters each."""
    # What is imported only once is imported now.
    training()
    tracer = Tracer()
    with armed(budget=1.0) as probe:
        tracer.train(probe.hooks)
        assert probe.progress.disabled == []
    return {code: count for code, count in tracer.entered.items() if code not in tracer.doors}


def test_the_training_enters_the_hooks_at_all(functions: dict[CodeType, int]) -> None:
    names = {code.co_name for code in functions}
    assert {"next_begin", "backward_begin", "optimizer_end", "read_root", "note_norm", "before", "put"} <= names
    assert len(functions) > 50


def test_no_fault_behind_the_hooks_reaches_the_job_or_is_told_twice(bare: str, functions: dict[CodeType, int]) -> None:
    """Every other function fails at once, the others later on, when there is more that could be left half done."""
    wrong: list[str] = []
    for place, (code, count) in enumerate(functions.items()):
        nth = 1 if place % 2 else max(1, count // 2)
        tracer = Tracer(code, nth, FAULTS[place % len(FAULTS)])
        wrong += [f"{code.co_qualname}: {text}" for text in faults_of(tracer, bare)]
    assert wrong == []


def test_a_batch_that_was_only_looked_at_does_not_disarm_the_hooks() -> None:
    """Its iterator is gone before the next fetch, and with it what a dictionary would know it by."""
    with armed() as probe:
        for _ in range(3):
            next(iter(loader()))
        model = mlp()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
        next(iter(loader()))
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
        assert probe.progress.disabled == []
        assert len(probe.steps) == 8


def faults_of(tracer: Tracer, bare: str) -> Iterator[str]:
    outbox, progress = Outbox(), Progress()
    hooks = arm(outbox, progress, HookSettings(budget=1.0))
    try:
        if tracer.train(hooks) != bare:
            yield "other weights"
    except Exception as error:
        yield f"reached the job: {error!r}"
    finally:
        with contextlib.suppress(Exception):
            hooks.finish()  # As the end of a job does.
        hooks.disarm()
    told = [row.text for row in outbox.drain(1_000_000) if isinstance(row, EventRow) and row.kind == "warning"]
    if not tracer.fired:
        yield "was not reached"
    if len(told) != len(progress.disabled) or len(told) > 1:
        yield f"told {told}, shown {progress.disabled}"


def test_where_nobody_can_take_what_the_hooks_have_to_tell_they_are_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more_threads(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("can't start new thread")

    places = torch.autograd.backward, torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    said: list[str] = []
    monkeypatch.setattr(core, "say", said.append)
    monkeypatch.setattr(Probe, "start", no_more_threads)
    probe = Probe()
    probe.arm()
    assert torch.autograd.backward is not places[0]
    model = mlp()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
    assert (torch.autograd.backward, torch.utils.data.dataloader._BaseDataLoaderIter.__next__) == places
    assert len(said) == 1
    assert "can't start new thread" in said[0]
    assert probe.hooks is not None
    probe.hooks.disarm()
