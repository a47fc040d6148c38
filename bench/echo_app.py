"""The app of every measurement: ABP on a pipe in the JSON-RPC binding, on the standard library, one
loop and no waiting but for its stdin.

Capabilities: `echo {text}`; `ask {count, together}` asks `count` times with `together` questions
open at once; `flood {count, fields, questions, done}` tells `count` things without a pause, nine of
ten of them state changes of `fields` fields, with `questions` questions among them; at the very end
it tells of a field that it never spoke of before, `late`, and makes the file `done`; `shout {count,
size, done}` tells `count` things, each by a name of its own and with `size` bytes, and makes the
file `done`. `echo_app.py N` has N capabilities more, for their number.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any

BATCH = 100


@dataclass(slots=True)
class Asking:
    """A call that waits for answers: questions still to be asked, still open, and answered with a
    yes.
    """

    call: Json
    operation: Json
    to_come: int
    open: int = 0
    confirmed: int = 0


class EchoApp:
    def __init__(self) -> None:
        self._asked: dict[str, Asking] = {}
        self._serial = 0

    def run(self) -> None:
        rest = b""
        while data := os.read(0, 64 * 1024):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: Json) -> None:
        method, id = message.get("method"), message.get("id")
        if method is None:
            self._answered(id, message.get("result") or {})
        elif method == "initialize":
            features = {"notifications": True, "elicitation": True}
            _send(
                {
                    "id": id,
                    "result": {
                        "sessionId": "1",
                        "protocolVersion": "0.1",
                        "app": {"id": "echo", "name": "Echo"},
                        "features": features,
                    },
                }
            )
        elif method == "capabilities/list":
            _send({"id": id, "result": _CAPABILITIES})
        elif method == "capabilities/call":
            self._call(id, **message["params"])
        elif id is not None:
            _send({"id": id, "result": {}})

    def _call(self, id: Json, capability: str, params: Json, options: Json) -> None:
        if capability == "echo":
            _send({"id": id, "result": {"success": True, "data": params["text"]}})
        elif capability == "ask":
            asking = Asking(id, options["callId"], params["count"])
            for _ in range(min(params["count"], params["together"])):
                self._ask(asking)
        elif capability == "flood":
            self._flood(id, params, options["callId"])
        else:
            for number in range(params["count"]):
                _send(
                    {
                        "method": f"notifications/shouted/{number}",
                        "params": {"words": "x" * params["size"]},
                    }
                )
            Path(params["done"]).touch()
            _send({"id": id, "result": {"success": True}})

    def _ask(self, asking: Asking) -> None:
        self._serial += 1
        self._asked[f"q{self._serial}"] = asking
        asking.to_come -= 1
        asking.open += 1
        _send(
            {
                "id": f"q{self._serial}",
                "method": "elicitation/confirm",
                "params": {"prompt": "Go on?", "operationId": asking.operation},
            }
        )

    def _answered(self, id: str, response: Json) -> None:
        asking = self._asked.pop(id)
        asking.open -= 1
        asking.confirmed += response.get("data", {}).get("confirmed") is True
        if asking.to_come:
            self._ask(asking)
        elif not asking.open:
            _send(
                {
                    "id": asking.call,
                    "result": {"success": True, "data": {"confirmed": asking.confirmed}},
                }
            )

    def _flood(self, id: Json, params: Json, operation: Json) -> None:
        asking = Asking(id, operation, params["questions"])
        every = params["count"] // params["questions"]
        batch: list[Json] = []
        for number in range(params["count"]):
            if number % 10 == 9:
                batch.append(
                    {
                        "method": "notifications/operation/started",
                        "params": {"operationId": str(number), "capability": "flood"},
                    }
                )
            else:
                batch.append(_changed(f"field{number % params['fields']}", number))
            if len(batch) == BATCH:
                _send(*batch)
                batch.clear()
            if asking.to_come and number % every == every - 1:
                self._ask(asking)
        _send(*batch, _changed("late", params["count"]))
        Path(params["done"]).touch()


def _capability(name: str, **parameters: str) -> Json:
    schema = {
        "type": "object",
        "properties": {parameter: {"type": kind} for parameter, kind in parameters.items()},
    }
    return {
        "name": name,
        "description": f"{name}, for measuring",
        "available": True,
        "inputSchema": schema,
    }


_CAPABILITIES = [
    _capability("echo", text="string"),
    _capability("ask", count="integer", together="integer"),
    _capability("flood", count="integer", fields="integer", questions="integer", done="string"),
    _capability("shout", count="integer", size="integer", done="string"),
    *(
        _capability(f"more.number{number}", first="string", second="integer")
        for number in range(int(sys.argv[1]) if sys.argv[1:] else 0)
    ),
]


def _changed(field: str, value: Json) -> Json:
    return {"method": "notifications/state/changed", "params": {"field": field, "newValue": value}}


def _send(*messages: Json) -> None:
    data = memoryview(
        b"".join(
            json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
            for message in messages
        )
    )
    while data:
        data = data[os.write(1, data) :]


EchoApp().run()
