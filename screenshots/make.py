"""The pictures in the README, from real runs of the demo: `python screenshots/make.py`. Takes about four minutes.

Needs `pip install -e probes -e '.[demo,screenshots]'` and, for the PNG, the font DejaVu Sans Mono.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import resvg_py

from ntstop.demo.child import DemoChild
from ntstop.session import Session
from ntstop.tui.app import NtstopApp

HERE = Path(__file__).resolve().parent
FONT = "DejaVu Sans Mono"
LIMIT = 150.0
"""Seconds that one run may take."""


@dataclass(frozen=True)
class Shot:
    """One picture: of which size, at which step, after which keys."""

    name: str
    step: int
    size: tuple[int, int] = (120, 40)
    keys: tuple[str, ...] = ()
    finding: str = ""
    """Kind of the finding to wait for."""


async def shoot(session: Session, shot: Shot) -> None:
    """Wait for the step (and the finding), open the app without a terminal, press the keys, save SVG and PNG."""
    deadline = time.monotonic() + LIMIT
    while not _is_there(session, shot):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{shot.name}: step {shot.step} {shot.finding} did not come in {LIMIT:.0f} s")
        await asyncio.sleep(0.1)
    app = NtstopApp(session)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause(1.5)
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.5)
        await pilot.pause(2.0)
        svg = app.export_screenshot(title="ntstop", simplify=True)
    (HERE / f"{shot.name}.svg").write_text(svg, encoding="utf-8")
    picture = resvg_py.svg_to_bytes(svg_string=svg.replace("Fira Code", FONT), monospace_family=FONT)
    (HERE / f"{shot.name}.png").write_bytes(bytes(picture))
    print(shot.name, shot.size, f"{len(picture) // 1000} kB")


def _is_there(session: Session, shot: Shot) -> bool:
    with session.lock:
        process = session.state.primary
        found = not shot.finding or any(finding.kind == shot.finding for finding in session.findings)
        return found and process is not None and process.x >= shot.step


def run(folder: Path, *shots: Shot, fault: str = "", at: int = 1) -> None:
    """Train the demo and take pictures of it in their order."""
    with DemoChild(folder, steps=3000, seed=0, fault=fault, at=at) as child, Session(child.folder) as session:
        for shot in shots:
            asyncio.run(shoot(session, shot))


def main() -> None:
    """The screens of a healthy run, of one that a bad batch has broken, and of one with a dead layer."""
    # As in any good terminal, whatever this is run from.
    os.environ.update(COLORTERM="truecolor", TERM="xterm-256color", OMP_NUM_THREADS="1")
    os.environ.pop("NO_COLOR", None)
    with tempfile.TemporaryDirectory(prefix="ntstop-", dir="/tmp") as home, contextlib.chdir(home):
        # The manifest is in the pictures: the command, folder and caches of nobody's machine.
        interpreter = Path(sys.executable)
        os.environ["PATH"] = f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}"
        sys.executable = interpreter.name
        os.environ.update(NTSTOP_HOME=home, TORCHINDUCTOR_CACHE_DIR="inductor")
        runs = Path(home) / "runs"
        run(
            runs / "demo-nan",
            Shot("nan", 190, finding="nonfinite-loss"),
            Shot("card", 190, keys=("enter",), finding="nonfinite-loss"),
            fault="nan",
            at=150,
        )
        run(
            runs / "demo-dead",
            Shot("layers", 260, size=(150, 40), keys=("3", "o", *["s"] * 7), finding="dead-layer"),
            Shot("findings", 260, keys=("7",), finding="dead-layer"),
            fault="dead-layer",
            at=150,
        )
        run(
            runs / "demo",
            Shot("overview", 460),
            Shot("overview-80x24", 460, size=(80, 24)),
            Shot("curves", 460, keys=("2",)),
            Shot("step", 460, keys=("4",)),
            Shot("memory", 460, keys=("5",)),
            Shot("run", 460, keys=("8",)),
        )


if __name__ == "__main__":
    main()
