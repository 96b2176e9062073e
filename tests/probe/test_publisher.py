"""The publisher thread: what comes in as rows is recorded and sent, once, in order; what fails fails alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from ntstop_probe import publisher, registry
from ntstop_probe.rows import EventRow, LayerRow, ScalarRow, SchemaRow, StepRow
from ntstop_probe.sampling import Factory
from ntstop_probe.wire import (
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Record,
    Schema,
    Steps,
    unpack,
)

from ..helpers import wait_until
from .publishing import Job, Viewer, folder_of, parts, step
from .reading import frames_of, logged, losses, process_folders, records, records_of, step_ordinals


def test_rows_are_recorded_in_order_each_once(job: Job, home: Path) -> None:
    job.start()
    for ordinal in range(3000):
        job.put(step(ordinal, 1 / (ordinal + 1)))
        if ordinal % 100 == 50:
            job.put(ScalarRow(0.0, ordinal, ordinal, {"val/loss": float(ordinal)}))
    job.put(EventRow(1.0, "exit", data={"code": 0}))
    job.stop()
    folder = folder_of(home)
    kept = records(folder)
    assert step_ordinals(kept) == list(range(3000))
    assert losses(kept) == [1 / (n + 1) for n in range(3000)]
    assert [row.step for row in logged(kept)] == list(range(50, 3000, 100))
    assert Event(1.0, "exit", data={"code": 0}) in kept
    assert [frame.sequence for frame in frames_of(folder)] == list(range(1, len(frames_of(folder)) + 1))


def test_layers_have_a_stream_of_their_own_and_their_schema_first(job: Job, home: Path) -> None:
    schema = SchemaRow(4, ["a", "b"], [2, 3], ["float32"] * 2, [False, False], [True, True])
    sample = LayerRow(4, 0, None, 1.0, {"grad_norm": [1.0, None], "grad_nonfinite": [1, 0]}, interval=50)
    job.start()
    job.put(step(0), schema, sample)
    job.stop()
    layers = records_of(frames_of(folder_of(home), "layers"))
    kinds = [type(record) for record in layers]
    assert kinds[0] is Hello
    assert kinds.index(Schema) < kinds.index(Layers)
    found = next(record for record in layers if isinstance(record, Layers))
    assert unpack(found.columns["grad_norm"]) == [1.0, None]
    assert found.columns["grad_nonfinite"].kind == "u1"
    assert found.interval == 50
    assert step_ordinals(records_of(frames_of(folder_of(home), "core"))) == [0]


def test_what_is_sent_is_what_is_recorded(job: Job, home: Path, view: Callable[..., Viewer]) -> None:
    job.start()
    folder = folder_of(home)
    viewer = view(folder)
    viewer.wait_for(Hello)
    for ordinal in range(200):
        job.put(step(ordinal))
    viewer.wait_for(Steps)
    job.stop()
    sent = [frame for frame in viewer.drain(0.2) if parts(frame)]
    recorded = {frame.sequence: frame for frame in frames_of(folder)}
    assert [frame.sequence for frame in sent] == list(range(sent[0].sequence, sent[-1].sequence + 1)), "no hole"
    assert all(recorded[frame.sequence] == frame for frame in sent)
    assert sent[-1].sequence == max(recorded), "the last words too are heard live"
    assert step_ordinals(records_of(sent)) == list(range(200))


def test_whoever_joins_late_is_told_how_far_it_has_come_and_who_and_what_there_is(
    job: Job, home: Path, view: Callable[..., Viewer]
) -> None:
    schema = SchemaRow(1, ["a"], [1], ["float32"], [False], [True])
    job.start().put(schema, step(0))
    folder = folder_of(home)
    wait_until(lambda: step_ordinals(records(folder)) == [0])
    viewer = view(folder)
    viewer.wait_for(Schema)
    welcome = viewer.frames[0]
    assert parts(welcome) == []
    assert 0 < welcome.sequence < viewer.frames[1].sequence
    kinds = [type(record) for frame in viewer.frames for record in parts(frame)]
    assert Hello in kinds
    # What came before the welcome is in the recording already: a viewer that reads it then misses nothing.
    assert {frame.sequence for frame in frames_of(folder)} >= set(range(1, welcome.sequence + 1))


def test_several_viewers_are_counted_as_they_come_and_go(job: Job, home: Path, view: Callable[..., Viewer]) -> None:
    job.start()
    folder = folder_of(home)

    def viewers() -> int:
        beats = [record for record in records(folder) if isinstance(record, Heartbeat)]
        return beats[-1].probe.viewers if beats else -1

    first = view(folder)
    wait_until(lambda: viewers() == 1)
    second = view(folder)
    second.wait_for(Hello)
    wait_until(lambda: viewers() == 2)
    job.put(step(0))
    for viewer in (first, second):
        viewer.wait_for(Steps)
    first.socket.close()
    wait_until(lambda: viewers() == 1)
    second.socket.close()
    wait_until(lambda: viewers() == 0)


def test_a_viewer_that_never_reads_loses_frames_and_costs_nobody_else_any(
    job: Job, home: Path, view: Callable[..., Viewer]
) -> None:
    job.start()
    folder = folder_of(home)
    deaf, keen = view(folder), view(folder)
    deaf.socket.setsockopt(zmq.RCVHWM, 1)
    keen.wait_for(Hello)
    padding = {f"metric {n}": 0.5 for n in range(400)}
    for ordinal in range(600):
        job.put(step(ordinal), ScalarRow(0.0, None, ordinal, padding))
        if ordinal % 10 == 9:
            wait_until(lambda: len(job.outbox) == 0)
            keen.drain()
    job.stop()
    assert step_ordinals(records(folder)) == list(range(600))
    assert step_ordinals(records_of(keen.drain(0.2))) == list(range(600))


def test_a_viewer_of_one_stream_gets_no_other(job: Job, home: Path, view: Callable[..., Viewer]) -> None:
    from ntstop_probe.wire import STREAM_LAYERS, stream_prefix

    job.start()
    viewer = view(folder_of(home), stream_prefix(STREAM_LAYERS))
    wait_until(lambda: len([b for b in records(folder_of(home)) if isinstance(b, Heartbeat)]) > 2)
    schema = SchemaRow(1, ["a"], [1], ["float32"], [False], [True])
    job.put(schema, step(0), LayerRow(1, 0, None, 1.0, {"grad_norm": [1.0]}))
    viewer.wait_for(Layers)
    assert {frame.stream for frame in viewer.frames} == {STREAM_LAYERS}


def test_a_message_from_a_viewer_that_is_no_subscription_changes_nothing(
    job: Job, home: Path, view: Callable[..., Viewer]
) -> None:
    job.start()
    folder = folder_of(home)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    odd = context.socket(zmq.XSUB)
    odd.setsockopt(zmq.LINGER, 0)
    odd.connect(registry.read_process_info(folder).endpoint or "")
    for message in (b"", b"\x02hello", b"\x01" + b"x" * 500, b"\x00nothing", b"\x01" + b"y" * 100_000):
        odd.send(message)
    viewer = view(folder)
    job.put(step(0))
    viewer.wait_for(Hello)
    job.put(step(1))
    viewer.wait_for(Steps)
    context.destroy(linger=0)


def test_the_process_is_announced_with_where_it_can_be_heard(job: Job, home: Path) -> None:
    job.told.title = "my run"
    job.trains = False
    job.start()
    folder = folder_of(home)
    info = registry.read_process_info(folder)
    assert (info.pid, info.run, info.title, info.training) == (os.getpid(), folder.parent.name, "my run", False)
    assert info.endpoint is not None
    socket = Path(info.endpoint.removeprefix("ipc://"))
    assert socket.parent == Path(os.environ["XDG_RUNTIME_DIR"])
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    job.trains = True
    wait_until(lambda: registry.read_process_info(folder).training)
    job.stop()
    assert not socket.exists(), "nothing is left behind"
    assert process_folders(home) == [folder]


def test_a_hello_is_sent_again_when_what_it_says_has_changed(job: Job, home: Path) -> None:
    job.start()
    folder = folder_of(home)
    wait_until(lambda: any(isinstance(record, Heartbeat) for record in records(folder)))
    job.told.total_steps = 500
    wait_until(lambda: [r for r in records(folder) if isinstance(r, Hello) and r.total_steps == 500])
    count = sum(isinstance(record, Hello) for record in records(folder))
    beats = sum(isinstance(record, Heartbeat) for record in records(folder))
    wait_until(lambda: sum(isinstance(record, Heartbeat) for record in records(folder)) > beats + 3)
    assert sum(isinstance(record, Hello) for record in records(folder)) == count, "and only then"


def test_without_a_safe_socket_folder_the_recording_goes_on(
    job: Job, home: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> Path:
        raise OSError("no folder is safe")

    monkeypatch.setattr("ntstop_probe.live.socket_path", refuse)
    job.start().put(step(0))
    folder = folder_of(home)
    assert registry.read_process_info(folder).endpoint is None
    wait_until(lambda: step_ordinals(records(folder)) == [0])
    job.stop()
    assert said.readouterr().err.count("live socket") == 1
    assert [r for r in records(folder) if isinstance(r, Event) and r.kind == "warning" and "live socket" in r.text]


def test_a_home_that_cannot_be_written_is_said_once_and_tried_again(
    job: Job, home: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publisher, "RETRY_SECONDS", 0.1)
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    job.start().put(step(0))
    err = ""

    def complained() -> bool:
        nonlocal err
        err += said.readouterr().err
        return "cannot record" in err

    wait_until(complained)
    wait_until(lambda: len(job.outbox) == 0)
    home.unlink()
    folder = folder_of(home)
    job.put(step(1))
    wait_until(lambda: step_ordinals(records(folder)) == [1])
    job.stop()
    assert (err + said.readouterr().err).count("cannot record") == 1
    beats = [record for record in records(folder) if isinstance(record, Heartbeat)]
    assert beats[-1].probe.unrecorded > 0
    assert [r for r in records(folder) if isinstance(r, Event) and "missing" in r.text]


def test_a_sampler_that_fails_is_named_in_the_heartbeat_and_warned_of_once(
    job: Job, home: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.CaptureFixture[str]
) -> None:
    class Bad:
        name = "gpu"
        interval = 0.0

        def sample(self) -> list[Record]:
            raise RuntimeError("gone")

    class Good:
        name = "host"
        interval = 0.0

        def sample(self) -> list[Record]:
            return [Host(1.0, process_cpu=0.5)]

    factories: dict[str, Factory] = {"gpu": Bad, "host": Good}
    monkeypatch.setattr(publisher, "standard_samplers", lambda: factories)
    job.start()
    folder = folder_of(home)
    wait_until(lambda: sum(isinstance(record, Host) for record in records(folder)) > 3)
    job.stop()
    kept = records(folder)
    assert [r.text for r in kept if isinstance(r, Event)] == ["sampler switched off: gpu: RuntimeError: gone"]
    assert [r for r in kept if isinstance(r, Heartbeat)][-1].probe.disabled == ["gpu: RuntimeError: gone"]
    assert said.readouterr().err.count("switched off") == 1


def test_a_burst_is_kept_short_by_taking_fewer_rows(job: Job) -> None:
    wide = {f"loss/{n}": 1.0 for n in range(2000)}
    job.start()
    for ordinal in range(200):
        job.put(StepRow(ordinal, 0.0, losses=wide))
    wait_until(lambda: len(job.outbox) == 0)
    assert job.publisher is not None
    assert job.publisher._rows == publisher.MIN_ROWS
    job.stop()
