"""What viewers keep of a run: acknowledgements, and who was told of what. Two viewers never lose each other's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.viewer_state import StateError, ViewerState
from tests.monitor.test_cli import ntstop, recorded, with_nan

WRITER = """
import sys
from ntstop.viewer_state import ViewerState
state = ViewerState("run-1")
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    state.acknowledge(f"{sys.argv[1]}-{number}", "seen")
    print(int(state.claim(f"shared-{number}")), flush=True)
"""


def test_an_acknowledgement_is_there_for_every_viewer_until_it_is_taken_back(home: Path) -> None:
    here, there = ViewerState("run-1"), ViewerState("run-1")
    here.acknowledge("plateau-0-loss-7", "known:\n\x1b[31mthe data ends here")
    said = there.acknowledged["plateau-0-loss-7"]
    assert said.note == "known: the data ends here"
    there.take_back("plateau-0-loss-7")
    assert not here.acknowledged
    assert not ViewerState("run-2").acknowledged
    assert not ViewerState("/logs/run-1").acknowledged


def test_the_state_is_private_and_beside_the_runs_not_in_them(home: Path) -> None:
    recorded()
    before = sorted(home.rglob("runs/**"))
    ViewerState("run-1").acknowledge("a", "")
    assert sorted(home.rglob("runs/**")) == before
    folder = home / "viewer"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_finding_is_claimed_once_whoever_asks() -> None:
    here, there = ViewerState("run-1"), ViewerState("run-1")
    assert here.untold(["a", "b"]) == ["a", "b"]
    assert here.claim("a")
    assert not there.claim("a") and not ViewerState("run-1").claim("a")
    assert there.untold(["a", "b"]) == ["b"]


def test_two_viewers_that_write_at_once_lose_nothing() -> None:
    viewers = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for viewer in viewers:
        assert viewer.stdout is not None and viewer.stdout.readline() == "ready\n"
    threads = []
    claims: list[list[str]] = []
    for viewer in viewers:
        threads.append(
            threading.Thread(target=lambda viewer=viewer: claims.append(viewer.communicate("\n")[0].split()))
        )
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert [viewer.returncode for viewer in viewers] == [0, 0]
    assert len(ViewerState("run-1").acknowledged) == 80
    assert [sum(map(int, mine)) for mine in zip(*claims, strict=True)] == [1] * 40


def test_a_viewer_that_stands_still_in_the_middle_of_writing_is_said_and_nothing_is_lost(home: Path) -> None:
    state = ViewerState("run-1")
    state.acknowledge("a", "first")
    hold = (
        "import fcntl,sys,time;f=open(sys.argv[1],'r+');fcntl.lockf(f,fcntl.LOCK_EX);print(1,flush=True);time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(home / "viewer" / "lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(StateError, match="another viewer"):
            state.acknowledge("b", "second")
        assert set(state.acknowledged) == {"a"}
    finally:
        other.kill()
        other.wait()
    state.acknowledge("b", "second")
    assert set(ViewerState("run-1").acknowledged) == {"a", "b"}


def test_what_cannot_be_written_is_said_and_is_not_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = ViewerState("run-1")
    state.acknowledge("a", "first")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StateError, match="No space left"):
        state.acknowledge("b", "second")
    assert set(state.acknowledged) == {"a"}
    assert not [path for path in (home / "viewer").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b'{"acknowledged": 3}', b"\xff" * 100, b"[" * 100_000),
        b'{"marks": {"1' + b"0" * 400 + b'": {"note": "", "wall": 1}}}',
        b'{"marks": {"1": {"note": "", "wall": 1e18}}}',
        b'{"acknowledged": {"a": {"note": "", "wall": -1e300}}}',
    ],
)
def test_a_damaged_file_is_said_and_put_aside_by_the_next_that_writes(content: bytes) -> None:
    state = ViewerState("run-1")
    state.acknowledge("a", "first")
    assert state.path is not None
    state.path.write_bytes(content)
    assert not state.acknowledged and "damaged" in state.problem
    state.acknowledge("b", "second")
    assert set(ViewerState("run-1").acknowledged) == {"b"} and not state.problem
    assert state.path.with_suffix(".damaged").read_bytes() == content


def test_without_a_name_it_lasts_as_long_as_the_viewer(home: Path) -> None:
    state = ViewerState(None)
    state.acknowledge("a", "first")
    assert state.acknowledged["a"].note == "first" and state.claim("b") and not state.claim("b")
    assert not (home / "viewer").exists()


def test_a_session_keeps_by_the_id_of_its_run(home: Path) -> None:
    folder = recorded().folder
    for target in ("run-1", folder.parent):
        session = Session(target)
        session.load()
        assert session.kept.key == "run-1" and session.kept is session.kept


def test_what_is_printed_says_what_is_acknowledged_and_json_and_exit_code_stay_as_they_are() -> None:
    with_nan()
    before = ntstop("diagnose", "bad", "--json")
    (worst, *_) = json.loads(before.stdout)["findings"]
    ViewerState("bad").acknowledge(worst["id"], "a bad shard, replaced")
    for words in (["diagnose", "bad"], ["diagnose", "bad", "--md"], ["bad"]):
        assert "acknowledged: a bad shard, replaced" in ntstop(*words).stdout
    after = ntstop("diagnose", "bad", "--json")
    assert (after.returncode, after.stdout) == (before.returncode, before.stdout) and after.returncode == 1


def test_what_is_kept_of_a_run_goes_with_it() -> None:
    recorded("gone", count=2)
    recorded("stays", count=2)
    for run in ("gone", "stays"):
        ViewerState(run).acknowledge("a", "")
    assert ntstop("rm", "gone", "--yes").returncode == 0
    assert not ViewerState("gone").acknowledged and ViewerState("stays").acknowledged
