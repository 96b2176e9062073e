"""What takes the blocks of each table, by format."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, get_args

from ntstop.diagnosis.report import RunInfo

from .csv import CsvSink
from .jsonl import JsonLinesSink
from .parquet import ParquetSink
from .place import new_file, new_folder
from .tables import TABLES, Columns, Kind, Sink, Table
from .tensorboard import TensorBoardSink

Format = Literal["csv", "jsonl", "parquet", "tensorboard"]
FORMATS: tuple[Format, ...] = get_args(Format)
STDOUT = Path("-")


def is_folder(form: Format, tables: tuple[Table, ...]) -> bool:
    """Whether an export is a folder, rather than one file."""
    return form == "tensorboard" or (form != "jsonl" and len(tables) != 1)


@contextlib.contextmanager
def sinks(
    form: Format,
    path: Path,
    tables: tuple[Table, ...],
    columns: Columns,
    run: RunInfo,
    started: float,
    *,
    force: bool,
) -> Iterator[dict[Table, Sink]]:
    """The sinks of `tables` (empty: all), in a file or folder that is there once all has gone well.

    `started` is Unix seconds. Raises `Occupied` and `OSError`.
    """
    wanted = tables or TABLES
    if form == "tensorboard":
        with new_folder(path, force=force) as folder:
            yield dict.fromkeys(wanted, TensorBoardSink(folder, run.host, started))
    elif form == "jsonl":
        with _binary(path, force=force) as file:
            yield dict.fromkeys(wanted, JsonLinesSink(file, columns, run))
    elif len(tables) == 1:
        with _table(form, path, columns.kinds[tables[0]], force=force) as sink:
            yield {tables[0]: sink}
    else:
        with new_folder(path, force=force) as folder, contextlib.ExitStack() as stack:
            yield {
                table: stack.enter_context(_table(form, folder / f"{table}.{form}", columns.kinds[table], force=True))
                for table in wanted
            }


@contextlib.contextmanager
def _table(form: Format, path: Path, kinds: dict[str, Kind], *, force: bool) -> Iterator[Sink]:
    with _binary(path, force=force) as file:
        if form == "parquet":
            parquet = ParquetSink(file, kinds)
            try:
                yield parquet
            except BaseException:
                parquet.abandon()
                raise
            return
        text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="", write_through=False)
        try:
            yield CsvSink(text, kinds)
        finally:
            text.detach()


@contextlib.contextmanager
def _binary(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    if path == STDOUT:
        yield sys.stdout.buffer
        return
    with new_file(path, force=force) as place, place.open("wb") as file:
        yield file
