"""Messages for somebody who draws their text: nothing in them is there and not seen.

What an app named or offered by such a text comes back as the app wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.sanitize import reveal

MAX_NAMES = 1_000  # texts that are known again, the newest
MAX_NAME = 4_000  # characters of such a text: longer ones are no names and no options
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|[bfr])|\ufffd")


class Revealed:
    """One conversation with such a reader."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}  # as it was shown: as it is

    def outward(self, value: JsonValue) -> JsonValue:
        """`value` with every text and every name of a member in it as `sanitize.reveal` has it."""
        return _map(value, self._show)

    def inward(self, value: JsonValue) -> JsonValue:
        """`value` with every text and name in it that was shown otherwise as it is."""
        return _map(value, lambda text: self._written.get(text, text)) if self._written else value

    def _show(self, text: str) -> str:
        shown = reveal(text)
        may_be_mistaken = shown != text or _ESCAPE.search(text)  # for another that is shown alike
        if may_be_mistaken and len(shown) <= MAX_NAME:
            while self._written.get(shown, text) != text:
                shown += "'"
            self._written.pop(shown, None)
            self._written[shown] = text
            if len(self._written) > MAX_NAMES:
                del self._written[next(iter(self._written))]
        return shown


def _map(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        made: dict[str, JsonValue] = {}
        for name, each in value.items():
            shown = change(name)
            while shown in made:  # two names that look alike: both are there
                shown += "'"
            made[shown] = _map(each, change)
        return made
    return [_map(each, change) for each in value] if isinstance(value, list) else value
