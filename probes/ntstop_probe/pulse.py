"""The heartbeat: where the training thread stands, what the probe costs, and why there are no steps yet."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque

from .loader_queue import loader_queue
from .progress import Progress
from .wire import Heartbeat, ProbeStatus, Stack

STUCK_SECONDS = 5.0
"""Age of a phase from which beats carry the stack; longer than any healthy phase of a step, shorter than a stall."""
STACK_EVERY_BEAT_SECONDS = 60.0
"""Up to this age every beat has the stack; later only when it changes, and every `STACK_REPEAT_SECONDS`: a job that
hangs over a weekend should not fill the disk with one stack."""
STACK_REPEAT_SECONDS = 30.0
MAX_FRAMES = 40
WINDOW_BEATS = 10
"""Beats over which the cost per step is averaged."""


class Pulse:
    """Makes the heartbeats of one process, in the publisher thread."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._window: deque[tuple[int, float]] = deque([(0, 0.0)], maxlen=WINDOW_BEATS + 1)
        self._cost: float | None = None
        self._cpu = (time.monotonic(), time.thread_time())
        self._last_stack: list[str] = []
        self._stack_at = 0.0
        self._looks = self._eval_looks = 0
        self._eval_since: int | None = None

    def glance(self) -> None:
        """Between two beats: is what is trained in training mode? Its mode in backward is that of its forward."""
        progress = self._progress
        modes, steps = progress.modes, progress.steps
        if modes is None or progress.phase not in ("backward", "optimizer"):
            return
        evaluating = modes.evaluating()
        if evaluating is None or progress.phase not in ("backward", "optimizer"):
            return
        self._looks += 1
        self._eval_looks += evaluating
        if not evaluating:
            self._eval_since = None
        elif self._eval_since is None:
            self._eval_since = steps

    def beat(self, *, dropped: int, unrecorded: int, viewers: int, disabled: list[str]) -> Heartbeat:
        """A heartbeat of this moment, with the losses and the failures that the caller knows of."""
        progress = self._progress
        now = time.monotonic()
        phase, since = progress.phase, progress.since
        age = max(0.0, now - since)
        cost = self._cost_per_step()
        looks, eval_looks = self._looks, self._eval_looks
        self._looks = self._eval_looks = 0
        queue = loader_queue(progress.trained()) if phase != "idle" else None
        return Heartbeat(
            t=now,
            wall=time.time(),
            phase=phase,
            age=age,
            ordinal=progress.steps,
            stacks=self._stacks(age, now) if age >= STUCK_SECONDS and phase != "idle" else [],
            probe=ProbeStatus(
                cost=cost,
                share=cost / progress.step_time if cost is not None and progress.step_time else None,
                dropped=dropped,
                unrecorded=unrecorded,
                layer_interval=progress.layer_interval,
                viewers=viewers,
                disabled=disabled,
                publisher_cpu=self._own_cpu(now),
                setup=progress.setup or None,
                tier=progress.tier,
                timing_interval=progress.timing_interval,
                ratio_interval=progress.ratio_interval,
            ),
            reason=missing_step(progress),
            backwards=progress.pending(),
            looks=looks,
            eval_looks=eval_looks,
            eval_since=self._eval_since,
            sensitive=progress.modes.sensitive if progress.modes is not None else 0,
            loader_ready=queue.ready if queue else None,
            loader_most=queue.most if queue else None,
        )

    def _cost_per_step(self) -> float | None:
        first_steps, first_cost = self._window[0]
        steps = self._progress.steps
        # What is spent once is no cost per step. It is counted a moment before the cost that it is part of.
        cost = max(0.0, self._progress.cost - self._progress.setup)
        self._window.append((steps, cost))
        if steps > first_steps:
            self._cost = (cost - first_cost) / (steps - first_steps)
        return self._cost

    def _own_cpu(self, now: float) -> float | None:
        (then, used_then), used = self._cpu, time.thread_time()
        self._cpu = (now, used)
        return (used - used_then) / (now - then) if now > then else None

    def _stacks(self, age: float, now: float) -> list[Stack]:
        frames = stack_of(self._progress.thread)
        if not frames:
            return []
        unchanged = frames == self._last_stack
        if unchanged and age > STACK_EVERY_BEAT_SECONDS and now - self._stack_at < STACK_REPEAT_SECONDS:
            return []
        self._last_stack, self._stack_at = frames, now
        return [Stack(_thread_name(self._progress.thread), frames)]


def plain_beat(progress: Progress, disabled: list[str]) -> Heartbeat:
    """That the process runs, and where it stands, when nothing more can be said."""
    now = time.monotonic()
    age = max(0.0, now - progress.since)
    status = ProbeStatus(disabled=disabled)
    return Heartbeat(t=now, wall=time.time(), phase=progress.phase, age=age, ordinal=progress.steps, probe=status)


def stack_of(thread: int) -> list[str]:
    """The innermost `MAX_FRAMES` calls of a thread, "function (file:line)", outermost first; [] when it is gone."""
    frame = sys._current_frames().get(thread)
    calls: list[str] = []
    while frame is not None and len(calls) < MAX_FRAMES:
        calls.append(f"{frame.f_code.co_qualname} ({_short(frame.f_code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    return calls[::-1]


def missing_step(progress: Progress) -> str:
    """Why no step has been finished yet, as a clause that completes "no step yet: …"; "" when one has."""
    if progress.steps:
        return ""
    if not progress.saw_torch and "torch" not in sys.modules:
        return "torch not imported"
    if not progress.saw_backward and not progress.saw_optimizer:
        return "no backward pass yet" if progress.saw_loader else "no DataLoader used and no backward pass yet"
    if not progress.saw_optimizer:
        return "no optimizer step yet"
    return "the first step has not ended"


def _short(path: str) -> str:
    """A library's path from its package on; the job's own files in full."""
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in path:
            return path.rpartition(folder)[2]
    return path.encode("utf-8", "replace").decode()


def _thread_name(ident: int) -> str:
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), str(ident))
