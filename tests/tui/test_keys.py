"""The user's own keys: where they act, how they are shown, and one line for each mistake."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from textual.binding import Binding, BindingsMap

from ntstop.cli import main
from ntstop.session import Session
from ntstop.settings import SettingsError
from ntstop.tui import bindings, widgets
from ntstop.tui.app import NtstopApp
from ntstop.tui.keymap import CONTEXTS, PLAIN_KEYS, _defaults, key_label, keymap_of
from ntstop.tui.screens import SCREENS
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.widgets.layer_table import LayerTable
from ntstop.tui.widgets.pane import Pane
from tests.monitor.test_cli import NTSTOP, ntstop, recorded
from tests.tmux import Terminal
from tests.tui import feed
from tests.tui.opened import Screen, opened

Told = Mapping[str, str | Sequence[str]]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"zom-in": "z"}, "keys.zom-in: there is no such action; did you mean keys.zoom-in?"),
        ({"qqqq": "z"}, "keys.qqqq: there is no such action; `ntstop explain keys` lists them"),
        ({"log": "foo"}, "keys.log: 'foo' is no key; such are q"),
        ({"log": ""}, "keys.log: '' is no key"),
        ({"log": "ctrl+"}, "is no key"),
        ({"log": "hyper+x"}, "is no key"),
        ({"log": "ctrl+ctrl+x"}, "is no key"),
        ({"log": ["l", "  "]}, "keys.log: '  ' is no key"),
        ({"log": "\x1b"}, "is no key"),
        ({"log": "shift+y"}, "write the character that shift makes, such as 'Y'"),
        ({"log": "ctrl+i"}, "a terminal sends the same for tab"),
        ({"log": "ctrl+c"}, "'ctrl+c' is quit, always"),
        ({"log": "e"}, "keys.log: e is smoothing already, everywhere; keys.smoothing would move that"),
        ({"zoom-in": "o"}, "keys.zoom-in: o is overlay already, on the screen curves; keys.overlay would move that"),
        ({"log": "z", "smoothing": "z"}, "z is smoothing already"),
        ({"down": "m"}, "m is mark already"),
        ({"down": "x", "axis": "X"}, "keys.down: x is remove already, in the list of runs, and stays"),
        ({"runs": "delete"}, "keys.runs: delete is remove already, in the list of runs, and stays"),
    ],
)
def test_each_mistake_is_one_line(told: Told, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        keymap_of(told)
    assert says in str(error.value) and all("ntstop.toml: keys." in line for line in str(error.value).split("\n"))


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"log": "e", "smoothing": "y"},
        {"down": ["down", "j"], "up": ["up", "k"]},
        {"fold": "z", "pin": "z"},
        {"log": []},
        {"quit": "F10", "help": ["?", "f1"]},
        {"log": "ctrl++", "zoom-in": "+"},
    ],
)
def test_what_makes_sense_is_taken(told: Told) -> None:
    assert set(keymap_of(told).keys) == set(told)


def test_every_list_of_a_screen_is_known_to_the_check_and_every_action_with_a_help_text_can_be_moved() -> None:
    assert set(CONTEXTS) == {entry.name for entry in SCREENS}
    lists = [bindings.APP, bindings.RUN, *(one for lists in CONTEXTS.values() for one in lists)]
    unnamed = [key.action for keys in lists for key in keys if isinstance(key, Binding) and key.tooltip and not key.id]
    assert not unnamed
    assert {name for name in vars(bindings) if name.isupper()} == {
        *("APP", "RUN", "OVERVIEW", "CURVES", "CURVES_PANE", "LAYERS", "LAYERS_SCREEN", "LAYER_CURVES", "TABLE"),
        *("STEP_TABLE", "LINES", "FINDINGS", "FINDINGS_SCREEN", "CARD", "NOTE", "RUNS", "CONFIRM", "LAYER_OUT"),
        *(name for name in ("SCREENS", "COMMANDS", "GO_TO", "TYPE_CHECKING") if hasattr(bindings, name)),
    }, "a new list belongs to a context of the keymap, or to a dialog, whose keys stay"


def test_without_a_configuration_nothing_moves_and_with_one_only_what_is_named() -> None:
    told = BindingsMap([*bindings.CURVES, *bindings.RUN])
    assert PLAIN_KEYS.apply(told) is told
    moved = keymap_of({"card": "c"}).apply(told).key_to_bindings
    assert [binding.action for binding in moved["enter"]] == ["enlarge"], "what shared the key keeps it"
    assert [binding.action for binding in moved["c"]] == ["card"]
    assert moved["plus"][0].action == moved["equals_sign"][0].action == "zoom(0.5)"
    assert "y" in moved and "y" not in keymap_of({"log": []}).apply(told).key_to_bindings


def test_keys_are_written_as_people_write_them() -> None:
    assert [key_label(key) for key in ("question_mark", "left", "ctrl+x", "escape", "plus", "R", "f5")] == [
        *("?", "←", "ctrl+x", "esc", "+", "R", "f5")
    ]
    known = _defaults()
    assert known["zoom-in"] == ["plus", "equals_sign"] and known["quit"] == ["q"]


async def test_in_what_lies_over_a_screen_the_keys_are_where_the_user_has_put_them_and_its_frame_says_where() -> None:
    told: Told = {"acknowledge": "k", "next-finding": "j", "quit": "f10", "card": "c", "runs": "L", "help": "f1"}
    async with opened(feed.training(400, nan_from=300), keymap=keymap_of(told)) as screen:
        await screen.shows("CRIT", "f10 quit")
        press, app = screen.pilot.press, screen.app
        await press("c")
        await screen.shows("k: acknowledge  c: curves  jN: findings  esc: back")
        await press("a", "f1")
        await screen.until(lambda: isinstance(app.screen, HelpScreen), "the help, and no note")
        await screen.shows("k  acknowledge the finding", "f1  this help")
        await press("f1", "k")
        await screen.shows("enter: keep  esc: back")
        await press("escape", "f10")
        await screen.until(lambda: app.screen is app.run_screen, "the key that quits goes one layer out")
        await press("L")
        await screen.shows("enter: look  o: overlay  x: remove  esc: back")
        await press("L")
        await screen.until(lambda: app.screen is app.run_screen, "the list is gone")


def test_the_list_of_keys_shows_the_user_s_own_and_finds_what_is_wrong_with_them(tmp_path: Path) -> None:
    config = tmp_path / "ntstop.toml"
    config.write_text('[keys]\nquit = "f9"\nlog = []\n')
    lines = {
        line.split()[0]: line
        for line in ntstop("explain", "keys", env={**os.environ, "NTSTOP_CONFIG": str(config)}).stdout.splitlines()
    }
    assert "f9 " in lines["quit"] and "no key" in lines["log"] and " e " in lines["smoothing"]
    config.write_text('[keys]\nquit = "hyper+q"\n')
    done = ntstop("explain", "keys", env={**os.environ, "NTSTOP_CONFIG": str(config)})
    assert done.returncode == 2 and "keys.quit: 'hyper+q' is no key" in done.stderr


def test_all_mistakes_are_told_at_once_and_the_actions_are_listed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "ntstop.toml"
    config.write_text(
        '[view]\ntheme = "blue"\nrefresh = "often"\ncolour = 1\n[thresholds]\n"plateau.nothing" = 3\n'
        '[keys]\nquit = "hyper+q"\nlog = "e"\nnothing = "x"\n'
    )
    monkeypatch.setenv("NTSTOP_CONFIG", str(config))
    wrong = ["view.colour", "view.theme", "view.refresh", "threshold plateau.nothing"]
    wrong += ["keys.quit", "keys.nothing", "keys.log"]
    for words in (["explain", "keys"], [str(tmp_path / "no-such-run")]):
        with pytest.raises(SystemExit) as left:
            main(words)
        said = capsys.readouterr()
        assert left.value.code == 2
        told = said.err.removeprefix("ntstop: ").splitlines()
        assert [line.removeprefix(f"{config}: ").split(": ")[0] for line in told] == wrong
        assert ("smoothing  " in said.out) == (words == ["explain", "keys"])


async def test_rebound_keys_act_the_old_ones_do_not_and_help_and_hints_show_the_new() -> None:
    told: Told = {"log": "l", "zoom-in": ["z", "f5"], "quit": "ctrl+q", "down": ["down", "j"], "overview": "f1"}
    with Session(feed.FedSource(feed.training(1000))) as session:
        assert session.wait_for_end(30)
        app = NtstopApp(session, keymap=keymap_of(told))
        async with app.run_test(size=(160, 50), notifications=True) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.shows("loss", "l log", "z/f5/- zoom", "ctrl+q quit", "f1-8 screens")
            view = screen.app.workspace.view
            await pilot.press("y")
            assert not view.log
            await pilot.press("l", "f5")
            assert view.log and view.span is not None
            await pilot.press("plus", "question_mark")
            await screen.until(lambda: isinstance(app.screen, HelpScreen), "the help")
            await screen.shows("logarithmic axis", "z/f5/-", "f1  overview:")
            await pilot.press("escape", "q")
            await screen.go("3", "question_mark")
            await screen.shows("this pane", "↑/↓/j")
            await pilot.press("escape", "j")
            assert screen.shown.query_one(LayerTable).place == 1
            await pilot.press("f1")
            await screen.until(lambda: screen.shown.TITLE == "overview", "f1")
            await pilot.press("ctrl+q")
            await screen.until(lambda: not app.is_running, "it has ended")
            assert app.return_code == 0


@pytest.mark.parametrize(("told", "suspends"), [({}, True), ({"suspend": "Z"}, False)])
async def test_a_dialog_does_not_keep_the_keys_that_leave_and_suspend_from_the_app(
    told: Told, suspends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(NtstopApp, "action_leave", lambda app: asked.append("leave"))
    monkeypatch.setattr(NtstopApp, "action_suspend_process", lambda app: asked.append("suspend"))
    with Session(feed.FedSource(feed.training(400, nan_from=300))) as session:
        assert session.wait_for_end(30)
        app = NtstopApp(session, keymap=keymap_of(told))
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.shows("CRIT")
            for dialog in ("R", "question_mark", "ctrl+p", "a", "m", "enter"):
                await pilot.press(dialog)
                await screen.until(lambda: app.screen is not app.run_screen, dialog)
                await pilot.press("ctrl+c", "ctrl+z", "Z")
                assert asked == ["leave", "suspend"][: 1 + suspends], dialog
                asked.clear()
                await pilot.press("escape")
                await screen.until(lambda: app.screen is app.run_screen, f"{dialog} is gone")
            await pilot.press("ctrl+z" if suspends else "Z")
            assert asked == ["suspend"]


def test_on_the_command_line_a_mistake_is_said_before_the_screen_is_taken(tmp_path: Path) -> None:
    recorded()
    config = tmp_path / "ntstop.toml"
    config.write_text('[keys]\nzoom = "z"\n')
    with Terminal([NTSTOP, "run-1"], NTSTOP_CONFIG=str(config)) as terminal:
        screen = terminal.wait_for("left with 2").replace("\n", "")  # wherever the path has it wrapped
        assert "keys.zoom: there is no such action" in screen and "did you mean keys.zoom-in?" in screen
        assert "Traceback" not in screen
    listed = ntstop("explain", "keys").stdout
    assert all(f"{name} " in listed for name in _defaults()) and "show more steps" in listed
    config.write_text('[keys]\nquit = "f9"\n')
    with Terminal([NTSTOP, "run-1"], NTSTOP_CONFIG=str(config)) as terminal:
        terminal.wait_for("f9 quit")
        terminal.keys("F9")
        terminal.wait_for("left with 0")


def test_no_help_of_a_pane_names_a_key_that_somebody_may_have_moved() -> None:
    """The keys stand below it, where they are now."""
    files = sorted(Path(widgets.__path__[0]).glob("*.py"))
    for file in files:
        if file.stem != "__init__":
            importlib.import_module(f"{widgets.__name__}.{file.stem}")
    told = {pane.__name__: pane.HELP for pane in _all(Pane)}
    assert len([text for text in told.values() if text]) > 12
    named = re.compile(
        r"\b(enter|esc(ape)?|tab|space|arrows?|home|page ?(up|down))\b|[↑↓←→]|\b\w (opens|puts|lays|there)\b"
    )
    assert {name: match[0] for name, text in told.items() if (match := named.search(text))} == {}


def _all(kind: type[Pane]) -> Iterator[type[Pane]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all(below)
