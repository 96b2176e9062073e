"""Hugging Face Trainer: python job_hf.py OUT {plain|nan|callback}. Prints a digest of what it came to, as JSON."""

from __future__ import annotations

import json
import sys

import torch
from digest_of import digest_of
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

STEPS = 6


class Poisoned(Trainer):
    """From its fourth step on, the loss is NaN."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return loss * float("nan") if self.state.global_step >= 3 and model.training else loss


def main(out: str, how: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=8))
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(0, 32, (8,), generator=generator) for _ in range(4 * STEPS)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    arguments = TrainingArguments(
        out,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        logging_steps=STEPS if how == "nan" else 2,
        eval_strategy="no" if how == "nan" else "steps",
        eval_steps=3,
        save_strategy="no" if how == "nan" else "steps",
        save_steps=3,
        report_to=["tensorboard"],
        use_cpu=True,
        disable_tqdm=True,
    )
    callbacks = []
    if how == "callback":
        from ntstop_probe.integrations import NtstopCallback

        callbacks.append(NtstopCallback(title="by callback"))
    kind = Poisoned if how == "nan" else Trainer
    trainer = kind(model, arguments, train_dataset=data, eval_dataset=data[:4], callbacks=callbacks)
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(json.dumps({"digest": digest_of(model, logged), "logged": logged}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
