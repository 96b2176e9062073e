"""Which of a node's CUDA devices are this process's: what CUDA makes of `CUDA_VISIBLE_DEVICES`, without asking CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def visible_devices(
    uuids: Sequence[str], environment: Mapping[str, str], parts: Mapping[str, Sequence[str]] | None = None
) -> dict[int, str]:
    """The devices of this process: UUID by index in CUDA's eyes.

    `uuids`: whole GPUs in NVML's order. `parts`: the MIG devices of those that are divided. `CUDA_VISIBLE_DEVICES`
    holds numbers or beginnings of UUIDs; like CUDA, stop at the first that is neither. A divided GPU stands for its
    first part, and CUDA shows a single part only. Where every rank sees all devices, this rank's own is the one of its
    `LOCAL_RANK`. Numbers are taken in NVML's order, which is CUDA's as long as the GPUs are alike.
    """
    parts = parts or {}
    given = environment.get("CUDA_VISIBLE_DEVICES")
    chosen = list(uuids) if given is None else _named(given, uuids, parts)
    found: list[str] = []
    for uuid in chosen:
        uuid = parts[uuid][0] if parts.get(uuid) else uuid
        if uuid in found:
            break
        found.append(uuid)
    if found and any(found[0] in pieces for pieces in parts.values()):
        found = found[:1]
    else:
        found = [uuid for uuid in found if uuid in uuids]
    return _of_local_rank(dict(enumerate(found)), environment)


def _named(words: str, uuids: Sequence[str], parts: Mapping[str, Sequence[str]]) -> list[str]:
    everything = [*uuids, *(piece for pieces in parts.values() for piece in pieces)]
    named: list[str] = []
    for word in (part.strip() for part in words.split(",")):
        if word.isdigit():
            matches = list(uuids[int(word) : int(word) + 1])
        else:
            matches = [uuid for uuid in everything if word and uuid.startswith(word)]
        if len(matches) != 1:
            break
        named += matches
    return named


def _of_local_rank(devices: dict[int, str], environment: Mapping[str, str]) -> dict[int, str]:
    try:
        local_rank = int(environment["LOCAL_RANK"])
        local_world = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    except (KeyError, ValueError):
        return devices
    if 1 < local_world <= len(devices) and local_rank in devices:
        return {local_rank: devices[local_rank]}
    return devices
