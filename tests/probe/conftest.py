"""Fixtures of the probe's tests: a publisher that ticks fast, viewers of it, and what the probe prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from ntstop_probe import publisher, registry, say
from ntstop_probe.descriptors import identity

from .publishing import Job, Viewer


@pytest.fixture
def job(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job whose publisher ticks fast and has no samplers; not started."""
    monkeypatch.setattr(publisher, "TICK", 0.02)
    monkeypatch.setattr(publisher, "BEAT", 0.1)
    monkeypatch.setattr(publisher, "standard_samplers", dict)
    made = Job()
    yield made
    if made._thread.is_alive():
        made.stop()


@pytest.fixture
def view() -> Iterator[Callable[..., Viewer]]:
    """Makes viewers of a process folder."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def make(folder: Path, prefix: bytes = b"") -> Viewer:
        address = registry.read_process_info(folder).endpoint
        assert address is not None
        return Viewer(context, address, prefix)

    yield make
    context.destroy(linger=0)


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> pytest.CaptureFixture[str]:
    """What the probe prints, from here on into the file that pytest puts in the place of stderr."""
    monkeypatch.setattr(say, "_stderr", identity(2))
    return capfd
