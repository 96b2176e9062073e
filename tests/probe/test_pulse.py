"""The heartbeat: the phase and its age, what the probe costs, and the stack of a thread that is stuck."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from ntstop_probe import pulse
from ntstop_probe.progress import Progress
from ntstop_probe.wire import Heartbeat

from ..helpers import wait_until
from .publishing import Job, folder_of
from .reading import records


def test_the_heartbeat_knows_phase_age_cost_and_share(job: Job, home: Path) -> None:
    job.progress.enter("backward", time.monotonic() - 2.0)
    job.progress.steps, job.progress.cost, job.progress.step_time = 100, 0.502, 0.01
    job.progress.setup = 0.5
    job.outbox.dropped = 7
    job.start()
    folder = folder_of(home)
    beats = wait_until(lambda: [r for r in records(folder) if isinstance(r, Heartbeat)])
    assert beats[0].phase == "backward"
    assert 2.0 <= beats[0].age < 60.0
    assert beats[0].probe.cost == pytest.approx(2e-5)
    assert beats[0].probe.share == pytest.approx(2e-3)
    assert beats[0].probe.setup == 0.5, "what was spent once is told apart from what a step costs"
    assert (beats[0].probe.dropped, beats[0].ordinal, beats[0].reason, beats[0].stacks) == (7, 100, "", [])


def test_a_stuck_phase_brings_the_stack_of_the_training_thread_and_nothing_of_its_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, ready = threading.Event(), threading.Event()

    def waits_for_data(secret: str) -> None:
        ready.set()
        release.wait(30)

    thread = threading.Thread(target=waits_for_data, args=("hunter2",), name="trainer")
    thread.start()
    ready.wait(10)
    try:
        progress = Progress(thread=thread.ident or 0)
        beater = pulse.Pulse(progress)
        progress.enter("data", time.monotonic() - pulse.STUCK_SECONDS - 1)
        beat = beater.beat(dropped=0, unrecorded=0, viewers=0, disabled=[])
        (stack,) = beat.stacks
        assert stack.thread == "trainer"
        assert any("waits_for_data" in call and "test_pulse.py:" in call for call in stack.frames)
        assert stack.frames.index(next(c for c in stack.frames if "waits_for_data" in c)) < len(stack.frames) - 1
        assert "hunter2" not in str(beat)
        progress.enter("data", time.monotonic())
        assert beater.beat(dropped=0, unrecorded=0, viewers=0, disabled=[]).stacks == []
        # A hang of hours: the same stack is not sent each second for ever.
        progress.enter("data", time.monotonic() - 3600)
        later = [beater.beat(dropped=0, unrecorded=0, viewers=0, disabled=[]).stacks for _ in range(5)]
        assert sum(bool(stacks) for stacks in later) == 0
        monkeypatch.setattr(pulse, "STACK_REPEAT_SECONDS", 0.0)
        assert beater.beat(dropped=0, unrecorded=0, viewers=0, disabled=[]).stacks
    finally:
        release.set()
        thread.join()


def test_a_deep_stack_is_cut_to_its_innermost_calls() -> None:
    found: list[str] = []

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        else:
            found.extend(pulse.stack_of(threading.get_ident()))

    deep(100)
    assert len(found) == pulse.MAX_FRAMES
    assert "stack_of" in found[-1]


def test_why_there_is_no_step_yet_is_said_in_the_order_things_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    progress = Progress()
    said = [pulse.missing_step(progress)]
    for attribute in ("saw_torch", "saw_loader", "saw_backward", "saw_optimizer"):
        setattr(progress, attribute, True)
        said.append(pulse.missing_step(progress))
    progress.steps = 1
    said.append(pulse.missing_step(progress))
    assert said == [
        "torch not imported",
        "no DataLoader used and no backward pass yet",
        "no backward pass yet",
        "no optimizer step yet",
        "the first step has not ended",
        "",
    ]
