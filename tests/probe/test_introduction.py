"""How a process introduces itself while answers are still out."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ntstop_probe import manifest
from ntstop_probe.identity import identify
from ntstop_probe.introduction import Introduction
from ntstop_probe.registry import read_process_info
from ntstop_probe.told import Told


def test_a_manifest_is_not_settled_before_git_has_answered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def git_state() -> tuple[str | None, bool | None]:
        assert answer.wait(20)
        return "0123abcd", False

    monkeypatch.setattr(manifest, "git_state", git_state)
    introduction = Introduction(identify(), Told(), lambda: None)
    assert not introduction.settle(0.0)
    early = introduction.hello().manifest
    assert (early.git_sha, early.settled) == (None, False)
    answer.set()
    assert introduction.settle(20)
    late = introduction.hello().manifest
    assert (late.git_sha, late.settled) == ("0123abcd", True)


def test_a_git_that_fails_settles_the_manifest_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git_state() -> tuple[str | None, bool | None]:
        raise OSError("no git")

    monkeypatch.setattr(manifest, "git_state", git_state)
    introduction = Introduction(identify(), Told(), lambda: None)
    introduction.settle(20)
    assert introduction.hello().manifest.settled


@pytest.mark.parametrize(("title", "shown"), [("half \udcff", "half ?"), ("long" * 50_000, "long" * 250), ("", "")])
def test_a_title_that_is_no_text_or_a_book_is_announced_as_far_as_it_goes(home: Path, title: str, shown: str) -> None:
    identity = identify()
    introduction = Introduction(identity, Told(title=title), lambda: None)
    introduction.announce()
    assert read_process_info(identity.folder).title == introduction.hello().title == shown
