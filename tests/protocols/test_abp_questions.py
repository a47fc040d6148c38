"""ABP elicitations as questions, and outcomes as the responses that apps get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.json_value import as_object
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import (
    decode_asker,
    decode_question,
    encode_answer,
    encode_problem,
    encode_withdrawn,
)
from abp_bridge.protocols.schema_fields import ACKNOWLEDGE

Json = Any

ORIGIN = "https://app.example"


def decoded(method: str, params: Json = None, **more: Json) -> Question:
    request = {"method": method, "params": params, **more}
    return decode_question(
        {name: value for name, value in request.items() if value is not None},
        id="q1",
        origin=ORIGIN,
    )


def form(properties: Json, *required: str, **more: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def field(question: Question) -> Field:
    (only,) = question.fields
    return only


# --- the six methods as ABP's API page has them ---


@pytest.mark.parametrize(("said", "call"), [("call-1", "call-1"), (7, None), (None, None)])
def test_question_names_the_call_that_asks(said: Json, call: str | None) -> None:
    assert decode_asker({"params": {"prompt": "Who?", "operationId": said}}) == (
        () if call is None else (call,),
        None,
    )


def test_input_question() -> None:
    schema: Json = {"type": "string", "title": "Name", "description": "As known", "minLength": 1}
    question = decoded("elicitation/input", {"prompt": "Who?", "schema": schema})
    assert (question.id, question.kind, question.origin) == ("q1", Kind.INPUT, ORIGIN)
    assert (question.message, question.wrapped, question.default) == ("Who?", True, MISSING)
    assert field(question) == Field(
        "value", FieldType.TEXT, schema, title="Name", description="As known"
    )


def test_input_question_with_several_fields() -> None:
    properties = {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}}
    schema = form(properties, "name")
    question = decoded("elicitation/input", {"prompt": "Who?", "schema": schema})
    assert not question.wrapped
    assert [(each.name, each.type, each.required, each.default) for each in question.fields] == [
        ("name", FieldType.TEXT, True, MISSING),
        ("age", FieldType.INTEGER, False, 7),
    ]


def test_preference_question() -> None:
    params = {"prompt": "Paper?", "schema": {"enum": ["A4", "Letter"]}, "default": "A4"}
    question = decoded("elicitation/preference", params)
    assert (question.kind, question.default) == (Kind.PREFERENCE, "A4")
    assert (field(question).type, field(question).default) == (FieldType.CHOICE, "A4")


def test_confirm_question() -> None:
    question = decoded("elicitation/confirm", {"message": "Delete all?", "destructive": True})
    assert (question.message, question.destructive) == ("Delete all?", True)
    assert (field(question).name, field(question).type) == ("confirmed", FieldType.BOOLEAN)
    assert not decoded("elicitation/confirm", {"message": "Go on?"}).destructive


def test_select_question() -> None:
    red = {"value": "r", "label": "Red", "description": "Warm"}
    options = [red, {"value": "g", "label": "Green"}]
    params = {"prompt": "Which?", "options": options, "default": "g"}
    only = field(decoded("elicitation/select", params))
    assert (only.name, only.type, only.default) == ("selected", FieldType.CHOICE, "g")
    assert [(each.value, each.key, each.label, each.description) for each in only.choices] == [
        ("r", "r", "Red", "Warm"),
        ("g", "g", "Green", ""),
    ]


def test_resource_question() -> None:
    params = {"type": "image/png", "uri": "file:///tmp/a.png"}
    question = decoded("elicitation/resource", params)
    assert question.message == "Please give image/png (file:///tmp/a.png)."
    assert (field(question).name, field(question).type) == ("file", FieldType.FILE)
    assert (field(question).accept, question.request) == (("image/png",), params)
    assert decoded("elicitation/resource", {"prompt": "Your photo?"}).message == "Your photo?"
    assert decoded("elicitation/resource").message == "Please give a file."


def test_sampling_question() -> None:
    question = decoded("sampling/create", {"task": "Summarise", "context": {"text": "Long"}})
    assert (question.kind, question.message, question.fields) == (Kind.SAMPLING, "Summarise", ())
    assert question.request["context"] == {"text": "Long"}


# --- what the documents say elsewhere ---

TOLERATED: dict[str, tuple[str, Json, tuple[str, Json]]] = {
    "X10 elicitation/text": ("elicitation/text", {"prompt": "Name?"}, ("type", FieldType.TEXT)),
    "X11 input with enum": (
        "elicitation/input",
        {"schema": {"type": "string", "enum": ["a", "b"]}},
        ("type", FieldType.CHOICE),
    ),
    "X11 input with a default inside": (
        "elicitation/input",
        {"schema": {"type": "string", "default": "a"}},
        ("default", "a"),
    ),
    "X11 preference with a default inside": (
        "elicitation/preference",
        {"schema": {"type": "string", "default": "a"}},
        ("default", "a"),
    ),
    "X11 outside wins": (
        "elicitation/preference",
        {"schema": {"type": "string", "default": "a"}, "default": "b"},
        ("default", "b"),
    ),
    "an invalid schema": (
        "elicitation/preference",
        {"schema": True},
        ("schema", {"type": "string"}),
    ),
    "a prompt in message": ("elicitation/input", {"message": "Name?"}, ("message", "Name?")),
    "a prompt in question": (
        "elicitation/confirm",
        {"prompt": " ", "question": "Sure?"},
        ("message", "Sure?"),
    ),
    "no prompt": ("elicitation/input", {"prompt": 5}, ("message", "Please fill this in.")),
}


@pytest.mark.parametrize(("method", "params", "expected"), TOLERATED.values(), ids=TOLERATED)
def test_question_with_undocumented_members(
    method: str, params: Json, expected: tuple[str, Json]
) -> None:
    question = decoded(method, params)
    name, value = expected
    assert getattr(question if name == "message" else field(question), name) == value


def people(items: Json = None, required: Json = ("name",), **limits: Json) -> Json:
    """Return the schema of a list of flat objects."""
    text: Json = {"name": {"type": "string"}, "age": {"type": "integer"}}
    properties = text if items is None else items
    needed = [name for name in required if items is None or name in items]
    entry = {"type": "object", "properties": properties, "required": needed}
    return {"type": "array", "items": entry, **limits}


PEOPLE = people()

TYPES: dict[str, tuple[Mapping[str, Json], FieldType]] = {
    "string": ({"type": "string"}, FieldType.TEXT),
    "number": ({"type": "number"}, FieldType.NUMBER),
    "integer": ({"type": "integer"}, FieldType.INTEGER),
    "boolean": ({"type": "boolean"}, FieldType.BOOLEAN),
    "nothing": ({}, FieldType.TEXT),
    "nothing, and a text is proposed": ({"default": "5"}, FieldType.TEXT),
    "nothing, and a number is proposed": ({"default": 5}, FieldType.JSON),
    "a number first, and a text is proposed": (
        {"type": ["number", "string"], "default": "5"},
        FieldType.JSON,
    ),
    "a list of objects first, and a text is proposed": (
        {**people(), "type": ["array", "string"], "default": "hello"},
        FieldType.JSON,
    ),
    "a number first, and a number is proposed": (
        {"type": ["number", "string"], "default": 5},
        FieldType.NUMBER,
    ),
    "enum": ({"enum": [1, 2]}, FieldType.CHOICE),
    "oneOf titles": ({"oneOf": [{"const": "a", "title": "A"}]}, FieldType.CHOICE),
    "anyOf titles": ({"anyOf": [{"const": "a"}]}, FieldType.CHOICE),
    "several of many": ({"type": "array", "items": {"enum": ["a"]}}, FieldType.CHOICES),
    "a list of flat objects": (PEOPLE, FieldType.LIST),
    "a list of objects in objects": (people(items={"home": {"type": "object"}}), FieldType.JSON),
    "a list of objects without properties": (people(items={}), FieldType.JSON),
    "a list of objects with an unknown required field": (
        people(required=["name", "mail"]),
        FieldType.JSON,
    ),
    "a list of more objects than the limit": (people(minItems=101), FieldType.JSON),
    "a list of objects that are proposed": (people(default=[{"name": "Ada"}]), FieldType.LIST),
    "a list of more proposed objects than the limit": (
        people(default=[{"name": "x"}] * 101),
        FieldType.JSON,
    ),
    "a list of more proposed objects than a form takes": (
        people(default=[{"name": "x"}] * 401, maxItems=500),
        FieldType.JSON,
    ),
    "a list of proposed objects with what no field has": (
        people(default=[{"name": "Ada"}, {"name": "Bo", "id": 7}]),
        FieldType.JSON,
    ),
    "a list of proposed objects with a number where text is typed": (
        people(items={"name": {}}, default=[{"name": "Ada"}, {"name": 5}]),
        FieldType.JSON,
    ),
    "a list of proposed objects with null": (
        {**people(), "items": {**PEOPLE["items"], "type": ["object", "null"]}, "default": [None]},
        FieldType.JSON,
    ),
    "a list of objects with a secret in it": (
        people(items={"password": {"type": "string"}}),
        FieldType.JSON,
    ),
    "a list of anything": ({"type": "array", "items": {"type": "string"}}, FieldType.JSON),
    "a list with invalid items": ({"type": "array", "items": ["string"]}, FieldType.JSON),
    "an object without properties": ({"type": "object"}, FieldType.JSON),
    "forms to choose between": (
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        FieldType.JSON,
    ),
    "an unknown type": ({"type": "date"}, FieldType.JSON),
}


@pytest.mark.parametrize(("schema", "kind"), TYPES.values(), ids=TYPES)
def test_field_type_of_a_schema(schema: Mapping[str, Json], kind: FieldType) -> None:
    question = decoded("elicitation/input", {"prompt": "?", "schema": schema})
    assert (field(question).type, field(question).schema, question.wrapped) == (kind, schema, True)


COLOURS = {"enum": ["red", "green"], "title": "Colour"}


# schema: what is filled in, and what the app gets for it; None for what is asked again
ORDINARY: dict[str, tuple[Json, list[tuple[Json, Json]]]] = {
    "$defs": (
        form({"tint": {"$ref": "#/$defs/tint"}}, "tint", **{"$defs": {"tint": COLOURS}}),
        [({"tint": "red"}, {"tint": "red"}), ({"tint": "mud"}, None)],
    ),
    "a whole that is a reference": (
        {"$ref": "#/$defs/a", "$defs": {"a": form({"n": {"type": "integer"}}, "n")}},
        [({"n": "5"}, {"n": 5}), ({"n": "five"}, None)],
    ),
    "const": (
        form({"terms": {"const": True}, "v": {"const": 2}}, "terms"),
        [({"terms": "true", "v": "2"}, {"terms": True, "v": 2}), ({"terms": "no"}, None)],
    ),
    "text or null": (
        form({"a": {"type": ["string", "null"], "minLength": 2}}, "a"),
        [
            ({"a": "ab"}, {"a": "ab"}),
            ({"a": ""}, {"a": None}),
            ({}, {"a": None}),
            ({"a": None}, {"a": None}),
            ({"a": "a"}, None),
        ],
    ),
    "a choice with titles": (
        form({"a": {"oneOf": [{"const": "x", "title": "X"}, {"const": "y"}]}}, "a"),
        [({"a": "X"}, {"a": "x"}), ({"a": "mud"}, None)],
    ),
    "a property that is inherited twice": (
        {"allOf": [form({"a": True}), form({"a": COLOURS}, "a")]},
        [({"a": "red"}, {"a": "red"}), ({"a": "mud"}, None)],
    ),
}


@pytest.mark.parametrize(("schema", "rows"), ORDINARY.values(), ids=ORDINARY)
def test_schema_is_asked_as_fields_and_validated(
    schema: Json, rows: list[tuple[Json, Json]]
) -> None:
    question = decoded("elicitation/input", {"prompt": "?", "schema": schema})
    assert FieldType.JSON not in {each.type for each in question.fields}
    for sent, got in rows:
        content, problems = validate_answer(question, sent)
        empty = got is None and content == {"value": None}
        assert bool(problems) is (got is None and not empty), (sent, problems)
        if not problems:
            accepted = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content)
            assert encode_answer(question, accepted)["data"] == {"value": got}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}, "additionalProperties": False, "title": "Nothing"},
        {"type": "object", "additionalProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {}}}},
    ],
)
def test_object_without_properties_is_a_confirm(schema: Json) -> None:
    question = decoded("elicitation/input", {"prompt": "Start?", "schema": schema})
    assert (question.kind, field(question), question.message) == (
        Kind.CONFIRM,
        ACKNOWLEDGE,
        "Start?",
    )
    yes, no = (
        encode_answer(
            question, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {ACKNOWLEDGE.name: said})
        )
        for said in (True, False)
    )
    assert (yes["success"], yes["data"]) == (True, {"value": {}})
    assert (no["success"], no["cancelled"]) == (False, True)
    assert as_object(no["error"])["code"] == "USER_CANCELLED"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "patternProperties": {"a": {}}},
        {"type": "object", "properties": {}, "required": ["a"]},
    ],
)
def test_object_with_any_properties_is_json(schema: Json) -> None:
    assert field(decoded("elicitation/input", {"schema": schema})).type is FieldType.JSON


def test_schema_with_properties_and_no_type_has_fields() -> None:
    question = decoded(
        "elicitation/input", {"schema": {"properties": {"a": True}, "required": "a"}}
    )
    assert (
        field(question).name,
        field(question).type,
        field(question).required,
        question.wrapped,
    ) == ("a", FieldType.TEXT, False, False)


def test_preference_default_fills_its_fields() -> None:
    properties = {
        "size": {"enum": ["A4", "A5"]},
        "copies": {"type": "integer", "default": 1},
        "note": True,
    }
    question = decoded(
        "elicitation/preference",
        {"schema": {"type": "object", "properties": properties}, "default": {"size": "A5"}},
    )
    assert [each.default for each in question.fields] == ["A5", 1, MISSING]
    assert question.default == {"size": "A5"}


DEFAULTS: dict[str, tuple[Mapping[str, Json], Json]] = {
    "one that fits": ({"type": "integer", "default": 5}, 5),
    "null is what is left empty": ({"type": ["string", "null"], "default": None}, MISSING),
    "of another type": ({"type": "integer", "default": "5"}, MISSING),
    "out of range": ({"type": "integer", "maximum": 4, "default": 5}, MISSING),
    "not among the options": ({"enum": ["a"], "default": "b"}, MISSING),
    "1 is not true": ({"enum": [True], "default": 1}, MISSING),
}


@pytest.mark.parametrize(("schema", "default"), DEFAULTS.values(), ids=DEFAULTS)
def test_default_is_offered_if_it_is_valid(schema: Mapping[str, Json], default: Json) -> None:
    assert field(decoded("elicitation/input", {"schema": schema})).default is default


# --- options ---

LONG = ["x" * 300, "x" * 250 + "y" * 50, "x" * 260 + "z" * 40]
CUT = f"{'x' * 200} … [100 more characters not shown]"
OPTIONS: dict[str, tuple[list[Json], list[tuple[Json, str, str]]]] = {
    # what the app sends: (value, key, label) of each option
    "bare values": (["a", 1], [("a", "a", "a"), (1, "1", "1")]),
    "a label only": ([{"label": "Red"}], [("Red", "Red", "Red")]),
    "a value only": (
        [{"value": {"b": 1, "a": 2}}],
        [({"b": 1, "a": 2}, '{"a": 2, "b": 1}', '{"b": 1, "a": 2}')],
    ),
    "the text first": (
        ["1", 1, "true", True],
        [
            ("1", "1", "1"),
            (1, "integer 1", "1 (integer 1)"),
            ("true", "true", "true"),
            (True, "boolean true", "true (boolean true)"),
        ],
    ),
    "null and its word": (
        [None, "null"],
        [(None, "null null", "null (null null)"), ("null", "null", "null")],
    ),
    "labels that collide": (
        [
            {"value": "a", "label": "Same"},
            {"value": "b", "label": "Same"},
            {"value": "c", "label": "Same (b)"},
        ],
        [("a", "a", "Same"), ("b", "b", "Same (b)"), ("c", "c", "Same (b) (c)")],
    ),
    "labels that collide in their first 200 characters": (
        [{"value": each, "label": "Same"} for each in LONG],
        [
            (LONG[0], LONG[0], "Same"),
            (LONG[1], LONG[1], f"Same ({CUT})"),
            (LONG[2], LONG[2], f"Same ({CUT}) [2]"),
        ],
    ),
    "the same option twice": (
        [{"value": "a", "label": "A"}, "b", {"value": "a", "label": "Again"}, "a"],
        [("a", "a", "A / Again / a"), ("b", "b", "b")],
    ),
    "text that looks like a key": (
        ["1", "integer 1", 1],
        [
            ("1", "1", "1"),
            ("integer 1", "integer 1", "integer 1"),
            (1, "integer 1'", "1 (integer 1')"),
        ],
    ),
    "twice under one label": (["a", "a"], [("a", "a", "a")]),
    "a label that hides": (
        [{"value": "a", "label": "\u202ea\u200b"}, {"value": "", "label": "\u200b"}],
        [("a", "a", "a"), ("", "", "(empty)")],
    ),
    "a label that is no text": ([{"value": "a", "label": ["é"]}], [("a", "a", '["é"]')]),
}


@pytest.mark.parametrize(("options", "expected"), OPTIONS.values(), ids=OPTIONS)
def test_options_have_unique_keys_and_labels(
    options: list[Json], expected: list[tuple[Json, str, str]]
) -> None:
    choices = field(decoded("elicitation/select", {"options": options})).choices
    assert [(each.value, each.key, each.label) for each in choices] == expected
    assert [type(each.value) for each in choices] == [type(value) for value, _, _ in expected]


def test_long_label_is_cut_and_kept_whole() -> None:
    long = ["x" * 300 + end for end in "ab"]
    choices = field(decoded("elicitation/select", {"options": [*long, "short"]})).choices
    assert [each.whole for each in choices] == [*long, ""]
    twice = [{"value": number, "label": long[0]} for number in (1, 2)]
    first, second = field(decoded("elicitation/select", {"options": twice})).choices
    assert (first.whole, second.whole) == (long[0], ""), "or nobody could tell them apart"
    assert first.label != second.label


def test_select_with_multiple_choices() -> None:
    params = {"options": ["a", "b"], "multiple": True}
    question = decoded("elicitation/select", params)
    assert (field(question).type, field(question).schema, field(question).default) == (
        FieldType.CHOICES,
        {"type": "array", "items": {"enum": ["a", "b"]}},
        MISSING,
    )
    for default, offered in ((["b"], ["b"]), ("b", ["b"]), (["x"], MISSING)):
        assert (
            field(decoded("elicitation/select", {**params, "default": default})).default == offered
        )


# --- what cannot be put to anybody ---

REFUSED: dict[str, tuple[Json, str]] = {
    "no object": ("ask him", 'an elicitation request must be an object, not "ask him"'),
    "no method": ({}, "a request without a method; known are elicitation/text, elicitation/input"),
    "an unknown method": (
        {"method": "elicitation/dance"},
        "unknown elicitation method 'elicitation/dance'",
    ),
    "params that are no object": (
        {"method": "elicitation/input", "params": ["x"]},
        'the elicitation\'s params must be an object, not ["x"]',
    ),
    "nothing to select": (
        {"method": "elicitation/select", "params": {}},
        "elicitation/select needs a list of at least one option",
    ),
    "an option of nothing": (
        {"method": "elicitation/select", "params": {"options": [{}]}},
        "each option needs a value and a label",
    ),
    "2,001 options": (
        {"method": "elicitation/select", "params": {"options": list(range(2_001))}},
        "a question may offer at most 2000 options, not 2001",
    ),
    "201 fields": (
        {
            "method": "elicitation/input",
            "params": {
                "schema": {
                    "type": "object",
                    "properties": {f"f{number}": {} for number in range(201)},
                }
            },
        },
        "a question may have at most 200 fields, not 201",
    ),
    "no task": (
        {"method": "sampling/create", "params": {"task": " "}},
        "sampling/create needs a task, in words (params.task)",
    ),
}


@pytest.mark.parametrize(("request_", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_question_is_refused_with_a_reason(request_: Json, words: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_question(request_, id="q1", origin=ORIGIN)
    code = "NOT_SUPPORTED" if "method" in words else "INVALID_PARAMS"
    assert caught.value.code == code
    assert words in str(caught.value)
    assert encode_problem(caught.value) == {
        "success": False,
        "error": {
            "code": code,
            "message": str(caught.value),
            "retryable": False,
            "details": {"reason": str(caught.value)},
        },
        "metadata": {"answeredBy": "nobody", "route": "", "latencyMs": 0},
    }


TIMEOUTS: dict[str, tuple[Json, float | None]] = {
    "beside the params": ({"timeout": 30_000, "params": {"timeout": 1}}, 30.0),
    "in the params": ({"params": {"timeout": 500}}, 0.5),
    "none": ({}, None),
    "of nothing": ({"timeout": 0}, None),
    "true": ({"timeout": True}, None),
    "without end": ({"timeout": 10**400}, None),
}


@pytest.mark.parametrize(("members", "seconds"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_question_timeout_is_in_milliseconds(
    members: Mapping[str, Json], seconds: float | None
) -> None:
    assert decode_asker({"method": "elicitation/input", **members}) == ((), seconds)


def test_question_texts_are_sanitized_and_bounded() -> None:
    schema = {
        "type": "string",
        "title": "Na\u202eme\n",
        "description": "a\u2066b\nc",
        "enum": ["x"],
        "enumNames": ["X\x1b"],
    }
    question = decoded(
        "elicitation/input", {"prompt": "Pay\u202e\n\n" + "x" * 5_000, "schema": schema}
    )
    assert question.message == "Pay\n\n" + "x" * 3_995 + " … [1005 more characters not shown]"
    assert (
        field(question).title,
        field(question).description,
        field(question).choices[0].label,
    ) == ("Name", "ab\nc", "X")


# --- secrets ---

ONE = {"type": "string"}
LOGIN = {"type": "object", "properties": {"user": ONE, "password": ONE}}
# the params of an input, or of what has `options` or a `message`
SECRETS: dict[str, Json] = {
    "format password": {"schema": {"type": "string", "format": "password"}},
    "writeOnly": {"schema": {"type": "string", "writeOnly": True}},
    "sensitive": {"schema": {"type": "string", "sensitive": True}},
    "sensitive request": {"sensitive": True, "schema": ONE},
    "sensitive form": {"schema": form({"a": ONE, "b": ONE}, sensitive=True)},
    "sensitive choice": {"prompt": "Which account?", "sensitive": True, "options": ["a", "b"]},
    "sensitive confirm": {"message": "Are you ill?", "sensitive": True},
    "by its prompt": {"prompt": "Enter your API key"},
    "by its prompt, as the only field": {
        "prompt": "Your password?",
        "schema": form({"value": ONE}),
    },
    "by its name": {"schema": form({"accessToken": ONE, "user": ONE})},
    "by its title": {"schema": {"type": "integer", "title": "PIN code"}},
    "by its description": {"schema": {**ONE, "description": "the one-time code we sent"}},
    "plural": {"prompt": "Your passwords"},
    "a list": {"schema": {"type": "array", "items": ONE, "title": "API keys"}},
    "inside an object": {"schema": form({"login": LOGIN})},
    "inside an object, by format": {"schema": form({"a": form({"b": {"format": "password"}})})},
    "format password, declared harmless": {"schema": {"format": "password", "sensitive": False}},
}
NO_SECRETS: dict[str, Json] = {
    "a name": {"prompt": "Your name?"},
    "a choice between secrets": {"prompt": "Which password manager?", "options": ["a", "b"]},
    "a confirm about a secret": {"message": "Delete the password?"},
    "declared harmless": {"prompt": "Your secret wish?", "sensitive": False},
    "a field declared harmless": {
        "prompt": "Your password hint?",
        "sensitive": True,
        "schema": {"type": "string", "sensitive": False},
    },
    "a form declared harmless": {
        "prompt": "Set up the password policy",
        "schema": form({"a": ONE, "b": ONE}),
        "sensitive": False,
    },
}


def of_params(params: Json) -> Question:
    kind = "select" if "options" in params else "confirm" if "message" in params else "input"
    return decoded(f"elicitation/{kind}", {"prompt": "?", **params})


@pytest.mark.parametrize("params", SECRETS.values(), ids=SECRETS)
def test_secret_question_is_recognized(params: Json) -> None:
    assert of_params(params).secret


@pytest.mark.parametrize("params", NO_SECRETS.values(), ids=NO_SECRETS)
def test_question_without_a_secret(params: Json) -> None:
    assert not of_params(params).secret


def test_form_that_asks_for_a_secret_in_its_prompt() -> None:
    """Each text field may be meant, unless one has the secret's name."""
    schema: Json = {"properties": {"a": ONE, "b": {"type": "number"}, "c": {"type": "boolean"}}}
    asked = {"prompt": "User name and password, please", "schema": schema}
    assert [each.secret for each in decoded("elicitation/input", asked).fields] == [1, 1, 0]
    schema["properties"]["password"] = ONE
    assert [each.secret for each in decoded("elicitation/input", asked).fields] == [0, 0, 0, 1]


# --- how it ended -> what the app gets ---

BY_PERSON = {
    "answeredBy": "person",
    "route": "mcp-form",
    "latencyMs": 1500.0,
    "outcome": "accepted",
}

DATA: dict[str, tuple[Question, Mapping[str, Json], Json]] = {
    "input": (decoded("elicitation/input"), {"value": "Ann"}, {"value": "Ann"}),
    "confirm": (
        decoded("elicitation/confirm", {"message": "?"}),
        {"confirmed": False},
        {"confirmed": False},
    ),
    "select": (
        decoded("elicitation/select", {"options": ["a"]}),
        {"selected": "a"},
        {"selected": "a"},
    ),
    "resource": (
        decoded("elicitation/resource"),
        {"file": {"content": "aGk=", "mimeType": "text/plain"}},
        {"content": "aGk=", "mimeType": "text/plain"},
    ),
    "sampling": (
        decoded("sampling/create", {"task": "Sum up"}),
        {"result": "Short."},
        {"result": "Short."},
    ),
}


@pytest.mark.parametrize(("question", "content", "data"), DATA.values(), ids=DATA)
def test_accepted_answer_has_the_shape_of_its_method(
    question: Question, content: Mapping[str, Json], data: Json
) -> None:
    answer = Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content, route="mcp-form", latency=1.5)
    assert encode_answer(question, answer) == {"success": True, "data": data, "metadata": BY_PERSON}


def test_answer_metadata_has_unchecked_keywords_and_evidence() -> None:
    answer = Answer(
        *(Outcome.ACCEPTED, AnsweredBy.PERSON, {"value": "x"}),
        unchecked=("$ref",),
        evidence="own-surface",
    )
    metadata = as_object(encode_answer(decoded("elicitation/input"), answer)["metadata"])
    assert (metadata["unchecked"], metadata["evidence"]) == (["$ref"], "own-surface")


# outcome -> code and message of the error; only these two can be tried again
ENDINGS = {
    Outcome.DECLINED: ("USER_CANCELLED", "The user declined to answer."),
    Outcome.CANCELLED: ("USER_CANCELLED", "The user dismissed the question."),
    Outcome.TIMED_OUT: ("TIMEOUT", "Nobody answered in time."),
    Outcome.UNSUPPORTED: ("NOT_SUPPORTED", "This host has no way to ask its user that."),
    Outcome.INVALID: (
        "ELICITATION_FAILED",
        "The host kept sending answers that do not fit the question.",
    ),
    Outcome.WITHDRAWN: ("CANCELLED", "The question was withdrawn before it was answered."),
}
RETRYABLE = {Outcome.TIMED_OUT, Outcome.INVALID}


def test_every_outcome_has_an_error() -> None:
    assert {*ENDINGS, Outcome.ACCEPTED} == set(Outcome)


@pytest.mark.parametrize("outcome", ENDINGS, ids=[f"X9 {outcome.value}" for outcome in ENDINGS])
def test_outcome_without_an_answer_is_an_error(outcome: Outcome) -> None:
    code, message = ENDINGS[outcome]
    error = {
        "code": code,
        "message": message,
        "retryable": outcome in RETRYABLE,
        "details": {"reason": message},
    }
    cancelled = {"cancelled": True} if "CANCELLED" in code else {}
    by = AnsweredBy.PERSON if code == "USER_CANCELLED" else AnsweredBy.NOBODY
    metadata = {"answeredBy": by.value, "route": "", "latencyMs": 0.0, "outcome": outcome.value}
    assert encode_answer(decoded("elicitation/input"), Answer(outcome, by)) == {
        "success": False,
        **cancelled,
        "error": error,
        "metadata": metadata,
    }


def test_outcome_reason_is_the_error_message() -> None:
    answer = Answer(Outcome.UNSUPPORTED, AnsweredBy.NOBODY, reason="mcp-form: secrets never do")
    error = as_object(encode_answer(decoded("elicitation/input"), answer)["error"])
    assert (error["message"], error["details"]) == (
        "mcp-form: secrets never do",
        {"reason": "mcp-form: secrets never do"},
    )


@pytest.mark.parametrize(
    "outcome", [Outcome.DECLINED, Outcome.TIMED_OUT, Outcome.WITHDRAWN], ids=lambda each: each.value
)
def test_preference_without_an_answer_is_the_default(outcome: Outcome) -> None:
    question = decoded("elicitation/preference", {"schema": {"type": "string"}, "default": "A4"})
    answer = Answer(outcome, AnsweredBy.PERSON, evidence="reading-time", reason="because")
    response = encode_answer(question, answer)
    if outcome is Outcome.WITHDRAWN:
        assert not response["success"], "nobody waits for it"
        return
    assert (response["success"], response["data"]) == (True, {"value": "A4"})
    assert response["metadata"] == {
        "answeredBy": "default",
        "route": "",
        "latencyMs": 0.0,
        "outcome": outcome.value,
        "reason": "because",
    }


def test_other_questions_without_an_answer_have_no_default() -> None:
    declined = Answer(Outcome.DECLINED, AnsweredBy.PERSON)
    for method, params in (
        ("elicitation/input", {"schema": {"type": "string", "default": "x"}}),
        ("elicitation/select", {"options": ["a"], "default": "a"}),
        ("elicitation/preference", {"schema": {"type": "string"}}),
    ):
        assert not encode_answer(decoded(method, params), declined)["success"]


def test_withdrawn_question_answer() -> None:
    withdrawn = encode_withdrawn("the session ended")
    question = decode_question(
        {"method": "elicitation/confirm", "params": {"message": "Go?"}}, id="q1", origin="an app"
    )
    answer = Answer(Outcome.WITHDRAWN, AnsweredBy.NOBODY, reason="the session ended")
    assert withdrawn == encode_answer(question, answer)


def test_model_cannot_declare_a_secret_field_harmless() -> None:
    asked: Json = {
        "method": "elicitation/input",
        "params": {"prompt": "Your password?", "schema": {"type": "string", "sensitive": False}},
    }
    by_app, by_model = (
        decode_question(asked, id="q1", origin=ORIGIN, overrules=each) for each in (True, False)
    )
    assert [by_app.fields[0].secret, by_model.fields[0].secret] == [False, True]
