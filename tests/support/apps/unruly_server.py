"""`unruly_server.py LOG`: an MCP server in the legacy era that is hardly one. Each of its tools
does what its name says; what it hears is appended to `LOG`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Json = Any

_TABLE: Json = json.loads(Path(__file__).with_name("unruly.json").read_text())["server"]
TOOLS: list[Json] = _TABLE["tools"]
ENDS: Json = _TABLE["ends"]  # of calls that do no more
ASKED: Json = _TABLE["asked"]
SCHEMA = {"type": "object"}
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
        case _ if name in ENDS:
            write(id=id, **ENDS[name])
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
