"""What the wrappers tell the probe, and what happens when one of them fails."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..rows import EventRow, ScalarRow
from ..values import Unusable, as_float, as_step
from .table import Patched

if TYPE_CHECKING:
    from ..core import Probe

MAX_DEPTH = 3
"""Nested dictionaries that are followed in what a job logs."""
MAX_NAMES = 2_000
"""Names of metrics that are told apart; a job that makes up a new one each step must not fill the memory."""

_clock = time.monotonic


class Job:
    """The probe, as the wrappers see it. Any thread may call; phases and steps are the training thread's alone."""

    def __init__(self, probe: Probe, patched: Patched) -> None:
        self.active = True
        self._probe = probe
        self._patched = patched
        self._off: set[str] = set()
        self._here = threading.local()
        self._found_total: int | None = None
        self._door_of: dict[str, str] = {}
        """The part that a metric came through first: it comes through others again."""

    def is_on(self, part: str) -> bool:
        """False once the part has switched itself off."""
        return self.active and part not in self._off

    def fail(self, part: str, error: BaseException) -> None:
        """Switch one part off, say so once, and leave the rest alone."""
        if part in self._off:
            return
        self._off.add(part)
        self._patched.put_back(part)
        text = f"{part}: {type(error).__name__}: {error}"
        self._probe.progress.disabled.append(text)
        self._probe.outbox.put(EventRow(_clock(), "warning", f"what goes through {text}; it is not followed any more"))

    def around(
        self,
        part: str,
        original: Any,
        before: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        after: Callable[[Any, Any, BaseException | None], None],
        kind: str = "",
    ) -> Any:
        """A wrapper of `original`: `before(args, kwargs)`, the call, `after(token, result, error)`; result as it was.

        `token` is what `before` gave; None: there is nothing to do afterwards. Of nested calls of one `kind` in a
        thread only the outermost is looked at.
        """
        progress = self._probe.progress

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.is_on(part):
                return original(*args, **kwargs)
            token, result, raised = None, None, None
            began = _clock()
            outermost = not kind or self._enter(kind)
            if outermost:
                try:
                    token = before(args, kwargs)
                except Exception as error:
                    self.fail(part, error)
            cost = _clock() - began
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                raised = error
                raise
            finally:
                began = _clock()
                if kind:
                    self._leave(kind)
                if token is not None:
                    try:
                        after(token, result, raised)
                    except Exception as error:
                        self.fail(part, error)
                if get_ident() == progress.thread:
                    progress.cost += cost + (_clock() - began)
                # A reference to the error would be a cycle with this very frame.
                raised = None
            return result

        return call

    def _enter(self, kind: str) -> bool:
        """This thread is inside of a call of `kind` from here on; True when it was not before."""
        depth = getattr(self._here, kind, 0)
        setattr(self._here, kind, depth + 1)
        return not depth

    def _leave(self, kind: str) -> None:
        setattr(self._here, kind, getattr(self._here, kind, 1) - 1)

    # What an outer call leaves for an inner one

    @property
    def slot(self) -> Any:
        """What this thread has put here last, or None."""
        return getattr(self._here, "slot", None)

    @slot.setter
    def slot(self, value: Any) -> None:
        self._here.slot = value

    # What there is to tell

    def scalars(self, part: str, values: Mapping[Any, Any], step: Any, prefix: str = "") -> None:
        """Numbers the job logs; what is none, or would have to be fetched from a device, is left out."""
        numbers: dict[str, float] = {}
        for name, value in _flat(values, prefix):
            if self._door_of.setdefault(name, part) != part:
                continue
            try:
                numbers[name] = as_float(value)
            except Unusable:
                continue
        if len(self._door_of) > MAX_NAMES:
            self._door_of.clear()
        if numbers:
            progress = self._probe.progress
            self._probe.outbox.put(ScalarRow(_clock(), _step(step), progress.steps, numbers))

    def step(self, step: int, epoch: float | None = None) -> None:
        """The step that has just been made is the job's own `step`."""
        probe = self._probe
        if get_ident() != probe.progress.thread or probe.hooks is None:
            return
        probe.hooks.note_step(step, "trainer", None if epoch is None else int(epoch))

    def losses_times(self, factor: float | None) -> float | None:
        """From here on a framework divides each loss by `factor`; the one before. None: that is not known."""
        hooks = self._probe.hooks
        return None if hooks is None or factor is None else hooks.losses_times(factor)

    def total_steps(self, total: int | None) -> None:
        """How many steps there will be, unless the user has said so."""
        told = self._probe.told
        if total is not None and total > 0 and told.total_steps in (None, self._found_total):
            told.total_steps = self._found_total = total

    def phase_begin(self, name: str) -> float:
        """The training thread does `name` from here on; the time of now."""
        if get_ident() == self._probe.progress.thread:
            self._probe.enter_phase(name)
        return _clock()

    def phase_end(self, name: str, began: float) -> float:
        """The end of that; its seconds."""
        duration = _clock() - began
        if get_ident() == self._probe.progress.thread:
            self._probe.exit_phase(name, duration)
        return duration

    def event(
        self, kind: str, text: str, duration: float | None = None, step: int | None = None, **data: object
    ) -> None:
        """Something that happened once."""
        progress = self._probe.progress
        at = progress.step if step is None else step
        self._probe.outbox.put(EventRow(_clock(), kind, text, progress.steps, at, duration, data))

    @property
    def fetching(self) -> bool:
        """Whether the training thread, which must be this one, is inside of a fetch."""
        return self._probe.progress.phase == "data" and get_ident() == self._probe.progress.thread


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any = None) -> Any:
    """An argument of a call, by position or by name."""
    return args[position] if len(args) > position else kwargs.get(name, default)


def nothing_after(token: Any, result: Any, error: BaseException | None) -> None:
    """For a wrapper that has done all before the call."""


def _flat(values: Mapping[Any, Any], prefix: str, depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            if depth:
                yield from _flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def _step(step: Any) -> int | None:
    try:
        return None if step is None else as_step(step)
    except Unusable:
        return None
