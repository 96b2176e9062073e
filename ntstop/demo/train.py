"""The training of the demo, run as `python -m ntstop.demo.train`: an ordinary loop with the probe's lines in it."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
from pathlib import Path

import torch
from torch.optim import AdamW
from torch.utils.data import DataLoader, RandomSampler

import ntstop_probe
from ntstop.demo.fault_names import FAULTS
from ntstop.demo.faults import Fault
from ntstop.demo.model import CharTransformer, Corpus, Windows, read_corpus, weighted_loss

BATCH = 16
PEAK_RATE = 1e-3
WARMUP = 50
EVALUATE_EVERY = 100
EVALUATION_BATCHES = 8
CHECKPOINT_EVERY = 500


def main(arguments: list[str] | None = None) -> None:
    """Train. Ends by itself after `--steps`, at SIGTERM, and with `--leashed` when its standard input closes."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if options.leashed:
        threading.Thread(target=_stop_when_input_closes, daemon=True).start()
    # Half of the cores at most: threads that wait for a core which the viewer has make a step ten times as long.
    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // 2)))
    torch.manual_seed(options.seed)
    train(read_corpus(), options.steps, Fault(options.fault, options.at), Path(options.checkpoint))


def train(corpus: Corpus, steps: int, fault: Fault, checkpoint: Path) -> None:
    """`steps` steps of AdamW with warm-up, cosine and clipping, and an evaluation and a checkpoint now and then."""
    model = CharTransformer(corpus.vocabulary)
    optimizer = AdamW(_groups(model), lr=PEAK_RATE)
    windows = fault.data(Windows(corpus.train), BATCH)
    loader = DataLoader(windows, BATCH, sampler=RandomSampler(windows, replacement=True, num_samples=steps * BATCH))
    evaluation = DataLoader(Windows(corpus.validation), BATCH, sampler=_spread(corpus), drop_last=True)
    ntstop_probe.watch(model, optimizer, config=_config(steps), data_hash=corpus.sha256, total_steps=steps)
    for step, (characters, following, weights) in enumerate(loader):
        optimizer = fault.before_step(step, model, optimizer)
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * schedule(step, steps) * fault.rate(step)
        logits = model(characters)
        fault.after_forward(step, logits)
        loss = weighted_loss(logits, following, weights)
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % EVALUATE_EVERY == 0:
            ntstop_probe.log({"val/loss": evaluate(model, evaluation)}, step=step)
        if (step + 1) % CHECKPOINT_EVERY == 0:
            torch.save(model.state_dict(), checkpoint)
            ntstop_probe.checkpoint(str(checkpoint))


@torch.no_grad()
def evaluate(model: CharTransformer, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    """Mean loss over the validation windows, nats a character."""
    with ntstop_probe.phase("eval"):
        model.eval()
        losses = [weighted_loss(model(characters), following, weights) for characters, following, weights in loader]
        model.train()
        return torch.stack(losses).mean().item()


def schedule(step: int, steps: int) -> float:
    """Share of the peak rate: a linear warm-up, then a cosine down to a tenth."""
    warmup = min(WARMUP, max(steps // 10, 1))
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(steps - warmup, 1)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def _groups(model: CharTransformer) -> list[dict[str, object]]:
    """Matrices decay; biases and norms do not."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]


def _spread(corpus: Corpus) -> range:
    """The same windows at every evaluation, spread over the whole validation text."""
    wanted = EVALUATION_BATCHES * BATCH
    places = len(Windows(corpus.validation))
    return range(0, places, max(places // wanted, 1))[:wanted]


def _config(steps: int) -> dict[str, float]:
    return {"batch": BATCH, "peak_rate": PEAK_RATE, "warmup": WARMUP, "steps": steps}


def _stop_when_input_closes() -> None:
    """Whoever started the demo is gone or wants it to end; a signal also ends a loader that hangs."""
    os.read(0, 1)
    main_thread = threading.main_thread().ident
    if main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGTERM)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small character transformer, watched by ntstop.")
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["", *FAULTS], default="")
    parser.add_argument("--at", type=int, default=150, help="step from which the fault acts")
    parser.add_argument("--checkpoint", default="demo.pt", help="file that checkpoints are written to")
    parser.add_argument("--leashed", action="store_true", help="end when standard input closes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
