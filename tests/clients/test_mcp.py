"""A server over HTTP, as lines: values arrive as they were sent, or it is said why not."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.http_server import Reply
from support.sql_server import BIG, SERVER, TOKEN, TOOL, SqlServer, sql_server

from abp_bridge.jsonrpc.memory_pipe import write_all
from abp_bridge.mcp import client as mcp
from abp_bridge.mcp.client import HttpServer, connect

Json = Any

pytestmark = pytest.mark.network

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
}


class Lines:
    """Speaks lines with a connected server."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.rest = b""

    async def say(self, message: Json) -> None:
        await write_all(self.server.stdin, json.dumps(message).encode() + b"\n")

    async def hear(self) -> Json:
        while b"\n" not in self.rest:
            data = await self.server.stdout.receive()
            assert data, "it ended"
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    async def ask(self, method: str, params: Json, id: Json = 1) -> Json:
        await self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        answer = await self.hear()
        assert answer["id"] == id
        return answer


@asynccontextmanager
async def connected(url: str, token: str = TOKEN) -> AsyncIterator[Lines]:
    with anyio.fail_after(20):
        async with connect(url, headers={"Authorization": f"Bearer {token}"}) as server:
            yield Lines(server)


@pytest.fixture
def server() -> Iterator[SqlServer]:
    with sql_server() as running:
        yield running


async def test_what_a_server_says_arrives_as_it_was_said(server: SqlServer) -> None:
    async with connected(server.url) as lines:
        found = await lines.ask("server/discover", {"_meta": ENVELOPE}, "d")
        assert found["result"]["capabilities"]["experimental"] == {"vendor/x": {"a": BIG}}
        assert found["result"]["ttlMs"] == 1000
        listed = await lines.ask("tools/list", {"_meta": ENVELOPE}, 0)
        assert listed["result"]["tools"] == [TOOL]
        assert listed["result"]["_meta"] == {"io.modelcontextprotocol/serverInfo": SERVER}
        error = await lines.ask("vendor/thing", {"_meta": ENVELOPE, "k": BIG})
        assert error["error"] == {
            "code": -32601,
            "message": "nf vendor/thing",
            "data": {"keep": 1},
        }
        assert server.heard[-1][1]["params"] == {"_meta": ENVELOPE, "k": BIG}


async def test_a_question_and_its_state_come_and_go_to_the_byte(server: SqlServer) -> None:
    call = {"name": "execute_sql", "arguments": {"query": "DROP TABLE ü"}, "_meta": ENVELOPE}
    async with connected(server.url) as lines:
        asked = (await lines.ask("tools/call", call))["result"]
        assert asked["requestState"] == server.sign("DROP TABLE ü")
        retry = {
            "requestState": asked["requestState"],
            "inputResponses": {"confirm": {"action": "accept", "content": {}}},
        }
        done = (await lines.ask("tools/call", {**call, **retry}, 2))["result"]
        assert done["x"] == BIG
        assert server.ran == ["DROP TABLE ü"]


@pytest.mark.parametrize("moved", [False, True], ids=["there", "led on"])
async def test_what_was_said_last_arrives_though_who_said_it_is_cancelled(
    server: SqlServer, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "FAREWELL", 20.0)  # a busy machine is slow
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    last: list[Json] = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    last += [{"jsonrpc": "2.0", "id": id, "result": {"action": "cancel"}} for id in range(3)]
    server.moved = moved
    with anyio.CancelScope() as scope:
        async with connected(server.url) as lines:
            assert "result" in await lines.ask("initialize", hello)
            for each in last:
                await lines.say(each)
            scope.cancel()
            await anyio.sleep_forever()
    assert [message for _, message in server.heard[-4:]] == last


async def test_the_headers_say_what_the_revisions_want(server: SqlServer) -> None:
    arguments = {"query": "SELECT 1", "region": "Zürich"}
    call = {"name": "execute_sql", "arguments": arguments, "_meta": ENVELOPE}
    async with connected(server.url) as lines:
        await lines.ask("tools/list", {"_meta": ENVELOPE})
        await lines.ask("tools/call", call, 2)
        headers = {name.lower(): value for name, value in server.heard[-1][0].items()}
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert headers["mcp-method"] == "tools/call"
        assert headers["mcp-name"] == "execute_sql"
        assert headers["mcp-param-region"].startswith("=?base64?")


async def test_a_handshake_is_carried_on_in_the_headers(server: SqlServer) -> None:
    async with connected(server.url) as lines:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        await lines.ask("initialize", hello)
        await lines.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await lines.ask("tools/list", {}, 2)
        first, *others = [
            {name.lower(): value for name, value in headers.items()} for headers, _ in server.heard
        ]
        assert "mcp-protocol-version" not in first
        assert {each["mcp-protocol-version"] for each in others} == {"2025-11-25"}


async def test_a_refusal_is_told_with_its_status_and_ends_nothing(server: SqlServer) -> None:
    async with connected(server.url, "wrong") as lines:
        for id in (1, 2):
            answer = await lines.ask("tools/list", {}, id)
            assert "HTTP 401: no token" in answer["error"]["message"]


GZIP = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b'{"jsonrpc": "2.0", "id": 1, "result"', breaks_off=True),
        Reply(b'{"jsonrpc": "2.0", "id": 1, "error"', status=400, breaks_off=True),
        Reply(b"no", "text/plain", 500, breaks_off=True),
        Reply(b"no gzip", "text/plain", 500, headers=GZIP),
    ],
)
async def test_an_answer_that_breaks_off_is_an_error_and_no_end(
    server: SqlServer, reply: Reply
) -> None:
    async with connected(server.url) as lines:
        server.instead = [reply]
        error = (await lines.ask("tools/list", {"_meta": ENVELOPE}))["error"]
        assert "the server's answer broke off" in error["message"]
        assert "data" not in error
        assert "result" in await lines.ask("tools/list", {"_meta": ENVELOPE}, 2)


BUSY = Reply(b"busy", "text/plain", 503)


@pytest.mark.parametrize("failures", [1, 3])
async def test_what_a_person_answers_is_sent_until_it_arrives(
    server: SqlServer, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "RETRY_DELAYS", (0.0, 0.0, 0.0))
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"action": "accept", "content": {}}}
    server.to_answers = [BUSY] * failures
    async with connected(server.url) as lines:
        await lines.say(answer)
        await lines.ask("tools/list", {"_meta": ENVELOPE})
    assert [said for _, said in server.heard if said == answer] == [answer] * (failures + 1)


async def test_an_answer_that_broke_off_was_taken(server: SqlServer) -> None:
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"action": "cancel"}}
    server.to_answers = [Reply(b"{", breaks_off=True)]
    async with connected(server.url) as lines:
        await lines.say(answer)
        await lines.ask("tools/list", {"_meta": ENVELOPE})
    assert [said for _, said in server.heard if said == answer] == [answer]


@pytest.mark.parametrize("status", [200, 400])
async def test_a_reply_without_an_end_holds_nothing_back(
    server: SqlServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "ERROR_LIMIT", 0.1)
    server.to_answers = [Reply(b"{", status=status, on_left=lambda: None)]
    async with connected(server.url) as lines:
        await lines.say({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}})
        assert "result" in await lines.ask("tools/list", {"_meta": ENVELOPE})


async def test_the_reply_to_an_answer_that_was_sent_again_is_let_go(
    server: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "RETRY_DELAYS", (0.0,))
    left = threading.Event()
    server.to_answers = [BUSY, Reply(b"{", on_left=left.set)]
    async with connected(server.url) as lines:
        await lines.say({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}})
        assert await anyio.to_thread.run_sync(left.wait, 20)


async def test_an_answer_that_never_arrives_is_told_of(
    server: SqlServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp, "RETRY_DELAYS", (0.0,))
    server.to_answers = [BUSY] * 2
    async with connected(server.url) as lines:
        await lines.say({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}})
        assert "result" in await lines.ask("tools/list", {"_meta": ENVELOPE})
    assert server.to_answers == []
    assert "the server did not take an answer (HTTP 503)" in caplog.text


async def test_a_server_that_is_not_there_is_an_error_and_no_end() -> None:
    async with connected("http://127.0.0.1:9/mcp") as lines:
        for id in (1, 2):
            answer = await lines.ask("tools/list", {}, id)
            assert "cannot be reached" in answer["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1.5, "method": "tools/list"},
        {"id": 1, "method": "tools/list", "params": [1]},
        {"id": 1, "method": "vendor/\ud800", "params": {"half": "\ud800"}},
        {"id": 1, "method": "tools/list", "params": {"deep": json.loads("[" * 300 + "]" * 300)}},
    ],
    ids=["a fraction", "a list", "half a letter", "too deep"],
)
async def test_what_http_cannot_carry_is_refused(server: SqlServer, message: Json) -> None:
    async with connected(server.url) as lines:
        await lines.say({"jsonrpc": "2.0", **message})
        answer = await lines.hear()
        assert answer["id"] == message["id"]
        assert "cannot be sent over HTTP" in answer["error"]["message"]
        assert server.heard == []


async def test_a_dropped_member_is_logged(
    server: SqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server.url) as lines:
        await lines.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "x-own": 1})
        await lines.hear()
    assert "not sent over HTTP: x-own" in caplog.text
