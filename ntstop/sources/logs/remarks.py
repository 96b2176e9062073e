"""What somebody must know of how a log was read before they believe what is found in it, or that nothing is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

from .assembler import Assembler
from .roles import guess

_UNIT = re.compile(r"(^|[_ (/.])(ms|s|secs?|seconds|milli\w*)([_ )/]|$)", re.I)
"""A name that says its unit."""
_LISTED = 4


def remarks(assembler: Assembler, seconds: Collection[str] = ()) -> list[str]:
    """One line for each thing that was assumed, is missing, or was said of a metric that is not there.

    `seconds`: names of times that are known to be in seconds.
    """
    names, mapping = assembler.names, assembler.mapping
    if not names:
        return []
    losses = [name for column, name in mapping.items() if column == "loss" or column.startswith("loss/")]
    found = []
    if not losses:
        validation = [name for name in names if guess(name).role == "val_loss"]
        others = [name for name in names if name not in validation and name not in mapping.values()]
        only = f", only one of validation ({_list(validation)})" if validation else ""
        hint = f"; --role NAME=train_loss says which of {_list(others)} it is" if others else ""
        found.append(f"no training loss is in it{only}: what needs one is not judged{hint}")
    if len(losses) > 1:
        found.append(
            f"{len(losses)} losses ({_list(losses)}): their levels are not judged, for one may rise as another falls; "
            "--role NAME=train_loss names the one that is minimised"
        )
    if assembler.counted:
        found.append("it names no steps: its rows are counted")
    clock = mapping.get("duration")
    if clock is not None and clock not in seconds and not _UNIT.search(clock):
        found.append(f"{clock} says no unit: it is taken for seconds")
    for name in sorted(assembler.told - set(names)):
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {_list(names)}"
        found.append(f"--role {name}: it has no metric of this name; {hint}")
    return found


def _list(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:_LISTED]) + (f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else "")
