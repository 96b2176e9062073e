"""Names that are no text, places that nobody has, links to nothing: one line or a "?", never a traceback."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ntstop.export.sinks import FORMATS
from ntstop.settings import SettingsError, settings_path
from ntstop.sources.logs.discover import log_targets
from ntstop_probe.wire import Hello, Manifest, Scalars, decode_batch, encode_batch
from tests.monitor.test_cli import ntstop

ROWS = "step,loss\n" + "".join(f"{step},{3 - 0.01 * step}\n" for step in range(60))


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system takes UTF-8 only")
def test_a_file_whose_name_is_no_text_is_diagnosed(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff\xfe.csv", "w") as file:
        file.write(ROWS)
    done = ntstop("diagnose", "--json", str(tmp_path))
    assert done.returncode == 0 and json.loads(done.stdout)["run"]["id"].endswith("/??.csv")


def test_half_a_character_in_the_name_of_a_metric_is_a_question_mark_in_every_export(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {step}, "loss": 1, "half\\ud800": 3}}\n' for step in range(9)))
    assert "half?" in ntstop(str(path)).stdout
    for form in FORMATS:
        done = ntstop("export", str(path), "--to", form, "-o", str(tmp_path / form))
        assert done.returncode == 0, done


def test_a_link_to_nothing_hides_no_log_beside_it(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text(ROWS)
        (tmp_path / f"gone-{number}").symlink_to("nowhere")
        (tmp_path / f"loop-{number}").symlink_to(f"loop-{number}")
    assert len(log_targets(tmp_path)) == 5


@pytest.mark.parametrize("command", [[], ["diagnose"], ["export", "--to", "csv"], ["relay"], ["rm"]])
def test_the_home_of_nobody_is_one_line(command: list[str]) -> None:
    done = ntstop(*command, "~nobody-has-this-name/log.csv")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "~nobody-has-this-name" in done.stderr


def test_a_configuration_in_the_home_of_nobody_is_one_line() -> None:
    with pytest.raises(SettingsError, match="an absolute path is meant"):
        settings_path({"NTSTOP_CONFIG": "~nobody-has-this-name/ntstop.toml"})


def test_half_a_character_costs_no_record() -> None:
    hello = Hello(
        protocol=1, run="r", writer="w", host="h", boot="", pid_namespace="", pid=1, started=0.0, attempt=0, t=0.0,
        wall=0.0, title="a\udcff", manifest=Manifest(command=["python", "\udcfe.py"]),
    )  # fmt: skip
    scalars = Scalars(t=1.0, ordinal=0, step=None, values={"\ud800": 1.0, "loss": 2.0})
    records, skipped = decode_batch(encode_batch([hello, scalars]))
    assert skipped == 0 and len(records) == 2
    first, second = records
    assert isinstance(first, Hello) and first.title == "a?" and first.manifest.command == ["python", "?.py"]
    assert isinstance(second, Scalars) and second.values == {"?": 1.0, "loss": 2.0}
