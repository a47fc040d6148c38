"""An ABP app on a pipe that does what apps should not: talks to itself on stdout, answers what
nobody asked, calls methods nobody has.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


seen: list[Any] = []
waiting: Any = None
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            send(
                id=message["id"],
                result={"app": {"id": "odd"}, "capabilities": ["odd.talk", "odd.seen", "odd.long"]},
            )
        case "capabilities/list":
            send(id=message["id"], error={"code": -32601, "message": "no such thing"})
        case "capabilities/call":
            name = message["params"]["capability"]
            if name == "odd.talk":
                waiting = message["id"]
                print("Listening on port 3000", flush=True)
                send(id="nobody-asked", result={})
                send(id="x", method="files/read", params={"path": "/etc/passwd"})
                send(id="y", method="elicitation/select", params={"prompt": "Which?"})
            elif name == "odd.long":
                sys.stdout.write("x" * (65 * 2**20) + "\n")
                sys.stdout.flush()
                send(id=message["id"], result={"success": True, "data": "after the long line"})
            else:
                send(id=message["id"], result={"success": True, "data": seen})
        case "shutdown":
            send(id=message["id"], result={})
            break
        case _:
            seen.append(message)
            if len(seen) == 3:
                send(id=waiting, result={"success": True, "data": "talked"})
