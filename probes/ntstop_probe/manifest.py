"""The manifest: what somebody needs to run this again. Gathered in the publisher thread; every part may be missing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from .identity import Layout
from .redaction import redact_command, redact_mapping
from .wire import Manifest

_T = TypeVar("_T")

GIT_TIMEOUT = 2.0
"""Seconds. A working tree on a network file system can take a minute: then the SHA stays unknown."""

_ENVIRONMENT = (
    "CUBLAS_", "CUDA_", "CUDNN_", "GLOO_", "LOCAL_", "MASTER_", "MKL_", "NCCL_", "NTSTOP_", "OMP_", "PYTHONHASHSEED",
    "PYTORCH_", "RANK", "SLURM_CPUS_", "SLURM_GPUS", "SLURM_JOB_", "SLURM_NNODES", "SLURM_NODEID", "SLURM_NTASKS",
    "SLURM_PROCID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID", "TOKENIZERS_PARALLELISM", "TORCHDYNAMO_", "TORCHELASTIC_",
    "TORCHINDUCTOR_", "TORCH_", "WORLD_SIZE",
)  # fmt: skip
"""Beginnings of the variables that change what a training does. Everything else stays private."""

_OF_LAUNCH = frozenset({"NTSTOP_LAUNCHED", "NTSTOP_MAIN"})
"""What `ntstop run` tells the probe, and nobody set: no part of the reproduction."""

_LIBRARIES = (
    "torch", "numpy", "transformers", "lightning", "pytorch_lightning", "accelerate", "deepspeed", "datasets", "triton",
    "torchvision", "peft", "timm",
)  # fmt: skip


def gather(layout: Layout) -> Manifest:
    """What holds from the start of the process to its end. Never raises."""
    return Manifest(
        command=_guarded(lambda: redact_command([clean(word) for word in sys.orig_argv]), []),
        cwd=_guarded(lambda: clean(os.getcwd()), ""),
        environment=_guarded(lambda: allowed_environment(os.environ), {}),
        hardware=_guarded(hardware, {}),
        layout=_layout(layout),
    )


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the allow-list, secrets struck out, in the order of their names."""
    names = (name for name in sorted(environment) if name.startswith(_ENVIRONMENT) and name not in _OF_LAUNCH)
    return redact_mapping({name: clean(environment[name]) for name in names})


def git_state(folder: Path | None = None) -> tuple[str | None, bool | None]:
    """The commit and whether tracked files differ from it, of the tree the script is in (else the working folder).

    One `git status`, without locks, prompts, fsmonitor hooks or untracked files; (None, None) when git does not answer
    within `GIT_TIMEOUT`.
    """
    if folder is None:
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        folder = Path(script).absolute().parent if script else Path.cwd()
    command = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **quiet},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    lines = done.stdout.decode(errors="replace").splitlines()
    commits = [line.split()[2] for line in lines if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return None, None
    return commits[0], any(not line.startswith("#") for line in lines)


def torch_seed() -> int | None:
    """`torch.initial_seed()`, if the job has imported torch. Reads the default generator; changes nothing."""
    seed = getattr(sys.modules.get("torch"), "initial_seed", None)
    return int(seed()) if seed is not None else None


def versions() -> dict[str, str]:
    """Versions of Python and of what the job has imported; nothing is imported to find out."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    if cuda:
        found["cuda"] = str(cuda)
    return found


def hardware() -> dict[str, str]:
    """Processor, cores and memory of the host; the GPUs are added by whoever has NVML open."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "usable_cores": str(usable),
        "memory_bytes": str(pages),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _layout(layout: Layout) -> dict[str, str]:
    named = {
        "rank": layout.rank,
        "world": layout.world,
        "local_rank": layout.local_rank,
        "local_world": layout.local_world,
        "launcher": layout.launcher or None,
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def clean(text: str) -> str:
    """Bytes that are no UTF-8 (a surrogate in Python's eyes) cannot travel."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _guarded(gather_part: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return gather_part()
    except Exception:
        return otherwise
