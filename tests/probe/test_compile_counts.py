"""What torch.compile does is counted, the same with the probe and without, and appears as curves."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ntstop.run.state import RunState
from ntstop_probe.sampling.compiler import CompilerSampler
from ntstop_probe.wire import Compiler

from .jobs import TORCH, run
from .reading import process_folders, records
from .training import armed, mlp

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """torch.compile as in a new process."""
    from torch._dynamo.utils import compilation_time_metrics, counters

    def clear() -> None:
        torch._dynamo.reset()
        counters.clear()
        compilation_time_metrics.clear()

    clear()
    yield
    clear()


def counts(sampler: CompilerSampler | None = None) -> tuple[int | None, int | None, int | None]:
    """Graphs, graph breaks, recompilations."""
    found = (sampler or CompilerSampler()).sample()
    if not found:
        return 0, 0, 0
    (record,) = found
    assert isinstance(record, Compiler)
    assert record.seconds is not None
    assert record.seconds > 0.0
    return record.graphs, record.graph_breaks, record.recompiles


def shapes_that_change(model: nn.Module) -> None:
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=False)
    for rows in (2, 3, 5, 3, 2):
        compiled(torch.ones(rows, 8)).sum().backward()


def clipping_in_a_graph(model: nn.Module) -> None:
    clip = torch.compile(
        lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1), fullgraph=True, backend="eager", dynamic=False
    )
    for _ in range(3):
        model(torch.ones(4, 8)).sum().backward()
        clip()


def a_loop_with_breaks(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> None:
        loss = model(x).sum()
        torch._dynamo.graph_break()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()

    compiled = torch.compile(step, backend="eager")
    for rows in (4, 4, 6):
        compiled(torch.ones(rows, 8))


@pytest.mark.parametrize("job", [shapes_that_change, clipping_in_a_graph, a_loop_with_breaks])
def test_graphs_breaks_and_recompilations_are_the_same_with_the_probe(
    job: Callable[[nn.Module], None],
) -> None:
    job(mlp())
    bare = counts()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with armed(budget=1.0) as probe:
        job(mlp())
        assert counts() == bare
        assert probe.progress.disabled == []
    assert bare[0], "there was something to count"


def test_a_job_whose_loop_is_compiled_says_and_counts_the_same_under_the_probe() -> None:
    script = """
        from torch._dynamo.utils import counters

        def step(x):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        compiled = torch.compile(step, backend="eager")
        for rows in (4, 4, 6):
            compiled(torch.ones(rows, 8))
        print(counters["stats"]["unique_graphs"], sorted(counters["graph_break"].values()))
    """
    bare = run(script, prelude=TORCH)
    done = run("import ntstop_probe\nntstop_probe.watch()\n" + dedent(script), prelude=TORCH)
    assert bare.returncode == done.returncode == 0, done.stderr
    assert done.stdout == bare.stdout
    assert "get_ident" not in done.stderr
    assert len(done.stderr.splitlines()) == len(bare.stderr.splitlines()), done.stderr


def test_an_input_whose_shape_changes_is_counted_as_recompilations() -> None:
    sampler = CompilerSampler()
    assert sampler.sample() == [], "missing is not zero"
    shapes_that_change(mlp())
    assert counts(sampler) == (3, 0, 2)
    a_loop_with_breaks(mlp())
    graphs, breaks, recompiles = counts(sampler)
    assert breaks
    assert (graphs or 0) > 3
    assert (recompiles or 0) >= 3


def test_counts_go_on_when_the_job_resets_torch_compile() -> None:
    sampler = CompilerSampler()
    shapes_that_change(mlp())
    first = counts(sampler)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    assert counts(sampler) == first
    shapes_that_change(mlp())
    assert counts(sampler) == (6, 0, 4)


@pytest.mark.parametrize(
    "utils", [None, SimpleNamespace(), SimpleNamespace(counters=3), SimpleNamespace(counters={"stats": 1, "x": {}})]
)
def test_another_torch_that_counts_otherwise_or_is_half_imported_is_not_read(
    monkeypatch: pytest.MonkeyPatch, utils: object
) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    monkeypatch.setitem(sys.modules, "torch._dynamo.convert_frame", SimpleNamespace())
    assert CompilerSampler().sample() == []


def test_what_a_version_does_not_say_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = SimpleNamespace(counters={"stats": Counter(unique_graphs=2)})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    monkeypatch.setitem(sys.modules, "torch._dynamo.convert_frame", SimpleNamespace())
    (record,) = CompilerSampler().sample()
    assert isinstance(record, Compiler)
    assert (record.graphs, record.graph_breaks, record.recompiles, record.seconds) == (2, 0, None, None)


def test_a_job_that_does_not_compile_is_not_made_to_import_the_compiler() -> None:
    script = """
        import ntstop_probe
        ntstop_probe.watch(model, optimizer)
        train([torch.ones(4, 8)] * 20)
        time.sleep(1.5)
        print("torch._dynamo.utils" in sys.modules or "torch._dynamo.convert_frame" in sys.modules)
    """
    bare = run(script.replace("ntstop_probe.watch(model, optimizer)", "").replace("time.sleep(1.5)", ""), prelude=TORCH)
    assert run(script, prelude=TORCH).stdout == bare.stdout


def test_recompilations_of_a_job_become_a_curve(home: Path) -> None:
    script = """
        import ntstop_probe
        ntstop_probe.watch(model, optimizer)
        compiled = torch.compile(model, backend="eager", dynamic=False)
        for rows in (2, 3, 4):
            compiled(torch.ones(rows, 8)).sum().backward()
            optimizer.step()
        time.sleep(1.5)
    """
    done = run(script, prelude=TORCH)
    assert (done.returncode, done.stderr) == (0, "")
    state = RunState()
    for record in records(process_folders(home)[0]):
        state.apply(1, record)
    process = state.primary
    assert process is not None
    assert process.series["compile/recompiles"].last_y == 2
    assert process.series["compile/graphs"].last_y == 3
    assert process.series["compile/graph_breaks"].last_y == 0
    assert process.series["compile/seconds"].last_y > 0
