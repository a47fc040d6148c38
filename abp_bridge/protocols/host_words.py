"""What a host adds to an answer: who gave it, and why a question was declined or dismissed.

MCP and ACP have no member for either. Bridges put it into `_meta.abp`, hosts into `_meta` (acpx)
or beside the action. Also the messages of a sampling request, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.core.sanitize import clean, label

_OWN = "abp"  # the member of `_meta` in which bridges say who answered
MAX_HOST_WORDS = 300  # characters: a reason, not a log
_MACHINES = (AnsweredBy.HOST_POLICY, AnsweredBy.MODEL, AnsweredBy.SCRIPT)
# By what is said; for any other word it is UNKNOWN. That a person answered is no proof.
_ANSWERED_BY: Mapping[str | None, AnsweredBy | None] = {
    **dict.fromkeys((None, AnsweredBy.PERSON.value)),
    **dict.fromkeys((AnsweredBy.NOBODY.value, AnsweredBy.DEFAULT.value), AnsweredBy.NOBODY),
    **{each.value: each for each in _MACHINES},
}


def decode_answered_by(said: JsonValue) -> AnsweredBy | None:
    """Decode `answeredBy`; None for the user or nothing, `NOBODY` also for a default."""
    return _ANSWERED_BY.get(said if said is None else as_text(said), AnsweredBy.UNKNOWN)


def encode_account(answered_by: AnsweredBy | None, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the `_meta` that says who answered; `more` adds other members, if not empty."""
    account = {"answeredBy": answered_by and answered_by.value, **more}
    said: JsonObject = {word: value for word, value in account.items() if value}
    return {"_meta": {_OWN: said}} if said else {}


def read_answered_by(result: JsonValue) -> AnsweredBy | None:
    """Return who gave an `elicitation/create` result, from `_meta.abp`."""
    meta = as_object(as_object(result).get("_meta"))
    return decode_answered_by(as_object(meta.get(_OWN)).get("answeredBy"))


def read_host_meta(result: JsonValue) -> JsonObject:
    """Return the `_meta` that a host adds to its answer, without what only a bridge says."""
    meta = as_object(as_object(result).get("_meta"))
    return {name: value for name, value in meta.items() if name != _OWN}


def without_account(result: JsonValue) -> JsonValue:
    """Return a host's result without who answered, which only a bridge says of its surfaces."""
    given = as_object(result)
    if _OWN not in as_object(given.get("_meta")):
        return result
    return {**given, "_meta": read_host_meta(given)}


def read_host_words(result: JsonValue) -> str:
    """Return the host's reason with its code, safe to show; "" without one."""
    for place in _places(as_object(result)):
        error = place.get("error")
        said = as_object(error) or place
        words = as_text(error) or as_text(said.get("message")) or as_text(said.get("reason"))
        if words:
            code = said.get("code")
            known = isinstance(code, (int, str)) and not isinstance(code, bool)
            return label(f"{words} ({code})" if known else words, MAX_HOST_WORDS)
    return ""


def _places(result: JsonObject) -> Iterator[JsonObject]:
    for body in (result, as_object(result.get("outcome"))):
        meta = as_object(body.get("_meta"))
        yield meta
        yield from map(as_object, meta.values())
        yield body


def describe_request(request: JsonObject) -> str:
    """Return the messages of a `sampling/createMessage` without invisible characters."""
    return clean(describe_messages(as_list(request.get("messages"))))[0].strip()


def describe_messages(messages: Sequence[JsonValue]) -> str:
    """Return messages as text, with the types of other content in brackets."""
    return "\n\n".join(map(_describe_message, messages))


def _describe_message(message: JsonValue) -> str:
    said = as_object(message)
    content = said.get("content")
    blocks = content if isinstance(content, list) else [content]
    words = [
        as_text(each.get("text")) or f"[{as_text(each.get('type'), 'something')}]"
        for each in map(as_object, blocks)
    ]
    role = as_text(said.get("role"), "user")
    return "\n".join(words) if role == "user" else f"{role}: " + "\n".join(words)
