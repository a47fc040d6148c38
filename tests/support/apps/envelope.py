"""An ABP app that speaks the envelope: asks once, notifies once, and returns the answer."""

from __future__ import annotations

import json
import sys
from typing import Any


def send(kind: str, payload: Any, **id: str) -> None:
    sys.stdout.write(json.dumps({"type": kind, **id, "payload": payload}) + "\n")
    sys.stdout.flush()


call = ""
for line in sys.stdin:
    message = json.loads(line)
    assert isinstance(message["timestamp"], int)
    payload = message["payload"]
    match message["type"]:
        case "initialize":
            capabilities = [{"name": "ask", "description": "Asks"}, {"name": "unheard"}]
            send(
                "initialize-result",
                {"app": {"id": "envelope", "name": "Envelope"}, "capabilities": capabilities},
                id=message["id"],
            )
        case "capabilities/call" if payload["capability"] == "ask":
            call = message["id"]
            send("progress", {"operationId": payload["options"]["callId"], "percentage": 50})
            send(
                "notification",
                {
                    "event": "notifications/state/changed",
                    "data": {"field": "mood", "newValue": "curious"},
                },
            )
            request = {
                "method": "elicitation/select",
                "params": {"prompt": "Tea or coffee?", "options": ["tea", "coffee"]},
                "timeout": 30000,
            }
            send("elicitation/request", request, id="q1")
        case "elicitation/response":
            assert message["id"] == "q1"
            send("capabilities/call-result", {"success": True, "data": payload}, id=call)
        case "capabilities/cancel":
            send(
                "capabilities/cancel-result",
                {"callId": payload["callId"], "cancelled": True},
                id=message["id"],
            )
        case "shutdown":
            break
