"""What is installed by whom: the probe alone in a training container, and the two lines of the README."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def readme_command(marker: str) -> str:
    """The one line of the code block behind `<!-- marker -->`, as `.ci/run` reads it."""
    match = re.search(rf"<!-- {marker} -->\n\n    (\S.*)\n", (ROOT / "README.md").read_text())
    assert match, f"README.md has no {marker}"
    return match[1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_probe_alone_needs_neither_the_monitor_nor_a_terminal_library(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT / "probes")]
    subprocess.run(install, check=True, cwd=tmp_path)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout
    names = {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}
    assert "ntstop-probe" in names
    assert not names & {"ntstop", "textual", "rich", "numpy", "click", "torch"}
    program = """
import ntstop_probe
from pathlib import Path
ntstop_probe.log({"x": 1.0})
ntstop_probe.mark("alive")
ntstop_probe.stop()
assert (Path(ntstop_probe.__file__).parent / "boot" / "sitecustomize.py").is_file()
"""
    done = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("marker", ["demo command", "test command"])
def test_each_readme_command_is_one_line_with_an_environment_of_its_own(marker: str) -> None:
    command = readme_command(marker)
    assert command.startswith("python3 -m venv .venv")
    assert "-c constraints.txt" in command


def test_every_direct_dependency_is_pinned_for_the_readme_commands() -> None:
    pinned = {
        re.split(r"==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    for project in (ROOT, ROOT / "probes"):
        table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        extras = table.get("optional-dependencies", {})
        wanted = [*table["dependencies"], *(word for extra in extras.values() for word in extra)]
        names = {re.split(r"[<>=\[ ]", w)[0].lower() for w in wanted} - {"ntstop-probe"}
        assert names <= pinned, f"not in constraints.txt: {sorted(names - pinned)}"


def test_the_two_distributions_have_the_same_version() -> None:
    versions = {
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
        for folder in (ROOT, ROOT / "probes")
    }
    import ntstop

    assert versions == {ntstop.__version__}


def test_the_command_line_runs_as_a_module_of_this_environment() -> None:
    done = subprocess.run([Path(sys.executable).parent / "ntstop", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("ntstop ")
