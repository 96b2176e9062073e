"""The probe leaves nothing behind: not in torch or other libraries, not on the user's objects, not among the files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ntstop_probe import registry
from ntstop_probe.endpoint import socket_path

from ..helpers import wait_until
from .jobs import TORCH, launched, run, running, said_steps
from .nvml_stub import compile_stub
from .reading import process_folders, records, step_ordinals

TABLES = """
import importlib, os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.optim.optimizer as optimizers
import ntstop_probe
from ntstop_probe.hooks.patches import REPLACEMENTS, REGISTRATIONS
from ntstop_probe.integrations.table import PATCHES

there = set()
for row in (*REPLACEMENTS, *PATCHES):
    top = row.module.partition(".")[0]
    if top in sys.argv[1:]:
        try:
            importlib.import_module(row.module)
            there.add(row.module)
        except ImportError:
            pass

def look():
    found = {}
    for row in (*REPLACEMENTS, *PATCHES):
        owner = sys.modules.get(row.module)
        *path, name = row.attribute.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        if owner is not None and name in vars(owner):
            found[row.module, row.attribute] = vars(owner)[name]
    for kind in ("pre", "post"):
        hooks = getattr(optimizers, f"_global_optimizer_{kind}_hooks")
        found["hooks", kind] = tuple(hooks.items())
    found["process"] = sys.excepthook, tuple(sys.meta_path), torch.Tensor.backward, torch._foreach_norm
    return found

def train():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return model, optimizer

def same(one, other):
    return one.keys() == other.keys() and all(
        one[key] is other[key] or isinstance(one[key], tuple) and one[key] == other[key] for key in one
    )

before = look()
os.environ["NTSTOP"] = "0"
ntstop_probe.watch(*train())
assert same(look(), before), "NTSTOP=0 changes nothing"
del os.environ["NTSTOP"]
ntstop_probe.watch(*train())
changed = [key for key in before if look()[key] is not before[key] and look()[key] != before[key]]
ntstop_probe.stop()
after = look()
print(*sorted(f"{module}" for module, _ in (key for key in before if key != "process")), sep="\\n")
print("changed", len(changed), "of", len(before))
left = [key for key in before if not same({0: after[key]}, {0: before[key]})]
assert not left, left
assert before.keys() == after.keys()
"""


@pytest.mark.slow
@pytest.mark.parametrize("libraries", ["torch tensorboard wandb", "transformers accelerate", "lightning"])
def test_stop_and_the_switch_put_every_row_of_every_table_back(libraries: str) -> None:
    """The very objects that stood there before, in every library that is installed."""
    command = [sys.executable, "-c", TABLES, "torch", *libraries.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    *_, count = done.stdout.splitlines()
    _, changed, _, rows = count.split()
    # Every row is changed but those of another library's parts that are not installed.
    assert int(changed) >= int(rows) - 2 > 8, done.stdout


OBJECTS = """
import copy, hashlib, io, os, pickle, re, sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
scaler = torch.amp.GradScaler("cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 8)), batch_size=4, shuffle=True)
if sys.argv[1] == "watched":
    import ntstop_probe
    ntstop_probe.watch(model, optimizer, budget=1.0)
iterator = iter(loader)
for _ in range(2):
    for (x,) in iterator:
        scaler.scale(model(x).pow(2).mean()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    scheduler.step()
    last, iterator = iterator, iter(loader)

def told(name, thing):
    print(name, sorted(dir(thing)), sorted(vars(thing)) if hasattr(thing, "__dict__") else "")

for name, thing in {"model": model, "optimizer": optimizer, "loader": loader, "iterator": last, "scaler": scaler,
                    "scheduler": scheduler, "parameter": model[0].weight, "class": type(optimizer),
                    "gradient": model(x).sum().grad_fn}.items():
    told(name, thing)
for module in model.modules():
    print(len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks))
print(model[0].weight._backward_hooks, optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
for name, thing in {"model": model, "optimizer": optimizer, "loader": loader, "scaler": scaler}.items():
    for pickled in (pickle.dumps(thing), pickle.dumps(copy.deepcopy(thing))):
        # Torch names each storage by its address, which is another one in every process.
        print(name, len(pickled), hashlib.sha256(re.sub(rb"\\d{12,}", b"address", pickled)).hexdigest())
saved = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, saved)
print(hashlib.sha256(saved.getvalue()).hexdigest())
"""


@pytest.mark.slow
def test_nothing_is_left_on_the_users_objects_and_they_pickle_to_the_same_bytes(tmp_path: Path) -> None:
    bare, watched = (run("", how, prelude=OBJECTS) for how in ("bare", "watched"))
    assert (bare.returncode, watched.returncode, watched.stderr) == (0, 0, ""), watched.stderr
    assert len(bare.stdout.splitlines()) > 20
    assert watched.stdout == bare.stdout


def files_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("end", ["", "raise RuntimeError('no')", "sys.exit(3)", "import nothing_of_that_name"])
def test_no_file_outside_of_the_run_and_no_thread_is_left_at_the_end(
    home: Path, tmp_path: Path, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where this process polled the driver for the whole node."""
    stub = compile_stub(tmp_path_factory.mktemp("nvml"))
    places = {name: tmp_path / name for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME")}
    for place in places.values():
        place.mkdir()
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}, "LD_LIBRARY_PATH": str(stub)}
    done = run(f"train(1.6)\n{end}", environment=environment)
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1)
    assert [record for record in records(process_folders(home)[0]) if type(record).__name__ == "Device"]
    for place in (*places.values(), Path(os.environ["XDG_RUNTIME_DIR"])):
        assert files_under(place) == []
    left = [name for name in files_under(home) if not name.endswith((".nts", registry.PROCESS_FILE))]
    assert left == []


WORKERS = """
import multiprocessing, os, sys, torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 24
    def __getitem__(self, index): return torch.full((8,), float(index)), os.getpid()

if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    context = None if sys.argv[1] == "none" else sys.argv[1]
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=4, num_workers=2, multiprocessing_context=context, persistent_workers=True, shuffle=True
    )
    seen = set()
    for _ in range(2):
        for x, pids in loader:
            seen.update(pids.tolist())
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    print(len(seen), [round(value, 6) for value in model.weight.flatten().tolist()])
"""


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_loader_workers_of_every_kind_are_no_part_of_the_run(home: Path, tmp_path: Path, context: str) -> None:
    script = tmp_path / "job.py"
    script.write_text(WORKERS)
    outputs = []
    for environment in (os.environ.copy(), launched()):
        done = subprocess.run(
            [sys.executable, str(script), context], env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        outputs.append((done.stdout, [line for line in done.stderr.splitlines() if "ntstop" in line]))
    assert outputs[0] == outputs[1]
    (folder,) = process_folders(home)
    assert step_ordinals(records(folder)) == list(range(12))
    assert files_under(Path(os.environ["XDG_RUNTIME_DIR"])) == []


RANKS = """
import sys, torch, torch.multiprocessing as mp
def rank(number, fails):
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(8):
        if fails and number == 1 and step == 4:
            raise ValueError("rank 1 broke")
        model(torch.ones(4, 8)).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    mp.spawn(rank, (sys.argv[1] == "fails",), nprocs=2)
    print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["works", "fails"])
def test_spawned_ranks_are_seen_and_their_exceptions_end_the_job_as_ever(home: Path, tmp_path: Path, fate: str) -> None:
    script = tmp_path / "job.py"
    script.write_text(RANKS)
    codes = []
    for environment in (os.environ.copy(), launched(NTSTOP_RUN_ID="ranks")):
        done = subprocess.run(
            [sys.executable, str(script), fate], env=environment, capture_output=True, text=True, timeout=100
        )
        codes.append((done.returncode, done.stdout, "rank 1 broke" in done.stderr))
    assert codes[0] == codes[1] == ((0, "done\n", False) if fate == "works" else (1, "", True))
    trained = [folder for folder in process_folders(home) if step_ordinals(records(folder))]
    assert len(trained) == 2
    assert len({folder.parent.name for folder in trained}) == 1


def test_a_job_that_leaves_by_os_exit_has_recorded_and_is_not_held_up(home: Path) -> None:
    done = run("train([torch.ones(4, 8)] * 50); time.sleep(1); os._exit(7)", prelude=TORCH, environment=launched())
    assert (done.returncode, done.stderr) == (7, "")
    assert step_ordinals(records(process_folders(home)[0])) == list(range(49)), "the last step has not ended"


def test_the_socket_of_a_job_that_was_killed_goes_with_the_next_job(home: Path) -> None:
    folder = Path(os.environ["XDG_RUNTIME_DIR"])

    def sockets() -> list[str]:
        return [name for name in files_under(folder) if name.endswith(".sock")]

    with running("train(60)") as living:
        wait_until(lambda: len(sockets()) == 1)
        (alive,) = sockets()
        with running("train(60)") as killed:
            wait_until(lambda: len(sockets()) == 2)
            killed.kill()
            killed.communicate()
        with running("train(60)") as young:
            wait_until(lambda: len(sockets()) == 3)  # What is young is left alone: it may not listen yet.
            young.terminate()
            young.communicate()
        for name in sockets():
            os.utime(folder / name, (0, 0))
        (folder / "other.sock").touch()
        made = socket_path()
        assert set(sockets()) == {alive, "other.sock"}
        assert not made.exists()
        assert living.poll() is None


VIEWER = """
import sys, zmq
from pathlib import Path
from ntstop_probe import registry
socket = zmq.Context().socket(zmq.SUB)
socket.setsockopt(zmq.SUBSCRIBE, b"")
socket.connect(registry.read_process_info(Path(sys.argv[1])).endpoint)
while socket.recv():
    print(flush=True)
"""


@pytest.mark.parametrize("stops", [False, True], ids=["reads", "has stopped reading"])
def test_the_end_comes_soon_after_the_last_step_although_a_viewer_is_connected(home: Path, stops: bool) -> None:
    """The bound is that of a busy machine: 0.02 to 0.1 s were measured, 0.05 s of them without the probe."""
    stop_file = home.parent / "stop"
    with running("train(60, stop_file=sys.argv[1])", str(stop_file)) as job:
        folder = wait_until(lambda: process_folders(home))[0]
        wait_until(lambda: step_ordinals(records(folder)))
        with running("", str(folder), prelude=VIEWER) as viewer:
            assert viewer.stdout is not None
            viewer.stdout.readline()
            if stops:
                viewer.send_signal(signal.SIGSTOP)
            stop_file.touch()
            out, err = job.communicate(timeout=30)
            ended = time.monotonic()
    last, when = said_steps(out)[-1]
    assert (job.returncode, err) == (0, "")
    assert step_ordinals(records(folder))[-1] == last
    assert ended - when < 5.0
