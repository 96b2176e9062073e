"""The boot folder: every Python under `ntstop run` starts through it, and none is harmed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ntstop_probe
from ntstop_probe import launched, registry
from ntstop_probe.wire import Event, Heartbeat

from ..helpers import wait_until
from .jobs import BOOT, TORCH, run, running
from .jobs import launched as launched_environment
from .reading import process_folders, records, step_ordinals

SITECUSTOMIZE = BOOT / "sitecustomize.py"


def test_importing_the_probe_imports_nothing_of_weight() -> None:
    script = """
        import sys
        before = set(sys.modules)
        import ntstop_probe
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        heavy = {"torch", "zmq", "msgspec", "psutil", "pynvml", "numpy", "subprocess", "dataclasses", "asyncio"}
        print(sorted(new & heavy))
    """
    assert run(script, prelude="").stdout.strip() == "[]"


def test_booting_a_helper_process_imports_nothing_of_weight() -> None:
    script = "import sys; print(sorted({'torch', 'zmq', 'msgspec', 'psutil', 'numpy'} & set(sys.modules)))"
    done = run(script, prelude="", environment=launched_environment(NTSTOP_MAIN="1:"))
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_version_is_that_of_the_distribution() -> None:
    project = (Path(ntstop_probe.__file__).parents[1] / "pyproject.toml").read_text()
    assert f'version = "{ntstop_probe.__version__}"' in project


def test_the_boot_file_is_readable_by_old_pythons_and_stands_alone() -> None:
    tree = ast.parse(SITECUSTOMIZE.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= {"contextlib", "importlib", "os", "sys", "ntstop_probe"}
    assert [path.name for path in BOOT.iterdir() if path.suffix == ".py"] == ["sitecustomize.py"]


def test_the_sitecustomize_that_would_have_run_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nMARK = 7\nsys.marked = __file__\n")
    environment = launched_environment(PYTHONPATH=f"{BOOT}{os.pathsep}{tmp_path}")
    script = "import sys, sitecustomize; print(sys.marked, sitecustomize.MARK, sitecustomize.__file__)"
    done = run(script, prelude="", environment=environment)
    theirs = str(tmp_path / "sitecustomize.py")
    assert done.stdout.split() == [theirs, "7", theirs]


def test_a_sitecustomize_that_fails_fails_as_it_did_before_and_the_probe_boots(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')")
    alone = run("", prelude="", environment={**os.environ, "PYTHONPATH": str(tmp_path)})
    environment = launched_environment(PYTHONPATH=f"{BOOT}{os.pathsep}{tmp_path}")
    both = run("import os; print(os.environ['NTSTOP_MAIN'])", prelude="", environment=environment)
    assert "ValueError: theirs" in alone.stderr
    assert both.stderr == alone.stderr
    assert both.stdout.strip().endswith(":")


def without_probe(**more: str) -> subprocess.CompletedProcess[str]:
    """A Python that has no packages at all runs the boot file, then the job."""
    script = f"import runpy; runpy.run_path({str(SITECUSTOMIZE)!r}); print('the job runs')"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-c", script]
    return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=True, cwd="/")


def test_a_python_without_the_probe_is_told_once_what_to_install_and_runs_the_job() -> None:
    done = without_probe(NTSTOP_LAUNCHED="1")
    assert done.stdout == "the job runs\n"
    (line,) = done.stderr.splitlines()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert line == (
        f"ntstop: this Python ({version}, {sys.executable}) lacks the probe: pip install ntstop-probe; "
        "the job runs without it"
    )
    assert without_probe(NTSTOP_LAUNCHED="1", NTSTOP_MAIN="1:").stderr == "", "a helper does not say it again"
    assert without_probe(NTSTOP_LAUNCHED="1", NTSTOP="0").stderr == ""
    assert without_probe().stderr == "", "the folder alone, inherited by chance, does nothing"


def test_a_probe_that_lacks_what_it_depends_on_says_so_and_the_job_runs(tmp_path: Path) -> None:
    package = tmp_path / "ntstop_probe"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "launched.py").write_text("import msgspec_that_is_not_there")
    done = run("print('the job runs')", prelude="", environment=launched_environment(PYTHONPATH=f"{BOOT}:{tmp_path}"))
    assert done.stdout == "the job runs\n"
    assert "lacks msgspec_that_is_not_there: pip install ntstop-probe; the job runs without it" in done.stderr


def test_the_first_python_of_a_command_is_its_main_one_and_each_rank_is_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert launched.claim_main()
    assert launched.claim_main(), "still so after an exec"
    monkeypatch.setenv(launched.MAIN, "1:")
    assert not launched.claim_main(), "a helper that the first one has started"
    monkeypatch.setenv("RANK", "0")
    assert launched.claim_main(), "a worker of torchrun's"
    monkeypatch.setenv(launched.MAIN, "1:0")
    assert not launched.claim_main(), "a helper of that worker"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [(["/usr/bin/torchrun", "--nproc-per-node", "2"], True), (["train.py"], False), ([""], False)],
)
def test_torchrun_is_known_to_be_no_trainer(monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: bool) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    assert launched.is_launcher() is expected


def test_a_launched_job_that_does_not_import_torch_is_shown_waiting_and_says_for_what(home: Path) -> None:
    with running("import time; time.sleep(60)", prelude="", environment=launched_environment()):
        (folder,) = wait_until(lambda: process_folders(home))
        beat = wait_until(lambda: [record for record in records(folder) if isinstance(record, Heartbeat)])[0]
        assert (beat.reason, beat.phase, beat.ordinal) == ("torch not imported", "start", 0)
        assert registry.read_process_info(folder).training is False
        assert not [record for record in records(folder) if isinstance(record, Event)]


def test_a_job_that_waits_too_long_is_told_why_in_one_line(home: Path) -> None:
    script = """
        from ntstop_probe import publisher
        publisher.PATIENCE = 0.1
        import time; time.sleep(60)
    """
    with running(script, prelude="", environment=launched_environment()) as job:
        assert job.stderr is not None
        assert job.stderr.readline() == "ntstop: no training step after 0 s: torch not imported\n"
        (folder,) = process_folders(home)
        wait_until(lambda: [r for r in records(folder) if isinstance(r, Event) and r.kind == "warning"])


def test_a_short_command_leaves_no_trace(home: Path) -> None:
    done = run("print('done')", prelude="", environment=launched_environment())
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert not home.exists()


def test_ntstop_0_switches_everything_off(home: Path) -> None:
    script = """
        import sys, threading
        with ntstop_probe.phase("eval"):
            ntstop_probe.log(loss=1.0)
        ntstop_probe.watch(); ntstop_probe.mark("x"); ntstop_probe.checkpoint("y"); ntstop_probe.stop()
        print(threading.active_count(), core._probe, len(sys.meta_path), "zmq" in sys.modules)
    """
    off = run(script, environment=launched_environment(NTSTOP="0"))
    plain = run("import sys; print(len(sys.meta_path))")
    assert off.stdout.split() == ["1", "None", plain.stdout.strip(), "False"]
    assert not home.exists()


@pytest.mark.slow
def test_a_training_without_a_change_to_its_code_is_seen_and_its_helpers_are_not(home: Path) -> None:
    """Spawned loader workers import torch too; a spawned child that trains is a process of the run."""
    script = """
        import multiprocessing

        def child():
            train([torch.ones(4, 8)] * 5)

        if __name__ == "__main__":
            data = torch.utils.data.TensorDataset(torch.ones(64, 8))
            loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=1, multiprocessing_context="spawn")
            train(x for (x,) in loader)
            other = multiprocessing.get_context("spawn").Process(target=child)
            other.start(); other.join()
    """
    file = home.parent / "train.py"
    file.write_text(TORCH + "".join(line[8:] if line.startswith(" " * 8) else line for line in script.splitlines(True)))
    done = subprocess.run(
        [sys.executable, str(file)], env=launched_environment(NTSTOP_RUN_ID="both"), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    folders = process_folders(home)
    assert {folder.parent.name for folder in folders} == {"both"}
    assert sorted(len(step_ordinals(records(folder))) for folder in folders) == [5, 8]
    for folder in folders:
        assert registry.read_process_info(folder).training
        assert [record.kind for record in records(folder) if isinstance(record, Event)][-1] == "exit"
