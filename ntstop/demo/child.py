"""The demo's training as a child process: started with the probe, ended with whoever started it. Imports no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from ntstop import launch
from ntstop_probe import registry

_GRACE = 5.0
"""Seconds the training has to end by itself before it is killed."""


class DemoChild:
    """A running demo. Use it in a `with`: leaving it ends the training.

    `folder` is the run's folder, which is made here; `output` is what the training prints.
    """

    def __init__(self, folder: Path, *, steps: int, seed: int, fault: str, at: int) -> None:
        self.folder = folder
        self.output = folder / launch.OUTPUT_FILE
        registry.make_private(folder)
        command = [sys.executable, "-m", "ntstop.demo.train", "--leashed"]
        command += ["--steps", str(steps), "--seed", str(seed), "--checkpoint", str(folder / "demo.pt")]
        command += ["--fault", fault, "--at", str(at)]
        title = f"demo with {fault} from step {at}" if fault else "demo"
        with open(os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "NTSTOP_RUN_ID": folder.name, "NTSTOP_TITLE": title},
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the training."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code of the training; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the training and wait until it is gone."""
        if self._process.stdin is not None:
            # The leash: the training ends when its standard input closes, even when this process was killed.
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> DemoChild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
