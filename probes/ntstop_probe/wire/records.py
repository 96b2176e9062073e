"""The records a run is made of, as tagged array-like msgspec Structs in MessagePack.

Fields are only ever appended, with defaults: an older reader ignores what it does not know, a newer one fills in what
an older writer did not send. Seconds everywhere; bytes everywhere; norms are 2-norms in float32. `t` is always the
writer's monotonic clock (`time.monotonic()`), which `Hello` and `Heartbeat` pair with the wall clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .columns import Column

PROTOCOL = 1
"""Raised only when an old reader would misread the records; appended fields and new tags do not raise it."""


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """What makes a run repeatable, captured by the probe at start. Empty or None: could not be known."""

    command: list[str] = []
    cwd: str = ""
    environment: dict[str, str] = {}
    git_sha: str | None = None
    git_dirty: bool | None = None
    seed: int | None = None
    versions: dict[str, str] = {}
    hardware: dict[str, str] = {}
    layout: dict[str, str] = {}
    """How the world is laid out: world, rank, local_rank, nodes, backend, launcher."""
    precision: str | None = None
    optimizers: list[dict[str, Any]] = []
    """One an optimizer: {"class": str, "groups": [{"lr": .., "weight_decay": .., "params": int (tensors), "of": [the
    first names of these], ..}]}; groups with the same settings are one."""
    trainable_parameters: int | None = None
    frozen_parameters: int | None = None
    batch_size: int | None = None
    config: Any = None
    data_hash: str | None = None
    workers: int | None = None
    """Worker processes of the training DataLoader."""
    settled: bool = True
    """False while git has not answered yet: what is None may still come."""


class Hello(msgspec.Struct, tag="hello", array_like=True, frozen=True):
    """Who is writing. First record of every segment, repeated when it changes and when a viewer joins."""

    protocol: int
    run: str
    writer: str
    """Name of the writer's folder, `<host>-<pid>-<start time>`."""
    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: float
    """Start time of the process, seconds since boot (field 22 of /proc/PID/stat over the clock tick)."""
    attempt: int
    t: float
    wall: float
    """Unix time at the moment `t`."""
    rank: int | None = None
    world: int | None = None
    total_steps: int | None = None
    title: str | None = None
    probe: str = ""
    """Version of ntstop-probe."""
    manifest: Manifest = Manifest()


class Steps(msgspec.Struct, tag="steps", array_like=True, frozen=True):
    """A block of consecutive steps, one column a field, every column `count` long; an absent column was not measured.

    A step closes at the loader's `next()` after an optimizer step; without a loader, when an optimizer steps again.
    The phases are host seconds unless `clocks` says "device", and add up to `duration`. A step that was not timed (the
    budget allows one of k) has neither.
    """

    count: int
    ordinal: int
    """Number of the first step of the block in this process, from 0; the others follow one by one."""
    t: Column
    """f8: the end of each step."""
    duration: Column | None = None
    """f4 seconds, from the end of the step before; missing for the first step of all."""
    step: Column | None = None
    """i8: the job's own global step, where it is known."""
    step_source: str = ""
    """Where `step` comes from: "user", "optimizer", "trainer"; "" when it is the ordinal."""
    attempt: int = 0
    epoch: Column | None = None
    samples: Column | None = None
    """i8, cumulative."""
    tokens: Column | None = None
    """i8, cumulative."""
    micro: Column | None = None
    """i4: backward passes in the step."""
    optimizers: Column | None = None
    """i4: optimizer steps in the step."""
    losses: dict[str, Column] = {}
    """f8 by root: "loss" (averaged over micro-batches; what a framework is known to have divided it by is undone),
    "loss/1" … for further roots of one step (a GAN)."""
    lrs: dict[str, Column] = {}
    """f8 by optimizer and group: "lr", "lr/0.1", "lr/1.0" …"""
    phases: dict[str, Column] = {}
    """f4 seconds by phase: "data", "forward" (or "input+forward"), "backward", "optimizer", "other"."""
    clocks: dict[str, str] = {}
    """Phases that are not on the host's clock: {"forward": "device"}."""
    grad_norm: Column | None = None
    """f8: global gradient norm before clipping, unscaled."""
    clip: Column | None = None
    """f4: clip coefficient, 1 when nothing was clipped."""
    loss_scale: Column | None = None
    skipped: Column | None = None
    """u1: 1 when the optimizer was kept from stepping (AMP overflow)."""
    zero_grads: Column | None = None
    """i4: calls of `zero_grad`, of an optimizer or a module; gradients set to None by hand are not seen."""


class Schema(msgspec.Struct, tag="schema", array_like=True, frozen=True):
    """Names of the layers (one a parameter) that a `Layers` record with the same `id` carries, in order."""

    id: int
    names: list[str]
    numel: list[int] = []
    """Elements of each parameter."""
    dtypes: list[str] = []
    frozen: list[bool] = []
    """True where `requires_grad` is False."""
    in_optimizer: list[bool] = []
    """True where an optimizer holds this very tensor."""
    shards: list[int] = []
    """Ranks that each parameter is split over (FSDP2, tensor parallel); empty: none is. Norms are those of the part
    that the writer has. Of the R ranks that have a layer, norm² of the whole = shards / R · sum of their norm²: true
    for replicas (shards 1), for shards, and for replicas of shards."""


class Layers(msgspec.Struct, tag="layers", array_like=True, frozen=True):
    """Numbers of every layer at one sampled step; every column is as long as the schema's names.

    Fields: "grad_norm" (before clipping, unscaled), "param_norm" (before the update), "update_ratio" (‖Δw‖/‖w‖ from a
    strided sample, about ±5 %), "grad_zero" and "unchanged" (shares, in the same sample, of gradient elements that
    are exactly 0 and of elements that the update left as they were), "grad_nonfinite" (u1).
    """

    schema: int
    ordinal: int
    step: int | None
    t: float
    columns: dict[str, Column] = {}
    interval: int = 1
    """Steps between this sample and the one before, at the interval then in force."""


class Device(msgspec.Struct, tag="device", array_like=True, frozen=True):
    """One accelerator at one moment. None: the driver did not say (MIG, permissions), never 0."""

    t: float
    index: int
    uuid: str = ""
    name: str = ""
    utilization: float | None = None
    """Percent of the last sampling period in which a kernel ran."""
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    temperature: float | None = None
    """Degrees Celsius."""
    throttle: list[str] = []
    """What keeps its clocks down, in words."""
    ecc_uncorrected: int | None = None
    """Memory errors that were not corrected, since the driver was loaded."""
    lost: bool = False
    """It has fallen off the bus, or waits to be reset: the driver cannot reach it."""


class Host(msgspec.Struct, tag="host", array_like=True, frozen=True):
    """The process and its host at one moment. CPU in cores (1.0 = one core busy)."""

    t: float
    process_cpu: float | None = None
    process_rss: int | None = None
    host_cpu: float | None = None
    """Cores busy on the whole host."""
    cores: int | None = None
    """Cores this process may use."""
    memory_used: int | None = None
    memory_total: int | None = None
    children_cpu: float | None = None
    children_rss: int | None = None
    children: int | None = None
    """Child processes, such as loader workers."""
    children_private: int | None = None
    """Bytes of the children that they share with nobody. A fork shares all, and what is written is copied: this grows
    with it, while `children_rss` has counted the shared pages from the first. None: not read at this moment."""
    shared_used: int | None = None
    """Bytes in /dev/shm, through which loader workers hand over what they have loaded. None: there is none."""
    shared_total: int | None = None
    """Bytes that there is room for in it; a container often has 64 MiB."""


class Allocator(msgspec.Struct, tag="allocator", array_like=True, frozen=True):
    """The CUDA caching allocator of one device, bytes now and counts since the start."""

    t: float
    index: int
    allocated: int | None = None
    reserved: int | None = None
    active: int | None = None
    inactive_split: int | None = None
    retries: int | None = None
    ooms: int | None = None
    largest_free: int | None = None
    """Bytes of the largest block that is reserved and free; None where looking would take too long."""


class Compiler(msgspec.Struct, tag="compiler", array_like=True, frozen=True):
    """What torch.compile has done, counts since the start. None: this version of torch does not say."""

    t: float
    graphs: int | None = None
    graph_breaks: int | None = None
    recompiles: int | None = None
    """Compilations of a function beyond its first."""
    seconds: float | None = None
    """Spent compiling."""


class Scalars(msgspec.Struct, tag="scalar", array_like=True, frozen=True):
    """Numbers the user logged together."""

    t: float
    step: int | None
    """The step the user named; None: the step it was logged in, `ordinal`."""
    ordinal: int
    values: dict[str, float] = {}


class ScalarBlock(msgspec.Struct, tag="scalars", array_like=True, frozen=True):
    """Several of `Scalars`, one row each, every column `count` long."""

    count: int
    t: Column
    """f8."""
    ordinal: Column
    """i8."""
    step: Column | None = None
    """i8: the step the user named; missing: the step it was logged in."""
    values: dict[str, Column] = {}
    """f8 by name; missing where a row has no such number."""


class Event(msgspec.Struct, tag="event", array_like=True, frozen=True):
    """Something that happened once.

    Kinds: "checkpoint" (written; `text` is the path), "load" (a checkpoint was read), "evaluation", "epoch", "resume",
    "exception", "exit", "mark", "warning" (the probe switched something off or could not do it: `text` says what),
    "sampling" (an interval changed), "gone" (never written by a probe: a relay says that the process is no more).
    `data` holds plain values; an exit carries {"code": int | None}, a checkpoint that was seen passing {"by": library}.
    """

    t: float
    kind: str
    text: str = ""
    ordinal: int | None = None
    step: int | None = None
    duration: float | None = None
    data: dict[str, Any] = {}


class Stack(msgspec.Struct, array_like=True, frozen=True):
    """Where a thread stands: "function (file:line)", outermost first."""

    thread: str
    frames: list[str]


class ProbeStatus(msgspec.Struct, array_like=True, frozen=True):
    """What the probe costs and what it has lost, since the start."""

    cost: float | None = None
    """Seconds on the training thread per step, mean over the last beats; None before the first step."""
    share: float | None = None
    """`cost` over the step time."""
    dropped: int = 0
    """Rows the bounded queue had no room for."""
    unrecorded: int = 0
    """Frames that could not be written to the recording."""
    layer_interval: int | None = None
    viewers: int = 0
    disabled: list[str] = []
    """Parts that failed and switched themselves off."""
    publisher_cpu: float | None = None
    """CPU seconds per second of the publisher thread."""
    setup: float | None = None
    """Seconds on the training thread that were spent once, at the first step, and are no part of `cost`."""
    tier: str = ""
    """How much is left out to keep to the budget: "full", "no update ratio", "no parameter norms", "no layers",
    "no details" (rates and norms now and then), "timing thinned" (phases too), "disarmed"."""
    timing_interval: int | None = None
    """Steps from one whose phases are timed to the next; losses are read in every step."""
    ratio_interval: int | None = None


class Heartbeat(msgspec.Struct, tag="heartbeat", array_like=True, frozen=True):
    """Once a second from the publisher thread: the process runs, and this is the phase the training thread is in."""

    t: float
    wall: float
    phase: str
    """"start" (before the first step), "data", "forward", "input+forward" (no loader), "backward", "optimizer",
    "other", "eval", "checkpoint", "collective", "idle" (training has ended)."""
    age: float
    """Seconds in that phase."""
    ordinal: int
    """Steps finished."""
    stacks: list[Stack] = []
    """Filled when the phase has not moved for some seconds."""
    probe: ProbeStatus = ProbeStatus()
    reason: str = ""
    """Why there are no steps yet: "torch not imported", "no optimizer step yet" …; "" when there are."""
    backwards: int = 0
    """Backward passes since the last optimizer step."""
    looks: int = 0
    """Moments since the last beat, in backward or optimizer, in which the mode of the models was looked at."""
    eval_looks: int = 0
    """Of these, moments in which all models that are trained were in evaluation mode."""
    eval_since: int | None = None
    """Steps finished at the first look of those in a row, up to the newest, that found evaluation mode."""
    sensitive: int = 0
    """Modules of these models that do something else in evaluation mode: dropout, batch norm."""
    loader_ready: int | None = None
    """Batches for training that the loader's workers have ready at this moment. None: it has none, or does not tell."""
    loader_most: int | None = None
    """How many they make ahead at most."""


Record = (
    Hello | Steps | Schema | Layers | Device | Host | Allocator | Scalars | ScalarBlock | Event | Heartbeat | Compiler
)

_encoder = msgspec.msgpack.Encoder()
_batch_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode_batch(records: Sequence[Record]) -> bytes:
    """A payload: the MessagePack list of `records`. Half a character, as in a name that is no UTF-8, becomes a "?"."""
    try:
        return _encoder.encode(records)
    except UnicodeEncodeError:
        return _encoder.encode(_whole(msgspec.to_builtins(records, builtin_types=(bytes, bytearray, memoryview))))


def _whole(value: object) -> object:
    """The same with text that can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def decode_batch(payload: bytes) -> tuple[list[Record], int]:
    """The records of a payload and the number that was skipped (an unknown tag, a field of the wrong type).

    Never raises: a payload that is no list of records counts as one skipped.
    """
    try:
        raws = _batch_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return [], 1
    records, skipped = [], 0
    for raw in raws:
        try:
            records.append(_record_decoder.decode(raw))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            skipped += 1
    return records, skipped
