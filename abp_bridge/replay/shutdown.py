"""What a bridge may still say to apps, an agent and a server when its host has left: a table.

Nothing else may come then. Pure.
"""

from __future__ import annotations

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.trace.format import AGENT, SERVER, TOOLS, is_request, is_response

Key = tuple[str, str, JsonValue]  # (party, the type of an id, the id)

# What ends a session, a call or a question, and to whom it is said; each may be a request or a
# notification, and an envelope's type.
LAST_METHODS = {
    "shutdown": ("app",),
    "capabilities/cancel": ("app",),
    "notifications/cancelled": ("app", TOOLS, SERVER),
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
        self._methods: dict[Key, JsonValue] = {}

    def add(self, party: str, message: JsonValue) -> None:
        """Note what somebody asked the bridge, if this is a request."""
        said = as_object(message)
        request = from_envelope(said) if is_envelope(said) else said
        if is_request(request):
            self._methods[key(party, request["id"])] = request["method"]

    def forget(self, party: str) -> None:
        """It has ended, with whatever it asked."""
        self._methods = {each: method for each, method in self._methods.items() if each[0] != party}

    def remove(self, party: str, message: JsonValue) -> JsonValue:
        """Close the question that this answers, and return its method; None if there is none."""
        id = as_object(message).get("id")
        return self._methods.pop(key(party, id), None) if is_answer(message) else None


def key(party: str, id: JsonValue) -> Key:
    """What tells one request from another: a text is no number, and parties have ids of their
    own.
    """
    return party, type(id).__name__, id if isinstance(id, (str, int, float)) else None


def is_answer(message: JsonValue) -> bool:
    """Whether it answers a question, as a response or in ABP's envelope."""
    is_reply = is_envelope(message) and as_object(message)["type"] == RESPONSE
    return is_response(message) or is_reply


def fault(party: str, kind: str, value: JsonValue, questions: OpenQuestions) -> str:
    """Why this is no goodbye to `party`; empty when it is one."""
    message = as_object(value)
    if kind == "raw":
        return f"a line to the {party} that is no JSON"
    if is_answer(message):
        method = questions.remove(party, message)
        id = repr(message.get("id"))
        if method is None:
            return f"a response to the {party}, to a question that is not open: {id}"
        if _accepts(message) and method != PREFERENCE:
            return f"an answer to the {party}, when there was nobody to answer: {id}"
        return ""
    said = message.get("method", message.get("type"))
    if not isinstance(said, str):
        return f"something to the {party}"
    return "" if party.partition(" ")[0] in LAST_METHODS.get(said, ()) else f"{said} to the {party}"


def reply(value: JsonValue) -> JsonObject | None:
    """What the other side answers; None where it has nothing to answer."""
    message = as_object(value)
    if "id" not in message or is_answer(message):
        return None
    if is_envelope(message):
        return {"type": f"{message['type']}-result", "id": message["id"], "payload": {}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {}}


def _accepts(message: JsonObject) -> bool:
    result = as_object(message.get("result", message.get("payload")))
    is_selected = as_object(result.get("outcome")).get("outcome") == "selected"
    return result.get("success") is True or result.get("action") == "accept" or is_selected
