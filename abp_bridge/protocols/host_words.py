"""Why a host declined or dismissed a question, in the words that it gives beside its answer.

No protocol has a place for them; hosts put them into `_meta` (acpx), or beside the action.
"""

from __future__ import annotations

from collections.abc import Iterator

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.core.sanitize import label

LONGEST = 300  # characters: a reason, not a log


def read_host_words(result: JsonValue) -> str:
    """The result of a question -> the host's own reason, with its code where it has one; empty
    where it gives none. Safe to show; no answer is in it.
    """
    for place in _places(as_object(result)):
        error = place.get("error")
        said = as_object(error) or place
        words = as_text(error) or as_text(said.get("message")) or as_text(said.get("reason"))
        if words:
            code = said.get("code")
            known = isinstance(code, (int, str)) and not isinstance(code, bool)
            return label(f"{words} ({code})" if known else words, LONGEST)
    return ""


def _places(result: JsonObject) -> Iterator[JsonObject]:
    for body in (result, as_object(result.get("outcome"))):
        meta = as_object(body.get("_meta"))
        yield meta
        yield from map(as_object, meta.values())
        yield body
