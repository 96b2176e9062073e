"""The job's own number of a step, as far as it says one: a Trainer that knows it, or a user who logs with `step=`."""

from __future__ import annotations

TRAINER, USER = "trainer", "user"


class StepAxis:
    """From ordinals to global steps, by what was said of some of them.

    A Trainer is believed at once. A user's `step` may be anything (an epoch, say). One that is said in the first step
    is where a job begins that goes on from a checkpoint, and harmless where it is not; a later one is believed once
    two of them rise with the steps, by a whole number for each. From then on what does not fit is left alone until it
    has shown the same (a resume, a rewind).
    """

    def __init__(self) -> None:
        self.source = ""
        self._anchor: tuple[int, int] | None = None
        self._stride = 1
        self._heard: tuple[int, int] | None = None

    def note(self, ordinal: int, step: int, source: str) -> None:
        """The step `ordinal` of this process is the job's step `step`, says `source` ("trainer" or "user")."""
        if source != USER:
            self.source = source
            self._anchor = ordinal, step
            return
        if self.source not in ("", USER):
            return
        if self.source and self.at(ordinal) == step:
            self._anchor = ordinal, step
            return
        heard, self._heard = self._heard, (ordinal, step)
        if heard is None and ordinal == 0:
            self.source = USER
            self._anchor = ordinal, step
            return
        if heard is None or ordinal <= heard[0]:
            return
        stride, rest = divmod(step - heard[1], ordinal - heard[0])
        if rest == 0 and stride >= 1:
            self.source = USER
            self._anchor, self._stride = (ordinal, step), stride

    def at(self, ordinal: int) -> int | None:
        """The job's number of step `ordinal`; None when it has not said any."""
        if self._anchor is None:
            return None
        known, step = self._anchor
        return step + (ordinal - known) * self._stride
