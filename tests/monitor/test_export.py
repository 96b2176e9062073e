"""`ntstop export`, read back by the programs it is for: pandas, pyarrow and TensorBoard."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ntstop.export.tables import short
from ntstop_probe.wire import Host, Layers, Scalars, Schema

from .logs import EVENTS
from .writer import EPOCH, Writer, column, steps

LOSSES = [float("nan"), float("inf"), None, 0.1]


@pytest.fixture
def run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """A finished run of one rank: 304 steps, whose last losses are NaN, Inf, missing and 0.1."""
    monkeypatch.chdir(tmp_path)
    writer = Writer("exp", rank=0)
    writer.send_layers(Schema(1, ["a.weight", "b.weight"]))
    writer.train(0, 300, block=50, at=100)
    writer.send(Scalars(EPOCH + 5.0, None, 20, {"val/loss": float("nan"), "accuracy": 0.25}))
    writer.send(Host(EPOCH + 5.0, process_cpu=1.5))
    norms = {"grad_norm": column("f4", [0.1, None]), "param_norm": column("f4", [math.inf, math.nan])}
    writer.send_layers(Layers(1, 20, 120, EPOCH + 2.0, norms))
    writer.send(steps(300, LOSSES, at=400))
    writer.exit(0)
    writer.close()
    return writer


def ntstop(*arguments: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    """`shell` may hold the arguments as "$@"."""
    command = [sys.executable, "-m", "ntstop", *arguments]
    if shell:
        command = ["bash", "-c", shell.replace("ntstop", f"{sys.executable} -m ntstop"), "bash", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def export(*arguments: str) -> str:
    done = ntstop("export", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pandas_reads_the_csv(run: Writer) -> None:
    export("exp", "--to", "csv")
    table = pandas.read_csv("exp-csv/steps.csv")
    assert table["step"].tolist() == list(range(100, 404))
    assert table["loss"].tolist()[:300] == [float(index) for index in range(300)]
    assert np.isnan(table["loss"].iloc[300]) and table["loss"].iloc[301] == math.inf and table["loss"].iloc[303] == 0.1
    # Missing and NaN are told apart by who wants to.
    raw = pandas.read_csv("exp-csv/steps.csv", dtype=str, keep_default_na=False)["loss"].tolist()[300:]
    assert raw == ["nan", "inf", "", "0.1"]
    assert table["step_time"].tolist() == [0.1] * 304
    scalars = pandas.read_csv("exp-csv/scalars.csv").set_index("name")
    # The ordinal of what was logged without a step is brought to the axis of the steps.
    assert scalars.loc["accuracy", ["step", "value"]].tolist() == [120, 0.25]
    assert np.isnan(scalars.loc["val/loss", "value"]) and scalars.loc["host/process_cpu", "value"] == 1.5
    layers = pandas.read_csv("exp-csv/layers.csv", keep_default_na=False)
    assert layers[["step", "layer", "grad_norm", "param_norm"]].values.tolist() == [
        [120, "a.weight", "0.1", "inf"],
        [120, "b.weight", "", "nan"],
    ]
    found = pandas.read_csv("exp-csv/findings.csv").set_index("kind")
    assert "nonfinite-grad" in found.index and json.loads(found.loc["nonfinite-grad", "evidence"])


def test_pyarrow_reads_the_parquet_and_nan_is_no_null(run: Writer) -> None:
    export("exp", "--to", "parquet", "-o", "out")
    losses = pyarrow.parquet.read_table("out/steps.parquet")["loss"]
    assert losses.null_count == 1
    last = losses.to_pylist()[300:]
    assert math.isnan(last[0]) and last[1:] == [math.inf, None, 0.1]
    layers = pyarrow.parquet.read_table("out/layers.parquet")
    assert layers.schema.field("grad_norm").type == pyarrow.float32()
    assert layers["grad_norm"].to_pylist() == [pytest.approx(0.1), None]
    assert layers["param_norm"].to_pylist()[0] == math.inf and math.isnan(layers["param_norm"].to_pylist()[1])
    times = pandas.read_parquet("out/steps.parquet")["time"]
    assert times.diff().dropna().round(6).eq(0.1).all()


def test_tensorboard_reads_the_event_files(run: Writer) -> None:
    export("exp", "--to", "tensorboard")
    events = EventAccumulator("exp-tensorboard/rank-0", size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    loss = events.Scalars("loss")
    assert [point.step for point in loss] == [*range(100, 402), 403]
    assert [point.value for point in loss[:300]] == [float(index) for index in range(300)]
    assert math.isnan(loss[300].value) and loss[301].value == math.inf
    assert loss[1].wall_time - loss[0].wall_time == pytest.approx(0.1, abs=1e-5)
    assert events.Scalars("layers/param_norm/a.weight")[0].value == math.inf
    assert [point.step for point in events.Scalars("accuracy")] == [120]
    text = events.Tensors("findings/nonfinite-grad")[0].tensor_proto.string_val[0]
    assert b"in all 2 layers" in text


def test_json_lines_have_null_for_nan_and_say_which_it_was(run: Writer) -> None:
    head, *lines = [
        json.loads(line, parse_constant=pytest.fail) for line in export("exp", "--to", "jsonl").splitlines()
    ]
    assert (head["table"], head["schema_version"], head["id"], head["state"]) == ("run", 1, "exp", "finished")
    rows = [line for line in lines if line["table"] == "steps"]
    assert [row["step"] for row in rows] == list(range(100, 404))
    nan, inf, missing, last = rows[300:]
    assert nan["loss"] is None and nan["nonfinite"] == {"loss": "NaN"}
    assert inf["loss"] is None and inf["nonfinite"] == {"loss": "Infinity"}
    assert "loss" not in missing and "nonfinite" not in missing and last["loss"] == 0.1
    assert all(isinstance(row["evidence"], list) for row in lines if row["table"] == "findings")
    assert pandas.read_json(export_to("exp", "lines.jsonl"), lines=True)["table"].value_counts()["steps"] == 304


def export_to(target: str, path: str) -> str:
    export(target, "--to", "jsonl", "-o", path)
    return path


def test_attempts_and_ranks_stay_apart(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rank, attempt, first in ((0, 0, 0), (0, 1, 5), (1, 0, 0)):
        writer = Writer("many", rank=rank, attempt=attempt)
        writer.send(steps(first, [1.0] * 10, at=first))
        writer.close()
    export("many", "--to", "csv", "--table", "steps", "-o", "steps.csv")
    table = pandas.read_csv("steps.csv").groupby(["rank", "attempt"])["step"]
    assert table.min().to_dict() == {(0, 0): 0, (0, 1): 5, (1, 0): 0} and table.count().tolist() == [10, 10, 10]
    export("many", "--to", "tensorboard")
    events = EventAccumulator("many-tensorboard/rank-0", size_guidance={"scalars": 0})
    events.Reload()
    # What was overwritten in the job's view is in the files.
    assert [point.step for point in events.Scalars("loss")] == [*range(10), *range(5, 15)]


def test_a_log_of_another_tool_is_exported_and_ntstop_reads_it_again(tmp_path: Path) -> None:
    export(str(EVENTS), "--to", "csv", "-o", str(tmp_path / "out"))
    before, after = (
        json.loads(ntstop("diagnose", "--json", str(path)).stdout) for path in (EVENTS, tmp_path / "out" / "steps.csv")
    )
    assert [finding["kind"] for finding in before["findings"]] == ["nonfinite-loss"]
    told = ("kind", "first_step", "where")
    assert [[f[name] for name in told] for f in after["findings"]] == [[f[n] for n in told] for f in before["findings"]]


def test_what_is_there_is_only_replaced_when_told_so(run: Writer, tmp_path: Path) -> None:
    export("exp", "--to", "csv")
    (tmp_path / "exp-csv" / "mine.txt").write_text("kept")
    before = (tmp_path / "exp-csv" / "steps.csv").read_bytes()
    (tmp_path / "exp-csv" / "steps.csv").write_text("old")
    done = ntstop("export", "exp", "--to", "csv")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--force" in done.stderr
    export("exp", "--to", "csv", "--force")
    assert (tmp_path / "exp-csv" / "steps.csv").read_bytes() == before
    assert (tmp_path / "exp-csv" / "mine.txt").read_text() == "kept"
    export("exp", "--to", "jsonl", "-o", "lines")
    assert ntstop("export", "exp", "--to", "jsonl", "-o", "lines").returncode == 2
    export("exp", "--to", "jsonl", "-o", "lines", "--force")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing", "--to", "csv"], "no run"),
        (["exp", "--to", "csv", "-o", "-"], "several files"),
        (["exp", "--to", "parquet", "-o", "-"], "not to standard output"),
        (["exp", "--to", "jsonl", "-o", "no/such/place"], "no folder"),
        (["exp", "--to", "jsonl", "-o", "/dev/full"], "/dev/full: No space left on device"),
        (["exp", "--to", "xlsx"], "xlsx"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Writer, arguments: list[str], says: str) -> None:
    done = ntstop("export", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr


@pytest.mark.parametrize("form", ["csv", "parquet", "tensorboard", "jsonl"])
def test_a_disk_without_room_leaves_one_line_and_nothing_half_done(run: Writer, tmp_path: Path, form: str) -> None:
    # A limit on the size of files fails a write as a full disk does, at the same place.
    done = ntstop("export", "exp", "--to", form, "-o", "out", shell='ulimit -f 1; trap "" XFSZ; ntstop "$@"')
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "out" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_reader_that_has_gone_is_no_traceback(run: Writer) -> None:
    done = ntstop("export", "exp", "--to", "jsonl", shell='ntstop "$@" | head -1')
    assert json.loads(done.stdout)["table"] == "run" and "Traceback" not in done.stderr


def test_without_pyarrow_one_line_says_what_to_install(run: Writer, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "pyarrow.py").write_text("raise ImportError('hidden')")
    done = ntstop("export", "exp", "--to", "parquet", shell=f'PYTHONPATH={tmp_path}/hidden ntstop "$@"')
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "pip install" in done.stderr


def test_float32_is_written_with_as_few_digits_as_bring_it_back() -> None:
    numbers = np.random.default_rng(0).lognormal(0, 20, 5000).astype(np.float32)
    numbers[:6] = [0.1, 3e-4, 0.0, 16777216.0, 1e-45, 3.4e38]
    found = short(numbers)
    assert found.astype(np.float32).tolist() == numbers.tolist()
    assert [repr(number) for number in found[:4].tolist()] == ["0.1", "0.0003", "0.0", "16777216.0"]
