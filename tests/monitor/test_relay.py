"""`ntstop relay RUN | ntstop -`: what comes out at the other end of a pipe, or of an ssh, is the run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ntstop.run.state import RunState
from ntstop.session import Session
from ntstop.sources.live import RunSource
from ntstop.sources.pipe import Pipe
from ntstop.sources.stdio import RelaySource, content
from ntstop.tui.widgets.probe import probe_entries
from ntstop_probe import registry
from ntstop_probe.recording import Recording
from ntstop_probe.wire import (
    MAGIC,
    STREAM_LAYERS,
    Event,
    FrameReader,
    Heartbeat,
    Layers,
    Schema,
    decode_batch,
    encode_frame,
)
from tests.helpers import wait_until

from .relaying import finished
from .writer import EPOCH, Writer, column, steps

NTSTOP = str(Path(sys.executable).with_name("ntstop"))


@contextlib.contextmanager
def relaying(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([NTSTOP, "relay", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def piped(data: bytes) -> Pipe:
    read, write = os.pipe()
    threading.Thread(target=_send, args=(write, data), daemon=True).start()
    return Pipe(read)


def _send(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file, contextlib.suppress(OSError):
        file.write(data)


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def output_of(*words: str) -> bytes:
    return subprocess.run([NTSTOP, "relay", *words], check=True, capture_output=True, timeout=60).stdout


def read_all(source: RelaySource | RunSource) -> RunState:
    state = RunState()
    while True:
        arrivals = source.poll(0.1)
        for writer, _, record in arrivals:
            state.apply(writer, record)
        if not arrivals and source.status.complete:
            return state


def test_a_finished_run_comes_out_whole_and_the_relay_ends_with_it() -> None:
    writers = [Writer("run-1", rank=rank) for rank in range(2)]
    for writer in writers:
        writer.train(0, 300)
        writer.exit()
        writer.close()
    session = Session(RelaySource(piped(output_of("run-1"))))
    session.load()
    direct = read_all(RunSource(writers[0].folder.parent, live=False))
    assert session.status.gaps == session.status.corrupt == session.status.skipped == 0
    assert session.state.ranks.keys() == {0, 1}
    for rank, process in session.state.ranks.items():
        for name, series in process.series.items():
            for mine, theirs in zip(series.recent(300), direct.ranks[rank].series[name].recent(300), strict=True):
                np.testing.assert_array_equal(mine, theirs)
    assert session.entry is not None
    assert (session.entry.id, session.entry.state, session.entry.ranks) == ("run-1", "finished", 2)
    assert session.status.problem == ""


def test_a_banner_before_the_first_frame_is_skipped_and_is_nobodys_damage() -> None:
    finished()
    banner = b"Welcome to node17\r\nMaintenance on \xf1 Friday\n" * 40
    pipe = piped(banner + output_of("run-1"))
    assert content(pipe) == "frames"
    source = RelaySource(pipe)
    assert read_all(source).primary is not None
    assert source.status.corrupt == 0


def test_layers_that_the_writer_has_removed_are_no_gap_behind_a_relay_either() -> None:
    writer = Writer("run-1", segment_bytes=64 * 1024)
    assert writer.transmitter.recording is not None
    writer.transmitter.recording.close()
    writer.transmitter.recording = Recording(writer.folder, 64 * 1024, max_bytes=1_000_000)
    writer.send_layers(Schema(1, [f"layer.{n}" for n in range(256)]))
    norms = column("f4", [1.0] * 256)
    for ordinal in range(1000):
        writer.send_layers(Layers(1, ordinal, None, EPOCH + ordinal, {"grad_norm": norms, "param_norm": norms}))
        writer.send(steps(ordinal, [1.0]))
    writer.exit()
    writer.close()
    frames = registry.read_tombstone(writer.folder).frames
    assert frames > 100
    direct = RunSource(writer.folder.parent, live=False)
    read_all(direct)
    assert "were removed to keep to NTSTOP_MAX_DISK" in direct.status.removed
    output = output_of("run-1")
    source = RelaySource(piped(output))
    state = read_all(source)
    assert (source.status.gaps, source.status.corrupt) == (0, 0)
    assert source.status.removed == direct.status.removed
    assert state.primary is not None
    assert state.primary.steps == 1000
    session = Session(RelaySource(piped(output)))
    session.load()
    assert session.state.primary is not None
    said = {entry.label: entry.text for entry in probe_entries(session, session.state.primary)}
    assert (said["gaps"], said["removed"]) == ("none", direct.status.removed)
    # What is missing beside it is missing.
    reader = FrameReader()
    sent = reader.feed(output)
    place = next(place for place in range(50, len(sent)) if sent[place].stream == STREAM_LAYERS)
    cut = b"".join(encode_frame(*frame[:4]) for frame in [*sent[:place], *sent[place + 1 :]])
    source = RelaySource(piped(cut))
    read_all(source)
    assert source.status.gaps == 1


def test_damage_in_the_middle_is_counted_and_the_rest_is_read() -> None:
    finished()
    data = bytearray(output_of("run-1"))
    data[len(data) // 2] ^= 0xFF
    source = RelaySource(piped(bytes(data)))
    state = read_all(source)
    assert source.status.corrupt == 1
    assert source.status.gaps == 1
    assert state.primary is not None
    assert state.primary.exit is not None


@pytest.mark.parametrize("text", [b"step 1 loss 2.5\n", b"", b"\xf1NT"])
def test_what_holds_no_frame_is_known_by_its_content(text: bytes) -> None:
    assert content(piped(text)) == ("text" if text else "nothing")


@pytest.mark.parametrize(
    "text",
    [b"loading the data\nstep 1 loss 3.5\n", b"step,loss\n1,3\n2,2\n", b'{"step": 1, "loss": 3}\n' * 3],
    ids=["text", "table", "json"],
)
def test_what_a_training_prints_is_known_by_its_first_numbers_while_the_pipe_is_open(text: bytes) -> None:
    read, write = os.pipe()
    os.write(write, text)
    began = time.monotonic()
    assert content(Pipe(read)) == "text"
    # Behind a banner a frame is waited for 10 s.
    assert time.monotonic() - began < 5.0
    os.close(write)


def test_live_frames_arrive_in_less_than_half_a_second_and_the_relay_ends_with_the_run() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 20)
    with relaying("run-1") as relay:
        assert relay.stdout is not None
        source = RelaySource(Pipe(os.dup(relay.stdout.fileno())))
        arrived: dict[int, float] = {}
        sent: dict[int, float] = {}

        def look() -> bool:
            writer.pump()
            for _, _, record in source.poll(0.02):
                if isinstance(record, Heartbeat):
                    arrived[record.ordinal] = time.monotonic()
            return source.status.complete

        wait_until(look, interval=0)
        live = writer.transmitter.live
        assert live is not None
        wait_until(lambda: look() and live.viewers, interval=0)
        for number in range(1, 16):
            sent[number] = time.monotonic()
            writer.beat(number)
            wait_until(lambda number=number: look() and number in arrived, interval=0)
        # The median: this machine may stop for a while at any time.
        delays = sorted(arrived[number] - sent[number] for number in sent)
        assert delays[len(delays) // 2] < 0.3
        assert source.status.live
        writer.exit()
        writer.close()
        wait_until(lambda: not source.poll(0.05) and relay.poll() is not None, interval=0)
        assert relay.returncode == 0
        assert source.status.problem == ""


def test_a_run_that_is_only_recorded_is_followed_too() -> None:
    writer = Writer("run-1")
    writer.train(0, 20)
    with relaying("run-1") as relay:
        assert relay.stdout is not None
        source = RelaySource(Pipe(os.dup(relay.stdout.fileno())))
        state = RunState()

        def has(steps: int) -> bool:
            for number, _, record in source.poll(0.05):
                state.apply(number, record)
            return state.primary is not None and state.primary.steps >= steps

        wait_until(lambda: has(20))
        writer.train(20, 30)
        wait_until(lambda: has(50))
    writer.close()


def test_nobody_who_reads_ends_the_relay_quietly_even_when_there_is_nothing_to_write() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 10)
    with relaying("run-1") as relay:
        assert relay.stdout is not None and relay.stderr is not None
        assert relay.stdout.read(4) == MAGIC
        relay.stdout.close()
        assert relay.wait(20) == 1
        assert relay.stderr.read() == b""
    writer.close()


def test_a_relay_whose_reader_has_stopped_does_not_hold_up_the_job_and_loses_nothing() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 10)
    with relaying("run-1") as relay:
        live = writer.transmitter.live
        assert live is not None and relay.stdout is not None
        wait_until(lambda: (writer.pump(), live.viewers)[1])
        began = time.monotonic()
        writer.train(10, 20_000, block=1)
        # Ten times the pipe's buffer; a job that waited would wait for ever.
        assert time.monotonic() - began < 30
        writer.exit()
        writer.close()
        data = relay.stdout.read()
        assert relay.wait(30) == 0
    source = RelaySource(piped(data))
    state = read_all(source)
    assert state.primary is not None
    assert state.primary.steps == 20_010
    assert source.status.gaps == 0


def test_only_the_relay_knows_that_a_process_is_gone_and_it_says_so() -> None:
    writer = Writer("run-1", pid=dead_pid())
    writer.train(0, 30)
    writer.close()
    data = output_of("run-1")
    events = [record for frame in FrameReader().feed(data) for record in decode_batch(frame.payload)[0]]
    assert [record.kind for record in events if isinstance(record, Event)] == ["gone"]
    session = Session(RelaySource(piped(data)))
    session.load()
    assert session.entry is not None
    assert session.entry.state == "died"
    assert "died" in {finding.kind for finding in session.findings}


def test_a_silent_run_of_another_host_is_stale_and_never_died() -> None:
    writer = Writer("run-1", host="node17")
    writer.train(0, 30)
    writer.send(Heartbeat(EPOCH + 3.0, time.time() - 3600, "forward", 0.1, 30))
    writer.close()
    data = b"".join(path.read_bytes() for path in sorted(writer.folder.glob("core-*.nts")))
    session = Session(RelaySource(piped(data)))
    session.load()
    assert session.entry is not None
    assert session.entry.state == "stale"
    assert "node17" in session.entry.why
    assert "the pipe has ended" in session.status.problem


def test_a_live_run_of_another_host_is_live_by_its_beats_although_its_clock_is_hours_off() -> None:
    writer = Writer("run-1", host="node17", live=True)
    writer.train(0, 30)
    with relaying("run-1") as relay:
        assert relay.stdout is not None
        with Session(RelaySource(Pipe(os.dup(relay.stdout.fileno())))) as session:
            live = writer.transmitter.live
            assert live is not None

            def is_live() -> bool:
                writer.pump()
                writer.send(Heartbeat(EPOCH + 3.0, time.time() - 7200, "forward", 0.1, 30))
                return session.entry is not None and session.entry.state == "live"

            wait_until(is_live, interval=0.2)
    writer.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing-like-it"], b"there is no run 'nothing-like-it'"),
        ([], b"no run is live"),
    ],
)
def test_what_cannot_be_relayed_is_one_line_and_code_2(words: list[str], said: bytes) -> None:
    done = subprocess.run([NTSTOP, "relay", *words], capture_output=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 100_000])
def test_a_pipe_without_frames_is_one_line_and_code_2(data: bytes) -> None:
    done = subprocess.run([NTSTOP, "-"], input=data, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
