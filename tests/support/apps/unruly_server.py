"""`unruly_server.py LOG`: an MCP server in the legacy era that is hardly one. Each of its tools
does what its name says; what it hears is appended to `LOG`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

Json = Any

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
SCHEMA = {"type": "object"}
TOOLS: list[Json] = [
    {
        "name": "wipe",
        "title": "Wipe it all",
        "description": "Wipes.",
        "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
        "outputSchema": {"type": "object", "properties": {"gone": {"type": "integer"}}},
        "annotations": {"destructiveHint": True, "readOnlyHint": False, "x-own": 1},
    },
    {"name": "look", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    *({"name": name, "inputSchema": SCHEMA} for name in ("die", "hang", "malformed", "nothing")),
    *({"name": name, "inputSchema": SCHEMA} for name in ("image", "both", "fail", "error")),
    *(
        {"name": name, "inputSchema": SCHEMA}
        for name in ("grow", "babble", "secret", "leave", "retract")
    ),
    {"name": "no\x1bname", "inputSchema": "none"},
    {"inputSchema": SCHEMA},
    "nothing",
]
ASKED = {
    "secret": {"password": {"type": "string", "title": "Password"}},
    "leave": {"confirm": {"type": "boolean"}},
}
answers: dict[Json, Json] = {}


def write(**message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read(log: str) -> Json:
    line = sys.stdin.readline()
    with open(log, "a") as heard:
        heard.write(line or '{"end": true}\n')
    if not line:
        sys.exit(0)
    return json.loads(line)


def text(words: str, **more: Json) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


def call(id: Json, name: str, log: str) -> None:
    match name:
        case "die":
            print("the disk is on fire", file=sys.stderr, flush=True)
            os._exit(7)
        case "hang":
            return
        case "malformed":
            write(id=id, result=["no", "object"])
        case "nothing":
            write(id=id, result={"x": 1})
        case "image":
            picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
            write(id=id, result={"content": [picture, link]})
        case "both":
            write(id=id, result=text('{"a": [1, 2]}', structuredContent={"a": [1, 2]}))
        case "fail":
            write(id=id, result=text("No such table", isError=True))
        case "error":
            write(id=id, error={"code": -32602, "message": "bad", "data": {"why": 1}})
        case "grow":
            TOOLS.append({"name": "grown", "inputSchema": SCHEMA})
            TOOLS[0] = {**TOOLS[0], "description": "Wipes more."}
            del TOOLS[1]
            write(method="notifications/tools/list_changed")
            write(id=id, result=text("grown"))
        case "babble":
            print("Listening on port 3000", flush=True)
            write(method="notifications/message", params={"level": "error", "data": "it broke"})
            write(method="notifications/vendor", params={"a": 1})
            write(id=id, result=text("said"))
        case "secret" | "leave":
            schema = {"type": "object", "properties": ASKED[name], "required": list(ASKED[name])}
            write(
                id="q",
                method="elicitation/create",
                params={"message": "?", "requestedSchema": schema},
            )
            while "q" not in answers:
                handle(read(log), log)
            write(id=id, result=text(json.dumps(answers.pop("q"))))
        case "retract":
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            write(id="r", method="elicitation/create", params=form)
            handle(read(log), log)
            write(method="notifications/cancelled", params={"requestId": "r"})
            write(id=id, result=text("taken back"))
        case _:
            write(id=id, result=text(f"{name} done"))


def handle(message: Json, log: str) -> None:
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        answers[id] = message.get("result", message.get("error"))
    elif method == "initialize":
        info = {"name": "unruly", "version": "1"}
        has = {"tools": {"listChanged": True}}
        write(
            id=id, result={"protocolVersion": "2025-11-25", "capabilities": has, "serverInfo": info}
        )
    elif method == "tools/list":
        write(id=id, result={"tools": TOOLS})
    elif method == "tools/call":
        call(id, params["name"], log)
    elif id is not None:
        write(id=id, error={"code": -32601, "message": method})


def main() -> None:
    while True:
        handle(read(sys.argv[1]), sys.argv[1])


if __name__ == "__main__":
    main()
