"""Messages of MCP that both kinds of revision have, with as many unknown members as they bear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
TASKS = f"{META}tasks"
SERVER: Json = {"name": "stub", "version": "9", "title": "Stub T", "x-own": [1]}

ICON = {"src": "data:,x", "x-icon": 1}
TOOL: Json = {
    "name": "ask",
    "title": "T",
    "inputSchema": {"type": "object", "$defs": {"k": {"type": "null"}}, "x-own": 1},
    "outputSchema": {"type": "object", "properties": {"r": {}}},
    "annotations": {"destructiveHint": True, "x-ann": 2},
    "icons": [ICON],
    "execution": {"taskSupport": "optional"},
    "_meta": {"vendor/k": [1]},
    "x-unknown": "keep",
}
CONTENT: Json = [{"type": "text", "text": "t", "annotations": {"priority": 1}, "_meta": {"c": 1}}]

REQUESTS: Mapping[str, Json] = {
    "tools/list": {"cursor": "p2"},
    "tools/call": {"name": "ask", "arguments": {"a": 1}, "_meta": {"progressToken": 7, "v/k": 1}},
    "prompts/list": None,
    "prompts/get": {"name": "p"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "stub://a"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "x", "value": ""},
    },
}
RESULTS: Mapping[str, Json] = {
    "tools/list": {"tools": [TOOL], "nextCursor": "p2", "_meta": {"l": 1}},
    "tools/call": {
        "content": CONTENT,
        "structuredContent": {"r": 1},
        "isError": True,
        "_meta": {"r": 1},
    },
    "prompts/list": {"prompts": [{"name": "p", "icons": [ICON]}]},
    "prompts/get": {"messages": [{"role": "user", "content": CONTENT[0]}], "x-own": None},
    "resources/list": {"resources": [{"uri": "stub://a", "name": "a", "size": 3}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "stub://{x}", "name": "t"}]},
    "resources/read": {"contents": [{"uri": "stub://a", "text": "x"}]},
    "completion/complete": {"completion": {"values": ["c"], "total": 7, "hasMore": True}},
}
CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "completions": {},
    "experimental": {"vendor/x": {"a": 1}},
    "extensions": {"io.x/y": {}, TASKS: {}},
}

FORM: Json = {
    "mode": "form",
    "message": "Q",
    "requestedSchema": {"type": "object", "properties": {"s": {"type": "string"}}},
}
URL: Json = {"mode": "url", "message": "U", "url": "https://e.x/"}
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}

CLIENT = {"name": "h", "version": "1", "x-own": 1}
ASKABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
YES: Json = {"action": "accept", "content": {"s": "ü"}}
ANSWERS: Mapping[str, Json] = {
    "elicitation/create": YES,
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "t"},
        "model": "m",
        "x-own": 1,
    },
    "roots/list": {"roots": [{"uri": "file:///r", "name": "r", "x-own": 1}]},
}
