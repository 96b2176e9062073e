"""A line to type into, which takes what is typed for it and nothing else, however fast it comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual import events
from textual.message_pump import MessagePump
from textual.widgets import Input


class Entry(Input):
    """Closed by enter: what was typed behind that waits for `answered`, and then goes where it would have gone later.

    Keys that were on their way here when the focus moved on go after it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._has_asked = False
        self._behind: list[events.Key] = []

    def answered(self) -> None:
        """What enter had asked for is done, or was refused: the keys behind it act."""
        behind, self._behind, self._has_asked = self._behind, [], False
        press_again(self, behind)

    async def on_event(self, event: events.Event) -> None:
        """Keys in their order; of a paste behind enter nobody can say where it belongs."""
        if self._has_asked and isinstance(event, events.Paste):
            return
        if not isinstance(event, events.Key):
            await super().on_event(event)
        elif self._has_asked:
            event.stop()
            # A second enter right behind the first asks for the same.
            if self._behind or event.key != "enter":
                self._behind.append(event)
        elif self.app.focused is not self:
            event.stop()
            press_again(self, [event])
        elif not event.is_printable:
            # Here and now, not by way of the app: the next key is for the line as this one leaves it.
            event.stop()
            self._has_asked = event.key == "enter"
            await self.app._check_bindings(event.key)
        else:
            await super().on_event(event)


def press_again(node: MessagePump, keys: Iterable[events.Key]) -> None:
    """Let the app see these keys once more, as it stands now."""
    for key in keys:
        node.app.post_message(events.Key(key.key, key.character))
