"""The reverse of `elicitation`: what an MCP server asks -> `Question`, and how it was answered ->
what the server gets.

For where we are the host: of our own bridge in the demo, of somebody else's server in the other
direction.
"""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.normal_schema import normalize
from abp_bridge.core.question import IRREVERSIBLE, Kind, Outcome, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import Action
from abp_bridge.protocols.schema_fields import GO_ON, asks_nothing, decode_fields, mark_secrets


def decode_form(raw: JsonValue, *, id: str, origin: str) -> Question:
    """The parameters of a form-mode `elicitation/create` -> Question, whose answer is an object of
    its fields.

    `origin` is the server, as the host knows it. A property outside MCP's subset (an object, a list
    of anything) is asked for as JSON. Raises RemoteProtocolError for parameters that cannot be put
    to anybody.
    """
    params = _mapping(raw, "an elicitation")
    if params.get("mode", "form") != "form":
        raise RemoteProtocolError(
            "this is no form, but an elicitation of the mode"
            f" {sanitize.label(params['mode'], 80)!r}",
            "NOT_SUPPORTED",
        )
    message = params.get("message")
    if not isinstance(message, str):
        raise RemoteProtocolError("an elicitation needs a message in words")
    schema = normalize(
        _mapping(params.get("requestedSchema"), "the requestedSchema of an elicitation")
    )
    if schema.get("type", "object") != "object":
        raise RemoteProtocolError(
            "the requestedSchema of an elicitation must be of the type 'object', not"
            f" {sanitize.label(schema['type'], 80)!r}"
        )
    properties = _mapping(schema.get("properties", {}), "the properties of a requestedSchema")
    for name, part in properties.items():
        _mapping(part, f"the property {sanitize.label(name, 80)!r} of a requestedSchema")
    paragraphs = sanitize.message(message).split("\n\n")
    nothing = asks_nothing(schema)
    fields = (GO_ON,) if nothing else decode_fields(properties, schema.get("required"))
    return Question(
        id=id,
        kind=Kind.CONFIRM if nothing else Kind.INPUT,
        message="\n\n".join(each for each in paragraphs if each != IRREVERSIBLE)
        or "Please fill this in.",
        fields=fields if nothing else mark_secrets(fields, (schema,), message),
        origin=origin,
        wrapped=False,
        destructive=IRREVERSIBLE in paragraphs,
    )


def encode_reply(question: Question, outcome: Outcome, content: JsonObject) -> dict[str, JsonValue]:
    """How a form was answered -> the result of `elicitation/create`.

    What is neither an accept nor a decline is a cancel.
    """
    if question.fields == (GO_ON,):
        outcome = Outcome.DECLINED if content.get(GO_ON.name) is False else outcome
        content = {}
    action = _ACTIONS.get(outcome, Action.CANCEL)
    return {
        "action": action.value,
        **({"content": dict(content)} if action is Action.ACCEPT else {}),
    }


_ACTIONS = {Outcome.ACCEPTED: Action.ACCEPT, Outcome.DECLINED: Action.DECLINE}


def _mapping(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(f"{what} must be an object")
    return value
