"""Accelerators of a node, polled by one process for all: a driver answers under a lock that the whole node shares.

The process with the `Seat` asks, and puts the answer into a file in the folder of the sockets; every other process of
this user that sees the same devices reads it there. Each publishes the devices that are its own, matched by UUID.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..endpoint import safe_folder
from ..registry import boot_id
from ..wire import Device, Record
from . import Driver
from .election import Seat

FRESH = 3.0
"""Seconds for which an answer is good: three polls. After that its poller is taken to be gone."""
SEATS = 3
"""Processes that may ask at the same time, when the ones before are stopped or stuck in the driver."""
FORMAT = 1
"""Of the file; part of its name, so that probes of different versions do not meet."""
MAX_BYTES = 1 << 20
"""Of a file that is worth reading: some 200 bytes a device."""


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """What a poller has found."""

    t: float
    """Monotonic seconds, the same clock in every process of a boot, taken before the driver was asked."""
    poller: str
    """A random name."""
    devices: list[Device]


class Board:
    """The file with the newest snapshot. Replaced whole, so a reader sees the old one or the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Snapshot | None:
        """The snapshot; None where there is none that can be understood."""
        try:
            with self._path.open("rb") as file:
                return msgspec.msgpack.decode(file.read(MAX_BYTES), type=Snapshot)
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def write(self, snapshot: Snapshot) -> None:
        """Raises `OSError`."""
        temporary = self._path.with_name(f"{self._path.name}.{snapshot.poller}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.msgpack.encode(snapshot))
            os.replace(temporary, self._path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """It is not there any more, whether or not it was."""
        self._path.unlink(missing_ok=True)


class NodeSampler:
    """Samples the devices of this process. Where there is no folder that is safe to share, it asks by itself."""

    interval = 1.0

    def __init__(self, name: str, driver: Driver, folder: Path | None = None) -> None:
        """`folder`: instead of the one of the sockets."""
        self.name = name
        self._driver = driver
        self._me = secrets.token_hex(6)
        self._since = time.monotonic()
        self._heard = 0.0
        """Time of the newest snapshot of another poller."""
        self._published = 0.0
        self._board: Board | None = None
        self._seat = Seat([])
        with contextlib.suppress(OSError):
            stem = (folder or safe_folder()) / f"ntstop-{driver.name}-{FORMAT}-{_view(driver)}"
            self._board = Board(stem.with_name(f"{stem.name}.devices"))
            self._seat = Seat([stem.with_name(f"{stem.name}.lock{number}") for number in range(SEATS)])

    def sample(self) -> Sequence[Record]:
        """A `Device` record for each device of this process, when there is something newer than last time."""
        snapshot = self._newest(time.monotonic())
        if snapshot is None or snapshot.t <= self._published:
            return []
        self._published = snapshot.t
        by_uuid = {device.uuid: device for device in snapshot.devices}
        return [
            msgspec.structs.replace(by_uuid[uuid], index=index)
            for index, uuid in self._driver.own().items()
            if uuid in by_uuid
        ]

    def close(self) -> None:
        """Let another process be the poller, or leave nothing behind where there is none."""
        if self._seat.held and self._board is not None:
            with contextlib.suppress(OSError):
                self._board.remove()
        self._seat.leave()

    def _newest(self, now: float) -> Snapshot | None:
        board = self._board
        if board is None:
            return Snapshot(now, self._me, self._driver.read())
        others = self._of_another(board, now)
        if others is not None:
            # Also for a poller that was stopped for a while: somebody has taken over.
            self._seat.leave()
            return others
        if not self._seat.held:
            try:
                if not self._seat.take(self._open_seats(now)):
                    return None
            except OSError:
                # The folder has gone, or knows no locks.
                self._board = None
                return self._newest(now)
            # It may have been written since we looked.
            others = self._of_another(board, time.monotonic())
            if others is not None:
                self._seat.leave()
                return others
        return self._poll(board, now)

    def _of_another(self, board: Board, now: float) -> Snapshot | None:
        """What another poller has found in the last seconds."""
        snapshot = board.read()
        if snapshot is None or snapshot.poller == self._me or not now - FRESH < snapshot.t <= now + FRESH:
            return None
        self._heard = max(self._heard, snapshot.t)
        return snapshot

    def _open_seats(self, now: float) -> int:
        """How many seats may be tried: a further one each `FRESH` seconds of silence, for the first to get through."""
        quiet = now - max(self._heard, self._since)
        return max(1, min(SEATS, int(quiet / FRESH)))

    def _poll(self, board: Board, now: float) -> Snapshot:
        try:
            snapshot = Snapshot(now, self._me, self._driver.read())
        except BaseException:
            self._seat.leave()
            raise
        # Stopped, or held up, meanwhile: others have newer numbers by now. A disk that is full hurts the others only.
        if time.monotonic() - now < FRESH:
            with contextlib.suppress(OSError):
                board.write(snapshot)
        return snapshot


def _view(driver: Driver) -> str:
    """What the processes that can share a poller have in common: the boot, and the devices that they are shown.

    Two jobs in control groups of their own are shown different devices, both as number 0.
    """
    return hashlib.sha256("\0".join([boot_id(), *driver.uuids]).encode()).hexdigest()[:12]
