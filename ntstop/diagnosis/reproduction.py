"""How to run it again, from the manifest, and what is missing for that."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from ntstop_probe import wire


class Reproduction(msgspec.Struct):
    """All that a second run needs; `missing` names what the manifest does not hold, None: not known."""

    command: str
    cwd: str
    git_sha: str | None
    git_dirty: bool | None
    seed: int | None
    data_hash: str | None
    config: Any
    versions: dict[str, str]
    missing: list[str]
    run: str | None = None
    attempt: int | None = None
    host: str | None = None

    @property
    def repeatable(self) -> bool:
        """Nothing that a card is marked `unreproducible` for is missing."""
        return not self.missing

    def sentence(self) -> str:
        """One or two lines for people."""
        where = f"cd {shlex.quote(self.cwd)} && " if self.cwd else ""
        dirty = "" if not self.git_dirty else " with uncommitted changes"
        parts = [
            f"`{where}{self.command}`" if self.command else "command not recorded",
            f"git {self.git_sha[:12]}{dirty}" if self.git_sha else "",
            f"seed {self.seed}" if self.seed is not None else "",
            f"data {self.data_hash}" if self.data_hash else "",
            ", ".join(f"{name} {version}" for name, version in sorted(self.versions.items())),
        ]
        text = "; ".join(part for part in parts if part)
        return f"{text}; unreproducible: {', '.join(self.missing)} missing" if self.missing else text


def missing_parts(manifest: wire.Manifest) -> list[str]:
    """What of seed, data, config, commit and versions the manifest does not hold."""
    checks = {
        "git SHA": bool(manifest.git_sha),
        "clean git tree": not manifest.git_dirty,
        "seed": manifest.seed is not None,
        "config": manifest.config is not None,
        "data hash": bool(manifest.data_hash),
        "versions": bool(manifest.versions),
    }
    return [part for part, there in checks.items() if not there]


def reproduction(hello: wire.Hello | None) -> Reproduction:
    """The reproduction of a process; of nobody knows whom, when there was no hello."""
    manifest = hello.manifest if hello is not None else wire.Manifest()
    return Reproduction(
        command=shlex.join(manifest.command),
        cwd=manifest.cwd,
        git_sha=manifest.git_sha,
        git_dirty=manifest.git_dirty,
        seed=manifest.seed,
        data_hash=manifest.data_hash,
        config=manifest.config,
        versions=manifest.versions,
        missing=missing_parts(manifest),
        run=hello.run if hello is not None else None,
        attempt=hello.attempt if hello is not None else None,
        host=hello.host if hello is not None else None,
    )
