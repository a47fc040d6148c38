"""An answer survives any form; what does not fit the app's schema never does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from support.json_strategies import few, json_values
from support.question_strategies import Asked, asked_fields

from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import json_equal
from abp_bridge.core.outcome import Action
from abp_bridge.core.question import Field, FieldType, Question
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.mcp.elicitation import decode_reply, encode_form

Json = Any
Fields = list[tuple[str, Asked, bool]]

FORMS = [(version, plain) for version in ("2025-06-18", "2025-11-25") for plain in (False, True)]


def _in_order(
    question: Question, properties: Mapping[str, Json]
) -> Iterator[tuple[Field, Sequence[str]]]:
    """Yield the names of the properties that each field became."""
    left = list(properties)
    for field in question.fields:
        count = (
            len(field.choices)
            if field.type is FieldType.CHOICES and properties[left[0]]["type"] == "boolean"
            else 1
        )
        yield field, left[:count]
        left = left[count:]


def fill_in(
    question: Question,
    form: Mapping[str, Json],
    meant: Mapping[str, Json],
    *,
    in_words: bool = False,
) -> dict[str, Json]:
    """Fill in a form as a host does, which knows only the form; `in_words`: yes or no as text."""
    properties = form["requestedSchema"]["properties"]
    content: dict[str, Json] = {}
    for field, shown in _in_order(question, properties):
        if field.name not in meant:
            continue
        value = meant[field.name]
        if len(shown) != 1 or (
            field.type is FieldType.CHOICES and properties[shown[0]]["type"] == "boolean"
        ):
            ticked = [
                any(json_equal(choice.value, each) for each in value) for choice in field.choices
            ]
            content |= {
                name: ("yes" if tick else "no") if in_words else tick
                for name, tick in zip(shown, ticked, strict=True)
            }
        else:
            content[shown[0]] = _entered(field, properties[shown[0]], value)
            if in_words and field.type is FieldType.BOOLEAN:
                content[shown[0]] = "Yes" if value else "no"
    return content


def _entered(field: Field, shown: Mapping[str, Json], value: Json) -> Json:
    if shown["type"] == "array":
        items = shown["items"]
        offered = [each["const"] for each in items["anyOf"]] if "anyOf" in items else items["enum"]
        return [offered[_place(field, each)] for each in value]
    if field.type is FieldType.CHOICE:
        offered = [each["const"] for each in shown["oneOf"]] if "oneOf" in shown else shown["enum"]
        return offered[_place(field, value)]
    if field.type is FieldType.JSON:
        return json.dumps(value)
    return str(value) if shown["type"] == "string" else value


def _place(field: Field, value: Json) -> int:
    return next(
        place for place, choice in enumerate(field.choices) if json_equal(choice.value, value)
    )


def questioned(fields: Fields) -> Question:
    schema: Json = {
        "type": "object",
        "properties": {name: asked.schema for name, asked, _ in fields},
        "required": [name for name, _, required in fields if required],
    }
    return decode_question(
        {"method": "elicitation/input", "params": {"prompt": "?", "schema": schema}},
        id="q",
        origin="https://app.example",
    )


def answered(question: Question, sent: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    action, content = decode_reply({"action": "accept", "content": sent}, question)
    assert action is Action.ACCEPT
    return validate_answer(question, content)


@few
@given(asked_fields, st.booleans(), st.sets(st.integers(0, 3)))
def test_answer_survives_any_form(fields: Fields, in_words: bool, skipped: set[int]) -> None:
    question = questioned(fields)
    meant = {
        name: asked.meant
        for number, (name, asked, required) in enumerate(fields)
        if required or number not in skipped
    }
    for version, plain in FORMS:
        form = encode_form(question, version, plain=plain)
        answer, problems = answered(question, fill_in(question, form, meant, in_words=in_words))
        assert problems == []
        assert json_equal(answer, meant), (form, answer, meant)


@few
@given(
    asked_fields,
    st.dictionaries(
        st.sampled_from(["it", "it_1", "it_2", "tags", "tags_1", "value", ""]), json_values
    ),
    st.lists(json_values, max_size=4),
)
def test_valid_answer_fits_the_app_schema(
    fields: Fields, strewn: Mapping[str, Json], placed: list[Json]
) -> None:
    question = questioned(fields)
    sent = {**strewn, **{name: value for (name, _, _), value in zip(fields, placed, strict=False)}}
    answer, problems = answered(question, sent)
    if problems:
        return
    asked = {name: (each, required) for name, each, required in fields}
    assert answer.keys() <= asked.keys(), "nothing that was not asked for"
    for name, (each, required) in asked.items():
        assert name in answer or not required
        assert name not in answer or Draft202012Validator(each.schema).is_valid(answer[name])


@few
@given(asked_fields)
def test_empty_accept_answers_only_optional_fields(fields: Fields) -> None:
    answer, problems = answered(questioned(fields), {})
    nullable = {name for name, asked, _ in fields if "null" in asked.schema.get("type", ())}
    assert answer == {name: None for name, _, required in fields if required and name in nullable}
    assert problems == [
        label(f"{name} is required", 1_000)
        for name, _, required in fields
        if required and name not in nullable
    ]
