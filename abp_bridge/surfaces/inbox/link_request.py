"""The request for a link to a question: signed by a paired browser's secret, for one bridge and for
a few seconds.
"""

from __future__ import annotations

import re
import time

from abp_bridge.core.json_value import JsonObject, as_integer, as_text
from abp_bridge.jsonrpc.files import PlaceError
from abp_bridge.surfaces.inbox import pairing

_INBOX = re.compile(r"http://127\.0\.0\.1:\d{1,5}/[\w-]{1,64}/")
VALID = 10  # seconds: both clocks are this machine's
LATEST = 10**10  # seconds since 1970: a clock is compared with no number that has no bound


def make_request(bridge: str, question: str, secret: str, inbox: str) -> JsonObject:
    """The request to `bridge` for a link to `question`, from the `inbox` at that address."""
    now = int(time.time())
    signature = pairing.sign(secret, _words(bridge, question, now, inbox))
    asked: JsonObject = {"ask": "link", "id": question, "inbox": inbox}
    return {**asked, "time": now, "signature": signature}


def is_signed(request: JsonObject, bridge: str) -> bool:
    """Whether a browser that is paired now signed it, lately, for `bridge`."""
    when = as_integer(request.get("time")) or 0
    inbox = as_text(request.get("inbox"))
    if not 0 < when < LATEST or abs(time.time() - when) > VALID or not _INBOX.fullmatch(inbox):
        return False
    try:
        kept = pairing.load()
    except PlaceError:
        return False
    words = _words(bridge, as_text(request.get("id")), when, inbox)
    return kept is not None and kept.verifies(words, as_text(request.get("signature")))


def _words(bridge: str, question: str, when: int, inbox: str) -> str:
    return f"abp-bridge: a link to {question} of {bridge} at {when} for {inbox}"
