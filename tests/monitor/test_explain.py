"""What `ntstop explain` says, and that no rule opens a kind that it cannot explain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ntstop.diagnosis import catalogue, rules
from ntstop.diagnosis.catalogue import KINDS
from ntstop.diagnosis.explanation import explain, families
from ntstop.diagnosis.folding import EXPLAINS
from ntstop.diagnosis.thresholds import REGISTRY, Thresholds, threshold
from tests.monitor.test_cli import is_one_line, ntstop
from tests.test_architecture import HEAVY, cli, loaded_by

_NAMES = """
    nonfinite-loss nonfinite-grad loss-scale-collapse update-underflow
    divergence loss-spike plateau never-learned params-not-updating frozen-layers dead-layer vanishing-gradients
    exploding-gradients gradient-accumulating update-ratio-high update-ratio-low lr-zero lr-jump eval-mode-training
    overfit leakage-suspect early-stop
    input-bound transfer-bound gpu-underutilized step-time-regression recompile-storm
    memory-growth fragmentation oom-risk oom
    stall died exited
    straggler rank-divergence rank-desync
    resume-discontinuity step-rewind checkpoint-stale contract-changed
    parity-mismatch hard-case-regression data-order-repeats
    thermal-throttle ecc-errors gpu-lost
    unreproducible budget-exceeded target-out-of-reach
"""
DESIGN = set(_NAMES.split())
"""The names that are part of the JSON interface."""


@pytest.fixture
def made_up() -> Iterator[None]:
    """A kind with one threshold."""
    rules.load()
    known, numbers = dict(KINDS), dict(REGISTRY)
    KINDS.pop("plateau", None)
    catalogue.kind(
        "plateau",
        "optimization",
        "update/memory/step profile",
        meaning="The loss has stopped to move. It may be done.",
        detector="slopes of blocks",
        severity="info at the end of the schedule, else warning",
    )
    threshold(
        "plateau.made-up", 8, low=1, high=100, unit="blocks", meaning="Fewer are quicker.", source="measured on nothing"
    )
    yield
    KINDS.clear()
    KINDS.update(known)
    REGISTRY.clear()
    REGISTRY.update(numbers)


@pytest.mark.usefixtures("made_up")
def test_a_kind_is_explained_with_its_numbers_their_sources_and_how_to_change_them() -> None:
    text = explain("plateau", Thresholds({"plateau.made-up": 12.5}), "~/ntstop.toml")
    assert text.startswith("plateau  (optimization)\n\nThe loss has stopped to move. It may be done.\n")
    for part in (
        "slopes of blocks",
        "info at the end of the schedule",
        "update/memory/step profile",
        "plateau.made-up = 12.5 blocks  (default 8, 1 to 100)",
        "Fewer are quicker.",
        "Source: measured on nothing",
        "in ~/ntstop.toml:",
        "  plateau.",
        "--threshold plateau.",
    ):
        assert part in text


@pytest.mark.usefixtures("made_up")
def test_the_list_has_each_kind_once_under_its_family() -> None:
    lines = families().splitlines()
    row = next(line for line in lines if line.startswith("  plateau "))
    assert " ".join(row.split()) == "plateau The loss has stopped to move."
    assert "optimization" in lines[: lines.index(row)]


@pytest.mark.usefixtures("made_up")
def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"plateu.*did you mean plateau\?") as error:
        explain("plateu", Thresholds(), "")
    assert "\n" not in str(error.value)


def test_an_unknown_kind_on_the_command_line_is_one_line_and_exit_code_2() -> None:
    for word in ("nothing-like-it-at-all", "nope"):
        done = ntstop("explain", word)
        assert is_one_line(done), done
        assert "did you mean" not in done.stderr and "`ntstop explain` lists them" in done.stderr
    assert ntstop("explain").returncode == 0


def test_explaining_loads_no_terminal_library() -> None:
    assert not loaded_by(cli("explain")) & (set(HEAVY) - {"numpy", "psutil"})


# --- the catalogue ----------------------------------------------------------------------------------------------------


def opened() -> dict[str, set[str]]:
    """The kinds that stand in the code of the rules, with the files they stand in.

    A kind is opened by a word, a constant or a table; so every string that is one of the design's names counts, and
    every word that is given to an `open` itself.
    """
    found: dict[str, set[str]] = {}
    for path in sorted(Path(*rules.__path__).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if node.func.attr not in ("open", "_open", "_keep"):
                continue
            first = node.args[0]
            name = first.value if isinstance(first, ast.Constant) else constants.get(getattr(first, "id", ""))
            if isinstance(name, str) and (node.func.attr == "open" or name in DESIGN):
                found.setdefault(name, set()).add(path.name)
    return found


def test_every_kind_that_a_rule_opens_is_one_of_the_interface() -> None:
    assert opened().keys() >= {"loss-spike", "unreproducible"}, "the search finds words and constants"
    assert opened().keys() <= DESIGN


def test_every_kind_that_a_rule_opens_can_be_explained() -> None:
    rules.load()
    assert opened().keys() <= KINDS.keys()
    assert {threshold.kind for threshold in REGISTRY.values()} <= KINDS.keys()


def test_every_threshold_says_what_it_is_and_what_happens_when_it_is_raised() -> None:
    rules.load()
    for known in REGISTRY.values():
        what, raised, then = known.meaning.partition(". Raised, ")
        assert raised and what[0].isupper() and then.endswith(".") and known.source, known.name


def test_what_is_declared_is_one_of_the_interface() -> None:
    rules.load()
    assert KINDS.keys() <= DESIGN
    assert {threshold.kind for threshold in REGISTRY.values()} <= DESIGN
    assert {*EXPLAINS, *(name for names in EXPLAINS.values() for name in names)} <= DESIGN
