"""The schemas of the first two revisions of MCP, read strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from support.paths import TESTS

Json = Any

RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "resources/subscribe": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
}


def closed(schema: Json) -> Json:
    if isinstance(schema, list):
        return list(map(closed, schema))
    if not isinstance(schema, Mapping):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    if isinstance(parts.get("properties"), Mapping) and "type" in parts:
        parts.setdefault("additionalProperties", False)
    return parts


class Referee:
    """What one revision allows."""

    def __init__(self, version: str) -> None:
        path = TESTS / "support" / "schemas" / f"mcp-{version}.json"
        self._schema = closed(json.loads(path.read_text()))
        self._by_method = {
            one["properties"]["method"].get("const"): name
            for name, one in self._schema["definitions"].items()
            if "method" in one.get("properties", {}) and name.endswith(("Request", "Notification"))
        }

    def check_result(self, method: str, result: Json) -> None:
        self._check(RESULTS[method], result)

    def check_message(self, message: Json) -> None:
        body = {word: value for word, value in message.items() if word not in ("jsonrpc", "id")}
        self._check(self._by_method[message["method"]], body)

    def _check(self, name: str, value: Json) -> None:
        reference = {"$ref": f"#/definitions/{name}"}
        Draft7Validator({**self._schema, **reference}).validate(value)
