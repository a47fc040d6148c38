"""An MCP server over an SQLite file, with the standard library only. Its one tool deletes all
notes.

Like many servers it asks before it does, where its client says that it can ask, and else just does.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any

TOOL = {
    "name": "delete_notes",
    "description": "Delete all notes",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"destructiveHint": True},
}
CONFIRM = {"confirm": {"type": "boolean", "title": "Delete them"}}


def write(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read() -> dict[str, Any]:
    return dict(json.loads(sys.stdin.readline() or sys.exit()))


def is_confirmed(count: int) -> bool:
    """Ask the person whom the client has."""
    schema = {"type": "object", "properties": CONFIRM, "required": ["confirm"]}
    params = {"message": f"Delete all {count} notes?", "requestedSchema": schema}
    write({"id": "ask", "method": "elicitation/create", "params": params})
    while (answer := read()).get("id") != "ask":
        pass
    result = answer.get("result", {})
    return bool(result.get("action") == "accept" and result["content"]["confirm"])


def delete_notes(notes: sqlite3.Connection, *, can_ask: bool) -> str:
    (count,) = notes.execute("select count(*) from notes").fetchone()
    if can_ask and not is_confirmed(count):
        return "the user did not confirm, nothing was deleted"
    with notes:
        notes.execute("delete from notes")
    return f"{count} notes were deleted"


def main(file: str) -> None:
    notes, can_ask = sqlite3.connect(file), False
    while True:
        request = read()
        method, params = request.get("method"), request.get("params", {})
        result: dict[str, Any] = {}
        if method == "initialize":
            can_ask = "elicitation" in params["capabilities"]
            result = {
                "protocolVersion": params["protocolVersion"],  # some hosts take no other
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            said = delete_notes(notes, can_ask=can_ask)
            result = {"content": [{"type": "text", "text": said}]}
        if "id" in request:
            write({"id": request["id"], "result": result})


main(sys.argv[1])
