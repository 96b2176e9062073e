"""The user's own configuration, `ntstop.toml`: read from their configuration folder, never from where they stand.

A folder that somebody was sent must not be able to name a command that is run; so the current folder is not looked at.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from ntstop.text import safe

VARIABLE = "NTSTOP_CONFIG"
"""Names another file; its path is absolute."""
_LARGEST = 1 << 20
"""Bytes of a configuration that are read; no person writes more."""

_TYPES = {
    "float": "a number",
    "int": "a whole number",
    "str | null": "text in quotes",
    "str | array": "text in quotes, or a list of such",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a date",
    "date": "a date",
    "time": "a time",
}
_LONGEST_WORD = 100
"""Characters of a word of the configuration that are repeated in an error; a path may be longer."""


class SettingsError(ValueError):
    """The configuration cannot be used; the text is a line a mistake that names file, key and what is allowed.

    `rest`: what stands in it beside the mistakes, where it could be read.
    """

    def __init__(self, *mistakes: str, rest: Settings | None = None) -> None:
        super().__init__("\n".join(" ".join(map(_short, safe(line).split(" "))) for line in mistakes))
        self.rest = rest


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[notify]`: what is told of new findings."""

    command: str | None = None
    """Run once for every new finding at warning or above, without a shell, the finding as JSON on its stdin."""
    timeout: float = 10.0
    """Seconds after which it is ended."""


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[view]`: how the screen begins; keys change it."""

    theme: Literal["dark", "light", "ansi"] = "dark"
    """ansi: the terminal's own 16 colours, which a terminal that has no others gets anyway."""
    palette: Literal["standard", "blue-orange", "cividis"] = "standard"
    """Colours of curves, phases and heat; the other two do without red and green."""
    refresh: float = 0.25
    """Seconds from one look at the run to the next."""
    smoothing: Literal["off", "light", "strong"] = "light"
    units: Literal["binary", "decimal"] = "binary"
    """Of bytes: GiB or GB."""
    mouse: bool = True
    """Whether clicks and the wheel are taken. The terminal selects text with shift held (option in iTerm2), or without
    where this is false."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the file; each part has its defaults."""

    thresholds: dict[str, float] = {}
    """Name ("plateau.patience") to value. Whether there is such a one, the diagnosis knows."""
    notify: Notify = Notify()
    view: View = View()
    keys: dict[str, str | list[str]] = {}
    """Name of an action to its key or keys. Whether there are such, the screen knows."""


def settings_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the configuration stands, whether or not there is one. Raises `SettingsError` for a relative path."""
    told = environment.get(VARIABLE)
    if told:
        path = Path(os.path.expanduser(told))
        if not path.is_absolute():
            raise SettingsError(
                f"{VARIABLE}={told}: an absolute path is meant, as what runs must not depend on the folder"
            )
        return path
    base = environment.get("XDG_CONFIG_HOME", "")
    # The standard says that a relative one is to be ignored.
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.config"))
    return folder / "ntstop" / "ntstop.toml"


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this user; the defaults where there is no file. Raises `SettingsError`."""
    path = settings_path(environment)
    try:
        with path.open("rb") as file:
            told = file.read(_LARGEST + 1)
        # Some editors begin a file with a mark of its encoding.
        text = told.decode("utf-8-sig")
    except FileNotFoundError:
        if environment.get(VARIABLE):
            raise SettingsError(f"{path}: there is no such file ({VARIABLE} names it)") from None
        return Settings()
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: it is not UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    if len(told) > _LARGEST:
        raise SettingsError(f"{path}: it is larger than {_LARGEST >> 20} MiB")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Not only TOML's own error: a number of thousands of digits is Python's.
        raise SettingsError(f"{path}: it is not TOML: {error}") from None
    return _checked(path, table)


def _checked(path: Path, table: dict[str, Any]) -> Settings:
    if isinstance(numbers := table.get("thresholds"), dict):
        table["thresholds"] = _flat(numbers)
    mistakes = _unknown("", table, Settings)
    for name, kind in (("notify", Notify), ("view", View)):
        if isinstance(part := table.get(name), dict):
            mistakes += _unknown(f"{name}.", part, kind)
    mistakes += _no_choices(table)
    settings = _converted(table, mistakes)
    if not 0.1 <= settings.view.refresh <= 10.0:
        mistakes.append(f"view.refresh: {settings.view.refresh:g} is not within 0.1 to 10 seconds")
    notify_ = settings.notify
    if not 0.1 <= notify_.timeout <= 600.0:
        mistakes.append(f"notify.timeout: {notify_.timeout:g} is not within 0.1 to 600 seconds")
    if notify_.command is not None:
        try:
            command_words(notify_.command)
        except ValueError as error:
            mistakes.append(f"notify.command: {error}")
    if mistakes:
        raise SettingsError(*(f"{path}: {mistake}" for mistake in mistakes), rest=settings)
    return settings


def _converted(table: dict[str, Any], mistakes: list[str]) -> Settings:
    """The settings; what is no value of its kind is told in `mistakes` and taken out of `table`."""
    while True:
        try:
            return msgspec.convert(table, Settings)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$.")
            key = _key(table, where.rstrip("`"))
            mistakes.append(f"{key}: {_in_words(what)}")
            part, _, name = key.partition(".")
            if not (isinstance(table.get(part), dict) and table[part].pop(name, None) is not None):
                del table[part]


def command_words(command: str) -> Sequence[str]:
    """The words of a command, as a shell would part them. Raises `ValueError` with what is wrong."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{str(error).lower()} in {command!r}") from None
    if not words or not words[0]:
        raise ValueError("it is empty; a program and its arguments are meant")
    return words


def _flat(numbers: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Names with a dot are tables to TOML unless they stand in quotes; both ways of writing mean the same."""
    flat: dict[str, Any] = {}
    for name, value in numbers.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _unknown(prefix: str, table: dict[str, Any], kind: type[msgspec.Struct]) -> list[str]:
    """Take the keys that are no fields of `kind` out of `table`; what is to be said of each."""
    mistakes = []
    for name in [name for name in table if name not in kind.__struct_fields__]:
        del table[name]
        near = difflib.get_close_matches(name, kind.__struct_fields__, 1)
        hint = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(kind.__struct_fields__)}"
        mistakes.append(f"{prefix}{name}: there is no such key; {hint}")
    return mistakes


def _no_choices(table: Mapping[str, Any]) -> list[str]:
    """Take out of the view what is none of what may be chosen; what is to be said of each."""
    mistakes = []
    view = told if isinstance(told := table.get("view"), dict) else {}
    for name, value in list(view.items()):
        allowed = get_args(get_type_hints(View)[name])
        if allowed and value not in allowed:
            del view[name]
            mistakes.append(f"view.{name}: {value!r} is none of {', '.join(allowed)}")
    return mistakes


def _short(word: str) -> str:
    """A word as it is repeated in an error: of a long one that is no path, the beginning."""
    return word if len(word) <= _LONGEST_WORD or word.startswith("/") else f"{word[:_LONGEST_WORD]}…"


def _in_words(what: str) -> str:
    """A sentence of msgspec, its types in the words of a configuration."""
    for name, word in _TYPES.items():
        what = what.replace(f"`{name}`", word)
    return what[:1].lower() + what[1:]


def _key(table: Mapping[str, Any], where: str) -> str:
    """The key that msgspec means: of a mapping it says only that it is one of its values."""
    if where == "thresholds[...]":
        wrong = (
            name
            for name, value in table["thresholds"].items()
            if isinstance(value, bool)
            or not isinstance(value, int | float)
            or (isinstance(value, int) and abs(value) > sys.float_info.max)
        )
        return f"thresholds.{next(wrong, '')}"
    if where.startswith("keys[...]"):
        wrong = (
            name
            for name, keys in table["keys"].items()
            if not isinstance(keys, str | list) or any(not isinstance(key, str) for key in keys)
        )
        return f"keys.{next(wrong, '')}"
    return where
