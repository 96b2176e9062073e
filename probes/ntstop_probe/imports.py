"""Imports in the publisher thread, and forks that must not fall into them.

A child that is forked while another thread imports inherits the locks of the modules in question, held for ever. So a
fork waits for such an import to end: at most `PATIENCE`, only in the moment after the probe has started.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

PATIENCE = 1.0
"""Seconds. All of them together take 0.1 to 0.3 s."""

_quiet = threading.Event()
_quiet.set()
_registered = False


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around imports in a thread that the job knows nothing of."""
    _register()
    _quiet.clear()
    try:
        yield
    finally:
        _quiet.set()


def _register() -> None:
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(before=_wait, after_in_child=_renew)


def _wait() -> None:
    _quiet.wait(PATIENCE)


def _renew() -> None:
    # A new one: the old one's lock may be held by a thread that does not exist here.
    global _quiet
    _quiet = threading.Event()
    _quiet.set()
