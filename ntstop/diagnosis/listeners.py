"""Some rules, by what they look at: what a rule does not override, it is not called for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from .rules.base import Rule, RunRule

R = TypeVar("R", bound=Rule | RunRule)
Look = Callable[..., None]


class Listeners(Generic[R]):
    """Rules in the order in which they look."""

    def __init__(self, rules: Iterable[R]) -> None:
        self._rules: list[R] = list(rules)
        self._known: dict[str, Sequence[tuple[R, Look]]] = {}

    def __iter__(self) -> Iterator[R]:
        return iter(self._rules)

    def __getstate__(self) -> list[R]:
        return self._rules

    def __setstate__(self, rules: list[R]) -> None:
        self._rules, self._known = rules, {}

    def to(self, what: str) -> Sequence[tuple[R, Look]]:
        """The rules that look at `what`, each with its method of that name."""
        known = self._known.get(what)
        if known is None:
            known = self._known[what] = [(rule, getattr(rule, what)) for rule in self._rules if _looks_at(rule, what)]
        return known

    def remove(self, rule: Any) -> None:
        """Take a rule out, where it is one of them."""
        if rule in self._rules:
            self._rules.remove(rule)
            self._known = {}


def _looks_at(rule: Rule | RunRule, what: str) -> bool:
    base: type[Any] = Rule if isinstance(rule, Rule) else RunRule
    return hasattr(base, what) and getattr(type(rule), what) is not getattr(base, what)
