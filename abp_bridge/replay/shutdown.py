"""What a bridge may still say to its apps and its agent when its host has left: a table.

Nothing else may come then. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.trace.format import AGENT, TOOLS, is_request, is_response

Json = Any
Key = tuple[str, str, Json]  # (party, the type of an id, the id)

# What ends a session, a call or a question, and to whom it is said; each may be a request or a
# notification, and an envelope's type.
GOODBYES = {
    "shutdown": ("app",),
    "capabilities/cancel": ("app",),
    "notifications/cancelled": ("app", TOOLS),
    "session/cancel": (AGENT,),
    "$/cancel_request": ("app", AGENT),
}
ONCE = ("shutdown",)
RESPONSE = "elicitation/response"
PREFERENCE = "elicitation/preference"  # its default is an answer that needs nobody


class OpenQuestions:
    """What the apps and the agent have asked and the bridge has not answered, by what passes
    between them.
    """

    def __init__(self) -> None:
        self._methods: dict[Key, Json] = {}

    def asked(self, party: str, message: Json) -> None:
        """Somebody asked the bridge something, if this is a request."""
        message = from_envelope(message) if is_envelope(message) else message
        if is_request(message):
            self._methods[key(party, message["id"])] = message["method"]

    def forget(self, party: str) -> None:
        """It has ended, with whatever it asked."""
        self._methods = {each: method for each, method in self._methods.items() if each[0] != party}

    def answered(self, party: str, message: Json) -> Json:
        """Close the question that this answers, and return its method; None if there is none."""
        return (
            self._methods.pop(key(party, message.get("id")), None) if is_answer(message) else None
        )


def key(party: str, id: Json) -> Key:
    """What tells one request from another: a text is no number, and parties have ids of their
    own.
    """
    return party, type(id).__name__, id if isinstance(id, (str, int, float)) else None


def is_answer(message: Json) -> bool:
    """Whether it answers a question, as a response or in ABP's envelope."""
    return is_response(message) or (is_envelope(message) and message["type"] == RESPONSE)


def fault(party: str, kind: str, value: Json, questions: OpenQuestions) -> str:
    """Why this is no goodbye to `party`; empty when it is one."""
    if kind == "raw":
        return f"a line to the {party} that is no JSON"
    if is_answer(value):
        method = questions.answered(party, value)
        if method is None:
            return f"a response to the {party}, to a question that is not open: {value.get('id')!r}"
        return (
            f"an answer to the {party}, when there was nobody to answer: {value.get('id')!r}"
            if _accepts(value) and method != PREFERENCE
            else ""
        )
    said = value.get("method", value.get("type")) if isinstance(value, Mapping) else None
    if not isinstance(said, str):
        return f"something to the {party}"
    return "" if party.partition(" ")[0] in GOODBYES.get(said, ()) else f"{said} to the {party}"


def reply(value: Json) -> Json:
    """What the other side answers; None where it has nothing to answer."""
    if not isinstance(value, Mapping) or "id" not in value or is_answer(value):
        return None
    if is_envelope(value):
        return {"type": f"{value['type']}-result", "id": value["id"], "payload": {}}
    return {"jsonrpc": "2.0", "id": value["id"], "result": {}}


def _accepts(message: Mapping[str, Json]) -> bool:
    result = message.get("result", message.get("payload"))
    if not isinstance(result, Mapping):
        return False
    outcome = result.get("outcome")
    chosen = isinstance(outcome, Mapping) and outcome.get("outcome") == "selected"
    return result.get("success") is True or result.get("action") == "accept" or chosen
