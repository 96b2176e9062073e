"""The command line. What a command does is imported when it runs: `--help` costs click and nothing else."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from ntstop import __version__
from ntstop.demo.fault_names import FAULTS

if TYPE_CHECKING:
    from ntstop.commands.options import Options
    from ntstop.commands.target import LogOptions

PASS_ON = {"allow_interspersed_args": False}
"""For a command that takes another command: what stands behind its first word is the other's."""

_FAULTS_HELP = "\b\nFaults:\n" + "\n".join(f"  {name:<12}{text}" for name, text in FAULTS.items())


class RunOrCommand(click.Group):
    """A group whose first word may also be a run: `ntstop ls` is a command, `ntstop train-k7q2` opens a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _word_first(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            return open_run.name, open_run, args
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("ntstop", "[RUN... | -]")
        formatter.write_usage("ntstop", "COMMAND [ARGS]...", prefix="       ")


def _word_first(args: list[str]) -> list[str]:
    """What is said of a run or a log may stand before it, too."""
    at = 0
    while at < len(args) and (name := args[at].partition("=")[0]) in ("--role", "--pattern", "--once"):
        at += 1 if "=" in args[at] or name == "--once" else 2
    return [*args[at : at + 1], *args[:at], *args[at + 1 :]]


_notify = click.option(
    "--notify", metavar="CMD", help="Run CMD once for each new finding, with its JSON on standard input."
)
_once = click.option("--once", is_flag=True, help="Print the overview as text, as large as the terminal, and leave.")


@click.group(cls=RunOrCommand, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="ntstop %(version)s")
@_once
@_notify
@click.pass_context
def ntstop(ctx: click.Context, once: bool, notify: str | None) -> int:
    """top for a neural-network training run.

    Alone it opens the newest live run; with RUN (an id, its beginning, or a folder) that one, live or finished.
    It only looks: nothing it does touches the job.
    """
    if ctx.invoked_subcommand is not None:
        if notify is not None:
            raise click.UsageError("--notify stands behind RUN, or behind the command that it is for")
        return 0
    from ntstop.commands.open import open_newest

    return open_newest(_options(notify=notify, once=once))


_role = click.option(
    "--role", "roles", multiple=True, metavar="NAME=ROLE", help="Of a log: what a metric is, such as mlm=train_loss."
)
_pattern = click.option("--pattern", metavar="REGEX", help="Of a text: named groups say what its lines hold.")
_threshold = click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="KIND.NAME=VALUE",
    help="Judge by it; see `ntstop explain KIND`.",
)


@click.command("ntstop RUN...")
@click.argument("targets", nargs=-1, required=True, metavar="RUN...")
@_role
@_pattern
@_threshold
@_once
@_notify
def open_run(
    targets: tuple[str, ...],
    roles: tuple[str, ...],
    pattern: str | None,
    thresholds: tuple[str, ...],
    once: bool,
    notify: str | None,
) -> int:
    """Open a run by id, unique prefix or folder, or a log of another tool by its path; several on one axis.

    `-` reads the frames of `ntstop relay`, or what a training prints, from standard input.
    """
    options = _options(roles, pattern, thresholds, notify, once=once)
    if targets == ("-",):
        from ntstop.commands.stdin import open_stdin

        return open_stdin(options)
    from ntstop.commands.open import compare_targets, open_target

    try:
        return open_target(targets[0], options) if len(targets) == 1 else compare_targets(targets, options)
    except click.ClickException as error:
        command = _command_meant(targets[0], error.__cause__)
        if command is None:
            raise
        raise click.ClickException(f"there is no run {targets[0]!r}; did you mean the command {command}?") from error


def _command_meant(word: str, cause: BaseException | None) -> str | None:
    """Of a first word that no run is called, the command whose name is near: `ntstop expalin`."""
    import difflib

    from ntstop.sources.runs import UnknownRun

    # The name of a command is letters only; an id is not, mostly.
    if not isinstance(cause, UnknownRun) or cause.word != word or not word.isalpha():
        return None
    return next(iter(difflib.get_close_matches(word, ntstop.commands, 1)), None)


def _options(
    roles: tuple[str, ...] = (),
    pattern: str | None = None,
    thresholds: tuple[str, ...] = (),
    notify: str | None = None,
    *,
    once: bool = False,
) -> Options:
    from ntstop.commands.options import gather

    return gather(roles, pattern, thresholds, notify, once=once)


def _log_options(roles: tuple[str, ...], pattern: str | None) -> LogOptions:
    from ntstop.commands.target import log_options
    from ntstop.sources.base import SourceError

    try:
        return log_options(roles, pattern)
    except SourceError as error:
        raise click.ClickException(str(error)) from error


@ntstop.command("ls")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--all", "-a", "show_all", is_flag=True, help="Every run, not only the newest twenty.")
def list_runs(as_json: bool, show_all: bool) -> int:
    """List runs: state, steps, age, last loss, rate."""
    from ntstop.commands.ls import list_runs

    return list_runs(as_json=as_json, show_all=show_all)


@ntstop.command("run", context_settings=PASS_ON, short_help="Start a training command with the probe in it.")
@click.option("--watch", is_flag=True, help="Open the terminal too; the command's output goes to a file.")
@click.option("--title", help="A title for people.")
@click.option("--name", "run", metavar="RUN_ID", help="The run's id; that of an older run makes this its next attempt.")
@_notify
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(watch: bool, title: str | None, run: str | None, notify: str | None, command: tuple[str, ...]) -> int:
    """Start a training command with the probe in it: ntstop run -- python train.py

    Exit code, signals, stdin and stdout are the command's own. With --watch, quitting the viewer leaves the job
    running, and ntstop waits for it.
    """
    from ntstop.commands.run import run_command

    return run_command(command, watch=watch, title=title, run=run, notify=notify)


@ntstop.command("demo", epilog=_FAULTS_HELP, short_help="Train a small real transformer beside the terminal.")
@click.option("--fault", type=click.Choice(sorted(FAULTS)), help="A real fault to switch on (see below).")
@click.option("--at", type=click.IntRange(min=1), metavar="N", help="Step from which the fault acts.  [150, or half]")
@click.option("--steps", type=click.IntRange(min=2), metavar="N", help="Steps to train.  [3000; headless 300]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the weights and of the data's order.")
@click.option("--headless", is_flag=True, help="Train without a screen, then print a summary.")
def demo(fault: str | None, at: int | None, steps: int | None, seed: int, headless: bool) -> int:
    """Train a small real transformer beside the terminal, on this Python's own sources."""
    from ntstop.commands.demo import run_demo

    return run_demo(fault=fault, at=at, steps=steps, seed=seed, headless=headless)


@ntstop.command("relay")
@click.argument("run", required=False)
def relay(run: str | None) -> int:
    """Write a run's frames to standard output: ssh -n NODE ntstop relay RUN | ntstop -

    First the recording, then what comes; ends with the run. Without RUN it is the newest live one.
    """
    from ntstop.commands.relay import relay

    return relay(run)


@ntstop.command("rm")
@click.argument("targets", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def remove(targets: tuple[str, ...], yes: bool) -> int:
    """Remove runs that have ended, with all their recordings."""
    from ntstop.commands.prune import remove

    return remove(targets, yes=yes)


@ntstop.command("prune")
@click.option("--older-than", metavar="AGE", help="Runs whose last activity is longer ago: 30d, 12h, 2w.")
@click.option("--larger-than", metavar="SIZE", help="The oldest runs, until the others are no larger: 5GB.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def prune(older_than: str | None, larger_than: str | None, yes: bool) -> int:
    """Remove old runs; says which and asks first. Never one that goes on."""
    from ntstop.commands.prune import prune

    return prune(older_than, larger_than, yes=yes)


@ntstop.command("export")
@click.argument("target")
@click.option(
    "--to", "form", required=True, type=click.Choice(["csv", "jsonl", "parquet", "tensorboard"]), help="The format."
)
@click.option("-o", "--output", metavar="PATH", help="Where to; `-` is standard output.  [jsonl: -; else a name here]")
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=click.Choice(["steps", "scalars", "layers", "findings"]),
    help="Only this one; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace what is there.")
@_role
@_pattern
def export(
    target: str,
    form: str,
    output: str | None,
    tables: tuple[str, ...],
    force: bool,
    roles: tuple[str, ...],
    pattern: str | None,
) -> int:
    """Write steps, scalars, layers and findings of a run, or of another tool's log, for other programs.

    CSV and Parquet are a folder with a file a table (with one --table, that file), TensorBoard is a folder of event
    files, JSON lines are one stream. Not measured is an empty cell, a null, no key; a NaN stays a NaN, and in JSON is
    null, with its name in "nonfinite". Parquet needs pyarrow.
    """
    from ntstop.commands.export import export_target

    names: Any = tables
    kind: Any = form
    return export_target(target, kind, output, names, _log_options(roles, pattern), force=force)


@ntstop.command("diagnose")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--json", "style", flag_value="json", help="One JSON object a target, one a line.")
@click.option("--md", "style", flag_value="md", help="Cards in Markdown.")
@_role
@_pattern
@_threshold
@_notify
def diagnose(
    targets: tuple[str, ...],
    style: str | None,
    roles: tuple[str, ...],
    pattern: str | None,
    thresholds: tuple[str, ...],
    notify: str | None,
) -> int:
    """Say what is wrong with runs, or with logs of other tools, with numbers.

    Exits 0 with nothing at warning or above, 1 with something, 2 when a target can't be read.
    """
    from ntstop.commands.diagnose import diagnose

    return diagnose(targets, style or "text", _options(roles, pattern, thresholds, notify))


@ntstop.command("explain")
@click.argument("kind", required=False)
def explain(kind: str | None) -> int:
    """Say what a kind of finding means, and what it is judged by; without KIND, list them all.

    `ntstop explain keys` lists the actions that `[keys]` of ntstop.toml can move, and where they are.
    """
    from ntstop.commands.explain import explain_kind

    return explain_kind(kind)


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script. Bad input is one line on stderr and exit code 2; ctrl-c is 130."""
    if not sys.warnoptions:
        # A loss that overflows in a sum is the job's affair; its reader did not ask for numpy's opinion of it.
        warnings.simplefilter("ignore")
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode gets question marks, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        result: Any = ntstop.main(arguments, prog_name="ntstop", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        click.echo(f"ntstop: {error.format_message()}", err=True)
        return error.exit_code if error.exit_code != 1 else 2
    except click.Abort:
        return 130
    except OSError as error:
        # Where the reader of a pipe has gone nobody is left to be told, and the code is that of a filter.
        gone = isinstance(error, BrokenPipeError)
        if not gone:
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            click.echo(f"ntstop: {where}{error.strerror or error}", err=True)
        # What could not be written is in the stream still: the interpreter would complain of it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1 if gone else 2
    return result if isinstance(result, int) else 0


def _open_what_is_closed() -> None:
    """Let what is printed go nowhere where stdout or stderr is closed, `ntstop ls >&-`; of stdin nothing comes then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process
