"""Whatever an app and a modern host do, in whatever order: each question gets one answer, the
first, and nobody waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from hypothesis import given, settings
from hypothesis import strategies as st

from abp_bridge.core.capability import CallResult
from abp_bridge.jsonrpc.protocol import RpcError
from abp_bridge.mcp.connection import HostRequest
from abp_bridge.mcp.pending_call import PendingCall
from abp_bridge.mcp.tool_calls import MAX_ASKED, ToolCalls, ToolTimeout, encode_outcome
from abp_bridge.protocols.mcp.client import McpClientInfo
from abp_bridge.protocols.mcp.revisions import MAX_ROUNDS
from abp_bridge.session.host import CallOutcome
from abp_bridge.session.surface import HostTimeoutError, RouteChangedError

Json = Any

CLIENT = McpClientInfo("2026-07-28", {}, {"elicitation": {}}, modern=True)
ARGUMENTS = {"capability": "work"}
DONE = CallOutcome(CallResult("done"))


def tool_request(id: int) -> HostRequest:
    request = HostRequest(id, CLIENT, anyio.current_time(), "tools/call", {})
    request.tool, request.arguments = "abp_call", ARGUMENTS
    return request


class AppCall:
    """The call of an app that the test plays."""

    id = "call-1"

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def wait(self) -> CallOutcome:
        raise NotImplementedError

    async def wait_idle(self) -> None: ...

    def cancel(self, reason: str) -> None:
        self.cancelled.append(reason)


class Play:
    """One call from its first request to its end; `states` are what the host was given to come back
    with.
    """

    def __init__(self, tasks: Any) -> None:
        self.tasks = tasks
        self.app = AppCall()
        self.pending: PendingCall
        self.calls = ToolCalls(
            tasks,
            limit=600.0,
            timeout_of=lambda request: ToolTimeout(600.0),
            on_progress=lambda request, progress: None,
        )
        self.states: list[str] = []
        self.results: list[Json] = []
        self.asked: list[str] = []  # the keys, in the order of asking
        self.delivered: dict[str, Json] = {}  # what the host brought first for each that was open
        self.answers: dict[str, list[Json]] = {}  # what the app got
        self.requests: list[HostRequest] = []

    async def begin(self) -> None:
        async def start(on_progress: Any, on_end: Any) -> Any:
            return self.app

        await self._request(lambda request: self.calls.begin(request, start, encode_outcome))
        pending = self.calls.find_pending([self.app.id])
        assert pending is not None
        self.pending = pending

    async def ask(self) -> None:
        number = len(self.asked) + 1
        self.asked.append(f"q{number}")
        self.tasks.start_soon(self._ask, f"q{number}")
        await wait_all_tasks_blocked()

    async def _ask(self, key: str) -> None:
        answer: Json
        try:
            reply = await self.pending.wait_for_round(
                "elicitation/create", {"message": key}, "form"
            )
            answer = reply.result
        except (HostTimeoutError, RouteChangedError) as problem:
            answer = problem
        self.answers.setdefault(key, []).append(answer)

    async def come_back(self, which: int, keys: list[int], action: str) -> None:
        state = self.states[which % len(self.states)]
        answers: dict[str, Mapping[str, Json]] = {f"q{key}": {"action": action} for key in keys}
        for key, answer in answers.items():
            if key in self.pending.questions and self.pending.questions[key].shown is not None:
                self.delivered.setdefault(key, answer)
        await self._request(lambda request: self.calls.resume(request, state, answers))

    async def _request(self, attach: Any) -> None:
        request = tool_request(len(self.requests))
        self.requests.append(request)

        async def run() -> None:
            with request.scope:
                result = await attach(request)
                if request.on_sent is not None:
                    request.on_sent(anyio.current_time())
                self.results.append(result)
                if "requestState" in result:
                    self.states.append(result["requestState"])

        self.tasks.start_soon(run)
        await wait_all_tasks_blocked()

    async def end(self) -> None:
        if self.pending.encode_result is None:
            self.pending.finish(partial(encode_outcome, DONE))
        await wait_all_tasks_blocked()

    def check(self) -> None:
        assert all(len(got) == 1 for got in self.answers.values()), "a question was answered twice"
        for key, answer in self.delivered.items():
            assert self.answers[key] == [answer], (
                "the first answer that came for an open question is its answer"
            )
        waiting = set(self.asked) - set(self.answers)
        assert waiting == set(self.pending.questions)
        assert not waiting or self.pending.encode_result is None, "a question outlived its call"
        assert not (waiting and self.pending.waiters), (
            "the host waits, and is not told what is asked"
        )
        for result in self.results:
            if result.get("resultType") == "input_required":
                assert 0 < len(result["inputRequests"]) <= MAX_ASKED
        assert self.app.cancelled == []


STEPS = st.one_of(
    st.just(("ask",)),
    st.just(("ask",)),
    st.tuples(
        st.just("come_back"),
        st.integers(0, 40),
        st.lists(st.integers(1, 8), max_size=4, unique=True),
        st.sampled_from(["accept", "decline"]),
    ),
    st.tuples(
        st.just("come_back"),
        st.integers(0, 40),
        st.lists(st.integers(1, 8), max_size=4, unique=True),
        st.sampled_from(["accept", "decline"]),
    ),
    st.just(("end",)),
)


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, max_size=25))
@pytest.mark.slow
def test_any_order_of_asking_answering_and_ending(steps: list[Any]) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            play = Play(tasks)
            await play.begin()
            await play.ask()
            for step, *arguments in steps:
                await getattr(play, step)(*arguments)
                play.check()
            await play.end()
            await play.come_back(len(play.states) - 1, [], "accept")
            play.check()
            assert not play.pending.questions
            assert play.results[-1]["content"] == [{"type": "text", "text": "done"}], (
                "whoever comes back gets the result"
            )
            tasks.cancel_scope.cancel()

    anyio.run(run)


@pytest.mark.parametrize("asked_before", [0, 1, 2])
@pytest.mark.parametrize(
    "shutdown", [True, False], ids=["by the end of the session", "by the host"]
)
@pytest.mark.slow
def test_cancelled_request_ends_its_call(asked_before: int, shutdown: bool) -> None:

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            play = Play(tasks)
            await play.begin()
            for _ in range(asked_before):
                await play.ask()
                await play.come_back(len(play.states) - 1, [len(play.asked)], "accept")
            (request,) = play.pending.waiters
            request.scope.cancel() if shutdown else request.cancel_request(
                "the host cancelled the call"
            )
            await wait_all_tasks_blocked()
            assert play.pending.waiters == []
            assert play.app.cancelled != []
            tasks.cancel_scope.cancel()

    anyio.run(run)


@pytest.mark.slow
def test_rounds_of_a_call_are_limited() -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            play = Play(tasks)
            await play.begin()
            for number in range(1, MAX_ROUNDS + 1):
                await play.ask()
                await play.come_back(number - 1, [number], "accept")
            await play.ask()
            assert len(play.states) == MAX_ROUNDS
            assert "abp_wait" in play.results[-1]["content"][0]["text"]
            await play.end()
            tasks.cancel_scope.cancel()

    anyio.run(run)


@pytest.mark.slow
def test_request_state_of_another_call_is_refused() -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            one, other = Play(tasks), Play(tasks)
            for play in (one, other):
                await play.begin()
                await play.ask()
            with pytest.raises(RpcError, match="not made here"):
                await other.calls.resume(tool_request(9), one.states[0], {})
            tasks.cancel_scope.cancel()

    anyio.run(run)


@pytest.mark.slow
def test_round_of_an_app_that_never_stops_asking_is_limited() -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            play = Play(tasks)

            async def wait_idle() -> None:
                tasks.start_soon(play._ask, f"q{play.pending.input_requests + 1}")

            play.app.wait_idle = wait_idle  # type: ignore[method-assign]
            await play.begin()
            await play.ask()
            (result,) = play.results
            assert len(result["inputRequests"]) == MAX_ASKED
            tasks.cancel_scope.cancel()

    anyio.run(run)
