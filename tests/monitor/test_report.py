"""What `diagnose` prints: the JSON object is an interface, field by field; the cards are for people."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from ntstop.diagnosis import card
from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.report import RunInfo, exit_code, line, report, reproduction_of, summary
from ntstop.diagnosis.reproduction import reproduction
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, layers, manifest, only, schema

RUN = RunInfo(id="run-1", state="finished", source="recording", ranks=1, first_step=0, last_step=199)


def broken(of: wire.Manifest | None = None) -> Engine:
    script = Script().add(hello(of=of), schema()).steps(descent(200)[:120])
    script.add(layers(120, script.t, grad_nonfinite=[1, 1, 1, 1]))
    return diagnose(script.steps([math.nan] * 80).records)


def parsed(engine: Engine) -> dict[str, object]:
    text = report("run-1", RUN, engine).to_json()
    assert b"\n" not in text

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    value: dict[str, object] = json.loads(text, parse_constant=refuse)
    return value


def test_json_has_the_fields_of_the_interface_and_nothing_else() -> None:
    value = parsed(broken(wire.Manifest()))
    assert list(value) == ["schema_version", "target", "run", "findings"]
    assert value["schema_version"] == 1 and value["target"] == "run-1"
    run, findings = value["run"], value["findings"]
    assert isinstance(run, dict) and isinstance(findings, list)
    assert {"id", "state", "source", "ranks", "first_step", "last_step"} <= set(run)
    for finding in findings:
        assert list(finding) == [
            "id",
            "kind",
            "severity",
            "area",
            "failure_mode",
            "status",
            "first_step",
            "last_step",
            "rank",
            "where",
            "symptom",
            "evidence",
            "hypothesis",
            "fix",
            "confidence",
            "open_questions",
            "reproduction",
        ]
        for item in finding["evidence"]:
            assert list(item) == ["text", "series", "step", "value", "unit", "basis"]
            assert item["basis"] in ("measured", "estimated", "unchecked")
    assert [finding["severity"] for finding in findings] == ["critical", "info"]


def test_nan_is_null_in_json_and_a_word_in_the_text() -> None:
    findings = parsed(broken())["findings"]
    assert isinstance(findings, list)
    at = next(item for item in findings[0]["evidence"] if item["text"].startswith("at: "))
    assert at["value"] is None and "NaN" in at["text"]


def test_config_that_json_cannot_hold_does_not_break_the_report() -> None:
    assert parsed(broken(manifest(config={"limit": math.inf, "path": {1, 2}, "kind": complex(1, 2)})))["findings"]


def test_exit_code_is_one_from_warning_up() -> None:
    assert exit_code(broken().findings) == 1
    assert exit_code(diagnose(Script().add(hello(of=wire.Manifest())).steps(descent(50)).records).findings) == 0
    assert exit_code([]) == 0


def test_reproduction_says_how_and_what_is_missing() -> None:
    engine = broken(manifest(seed=None, git_dirty=True))
    how = reproduction_of(engine, only(engine, "nonfinite-loss"))
    assert how.missing == ["clean git tree", "seed"] and not how.repeatable
    lines = how.lines()
    assert lines[0] == "`cd /home/someone/job && python train.py`"
    assert "0123456789abcdef, with uncommitted changes" in lines[1] and "data sha256:1" in lines[1]
    assert lines[-1].startswith("missing: clean git tree, seed;")
    engine = broken()
    assert reproduction_of(engine, only(engine, "nonfinite-loss")).repeatable


def test_reproduction_names_what_the_run_ran_with_and_on() -> None:
    of = manifest(
        command=["python", "-c", "print(`a`)"],
        hardware={"gpu": "4×H100", "memory_bytes": "1073741824"},
        layout={"world": "4"},
        precision="bfloat16",
        environment={"NTSTOP_RUN_ID": "x", "CUDA_VISIBLE_DEVICES": "0,1"},
        config={"width": "w" * 1000},
    )
    engine = broken(of)
    lines = reproduction_of(engine, only(engine, "nonfinite-loss")).lines()
    assert lines[0] == "`` cd /home/someone/job && python -c 'print(`a`)' ``"
    text = "\n".join(lines)
    for part in (
        "torch 2.9",
        "gpu 4×H100",
        "memory 1.00 GiB",
        "world 4",
        "bfloat16",
        "CUDA_VISIBLE_DEVICES=0,1",
        "seed 7",
    ):
        assert part in text
    assert "NTSTOP_RUN_ID" not in text and "missing" not in text
    assert all(len(line) < 400 for line in lines) and "…`" in text


def test_nothing_known_is_said_and_breaks_nothing() -> None:
    how = reproduction(None)
    assert how.lines()[0] == "its command is not known"
    assert how.lines()[1].startswith("missing: git SHA, seed, config, data hash, versions")


def test_findings_that_are_explained_are_told_by_kind_with_how_many_more() -> None:
    engine = broken()
    finding = only(engine, "nonfinite-loss")
    finding.explained = [
        replace(finding, id=str(step), kind=kind, first_step=step, explained=[])
        for kind, step in [("loss-spike", 130), ("loss-spike", 125), ("dead-layer", 140)]
    ]
    symptom = dict(card.fields(finding, reproduction_of(engine, finding)))["Symptom"]
    assert len(symptom) == 3
    assert symptom[1].startswith("with it, loss-spike in loss from step 125:") and "and 1 more" in symptom[1]
    assert symptom[2].startswith("with it, dead-layer in loss from step 140:") and "more of it" not in symptom[2]
    value = parsed(engine)["findings"]
    assert isinstance(value, list)
    assert [item["step"] for item in value[0]["evidence"] if item["text"].startswith("with it,")] == [125, 140]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("blocks.*.mlp of __init__.<locals>", r"blocks.\*.mlp of \_\_init\_\_.\<locals\>"),
        ("grad_norm is 3, `clip(a*b)` is not", "grad_norm is 3, `clip(a*b)` is not"),
        ("[a](http://b) | ~~c~~ ` d", r"\[a\](http://b) \| \~\~c\~\~ \` d"),
        ("# not a heading\n- nor a list", r"\# not a heading - nor a list"),
    ],
)
def test_names_of_the_job_are_no_markup_in_a_card(text: str, shown: str) -> None:
    assert card.literal(text) == shown


def test_card_has_its_eight_fields_in_order() -> None:
    engine = broken()
    finding = only(engine, "nonfinite-loss")
    how = reproduction_of(engine, finding)
    titles = [title for title, _ in card.fields(finding, how)]
    assert titles == [
        "Symptom",
        "Reproduction",
        "Failure mode",
        "Hypothesis",
        "Evidence",
        "Fix",
        "Confidence",
        "Open questions",
    ]
    text = card.markdown(finding, how)
    assert text.startswith("## Critical: nonfinite-loss in loss (step 120 to 199, open)")
    assert "unreproducible" not in text
    assert [text.index(f"**{title}.**") for title in titles] == sorted(text.index(f"**{title}.**") for title in titles)


def test_a_card_on_the_screen_says_what_to_change_before_how_to_repeat_it() -> None:
    engine = broken()
    finding = only(engine, "nonfinite-loss")
    how = reproduction_of(engine, finding)
    titles = [title for title, _ in card.fields_on_screen(finding, how)]
    assert "`ntstop explain nonfinite-loss`" in dict(card.fields(finding, how))["Failure mode"][0]
    assert titles[:4] == ["Symptom", "Hypothesis", "Fix", "Evidence"] and titles[-1] == "Reproduction"
    assert dict(card.fields_on_screen(finding, how)) == dict(card.fields(finding, how))


def test_card_of_a_run_that_cannot_be_repeated_is_marked() -> None:
    engine = broken(manifest(data_hash=None))
    finding = only(engine, "nonfinite-loss")
    heading, *_ = card.markdown(finding, reproduction_of(engine, finding)).splitlines()
    assert heading.endswith("· *unreproducible*")


def test_summary_has_a_word_for_every_severity_and_one_line_a_finding() -> None:
    engine = broken(wire.Manifest())
    lines = summary(engine.findings).splitlines()
    assert len(lines) == 2 and "CRIT" in lines[0] and "info" in lines[1]
    assert line(engine.findings[0]) == lines[0]
    assert summary([]) == "nothing found"
