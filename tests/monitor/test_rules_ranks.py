"""Ranks beside each other, from records: a straggler, replicas that drift apart, steps that are not the same."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import NAMES, Script, beat, descent, diagnose, hello, kinds, layers, only, schema, weighty, wobble
from .test_rules_performance import timed, usual

Records = list[wire.Record]


def of(rank: int, records: Records, world: int = 4) -> Records:
    """The records of a rank; its hello comes first."""
    known = records[0]
    assert isinstance(known, wire.Hello)
    return [msgspec.structs.replace(known, rank=rank, world=world), *records[1:]]


def together(ranks: list[Records], *, order: str = "mixed") -> Engine:
    """All ranks into one engine: record by record in turn, or one rank after the other."""
    engine = Engine()
    if order == "mixed":
        for at in range(max(map(len, ranks))):
            for writer, records in enumerate(ranks):
                diagnose(records[at : at + 1], writer=writer, engine=engine)
    else:
        for writer, records in enumerate(ranks):
            diagnose(records, writer=writer, engine=engine)
    return engine


def paced(late: Callable[[int, int], float], world: int = 4, steps: int = 480) -> list[Records]:
    """Ranks whose fetch takes `late(rank, step)` seconds longer, while the others wait in backward."""
    runs = []
    for rank in range(world):

        def phases(step: int, rank: int = rank) -> dict[str, float]:
            mine, worst = late(rank, step), max(late(other, step) for other in range(world))
            seconds = usual(step + 7 * rank)
            return {**seconds, "data": seconds["data"] + mine, "backward": seconds["backward"] + worst - mine}

        script = timed(phases, steps, workers=2, between=lambda step, t: [beat(t, step)])
        runs.append(of(rank, script.records, world))
    return runs


@pytest.mark.parametrize("order", ["mixed", "one after the other"])
@pytest.mark.parametrize("world", [2, 4])
def test_rank_that_the_others_wait_for_is_named_with_its_phase(world: int, order: str) -> None:
    ranks = paced(lambda rank, step: 0.03 if rank == 1 and step >= 200 else 0.0, world)
    finding = only(together(ranks, order=order), "straggler")
    assert (finding.rank, finding.where, finding.severity) == (1, "data", "warning")
    assert abs(finding.first_step - 200) <= 32 and "30 ms longer than its peers" in finding.symptom


def test_ranks_that_are_there_are_compared_when_others_are_missing() -> None:
    ranks = paced(lambda rank, step: 0.03 if rank == 1 and step >= 200 else 0.0, 4)
    engine = together(ranks[:3], order="one after the other")
    assert "straggler" not in kinds(engine), "the fourth may still come"
    engine.settle()
    finding = only(engine, "straggler")
    assert finding.rank == 1 and abs(finding.first_step - 200) <= 32
    assert "3 of 4 ranks" in finding.claim.open_questions[-1]


def test_ranks_go_on_to_be_compared_after_one_has_died() -> None:
    ranks = paced(lambda rank, step: 0.03 if rank == 1 and step >= 500 else 0.0, 4, steps=960)
    engine = together([*ranks[:3], ranks[3][: len(ranks[3]) // 4]])
    engine.settle()
    assert only(engine, "straggler").rank == 1


def test_ranks_that_are_late_in_turn_and_ranks_alike_raise_nothing() -> None:
    assert kinds(together(paced(lambda rank, step: 0.04 if (step // 16) % 4 == rank else 0.0))) == []
    assert kinds(together(paced(lambda rank, step: 0.004 * rank))) == []


def test_rank_that_keeps_up_again_resolves_it() -> None:
    ranks = paced(lambda rank, step: 0.03 if rank == 2 and 100 <= step < 250 else 0.0)
    assert only(together(ranks), "straggler").status == "resolved"


def trained(rank: int, norms: Callable[[int], float], weight: Callable[[int], float], steps: int = 120) -> Records:
    script = Script().add(hello(), schema())
    for start in range(0, steps, 8):
        script.add(layers(start, script.t, param_norm=[weight(start) * (1 + at) for at in range(len(NAMES))]))
        script.steps(
            [loss * (1 + 0.02 * wobble(rank + step)) for step, loss in enumerate(descent(steps)[start : start + 8])],
            grad_norm=[norms(step) for step in range(start, start + 8)],
        )
    return of(rank, script.records)


def test_replicas_that_drift_apart_are_critical_and_say_since_when() -> None:
    def norm(rank: int, step: int) -> float:
        return 1.0 + 0.1 * wobble(step) + (0.2 * rank if step >= 64 else 0.0)

    ranks = [trained(rank, lambda step, rank=rank: norm(rank, step), lambda step: 5.0) for rank in range(4)]  # type: ignore[misc]
    finding = only(together(ranks), "rank-divergence")
    assert (finding.severity, finding.first_step, finding.where) == ("critical", 64, "gradients")
    assert "rank 3" in finding.evidence[1].text


def test_model_that_was_never_wrapped_is_seen_by_its_weights() -> None:
    ranks = [
        trained(rank, lambda step, rank=rank: 1.0 + rank, lambda step, rank=rank: 5.0 * (1 + 1e-4 * rank * step))  # type: ignore[misc]
        for rank in range(4)
    ]
    finding = only(together(ranks), "rank-divergence")
    assert finding.where in NAMES and finding.first_step == 8


def sharded(rank: int) -> tuple[Callable[[int], float], Callable[[int], float]]:
    return lambda step: 1.0 + rank, lambda step: 5.0 + rank + 0.01 * step


def test_replicas_that_are_the_same_and_shards_that_never_were_raise_nothing() -> None:
    same = [trained(rank, lambda step: 1.0 + 0.3 * wobble(step), lambda step: 5.0 + 0.01 * step) for rank in range(4)]
    assert kinds(together(same)) == []
    parts = [trained(rank, *sharded(rank)) for rank in range(4)]
    assert kinds(together(parts)) == []


def test_rank_that_is_behind_at_the_same_time_is_out_of_step() -> None:
    def run(rank: int, step_time: float) -> Records:
        return of(rank, Script(step_time=step_time).add(hello(), schema()).steps(descent(600)).records, 2)

    finding = only(together([run(0, 0.1), run(1, 0.2)]), "rank-desync")
    assert (finding.rank, finding.severity) == (1, "warning")
    mine, first = finding.evidence
    assert mine.value is not None and first.value is not None and mine.value + 10 < first.value
    assert finding.first_step == mine.step == mine.value - 1, "where it was when it was compared"
    assert weighty(together([run(0, 0.1), run(1, 0.101)])) == []


@pytest.mark.parametrize("order", ["mixed", "one after the other"])
def test_quick_ranks_in_step_whose_heartbeats_come_at_other_moments_are_in_step(order: str) -> None:
    def run(rank: int) -> Records:
        # 76 steps a second, with pauses that make the p99 long; the second rank beats most of a second later.
        script = Script(block=4, _beat=100.0 + 0.95 * rank).add(hello(), schema())
        for _ in range(60):
            script.step_time = 0.012
            script.steps(descent(48))
            script.step_time = 0.065
            script.steps(descent(1))
        return of(rank, script.records, 2)

    assert "rank-desync" not in kinds(together([run(0), run(1)], order=order))


def test_ranks_read_one_after_the_other_are_in_step_however_long_they_ran() -> None:
    beats = [beat(100.0 + second, 10 * second) for second in range(1500)]
    assert kinds(together([of(rank, [hello(), *beats]) for rank in range(4)], order="one after the other")) == []


def test_clean_ends_of_all_ranks_are_one_note() -> None:
    ranks = [of(rank, Script().add(hello()).steps(descent(40)).event("exit", code=0).records) for rank in range(4)]
    engine = together(ranks)
    finding = only(engine, "exited")
    assert finding.severity == "info" and finding.symptom == "4 processes ended, the last after step 39"
    engine.process_gone(2, "pid 3 is gone")
    assert kinds(engine) == ["exited"]


def test_ranks_that_end_before_their_last_step_say_of_how_many() -> None:
    script = Script().add(hello(total_steps=300)).steps(descent(40)).event("exit", code=None)
    engine = together([of(rank, script.records) for rank in range(4)])
    finding = only(engine, "exited")
    assert finding.symptom == "4 processes ended, the last after step 39 of 300"
    assert finding.claim.hypothesis.startswith("It stopped before its last step")


def test_launcher_that_is_gone_has_not_died() -> None:
    command = ["python", "-m", "torch.distributed.run", "--standalone", "train.py"]
    known = hello()
    launcher = msgspec.structs.replace(known, manifest=msgspec.structs.replace(known.manifest, command=command))
    engine = diagnose([launcher])
    engine.process_gone(1, "pid 1 is gone")
    assert kinds(engine) == []
