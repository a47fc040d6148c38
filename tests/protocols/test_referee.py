"""Messages for MCP, checked against `mcp_types` and a strict form schema of each revision.

`mcp_types` has one shape for all revisions up to 2025-11-25 and accepts unknown members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from mcp_types import methods
from protocols.test_round_trip import questioned
from pydantic_core import from_json
from support.json_strategies import broken_schemas, few, json_values
from support.question_strategies import Asked, asked_fields

from abp_bridge.core.capability import CallResult, Failure, SavedFile
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.jsonrpc.protocol import dump
from abp_bridge.protocols.abp import decode_capabilities, decode_question
from abp_bridge.protocols.mcp.elicitation import encode_form, encode_url
from abp_bridge.protocols.mcp.results import encode_log, encode_progress, encode_result
from abp_bridge.protocols.mcp.tools import encode_tool, tool_name

Json = Any

VERSIONS = ("2025-06-18", "2025-11-25")

STRING, NUMBER, COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0}
NAMED = {"title": STRING, "description": STRING}


def _closed(kind: str | Sequence[str], members: Mapping[str, Json], *needed: str) -> Json:
    types = [kind] if isinstance(kind, str) else list(kind)
    properties = {"type": {"enum": types}, **NAMED, **members}
    return {
        "type": "object",
        "properties": properties,
        "required": ["type", *needed],
        "additionalProperties": False,
    }


TEXTS = {
    "minLength": COUNT,
    "maxLength": COUNT,
    "format": {"enum": ["email", "uri", "date", "date-time"]},
}
OPTIONS = {"type": "array", "items": STRING, "minItems": 1, "uniqueItems": True}
TITLED = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {"const": STRING, "title": STRING},
        "required": ["const", "title"],
        "additionalProperties": False,
    },
}
MULTI = {"minItems": COUNT, "maxItems": COUNT, "default": {"type": "array", "items": STRING}}


def _items(word: str, options: Json) -> Json:
    return {
        "type": "object",
        "properties": {"type": {"const": "string"}, word: options},
        "required": [word],
        "additionalProperties": False,
    }


# The `PrimitiveSchemaDefinition` of each revision's schema.ts.
PRIMITIVES: dict[str, Sequence[Json]] = {
    "2025-06-18": (
        _closed("string", TEXTS),
        _closed(["number", "integer"], {"minimum": NUMBER, "maximum": NUMBER}),
        _closed("boolean", {"default": {"type": "boolean"}}),
        _closed(
            "string", {"enum": OPTIONS, "enumNames": {"type": "array", "items": STRING}}, "enum"
        ),
    ),
    "2025-11-25": (
        _closed("string", {**TEXTS, "default": STRING}),
        _closed(["number", "integer"], {"minimum": NUMBER, "maximum": NUMBER, "default": NUMBER}),
        _closed("boolean", {"default": {"type": "boolean"}}),
        _closed("string", {"enum": OPTIONS, "default": STRING}, "enum"),
        _closed("string", {"oneOf": TITLED, "default": STRING}, "oneOf"),
        _closed("array", {"items": _items("enum", OPTIONS), **MULTI}, "items"),
        _closed("array", {"items": _items("anyOf", TITLED), **MULTI}, "items"),
    ),
}
STRICT = {
    version: Draft202012Validator(
        {
            "type": "object",
            "properties": {
                "type": {"const": "object"},
                "properties": {"type": "object", "additionalProperties": {"oneOf": primitives}},
                "required": {"type": "array", "items": STRING, "minItems": 1, "uniqueItems": True},
            },
            "required": ["type", "properties"],
            "additionalProperties": False,
        }
    )
    for version, primitives in PRIMITIVES.items()
}


def check_form(form: Mapping[str, Json], version: str, *, plain: bool) -> None:
    methods.parse_server_request("elicitation/create", version, form)
    schema = form["requestedSchema"]
    STRICT[version].validate(schema)
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for made in schema["properties"].values():
        assert len(made.get("enumNames", ())) in (0, len(made.get("enum", ())))
        offered = made.get("enum") or [each["const"] for each in made.get("oneOf", ())]
        assert "default" not in made or not offered or made["default"] in offered
        if plain:
            assert made["type"] in ("string", "boolean")


def as_read(value: Json) -> Json:
    """Parse as strict hosts do (pydantic, serde): they refuse a lone surrogate."""
    return from_json(dump(value))


@few
@given(asked_fields)
def test_form_fits_mcp(fields: list[tuple[str, Asked, bool]]) -> None:
    question = questioned(fields)
    for version in VERSIONS:
        for plain in (False, True):
            check_form(encode_form(question, version, plain=plain), version, plain=plain)


def test_strict_schema_of_2025_06_18_refuses_later_keywords() -> None:
    later = (
        {"type": "string", "default": "a"},
        {"type": "string", "oneOf": []},
        {"type": "array", "items": {}},
        {"type": "string", "pattern": "a"},
    )
    for made in later:
        assert not STRICT["2025-06-18"].is_valid({"type": "object", "properties": {"a": made}})


def test_url_elicitation_fits_mcp() -> None:
    question = decode_question(
        {"method": "elicitation/input"}, id="q", origin="https://app.example"
    )
    methods.parse_server_request(
        "elicitation/create", "2025-11-25", encode_url(question, "https://a.b/c", "e1")
    )


failures = st.none() | st.builds(
    Failure,
    st.text(),
    st.text(),
    st.booleans(),
    st.none() | st.floats(0, 1e6),
    json_values,
    st.just(("a", "b")),
)
kinds = st.sampled_from(["image/png", "audio/wav", "text/plain", "application/pdf"])
files = st.builds(
    SavedFile,
    st.just("abp://a/b"),
    st.text(),
    st.text(),
    kinds,
    st.integers(0),
    st.none() | st.binary(),
)


@few
@example({"\ud800": "\udfff"}, None, [], ["\ud83d"])
@given(json_values, failures, st.lists(files, max_size=2), st.lists(st.text(), max_size=2))
def test_result_fits_mcp(
    data: Json, failure: Failure | None, saved: list[SavedFile], told: list[str]
) -> None:
    result = encode_result(CallResult(data, failure), summary=told, files=saved)
    for version in VERSIONS:
        methods.validate_server_result("tools/call", version, as_read(result))


@few
@example("a", {"type": [], "\ud800": None}, {})
@given(
    st.text(min_size=1),
    broken_schemas,
    st.fixed_dictionaries({}, optional={"description": json_values, "deprecated": json_values}),
)
@pytest.mark.slow
def test_tool_fits_mcp(name: str, schema: Mapping[str, Json], more: Mapping[str, Json]) -> None:
    capabilities = decode_capabilities([{"name": name, "inputSchema": schema, **more}])
    tools = [
        encode_tool(tool_name(each.name), each, "https://app.example") for each in capabilities
    ]
    for version in VERSIONS:
        methods.validate_server_result("tools/list", version, as_read({"tools": tools}))


@few
@given(st.text() | st.integers(), st.floats(0, 1e15), st.none() | st.floats(1, 1e15), st.text())
def test_progress_fits_mcp(
    token: str | int, value: float, total: float | None, status: str
) -> None:
    params = encode_progress(token, Progress("op", value, total, status))
    for version in VERSIONS:
        methods.parse_server_notification("notifications/progress", version, params)


@few
@given(st.sampled_from(NoticeKind), st.dictionaries(st.text(), json_values, max_size=3))
def test_log_message_fits_mcp(event: NoticeKind, data: Mapping[str, Json]) -> None:
    params = encode_log(Notice(event, "notifications/x", data), "https://app.example")
    for version in VERSIONS:
        methods.parse_server_notification("notifications/message", version, as_read(params))
