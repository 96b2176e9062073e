"""`ntstop demo`: the small real training, with the terminal beside it or a summary behind it."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ntstop import launch
from ntstop.commands import screen
from ntstop.demo.child import DemoChild
from ntstop_probe import registry

if TYPE_CHECKING:
    from ntstop.commands.options import Options
    from ntstop.session import Session

STEPS = 3_000
HEADLESS_STEPS = 300
FAULT_AT = 150
"""Where a fault begins unless told otherwise: late enough for a curve to fall from."""
_POLL = 0.2
"""Seconds from one look at the training to the next."""


def run_demo(*, fault: str | None, at: int | None, steps: int | None, seed: int, headless: bool) -> int:
    """Train in a child process and show it; returns the exit code. Without a terminal it runs headless."""
    if find_spec("torch") is None:
        raise click.ClickException("the demo needs torch: pip install 'ntstop[demo]'")
    is_blind = not headless and not screen.can_draw()
    headless = headless or is_blind
    steps = steps or (HEADLESS_STEPS if headless else STEPS)
    if at is not None and fault is None:
        raise click.UsageError("--at says where a --fault begins; which one?")
    at = at or min(FAULT_AT, steps // 2)
    if at >= steps:
        raise click.UsageError(f"--at {at} is beyond the last step; --steps is {steps}")
    from ntstop.commands.options import gather

    options = gather()
    if is_blind:
        click.echo("ntstop: no terminal to draw on; training headless", err=True)
    folder = registry.runs_folder() / launch.fresh_run_id(["demo"])
    with DemoChild(folder, steps=steps, seed=seed, fault=fault or "", at=at) as child:
        if headless:
            return _train_headless(child, steps, options)
        code = screen.view(folder, options)
    click.echo(f"the demo has ended; `ntstop {folder.name}` opens its run again")
    return code


def _train_headless(child: DemoChild, steps: int, options: Options) -> int:
    """Wait for the end of the training, or for a stall, which has none; then print what there is to say."""
    from ntstop.plain import overview
    from ntstop.session import Session

    click.echo(f"training {steps} steps as {child.folder.name} …", err=True)
    with Session(str(child.folder), renew=options.engine) as session:
        while child.returncode is None and not _is_stalled(session):
            time.sleep(_POLL)
        failed = child.returncode not in (None, 0)
        child.stop()
        session.wait_for_end()
        click.echo(overview(session))
    if failed:
        raise click.ClickException(f"the training ended with exit code {child.returncode}; see {child.output}")
    return 0


def _is_stalled(session: Session) -> bool:
    with session.lock:
        return any(finding.kind == "stall" and finding.status == "open" for finding in session.findings)
