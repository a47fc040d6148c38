"""A raw ACP agent of the standard library: what the proxy and the pump both stand in front of.

The text of a prompt is a number, and so many chunks are streamed before its response, a write each;
with a word after it, the chunks have a member of that name. `session/new` gives back the MCP
servers that it got, in `_meta`. Every other request gets its own parameters.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Json = Any


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if id is None:
            continue
        if method == "initialize":
            params = {
                "protocolVersion": params["protocolVersion"],
                "agentInfo": {"name": "echo", "version": "1"},
            }
        elif method == "session/new":
            params = {"sessionId": "1", "_meta": {"mcpServers": params["mcpServers"]}}
        elif method == "session/prompt":
            count, *word = params["prompt"][0]["text"].split()
            _stream(int(count), *word)
            params = {"stopReason": "end_turn"}
        os.write(1, _line({"id": id, "result": params}))


def _stream(count: int, word: str = "_bench") -> None:
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "some words of an answer, "},
        "_meta": {word: 1},
    }
    chunk = _line({"method": "session/update", "params": {"sessionId": "1", "update": update}})
    for _ in range(count):
        os.write(1, chunk)


def _line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


main()
