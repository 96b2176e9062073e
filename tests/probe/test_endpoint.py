"""Where the live socket lies: in a folder that is ours alone, under a name that nobody guesses."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ntstop_probe import endpoint


@pytest.mark.parametrize("spoil", ["missing", "file", "link", "open", "long"])
def test_a_socket_folder_that_is_not_ours_alone_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    folder = tmp_path / ("x" * 100 if spoil == "long" else "runtime")
    if spoil in ("open", "long"):
        folder.mkdir(mode=0o700)
    if spoil == "open":
        folder.chmod(0o755)
    if spoil == "file":
        folder.write_text("")
    if spoil == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "target")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    chosen = endpoint.socket_path()
    assert not chosen.is_relative_to(tmp_path)
    assert chosen.parent.name == f"ntstop-{os.getuid()}"
    assert stat.S_IMODE(chosen.parent.stat().st_mode) == 0o700
    assert len(os.fsencode(chosen)) <= endpoint.MAX_PATH_BYTES


def test_socket_names_cannot_be_guessed() -> None:
    assert len({endpoint.socket_path() for _ in range(20)}) == 20
