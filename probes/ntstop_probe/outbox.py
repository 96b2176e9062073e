"""The one door between the training thread and the publisher: it never blocks and never grows without bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .rows import PlainStep, Row, step_of

CAPACITY = 16_384
"""Rows. At 1 ms a step this is 16 s of a publisher that does not run at all, in about 10 MB."""


class Outbox:
    """A bounded queue of rows. Appending is safe from any thread; one thread drains."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._rows: deque[Row | PlainStep] = deque()
        self._capacity = capacity
        self.dropped = 0
        self.append: Callable[[PlainStep], None] = self._rows.append
        """As `put`, without a look at how full it is: for one who asks that himself from time to time."""

    def put(self, row: Row | PlainStep) -> None:
        """Append, or drop the row and count it when the queue is full: the job is never made to wait."""
        if len(self._rows) >= self._capacity:
            self.dropped += 1
            return
        self._rows.append(row)

    @property
    def full(self) -> bool:
        """What comes now is dropped."""
        return len(self._rows) >= self._capacity

    def drain(self, limit: int) -> list[Row]:
        """Take up to `limit` rows, oldest first."""
        rows: list[Row] = []
        while len(rows) < limit:
            try:
                row = self._rows.popleft()
            except IndexError:
                break
            rows.append(step_of(row) if isinstance(row, tuple) else row)
        return rows

    def __len__(self) -> int:
        return len(self._rows)
