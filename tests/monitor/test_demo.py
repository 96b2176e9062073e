"""The demo: a real training, faults that really happen to it, and nothing left running behind it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.optim import AdamW

from ntstop.demo import model as demo_model
from ntstop.demo import train as demo_train
from ntstop.demo.child import DemoChild
from ntstop.demo.fault_names import FAULTS
from ntstop.demo.faults import Fault
from ntstop.demo.model import CharTransformer, Corpus, Windows, weighted_loss
from ntstop.sources import runs
from tests.helpers import wait_until

NTSTOP = str(Path(sys.executable).parent / "ntstop")
BATCH = 4


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return demo_model.read_corpus()


def test_the_text_is_the_same_every_time_and_split_into_two_parts(corpus: Corpus) -> None:
    assert demo_model.read_corpus().sha256 == corpus.sha256
    assert len(corpus.train) == pytest.approx(9 * len(corpus.validation), rel=0.01)
    assert 0 <= int(corpus.train.min()) <= int(corpus.train.max()) < corpus.vocabulary


def test_the_model_cannot_see_the_character_it_is_asked_for(corpus: Corpus) -> None:
    torch.manual_seed(0)
    model = CharTransformer(corpus.vocabulary, layers=1, width=16, heads=2)
    characters = corpus.train[:20].unsqueeze(0).clone()
    before = model(characters)[0, :10]
    characters[0, 10:] = (characters[0, 10:] + 1) % corpus.vocabulary
    assert torch.equal(model(characters)[0, :10], before)


def test_the_schedule_warms_up_and_falls_to_a_tenth() -> None:
    rates = [demo_train.schedule(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(1 / demo_train.WARMUP)
    assert max(rates) == 1.0
    assert rates[demo_train.WARMUP :] == sorted(rates[demo_train.WARMUP :], reverse=True)
    assert rates[-1] == pytest.approx(0.1, abs=0.001)


# --- faults --------------------------------------------------------------------------------------------------------


def small(corpus: Corpus) -> tuple[CharTransformer, AdamW]:
    torch.manual_seed(0)
    model = CharTransformer(corpus.vocabulary, layers=2, width=16, heads=2)
    return model, AdamW(model.parameters(), lr=1e-3)


def a_step(corpus: Corpus, model: CharTransformer) -> torch.Tensor:
    """Forward and backward on one batch; returns the loss."""
    batch = [Windows(corpus.train)[start] for start in range(BATCH)]
    characters, following, weights = (torch.stack(part) for part in zip(*batch, strict=True))
    model.zero_grad(set_to_none=True)
    loss = weighted_loss(model(characters), following, weights)
    loss.backward()
    return loss


def served(corpus: Corpus, fault: Fault, batches: int) -> list[torch.Tensor]:
    """The weights of the first `batches` batches under a fault."""
    windows = fault.data(Windows(corpus.train), BATCH)
    return [torch.stack([windows[index][2] for index in range(BATCH)]) for _ in range(batches)]


def test_nan_is_one_weight_of_one_batch(corpus: Corpus) -> None:
    bad = [int(weights.isnan().sum()) for weights in served(corpus, Fault("nan", 2), 4)]
    assert bad == [0, 0, 1, 0]
    assert torch.equal(Windows(corpus.train)[0][2], torch.ones(demo_model.CONTEXT))


def test_slow_input_makes_every_batch_late_from_the_step_on(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("ntstop.demo.faults.time.sleep", slept.append)
    served(corpus, Fault("slow-input", 2), 2)
    assert slept == []
    served(corpus, Fault("slow-input", 2), 5)
    assert len(slept) == 3


def test_a_dead_layer_has_no_gradient_and_never_wakes(corpus: Corpus) -> None:
    model, optimizer = small(corpus)
    assert Fault("dead-layer", 1).before_step(0, model, optimizer) is optimizer
    a_step(corpus, model)
    dead = model.blocks[1].forward_in
    assert dead.weight.grad.norm() > 0
    Fault("dead-layer", 1).before_step(1, model, optimizer)
    for _ in range(3):
        a_step(corpus, model)
        assert dead.weight.grad.norm() == 0
        optimizer.step()


def test_frozen_leaves_the_optimizer_with_other_tensors(corpus: Corpus) -> None:
    model, optimizer = small(corpus)
    other = Fault("frozen", 1).before_step(1, model, optimizer)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    a_step(corpus, model)
    other.step()
    assert other is not optimizer
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_lr_is_a_hundred_times_too_high_from_the_step_on() -> None:
    assert [Fault("lr", 2).rate(step) for step in range(4)] == [1.0, 1.0, 100.0, 100.0]


def test_leak_keeps_the_logits_of_every_step() -> None:
    fault = Fault("leak", 2)
    for step in range(5):
        fault.after_forward(step, torch.zeros(3))
    assert len(fault.kept) == 3


def test_no_fault_is_no_change(corpus: Corpus) -> None:
    model, optimizer = small(corpus)
    fault = Fault("", 0)
    assert fault.before_step(0, model, optimizer) is optimizer
    assert fault.rate(0) == 1.0
    assert not served(corpus, fault, 1)[0].isnan().any()


# --- the whole -----------------------------------------------------------------------------------------------------


def headless(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `ntstop demo --headless WORDS`."""
    return subprocess.run([NTSTOP, "demo", "--headless", *words], capture_output=True, text=True, timeout=100)


def test_headless_trains_prints_a_summary_with_the_runs_id_and_exits_0() -> None:
    done = headless("--steps", "24", "--fault", "nan", "--at", "12")
    assert done.returncode == 0, done.stderr
    [entry] = runs.scan()
    assert entry.id.startswith("demo-")
    assert done.stdout.startswith(f"{entry.id} · demo with nan from step 12")
    assert (entry.state, entry.last_step) == ("finished", 23)
    assert "nonfinite-loss" in done.stdout
    assert "step 12" in done.stdout


def is_gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has reaped yet runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_leaving_ends_even_a_training_that_hangs_and_it_says_so_itself(home: Path) -> None:
    folder = home / "runs" / "demo-1"
    with DemoChild(folder, steps=100, seed=0, fault="hang", at=1) as child:
        wait_until(lambda: runs.read_run(folder).last_step == 0, 60, what="the first step")
    assert is_gone(child.pid)
    assert child.returncode == 0
    assert runs.read_run(folder).state == "finished"
    assert child.output.read_text() == ""


def test_the_training_ends_when_whoever_started_it_is_killed(home: Path) -> None:
    folder = home / "runs" / "demo-1"
    program = (
        "import sys, pathlib, threading\nfrom ntstop.demo.child import DemoChild\n"
        f"child = DemoChild(pathlib.Path({str(folder)!r}), steps=10_000, seed=0, fault='', at=1)\n"
        "print(child.pid, flush=True)\nthreading.Event().wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: is_gone(pid), 60, what="the training to end")


def test_every_fault_has_a_line_in_the_help() -> None:
    text = subprocess.run([NTSTOP, "demo", "--help"], capture_output=True, text=True, check=True).stdout
    for name in FAULTS:
        assert f"    {name}" in text
