"""What the hooks shall do, as the user and the environment say."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from .hooks.settings import HookSettings
from .values import Unusable, as_float


def settings_of(environment: Mapping[str, str], layers: bool = True, budget: float | None = None) -> HookSettings:
    """What the hooks shall do: as `watch` was told, else as NTSTOP_LAYERS=0 and NTSTOP_BUDGET=0.02 say.

    NTSTOP_LAYERS=0 wins over the code: it is how a job is run once without layer statistics.
    """
    given: dict[str, Any] = {"layers": layers and environment.get("NTSTOP_LAYERS") != "0"}
    if budget is None and environment.get("NTSTOP_BUDGET"):
        with contextlib.suppress(Unusable):
            budget = as_share(environment["NTSTOP_BUDGET"])
    if budget is not None:
        given["budget"] = budget
    return HookSettings(**given)


def as_share(value: object) -> float:
    """A budget: a share of the step time, above 0 and at most 1. Raises `Unusable`."""
    try:
        share = float(value) if isinstance(value, str) else as_float(value)
    except ValueError as error:
        raise Unusable("number", f"is no number ({value!r})") from error
    if not 0.0 < share <= 1.0:
        raise Unusable("share", f"is a share of the step time, such as 0.01, not {value!r}")
    return share
