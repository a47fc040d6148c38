"""The built-in app on pipes: `python -m abp_bridge.apps.demo`, an example of an ABP app.

`page/app.js` plays the same `script.json` in a page.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

Json = Any

SCRIPT = json.loads(Path(__file__).with_name("script.json").read_text())
CAPABILITIES = {each["name"]: each for each in SCRIPT["capabilities"]}
FEATURES = ("notifications", "progress", "elicitation", "dynamicCapabilities")


class CallError(Exception):
    """Ends the call with an ABP error, its only argument."""


class App:
    """One connection of the app, in the JSON-RPC binding.

    `leave` ends the process in the middle of a call.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        stdout: TextIO,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._reader = reader
        self._stdout = stdout
        self._leave = leave
        self._offered = {
            name: each for name, each in CAPABILITIES.items() if not each.get("hidden")
        }
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._serial = 0

    async def serve(self) -> None:
        """Handle messages until `shutdown` or the end of the pipe."""
        while line := await self._reader.readline():
            message = json.loads(line)
            method, params = message.get("method"), message.get("params", {})
            if method is None:
                waiting = self._waiting.pop(message["id"])
                if not waiting.done():  # its call may have been cancelled
                    waiting.set_result(message.get("result"))
            elif method == "capabilities/call":
                call = params["options"]["callId"]
                self._calls[call] = asyncio.create_task(self._call(message["id"], call, params))
            else:
                self._send_line(id=message["id"], result=self._handle(method, params))
                if method == "shutdown":
                    return

    def _handle(self, method: str, params: Json) -> Json:
        if method == "initialize":
            return {
                "sessionId": "demo",
                "protocolVersion": "0.1",
                "app": SCRIPT["app"],
                "capabilities": self._capabilities(),
                "features": dict.fromkeys(FEATURES, True),
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
        response: Json = {"success": False}
        name = params["capability"]
        try:
            if name not in self._offered:
                raise CallError(_error("UNKNOWN_CAPABILITY", f"no {name}"))
            data = await self._play(self._offered[name]["steps"], params["params"], call)
            response = {"success": True, "data": data}
        except CallError as failure:
            response["error"] = failure.args[0]
        except asyncio.CancelledError:
            response |= {"cancelled": True, "error": _error("CANCELLED", "The call was cancelled")}
        del self._calls[call]
        self._send_line(id=id, result=response)

    async def _play(self, steps: list[Json], params: Json, call: str) -> Json:
        """Run `steps`, and return the data of `return` or all answers.

        `$name.member` in a step refers to an earlier answer or a parameter.
        """
        known = {"params": params}
        for step in steps:
            verb = next(iter(step))
            given = _fill(step[verb], known)
            match verb:
                case "ask":
                    known[step["as"]] = await self._elicit(given)
                case "askAll":
                    known[step["as"]] = await asyncio.gather(*map(self._elicit, given))
                case "askEach":
                    known[step["as"]] = await self._ask_each(given, call)
                case "tell":
                    self._notify(given, _fill(step.get("times"), known) or 1)
                case "progress":
                    self._report(call, **given)
                case "offer":
                    self._offered[given] = CAPABILITIES[given]
                case "wait":
                    await asyncio.sleep(given / 1000)
                case "hold":
                    await asyncio.Event().wait()
                case "leave":
                    self._leave(1)
                case "fail":
                    raise CallError(given)
                case "return":
                    return given
        del known["params"]
        return {name: answer.get("data") or answer.get("error") for name, answer in known.items()}

    async def _ask_each(self, requests: list[Json], call: str) -> Json:
        responses = []
        for request in requests:
            responses.append(await self._elicit(request))
            self._report(call, progress=len(responses), total=len(requests))
        return responses

    def _notify(self, notice: Json, times: int) -> None:
        for _ in range(times):
            self._send_line(method=notice["event"], params=notice["data"] or {})

    def _report(self, call: str, **progress: Json) -> None:
        self._send_line(method="notifications/progress", params={**progress, "progressToken": call})

    async def _elicit(self, request: Json) -> Json:
        self._serial += 1
        id = f"demo-{self._serial}"
        self._waiting[id] = asyncio.get_running_loop().create_future()
        params = dict(request.get("params") or {})
        if "timeout" in request:
            params["timeout"] = request["timeout"]
        self._send_line(id=id, method=request["method"], params=params)
        return await self._waiting[id]

    def _send_line(self, **message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        self._stdout.write(f"{line}\n")
        self._stdout.flush()


def _error(code: str, message: str) -> Json:
    return {"code": code, "message": message, "retryable": False}


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
    """Run the app on stdin and stdout."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await App(reader, sys.stdout).serve()


if __name__ == "__main__":
    asyncio.run(main())
