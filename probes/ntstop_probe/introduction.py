"""How a process introduces itself: the `Hello` in its frames, and `process.json` beside them. Kept up to date."""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from . import __version__, manifest, registry
from .identity import Identity
from .told import Told
from .wire import PROTOCOL, Hello, Manifest

_FACTS = ("precision", "optimizers", "trainable_parameters", "frozen_parameters", "batch_size", "workers")
"""Fields of the manifest that the hooks find out, under the same names in `hooks.facts.ModelFacts`."""

_LONGEST_TITLE = 1000
"""Characters; `process.json`, where it stands too, is read to a length."""


class Introduction:
    """Used by the publisher thread alone. `facts` gives what the hooks have found out so far, or None."""

    def __init__(self, identity: Identity, told: Told, facts: Callable[[], Any]) -> None:
        self.identity = identity
        self.endpoint: str | None = None
        self.training = False
        """True once the process has been seen to train, or was asked to be watched."""
        self.hardware: dict[str, str] = {}
        """What the samplers add to the manifest's hardware."""
        self._told = told
        self._facts = facts
        self._git: tuple[str | None, bool | None] = (None, None)
        self._settled = False
        self._base = manifest.gather(identity.layout)
        self._hello = self._make()
        self._announced: registry.ProcessInfo | None = None
        self._asking = self._ask_git()

    def hello(self) -> Hello:
        """The record, as of the last `refresh`, with the clocks of now."""
        return msgspec.structs.replace(self._hello, t=time.monotonic(), wall=time.time())

    def refresh(self) -> bool:
        """Look again; True when there is something new to say."""
        before, self._hello = self._hello, self._make()
        return msgspec.structs.replace(before, t=0.0, wall=0.0) != msgspec.structs.replace(self._hello, t=0.0, wall=0.0)

    def settle(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for answers that are still out, then `refresh`: for the last words of a job."""
        if self._asking is not None:
            self._asking.join(timeout)
        return self.refresh()

    def announce(self) -> None:
        """Write `process.json` where it has changed, creating the process folder first. Raises `OSError`."""
        folder = self.identity.folder
        if self._announced is None:
            registry.make_private(folder.parent)
            # One writer a folder: a second one with our name must not exist.
            folder.mkdir(mode=0o700)
        info = self._info()
        if info == self._announced:
            return
        registry.write_process_info(folder, info)
        self._announced = info

    def _info(self) -> registry.ProcessInfo:
        identity, hello = self.identity, self._hello
        return registry.ProcessInfo(
            protocol=PROTOCOL,
            run=identity.run,
            folder=identity.folder.name,
            writer=identity.writer,
            host=identity.host,
            boot=identity.boot,
            pid_namespace=identity.pid_namespace,
            pid=identity.pid,
            started=identity.started,
            wall=self._announced.wall if self._announced else time.time(),
            rank=hello.rank,
            world=hello.world,
            attempt=identity.attempt,
            title=hello.title,
            endpoint=self.endpoint,
            probe=__version__,
            training=self.training,
        )

    def _make(self) -> Hello:
        identity, told = self.identity, self._told
        rank, world = distributed_place()
        return Hello(
            protocol=PROTOCOL,
            run=identity.run,
            writer=identity.folder.name,
            host=identity.host,
            boot=identity.boot,
            pid_namespace=identity.pid_namespace,
            pid=identity.pid,
            started=identity.started,
            attempt=identity.attempt,
            t=0.0,
            wall=0.0,
            rank=identity.layout.rank if rank is None else rank,
            world=identity.layout.world if world is None else world,
            total_steps=told.total_steps,
            title=manifest.clean(told.title[:_LONGEST_TITLE]) if told.title else told.title,
            probe=__version__,
            manifest=self._manifest(),
        )

    def _manifest(self) -> Manifest:
        facts = self._facts()
        # Copied, or a list that grows would never differ from itself.
        found = {name: copy.copy(getattr(facts, name, None)) for name in _FACTS}
        # Looked at first: git may answer between the two.
        settled, (sha, dirty) = self._settled, self._git
        return msgspec.structs.replace(
            self._base,
            git_sha=sha,
            git_dirty=dirty,
            settled=settled,
            seed=manifest.torch_seed(),
            versions=manifest.versions(),
            hardware={**self._base.hardware, **self.hardware},
            config=self._told.config,
            data_hash=self._told.data_hash,
            **{name: value for name, value in found.items() if value is not None},
        )

    def _ask_git(self) -> threading.Thread | None:
        """In a thread of its own: steps are recorded while git looks at a large tree."""

        def ask() -> None:
            with contextlib.suppress(Exception):
                self._git = manifest.git_state()
            self._settled = True

        thread = threading.Thread(target=ask, name="ntstop-git", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._settled = True
            return None  # The interpreter is on its way out.
        return thread


def distributed_place() -> tuple[int | None, int | None]:
    """Rank and world of the job's process group, once it has made one; reads attributes, communicates nothing."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:
        pass  # Half imported, or on its way down.
    return None, None
