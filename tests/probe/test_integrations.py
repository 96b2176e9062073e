"""The table of patches: done as modules arrive, undone without a trace, and switched off one part at a time."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from ntstop_probe import core
from ntstop_probe.integrations.checkpoints import looks_like_a_checkpoint
from ntstop_probe.integrations.install import WRAPPERS, Integrations
from ntstop_probe.integrations.table import PATCHES
from ntstop_probe.rows import EventRow, ScalarRow

from .jobs import TORCH, launched, run

WRITER = """
    class SummaryWriter:
        def __init__(self):
            self.seen = []

        def add_scalar(self, tag, scalar_value, global_step=None):
            self.seen.append((tag, scalar_value, global_step))

        def add_scalars(self, main_tag, tag_scalar_dict, global_step=None):
            for tag, value in tag_scalar_dict.items():
                self.add_scalar(f"{main_tag}/{tag}", value, global_step)
"""


@pytest.fixture
def probe() -> Iterator[core.Probe]:
    """A probe that publishes nothing, with its integrations at work."""
    made = core.Probe()
    made._integrations = Integrations(made)
    made._integrations.start()
    yield made
    made._integrations.stop()


@pytest.fixture
def tensorboard_x(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `tensorboardX`, not imported yet."""
    package = tmp_path / "site" / "tensorboardX"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .writer import SummaryWriter\n")
    (package / "writer.py").write_text(textwrap.dedent(WRITER))
    monkeypatch.syspath_prepend(package.parent)
    yield package
    for name in ("tensorboardX", "tensorboardX.writer"):
        sys.modules.pop(name, None)


def scalars(probe: core.Probe) -> list[tuple[int | None, dict[str, float]]]:
    return [(row.step, row.values) for row in rows(probe) if isinstance(row, ScalarRow)]


def events(probe: core.Probe, kind: str) -> list[EventRow]:
    return [row for row in rows(probe) if isinstance(row, EventRow) and row.kind == kind]


def rows(probe: core.Probe) -> list[Any]:
    return list(probe.outbox._rows)


def test_every_line_of_the_table_has_a_wrapper_and_a_reason() -> None:
    assert {patch.wrapper for patch in PATCHES} == WRAPPERS.keys()
    assert all(patch.why for patch in PATCHES)
    assert len({(patch.module, patch.attribute) for patch in PATCHES}) == len(PATCHES)


@pytest.mark.slow
def test_this_version_of_each_library_has_every_place_of_the_table() -> None:
    script = """
        import importlib
        from ntstop_probe import core
        from ntstop_probe.integrations.table import PATCHES
        ntstop_probe.watch()
        probe = core.current()
        def now():
            found = {}
            for patch in PATCHES:
                if patch.part not in ("tensorboardX", "pytorch_lightning"):
                    owner = importlib.import_module(patch.module)
                    *path, name = patch.attribute.split(".")
                    for part in path:
                        owner = getattr(owner, part)
                    found[patch] = vars(owner)[name]
            return found
        patched = now()
        print(probe._integrations.missing, [str(patch) for patch, it in patched.items() if not ours(it)])
        ntstop_probe.stop()
        left = now()
        print([str(patch) for patch in left if left[patch] is not patched[patch].__wrapped__])
    """
    prelude = """
import torch, ntstop_probe

def ours(function):
    return "integrations" in function.__code__.co_filename
"""
    done = run(script, prelude=prelude)
    assert (done.stdout.splitlines()[-2:], done.returncode) == (["[] []", "[]"], 0), done.stderr


def test_a_module_is_patched_when_it_arrives_and_is_itself_again_at_the_end(
    probe: core.Probe, tensorboard_x: Path
) -> None:
    import tensorboardX  # type: ignore[import-not-found]

    writer = tensorboardX.SummaryWriter()
    writer.add_scalar("a", 1.0, global_step=3)
    writer.add_scalars("b", {"x": torch.tensor(2.0), "name": "text"}, 4)
    assert scalars(probe) == [(3, {"a": 1.0}), (4, {"b/x": 2.0})]
    assert len(writer.seen) == 3
    wrapped = tensorboardX.SummaryWriter.add_scalar
    assert type(tensorboardX.writer.__loader__).__name__ == "SourceFileLoader"
    assert probe._integrations is not None
    probe._integrations.stop()
    assert tensorboardX.SummaryWriter.add_scalar is wrapped.__wrapped__
    wrapped(writer, "late", 1.0)
    assert len(scalars(probe)) == 2
    assert "tensorboardX" not in str(sys.meta_path)


def test_a_module_that_is_half_imported_when_we_come_is_patched_later(tensorboard_x: Path) -> None:
    """As when `from transformers import Trainer` is what imports torch."""
    source = tensorboard_x / "writer.py"
    source.write_text("import ntstop_test_arrival\n" + source.read_text())
    late = tensorboard_x.parent / "ntstop_test_arrival.py"
    late.write_text("def arrive(): pass\narrive()\n")
    made = core.Probe()
    made._integrations = Integrations(made)
    try:
        module = importlib.import_module("types").ModuleType("ntstop_test_arrival")
        sys.modules["ntstop_test_arrival"] = module
        del sys.modules["ntstop_test_arrival"]
        late.write_text("import ntstop_test_hook\nntstop_test_hook.start()\n")
        hook = importlib.import_module("types").ModuleType("ntstop_test_hook")
        hook.start = made._integrations.start  # type: ignore[attr-defined]
        sys.modules["ntstop_test_hook"] = hook
        import tensorboardX

        made._integrations.look_again()
        tensorboardX.SummaryWriter().add_scalar("a", 1.0, 1)
        assert scalars(made) == [(1, {"a": 1.0})]
    finally:
        made._integrations.stop()
        sys.modules.pop("ntstop_test_hook", None)
        sys.modules.pop("ntstop_test_arrival", None)


def test_one_metric_through_two_doors_is_one_curve(probe: core.Probe, tensorboard_x: Path, tmp_path: Path) -> None:
    import tensorboardX

    ours = SummaryWriter(str(tmp_path / "logs"))
    other = tensorboardX.SummaryWriter()
    for step in range(2):
        ours.add_scalar("loss", float(step), step)
        other.add_scalar("loss", float(step), step)
        other.add_scalar("accuracy", 0.5, step)
    ours.close()
    assert scalars(probe) == [(0, {"loss": 0.0}), (0, {"accuracy": 0.5}), (1, {"loss": 1.0}), (1, {"accuracy": 0.5})]


def test_what_would_make_a_device_wait_is_left_out(probe: core.Probe, tensorboard_x: Path) -> None:
    import tensorboardX

    writer = tensorboardX.SummaryWriter()
    writer.add_scalar("device", torch.ones((), device="meta"), 1)
    writer.add_scalar("many", torch.ones(3), 1)
    writer.add_scalar("step that is none", 1.0, "x")
    assert scalars(probe) == [(None, {"step that is none": 1.0})]
    assert probe.progress.disabled == []


def test_a_part_that_fails_is_switched_off_alone_and_said_once(
    probe: core.Probe, tensorboard_x: Path, tmp_path: Path
) -> None:
    import tensorboardX

    class Broken(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            frame = sys._getframe(1)
            if "integrations" in frame.f_code.co_filename:
                raise RuntimeError("boom")
            return super().items()

    writer = tensorboardX.SummaryWriter()
    for _ in range(2):
        writer.add_scalars("b", Broken(x=1.0), 1)
    assert len(writer.seen) == 2
    assert probe.progress.disabled == ["tensorboardX: RuntimeError: boom"]
    assert len(events(probe, "warning")) == 1
    assert not hasattr(tensorboardX.SummaryWriter.add_scalar, "__wrapped__")
    # The others go on, also in this thread, which was inside of a call when it failed.
    ours = SummaryWriter(str(tmp_path / "logs"))
    ours.add_scalar("loss", 1.0, 7)
    ours.close()
    assert scalars(probe) == [(7, {"loss": 1.0})]


def test_an_exception_of_the_job_passes_through_as_it_is(probe: core.Probe, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing.pt")
    with pytest.raises(RuntimeError):
        torch.save({"state_dict": {"0.weight": torch.ones(1)}}, tmp_path / "no" / "folder" / "x.pt")
    assert not events(probe, "checkpoint") and not events(probe, "load")
    assert probe.progress.phase == "other" or probe.progress.phase == "start"
    assert probe.progress.disabled == []


def test_a_checkpoint_is_told_with_path_and_duration_and_other_files_are_not(probe: core.Probe, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    path = tmp_path / "last.ckpt"
    torch.save({"model": model.state_dict(), "step": 3}, path)
    torch.save({"images": torch.ones(3), "labels": torch.ones(3)}, tmp_path / "data.pt")
    torch.save(torch.ones(3), str(tmp_path / "embeddings.pt"))
    with open(tmp_path / "open.pt", "wb") as file:
        torch.save(model.state_dict(), file)
    torch.load(path)
    torch.load(tmp_path / "data.pt")
    assert [event.text for event in events(probe, "checkpoint")] == [str(path), str(tmp_path / "open.pt")]
    assert [event.text for event in events(probe, "load")] == [str(path)]
    assert all(event.duration and event.duration > 0 for event in events(probe, "checkpoint"))


@pytest.mark.parametrize(
    ("thing", "is_one"),
    [
        (nn.Linear(1, 1), True),
        (nn.Linear(1, 1).state_dict(), True),
        ({"epoch": 3, "optimizer": {"state": {}, "param_groups": []}}, True),
        ({"a": {"b": {"layer.weight": torch.ones(1)}}}, True),
        ({"x": torch.ones(1), "y": torch.ones(1)}, False),
        ({"config": {"lr": 0.1}}, False),
        ([torch.ones(1)], False),
        (None, False),
    ],
)
def test_what_looks_like_a_checkpoint(thing: object, is_one: bool) -> None:
    assert looks_like_a_checkpoint(thing) is is_one


def test_torch_save_is_one_wrapper_under_both_its_names_and_none_at_the_end(probe: core.Probe) -> None:
    assert torch.save is torch.serialization.save
    original = torch.save.__wrapped__  # type: ignore[attr-defined]
    assert probe._integrations is not None
    probe._integrations.stop()
    assert torch.save is torch.serialization.save is original


def test_the_phase_of_a_slow_checkpoint_is_named_while_it_is_written(probe: core.Probe, tmp_path: Path) -> None:
    seen: list[str] = []

    class Slow:
        def __reduce__(self) -> Any:
            seen.append(probe.progress.phase)
            return str, ()

    torch.save({"model": nn.Linear(1, 1).state_dict(), "more": Slow()}, tmp_path / "x.pt")
    assert seen == ["checkpoint"]
    assert probe.progress.phase != "checkpoint"


@pytest.mark.slow
def test_a_sharded_checkpoint_and_wandb_and_tensorboard_in_one_job(home: Path, tmp_path: Path) -> None:
    script = """
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import save
        from torch.utils.tensorboard import SummaryWriter
        import wandb
        run = wandb.init(mode="offline")
        writer = SummaryWriter("logs")
        for step in range(3):
            train([torch.ones(4, 8)])
            wandb.log({"loss": 1.0, "nested": {"a": 2.0}, "text": "x"}, step=step)
            run.log({"lr/AdamW": 0.5}, step=step)
            writer.add_scalar("loss", 1.0, step)
        save({"model": model.state_dict()}, checkpoint_id="shards")
        dcp.load({"model": model.state_dict()}, checkpoint_id="shards")
        writer.close()
        wandb.finish()
    """
    done = run(
        "import os; os.chdir(sys.argv[1])\n" + textwrap.dedent(script),
        str(tmp_path),
        prelude=TORCH,
        environment=launched(NTSTOP_RUN_ID="doors", WANDB_MODE="offline", WANDB_SILENT="true"),
    )
    assert done.returncode == 0, done.stderr
    from .followed import followed

    seen = followed(home, "doors")
    assert seen.disabled == []
    assert seen.curve("loss") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert seen.curve("nested.a") == [(0, 2.0), (1, 2.0), (2, 2.0)]
    assert seen.curve("lr/AdamW") == [(0, 0.5), (1, 0.5), (2, 0.5)]
    assert [event.text for event in seen.events("checkpoint")] == ["shards"]
    assert [event.text for event in seen.events("load")] == ["shards"]
    assert len(seen.column("duration")) == 3


def test_ntstop_0_patches_nothing() -> None:
    script = "print(hasattr(torch.save, '__wrapped__'), [f for f in sys.meta_path if 'ntstop' in str(f)])"
    assert run(script, prelude=TORCH, environment=launched(NTSTOP="0")).stdout == "False []\n"


def test_a_forked_child_has_torch_as_it_was(home: Path) -> None:
    script = """
        import ntstop_probe
        ntstop_probe.watch()
        assert hasattr(torch.save, "__wrapped__")
        assert not {"transformers", "lightning", "wandb", "accelerate", "tensorboard"} & set(sys.modules)
        child = os.fork()
        if not child:
            os._exit(int(hasattr(torch.save, "__wrapped__")))
        print(os.waitpid(child, 0)[1], hasattr(torch.save, "__wrapped__"))
    """
    assert run(script, prelude=TORCH).stdout == "0 True\n"
