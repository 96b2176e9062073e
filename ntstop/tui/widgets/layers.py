"""Layers over steps: where gradients are small or large against their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.app import ComposeResult
from textual.message import Message

from ...diagnosis.layer_names import is_weight
from ...run.process import ProcessState
from ...text import count, dotted, number
from .. import bindings
from ..marks import event_step
from ..raster.heat import HeatSpec, heat_box
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..reading import Reading
from ..workspace import Look
from .heatmap import HeatMap
from .pane import Pane, Value, dated

FIELD = "ratio"
NOTE = "grad/weight norm"
HEALTHY = (1e-3, 1e-2)
"""Gradient over parameter norm of a layer that learns, as people know it from their own runs. First steps, biases and
layers of norms lie up to two decades above it: what counts is a layer beside the others, and beside itself."""


NEAR_ZERO = 1e-3
"""Root mean square of the elements: weights begin at 0.002 and more, and a first step moves by the rate."""
GAP = 2.0
"""Usual distances of two samples over which the map draws one on."""
SOON = 100
"""Steps after which what has not been measured will not be."""
NOTHING = 3
"""Rows of a pane that has nothing to show."""


@dataclass(frozen=True, eq=False)
class LayerColumn:
    """All layers at one step: the ratio of each (NaN: not measured) and whether it was NaN or Inf."""

    names: tuple[str, ...]
    values: NDArray[np.float32]
    nonfinite: NDArray[np.bool_]
    is_telling: NDArray[np.bool_]
    """See `telling_layers`."""
    reading: Reading = field(default_factory=Reading)
    """Where the sample was taken."""

    def value_of(self, layers: Sequence[int]) -> str:
        """The mean ratio of some layers, in words where it is no number."""
        if self.nonfinite[list(layers)].any():
            return "not finite"
        known = self.values[list(layers)]
        known = known[np.isfinite(known)]
        return number(float(known.mean())) if len(known) else "–"


def heat_spec(look: Look, columns: int) -> HeatSpec:
    """What the heat map shows, in about `columns` columns."""
    process, view = look.process, look.view
    left, right = view.window
    if FIELD not in process.layers:
        return HeatSpec(x_range=(left, right), band=HEALTHY, empty=why_no_layers(process))
    window = look.layers(FIELD, *view.query, columns)
    return HeatSpec(
        names=process.layer_names,
        x=window.x,
        values=window.mean.astype(np.float64),
        nonfinite=window.nonfinite,
        quiet=began_near_zero(process),
        band=HEALTHY,
        x_range=(left, right),
        markers=tuple(look.markers),
        spans=tuple(look.spans),
        cursor_x=view.cursor,
    )


def column_at(look: Look) -> LayerColumn | None:
    """All layers at the cursor, or at the newest sample; None where there is none."""
    process = look.process
    matrix = process.layers.get(FIELD)
    if matrix is None or len(process.layer_names) != matrix.layers:
        return None
    return LayerColumn(
        process.layer_names, *look.layers_at(FIELD), telling_layers(process), look.layer_reading(FIELD, 0.0)
    )


def began_near_zero(process: ProcessState) -> NDArray[np.bool_]:
    """Which layers had next to no norm in their first sample: a gradient is large beside it, whatever it is."""
    matrix, schema, size = process.layers.get("param_norm"), process.schema, len(process.layer_names)
    if matrix is None or matrix.layers != size or schema is None or len(schema.numel) != size:
        return np.zeros(size, np.bool_)
    return matrix.first <= NEAR_ZERO * np.sqrt(np.maximum(schema.numel, 1))


def telling_layers(process: ProcessState) -> NDArray[np.bool_]:
    """Which layers are worth naming by their ratio: no biases, and nothing that began near 0."""
    weights = np.array([is_weight(name) for name in process.layer_names], np.bool_)
    return weights & ~began_near_zero(process)


def why_no_sample(look: Look) -> str:
    """Why the map is empty at the cursor, by what the probe said when it began to look less; "" where it is not."""
    matrix, cursor = look.process.layers.get(FIELD), look.view.cursor
    steps = None if matrix is None or cursor is None else look.sample_at(FIELD)
    if matrix is None or cursor is None or (steps is not None and cursor - steps[1] <= GAP * matrix.spacing):
        return ""
    told = [event for event in look.process.events if event.kind == "sampling" and event.data]
    since = [(at, event) for event in told if (at := event_step(event)) is not None and at <= cursor]
    if not since:
        return "no sample here"
    at, event = since[-1]
    every, tier = event.data.get("layers"), event.data.get("tier")
    how = "none taken" if every is None else "no parameter norms" if tier == "no parameter norms" else f"every {every}"
    return f"no sample here: {how} since step {count(at)}, to stay in the probe's budget"


def why_no_layers(process: ProcessState) -> str:
    """Why there is nothing to be seen of layers."""
    probe = process.heartbeat.probe if process.heartbeat else None
    if probe and any("layer" in part or "norm" in part for part in probe.disabled):
        return "layer statistics have switched themselves off"
    return "no layer statistics measured" if process.steps > SOON else "no layer statistics yet"


class LayerMap(HeatMap):
    """The heat map with the chosen row's name set off."""

    row: int | None = None

    def draw(self, width: int, height: int) -> Picture:
        """The map at this size."""
        picture = super().draw(width, height)
        if self.row is not None and self.row < height:
            picture.ink[self.row, : heat_box(self.spec).left] = Ink.STRONG
        return picture


class LayersPane(Pane):
    """The heat map, with the chosen or the worst layers in its title."""

    NAME = "layers"
    HELP = (
        "The norm of the gradient over the norm of the weight, layer by layer. Neutral is the healthy band from 1e-3 "
        "to 1e-2; below it a layer hardly learns, above it it may be thrown about. What began near 0, as biases do, "
        "is drawn no louder than one shade above. The title tells the weight that is furthest from healthy, or the "
        "row that is chosen: its newest sample, or the last at the cursor; behind the @ stands its step, where that "
        "is another."
    )
    BINDINGS: ClassVar = bindings.LAYERS

    class Picked(Message):
        """A row of the map was chosen."""

        def __init__(self, layers: Sequence[int]) -> None:
            super().__init__()
            self.layers = layers

    def __init__(self, *, id: str | None = None, called: str = "") -> None:
        super().__init__(id=id, called=called)
        self.heat = LayerMap()
        self.spec = HeatSpec()
        self.column: LayerColumn | None = None
        self.is_idle = False
        """Nothing is measured here, and nothing will be."""
        self.gap = ""
        """Why there is nothing at the cursor."""
        self._layer: int | None = None

    def point_at(self, layer: int) -> None:
        """Choose the row that stands for this layer, also when the rows are other ones."""
        self._layer = layer

    def body(self) -> ComposeResult:
        """The heat map."""
        yield self.heat

    @property
    def axis_start(self) -> int:
        """Cells left of the map, where the names stand."""
        return heat_box(replace(self.spec, width=self.heat.size.width, height=self.heat.size.height)).left

    def gather(self, look: Look) -> None:
        """The window of the matrix, and the column at the cursor."""
        self.spec = heat_spec(look, self.heat.columns or 1)
        self.is_idle = not self.spec.names and look.process.steps > SOON
        self.column = column_at(look)
        self.gap = why_no_sample(look)

    def present(self) -> None:
        """The map, and the values in the title."""
        # No higher than its layers need: the panes beside it get the rest. Title, legend, axis: four rows. Of a run
        # without any, title and one sentence.
        self.styles.max_height = len(self.spec.names) + 4 if self.spec.names else NOTHING if self.is_idle else None
        self.heat.show(self.spec)
        if self._layer is not None:
            rows = (row for row in range(self.heat.size.height) if self._layer in self.heat.layers_at(row))
            self.heat.row = next(rows, None)
            self.heat.redraw()
        self._head()

    def _head(self) -> None:
        # What stands nowhere in the map is no value of this step.
        self.head([] if self.gap else self.values(), self.gap or NOTE)

    def values(self) -> list[Value]:
        """The layers of the chosen row; without one, the layer that is furthest from healthy."""
        column = self.column
        if column is None:
            return []
        layers = self.heat.layers_at(self.heat.row) if self.heat.row is not None else []
        if self._layer in layers:
            return [
                dated(column.reading, column.value_of([self._layer]), before=_named(column.names[self._layer])),
                *_furthest(column),
            ]
        if layers:
            name = column.names[layers[0]] + ("" if len(layers) == 1 else f" … {len(layers)} layers")
            return [dated(column.reading, column.value_of(layers), before=_named(name))]
        return _furthest(column)

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked."""
        offset = event.get_content_offset(self.heat) if event.widget is self.heat else None
        if offset is not None and self.heat.layers_at(offset.y):
            self._choose(offset.y)

    def wheel(self, notches: int) -> None:
        """Another row."""
        self.action_layer(notches)

    def action_layer(self, offset: int) -> None:
        """Choose the row above or below, from the first or last row with layers."""
        rows = [row for row in range(self.heat.size.height) if self.heat.layers_at(row)]
        if not rows:
            return
        start = -1 if offset > 0 else len(rows)
        place = rows.index(self.heat.row) if self.heat.row in rows else start
        self._choose(rows[min(max(place + offset, 0), len(rows) - 1)])

    def _choose(self, row: int) -> None:
        self.heat.row = row
        self.heat.redraw()
        self._head()
        self.post_message(self.Picked(self.heat.layers_at(row)))


def _furthest(column: LayerColumn) -> list[Value]:
    """The layer that is furthest from healthy, for a title."""
    if (bad := int(column.nonfinite.sum())) > 1:
        # Which of them was the first is not seen here: a NaN is in all of them one step later.
        many = f"{bad} of {len(column.names)} layers"
        return [dated(column.reading, "not finite", Ink.NONFINITE, before=((many, Ink.TEXT),))]
    worst = furthest(column)
    if worst is None:
        return []
    name = dotted(column.names[worst], 24)
    return [dated(column.reading, column.value_of([worst]), before=(("worst", Ink.DIM), (name, Ink.TEXT)))]


def _named(name: str) -> Value:
    return ((dotted(name, 40), Ink.TEXT),)


def furthest(column: LayerColumn) -> int | None:
    """The layer that is furthest from the healthy band, in decades: not finite before 0 before all others.

    Of what is finite only weights that did not begin near 0, where there are any: of others the ratio says nothing.
    """
    if column.nonfinite.any():
        return int(column.nonfinite.argmax())
    known = np.isfinite(column.values)
    if (known & column.is_telling).any():
        known &= column.is_telling
    if (zero := known & (column.values == 0)).any():
        return int(zero.argmax())
    if not known.any():
        return None
    decades = np.log10(np.where(known & (column.values > 0), column.values, HEALTHY[0]))
    low, high = np.log10(HEALTHY)
    return int(np.maximum(low - decades, decades - high).argmax())
