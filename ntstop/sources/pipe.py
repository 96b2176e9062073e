"""Bytes from a pipe, as they come. What they mean is for others to say."""

from __future__ import annotations

import os
import select
import time

CHUNK = 1024 * 1024


class Pipe:
    """Reads a descriptor, which it owns: a pipe, a FIFO, a socket or a file. One thread must make all calls."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ahead = b""
        self.ended = False
        """Nothing more will come."""
        self.problem = ""
        """Why nothing more can be read, "" when all is well."""

    def read(self, timeout: float) -> bytes:
        """What is there now, a MB at most; waits up to `timeout` seconds for the first byte. Empty: nothing came, or
        the end (see `ended`)."""
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        timeout = max(0.0, timeout)
        if self.ended:
            time.sleep(timeout)
            return b""
        try:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                return b""
            data = os.read(self._descriptor, CHUNK)
        except (OSError, ValueError) as error:
            self.problem = f"standard input: {getattr(error, 'strerror', None) or error}"
            data = b""
        self.ended = not data
        return data

    def peek(self, timeout: float) -> bytes:
        """What the next `read` will give, once up to `timeout` seconds have been waited for more of it."""
        seen, self._ahead = self._ahead, b""
        self._ahead = seen + self.read(timeout)
        return self._ahead

    def close(self) -> None:
        """Whoever writes is told so by a broken pipe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.ended = True
