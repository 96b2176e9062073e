"""The probe of this process: there is one, made when it is first needed, and a forked child starts without one.

The training thread only ever appends to the outbox. Everything that takes time (imports, files, sockets, git) happens
in the publisher thread.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .hooks.early import when_torch_is_used
from .imports import importing
from .launched import is_launcher
from .outbox import Outbox
from .progress import Progress
from .redaction import plain
from .rows import EventRow, ScalarRow
from .say import say
from .settings import as_share, settings_of
from .told import Told
from .values import Unusable, as_float, as_step

if TYPE_CHECKING:
    from .hooks.install import Hooks
    from .integrations.install import Integrations

_T = TypeVar("_T")

MAIN_PATIENCE = 2.0
"""Seconds after which a launched process is announced although it has not used torch: somebody may be waiting."""
POLL = 0.25
"""Seconds between looks at whether the process trains."""
FAREWELL = 2.0
"""Seconds that the end of the job waits for the last rows; then they are given up."""


class Probe:
    """Outbox, progress, hooks and publisher of one process. Methods may be called from any thread.

    A process becomes visible (a folder in the run, a socket) once it trains: a backward pass, an optimizer step, or a
    call of the user's. Loader workers, resource trackers and the like boot and import torch too, but leave nothing.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.outbox = Outbox()
        self.progress = Progress(thread=threading.main_thread().ident or threading.get_ident())
        self.told = Told(title=os.environ.get("NTSTOP_TITLE") or None)
        self.hooks: Hooks | None = None
        self._integrations: Integrations | None = None
        self._settings = settings_of(os.environ)
        self._asked = False
        self._trained = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._exit_code: int | None = None
        self._previous_excepthook: Any = None
        self._said: set[str] = set()
        self._give_up_waiting: Callable[[], None] | None = None

    def start(self, *, asked: bool, announce_after: float | None = None) -> None:
        """Start the publisher, once a process, and wait for torch. `asked`: the user wants this process to be seen.

        `announce_after`: seconds after which it is seen even if it does not train; None: never.
        """
        if asked and not self._asked:
            self._asked = True
            self._wake.set()
        if self._thread is not None or self._stop.is_set():
            return
        self._thread = threading.Thread(target=self._publish, args=(announce_after,), name="ntstop", daemon=True)
        self._previous_excepthook = sys.excepthook
        sys.excepthook = self._on_exception
        self._stop_at_exit()
        self._thread.start()
        self._follow_libraries()
        if self.hooks is None:
            self._give_up_waiting = when_torch_is_used(torch_is_used)

    def arm(self) -> None:
        """Install the hooks, once. Torch must have been imported. What fails is said, and the rest goes on."""
        if self.hooks is not None or self._stop.is_set():
            return
        self.progress.saw_torch = True
        try:
            from .hooks.install import arm

            self.hooks = arm(self.outbox, self.progress, replace(self._settings, on_training=self._on_training))
        except Exception as error:
            self._switched_off("hooks", error)
        self._follow_libraries()

    def _follow_libraries(self) -> None:
        """Trainers and loggers, as the job imports them; once."""
        if self._integrations is not None:
            return
        try:
            from .integrations.install import Integrations

            self._integrations = Integrations(self)
            self._integrations.start()
        except Exception as error:
            self._switched_off("integrations", error)

    def _switched_off(self, part: str, error: Exception) -> None:
        """For the heartbeat and the stream; the publisher says it on stderr."""
        text = f"{part}: {type(error).__name__}: {error}"
        self.progress.disabled.append(text)
        self.event("warning", f"switched off: {text}")

    def _on_training(self) -> None:
        """The first backward or optimizer step, on the thread that does it."""
        self._understood("budget", as_share, os.environ.get("NTSTOP_BUDGET") or None, None, "NTSTOP_BUDGET:")
        self._trained = True
        self._wake.set()
        try:
            self.start(asked=False)
            if self._integrations is not None:
                self._integrations.look_again()
        except Exception as error:
            # No more threads for this process, say: nobody would take what the hooks have to tell.
            self._failed(error)
            self.let_go_of_libraries()
            raise

    def watch(
        self,
        model: Any,
        optimizers: tuple[Any, ...],
        *,
        layers: object,
        budget: object,
        config: object,
        data_hash: object,
        total_steps: object,
        title: object,
    ) -> None:
        """Be seen, and know `model` and `optimizers`. What is None, or cannot be understood, stays as it was."""
        told = self.told
        told.title = self._understood("title", str, title, told.title)
        told.data_hash = self._understood("data_hash", str, data_hash, told.data_hash)
        told.total_steps = self._understood("total_steps", as_step, total_steps, told.total_steps)
        told.config = self._understood("config", plain, config, told.config)
        share = self._understood("budget", as_share, budget, None)
        settings = settings_of(os.environ, bool(layers), share)
        if settings != self._settings:
            self._settings = settings
            if self.hooks is not None:
                self.hooks.disarm()
                self.hooks = None
        self.start(asked=True)
        if "torch.optim" in sys.modules:
            self.arm()
        if self.hooks is not None and (model is not None or optimizers):
            try:
                self.hooks.watch(model, *optimizers)
            except Exception as error:
                self.warn("watch", f"watch: {type(error).__name__}: {error}; the job goes on")

    def _understood(
        self, name: str, convert: Callable[[Any], _T], value: object, otherwise: _T | None, where: str = "watch:"
    ) -> _T | None:
        if value is None:
            return otherwise
        try:
            return convert(value)
        except Exception as error:
            self.warn(name, f"{where} {name} {error}")
            return otherwise

    def log(self, values: Mapping[str, object], step: object) -> None:
        """Numbers the user names; one that is none, or that would make the GPU wait, is left out and said once."""
        if self._stop.is_set():
            return
        numbers: dict[str, float] = {}
        for name, value in values.items():
            try:
                numbers[str(name)] = as_float(value)
            except Unusable as error:
                self.warn(error.kind, f"log: {name!r} {error}")
        try:
            number = None if step is None else as_step(step)
        except Unusable as error:
            self.warn("step", f"log: step {error}")
            number = None
        if numbers:
            self.outbox.put(ScalarRow(time.monotonic(), number, self.progress.steps, numbers))
            if number is not None and self.hooks is not None:
                self.hooks.note_step(number, "user")

    def event(self, kind: str, text: str, duration: float | None = None, **data: object) -> None:
        """Something that happened once, at the step that is open."""
        progress = self.progress
        if not self._stop.is_set():
            self.outbox.put(EventRow(time.monotonic(), kind, text, progress.steps, progress.step, duration, data))

    def enter_phase(self, name: str) -> None:
        """The user says what the training thread does from here on."""
        if self.hooks is not None:
            self.hooks.enter_phase(name)
        else:
            self.progress.enter(name, time.monotonic())

    def exit_phase(self, name: str, duration: float) -> None:
        """The end of the phase that was entered last."""
        if self.hooks is not None:
            self.hooks.exit_phase()
            return
        self.progress.enter("other" if self.progress.steps else "start", time.monotonic())
        if name in ("eval", "evaluation", "validation", "test"):
            self.event("evaluation", name, duration)

    def warn(self, key: str, text: str) -> None:
        """Say `text` on stderr and in the stream, once for each `key`."""
        if key not in self._said:
            self._said.add(key)
            say(text)
            self.event("warning", text)

    def stop(self) -> None:
        """Send what is left, waiting at most `FAREWELL` seconds, and undo every patch. Also runs at exit."""
        if self._stop.is_set() or os.getpid() != self.pid:
            return
        hooks, thread = self.hooks, self._thread
        if hooks is not None:
            with contextlib.suppress(Exception):
                hooks.finish()
        self.progress.enter("idle", time.monotonic())
        if self.visible():
            self.event("exit", "", code=self._exit_code)
        self._stop.set()
        self._wake.set()
        if self._give_up_waiting is not None:
            self._give_up_waiting()
        self.let_go_of_libraries()
        if thread is not None and thread is not threading.current_thread():
            thread.join(FAREWELL)
        if hooks is not None:
            with contextlib.suppress(Exception):
                hooks.disarm()
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._previous_excepthook
        atexit.unregister(self._leave)

    def let_go_of_libraries(self) -> None:
        """They are as they were."""
        if self._integrations is not None:
            with contextlib.suppress(Exception):
                self._integrations.stop()

    def _leave(self) -> None:
        """What runs at exit: `stop`, which is not to bring a traceback of ours to the job's last lines."""
        with contextlib.suppress(Exception):
            self.stop()

    def _stop_at_exit(self) -> None:
        atexit.register(self._leave)
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None and _inherited:
            # A forked worker of multiprocessing ends without atexit.
            util.Finalize(None, self._leave, exitpriority=0)

    def visible(self) -> bool:
        """True once the user has asked for the probe, or the process has trained."""
        return self._asked or self._trained

    def _publish(self, announce_after: float | None) -> None:
        try:
            announce_at = float("inf") if announce_after is None else time.monotonic() + announce_after
            while not self.visible():
                if self._stop.is_set():
                    return
                if time.monotonic() >= announce_at and not is_launcher():
                    break
                self._wake.wait(POLL)
            with importing():
                from .publisher import Publisher
            publisher = Publisher(
                self.outbox,
                self.progress,
                self.told,
                facts=lambda: self.hooks.facts() if self.hooks is not None else None,
                training=self.visible,
                stop=self._stop,
                explain_waiting=announce_after is not None,
            )
            publisher.run()
        except BaseException as error:
            self._failed(error)
            if self.hooks is not None:
                self.hooks.disarm()
            self.let_go_of_libraries()

    def _failed(self, error: BaseException) -> None:
        say(f"the probe failed ({type(error).__name__}: {error}); the job runs on without it")

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> Any:
        """What `sys.excepthook` is while the probe runs: take a note, then what was there before."""
        if os.getpid() == self.pid:
            with contextlib.suppress(Exception):
                self._note_exception(kind, value, trace)
        return self._previous_excepthook(kind, value, trace)

    def _note_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        where = ""
        while trace is not None:
            code = trace.tb_frame.f_code
            where = f"{code.co_qualname} ({code.co_filename}:{trace.tb_lineno})"
            trace = trace.tb_next
        message = str(value)[:2000]
        if issubclass(kind, Exception):
            self._exit_code = 1
        text = f"{kind.__name__}: {message}" if message else kind.__name__
        self.event("exception", text, type=kind.__name__, message=message, where=where)


_lock = threading.Lock()
_probe: Probe | None = None
_inherited: list[Probe] = []
"""Probes of the process we were forked from: kept, so that nothing of theirs is closed or awaited here."""


def current(*, asked: bool = False) -> Probe | None:
    """The probe of this process. None in a forked child (a loader's worker) that has not `asked` for one itself."""
    global _probe
    with _lock:
        if _probe is None and (asked or not _inherited):
            _probe = Probe()
            _watch_for_forks()
        return _probe


def torch_is_used() -> None:
    """Torch has been imported: be ready in case this process trains; the publisher starts only then.

    So has a forked child that imports torch itself, unlike a loader's worker: it is a process in its own right.
    """
    probe = current(asked=True)
    if probe is not None:
        probe.arm()


def launched() -> None:
    """This is the process that somebody has launched and waits for: show it even if it never comes to train."""
    probe = current()
    if probe is not None:
        probe.start(asked=False, announce_after=MAIN_PATIENCE)


_watching_forks = False


def _watch_for_forks() -> None:
    global _watching_forks
    if not _watching_forks and hasattr(os, "register_at_fork"):
        _watching_forks = True
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    """In the child: no thread of ours exists here, and no lock or socket of the parent's may be touched."""
    global _probe, _lock
    _lock = threading.Lock()
    if _probe is not None:
        _probe.let_go_of_libraries()
        _inherited.append(_probe)
        _probe = None
