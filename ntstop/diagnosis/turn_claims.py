"""What is said of a loader whose batches are late in turn: one worker of several, or something that comes now and
then."""

from __future__ import annotations

from .detectors.turns import Turns
from .evidence import seconds
from .finding import Evidence
from .layer_names import listed


def of_workers(turns: Turns, workers: int | None) -> bool:
    """Whether the turns can be those of the workers: the loader takes their batches round robin."""
    return workers is not None and workers > 1 and workers % turns.period == 0


def by_itself(turns: Turns | None, workers: int | None) -> bool:
    """Whether the loader itself makes the late turns, whatever else runs on the host.

    Equal workers that are all too slow, for want of cores too, deliver their batches together: of each round the first
    is waited for. Nothing else than the loader has another period, or holds up always the same one of its workers.
    """
    return turns is not None and (turns.unequal or (workers is not None and not of_workers(turns, workers)))


def turn_words(turns: Turns) -> str:
    """ "each 4th step waits 190 ms, the others 4 ms"."""
    if len(turns.late) == 1:
        which = f"each {_nth(turns.period)} step waits"
    else:
        which = f"{len(turns.late)} of each {turns.period} steps wait"
    return f"{which} {seconds(turns.wait)}, the others {seconds(turns.others)}"


def turn_evidence(turns: Turns, workers: int | None) -> list[Evidence]:
    """The period with its numbers, and whose turn it is."""
    items = [
        Evidence(
            f"{turn_words(turns)} (medians, steps {turns.x0:,} to {turns.x1:,}): {turns.share:.0%} of all waiting",
            "data",
            turns.x1,
            turns.wait,
            "s",
        )
    ]
    if workers is not None and of_workers(turns, workers) and turns.single:
        named = [f"{number}" for number in range(workers) if number % turns.period in turns.late]
        text = f"batches come from the workers in turn: these are of worker {listed(named)} of 0 to {workers - 1}"
        items.append(Evidence(text, "data", turns.x1, float(turns.late[0]), "", "estimated"))
    return items


def turn_cause(turns: Turns, workers: int | None) -> str:
    """What makes every so many batches late."""
    if workers is None:
        return (
            f"Either the loader has workers, takes batches from them in turn, and one of them is slower; or it does "
            f"something slow {_often(turns)}, such as opening the next file or shard."
        )
    if not of_workers(turns, workers):
        return (
            f"The loader does something slow {_often(turns)}: it opens the next file or shard, or fills "
            "a buffer for shuffling; the batches between come quickly."
        )
    one = f"One of the {workers} workers is slower" if len(turns.late) == 1 else "Some of the workers are slower"
    if turns.unequal:
        return (
            f"{one} than the others, or what it reads is (its shard, its files, its disk): batches are taken from the "
            "workers in turn, so all wait for it."
        )
    return (
        f"{one} than the others, or what it reads is, and batches are taken from the workers in turn. Or all of them "
        "are equally slow: then they deliver together, and the first batch of each round is waited for."
    )


def turn_fix(turns: Turns, workers: int | None) -> str:
    """What to look at first."""
    if not of_workers(turns, workers):
        return (
            "Do that ahead of time, in another worker or thread: open the next file before the last one ends, in "
            "smaller shards; raise prefetch_factor until the queue outlasts it."
        )
    time_it = "Time what each worker loads, by torch.utils.data.get_worker_info().id"
    spread = (
        "store its data as the others' (compression, format, place), or spread it over all workers, sample by sample"
    )
    if turns.unequal:
        return f"{time_it}; {spread}. More workers or cores do not help while one of them is behind."
    return f"{time_it}: if one is slower, {spread}; if all are alike, they need less work, or to be more."


def _often(turns: Turns) -> str:
    return f"{'once' if len(turns.late) == 1 else f'{len(turns.late)} times'} in {turns.period} batches"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number // 10 % 10 != 1 else "th"
    return f"{number}{ending}"
