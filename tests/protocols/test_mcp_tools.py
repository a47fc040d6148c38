"""Capabilities as tools in each revision of MCP, and their output schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from mcp_types import methods
from support.json_strategies import broken_schemas, few, json_values

from abp_bridge.core import schema as schema_module
from abp_bridge.core.capability import CallResult, Capability, SavedFile
from abp_bridge.core.schema import MAX_LEVELS, is_undecided
from abp_bridge.core.words import nearest_first
from abp_bridge.protocols.mcp.client import LEGACY, MODERN, V2024_11_05, V2025_03_26, V2025_06_18
from abp_bridge.protocols.mcp.results import (
    MEMBER,
    encode_result,
    encode_structured,
    encode_text,
    has_room,
    promise,
    wants_room,
)
from abp_bridge.protocols.mcp.tools import (
    ABOUT,
    describe_capabilities,
    describe_capability,
    encode_tool,
)

Json = Any

SUM: Json = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
WHOLE = Capability(
    "add",
    "Adds.",
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    title="Add",
    output_schema=SUM,
    hints={"idempotentHint": True},
    destructive=True,
    requirements=({"type": "permission", "description": "Sums"},),
    alternatives=("count",),
)
# revision -> the members of a tool that only later ones have, or none
MEMBERS = {
    V2024_11_05: set[str](),
    V2025_03_26: {"annotations"},
    V2025_06_18: {"annotations", "title", "outputSchema", "_meta"},
}


@pytest.mark.parametrize("version", [*LEGACY, *MODERN])
def test_tool_members_by_revision(version: str) -> None:
    made = encode_tool("abp_add", WHOLE, "o", version)
    members = MEMBERS.get(version, MEMBERS[V2025_06_18])
    assert set(made) == {"name", "description", "inputSchema"} | members
    if "outputSchema" not in members:
        assert '"sum"' in made["description"]
    if version == V2025_03_26:
        assert made["annotations"]["title"] == "Add"
    if "annotations" in members:
        assert made["annotations"]["destructiveHint"] is True
    if "_meta" in members:
        about = made["_meta"][ABOUT]
        assert about == {
            "name": "add",
            "requirements": [{"type": "permission", "description": "Sums"}],
            "alternatives": ["count"],
        }
        whole = {"tools": [made], **({} if version in LEGACY else MODERN_MEMBERS)}
        methods.validate_server_result("tools/list", version, whole)


MODERN_MEMBERS: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@pytest.mark.parametrize(
    ("capability", "hints"),
    [
        (Capability("a", harmless=True), {"destructiveHint": False}),
        (Capability("a", destructive=True, presumed=True), None),
        (Capability("a", harmless=True, hints={"readOnlyHint": True}), {"readOnlyHint": True}),
    ],
)
def test_tool_annotations(capability: Capability, hints: Json) -> None:
    assert encode_tool("t", capability, "o").get("annotations") == hints


def test_unavailable_tool_has_metadata() -> None:
    made = encode_tool("t", Capability("a", available=False), "o")
    assert made["_meta"] == {ABOUT: {"name": "a", "available": False}}


# --- in words -------------------------------------------------------------------------------------


def test_capabilities_left_out_of_a_description_are_named() -> None:
    long = Capability("long", "x" * 500)
    short = Capability("short", "Is short.", {"type": "object"})
    offered = [Capability("bare"), long, short]
    words = describe_capabilities(((f"abp_{each.name}", each) for each in offered), 300)
    bare, first, parameters, last = words.split("\n")
    assert bare == "- bare (abp_bare)"
    assert first == "- short (abp_short): Is short."
    assert json.loads(parameters) == {"inputSchema": {"type": "object"}}
    assert "Left out here for their length, 1: long." in last
    assert 'abp_status, one at a time: {"capability": "long"}' in last
    assert "x" * 500 in json.dumps(describe_capability("abp_long", long))


@pytest.mark.parametrize(("wanted", "first"), [("abp_export_pdf", "export.pdf"), ("prnt", "print")])
def test_nearest_name_is_first(wanted: str, first: str) -> None:
    names = ["a", "print", "export.pdf"]
    found = nearest_first(wanted, names)
    assert found[0] == first
    assert sorted(found) == sorted(names)


# --- what results are promised to fit -------------------------------------------------------------

OPEN: Json = {"type": "object", "properties": {"n": {"type": "integer", "format": "x"}}}
# an app's schema, data that fit, data that do not
PROMISED: dict[str, tuple[Json, Json, Json]] = {
    "an object": (SUM, {"sum": 1}, {"sum": "1"}),
    "no object": ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
    "a member like ours": (
        {"type": "object", "properties": {"result": {"type": "integer"}}},
        {"result": 1},
        {"result": {}},
    ),
    "words and references": (
        {
            "$schema": "x",
            "$id": "y",
            "title": "T",
            "default": {},
            "x-own": 1,
            "$defs": {"n": {"enum": [1, 2]}},
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}},
        },
        {"n": 1},
        {"n": 3},
    ),
    "all that is portable": (
        {
            "type": "object",
            "properties": {
                "a": {"anyOf": [{"type": ["string", "null"], "minLength": 1}, {"const": 5}]},
                "b": {"type": "array", "items": True, "uniqueItems": True, "maxItems": 2},
                "c": {"not": {"type": "string"}, "minimum": 1.5, "pattern": "(?P<x>a)"},
                "d": False,
                "e": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
                "f": {"allOf": [{"minimum": 1}, {"maximum": 2}, {"minimum": 0}]},
            },
            "additionalProperties": {"type": "string"},
        },
        {"a": None, "b": [1, 2], "c": 2, "e": 1, "f": 1},
        {"d": 1},
    ),
}


@pytest.mark.parametrize(("schema", "good", "bad"), PROMISED.values(), ids=PROMISED)
def test_result_fits_the_output_schema_or_is_an_error(schema: Json, good: Json, bad: Json) -> None:
    promised = promise(schema)
    assert promised is not None
    jsonschema.Draft7Validator.check_schema(promised.schema)
    made = encode_result(CallResult(good), promised=promised)
    assert made["structuredContent"] == ({"result": good} if promised.wraps else good)
    assert not made["isError"]
    told = encode_result(CallResult(good), summary=["It works."], promised=promised)
    assert told["structuredContent"][MEMBER] == {"told": ["It works."]}
    unfinished = encode_text("It runs.", note={"message": "It runs.", "call": "call-1"})
    for each in (made, told, unfinished):
        jsonschema.validate(each["structuredContent"], promised.schema)
    broken = encode_result(CallResult(bad), promised=promised)
    assert broken["isError"]
    assert "structuredContent" not in broken
    assert "does not fit the outputSchema" in broken["content"][0]["text"]
    assert json.dumps(bad) in broken["content"][0]["text"]


UNPORTABLE: dict[str, Json] = {
    "none": {},
    "a keyword that is not checked": {"type": "object", "maxProperties": 1},
    "a reference that leads nowhere": {"$ref": "#/x"},
    "our own member": {"type": "object", "properties": {MEMBER: {}}},
    "no room for it": {"type": "object", "anyOf": [{"required": ["a"]}]},
    "a pattern that tells two apart": {"oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
    "no type": {"type": "text"},
    "a type twice": {"type": ["string", "string"]},
    "no names": {"required": "a"},
    "no schemas": {"anyOf": []},
    "no schema": {"items": [5]},
}


@pytest.mark.parametrize("schema", UNPORTABLE.values(), ids=UNPORTABLE)
def test_unsupported_output_schema_is_described(schema: Json) -> None:
    assert promise(schema) is None
    made = encode_tool("t", Capability("a", output_schema=schema), "o")
    assert "outputSchema" not in made
    assert bool(schema) == ("Its result fits" in made["description"])


@few
@given(broken_schemas, json_values)
@pytest.mark.slow
def test_any_output_schema_is_valid(schema: Json, data: Json) -> None:
    promised = promise(schema)
    if promised is None:
        return
    jsonschema.Draft7Validator.check_schema(promised.schema)
    made = encode_result(CallResult(data), promised=promised)
    if "structuredContent" in made:
        jsonschema.validate(made["structuredContent"], promised.schema)
    else:
        assert made["isError"]


def test_data_saved_to_a_file_fits_the_output_schema() -> None:
    file = SavedFile("abp://a/b", "/tmp/b.pdf", "b.pdf", "application/pdf", 5)
    schema: Json = {"type": "object", "properties": {"content": {"type": "string"}}}
    promised = promise({**schema, "required": ["content"], "additionalProperties": False})
    assert promised is not None
    data: Json = {"savedTo": "/tmp/b.pdf"}
    made = encode_result(CallResult(data), files=[file], promised=promised)
    places = [{"uri": "abp://a/b", "path": "/tmp/b.pdf"}]
    assert made["structuredContent"] == {MEMBER: {"files": places, "data": data}}
    assert not made["isError"]


def test_content_beside_structured_content_is_kept() -> None:
    structured: Json = {"sum": 1}
    promised = promise(SUM)
    beside: Json = [{"type": "text", "text": "One."}]
    result = CallResult([*beside, {"structuredContent": structured}], structured=structured)
    made = encode_result(result, promised=promised)
    assert made["structuredContent"] == {"sum": 1, MEMBER: {"data": beside}}
    alone = encode_result(CallResult(structured, structured=structured), promised=promised)
    assert alone["structuredContent"] == structured


def test_app_cannot_use_the_reserved_member() -> None:
    promised = promise(OPEN)
    assert promised is not None
    made, problems = encode_structured({MEMBER: {"call": "call-9"}}, {}, promised)
    assert (made, len(problems)) == ({}, 1)


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "data",
    [{"n": 1, "many": [1] * 2_000}, {"n": 1, "deep": deep(MAX_LEVELS)}],
    ids=["many", "deep"],
)
def test_data_too_large_to_check_is_passed_on(data: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "MAX_WORK", 2_000)
    many: Sequence[Json] = [{"type": "array", "items": {"type": "integer"}}]
    promised = promise({**OPEN, "additionalProperties": {"anyOf": many}})
    assert promised is not None
    assert is_undecided(data, promised.schema)
    made = encode_result(CallResult(data), promised=promised)
    assert made["structuredContent"][MEMBER]["data"] == data
    assert "too large" in made["structuredContent"][MEMBER]["message"]
    assert not made["isError"]


@pytest.mark.parametrize(
    ("structured", "schema", "fits"),
    [
        ({"a": 1}, {}, True),
        ({"a": 1}, {"type": "object", "required": ["a"]}, True),
        ({"a": 1}, {"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"a": 1}, {"$ref": "#/$defs/none"}, False),
        ([1], {}, False),
        ({MEMBER: {"call": "call-9"}}, {}, False),
    ],
)
def test_has_room(structured: Json, schema: Json, fits: bool) -> None:
    assert has_room(structured, schema) is fits


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({}, False),
        ({"additionalProperties": False}, True),
        ({"additionalProperties": {"type": "string"}, "properties": {"a": {}}}, True),
        ({"additionalProperties": False, "properties": {MEMBER: {}}}, False),
    ],
)
def test_wants_room(schema: Json, wanted: bool) -> None:
    assert wants_room(schema) is wanted


def test_data_that_is_no_object_does_not_fit_an_object_schema() -> None:
    promised = promise(SUM)
    assert promised is not None
    made, problems = encode_structured([1], {}, promised)
    assert (made, len(problems)) == ({}, 1)


def test_multiline_description_is_quoted() -> None:
    words = describe_capabilities([("abp_a", Capability("a", "A.\n- b (abp_b): It is allowed."))])
    assert words.splitlines() == [
        "- a (abp_a)",
        '  {"description": "A.\\n- b (abp_b): It is allowed."}',
    ]
