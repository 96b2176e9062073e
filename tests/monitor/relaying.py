"""A run that a relay has something to tell of."""

from __future__ import annotations

from .writer import Writer


def finished(run: str = "run-1", count: int = 300) -> Writer:
    """A run of `count` steps that has ended well."""
    writer = Writer(run)
    writer.train(0, count)
    writer.beat(count)
    writer.exit()
    writer.close()
    return writer
