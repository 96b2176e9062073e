"""Fixtures of the monitor's tests."""

from __future__ import annotations

import shutil
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
