"""The publisher thread: what comes in as rows is recorded and sent, once, in order; what fails fails alone."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from ntstop_probe import endpoint, pulse, registry
from ntstop_probe import publisher as publisher_module
from ntstop_probe import say as say_module
from ntstop_probe.blocks import records_of as blocks_of
from ntstop_probe.descriptors import identity
from ntstop_probe.outbox import Outbox
from ntstop_probe.progress import Progress
from ntstop_probe.publisher import Publisher
from ntstop_probe.rows import EventRow, LayerRow, Row, ScalarRow, SchemaRow, StepRow
from ntstop_probe.sampling import Factory
from ntstop_probe.told import Told
from ntstop_probe.wire import (
    Event,
    Frame,
    FrameReader,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Record,
    Scalars,
    Schema,
    Steps,
    decode_batch,
    unpack,
)

from ..helpers import wait_until
from .reading import frames_of, losses, process_folders, records, records_of, step_ordinals


def step(ordinal: int, loss: float | None = None, **more: object) -> StepRow:
    given = {} if loss is None else {"loss": loss}
    return StepRow(ordinal, time.monotonic(), 0.001, losses=given, phases={"data": 0.0005}, **more)  # type: ignore[arg-type]


class Job:
    """A publisher in a thread of its own, and the training thread's end of it."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.progress = Progress()
        self.told = Told()
        self.trains = True
        self.stop_event = threading.Event()
        self.publisher: Publisher | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.publisher = Publisher(
            self.outbox, self.progress, self.told, lambda: None, lambda: self.trains, self.stop_event
        )
        self.publisher.run()

    def start(self) -> Job:
        self._thread.start()
        return self

    def put(self, *rows: Row) -> None:
        for row in rows:
            self.outbox.put(row)

    def stop(self) -> None:
        self.stop_event.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def job(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job whose publisher ticks fast and has no samplers; not started."""
    monkeypatch.setattr(publisher_module, "TICK", 0.02)
    monkeypatch.setattr(publisher_module, "BEAT", 0.1)
    monkeypatch.setattr(publisher_module, "standard_samplers", dict)
    made = Job()
    yield made
    if made._thread.is_alive():
        made.stop()


def folder_of(home: Path) -> Path:
    return wait_until(lambda: process_folders(home))[0]


class Viewer:
    """A subscriber, as the monitor is one."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, prefix: bytes = b"") -> None:
        self.socket = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, 100_000)
        self.socket.setsockopt(zmq.SUBSCRIBE, prefix)
        self.socket.connect(address)
        self.frames: list[Frame] = []

    def drain(self, timeout: float = 0.0) -> list[Frame]:
        while self.socket.poll(timeout * 1000):
            self.frames += FrameReader().feed(self.socket.recv())
        return self.frames

    def wait_for(self, kind: type[Record], beyond: int = 0) -> None:
        def seen() -> bool:
            self.drain()
            return any(isinstance(record, kind) for frame in self.frames[beyond:] for record in parts(frame))

        wait_until(seen, what=f"a {kind.__name__}")


def parts(frame: Frame) -> list[Record]:
    return decode_batch(frame.payload)[0]


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


def test_steps_become_blocks_that_hold_every_number_and_no_invented_one() -> None:
    rows: list[Row] = [
        StepRow(0, 10.0, None, losses={"loss": 1.5}, lrs={"lr": 0.1}, epoch=0, micro=2, skipped=0),
        StepRow(1, 11.0, 1.0, step=7, losses={"loss/1": float("nan")}, phases={"data": 0.25}, grad_norm=3.0),
        StepRow(2, 12.0, 1.0, samples=96, tokens=10**12, loss_scale=65536.0, clip=0.5),
    ]
    layers, (block,) = blocks_of(rows, attempt=3)
    assert layers == []
    assert isinstance(block, Steps)
    assert (block.count, block.ordinal, block.attempt) == (3, 0, 3)

    def values(column: object) -> list[float | int | None]:
        return unpack(column)  # type: ignore[arg-type]

    assert values(block.t) == [10.0, 11.0, 12.0]
    assert values(block.duration) == [None, 1.0, 1.0]
    assert values(block.step) == [None, 7, None]
    assert values(block.losses["loss"]) == [1.5, None, None]
    assert repr(values(block.losses["loss/1"])) == "[None, nan, None]"
    assert values(block.lrs["lr"]) == [0.1, None, None]
    assert values(block.phases["data"]) == [None, 0.25, None]
    assert values(block.samples) == [None, None, 96]
    assert values(block.tokens) == [None, None, 10**12]
    assert values(block.skipped) == [0, None, None]
    assert block.optimizers is None, "what no step measured is no column"


def test_a_block_ends_where_ordinals_jump_or_the_meaning_of_its_columns_changes() -> None:
    rows: list[Row] = [step(0), step(1), step(5), step(6, clocks={"forward": "device"}), step(7, step_source="user")]
    _, blocks = blocks_of(rows, attempt=0)
    assert [(block.ordinal, block.count) for block in blocks if isinstance(block, Steps)] == [
        (0, 2), (5, 1), (6, 1), (7, 1),
    ]  # fmt: skip


def test_a_number_its_column_cannot_hold_is_missing_and_the_block_is_whole() -> None:
    _, (block,) = blocks_of([step(0, 1.0, micro=2**40), step(1, 2.0, micro=3)], attempt=0)
    assert isinstance(block, Steps)
    assert block.micro is not None
    assert unpack(block.micro) == [None, 3]
    assert losses([block]) == [1.0, 2.0]


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
    assert [scalar.step for scalar in kept if isinstance(scalar, Scalars)] == list(range(50, 3000, 100))
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


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> pytest.CaptureFixture[str]:
    """What the probe prints, from here on into the file that pytest puts in the place of stderr."""
    monkeypatch.setattr(say_module, "_stderr", identity(2))
    return capfd


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
    monkeypatch.setattr(publisher_module, "RETRY_SECONDS", 0.1)
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
    monkeypatch.setattr(publisher_module, "standard_samplers", lambda: factories)
    job.start()
    folder = folder_of(home)
    wait_until(lambda: sum(isinstance(record, Host) for record in records(folder)) > 3)
    job.stop()
    kept = records(folder)
    assert [r.text for r in kept if isinstance(r, Event)] == ["sampler switched off: gpu: RuntimeError: gone"]
    assert [r for r in kept if isinstance(r, Heartbeat)][-1].probe.disabled == ["gpu: RuntimeError: gone"]
    assert said.readouterr().err.count("switched off") == 1


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
        assert any("waits_for_data" in call and "test_publisher.py:" in call for call in stack.frames)
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


def test_a_burst_is_kept_short_by_taking_fewer_rows(job: Job) -> None:
    wide = {f"loss/{n}": 1.0 for n in range(2000)}
    job.start()
    for ordinal in range(200):
        job.put(StepRow(ordinal, 0.0, losses=wide))
    wait_until(lambda: len(job.outbox) == 0)
    assert job.publisher is not None
    assert job.publisher._rows == publisher_module.MIN_ROWS
    job.stop()


@pytest.mark.parametrize("spoil", ["missing", "file", "link", "open", "long"])
def test_a_socket_folder_that_is_not_ours_alone_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    folder = tmp_path / ("x" * 100 if spoil == "long" else "runtime")
    if spoil in ("open", "long"):
        folder.mkdir(mode=0o700)
    if spoil == "open":
        folder.chmod(0o755)
    if spoil == "file":
        folder.write_text("")
    if spoil == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "target")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    chosen = endpoint.socket_path()
    assert not chosen.is_relative_to(tmp_path)
    assert chosen.parent.name == f"ntstop-{os.getuid()}"
    assert stat.S_IMODE(chosen.parent.stat().st_mode) == 0o700
    assert len(os.fsencode(chosen)) <= endpoint.MAX_PATH_BYTES


def test_socket_names_cannot_be_guessed() -> None:
    assert len({endpoint.socket_path() for _ in range(20)}) == 20
