"""Which reader a file needs, by its first bytes and never by its name."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ntstop_probe.wire import MAGIC as FRAME_MAGIC

from ..base import SourceError
from .events import EventReader, is_events
from .jsonlines import JsonLinesReader
from .lines import Lines, wide_encoding
from .reader import Reader
from .table import TableReader, has_numbers, header_of
from .text import TextReader
from .trainer_state import TrainerStateReader, is_trainer_state
from .wandb import MAGIC as WANDB_MAGIC
from .wandb import WandbReader

HEAD = 64 * 1024
"""First bytes that are looked at, and last bytes of a text that begins with other things."""

_SURE_LINES = 3
HINT = "--pattern 'step (?P<step>\\d+).*loss (?P<loss>\\S+)' says how its lines look"
MakeReader = Callable[[], Reader]


@dataclass(frozen=True, slots=True)
class Ends:
    """The first bytes of a file, and the last of a long one."""

    head: bytes
    tail: bytes = b""

    @property
    def lines(self) -> list[str]:
        """Lines of the head; the last one is left out where it may be torn."""
        lines = Lines()
        found = lines.feed(self.head)
        return found + (lines.end() if len(self.head) < HEAD else [])


def read_ends(path: Path) -> Ends:
    """First and last bytes of a file. Raises `SourceError` with one line for what is no file, or empty."""
    try:
        found = os.stat(path)
        if stat.S_ISFIFO(found.st_mode):
            raise SourceError(f"{path} is a pipe: `ntstop - < {path}` reads it")
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path} is not a file with a log in it")
        with open(path, "rb") as file:
            head = file.read(HEAD)
            tail = b""
            if found.st_size > 2 * HEAD:
                file.seek(-HEAD, os.SEEK_END)
                tail = file.read(HEAD)
    except OSError as error:
        raise SourceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return Ends(head, tail)


def structured(ends: Ends) -> MakeReader | None:
    """The reader of a file in a format of its own; None for other text, and for what nobody knows."""
    head = ends.head
    if head.startswith(WANDB_MAGIC):
        return WandbReader
    if is_events(head):
        return EventReader
    if is_binary(head):
        return None
    text = head.decode("utf-8", "replace") if not wide_encoding(head) else ""
    if is_trainer_state(text):
        return TrainerStateReader
    lines = ends.lines
    if lines and lines[0].lstrip().startswith("{") and _is_json_lines(lines):
        return JsonLinesReader
    table = header_of(lines)
    if table is not None and has_numbers(lines, table[0]):
        delimiter = table[0]
        return lambda: TableReader(delimiter)
    return None


def reader_for(path: Path, ends: Ends, pattern: re.Pattern[str] | None = None) -> MakeReader:
    """The reader for a file that the user has named. Raises `SourceError` with one line when there is none."""
    if not ends.head:
        raise SourceError(f"{path} is empty: there is nothing to read in it yet")
    if pattern is not None:
        if is_binary(ends.head):
            raise SourceError(f"{path} is no text: --pattern is for lines of text")
        return lambda: TextReader(pattern)
    found = structured(ends)
    if found is not None:
        return found
    if ends.head.startswith(FRAME_MAGIC):
        raise SourceError(
            f"{path} is a recording of ntstop: open the folder of its run, or `ntstop - < FILE` what a relay wrote"
        )
    if is_binary(ends.head):
        raise SourceError(f"{path} is binary, and no event file of TensorBoard nor a file of wandb")
    if has_metrics(ends):
        return TextReader
    lines = ends.lines
    table = header_of(lines)
    if table is not None:
        raise SourceError(f"{path} is a table without a column of numbers")
    raise SourceError(f"{path}: no numbers of a training found in it; {HINT}")


def piped(head: bytes) -> MakeReader | None:
    """The reader for what comes through a pipe and begins so; None where that cannot be said, or not yet."""
    ends = Ends(head)
    found = structured(ends)
    if found is EventReader or found is WandbReader:
        return found
    # A program's first words may look like the header of a table.
    if found is not None and found is not TrainerStateReader and head.count(b"\n") >= _SURE_LINES:
        return found
    return TextReader if not is_binary(head) and has_metrics(ends) else None


def has_metrics(ends: Ends) -> bool:
    """Whether a text holds lines with metrics at its beginning or its end: of a step, or one metric in two lines."""
    for data in (ends.head, ends.tail):
        reader = TextReader()
        seen: set[str] = set()
        for row in reader.feed(data) + reader.end():
            if row.step is not None or not seen.isdisjoint(row.values):
                return True
            seen.update(row.values)
    return False


def is_binary(head: bytes) -> bool:
    """Whether bytes are no text in any usual encoding. A text that a crash has left with a hole of zeros is one."""
    if wide_encoding(head):
        return False
    head, _, hole = head.partition(b"\x00")
    if hole and b"\n" not in head:
        return True
    control = sum(head.count(bytes([byte])) for byte in (*range(1, 7), *range(14, 27), *range(28, 32)))
    return control > 0.05 * len(head)


def _is_json_lines(lines: list[str]) -> bool:
    reader = JsonLinesReader()
    rows = reader.feed("\n".join([*lines[:20], ""]).encode())
    return bool(rows) and reader.facts.bad <= len(lines[:20]) // 2
