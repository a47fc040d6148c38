"""A link to the page, and what whoever sends the person there may come back with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from abp_bridge.abp.session import AbpSession
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc.connection import Reply
from abp_bridge.protocols.abp.agent import decode_agent
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import Page, PageLink, SurfaceResponse, SurfaceUnsupportedError

Json = Any

QUESTION = Question("q", Kind.CONFIRM, "Go on?", (), "an app")


class Shown:
    """A question on a page that nobody opens."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.response = SurfaceResponse(Outcome.TIMED_OUT)

    async def wait_answer(self) -> SurfaceResponse:
        await self.ended.wait()
        return self.response

    def answer(self, response: SurfaceResponse, ending: object) -> None:
        self.response = response
        self.ended.set()


class Display(Page):
    """A page."""

    @asynccontextmanager
    async def show(self, question: Question, context: AskContext) -> AsyncIterator[Json]:
        yield Shown()


async def ask(outcome: Outcome) -> SurfaceResponse:
    async def send(shown: object) -> SurfaceResponse:
        return SurfaceResponse(outcome)

    display: Json = Display()
    with anyio.fail_after(5):
        response: SurfaceResponse = await display.collect_answer(QUESTION, NO_CONTEXT, send)
        return response


@pytest.mark.parametrize("outcome", [Outcome.DECLINED, Outcome.CANCELLED])
async def test_who_will_not_go_there_ends_the_question(outcome: Outcome) -> None:
    assert (await ask(outcome)).outcome is outcome


@pytest.mark.parametrize(
    "outcome", [Outcome.INVALID, Outcome.TIMED_OUT, Outcome.UNSUPPORTED, Outcome.WITHDRAWN]
)
async def test_a_link_that_was_not_shown_leaves_the_question_to_others(outcome: Outcome) -> None:
    with pytest.raises(SurfaceUnsupportedError, match="not shown"):
        await ask(outcome)


async def test_an_agent_that_fails_to_ask_has_not_answered() -> None:
    class Connection:
        def lost_notifications(self) -> Json:
            return {}

        async def exchange(self, method: str, params: Json, **more: Json) -> Reply:
            return Reply({"success": False, "error": {"code": "ELICITATION_FAILED"}}, 1.0)

    async def show_code() -> str:
        return "at a terminal"

    agent: Json = {"agent": {"name": "a", "version": "1"}, "features": {"elicitation": True}}
    connection: Json = Connection()
    api: Json = None
    session = AbpSession(connection, decode_agent(agent), lambda host: api)
    link = PageLink("http://127.0.0.1:1/open/x", "http://127.0.0.1:1/code/x", show_code)
    with pytest.raises(SurfaceUnsupportedError, match="did not show"):
        await session.send_link(QUESTION, NO_CONTEXT, link)
