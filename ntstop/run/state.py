"""The state of a run: records in, curves out."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop.curves.matrix import LayerMatrix
from ntstop.sources import columns
from ntstop_probe.wire import (
    Allocator,
    Column,
    Compiler,
    Device,
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Record,
    ScalarBlock,
    Scalars,
    Schema,
    Steps,
)

from .brief import LOSS, STEP_TIME, WAIT, Brief
from .names import LOADER_QUEUE, STEP_COLUMNS, logged_name
from .process import MANY, ProcessState, Track
from .waiting import put

_DEVICE_FIELDS = ("utilization", "memory_used", "memory_total", "power", "power_limit", "temperature",
                  "ecc_uncorrected")  # fmt: skip
_HOST_FIELDS = ("process_cpu", "process_rss", "host_cpu", "cores", "memory_used", "memory_total", "children_cpu",
                "children_rss", "children", "children_private", "shared_used", "shared_total")  # fmt: skip
_ALLOCATOR_FIELDS = ("allocated", "reserved", "active", "inactive_split", "retries", "ooms", "largest_free")
_COMPILER_FIELDS = ("graphs", "graph_breaks", "recompiles", "seconds")


class RunState:
    """Everything that is known of a run. `apply` takes records in the order of each writer.

    Series names: "loss", "loss/1" …, "lr", "lr/0.1" …, "grad_norm", "clip", "loss_scale", "skipped", "micro",
    "step_time" (s), "phase/<phase>" (s), "epoch", "samples", "tokens", "zero_grads"; "host/<field>",
    "gpu<index>/<field>", "alloc<index>/<field>" and "compile/<field>" with the field names of the wire; "loader/ready";
    and what the user logs, under its own name ("logged/loss" where that is the name of something measured). Their x is
    the global step where the job has one, else the ordinal; their t is the writer's monotonic clock. Not thread-safe.
    """

    def __init__(self) -> None:
        self.processes: dict[int, ProcessState] = {}
        self.version = 0
        """Goes up with every record."""
        self._tracks: list[Track] = []
        self._layered: Track | None = None
        """The one whose layers are kept."""
        self._primary: ProcessState | None = None
        self._ranks: dict[int | None, ProcessState] | None = None
        """These two as they were found last; None where they have to be found anew."""

    @property
    def primary(self) -> ProcessState | None:
        """Rank 0 (or the process without a rank) in its latest attempt; None before any process."""
        if self._primary is None:
            self._primary = self._find_primary()
        return self._primary

    def _find_primary(self) -> ProcessState | None:
        processes = list(self.processes.values())
        if any(process.rank is not None for process in processes):
            # A launcher with the probe in it has no rank and takes no steps.
            processes = [process for process in processes if process.rank is not None or process.steps]
        return min(processes, key=_primary_order, default=None)

    @property
    def ranks(self) -> dict[int | None, ProcessState]:
        """The latest attempt of every rank, by rank; a process without one stands under None. Not to be changed."""
        if self._ranks is None:
            self._ranks = self._find_ranks()
        return self._ranks

    def _find_ranks(self) -> dict[int | None, ProcessState]:
        latest: dict[int | None, ProcessState] = {}
        for process in self.processes.values():
            known = latest.get(process.rank)
            if known is None or (process.attempt, process.steps > 0) > (known.attempt, known.steps > 0):
                latest[process.rank] = process
        return dict(sorted(latest.items(), key=lambda item: -1 if item[0] is None else item[0]))

    @property
    def run(self) -> str:
        """The id of the run, "" before the first process has introduced itself."""
        return next((process.hello.run for process in self.processes.values() if process.hello), "")

    def apply(self, writer: int, record: Record) -> None:
        """Take in one record of the process `writer`. A record that does not fit together is counted and left out."""
        process = self.processes.get(writer)
        if process is None:
            process = self.processes[writer] = ProcessState(writer, self._new_track(None))
            self._forget_ranks()
        self.version += 1
        try:
            self._apply(process, record)
        except (ValueError, TypeError, KeyError, OverflowError):
            process.misfits += 1

    def _apply(self, process: ProcessState, record: Record) -> None:
        if isinstance(record, Steps):
            if not process.steps:
                self._forget_ranks()
            if process.track.brief is None:
                _apply_steps(process, record)
            else:
                _apply_briefly(process, process.track.brief, record)
        elif isinstance(record, Layers):
            self._apply_layers(process, record)
        elif isinstance(record, Scalars):
            if process.track.brief is None:
                x = float(record.step) if record.step is not None else _x_of(process, record.ordinal)
                process.track.log(x, record.t, record.values)
        elif isinstance(record, ScalarBlock):
            if process.track.brief is None:
                _apply_scalars(process, record)
        elif isinstance(record, Host):
            _sample(process, record, "host", _HOST_FIELDS)
        elif isinstance(record, Device):
            process.devices[record.index] = record.name
            process.accelerators[record.index] = record
            _sample(process, record, f"gpu{record.index}", _DEVICE_FIELDS)
        elif isinstance(record, Allocator):
            _sample(process, record, f"alloc{record.index}", _ALLOCATOR_FIELDS)
        elif isinstance(record, Compiler):
            _sample(process, record, "compile", _COMPILER_FIELDS)
        elif isinstance(record, Heartbeat):
            process.heartbeat, process.heartbeat_arrival = record, time.monotonic()
            if record.loader_ready is not None:
                _append(process, LOADER_QUEUE, record.loader_ready, record.t)
            if record.loader_most is not None:
                process.loader_most = record.loader_most
        elif isinstance(record, Event):
            _apply_event(process, record)
        elif isinstance(record, Schema):
            process.schema = record
            process.track.layers_are(tuple(record.names))
        else:
            self._apply_hello(process, record)

    def _forget_ranks(self) -> None:
        """Something has come that may change which process is a rank's latest, or the first of all."""
        self._primary = self._ranks = None

    def _apply_layers(self, process: ProcessState, sample: Layers) -> None:
        """Keep the layers of the first rank only: those of a data-parallel run are alike, and megabytes each."""
        track, kept = process.track, self._layered
        if kept is not None and kept is not track:
            if _rank_order(kept) <= _rank_order(track):
                return
            kept.layers = {}
        self._layered = track
        _apply_layers(process, sample)

    def _apply_hello(self, process: ProcessState, hello: Hello) -> None:
        known, process.hello = process.hello, hello
        self._forget_ranks()
        if known is None or (known.rank, known.attempt) != (hello.rank, hello.attempt):
            self._join_track(process, hello)

    def _join_track(self, process: ProcessState, hello: Hello) -> None:
        """Let a process go on with the curves of the earlier attempts of its rank.

        Processes without a rank are one after the other when their attempts differ, and siblings when not. What was
        drawn before a late rank became known (a few steps at most) is taken along.
        """
        own = process.track
        if own.rank == hello.rank and own.attempts == {hello.attempt}:
            return
        for track in self._tracks:
            if track is own or track.rank != hello.rank or hello.attempt in track.attempts or not track.attempts:
                continue
            for name, series in own.series.items():
                track.take(name, *series.recent(series.count))
            self._tracks.remove(own)
            self._layered = None if self._layered is own else self._layered
            process.track = track
            break
        process.track.rank = hello.rank
        process.track.attempts.add(hello.attempt)
        if len(self.processes) > MANY and hello.rank is not None and hello.rank > self._first_rank():
            process.track.be_brief()

    def _first_rank(self) -> int:
        """The lowest rank that is known: the curves on the screen are its."""
        return min((track.rank for track in self._tracks if track.rank is not None), default=0)

    def _new_track(self, rank: int | None) -> Track:
        track = Track(rank)
        self._tracks.append(track)
        return track


def _rank_order(track: Track) -> int:
    return -1 if track.rank is None else track.rank


def _primary_order(process: ProcessState) -> tuple[int, bool, int, bool]:
    return process.rank or 0, process.hello is None, -process.attempt, process.steps == 0


def _apply_steps(process: ProcessState, block: Steps) -> None:
    """Add a block of steps to the curves: together with others of its kind, or a whole column at a time."""
    ends = process.track.wait(process, block) or _apply_at_once(process, block)
    for name in block.phases:
        if name not in process.phase_names:
            process.phase_names.append(name)
    process.clocks.update(block.clocks)
    _advance(process, block, *ends)


def _apply_at_once(process: ProcessState, block: Steps) -> tuple[float, float, float]:
    """Its first and last place on the step axis, and its last time."""
    count = block.count
    t = columns.values(block.t)
    if count <= 0 or len(t) != count:
        raise ValueError(f"{len(t)} times for {count} steps")
    x = _steps_axis(process, block)
    for field, name in STEP_COLUMNS.items():
        column = getattr(block, field)
        if column is not None:
            _extend(process, name, column, x, t)
    for group in (block.losses, block.lrs):
        for name, column in group.items():
            _extend(process, name, column, x, t)
    for name, column in block.phases.items():
        _extend(process, f"phase/{name}", column, x, t)
    return float(x[0]), float(x[-1]), float(t[-1])


def _apply_briefly(process: ProcessState, brief: Brief, block: Steps) -> None:
    """Take in what is kept of one rank among many."""
    ends = brief.add(block)
    if ends is None:
        t = columns.values(block.t)
        if block.count <= 0 or len(t) != block.count:
            raise ValueError(f"{len(t)} times for {block.count} steps")
        x = _steps_axis(process, block)
        named = {STEP_TIME: block.duration, WAIT: block.phases.get("data"), LOSS: block.losses.get(LOSS)}
        for name, column in named.items():
            if column is not None:
                _extend(process, name, column, x, t)
        ends = float(x[0]), float(x[-1]), float(t[-1])
    _advance(process, block, *ends)


def _advance(process: ProcessState, block: Steps, first_x: float, last_x: float, t: float) -> None:
    """The process has finished the steps of a block, from `first_x` to `last_x`, the last of them at `t`."""
    count = block.count
    process.steps += count
    process.ordinal = block.ordinal + count - 1
    if count > 1 and last_x > first_x and block.step_source != "log":
        # A log has one row for many steps, and gives the time of one.
        process.stride = (last_x - first_x) / (count - 1)
    process.x = last_x
    if process.first_x is None:
        process.first_x = first_x
    process.last_t = t


def _steps_axis(process: ProcessState, block: Steps) -> NDArray[np.float64]:
    """The global steps of a block; the ordinals where it has none, moved along where it has some."""
    ordinals = np.arange(block.ordinal, block.ordinal + block.count, dtype=np.float64)
    if block.step is None:
        return ordinals
    steps = columns.to_floats(block.step)
    if len(steps) != block.count:
        raise ValueError(f"{len(steps)} steps in a block of {block.count}")
    missing = np.isnan(steps)
    if missing.all():
        return ordinals
    if missing.any():
        known = np.flatnonzero(~missing)
        nearest = known[np.clip(np.searchsorted(known, np.arange(block.count), side="right") - 1, 0, None)]
        steps = np.where(missing, steps[nearest] + (ordinals - ordinals[nearest]), steps)
    return steps


def _extend(process: ProcessState, name: str, column: Column, x: NDArray[Any], t: NDArray[Any]) -> None:
    process.misfits += not put(name, column, x, t, process.track.take)


def _x_of(process: ProcessState, ordinal: int) -> float:
    """Where a step lies on the axis, by the steps that are known."""
    if process.ordinal is None:
        return float(ordinal)
    return process.x + (ordinal - process.ordinal) * process.stride


def _apply_scalars(process: ProcessState, block: ScalarBlock) -> None:
    """Add what the job logged to its curves, a column at a time."""
    t, x = columns.values(block.t), columns.to_floats(block.ordinal)
    if process.ordinal is not None:
        x = process.x + (x - process.ordinal) * process.stride
    if block.step is not None:
        steps = columns.to_floats(block.step)
        x = np.where(np.isnan(steps), x, steps)
    if not len(t) == len(x) == block.count:
        raise ValueError(f"{len(t)} times and {len(x)} steps for {block.count} rows")
    process.track.settle_logged()
    for name, column in block.values.items():
        _extend(process, logged_name(name), column, x, t)


def _apply_layers(process: ProcessState, sample: Layers) -> None:
    schema = process.schema
    if schema is None or schema.id != sample.schema:
        process.skipped_layers += 1
        return
    x = float(sample.step) if sample.step is not None else _x_of(process, sample.ordinal)
    fields: dict[str, tuple[NDArray[np.float32], NDArray[np.bool_] | None]] = {}
    for name, column in sample.columns.items():
        values = columns.values(column).astype(np.float32, copy=False)
        if len(values) != len(schema.names):
            process.misfits += 1
            continue
        fields[name] = values, columns.present(column) if column.present else None
    if "grad_norm" in fields and "param_norm" in fields:
        fields["ratio"] = _ratio(fields["grad_norm"], fields["param_norm"])
    for name, (values, present) in fields.items():
        matrix = process.track.layers.get(name)
        if matrix is None:
            matrix = process.track.layers[name] = LayerMatrix(len(schema.names))
        matrix.append(x, values, present)


def _ratio(
    gradient: tuple[NDArray[np.float32], NDArray[np.bool_] | None],
    parameter: tuple[NDArray[np.float32], NDArray[np.bool_] | None],
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Gradient over parameter norm; missing where either is, and where the parameters are all zero."""
    norms, weights = gradient[0], parameter[0]
    there = weights != 0
    for present in (gradient[1], parameter[1]):
        if present is not None:
            there = there & present
    with np.errstate(invalid="ignore", over="ignore"):
        return np.divide(norms, weights, out=np.zeros_like(norms), where=there), there


def _sample(
    process: ProcessState, record: Host | Device | Allocator | Compiler, prefix: str, fields: tuple[str, ...]
) -> None:
    for field in fields:
        value = getattr(record, field)
        if value is not None:
            _append(process, f"{prefix}/{field}", value, record.t)


def _append(process: ProcessState, name: str, value: float, t: float) -> None:
    """A value of this moment, at the newest step."""
    brief = process.track.brief
    if brief is not None:
        brief.newest[name] = float(value)
    else:
        process.track.get(name).append(process.x, float(value), t)


def _apply_event(process: ProcessState, event: Event) -> None:
    process.events_seen += 1
    process.events.append(event)
    if event.kind == "warning":
        process.warnings.append(event)
    elif event.kind == "exit":
        process.exit = event
    elif event.kind == "exception":
        process.exception = event
    elif event.kind == "checkpoint":
        process.checkpoint = event
