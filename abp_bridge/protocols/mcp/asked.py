"""The reverse of `elicitation`: what an MCP server asks -> `Question`, and how it was answered ->
what the server gets.

For where we are the host: of our own bridge in the demo, of somebody else's server in the proxies.
There a server takes an error for "cannot ask" and goes on, and some look at the action alone: so
`encode_answer` has no error to give, and what refuses is a decline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.core.normal_schema import normalize
from abp_bridge.core.question import (
    IRREVERSIBLE,
    Answer,
    AnsweredBy,
    Field,
    FieldType,
    Kind,
    Outcome,
    Question,
)
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.mcp.elicitation import Action
from abp_bridge.protocols.schema_fields import GO_ON, asks_nothing, decode_fields, mark_secrets

MAX_URL = 2_000  # characters; browsers and their address bars show no more

# What a field of consent is called, and what its values are.
_CONSENT = re.compile(
    r"(?:confirm|approv|accept|allow|consent|proceed|agree|authori[sz])\w*|ok|continue",
    re.IGNORECASE,
)
_ALLOWS = {"accept", "approve", "allow"}
_REFUSES = {"reject", "decline", "deny"}


def decode_question(
    raw: JsonValue, *, id: str, origin: str, calls: Sequence[str] = (), destructive: bool = True
) -> Question:
    """The parameters of any `elicitation/create` -> Question: a form, or a link.

    A boolean that is the only field is a yes or no that must be answered, and so is a pair of
    consent: left out, it would be an accept that says nothing.

    Args:
        raw: The parameters.
        id: The question's own.
        origin: The server, as the host knows it.
        calls: Which of the host's calls it may belong to.
        destructive: Whether a yes is presumed to do what cannot be undone; to a link it does
            nothing by itself.

    Raises:
        RemoteProtocolError: They cannot be put to anybody.
    """
    decode = decode_link if as_object(raw).get("mode") == "url" else decode_form
    question = _require_consent(decode(raw, id=id, origin=origin))
    return replace(
        question,
        calls=tuple(calls),
        destructive=question.destructive or (destructive and not question.link),
        presumed=not question.destructive,
    )


def _require_consent(question: Question) -> Question:
    if question.kind is Kind.CONFIRM or len(question.fields) != 1:
        return question
    [field] = question.fields
    required = (replace(field, required=True),)
    if _refusal_in(field):
        return replace(question, fields=required)
    if field.type is not FieldType.BOOLEAN:
        return question
    named = field.title or ("" if _CONSENT.fullmatch(field.name) else field.label)
    about = ": ".join(filter(None, (named, field.description)))
    message = "\n\n".join(filter(None, (question.message, about)))
    return replace(question, kind=Kind.CONFIRM, message=message, fields=required)


def decode_link(raw: JsonValue, *, id: str, origin: str) -> Question:
    """The parameters of a url-mode `elicitation/create` -> Question with a link, whose accept says
    that the person goes there.

    Raises:
        RemoteProtocolError: It leads to no page of the web, or has no message.
    """
    params = _mapping(raw, "an elicitation")
    url, message = params.get("url"), params.get("message")
    if not isinstance(url, str) or not isinstance(message, str):
        raise RemoteProtocolError("an elicitation by url needs a url and a message in words")
    if len(url) > MAX_URL or not _is_web_address(url):
        raise RemoteProtocolError("the url of an elicitation must be an http or https address")
    return Question(
        id=id,
        kind=Kind.CONFIRM,
        message=sanitize.message(message) or "Please open this.",
        fields=(GO_ON,),
        origin=origin,
        wrapped=False,
        link=url,
        request=params,
    )


def _is_web_address(url: str) -> bool:
    """Whether it is one as it stands: what it looks like is where it leads."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


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
        # What is required the fields say themselves.
        whole={word: value for word, value in schema.items() if word != "required"},
    )


def encode_answer(question: Question, answer: Answer) -> dict[str, JsonValue]:
    """How a server's question ended -> the result of its `elicitation/create`, whatever happened.

    A person's no is a decline, also where the form has a field for it; what a host answered by
    itself, and what nobody did, is a cancel.
    """
    outcome = answer.outcome
    if answer.answered_by is AnsweredBy.HOST_POLICY:
        outcome = Outcome.CANCELLED
    elif outcome is Outcome.ACCEPTED and _refuses(question, answer.content):
        outcome = Outcome.DECLINED
    said = {"answeredBy": answer.answered_by.value, "route": answer.route}
    meta: JsonObject = {"abp": {word: value for word, value in said.items() if value}}
    return {**encode_reply(question, outcome, answer.content), "_meta": meta}


def _refuses(question: Question, content: JsonObject) -> bool:
    """Whether what was answered is the no of a consent, which has no other field."""
    if len(question.fields) != 1:
        return False
    [field] = question.fields
    value = content.get(field.name)
    if field.type is FieldType.BOOLEAN:
        return value is False and _asks_consent(field)
    return bool(_word(value)) and _word(value) == _refusal_in(field)


def _refusal_in(field: Field) -> str:
    """The word among two values of consent that says no; empty where they are no such pair."""
    words = {_word(choice.value) for choice in field.choices}
    if len(words) != 2 or len(field.choices) != 2:
        return ""
    if words == {"yes", "no"}:
        return "no" if _asks_consent(field) else ""
    refusing = words & _REFUSES
    return refusing.pop() if len(refusing) == 1 and words & _ALLOWS else ""


def _asks_consent(field: Field) -> bool:
    return any(_CONSENT.fullmatch(word) for word in re.findall(r"[A-Za-z][a-z]*", field.name))


def _word(value: JsonValue) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def encode_reply(question: Question, outcome: Outcome, content: JsonObject) -> dict[str, JsonValue]:
    """How a form was answered -> the result of `elicitation/create`.

    What is neither an accept nor a decline is a cancel.
    """
    if question.fields == (GO_ON,):
        outcome = Outcome.DECLINED if content.get(GO_ON.name) is False else outcome
        content = {}
    action = _ACTIONS.get(outcome, Action.CANCEL)
    has_content = action is Action.ACCEPT and not question.link
    return {"action": action.value, **({"content": dict(content)} if has_content else {})}


_ACTIONS = {Outcome.ACCEPTED: Action.ACCEPT, Outcome.DECLINED: Action.DECLINE}


def _mapping(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(f"{what} must be an object")
    return value
