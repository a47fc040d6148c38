"""The built-in app without a browser: `python -m abp_bridge.apps.demo` speaks ABP on a pipe, and is
an example of how to write such an app.

Plays `script.json`. `page/app.js` plays the same script in a page.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

Json = Any

SCRIPT = json.loads(Path(__file__).with_name("script.json").read_text())


class CallError(Exception):
    """A step that ends the call with an ABP error."""


class App:
    """The app's side of one pipe, in the JSON-RPC binding."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._offered = {
            each["name"]: each for each in SCRIPT["capabilities"] if not each.get("hidden")
        }
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._serial = 0

    async def run(self) -> None:
        """Answer what comes, until `shutdown` or the end of the pipe."""
        while line := await self._reader.readline():
            message = json.loads(line)
            if "method" not in message:
                asked = self._waiting.pop(message["id"])
                if not asked.done():  # its call may have been cancelled
                    asked.set_result(message.get("result"))
            elif message["method"] == "capabilities/call":
                call = message["params"]["options"]["callId"]
                self._calls[call] = asyncio.create_task(
                    self._call(message["id"], call, message["params"])
                )
            else:
                self._send(
                    {
                        "id": message["id"],
                        "result": self._answer(message["method"], message.get("params", {})),
                    }
                )
                if message["method"] == "shutdown":
                    return

    def _answer(self, method: str, params: Json) -> Json:
        if method == "initialize":
            features = {
                "notifications": True,
                "progress": True,
                "elicitation": True,
                "dynamicCapabilities": True,
            }
            return {
                "sessionId": "demo",
                "protocolVersion": "0.1",
                "app": SCRIPT["app"],
                "capabilities": self._capabilities(),
                "features": features,
            }
        if method == "capabilities/list":
            return self._capabilities()
        if method == "capabilities/cancel":
            task = self._calls.get(params["callId"])
            if task is not None:
                task.cancel()
            return {"callId": params["callId"], "cancelled": task is not None}
        return {}

    def _capabilities(self) -> Json:
        shown = ("name", "description", "inputSchema")
        return [
            {"available": True, **{word: each[word] for word in shown}}
            for each in self._offered.values()
        ]

    async def _call(self, id: Json, call: str, params: Json) -> None:
        capability = self._offered.get(params["capability"])
        try:
            if capability is None:
                raise CallError(
                    {
                        "code": "UNKNOWN_CAPABILITY",
                        "message": f"no {params['capability']}",
                        "retryable": False,
                    }
                )
            response = {
                "success": True,
                "data": await self._play(capability["steps"], {"params": params["params"]}, call),
            }
        except CallError as failure:
            response = {"success": False, "error": failure.args[0]}
        except asyncio.CancelledError:
            response = {
                "success": False,
                "cancelled": True,
                "error": {
                    "code": "CANCELLED",
                    "message": "The call was cancelled",
                    "retryable": False,
                },
            }
        del self._calls[call]
        self._send({"id": id, "result": response})

    async def _play(self, steps: list[Json], known: dict[str, Json], call: str) -> Json:
        """Run `steps`.

        `$name.member` in a step stands for an earlier answer or a parameter; the data is what
        `return` says, or all answers.
        """
        for step in steps:
            match next(iter(step)):
                case "ask":
                    known[step["as"]] = await self._ask(_fill(step["ask"], known))
                case "askAll":
                    known[step["as"]] = await asyncio.gather(
                        *(self._ask(each) for each in _fill(step["askAll"], known))
                    )
                case "askEach":
                    known[step["as"]] = await self._ask_each(_fill(step["askEach"], known), call)
                case "tell":
                    self._notify(_fill(step["tell"], known), _fill(step.get("times"), known) or 1)
                case "progress":
                    self._send(
                        {
                            "method": "notifications/progress",
                            "params": {**step["progress"], "progressToken": call},
                        }
                    )
                case "offer":
                    self._offered[step["offer"]] = next(
                        each for each in SCRIPT["capabilities"] if each["name"] == step["offer"]
                    )
                case "wait":
                    await asyncio.sleep(step["wait"] / 1000)
                case "hold":
                    await asyncio.Event().wait()
                case "leave":
                    os._exit(1)
                case "fail":
                    raise CallError(step["fail"])
                case "return":
                    return _fill(step["return"], known)
        return {
            name: answer.get("data") or answer.get("error")
            for name, answer in known.items()
            if name != "params"
        }

    def _notify(self, notice: Json, times: int) -> None:
        for _ in range(times):
            self._send({"method": notice["event"], "params": notice["data"] or {}})

    async def _ask_each(self, requests: list[Json], call: str) -> Json:
        responses = []
        for request in requests:
            responses.append(await self._ask(request))
            progress = {"progress": len(responses), "total": len(requests), "progressToken": call}
            self._send({"method": "notifications/progress", "params": progress})
        return responses

    async def _ask(self, request: Json) -> Json:
        self._serial += 1
        id = f"demo-{self._serial}"
        self._waiting[id] = asyncio.get_running_loop().create_future()
        params = dict(request.get("params") or {})
        if "timeout" in request:
            params["timeout"] = request["timeout"]
        self._send({"id": id, "method": request["method"], "params": params})
        return await self._waiting[id]

    def _send(self, message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def _fill(template: Json, known: dict[str, Json]) -> Json:
    if isinstance(template, str) and template.startswith("$"):
        value: Json = known
        for word in template[1:].split("."):
            value = value.get(word) if isinstance(value, dict) else None
        return value
    if isinstance(template, dict):
        return {name: _fill(value, known) for name, value in template.items()}
    return template


async def main() -> None:
    """Play the app on stdin and stdout."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await App(reader).run()


if __name__ == "__main__":
    asyncio.run(main())
