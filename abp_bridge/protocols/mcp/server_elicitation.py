"""An MCP server's elicitation -> `Question`, and the answer -> its result.

Servers treat an error as "cannot ask" and continue, and some read the action alone, so
`encode_answer` returns no errors: a refusal is a decline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from abp_bridge.core import sanitize
from abp_bridge.core.answer import Answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, to_text
from abp_bridge.core.options import is_default
from abp_bridge.core.outcome import SAID_NO, Action, AnsweredBy, Outcome
from abp_bridge.core.question import IRREVERSIBLE, MISSING, Choice, Field, FieldType, Kind, Question
from abp_bridge.core.schema import is_valid, normalize
from abp_bridge.core.web_address import describe_oddities, host_of
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.host_words import encode_account
from abp_bridge.protocols.mcp.revisions import MAX_URI
from abp_bridge.protocols.schema_fields import (
    ACKNOWLEDGE,
    decode_fields,
    mark_secrets,
)

# What a field of consent is called.
_CONSENT = re.compile(
    r"(?:confirm|approv|accept|allow|consent|proceed|agree|authori[sz])\w*|ok|continue",
    re.IGNORECASE,
)
# What the options of a pair begin with; a plain yes or no may also be about a matter of fact.
_PLAIN = {"yes": True, "no": False, "true": True, "false": False}
_CONSENTING = (
    *("accept", "approve", "allow", "confirm", "consent", "proceed", "continue", "agree"),
    *("grant", "ok", "okay", "authorize", "authorise"),
)
_REFUSING = (
    *("reject", "decline", "deny", "refuse", "disallow", "disagree", "forbid"),
    *("not", "never", "don't", "don\u2019t"),
)
_VERBS = dict.fromkeys(_CONSENTING, True) | dict.fromkeys(_REFUSING, False)
_STOPS = dict.fromkeys(("cancel", "abort", "stop"), False)  # alone: "Cancel the order" is a deed
_FILLERS = {"i", "we", "do", "please"}
_OPTION_WORDS = re.compile("[\\w'\u2019]+")


def decode_question(raw: JsonValue, *, id: str, origin: str, destructive: bool = True) -> Question:
    """Decode the parameters of a form or link `elicitation/create`.

    A single boolean or yes/no pair must be answered: an accept without it would say nothing.

    Args:
        raw: The parameters.
        id: The question's id.
        origin: The server, as the host knows it.
        destructive: Whether a yes is presumed destructive, except to a link.

    Raises:
        RemoteProtocolError: The parameters cannot be shown.
    """
    decode = decode_link if as_object(raw).get("mode") == "url" else decode_form
    question = decode(raw, id=id, origin=origin)
    question = replace(
        question,
        destructive=question.destructive or (destructive and not question.link),
        presumed=not question.destructive,
    )
    if question.destructive:
        question = replace(question, fields=tuple(map(_unprefill, question.fields)))
    return _require_consent(question, as_object(raw))


def _unprefill(field: Field) -> Field:
    """The field with what the server proposes said beside it, where one key would accept it."""
    if field.default is MISSING and not field.columns:
        return field
    columns = tuple(map(_unprefill, field.columns))
    emptied = replace(field, default=MISSING, columns=columns)
    if field.default is MISSING or field.secret:
        return emptied
    chosen = ", ".join(each.label for each in field.choices if is_default(field, each))
    words = {True: "yes", False: "no"} if field.type is FieldType.BOOLEAN else {}
    shown = chosen or words.get(field.default is True) or to_text(field.default)
    said = sanitize.message(f"suggested: {shown}", sanitize.LINE_LIMIT) if shown else ""
    return replace(emptied, description=" ".join(filter(None, (field.description, said))))


def _require_consent(question: Question, params: JsonObject) -> Question:
    if question.kind is Kind.CONFIRM or len(question.fields) != 1:
        return question
    [field] = question.fields
    pair = _pair_in(question)
    if field.type is not FieldType.BOOLEAN and pair is None:
        return question
    named = field.title or ("" if _CONSENT.fullmatch(field.name) else field.label)
    about = ": ".join(filter(None, (named, field.description)))
    message = "\n\n".join(filter(None, (question.message, about)))
    if pair is None:
        field = replace(field, required=True, empty=MISSING)
        return replace(question, kind=Kind.CONFIRM, message=message, fields=(field,))
    default = MISSING if field.default is MISSING else is_default(field, pair.allows)
    return replace(
        question,
        kind=Kind.CONFIRM,
        message="\n\n".join(filter(None, (message, pair.words))),
        fields=(replace(ACKNOWLEDGE, name=field.name, title=field.title, default=default),),
        whole={},
        request=params,
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """The options of a lone choice of two that is a yes or no."""

    allows: Choice
    refuses: Choice

    @property
    def words(self) -> str:
        """Return the options' labels and descriptions, unless they are just yes and no."""
        named = (("Yes", self.allows), ("No", self.refuses))
        if all(word.lower() == each.label.lower() and not each.description for word, each in named):
            return ""
        return "\n".join(
            f"{word}: " + ": ".join(filter(None, (each.label, each.description)))
            for word, each in named
        )

    @property
    def is_consent(self) -> bool:
        """Whether its words speak of consent, not of a fact."""
        texts = (text for each in (self.allows, self.refuses) for text in (each.key, each.label))
        return any(word in _VERBS for text in texts for word in _words(text))


def _pair_in(question: Question) -> _Pair | None:
    """Return the only field's options if its values or labels mean yes and no."""
    field = question.fields[0]
    if len(question.fields) != 1 or field.type is not FieldType.CHOICE or len(field.choices) != 2:
        return None
    if not all(is_valid({field.name: each.value}, question.whole) for each in field.choices):
        return None
    first, second = field.choices
    verdicts = (
        (_allows(first.key), _allows(second.key)),
        (_allows(first.label), _allows(second.label)),
    )
    clear = {each for each in verdicts if set(each) == {True, False}}
    if len(clear) != 1:
        return None
    [(first_allows, _)] = clear
    return _Pair(first, second) if first_allows else _Pair(second, first)


def _allows(text: str) -> bool | None:
    """Whether an option consents or refuses; None where its words do not say."""
    words = [word for word in _words(text) if word not in _FILLERS]
    table = _PLAIN | _VERBS | (_STOPS if len(words) == 1 else {})
    return table.get(words[0]) if words else None


def _words(text: str) -> list[str]:
    return _OPTION_WORDS.findall(text.lower())


def decode_link(raw: JsonValue, *, id: str, origin: str) -> Question:
    """Decode a url-mode `elicitation/create`; accepting means that the user goes there.

    Raises:
        RemoteProtocolError: It has no web address or no message.
    """
    params = _mapping(raw, "an elicitation")
    url, message = params.get("url"), params.get("message")
    if not isinstance(url, str) or not isinstance(message, str):
        raise RemoteProtocolError("an elicitation by url needs a url and a message in words")
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URI
    if not plain or host_of(url) is None:
        raise RemoteProtocolError("the url of an elicitation must be an http or https address")
    return Question(
        id=id,
        kind=Kind.CONFIRM,
        message=sanitize.message(message) or "Please open this.",
        fields=(ACKNOWLEDGE,),
        origin=origin,
        wrapped=False,
        link=url,
        note=describe_oddities(url),
        request=params,
    )


def decode_form(raw: JsonValue, *, id: str, origin: str) -> Question:
    """Decode a form-mode `elicitation/create`; the answer is an object of its fields.

    A property outside MCP's subset is asked for as JSON. PHP's `[]` is an empty object, and null
    an absent member. Raises RemoteProtocolError.
    """
    params = _mapping(raw, "an elicitation")
    if params.get("mode") not in (None, "form"):
        raise RemoteProtocolError(
            "this is no form, but an elicitation of the mode"
            f" {sanitize.label(params['mode'], 80)!r}",
            "NOT_SUPPORTED",
        )
    message = params.get("message")
    if not isinstance(message, str):
        raise RemoteProtocolError("an elicitation needs a message in words")
    schema = normalize(_decode_schema(params))
    if schema.get("type", "object") != "object":
        raise RemoteProtocolError(
            "the requestedSchema of an elicitation must be of the type 'object', not"
            f" {sanitize.label(schema['type'], 80)!r}"
        )
    properties = _mapping(schema.get("properties", {}), "the properties of a requestedSchema")
    for name, part in properties.items():
        _mapping(part, f"the property {sanitize.label(name, 80)!r} of a requestedSchema")
    shown = sanitize.message(message)
    paragraphs = shown.split("\n\n")
    nothing = not properties
    if nothing and not is_valid({}, schema):
        raise RemoteProtocolError(
            "the requestedSchema of an elicitation wants members, and has no properties for them"
        )
    fields = (ACKNOWLEDGE,) if nothing else decode_fields(properties, schema.get("required"))
    return Question(
        id=id,
        kind=Kind.CONFIRM if nothing else Kind.INPUT,
        message="\n\n".join(each for each in paragraphs if each != IRREVERSIBLE)
        or "Please fill this in.",
        fields=fields if nothing else mark_secrets(fields, (schema,), shown),
        origin=origin,
        wrapped=False,
        destructive=IRREVERSIBLE in paragraphs,
        request=params,
        # What is required the fields say themselves.
        whole={word: value for word, value in schema.items() if word != "required"},
    )


def _decode_schema(params: JsonObject) -> JsonObject:
    schema = _object_of(params.get("requestedSchema"))
    schema = _mapping(schema, "the requestedSchema of an elicitation")
    if "properties" not in schema:
        return schema
    properties = _object_of(schema["properties"])
    if isinstance(properties, Mapping):
        properties = {name: _object_of(part) for name, part in properties.items()}
    return {**schema, "properties": properties}


def server_outcome(question: Question, answer: Answer) -> Outcome:
    """Return the outcome a server gets: a no is a decline, a host's own answer a cancel."""
    if answer.answered_by is AnsweredBy.HOST_POLICY:
        return Outcome.CANCELLED
    refused = answer.outcome is Outcome.ACCEPTED and refuses(question, answer.content)
    return Outcome.DECLINED if refused else answer.outcome


def encode_answer(question: Question, answer: Answer) -> dict[str, JsonValue]:
    """Encode the result of a server's `elicitation/create`; an unanswered one is a cancel."""
    outcome, content = server_outcome(question, answer), answer.content
    pair = _asked_pair(question)
    if pair is not None:
        content = {
            name: (pair.allows if said is True else pair.refuses).value
            for name, said in content.items()
        }
    account = encode_account(answer.answerer, route=answer.route)
    kept = answer.host_meta if outcome is answer.outcome else {}
    meta = {**kept, **as_object(account.get("_meta"))}
    return {**encode_reply(question, outcome, content), **({"_meta": meta} if meta else {})}


def encode_completed() -> dict[str, JsonValue]:
    """Encode the result of a question whose address the user has visited, as its server says."""
    return {"action": Action.ACCEPT.value, **encode_account(AnsweredBy.SERVER)}


def _asked_pair(question: Question) -> _Pair | None:
    """The server's own options of what was asked as a yes or no."""
    if question.link or question.kind is not Kind.CONFIRM or "message" not in question.request:
        return None
    return _pair_in(decode_form(question.request, id=question.id, origin=question.origin))


def refuses(question: Question, content: JsonObject) -> bool:
    """Whether what was answered is the no of a consent, which has no other field."""
    if [each.type for each in question.fields] != [FieldType.BOOLEAN]:
        return False
    [field] = question.fields
    pair = _asked_pair(question)
    consent = (pair is not None and pair.is_consent) or _asks_consent(field)
    return content.get(field.name) is False and consent


def _asks_consent(field: Field) -> bool:
    return any(_CONSENT.fullmatch(word) for word in re.findall(r"[A-Za-z][a-z]*", field.name))


def encode_reply(question: Question, outcome: Outcome, content: JsonObject) -> dict[str, JsonValue]:
    """Encode a form's result; anything but an accept or a decline is a cancel."""
    row = outcome.row
    if question.fields == (ACKNOWLEDGE,):
        refused = outcome is Outcome.ACCEPTED and content.get(ACKNOWLEDGE.name) is False
        row, content = (SAID_NO if refused else row), {}
    has_content = row.action is Action.ACCEPT and not question.link
    return {"action": row.action.value, **({"content": dict(content)} if has_content else {})}


def _object_of(value: JsonValue) -> JsonValue:
    return {} if value in (None, []) else value


def _mapping(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(f"{what} must be an object")
    return value
