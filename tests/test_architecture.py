"""What may import what: the contracts of import-linter, and what a command really loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ["textual", "rich", "torch", "numpy", "zmq", "psutil"]


def loaded_by(program: str) -> set[str]:
    """The top-level modules in `sys.modules` after `program`, run in a fresh interpreter."""
    code = (
        f"import sys\ntry:\n    {program}\nexcept SystemExit:\n    pass\n"
        "print('|'.join({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split("|"))


def cli(*words: str) -> str:
    """A program that runs the command line with `words`."""
    return f"from ntstop.cli import main; main({list(words)!r})"


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["run", "--help"], ["ls"], ["ls", "--json"]])
def test_help_and_ls_load_nothing_heavy(words: list[str]) -> None:
    heavy = {"textual", "rich", "torch", "numpy", "zmq"}
    assert not loaded_by(cli(*words)) & heavy


def test_help_loads_click_and_nothing_of_the_monitor_but_the_command_line() -> None:
    assert not loaded_by(cli("--help")) & {*HEAVY, "msgspec", "ntstop_probe"}


def test_importing_the_probe_costs_nothing() -> None:
    assert not loaded_by("import ntstop_probe") & {*HEAVY, "msgspec", "ntstop"}
