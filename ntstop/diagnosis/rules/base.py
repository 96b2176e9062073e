"""What a rule is: an observer of one rank's records that writes findings into the book."""

from __future__ import annotations

from ntstop_probe import wire

from ..context import Context, LayerSample, StepBlock

REGISTRY: list[type[Rule]] = []


class Rule:
    """Base of all rules: override the records you judge by. One instance a rank; it may keep state.

    Records come in the order of their sequence numbers, live and replayed alike. Never use the time of arrival.
    """

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

    def heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        """Once a second."""

    def resumed(self) -> None:
        """A new attempt of this rank goes on where an earlier one stopped."""

    def gone(self, evidence: str, at: int, *, continued: bool) -> None:
        """The process is gone, after step `at`: `evidence` says how that is known.

        `continued`: another attempt of the rank has taken over since.
        """


def rule(kind: type[Rule]) -> type[Rule]:
    """Class decorator: the engine runs this rule for every rank."""
    REGISTRY.append(kind)
    return kind
