"""What viewers keep of a run: what its people have marked and acknowledged, and which findings they were told of.

It lies in `$NTSTOP_HOME/viewer/`, a file a run, never in the run: findings are computed, and a recording is only read.
Every change is made under a lock that other viewers respect, and takes the place of the file at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from ntstop.text import safe
from ntstop_probe import registry

LONGEST_NOTE = 500
"""Characters of a note that are kept."""
MOST_MARKS = 1_000
"""Marks of one run; nobody reads more."""
_MOST_TOLD = 10_000
"""Findings of one run whose telling is remembered, the newest; a run has some dozens."""
_LARGEST = 16 << 20
"""Bytes of a file that are read."""
_PATIENCE = 1.0
"""Seconds that another viewer may hold the lock; it needs a few milliseconds."""
_NAP = 0.01
_in_process = threading.RLock()
"""A record lock belongs to a process: its own threads are kept apart by this one."""


class StateError(Exception):
    """The state cannot be changed; the text is one line."""


Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""Seconds of the epoch; later ones have no date."""
Step = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Acknowledgement(msgspec.Struct, frozen=True):
    """Somebody has seen a finding, and what they have to say about it. `wall`: when, in seconds of the epoch."""

    note: str
    wall: Moment


class Mark(msgspec.Struct, frozen=True):
    """What somebody has noted at a step. `wall`: when, in seconds of the epoch."""

    note: str
    wall: Moment


class _Kept(msgspec.Struct):
    target: str = ""
    marks: dict[Step, Mark] = {}
    acknowledged: dict[str, Acknowledgement] = {}
    told: dict[str, float] = {}


class ViewerState:
    """The state that all viewers of `key` share: the id of a run, or the full path of a log.

    Without a key (what comes through a pipe and says no name) it lasts as long as this object.
    """

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.problem = ""
        """Why what is kept cannot be read; one line."""
        self._kept = _Kept()
        self._seen: tuple[int, int, int] | None = None

    @property
    def path(self) -> Path | None:
        """The file; it may not be there yet. Raises `OSError` where there is no home."""
        if self.key is None:
            return None
        digest = hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = registry.safe_name(os.path.basename(self.key))[:60]
        return registry.home() / "viewer" / f"{name}-{digest}.json"

    @property
    def acknowledged(self) -> Mapping[str, Acknowledgement]:
        """Id of a finding to what was said about it, by any viewer; one look at the file, read when it has changed."""
        with _in_process:
            self._refresh()
            return dict(self._kept.acknowledged)

    def note(self, finding: str) -> str | None:
        """What was said about the finding with this id; None where nobody has acknowledged it."""
        said = self.acknowledged.get(finding)
        return None if said is None else said.note

    def acknowledge(self, finding: str, note: str) -> None:
        """Say that the finding with this id is known. Raises `StateError`."""
        said = Acknowledgement(safe(note).strip()[:LONGEST_NOTE], time.time())
        self._change(lambda kept: kept.acknowledged.update({finding: said}))

    def take_back(self, finding: str) -> None:
        """It is not known any more. Raises `StateError`."""
        self._change(lambda kept: kept.acknowledged.pop(finding, None))

    @property
    def marks(self) -> Mapping[int, Mark]:
        """Step to what was noted there, by any viewer, in the order of the steps."""
        with _in_process:
            self._refresh()
            return dict(sorted(self._kept.marks.items()))

    def mark(self, step: int, note: str) -> None:
        """Note something at a step; it takes the place of what was noted there. Raises `StateError`."""
        if step not in (marks := self.marks) and len(marks) >= MOST_MARKS:
            raise StateError(f"a run has {MOST_MARKS:,} marks at most; one must go before another comes")
        said = Mark(safe(note).strip()[:LONGEST_NOTE], time.time())
        self._change(lambda kept: kept.marks.update({step: said}))

    def unmark(self, step: int) -> None:
        """Nothing is noted at this step any more. Raises `StateError`."""
        self._change(lambda kept: kept.marks.pop(step, None))

    def forget(self) -> None:
        """The run is no more, and nothing is kept of it either."""
        with _in_process, contextlib.suppress(OSError):
            if (path := self.path) is not None:
                path.unlink(missing_ok=True)

    def untold(self, findings: Iterable[str]) -> list[str]:
        """Those of the findings that nobody was told of yet."""
        with _in_process:
            self._refresh()
            return [finding for finding in findings if finding not in self._kept.told]

    def claim(self, finding: str) -> bool:
        """Whether it is for the caller to tell of this finding: True once, whoever asks. Raises `StateError`."""
        if not self.untold([finding]):
            return False
        mine = False

        def take(kept: _Kept) -> None:
            nonlocal mine
            mine = finding not in kept.told
            kept.told.setdefault(finding, time.time())
            for oldest in list(kept.told)[:-_MOST_TOLD]:
                del kept.told[oldest]

        self._change(take)
        return mine

    def _change(self, change: Callable[[_Kept], object]) -> None:
        try:
            with _in_process, self._locked() as path:
                self._refresh()
                change(self._kept)
                if path is not None:
                    self._write(path)
        except OSError as error:
            # What could not be written is not so.
            self._kept, self._seen = _Kept(), None
            raise StateError(f"the state of the viewers: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Path | None]:
        """Hold the lock of all viewers of this user."""
        path = self.path
        if path is None:
            yield None
            return
        registry.make_private(path.parent)
        # Nothing is written to this file, and it is never replaced: a lock on a file that is gone keeps nobody out.
        with open(os.open(path.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb") as lock:
            until = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.lockf(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except (BlockingIOError, PermissionError):
                    if time.monotonic() > until:
                        raise StateError("another viewer is writing, and does not come to an end") from None
                    time.sleep(_NAP)
            yield path

    def _refresh(self) -> None:
        """Take over what another viewer has written."""
        if self.key is None:
            return
        try:
            path = self.path
            assert path is not None
            now = os.stat(path)
        except OSError:
            if self._seen is not None:
                self._kept, self._seen = _Kept(), None
            return
        seen = now.st_ino, now.st_mtime_ns, now.st_size
        if seen == self._seen:
            return
        try:
            with os.fdopen(registry.open_file(path), "rb") as file:
                self._kept = msgspec.json.decode(file.read(_LARGEST), type=_Kept)
            self.problem = ""
        except (OSError, ValueError, RecursionError):
            self.problem = f"{path}: damaged; acknowledgements and marks in it are not shown"
            self._kept = _Kept()
        self._seen = seen

    def _write(self, path: Path) -> None:
        self._kept.target = safe(self.key or "")
        if self.problem:
            # It may be worth a look by a person; the next damaged one takes its place.
            os.replace(path, path.with_suffix(".damaged"))
            self.problem = ""
        handle, temporary = tempfile.mkstemp(prefix=".viewer-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(self._kept))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        written = os.stat(path)
        self._seen = written.st_ino, written.st_mtime_ns, written.st_size
