"""An ACP agent's permission request -> `Question`, and the answer -> its result.

The choice goes back by option id. Anything but a choice is a cancel.
"""

from __future__ import annotations

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import describe_parameters
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, to_text
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.host_words import encode_account
from abp_bridge.protocols.schema_fields import decode_field

CANCELLED: JsonObject = {"outcome": {"outcome": "cancelled"}}
ANSWER = "answer"  # the name of the only field

_HARMLESS = ("read", "search", "think")  # kinds of tool calls that destroy nothing
_LASTING = {
    "allow_always": "The agent does not ask again.",
    "reject_always": "The agent does not ask again, and does not do it.",
}
_REJECTING = ("reject_once", "reject_always")  # the likelier to be meant first


def decode_permission(params: JsonObject, title: str, *, id: str, origin: str) -> Question:
    """Decode the parameters of `session/request_permission`.

    Args:
        params: The parameters.
        title: The title of the tool call.
        id: The question's id.
        origin: The agent, as the bridge knows it.

    Raises:
        RemoteProtocolError: There is no option to choose.
    """
    options = [each for each in map(as_object, as_list(params.get("options"))) if _id(each)]
    if not options:
        raise RemoteProtocolError("a permission needs at least one option with an id")
    tool_call = as_object(params.get("toolCall"))
    risky = tool_call.get("kind") not in _HARMLESS
    safe = [_id(each) for kind in _REJECTING for each in options if each.get("kind") == kind]
    schema: JsonObject = {
        "title": "Answer",
        "oneOf": [_describe_option(each) for each in options],
        **({"default": safe[0]} if risky and safe else {}),
    }
    whole = "\n\n".join([title, *_describe_call(tool_call, title)])
    shown = sanitize.message(whole)
    return Question(
        id=id,
        kind=Kind.SELECT,
        message=shown,
        fields=(decode_field(ANSWER, schema, required=True),),
        origin=origin,
        destructive=risky,
        presumed=True,
        uncut="" if shown == whole else whole,
    )


def _id(option: JsonObject) -> str:
    return as_text(option.get("optionId"))


def _describe_option(option: JsonObject) -> JsonObject:
    named = as_text(option.get("name")) or _id(option)
    lasting = _LASTING.get(as_text(option.get("kind")), "")
    return {"const": _id(option), "title": named, "description": lasting}


def _describe_call(tool_call: JsonObject, title: str) -> list[str]:
    """What the agent wants to do, a paragraph each: its title may leave out the half of it."""
    places = [as_object(each) for each in as_list(tool_call.get("locations"))]
    parts = [_show_content(as_object(each)) for each in as_list(tool_call.get("content"))]
    given = tool_call.get("rawInput")
    if given is not None:
        parts.append(describe_parameters(given if isinstance(given, dict) else {"input": given}))
    parts += [f"In {to_text(each.get('path'))}" for each in places]
    shown = (sanitize.reveal(each) for each in parts if each and each != title)
    return list(dict.fromkeys(shown))


def _show_content(content: JsonObject) -> str:
    if content.get("type") == "diff":
        old, new = (
            _mark(mark, content.get(word)) for mark, word in (("-", "oldText"), ("+", "newText"))
        )
        return "\n".join(filter(None, (f"{to_text(content.get('path'))}:", old, new)))
    block = as_object(content.get("content"))
    kind = as_text(content.get("type"), "something")
    return as_text(block.get("text")) or f"[{as_text(block.get('type')) or kind}]"


def _mark(mark: str, text: JsonValue) -> str:
    return "\n".join(f"{mark} {line}" for line in as_text(text).splitlines())


def encode_permission(question: Question, answer: Answer) -> JsonObject:
    """Encode the result of `session/request_permission`: the option's id and who chose it."""
    said = encode_account(answer.answerer)
    if answer.outcome is not Outcome.ACCEPTED or answer.answered_by is AnsweredBy.HOST_POLICY:
        return {**CANCELLED, **said}
    return {"outcome": {"outcome": "selected", "optionId": answer.content.get(ANSWER)}, **said}


def encode_refusal(params: JsonObject) -> JsonObject:
    """Return the result that refuses a permission once, or a cancel.

    A permanent rejection would be stored in the user's settings.
    """
    options = map(as_object, as_list(params.get("options")))
    once = (_id(each) for each in options if each.get("kind") == "reject_once" and _id(each))
    chosen = next(once, None)
    if chosen is None:
        return CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}
