"""An app that asks for a key and keeps it: what it returns only shows that it has it."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


calls = {}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        send(
            id=message["id"],
            result={
                "sessionId": "1",
                "app": {"id": "vault", "name": "Vault"},
                "capabilities": [{"name": "unlock"}],
            },
        )
    elif message.get("method") == "capabilities/call":
        call = message["params"]["options"]["callId"]
        calls[call] = message["id"]
        request = {
            "prompt": "Enter your API key",
            "schema": {"type": "string", "title": "API key"},
            "operationId": call,
        }
        send(id=call, method="elicitation/input", params=request)
    elif message.get("id") in calls:
        answer = message["result"]
        told = (
            {**answer, "data": hashlib.sha256(answer["data"]["value"].encode()).hexdigest()}
            if answer["success"]
            else answer
        )
        send(id=calls.pop(message["id"]), result={"success": True, "data": told})
    elif "method" in message and "id" in message:
        send(
            id=message["id"],
            result=[{"name": "unlock"}] if message["method"] == "capabilities/list" else {},
        )
