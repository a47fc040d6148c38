"""An app that tells what its state is with its first words, and ends without a goodbye. For
tests.
"""

import json
import os
import sys
from typing import Any


def lines(*messages: Any) -> None:
    os.write(
        1,
        b"".join(
            json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages
        ),
    )


for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        opened = {
            "sessionId": "1",
            "app": {"id": "early"},
            "capabilities": [{"name": "early.work"}],
        }
        mood = {
            "method": "notifications/state/changed",
            "params": {"field": "mood", "newValue": "good"},
        }
        lines({"id": message["id"], "result": opened}, mood)
    elif message["method"] == "shutdown":
        break
    elif "id" in message:
        lines({"id": message["id"], "result": []})
