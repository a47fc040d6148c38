"""Attacks on `abp-bridge mcp` that were seen to work once: by a host, or by a server behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from simulation.joined import CALM, joined, run_virtual
from simulation.wires import Peer, Pipe, Weather
from support.mcp_proxy import FORM, Proxied, proxied

from abp_bridge.jsonrpc import protocol
from abp_bridge.jsonrpc.memory_pipe import write_all
from abp_bridge.mcp import server_link

Json = Any

CONFIRM = ("--confirm", "all", "--page", "off")
YES: Json = {"action": "accept", "content": {"confirm": True}}
CALL = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"say","arguments":%s}}'
ASKS: Json = {
    "message": "Your bank password?",
    "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}},
}
# A server that reads bytes detects the encoding of JSON (RFC 4627, section 3).
ENCODINGS = ("utf-16-be", "utf-16-le", "utf-32-be")


@contextmanager
def asking(folder: Path, *flags: str) -> Iterator[Proxied]:
    """A host that shows forms; what it writes is not checked."""
    with Proxied(folder, *(flags or ("--page", "off"))) as host:
        host.initialize(elicitation=FORM)
        host.result("tools/list")
        yield host


def write(host: Proxied, *lines: str, encoding: str = "utf-8") -> None:
    host.write(b"".join(encode(line, encoding) for line in lines))


def encode(line: str, encoding: str) -> bytes:
    end = b"\n" if encoding.endswith("le") else "\n".encode(encoding)  # for who strips a line
    return line.encode(encoding) + end


def heard_by(host: Proxied) -> list[str]:
    said = host.log_file.read_text().replace("\0", "")
    return [line for line in said.splitlines() if line.startswith("<")]


def names_twice(line: bytes) -> bool:
    found = False

    def look(members: list[tuple[str, Json]]) -> None:
        nonlocal found
        found |= len({name for name, _ in members}) < len(members)

    json.loads(line, object_pairs_hook=look)
    return found


# --- an answer or a call that the bridge reads otherwise than the server --------------------------

# How a host may spell an answer to a question that it was not asked: the server's has the id 0.
SPELLED: dict[str, str] = {
    "as it is": '{"jsonrpc":"2.0","id":0,"result":%s}',
    "an id that is a text": '{"jsonrpc":"2.0","id":"0","result":%s}',
    "an id that is false": '{"jsonrpc":"2.0","id":false,"result":%s}',
    "two ids": '{"jsonrpc":"2.0","id":0,"id":"abp-9","result":%s}',
    "an escape": '{"jsonrpc":"2.0","id":0,"re\\u0073ult":%s}',
    "other letters": '{"jsonrpc":"2.0","id":0,"Result":%s}',
    "a request": '{"jsonrpc":"2.0","id":0,"method":"ping","result":%s}',
    "in a batch": '[{"jsonrpc":"2.0","id":0,"result":%s}]',
    "nested too deeply": '{"jsonrpc":"2.0","id":0,"result":%s,"x":' + "[" * 9**5 + "]" * 9**5 + "}",
}


@pytest.mark.parametrize("spelling", SPELLED)
def test_answer_that_was_not_asked_of_the_host_is_dropped(spelling: str, tmp_path: Path) -> None:
    answer = SPELLED[spelling].replace("%s", json.dumps(YES))
    with asking(tmp_path) as host:
        write(host, answer)  # before its question, and after it
        call = host.begin_call("okta")
        question = host.asked()
        write(host, answer)
        host.wait_read()
        host.reply(question["id"], {"action": "decline"})
        assert host.text(call) == "cancelled"
        assert host.deeds == []


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_answer_in_another_encoding_is_refused(encoding: str, tmp_path: Path) -> None:
    with asking(tmp_path) as host:
        call = host.begin_call("okta")
        question = host.asked()
        write(host, json.dumps({"jsonrpc": "2.0", "id": 0, "result": YES}), encoding=encoding)
        host.wait_read()
        host.reply(question["id"], {"action": "decline"})
        assert host.text(call) == "cancelled"
        assert b"\0" not in host.read_by_server.read_bytes()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_call_in_another_encoding_never_passes_confirm(encoding: str, tmp_path: Path) -> None:
    with asking(tmp_path, *CONFIRM) as host:
        write(host, CALL % "{}", encoding=encoding)
        host.wait_read()
        assert b"\0" not in host.read_by_server.read_bytes()


@pytest.mark.parametrize(
    "value", ["1e999", "NaN", "-Infinity", "7" * 4_301], ids=["1e999", "NaN", "Infinity", "digits"]
)
def test_number_that_cannot_be_shown_is_an_error(value: str, tmp_path: Path) -> None:
    with asking(tmp_path, *CONFIRM) as host:
        write(host, CALL % f'{{"amount":{value}}}')
        assert host.response(5)["error"]["code"] == -32700
        host.wait_read()
        assert host.to_server("tools/call") == []


def test_user_approves_the_value_that_is_sent(tmp_path: Path) -> None:
    amount = int("7" * 300)
    with asking(tmp_path, *CONFIRM) as host:
        write(host, CALL % f'{{"amount":1,"lines":[],"amount":{amount}}}')
        question = host.asked()
        assert str(amount) in question["params"]["message"]
        host.reply(question["id"], {"action": "accept", "content": {"confirmed": "Allow"}})
        assert host.text(5) == "said"
        (given,) = host.to_server("tools/call")
        assert given["arguments"] == {"amount": amount, "lines": []}


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"okta"},"method":"ping"}',
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"okta","name":"look",'
        '"arguments":{"method":"roots/list","params":{},"params":{}}}}',
        '{"jsonrpc":"2.0","method":"tools/list","params":{"cursor":1,"cursor":"b"},"id":5,"id":6}',
    ],
)
def test_doubled_member_reaches_the_server_once(line: str, tmp_path: Path) -> None:
    with asking(tmp_path, "--confirm", "destructive", "--page", "off") as host:
        write(host, line)
        host.until(lambda message: message.get("id") in (5, 6) or "method" in message)
        assert not any(map(names_twice, host.lines_to_server()))
        assert host.to_server("tools/call") in (
            [],
            [{"name": "look", "arguments": {"method": "roots/list", "params": {}}}],
        )
        assert host.deeds == []


@pytest.mark.parametrize("name", ["AZURE", "azure ", "azure\u200b", ["azure"]])
def test_name_that_is_not_listed_never_passes_confirm(name: Json, tmp_path: Path) -> None:
    with asking(tmp_path, "--confirm", "azure", "--page", "off") as host:
        host.send("tools/call", {"name": name}, id=5)
        response = host.response(5)
        assert "error" in response or response["result"]["isError"]
        host.wait_read()
        assert host.to_server("tools/call") == []


@pytest.mark.parametrize("id", ["[5]", "null", "true", "{}"])
def test_call_with_an_invalid_id_is_refused(id: str, tmp_path: Path) -> None:
    with asking(tmp_path, *CONFIRM) as host:
        write(host, (CALL % "{}").replace("5", id, 1))
        refused = host.response(None)
        assert refused["error"]["code"] == -32600
        host.wait_read()
        assert host.to_server("tools/call") == []


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_unusual_line_ends_never_split_a_message(end: str, tmp_path: Path) -> None:
    """Python's text files, Node's readline and `str.splitlines` know more of them than JSON."""
    hidden = json.dumps({"x": end + CALL % "{}" + end, "lines": []}, ensure_ascii=False)
    with asking(tmp_path) as host:
        write(host, CALL % hidden)
        host.text(5)
        read = host.read_by_server.read_text(encoding="utf-8")
        assert read.splitlines() == read.split("\n")[:-1]


# --- what a server does ---------------------------------------------------------------------------


def test_question_over_the_limit_is_an_error_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "MAX_PASSED_LINE", 10_000)
    asked = {"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": ASKS}
    long = json.dumps({**asked, "x": "x" * 20_000})
    with proxied(tmp_path, "--without-person", "--page", "off") as host:
        assert host.text(host.begin_call("say", lines=[long + "\n"])) == "said"
        host.wait_read()
        (answer,) = [each for each in host.to_server() if each.get("id") == 900]
        assert answer["error"]["code"] == -32600
        assert not [line for line in heard_by(host) if "password" in line]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_question_in_another_encoding_never_reaches_the_host(encoding: str, tmp_path: Path) -> None:
    asked = {"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": ASKS}
    said = encode(json.dumps(asked), encoding).decode("latin-1")
    with proxied(tmp_path, "--without-person", "--page", "off") as host:
        assert host.text(host.begin_call("say", lines=[said])) == "said"
        host.wait_read()
        assert not [line for line in heard_by(host) if "password" in line]


# --- in memory, on a virtual clock ----------------------------------------------------------------

HELLO: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}
QUESTION: Json = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
ASK: Json = {"method": "elicitation/create", "params": QUESTION}
Script = Callable[[Pipe, Pipe], Coroutine[Any, Any, None]]


async def read(pipe: Pipe) -> AsyncIterator[Json]:
    rest = b""
    while data := await pipe.receive():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


async def say(pipe: Pipe, *messages: Json) -> None:
    await write_all(pipe, b"".join(json.dumps(each).encode() + b"\n" for each in messages))


def play(
    serve: Script,
    act: Callable[[Peer], Awaitable[None]],
    weather: Weather = CALM,
    *,
    overhear: Callable[[bytes], object] = lambda line: None,
    declines: bool = True,
) -> None:
    """Run a server and a host that has shaken hands, and end after `act`."""

    def answer(message: Json) -> None:
        if declines and message["method"] == "elicitation/create":
            host.send({"id": message["id"], "result": {"action": "decline"}})

    host: Peer

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            async with joined(
                lambda *pipes: tasks.start_soon(serve, *pipes), weather=weather, overhear=overhear
            ) as (to_host, from_host, _):
                nonlocal host
                host = Peer(to_host, from_host, answer)
                tasks.start_soon(host.run)
                shown = {"capabilities": {"elicitation": {}}, "clientInfo": Proxied.client}
                hello = {"protocolVersion": "2025-11-25", **shown}
                assert (await host.request("initialize", hello) or {})["result"] == HELLO
                await act(host)
            tasks.cancel_scope.cancel()

    run_virtual(run)


@pytest.mark.parametrize("seconds", [0, 0.02, 0.05, 0.1, 0.2, 0.3])
def test_question_of_a_server_whose_host_leaves_is_cancelled(seconds: float) -> None:
    """The first question is on its way, or is being prepared; the server waits for its answer."""
    heard: list[Json] = []

    async def serve(to_server: Pipe, from_server: Pipe) -> None:
        async for message in read(to_server):
            if message.get("method") == "initialize":
                await say(from_server, {"jsonrpc": "2.0", "id": message["id"], "result": HELLO})
            elif message.get("method") == "tools/call":
                await say(from_server, {"jsonrpc": "2.0", "id": 7, **ASK})
            elif "method" not in message:
                heard.append(message)

    async def call_and_leave(host: Peer) -> None:
        host.send({"id": 2, "method": "tools/call", "params": {"name": "act"}})
        await asyncio.sleep(seconds)
        host.hang_up()

    play(serve, call_and_leave, Weather(latency=0.1), declines=False)
    ((id, result),) = [(each["id"], each["result"]) for each in heard]
    assert (id, result["action"]) == (7, "cancel")


def test_server_that_writes_10000_questions_before_it_reads_gets_all_answers() -> None:
    answers: list[Json] = []

    async def serve(to_server: Pipe, from_server: Pipe) -> None:
        call: Json = None
        async for message in read(to_server):
            if message.get("method") == "initialize":
                await say(from_server, {"jsonrpc": "2.0", "id": message["id"], "result": HELLO})
            elif message.get("method") == "tools/call":
                call = message["id"]
                asks = [{"jsonrpc": "2.0", "id": id, **ASK} for id in range(10_000)]
                await say(from_server, *asks)
            elif "method" not in message:
                answers.append(message["id"])
                if len(answers) == 10_000:
                    await say(from_server, {"jsonrpc": "2.0", "id": call, "result": {}})

    async def call(host: Peer) -> None:
        assert "result" in (await host.request("tools/call", {"name": "act"}) or {})

    play(serve, call)
    assert sorted(answers) == [*range(10_000)]


def test_noise_of_a_server_before_its_hello_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 5_000
    parsed, parse, overheard = 0, protocol.parse, 0

    def count(line: bytes) -> Json:
        nonlocal parsed
        parsed += len(line)
        return parse(line)

    def overhear(line: bytes) -> None:
        nonlocal overheard
        overheard += len(line)

    monkeypatch.setattr(protocol, "parse", count)
    noise = b"Loading ...\n"

    async def serve(to_server: Pipe, from_server: Pipe) -> None:
        await write_all(from_server, noise * lines)
        async for message in read(to_server):
            if message.get("method") == "initialize":
                await say(from_server, {"jsonrpc": "2.0", "id": message["id"], "result": HELLO})

    async def leave(host: Peer) -> None:
        host.hang_up()

    play(serve, leave, overhear=overhear)
    assert overheard == lines * len(noise)
    assert parsed < lines * len(noise) + 1_000


def test_server_is_held_up_while_the_host_does_not_read() -> None:
    said, host_left = 0, False

    async def serve(to_server: Pipe, from_server: Pipe) -> None:
        nonlocal said
        async for message in read(to_server):
            if message.get("method") == "initialize":
                await say(from_server, {"jsonrpc": "2.0", "id": message["id"], "result": HELLO})
            elif message.get("method") == "tools/call":
                told = {"method": "notifications/message", "params": {"data": "x" * 10_000}}
                while not host_left:
                    await say(from_server, {"jsonrpc": "2.0", **told})
                    said += 10_000

    async def leave(host: Peer) -> None:
        nonlocal host_left
        host.stop_reading()
        host.send({"id": 2, "method": "tools/call", "params": {"name": "act"}})
        await asyncio.sleep(60)
        assert 10_000 < said < 1_000_000
        host_left = True
        host.hang_up()

    play(serve, leave)
