"""What passes between a client and its agent: value for value, in order, and of responses those to
open requests. What is no message is an error at the entrance.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.acp_harness import FORM, check_params
from support.acp_proxy import CONFIRM, compact, proxied
from support.harness import PATIENCE

from abp_bridge.acp.proxy import proxy
from abp_bridge.acp.proxy.proxy import Proxy
from abp_bridge.jsonrpc.connection import MAX_PASSED
from abp_bridge.jsonrpc.memory_pipe import ROOM, MemoryPipe, write_all
from abp_bridge.jsonrpc.protocol import END

Json = Any


class End:
    """One end of the proxy: what it writes, and what it hears."""

    def __init__(self) -> None:
        self.spoken, self.heard = MemoryPipe(), MemoryPipe()
        self._rest = b""

    @property
    def streams(self) -> tuple[MemoryPipe, MemoryPipe]:
        return self.spoken, self.heard

    def write(self, *lines: str) -> None:
        data = "".join(line + "\n" for line in lines).encode()
        assert self.spoken.write_nowait(data) == len(data)

    def send(self, *messages: Json, **message: Json) -> None:
        """Write some messages at once, or one."""
        self.write(*(compact({"jsonrpc": "2.0", **each}) for each in messages or [message]))

    async def line(self) -> bytes:
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                data = await self.heard.receive()
                assert data, "the proxy ended"
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def next(self) -> Json:
        return json.loads(await self.line())

    async def until(self, method: str) -> Json:
        while (message := await self.next()).get("method") != method:
            pass
        return message


class Asking:
    """Shows each question as a request of the proxy's own; the user does not answer."""

    def __init__(self, surfaces: Json) -> None:
        self._surfaces = surfaces

    async def resolve(self, question: Json, context: Json) -> Json:
        await self._surfaces.prompt(question, context, self._surfaces.variants()[0])


@asynccontextmanager
async def joined(
    capabilities: Json = None, noise: list[bytes] | None = None
) -> AsyncIterator[tuple[End, End]]:
    """A client and an agent that know each other, with session s1 and its prompt 2 running."""
    client, agent = End(), End()
    noise = [] if noise is None else noise
    page: Any = None
    async with anyio.create_task_group() as tasks:
        joint = Proxy(
            client.streams,
            agent.streams,
            prefix="abp-test-",
            agent_name="the agent",
            make_elicitor=Asking,
            page=page,
            endpoints=None,
            on_noise=noise.append,
        )
        tasks.start_soon(joint.run)
        params = {"protocolVersion": 1, "clientCapabilities": capabilities or {}}
        client.send(id=0, method="initialize", params=params)
        agent.send(id=(await agent.next())["id"], result={"protocolVersion": 1})
        client.send(id=1, method="session/new", params={"cwd": "/", "mcpServers": []})
        agent.send(id=(await agent.next())["id"], result={"sessionId": "s1"})
        client.send(id=2, method="session/prompt", params={"sessionId": "s1", "prompt": []})
        await agent.next()
        assert [(await client.next())["id"] for _ in range(2)] == [0, 1]
        yield client, agent
        tasks.cancel_scope.cancel()


LAST = {"jsonrpc": "2.0", "method": "_last"}

QUESTION = {"sessionId": "s1", **CONFIRM["elicit"]}
ACCEPT = {"action": "accept", "content": {"ok": True}}


async def test_client_cannot_answer_a_question_it_was_not_asked() -> None:
    """The agent's question is ours to ask: its id is not open at the client."""
    async with joined() as (client, agent):
        agent.send(id="q", method="elicitation/create", params=QUESTION)
        await client.until("session/request_permission")
        agent.send(id=7, method="fs/read_text_file", params={"sessionId": "s1", "path": "/x"})
        await client.until("fs/read_text_file")
        client.send(id="q", result=ACCEPT)
        client.send(id=7, result={"content": "first"})
        client.send(id=7, result={"content": "second"})
        client.send(LAST)
        first = {"jsonrpc": "2.0", "id": 7, "result": {"content": "first"}}
        assert [await agent.next(), await agent.next()] == [first, LAST]


def elicit(id: str, params: Json = QUESTION) -> str:
    return f'"id":{id},"method":"elicitation/create","params":{compact(params)}'


DISGUISES = {
    "an escaped method": elicit('"q"').replace("elicitation", r"\u0065licitation"),
    "another mode": elicit('"q"', {**QUESTION, "mode": "FORM"}),
    "the id null": elicit("null"),
    "a list as id": elicit('["q"]'),
    "no id": elicit("0").removeprefix('"id":0,'),
    "duplicate members": '"method":"x",' + elicit('"q"'),
    "params in a list": elicit('"q"', [QUESTION]),
}


@pytest.mark.parametrize("case", DISGUISES)
async def test_disguised_form_never_reaches_a_client_without_forms(case: str) -> None:
    """Its user may be asked by a permission of ours."""
    async with joined() as (client, agent):
        agent.write('{"jsonrpc":"2.0",' + DISGUISES[case] + "}", compact(LAST))
        while (heard := await client.next()) != LAST:
            assert heard["method"] in ("session/update", "session/request_permission")


# A line, and how it is written again.
VALUES = {
    "spaces and a carriage return": (
        '{ "jsonrpc" : "2.0" , "method" : "a" , "params" : { "n" : [ ] } } \r',
        '{"jsonrpc":"2.0","method":"a","params":{"n":[]}}',
    ),
    "no version": ('{"method":"a"}', '{"jsonrpc":"2.0","method":"a"}'),
    "a list as params": (
        '{"jsonrpc":"2.0","method":"a","params":[1,null,true]}',
        '{"jsonrpc":"2.0","method":"a","params":[1,null,true]}',
    ),
    "duplicate members": (
        '{"jsonrpc":"2.0","method":"a","method":"b","params":{"a":1,"a":2}}',
        '{"jsonrpc":"2.0","method":"b","params":{"a":2}}',
    ),
    "numbers": (
        '{"jsonrpc":"2.0","method":"a","params":[12345678901234567890123,-0.0,1.5,1e5]}',
        '{"jsonrpc":"2.0","method":"a","params":[12345678901234567890123,-0.0,1.5,100000.0]}',
    ),
    "escapes": (
        r'{"jsonrpc":"2.0","method":"\u0061","params":["\u00e9\/\u200b\n\ud83d\ude00"]}',
        '{"jsonrpc":"2.0","method":"a","params":["é/\u200b\\n😀"]}',
    ),
    "half of a character": (
        r'{"jsonrpc":"2.0","method":"a","params":["\ud800"]}',
        r'{"jsonrpc":"2.0","method":"a","params":["\ud800"]}',
    ),
    "line ends of other readers": (
        '{"jsonrpc":"2.0","method":"a","params":["\x85\u2028\u2029"]}',
        r'{"jsonrpc":"2.0","method":"a","params":["\u0085\u2028\u2029"]}',
    ),
    "a byte order mark": ('\ufeff{"jsonrpc":"2.0","method":"a"}', '{"jsonrpc":"2.0","method":"a"}'),
    "many levels": (
        '{"jsonrpc":"2.0","method":"a","params":' + "[" * 300 + "]" * 300 + "}",
        '{"jsonrpc":"2.0","method":"a","params":' + "[" * 300 + "]" * 300 + "}",
    ),
}


@pytest.mark.parametrize("case", VALUES)
async def test_message_passes_value_for_value(case: str) -> None:
    line, written = VALUES[case]
    async with joined() as ends:
        for speaker, reader in (ends, ends[::-1]):
            speaker.write(line)
            assert (await reader.line()).decode() == written


async def test_request_and_its_whole_answer_pass_under_the_same_id() -> None:
    error = {"code": -32000, "message": "Sign in", "data": {"methods": ["a"]}, "more": 1}
    async with joined() as ends:
        for speaker, reader in (ends, ends[::-1]):
            for id in (12345678901234567890123, "x", 1.5, "abp-test-1"):
                speaker.send(id=id, method="_a")
                assert await reader.next() == {"jsonrpc": "2.0", "id": id, "method": "_a"}
                reader.send(id=id, error=error)
                assert await speaker.next() == {"jsonrpc": "2.0", "id": id, "error": error}
            speaker.send(id="x", method="_b", params={})
            await reader.next()
            reader.send(id="x", result=None)
            assert await speaker.next() == {"jsonrpc": "2.0", "id": "x", "result": None}


async def test_cancellation_passes_with_its_parameters() -> None:
    params = {"requestId": 2, "_meta": {"why": "slow"}}
    async with joined() as ends:
        for speaker, reader in (ends, ends[::-1]):
            speaker.send(method="$/cancel_request", params=params)
            assert (await reader.next())["params"] == params


async def test_large_messages_pass() -> None:
    async with joined() as (client, agent), anyio.create_task_group() as tasks:
        update = {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"text": "x" * 20_000_000},
        }
        tasks.start_soon(write_all, agent.spoken, compact(update).encode() + b"\n")
        assert await client.next() == update


INVALID = {
    "no JSON": b"hello",
    "NaN": b'{"jsonrpc":"2.0","method":"a","params":[NaN]}',
    "a number out of range": b'{"jsonrpc":"2.0","method":"a","params":[1e999]}',
    "another encoding": '{"jsonrpc":"2.0","method":"a"}'.encode("utf-16"),
    "invalid UTF-8": b'{"jsonrpc":"2.0","method":"a","params":["\xff"]}',
    "too many levels": b'{"jsonrpc":"2.0","method":"a","params":'
    + b"[" * 5_000
    + b"]" * 5_000
    + b"}",
    "a batch": b'[{"jsonrpc":"2.0","method":"a"}]',
    "no method": b'{"jsonrpc":"2.0","params":{}}',
    "a number as method": b'{"jsonrpc":"2.0","method":1}',
    "text as params": b'{"jsonrpc":"2.0","method":"a","params":"x"}',
    "another version": b'{"jsonrpc":"1.0","method":"a"}',
}


@pytest.mark.parametrize("case", INVALID)
async def test_invalid_line_of_the_client_is_an_error(case: str) -> None:
    async with joined() as (client, agent):
        await write_all(client.spoken, INVALID[case] + b"\n")
        assert (await client.next())["error"]["code"] in (-32700, -32600)
        client.send(LAST)
        assert await agent.next() == LAST


@pytest.mark.parametrize("case", INVALID)
async def test_invalid_line_of_the_agent_goes_to_the_log(case: str) -> None:
    noise: list[bytes] = []
    async with joined(noise=noise) as (client, agent):
        await write_all(agent.spoken, INVALID[case] + b"\n")
        agent.send(LAST)
        assert await client.next() == LAST
        client.send(LAST)
        assert await agent.next() == LAST, "a reply would be of no use to it"
        cut = b" ... (cut)" if len(INVALID[case]) > END else b""
        assert b"".join(noise) == INVALID[case][:END] + cut + b"\n"


async def test_invalid_request_of_the_agent_is_answered() -> None:
    async with joined() as (_, agent):
        agent.write('{"jsonrpc":"2.0","id":"x","method":7}')
        assert (await agent.next())["id"] == "x"


async def test_request_id_in_use_is_an_error() -> None:
    async with joined() as (client, agent):
        client.send(id=2, method="_a")
        answer = await client.next()
        assert (answer["id"], "in use" in answer["error"]["message"]) == (None, True)
        agent.send(id=2, result={"stopReason": "end_turn"})
        assert (await client.next())["result"] == {"stopReason": "end_turn"}


async def test_message_never_overtakes_another() -> None:
    async with joined() as ends:
        for speaker, reader in (ends, ends[::-1]):
            reader.send(*({"id": f"r{number}", "method": "_r"} for number in range(10)))
            for _ in range(10):
                await speaker.next()
            sent: list[Json] = []
            for number in range(10):
                sent.append({"method": "_n", "params": [number]})
                sent.append({"id": f"r{number}", "result": number})
                sent.append({"id": f"q{number}", "method": "_q"})
            speaker.send(*sent)
            heard = [await reader.next() for _ in sent]
            assert heard == [{"jsonrpc": "2.0", **each} for each in sent]
            reader.send(*({"id": f"q{number}", "result": {}} for number in range(10)))
            for _ in range(10):
                await speaker.next()


async def test_nothing_overtakes_the_end_of_a_prompt() -> None:
    """Its open question is taken down first, which takes a moment."""
    async with joined() as (client, agent):
        agent.send(id="q", method="elicitation/create", params=QUESTION)
        asked = await client.until("session/request_permission")
        client.send(id=3, method="_a")
        await agent.next()
        later: list[Json] = [
            {"id": 2, "result": {"stopReason": "end_turn"}},
            {"method": "session/update", "params": {"n": 1}},
            {"id": 3, "result": {}},
            {"id": 4, "method": "fs/read_text_file", "params": {"path": "/x"}},
            {"method": "session/update", "params": {"n": 2}},
        ]
        agent.send(*later)
        assert (await client.next())["params"] == {"requestId": asked["id"]}
        assert (await client.next())["params"]["update"]["status"] == "failed"
        assert [await client.next() for _ in later] == [{"jsonrpc": "2.0", **x} for x in later]
        assert (await agent.next())["result"]["action"] == "cancel"


async def test_agent_that_ends_leaves_errors_for_open_requests() -> None:
    async with joined() as (client, agent):
        client.send(id=3, method="_a")
        await agent.next()
        await write_all(agent.spoken, compact(LAST).encode())
        agent.spoken.close()
        assert await client.next() == LAST, "its last line has no end"
        answers = [await client.next(), await client.next()]
        assert [(each["id"], each["error"]["code"]) for each in answers] == [
            (2, -32603),
            (3, -32603),
        ]


async def test_client_that_leaves_ends_a_proxy_whose_agent_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, "DRAIN", 0.01)
    async with joined() as (client, _):
        update = compact({**LAST, "params": ["x" * 1000]}).encode() + b"\n"
        while client.spoken.write_nowait(update):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
        client.spoken.close()
        with anyio.fail_after(PATIENCE):
            await client.heard.wait_closed()


async def test_response_too_deep_to_be_written_is_an_error() -> None:
    async with joined() as (client, agent):
        client.send(id=3, method="_a")
        await agent.next()
        agent.write('{"jsonrpc":"2.0","id":3,"result":' + "[" * 50_000 + "]" * 50_000 + "}")
        assert "too deep" in (await client.next())["error"]["message"]


async def test_flood_at_a_client_that_does_not_read_is_bounded() -> None:
    update = compact({**LAST, "params": ["x" * 1000]}).encode() + b"\n"
    async with joined() as (_, agent):
        sent = 0
        while (taken := agent.spoken.write_nowait(update)) and sent < 10 * ROOM:
            sent += taken
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
        assert sent < 4 * ROOM + MAX_PASSED


# --- what is changed ---


async def test_initialize_adds_forms_for_a_client_without_them() -> None:
    async with proxied() as client:
        meta = (await client.initialize({"fs": {"readTextFile": True}}))["_meta"]
        sent = client.wire.received()[0]
        sent["params"]["clientCapabilities"]["elicitation"] = {"form": {}}
        assert json.loads(meta["line"]) == sent


@pytest.mark.parametrize(
    ("capabilities", "version"), [(FORM, 1), ({}, 2)], ids=["it has forms", "another version"]
)
async def test_initialize_of_other_clients_is_unchanged(capabilities: Json, version: int) -> None:
    async with proxied() as client:
        meta = (await client.initialize(capabilities, version=version))["_meta"]
        assert json.loads(meta["line"]) == client.wire.received()[0]


async def test_session_without_an_app_passes_unchanged() -> None:
    async with proxied() as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        assert json.loads(result["_meta"]["line"]) == client.wire.received()[-1]


async def test_session_with_an_app_gets_one_more_server() -> None:
    theirs = {"name": "abp", "command": "theirs", "args": [], "env": []}
    async with proxied("--app", "demo") as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": [theirs]})
        params = json.loads(result["_meta"]["line"])["params"]
        first, ours = params["mcpServers"]
        assert (first, params["cwd"]) == (theirs, "/")
        check_params("session/new", {"cwd": "/", "mcpServers": [ours]})
        assert ours["name"] == "abp-2"
        folder = Path(ours["args"][-1]).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert ours["env"][0]["value"] not in str(ours["args"])
    assert not folder.exists()


async def test_other_protocol_version_passes_unchanged() -> None:
    async with proxied("--app", "demo") as client:
        await client.initialize(version=2)
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        assert "relay" not in result["_meta"]["line"]
