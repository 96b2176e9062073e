"""The manifest: enough to run it again, and no secret in it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from ntstop_probe import manifest
from ntstop_probe.identity import Layout
from ntstop_probe.redaction import HIDDEN, MAX_TEXT, is_secret, plain, redact_command


@pytest.mark.parametrize(
    "name",
    ["--api-key", "WANDB_API_KEY", "hf_token", "HF-TOKEN", "apiKey", "db.password", "passwordFile",
     "AWS_SECRET_ACCESS_KEY", "client_secret", "credentials", "--auth", "PGPASSWORD_x", "accessToken", "wandb.api_key"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["--tokenizer", "--max-tokens", "--token-dropout", "key_padding", "monkey", "author", "--lr", "", "keys"]
)
def test_names_of_hyperparameters_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret(name)


def test_secrets_in_a_command_line_are_struck_out_wherever_they_stand() -> None:
    command = [
        "python", "train.py", "--lr", "3e-4", "--api-key", "abc123", "--hf-token=abc123", "wandb.api_key=abc123",
        "--data", "s3://me:abc123@bucket/x", "--tokenizer", "gpt2", "--token", "--verbose", "ghp_abc123abc123abc123",
    ]  # fmt: skip
    shown = redact_command(command)
    assert "abc123" not in " ".join(shown)
    assert shown == [
        "python", "train.py", "--lr", "3e-4", "--api-key", HIDDEN, f"--hf-token={HIDDEN}", f"wandb.api_key={HIDDEN}",
        "--data", f"s3://{HIDDEN}@bucket/x", "--tokenizer", "gpt2", "--token", "--verbose", HIDDEN,
    ]  # fmt: skip


def test_only_allowed_variables_are_kept_and_secrets_among_them_are_struck_out() -> None:
    kept = manifest.allowed_environment(
        {
            "NCCL_DEBUG": "INFO",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "NTSTOP_TOKEN": "abc123",
            "NTSTOP_LAUNCHED": "1",
            "MASTER_ADDR": "tcp://user:abc123@node",
            "PATH": "/bin",
            "HOME": "/home/x",
            "OPENAI_API_KEY": "abc123",
        }
    )
    assert kept == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "MASTER_ADDR": f"tcp://{HIDDEN}@node",
        "NCCL_DEBUG": "INFO",
        "NTSTOP_TOKEN": HIDDEN,
    }


@dataclass
class Config:
    lr: float
    api_key: str
    model: dict[str, object]


class Stubborn:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_configuration_of_any_kind_becomes_plain_and_keeps_no_secret() -> None:
    config = Config(3e-4, "abc123", {"layers": 4, 7: ("a", {1}), "when": Path("/x"), "token": "abc123"})
    assert plain(config) == {
        "lr": 3e-4,
        "api_key": HIDDEN,
        "model": {"layers": 4, "7": ["a", [1]], "when": repr(Path("/x")), "token": HIDDEN},
    }
    assert plain(argparse.Namespace(lr=1, password="abc123")) == {"lr": 1, "password": HIDDEN}
    assert plain({"x": Stubborn()}) == {"x": "<Stubborn>"}


def test_a_configuration_without_end_is_bounded() -> None:
    loop: dict[str, object] = {}
    loop["again"] = loop
    assert "…" in str(plain(loop))
    assert len(str(plain({"text": "x" * 10**6}))) < 2 * MAX_TEXT
    assert len(str(plain([list(range(100))] * 10_000))) < 1_000_000
    assert plain(2**100) == str(2**100)
    assert plain("\ud800") == "?"


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_commit_and_whether_the_tree_differs_from_it(tmp_path: Path) -> None:
    assert manifest.git_state(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    assert manifest.git_state(tmp_path) == (None, None), "no commit yet"
    (tmp_path / "train.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    sha, dirty = manifest.git_state(tmp_path)
    assert len(sha or "") == 40
    assert dirty is False
    (tmp_path / "notes").write_text("untracked files are no difference")
    assert manifest.git_state(tmp_path) == (sha, False)
    (tmp_path / "train.py").write_text("2")
    assert manifest.git_state(tmp_path) == (sha, True)


def test_a_git_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(manifest, "GIT_TIMEOUT", 0.1)
    assert manifest.git_state(tmp_path) == (None, None)


def test_versions_are_those_of_what_is_imported_already(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("timm")
    fake.__version__ = "9.9"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", fake)
    monkeypatch.delitem(sys.modules, "peft", raising=False)
    found = manifest.versions()
    assert found["timm"] == "9.9"
    assert "peft" not in found
    assert found["python"].startswith("3.")


def test_what_is_gathered_holds_command_folder_hardware_and_layout() -> None:
    gathered = manifest.gather(Layout(1, 4, 1, 2, 0, "torchrun"))
    assert gathered.command[0]
    assert gathered.cwd == os.getcwd()
    assert int(gathered.hardware["cores"]) >= int(gathered.hardware["usable_cores"]) >= 1
    assert int(gathered.hardware["memory_bytes"]) > 2**20
    assert gathered.layout == {"rank": "1", "world": "4", "local_rank": "1", "local_world": "2", "launcher": "torchrun"}
    assert gathered.git_sha is None, "git is asked later, in its own time"
