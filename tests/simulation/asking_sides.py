"""The sides that ask one question in one call: ABP apps, MCP servers of both eras, ACP agents.

Each notes the answers that it gets, in its own protocol's terms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

from support import pairs

from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc import subprocess

from .apps import Child, connected
from .servers import VERSION
from .wires import Peer, Weather

Json = Any

QUESTION = 1_000  # the id of what it asks, where that has one
INFO = {"name": "simulated", "version": "1"}
KEPT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
WORK: Json = {"name": "work", "description": "Work", "inputSchema": {"type": "object"}}


class Asker:
    """An app on two pipes that asks `question` whenever it is called; `answers` is what it got."""

    target: ClassVar[str] = "stdio:sim"
    asks: ClassVar[tuple[str, ...]] = (pairs.ABP,)  # whose questions
    capability: ClassVar[str] = "work"
    given: ClassVar[Json] = {}
    can_withdraw: ClassVar[bool] = True
    method: str

    def __init__(self, rng: Random, question: Question) -> None:
        self.rng = rng
        self.method, self.params = self._encode(question)
        self._tool = {**WORK, "annotations": {"destructiveHint": question.destructive}}
        self.peer: Peer
        self.over = asyncio.Event()
        self.call: Json = None
        self._work: asyncio.Task[None] | None = None

    @classmethod
    def asks_for(cls, pair: tuple[str, str]) -> bool:
        """Whether it has a way to ask that, of the table's."""
        return pair[0] in cls.asks

    def _encode(self, question: Question) -> tuple[str, Json]:
        return question.kind.value, dict(question.request)

    @property
    def answers(self) -> list[Json]:
        return self.peer.answered.get(QUESTION, [])

    @contextmanager
    def reachable(self) -> Iterator[None]:
        with patch.object(subprocess, "spawn", self._spawn):
            yield

    @asynccontextmanager
    async def _spawn(self, command: Json, *, env: Json = None) -> AsyncIterator[Child]:
        async with connected(self.rng, Weather(), self._on_message) as (child, self.peer):
            yield child
        await self.end()

    async def end(self) -> None:
        self.over.set()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self.peer.end()

    def _on_message(self, message: Json) -> None:
        if "id" not in message:
            return
        method, params = message["method"], message.get("params") or {}
        if method in ("capabilities/call", "tools/call", "session/prompt"):
            self.call = params
            self._work = asyncio.get_running_loop().create_task(self._do(message["id"], params))
        else:
            self._reply(message["id"], self._results(params).get(method))

    def _reply(self, id: Json, result: Json) -> None:
        refused = {"error": {"code": -32601, "message": "no such method"}}
        self.peer.send({"id": id, **(refused if result is None else {"result": result})})

    async def _do(self, id: Json, params: Json) -> None:
        await self.peer.request(self.method, {**self.params, **self._named(params)}, id=QUESTION)
        self._finish(id)

    def _finish(self, id: Json) -> None:
        self.over.set()
        self._reply(id, self._done())

    def _results(self, params: Json) -> Json:
        about = {"sessionId": "1", "app": {"id": "sim", "name": "Simulated"}}
        offered = {"initialize": {**about, "capabilities": [WORK]}, "capabilities/list": [WORK]}
        return {**offered, "shutdown": {}, "capabilities/cancel": {}}

    def _named(self, params: Json) -> Json:
        return {"operationId": params["options"]["callId"]}

    def _done(self) -> Json:
        return {"success": True, "data": {}}

    def withdraw(self) -> None:
        params = {"requestId": QUESTION, "reason": "not needed"}
        self.peer.send({"method": "notifications/elicitation/withdrawn", "params": params})


def _elicitation(question: Question) -> Json:
    if question.link:
        return {"elicitationId": "e", **question.request}
    required = [each.name for each in question.fields if each.required]
    schema = {**question.whole, "required": required}
    return {"mode": "form", "message": question.message, "requestedSchema": schema}


class LegacyServer(Asker):
    target = "mcp:sim"
    asks = (pairs.MCP, pairs.PRESUMED)

    def _encode(self, question: Question) -> tuple[str, Json]:
        if "messages" in question.request:
            return "sampling/createMessage", {"maxTokens": 9, **question.request}
        return "elicitation/create", _elicitation(question)

    def _results(self, params: Json) -> Json:
        hello = {"capabilities": {"tools": {}}, "serverInfo": INFO}
        hello["protocolVersion"] = params.get("protocolVersion")
        return {"initialize": hello, "ping": {}, "tools/list": {"tools": [self._tool]}}

    def _named(self, params: Json) -> Json:
        return {}

    def _done(self) -> Json:
        return {"content": [{"type": "text", "text": "done"}]}

    def withdraw(self) -> None:
        params = {"requestId": QUESTION, "reason": "not needed"}
        self.peer.send({"method": "notifications/cancelled", "params": params})
        self.peer.expect_nothing(QUESTION)


class ModernServer(LegacyServer):
    """An MCP server of 2026-07-28: what it asks is a result, which cannot be taken back."""

    can_withdraw = False

    def _results(self, params: Json) -> Json:
        kept = {**KEPT, "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        about = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}}
        return {"server/discover": about | kept, "tools/list": {"tools": [self._tool], **kept}}

    async def _do(self, id: Json, params: Json) -> None:
        if "requestState" in params:
            answer = {"result": params["inputResponses"]["k"]}
            self.peer.answered.setdefault(QUESTION, []).append(answer)
            self._finish(id)
        else:
            asked = {"k": {"method": self.method, "params": self.params}}
            round = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            self._reply(id, round)

    def _done(self) -> Json:
        return {**super()._done(), "resultType": "complete"}


class Agent(Asker):
    """An ACP agent: it asks for leave, or by a form."""

    target = "acp:sim"
    asks = (pairs.ACP, pairs.PRESUMED)
    capability = "agent.prompt"
    given: ClassVar[Json] = {"prompt": "Go."}

    @classmethod
    def asks_for(cls, pair: tuple[str, str]) -> bool:
        return pair[0] in cls.asks or pair == (pairs.MCP, "an address (url)")

    def _encode(self, question: Question) -> tuple[str, Json]:
        if question.kind is not Kind.SELECT:
            return "elicitation/create", _elicitation(question)
        tool = {"toolCallId": "t", "title": question.message}
        names = [str(each.value) for each in question.fields[0].choices]
        options = [{"optionId": each, "name": each, "kind": each} for each in names]
        return "session/request_permission", {"toolCall": tool, "options": options}

    def _results(self, params: Json) -> Json:
        hello = {"protocolVersion": 1, "agentInfo": INFO}
        return {"initialize": hello, "session/new": {"sessionId": "sim"}}

    def _named(self, params: Json) -> Json:
        return {"sessionId": "sim"}

    def _done(self) -> Json:
        return {"stopReason": "end_turn"}

    def withdraw(self) -> None:
        self.peer.send({"method": "$/cancel_request", "params": {"requestId": QUESTION}})


ASKERS: dict[str, type[Asker]] = {
    "ABP app": Asker,
    "MCP server, legacy": LegacyServer,
    "MCP server, modern": ModernServer,
    "ACP agent": Agent,
}
