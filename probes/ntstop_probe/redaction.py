"""Nothing secret leaves the process: values are struck out by the name they go by, or by what they look like."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

HIDDEN = "[redacted]"

_ALWAYS = ("secret", "password", "passwd", "passphrase", "credential")
"""What makes a name secret wherever it stands in it."""
_AT_THE_END = frozenset({"key", "apikey", "token", "auth", "authtoken", "accesstoken", "pwd"})
"""Words that do so only as the last one: `--api-key` is secret, `--key-padding` and `--token-dropout` are not."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_KNOWN = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|ya29\.|eyJ)[A-Za-z0-9_.\-]{8,}"
)
"""How the keys of Hugging Face, OpenAI, GitHub, GitLab, Slack, AWS and Google, and web tokens, begin."""
_ASSIGNMENT = re.compile(r"^([-+~]*[\w.\-/]+)=(.*)$", re.DOTALL)

MAX_ITEMS = 2000
MAX_DEPTH = 8
MAX_TEXT = 2000


def is_secret(name: str) -> bool:
    """True when a value of this name should not be shown."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (words[-1] in _AT_THE_END or any(part in name.lower() for part in _ALWAYS))


def redact_text(text: str) -> str:
    """`text` without logins in URLs and without what looks like a well-known kind of key."""
    return _KNOWN.sub(HIDDEN, _URL_LOGIN.sub(HIDDEN, text))


def redact_command(arguments: Sequence[str]) -> list[str]:
    """A command line with the values of secret options (`--token X`, `--token=X`, `token=X`) struck out."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        assignment = _ASSIGNMENT.match(argument)
        if hide_next and not argument.startswith("-"):
            shown.append(HIDDEN)
        elif assignment and is_secret(assignment[1]):
            shown.append(f"{assignment[1]}={HIDDEN}")
        else:
            shown.append(redact_text(argument))
        hide_next = argument.startswith("-") and not assignment and is_secret(argument)
    return shown


def redact_mapping(values: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with secret values struck out."""
    return {name: HIDDEN if is_secret(name) else redact_text(value) for name, value in values.items()}


def plain(value: object) -> object:
    """A user's configuration as lists, dicts, numbers and text, bounded in size and with secrets struck out.

    Never raises: what cannot be looked into becomes its `repr`, or its type when that fails too.
    """
    return _Plain().convert(value, 0)


class _Plain:
    def __init__(self) -> None:
        self.items = 0

    def convert(self, value: object, depth: int) -> object:
        self.items += 1
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else str(value)
        if isinstance(value, str):
            return _text(value)
        if depth >= MAX_DEPTH or self.items > MAX_ITEMS:
            return "…"
        try:
            return self._container(value, depth)
        except Exception:
            return f"<{type(value).__name__}>"

    def _container(self, value: object, depth: int) -> object:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        elif type(value).__name__ == "Namespace":
            value = vars(value)
        if isinstance(value, Mapping):
            return {
                _text(str(name)): HIDDEN if is_secret(str(name)) else self.convert(item, depth + 1)
                for name, item in list(value.items())[:MAX_ITEMS]
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.convert(item, depth + 1) for item in list(value)[:MAX_ITEMS]]
        return _text(repr(value))


def _text(text: str) -> str:
    return redact_text(text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8"))
