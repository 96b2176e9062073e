"""Checkpoints as they are written and read: events with path and duration, and a phase while the job waits for one.

A Trainer's checkpoint is many files written by nested calls: only the outermost call of a thread counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from .job import Job, argument

PHASE = "checkpoint"
LOOK = 64
"""Entries of a dictionary that are looked at to see what it is."""

_Path = Callable[[tuple[Any, ...], dict[str, Any], Any], str | None]


def _saved(job: Job, part: str, original: Any, path_of: _Path, counts: Callable[..., bool] | None = None) -> Any:
    """A call that saves. `counts(args, kwargs)` is false for what is no checkpoint."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if counts is not None and not counts(args, kwargs):
            return None
        return args, kwargs, job.phase_begin(PHASE)

    def after(token: Any, result: Any, error: BaseException | None) -> None:
        args, kwargs, began = token
        duration = job.phase_end(PHASE, began)
        if error is None:
            job.event("checkpoint", path_of(args, kwargs, result) or "", duration, by=part)

    return job.around(part, original, before, after, "saving")


def _loaded(job: Job, part: str, original: Any, path_of: _Path, counts: Callable[..., bool] | None = None) -> Any:
    """A call that loads. `counts(result)` is false for what is no checkpoint."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args, kwargs, time.monotonic()

    def after(token: Any, result: Any, error: BaseException | None) -> None:
        args, kwargs, began = token
        if error is None and not job.fetching and (counts is None or counts(result)):
            job.event("load", path_of(args, kwargs, result) or "", time.monotonic() - began, by=part)

    return job.around(part, original, before, after, "loading")


def looks_like_a_checkpoint(obj: Any, depth: int = 2) -> bool:
    """A module, a state of a module or of an optimizer, or a dictionary that holds one. Not: tensors of a data set."""
    if hasattr(obj, "state_dict") and hasattr(obj, "named_parameters"):
        return True
    if not isinstance(obj, Mapping):
        return False
    if "param_groups" in obj and "state" in obj:
        return True
    entries = [entry for _, entry in zip(range(LOOK), obj.items(), strict=False)]
    for key, value in entries:
        if hasattr(value, "is_floating_point") and isinstance(key, str) and _is_parameter(key):
            return True
    return depth > 0 and any(looks_like_a_checkpoint(value, depth - 1) for _, value in entries)


def _is_parameter(name: str) -> bool:
    return "." in name or name in ("weight", "bias")


def _file(target: Any) -> str | None:
    """The path of what is given as a file; None: it has none, such as a buffer."""
    if isinstance(target, str | os.PathLike):
        return os.fsdecode(target)
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else None


def torch_save(job: Job, part: str, original: Any) -> Any:
    """`torch.save(obj, f, …)`."""

    def counts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        target = argument(args, kwargs, 1, "f")
        return _file(target) is not None and looks_like_a_checkpoint(argument(args, kwargs, 0, "obj"))

    return _saved(job, part, original, lambda args, kwargs, _: _file(argument(args, kwargs, 1, "f")), counts)


def torch_load(job: Job, part: str, original: Any) -> Any:
    """`torch.load(f, …)`."""
    path = _argument_path(0, "f")
    return _loaded(job, part, original, path, looks_like_a_checkpoint)


def _argument_path(position: int, name: str) -> _Path:
    return lambda args, kwargs, result: _file(argument(args, kwargs, position, name))


def dcp_save(job: Job, part: str, original: Any) -> Any:
    """`torch.distributed.checkpoint.save(state_dict, *, checkpoint_id=None, storage_writer=None, …)`, `async_save`."""
    return _saved(job, part, original, _dcp_path("storage_writer"))


def dcp_load(job: Job, part: str, original: Any) -> Any:
    """`torch.distributed.checkpoint.load(state_dict, *, checkpoint_id=None, storage_reader=None, …)`."""
    return _loaded(job, part, original, _dcp_path("storage_reader"))


def _dcp_path(storage: str) -> _Path:
    def path(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str | None:
        given = kwargs.get("checkpoint_id") or getattr(kwargs.get(storage), "path", None)
        return None if given is None else str(given)

    return path


def hf_save(job: Job, part: str, original: Any) -> Any:
    """`Trainer._save_checkpoint(model, trial)`."""

    def path(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str:
        trainer = args[0]
        folder = trainer._get_output_dir(trial=argument(args, kwargs, 2, "trial"))
        return os.path.join(folder, f"checkpoint-{trainer.state.global_step}")

    return _saved(job, part, original, path)


def hf_save_model(job: Job, part: str, original: Any) -> Any:
    """`Trainer.save_model(output_dir=None, …)`."""

    def path(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str | None:
        return _file(argument(args, kwargs, 1, "output_dir") or args[0].args.output_dir)

    return _saved(job, part, original, path)


def hf_load(job: Job, part: str, original: Any) -> Any:
    """`Trainer._load_from_checkpoint(resume_from_checkpoint, model=None)`."""
    return _loaded(job, part, original, _argument_path(1, "resume_from_checkpoint"))


def lightning_save(job: Job, part: str, original: Any) -> Any:
    """`Trainer.save_checkpoint(filepath, …)`."""
    return _saved(job, part, original, _argument_path(1, "filepath"))


def accelerate_save(job: Job, part: str, original: Any) -> Any:
    """`Accelerator.save_state(output_dir=None, …)`, which returns where it saved to."""
    return _saved(job, part, original, lambda args, kwargs, result: _file(result))


def accelerate_load(job: Job, part: str, original: Any) -> Any:
    """`Accelerator.load_state(input_dir=None, …)`."""
    return _loaded(job, part, original, _argument_path(1, "input_dir"))


WRAPPERS: dict[str, Callable[[Job, str, Any], Any]] = {
    "torch_save": torch_save,
    "torch_load": torch_load,
    "dcp_save": dcp_save,
    "dcp_load": dcp_load,
    "hf_save": hf_save,
    "hf_save_model": hf_save_model,
    "hf_load": hf_load,
    "lightning_save": lightning_save,
    "accelerate_save": accelerate_save,
    "accelerate_load": accelerate_load,
}
