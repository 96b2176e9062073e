"""What a stack says of a phase: a checkpoint or an evaluation that nobody announced."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ntstop_probe import wire

_SAVING = re.compile(r"(.*\.)?_*save(_\w+)?")
"""torch.save, safetensors' save_file, Trainer.save_checkpoint, save_pretrained, distributed checkpoint's save."""
_EVALUATING = re.compile(
    r"(.*\.)?_*(run_|do_)?(estimate_loss|(eval|evaluate|evaluation|validate|validation|test)"
    r"(_(model|loop|epoch|step|loss|fn|one_epoch))?)"
)
"""The names that evaluations have in the examples people start from; nanoGPT's is estimate_loss."""


def slow_phase(stacks: Sequence[wire.Stack]) -> str | None:
    """ "checkpoint" or "eval" when the innermost such call in a stack says so; None when no function has such a name.

    The probe sees evaluations that use a DataLoader without gradients, and what the job announces; not a plain
    `torch.save` of a large model to a slow file system, nor a loop over arrays.
    """
    for stack in stacks:
        for frame in reversed(stack.frames):
            function = frame.partition(" (")[0]
            if _SAVING.fullmatch(function):
                return "checkpoint"
            if _EVALUATING.fullmatch(function):
                return "eval"
    return None


class Unannounced:
    """Follows the heartbeats of one process."""

    def __init__(self) -> None:
        self._standing: tuple[int, str] | None = None
        self._phase: str | None = None
        self._shown_at: float | None = None

    def seen(self, beat: wire.Heartbeat) -> wire.Heartbeat:
        """The beat as it would be, had the job announced what its stack shows.

        A later beat of the same phase without a stack says nothing new; one whose stack shows it no more begins to
        count there.
        """
        if (beat.ordinal, beat.phase) != self._standing:
            self._standing, self._phase, self._shown_at = (beat.ordinal, beat.phase), None, None
        if (shown := slow_phase(beat.stacks)) is not None:
            self._phase, self._shown_at = shown, beat.t
        elif beat.stacks:
            self._phase = None
        if self._phase is not None:
            return msgspec.structs.replace(beat, phase=self._phase)
        if self._shown_at is not None:
            return msgspec.structs.replace(beat, age=min(beat.age, beat.t - self._shown_at))
        return beat
