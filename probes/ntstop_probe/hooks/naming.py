"""What the parameters of an optimizer are called: by the model that was watched, else by the one that is found."""

from __future__ import annotations

import gc
import math
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, tee
from typing import Any

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"})
"""Attributes that wrappers put between a module and itself, anywhere in a name; DDP's "module" only in front."""


@dataclass(slots=True)
class Layer:
    """One parameter. `ref` is weak: the probe keeps no tensor of the job alive."""

    name: str
    ref: weakref.ReferenceType[Any]
    numel: int
    dtype: str
    frozen: bool
    in_optimizer: bool
    shards: int = 1
    """Ranks it is split over; its norms are those of the part that is here."""


def clean_name(name: str) -> str:
    """`name` without what DDP, torch.compile, FSDP and checkpoint wrappers add to it."""
    parts = [part for part in name.split(".") if part not in _WRAPPERS]
    while len(parts) > 1 and parts[0] == "module":
        del parts[0]
    return ".".join(parts)


def find_model(parameters: Sequence[Any]) -> Any | None:
    """The module that holds most of `parameters`; of several, the outermost. None: no module holds any.

    One scan of all objects the garbage collector knows, about 100 ms for a million: to be done once. Only types are
    asked, never the objects: an `isinstance` may run code of the job.
    """
    wanted = {id(parameter) for parameter in parameters}
    best, best_key = None, (0, 0, 0)
    for candidate in _modules():
        if "_parameters" not in candidate.__dict__:
            continue
        held, total, modules = _count(candidate, wanted)
        if held and (held, total, modules) > best_key:
            best, best_key = candidate, (held, total, modules)
    return best


def _modules() -> list[Any]:
    """All live instances of `torch.nn.Module`.

    The scan is one call into C, so no other thread runs while it holds a reference to everything: a thread that is
    just building a tuple would find it shared, and fail with a SystemError.
    """
    classes, waiting = set[int](), [sys.modules["torch"].nn.Module]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in classes:
            classes.add(id(kind))
            waiting.extend(type.__subclasses__(kind))
    objects, again = tee(chain.from_iterable(map(gc.get_objects, range(3))))
    return list(compress(objects, map(classes.__contains__, map(id, map(type, again)))))


def _count(module: Any, wanted: set[int]) -> tuple[int, int, int]:
    """How many of the wanted parameters a module holds, how many parameters in all, how many modules."""
    seen: set[int] = set()
    visited: set[int] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if id(current) in visited:
            continue
        visited.add(id(current))
        fields = current.__dict__
        seen.update(id(parameter) for parameter in fields.get("_parameters", {}).values() if parameter is not None)
        waiting.extend(child for child in fields.get("_modules", {}).values() if child is not None)
    return len(seen & wanted), len(seen), len(visited)


def name_layers(models: Iterable[Any], optimizers: Iterable[Any]) -> list[Layer]:
    """Every parameter of the models in their order, then those that only an optimizer holds ("AdamW.g0.p3").

    Names are unique: of models that share one, all get theirs in front ("Discriminator.0.weight", or "Sequential#2."
    for the second of a class); what is still the same is numbered ("weight#2").
    """
    held: dict[int, str] = {}
    parameters: dict[int, Any] = {}
    for optimizer in optimizers:
        for group, settings in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(settings["params"]):
                held.setdefault(id(parameter), f"{type(optimizer).__name__}.g{group}.p{position}")
                parameters[id(parameter)] = parameter
    layers: list[Layer] = []
    taken: set[str] = set()
    named: set[int] = set()
    for prefix, model in _prefixed(list(models)):
        for name, parameter in model.named_parameters():
            if id(parameter) not in named:
                named.add(id(parameter))
                unique = _unique(prefix + clean_name(name), taken)
                layers.append(_layer(unique, parameter, id(parameter) in held))
    for key, name in held.items():
        if key not in named:
            layers.append(_layer(_unique(name, taken), parameters[key], True))
    return layers


def _prefixed(models: list[Any]) -> list[tuple[str, Any]]:
    """What to put in front of the names of each model: nothing, where no other has a parameter of the same name."""
    names: list[set[str]] = []
    seen: set[int] = set()
    for model in models:
        fresh = {clean_name(name): id(it) for name, it in model.named_parameters() if id(it) not in seen}
        names.append(set(fresh))
        seen.update(fresh.values())
    classes = [type(model).__name__ for model in models]
    prefixes = []
    for index, (model, kind) in enumerate(zip(models, classes, strict=True)):
        others = (names[other] for other in range(len(models)) if other != index)
        shared = any(names[index] & other for other in others)
        number = f"#{classes[:index].count(kind) + 1}" if classes.count(kind) > 1 else ""
        prefixes.append((f"{kind}{number}." if shared else "", model))
    return prefixes


def _unique(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}#{number}"
    taken.add(candidate)
    return candidate


def _layer(name: str, parameter: Any, in_optimizer: bool) -> Layer:
    dtype = str(parameter.dtype).removeprefix("torch.")
    ref, frozen = weakref.ref(parameter), not parameter.requires_grad
    return Layer(name, ref, parameter.numel(), dtype, frozen, in_optimizer, shards_of(parameter))


def shards_of(parameter: Any) -> int:
    """Over how many ranks a DTensor is split; 1 for everything else, and where all ranks have the whole of it."""
    placements, mesh = getattr(parameter, "placements", None), getattr(parameter, "device_mesh", None)
    if placements is None or mesh is None:
        return 1
    return math.prod(mesh.size(axis) for axis, placement in enumerate(placements) if placement.is_shard())
