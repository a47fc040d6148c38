"""MCP servers of both eras behind `abp-bridge mcp`, and the hosts that call them."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Any, ClassVar

from .hosts import PREFIX, Host, LegacyHost, ModernHost
from .person import Asked, Person
from .wires import Peer, Pipe

Json = Any

VERSION = "2026-07-28"
PATIENCE = 2_000.0  # seconds that a server waits for an answer: a bridge takes 600
MAX_ROUNDS = 8  # that a call asks: of more than ten hosts hear an error
TEXT, YES = {"type": "string"}, {"type": "boolean"}
CLASSES = ["one of #", "another of #", "a third of #"]
QUESTIONS: list[tuple[Json, Json]] = [  # what each field is, and the answer
    ({"value": {**TEXT, "enum": CLASSES}}, {"value": CLASSES[1]}),
    ({"value": TEXT}, {"value": "a name for #"}),
    ({"confirmed": YES}, {"confirmed": True}),
    ({"confirmed": YES}, {"confirmed": False}),
    ({"name": TEXT, "class": {**TEXT, "enum": CLASSES}}, {"name": "# itself", "class": CLASSES[2]}),
]


class Server:
    """A server that asks in each call and waits for all answers."""

    def __init__(
        self,
        rng: Random,
        person: Person,
        pipes: tuple[Pipe, Pipe],
        crashes: float,
        questions: list[tuple[Json, Json]],
    ) -> None:
        self._rng = rng  # decides what each call does
        self._person = person  # is told of each question before it is asked
        self._crashes = crashes  # how likely a step is its last
        self._questions = questions  # what it asks
        self.is_modern = rng.random() < 0.5
        self.is_destructive = rng.random() < 0.7
        self.peer = Peer(*pipes, self._on_message)
        self.asked: list[tuple[Asked, list[Json]]] = []  # with the answers
        self.said: list[Json] = []  # the results of its calls
        self.begun: set[str] = set()  # the words that calls came with
        self.crashed = False
        self._rounds: dict[str, dict[str, list[Json]]] = {}  # answers by key, by state
        self._calls: dict[Json, asyncio.Task[None]] = {}

    def _on_message(self, message: Json) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "notifications/cancelled":
            if (call := self._calls.pop(params["requestId"], None)) is not None:
                call.cancel()
        elif "id" in message and method == "tools/call":
            self.begun.add(params["arguments"].get("for", ""))
            work = self._work_modern if self.is_modern else self._work
            self._calls[message["id"]] = asyncio.get_running_loop().create_task(
                work(message["id"], params)
            )
        elif "id" in message:
            self._reply(message["id"], self._results(params).get(method))

    def _results(self, params: Json) -> Json:
        hints = {"destructiveHint": self.is_destructive}
        tool = {"name": "work", "inputSchema": {"type": "object"}, "annotations": hints}
        info = {"name": "simulated", "version": "1"}
        more: Json = {"ping": {}, "tools/list": {"tools": [tool]}}
        if self.is_modern:
            kept = {"ttlMs": 0, "cacheScope": "private", "_meta": {f"{PREFIX}serverInfo": info}}
            more["server/discover"] = {
                "supportedVersions": [VERSION],
                "capabilities": {"tools": {}},
            }
            return {each: {"resultType": "complete", **more[each], **kept} for each in more}
        version = params.get("protocolVersion")
        hello = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        return {**more, "initialize": hello}

    def _reply(self, id: Json, result: Json) -> None:
        refused = {"error": {"code": -32601, "message": "no such method"}}
        self.peer.send({"id": id, **(refused if result is None else {"result": result})})

    def _crash(self) -> bool:
        if self._rng.random() < self._crashes:
            self.crashed = True
            self.peer.write(b'{"jsonrpc": "2.0", "id": 7, "meth')
            self.peer.hang_up()
        return self.crashed

    def _end(self, id: Json, **more: Json) -> None:
        words = f"call {len(self.said)} of the server is done"
        result = {"content": [{"type": "text", "text": words}], **more}
        self.said.append(result)
        self._reply(id, result)

    def _question(self) -> tuple[list[Json], Json]:
        fields, data = self._rng.choice(self._questions)
        asked = self._person.expect(
            {"method": "elicitation/create", "params": {"message": "# What?", "fields": fields}},
            data,
        )
        answers: list[Json] = []
        self.asked.append((asked, answers))
        said = asked.request["params"]
        schema = {"type": "object", "properties": said["fields"], "required": list(data)}
        return answers, {"mode": "form", "message": said["message"], "requestedSchema": schema}

    async def _work(self, id: Json, params: Json) -> None:
        for _ in range(self._rng.randint(0, 3)):
            if self._crash():
                return
            await asyncio.gather(*(self._ask() for _ in range(self._rng.choice([1, 1, 2]))))
            self.peer.send({"method": "notifications/message", "params": self._log()})
        self._end(id)

    def _log(self) -> Json:
        return {"level": "error", "data": {"step": self._rng.random(), "odd": "\u2028 é"}}

    async def _ask(self) -> None:
        answers, params = self._question()
        id = self.peer.next_id()
        self.peer.answered[id] = answers
        asking = self.peer.request("elicitation/create", params, id=id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asking, PATIENCE)
            return
        self.peer.send({"method": "notifications/cancelled", "params": {"requestId": id}})

    async def _work_modern(self, id: Json, params: Json) -> None:
        if "requestState" in params:
            waiting = self._rounds.get(params["requestState"], {})
            brought = params.get("inputResponses", {})
            for key in waiting.keys() & brought.keys():
                waiting[key].append({"result": brought[key]})
            for key in brought.keys() - waiting.keys():
                self.peer.answered.setdefault("nobody's", []).append(brought[key])
        if self._crash():
            return
        rounds = params.get("requestState", "").count("+")
        if self._rng.random() < 0.4 or rounds == MAX_ROUNDS:
            self._end(id, resultType="complete")
            return
        requests, waiting = {}, {}
        for number in range(self._rng.choice([1, 1, 2])):
            waiting[f"k{number}"], asked = self._question()
            requests[f"k{number}"] = {"method": "elicitation/create", "params": asked}
        state = f"{len(self._rounds)} \u2028 of the server{(rounds + 1) * '+'}"
        self._rounds[state] = waiting
        asked = {"inputRequests": requests, "requestState": state}
        self._reply(id, {"resultType": "input_required", **asked})

    async def end(self) -> None:
        for each in self._calls.values():
            each.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        await self.peer.end()


class ServedLegacyHost(LegacyHost):
    has_server: ClassVar[bool] = True

    async def _open(self) -> None:
        await super()._open()
        await self.peer.request("tools/list", {})

    async def _call(self) -> Json:
        id = self.peer.next_id()
        if self._habits.strikes(self._rng, "cancels"):
            self._begin(self._give_up(id))
        params = {"name": "work", "arguments": self.prepare(), "_meta": {"progressToken": f"p{id}"}}
        return await self.peer.request("tools/call", params, id=id)

    async def _close(self) -> None:
        await Host._close(self)


class ServedMuteHost(ServedLegacyHost):
    """The same, which shows no questions."""

    capabilities: ClassVar[Json] = {}


class ServedModernHost(ModernHost):
    has_server: ClassVar[bool] = True
    tool = "work"

    async def _open(self) -> None:
        await self.peer.request("tools/list", self._params())

    def _params(self, **more: Json) -> Json:
        params = super()._params(**more)
        if self.hears_logs:
            params["_meta"][f"{PREFIX}logLevel"] = "debug"
        return params

    def _arguments(self) -> Json:
        return self.prepare()


class ServedMuteModernHost(ServedModernHost):
    """The same, which shows no questions and hears no logs."""

    capabilities: ClassVar[Json] = {}
    hears_logs: ClassVar[bool] = False


SERVED: list[type[Host]] = [
    *(ServedLegacyHost, ServedLegacyHost, ServedMuteHost),
    *(ServedModernHost, ServedModernHost, ServedMuteModernHost),
]
