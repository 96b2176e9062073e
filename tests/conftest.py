"""Every test has a home of its own: no test sees, or leaves anything in, the user's own runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh `NTSTOP_HOME`, and a socket folder short enough for the 107 bytes of an ipc path."""
    for name in [name for name in os.environ if name.startswith(("NTSTOP_", "SLURM_", "TORCHELASTIC_"))]:
        monkeypatch.delenv(name)
    runtime = tempfile.mkdtemp(prefix="nts-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("NTSTOP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path / "home"
    shutil.rmtree(runtime, ignore_errors=True)
