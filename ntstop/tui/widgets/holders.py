"""Whose parameters hold the memory: the parts of the model with what they take, the largest first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ...run.process import ProcessState
from ...text import count, number, percent, size
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..workspace import Look
from .layer_table import folded
from .ledger import parameter_bytes
from .table import TablePane


@dataclass(frozen=True, slots=True)
class Holder:
    """A part of the model: its elements, the bytes of its weights with gradients and optimizer state, its share."""

    name: str
    numel: int
    bytes: float
    share: float
    frozen: bool


def holders(process: ProcessState) -> list[Holder]:
    """The parts of the model, the largest first; none where the sizes of the parameters are not known."""
    schema = process.schema
    if schema is None or not schema.numel or len(schema.names) != len(schema.numel):
        return []
    held = parameter_bytes(process)
    total = sum(held) or 1.0
    frozen = list(schema.frozen) if len(schema.frozen) == len(held) else [False] * len(held)
    found = []
    for name, members in folded(schema.names, "parts").items():
        own = sum(held[index] for index in members)
        numel = sum(schema.numel[index] for index in members)
        found.append(Holder(name, numel, own, own / total, all(frozen[index] for index in members)))
    return sorted(found, key=lambda holder: -holder.bytes)


class HoldersPane(TablePane[Holder]):
    """The parts as a table."""

    NAME = "parts of the model"
    HELP = (
        "What the weights of each part take with their gradients and the optimizer's state, estimated as in the "
        "ledger. A part is all modules with one beginning, to the second dot."
    )
    COLUMNS = (
        Column("part", keep=9, least=14, right=False, tail=True),
        Column("elements", 8, keep=5),
        Column("memory", 9, keep=8),
        Column("share", 5, keep=7),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found: Sequence[Holder] = ()
        self.empty = "the sizes of the parameters are not known yet"

    def gather(self, look: Look) -> None:
        """A line for each part."""
        self.found = holders(look.process)

    def present(self) -> None:
        """The table."""
        self.set_rows(self.found)
        self.head([], "estimated", rows=count(len(self.found)) if self.found else "")

    def cells(self, row: Holder) -> Sequence[Cell]:
        """Part, elements, bytes, share."""
        return (
            Cell(row.name, Ink.DIM if row.frozen else Ink.TEXT),
            Cell(count(row.numel) if row.numel < 10_000 else number(row.numel), Ink.DIM),
            Cell(size(row.bytes)),
            Cell(percent(row.share), Ink.STRONG),
        )

    def identity(self, row: Holder) -> Hashable:
        """The name."""
        return row.name

    def sort_key(self, row: Holder, column: int) -> Any:
        """By what stands in the column."""
        return (row.name, row.numel, row.bytes, row.share)[column]
