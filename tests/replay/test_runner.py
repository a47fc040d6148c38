"""The sockets of a replay: however it ends, it ends quietly."""

from __future__ import annotations

import asyncio
import socket
import sys

import anyio
import pytest
from support.paths import FIXTURES

from abp_bridge.conformance import runner
from abp_bridge.conformance.format import parse_recordings
from abp_bridge.conformance.runner import play

SELECT = FIXTURES / "mcp-form" / "2025-11-25" / "select-many.jsonl"
DEAF = [sys.executable, "-c", "import sys; sys.stdin.read()"]


async def others() -> None:
    """Let the others go on until they wait."""
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.parametrize("said", [b"", b"app\n"], ids=["it has just come", "it speaks"])
async def test_replay_that_is_cancelled_as_a_stand_in_connects_is_quiet(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: bugs.append(context))
    with socket.socket(socket.AF_UNIX) as stand_in, anyio.CancelScope() as scope:

        async def converse(self: runner.Runner, *_: object) -> None:
            await others()
            stand_in.connect(self._workspace.socket)
            if said:
                await others()
                stand_in.sendall(said)
            loop.call_soon(scope.cancel)  # in the turn in which it shows
            await anyio.sleep_forever()

        monkeypatch.setattr(runner.Runner, "_converse", converse)
        await play(parse_recordings(SELECT.read_text())[0], DEAF, patience=1)
    assert scope.cancelled_caught
    assert bugs == []
