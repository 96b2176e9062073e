"""One SUB socket that listens to any number of processes. It belongs to the thread that made it."""

from __future__ import annotations

import os

import zmq

from ntstop_probe.wire import (
    HEADER_SIZE,
    MAX_PAYLOAD,
    STREAM_CORE,
    STREAM_LAYERS,
    Frame,
    FrameReader,
    decode_frame,
    stream_prefix,
)

HIGH_WATER = 4096
"""Frames that wait for us, for each process at most; what is beyond is read from its recording."""
_LEAST_WATER = 16
_ALL_WATER = 16_384
"""Frames of all processes together, 130 MB: each keeps the 8 KiB alive into which libzmq has read it. Of a thousand
ranks each may be 3 s ahead of us."""
BURST = 2048
"""Frames that are taken in at a time, at most."""


class Subscriber:
    """Receives frames; whatever is none is counted in `corrupt` and forgotten."""

    def __init__(self) -> None:
        self.corrupt = 0
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, HEADER_SIZE + MAX_PAYLOAD)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 200)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5000)
        for stream in (STREAM_CORE, STREAM_LAYERS):
            self._socket.setsockopt(zmq.SUBSCRIBE, stream_prefix(stream))

    def share(self, processes: int) -> None:
        """From now on, connect so that as many processes share the memory for what waits."""
        water = max(_LEAST_WATER, min(HIGH_WATER, _ALL_WATER // max(1, processes)))
        self._socket.setsockopt(zmq.RCVHWM, water)

    def connect(self, endpoint: str) -> bool:
        """Listen to an ipc endpoint of this host; False when there is nobody to connect to."""
        if not endpoint.startswith("ipc://") or not os.path.exists(endpoint.removeprefix("ipc://")):
            return False
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError:
            return False
        return True

    def disconnect(self, endpoint: str) -> None:
        """Listen no more."""
        try:
            self._socket.disconnect(endpoint)
        except zmq.ZMQError:
            return

    def receive(self, timeout: float) -> list[Frame]:
        """Frames that have come, `BURST` at most; waits up to `timeout` seconds for the first."""
        if not self._socket.poll(max(0, round(timeout * 1000))):
            return []
        frames: list[Frame] = []
        for _ in range(BURST):
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.ZMQError:
                break
            frames += self._decode(message)
        return frames

    def close(self) -> None:
        """Close the socket at once."""
        self._context.destroy(linger=0)

    def _decode(self, message: bytes) -> list[Frame]:
        frame = decode_frame(message)
        if frame is not None:
            return [frame]
        reader = FrameReader()
        frames = reader.feed(message) + reader.finish()
        if len(frames) != 1 or reader.corrupt:
            self.corrupt += 1
        return frames
