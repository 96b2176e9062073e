"""`ntstop run`: start any command with the probe in it, without a change to its code.

The probe's boot folder goes in front of PYTHONPATH, and every Python that the command starts finds it there. Without
a viewer this process *becomes* the command, so exit code, signals, stdin and stdout are the command's own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from ntstop_probe import registry

OUTPUT_FILE = "output.log"
"""In the folder of a run that was started with `--watch`: what the command printed."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""No characters that are mistaken for each other."""


class LaunchError(Exception):
    """The command cannot be started; the text is one line, `code` is what a shell would exit with."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def boot_folder() -> Path:
    """The folder whose `sitecustomize` arms the probe. Found without importing the probe."""
    spec = find_spec("ntstop_probe")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        raise LaunchError("ntstop-probe is not installed beside ntstop", 2)
    return Path(locations[0]) / "boot"


def fresh_run_id(command: Sequence[str]) -> str:
    """A new id that says what runs: `train-k7q2` for `python train.py`, `torchrun … train.py` or `-m pkg.train`."""
    name = registry.safe_name(_script(command))[:32]
    while True:
        run = f"{name}-{''.join(secrets.choice(_ID_ALPHABET) for _ in range(4))}"
        if not (registry.runs_folder() / run).exists():
            return run


def launch_environment(
    inherited: Mapping[str, str], command: Sequence[str], run: str | None, title: str | None
) -> dict[str, str]:
    """The environment of `command`: the inherited one with the boot folder in front and the run's id in it.

    Without `run` an inherited NTSTOP_RUN_ID holds. Where this process is one of many that a launcher started, none is
    made up either: each would make up another, and the probe finds the id that they share.
    """
    environment = dict(inherited)
    search = inherited.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(boot_folder()), *([search] if search else [])])
    environment["NTSTOP_LAUNCHED"] = "1"
    if inherited.get("NTSTOP_HOME"):
        # A job that changes its folder would find another one by a relative path.
        environment["NTSTOP_HOME"] = str(registry.home())
    if title:
        environment["NTSTOP_TITLE"] = title
    if run:
        environment["NTSTOP_RUN_ID"] = run
    elif not inherited.get("NTSTOP_RUN_ID") and not _one_of_many(inherited):
        environment["NTSTOP_RUN_ID"] = fresh_run_id(command)
    return environment


def become(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Replace this process by `command`; returns only by raising `LaunchError`."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(environment))
    except (OSError, ValueError) as error:
        raise _cannot_start(command, error) from error


def run_watched(command: Sequence[str], environment: Mapping[str, str], view: Callable[[Path], int]) -> int:
    """Start `command` with its output in a file, show its run folder with `view`, then wait; returns the exit code.

    Quitting the viewer does not end the job. While this process waits, signals go on to the command, which is a
    process group of its own: a key press in the viewer never reaches it.
    """
    folder = registry.runs_folder() / registry.safe_name(environment["NTSTOP_RUN_ID"])
    registry.make_private(folder)
    output = folder / OUTPUT_FILE
    with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as sink:
        try:
            job = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise _cannot_start(command, error) from error
    try:
        code = view(folder)
    except Exception as error:
        # The job keeps its parent, and the parent its exit code, whatever happens to the viewer.
        print(f"the viewer failed: {error}", file=sys.stderr)
        code = 1
    if job.poll() is None:
        forward_signals(job)
        if code == 128 + signal.SIGTERM:
            os.killpg(job.pid, signal.SIGTERM)
        print(f"the job goes on (ctrl-c interrupts it); its output: {output}", flush=True)
        job.wait()
    print(f"the job ended with exit code {shell_code(job.returncode)}; its output: {output}", flush=True)
    return shell_code(job.returncode)


def forward_signals(job: subprocess.Popen[bytes]) -> None:
    """From here on the signals that would end this process go to the process group of `job` instead."""

    def forward(number: int, _frame: FrameType | None) -> None:
        if job.poll() is None:
            os.killpg(job.pid, number)

    for number in _FORWARDED:
        signal.signal(number, forward)


def shell_code(returncode: int) -> int:
    """The exit code of a shell for a `Popen.returncode`: 128 + the number of the signal that ended it."""
    return returncode if returncode >= 0 else 128 - returncode


def _script(command: Sequence[str]) -> str:
    """The most telling word of a command: its script, else its module, else the program."""
    for word in command[1:]:
        if word.endswith(".py"):
            return Path(word).stem
    if "-m" in command[1:-1]:
        return command[command.index("-m", 1) + 1].rpartition(".")[2]
    return Path(command[0]).name


def _one_of_many(environment: Mapping[str, str]) -> bool:
    # SLURM_NTASKS is set in batch scripts too, where only one process runs; the step's count is not.
    return any(environment.get(name, "1") not in ("", "0", "1") for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"))


def _cannot_start(command: Sequence[str], error: OSError | ValueError) -> LaunchError:
    if not command[0]:
        return LaunchError("'': command not found", 127)
    if isinstance(error, ValueError):
        return LaunchError(f"{command[0]}: {error}", 126)
    if isinstance(error, FileNotFoundError) and shutil.which(command[0]) is None:
        return LaunchError(f"{command[0]}: command not found", 127)
    return LaunchError(f"{command[0]}: {error.strerror or error}", 126)
