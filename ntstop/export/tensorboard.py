"""TensorBoard event files, without the tensorboard package.

A rank has a folder (that of the run, where there are no ranks), an attempt a file. Steps and scalars are scalars under
their own names, layers scalars named `layers/<field>/<layer>`, findings texts. Values are float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.registry import safe_name

from .events import frame, scalar_frames, text_event, version_event
from .tables import KEYS, Block, Cells

_MOST = 65_536
"""Points that wait to be written."""
Key = tuple[int | None, int]
"""Rank and attempt."""
Points = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Steps, times, values."""


class TensorBoardSink:
    """Writes the event files of a run into `folder`."""

    def __init__(self, folder: Path, host: str | None, started: float) -> None:
        self._folder = folder
        self._started = max(0.0, started)
        self._name = f"events.out.tfevents.{int(self._started):010d}.{safe_name(host or 'host')}.ntstop"
        self._files: dict[Key, Path] = {}
        self._waiting: dict[tuple[Key, str], list[Points]] = {}
        self._layers: list[Block] = []
        self._count = 0

    def write(self, block: Block) -> None:
        """Take the next rows."""
        if block.table == "findings":
            self._write_findings(block)
        elif block.table == "layers":
            self._layers.append(block)
            self._count += block.count * (len(block.cells) - len(KEYS["layers"]))
        elif block.table == "scalars":
            self._take_scalars(block)
        else:
            for name, cells in block.cells.items():
                if name not in KEYS["steps"]:
                    self._wait(_key(block, 0), name, block, cells, _there(cells, block.count))
        if self._count >= _MOST:
            self._flush()

    def close(self) -> None:
        """Write what is left; a run without a point gets a file all the same."""
        self._flush()
        if not self._files:
            self._file((None, 0))

    def _wait(self, key: Key, tag: str, block: Block, cells: Cells, chosen: NDArray[Any]) -> None:
        """Keep the cells of a column at the rows `chosen`."""
        if not len(chosen):
            return
        steps, times = (np.asarray(block.cells[name].values)[chosen] for name in ("step", "time"))
        self._waiting.setdefault((key, tag), []).append((steps, times, np.asarray(cells.values)[chosen]))
        self._count += len(chosen)

    def _take_scalars(self, block: Block) -> None:
        chosen: dict[tuple[Key, str], list[int]] = {}
        for index, name in enumerate(block.cells["name"].values):
            chosen.setdefault((_key(block, index), str(name)), []).append(index)
        for (key, name), indices in chosen.items():
            self._wait(key, name, block, block.cells["value"], np.array(indices))

    def _turn_layers(self) -> None:
        """Layers come as a sample of all of them, and leave as the points of each."""
        blocks, self._layers = self._layers, []
        groups: dict[tuple[Any, ...], list[Block]] = {}
        for block in blocks:
            groups.setdefault((_key(block, 0), tuple(block.cells["layer"].values), tuple(block.cells)), []).append(
                block
            )
        for (key, layers, names), same in groups.items():
            steps, times = (np.array([block.cells[name].values[0] for block in same]) for name in ("step", "time"))
            for name in names:
                if name in KEYS["layers"]:
                    continue
                values = np.stack([np.asarray(block.cells[name].values) for block in same])
                there = np.stack([_mask(block.cells[name], block.count) for block in same])
                for index, layer in enumerate(layers):
                    rows = there[:, index]
                    if rows.any():
                        points = steps[rows], times[rows], values[rows, index]
                        self._waiting.setdefault((key, f"layers/{name}/{layer}"), []).append(points)

    def _flush(self) -> None:
        self._turn_layers()
        waiting, self._waiting, self._count = self._waiting, {}, 0
        by_file: dict[Key, list[bytes]] = {}
        for (key, tag), parts in waiting.items():
            steps, times, values = (np.concatenate(column) for column in zip(*parts, strict=True))
            times = np.where(np.isfinite(times), times, 0.0)
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
            by_file.setdefault(key, []).extend(scalar_frames(tag, steps.astype(np.int64), times, values))
        for key, frames in by_file.items():
            with self._file(key).open("ab") as out:
                out.writelines(frames)

    def _write_findings(self, block: Block) -> None:
        names = ("kind", "severity", "symptom", "hypothesis", "fix", "confidence", "first_step")
        columns = [block.cells[name].plain() for name in names]
        for index, (kind, severity, symptom, hypothesis, fix, confidence, step) in enumerate(
            zip(*columns, strict=True)
        ):
            text = f"**{severity} {kind}**: {symptom}\n\n{hypothesis}\n\nFix: {fix}\n\nConfidence: {confidence}"
            with self._file((_rank(block, index), 0)).open("ab") as out:
                out.write(frame(text_event(f"findings/{kind}", max(0, step), self._started, text)))

    def _file(self, key: Key) -> Path:
        """The file of a rank and an attempt, with its first event."""
        if key not in self._files:
            rank, attempt = key
            folder = self._folder if rank is None else self._folder / f"rank-{rank}"
            folder.mkdir(exist_ok=True)
            self._files[key] = folder / f"{self._name}.{attempt}"
            self._files[key].write_bytes(frame(version_event(self._started)))
        return self._files[key]


def _mask(cells: Cells, count: int) -> NDArray[np.bool_]:
    return np.ones(count, np.bool_) if cells.present is None else cells.present


def _there(cells: Cells, count: int) -> NDArray[Any]:
    return np.arange(count) if cells.present is None else np.flatnonzero(cells.present)


def _key(block: Block, index: int) -> Key:
    attempt: Any = block.cells["attempt"].values[index]
    return _rank(block, index), int(attempt)


def _rank(block: Block, index: int) -> int | None:
    cells = block.cells["rank"]
    rank: Any = cells.values[index]
    return int(rank) if cells.present is None or cells.present[index] else None
