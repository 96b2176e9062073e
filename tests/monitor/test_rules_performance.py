"""What the steps wait for, from records: input, compiler, slower steps, memory, devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, manifest, only, schema, weighty, wobble


def timed(
    seconds: Callable[[int], dict[str, float]],
    count: int,
    *,
    workers: int | None = 0,
    between: Callable[[int, float], Sequence[wire.Record]] = lambda step, t: (),
    block: int = 8,
) -> Script:
    """A run whose step number `i` takes the phases `seconds(i)`; `between` adds records before each block."""
    script = Script().add(hello(of=msgspec.structs.replace(manifest(), workers=workers)), schema())
    t, losses = 100.0, descent(count)
    for start in range(0, count, block):
        steps = range(start, min(start + block, count))
        rows = [seconds(step) for step in steps]
        script.add(*between(start, t))
        ends = []
        for row in rows:
            t += sum(row.values())
            ends.append(t)
        clock, losses_column = wire.pack("f8", ends), wire.pack("f8", losses[start : start + block])
        assert clock is not None and losses_column is not None
        names = sorted({name for row in rows for name in row})
        phases = {name: wire.pack("f4", [row.get(name) for row in rows]) for name in names}
        script.add(
            wire.Steps(
                count=len(rows),
                ordinal=start,
                t=clock,
                duration=wire.pack("f4", [sum(row.values()) for row in rows]),
                losses={"loss": losses_column},
                phases={name: column for name, column in phases.items() if column is not None},
            )
        )
    return script


def usual(step: int, data: float = 0.001) -> dict[str, float]:
    jitter = 1.0 + 0.1 * wobble(step)
    return {"data": data * jitter, "forward": 0.03 * jitter, "backward": 0.06 * jitter, "other": 0.001}


def test_steady_steps_with_evaluations_and_checkpoints_in_them_raise_nothing() -> None:
    def seconds(step: int) -> dict[str, float]:
        slow = {"eval": 9.0} if step % 100 == 99 else {"checkpoint": 20.0} if step % 100 == 50 else {}
        return {**usual(step), **slow}

    assert kinds(diagnose(timed(seconds, 1000).records)) == []


def test_slow_loader_is_input_bound_with_what_it_was_before_and_the_workers_in_the_fix() -> None:
    engine = diagnose(timed(lambda step: usual(step, 0.002 if step < 400 else 0.06), 800).records)
    finding = only(engine, "input-bound")
    assert weighty(engine) == ["input-bound"]
    assert (finding.severity, finding.where, finding.status) == ("warning", "data", "open")
    assert finding.first_step == 400
    assert "% before step" in finding.symptom and "40%" in finding.symptom
    assert "num_workers=" in finding.claim.fix and finding.claim.open_questions == []
    assert [item.basis for item in finding.evidence] == ["measured", "measured", "estimated", "measured"]


def test_loading_that_became_slower_says_so_with_both_times_unless_workers_hide_them() -> None:
    def told(workers: int) -> str:
        script = timed(lambda step: usual(step, 0.002 if step < 400 else 0.06), 800, workers=workers)
        return only(diagnose(script.records), "input-bound").claim.hypothesis

    times = re.search(r"Loading a batch itself took (\S+) ms before step \d+ and takes (\S+) ms since", told(0))
    assert times is not None, told(0)
    assert 2.0 <= float(times[1]) <= 5.0 and 30.0 < float(times[2]) < 80.0
    assert "Loading a batch itself" not in told(2)
    always = only(diagnose(timed(lambda step: usual(step, 0.06), 400).records), "input-bound")
    assert "Loading a batch itself" not in always.claim.hypothesis


def test_unknown_number_of_workers_is_asked_for() -> None:
    finding = only(diagnose(timed(lambda step: usual(step, 0.06), 200, workers=None).records), "input-bound")
    assert "How many workers" in finding.claim.open_questions[0] and finding.evidence[-1].basis == "unchecked"


def test_input_that_keeps_up_again_resolves_it() -> None:
    script = timed(lambda step: usual(step, 0.06 if 200 <= step < 400 else 0.002), 700)
    finding = only(diagnose(script.records), "input-bound")
    assert (finding.status, finding.severity) == ("resolved", "info")


def test_fetches_of_a_millisecond_are_a_note() -> None:
    tiny = {"data": 0.001, "forward": 0.0005, "backward": 0.0005}
    assert only(diagnose(timed(lambda step: tiny, 2000).records), "input-bound").severity == "info"


def test_loader_behind_a_busy_gpu_is_a_note() -> None:
    def gpu(step: int, t: float) -> list[wire.Record]:
        return [wire.Device(t=t, index=0, utilization=97.0)]

    script = timed(lambda step: usual(step, 0.06), 400, between=gpu)
    assert only(diagnose(script.records), "input-bound").severity == "info"


def test_a_loader_whose_cores_others_hold_is_a_note_and_not_laid_to_the_disk() -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        return [wire.Host(t=t, process_cpu=0.3, children_cpu=0.2, host_cpu=4.0, cores=4)]

    script = timed(lambda step: usual(step, 0.06), 400, between=host, workers=2)
    of = msgspec.structs.replace(manifest(), hardware={"cores": "4"}, workers=2)
    finding = only(diagnose([hello(of=of), *script.records[1:]]), "input-bound")
    assert finding.severity == "info" and "hold its cores" in finding.claim.hypothesis


def test_a_loader_that_was_quick_beside_the_same_others_is_slow_by_itself() -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        return [wire.Host(t=t, process_cpu=0.1, host_cpu=4.0, cores=4)]

    script = timed(lambda step: usual(step, 0.002 if step < 400 else 0.06), 900, between=host)
    of = msgspec.structs.replace(manifest(), hardware={"cores": "4"})
    finding = only(diagnose([hello(of=of), *script.records[1:]]), "input-bound")
    assert finding.severity == "warning" and "hold its cores" not in finding.claim.hypothesis


def in_turn(step: int, period: int = 4, late: int = 2, wait: float = 0.2) -> dict[str, float]:
    """Each `period`-th step waits, one time in eight not; the others hardly ever."""
    slow = step % period == late and wobble(step // period) < 0.75
    return usual(step, wait if slow or step % 61 == 0 else 0.004)


def crowded(script: Script, workers: int | None) -> Engine:
    of = msgspec.structs.replace(manifest(), hardware={"cores": "2"}, workers=workers)
    return diagnose([hello(of=of), *script.records[1:]])


def others(step: int, t: float) -> list[wire.Record]:
    return [wire.Host(t=t, process_cpu=0.1, children_cpu=0.2, host_cpu=2.0, cores=2)]


def test_one_slow_worker_of_four_is_told_by_the_turn_of_its_batches_also_on_a_crowded_host() -> None:
    finding = only(crowded(timed(in_turn, 700, between=others), 4), "input-bound")
    assert finding.severity == "warning"
    assert re.search(r"each 4th step waits (19|20)\d ms, the others 4 ms", finding.symptom), finding.symptom
    assert finding.claim.hypothesis.startswith("One of the 4 workers is slower than the others")
    assert any("of worker 2 of 0 to 3" in item.text and item.basis == "estimated" for item in finding.evidence)


def test_turns_are_counted_anew_in_each_pass_over_the_data() -> None:
    script = timed(lambda step: in_turn(step % 150), 600, workers=4)
    records = [
        msgspec.structs.replace(
            record, epoch=wire.pack("i4", [(record.ordinal + index) // 150 for index in range(record.count)])
        )
        if isinstance(record, wire.Steps)
        else record
        for record in script.records
    ]
    finding = only(diagnose(records), "input-bound")
    assert any("of worker 2 of 0 to 3" in item.text for item in finding.evidence), finding.symptom


def test_equal_workers_that_deliver_together_are_not_laid_to_one_of_them() -> None:
    script = timed(lambda step: in_turn(step, late=0), 700, between=others)
    quiet = only(
        diagnose([hello(of=msgspec.structs.replace(manifest(), workers=4)), *script.records[1:]]), "input-bound"
    )
    assert "equally slow" in quiet.claim.hypothesis and "each 4th step" in quiet.symptom
    assert "hold its cores" in only(crowded(script, 4), "input-bound").claim.hypothesis


def test_a_period_that_ends_while_the_loader_stays_slow_is_no_longer_told() -> None:
    script = timed(lambda step: in_turn(step, late=0) if step < 150 else usual(step, 0.06), 3000, workers=4)
    finding = only(diagnose(script.records), "input-bound")
    assert finding.status == "open" and "each 4th" not in finding.symptom


@pytest.mark.parametrize("workers", [0, 2])
def test_a_period_that_is_not_the_workers_is_laid_to_what_comes_once_in_so_many_batches(workers: int) -> None:
    script = timed(lambda step: in_turn(step, period=10, late=7, wait=0.9), 700, between=others)
    finding = only(crowded(script, workers), "input-bound")
    assert finding.severity == "warning" and "once in 10 batches" in finding.claim.hypothesis


def test_waits_without_a_period_have_none() -> None:
    script = timed(lambda step: usual(step, 0.2 if wobble(step * step) > 0.5 else 0.004), 700, workers=4)
    assert "each" not in only(diagnose(script.records), "input-bound").symptom


def test_a_first_window_that_is_nearly_as_slow_is_no_time_before() -> None:
    finding = only(diagnose(timed(lambda step: usual(step, 0.03 if step < 9 else 0.08), 300).records), "input-bound")
    assert "from the first steps on" in finding.symptom and finding.first_step < 9


def test_a_phase_of_the_jobs_own_names_the_copies() -> None:
    script = timed(lambda step: {**usual(step), "h2d": 0.05}, 200)
    assert only(diagnose(script.records), "transfer-bound").where == "transfer"


@pytest.mark.parametrize(("utilization", "said"), [(20.0, ["gpu-underutilized"]), (85.0, []), (None, [])])
def test_gpu_that_waits_while_the_loader_does_not(utilization: float | None, said: list[str]) -> None:
    def gpu(step: int, t: float) -> list[wire.Record]:
        return [wire.Device(t=t, index=0, utilization=utilization), wire.Host(t=t, process_cpu=1.0, cores=8)]

    engine = diagnose(timed(usual, 800, between=gpu).records)
    assert weighty(engine) == said
    if said:
        assert any("copies" in question for question in only(engine, said[0]).claim.open_questions)


@pytest.mark.parametrize("at", range(400, 409))
def test_what_became_slow_did_at_that_step_and_not_at_the_window_of_eight_around_it(at: int) -> None:
    def seconds(step: int) -> dict[str, float]:
        return usual(step, 0.2) if step >= at else {**usual(step), "data": 0.0}

    engine = diagnose(timed(seconds, 800).records)
    finding = only(engine, "input-bound")
    assert finding.first_step == at and f"0% before step {at}" in finding.symptom
    since = finding.evidence[1]
    assert since.value == pytest.approx(0.2 / (0.2 + 0.091), rel=0.1)


@pytest.mark.parametrize("at", range(400, 409))
def test_steps_became_slower_at_that_step_and_not_at_the_window_of_eight_around_it(at: int) -> None:
    def seconds(step: int) -> dict[str, float]:
        return {**usual(step), "other": 0.12 if step >= at else 0.001}

    finding = only(diagnose(timed(seconds, 800).records), "step-time-regression")
    assert finding.first_step == at and f"since step {at}" in finding.symptom


def slower(step: int) -> dict[str, float]:
    return {**usual(step), "other": 0.001 if step < 400 else 0.12}


@pytest.mark.parametrize("block", [1, 8, 64])
def test_steps_that_became_slower_name_the_phase_whatever_the_blocks(block: int) -> None:
    finding = only(diagnose(timed(slower, 800, block=block).records), "step-time-regression")
    assert (finding.severity, finding.where) == ("warning", "other") and finding.first_step == 400
    assert finding.evidence[0].text.startswith("before: 92 ms") and finding.evidence[1].value == pytest.approx(
        0.2, rel=0.2
    )


def test_slower_steps_are_over_when_they_come_back() -> None:
    script = timed(lambda step: slower(step) if step < 600 else usual(step), 900)
    finding = only(diagnose(script.records), "step-time-regression")
    assert (finding.status, finding.severity) == ("resolved", "info")


@pytest.mark.parametrize("before", [(1.0, 1.1), (1.0, 4.0)])
def test_slower_steps_of_a_host_that_others_crowd_or_have_crowded_are_a_note(before: tuple[float, float]) -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        mine, all_of_it = before if step < 400 else (0.4, 4.0)
        return [wire.Host(t=t, process_cpu=mine, host_cpu=all_of_it, cores=4)]

    script = timed(lambda step: {n: s * (1 if step < 400 else 2.5) for n, s in usual(step).items()}, 900, between=host)
    of = msgspec.structs.replace(manifest(), hardware={"cores": "4"})
    finding = only(diagnose([hello(of=of), *script.records[1:]]), "step-time-regression")
    assert finding.severity == "info" and "compete" in finding.claim.hypothesis


def test_steps_that_are_slow_at_the_same_place_of_every_epoch_are_no_change() -> None:
    def long(step: int) -> dict[str, float]:
        return {name: second * (1.0 if step % 400 < 200 else 3.0) for name, second in usual(step).items()}

    def epoch(step: int, t: float) -> list[wire.Record]:
        return [wire.Event(t=t, kind="epoch", ordinal=step)] if step % 400 == 0 else []

    engine = diagnose(timed(long, 2400, between=epoch).records)
    found = [finding for finding in engine.findings if finding.kind == "step-time-regression"]
    assert [finding.status for finding in found] in ([], ["resolved"])


def test_slow_seconds_now_and_then_are_no_change() -> None:
    script = timed(lambda step: {n: s * (3 if step % 150 < 12 else 1) for n, s in usual(step).items()}, 3000)
    assert kinds(diagnose(script.records)) == []


def compiled(counts: Callable[[int], int]) -> Engine:
    def compiler(step: int, t: float) -> list[wire.Record]:
        return [wire.Compiler(t=t, graphs=1, graph_breaks=0, recompiles=counts(step), seconds=0.5 * counts(step))]

    return diagnose(timed(usual, 400, between=compiler).records)


def test_recompilations_that_never_end_are_a_storm_and_those_of_the_start_are_not() -> None:
    finding = only(compiled(lambda step: step // 10), "recompile-storm")
    assert finding.severity == "warning" and "TORCH_LOGS=recompiles" in finding.claim.fix
    assert kinds(compiled(lambda step: min(step, 5))) == []


# Memory


def remembered(rss: Callable[[int], float], count: int = 600, **more: float) -> Engine:
    def host(step: int, t: float) -> list[wire.Record]:
        own = int(rss(step))
        return [wire.Host(t=t, process_rss=own, memory_used=own + 4 * 10**9, memory_total=64 * 10**9, **more)]  # type: ignore[arg-type]

    return diagnose(timed(usual, count, between=host).records)


MB = 1e6


@pytest.mark.parametrize(
    "rss",
    [
        lambda step: 500 * MB + 5 * MB * wobble(step),
        lambda step: 500 * MB + min(step, 30) * 20 * MB,
        lambda step: 500 * MB + 300 * MB * (1 - 0.98**step),
        lambda step: 500 * MB + (400 * MB if step > 200 else 0),
        lambda step: 500 * MB + 150 * MB * (step % 60) / 60,
    ],
    ids=["steady", "start-up", "fills up", "one jump", "sawtooth of the epochs"],
)
def test_memory_that_settles_raises_nothing(rss: Callable[[int], float]) -> None:
    assert kinds(remembered(rss)) == []


def test_memory_that_creeps_up_says_how_fast_and_until_when() -> None:
    engine = remembered(lambda step: 500 * MB + step * MB + 5 * MB * wobble(step))
    finding = only(engine, "memory-growth")
    assert weighty(engine) == ["memory-growth"] and finding.where == "host memory"
    assert finding.severity == "warning" and "full in about" in finding.symptom
    slope = next(item for item in finding.evidence if item.unit == "B/s")
    assert slope.value == pytest.approx(1e6 / 0.092, rel=0.1) and "kB a step" in slope.text


def test_growth_that_ends_is_resolved() -> None:
    finding = only(remembered(lambda step: 500 * MB + min(step, 500) * MB, 3000), "memory-growth")
    assert finding.status == "resolved" and "stopped growing" in finding.symptom
    told = [finding.symptom, *(item.text for item in finding.evidence)]
    assert not any("full in" in text for text in told), "what it would come to is over, too"


def test_workers_that_grow_are_told_apart_from_the_process() -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        return [wire.Host(t=t, process_rss=10**9, children=4, children_private=int(2e9 + step * 4e6))]

    finding = only(diagnose(timed(usual, 1400, workers=4, between=host).records), "memory-growth")
    assert finding.where == "loader workers" and "arrays" in finding.claim.fix
    assert any("is not known" in item.text and item.basis == "unchecked" for item in finding.evidence)


def test_workers_that_fill_up_until_torch_lets_go_of_what_they_have_sent_are_no_leak() -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        own = int(7e7 + 2e6 * min(step, 300))
        return [wire.Host(t=t, process_rss=10**9, children=4, children_private=own, children_rss=own + 10**9)]

    assert kinds(diagnose(timed(usual, 1400, workers=4, between=host).records)) == []


def test_pages_that_workers_copy_are_told_from_memory_that_is_new() -> None:
    def told(fresh: bool) -> list[str]:
        def host(step: int, t: float) -> list[wire.Record]:
            own = int(2e7 + 2e6 * min(step, 250))
            whole = own + 10**9 if fresh else 13 * 10**8
            return [wire.Host(t=t, process_rss=10**9, children=2, children_private=own, children_rss=whole)]

        return kinds(diagnose(timed(usual, 600, workers=2, between=host).records))

    assert (told(False), told(True)) == (["memory-growth"], [])


def test_host_that_is_nearly_full_is_a_risk_and_a_kill_in_it_is_out_of_memory() -> None:
    def host(step: int, t: float) -> list[wire.Record]:
        return [wire.Host(t=t, process_rss=10**9, memory_used=62 * 10**9, memory_total=64 * 10**9)]

    engine = diagnose(timed(usual, 200, between=host).records)
    assert weighty(engine) == ["oom-risk"]
    engine.process_gone(1, "pid 1 is gone and left no exit record")
    assert weighty(engine) == ["oom"]
    assert {finding.kind for finding in only(engine, "oom").explained} == {"oom-risk", "died"}


def test_out_of_memory_exception_is_told_as_that_and_explains_the_exit() -> None:
    script = timed(usual, 40)
    script.event("exception", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", where="f (m.py:3)")
    engine = diagnose(script.event("exit", code=1).records)
    assert weighty(engine) == ["oom"] and only(engine, "oom").where == "GPU"


def allocated(**figures: int) -> Engine:
    def gpu(step: int, t: float) -> list[wire.Record]:
        retries = step // 40 if figures.get("retries") else 0
        return [
            wire.Device(t=t, index=0, memory_total=80 * 10**9),
            wire.Allocator(t=t, index=0, allocated=40 * 10**9, **{**figures, "retries": retries}),
        ]

    return diagnose(timed(usual, 400, between=gpu).records)


def test_pieces_and_retries_of_the_allocator() -> None:
    assert weighty(allocated(reserved=76 * 10**9, inactive_split=30 * 10**9, retries=1)) == ["fragmentation"]
    assert weighty(allocated(reserved=76 * 10**9, inactive_split=10**9, retries=1)) == ["oom-risk"]
    assert weighty(allocated(reserved=50 * 10**9, inactive_split=15 * 10**9)) == []
    assert weighty(allocated(reserved=78 * 10**9, inactive_split=10**9)) == []


# Devices


def watched(reading: Callable[[int], dict[str, object]]) -> Engine:
    def gpu(step: int, t: float) -> list[wire.Record]:
        return [wire.Device(t=t, index=1, utilization=90.0, **reading(step))]  # type: ignore[arg-type]

    return diagnose(timed(usual, 400, between=gpu).records)


def test_heat_is_a_warning_and_a_power_cap_is_not() -> None:
    finding = only(watched(lambda step: {"throttle": ["thermal slowdown (hardware)"]}), "thermal-throttle")
    assert (finding.severity, finding.where, finding.status) == ("warning", "GPU 1", "open")
    hot = watched(lambda step: {"throttle": ["thermal slowdown (software)"] if step < 200 else []})
    assert only(hot, "thermal-throttle").status == "resolved"
    assert kinds(watched(lambda step: {"throttle": ["power cap"]})) == []
    assert kinds(watched(lambda step: {"throttle": ["hardware slowdown"] if step % 80 == 0 else []})) == []


def test_memory_errors_that_come_during_the_run_are_critical_and_old_ones_a_note() -> None:
    assert only(watched(lambda step: {"ecc_uncorrected": 2}), "ecc-errors").severity == "info"
    engine = watched(lambda step: {"ecc_uncorrected": step // 200})
    assert only(engine, "ecc-errors").severity == "critical"


def test_lost_gpu_is_critical() -> None:
    assert only(watched(lambda step: {"lost": step > 200}), "gpu-lost").severity == "critical"
