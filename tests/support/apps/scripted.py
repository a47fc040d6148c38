"""An ABP app on a pipe that does what a script says: `python scripted.py SCRIPT`.

A script is JSON: the `app`, and its `capabilities`, each with the `steps` of a call. With `early`,
these messages come with the answer to `initialize`; a `curt` app ends without answering `shutdown`.

Steps: {"ask": request} and {"ask": [request, ...]} at the same time: the call's data say whether
there was an answer; with "aloud": true they have all of it, with "aloud": "hashed" its hash.
{"answered": id}: the answer to an `early` request is the data.
{"need": request} or a list of them, in the name of the call, which fails without an answer; with
"aloud": true it goes on, and all of the answers are its data.
{"tell": method, "params": {...}}, in the name of the call; with "apart": true not. {"grow": name}:
one capability more, or again one less. {"work": SECONDS}; {"wait": true} until the call is
cancelled. {"end": request}: ask, and be gone. {"fail": error}. {"return": data}, else the data are
those of the last question. Texts in `need` and `return` may name `{params}` of the call and answers
needed before, `{0}` the first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from itertools import count
from typing import Any, TextIO

Json = Any

CANCELLED = {"cancelled": True, "error": {"code": "CANCELLED", "message": "Stopped."}}


class CallError(Exception):
    """The call ends like this: the members of an ABP response."""


class App:
    """The app's side of one pipe, in the JSON-RPC binding of docs/abp-on-a-pipe.md."""

    def __init__(self, script: Json, stdout: TextIO) -> None:
        self.script = script
        self.stdout = stdout
        self.steps = {each["name"]: each.pop("steps") for each in script["capabilities"]}
        self.ids = count(1)
        self.answers: dict[str, asyncio.Future[Json]] = {}
        self.early: dict[str, asyncio.Future[Json]] = {}  # of what was asked with the greeting
        self.cancelled: dict[str, asyncio.Event] = {}  # by the ids of calls

    async def run(self, reader: asyncio.StreamReader) -> None:
        calls = set()
        while line := await reader.readline():
            message = json.loads(line)
            match message.get("method"):
                case None:
                    answer = message.get("result", message.get("error"))
                    self.answers.pop(message["id"]).set_result(answer)
                case "capabilities/call":
                    calls.add(asyncio.create_task(self.call(message["id"], message["params"])))
                case "shutdown" if self.script.get("curt"):
                    return
                case method:
                    result = self.result(method, message.get("params"))
                    early = self.script.get("early", ()) if method == "initialize" else ()
                    for each in early:
                        if "id" in each:
                            self.answers[each["id"]] = self.early[each["id"]] = asyncio.Future()
                    self.send({"id": message["id"], "result": result}, *early)

    def result(self, method: str, params: Json) -> Json:
        listed = self.script["capabilities"]
        match method:
            case "initialize":
                return {"sessionId": "1", "app": self.script["app"], "capabilities": listed}
            case "capabilities/list":
                return listed
            case "capabilities/cancel":
                self.cancelled[params["callId"]].set()
        return {}

    async def call(self, id: str, params: Json) -> None:
        call = params["options"]["callId"]
        self.cancelled[call] = asyncio.Event()
        try:
            data = await self.play(self.steps[params["capability"]], call, params["params"])
            self.send({"id": id, "result": {"success": True, "data": data}})
        except CallError as ended:
            self.send({"id": id, "result": {"success": False, **ended.args[0]}})

    async def play(self, steps: list[Json], call: str, params: Json) -> Json:
        """The steps of one call: its data. Raises CallError."""
        data: Json = "done"
        known: list[Json] = []
        for step in steps:
            match next(iter(step)):
                case "ask":
                    data = await self.ask(step["ask"], step.get("aloud", False))
                case "answered":
                    data = await self.early[step["answered"]]
                case "need":
                    answers = await self.need(fill(step["need"], known, params), call)
                    if step.get("aloud"):
                        return answers
                    known += map(answered, answers)
                case "tell":
                    named = {} if step.get("apart") else {"operationId": call}
                    self.send({"method": step["tell"], "params": {**step["params"], **named}})
                case "grow":
                    self.grow(step["grow"])
                case "work":
                    await asyncio.sleep(step["work"])
                case "wait":
                    await self.cancelled[call].wait()
                    raise CallError(CANCELLED)
                case "end":
                    self.send({"id": "q", **step["end"]})
                    await asyncio.sleep(0.3)  # long enough to be asked
                    raise SystemExit
                case "fail":
                    raise CallError({"error": step["fail"]})
                case "return":
                    return fill(step["return"], known, params)
        return data

    async def ask(self, asked: Json, aloud: Json) -> Json:
        """What a host gets to see of the answers: never a secret."""
        several = isinstance(asked, list)
        answers = await self.exchange(asked if several else [asked])
        shown = answers if aloud is True else [(hashed if aloud else short)(it) for it in answers]
        return shown if several else shown[0]

    async def need(self, asked: Json, call: str) -> list[Json]:
        requests = asked if isinstance(asked, list) else [asked]
        for request in requests:
            request["params"]["operationId"] = call
        return await self.exchange(requests)

    def grow(self, name: str) -> None:
        listed, more = self.script["capabilities"], {"name": name, "description": "One more"}
        grown = more not in listed
        self.script["capabilities"] = [*listed, more] if grown else listed[:-1]
        change = {"added" if grown else "removed": [name]}
        self.send({"method": "notifications/capabilities/list_changed", "params": change})

    async def exchange(self, requests: list[Json]) -> list[Json]:
        asked = [{"id": f"q{next(self.ids)}", **request} for request in requests]
        waiting = [asyncio.get_running_loop().create_future() for _ in asked]
        self.answers |= {each["id"]: one for each, one in zip(asked, waiting, strict=True)}
        self.send(*asked)
        return await asyncio.gather(*waiting)

    def send(self, *messages: Json) -> None:
        lines = [json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages]
        self.stdout.write("".join(lines))
        self.stdout.flush()


def answered(answer: Json) -> Json:
    if not answer["success"]:
        raise CallError({"error": answer["error"]})
    return answer["data"]


def short(answer: Json) -> Json:
    return "answered" if answer.get("success") else answer["error"]["code"]


def hashed(answer: Json) -> Json:
    if not answer["success"]:
        return answer
    return {**answer, "data": hashlib.sha256(answer["data"]["value"].encode()).hexdigest()}


def fill(template: Json, known: list[Json], params: Json) -> Json:
    if isinstance(template, str):
        return template.format(*known, params=params)
    if isinstance(template, dict):
        return {name: fill(value, known, params) for name, value in template.items()}
    if isinstance(template, list):
        return [fill(each, known, params) for each in template]
    return template


async def serve(script: str, reader: asyncio.StreamReader, stdout: TextIO) -> None:
    """Play the script in this file until `reader` ends."""
    with open(script) as file:
        app = App(json.load(file), stdout)
    await app.run(reader)
    raise SystemExit  # open questions end here: nothing waits for them


async def main() -> None:
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await serve(sys.argv[1], reader, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
