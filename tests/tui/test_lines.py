"""The one-line parts of the screen: status, titles, hints, findings. What they drop when there is no room."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ntstop.diagnosis.finding import Claim, Finding, weight
from ntstop.text import cell_width
from ntstop.tui.facts import Facts, status_parts
from ntstop.tui.raster.ink import Ink
from ntstop.tui.widgets.findings import draw_findings, laid_out
from ntstop.tui.widgets.hints import Hint, draw_hints, placed
from ntstop.tui.widgets.pane import Name, draw_title, value
from ntstop.tui.widgets.statusline import draw_status

FACTS = Facts(
    title="gpt-small",
    state="live",
    ranks=4,
    host="node17",
    hardware="4×H100",
    step=12_340,
    total=50_000,
    per_second=3.1,
    probe_share=0.003,
)


def status(facts: Facts, width: int, ascii_only: bool = False) -> str:
    return draw_status(*status_parts(facts, ascii_only), width).text()


def test_how_often_the_probe_looks_stands_beside_its_cost_where_there_is_room() -> None:
    facts = replace(FACTS, sampling="layers every 16 steps, phases every 4")
    assert "probe 0.3% of step  layers every 16 steps, phases every 4" in status(facts, 200)
    assert "probe 0.3%" in status(facts, 80) and "of step" not in status(facts, 80)
    assert "layers" not in status(facts, 80)
    assert "step 12,340" in status(facts, 80)


def test_notes_that_are_of_no_step_come_after_those_that_are() -> None:
    unseeded = finding(id="2", kind="unreproducible", severity="info", first_step=0)
    spike = finding(id="3", kind="loss-spike", severity="info", first_step=500, status="resolved")
    ended = finding(id="4", kind="exited", severity="info", first_step=900)
    failed = finding(id="5", kind="exited", severity="critical", first_step=900)
    order = sorted([unseeded, ended, spike, finding(), failed], key=weight)
    assert [one.kind for one in order] == ["exited", "plateau", "loss-spike", "unreproducible", "exited"]
    assert order[0].severity == "critical"


def finding(**changes: object) -> Finding:
    given = {
        "id": "1",
        "kind": "plateau",
        "severity": "warning",
        "area": "optimization",
        "failure_mode": "optimization",
        "first_step": 9900,
        "last_step": 12_300,
        "rank": None,
        "where": "loss",
        "claim": Claim("smoothed loss moved 0.3 % in 2,400 steps", "the rate is too low", "raise it", "medium"),
        "writer": 7,
    }
    return Finding(**(given | changes))  # type: ignore[arg-type]


def test_a_wide_status_line_says_who_and_how() -> None:
    line = status(FACTS, 120)
    for part in ("gpt-small", "4 ranks", "node17", "● LIVE", "step 12,340 / 50,000", "3.10/s", "ETA", "probe 0.3%"):
        assert part in line
    assert len(line) == 120


def test_an_axis_that_does_not_follow_the_tail_says_how_far_back_it_ends() -> None:
    assert "◂ 500 to the tail" in status(replace(FACTS, back=500), 120)
    assert "< 500 to the tail" in status(replace(FACTS, back=500), 80, ascii_only=True)
    assert "PAUSED" in (both := status(replace(FACTS, back=500, behind=132), 120)) and "to the tail" not in both


def test_a_narrow_status_line_keeps_state_and_step() -> None:
    line = status(FACTS, 40)
    assert "● LIVE" in line and "step 12,340" in line
    assert "probe" not in line and "H100" not in line


def test_the_state_is_a_word_and_a_glyph_and_ascii_where_it_must_be() -> None:
    for state in ("live", "waiting", "finished", "died", "stale"):
        facts = Facts(title="run", state=state)
        assert state.upper() in status(facts, 80)
        assert status(facts, 80, ascii_only=True).isascii()


def test_old_data_and_a_paused_picture_are_said() -> None:
    line = status(Facts(title="run", state="live", silent=12.4, step=500, behind=132), 100)
    assert "data 12 s old" in line and "PAUSED +132 steps" in line
    assert "old" not in status(Facts(title="run", state="live", silent=1.0), 100)


def test_what_is_not_known_is_left_out_not_zero() -> None:
    line = status(Facts(title="run", state="waiting"), 100)
    assert "0" not in line and "–" not in line


@given(title=st.text(max_size=60), host=st.text(max_size=30), width=st.integers(1, 160))
def test_no_name_breaks_the_width_of_the_status_line(title: str, host: str, width: int) -> None:
    line = status(Facts(title=title, host=host, state="live", step=3), width)
    assert cell_width(line) == width


def test_a_focused_title_is_marked_by_a_glyph() -> None:
    plain = draw_title("loss", [value("2.31", key="train")], 60).text()
    focused = draw_title("loss", [value("2.31", key="train")], 60, focused=True).text()
    assert "▸" not in plain and "▸ loss" in focused
    rule = draw_title("loss", [], 60, focused=True).ink[0, 20], draw_title("loss", [], 60).ink[0, 20]
    assert rule == (Ink.DIM, Ink.AXIS), "and by a lighter line"
    assert plain.rstrip().endswith("train 2.31 ─")


def test_that_old_steps_are_being_read_is_said() -> None:
    assert "… reading old steps" in status(Facts(title="run", state="live", step=3, is_reading=True), 100)
    assert "reading" not in status(Facts(title="run", state="live", step=3), 100)


def test_an_attempt_after_the_first_is_said() -> None:
    assert "attempt 3" in status(Facts(title="run", state="live", attempt=2), 100)
    assert "attempt" not in status(Facts(title="run", state="live"), 100)


def test_a_title_without_room_drops_its_last_values_whole_but_keeps_its_note() -> None:
    values = [value("1.5", key="first"), value("2.5", key="second"), value("3.5", key="third")]
    line = draw_title("loss", values, 34).text()
    assert "first 1.5" in line and "third" not in line
    assert len(line) == 34
    noted = draw_title("loss", values, 34, note="step 1,200").text()
    assert draw_title("loss", values, 34, note="step 1,200", aside="←→ 25").text() == noted
    assert "step 1,200, ←→ 25 ─" in draw_title("loss", values, 90, note="step 1,200", aside="←→ 25").text()
    assert "step 1,200" in noted and "first 1.5" in noted and "second" not in noted
    assert draw_title("loss", [value("1.5", key="…")], 34, ascii_only=True).text().isascii()


def test_a_title_cuts_names_and_the_note_before_it_loses_the_key_to_a_line() -> None:
    names = ["sweep-learning-rate-1e-3", "sweep-learning-rate-1e-4", "c"]
    values = [(("━", Ink.LINE_0), (Name(name), Ink.TEXT), ("1.234", Ink.STRONG)) for name in names]
    values.append(value("2.5", key="avg"))
    note = "4,096 steps, rank 0"
    wide = draw_title("loss", values, 140, note=note).text()
    assert all(word in wide for word in (*names, note, "avg 2.5"))
    line = draw_title("loss", values, 80, note=note).text()
    assert line.count("1.234") == 3 and "…ate-1e-3 " in line and "…ate-1e-4 " in line and " c " in line and note in line
    assert "avg" not in line
    narrow = draw_title("loss", values, 60, note=note).text()
    assert narrow.count("1.234") == 3 and "…ate-1e-3" in narrow and "4,096 steps" not in narrow and len(narrow) == 60
    assert "4,096 steps ─  ━ …e-1e-3 1.234 ─" in draw_title("loss", values, 40, note=note).text(), "no room for three"


def test_hints_go_from_the_right_but_help_and_quit_stay() -> None:
    first = [Hint("space", "pause"), Hint("y", "log"), Hint("e", "smooth"), Hint("tab", "panes")]
    last = [Hint("?", "help"), Hint("q", "quit")]
    assert "panes" in draw_hints(placed(first, last, 80), 80).text()
    line = draw_hints(placed(first, last, 36), 36).text()
    assert "panes" not in line and "pause" in line and "quit" in line


def test_a_finding_row_says_severity_in_words_since_when_and_what() -> None:
    text = draw_findings([finding(), finding(id="2", severity="critical", status="resolved")], 0, 100, 3).text()
    first, second, _ = text.split("\n")
    assert first.startswith("▸ ▲ WARN  plateau") and "since 9,900" in first and "moved 0.3 %" in first
    assert "ENDED" in second and "CRIT" not in second


def test_the_selected_finding_is_always_in_view() -> None:
    findings = [finding(id=str(index), kind=f"kind-{index}") for index in range(9)]
    assert "kind-7" in draw_findings(findings, 7, 80, 2).text()
    assert "kind-0" in draw_findings(findings, 0, 80, 2).text()


def test_a_long_symptom_goes_on_where_rows_are_left_over_the_selected_one_first() -> None:
    long = Claim("a long story of " + " ".join(str(number) for number in range(40)), "", "", "")
    findings = [finding(id=str(index), kind=f"kind-{index}", claim=long) for index in range(2)]
    rows = laid_out(findings, 1, 80, 4)
    assert [place for place, _ in rows] == [0, 1, 1, 1]
    assert rows[0][1].endswith("…") and rows[3][1].endswith("39")
    text = draw_findings(findings, 1, 80, 4).text()
    assert text.count("kind-1") == 1 and all(len(row) == 80 for row in text.split("\n"))
    assert [place for place, _ in laid_out(findings * 9, 0, 80, 4)] == [0, 1, 2, 3]


def test_symptoms_with_escapes_and_wide_characters_stay_in_their_row() -> None:
    claim = Claim("层\x1b[31m の 損失 🚀 " * 10, "", "", "")
    picture = draw_findings([finding(claim=claim)], 0, 60, 1)
    assert cell_width(picture.text()) == 60 and "\x1b" not in picture.text()


def test_nothing_found_is_said() -> None:
    picture = draw_findings([], 0, 60, 2, nothing="nothing found in 4,000 steps")
    assert "nothing found" in picture.text() and int(picture.ink[0, 4]) == Ink.DIM
