"""What happens in every Python that `ntstop run` has started; called by `boot/sitecustomize.py`. Imports little."""

from __future__ import annotations

import os
import sys

from .hooks.early import when_torch_is_used

MAIN = "NTSTOP_MAIN"
"""Set by the first Python of a launched command to "pid:rank", so that those it starts know they are not the first.
A rank of torchrun's finds that of its agent, which has none, and is a first one too."""
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch"})
"""Programs that start trainers and never train: their children announce themselves."""


def boot() -> None:
    """Arm once torch is imported; the process that was launched itself is shown even before that.

    Raises `RuntimeError` in a Python that is too old.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - the boot folder also comes to Pythons we cannot be installed in.
        raise RuntimeError("it needs Python 3.11 or newer")
    if claim_main():
        from . import core

        core.launched()
    else:
        when_torch_is_used(_torch_is_used)


def claim_main() -> bool:
    """True when this is the process that the command's user waits for, rather than a helper that it started."""
    rank = os.environ.get("RANK", "")
    pid, _, claimed_rank = os.environ.get(MAIN, "").partition(":")
    if pid and pid != str(os.getpid()) and claimed_rank == rank:
        return False
    os.environ[MAIN] = f"{os.getpid()}:{rank}"
    return True


def _torch_is_used() -> None:
    from . import core

    core.torch_is_used()


def is_launcher() -> bool:
    """True in torchrun and its like."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return program in _LAUNCHERS or str(getattr(spec, "name", "")).removesuffix(".__main__") in _LAUNCHERS
