"""Finds lines that another reader may read differently: escapes, several messages, folded names."""

from __future__ import annotations

import re
from collections.abc import Set

from abp_bridge.core.json_value import JsonObject, as_object

# A plain letter, the slash, and the two letters that small ones are told from by few.
_ESCAPED = re.compile(rb"\\u(?:00(?:2[fF]|[46][1-9a-fA-F]|[57][0-9aA])|017[fF]|212[aA])")
_LONG_S = "\u017f".encode()  # Go's JSON takes it for an s in a name
_RESPONSE = (b'"result"', b'"error"')
_OF_MESSAGES = frozenset(["jsonrpc", "id", "method", "params", "result", "error"])
_OF_CALLS = frozenset(["name", "arguments"])


def is_escaped(data: bytes) -> bool:
    """Whether a plain letter is escaped, so that a word could hide behind it."""
    return b"\\" in data and _ESCAPED.search(data) is not None


def are_objects(lines: bytes) -> bool:
    """Whether each of these lines begins with an object."""
    if lines.find(b"\n") == len(lines) - 1 >= 0:  # one line, as mostly: no need to count
        return lines.startswith(b"{")
    return lines.count(b"\n{") + lines.startswith(b"{") == lines.count(b"\n")


def may_respond(data: bytes) -> bool:
    """Whether another reader may find a response in these lines."""
    low = data.lower()
    return any(word in low for word in _RESPONSE) or _LONG_S in data or is_escaped(data)


def misleading_name(message: JsonObject) -> str:
    """Return a member that readers which fold case or stop at NUL (Go) may misread."""
    found = _misleading(message, _OF_MESSAGES)
    if not found and message.get("method") == "tools/call":
        found = _misleading(as_object(message.get("params")), _OF_CALLS)
    return found


def _misleading(names: JsonObject, known: Set[str]) -> str:
    if names.keys() <= known:
        return ""
    folded = (name for name in names if name not in known)
    return next((name for name in folded if name.partition("\0")[0].casefold() in known), "")
