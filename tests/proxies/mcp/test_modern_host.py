"""What is measured of a modern host that a legacy server asks: its own time, and whether that is
the answer's; and what it hears of a call that it comes back for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.era_host import CLIENT, PREFIX

from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.surface import Surface
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe, write_all
from abp_bridge.mcp import tool_calls
from abp_bridge.mcp.proxy.modern_host import ModernHost
from abp_bridge.mcp.surfaces import McpSurfaces
from abp_bridge.protocols.mcp.server_elicitation import decode_form
from abp_bridge.session.context import NO_CONTEXT
from abp_bridge.session.surface import SurfaceResponse

Json = Any

pytestmark = pytest.mark.anyio

META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}}},
    f"{PREFIX}clientInfo": CLIENT,
    "progressToken": "p",
}


class Clock(MemoryPipe):
    """What a host says, and its time, which goes on when the test says so."""

    now = 1_000.0

    def peer_time(self) -> float:
        return self.now

    def arrived(self) -> float:
        return self.now


class Side:
    """One side, as the test plays it."""

    def __init__(self, said: MemoryPipe) -> None:
        self.said, self.heard = said, MemoryPipe(2**20)
        self._rest = b""

    async def say(self, **message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        await write_all(self.said, line)

    async def hear(self, **wanted: Json) -> Json:
        """The next message with these members."""
        with anyio.fail_after(30):
            while True:
                while b"\n" not in self._rest:
                    self._rest += await self.heard.receive()
                line, _, self._rest = self._rest.partition(b"\n")
                message = json.loads(line)
                if wanted.items() <= message.items():
                    return message


class Scene:
    """A modern host that calls a tool of a legacy server, which asks it."""

    def __init__(self, tasks: Any) -> None:
        self.clock = Clock()
        self.host, self.server = Side(self.clock), Side(MemoryPipe())
        self.modern = ModernHost(
            (self.clock, self.host.heard),
            (self.server.said, self.server.heard),
            tasks,
            pending_timeout=600,
            origin=str,
        )
        self.answers: dict[str, SurfaceResponse] = {}
        self._tasks = tasks
        self.last = 0  # id of a call
        self._call: Json = {"name": "t", "arguments": {}}
        tasks.start_soon(self.modern.translate)

    async def begin(self) -> None:
        """Call the tool, which the server has then."""
        await self.come_back()
        hello = await self.server.hear(method="initialize")
        can: Json = {"logging": {}}
        result = {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": {}}
        await self.server.say(id=hello["id"], result=result)
        await self.server.hear(method="tools/call")

    def ask(self, *names: str) -> None:
        """Ask the host by its call, as the proxy does."""
        for name in names:
            self._tasks.start_soon(self._ask, name)

    async def _ask(self, name: str) -> None:
        schema: Json = {"type": "object", "properties": {"s": {"type": "string"}}}
        question = decode_form({"message": name, "requestedSchema": schema}, id=name, origin="o")
        connection: Any = None  # a call takes it along
        surfaces = McpSurfaces(connection, connection, self.modern.find_pending)
        variant = SurfaceVariant(Surface.MCP_FORM, "2026-07-28")
        self.answers[name] = await surfaces.prompt(question, NO_CONTEXT, variant)

    async def asked(self) -> Json:
        """The next result that asks."""
        while "result" not in (message := await self.host.hear()):
            pass
        return message["result"]

    async def come_back(self, asked: Json = None, *names: str, **meta: Json) -> None:
        """Call the tool, again with the answers to these questions of what was `asked`."""
        retry: Json = {}
        if asked is not None:
            keys = [
                key
                for key, each in asked["inputRequests"].items()
                if each["params"]["message"].endswith(names)
            ]
            answers = {key: {"action": "accept", "content": {"s": "x"}} for key in keys}
            retry = {"requestState": asked["requestState"], "inputResponses": answers}
        params = {**self._call, **retry, "_meta": {**META, **meta}}
        self.last = next(IDS)
        await self.host.say(id=self.last, method="tools/call", params=params)

    async def until_answered(self, number: int) -> None:
        with anyio.fail_after(30):
            while len(self.answers) < number:
                await anyio.lowlevel.checkpoint()


IDS = count(1)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with anyio.create_task_group() as tasks:
        made = Scene(tasks)
        await made.begin()
        yield made
        tasks.cancel_scope.cancel()


async def test_only_the_hosts_own_time_is_measured() -> None:
    async with scene() as playing:
        playing.ask("one")
        playing.clock.now += 50  # until it is asked, is ours
        asked = await playing.asked()
        playing.clock.now += 3
        await playing.come_back(asked, "one")
        await playing.until_answered(1)
        answer = playing.answers["one"]
        assert (answer.seconds, answer.exact) == (3.0, True)


async def test_what_we_ask_the_server_before_is_not_the_hosts_time() -> None:
    async with scene() as playing:
        playing.ask("one")
        asked = await playing.asked()
        playing.clock.now += 0.1
        await playing.come_back(asked, "one", **{f"{PREFIX}logLevel": "debug"})
        told = await playing.server.hear(method="logging/setLevel")
        playing.clock.now += 7
        await playing.host.say(method="notifications/vendor/x")
        await playing.server.hear(method="notifications/vendor/x")
        await playing.server.say(id=told["id"], result={})
        await playing.until_answered(1)
        assert playing.answers["one"].seconds == pytest.approx(0.1)


async def test_an_answer_that_others_were_waited_for_with_is_not_exact() -> None:
    async with scene() as playing:
        playing.ask("one", "two")
        asked = await playing.asked()
        await playing.come_back(asked, "one")
        await playing.come_back(await playing.asked(), "two")
        await playing.until_answered(2)
        assert [playing.answers[each].exact for each in ("one", "two")] == [False, False]


async def test_one_call_too_many_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "MAX_CALLS", 1)
    async with scene() as playing:
        playing.ask("one")
        await playing.asked()
        await playing.come_back()
        said = (await playing.host.hear(id=playing.last))["error"]["message"]
        assert "Answer or cancel some of them first" in said
        assert "abp_wait" not in said
        assert "bug" not in said


async def test_progress_that_nobody_waited_for_is_told_to_who_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as playing:
        playing.ask("one")
        asked = await playing.asked()
        for value in (1, 2):
            params = {"progressToken": "p", "progress": value, "x-own": 1}
            await playing.server.say(method="notifications/progress", params=params)
        await playing.server.say(method="notifications/vendor/x", params={})
        await playing.host.hear(method="notifications/vendor/x")
        await playing.come_back(asked, "one")
        told = await playing.host.hear(method="notifications/progress")
        assert told["params"] == {"progressToken": "p", "progress": 2, "x-own": 1}
        playing.clock.close()
        with anyio.fail_after(30):
            while "gave way to newer ones unheard: 1" not in caplog.text:
                await anyio.lowlevel.checkpoint()
