"""What the classes of the optimizers tell, as the manifest names them."""

from __future__ import annotations

from typing import Final

from ntstop_probe import wire

CLOSURES: Final = ("LBFGS",)
"""Optimizers that call a closure, which clears gradients and goes backward, many times a step; and that stop by
themselves once nothing changes any more (`tolerance_grad`, `tolerance_change`)."""
ADAPTIVE: Final = ("adam", "lion", "adafactor", "rmsprop", "lamb", "adagrad", "shampoo", "muon", "sophia", "adopt")
"""Optimizers whose step does not shrink with the gradient, by a part of their name."""


def classes(hello: wire.Hello | None) -> list[str]:
    """Names of the classes, one an optimizer; empty while they are not known."""
    return [str(known.get("class", "")) for known in hello.manifest.optimizers] if hello is not None else []


def uses_closure(hello: wire.Hello | None) -> bool:
    """Whether one of them is of `CLOSURES`."""
    return any(known in CLOSURES for known in classes(hello))


def adaptive(hello: wire.Hello | None) -> bool:
    """Whether all of them are of the `ADAPTIVE` kind."""
    names = [known.lower() for known in classes(hello)]
    return bool(names) and all(any(part in known for part in ADAPTIVE) for known in names)
