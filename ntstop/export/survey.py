"""The first reading of a target: its columns, how far it goes, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import Finding
from ntstop_probe.wire import Layers, Record, Steps

from .tables import Columns, column_name

MEASURED = {
    "grad_norm": "grad_norm", "clip": "clip", "loss_scale": "loss_scale", "skipped": "skipped", "micro": "micro",
    "optimizers": "optimizers", "duration": "step_time", "epoch": "epoch", "samples": "samples", "tokens": "tokens",
    "zero_grads": "zero_grads",
}  # fmt: skip
"""Fields of a steps record with one column, and its name."""


@dataclass(slots=True)
class Survey:
    """Stands in for the diagnosis of a session, which it has, and looks at what passes."""

    engine: Engine = field(default_factory=Engine)
    columns: Columns = field(default_factory=Columns)
    records: dict[int, int] = field(default_factory=dict)
    """Records of each writer: the second reading of a run that goes on ends there too."""

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings, the weightiest first."""
        return self.engine.findings

    def observe(self, writer: int, record: Record) -> None:
        """Take in one record."""
        self.records[writer] = self.records.get(writer, 0) + 1
        if isinstance(record, Steps):
            self._steps(record)
        elif isinstance(record, Layers):
            for name, column in record.columns.items():
                self.columns.note("layers", column_name("layers", name), column.kind)
        self.engine.observe(writer, record)

    def process_gone(self, writer: int, evidence: str) -> None:
        """A process has gone without a word."""
        self.engine.process_gone(writer, evidence)

    def process_stopped(self, writer: int, evidence: str) -> None:
        """A process is held by a signal."""
        self.engine.process_stopped(writer, evidence)

    def settle(self, stop: Callable[[], bool] = lambda: False, *, patient: bool = False) -> bool:
        """No more comes."""
        return self.engine.settle(stop, patient=patient)

    def _steps(self, block: Steps) -> None:
        note = self.columns.note
        for name, column in (*block.losses.items(), *block.lrs.items()):
            note("steps", column_name("steps", name), column.kind)
        for name, column in block.phases.items():
            note("steps", f"phase/{name}", column.kind)
        for attribute, name in MEASURED.items():
            column = getattr(block, attribute)
            if column is not None:
                note("steps", name, column.kind)
