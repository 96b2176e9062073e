"""Real jobs of other people's frameworks, bare and under `ntstop run`, and what was recorded of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ntstop_probe.wire import Column, Event, Heartbeat, Hello, Record, Steps, unpack

from .reading import logged, process_folders, records

JOBS = Path(__file__).parent / "framework_jobs"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore",
}


@dataclass
class Followed:
    """Everything a process has recorded."""

    records: list[Record]

    @property
    def blocks(self) -> list[Steps]:
        return [record for record in self.records if isinstance(record, Steps)]

    def column(self, name: str) -> list[Any]:
        """A column of the steps, over all blocks; "phases/eval" is one of a group. None: not measured."""
        group, _, key = name.partition("/")
        values: list[Any] = []
        for block in self.blocks:
            found = getattr(block, group)
            found = found.get(key) if key else found
            values += unpack(found) if isinstance(found, Column) else [None] * block.count
        return values

    def events(self, kind: str) -> list[Event]:
        return [record for record in self.records if isinstance(record, Event) and record.kind == kind]

    def curve(self, name: str) -> list[tuple[int | None, float]]:
        """What the job logged under a name: (step, value)."""
        return [(row.step, row.values[name]) for row in logged(self.records) if name in row.values]

    @property
    def hello(self) -> Hello:
        """The last word on what the run is."""
        return [record for record in self.records if isinstance(record, Hello)][-1]

    @property
    def disabled(self) -> list[str]:
        return [record for record in self.records if isinstance(record, Heartbeat)][-1].probe.disabled


def start(job: str, *words: str, run: str | None = None, environment: dict[str, str] | None = None) -> Any:
    """Start a script of `framework_jobs`: bare, or as `ntstop run --name RUN -- python job …`."""
    command = [sys.executable, str(JOBS / job), *words]
    if run is not None:
        command = [str(Path(sys.executable).parent / "ntstop"), "run", "--name", run, "--", *command]
    environment = {**os.environ, **OFFLINE, **(environment or {})}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(job: Any, timeout: float = 100) -> dict[str, Any]:
    """The JSON that a job prints last; it must have ended well, without a complaint of ntstop's."""
    out, err = job.communicate(timeout=timeout)
    assert job.returncode == 0, err
    assert complaints(err) == []
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def complaints(err: str) -> list[str]:
    """What ntstop has said on stderr, but for the remark that a slow machine takes long to begin."""
    lines = [line for line in err.splitlines() if "ntstop: " in line]
    return [line for line in lines if "no training step after" not in line]


def followed(home: Path, run: str) -> Followed:
    """What the one process of a run has recorded."""
    (folder,) = [folder for folder in process_folders(home) if folder.parent.name == run]
    return Followed(records(folder))
