"""Which request a response answers, seen from its first or last bytes: a long result is not read
only for that; and which id a request has that is too long to be read at all.

It sees only what is sure: a line that is written in another way has to be read.
"""

from __future__ import annotations

import json
import re

from abp_bridge.jsonrpc.protocol import Id, is_id

_ID = rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
# Behind the brace of the whole message, and before it: no string holds these quotes unescaped.
_FIRST = re.compile(rb'\s*\{\s*%b,\s*"(?:result|error)"\s*:' % _ID)
_LAST = re.compile(rb",\s*%b\}\s*\Z" % _ID)
_RESULT_FIRST = re.compile(rb'\s*\{\s*"(?:result|error)"\s*:')
_HEAD = 1_000  # bytes in which the first members of a request stand
_MEMBER = re.compile(rb'"([^"\\]*)"\s*:\s*("[^"\\]*"|[^\s,{}\[\]"]+)\s*,')
_SCALARS = re.compile(rb"\s*\{(?:\s*%b)*" % re.sub(rb"\((?!\?)", b"(?:", _MEMBER.pattern))
_TAIL = 300  # bytes in which such an end stands


def find(line: bytes) -> Id | None:
    """The id of the request that `line` answers, which is a message; None where that is not
    certain, or it is no response.
    """
    found = _FIRST.match(line)
    if found is None and _RESULT_FIRST.match(line):
        found = _LAST.search(line, max(0, len(line) - _TAIL))
    if found is None:
        return None
    return _read(found[1])


def find_request(begin: bytes) -> Id | None:
    """The id of the request that a line begins with; None where its first members do not say."""
    named = dict(_MEMBER.findall(found[0])) if (found := _SCALARS.match(begin[:_HEAD])) else {}
    return _read(named[b"id"]) if {b"id", b"method"} <= named.keys() else None


def _read(written: bytes) -> Id | None:
    try:
        id = json.loads(written)
    except ValueError:  # such as 007, or a string that is no UTF-8
        return None
    return id if is_id(id) else None
