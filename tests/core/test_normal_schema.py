"""Schemas as people write them and as they are asked, with JSON Schema's official test suite."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from support.json_strategies import broken_schemas, json_values

from abp_bridge.core import schema
from abp_bridge.core.schema import merge, normalize, without_null
from abp_bridge.errors import RemoteProtocolError

Json = Any

# --- the official test suite ---

# The source of `jsonschema` has it and its wheel does not: the source is downloaded once.
DRAFT = "json/tests/draft2020-12/"


class Group(NamedTuple):
    """One schema of a file, and the values that fit it or do not."""

    file: str
    name: str
    schema: Json
    cases: list[tuple[str, Json, bool]]


@cache
def groups() -> list[Group]:
    """The whole suite for draft 2020-12, the optional parts too; a file by its name there."""
    with tarfile.open(_source()) as archive:
        found = {
            member.name.partition(DRAFT)[2]: json.load(archive.extractfile(member) or sys.stdin)
            for member in archive
            if DRAFT in member.name and member.name.endswith(".json")
        }
    return [
        Group(
            name.removesuffix(".json"),
            each["description"],
            each["schema"],
            [(case["description"], case["data"], case["valid"]) for case in each["tests"]],
        )
        for name, listed in sorted(found.items())
        for each in listed
        if "output" not in name
    ]


def _source() -> Path:
    """The archive, kept beside the packages of this environment."""
    wanted = f"jsonschema-{version('jsonschema')}"
    kept = Path(sys.prefix) / "sources" / f"{wanted}.tar.gz"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            options = ["--no-deps", "--no-binary", "jsonschema", "--dest", folder]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", *options, wanted.replace("-", "==")],
                check=True,
                capture_output=True,
            )
            (Path(folder) / kept.name).replace(kept)
    return kept


# What a check here is known to see otherwise, and why.
OTHERWISE = {
    ("format", "email format"): "a format is a promise to whoever reads the answer: it is checked",
    ("format", "date format"): "the same",
    ("format", "date-time format"): "the same",
    ("format", "uri format"): "the same",
    (
        "vocabulary",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): "no other document is read, and so no other metaschema",
}
BACK = "leads back to itself"
ELSEWHERE = {*schema.ANNOTATIONS, "format", "if", "then", "else"}  # files of other names
CLAIMED = [*schema.KEYWORDS.difference(ELSEWHERE), "if-then-else"]
FORMATS = [f"optional/format/{name}" for name in schema.FORMATS]


def looked_through(group: Group) -> Json:
    """The normal form; None for what is refused or named as unchecked."""
    if isinstance(group.schema, bool):
        return group.schema
    normal = written_out(group.schema)
    return None if normal is None or schema.unsupported_keywords(normal) else normal


def written_out(given: Json) -> Json:
    """The normal form; None where a reference leads back to itself."""
    try:
        return normalize(given)
    except RemoteProtocolError as refusal:
        if BACK not in str(refusal):
            raise
    return None


@pytest.mark.network
def test_every_verdict_is_that_of_the_official_suite() -> None:
    agreed, refused = Counter[str](), Counter[str]()
    for group in groups():
        if (normal := looked_through(group)) is None:
            refused[group.file] += 1
            continue
        for name, value, valid in group.cases:
            verdict = not schema.check(value, normal)
            right = verdict is valid or (group.file, group.name) in OTHERWISE
            assert right, (group.file, group.name, name, valid)
            agreed[group.file] += 1
    assert set(agreed) >= {*CLAIMED, *FORMATS, "ref", "boolean_schema", "default"}
    whole = {word for word in CLAIMED if word not in refused}
    beside = {"not": "`unevaluatedProperties`"}
    assert whole == set(CLAIMED) - set(beside), "what is claimed is checked in every case"
    assert sum(agreed.values()) > 800


@pytest.mark.network
def test_every_reference_within_a_document_is_followed_or_refused() -> None:
    schemas = [written_out(group.schema) for group in groups() if group.file == "ref"]
    parts = [part for each in schemas if each is not None for _, part in schema.parts(each)]
    left = {str(part["$ref"]) for part in parts if "$ref" in part}
    assert left
    assert not [ref for ref in left if ref == "#" or ref.startswith("#/")]


# --- how they are written out ---

WRITTEN_OUT: dict[str, tuple[Json, Json]] = {
    "a reference": ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, {"type": "string"}),
    "from one to the next": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string"}}},
        {"type": "string"},
    ),
    "to false": (
        {"properties": {"a": {"$ref": "#/$defs/no"}}, "$defs": {"no": False}},
        {"properties": {"a": {"not": {}}}},
    ),
    "an allOf of one": (
        {"title": "Size", "allOf": [{"type": "integer", "title": "Any", "minimum": 1}]},
        {"type": "integer", "title": "Size", "minimum": 1},
    ),
    "an allOf with false": ({"allOf": [False]}, {"not": {}}),
    "what is inherited": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": True, "b": {"type": "string"}}},
                {"type": "object", "properties": {"b": {"title": "B"}}, "required": ["b"]},
            ],
            "required": ["a", "b"],
        },
        {
            "type": "object",
            "properties": {"a": True, "b": {"type": "string", "title": "B"}},
            "required": ["b", "a"],
        },
    ),
    "what is inherited from yes and no": (
        {
            "allOf": [
                {"properties": {"a": True, "b": False, "c": {"minLength": 1}, "d": {}}},
                {"properties": {"a": {"minLength": 1}, "b": True, "c": True, "d": False}},
            ]
        },
        {"properties": {"a": {"minLength": 1}, "b": False, "c": {"minLength": 1}, "d": False}},
    ),
    "what contradicts stays apart": (
        {
            "allOf": [
                {"maxLength": 5, "minLength": 1},
                {"maxLength": 9, "allOf": [{"maxLength": 7}]},
            ]
        },
        {"minLength": 1, "maxLength": 9, "allOf": [{"maxLength": 7}, {"maxLength": 5}]},
    ),
    "what looks at its neighbours stays with them": (
        {
            "allOf": [{"properties": {"a": True}, "additionalProperties": False}],
            "properties": {"b": True},
        },
        {
            "properties": {"b": True},
            "allOf": [{"properties": {"a": True}, "additionalProperties": False}],
        },
    ),
    "what looks at everything stays alone": (
        {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
        {"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]},
    ),
    "a value that looks like a reference": (
        {"const": {"$ref": "#/x"}, "default": {"allOf": []}},
        {"const": {"$ref": "#/x"}, "default": {"allOf": []}},
    ),
    "a reference into a document within": (
        {
            "$ref": "#/$defs/b/$defs/a",
            "$defs": {
                "b": {"$id": "b", "$defs": {"a": {"items": {"$ref": "#/$defs/c"}}, "c": {}}},
                "c": False,
            },
        },
        {"items": {}},
    ),
}


@pytest.mark.parametrize(("given", "normal"), WRITTEN_OUT.values(), ids=WRITTEN_OUT)
def test_a_schema_is_written_out(given: Json, normal: Json) -> None:
    assert normalize(given) == normal
    assert normalize(normal) == normal


REFUSED: dict[str, tuple[Json, str]] = {
    "a circle": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        "the schema's reference '#/$defs/a' leads back to itself",
    ),
    "the whole in itself": (
        {"properties": {"a": {"$ref": "#"}}},
        "the schema's reference '#' leads back to itself",
    ),
    "a name that is not there": ({"$ref": "#/$defs/a"}, "'#/$defs/a' leads nowhere"),
    "no place": ({"$ref": "#/anyOf/x", "anyOf": [True]}, "leads nowhere"),
    "no schema": ({"$ref": "#/title", "title": "A"}, "'#/title' leads nowhere"),
    "a terminal's commands": ({"$ref": "#/\x1b[2J"}, "'#/[2J' leads nowhere"),
    "too many levels": (json.loads('{"not":' * 80 + "{}" + "}" * 80), "more than 64 levels"),
    "a value of too many levels": (
        {"default": json.loads("[" * 300 + "]" * 300)},
        "nested more than 200 levels deep",
    ),
}


@pytest.mark.parametrize(("given", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_schema_is_refused_with_its_reason(given: Json, reason: str) -> None:
    with pytest.raises(RemoteProtocolError) as refusal:
        normalize(given)
    assert reason in str(refusal.value)


# --- null is what is left empty ---

TITLED = [{"const": "a", "title": "A"}, {"const": None, "title": "None of these"}]

NULLS: dict[str, tuple[Json, Json, bool]] = {
    "text": ({"type": "string"}, {"type": "string"}, False),
    "several, or null": (
        {"type": ["string", "integer", "null"]},
        {"type": ["string", "integer"]},
        True,
    ),
    "one of several, or null": (
        {"type": ["string", "null"], "enum": ["a", None], "enumNames": ["A", "-"]},
        {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        True,
    ),
    "an option null": ({"enum": ["a", None]}, {"enum": ["a", None]}, False),
    "anyOf": (
        {"title": "Mail", "anyOf": [{"type": "string", "title": "S"}, {"type": "null"}]},
        {"type": "string", "title": "Mail"},
        True,
    ),
    "oneOf, by a constant": (
        {"oneOf": [{"const": None}, {"enum": [1, 2]}]},
        {"enum": [1, 2]},
        True,
    ),
    "of more than two": (
        {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        True,
    ),
    "null that does not fit": (
        {"type": "string", "anyOf": [{"type": "null"}, {"minLength": 1}]},
        {"type": "string", "minLength": 1},
        False,
    ),
    "an option with a title": ({"oneOf": TITLED}, {"oneOf": TITLED}, False),
    "no schema beside it": ({"anyOf": [True, {"type": "null"}]}, {}, True),
}


@pytest.mark.parametrize(("given", "asked", "nullable"), NULLS.values(), ids=NULLS)
def test_null_is_not_asked_for(given: Json, asked: Json, nullable: bool) -> None:
    assert without_null(given) == (asked, nullable)


# --- the same verdict, written out ---

small = st.sampled_from(["a", "b"])
leaf: st.SearchStrategy[Json] = st.booleans() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "object", "null", ["string", "null"]]),
        "minimum": st.integers(-2, 2),
        "required": st.lists(small, max_size=2, unique=True),
        "enum": st.lists(st.sampled_from(["a", "b", None, 1]), min_size=1, max_size=3),
        "const": st.sampled_from(["a", None]),
        "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
    },
)


def _inner(within: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(within, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(small, within, max_size=2),
            "patternProperties": st.dictionaries(small, within, max_size=1),
            "additionalProperties": within,
            "items": within,
            "not": within,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "required": st.lists(small, max_size=2, unique=True),
            "minimum": st.integers(-2, 2),
            "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
        },
    )


rules = st.recursive(leaf, _inner, max_leaves=5)
simple: st.SearchStrategy[Json] = st.sampled_from([None, "a", "b", 1, -3, True])
values = st.recursive(
    simple,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(small, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60)
@given(rules, rules, rules, st.lists(values, min_size=1, max_size=4))
@pytest.mark.slow
def test_normal_form_has_the_same_verdicts(a: Json, b: Json, rule: Json, tried: list[Json]) -> None:
    whole = {**(rule if isinstance(rule, dict) else {}), "$defs": {"a": a, "b": b}}
    if (normal := written_out(whole)) is None:
        return
    asked, nullable = without_null(normal)
    for value in tried:
        fits = Draft202012Validator(whole).is_valid(value)
        assert schema.is_valid(value, normal) is fits, (normal, value)
        if value is not None:
            assert schema.is_valid(value, asked) is fits, (asked, value)
        elif nullable:
            assert fits


@settings(max_examples=30)
@given(broken_schemas)
def test_a_broken_schema_is_written_out_or_refused(given_: Mapping[str, Json]) -> None:
    try:
        normal = normalize(given_)
    except RemoteProtocolError:
        return
    assert isinstance(without_null(normal)[0], Mapping)


@given(json_values, json_values)
def test_any_json_is_merged_without_an_error(a: Json, b: Json) -> None:
    first, second = (each if isinstance(each, dict) else {"type": each} for each in (a, b))
    assert merge(first, second).keys() <= {*first, *second, "allOf"}


# --- an end to every schema ---


def chain(links: int, link: Callable[[Json], Json]) -> Json:
    """Return a schema of which each link refers to the next several times."""
    steps = {str(n): link({"$ref": f"#/$defs/{n + 1}"}) for n in range(links)}
    return {"$ref": "#/$defs/0", "$defs": {**steps, str(links): {"minLength": 1}}}


LARGE = [rf"^a{number}\p{{L}}{{20}}" for number in range(300)]  # patterns
BOMBS: dict[str, Json] = {
    "properties": chain(20, lambda ref: {"properties": dict.fromkeys("abcd", ref)}),
    "allOf": chain(28, lambda ref: {"allOf": [ref] * 2}),
    "a long text": {
        "anyOf": [{"$ref": "#/$defs/fat"}] * 1_000,
        "$defs": {"fat": {"description": "x" * 100_000}},
    },
    "patterns": {"allOf": [{"pattern": each} for each in LARGE]},
    "patterns of names": {"patternProperties": {each: {} for each in LARGE}},
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_schema_that_multiplies_is_refused(bomb: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    """By steps, and not by a clock: each reads a keyword, and they are counted."""
    steps = Counter[str]()
    inside = schema._Walk._inside

    def counted(self: Any, *given: Any) -> Any:
        steps["inside"] += 1
        return inside(self, *given)

    monkeypatch.setattr(schema._Walk, "_inside", counted)
    monkeypatch.setattr(schema, "MAX_SIZE", 100_000)
    with pytest.raises(RemoteProtocolError, match="more than 100000 characters"):
        normalize(bomb)
    assert steps["inside"] < 5_000
