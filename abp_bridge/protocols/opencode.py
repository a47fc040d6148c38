"""OpenCode's question endpoints: `Question` -> QuestionRequest, and labels -> content.

Answers are labels, so they are made unique and mapped back to values. Each field is one question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_count, as_texts, json_equal
from abp_bridge.core.options import LEAVE_EMPTY, is_default, own_label, yes_or_no
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Missing, Question
from abp_bridge.errors import RemoteProtocolError

HEADER_LIMIT = 30  # the API's own
SUGGESTED_LIMIT = 200  # characters of a default that is an option: a longer one fits no button
SHOWN = 10  # labels that an error names

SUGGESTED = "(suggested by who asks)"


@dataclass(frozen=True, slots=True)
class _Offer:
    """An option with its unique label and its value, or MISSING."""

    label: str
    value: JsonValue | Missing
    description: str = ""


def encode_request(question: Question, id: str, session: str) -> dict[str, JsonValue]:
    """Return a QuestionRequest `{id, sessionID, questions}`, one question per field."""
    return {
        "id": id,
        "sessionID": session,
        "questions": [_info(question, each) for each in question.fields],
    }


def decode_answers(question: Question, body: JsonValue) -> dict[str, JsonValue]:
    """Decode a reply `{answers: [[label, ...], ...]}` to content by field name, not validated.

    Raises RemoteProtocolError.
    """
    answers = body.get("answers") if isinstance(body, Mapping) else None
    if not isinstance(answers, list) or not all(
        isinstance(each, list) and all(isinstance(label, str) for label in each) for each in answers
    ):
        raise RemoteProtocolError(
            'the body must be {"answers": [[label, ...], ...]}: a list of labels for each question'
        )
    if len(answers) != len(question.fields):
        raise RemoteProtocolError(
            f"there must be {len(question.fields)} lists of answers, one for each question, not"
            f" {len(answers)}"
        )
    decoded = (
        (each.name, _decode(question, each, as_texts(labels)))
        for each, labels in zip(question.fields, answers, strict=True)
    )
    return {name: value for name, value in decoded if value is not MISSING}


def encode_answers(question: Question, content: JsonObject) -> list[list[str]]:
    """What was answered elsewhere, in the labels of this API."""
    return [_encode(question, each, content) for each in question.fields]


def _decode(question: Question, asked: Field, labels: Sequence[str]) -> JsonValue | Missing:
    name = asked.label
    known = {offer.label: offer.value for offer in _offers(question, asked)}
    if strange := [label for label in labels if label not in known and not _typed(asked)]:
        shown = ", ".join(repr(label) for label in list(known)[:SHOWN]) + (
            f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        )
        raise RemoteProtocolError(
            f"{name}: {sanitize.label(strange[0], 80)!r} is none of the options, which are {shown}"
        )
    values = [known.get(label, label) for label in labels]
    if asked.type is FieldType.CHOICES:
        chosen = [value for value in values if value is not MISSING]
        if len(chosen) == len(values):
            return chosen
        if len(values) == 1:
            return MISSING
        raise RemoteProtocolError(f"{name}: {LEAVE_EMPTY!r} cannot be chosen together with others")
    if len(values) != 1:
        raise RemoteProtocolError(f"{name}: exactly one answer is needed, not {len(values)}")
    return values[0]


def _encode(question: Question, asked: Field, content: JsonObject) -> list[str]:
    value = content.get(asked.name, MISSING)
    values = value if asked.type is FieldType.CHOICES and isinstance(value, list) else [value]
    offers = _offers(question, asked)
    labels = [[offer.label for offer in offers if _stands_for(offer, each)] for each in values]
    return [
        found[0] if found else _typed_text(asked, each)
        for found, each in zip(labels, values, strict=True)
    ]


def _stands_for(offer: _Offer, value: JsonValue | Missing) -> bool:
    if offer.value is MISSING or value is MISSING:
        return offer.value is value
    return json_equal(offer.value, value)


def _typed_text(asked: Field, value: JsonValue | Missing) -> str:
    """A value as it is typed."""
    return (
        value
        if isinstance(value, str) and asked.type is FieldType.TEXT
        else json.dumps(value, ensure_ascii=False)
    )


# --- what is shown --------------------------------------------------------------------------------


def _info(question: Question, asked: Field) -> dict[str, JsonValue]:
    """One QuestionInfo `{question, header, options, multiple, custom}`."""
    header = asked.label if len(question.fields) > 1 or asked.title else question.asker
    return {
        "question": _words(question, asked),
        "header": header if len(header) <= HEADER_LIMIT else f"{header[: HEADER_LIMIT - 1]}…",
        "options": [
            {"label": offer.label, "description": offer.description}
            for offer in _offers(question, asked)
        ],
        "multiple": asked.type is FieldType.CHOICES,
        "custom": _typed(asked),
    }


def _words(question: Question, asked: Field) -> str:
    """Who asks, what, and what there is to know about one field of it."""
    parts = [question.introduce(f"{question.asker} asks:")]
    if len(question.fields) > 1:
        parts.append(f"{asked.label}: {asked.description}" if asked.description else asked.label)
    elif asked.description:
        parts.append(asked.description)
    parts += [
        question.warning,
        _hint(asked),
        f"abp-bridge: {question.note}" if question.note else "",
    ]
    return "\n\n".join(filter(None, parts))


def _hint(asked: Field) -> str:
    if asked.type is FieldType.CHOICES:
        least, most = (as_count(asked.schema.get(word)) for word in ("minItems", "maxItems"))
        bounds = [f"at least {least}"] if least else []
        bounds += [] if most is None else [f"at most {most}"]
        return f"Choose {' and '.join(bounds)}." if bounds else "Choose any number."
    if asked.type is FieldType.JSON:
        schema = sanitize.label(
            json.dumps(asked.schema, ensure_ascii=False, default=str), sanitize.LINE_LIMIT
        )
        return f"The answer is JSON that fits {schema}"
    return {
        FieldType.INTEGER: "The answer is a whole number.",
        FieldType.NUMBER: "The answer is a number.",
    }.get(asked.type, "")


def _offers(question: Question, asked: Field) -> list[_Offer]:
    """Return a field's options: choices, a typed field's default, and leaving it empty."""
    offers: list[_Offer] = []
    for choice in _choices(question, asked):
        suggested = SUGGESTED if not _typed(asked) and is_default(asked, choice) else ""
        about = " ".join(filter(None, (choice.description, suggested)))
        offers.append(_Offer(choice.label, choice.value, about))
    if not asked.required:
        labels = {offer.label for offer in offers}
        offers.append(_Offer(own_label(LEAVE_EMPTY, labels, "no answer"), MISSING))
    return offers


def _choices(question: Question, asked: Field) -> Sequence[Choice]:
    if asked.type is FieldType.BOOLEAN:
        return yes_or_no(question)
    if asked.choices or asked.default is MISSING or not _typed(asked):
        return asked.choices
    words = _typed_text(asked, asked.default)
    return (
        [Choice(words, "suggested", words, SUGGESTED)]
        if words and words == sanitize.label(words, SUGGESTED_LIMIT)
        else []
    )


def _typed(asked: Field) -> bool:
    return asked.type in (FieldType.TEXT, FieldType.NUMBER, FieldType.INTEGER, FieldType.JSON)
