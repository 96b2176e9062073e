"""What is said of a log that lacks something, or in which something had to be assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.monitor.test_cli import ntstop

LOGS = Path(__file__).parents[1] / "data" / "logs"


def table(path: Path, header: str, row: str, count: int = 60) -> str:
    """A CSV of `count` rows, `i` being their number."""
    path.write_text(header + "\n" + "".join(row.format(i=i, fall=5.0 * 0.99**i) + "\n" for i in range(count)))
    return str(path)


@pytest.mark.parametrize(
    ("header", "row", "options", "says"),
    [
        ("step,loss", "{i},{fall}", [], []),
        ("step,loss_a,loss_b", "{i},{fall},{fall}", [], ["2 losses (loss_a, loss_b)"]),
        ("step,loss_a,loss_b", "{i},{fall},{fall}", ["--role", "loss_a=train_loss"], []),
        ("step,val_loss", "{i},{fall}", [], ["no training loss is in it, only one of validation (val_loss)"]),
        ("step,energy", "{i},{fall}", [], ["no training loss", "which of energy it is"]),
        ("step,energy", "{i},{fall}", ["--role", "energy=train_loss"], []),
        ("loss,lr", "{fall},0.1", [], ["names no steps: its rows are counted"]),
        ("step,loss,step_time", "{i},{fall},320", [], ["step_time says no unit: it is taken for seconds"]),
        ("step,loss,step_time_ms", "{i},{fall},320", [], []),
        ("step,loss", "{i},{fall}", ["--role", "los=val_loss"], ["--role los", "did you mean loss?"]),
        ("step,loss", "{i},{fall}", ["--role", "qqq=val_loss"], ["--role qqq", "there are loss"]),
    ],
)  # fmt: skip
def test_what_is_missing_or_assumed_is_one_line_and_the_rest_goes_on(
    tmp_path: Path, header: str, row: str, options: list[str], says: list[str]
) -> None:
    path = table(tmp_path / "log.csv", header, row)
    done = ntstop("diagnose", path, "--json", *options)
    assert done.returncode == 0, done
    (report,) = map(json.loads, done.stdout.splitlines())
    assert len(report["run"]["remarks"]) == bool(says)
    for words in (["diagnose", path], ["diagnose", path, "--md"], [path]):
        output = ntstop(*words, *options).stdout
        assert all(part in output for part in says)
    for part in says:
        assert part in report["run"]["remarks"][0]


def test_what_is_piped_in_is_diagnosed_beside_other_targets(tmp_path: Path) -> None:
    bad = "".join(f"step {step} loss {'nan' if step > 20 else 3.0}\n" for step in range(40))
    with open(tmp_path / "printed", "w+") as pipe:
        pipe.write(bad)
        pipe.seek(0)
        done = ntstop("diagnose", table(tmp_path / "log.csv", "step,loss", "{i},{fall}"), "-", "--json", stdin=pipe)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and [report["target"] for report in reports][1] == "-"
    assert reports[1]["findings"][0]["kind"] == "nonfinite-loss" and not reports[0]["findings"]


def test_nothing_piped_in_is_one_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    done = ntstop("diagnose", "-", table(tmp_path / "log.csv", "step,loss", "{i},{fall}"), "--json")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir() if path.suffix != ".md"))
def test_every_kind_of_log_is_diagnosed(name: str) -> None:
    for style in ("--json", "--md"):
        done = ntstop("diagnose", str(LOGS / name), style)
        assert done.returncode in (0, 1) and done.stdout and not done.stderr, done


@pytest.mark.parametrize(
    ("line", "shown", "doubt"),
    [
        ("step {i} loss {fall} time 25ms", "step_time    25 ms", False),
        ("step {i} loss {fall} 25 ms/step", "step_time    25 ms", False),
        ("step {i} loss {fall} step_time: 25", "step_time    25 s", True),
    ],
)
def test_a_time_whose_unit_the_line_says_is_not_doubted(tmp_path: Path, line: str, shown: str, doubt: bool) -> None:
    path = table(tmp_path / "train.log", "begins", line)
    done = ntstop(path)
    assert " ".join(shown.split()).replace("25 ", "25.0 ") in " ".join(done.stdout.split())
    assert ("says no unit" in done.stdout) is doubt and "duration" not in done.stdout
