"""Lets a test look at files as somebody who does not own them, also when the tests run as root."""

from __future__ import annotations

import os
from collections.abc import Callable


def as_nobody(action: Callable[[], None]) -> str:
    """Run `action` in a child that is not the owner of our files; returns what it raised as "Type: text"."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        text = "nothing"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            action()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()
