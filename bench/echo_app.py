"""The app of every measurement: ABP on a pipe in the JSON-RPC binding, on the standard library, one loop and no waiting but for its stdin.

Capabilities: `echo {text}`; `ask {count, together}` asks `count` times with `together` questions open at once; `flood {count, fields, questions,
done}` tells `count` state changes of `fields` fields without a pause, with `questions` questions among them, and then makes the file `done`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any

BATCH = 100


@dataclass(slots=True)
class Asking:
    """A call that waits for answers: questions still to be asked, still open, and answered with a yes."""

    call: Json
    to_come: int
    open: int = 0
    confirmed: int = 0


class EchoApp:
    def __init__(self) -> None:
        self._asked: dict[str, Asking] = {}
        self._serial = 0

    def run(self) -> None:
        rest = b""
        while data := os.read(0, 256 * 1024):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: Json) -> None:
        method, id = message.get("method"), message.get("id")
        if method is None:
            self._answered(id, message.get("result") or {})
        elif method == "initialize":
            features = {"notifications": True, "elicitation": True}
            _send({"id": id, "result": {"sessionId": "1", "protocolVersion": "0.1", "app": {"id": "echo", "name": "Echo"}, "features": features}})
        elif method == "capabilities/list":
            _send({"id": id, "result": [_capability("echo", text="string"), _capability("ask", count="integer", together="integer"), _FLOOD]})
        elif method == "capabilities/call":
            self._call(id, message["params"]["capability"], message["params"]["params"])
        elif id is not None:
            _send({"id": id, "result": {}})

    def _call(self, id: Json, capability: str, params: Json) -> None:
        if capability == "echo":
            _send({"id": id, "result": {"success": True, "data": params["text"]}})
        elif capability == "ask":
            asking = Asking(id, params["count"])
            for _ in range(min(params["count"], params["together"])):
                self._ask(asking)
        else:
            self._flood(id, params)

    def _ask(self, asking: Asking) -> None:
        self._serial += 1
        self._asked[f"q{self._serial}"] = asking
        asking.to_come -= 1
        asking.open += 1
        _send({"id": f"q{self._serial}", "method": "elicitation/confirm", "params": {"prompt": "Go on?"}})

    def _answered(self, id: str, response: Json) -> None:
        asking = self._asked.pop(id)
        asking.open -= 1
        asking.confirmed += response.get("data", {}).get("confirmed") is True
        if asking.to_come:
            self._ask(asking)
        elif not asking.open:
            _send({"id": asking.call, "result": {"success": True, "data": {"confirmed": asking.confirmed}}})

    def _flood(self, id: Json, params: Json) -> None:
        asking = Asking(id, params["questions"])
        every = params["count"] // params["questions"]
        batch: list[Json] = []
        for number in range(params["count"]):
            change = {"field": f"field{number % params['fields']}", "newValue": number}
            batch.append({"method": "notifications/state/changed", "params": change})
            if len(batch) == BATCH or number == params["count"] - 1:
                _send(*batch)
                batch.clear()
            if asking.to_come and number % every == every - 1:
                self._ask(asking)
        Path(params["done"]).touch()


def _capability(name: str, **parameters: str) -> Json:
    schema = {"type": "object", "properties": {parameter: {"type": kind} for parameter, kind in parameters.items()}}
    return {"name": name, "description": f"{name}, for measuring", "available": True, "inputSchema": schema}


_FLOOD = _capability("flood", count="integer", fields="integer", questions="integer", done="string")


def _send(*messages: Json) -> None:
    data = memoryview(b"".join(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n" for message in messages))
    while data:
        data = data[os.write(1, data) :]


EchoApp().run()
