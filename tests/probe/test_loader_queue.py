"""The queue of a DataLoader: how many batches its workers have ready, seen from outside."""

from __future__ import annotations

import sys
import weakref

import pytest
import torch

from ntstop_probe.loader_queue import loader_queue
from ntstop_probe.pulse import Pulse

from ..helpers import wait_until
from .training import armed, loader, loss_of, mlp

WORKERS = {"num_workers": 2, "prefetch_factor": 2, "multiprocessing_context": "fork"}


@pytest.mark.skipif(sys.platform == "darwin", reason="its queues have no length")
def test_the_heartbeat_tells_how_many_batches_wait_for_the_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        pulse = Pulse(probe.progress)

        def told() -> tuple[int | None, int | None]:
            beat = pulse.beat(dropped=0, unrecorded=0, viewers=0, disabled=[])
            return beat.loader_ready, beat.loader_most

        assert told() == (None, None)
        batches = iter(loader(80, **WORKERS))
        for step, batch in enumerate(batches):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            if step == 4:
                # Ten batches: those behind this one are made while nobody takes any.
                assert wait_until(lambda: told() == (4, 4))
        assert told() == (None, None), "the loader has no more"
        del batches


def test_a_loader_without_workers_has_no_queue() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for batch in loader(16):
            loss_of(model, batch).backward()
            optimizer.step()
            assert probe.progress.trained()
        assert loader_queue(probe.progress.trained()) is None


def test_the_end_of_an_iterator_is_the_jobs_affair_while_it_is_looked_at() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        batches = iter(loader(40, **WORKERS))
        for _, batch in zip(range(2), batches, strict=False):
            loss_of(model, batch).backward()
            optimizer.step()
        seen, alive = probe.progress.trained(), weakref.ref(batches)
        assert seen["_num_workers"] == 2
        del batches
        assert alive() is None, "its workers are told to stop by whoever lets go of it"
        assert probe.progress.trained() == {}


class Made:
    def qsize(self) -> int:
        return 3


class Handed:
    queue = (1, 2)

    def qsize(self) -> int:
        raise AssertionError("its lock is the job's")


PINNED = {
    "_num_workers": 2,
    "_prefetch_factor": 4,
    "_worker_result_queue": Made(),
    "_data_queue": Handed(),
    "_task_info": {5: (0,), 6: (1, "early"), 7: (0,)},
}
"""Of an iterator with a thread that pins memory."""


def test_batches_that_came_early_or_are_pinned_count_too() -> None:
    assert loader_queue(PINNED) == (6, 8)
    assert loader_queue({}) is None
