"""Hugging Face's `trainer_state.json`, and any other JSON that is one list of objects with numbers.

The file is written anew with every checkpoint, so each time all of it is read; of one that is cut off in the middle,
the entries that are complete are used.
"""

from __future__ import annotations

import json
import re

from .jsonlines import row_of
from .lines import text_of
from .reader import LogFacts, Row

LOG_HISTORY = '"log_history"'
_SPACE = re.compile(r"[\s,]*")
_MAX_STEPS = re.compile(r'"max_steps"\s*:\s*(\d{1,15})')


def is_trainer_state(head: str) -> bool:
    """Whether a file is a JSON object that begins as a trainer's state, or a list of objects."""
    head = head.lstrip("\ufeff \t\r\n")
    if head.startswith("["):
        return head[1:].lstrip().startswith("{")
    if not head.startswith("{"):
        return False
    return (
        LOG_HISTORY in head
        or ('"global_step"' in head and '"is_world_process_zero"' in head)
        or ('"best_model_checkpoint"' in head or '"best_global_step"' in head)
    )


class TrainerStateReader:
    """Reads all of the file, each time."""

    format = "trainer state"
    whole = True

    def __init__(self) -> None:
        self.facts = LogFacts()

    def feed(self, data: bytes) -> list[Row]:
        """The rows of every entry of the history that is complete."""
        self.facts = LogFacts()
        text = text_of(data)
        total = _MAX_STEPS.search(text)
        if total is not None and int(total[1]) > 0:
            self.facts.total_steps = int(total[1])
        at = text.find(LOG_HISTORY)
        start = text.find("[", at + len(LOG_HISTORY)) if at >= 0 else text.find("[")
        return self._entries(text, start + 1) if start >= 0 else []

    def end(self) -> list[Row]:
        """Nothing waits."""
        return []

    def _entries(self, text: str, at: int) -> list[Row]:
        decoder = json.JSONDecoder()
        rows: list[Row] = []
        while True:
            space = _SPACE.match(text, at)
            at = space.end() if space is not None else at
            if not text.startswith("{", at):
                return rows
            try:
                entry, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self.facts.bad += 1
                return rows
            row = row_of(entry)
            if row is not None:
                rows.append(row)
