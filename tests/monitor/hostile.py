"""Records that pass every checksum and make no sense: what a broken or a foreign writer might send."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from ntstop_probe import wire

NAMES = [
    "loss", "loss/1", "lr", "lr/0.1", "data", "forward", "grad_norm", "param_norm", "update_ratio", "grad_zero",
    "grad_nonfinite", "host/process_cpu", "gpu0/utilization", "step_time", "", "a\nb", "\0", "n" * 10_000, "[b]m[/b]",
    "{x}%s", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "训练损失", "😀👩‍👩‍👧",
    "\u202eright to left", "x" + "\u0301" * 50,
]  # fmt: skip
_FORMATS = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}

names = st.sampled_from(NAMES)
reals = st.floats(width=64) | st.floats(-10, 1000)
whole = st.sampled_from([0, 1, 2, 5, -1, 2**31 - 1, 2**53, 10**18, 2**63 - 1, -(2**63)]) | st.integers(0, 50)
times = st.floats(0, 1e6) | reals


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def columns(draw: st.DrawFn, count: int, kinds: Sequence[wire.Kind] = tuple(_FORMATS)) -> wire.Column:
    """A column for a block of `count`: mostly of that length, with whatever bytes and bitmap."""
    kind = draw(st.sampled_from(kinds))
    size = struct.calcsize(_FORMATS[kind])
    length = draw(st.sampled_from([count, count, count, count, 0, count + 1]))
    if kind[0] == "f" and draw(st.booleans()):
        data = struct.pack(f"<{length}d", *draw(st.lists(reals, min_size=length, max_size=length)))
        data = data if kind == "f8" else data[: length * size]
    else:
        data = draw(st.binary(min_size=length * size, max_size=length * size))
    bitmap = (length + 7) // 8
    present = draw(st.just(b"") | st.binary(min_size=bitmap, max_size=bitmap + 1))
    return wire.Column(kind, data + draw(st.sampled_from([b"", b"", b"", b"x"])), present)


@st.composite
def steps(draw: st.DrawFn) -> wire.Steps:
    """A block of steps, half of them with sound times."""
    count = draw(st.sampled_from([1, 2, 8]))
    column = _maybe(columns(count))
    group = st.dictionaries(names, columns(count), max_size=3)
    clock = wire.pack("f8", [100.0 + 0.1 * index for index in range(count)])
    assert clock is not None
    return wire.Steps(
        draw(st.sampled_from([count, count, count, 0, -1, 2**40])),
        draw(whole),
        draw(st.just(clock) | columns(count)),
        step=draw(_maybe(columns(count, ["i8", "i8", "f8"]))),
        losses=draw(group),
        lrs=draw(group),
        phases=draw(group),
        **{name: draw(column) for name in ("duration", "epoch", "micro", "optimizers", "grad_norm", "clip",
                                           "loss_scale", "skipped")},
    )  # fmt: skip


layers = st.sampled_from([0, 1, 4]).flatmap(
    lambda count: st.builds(
        wire.Layers, st.integers(0, 1), whole, _maybe(whole), times,
        columns=st.dictionaries(names, columns(count), max_size=4), interval=whole,
    )
)  # fmt: skip
scalar_blocks = st.sampled_from([0, 1, 4]).flatmap(
    lambda count: st.builds(
        wire.ScalarBlock, st.sampled_from([count, 4, -1]), columns(count), columns(count), _maybe(columns(count)),
        st.dictionaries(names, columns(count), max_size=3),
    )
)  # fmt: skip
_plain = st.none() | st.booleans() | whole | reals | names | st.lists(whole, max_size=2) | st.binary(max_size=3)
_stacks = st.lists(st.builds(wire.Stack, names, st.lists(names, max_size=2)), max_size=2)
_manifests = st.builds(
    wire.Manifest, command=st.lists(names, max_size=2), cwd=names, git_sha=_maybe(names), seed=_maybe(whole),
    versions=st.dictionaries(names, names, max_size=1), layout=st.dictionaries(names, names, max_size=1),
    optimizers=st.lists(st.dictionaries(names, _plain, max_size=2), max_size=1), config=_plain,
)  # fmt: skip


def _of(kind: Callable[..., wire.Record], *fields: st.SearchStrategy[Any], **named: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, *fields, **named)


_status = st.builds(wire.ProbeStatus, _maybe(reals), _maybe(reals), whole, whole, _maybe(whole), whole)
_schemas = st.sampled_from([[], NAMES[:1], NAMES[:4], NAMES[-4:], ["same"] * 4]).flatmap(
    lambda of: _of(wire.Schema, st.integers(0, 1), st.just(of), frozen=st.lists(st.booleans(), max_size=4),
                   in_optimizer=st.lists(st.booleans(), max_size=4))
)  # fmt: skip
records: st.SearchStrategy[wire.Record] = st.one_of(
    steps(),
    steps(),
    layers,
    _schemas,
    _of(wire.Hello, st.just(1), names, names, names, names, names, whole, reals, whole, times, times,
        rank=_maybe(whole), world=_maybe(whole), total_steps=_maybe(whole), title=_maybe(names), manifest=_manifests),
    _of(wire.Host, times, _maybe(reals), _maybe(whole), _maybe(reals), _maybe(whole), _maybe(whole), _maybe(whole)),
    _of(wire.Device, times, whole, names, names, _maybe(reals), _maybe(whole), _maybe(whole), _maybe(reals)),
    _of(wire.Allocator, times, whole, _maybe(whole), _maybe(whole)),
    _of(wire.Scalars, times, _maybe(whole), whole, st.dictionaries(names, reals, max_size=3)),
    scalar_blocks,
    _of(wire.Event, times, st.sampled_from(["exit", "exception", "warning", "resume", "checkpoint", "evaluation", ""]),
        names, _maybe(whole), _maybe(whole), _maybe(reals),
        st.dictionaries(st.sampled_from(["code", "type", "where", "interval"]), _plain, max_size=2)),
    _of(wire.Heartbeat, times, times, st.sampled_from(["start", "data", "forward", "eval", "idle"]) | names, times,
        whole, _stacks, _status, st.just("") | names),
)  # fmt: skip
"""Any record, absurd in any field."""
