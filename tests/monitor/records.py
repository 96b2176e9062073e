"""Runs written by hand: records as the probe would send them, for tests of rules and of the engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import Finding
from ntstop_probe import wire

NAMES = ["embed.weight", "block.0.weight", "block.1.weight", "head.weight"]


def manifest(**changes: object) -> wire.Manifest:
    """A manifest that lacks nothing."""
    values: dict[str, object] = {
        "command": ["python", "train.py"],
        "cwd": "/home/someone/job",
        "git_sha": "0123456789abcdef",
        "git_dirty": False,
        "seed": 7,
        "versions": {"torch": "2.9"},
        "config": {"width": 64},
        "data_hash": "sha256:1",
    }
    return wire.Manifest(**{**values, **changes})  # type: ignore[arg-type]


def hello(
    *, rank: int | None = None, attempt: int = 0, total_steps: int | None = None, of: wire.Manifest | None = None
) -> wire.Hello:
    """Who is writing."""
    return wire.Hello(
        protocol=wire.PROTOCOL,
        run="run-1",
        writer="host-1-1",
        host="host",
        boot="b",
        pid_namespace="p",
        pid=1,
        started=1.0,
        attempt=attempt,
        t=0.0,
        wall=1.7e9,
        rank=rank,
        total_steps=total_steps,
        manifest=manifest() if of is None else of,
    )


def schema(
    *,
    frozen: Sequence[bool] = (),
    in_optimizer: Sequence[bool] = (),
    id: int = 1,
    names: Sequence[str] = NAMES,
    numel: int = 10,
    dtype: str = "float32",
) -> wire.Schema:
    """Four layers; all of them trainable and in the optimizer unless told otherwise."""
    size = len(names)
    return wire.Schema(
        id=id,
        names=list(names),
        numel=[numel] * size,
        dtypes=[dtype] * size,
        frozen=list(frozen) or [False] * size,
        in_optimizer=list(in_optimizer) or [True] * size,
    )


def beat(t: float, ordinal: int, phase: str = "backward", **fields: int | None) -> wire.Heartbeat:
    """A heartbeat with what is said in it besides."""
    return wire.Heartbeat(t=t, wall=1.7e9 + t, phase=phase, age=0.001, ordinal=ordinal, **fields)  # type: ignore[arg-type]


def layers(ordinal: int, t: float, **columns: Sequence[float | None]) -> wire.Layers:
    """One sample of the schema above."""
    packed = {
        name: column
        for name, values in columns.items()
        if (column := wire.pack("u1" if name == "grad_nonfinite" else "f4", values)) is not None
    }
    return wire.Layers(schema=1, ordinal=ordinal, step=None, t=t, columns=packed)


@dataclass
class Script:
    """A training run as a list of records: steps in blocks, one heartbeat a second, whatever else the test adds."""

    step_time: float = 0.1
    block: int = 8
    t: float = 100.0
    ordinal: int = 0
    records: list[wire.Record] = field(default_factory=list)
    _beat: float = 100.0

    def add(self, *records: wire.Record) -> Script:
        """Append records as they are."""
        self.records.extend(records)
        return self

    def steps(
        self,
        losses: Sequence[float | None],
        *,
        rate: float | Sequence[float] | None = 1e-3,
        grad_norm: Sequence[float | None] | None = None,
        skipped: Sequence[int] | None = None,
        loss_scale: float | Sequence[float] | None = None,
        clip: float | None = None,
        micro: Sequence[int] | int | None = None,
        optimizers: int | None = None,
        zero_grads: Sequence[int] | int | None = None,
        second: Sequence[float] | None = None,
        stride: int | None = None,
        epoch: int | None = None,
    ) -> Script:
        """Append finished steps, in blocks of `block`, with the heartbeats that fall between them."""
        size = len(losses)
        rates = [rate] * size if rate is None or isinstance(rate, float) else list(rate)
        for start in range(0, len(losses), self.block):
            cut = slice(start, start + self.block)
            part = losses[cut]
            count = len(part)
            times = [self.t + self.step_time * (index + 1) for index in range(count)]
            clock = wire.pack("f8", times)
            assert clock is not None
            roots = {"loss": wire.pack("f8", part)}
            if second is not None:
                roots["loss/1"] = wire.pack("f8", second[cut])
            step = None
            if stride is not None:
                step = wire.pack("i8", [stride * (self.ordinal + index) for index in range(count)])
            lr = wire.pack("f8", rates[cut])
            self.records.append(
                wire.Steps(
                    count=count,
                    ordinal=self.ordinal,
                    t=clock,
                    duration=wire.pack("f4", [self.step_time] * count),
                    step=step,
                    losses={name: column for name, column in roots.items() if column is not None},
                    lrs={} if lr is None else {"lr": lr},
                    grad_norm=None if grad_norm is None else wire.pack("f8", grad_norm[cut]),
                    skipped=None if skipped is None else wire.pack("u1", skipped[cut]),
                    loss_scale=_column("f8", loss_scale, cut, count),
                    clip=_column("f4", clip, cut, count),
                    micro=_column("i4", micro, cut, count),
                    optimizers=_column("i4", optimizers, cut, count),
                    zero_grads=_column("i4", zero_grads, cut, count),
                    epoch=_column("i4", epoch, cut, count),
                )
            )
            self.t = times[-1]
            self.ordinal += count
            while self._beat + 1.0 <= self.t:
                self._beat += 1.0
                self.records.append(self._heartbeat("forward", 0.01))
        return self

    def waits(self, seconds: float, phase: str, *, reason: str = "", stacks: Sequence[wire.Stack] = ()) -> Script:
        """The training thread stays in one phase: heartbeats with growing age."""
        began = self._beat = self.t
        for _ in range(math.ceil(seconds)):
            self._beat += 1.0
            self.records.append(self._heartbeat(phase, self._beat - began, reason=reason, stacks=stacks))
        self.t = began + seconds
        return self

    def stopped(self, seconds: float, phase: str = "forward") -> Script:
        """Nobody beats: the process is stopped, then goes on."""
        began = self.t
        self.t += seconds
        self._beat = self.t
        self.records.append(self._heartbeat(phase, self.t - began))
        return self

    def event(self, kind: str, text: str = "", **data: object) -> Script:
        """Append an event."""
        self.records.append(wire.Event(t=self.t, kind=kind, text=text, ordinal=self.ordinal, data=data))
        return self

    def _heartbeat(
        self, phase: str, age: float, *, reason: str = "", stacks: Sequence[wire.Stack] = ()
    ) -> wire.Heartbeat:
        return wire.Heartbeat(
            t=self._beat,
            wall=1.7e9 + self._beat,
            phase=phase,
            age=age,
            ordinal=self.ordinal,
            reason=reason,
            stacks=list(stacks),
        )


def _column(
    kind: Literal["f4", "f8", "i4"], values: float | Sequence[float] | None, cut: slice, count: int
) -> wire.Column | None:
    if values is None:
        return None
    return wire.pack(kind, [values] * count if isinstance(values, (int, float)) else list(values)[cut])


def descent(count: int, *, start: float = 4.6, end: float = 1.5, noise: float = 0.03) -> list[float]:
    """A healthy loss: exponential descent over the whole run, with a fixed noise of a few percent."""
    return [
        (end + (start - end) * math.exp(-4.0 * step / count)) * (1.0 + noise * wobble(step)) for step in range(count)
    ]


def wobble(step: int) -> float:
    """Noise between -1 and 1 that is the same everywhere: the golden-ratio sequence."""
    return 2.0 * ((step * 0.6180339887498949) % 1.0) - 1.0


def diagnose(records: Sequence[wire.Record], *, writer: int = 1, engine: Engine | None = None) -> Engine:
    """An engine that has seen the records."""
    whole, engine = engine is None, engine or Engine()
    for record in records:
        engine.observe(writer, record)
    if whole:
        engine.settle()
    assert not engine.failed
    return engine


def kinds(engine: Engine, wanted: Callable[[Finding], bool] = lambda finding: True) -> list[str]:
    """The kinds of the findings, the weightiest first."""
    return [finding.kind for finding in engine.findings if wanted(finding)]


def weighty(engine: Engine) -> list[str]:
    """Kinds at warning or above."""
    return kinds(engine, lambda finding: finding.severity != "info")


def only(engine: Engine, kind: str) -> Finding:
    """The one finding of a kind."""
    found = [finding for finding in engine.findings if finding.kind == kind]
    assert len(found) == 1, kinds(engine)
    return found[0]
