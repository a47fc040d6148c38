"""An app that looks for passwords in its environment: its capability returns the names of what it
was given.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        send(
            id=message["id"],
            result={
                "sessionId": "1",
                "app": {"id": "nosy", "name": "Nosy"},
                "capabilities": [{"name": "look"}],
            },
        )
    elif message.get("method") == "capabilities/call":
        send(id=message["id"], result={"success": True, "data": sorted(os.environ)})
    elif "id" in message:
        send(
            id=message["id"],
            result=[{"name": "look"}] if message["method"] == "capabilities/list" else {},
        )
