"""A session with an MCP server, from its end: whatever the server does then."""

from __future__ import annotations

import json

import anyio.lowlevel
import pytest

from abp_bridge.core.json_value import JsonObject
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.mcp.client_session import Beat, open_session

LINE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}


class Talkative(ByteReader):
    """A server that never stops to talk."""

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return json.dumps(LINE).encode() + b"\n"

    def close(self) -> None:
        raise AssertionError("the streams are their owner's")


class Deaf(ByteWriter):
    """Takes all that is sent to it."""

    def write_nowait(self, data: bytes | memoryview) -> int:
        return len(data)

    async def writable(self) -> None:
        raise AssertionError("all is taken at once")

    def close(self) -> None:
        raise AssertionError("the streams are their owner's")


class Listener:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard = 0
        self.ends = 0

    async def on_request(self, method: str, params: JsonObject, beat: Beat) -> JsonObject | None:
        raise AssertionError("nothing is asked")

    def on_notification(self, method: str, params: JsonObject) -> None:
        self.heard += 1

    def on_malformed(self, reason: str) -> None:
        raise AssertionError(reason)

    def on_end(self) -> None:
        self.ends += 1


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 20])
async def test_a_session_ends_while_the_server_talks(turns: int) -> None:
    listener = Listener()
    async with open_session(Talkative(), Deaf(), listener, has_roots=False, can_sample=False):
        while listener.heard < turns:
            await anyio.lowlevel.checkpoint()
    assert listener.ends <= 1
