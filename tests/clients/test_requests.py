"""What a program asks over a session of ours: answered once, and gone when it is taken back,
however its lines come.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import chain
from typing import Any

import anyio
import pytest

from abp_bridge.acp import agent_session as acp_session
from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe
from abp_bridge.jsonrpc.program_lines import DUPLICATE_ID
from abp_bridge.mcp.server_link import ServerLink
from abp_bridge.protocols.mcp.client import LEGACY, McpClientInfo

ASK: JsonObject = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "elicitation/create",
    "params": {"message": "Drop it?"},
}
ACCEPT: JsonObject = {"action": "accept", "content": {}}
HELLO: JsonObject = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}


class Program:
    """A program that a session of ours is held with, and the person who is asked what it asks."""

    def __init__(self) -> None:
        self.says = MemoryPipe(2**20)
        self.hears = MemoryPipe(2**20)
        self.asked = 0
        self.withdrawn = 0
        self.answered = anyio.Event()
        self.problems: list[str] = []

    async def say(self, *pieces: Sequence[JsonObject], apart: bool = True) -> None:
        """Each piece when the one before has been dealt with, or all of them in one."""
        for piece in pieces if apart else [list(chain(*pieces))]:
            data = b"".join(json.dumps(each).encode() + b"\n" for each in piece)
            assert self.says.write_nowait(data) == len(data)
            await anyio.wait_all_tasks_blocked()

    async def hear(self) -> JsonObject:
        return dict(json.loads(await self.hears.receive()))

    async def hear_all(self) -> list[JsonObject]:
        """What it has not heard yet, once nothing more is said."""
        self.hears.close()
        return [json.loads(line) for line in (await self.hears.receive()).splitlines()]

    # --- what the session tells of it

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Program]:
        self.stdout, self.stdin = self.says, self.hears
        yield self

    async def answer(self, method: str, params: JsonObject, *more: Any) -> JsonObject:
        self.asked += 1
        try:
            await self.answered.wait()
        except BaseException:
            self.withdrawn += 1
            raise
        return dict(ACCEPT)

    on_request = answer  # of an agent

    def passes(self, *result: Any) -> bool:
        raise AssertionError("the server asks by requests")

    async def visit(self, *error: Any) -> None:
        raise AssertionError("the server asks by requests")

    def on_notification(self, method: str, params: JsonObject | None) -> None: ...

    def on_malformed(self, reason: str, line: bytes = b"") -> None:
        self.problems.append(reason)

    def on_end(self) -> None: ...


@asynccontextmanager
async def server(program: Program) -> AsyncIterator[None]:
    client = McpClientInfo(LEGACY[0], {}, {})
    async with anyio.create_task_group() as tasks:
        link = ServerLink(program.open, program, tasks, eras=("legacy",), client=client)
        tasks.start_soon(link.connect)
        asked = await program.hear()
        await program.say([{"jsonrpc": "2.0", "id": asked["id"], "result": HELLO}])
        assert (await program.hear())["method"] == "notifications/initialized"
        yield
        await link.settle()
        await link.close()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def agent(program: Program) -> AsyncIterator[None]:
    async with acp_session.open_session(program.says, program.hears, program):
        yield


Opened = Callable[[Program], AbstractAsyncContextManager[None]]
SESSIONS = pytest.mark.parametrize(
    ("opened", "cancel"),
    [(server, "notifications/cancelled"), (agent, "$/cancel_request")],
    ids=["mcp", "acp"],
)


APART = pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "apart"])


@SESSIONS
@APART
@pytest.mark.slow
async def test_what_is_taken_back_is_asked_no_more(
    opened: Opened, cancel: str, apart: bool
) -> None:
    program = Program()
    taken_back: JsonObject = {"jsonrpc": "2.0", "method": cancel, "params": {"requestId": 5}}
    with anyio.fail_after(2):
        async with opened(program):
            await program.say([ASK], [taken_back], apart=apart)
            assert program.withdrawn == program.asked
            program.answered.set()
        assert ACCEPT not in [each.get("result") for each in await program.hear_all()]


@SESSIONS
@APART
@pytest.mark.slow
async def test_what_is_asked_twice_with_one_id_is_asked_and_answered_once(
    opened: Opened, cancel: str, apart: bool
) -> None:
    program = Program()
    with anyio.fail_after(2):
        async with opened(program):
            await program.say([ASK], [ASK], apart=apart)
            program.answered.set()
            assert (await program.hear())["result"] == ACCEPT
            await program.say([ASK])  # whose id is free now
            assert (await program.hear())["result"] == ACCEPT
        assert await program.hear_all() == []
    [problem] = program.problems
    assert problem == DUPLICATE_ID or "is in use" in problem
    assert program.asked == 2
