"""What `diagnose` prints: the JSON object is an interface, field by field; the cards are for people."""

from __future__ import annotations

import json
import math

from ntstop.diagnosis import card
from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.report import RunInfo, exit_code, line, report, reproduction_of, summary
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
    assert "cd /home/someone/job && python train.py" in how.sentence()
    assert "unreproducible" in how.sentence() and "uncommitted" in how.sentence()
    engine = broken()
    assert reproduction_of(engine, only(engine, "nonfinite-loss")).repeatable


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
