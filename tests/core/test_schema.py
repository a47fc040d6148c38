"""JSON Schema in questions: sentences for users, and bounded checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from support.json_strategies import broken_schemas, json_values

from abp_bridge.core import schema
from abp_bridge.core.json_value import type_of
from abp_bridge.core.schema import MAX_LEVELS, MAX_PROBLEMS, SCHEMA_LEVELS

Json = Any

# --- what is said ---

SENTENCES: dict[str, tuple[Json, Mapping[str, Json], str]] = {
    "type": (5, {"type": "string"}, "the answer must be text, not 5"),
    "one of several types": (
        None,
        {"type": ["boolean", "integer"]},
        "the answer must be true or false or a whole number, not null",
    ),
    "enum": ("x", {"enum": ["a", 1]}, 'the answer must be one of "a", 1, not "x"'),
    "a long enum": (
        0,
        {"enum": list(range(1, 15))},
        "the answer must be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more, not 0",
    ),
    "const": ({"a": 1}, {"const": {"a": True}}, 'the answer must be {"a": true}, not {"a": 1}'),
    "allOf": (5, {"allOf": [{"minimum": 6}]}, "the answer must be at least 6, not 5"),
    "anyOf": (5, {"anyOf": [{"type": "string"}, False]}, "the answer fits none of 2 allowed forms"),
    "titled choices": (
        "c",
        {"oneOf": [{"const": "a"}, {"const": "b"}]},
        'the answer must be one of "a", "b", not "c"',
    ),
    "oneOf, and two fit": (
        5,
        {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
        "the answer fits 2 of 2 allowed forms, and must fit exactly one",
    ),
    "not": (5, {"not": {"type": "integer"}}, "the answer has a form that is not allowed"),
    "a property that must not be": ({"a": 1}, {"properties": {"a": False}}, "a is not allowed"),
    "a pattern property": (
        {"x-a": 1},
        {"patternProperties": {"^x-": {"type": "string"}}},
        "x-a must be text, not 1",
    ),
    "an additional property": (
        {"a": 1, "b": 2},
        {"properties": {"a": True}, "additionalProperties": False},
        "b is not allowed",
    ),
    "any property": ({"a": 1}, {"additionalProperties": False}, "a is not allowed"),
    "required": ({}, {"required": ["a"]}, "a is required"),
    "items": (["a", 1], {"items": {"type": "string"}}, "[1] must be text, not 1"),
    "uniqueItems": (
        [1, "1", 1.0],
        {"uniqueItems": True},
        "the answer must not name the same thing twice",
    ),
    "minimum": (1, {"minimum": 2}, "the answer must be at least 2, not 1"),
    "maximum": (3, {"maximum": 2.5}, "the answer must be at most 2.5, not 3"),
    "exclusiveMinimum": (2, {"exclusiveMinimum": 2}, "the answer must be more than 2, not 2"),
    "exclusiveMaximum": (2, {"exclusiveMaximum": 2}, "the answer must be less than 2, not 2"),
    "multipleOf": (7, {"multipleOf": 2}, "the answer must be a multiple of 2, not 7"),
    "multipleOf of a huge number": (
        10**400 + 1,
        {"multipleOf": 0.5e-5, "maximum": 0},
        f"the answer must be at most 0, not 1{'0' * 56}...",
    ),
    "minLength": ("a", {"minLength": 2}, "the answer must have at least 2 characters"),
    "maxLength": ("abc", {"maxLength": 2}, "the answer must have at most 2 characters"),
    "minItems": ([], {"minItems": 1}, "the answer must name at least 1"),
    "maxItems": ([1, 2], {"maxItems": 1}, "the answer must name at most 1"),
    "minProperties": ({}, {"minProperties": 1}, "the answer must have at least 1 field filled in"),
    "maxProperties": (
        {"a": 1, "b": 2, "c": 3},
        {"maxProperties": 2},
        "the answer must have at most 2 fields filled in",
    ),
    "pattern": ("b", {"pattern": "^a"}, 'the answer must match the pattern "^a"'),
    "a long answer is shortened": (
        "x" * 80,
        {"maxLength": 1, "const": "y"},
        f'the answer must be "y", not "{"x" * 56}...',
    ),
}


@pytest.mark.parametrize(("value", "rule", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_value_that_does_not_fit_is_described(
    value: Json, rule: Mapping[str, Json], sentence: str
) -> None:
    assert sentence in schema.check(value, rule)


def test_field_is_called_by_its_name() -> None:
    rule: Json = {"type": "object", "properties": {"a": {"items": {"type": "string"}}}}
    assert schema.check(5, rule, "person") == ["person must be an object, not 5"]
    assert schema.check({"a": [1]}, rule, "person") == ["person.a[0] must be text, not 1"]
    assert schema.check([1], {"items": {"type": "string"}}) == ["[0] must be text, not 1"]


FITS: dict[str, tuple[Json, Json]] = {
    "0.3 is a multiple of 0.1, as people count": (0.3, {"multipleOf": 0.1}),
    "1.0 is whole": (1.0, {"type": "integer"}),
    "a rule that is not there": ("x", {}),
    "what the prefix holds is not an item": (
        [1, "a"],
        {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
    ),
    "a name that a pattern allows": (
        {"x-a": 1},
        {"patternProperties": {"^x-": {}}, "additionalProperties": False},
    ),
    "a name that an unknown pattern might allow": (
        {"x-a": 1},
        {"patternProperties": {"(?=x)": {}}, "additionalProperties": False},
    ),
    "a pattern that cannot be run": ("b", {"pattern": "(?=a)"}),
}


@pytest.mark.parametrize(("value", "rule"), FITS.values(), ids=FITS)
def test_value_that_fits_has_no_problems(value: Json, rule: Json) -> None:
    assert schema.check(value, rule) == []
    assert schema.is_valid(value, rule)


# --- formats: what people write, and what only Python would take ---

# A format -> its words, values that fit it, and values that do not.
FORMATS: dict[str, tuple[str, list[str], list[str]]] = {
    "email": (
        "an e-mail address",
        ["a@b.c", '"a b"@c.d', "a@[127.0.0.1]"],
        [
            "ada@localhost",
            "jürgen@müller.example",
            "ann",
            "a b@c.d",
            "a@b@c.d",
            "",
        ],
    ),
    "uri": (
        "a full address with its scheme (https://...), in ASCII",
        ["https://a.b/c?d#e", "mailto:a@b"],
        ["a.b", "https://a b", "http://[", "https://a\x01", "https://example.com/ä"],
    ),
    "date": (
        "a date (YYYY-MM-DD)",
        ["2026-07-28", "0001-01-01"],
        ["2026-02-30", "20260728", "2026-W30-1", "28.07.2026"],
    ),
    "date-time": (
        "a date and time with its offset (2026-07-28T12:00:00Z)",
        [
            "2026-07-28T12:00:00Z",
            "2026-07-28t12:00:00z",
            "2026-07-28T12:00:00.123456789+02:00",
            "1998-12-31T23:59:60Z",
            "0001-01-01T00:59:60+01:00",
            "9999-12-31T15:59:60-08:00",
        ],
        [
            "2026-07-28T12:00:00",
            "2026-07-28 12:00:00Z",
            "2026-07-28T12:00Z",
            "2026-W30-1T12:00:00Z",
            "2026-07-28T25:00:00Z",
            "tomorrow",
            "1998-12-31T22:59:60Z",
            "1998-02-31T23:59:60Z",
        ],
    ),
}
FORMAT_ROWS = [
    (name, value, None if value in fits else words)
    for name, (words, fits, others) in FORMATS.items()
    for value in (*fits, *others)
]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    FORMAT_ROWS,
    ids=[f"{name} {value!r}" for name, value, _ in FORMAT_ROWS],
)
def test_format_is_that_of_its_rfc(name: str, value: str, words: str | None) -> None:
    problems = schema.check(value, {"type": "string", "format": name})
    if words is None:
        assert problems == []
    else:
        assert problems[0].startswith(f"the answer must be {words}, not ")


# --- what is not checked is named ---

UNCHECKED: dict[str, tuple[Mapping[str, Json], tuple[str, ...]]] = {
    "known words": ({"title": "A", "x-order": 1, "format": "email", "pattern": "a"}, ()),
    "an unknown word": ({"type": "object", "dependencies": {}}, ("dependencies",)),
    "an unknown format": ({"format": "phone"}, ("format phone",)),
    "a pattern with look-ahead": ({"pattern": "(?=a)b"}, ("pattern",)),
    "a property's name by such a pattern": ({"patternProperties": {"(?=a)": {}}}, ("pattern",)),
    "deep inside": (
        {
            "properties": {"a": {"items": {"anyOf": [{"not": {"$ref": "#"}}, True]}}},
            "if": {"$dynamicRef": "#"},
        },
        ("$dynamicRef", "$ref"),
    ),
    "each once, in order": (
        {"then": 5, "properties": {"a": {"if": []}, "b": {"if": []}}},
        ("if", "then"),
    ),
    **{
        f"misread {word}": ({word: value}, (word,))
        for word, value in {
            "items": [{"type": "string"}],
            "type": ["string", "date"],
            "required": True,
            "multipleOf": 0,
            "uniqueItems": "yes",
            "enum": "a",
            "anyOf": {},
            "properties": ["a"],
            "patternProperties": [],
            "minLength": "5",
            "exclusiveMinimum": True,
            "format": 5,
            "not": "a",
        }.items()
    },
}


@pytest.mark.parametrize(("rule", "words"), UNCHECKED.values(), ids=UNCHECKED)
def test_unsupported_keyword_is_named(rule: Mapping[str, Json], words: tuple[str, ...]) -> None:
    assert schema.unsupported_keywords(rule) == words


# --- any schema, any value: an answer, and an end ---


@settings(max_examples=25)
@given(broken_schemas, json_values)
def test_any_broken_schema_is_checked(rule: Mapping[str, Json], value: Json) -> None:
    problems = schema.check(value, rule)
    assert len(problems) <= MAX_PROBLEMS
    assert all(isinstance(problem, str) for problem in problems)
    assert schema.unsupported_keywords(rule) == tuple(sorted(schema.unsupported_keywords(rule)))
    assert all(isinstance(part, Mapping) for _, part in schema.parts(rule))


TOO_LARGE = {
    "a large pattern and a long text": ("a" * 100_000, {"pattern": "(a{50}){50}b"}),
    "many patterns and a long text": (
        "a" * 1_000_000,
        {"anyOf": [{"pattern": f"a+a+a+{number}"} for number in range(100)]},
    ),
    "many items, again and again": ([1] * 50_000, {"anyOf": [{"items": False}] * 1_000}),
    "many items and options": (["a"] * 20_000, {"items": {"enum": list(range(2_000))}}),
}


@pytest.mark.parametrize(("value", "rule"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_schema_check_that_would_take_long_is_refused(value: Json, rule: Json) -> None:
    assert schema.check(value, rule) == ["the answer is too large to check"]
    assert schema.is_undecided(value, rule)


def test_value_that_fits_no_form_says_how_many_there_are() -> None:
    rule: Json = {"oneOf": [{"type": "string"}, {"const": 3}]}
    assert schema.check(True, rule) == [
        "the answer fits 0 of 2 allowed forms, and must fit exactly one"
    ]


def test_schema_error_that_would_copy_a_large_value_is_not_explained() -> None:
    rule: Json = {"anyOf": [{"uniqueItems": True, "minItems": 9_999}] * 1_000}
    assert schema.check(["a" * 1_000] * 5_000, rule) == [
        "the answer does not fit, and is too large to say why"
    ]


def test_schema_errors_of_a_large_value_are_not_built() -> None:
    rule: Json = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    assert schema.check(["z"] * 100_000, rule) == [
        "the answer does not fit, and is too large to say why"
    ]
    assert len(schema.check(["z"] * 10_000, rule)) == MAX_PROBLEMS


def test_schema_with_patterns_is_not_kept_and_has_few_that_are_large() -> None:
    for number in range(3):
        patterns = [{"pattern": rf"({number}_{each}|\p{{L}}{{1,100}})$"} for each in range(30)]
        assert schema.unsupported_keywords({"allOf": patterns}) == ("pattern",)
        assert schema.unsupported_keywords({"allOf": patterns[:10]}) == ()
    assert schema._compile_large.cache_info().currsize == 1
    assert (schema._compile_small.cache_info().maxsize or 999) <= 32


@pytest.mark.parametrize("reference", ["https://a.example/b", "file:///etc/passwd", "#a", "b.json"])
def test_schema_reference_to_another_document_is_never_fetched(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr("socket.socket", connect)
    assert schema.unsupported_keywords({"$ref": reference}) == ("$ref",)
    assert schema.check(1, {"$ref": reference, "$schema": reference, "$id": reference}) == []
    assert schema.check(1, {"$ref": reference, "type": "string"}) == [
        "the answer must be text, not 1"
    ]
    with pytest.raises(ValueError, match="another document"):
        schema._refuse(reference)


HUGE: dict[str, tuple[Json, Json, list[str]]] = {
    "fits": (10**400, {"type": "integer", "minimum": 10**399}, []),
    "does not fit": (
        10**400,
        {"maximum": 10**399},
        [f"the answer must be at most 1{'0' * 399}, not 1{'0' * 56}..."],
    ),
    "a neighbour of 2**53": (
        2**53 + 1,
        {"const": 2**53},
        ["the answer must be 9007199254740992, not 9007199254740993"],
    ),
    "more digits than Python writes": (
        10**5_000,
        {"type": "integer"},
        ["the answer has a number that cannot be checked"],
    ),
    "in the schema": (
        1,
        {"maximum": 10**5_000},
        ["the answer must fit a schema that is too large or too deep to check"],
    ),
    "not a number": ([float("nan")], {}, ["the answer has a number that cannot be checked"]),
}


@pytest.mark.parametrize(("value", "rule", "problems"), HUGE.values(), ids=HUGE)
def test_schema_check_of_huge_number(value: Json, rule: Json, problems: list[str]) -> None:
    assert schema.check(value, rule) == problems


BY_OTHER_KEYWORDS: dict[str, tuple[Json, Json, list[str]]] = {
    "if": (
        {"a": 1},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": False},
        ["b is required"],
    ),
    "else": ({}, {"if": {"required": ["a"]}, "else": False}, ["the answer is not allowed"]),
    "dependentRequired": ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, ["b is required"]),
    "dependentSchemas": (
        {"a": 1},
        {"dependentSchemas": {"a": {"required": ["b"]}}},
        ["b is required"],
    ),
    "prefixItems": (
        [1, 2, 3],
        {"prefixItems": [{"type": "string"}], "items": False},
        ["[0] must be text, not 1", "[1] is not allowed", "[2] is not allowed"],
    ),
    "propertyNames": (
        {"aa": 1},
        {"propertyNames": {"maxLength": 1}},
        ["the answer has a member whose name is not allowed"],
    ),
    "contains": (
        [1],
        {"contains": {"type": "string"}},
        ["the answer must name more of what it has to name"],
    ),
    "maxContains": (
        ["a", "b"],
        {"contains": {"type": "string"}, "maxContains": 1},
        ["the answer must name less of what it has to name"],
    ),
}


@pytest.mark.parametrize(
    ("value", "rule", "problems"), BY_OTHER_KEYWORDS.values(), ids=BY_OTHER_KEYWORDS
)
def test_schema_keyword_that_looks_at_others(value: Json, rule: Json, problems: list[str]) -> None:
    assert sorted(schema.check(value, rule)) == sorted(problems)
    assert schema.unsupported_keywords(rule) == ()


def test_schema_value_with_half_a_character_is_checked() -> None:
    assert schema.check("\ud800", {"minLength": 1}) == []
    assert schema.check({"\ud800": 1}, {"properties": {"\ud800": False}}) == [
        "\ufffd is not allowed"
    ]


MEANT: dict[str, tuple[str, str, bool]] = {
    "digits are ASCII": (r"^\d$", "٣", False),
    "letters are ASCII": (r"^\w+$", "é", False),
    "no letter": (r"^\W$", "é", True),
    "white space": (r"^\s\S$", "\ufeffx", True),
    "in a class": (r"^[\w.+-]+$", "a.b-c+d", True),
    "an escaped backslash": (r"^\\d$", r"\d", True),
}


@pytest.mark.parametrize(("pattern", "text", "fits"), MEANT.values(), ids=MEANT)
def test_a_pattern_means_what_it_means_in_a_browser(pattern: str, text: str, fits: bool) -> None:
    assert schema.is_valid(text, {"pattern": pattern}) is fits


BROKEN: dict[str, Mapping[str, Json]] = {
    "an unknown type": {"type": "any"},
    "types that are not names": {"type": [5, {}]},
    "an enum that is not a list": {"enum": "abc"},
    "alternatives that are not lists": {"anyOf": {}, "oneOf": 5, "allOf": "x"},
    "properties that are a list": {"properties": ["a"], "patternProperties": 3, "required": "a"},
    "required as on a property": {"required": True},
    "limits as text": {"minimum": "9", "maxLength": "0", "multipleOf": "2"},
    "a limit that is true": {"minimum": True},
    "a multiple of nothing": {"multipleOf": 0},
    "a format that is an object": {"format": {"a": 1}},
    "an unknown format": {"format": "phone"},
    "an invalid pattern": {"pattern": "("},
    "a pattern that is a number": {"pattern": 5},
    "a pattern that UTF-8 cannot write": {"pattern": "\ud800("},
    "a schema that is a number": {"not": 5, "items": 7, "additionalProperties": "no"},
}


@pytest.mark.parametrize("rule", BROKEN.values(), ids=BROKEN)
def test_invalid_keyword_forbids_nothing(rule: Mapping[str, Json]) -> None:
    for value in ("text", 5, [1], {"a": 1}, None, True):
        assert schema.check(value, rule) == []


def _nested(levels: int, wrap: Callable[[Json], Json], core: Json) -> Json:
    for _ in range(levels):
        core = wrap(core)
    return core


def test_a_value_too_deep_to_check_does_not_fit() -> None:
    for levels in (MAX_LEVELS, 5_000):
        deep = _nested(levels, lambda inner: [inner], [])
        assert schema.check(deep, {"items": {"type": "string"}}) == [
            f"the answer is nested more than {MAX_LEVELS} levels deep"
        ]
    deep = _nested(MAX_LEVELS - 1, lambda inner: [inner], [])
    assert schema.check(deep, {"items": {"type": "array"}}) == []


def test_schema_too_deep_to_check_is_refused() -> None:
    rule = _nested(SCHEMA_LEVELS, lambda inner: {"not": inner}, {"minimum": 0})
    assert schema.check(1, rule) == [
        "the answer must fit a schema that is too large or too deep to check"
    ]
    assert schema.unsupported_keywords(rule) == ()
    assert schema.check(1, rule["not"]["not"]) == []


def test_a_pattern_that_would_take_others_for_ever_takes_no_time() -> None:
    assert schema.check("a" * 50_000 + "!", {"pattern": "^(a+)+$"}) == [
        'the answer must match the pattern "^(a+)+$"'
    ]


def test_only_the_first_problems_are_reported() -> None:
    problems = schema.check(["x"] * 1_000, {"items": {"type": "integer"}})
    assert problems == [
        f'[{number}] must be a whole number, not "x"' for number in range(MAX_PROBLEMS)
    ]


TYPES: dict[str, Json] = {
    "boolean": False,
    "integer": 3.0,
    "number": 3.5,
    "string": "",
    "array": [],
    "object": {},
} | {"null": None}


def test_types_have_the_names_of_json_schema() -> None:
    assert {name: type_of(value) for name, value in TYPES.items()} == {name: name for name in TYPES}


class Word(StrEnum):
    NAME = "name"


def test_string_of_an_enum_is_a_string() -> None:
    assert schema.check(Word.NAME, {"type": "string"}) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"format": "date", "minLength": 2}, "a date (YYYY-MM-DD), at least 2 characters"),
        ({"format": "odd", "pattern": "^a"}, "format odd, must match ^a"),
        ({"minimum": 1, "exclusiveMaximum": 9}, "at least 1, less than 9"),
        ({"minimum": "1", "pattern": 1, "format": []}, ""),
        ({"minLength": 1, "maxLength": 2}, "at least 1 character, at most 2 characters"),
    ],
)
def test_limits_are_described(asked: dict[str, Any], words: str) -> None:
    assert schema.describe_limits(asked) == words
