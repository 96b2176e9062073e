"""Fixtures of the monitor's tests."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that others may enter, so that what stops them is the run's own mode."""
    path = Path(tempfile.mkdtemp(prefix="nts-open-"))
    path.chmod(0o755)
    (path / "runs").mkdir(mode=0o755)
    monkeypatch.setenv("NTSTOP_HOME", str(path))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """Some process that is not this one."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()
