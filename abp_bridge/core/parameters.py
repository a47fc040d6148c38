"""The parameters of something that is to be done, in words that a person can decide by: whole, each
on a line of its own, without what its name says is a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.question import MAX_MESSAGE
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.sanitize import escape, reveal

LONG_VALUE = 400  # characters of one parameter, which stands below the others then
_HIDDEN = "(not shown: its name is a secret's)"


def describe(params: JsonObject) -> str:
    """The parameters, one a line, each with its name and its value as JSON, the long ones last: as
    many as anybody could be shown.
    """
    lines: list[str] = []
    room = MAX_MESSAGE
    for name, value in params.items():
        lines.append(f"{_plain(name)}: {_show(name, value)}")
        room -= len(lines[-1])
        if room < 0:
            break
    lines.sort(key=lambda line: len(line) > LONG_VALUE)
    return "\n".join(["With:", *lines]) if lines else "Without parameters."


def _show(name: str, value: JsonValue) -> str:
    if holds_secret(name):
        return _HIDDEN
    return _plain(json.dumps(_without_secrets(value), ensure_ascii=False, default=str))


def _plain(words: str) -> str:
    """One line in which nothing is there and not seen. What is longer than any message is not
    shown at all, so that its end does not matter.
    """
    return escape(reveal(words[: MAX_MESSAGE + 1]))


def _without_secrets(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return {
            name: _HIDDEN if holds_secret(name) else _without_secrets(each)
            for name, each in value.items()
        }
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value
