"""Waiting for torch: in processes of their own, because an import happens once."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_call_comes_once_when_torch_is_complete_and_nothing_is_left_behind() -> None:
    out = run(
        """
        import sys
        from ntstop_probe.hooks.early import when_torch_is_used
        before = list(sys.meta_path)

        def used():
            import torch
            from torch.utils.data import DataLoader
            print("used", hasattr(torch, "compile"), torch.autograd.backward.__name__)

        when_torch_is_used(used)
        import json, fractions
        print("waiting")
        import torch
        import torch.optim
        print(sys.meta_path == before, type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)
        """
    )
    assert out.splitlines() == ["waiting", "used True backward", "True SourceFileLoader SourceFileLoader"]


def test_when_torch_is_there_already_the_call_comes_at_once() -> None:
    out = run(
        """
        import torch, sys
        from ntstop_probe.hooks.early import when_torch_is_used
        before = list(sys.meta_path)
        when_torch_is_used(lambda: print("at once"))
        print(sys.meta_path == before)
        """
    )
    assert out.splitlines() == ["at once", "True"]


def test_giving_up_and_failing_leave_the_import_alone() -> None:
    out = run(
        """
        import sys
        from ntstop_probe.hooks.early import when_torch_is_used
        give_up = when_torch_is_used(lambda: print("never"))
        give_up()
        when_torch_is_used(lambda: 1 / 0)
        import torch
        print(torch.ones(2).sum().item())
        """
    )
    assert out.splitlines() == ["2.0"]


def test_a_job_without_torch_is_told_so_by_its_own_import_error() -> None:
    out = run(
        """
        import sys
        from ntstop_probe.hooks.early import when_torch_is_used
        when_torch_is_used(lambda: print("never"))
        sys.path = [entry for entry in sys.path if "site-packages" not in entry]
        try:
            import torch
        except ModuleNotFoundError as error:
            print(error)
        """
    )
    assert out.splitlines() == ["No module named 'torch'"]


def test_hooks_are_armed_by_the_import_and_a_forked_child_has_torch_as_it_was() -> None:
    out = run(
        """
        import os
        from ntstop_probe.hooks.early import when_torch_is_used
        from ntstop_probe.outbox import Outbox
        from ntstop_probe.progress import Progress

        outbox, kept = Outbox(), []

        def used():
            from ntstop_probe.hooks.install import HookSettings, arm
            kept.append(arm(outbox, Progress(), HookSettings()))

        when_torch_is_used(used)
        import torch
        from torch.optim.optimizer import _global_optimizer_pre_hooks

        def train():
            weight = torch.nn.Parameter(torch.ones(1))
            optimizer = torch.optim.SGD([weight], lr=0.1)
            for _ in range(3):
                (weight * 2).sum().backward()
                optimizer.step()

        child = os.fork()
        if child == 0:
            train()
            bare = not _global_optimizer_pre_hooks and not hasattr(torch.autograd.backward, "__wrapped__")
            os._exit(0 if bare and len(outbox) == 0 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        train()
        kept[0].finish()
        print(sum(type(row).__name__ == "StepRow" for row in outbox.drain(100)))
        """
    )
    assert out.splitlines() == ["0", "3"]
