"""Small helpers for tests that wait for real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 30.0, interval: float = 0.02, what: str = "") -> T:
    """Poll `condition` until it is true and return its value. Raises `AssertionError` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up after {timeout:.0f} s waiting for {what or condition}; last: {value!r}")
        time.sleep(interval)
