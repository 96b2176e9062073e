"""The app over real recordings: a run that ended, one that was killed, one that is damaged, one that is yet to come."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.sources.base import SourceError
from ntstop.sources.runs import read_run
from ntstop.tui.app import NtstopApp, run_app, screen_text
from ntstop.tui.terminal import Driver
from tests.helpers import wait_until
from tests.tui import feed

STEPS = 30


def train(home: Path, run: str, *arguments: str) -> subprocess.Popen[bytes]:
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "NTSTOP_HOME": str(home), "NTSTOP_RUN_ID": run, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ntstop.demo.train", *arguments]
    return subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("finished")
    assert train(home, "done", "--steps", str(STEPS)).wait(120) == 0
    yield home / "runs" / "done"


async def screen_of(folder: Path, *words: str, size: tuple[int, int] = (120, 40)) -> str:
    """The screen of the run in `folder` once all `words` are on it."""
    with Session(folder) as session:
        app = NtstopApp(session)
        async with app.run_test(size=size) as pilot:
            for _ in range(400):
                text = screen_text(app.screen)
                if all(word in text for word in words):
                    return text
                await pilot.pause(0.05)
    raise AssertionError(f"{words} did not come:\n{text}")


async def test_a_finished_run_is_drawn_from_its_recording(finished: Path) -> None:
    text = await screen_of(finished, "■ FINISHED", f"step {STEPS - 1}", "layers", "blocks.0", "fwd", "loss")
    assert "ETA" not in text and "old" not in text.splitlines()[0]


async def test_a_killed_run_is_died_with_the_evidence(tmp_path: Path) -> None:
    process = train(tmp_path, "killed", "--steps", "100000")
    folder = tmp_path / "runs" / "killed"

    def has_steps() -> bool:
        try:
            return (read_run(folder).last_step or 0) >= 3
        except SourceError:
            return False

    try:
        wait_until(has_steps, 90, 0.1, "some steps")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    await screen_of(folder, "✖ DIED", f"pid {process.pid} is gone")


async def test_a_damaged_recording_is_drawn_as_far_as_it_goes_and_says_so(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(finished, folder)
    segment = sorted(folder.glob("*/core-*.nts"))[0]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x10
    segment.write_bytes(data)
    await screen_of(folder, "damaged", "loss", "step time")


async def test_a_folder_that_comes_into_being_later_is_waited_for(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with Session(folder) as session:
        app = NtstopApp(session, title="to come")
        async with app.run_test(size=(80, 24)) as pilot:
            for _ in range(400):
                if "waiting for the first step" in (text := screen_text(app.screen)):
                    break
                await pilot.pause(0.05)
            assert "◌ WAITING" in text and "to come" in text
            shutil.copytree(finished, folder)
            for _ in range(400):
                if f"step {STEPS - 1}" in (text := screen_text(app.screen)):
                    return
                await pilot.pause(0.05)
    raise AssertionError(text)


def test_an_app_that_breaks_off_leaves_no_thread_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Driver] = []

    def breaks_off(app: NtstopApp, **_: object) -> None:
        async def start() -> None:
            app._driver = Driver(app)
            left.append(app._driver)

        asyncio.run(start())
        raise OSError("the terminal is gone")

    monkeypatch.setattr(NtstopApp, "run", breaks_off)
    with Session(feed.FedSource(feed.training(10))) as session, pytest.raises(OSError, match="gone"):
        run_app(session)
    assert left[0].exit_event.is_set()
