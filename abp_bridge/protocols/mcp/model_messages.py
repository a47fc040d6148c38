"""Messages for the host's model: the page of a question, or the question, and the answer it brings.

The last resort, so the text says what the model must not do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from abp_bridge.core.json_value import Json, JsonObject
from abp_bridge.core.outcome import Action
from abp_bridge.core.question import Question, message_of
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import encode_form
from abp_bridge.protocols.mcp.versions import V2025_11_25

ANSWER = "abp_answer"


def encode_link(
    question: Question, url: str, *, modes: bool = True, waits: bool = False
) -> dict[str, Json]:
    """Return a form without fields that gives the page's address, for hosts without url mode.

    Accepting it means done, unless the host `waits` for the page.
    """
    mode = {"mode": "form"} if modes else {}
    done = "this link:\n" if waits else "this link, answer there, and then accept this: "
    return {
        **mode,
        "message": (
            f"{message_of(question)}\n\nThis is answered on a page of abp-bridge's own. Open"
            f" {done}{url}"
        ),
        "requestedSchema": {"type": "object", "properties": {}},
    }


def encode_address(question: Question, address: str, place: str) -> str:
    """Return the page's address for the model; it opens with a code shown at `place`."""
    return (
        f"{message_of(question)}\n\nThis is for your user, and not for you: it is answered on"
        f" a page of abp-bridge's own, on this machine. Show your user this address: {address}\nIt"
        f" asks for a code, which {place} shows them. Do not ask for the code."
    )


def encode_asked(question: Question, problem: str = "") -> str:
    """Return the question as a call's result: the model asks the user and calls `abp_answer`."""
    form = encode_form(question, V2025_11_25, problem=problem)
    accepted = json.dumps({"question": question.id, "content": {"...": "..."}})
    declined = json.dumps({"question": question.id, "action": "decline"})
    return (
        f"{form['message']}\n\nThis is for your user, and not for you to answer. Ask them in these"
        f" words, wait for what they say, and then call {ANSWER} with {accepted}, where content"
        f" fits this schema: {json.dumps(form['requestedSchema'], ensure_ascii=False)}\nIf they do"
        f" not want to answer: {declined}. Nothing is assumed."
    )


def decode_answered(arguments: JsonObject) -> tuple[Action, JsonObject]:
    """Return the (action, content) of `abp_answer`'s arguments, not validated.

    Raises RemoteProtocolError for an invalid answer.
    """
    content, named = arguments.get("content"), arguments.get("action")
    if named is None and content is None:
        raise RemoteProtocolError(
            "say what the user said: content, or an action that is 'decline' or 'cancel'"
        )
    try:
        action = Action(Action.ACCEPT.value if named is None else named)
    except ValueError:
        raise RemoteProtocolError(
            f"{label(named, 80)!r} is no action; there are accept, decline and cancel"
        ) from None
    if action is not Action.ACCEPT:
        return action, {}
    if not isinstance(content, Mapping):
        raise RemoteProtocolError("content must be an object with one member per field")
    return action, content
