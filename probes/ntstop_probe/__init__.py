"""ntstop's probe: says what a PyTorch training run is doing, without touching it.

    import ntstop_probe

    ntstop_probe.watch(model, optimizer)               # once, before training
    ntstop_probe.log({"val/loss": loss}, step=step)    # whatever else is worth a curve
    with ntstop_probe.phase("eval"):                   # this time is not training
        ...
    ntstop_probe.checkpoint(path)

None of them raises, waits for a device or changes the result of the training. `NTSTOP=0` in the environment makes all
of them do nothing. Importing this module imports nothing else of weight.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    from .core import Probe

__version__ = "0.1.0"
__all__ = ["__version__", "checkpoint", "log", "mark", "phase", "stop", "watch"]

_complained = False


def watch(
    model: Any = None,
    *optimizers: Any,
    config: object = None,
    data_hash: str | None = None,
    total_steps: int | None = None,
    title: str | None = None,
    layers: bool = True,
    budget: float | None = None,
) -> None:
    """Publish this process's training. Call it once the model and the optimizers exist; again, to add to it.

    Everything is optional: `model` names the layers, `config` and `data_hash` make the run repeatable, `total_steps`
    gives an end to wait for. `layers=False` leaves out all statistics of layers; `budget` is the share of the step
    time that the probe may cost (default 0.01).
    """
    try:
        probe = _probe(asked=True)
        if probe is not None:
            probe.watch(
                model,
                optimizers,
                layers=layers,
                budget=budget,
                config=config,
                data_hash=data_hash,
                total_steps=total_steps,
                title=title,
            )
    except Exception as error:
        _complain("watch", error)


def log(values: Mapping[str, object] | None = None, /, step: int | None = None, **more: object) -> None:
    """Publish numbers under names of your own: `log({"val/loss": 2.3}, step=100)` or `log(accuracy=0.9)`.

    A number is a float, an int, or a tensor of one element in host memory; a CUDA tensor is left out, because reading
    it would make the training wait. Without `step` they belong to the step they are logged in.
    """
    try:
        probe = _probe()
        if probe is not None:
            probe.start(asked=True)
            probe.log({**(values or {}), **more}, step)
    except Exception as error:
        _complain("log", error)


class phase:
    """Say what the training thread does in a `with` block: "eval", "checkpoint", or a name of your own.

    Its time counts neither as training nor as a stall.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.monotonic()
        try:
            probe = _probe()
            if probe is not None:
                probe.start(asked=True)
                probe.enter_phase(str(self._name))
        except Exception as error:
            _complain("phase", error)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            probe = _probe()
            if probe is not None:
                probe.exit_phase(str(self._name), time.monotonic() - self._since)
        except Exception as error:
            _complain("phase", error)


def checkpoint(path: object, duration: float | None = None) -> None:
    """Say that a checkpoint was written to `path`, and how many seconds that took."""
    _event("checkpoint", path, duration)


def mark(text: object) -> None:
    """Put a mark with a text at this step."""
    _event("mark", text)


def stop() -> None:
    """End the publishing before the process ends; nothing is published after it. Waits at most two seconds."""
    try:
        probe = _probe()
        if probe is not None:
            probe.stop()
    except Exception as error:
        _complain("stop", error)


def _event(kind: str, text: object, duration: float | None = None) -> None:
    try:
        probe = _probe()
        if probe is not None:
            probe.start(asked=True)
            probe.event(kind, str(text), None if duration is None else float(duration))
    except Exception as error:
        _complain(kind, error)


def _probe(*, asked: bool = False) -> Probe | None:
    if os.environ.get("NTSTOP") == "0":
        return None
    from . import core

    return core.current(asked=asked)


def _complain(what: str, error: Exception) -> None:
    """One line, once: the job is never made to fail by its probe."""
    global _complained
    if _complained:
        return
    _complained = True
    from .say import say

    say(f"{what}: {type(error).__name__}: {error}; the job goes on")
