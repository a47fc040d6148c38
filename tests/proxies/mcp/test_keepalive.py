"""What a host hears of a call while its person is asked: that it still runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.harness import PATIENCE

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe, write_all
from abp_bridge.mcp.proxy import proxy
from abp_bridge.mcp.proxy.keepalive import KeepaliveElicitor
from abp_bridge.mcp.proxy.router import Policy
from abp_bridge.session.context import AskContext

Json = Any

PROGRESS = "notifications/progress"
TOKEN: Json = {"_meta": {"progressToken": "t"}}


class Host:
    """Keeps what it is told."""

    def __init__(self, version: str = "2025-11-25") -> None:
        self.rpc = self.client = self
        self.version = version
        self.heard: list[Json] = []

    def notify(self, method: str, params: Json, *, key: Json) -> None:
        assert method == PROGRESS
        assert key == ("progress", params["progressToken"])
        self.heard.append(params)


class Person:
    """Answers when it is told to, or never does."""

    def __init__(self) -> None:
        self.answering = anyio.Event()

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        await self.answering.wait()
        return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {})


QUESTION = Question("q", Kind.CONFIRM, "Go on?", (), "server")


def asked(*calls: str) -> AskContext:
    return AskContext(calls=calls)


async def until(heard: list[Json], count: int) -> list[Json]:
    while len(heard) < count:
        await anyio.lowlevel.checkpoint()
    return heard


@pytest.mark.anyio
async def test_reports_rise_above_the_servers_own_until_there_is_an_answer() -> None:
    host, person = Host(), Person()
    async with anyio.create_task_group() as tasks:
        beats = KeepaliveElicitor(person, host, tasks, interval=0)  # type: ignore[arg-type]
        beats.begin(1, TOKEN)
        beats.begin(2, {"_meta": {"progressToken": "other"}})
        beats.learn({"progressToken": "t", "progress": 3, "total": 10})
        tasks.start_soon(beats.resolve, QUESTION, asked("1"))
        await until(host.heard, 2)
        beats.learn({"progressToken": "t", "progress": 10**15, "total": 10**16})
        beats.learn({"progressToken": "t", "progress": 4})
        await until(host.heard, len(host.heard) + 2)
        beats.begin(1, TOKEN)  # once more, when it was allowed
        await until(host.heard, len(host.heard) + 2)
        person.answering.set()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        after = len(host.heard)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert len(host.heard) == after
    values = [each["progress"] for each in host.heard]
    assert values == sorted(set(values))
    assert 3 < values[0] < values[1] < 3.001
    assert values[-1] > 10**15
    assert {each["progressToken"] for each in host.heard} == {"t"}
    assert {each["total"] for each in host.heard} == {10, 10**16}


@pytest.mark.anyio
async def test_how_far_a_model_is_is_told_as_long_as_it_answers() -> None:
    host, person = Host(), Person()
    async with anyio.create_task_group() as tasks:
        beats = KeepaliveElicitor(person, host, tasks, interval=0)  # type: ignore[arg-type]
        beats.begin(1, TOKEN)
        tasks.start_soon(beats.resolve, QUESTION, asked("1"))
        await until(host.heard, 1)
        beats.on_model_progress(["2"], "cli:other is at work")
        beats.on_model_progress(["1"], "cli:claude has written 5 characters")
        before = len(host.heard)
        await until(host.heard, before + 1)
        person.answering.set()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        words = [each["message"] for each in host.heard]
        person.answering = anyio.Event()
        tasks.start_soon(beats.resolve, QUESTION, asked("1"))
        after = len(host.heard)
        await until(host.heard, after + 1)
        tasks.cancel_scope.cancel()
    assert words[0] == "abp-bridge: waiting for the answer of who is asked"
    assert words[before] == "abp-bridge: cli:claude has written 5 characters"
    assert host.heard[after]["message"] == words[0]


@pytest.mark.anyio
async def test_a_call_that_ended_is_reported_no_more_and_old_revisions_get_no_words() -> None:
    host, person = Host("2024-11-05"), Person()
    async with anyio.create_task_group() as tasks:
        beats = KeepaliveElicitor(person, host, tasks, interval=0)  # type: ignore[arg-type]
        beats.begin(1, TOKEN)
        beats.begin(2, {"_meta": {"progressToken": True}})
        tasks.start_soon(beats.resolve, QUESTION, asked("1", "2"))
        assert "message" not in (await until(host.heard, 1))[0]
        beats.forget_call(1)
        assert not beats.is_on
        after = len(host.heard)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert len(host.heard) == after
        tasks.cancel_scope.cancel()


def written(method: str, params: Json, slash: str = "/", **more: Json) -> bytes:
    line = json.dumps({"jsonrpc": "2.0", **more, "method": method, "params": params})
    return line.replace("/", slash).encode() + b"\n"


async def messages(pipe: MemoryPipe) -> AsyncIterator[Json]:
    rest = b""
    while True:
        *lines, rest = (rest + await pipe.receive()).split(b"\n")
        for line in lines:
            yield json.loads(line)


async def nothing() -> str:
    return ""


@pytest.mark.anyio
@pytest.mark.parametrize("slash", ["/", "\\/"], ids=["as it is", "escaped, as by PHP"])
async def test_reports_rise_above_the_servers_own_however_their_slash_is_written(
    slash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "KeepaliveElicitor", partial(KeepaliveElicitor, interval=0))
    from_host, to_host, from_server, to_server = (MemoryPipe() for _ in range(4))
    run = partial(
        proxy.run_proxy,
        prefix="ours-",
        policy=Policy(lambda: "server", lambda name, asked: "", nothing, lambda line: None),
        make_elicitor=lambda connection, on_progress: Person(),
    )
    opened: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    asks = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, (from_host, to_host), (from_server, to_server))
            await write_all(from_host, written("initialize", opened, id=0))
            await write_all(from_host, written("tools/call", {"name": "t", **TOKEN}, id=1))
            read = messages(to_server)
            while (await anext(read))["method"] != "tools/call":
                pass
            progress = {"progressToken": "t", "progress": 3}
            await write_all(from_server, written(PROGRESS, progress, slash))
            await write_all(from_server, written("elicitation/create", asks, slash, id=9))
            heard = messages(to_host)
            theirs, ours = [await anext(heard), await anext(heard)]
            tasks.cancel_scope.cancel()
    assert (theirs["method"], theirs["params"]) == (PROGRESS, progress)
    assert (ours["method"], ours["params"]["progressToken"]) == (PROGRESS, "t")
    assert ours["params"]["progress"] > 3
