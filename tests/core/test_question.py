"""How content becomes an answer: what is read, what is refused and what is said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from abp_bridge.core.answer import DIGEST_KEY_LENGTH, answer_digest, read_value, validate_answer
from abp_bridge.core.options import decode_choices, field_limits
from abp_bridge.core.question import Choice, Field, FieldType, Kind, Question, read_introduced

Json = Any


def one(kind: FieldType, schema: Mapping[str, Json], *choices: Choice, **more: Json) -> Field:
    return Field("it", kind, schema, choices=choices, **more)


def asked(*fields: Field, whole: Mapping[str, Json] | None = None) -> Question:
    return Question(
        "q1", Kind.INPUT, "Which?", fields, "https://app.example", wrapped=False, whole=whole or {}
    )


TEXT = one(FieldType.TEXT, {"type": "string"})
NUMBER = one(FieldType.NUMBER, {"type": "number"})
INTEGER = one(FieldType.INTEGER, {"type": "integer"})
BOOLEAN = one(FieldType.BOOLEAN, {"type": "boolean"})
OBJECT = one(FieldType.JSON, {"type": "object"})
TEXT_OR_YES = one(FieldType.JSON, {"type": ["string", "boolean"]})
LIST = one(
    FieldType.LIST,
    {"type": "array", "items": {"type": "object", "required": ["it"]}},
    columns=(INTEGER,),
)

MIXED = (
    Choice(1, "1", "One"),
    Choice(True, "true", "Yes"),
    Choice("1", '"1"', "The text"),
    Choice(None, "null", "Nothing"),
    Choice("", "", "(empty)"),
)
CHOICE = one(FieldType.CHOICE, {"enum": [1, True, "1", None, ""]}, *MIXED)

LABELS = {"a": "Apples", "b": "Pears", "c,d": "Cherries, dates"}
TAGS = [Choice(each, each, label) for each, label in LABELS.items()]
CHOICES = one(
    FieldType.CHOICES, {"type": "array", "items": {"enum": ["a", "b", "c,d"]}, "minItems": 1}, *TAGS
)

# What a host sent, and the value it means.
READ: dict[str, tuple[Field, Json, Json]] = {
    "a number in a text line": (NUMBER, " -1.5 ", -1.5),
    "an exponent": (NUMBER, "1e3", 1000.0),
    "400 digits": (INTEGER, "1" + "0" * 400, 10**400),
    "a whole number that a host wrote as a float": (INTEGER, 5.0, 5),
    "one of more digits than a float has": (INTEGER, "9007199254740993.0", 9007199254740993),
    "nothing with any exponent": (INTEGER, "0e999999999", 0),
    "a choice by its key": (CHOICE, "1", 1),
    "a choice by its quoted key": (CHOICE, '"1"', "1"),
    "a choice by its value": (CHOICE, True, True),
    "a choice by its label": (CHOICE, " Nothing ", None),
    "a choice by the key of null": (CHOICE, "null", None),
    "the empty choice": (CHOICE, "", ""),
    "yes": (BOOLEAN, " Yes ", True),
    "false as a word": (BOOLEAN, "FALSE", False),
    "several in a text line": (CHOICES, "a, Pears,", ["a", "b"]),
    "one with a comma in it": (CHOICES, "Cherries, dates", ["c,d"]),
    "JSON in a text line": (OBJECT, '{"a": [1]}', {"a": [1]}),
    "text that is JSON where only text fits": (TEXT_OR_YES, "5", "5"),
    "JSON where text fits too": (TEXT_OR_YES, "true", True),
    "each entry of a list by its columns": (LIST, [{"it": "5"}, {"it": 6}], [{"it": 5}, {"it": 6}]),
    "a list in a text line": (LIST, '[{"it": 5, "more": 1}]', [{"it": 5, "more": 1}]),
}


@pytest.mark.parametrize(("field", "sent", "value"), READ.values(), ids=READ)
def test_content_with_one_meaning_is_read(field: Field, sent: Json, value: Json) -> None:
    answer, problems = validate_answer(asked(field), {"it": sent})
    assert problems == []
    assert answer == {"it": value}
    assert type(answer["it"]) is type(value)


# What no user can have meant, or what has two meanings.
NOT_READ: dict[str, tuple[Field, Json, str]] = {
    "a list of something else": (LIST, [7], "it[0] must be an object, not 7"),
    "no list of entries": (LIST, "five", 'it must be a list, not "five"'),
    "a number for text": (TEXT, 5, "it must be text, not 5"),
    "a word for a number": (NUMBER, "five", 'it must be a number, not "five"'),
    "a number with separators": (INTEGER, "1_000", 'it must be a whole number, not "1_000"'),
    "more than a float holds": (NUMBER, "1e999", 'it must be a number, not "1e999"'),
    "5,000 digits": (INTEGER, "7" * 5_000, f'it must be a whole number, not "{"7" * 56}...'),
    "nothing with an endless exponent": (
        INTEGER,
        "0e99999999999999999999",
        'it must be a whole number, not "0e99999999999999999999"',
    ),
    "next to nothing": (INTEGER, "1e-99999999", 'it must be a whole number, not "1e-99999999"'),
    "a part that a float has not": (
        INTEGER,
        "9007199254740992.5",
        'it must be a whole number, not "9007199254740992.5"',
    ),
    "true for a number": (NUMBER, True, "it must be a number, not true"),
    "a one for a yes": (BOOLEAN, 1, "it must be true or false, not 1"),
    "an option that was not offered": (
        CHOICE,
        "2",
        'it must be one of 1, true, "1", null, "", not "2"',
    ),
    "options that were not offered": (
        CHOICES,
        ["a", "x"],
        'it[1] must be one of "a", "b", "c,d", not "x"',
    ),
    "no list": (CHOICES, {"a": True}, 'it must be a list, not {"a": true}'),
    "text that is no JSON": (OBJECT, "{a: 1}", 'it must be an object, not "{a: 1}"'),
    "JSON without end": (OBJECT, "[" * 100_000, f'it must be an object, not "{"[" * 56}...'),
    "JSON too deep": (
        OBJECT,
        '{"a":' + "[" * 120 + "]" * 120 + "}",
        "it is nested more than 100 levels deep",
    ),
}


@pytest.mark.parametrize(("field", "sent", "problem"), NOT_READ.values(), ids=NOT_READ)
def test_content_that_does_not_answer_is_refused(field: Field, sent: Json, problem: str) -> None:
    _, problems = validate_answer(asked(field), {"it": sent})
    assert problems == [problem]


def test_text_that_could_be_one_option_or_several_is_neither() -> None:
    choices = [Choice(value, value, value) for value in ("a", "b", "a,b")]
    schema = {"type": "array", "items": {"enum": ["a", "b", "a,b"]}}
    question = asked(one(FieldType.CHOICES, schema, *choices))
    assert validate_answer(question, {"it": "a,b"})[1] == ['it must be a list, not "a,b"']
    assert validate_answer(question, {"it": ["a,b"]}) == ({"it": ["a,b"]}, [])
    assert validate_answer(question, {"it": "b,a"}) == ({"it": ["b", "a"]}, [])


def test_label_of_two_options_names_neither() -> None:
    both = (Choice("a", "a", "Same"), Choice("b", "b", "Same"))
    field = one(FieldType.CHOICE, {"enum": ["a", "b"]}, *both)
    assert read_value(field, "Same") == "Same"
    assert validate_answer(asked(field), {"it": "Same"})[1] == [
        'it must be one of "a", "b", not "Same"'
    ]


OPTIONAL = [replace(field, required=False) for field in (TEXT, NUMBER, INTEGER, CHOICES, OBJECT)]


@pytest.mark.parametrize("field", OPTIONAL, ids=lambda field: field.type.value)
@pytest.mark.parametrize("sent", [{}, {"it": ""}, {"it": None}], ids=["left out", "empty", "null"])
def test_an_optional_field_left_empty_is_no_answer_to_it(
    field: Field, sent: Mapping[str, Json]
) -> None:
    assert validate_answer(asked(field), sent) == ({}, [])


@pytest.mark.parametrize(
    "sent", [{}, {"it": None}, {"other": 1}], ids=["left out", "null", "something else"]
)
def test_a_required_field_must_be_there(sent: Mapping[str, Json]) -> None:
    assert validate_answer(asked(TEXT), sent) == ({}, ["it is required"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (TEXT, ""),
        (replace(CHOICE, required=False), ""),
        (one(FieldType.TEXT, {"type": "null"}), None),
        (one(FieldType.TEXT, {"type": ["string", "null"]}), None),
    ],
    ids=["text", "choice", "null", "text or null"],
)
def test_empty_value_is_an_answer_if_the_app_allows_it(field: Field, value: Json) -> None:
    assert validate_answer(asked(field), {"it": value}) == ({"it": value}, [])


def test_unknown_field_of_an_answer_is_left_out() -> None:
    assert validate_answer(asked(TEXT), {"it": "a", "admin": True}) == ({"it": "a"}, [])


@pytest.mark.parametrize("sent", [None, [], "it", 5, True], ids=repr)
def test_answer_that_is_not_an_object_is_refused(sent: Json) -> None:
    assert validate_answer(asked(TEXT), sent) == (
        {},
        ["the answer must be an object with one member per field"],
    )


# --- what the app says of its fields together ---

EITHER: Mapping[str, Json] = {
    "type": "object",
    "properties": {"mail": {"type": "string"}, "phone": {"type": "string"}},
    "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
}
MAIL = Field("mail", FieldType.TEXT, {"type": "string"}, required=False)
PHONE = Field("phone", FieldType.TEXT, {"type": "string"}, required=False)


def test_fields_must_fit_together() -> None:
    question = asked(MAIL, PHONE, whole=EITHER)
    assert validate_answer(question, {"mail": "a@b", "phone": ""}) == ({"mail": "a@b"}, [])
    assert validate_answer(question, {"mail": "", "phone": ""}) == (
        {},
        ["the answer fits none of 2 allowed forms"],
    )


def test_field_that_is_asked_alone_need_not_fit_the_others() -> None:
    assert validate_answer(asked(PHONE, whole=EITHER), {"phone": ""}) == ({}, [])


@pytest.mark.parametrize(
    "schema", [{"type": "string", "format": "email"}, {"enum": ["a", "b"]}, {"type": "integer"}]
)
def test_problem_with_a_secret_does_not_quote_it(schema: Mapping[str, Json]) -> None:
    field = one(FieldType.TEXT, schema, secret=True)
    assert asked(NUMBER, field).secret
    [problem] = validate_answer(asked(field), {"it": "hunter2"})[1]
    assert problem.startswith("it must be")
    assert "hunter2" not in problem


def test_problem_with_a_secret_among_others_does_not_quote_it() -> None:
    question = asked(replace(TEXT, secret=True), whole={"properties": {"it": {"format": "email"}}})
    assert validate_answer(question, {"it": "hunter2"})[1] == ["it must be an e-mail address"]
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    names = asked(one(FieldType.JSON, schema, secret=True))
    assert validate_answer(names, {"it": {"planted": "x"}})[1] == ["it does not fit"]


def test_problem_with_an_apps_own_names_is_safe_to_show() -> None:
    schema = {"type": "object", "required": ["b\x1b[2J"]}
    field = Field("a\x1b]52;c;eA==\x07", FieldType.JSON, schema)
    _, [problem] = validate_answer(asked(field), {field.name: {}})
    assert problem.isprintable()


def test_remarks_of_the_bridge_add_up() -> None:
    question = asked(TEXT).with_note("").with_note("First.").with_note("Second.")
    assert question.note == "First. Second."


def test_a_surface_of_any_length_gets_the_message_uncut() -> None:
    question = replace(asked(TEXT), message="May it ...?", uncut="May it be called?")
    assert question.in_full().message == "May it be called?"
    assert asked(TEXT).in_full().message == asked(TEXT).message


def test_half_a_character_is_no_answer() -> None:
    assert validate_answer(asked(TEXT), {"it": "\ud800"})[1] == ["it must be whole characters"]


def test_elicitation_id_is_the_apps_or_else_the_bridges() -> None:
    link = Question("q1", Kind.CONFIRM, "Sign in", (), "app", link="https://e.x/")
    assert link.elicitation_id == "abp-q1"
    assert replace(link, request={"elicitationId": "E1"}).elicitation_id == "E1"


@pytest.mark.parametrize(
    "words", ["> 100 files. Go on?", "Which:\n\n  >= 3 days old\n> 5 MB\n>", "Sure?", ""]
)
def test_message_is_read_back_from_its_introduction(words: str) -> None:
    said = replace(asked(TEXT), message=words).introduce("It asks:")
    assert read_introduced(said.removeprefix("It asks:")) == words


# --- limits in words ---

LIMITS: dict[str, tuple[FieldType, Mapping[str, Json], str]] = {
    "any text": (FieldType.TEXT, {"type": "string"}, ""),
    "a length": (FieldType.TEXT, {"minLength": 2}, "At least 2 characters"),
    "a format": (FieldType.TEXT, {"format": "email"}, "An e-mail address"),
    "a format that nobody checks": (FieldType.TEXT, {"format": "colour"}, ""),
    "a number": (FieldType.INTEGER, {"maximum": 3}, "A whole number, at most 3"),
    "some of several": (FieldType.CHOICES, {"minItems": 1}, "Choose at least 1"),
    "any of several": (FieldType.CHOICES, {}, ""),
    "one of several": (FieldType.CHOICE, {"minLength": 1}, ""),
    "an object": (FieldType.JSON, {"type": "object"}, 'JSON that fits {"type": "object"}'),
}


@pytest.mark.parametrize("case", LIMITS)
def test_field_limits_are_described(case: str) -> None:
    kind, schema, words = LIMITS[case]
    assert field_limits(Field("a", kind, schema)) == words


def test_options_that_read_alike_have_different_keys() -> None:
    choices = decode_choices([(value, value, None) for value in ("1", "integer 1", 1)])
    assert [each.key for each in choices] == ["1", "integer 1", "integer 1'"]


# --- digests ---

KEY = bytes(DIGEST_KEY_LENGTH)


def test_digest_of_an_answer_does_not_depend_on_member_order() -> None:
    assert answer_digest(KEY, {"a": 1, "b": "é"}) == answer_digest(KEY, {"b": "é", "a": 1})
    assert answer_digest(KEY, {"a": True}) != answer_digest(KEY, {"a": False})


def test_digest_depends_on_the_key() -> None:
    made = answer_digest(KEY, {"confirmed": True})
    assert made.startswith("hmac-sha256:")
    assert made != answer_digest(b"1" * DIGEST_KEY_LENGTH, {"confirmed": True})
