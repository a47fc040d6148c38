"""What an agent asks over a session of ours: answered once, and gone when it is taken back, however
its lines come.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import anyio
import pytest

from abp_bridge.acp.agent_session import open_session
from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe
from abp_bridge.jsonrpc.program_lines import DUPLICATE_ID

ASK: JsonObject = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "elicitation/create",
    "params": {"message": "Drop it?"},
}
ACCEPT: JsonObject = {"action": "accept", "content": {}}


class Program:
    """An agent that a session of ours is held with, and the person who is asked what it asks."""

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

    async def on_request(self, method: str, params: JsonObject, *more: Any) -> JsonObject:
        self.asked += 1
        try:
            await self.answered.wait()
        except BaseException:
            self.withdrawn += 1
            raise
        return dict(ACCEPT)

    def on_notification(self, method: str, params: JsonObject | None) -> None: ...

    def on_malformed(self, reason: str, line: bytes = b"") -> None:
        self.problems.append(reason)

    def on_end(self) -> None: ...


APART = pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "apart"])


@APART
@pytest.mark.slow
async def test_what_is_taken_back_is_asked_no_more(apart: bool) -> None:
    program = Program()
    cancel = "$/cancel_request"
    taken_back: JsonObject = {"jsonrpc": "2.0", "method": cancel, "params": {"requestId": 5}}
    with anyio.fail_after(2):
        async with open_session(program.says, program.hears, program):
            await program.say([ASK], [taken_back], apart=apart)
            assert program.withdrawn == program.asked
            program.answered.set()
        assert ACCEPT not in [each.get("result") for each in await program.hear_all()]


@APART
@pytest.mark.slow
async def test_what_is_asked_twice_with_one_id_is_asked_and_answered_once(apart: bool) -> None:
    program = Program()
    with anyio.fail_after(2):
        async with open_session(program.says, program.hears, program):
            await program.say([ASK], [ASK], apart=apart)
            program.answered.set()
            assert (await program.hear())["result"] == ACCEPT
            await program.say([ASK])  # whose id is free now
            assert (await program.hear())["result"] == ACCEPT
        assert await program.hear_all() == []
    assert program.problems == [DUPLICATE_ID]
    assert program.asked == 2
