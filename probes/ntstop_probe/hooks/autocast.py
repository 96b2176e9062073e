"""What autocast did in a forward, seen from its loss: the graph behind it knows the dtype of every gradient in it."""

from __future__ import annotations

from typing import Any

MAX_NODES = 400
"""Nodes looked at: a block or two of any model. Once in a run, below a millisecond."""
_HALF = ("bfloat16", "float16")


def autocast_of(root: Any) -> str:
    """Half-precision dtypes in the graph of a loss whose leaves are float32, joined by ", "; "" when there are none.

    Backward is called outside of `autocast`, so that asking torch whether it is on would not tell. A compiled graph
    shows its outside only.
    """
    if isinstance(root, (list, tuple)):
        root = root[0] if root else None
    first = getattr(root, "grad_fn", None)
    if first is None:
        return ""
    found: set[str] = set()
    leaves: set[str] = set()
    seen, waiting = {first}, [first]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop(0)
        into = leaves if node.name().endswith("AccumulateGrad") else found
        into.update(str(entry.dtype).removeprefix("torch.") for entry in getattr(node, "_input_metadata", ()))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    halves = [dtype for dtype in _HALF if dtype in found]
    return ", ".join(halves) if "float32" in leaves and not leaves & set(_HALF) else ""
