"""Whose memory it is: weights, gradients and optimizer state by the sizes of the parameters, the rest by difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.app import ComposeResult

from ...run.process import ProcessState
from ...text import count, fit, percent, size
from ..raster.ink import Ink, line
from ..raster.picture import Picture
from ..reading import Reading
from ..workspace import Look
from .chart import PictureWidget
from .pane import Pane, dated, is_ascii, plain_if

BYTES: Mapping[str, int] = {
    "float64": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "complex64": 8,
}  # fmt: skip
STATES: Mapping[str, int] = {
    "adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "lamb": 2, "rmsprop": 1, "adagrad": 1, "lion": 1,
    "muon": 1, "adadelta": 2, "asgd": 1, "rprop": 2,
}  # fmt: skip
"""Tensors of the size of a parameter that an optimizer keeps for it, by its class (torch.optim; SGD: by momentum)."""
TOTALS: Mapping[str, str] = {"alloc0/allocated": "device 0", "host/process_rss": "process"}
"""The measured totals, the best first, and what each is of."""


@dataclass(frozen=True, slots=True)
class Share:
    """One holder of memory. `basis`: "estimated" from sizes, or "difference" to what was measured."""

    name: str
    size: float
    basis: str


def ledger(process: ProcessState, cursor: float | None = None) -> tuple[list[Share], float | None, str]:
    """The holders, the measured total they stand beside, and what it is a total of. None: nothing was measured.

    The total is that at the step `cursor`, or the newest.
    """
    total, of = _total(process, cursor)
    schema = process.schema
    if schema is None or not schema.numel:
        return [], total, of
    weights, gradients, states = (float(sum(part)) for part in zip(*_parts(process), strict=True))
    shares = [Share("weights", weights, "estimated"), Share("gradients", gradients, "estimated")]
    if _states_of(process) is not None:
        shares.append(Share("optimizer", states, "estimated"))
    if total is not None:
        rest = total - sum(share.size for share in shares)
        shares.append(Share("activations, rest" if of != "process" else "rest", max(rest, 0.0), "difference"))
    return shares, total, of


def parameter_bytes(process: ProcessState) -> list[float]:
    """What each parameter takes with its gradient and the optimizer's state, estimated; in the order of the schema."""
    return [float(sum(part)) for part in _parts(process)]


def _parts(process: ProcessState) -> list[tuple[int, int, int]]:
    """Bytes of weight, gradient and optimizer state of each parameter."""
    schema = process.schema
    if schema is None:
        return []
    sizes = [
        n * BYTES.get(d.removeprefix("torch."), 4)
        for n, d in zip(schema.numel, _padded(schema.dtypes, len(schema.numel)), strict=True)
    ]
    frozen = _flags(schema.frozen, len(sizes), False)
    held = _flags(schema.in_optimizer, len(sizes), True)
    kept = _states_of(process) or 0
    return [
        (size, 0 if is_frozen else size, size * kept if is_held and not is_frozen else 0)
        for size, is_frozen, is_held in zip(sizes, frozen, held, strict=True)
    ]


def _padded(dtypes: Sequence[str], length: int) -> list[str]:
    return [*dtypes, *["float32"] * (length - len(dtypes))][:length]


def _flags(flags: Sequence[bool], length: int, default: bool) -> list[bool]:
    return [*flags, *[default] * (length - len(flags))][:length]


def _states_of(process: ProcessState) -> int | None:
    """Tensors a parameter that the optimizer keeps; None where its class is not one that is known."""
    kept = []
    for told in process.manifest.optimizers:
        name = str(told.get("class", "")).rpartition(".")[2].lower()
        if name == "sgd":
            groups = told.get("groups") or [{}]
            kept.append(int(any(group.get("momentum") for group in groups)))
        elif name in STATES:
            kept.append(STATES[name])
        else:
            return None
    return max(kept, default=None)


def _total(process: ProcessState, cursor: float | None) -> tuple[float | None, str]:
    for name, of in TOTALS.items():
        series = process.series.get(name)
        if series is not None and (at := series.last_y if cursor is None else series.y_at(cursor)):
            return at, of
    return None, ""


def draw_ledger(shares: Sequence[Share], total: float | None, width: int, height: int, *, ascii_only: bool) -> Picture:
    """A line a holder: name, bytes, share of the total as a bar."""
    picture = Picture.blank(width, height)
    if not shares:
        picture.write(0, 2, "the sizes of the parameters are not known yet", Ink.DIM)
        return plain_if(ascii_only, picture)
    whole = total or sum(share.size for share in shares)
    room = max(width - 47, 0)
    for row, share in enumerate(shares[:height]):
        part = share.size / whole if whole else 0.0
        picture.write(row, 1, fit(share.name, 17), Ink.TEXT)
        picture.write(row, 19, size(share.size, 9), Ink.STRONG)
        picture.write(row, 29, percent(min(part, 9.99), 5), Ink.DIM)
        end = picture.write(row, 35, ("#" if ascii_only else "█") * round(min(part, 1.0) * room), line(row))
        picture.write(row, end + 1, share.basis, Ink.DIM)
    return plain_if(ascii_only, picture)


class LedgerRows(PictureWidget):
    """The lines on the screen."""

    shares: Sequence[Share] = ()
    total: float | None = None

    def draw(self, width: int, height: int) -> Picture:
        """The lines as they are."""
        return draw_ledger(self.shares, self.total, width, height, ascii_only=is_ascii(self.app))


class LedgerPane(Pane):
    """The ledger."""

    NAME = "ledger"
    HELP = (
        "Weights, gradients and optimizer state are estimated: by sizes, types and the optimizer's class. What is left "
        "of the measured total is called the rest: on a device mostly activations, on a host also the libraries."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows = LedgerRows()
        self.of = ""
        self.cursor: float | None = None
        self.read = Reading()
        """The total, and the step it is of."""

    def body(self) -> ComposeResult:
        """The lines."""
        yield self.rows

    def gather(self, look: Look) -> None:
        """Holders and total."""
        self.cursor = look.view.cursor
        shares, total, self.of = ledger(look.process, self.cursor)
        self.read = next((look.reading(name) for name, of in TOTALS.items() if of == self.of), Reading())
        self.rows.shares, self.rows.total = shares, total

    def present(self) -> None:
        """The lines, and the total in the title."""
        # As high as it needs: the panes beside it get the rest.
        self.styles.height = max(len(self.rows.shares), 1) + 1
        self.rows.redraw()
        total = self.rows.total
        note = "" if self.cursor is None else f"step {count(self.cursor)}"
        told = [dated(self.read, size(total), before=((self.of, Ink.TEXT),))] if total is not None else []
        self.head(told, note)
