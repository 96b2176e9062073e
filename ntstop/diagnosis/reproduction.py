"""How to run it again, from the manifest, and what is missing for that."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ntstop.text import size
from ntstop_probe import wire

_LONGEST: Final = 300
"""Characters of a configuration, or of a list of versions, that a card shows."""


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
    hardware: dict[str, str] = {}
    layout: dict[str, str] = {}
    """Of the world: ranks, nodes, backend."""
    precision: str | None = None
    environment: dict[str, str] = {}
    """Variables of a list of those that change a training; nothing secret."""

    @property
    def repeatable(self) -> bool:
        """Nothing that a card is marked `unreproducible` for is missing."""
        return not self.missing

    def lines(self) -> list[str]:
        """For people: the command, then what it ran on and with, then what is missing; a line each."""
        where = f"cd {shlex.quote(self.cwd)} && " if self.cwd else ""
        dirty = ", with uncommitted changes" if self.git_dirty else ""
        command = code(f"{where}{self.command}") if self.command else "its command is not known"
        known = [
            f"git {self.git_sha}{dirty}" if self.git_sha else "",
            f"seed {self.seed}" if self.seed is not None else "",
            f"data {self.data_hash}" if self.data_hash else "",
        ]
        variables = {name: value for name, value in self.environment.items() if not name.startswith("NTSTOP_")}
        rows = [
            "; ".join(part for part in known if part),
            f"config {code(_compact(self.config))}" if self.config is not None else "",
            _pairs(self.versions),
            "; ".join(
                part for part in (_pairs(_readable(self.hardware)), _pairs(self.layout), self.precision or "") if part
            ),
            f"environment {code(_pairs(variables, '='))}" if variables else "",
            f"missing: {', '.join(self.missing)}; without it this cannot be repeated exactly" if self.missing else "",
        ]
        return [command, *(row for row in rows if row)]


def code(text: str) -> str:
    """As code in Markdown, whatever is in it."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    gap = " " if "`" in text else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def _pairs(table: Mapping[str, str], between: str = " ") -> str:
    return _short(", ".join(f"{name}{between}{value}" for name, value in sorted(table.items())))


def _readable(hardware: Mapping[str, str]) -> dict[str, str]:
    """Bytes as people say them."""
    return {
        name.removesuffix("_bytes"): size(float(value)) if name.endswith("_bytes") and value.isdecimal() else value
        for name, value in hardware.items()
    }


def _compact(config: Any) -> str:
    """The configuration on one line; the whole of it stands in the JSON."""
    try:
        return _short(msgspec.json.encode(config, enc_hook=repr).decode())
    except (TypeError, ValueError, RecursionError):
        return _short(repr(config))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


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
        hardware=manifest.hardware,
        layout=manifest.layout,
        precision=manifest.precision,
        environment=manifest.environment,
    )
