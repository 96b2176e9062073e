"""What a training came to, as one SHA-256."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import torch


def digest_of(model: Any, losses: list[float]) -> str:
    """Of the weights here, the losses, and the state of the random numbers of torch and of Python."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        value = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        digest.update(value.detach().numpy().tobytes())
    digest.update(json.dumps(losses).encode())
    digest.update(torch.get_rng_state().numpy().tobytes())
    digest.update(repr(random.getstate()).encode())
    return digest.hexdigest()
