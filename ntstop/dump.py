"""The stacks of all threads of a process, on demand, by py-spy where it is installed and allowed.

The job is not asked to do anything: py-spy reads its memory from outside. Without a pause first; a stack that is torn
because the process ran on meanwhile is read again with the process paused for some milliseconds, and that is said.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 10.0
"""Seconds. Reading takes well below one; symbols on a slow file system take longer."""


@dataclass(frozen=True)
class Dump:
    """What was seen. One of `text` and `problem` is empty."""

    text: str
    problem: str = ""
    paused: bool = False
    """The process was held for some milliseconds."""


def py_spy() -> str | None:
    """The py-spy of this Python's environment, else one of the PATH; None where there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def dump(pid: int) -> Dump:
    """The stacks of process `pid`, which must be of this host and this user (or ptrace be allowed). Never raises."""
    program = py_spy()
    if program is None:
        return Dump("", "py-spy is not installed: pip install py-spy")
    first = _ask([program, "dump", "--pid", str(pid), "--nonblocking"])
    if not first.problem:
        return first
    if "Permission" in first.problem or "permitted" in first.problem:
        return first
    second = _ask([program, "dump", "--pid", str(pid)])
    return Dump(second.text, second.problem, paused=not second.problem)


def _ask(command: list[str]) -> Dump:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return Dump("", f"py-spy did not answer within {TIMEOUT:.0f} s")
    except OSError as error:
        return Dump("", f"py-spy: {error.strerror}")
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in reversed(said) if "Permission" in line or "permitted" in line), "")
        reason = reason or (said[0] if said else f"exit code {done.returncode}")
        hint = "; ptrace is not allowed here (kernel.yama.ptrace_scope)" if "ermi" in reason else ""
        return Dump("", f"py-spy: {reason}{hint}")
    return Dump(done.stdout)
