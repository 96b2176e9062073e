"""Which run this process belongs to, and which of its processes it is."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import registry


@dataclass(frozen=True)
class Layout:
    """The place of a process in its world, from what its launcher put into the environment. None: not said."""

    rank: int | None = None
    world: int | None = None
    local_rank: int | None = None
    local_world: int | None = None
    restarts: int | None = None
    """How often the launcher has started this rank again."""
    launcher: str = ""
    """"torchrun", "slurm", "env" (RANK and WORLD_SIZE set by something else) or ""."""


@dataclass(frozen=True)
class Identity:
    """Everything of `registry.ProcessInfo` that holds from the start of the process."""

    run: str
    folder: Path
    writer: int
    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: float
    attempt: int
    layout: Layout


def layout_of(environment: Mapping[str, str]) -> Layout:
    """Read torchrun's variables, else Slurm's. Slurm sets SLURM_PROCID in batch scripts too, where it means nothing:
    it counts only inside a step of several tasks."""
    restarts = [
        count
        for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
        if (count := _integer(environment, name)) is not None
    ]
    again = sum(restarts) if restarts else None
    rank, world = _integer(environment, "RANK"), _integer(environment, "WORLD_SIZE")
    local_rank = _integer(environment, "LOCAL_RANK")
    if rank is not None:
        launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in environment else "env"
        return Layout(rank, world, local_rank, _integer(environment, "LOCAL_WORLD_SIZE"), again, launcher)
    tasks = _integer(environment, "SLURM_STEP_NUM_TASKS")
    if tasks is not None and tasks > 1:
        rank, local_rank = _integer(environment, "SLURM_PROCID"), _integer(environment, "SLURM_LOCALID")
        return Layout(rank, world if world is not None else tasks, local_rank, None, again, "slurm")
    return Layout(world=world, local_rank=local_rank, restarts=again)


def run_id(environment: Mapping[str, str], layout: Layout, script: str) -> str:
    """The name of the run, the same in all its ranks and, where the launcher says so, across restarts.

    `NTSTOP_RUN_ID`; else, in a world of several, a hash of the Slurm job and step and the rendezvous id, or of the
    master's address and port; else random. `script` begins the name.
    """
    if given := environment.get("NTSTOP_RUN_ID"):
        return registry.safe_name(given)
    shared = _shared_parts(environment, layout) if (layout.world or 1) > 1 else []
    if shared:
        digest = hashlib.sha256("\0".join(shared).encode(errors="surrogateescape")).hexdigest()[:8]
        return registry.safe_name(f"{script[:80]}-{digest}")
    return registry.safe_name(f"{script[:70]}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")


def _shared_parts(environment: Mapping[str, str], layout: Layout) -> list[str]:
    parts = []
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_STEP_ID"):
        parts += ["slurm", environment["SLURM_JOB_ID"], environment["SLURM_STEP_ID"]]
    rendezvous = environment.get("TORCHELASTIC_RUN_ID", "none")
    if rendezvous not in ("", "none"):
        parts += ["rendezvous", rendezvous]
    if not parts and environment.get("MASTER_ADDR"):
        parts += ["master", environment["MASTER_ADDR"], environment.get("MASTER_PORT", "")]
        if layout.launcher == "torchrun" and layout.local_world == layout.world:
            # torchrun's default port is always the same: tomorrow's run is told apart by its agent, our parent.
            agent = os.getppid()
            parts += ["agent", registry.boot_id(), str(agent), str(registry.process_start_time(agent))]
    return parts


def script_name() -> str:
    """The job's script without its folder and suffix, or the module of `python -m`; "python" when there is neither."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and getattr(spec, "name", None) not in (None, "__main__"):
        return str(spec.name).removesuffix(".__main__").rpartition(".")[2]
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "python"


def identify(environment: Mapping[str, str] | None = None) -> Identity:
    """Who this process is. Looks at earlier process folders of the run, but creates nothing and never raises."""
    environment = os.environ if environment is None else environment
    layout = layout_of(environment)
    run = run_id(environment, layout, script_name())
    host, pid = socket.gethostname(), os.getpid()
    started = registry.process_start_time(pid) or time.monotonic()
    run_folder = registry.runs_folder() / run
    return Identity(
        run=run,
        folder=_free_name(run_folder / registry.process_folder_name(host, pid, started)),
        writer=int.from_bytes(secrets.token_bytes(8), "little"),
        host=host,
        boot=registry.boot_id(),
        pid_namespace=registry.pid_namespace(),
        pid=pid,
        started=started,
        attempt=max(layout.restarts or 0, earlier_attempts(run_folder, layout.rank)),
        layout=layout,
    )


def _free_name(folder: Path) -> Path:
    """`folder`, or the first of `folder-2`, `folder-3` … that does not exist: `exec` keeps pid and start time."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def earlier_attempts(run_folder: Path, rank: int | None) -> int:
    """How many processes of this rank have trained in the run before and are gone.

    A sibling that still lives is no earlier attempt; neither is a helper that never trained.
    """
    count = 0
    try:
        folders = [folder for folder in run_folder.iterdir() if folder.is_dir()]
    except OSError:
        return 0
    for folder in folders:
        try:
            info = registry.read_process_info(folder)
        except (OSError, ValueError):
            continue
        count += info.rank == rank and info.training and not lives(info)
    return count


def lives(info: registry.ProcessInfo) -> bool:
    """True when the announced process is this host's and still runs."""
    here = (info.boot, info.pid_namespace) == (registry.boot_id(), registry.pid_namespace())
    started = registry.process_start_time(info.pid) if here else None
    return started is not None and abs(started - info.started) < 0.02


def _integer(environment: Mapping[str, str], name: str) -> int | None:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        return None
