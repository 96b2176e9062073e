"""What the job's own libraries tell: what is logged, a trainer's steps, its evaluations, its checkpoints.

Under `ntstop run`, or after `ntstop_probe.watch()`, all of it happens by itself: nothing here needs to be called.

    TensorBoard's SummaryWriter (tensorboardX too), wandb    numbers become curves, at the step the job names
    Hugging Face Trainer, Lightning                          the same; their own steps, evaluations, resumptions
    Trainer, Lightning, Accelerate, torch.save and
    torch.distributed.checkpoint                             checkpoints, with path and duration

Those who would rather name it in their code:

    from ntstop_probe.integrations import NtstopCallback            # of Hugging Face
    trainer = Trainer(..., callbacks=[NtstopCallback()])

    from ntstop_probe.integrations import NtstopLightningCallback   # of Lightning
    trainer = L.Trainer(..., callbacks=[NtstopLightningCallback()])

table      the table of what is changed in which library
install    start and stop; job: what wrappers tell the probe, and what happens when one fails
scalars, trainers, checkpoints     the wrappers
callbacks  the two above
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    NtstopCallback: Any
    NtstopLightningCallback: Any

__all__ = ["NtstopCallback", "NtstopLightningCallback"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import callbacks

    made = callbacks.hugging_face() if name == "NtstopCallback" else callbacks.lightning()
    globals()[name] = made
    return made
