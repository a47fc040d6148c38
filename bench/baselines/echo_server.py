"""A raw MCP server of the standard library: what the pump stands in front of, and the least that
any server could cost.

Tools: `echo {text}`, and `ask {count}`, which asks the person `count` times, one after another.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = Any

FORM = {
    "message": "Go on?",
    "requestedSchema": {
        "type": "object",
        "properties": {"confirmed": {"type": "boolean"}},
        "required": ["confirmed"],
    },
}
TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {
        "name": "ask",
        "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
    },
]


def main() -> None:
    asking: dict[
        str, tuple[Json, int]
    ] = {}  # id of the question -> (the call it belongs to, how many are to come)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if method is None:
            call, left = asking.pop(id)
            _ask(asking, call, left)
        elif method == "initialize":
            offered = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            _send({"id": id, "result": {**offered, "serverInfo": {"name": "echo", "version": "1"}}})
        elif method == "tools/list":
            _send({"id": id, "result": {"tools": TOOLS}})
        elif method == "tools/call" and params["name"] == "echo":
            _send({"id": id, "result": _text(params["arguments"]["text"])})
        elif method == "tools/call":
            _ask(asking, id, params["arguments"]["count"])


def _ask(asking: dict[str, tuple[Json, int]], call: Json, left: int) -> None:
    if left == 0:
        _send({"id": call, "result": _text("done")})
        return
    asking[f"{call}-{left}"] = call, left - 1
    _send({"id": f"{call}-{left}", "method": "elicitation/create", "params": FORM})


def _text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def _send(message: Json) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


main()
