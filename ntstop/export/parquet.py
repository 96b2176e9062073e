"""Parquet: one file a table, null where nothing was measured, NaN and Inf as themselves. Needs pyarrow."""

from __future__ import annotations

from typing import IO, Any

from .tables import Block, Cells, Kind

INSTALL = "Parquet needs pyarrow, which is not installed: pip install 'ntstop[export]', or pip install pyarrow"
_GROUP = 65_536
"""Rows of a row group."""


def require() -> Any:
    """pyarrow. Raises `ImportError` with one line where there is none."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return pyarrow


class ParquetSink:
    """Writes one table."""

    def __init__(self, file: IO[bytes], kinds: dict[str, Kind]) -> None:
        pyarrow = self._arrow = require()
        types = {
            "f4": pyarrow.float32(), "f8": pyarrow.float64(), "i4": pyarrow.int32(), "i8": pyarrow.int64(),
            "u1": pyarrow.uint8(), "text": pyarrow.string(),
        }  # fmt: skip
        self._schema: Any = pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()])
        self._writer: Any = pyarrow.parquet.ParquetWriter(file, self._schema)
        self._batches: list[Any] = []
        self._waiting = 0

    def write(self, block: Block) -> None:
        """Take the next rows."""
        arrays = [self._array(block.cells.get(kind.name), kind.type, block.count) for kind in self._schema]
        self._batches.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting += block.count
        if self._waiting >= _GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the file's own table of contents."""
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more: the file has failed, or nobody wants it."""
        self._writer.is_open = False

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(self._arrow.Table.from_batches(self._batches, schema=self._schema))
            self._batches, self._waiting = [], 0

    def _array(self, cells: Cells | None, kind: Any, count: int) -> Any:
        if cells is None:
            return self._arrow.nulls(count, kind)
        if isinstance(cells.values, list):
            return self._arrow.array(cells.values, kind)
        missing = None if cells.present is None else ~cells.present
        # Not from pandas, for which a NaN is a null.
        return self._arrow.array(cells.values, mask=missing, from_pandas=False).cast(kind)
