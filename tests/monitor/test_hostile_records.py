"""Whatever a file or a socket holds: the readers of a run neither fail nor draw what would harm a terminal."""

from __future__ import annotations

import json
import math
import tracemalloc
import unicodedata
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ntstop.commands.diagnose import render
from ntstop.plain import overview
from ntstop.session import Session
from ntstop.sources.base import Arrival, SourceStatus
from ntstop.sources.decoding import Decoder
from ntstop.sources.soundness import is_sound
from ntstop_probe import wire
from ntstop_probe.wire import Frame, encode_batch
from tests.monitor import hostile
from tests.monitor.records import hello, layers, schema


class Given:
    """A source that has it all at once, as one frame a record."""

    def __init__(self, records: list[wire.Record]) -> None:
        frames = [Frame(0, 1, number, encode_batch([record]), 1) for number, record in enumerate(records)]
        self._arrivals = Decoder().arrivals(frames)
        self.status = SourceStatus(complete=True)

    def poll(self, timeout: float) -> list[Arrival]:
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(hostile.records, max_size=25))
def test_no_record_breaks_the_state_the_diagnosis_or_the_texts(records: list[wire.Record]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = Session(Given(records))
        session.load()
        assert session.error is None and not session.engine.failed
        texts = [overview(session), *(render("run", session, style) for style in ("text", "md"))]
        json.loads(render("run", session, "json"))
    harmful = {c for text in texts for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert not harmful


def times(*values: float) -> wire.Column:
    column = wire.pack("f8", values)
    assert column is not None
    return column


@pytest.mark.parametrize(
    "record",
    [
        wire.Steps(0, 0, times(1.0)),
        wire.Steps(-1, 0, times(1.0)),
        wire.Steps(2**40, 0, times(1.0, 2.0)),
        wire.Steps(2, 0, times(1.0, math.nan)),
        wire.Steps(2, 0, times(1e300, -1e300)),
        wire.Steps(1, 0, wire.Column("f4", b"0000")),
        wire.Steps(1, 0, times(1.0), step=times(3.0)),
        wire.Steps(1, 0, times(1.0), step=wire.Column("i8", b"0")),
        wire.Heartbeat(math.nan, 0.0, "data", 0.0, 0),
        wire.Heartbeat(0.0, 0.0, "data", math.inf, 0),
        wire.Heartbeat(0.0, 1e300, "data", 0.0, 0),
        wire.Event(0.0, "checkpoint", duration=math.nan),
        wire.Scalars(-math.inf, None, 0, {"a": 1.0}),
        wire.Layers(1, 0, None, 0.0, {"grad_norm": wire.Column("f4", b"00000")}),
        wire.Layers(1, 0, None, 0.0, {"grad_norm": wire.Column("f4", b"0000", b"00")}),
    ],
)
def test_a_record_that_cannot_be_meant_is_left_out_and_counted(record: wire.Record) -> None:
    decoder = Decoder()
    assert not is_sound(record)
    assert decoder.arrivals([Frame(0, 1, 1, encode_batch([record]), 1)]) == []
    assert decoder.skipped == 1


def test_what_is_only_strange_is_kept() -> None:
    strange = [
        hello(),
        schema(),
        layers(0, 1.0, grad_norm=[math.nan, None, math.inf, 0.0]),
        wire.Steps(2, 10**18, times(5.0, 4.0), losses={"loss": times(math.nan, 1e308)}),
        wire.Scalars(1.0, 10**18, 0, {"": math.nan}),
    ]
    assert all(map(is_sound, strange))


def test_a_block_that_claims_a_trillion_steps_costs_nothing() -> None:
    """Also without the decoder before it."""
    session = Session(Given([]))
    tracemalloc.start()
    session.engine.observe(1, wire.Steps(2**40, 0, times(1.0)))
    session.state.apply(1, wire.Steps(2**40, 0, times(1.0)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
