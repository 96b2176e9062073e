"""Callbacks for those who prefer one to `ntstop run`. They only call `ntstop_probe.watch` with what the trainer knows:
steps, metrics, evaluations and checkpoints are followed from then on by the same patches, and so never told twice."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import ntstop_probe

from .trainers import lightning_total_steps


def hugging_face() -> type[Any]:
    """A `transformers.TrainerCallback`. Raises `ImportError` without transformers."""
    base: type[Any] = importlib.import_module("transformers.trainer_callback").TrainerCallback

    class NtstopCallback(base):  # type: ignore[misc]
        """`Trainer(..., callbacks=[NtstopCallback()])`; keywords go to `ntstop_probe.watch`."""

        def __init__(self, **options: Any) -> None:
            self._options = options

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            config = args.to_sanitized_dict() if hasattr(args, "to_sanitized_dict") else None
            known = {"total_steps": state.max_steps, "config": config}
            ntstop_probe.watch(kwargs.get("model"), **{**known, **self._options})

    return _importable(NtstopCallback)


def lightning() -> type[Any]:
    """A `lightning.pytorch.Callback`, or `pytorch_lightning`'s where the job uses that. Raises `ImportError`."""
    package = (
        "pytorch_lightning" if "lightning.pytorch" not in sys.modules and "pytorch_lightning" in sys.modules else ""
    )
    base: type[Any] = importlib.import_module(f"{package or 'lightning.pytorch'}.callbacks").Callback

    class NtstopLightningCallback(base):  # type: ignore[misc]
        """`Trainer(..., callbacks=[NtstopLightningCallback()])`; keywords go to `ntstop_probe.watch`."""

        def __init__(self, **options: Any) -> None:
            self._options = options

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            known = {"config": dict(pl_module.hparams) if getattr(pl_module, "hparams", None) else None}
            ntstop_probe.watch(pl_module, *trainer.optimizers, **{**known, **self._options})

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            ntstop_probe.watch(**{"total_steps": lightning_total_steps(trainer), **self._options})

    return _importable(NtstopLightningCallback)


def _importable(made: type[Any]) -> type[Any]:
    """Trainers are pickled: the class is found again where the user imports it from."""
    made.__module__, made.__qualname__ = __package__ or __name__, made.__name__
    return made
