"""What trainings print: a line of each kind, and what follows from several."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.sources.logs.roles import guess
from ntstop.sources.logs.text import TextReader

LINES = {
    "step 100 loss 3.2 lr 1e-4": (100, {"loss": 3.2, "lr": 1e-4}),
    "iter 10: loss 3.2000, time 123.45ms, mfu 12.00%": (10, {"loss": 3.2, "step_time": 0.12345, "mfu": 12.0}),
    "step 250: train loss 2.1000, val loss 2.2000": (250, {"train loss": 2.1, "val loss": 2.2}),
    " [2024-01-01 00:00:00] iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration "
    "(ms): 1234.5 | learning rate: 1.500000E-05 | global batch size:   256 | lm loss: 6.123000E+00 | loss scale: 1.0 | "
    "grad norm: 1.234 | number of nan iterations:   0 |": (
        100,
        {"learning rate": 1.5e-5, "lm loss": 6.123, "loss scale": 1.0, "grad norm": 1.234, "consumed samples": 25600.0,
         "elapsed time per iteration (ms)": 1234.5},
    ),
    "\x1b[32m[rank0]:[titan] 2025-01-01 00:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.1234  "
    "\x1b[38;2;180;60;0mgrad_norm:  1.2300  memory: 30.10GiB(38.05%)  tps: 1,234  mfu: 3.90%\x1b[39m": (
        10, {"loss": 7.1234, "grad_norm": 1.23, "tps": 1234.0, "mfu": 3.9},
    ),
    "steps: 10 loss: 2.3456 iter time (s): 0.123 samples/sec: 65.1": (10, {"loss": 2.3456, "iter time (s)": 0.123}),
    "[2023-05-01 00:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05], "
    "mom=[(0.9, 0.999)]": (10, {"lr": 1e-5, "skipped": 0.0}),
    "[Rank 0] epoch=0/micro_step=10/global_step=20, MemAllocated=5.1": (20, {"MemAllocated": 5.1}),
    "Epoch 3 | Step 100 | train_loss 0.12 | val_loss: 0.2": (100, {"train_loss": 0.12, "val_loss": 0.2}),
    "[100/5000] loss=3.1 lr=0.001": (100, {"loss": 3.1, "lr": 0.001}),
    "Epoch: [1][ 10/500]\tTime  0.123 ( 0.140)\tLoss 6.9 (6.95)": (510, {"Loss": 6.9}),
    "Epoch: [0]  [ 10/500]  eta: 0:01:00  lr: 0.100000  loss: 6.9123 (6.9500)": (10, {"lr": 0.1, "loss": 6.9123}),
    'x | INFO | train_inner | {"epoch": 1, "loss": "12.3", "num_updates": "100", "lr": "1e-05"}': (
        100, {"loss": 12.3, "lr": 1e-5},
    ),
    " 50/100 [=====>....] - ETA: 5s - loss: 2.3000": (50, {"loss": 2.3}),
    "Epoch 0:  50%|█████     | 50/100 [00:05<00:05,  9.9it/s, v_num=0, train_loss=2.3]": (50, {"train_loss": 2.3}),
    "{'loss': 2.3, 'grad_norm': '1.2', 'learning_rate': 5e-05, 'epoch': 0.1}": (
        None, {"loss": 2.3, "grad_norm": 1.2, "learning_rate": 5e-5},
    ),
    "step 5: loss 1,234.5": (5, {"loss": 1234.5}),
    " validation loss at iteration 500 | lm loss value: 2.1E+00 | lm loss PPL: 8.1E+00 | ": (
        500, {"val/lm loss value": 2.1},
    ),
    "2024/05/01 10:00:00 - mmengine - INFO - Epoch(train)  [2][ 50/500]  lr: 1.0000e-02  eta: 1:23:45  time: 0.345  "
    "data_time: 0.0123  memory: 3456  grad_norm: 2.3456  loss: 0.9  loss_cls: 0.2": (
        1050, {"lr": 0.01, "step_time": 0.345, "data_time": 0.0123, "loss": 0.9, "grad_norm": 2.3456},
    ),
    "[05/01 10:00:00 d2.utils.events]:  eta: 0:33:11  iter: 19  total_loss: 2.3  loss_cls: 0.6  time: 0.4  "
    "last_time: 0.41  data_time: 0.01  lr: 1e-05  max_mem: 3000M": (19, {"total_loss": 2.3, "step_time": 0.4}),
    "Train: 2 [ 100/1251 (  8%)]  Loss: 5.5 (6.9)  Time: 0.345s,  741.2/s  LR: 1.000e-03": (
        2602, {"Loss": 5.5, "LR": 1e-3},
    ),
    "I0501 10:00:00.123456 140 metric_writer.py:101] [500] loss=2.5, learning_rate=0.001": (
        500, {"loss": 2.5, "learning_rate": 1e-3, "metric_writer.py": None},
    ),
    "2024-05-01 10:00:00.123\tnode17:0\tolmo.train:967\tINFO\t[step=5/7000] loss=2.5": (
        5, {"loss": 2.5, "node17": None, "olmo.train": None},
    ),
    "[Train] Epoch: 3, Step: 1000, Loss: 0.123456, LR: 0.000100": (1000, {"Loss": 0.123456, "LR": 1e-4}),
    "train epoch 5 loss 0.3 acc 0.8": (5, {"loss": 0.3, "acc": 0.8}),
    "Eval: step 100 loss 2.5": (100, {"val/loss": 2.5}),
    "step 7/300 | loss: 0.5 | 25.3 ms/step": (7, {"loss": 0.5, "step_time": 0.0253}),
    "step 7 loss 0.5 step time: 25 ms": (7, {"loss": 0.5, "step time": 0.025}),
    "step 7 loss 0.5 iter_time_ms: 25 ms": (7, {"loss": 0.5, "iter_time_ms": 25.0}),
    "step 7 loss 0.5 (2 s/it) dt 3s": (7, {"loss": 0.5, "step_time": 3.0}),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_each_kind(line: str) -> None:
    (row,) = TextReader().feed(f"{line}\n".encode())
    step, values = LINES[line]
    assert row.step == step
    assert {name: row.values.get(name) for name in values} == pytest.approx(values)


@pytest.mark.parametrize(
    "line",
    ["Epoch(val)  [2][ 50/100]  eta: 1:23:45  loss: 0.9", "Test: 2 [ 100/391 ( 8%)]  Loss: 5.5",
     "Loading checkpoint shards:  33%|███▎      | 1/3 [00:01<00:02,  1.0s/it]", "Using 8 GPUs, batch size 32",
     "we take step 3 of the plan", "Validation DataLoader 0: 100%|███| 20/20 [00:01<00:00, 20it/s, loss=3]", "loss 3e",
     "number of parameters: 123.59M", "", "step", "Epoch 1/10"],
)  # fmt: skip
def test_lines_that_are_no_step_of_a_training(line: str) -> None:
    assert TextReader().feed(f"{line}\n".encode()) == []


def test_a_step_in_a_line_of_its_own_is_that_of_the_lines_below_it() -> None:
    text = "2024-05-01 10:00:0{0}\tnode17:0\tolmo.train:967\tINFO\t[step={0}/7000]\n    train/CrossEntropyLoss=2.5\n"
    reader = TextReader()
    rows = reader.feed("".join(text.format(step) for step in range(3)).encode())
    assert [(row.step, row.values) for row in rows] == [(step, {"train/CrossEntropyLoss": 2.5}) for step in range(3)]
    assert [rows[step + 1].wall - rows[step].wall for step in range(2)] == [1.0, 1.0]  # type: ignore[operator]
    assert reader.facts.total_steps == 7000


def test_nan_is_a_value() -> None:
    (row,) = TextReader().feed(b"step 6 loss=NaN, lr=Infinity\n")
    assert math.isnan(row.values["loss"]) and row.values["lr"] == math.inf


def test_a_bar_says_at_which_step_the_dict_below_it_was_printed() -> None:
    reader = TextReader()
    text = (
        "\r 10%|█         | 100/1000 [00:10<01:30, 10.0it/s]\n{'loss': 2.3}\n"
        "\r 50%|█████     | 5/10 [00:00<00:00, 50it/s]\r100%|██████████| 10/10 [00:00<00:00, 50it/s]\n"
        "{'eval_loss': 2.5}\n"
        "\r 20%|██        | 200/1000 [00:20<01:20, 10.0it/s]\r{'loss': 2.1}\r"
    )
    assert [(row.step, row.values) for row in reader.feed(text.encode())] == [
        (100, {"loss": 2.3}), (100, {"eval_loss": 2.5}), (200, {"loss": 2.1}),
    ]  # fmt: skip
    assert reader.facts.total_steps == 1000


def test_bars_of_epochs_go_on_counting() -> None:
    keras = "Epoch 1/3\n 50/100 ━━━━━━━━━━ 5s 3ms/step - loss: 3\r"
    keras += "100/100 ━━━━━━━━━━ 6s 3ms/step - loss: 2 - val_loss: 2.5\n"
    keras += "Epoch 2/3\n 50/100 ━━━━━━━━━━ 5s 3ms/step - loss: 1.5\n"
    reader = TextReader()
    assert [row.step for row in reader.feed(keras.encode())] == [50, 100, 150] and reader.facts.total_steps == 300
    lightning = "".join(
        f"\rEpoch {epoch}:  1%|█         | {n}/100 [00:01<00:09,  9.9it/s, train_loss=2.3]"
        for epoch in range(3) for n in (1, 50, 100)
    )  # fmt: skip
    assert [row.step for row in TextReader().feed(f"{lightning}\n".encode())] == [
        1, 50, 100, 101, 150, 200, 201, 250, 300,
    ]  # fmt: skip


def test_a_pattern_says_what_a_line_is() -> None:
    reader = TextReader(re.compile(r"\((?P<step>\d+)\) J=(?P<loss>\S+)"))
    (row,) = reader.feed(b"(12) J=0.5\nstep 3 loss 9\n")
    assert (row.step, row.values) == (12, {"loss": 0.5})


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="step loss iter epoch 0123456789.,:=|/%[]{}()'\"-+eE \r\n\x1b█nainf", max_size=300))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    reader = TextReader()
    reader.feed(text.encode())
    reader.end()


@pytest.mark.parametrize("line", ["a " * 3000, "a: " * 2000, "loss " * 1000, "1/" * 3000, "(" * 4000, "a.b-" * 1500])
def test_no_line_takes_long(line: str) -> None:
    import time

    began = time.process_time()
    TextReader().feed(f"{line}7\n".encode())
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("name", "role"),
    [("loss", "train_loss"), ("train/loss", "train_loss"), ("Loss/train", "train_loss"), ("Loss/val", "val_loss"),
     ("eval_loss", "val_loss"), ("val.loss", "val_loss"), ("valid_loss", "val_loss"), ("train_loss_step", "train_loss"),
     ("loss_scale", "loss_scale"), ("lr-AdamW/pg1", "lr"), ("learning_rate", "lr"),
     ("train/global_grad_norm", "grad_norm"),
     ("grad_2.0_norm/layer.0.weight", "other"), ("accuracy", "accuracy"), ("eval/acc", "accuracy"), ("epoch", "epoch"),
     ("iter time (s)", "step_time"), ("weight_decay", "other"), ("loss_metrics/global_max_loss", "other"),
     ("num_input_tokens_seen", "tokens"), ("color", "other"), ("balance", "other")],
)  # fmt: skip
def test_the_role_of_a_name(name: str, role: str) -> None:
    assert guess(name).role == role
