"""What a rule is: an observer of one rank's records that writes findings into the book."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ntstop_probe import wire

from ..context import Context, LayerSample, StepBlock
from ..finding import Book

REGISTRY: list[type[Rule]] = []
ACROSS: list[type[RunRule]] = []


class Rule:
    """Base of all rules: override the records you judge by. One instance a rank; it may keep state.

    Records come in the order of their sequence numbers, live and replayed alike. Never use the time of arrival.
    """

    ALIKE: ClassVar[bool] = False
    """What it judges is the same on all replicas of a data-parallel run, so that rank 0 is enough."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def hello(self, hello: wire.Hello) -> None:
        """Identity or manifest is new (`context.hello` has it already)."""

    def schema(self, schema: wire.Schema) -> None:
        """The layers are known, or others than before."""

    def steps(self, block: StepBlock) -> None:
        """A block of finished steps."""

    def layers(self, sample: LayerSample) -> None:
        """The layers of one sampled step; may come before or after the block that holds the step."""

    def event(self, event: wire.Event) -> None:
        """Something that happened once."""

    def scalars(self, scalars: wire.Scalars) -> None:
        """Numbers that the job logged, under its own names; `context.roles` says what they are."""

    def host(self, host: wire.Host) -> None:
        """The host, once a second."""

    def device(self, device: wire.Device) -> None:
        """One accelerator, once a second."""

    def allocator(self, allocator: wire.Allocator) -> None:
        """The allocator of one device, once a second."""

    def compiler(self, compiler: wire.Compiler) -> None:
        """What torch.compile has done."""

    def heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        """Once a second."""

    def resumed(self) -> None:
        """A new attempt of this rank goes on where an earlier one stopped."""

    def gone(self, evidence: str, at: int, *, continued: bool) -> None:
        """The process is gone, after step `at`: `evidence` says how that is known.

        `continued`: another attempt of the rank has taken over since.
        """

    def stopped(self, evidence: str) -> None:
        """The process is held by a signal, as `evidence` says; told again and again while it is."""


class RunRule:
    """Base of the rules that look at all ranks of a run together. One instance a run.

    Blocks of the ranks come in the order in which they were read, which is not that of their clocks: compare by step.
    """

    def __init__(self, book: Book, ranks: Sequence[Context]) -> None:
        self.book = book
        self.ranks = ranks
        """The contexts of all ranks seen so far; grows."""

    def steps(self, context: Context, block: StepBlock) -> None:
        """A block of finished steps of the rank that `context` belongs to."""

    def layers(self, context: Context, sample: LayerSample) -> None:
        """The layers of one sampled step of a rank."""

    def heartbeat(self, context: Context, beat: wire.Heartbeat) -> None:
        """Once a second, of each rank."""

    def settled(self) -> None:
        """Everything that has been recorded by now is told, of every rank that there is."""


def across(kind: type[RunRule]) -> type[RunRule]:
    """Class decorator: the engine runs this rule once for the whole run."""
    ACROSS.append(kind)
    return kind


def rule(kind: type[Rule]) -> type[Rule]:
    """Class decorator: the engine runs this rule for every rank."""
    REGISTRY.append(kind)
    return kind
