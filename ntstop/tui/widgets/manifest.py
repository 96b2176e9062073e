"""How the run was started, as lines: what it takes to run it again, and what of that is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ntstop_probe.wire import Hello, Manifest

from ...diagnosis.reproduction import missing_parts
from ...run.process import ProcessState
from ...text import count, moment, number, size
from ..raster.ink import Ink
from ..workspace import Look
from .lines import Entry, LinesPane

UNKNOWN = "not known"
CONSTANT = 1e-3
"""Share of the highest learning rate within which it is taken not to move."""
MOST_KINDS = 8
"""Kinds of parameter groups that are listed, beside the usual one."""
NOT_IN_A_LOG = (
    "command, batch, precision, optimizer, seed, versions, machine, memory, layers, phases: "
    "`ntstop run -- CMD` records them"
)


def manifest_entries(
    process: ProcessState, hello: Hello, *, where: str = "", cursor: float | None = None
) -> list[Entry]:
    """The lines: identity, contract, reproduction, environment. `cursor`: the step whose learning rates are told."""
    return [
        *_identity(hello, where),
        *_contract(process, cursor),
        *_reproduction(hello.manifest),
        *_environment(hello.manifest),
    ]


def log_entries(
    process: ProcessState, hello: Hello, remarks: Sequence[str], cursor: float | None = None
) -> list[Entry]:
    """The lines of the log of another tool: what is in it, what was taken for what, where the rest would come from."""
    lines = [Entry("log", hello.run)]
    if hello.wall:
        lines.append(Entry("written", moment(hello.wall, "%Y-%m-%d %H:%M:%S")))
    if hello.total_steps:
        lines.append(Entry("steps", count(hello.total_steps)))
    lines.append(_known("curves", ", ".join(sorted(process.series))))
    lines += [Entry("" if place else "read", remark) for place, remark in enumerate(remarks)]
    return [*lines, _rates(process, cursor), Entry("not in it", NOT_IN_A_LOG, Ink.DIM)]


def _identity(hello: Hello, where: str) -> Iterator[Entry]:
    yield Entry("run", hello.run)
    if hello.title:
        yield Entry("title", hello.title)
    yield Entry("started", f"{moment(hello.wall, '%Y-%m-%d %H:%M:%S')}, attempt {hello.attempt + 1}")
    yield Entry("process", f"{hello.host}, pid {hello.pid}, ntstop-probe {hello.probe or UNKNOWN}")
    if where:
        yield Entry("recorded in", where)


def _contract(process: ProcessState, cursor: float | None) -> Iterator[Entry]:
    manifest = process.manifest
    world = process.hello.world if process.hello else None
    yield Entry("contract")
    yield _known("batch", _batch(manifest.batch_size, process.micro_batches, world))
    yield _known("steps", count(process.hello.total_steps) if process.hello and process.hello.total_steps else "")
    yield _known("precision", manifest.precision or "")
    for optimizer in manifest.optimizers:
        yield Entry("optimizer", _optimizer(optimizer))
    if not manifest.optimizers:
        yield _known("optimizer", "")
    yield _rates(process, cursor)
    yield _known("schedule", _schedule(process))
    trainable, frozen = manifest.trainable_parameters, manifest.frozen_parameters
    yield _known(
        "parameters", "" if trainable is None else f"{count(trainable)} trainable, {count(frozen or 0)} frozen"
    )
    yield _known("workers", "" if manifest.workers is None else f"{manifest.workers} loader processes")


def _rates(process: ProcessState, cursor: float | None) -> Entry:
    known = [(name, series) for name, series in process.series.items() if name.split("/")[0] == "lr"]
    alike: dict[str, list[str]] = {}
    for name, series in known:
        alike.setdefault(number(series.last_y if cursor is None else series.y_at(cursor)), []).append(name)
    rates = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} {rate}" for rate, names in alike.items()
    ]
    then = f" at step {count(cursor)}" if rates and cursor is not None else ""
    return _known("rate now" if cursor is None else "rate", ", ".join(rates) + then)


def _schedule(process: ProcessState) -> str:
    """How the learning rate has gone so far, as it was measured: nobody tells what a schedule is called."""
    series = next((one for name, one in process.series.items() if name.split("/")[0] == "lr"), None)
    if series is None or series.first_y is None or series.highest is None or series.last_y is None:
        return ""
    first, (peak, highest), last = series.first_y, series.highest, series.last_y
    rises, falls = first < highest * (1 - CONSTANT), last < highest * (1 - CONSTANT)
    if not rises and not falls:
        return "constant so far"
    words = f"from {number(first)} up to {number(highest)} at step {count(peak)}" if rises else f"from {number(first)}"
    return f"{words}, then down to {number(last)}" if falls else words


def _batch(size_: int | None, micro: int, world: int | None) -> str:
    if size_ is None:
        return ""
    factors = [f"{size_} a micro-batch" if micro > 1 else f"{size_} a rank"]
    factors += [f"{micro} micro-batches"] if micro > 1 else []
    factors += [f"{world} ranks"] if world and world > 1 else []
    total = size_ * micro * (world or 1)
    return f"{' × '.join(factors)} = {count(total)} a step" if total != size_ else f"{count(size_)} a step"


def _optimizer(told: Mapping[str, Any]) -> str:
    """Its class and settings; of further kinds of groups what is different, and of which parameters."""
    groups = _kinds(told.get("groups") or [])
    usual = max(groups, key=_tensors, default={})
    others = [group for group in groups if group is not usual]
    settings = {name: value for name, value in _settings(usual).items() if value not in (None, False, "")}
    text = f"{told.get('class', '?')} {_listed(settings)}".rstrip()
    words = [f"{text} of {count(_tensors(usual))} tensors" if others else text]
    words += [f"{_listed(_different(group, usual))} of {_of(group)}" for group in others[:MOST_KINDS]]
    if left := max(len(others) - MOST_KINDS, 0) + int(told.get("more_groups") or 0):
        words.append(f"{left} more kinds")
    return "; ".join(words)


def _kinds(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Groups with the same settings as one: older probes told each."""
    kinds: dict[str, dict[str, Any]] = {}
    for group in groups:
        known = kinds.setdefault(repr(_settings(group)), {**group, "params": 0})
        known["params"] += _tensors(group)
    return list(kinds.values())


def _tensors(group: Mapping[str, Any]) -> int:
    return int(group.get("params") or 0)


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "of")}


def _different(group: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group that are others than usual."""
    return {name: value for name, value in _settings(group).items() if value != usual.get(name)}


def _of(group: Mapping[str, Any]) -> str:
    names, tensors = [str(name) for name in group.get("of") or []], _tensors(group)
    if not names:
        return f"{count(tensors)} tensors"
    return ", ".join(names) + (f" and {count(tensors - len(names))} more" if tensors > len(names) else "")


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in settings.items())


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reproduction(manifest: Manifest) -> Iterator[Entry]:
    yield Entry("reproduction")
    yield _known("command", shlex.join(manifest.command))
    yield _known("folder", manifest.cwd)
    dirty = {None: "", True: ", with uncommitted changes", False: ", clean"}[manifest.git_dirty]
    yield _known("git", f"{manifest.git_sha}{dirty}" if manifest.git_sha else "")
    yield _known("seed", "" if manifest.seed is None else str(manifest.seed))
    yield _known("data", manifest.data_hash or "")
    yield _known("config", "" if manifest.config is None else _config(manifest.config))
    yield _known("versions", ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items())))
    if missing := missing_parts(manifest):
        yield Entry("missing", ", ".join(missing), Ink.WARNING)


def _config(config: Any) -> str:
    if isinstance(config, Mapping):
        return ", ".join(f"{name}={_config(value)}" for name, value in config.items())
    return _plain(config)


def _environment(manifest: Manifest) -> Iterator[Entry]:
    yield Entry("machine")
    for name, text in manifest.hardware.items():
        is_bytes = name.endswith("_bytes") and text.isdigit()
        yield Entry(name.removesuffix("_bytes"), size(int(text)) if is_bytes else text)
    for name, text in manifest.layout.items():
        yield Entry(name, text)
    if manifest.environment:
        yield Entry("environment")
    for name, text in manifest.environment.items():
        yield Entry(name, text or '""')


def _known(label: str, text: str) -> Entry:
    return Entry(label, text) if text else Entry(label, UNKNOWN, Ink.DIM)


class ManifestPane(LinesPane):
    """The manifest."""

    NAME = "run"
    HELP = (
        "How the run was started and what it takes to run it again; what is not known is said, in the manifest's words."
    )

    entries: Sequence[Entry] = ()

    def gather(self, look: Look) -> None:
        """The lines, from what the process has told of itself."""
        process, session, cursor = look.process, look.session, look.view.cursor
        if (hello := process.hello) is None:
            self.entries = ()
        elif session.is_log:
            self.entries = log_entries(process, hello, session.remarks, cursor)
        else:
            self.entries = manifest_entries(process, hello, where=str(session.path or ""), cursor=cursor)

    def present(self) -> None:
        """Show them."""
        self.set_entries(self.entries or [Entry("run", "it has not told anything of itself yet", Ink.DIM)])
