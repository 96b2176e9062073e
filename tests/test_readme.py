"""The README says what there is: commands, keys and variables."""

from __future__ import annotations

import re
from pathlib import Path

from textual.binding import Binding

from ntstop.cli import ntstop
from ntstop.tui import bindings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    """The text under a heading."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> str:
    """The first columns of the tables in a text."""
    return "\n".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))


def test_every_command_stands_in_the_readme() -> None:
    missing = [name for name in ntstop.commands if f"`ntstop {name}" not in README]
    assert not missing


def _keys() -> list[Binding]:
    lists = (bindings.APP, bindings.RUN, bindings.CURVES, bindings.CURVES_PANE, bindings.LAYERS, bindings.TABLE)
    return [key for keys in lists for key in keys if isinstance(key, Binding)]


def test_every_key_with_a_help_text_stands_in_the_table() -> None:
    table = first_cells(section("Keys")).replace(" ", "")
    keys = {key.key_display for key in _keys() if key.tooltip}
    missing = [key for key in keys if key and f"`{key.replace(' ', '')}`" not in table]
    assert not missing


def test_every_variable_that_a_user_may_set_stands_in_the_readme() -> None:
    internal = {"NTSTOP_LAUNCHED", "NTSTOP_MAIN", "NTSTOP_CI"}
    sources = [*(ROOT / "ntstop").rglob("*.py"), *(ROOT / "probes" / "ntstop_probe").rglob("*.py")]
    used = {name for path in sources for name in re.findall(r"\bNTSTOP_[A-Z_]+\b", path.read_text())} - internal
    missing = [name for name in used if f"`{name}" not in README]
    assert not missing


def test_pictures_and_files_that_the_readme_links_to_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing
