"""The user's own keys: `[keys]` of the configuration, checked against the bindings, laid over them where they act."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from textual.binding import Binding, BindingsMap, BindingType
from textual.dom import DOMNode
from textual.keys import _character_to_key

from ..settings import SettingsError, settings_path
from . import bindings
from .screens import SCREENS

MODIFIERS = ("ctrl", "alt", "shift")
_NAMED = {
    **{name: name for name in ("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "escape")},
    **{name: name for name in ("space", "tab", "backspace", "delete", "insert")},
    **{f"f{number}": f"f{number}" for number in range(1, 25)},
    **{"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete", "ins": "insert"},
}
_SAME = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""What a terminal sends the same bytes for."""
_FIXED = {"ctrl+c": "quit"}
_SHOWN = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "space": "space",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}
_CHARACTERS = {_character_to_key(character): character for character in string.punctuation}
_PAIRS = {
    "cursor-left": "cursor-right",
    "zoom-in": "zoom-out",
    "replay-back": "replay-on",
    "slower": "faster",
    "next-finding": "previous-finding",
    "sort": "reverse",
    "up": "down",
}
"""Names that are explained together: the keys of both stand at the first."""
_ALONE = {
    "cursor-left": "move the cursor that all panes share to the left",
    "cursor-right": "move the cursor that all panes share to the right",
    "cursor-left-fast": "move the cursor further to the left",
    "cursor-right-fast": "move the cursor further to the right",
    "zoom-in": "show fewer steps",
    "zoom-out": "show more steps",
    "replay-back": "replay of a run that has ended: back",
    "replay-on": "replay of a run that has ended: on",
    "slower": "replay slower, down to 1×",
    "faster": "replay faster, up to 1000×",
    "next-pane": "next pane",
    "previous-pane": "previous pane",
    "next-finding": "next finding; the cursor shows where it began",
    "previous-finding": "previous finding; the cursor shows where it began",
    "reverse": "reverse the order",
    "up": "one up",
    "down": "one down",
    "page-up": "a page up",
    "page-down": "a page down",
    "first": "to the first, or to the top",
    "last": "to the last, or to the bottom",
}
"""What each does of those that the help explains together with others."""
_SCREENS = [entry.name for entry in SCREENS]

CONTEXTS: Mapping[str, Sequence[Sequence[BindingType]]] = {
    "overview": (bindings.OVERVIEW, bindings.LAYERS, bindings.FINDINGS),
    "curves": (bindings.CURVES, bindings.CURVES_PANE),
    "layers": (bindings.LAYERS_SCREEN, bindings.TABLE, bindings.LAYERS, bindings.LAYER_CURVES),
    "step": (bindings.STEP_TABLE,),
    "memory": (bindings.LINES,),
    "ranks": (bindings.TABLE,),
    "findings": (bindings.FINDINGS_SCREEN, bindings.TABLE),
    "run": (bindings.LINES, bindings.STEP_TABLE),
}
"""Of each screen the lists that act there, beside those that act everywhere."""
DIALOGS: Mapping[str, Sequence[BindingType]] = {"a card": bindings.CARD, "the list of runs": bindings.RUNS}
"""All that acts in what lies over a screen; what has no name there stays where it is."""


@dataclass(frozen=True)
class Keymap:
    """Names of bindings to their keys, as textual calls them; who is not named keeps its own."""

    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def apply(self, told: BindingsMap) -> BindingsMap:
        """The same bindings, each on its keys."""
        if not self.keys:
            return told
        moved: dict[str, list[Binding]] = {}
        done = set()
        for key, binding in told:
            name = binding.id or ""
            if name in self.keys and (name, binding.action) in done:
                continue
            done.add((name, binding.action))
            shown = self.shown(binding)
            if name in self.keys:
                # It may be a letter by now, which somebody wants to type.
                binding = replace(binding, priority=False)
            for new in self.keys.get(name, (key,)):
                moved.setdefault(new, []).append(binding.with_key(new, shown))
        return BindingsMap.from_keys(moved)

    def shown(self, binding: Binding) -> str:
        """How its keys are written in the help and at the bottom."""
        name = binding.id or ""
        pair = _SCREENS[-1] if name == _SCREENS[0] else _PAIRS.get(name)
        if binding.key_display and name not in self.keys and pair not in self.keys:
            return binding.key_display
        first = "/".join(key_label(key) for key in self.keys.get(name, (binding.key,))) or "no key"
        if pair is None or not binding.key_display:
            return first
        second = "/".join(key_label(key) for key in self.keys.get(pair, _defaults()[pair][:1])) or "no key"
        short = len(first) == len(second) == 1
        return f"{first}-{second}" if name == _SCREENS[0] else first + ("" if short else "/") + second

    def keys_of(self, name: str) -> str:
        """How the keys of an action of all screens are written."""
        return self.shown(next(binding for binding in _named([bindings.RUN]) if binding.id == name))

    def chain(self, chain: Iterable[tuple[DOMNode, BindingsMap]], app: DOMNode) -> list[tuple[DOMNode, BindingsMap]]:
        """The bindings that act, each on its keys; those of the app are already."""
        return [(node, told if node is app else self.apply(told)) for node, told in chain]


PLAIN_KEYS = Keymap()
"""Every key where it is without a configuration."""


def keymap_of(told: Mapping[str, str | Sequence[str]]) -> Keymap:
    """The table `[keys]`: name to a key, or to several.

    Raises `SettingsError` with a line for each name or key that is unknown, and each key that is two things at once.
    """
    if not told:
        return PLAIN_KEYS
    known = _defaults()
    keys, mistakes = {}, []
    for name, words in told.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean keys.{near[0]}?" if near else "`ntstop explain keys` lists them"
            mistakes.append(str(_error(name, f"there is no such action; {hint}")))
            continue
        try:
            keys[name] = tuple(_parsed(name, word) for word in ([words] if isinstance(words, str) else words))
        except SettingsError as error:
            mistakes.append(str(error))
    if mistakes := [*mistakes, *_clashes(keys)]:
        raise SettingsError(*mistakes)
    return Keymap(keys)


def listing(keymap: Keymap = PLAIN_KEYS) -> str:
    """Every action that `[keys]` can move, with its keys and what it does, a line each."""
    lists = [bindings.APP, bindings.RUN, *(one for lists in CONTEXTS.values() for one in lists)]
    told: dict[str, str] = {}
    for binding in _named(lists):
        name = binding.id or ""
        told[name] = told.get(name) or words_of(binding)
    return "\n".join(
        f"{name:<19}{' '.join(map(key_label, keymap.keys.get(name, keys))) or 'no key':<10} {told[name]}"
        for name, keys in _defaults().items()
    )


def words_of(binding: Binding) -> str:
    """What it does, told of itself alone; "" for one without words of its own."""
    return _ALONE.get(binding.id or "") or binding.tooltip


def key_label(key: str) -> str:
    """A key as it is written for people: `?`, `ctrl+x`, `←`."""
    *modifiers, last = key.split("+")
    return "+".join([*modifiers, _SHOWN.get(last) or _CHARACTERS.get(last, last)])


def _parsed(name: str, word: str) -> str:
    """The key as textual calls it."""
    # The plus key, too, alone or with others.
    *modifiers, last = (
        [*word[:-2].split("+"), "+"] if word.endswith("++") else [word] if word == "+" else word.split("+")
    )
    key = _character_to_key(last) if len(last) == 1 and last.isprintable() and last != " " else _NAMED.get(last.lower())
    if key is None or not set(modifiers) <= set(MODIFIERS) or len(set(modifiers)) < len(modifiers):
        raise _error(name, f"{word!r} is no key; such are q, Q, ?, f5, enter, pageup, shift+left, ctrl+x")
    if len(last) == 1 and "shift" in modifiers:
        raise _error(name, f"{word!r}: write the character that shift makes, such as {last.upper()!r}")
    whole = "+".join([*(part for part in MODIFIERS if part in modifiers), key])
    if whole in _SAME:
        raise _error(name, f"{word!r}: a terminal sends the same for {_SAME[whole]}")
    if whole in _FIXED:
        raise _error(name, f"{word!r} is {_FIXED[whole]}, always")
    return whole


def _named(lists: Sequence[Sequence[BindingType]]) -> Iterator[Binding]:
    for binding in Binding.make_bindings(one for these in lists for one in these):
        if binding.id:
            yield binding


def _defaults() -> dict[str, list[str]]:
    """Name to its keys as they are without a configuration."""
    found: dict[str, list[str]] = {}
    every = [bindings.APP, bindings.RUN, *(one for lists in CONTEXTS.values() for one in lists)]
    for binding in _named(every):
        if binding.key not in found.setdefault(binding.id or "", []):
            found[binding.id or ""].append(binding.key)
    return found


def _clashes(keys: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What is to be said where two actions of a screen have come to one key, that had not before: once of each two."""
    everywhere = _everywhere()
    found: dict[tuple[str, str, str], str] = {}
    for context, lists in CONTEXTS.items():
        _note_clashes(found, keys, [bindings.APP, bindings.RUN, *lists], everywhere, f"on the screen {context}")
    for context, known in DIALOGS.items():
        _note_clashes(found, keys, [known], set(), f"in {context}")
    return list(found.values())


def _note_clashes(
    found: dict[tuple[str, str, str], str],
    keys: Mapping[str, tuple[str, ...]],
    lists: Sequence[Sequence[BindingType]],
    everywhere: set[str],
    place: str,
) -> None:
    before: dict[str, set[str]] = {}
    for binding in Binding.make_bindings(one for these in lists for one in these):
        # One without a name stays; it is called by what it does.
        before.setdefault(binding.id or f" {binding.description or binding.tooltip}", set()).add(binding.key)
    after = {name: set(keys.get(name, old)) for name, old in before.items()}
    for name in keys:
        for other, theirs in after.items():
            if name == other or name not in after or before[name] & before[other]:
                continue
            for key in after[name] & theirs:
                where = "everywhere" if other in everywhere else place
                what = f"{key_label(key)} is {other.strip()} already, {where}"
                what += ", and stays" if other[0] == " " else f"; keys.{other} would move that"
                found.setdefault((min(name, other), max(name, other), key), str(_error(name, what)))


def _everywhere() -> set[str]:
    return {binding.id or "" for binding in _named([bindings.APP, bindings.RUN])}


def _error(name: str, what: str) -> SettingsError:
    return SettingsError(f"{settings_path()}: keys.{name}: {what}")
