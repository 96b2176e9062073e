"""The live socket: XPUB over ipc. It never blocks, and drops frames for a viewer that does not keep up."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import zmq

from .descriptors import identity
from .endpoint import socket_path
from .wire import STREAM_CORE, STREAM_LAYERS, encode_batch, encode_frame, stream_prefix

HIGH_WATER = 256
"""Frames kept for a viewer that does not read, about a minute of them; it reads the rest from the recording."""
FAREWELL_MS = 200
"""How long closing waits for viewers to take the last frames."""
MAX_REQUEST = 1024
"""Bytes of the largest message a viewer may send; a subscription takes 7."""

_EMPTY = encode_batch([])


class LiveSocket:
    """Made, used and closed in one thread. Raises `OSError` or `zmq.ZMQError` when it cannot be bound.

    Whoever connects is first sent the *welcome*: an empty frame whose sequence number is that of the last frame sent.
    """

    def __init__(self, writer: int) -> None:
        self._path = socket_path()
        self._writer = writer
        self._subscriptions = {STREAM_CORE: 0, STREAM_LAYERS: 0}
        # A context of its own: the job may use the shared one, and end it, as it likes.
        self._context = zmq.Context(io_threads=1)
        try:
            self._socket = self._context.socket(zmq.XPUB)
            self._signal = int(self._socket.getsockopt(zmq.FD))
            self._identity = identity(self._signal)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
            self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_REQUEST)
            # Verbose both ways, or a second viewer, and the first of two that leave, would go unseen.
            self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
            self.welcome(0)
            self._socket.bind(self.endpoint)
        except Exception:
            self._context.destroy(linger=0)
            raise

    @property
    def endpoint(self) -> str:
        """Where viewers connect."""
        return f"ipc://{self._path}"

    @property
    def path(self) -> Path:
        """The socket in the file system."""
        return self._path

    @property
    def viewers(self) -> int:
        """How many subscribe to the core stream."""
        return self._subscriptions[STREAM_CORE]

    @property
    def intact(self) -> bool:
        """False once the job has closed our descriptors with all others: libzmq would abort the process at a touch."""
        return identity(self._signal) == self._identity

    def welcome(self, sequence: int) -> None:
        """Whoever connects from now on is told that `sequence` was the last."""
        if not self.intact:
            return
        self._socket.setsockopt(zmq.XPUB_WELCOME_MSG, encode_frame(STREAM_CORE, self._writer, sequence, _EMPTY))

    def newcomers(self) -> bool:
        """Take in who came and went; True when somebody has subscribed since the last call."""
        came = False
        while self.intact:
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return came
            change = {b"\x01": 1, b"\x00": -1}.get(message[:1], 0)
            for stream, count in self._subscriptions.items():
                if stream_prefix(stream).startswith(message[1:]):
                    self._subscriptions[stream] = max(0, count + change)
            came = came or change == 1
        return came

    def send(self, frame: bytes) -> None:
        """Send to whoever listens; dropped for those whose queue is full."""
        if any(self._subscriptions.values()) and self.intact:
            self._socket.send(frame, zmq.NOBLOCK)

    def close(self) -> None:
        """Close, and leave nothing in the file system."""
        if self.intact:
            self._context.destroy(linger=FAREWELL_MS)
        else:
            _leave_alone(self._context, self._socket)
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def _leave_alone(*objects: object) -> None:
    """See that these are never collected, not even at exit: they would touch descriptors that are no longer theirs."""
    import ctypes

    for thing in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
