"""Two ranks over gloo, sharded (fsdp) or replicated (ddp): python job_shards.py {fsdp|ddp} PORT RANK.

Prints one JSON line: a digest of the weights, losses and random numbers, how many collectives the group has seen, and
the gradient norms by step that the job itself works out: of what is here, of the whole, and what clipping returned.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import torch
from digest_of import digest_of
from torch import nn

STEPS = 4
CLIP = 0.05


def main(kind: str, port: str, rank: int) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    group: Any = torch.distributed.distributed_c10d._get_default_group()
    random.seed(5)
    torch.manual_seed(5)
    model: Any = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 3))
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in (model[0], model[3], model):
            fully_shard(layer)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(11 + rank)
    losses, norms, full, totals = [], [], [], []
    for _ in range(STEPS):
        loss = model(torch.randn(6, 7, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad.to_local() if kind == "fsdp" else p.grad for p in model.parameters()]
        norms.append([gradient.norm().item() for gradient in gradients])
        # The whole, as the ranks together know it: a collective of the job's own.
        whole = [p.grad.full_tensor() if kind == "fsdp" else p.grad for p in model.parameters()]
        full.append([gradient.norm().item() for gradient in whole])
        total = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        totals.append((total.full_tensor() if kind == "fsdp" else total).item())
        optimizer.step()
        losses.append(loss.item())
    digest = digest_of(model, losses)
    collectives = group._get_sequence_number_for_group()
    torch.distributed.all_reduce(torch.ones(1))
    # Or the number would prove nothing.
    assert group._get_sequence_number_for_group() == collectives + 1
    found = {
        "digest": digest,
        "collectives": collectives,
        "norms": norms,
        "full": full,
        "totals": totals,
    }
    print(json.dumps(found), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
