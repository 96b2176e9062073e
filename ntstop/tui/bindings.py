"""Every key, in one place: the help screen, the hints at the bottom and what the keys do come from these lists.

`description` is the hint at the bottom (shown where `show` is true), `tooltip` the line on the help screen.
"""

from __future__ import annotations

from textual.binding import Binding, BindingType

from .screens import SCREENS


def key(
    keys: str,
    action: str,
    hint: str,
    help: str,
    *,
    name: str = "",
    show: bool = False,
    display: str | None = None,
    always: bool = False,
) -> Binding:
    """One binding; `keys` as textual names them, separated by commas.

    `name`: what `[keys]` of the configuration calls it; without one it stays where it is. `always`: under a dialog and
    while somebody types, too.
    """
    return Binding(keys, action, hint, show=show, key_display=display, tooltip=help, id=name or None, priority=always)


APP: list[BindingType] = [
    key("q", "leave", "quit", "quit the viewer; the training goes on", name="quit", show=True),
    key("ctrl+c", "leave", "", "", always=True),
    key("question_mark", "help", "help", "this help", show=True, display="?", name="help"),
    key("R", "runs", "runs", "the runs of this machine: look at another one, or lay it over", show=True, name="runs"),
    key("ctrl+p", "commands", "", "find what can be done here by its name", display="ctrl+p", name="commands"),
    key("p", "picture", "picture", "save the screen as SVG and text in the current folder", name="picture"),
    key("t", "next_theme", "theme", "next theme: dark, light, the terminal's own colours", name="theme"),
    *(
        key(
            entry.key,
            f"go('{entry.name}')",
            "screens" if entry is SCREENS[0] else "",
            f"{entry.name}: {entry.help}",
            name=entry.name,
            show=entry is SCREENS[0] and len(SCREENS) > 1,
            display=f"{entry.key}-{SCREENS[-1].key}" if entry is SCREENS[0] else "",
        )
        for entry in SCREENS
    ),
    key(
        "ctrl+z",
        "suspend_process",
        "suspend",
        "suspend the viewer; `fg` brings it back",
        display="ctrl+z",
        name="suspend",
        always=True,
    ),
]

RUN: list[BindingType] = [
    key(
        "space",
        "pause",
        "pause",
        "stop the picture; reading goes on. In a replay: play, stop",
        show=True,
        display="space",
        name="pause",
    ),
    key(
        "left",
        "cursor(-1)",
        "cursor",
        "move the cursor that all panes share; shift: faster",
        show=True,
        display="←→",
        name="cursor-left",
    ),
    key("right", "cursor(1)", "", "", name="cursor-right"),
    key("shift+left", "cursor(-10)", "", "", name="cursor-left-fast"),
    key("shift+right", "cursor(10)", "", "", name="cursor-right-fast"),
    key("g", "go_to", "", "go to a step: a number, such as 1,234 or 1.2k", name="go-to-step"),
    key("plus,equals_sign", "zoom(0.5)", "zoom", "show fewer or more steps", show=True, display="+-", name="zoom-in"),
    key("minus", "zoom(2)", "", "", name="zoom-out"),
    key("0", "follow", "tail", "follow the tail; again: the whole run", show=True, display="0", name="tail"),
    key(
        "left_square_bracket",
        "seek(-1)",
        "replay",
        "replay of a run that has ended: back, on",
        display="[]",
        name="replay-back",
    ),
    key("right_square_bracket", "seek(1)", "", "", name="replay-on"),
    key("less_than_sign", "speed(-1)", "speed", "replay slower, faster: 1× to 1000×", display="<>", name="slower"),
    key("greater_than_sign", "speed(1)", "", "", name="faster"),
    key("y", "log", "log", "logarithmic axis", show=True, display="y", name="log"),
    key("e", "smoothing", "smooth", "smoothing: off, light, strong", show=True, display="e", name="smoothing"),
    key(
        "tab", "app.focus_next", "panes", "next pane; shift: the one before", show=True, display="tab", name="next-pane"
    ),
    key("shift+tab", "app.focus_previous", "", "", name="previous-pane"),
    key(
        "n",
        "jump(1)",
        "findings",
        "next, previous finding; the cursor shows where it began",
        show=True,
        display="nN",
        name="next-finding",
    ),
    key("N", "jump(-1)", "", "", name="previous-finding"),
    key("enter", "card", "card", "open the card of the finding", show=True, display="enter", name="card"),
    key(
        "D", "dump", "", "where every thread of the job stands, by py-spy; it looks without a pause first", name="dump"
    ),
    key(
        "a",
        "acknowledge",
        "",
        "acknowledge the finding, with a note that all viewers of the run see",
        name="acknowledge",
    ),
    key(
        "m",
        "mark",
        "",
        "mark the step, with a note that all viewers of the run see; on a mark: change or remove it",
        name="mark",
    ),
    key(
        "escape",
        "back",
        "",
        "clear the cursor; then follow the tail; then show the whole run",
        display="esc",
        name="back",
    ),
]

OVERVIEW: list[BindingType] = []

CURVES: list[BindingType] = [
    key(
        "enter",
        "enlarge",
        "large",
        "make the chosen curve large, or small again",
        show=True,
        display="enter",
        name="enlarge",
    ),
    key(
        "slash",
        "filter",
        "filter",
        "show only curves whose names have these words",
        show=True,
        display="/",
        name="filter",
    ),
    key(
        "o",
        "overlay",
        "overlay",
        "lay the chosen curve over others in the large chart, up to 6",
        show=True,
        name="overlay",
    ),
    key("O", "overlay_none", "", "nothing laid over", name="overlay-none"),
    key("x", "axis", "axis", "over steps, time or tokens", show=True, name="axis"),
    key("d", "difference", "difference", "of several runs: each less the first", show=True, name="difference"),
    key("s", "order", "order", "order: by kind, name or newest point; reverse", show=True, display="sS", name="sort"),
    key("S", "reverse", "", "", name="reverse"),
    key("P", "pin", "pin", "pin the chosen curve before all others", show=True, name="pin"),
    key("escape", "back", "", "small again; then no filter; then as everywhere", display="esc", name="back"),
]

CURVES_PANE: list[BindingType] = [
    key("up", "screen.choose(-1)", "", "another curve; page keys, home and end go further", display="↑↓", name="up"),
    key("down", "screen.choose(1)", "", "", name="down"),
    key("pageup", "screen.page(-1)", "", "", name="page-up"),
    key("pagedown", "screen.page(1)", "", "", name="page-down"),
    key("home", "screen.choose(-1000000)", "", "", name="first"),
    key("end", "screen.choose(1000000)", "", "", name="last"),
]

LAYERS: list[BindingType] = [
    key("up", "layer(-1)", "", "choose a row: its layers and their value stand in the title", display="↑↓", name="up"),
    key("down", "layer(1)", "", "", name="down"),
]

TABLE: list[BindingType] = [
    key("up", "row(-1)", "", "choose a row; page keys, home and end go further", display="↑↓", name="up"),
    key("down", "row(1)", "", "", name="down"),
    key("pageup", "page(-1)", "", "", name="page-up"),
    key("pagedown", "page(1)", "", "", name="page-down"),
    key("home", "end(0)", "", "", name="first"),
    key("end", "end(-1)", "", "", name="last"),
    key("s", "sort", "sort", "sort by the next column, reverse", show=True, display="sS", name="sort"),
    key("S", "reverse", "", "", name="reverse"),
]

STEP_TABLE: list[BindingType] = [
    *TABLE,
    key("enter", "show", "show", "put the cursor where it happened", show=True, display="enter", name="show"),
]

LINES: list[BindingType] = [
    key("up", "scroll_lines(-1)", "", "scroll; page keys go further", display="↑↓", name="up"),
    key("down", "scroll_lines(1)", "", "", name="down"),
    key("pageup", "scroll_lines(-10)", "", "", name="page-up"),
    key("pagedown", "scroll_lines(10)", "", "", name="page-down"),
    key("home", "scroll_lines(-100000)", "", "", name="first"),
    key("end", "scroll_lines(100000)", "", "", name="last"),
]

FINDINGS: list[BindingType] = [
    key("up", "screen.finding(-1)", "", "previous, next finding", display="↑↓", name="up"),
    key("down", "screen.finding(1)", "", "", name="down"),
]

LAYER_CURVES: list[BindingType] = [
    key("up", "screen.choose(-1)", "", "another row of the table", display="↑↓", name="up"),
    key("down", "screen.choose(1)", "", "", name="down"),
]

LAYERS_SCREEN: list[BindingType] = [
    key(
        "enter",
        "enlarge",
        "large",
        "all curves of the chosen layer over the whole screen, or small again",
        show=True,
        display="enter",
        name="enlarge",
    ),
    key("escape", "back", "", "small again; then as everywhere", display="esc", name="back"),
    key("o", "fold", "fold", "one row a layer, a module, or a part of the model", show=True, name="fold"),
]

FINDINGS_SCREEN: list[BindingType] = [
    key(
        "enter",
        "card",
        "curves",
        "the curves at the step where it began; where the card is not on the screen, first the card",
        show=True,
        display="enter",
        name="card",
    ),
    key(
        "v",
        "severity",
        "severity",
        "show all findings, warnings and worse, critical ones only",
        show=True,
        name="severity",
    ),
    key("f", "family", "family", "show one family of findings after the other", show=True, name="family"),
]

_as_without: list[BindingType] = [
    key("question_mark", "app.help", "help", "this help", show=True, display="?", name="help"),
    key("p", "app.picture", "", "save what is to be seen as SVG and text in the current folder", name="picture"),
    *(
        key(
            entry.key,
            f"app.go('{entry.name}')",
            "screens" if entry is SCREENS[0] else "",
            "leave, and look at that screen" if entry is SCREENS[0] else "",
            show=entry is SCREENS[0],
            name=entry.name,
            display=f"{entry.key}-{SCREENS[-1].key}" if entry is SCREENS[0] else None,
        )
        for entry in SCREENS
    ),
    key("q", "app.pop_screen", "", "", name="quit"),
]
"""What acts under a dialog in which nobody types, as it does without one."""

CARD: list[BindingType] = [
    key("a", "acknowledge", "acknowledge", "acknowledge the finding, with a note", show=True, name="acknowledge"),
    key("enter", "curves", "curves", "the curves at the step where it began", show=True, display="enter", name="card"),
    key(
        "n",
        "another(1)",
        "findings",
        "the card of the next finding, of the previous one",
        show=True,
        display="nN",
        name="next-finding",
    ),
    key("N", "another(-1)", "", "", name="previous-finding"),
    key("escape", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
    *_as_without,
]

NOTE: list[BindingType] = [
    key("escape", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
    key("ctrl+r", "take_back", "take back", "it is not acknowledged, or marked, any more"),
]

GO_TO: list[BindingType] = [
    key("escape", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
]

COMMANDS: list[BindingType] = [
    key("up", "row(-1)", "", "another one; page keys go further", display="↑↓"),
    key("down", "row(1)", "", ""),
    key("pageup", "row(-10)", "", ""),
    key("pagedown", "row(10)", "", ""),
    key("escape", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
    key("ctrl+p", "app.pop_screen", "", "", name="commands"),
]

RUNS: list[BindingType] = [
    key("up", "row(-1)", "", "another run; page keys, home and end go further", display="↑↓", name="up"),
    key("down", "row(1)", "", "", name="down"),
    key("pageup", "row(-10)", "", "", name="page-up"),
    key("pagedown", "row(10)", "", "", name="page-down"),
    key("home", "row(-1000000)", "", "", name="first"),
    key("end", "row(1000000)", "", "", name="last"),
    key("enter", "switch", "look", "look at this run", show=True),
    key("o", "overlay", "overlay", "lay this run over those that are shown, or no longer", show=True, name="overlay"),
    key("x,delete", "remove", "remove", "remove the recording of this run, which has ended; it asks first", show=True),
    key("escape", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
    key("R", "app.pop_screen", "", "", name="runs"),
    *_as_without,
]

CONFIRM: list[BindingType] = [
    key("y", "agree", "yes", "do it", show=True),
    key("escape,n,q", "app.pop_screen", "no", "leave all as it is", show=True, display="esc"),
]

LAYER_OUT: list[BindingType] = [
    key("escape,enter", "app.pop_screen", "back", "one layer out", show=True, display="esc"),
    key("question_mark", "app.pop_screen", "", "", name="help"),
    key("q", "app.pop_screen", "", "", name="quit"),
]
