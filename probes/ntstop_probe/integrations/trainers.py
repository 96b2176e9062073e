"""A trainer's own count of its steps, how many there will be, and when it evaluates."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

from .job import Job, argument, nothing_after


def _nothing_before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args, kwargs


def evaluation(job: Job, part: str, original: Any) -> Any:
    """A call that evaluates, from its beginning to its end; nested ones are one."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        return job.phase_begin("eval")

    def after(began: float, result: Any, error: BaseException | None) -> None:
        job.phase_end("eval", began)

    return job.around(part, original, before, after, "evaluating")


def hf_train_begin(job: Job, part: str, original: Any) -> Any:
    """`CallbackHandler.on_train_begin(args, state, control)`."""

    def after(token: Any, result: Any, error: BaseException | None) -> None:
        args, kwargs = token
        state = argument(args, kwargs, 2, "state")
        job.total_steps(state.max_steps)
        if state.global_step:
            job.event("resume", f"resumed at step {state.global_step}", step=state.global_step)

    return job.around(part, original, _nothing_before, after)


def hf_step_end(job: Job, part: str, original: Any) -> Any:
    """`CallbackHandler.on_step_end(args, state, control)`."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state = argument(args, kwargs, 2, "state")
        # At the end of an epoch the state says how many epochs are complete.
        epoch = None if state.epoch is None else max(0, math.ceil(state.epoch) - 1)
        job.step(state.global_step, epoch)
        job.total_steps(state.max_steps)

    return job.around(part, original, before, nothing_after)


def hf_training_step(job: Job, part: str, original: Any) -> Any:
    """`Trainer.training_step(model, inputs, …)`: what it divides by, the Trainer adds up again for its own logs."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
        trainer = args[0]
        micro = getattr(trainer, "current_gradient_accumulation_steps", 1)
        return job.losses_times(micro if micro > 1 and not trainer.is_deepspeed_enabled else None)

    def after(factor: float, result: Any, error: BaseException | None) -> None:
        job.losses_times(factor)

    return job.around(part, original, before, after)


def accelerate_backward(job: Job, part: str, original: Any) -> Any:
    """`Accelerator.backward(loss)` divides the loss by the number of micro-batches of a step."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
        accelerator = args[0]
        elsewhere = accelerator.distributed_type.value in ("DEEPSPEED", "MEGATRON_LM")
        micro = accelerator.gradient_accumulation_steps
        return job.losses_times(micro if micro > 1 and not elsewhere else None)

    def after(factor: float, result: Any, error: BaseException | None) -> None:
        job.losses_times(factor)

    return job.around(part, original, before, after)


def lightning_advance(job: Job, part: str, original: Any) -> Any:
    """`_TrainingEpochLoop.advance(data_fetcher)`: one batch, and a step unless gradients are accumulated."""
    last: tuple[weakref.ReferenceType[Any] | None, int] = (None, 0)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal last
        loop = args[0]
        ref, _ = last
        if ref is None or ref() is not loop:
            last = weakref.ref(loop), loop.global_step
        micro = loop.trainer.accumulate_grad_batches
        # Where the module steps itself, it also decides what to call backward on.
        divided = micro > 1 and loop.trainer.lightning_module.automatic_optimization
        return loop, job.losses_times(micro if divided else None)

    def after(token: Any, result: Any, error: BaseException | None) -> None:
        nonlocal last
        loop, factor = token
        job.losses_times(factor)
        ref, before_it = last
        step = loop.global_step
        if step != before_it:
            last = ref, step
            job.step(step, loop.trainer.current_epoch)
            job.total_steps(lightning_total_steps(loop.trainer))

    return job.around(part, original, before, after)


def lightning_total_steps(trainer: Any) -> int | None:
    """`trainer.max_steps`, or what the epochs come to; None where there is no end. Sets nothing up, unlike Lightning's
    own `estimated_stepping_batches`."""
    limits = [] if trainer.max_steps in (None, -1) else [int(trainer.max_steps)]
    batches, epochs = trainer.num_training_batches, trainer.max_epochs
    if epochs not in (None, -1) and 0 < batches < math.inf:
        limits.append(math.ceil(batches / trainer.accumulate_grad_batches) * int(epochs))
    return min(limits, default=None)


def lightning_resume(job: Job, part: str, original: Any) -> Any:
    """`_CheckpointConnector.resume_end()`: everything has been restored."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        connector = args[0]
        path, trainer = getattr(connector, "_ckpt_path", None), connector.trainer
        if path and trainer.state.fn is not None and trainer.state.fn.value == "fit":
            job.event("resume", str(path), step=trainer.global_step)

    return job.around(part, original, before, nothing_after)


WRAPPERS: dict[str, Callable[[Job, str, Any], Any]] = {
    "evaluation": evaluation,
    "hf_train_begin": hf_train_begin,
    "hf_step_end": hf_step_end,
    "hf_training_step": hf_training_step,
    "accelerate_backward": accelerate_backward,
    "lightning_advance": lightning_advance,
    "lightning_resume": lightning_resume,
}
