"""CSV: one file a table, an empty cell where nothing was measured, "nan" and "inf" where that was the value."""

from __future__ import annotations

import csv
from typing import IO

from .tables import Block, Kind, rows


class CsvSink:
    """Writes one table; numbers with as many digits as bring them back exactly."""

    def __init__(self, file: IO[str], kinds: dict[str, Kind]) -> None:
        self._file = file
        self._names = list(kinds)
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(self._names)

    def write(self, block: Block) -> None:
        """Take the next rows."""
        self._writer.writerows(rows(block, self._names))

    def close(self) -> None:
        """Nothing waits but in the file."""
        self._file.flush()
