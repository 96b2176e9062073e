"""The one table of what the integrations change in other libraries, why, and how it is undone.

A *patch* puts a wrapper where a function was, once the job itself has imported the module, and puts that very function
back. If somebody has wrapped our wrapper meanwhile, it stays, and only passes calls through. Nothing is imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Patch:
    """`attribute` ("name" or "Class.name") of `module` is replaced by what `wrapper` makes of it.

    `part` is what is switched off together when one of its wrappers fails.
    """

    part: str
    module: str
    attribute: str
    wrapper: str
    why: str


_TRAINER = "transformers.trainer"
_CONNECTOR = "trainer.connectors.logger_connector.logger_connector"

_TENSORBOARD = tuple(
    Patch(part, module, f"SummaryWriter.{method}", wrapper, "numbers the job logs, as they pass")
    for part, module in (("tensorboard", "torch.utils.tensorboard.writer"), ("tensorboardX", "tensorboardX.writer"))
    for method, wrapper in (("add_scalar", "add_scalar"), ("add_scalars", "add_scalars"))
)

_LIGHTNING = tuple(
    Patch(package, f"{package}.{module}", attribute, wrapper, why)
    for package in ("lightning.pytorch", "pytorch_lightning")
    for module, attribute, wrapper, why in (
        (
            _CONNECTOR,
            "_LoggerConnector.log_metrics",
            "lightning_log",
            "what self.log sends to the loggers; called without one (logger=False) too",
        ),
        (
            _CONNECTOR,
            "convert_tensors_to_scalars",
            "lightning_scalars",
            "the same as plain numbers: Lightning has waited for the device, so we need not",
        ),
        (
            "loops.training_epoch_loop",
            "_TrainingEpochLoop.advance",
            "lightning_advance",
            "trainer.global_step after each step, and how many there will be",
        ),
        ("loops.evaluation_loop", "_EvaluationLoop.run", "evaluation", "validation and test are not training"),
        ("loops.prediction_loop", "_PredictionLoop.run", "evaluation", "nor is prediction"),
        ("trainer.trainer", "Trainer.save_checkpoint", "lightning_save", "checkpoints, ModelCheckpoint's too"),
        (
            "trainer.connectors.checkpoint_connector",
            "_CheckpointConnector.resume_end",
            "lightning_resume",
            "that, from where and at which step a run was resumed",
        ),
    )
)

PATCHES = (
    *_TENSORBOARD,
    Patch("wandb", "wandb.sdk.wandb_run", "Run._log", "wandb_log", "what wandb.log and run.log have in common"),
    Patch("transformers", _TRAINER, "Trainer.log", "hf_log", "what the Trainer logs, before its callbacks pass it on"),
    Patch("transformers", _TRAINER, "Trainer.evaluate", "evaluation", "an evaluation is not training"),
    Patch("transformers", _TRAINER, "Trainer.predict", "evaluation", "nor is prediction"),
    Patch("transformers", _TRAINER, "Trainer._save_checkpoint", "hf_save", "a checkpoint of many files is one event"),
    Patch("transformers", _TRAINER, "Trainer.save_model", "hf_save_model", "the same, when the job asks for it"),
    Patch("transformers", _TRAINER, "Trainer._load_from_checkpoint", "hf_load", "what a run was resumed from"),
    Patch(
        "transformers",
        "transformers.trainer_callback",
        "CallbackHandler.on_train_begin",
        "hf_train_begin",
        "state.max_steps, and whether the run was resumed",
    ),
    Patch(
        "transformers",
        "transformers.trainer_callback",
        "CallbackHandler.on_step_end",
        "hf_step_end",
        "state.global_step, right after it was counted",
    ),
    Patch("transformers", _TRAINER, "Trainer.training_step", "hf_training_step", "what the loss is divided by in it"),
    *_LIGHTNING,
    Patch(
        "accelerate",
        "accelerate.accelerator",
        "Accelerator.backward",
        "accelerate_backward",
        "what the loss is divided by before its backward",
    ),
    Patch("accelerate", "accelerate.accelerator", "Accelerator.save_state", "accelerate_save", "checkpoints"),
    Patch("accelerate", "accelerate.accelerator", "Accelerator.load_state", "accelerate_load", "and their return"),
    Patch("torch.save", "torch.serialization", "save", "torch_save", "checkpoints of jobs without a framework"),
    Patch("torch.save", "torch.serialization", "load", "torch_load", "and their return"),
    Patch("torch.save", "torch", "save", "torch_save", "the same function under its usual name"),
    Patch("torch.save", "torch", "load", "torch_load", "the same function under its usual name"),
    *(
        Patch("torch.distributed.checkpoint", module, name, wrapper, "sharded checkpoints")
        for module in ("torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint")
        for name, wrapper in (("save", "dcp_save"), ("async_save", "dcp_save"))
    ),
    *(
        Patch("torch.distributed.checkpoint", module, "load", "dcp_load", "and their return")
        for module in ("torch.distributed.checkpoint.state_dict_loader", "torch.distributed.checkpoint")
    ),
)


class Patched:
    """What has been changed, and the way back."""

    def __init__(self) -> None:
        self._replaced: dict[str, list[tuple[Any, str, Any, Any]]] = {}
        self._of: dict[int, Any] = {}
        """Wrappers by the id of what they wrap: one function under two names gets one wrapper."""
        self.missing: list[str] = []
        """Places that this version of a library does not have."""

    def apply(self, patch: Patch, wrap: Any) -> None:
        """Do one line of the table; its module must have been imported. `wrap(original)` makes the wrapper."""
        owner_path, _, name = patch.attribute.rpartition(".")
        try:
            owner: Any = sys.modules[patch.module]
            if owner_path:
                owner = getattr(owner, owner_path)
            original = vars(owner)[name]
        except (AttributeError, KeyError):
            self.missing.append(f"{patch.module}.{patch.attribute}")
            return
        replaced = self._replaced.setdefault(patch.part, [])
        for _, _, before, replacement in replaced:
            if original is replacement:
                # The name was bound after its function had been replaced where it is defined.
                replaced.append((owner, name, before, replacement))
                return
        replacement = self._of.get(id(original))
        if replacement is None:
            replacement = self._of[id(original)] = wrap(original)
        setattr(owner, name, replacement)
        replaced.append((owner, name, original, replacement))

    def put_back(self, part: str) -> None:
        """Undo what was done for one part."""
        for owner, name, original, replacement in reversed(self._replaced.pop(part, [])):
            self._of.pop(id(original), None)
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)

    @property
    def parts(self) -> list[str]:
        """Parts with something to undo."""
        return list(self._replaced)
