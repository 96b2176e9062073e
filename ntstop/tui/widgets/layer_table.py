"""The layers as a table: norms, ratios and shares at the cursor or at the newest sample; modules fold."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.message import Message

from ...text import count, number, percent
from .. import bindings
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..reading import sample_words
from ..workspace import Look
from .layers import HEALTHY, began_near_zero, why_no_layers
from .table import TablePane

FIELDS = ("grad_norm", "param_norm", "update_ratio", "grad_zero", "unchanged")
NORMS, SHARES = FIELDS[:2], FIELDS[3:]
"""The two that make the ratio; shares of elements."""
SHOWN = (*NORMS, "ratio", *FIELDS[2:])
"""What the columns tell, behind name and size."""
FOLDS = ("layers", "modules", "parts")
"""What one row is: a parameter; all parameters of a module; all modules with one beginning, to the second dot."""


@dataclass(frozen=True, slots=True)
class LayerLine:
    """One row. Norms of several layers are the root of the sum of squares, shares and update ratios their mean.

    NaN: not measured, or not finite; see `nonfinite`.
    """

    name: str
    layers: tuple[int, ...]
    grad_norm: float
    param_norm: float
    ratio: float
    update_ratio: float
    grad_zero: float
    unchanged: float
    nonfinite: frozenset[str]
    """Which of these were measured and are NaN or Inf, in one of the layers at least."""
    frozen: bool
    numel: int
    is_quiet: bool = False
    """It began near 0: its ratio says little."""


def folded(names: Sequence[str], how: str) -> dict[str, list[int]]:
    """Label to the layers that it stands for, in the order of the first."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        parts = name.split(".")
        label = name if how == "layers" else ".".join(parts[:-1] if how == "modules" else parts[:2]) or name
        groups.setdefault(label, []).append(index)
    return groups


@dataclass(frozen=True, slots=True)
class _Columns:
    """All layers at one step, and what the schema says of them."""

    fields: dict[str, NDArray[np.float32]]
    quiet: NDArray[np.bool_]
    bad: dict[str, NDArray[np.bool_]]
    """Where a field is NaN or Inf; of fields that are so in any layer."""
    frozen: Sequence[bool]
    numel: Sequence[int]


def layer_lines(look: Look, how: str = "layers") -> list[LayerLine]:
    """A line for each layer or module, at the cursor or at the newest sample."""
    columns = _columns(look)
    return [_line(label, layers, columns) for label, layers in folded(look.process.layer_names, how).items()]


def layer_line(look: Look, label: str, layers: Sequence[int]) -> LayerLine | None:
    """The line of some layers alone; None where they are not of this run."""
    return _line(label, layers, _columns(look)) if max(layers) < len(look.process.layer_names) else None


def _columns(look: Look) -> _Columns:
    process = look.process
    names, schema = process.layer_names, process.schema
    fields: dict[str, NDArray[np.float32]] = {}
    bad: dict[str, NDArray[np.bool_]] = {}
    for field in FIELDS:
        matrix = process.layers.get(field)
        if matrix is None or matrix.layers != len(names):
            fields[field] = np.full(len(names), np.nan, np.float32)
            continue
        fields[field], nonfinite = look.layers_at(field)
        if nonfinite.any():
            bad[field] = nonfinite
    frozen = schema.frozen if schema is not None and len(schema.frozen) == len(names) else [False] * len(names)
    numel = schema.numel if schema is not None and len(schema.numel) == len(names) else [0] * len(names)
    return _Columns(fields, began_near_zero(process), bad, frozen, numel)


def _line(label: str, layers: Sequence[int], columns: _Columns) -> LayerLine:
    fields = columns.fields
    broken = {field for field, bad in columns.bad.items() if any(bad[index] for index in layers)}
    if not broken.isdisjoint(NORMS):
        broken.add("ratio")
    gradient, parameter = _norm(fields["grad_norm"], layers), _norm(fields["param_norm"], layers)
    return LayerLine(
        name=label,
        layers=tuple(layers),
        grad_norm=gradient,
        param_norm=parameter,
        ratio=gradient / parameter if parameter > 0 else np.nan,
        update_ratio=_mean(fields["update_ratio"], layers),
        grad_zero=_mean(fields["grad_zero"], layers),
        unchanged=_mean(fields["unchanged"], layers),
        nonfinite=frozenset(broken),
        frozen=all(columns.frozen[index] for index in layers),
        numel=sum(columns.numel[index] for index in layers),
        is_quiet=all(columns.quiet[index] for index in layers),
    )


def _samples(look: Look) -> tuple[str, str]:
    """Which sample the table tells; and which the updates are of, where that is another: they are taken less often."""
    there = [field for field in FIELDS if field in look.process.layers]
    steps = {field: look.sample_at(field) for field in there}
    words = sample_words(steps[there[0]], look.view.cursor) if there else ""
    update = steps.get("update_ratio")
    is_other = update is not None and update != steps[there[0]]
    return words, f"update of step {count(update[1])}" if update is not None and is_other else ""


def _norm(values: NDArray[np.float32], layers: Sequence[int]) -> float:
    known = _finite(values, layers)
    return math.hypot(*known) if known else math.nan


def _mean(values: NDArray[np.float32], layers: Sequence[int]) -> float:
    known = _finite(values, layers)
    return sum(known) / len(known) if known else math.nan


def _finite(values: NDArray[np.float32], layers: Sequence[int]) -> list[float]:
    """Most rows are one layer, of which numpy would make more work than Python."""
    return [value for layer in layers if math.isfinite(value := float(values[layer]))]


class LayerTable(TablePane[LayerLine]):
    """The table."""

    NAME = "layers"
    HELP = (
        "The newest sample, or the last at the cursor; the title tells of which step, and that of the updates where "
        "it is another: they are dim then. ratio: norm of the gradient over that of the weight, healthy from 1e-3 to "
        "1e-2; dim where the weight began near 0. update: what a step changes, over the norm of the weight. zero: "
        "share of gradient elements that are exactly 0. same: share of elements that the update left as they were. "
        "Several layers in a row: the root of the sum of squares of norms, the mean of the rest."
    )
    BINDINGS: ClassVar = bindings.TABLE
    COLUMNS = (
        Column("layer", keep=9, least=24, right=False, tail=True),
        Column("size", 7, keep=2),
        Column("gradient", 9, keep=6),
        Column("weight", 8, keep=5),
        Column("ratio", 8, keep=8),
        Column("update", 8, keep=7),
        Column("zero", 5, keep=4),
        Column("same", 5, keep=3),
    )

    class Chosen(Message):
        """Another row was chosen."""

        def __init__(self, label: str, layers: tuple[int, ...]) -> None:
            super().__init__()
            self.label = label
            self.layers = layers

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.how = FOLDS[0]
        self.found: Sequence[LayerLine] = ()
        self.empty = "no layer statistics yet"
        self._told: tuple[int, ...] | None = None
        self.sample = self.update_words = ""
        """Which sample is told; and that the updates are of another."""

    def choose_layer(self, layer: int) -> None:
        """Choose the row that stands for this layer."""
        place = next((place for place, row in enumerate(self.rows) if layer in row.layers), None)
        if place is not None:
            self.choose(place)

    def fold(self) -> None:
        """The next way to group."""
        self.how = FOLDS[(FOLDS.index(self.how) + 1) % len(FOLDS)]

    def gather(self, look: Look) -> None:
        """A line for each row."""
        self.found = layer_lines(look, self.how)
        self.empty = why_no_layers(look.process)
        self.sample, self.update_words = _samples(look)

    def present(self) -> None:
        """The table; the first time, the curves learn whose they are."""
        self.set_rows(self.found)
        note = ", ".join(filter(None, (self.sample, self.update_words))) if self.found else ""
        self.head([], note, rows=f"{count(len(self.found))} {self.how}" if self.found else "")
        self._tell()

    def chosen_changed(self) -> None:
        """The curves follow."""
        self._tell()

    def _tell(self) -> None:
        row = self.chosen
        if row is not None and row.layers != self._told:
            self._told = row.layers
            self.post_message(self.Chosen(row.name, row.layers))

    def cells(self, row: LayerLine) -> Sequence[Cell]:
        """Name, size, norms, ratios, shares."""
        low, high = HEALTHY
        if np.isnan(row.ratio):
            judged = Ink.DIM
        elif row.ratio == 0:
            judged = Ink.DIM if row.frozen else Ink.WARNING
        elif row.is_quiet and row.ratio > high:
            judged = Ink.DIM
        else:
            judged = Ink.HEAT_LOW_2 if row.ratio < low / 10 else Ink.HEAT_HIGH_2 if row.ratio > high * 10 else Ink.TEXT
        inks = {
            "ratio": judged,
            "update_ratio": Ink.DIM if self.update_words else Ink.TEXT,
            "grad_zero": Ink.WARNING if row.grad_zero >= 0.99 else Ink.TEXT,
            "unchanged": Ink.WARNING if row.unchanged >= 0.99 and not row.frozen else Ink.TEXT,
        }
        return (
            Cell(row.name, Ink.DIM if row.frozen else Ink.TEXT),
            Cell(_numel(row.numel), Ink.DIM),
            *(
                Cell(told_text(row, field), Ink.NONFINITE if field in row.nonfinite else inks.get(field, Ink.TEXT))
                for field in SHOWN
            ),
        )

    def identity(self, row: LayerLine) -> Hashable:
        """The label."""
        return row.name

    def sort_key(self, row: LayerLine, column: int) -> Any:
        """By what stands in the column; what is not finite is the largest."""
        if column < 2:
            return (row.name, row.numel)[column]
        field = SHOWN[column - 2]
        key = np.inf if field in row.nonfinite else getattr(row, field)
        return None if np.isnan(key) else key


def told_text(row: LayerLine, field: str) -> str:
    """A norm, a ratio or a share; why there is no number, where that is known."""
    if field in row.nonfinite:
        return "nan/inf"
    at: float = getattr(row, field)
    if np.isnan(at):
        return "frozen" if row.frozen and field in ("grad_norm", "ratio", "update_ratio") else "–"
    return percent(at) if field in SHARES else number(at)


def _numel(elements: int) -> str:
    return "–" if not elements else count(elements) if elements < 10_000 else number(elements)
