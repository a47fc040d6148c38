"""Whose call a question is, and how a server that counts its person's time is kept waiting."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.jsonrpc.multiplex import InjectedConnection, SharedWriter
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol
from abp_bridge.mcp.proxy.calls import MAX_TOOLS, Calls
from abp_bridge.mcp.proxy.server_questions import ELICITATION, MAX_OPEN, ServerQuestions
from abp_bridge.session.context import AskContext

Json = Any

pytestmark = pytest.mark.anyio

FORM: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


class Sink:
    """What the server reads."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.more = anyio.Event()

    def write_nowait(self, data: bytes | memoryview) -> int:
        self.written += data
        self.more.set()
        self.more = anyio.Event()
        return len(data)

    async def writable(self) -> None:
        await anyio.lowlevel.checkpoint()

    def close(self) -> None: ...

    @property
    def messages(self) -> list[Json]:
        return [json.loads(line) for line in self.written.splitlines()]

    async def until(self, count: int) -> list[Json]:
        """The first `count` messages."""
        with anyio.fail_after(30):
            while len(self.messages) < count:
                await self.more.wait()
        return self.messages


class Person:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Question, AskContext]] = []
        self.answering = anyio.Event()

    async def resolve(self, question: Question, context: AskContext) -> Answer:
        self.asked.append((question, context))
        await self.answering.wait()
        return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {"confirmed": True})


async def started(tasks: Any, calls: Calls, person: Person, **more: Json) -> tuple[Any, Sink]:
    sink = Sink()
    writer = SharedWriter(sink)
    injected = InjectedConnection(JsonRpcProtocol(), writer, on_message=lambda message: None)
    tasks.start_soon(injected.connection.run)
    made = ServerQuestions(
        injected.connection,
        writer,
        elicitor=person,
        calls=calls,
        tasks=tasks,
        origin=lambda: "s",
        **more,
    )
    return made, sink


async def test_a_server_that_counts_gets_signs_of_life_until_it_has_its_answer() -> None:
    person = Person()
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, Calls(), person, keepalive_interval=0.001)
        await questions.take(7, ELICITATION, {**FORM, "_meta": {"progressToken": 0}})
        beats = await sink.until(3)
        assert [each["method"] for each in beats[:3]] == ["notifications/progress"] * 3
        values = [each["params"]["progress"] for each in beats[:3]]
        assert [each["params"]["progressToken"] for each in beats[:3]] == [0, 0, 0]
        assert values == sorted(set(values))
        person.answering.set()
        while "result" not in sink.messages[-1]:
            await anyio.lowlevel.checkpoint()
        assert sink.messages[-1]["result"]["action"] == "accept"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("token", [None, True, {"a": 1}])
async def test_who_counts_nothing_hears_nothing(token: Json) -> None:
    person = Person()
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, Calls(), person, keepalive_interval=0)
        await questions.take(7, ELICITATION, {**FORM, "_meta": {"progressToken": token}})
        while not person.asked:
            await anyio.lowlevel.checkpoint()
        person.answering.set()
        assert [each.get("id") for each in await sink.until(1)] == [7]
        tasks.cancel_scope.cancel()


HARMLESS: Json = {"tools": [{"name": "read", "annotations": {"readOnlyHint": True}}]}


@pytest.mark.parametrize(
    ("open_calls", "destructive", "belongs"),
    [
        ([], True, ()),
        (["read"], False, ("1",)),
        (["write"], True, ("1",)),
        (["read", "read"], False, ("2", "1")),
        (["read", "write"], True, ("2", "1")),
    ],
)
async def test_a_question_is_as_destructive_as_the_worst_call_it_may_belong_to(
    open_calls: list[str], destructive: bool, belongs: tuple[str, ...]
) -> None:
    person, calls = Person(), Calls()
    calls.learn(HARMLESS)
    for number, tool in enumerate(open_calls, 1):
        calls.begin(number, {"name": tool})
    async with anyio.create_task_group() as tasks:
        questions, _ = await started(tasks, calls, person)
        await questions.take(0, ELICITATION, FORM)
        while not person.asked:
            await anyio.lowlevel.checkpoint()
        ((asked, context),) = person.asked
        assert (asked.destructive, context.calls) == (destructive, belongs)
        tasks.cancel_scope.cancel()


async def test_what_is_too_much_is_cancelled_and_nothing_is_asked_twice() -> None:
    person = Person()
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, Calls(), person)
        for id in [*range(MAX_OPEN), 0, MAX_OPEN]:
            await questions.take(id, ELICITATION, FORM)
        deep: Json = []
        for _ in range(200):
            deep = [deep]
        await questions.take("deep", ELICITATION, {**FORM, "x": deep})
        early = await sink.until(2)
        assert [(each["id"], each["result"]) for each in early] == [
            (MAX_OPEN, {"action": "cancel"}),
            ("deep", {"action": "cancel"}),
        ]
        person.answering.set()
        answered = await sink.until(MAX_OPEN + 2)
        assert sorted(each["id"] for each in answered[2:]) == list(range(MAX_OPEN))
        tasks.cancel_scope.cancel()


async def test_who_asks_when_the_host_has_left_is_told_at_once() -> None:
    person = Person()
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, Calls(), person)
        questions.cancel_all()
        await questions.take(1, ELICITATION, FORM)
        (told,) = await sink.until(1)
        assert (told["id"], told["result"]) == (1, {"action": "cancel"})
        assert not questions.is_asking
        tasks.cancel_scope.cancel()


async def test_what_the_server_says_is_done_is_taken_down() -> None:
    person = Person()
    link = {"mode": "url", "message": "?", "url": "https://e.example/", "elicitationId": "E1"}
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, Calls(), person)
        await questions.take(3, ELICITATION, link)
        while not person.asked:
            await anyio.lowlevel.checkpoint()
        questions.complete("another")
        questions.complete("E1")
        assert (await sink.until(1))[0]["result"] == {"action": "cancel"}
        questions.complete("E1")
        tasks.cancel_scope.cancel()


async def test_a_question_of_several_calls_ends_with_the_last_that_is_taken_back() -> None:
    person, calls = Person(), Calls()
    calls.begin(1, {"name": "write"})
    calls.begin(2, {"name": "write"})
    async with anyio.create_task_group() as tasks:
        questions, sink = await started(tasks, calls, person)
        await questions.take(0, ELICITATION, FORM)
        while not person.asked:
            await anyio.lowlevel.checkpoint()
        for number in (2, 1):
            assert questions.is_open(0)
            assert sink.messages == []
            del calls.open[number]
            questions.withdraw_call(str(number))
            await anyio.wait_all_tasks_blocked()
        [answer] = await sink.until(1)
        assert answer["result"] == {"action": "cancel"}
        tasks.cancel_scope.cancel()


def test_of_tools_without_end_the_first_are_remembered() -> None:
    calls = Calls()
    hints: Json = {"annotations": {"readOnlyHint": True}}
    for first in (0, MAX_TOOLS - 1):
        page = [{"name": f"t{first + number}", **hints} for number in range(MAX_TOOLS)]
        calls.learn({"tools": page, "nextCursor": "more"})
    assert len(calls.tools) == MAX_TOOLS
    assert not calls.tool(f"t{MAX_TOOLS}").harmless
    calls.learn({"tools": [{"name": "t0"}]})
    assert not calls.tool("t0").harmless, "what is known is still learned of"
