"""`ntstop rm` and `ntstop prune`: what has ended may go, what goes on and what is no run of ours may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from ntstop.commands.prune import bytes_of, seconds_of
from ntstop_probe.wire import Event, Heartbeat
from tests.tmux import Terminal

from .writer import EPOCH, Writer, core

NTSTOP = str(Path(sys.executable).with_name("ntstop"))


def ended(run: str, *, days: float = 0.0, count: int = 50) -> Path:
    """A run that ended so long ago."""
    writer = Writer(run)
    writer.train(0, count)
    then = time.time() - 86_400 * days
    writer.send(Heartbeat(EPOCH + 1, then, "idle", 0.0, count), Event(EPOCH + 2, "exit", data={"code": 0}))
    writer.close()
    os.utime(core(writer), (then, then))
    return writer.folder.parent


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NTSTOP, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_rm_removes_what_was_named_and_nothing_else() -> None:
    one, other = ended("one"), ended("other")
    done = call("rm", "one", "--yes")
    assert (done.returncode, one.exists(), other.exists()) == (0, False, True)
    assert "removed 1 of 1 run" in done.stdout


def test_nothing_goes_without_an_answer() -> None:
    folder = ended("one")
    done = call("rm", "one")
    assert (done.returncode, folder.exists()) == (2, True)
    assert "--yes" in done.stderr
    with Terminal([NTSTOP, "rm", "one"]) as terminal:
        terminal.wait_for("remove 1 run")
        terminal.keys("n", "Enter")
        terminal.wait_for("left with 1")
    assert folder.exists()


def test_a_run_that_goes_on_stays_and_so_do_those_named_beside_it() -> None:
    writer = Writer("on")
    writer.train(0, 10)
    folder = ended("one")
    done = call("rm", "one", "on", "--yes")
    assert (done.returncode, folder.exists(), writer.folder.exists()) == (2, True, True)
    assert "on is not removed: it is live" in done.stderr
    done = call("prune", "--larger-than", "0", "--yes")
    assert (done.returncode, folder.exists(), writer.folder.exists()) == (0, False, True)
    writer.close()


def test_a_run_of_another_host_that_was_heard_lately_stays() -> None:
    writer = Writer("elsewhere", host="node17")
    writer.train(0, 10)
    writer.close()
    then = time.time() - 60
    os.utime(core(writer), (then, then))
    assert "it may go on" in call("rm", "elsewhere", "--yes").stderr
    assert writer.folder.exists()


def test_what_lies_outside_the_runs_folder_stays(tmp_path: Path, home: Path) -> None:
    outside = tmp_path / "copy"
    shutil.copytree(ended("one"), outside)
    done = call("rm", str(outside), "--yes")
    assert (done.returncode, outside.exists()) == (2, True)
    assert "only runs in" in done.stderr
    (home / "runs" / "link").symlink_to(outside)
    done = call("rm", "link", "--yes")
    assert (done.returncode, outside.exists()) == (2, True)
    process = next(path for path in (home / "runs" / "one").iterdir() if path.is_dir())
    assert call("rm", str(process), "--yes").returncode == 2
    assert process.exists()


def test_a_link_inside_a_run_takes_nothing_along(tmp_path: Path) -> None:
    folder = ended("one")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("kept")
    (folder / "link").symlink_to(precious)
    assert call("rm", "one", "--yes").returncode == 0
    assert not folder.exists()
    assert (precious / "data").read_text() == "kept"


def test_prune_by_age_and_by_size_takes_the_oldest_first() -> None:
    old, middle, new = ended("old", days=40), ended("middle", days=3, count=3000), ended("new", count=3000)
    assert call("prune", "--older-than", "30d", "--yes").returncode == 0
    assert [folder.exists() for folder in (old, middle, new)] == [False, True, True]
    assert "nothing to remove" in call("prune", "--older-than", "30d", "--yes").stdout
    size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
    assert call("prune", "--larger-than", f"{size + 1000}B", "--yes").returncode == 0
    assert [folder.exists() for folder in (middle, new)] == [False, True]


@pytest.mark.parametrize("words", [["prune"], ["prune", "--older-than", "soon"], ["prune", "--larger-than", "much"]])
def test_what_is_not_understood_is_one_line_and_code_2(words: list[str]) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_ages_and_sizes() -> None:
    assert seconds_of("30d") == 30 * 86_400
    assert seconds_of("1.5h") == 5400
    assert bytes_of("5GB") == 5e9
    assert bytes_of("2 MiB") == 2 * 2**20
    assert bytes_of("7") == 7
    with pytest.raises(click.ClickException):
        seconds_of("-1d")
