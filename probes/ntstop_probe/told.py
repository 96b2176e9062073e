"""What the user says about the run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Told:
    """Through `watch` or the environment. `config` is plain already: lists, dicts, numbers and text."""

    title: str | None = None
    total_steps: int | None = None
    config: object = None
    data_hash: str | None = None
