"""Numbers the job logs through TensorBoard, wandb, a Trainer or Lightning, picked up as they pass.

A Trainer hands its numbers on to TensorBoard and wandb: only the outermost call of a thread counts. Where a job logs
the same name in two places side by side, the place that had it first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .job import Job, argument, nothing_after

LOGGING = "logging"
_AXES = frozenset({"epoch", "step", "global_step"})
"""Names under which frameworks log the axis itself."""


def _picked_up(
    job: Job, part: str, original: Any, pick: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Mapping[Any, Any], Any]]
) -> Any:
    """Log what `pick` finds in the arguments of the call: (values by name, step)."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        values, step = pick(args, kwargs)
        job.scalars(part, values, step)

    return job.around(part, original, before, nothing_after, LOGGING)


def add_scalar(job: Job, part: str, original: Any) -> Any:
    """`SummaryWriter.add_scalar(tag, scalar_value, global_step=None, …)`."""

    def pick(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapping[Any, Any], Any]:
        value = argument(args, kwargs, 2, "scalar_value")
        return {argument(args, kwargs, 1, "tag"): value}, argument(args, kwargs, 3, "global_step")

    return _picked_up(job, part, original, pick)


def add_scalars(job: Job, part: str, original: Any) -> Any:
    """`SummaryWriter.add_scalars(main_tag, tag_scalar_dict, global_step=None, …)`."""

    def pick(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapping[Any, Any], Any]:
        main = argument(args, kwargs, 1, "main_tag")
        values = {f"{main}/{tag}": value for tag, value in argument(args, kwargs, 2, "tag_scalar_dict").items()}
        return values, argument(args, kwargs, 3, "global_step")

    return _picked_up(job, part, original, pick)


def wandb_log(job: Job, part: str, original: Any) -> Any:
    """`Run._log(data, step=None, commit=None)`. Names that begin with "_" are wandb's own."""

    def pick(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapping[Any, Any], Any]:
        data = argument(args, kwargs, 1, "data")
        values = {name: value for name, value in data.items() if not str(name).startswith("_")}
        return values, argument(args, kwargs, 2, "step")

    return _picked_up(job, part, original, pick)


def hf_log(job: Job, part: str, original: Any) -> Any:
    """`Trainer.log(logs, start_time=None)`, named as Hugging Face's own callbacks name it for TensorBoard and wandb."""

    def pick(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapping[Any, Any], Any]:
        logs = argument(args, kwargs, 1, "logs")
        values = {_hf_name(str(name)): value for name, value in logs.items() if name not in _AXES}
        return values, args[0].state.global_step

    return _picked_up(job, part, original, pick)


def _hf_name(name: str) -> str:
    for prefix in ("eval", "test"):
        if name.startswith(f"{prefix}_"):
            return f"{prefix}/{name[len(prefix) + 1 :]}"
    return f"train/{name}"


class _Metrics:
    """What Lightning is about to log, and what it has made of it since."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.trainer = args[0].trainer
        self.values: Mapping[Any, Any] = argument(args, kwargs, 1, "metrics") or {}
        self.step = argument(args, kwargs, 2, "step")

    def chosen_step(self) -> Any:
        """As Lightning itself chooses it: as told, else a metric of that name, else the batches that made a step."""
        if self.step is not None:
            return self.step
        step = self.values.get("step")
        return self.trainer.fit_loop.epoch_loop._batches_that_stepped if step is None else step


def lightning_log(job: Job, part: str, original: Any) -> Any:
    """`_LoggerConnector.log_metrics(metrics, step=None)`."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Metrics:
        job.slot = metrics = _Metrics(args, kwargs)
        return metrics

    def after(metrics: _Metrics, result: Any, error: BaseException | None) -> None:
        job.slot = None
        values = {name: value for name, value in metrics.values.items() if name not in _AXES}
        job.scalars(part, values, metrics.chosen_step())

    return job.around(part, original, before, after, LOGGING)


def lightning_scalars(job: Job, part: str, original: Any) -> Any:
    """`convert_tensors_to_scalars(data)`: inside of `log_metrics` it gives what is logged as plain numbers."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return job.slot

    def after(metrics: _Metrics, result: Any, error: BaseException | None) -> None:
        if isinstance(result, Mapping):
            # Lightning goes on to take its own keys out of it.
            metrics.values = dict(result)

    return job.around(part, original, before, after)


WRAPPERS: dict[str, Callable[[Job, str, Any], Any]] = {
    "add_scalar": add_scalar,
    "add_scalars": add_scalars,
    "wandb_log": wandb_log,
    "hf_log": hf_log,
    "lightning_log": lightning_log,
    "lightning_scalars": lightning_scalars,
}
