"""Two ranks over gloo: the same result, not one collective more, and norms that add up to those of the whole."""

from __future__ import annotations

import math
import socket
from pathlib import Path
from typing import Any

import pytest

from ntstop_probe import registry
from ntstop_probe.wire import Layers, Record, Schema, Steps, unpack

from .followed import said, start
from .jobs import launched
from .reading import process_folders, records

pytestmark = pytest.mark.slow


def both_ranks(kind: str, **environment: str) -> list[dict[str, Any]]:
    """What each rank says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        start("job_shards.py", kind, port, str(rank), environment={**environment, "RANK": str(rank), "WORLD_SIZE": "2"})
        for rank in range(2)
    ]
    return [said(rank) for rank in ranks]


def layer_norms(items: list[Record]) -> tuple[Schema, dict[int, list[float]]]:
    """The layers, and their gradient norms by step."""
    schema = [record for record in items if isinstance(record, Schema)][-1]
    samples = [record for record in items if isinstance(record, Layers)]
    return schema, {sample.ordinal: unpack(sample.columns["grad_norm"]) for sample in samples}


def combined(schema: Schema, norms: list[list[float]]) -> list[float]:
    """As the monitor adds up what each rank has of a layer: see `wire.Schema.shards`."""
    ranks = len(norms)
    shards = schema.shards or [1] * len(schema.names)
    sums = [sum(norm**2 for norm in parts) for parts in zip(*norms, strict=True)]
    return [math.sqrt(count / ranks * total) for count, total in zip(shards, sums, strict=True)]


@pytest.mark.parametrize(("kind", "shards"), [("ddp", []), ("fsdp", [2, 2, 2, 2])])
def test_two_ranks_are_measured_without_a_collective(home: Path, kind: str, shards: list[int]) -> None:
    bare = both_ranks(kind)
    armed = both_ranks(kind, **launched(NTSTOP_RUN_ID=kind, NTSTOP_BUDGET="1"))
    for name in ("digest", "collectives"):
        assert [rank[name] for rank in armed] == [rank[name] for rank in bare], name
    folders = sorted(process_folders(home), key=lambda folder: registry.read_process_info(folder).rank or 0)
    assert [registry.read_process_info(folder).world for folder in folders] == [2, 2]
    seen = [layer_norms(records(folder)) for folder in folders]
    for rank, (schema, norms) in enumerate(seen):
        assert schema.names == ["0.weight", "0.bias", "3.weight", "3.bias"]
        assert schema.numel == [112, 16, 48, 3]
        assert schema.shards == shards
        for ordinal, layers in norms.items():
            assert layers == pytest.approx(armed[rank]["norms"][ordinal], rel=1e-5)
        # What clipping measured is of the whole, and the same on all ranks; the job has put it together itself.
        steps = [record for record in records(folders[rank]) if isinstance(record, Steps)]
        totals = [value for block in steps if block.grad_norm for value in unpack(block.grad_norm)]
        assert totals == pytest.approx(armed[rank]["totals"], rel=1e-5)
        factors = [value for block in steps if block.clip for value in unpack(block.clip)]
        assert factors == pytest.approx([min(1.0, 0.05 / (total + 1e-6)) for total in totals], rel=1e-4)
    # Ranks look at the same steps, so there is always something to add up.
    (schema, first), (_, second) = seen
    assert first.keys() == second.keys() and first
    for ordinal in first:
        whole = combined(schema, [first[ordinal], second[ordinal]])
        assert whole == pytest.approx(armed[0]["full"][ordinal], rel=1e-5)
