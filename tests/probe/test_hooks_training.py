"""What the hooks see of real training loops."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import pytest
import torch
from torch import nn

from ntstop_probe.hooks import wrappers

from .training import armed, data, loader, loss_of, mlp, train


def test_every_step_has_its_loss_its_rate_and_phases_that_add_up() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        losses = train(model, optimizer, loader())
    steps = probe.steps
    assert [step.losses["loss"] for step in steps] == losses
    assert [step.lrs for step in steps] == [{"lr": 0.05}] * 4
    for step in steps:
        assert step.duration is not None
        assert math.isclose(sum(step.phases.values()), step.duration, rel_tol=1e-9)
        assert {"data", "forward", "backward", "optimizer"} <= step.phases.keys()
    assert probe.progress.steps == 4
    assert probe.progress.cost > probe.progress.setup > 0, "the layers were named once"


def test_accumulated_micro_batches_are_one_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    with armed() as probe:
        for index, batch in enumerate(loader(48)):
            loss = loss_of(model, batch) / 3
            loss.backward()
            seen.append(loss.item())
            if index % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    steps = probe.steps
    assert [step.micro for step in steps] == [3, 3]
    assert [step.losses["loss"] for step in steps] == pytest.approx([sum(seen[:3]) / 3, sum(seen[3:]) / 3])


def test_a_gan_has_one_step_with_two_losses_and_layers_of_both_networks() -> None:
    generator, critic = mlp(), mlp(1)
    slow = torch.optim.Adam(critic.parameters(), lr=1e-4)
    fast = torch.optim.Adam(generator.parameters(), lr=1e-3)
    with armed() as probe:
        for inputs, _ in loader():
            slow.zero_grad()
            critic(inputs).mean().backward()
            slow.step()
            fast.zero_grad()
            generator(inputs).pow(2).mean().backward()
            fast.step()
    steps = probe.steps
    assert len(steps) == 4
    assert all(step.losses.keys() == {"loss", "loss/1"} for step in steps)
    assert steps[0].lrs == {"lr": 1e-4, "lr/1.0": 1e-3}
    names = probe.schemas[-1].names
    assert len(names) == len(set(names)) == 8
    assert probe.layers[-1].schema == probe.schemas[-1].id
    assert None not in probe.layers[-1].fields["grad_norm"]


def test_lbfgs_evaluates_its_closure_many_times_within_a_step() -> None:
    model = mlp().eval()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
    batch = data().tensors
    firsts: list[float] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        return loss

    with armed() as probe:
        firsts += [optimizer.step(closure).item() for _ in range(3)]
    steps = probe.steps
    assert [step.losses["loss"] for step in steps] == pytest.approx(firsts)
    assert all(step.micro is not None and step.micro > 1 for step in steps)
    assert all("backward" in step.phases for step in steps)
    assert any(row.fields.get("grad_norm") for row in probe.layers)


def test_an_optimizer_that_calls_super_step_steps_once() -> None:
    class Careful(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    model = mlp()
    with armed() as probe:
        train(model, Careful(model.parameters(), lr=0.1), loader())
    assert [step.optimizers for step in probe.steps] == [1] * 4


def test_an_evaluation_inside_training_is_told_apart() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for _ in range(2):
            train(model.train(), optimizer, loader())
            model.eval()
            with torch.no_grad():
                for batch in loader(24):
                    loss_of(model, batch)
        train(model.train(), optimizer, loader())
    steps = probe.steps
    assert len(steps) == 12
    assert [step.ordinal for step in steps if "eval" in step.phases] == [4, 8]
    assert [event.data["batches"] for event in probe.events("evaluation")] == [3, 3]


def test_without_a_loader_the_first_phase_is_not_guessed() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batch = data().tensors
    with armed() as probe:
        losses = train(model, optimizer, [batch] * 5)
    steps = probe.steps
    assert [step.losses["loss"] for step in steps] == losses
    assert all("data" not in step.phases and "forward" not in step.phases for step in steps)
    assert "input+forward" in steps[1].phases


def test_loading_and_scoring_without_training_gives_no_steps() -> None:
    model = mlp()
    with armed() as probe:
        for batch in loader():
            loss_of(model, batch)
    assert probe.steps == []


def test_clipping_gives_the_norm_before_it_and_the_coefficient() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    norms = []
    with armed() as probe:
        for batch in loader():
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.25)))
            optimizer.step()
    assert [step.grad_norm for step in probe.steps] == pytest.approx(norms)
    assert [step.clip for step in probe.steps] == pytest.approx([min(1, 0.25 / (norm + 1e-6)) for norm in norms])


def test_a_norm_of_another_order_is_not_taken_for_the_gradient_norm() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed(layers=False) as probe:
        for batch in loader():
            loss_of(model, batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25, norm_type=float("inf"))
            optimizer.step()
    assert all(step.grad_norm is None and step.clip is None for step in probe.steps)


def test_a_gradient_scaler_gives_scale_skips_and_the_loss_before_scaling() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []
    with armed() as probe:
        for index, batch in enumerate(loader(48)):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            if index == 2:
                loss = loss * float("inf")
            losses.append(loss.item())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    steps = probe.steps
    assert [step.skipped for step in steps] == [0, 0, 1, 0, 0, 0]
    assert [step.loss_scale for step in steps] == [1024.0] * 3 + [512.0] * 3
    assert [step.losses["loss"] for step in steps] == pytest.approx(losses)


def test_a_root_that_is_no_single_number_has_no_loss() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for inputs, _ in loader():
            optimizer.zero_grad()
            output = model(inputs)
            output.backward(torch.ones_like(output))
            optimizer.step()
    assert [step.losses for step in probe.steps] == [{}] * 4
    assert probe.progress.disabled == []


def test_reentrant_checkpointing_is_one_backward() -> None:
    from torch.utils.checkpoint import checkpoint

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for inputs, targets in loader():
            optimizer.zero_grad()
            output = checkpoint(model, inputs.requires_grad_(), use_reentrant=True)
            nn.functional.mse_loss(output, targets).backward()
            optimizer.step()
    assert [step.micro for step in probe.steps] == [1] * 4


def test_another_thread_that_trains_does_not_disturb_the_first() -> None:
    model, other = mlp(), mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    second = torch.optim.SGD(other.parameters(), lr=0.05)
    with armed() as probe:
        batches = loader()
        for batch in batches:
            loss_of(model, batch).backward()
            optimizer.step()
            thread = threading.Thread(target=train, args=(other, second, [batch] * 3))
            thread.start()
            thread.join()
    assert [step.micro for step in probe.steps] == [1] * 4


def test_model_optimizer_and_loader_still_copy_and_pickle() -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    batches = loader()
    with armed() as probe:
        probe.hooks.watch(model, optimizer)
        train(model, optimizer, batches)
        for thing in (model, optimizer, batches):
            copy.deepcopy(thing)
            pickle.loads(pickle.dumps(thing))
        before = {name for thing in (model, optimizer, batches) for name in vars(thing)}
    assert not {name for name in before if "ntstop" in name}
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def places() -> list[Any]:
    from torch.nn.utils import clip_grad
    from torch.optim import optimizer
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return [
        _BaseDataLoaderIter.__dict__["__next__"],
        torch.autograd.backward,
        clip_grad._get_total_norm,
        clip_grad._clip_grads_with_norm_,
        torch.amp.GradScaler.__dict__["scale"],
        torch.amp.GradScaler.__dict__["step"],
        torch.optim.Optimizer.__dict__["zero_grad"],
        torch.nn.Module.__dict__["zero_grad"],
        dict(optimizer._global_optimizer_pre_hooks),
        dict(optimizer._global_optimizer_post_hooks),
    ]


def test_disarming_puts_back_the_very_functions_that_were_there() -> None:
    before = places()
    with armed() as probe:
        assert probe.hooks.missing == []
        assert all(now is not then and now != then for now, then in zip(places(), before, strict=True))
    after = places()
    assert all(now is then for now, then in zip(after[:8], before[:8], strict=True))
    assert after[8:] == before[8:]


def test_disarming_in_the_middle_of_training_leaves_training_alone() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for index, batch in enumerate(loader()):
            if index == 2:
                probe.hooks.disarm()
            loss_of(model, batch).backward()
            optimizer.step()
    assert len(probe.steps) <= 3


@pytest.mark.parametrize("place", ["next_begin", "next_end", "backward_begin", "optimizer_begin", "optimizer_end"])
def test_a_hook_that_fails_switches_off_the_hooks_and_nothing_else(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    before = places()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        train(model, optimizer, loader())
        monkeypatch.setattr(probe.hooks._hooks.machine.__class__, place, broken)
        losses = train(model, optimizer, loader())
        assert len(losses) == 4
        assert places()[:8] == before[:8]
    assert [warning.text for warning in probe.events("warning")] == [
        "the hooks switched themselves off: "
        + {"n": "DataLoader", "b": "backward", "o": "optimizer"}[place[0]]
        + ": ZeroDivisionError: on purpose"
    ]
    assert len(probe.progress.disabled) == 1


def test_exceptions_of_the_job_pass_through_unchanged() -> None:
    class Broken(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            raise KeyError("the job's own")

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        train(model, optimizer, loader())
        with pytest.raises(KeyError, match="the job's own"):
            train(model, optimizer, torch.utils.data.DataLoader(Broken()))
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(1).sum().backward()
        train(model, optimizer, loader())
    assert len(probe.steps) == 8
    assert probe.progress.disabled == []


def test_facts_for_the_manifest_come_from_what_passes() -> None:
    model = mlp()
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    with armed() as probe:
        train(model, optimizer, loader())
    facts = probe.hooks.facts()
    assert (facts.trainable_parameters, facts.frozen_parameters) == (8 * 16 + 16 + 1, 16)
    assert (facts.batch_size, facts.workers, facts.precision) == (8, 0, "float32")
    assert facts.optimizers[0]["class"] == "AdamW"
    assert facts.optimizers[0]["groups"][0]["lr"] == 3e-4


def test_a_rate_held_in_a_tensor_is_read() -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.125))
    with armed() as probe:
        train(model, optimizer, loader())
    assert [step.lrs for step in probe.steps] == [{"lr": 0.125}] * 4


def test_the_training_process_is_announced_once_at_the_first_backward() -> None:
    calls: list[int] = []
    model = mlp()
    with armed(on_training=lambda: calls.append(threading.get_ident())) as probe:
        list(loader())
        assert calls == []
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
    assert calls == [threading.get_ident()]
    assert probe.progress.thread == threading.get_ident()


def test_loader_workers_forked_later_are_not_part_of_the_training() -> None:
    model = mlp()
    with armed() as probe:
        losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(num_workers=2))
    assert [step.losses["loss"] for step in probe.steps] == losses
    assert probe.hooks.facts().workers == 2


def test_the_table_of_patches_names_wrappers_that_exist() -> None:
    from ntstop_probe import traceable
    from ntstop_probe.hooks import patches

    for replacement in patches.REPLACEMENTS:
        name = f"wrap_{replacement.wrapper}"
        assert hasattr(wrappers, name) or hasattr(traceable, name)
        assert replacement.why


def test_disarming_from_another_thread_never_touches_the_list_that_torch_is_walking() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        batches = list(loader())
        train(model, optimizer, batches)

        def disarm_elsewhere(*_: Any) -> None:
            thread = threading.Thread(target=probe.hooks.disarm)
            thread.start()
            thread.join()

        handle = optimizer.register_step_pre_hook(disarm_elsewhere)
        assert len(train(model, optimizer, batches)) == 4
        handle.remove()
        assert places()[1].__module__ == "torch.autograd"
