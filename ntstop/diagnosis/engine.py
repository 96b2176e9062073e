"""The engine: records in, findings out. Deterministic in the order of the records, whoever delivers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ntstop.sources.logs.roles import Roles, is_part
from ntstop_probe import wire

from .block import StepBlock, Values
from .context import Context, LayerSample
from .detectors.stall import FLOOR, SLOW_PHASES
from .finding import Book, Finding
from .joining import Joiner
from .listeners import Listeners
from .rules import ACROSS, Rule, RunRule, load
from .thresholds import Thresholds

MANY = 32
"""Ranks from which on the steps of all but rank 0 wait for a heartbeat of their rank, and are judged together: a few
seconds later at most, and by what they would have been judged by one by one."""
MOST_WAITING = 256
"""Steps of one rank among many that wait, at most."""
MOST_TOGETHER = 1024
"""Steps of any other process that wait, at most: those between two of its heartbeats, a second apart, are judged
together. Whether it is watched or was recorded makes no difference."""
BEATS_WAITING = 4
"""Heartbeats, one a second, that steps wait for while these say that all is well. Judging a block costs as much as
judging fifty steps of it."""
SILENT_BEATS = 8
"""Heartbeats of rank 0 after which the steps of a rank are judged that has said nothing since."""
_BESIDE = (wire.Host, wire.Device, wire.Allocator, wire.Compiler, wire.Scalars, wire.ScalarBlock)
"""Records that waiting steps need not be judged before."""
_MOST_NAMINGS = 256
"""Sets of names that are remembered."""


@dataclass(slots=True, eq=False)
class _Rank:
    """One rank: its context and its rules; a new attempt of the rank goes on with both."""

    context: Context
    current: int
    """The writer of the newest attempt."""
    apart: Listeners[Rule]
    """The rules that judge this rank also when all replicas are alike (`Rule.ALIKE`)."""
    rules: Listeners[Rule] | None = None
    """All rules; None before they are needed and once they are no more: of a thousand ranks they are most of what an
    engine holds."""
    waiting: Joiner = field(default_factory=Joiner)
    logged: list[wire.Scalars | wire.ScalarBlock] = field(default_factory=list)
    """What was logged in the steps that wait: it is judged behind them."""
    beats: int = 0
    """Heartbeats since they were last judged."""
    since: int = 0
    """Heartbeats of rank 0 before the first of them."""
    pulse: bool = False
    """It has heartbeats, which a log has not."""
    calm: wire.Heartbeat | None = None
    """The heartbeat before, where that one said that all is well."""
    ended_at: dict[int, int] = field(default_factory=dict)
    """Last step of the writers of earlier attempts."""


class Engine:
    """Feed it every record of a run with `observe`; read `findings`.

    Not thread-safe: the session observes and reads under one lock. `version` goes up when findings change.
    """

    def __init__(
        self,
        rules: list[type[Rule]] | None = None,
        *,
        thresholds: Mapping[str, float] | None = None,
        roles: Roles | None = None,
    ) -> None:
        """`thresholds`: what the user has set, by name. Raises `ValueError` with one line where one is wrong."""
        self._kinds: Final = load() if rules is None else rules
        self._thresholds = Thresholds(thresholds)
        self._roles = roles or Roles()
        self._book = Book()
        self.failed: dict[str, str] = {}
        """Names of rules that have failed of themselves and are switched off since, each with a line that says so."""
        self._by_writer: dict[int, _Rank] = {}
        self._ranks: list[_Rank] = []
        self._contexts: list[Context] = []
        self._led = False
        """Rank 0 has told a loss."""
        self._beats = 0
        """Heartbeats of rank 0."""
        self._roled: dict[tuple[str, ...], frozenset[str]] = {}
        """What `_with_roles` has found."""
        across = ACROSS if rules is None else []
        self._across = Listeners[RunRule](kind(self._book, self._contexts) for kind in across)

    @property
    def findings(self) -> list[Finding]:
        """All findings, the weightiest first; see `settle`."""
        return list(self._book)

    @property
    def version(self) -> int:
        """Goes up with every change of a finding."""
        return self._book.version

    def observe(self, writer: int, record: wire.Record) -> None:
        """Apply one record of the process `writer`. A record whose columns do not fit is skipped, never raised."""
        rank = self._by_writer.get(writer) or self._new_rank(writer)
        of_many = self._is_of_many(rank)
        if isinstance(record, wire.Steps):
            if of_many or (rank.pulse and (self._led or rank.context.rank is None)):
                self._let_wait(rank, record, MOST_WAITING if of_many else MOST_TOGETHER)
                return
            self._settle(rank)
        elif isinstance(record, wire.Scalars | wire.ScalarBlock) and not of_many:
            if not self._with_roles(record.values):
                return
            if rank.waiting:
                rank.logged.append(record)
                return
        elif not of_many or not (isinstance(record, _BESIDE) or _may_wait(rank, record)):
            self._settle(rank)
        self._judge(rank, writer, record)
        if isinstance(record, wire.Heartbeat):
            rank.pulse = True
            if rank.context.rank == 0:
                self._beats += 1
                if self._beats % SILENT_BEATS == 0:
                    self._settle_silent()

    def _is_of_many(self, rank: _Rank) -> bool:
        return self._led and bool(rank.context.rank) and len(self._ranks) >= MANY

    def _let_wait(self, rank: _Rank, block: wire.Steps, most: int) -> None:
        if not rank.waiting:
            rank.since = self._beats
        rank.waiting.add(block)
        if rank.waiting.steps >= most:
            self._settle(rank)

    def _settle_silent(self) -> None:
        for rank in self._ranks:
            if rank.waiting and self._beats - rank.since >= SILENT_BEATS:
                self._settle(rank)

    def settle(self, stop: Callable[[], bool] = lambda: False, *, patient: bool = False) -> bool:
        """Judge what waits of all ranks; to be called once no more records come for now. `patient`: of fewer than 32
        ranks, only what need not wait for the next heartbeat of its process.

        `stop` is asked after each rank that had something: False where it said so, and another call goes on.
        """
        for rank in self._ranks:
            if rank.waiting and (not patient or self._is_of_many(rank)):
                self._settle(rank)
                if stop():
                    return False
        self._tell(self._across, "settled")
        return True

    def _settle(self, rank: _Rank) -> None:
        """Judge the steps that wait."""
        rank.beats = 0
        if not rank.waiting:
            return
        blocks, logged, rank.logged = rank.waiting.take(), rank.logged, []
        for record in (*blocks, *logged):
            self._judge(rank, rank.current, record)

    def _judge(self, rank: _Rank, writer: int, record: wire.Record) -> None:
        if isinstance(record, wire.Hello):
            self._hello(writer, record)
            return
        context, rules = rank.context, self._judges(rank)
        match record:
            case wire.Steps():
                block = StepBlock.of(record)
                if block is not None:
                    _advance(context, block)
                    self._tell(rules, "steps", block)
                    self._tell(self._across, "steps", context, block)
                    if not self._led and context.rank == 0 and block.losses:
                        self._lead()
            case wire.Layers():
                sample = _layer_sample(context, record)
                if sample is not None:
                    self._tell(rules, "layers", sample)
                    self._tell(self._across, "layers", context, sample)
            case wire.Schema():
                if context.schemas.get(record.id) != record:
                    context.schemas[record.id] = record
                    self._tell(rules, "schema", record)
            case wire.Heartbeat():
                self._tell(rules, "heartbeat", record)
                self._tell(self._across, "heartbeat", context, record)
            case wire.Scalars():
                if self._with_roles(record.values):
                    self._tell(rules, "scalars", record)
            case wire.ScalarBlock():
                for row in _rows_of(record, self._with_roles(record.values)):
                    self._tell(rules, "scalars", row)
            case wire.Host():
                self._tell(rules, "host", record)
            case wire.Device():
                self._tell(rules, "device", record)
            case wire.Allocator():
                self._tell(rules, "allocator", record)
            case wire.Compiler():
                self._tell(rules, "compiler", record)
            case wire.Event():
                self._tell(rules, "event", record)
                if record.kind == "resume":
                    self._tell(rules, "resumed")

    def _with_roles(self, names: Iterable[str]) -> frozenset[str]:
        """Those that have a role, or are a part of a loss: no rule looks at others, and most of what a job logs are."""
        key = tuple(names)
        found = self._roled.get(key)
        if found is None:
            if len(self._roled) >= _MOST_NAMINGS:
                self._roled.clear()
            wanted = (name for name in key if self._roles.of(name).role != "other" or is_part(name))
            found = self._roled[key] = frozenset(wanted)
        return found

    def _judges(self, rank: _Rank) -> Listeners[Rule]:
        """The rules that look at a record of this rank.

        Replicas tell one story: their losses, layers and rates are judged on rank 0 once it has told a loss. In a
        pipeline, where it has none, and until then, every rank is judged by all rules.
        """
        if self._led and rank.context.rank:
            return rank.apart
        if rank.rules is None:
            made = {type(rule): rule for rule in rank.apart}
            # One of the others that has failed is not in `apart` any more, and is not made anew.
            rank.rules = Listeners(
                made[kind] if kind in made else kind(rank.context) for kind in self._kinds if kind.ALIKE or kind in made
            )
        return rank.rules

    def _lead(self) -> None:
        """From now on rank 0 speaks for its replicas."""
        self._led = True
        for rank in self._ranks:
            if rank.context.rank:
                rank.rules = None

    def _tell(self, rules: Listeners[Any], what: str, *facts: Any, **more: Any) -> None:
        """Let each rule look. One that fails is switched off: what it would have said is missing, the rest goes on."""
        for rule, look in rules.to(what):
            try:
                look(*facts, **more)
            except Exception as error:
                self._switch_off(rule)
                name = type(rule).__name__
                self.failed[name] = f"{name} has failed and judges no more: {type(error).__name__}: {error}"
                self._book.changed()

    def _switch_off(self, rule: Any) -> None:
        """Take a rule out of every list that has it."""
        self._across.remove(rule)
        for rank in self._ranks:
            rank.apart.remove(rule)
            if rank.rules is not None:
                rank.rules.remove(rule)

    def process_gone(self, writer: int, evidence: str) -> None:
        """The process is known to be gone without having said so; `evidence` is the sentence that proves it.

        It does not come from a record: what a live viewer sees of the pid, a replay sees too.
        """
        rank = self._by_writer.get(writer)
        if rank is not None:
            self._settle(rank)
            at = rank.ended_at.get(writer, rank.context.last_x)
            self._tell(self._judges(rank), "gone", evidence, at, continued=writer != rank.current)

    def process_stopped(self, writer: int, evidence: str) -> None:
        """The process is held by a signal now; `evidence` is the sentence that proves it. Say so at every look.

        A replay does not see it: what it sees, once the process goes on, is how long no heartbeat came.
        """
        rank = self._by_writer.get(writer)
        if rank is not None and writer == rank.current:
            self._settle(rank)
            rank.calm = None
            self._tell(self._judges(rank), "stopped", evidence)

    def hello_of(self, finding: Finding) -> wire.Hello | None:
        """Identity and manifest of the process that a finding is about."""
        rank = self._by_writer.get(finding.writer)
        return rank.context.hello if rank is not None else None

    def _hello(self, writer: int, hello: wire.Hello) -> None:
        rank = self._by_writer[writer]
        if rank.context.hello is None and (earlier := self._earlier_attempt(rank, hello)) is not None:
            self._settle(earlier)
            self._ranks.remove(rank)
            self._contexts.remove(rank.context)
            rank = self._by_writer[writer] = earlier
            rank.ended_at[rank.current] = rank.context.last_x
            rank.current = writer
            rank.context.schemas.clear()
            rank.context.forget_places()
            rank.context.hello = hello
            self._tell(self._judges(rank), "resumed")
        if writer == rank.current:
            rank.context.hello = hello
            self._tell(self._judges(rank), "hello", hello)

    def _earlier_attempt(self, new: _Rank, hello: wire.Hello) -> _Rank | None:
        """The rank that this process continues: same run and rank number, a lower attempt."""
        for rank in self._ranks:
            known = rank.context.hello
            if (
                rank is not new
                and known is not None
                and (known.run, known.rank) == (hello.run, hello.rank)
                and known.attempt < hello.attempt
            ):
                return rank
        return None

    def _new_rank(self, writer: int) -> _Rank:
        context = Context(writer, self._book, self._thresholds, self._roles)
        rank = _Rank(context, writer, Listeners(kind(context) for kind in self._kinds if not kind.ALIKE))
        self._by_writer[writer] = rank
        self._ranks.append(rank)
        self._contexts.append(context)
        return rank


def _may_wait(rank: _Rank, record: wire.Record) -> bool:
    """Whether a record is a heartbeat that says what the one before said: all is well, and the process goes on.

    What a rule makes of such a one does not depend on the steps that wait.
    """
    if not isinstance(record, wire.Heartbeat):
        rank.calm = None
        return False
    before, rank.calm = rank.calm, record if _is_calm(record) else None
    rank.beats += 1
    return (
        before is not None and rank.calm is not None and record.t - before.t < FLOOR / 2 and rank.beats < BEATS_WAITING
    )


def _is_calm(beat: wire.Heartbeat) -> bool:
    return beat.age < FLOOR / 2 and beat.phase not in SLOW_PHASES and not beat.stacks and not beat.reason


def _advance(context: Context, block: StepBlock) -> None:
    """What every rule may look up is true before the first rule sees the block."""
    if context.first_x is None:
        context.first_x = block.x[0]
    if block.count > 1:
        context.stride = max(1, block.x[-1] - block.x[-2])
    elif context.steps and block.x[0] > context.last_x:
        context.stride = block.x[0] - context.last_x
    context.last_x = block.x[-1]
    context.last_ordinal = block.ordinal + block.count - 1
    context.steps += block.count
    context.place(block)


def _rows_of(block: wire.ScalarBlock, names: frozenset[str]) -> Iterator[wire.Scalars]:
    """The rows of a block that have some of these names; none where its columns do not fit."""
    if not names:
        return
    try:
        yield from wire.rows_of(block, names)
    except ValueError:
        return


def _layer_sample(context: Context, record: wire.Layers) -> LayerSample | None:
    """The sample with lists for columns; None when its schema is not known or does not fit."""
    schema = context.schemas.get(record.schema)
    if schema is None:
        return None
    columns: dict[str, Values] = {}
    for name, column in record.columns.items():
        try:
            items = wire.unpack(column)
        except ValueError:
            return None
        if len(items) != len(schema.names):
            return None
        columns[name] = items
    x = record.step if record.step is not None else context.x_of(record.ordinal)
    return LayerSample(schema, record.ordinal, x, record.t, columns)
