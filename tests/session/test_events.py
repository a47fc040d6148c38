"""What whoever embeds a session sees of its questions: each step of each, in order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from support.acp_harness import CANCELLED, Handler, NoPage, pressing
from support.harness import PATIENCE

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question
from abp_bridge.jsonrpc.connection import JsonRpcConnection
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol, Notification, Request
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.acp.v1 import encode_cancel
from abp_bridge.session.context import (
    AttemptEvent,
    ChoiceEvent,
    InputRequestEvent,
    InputResolvedEvent,
    SessionEvent,
    StepEvent,
)
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.router import Router

Json = Any


def asked(method: str, **params: Json) -> Question:
    """As it is asked: with the time that there is for it."""
    return decode_question(
        {"method": method, "params": params, "timeout": PATIENCE * 1000}, id="q1", origin="app"
    )


def link(
    read: int, write: int, on_message: Callable[[Request | Notification], None]
) -> JsonRpcConnection:
    return JsonRpcConnection(
        JsonRpcProtocol(),
        StreamReader(read),
        StreamWriter(write),
        on_message=on_message,
        cancel_request=encode_cancel,
    )


@asynccontextmanager
async def watched(
    answer: Handler, capabilities: Json = None, floor: float = 0.0
) -> AsyncIterator[tuple[Elicitor, list[SessionEvent]]]:
    """A client that answers by `answer`, over pipes: (who asks it, what was told of that)."""
    (here, out), (there, back) = os.pipe(), os.pipe()

    def take(message: Request | Notification) -> None:
        if isinstance(message, Request):
            person.respond(message.id, answer(message.method, message.params))

    person = link(there, out, take)
    bridge = link(here, back, lambda message: None)
    client = ClientSurfaces(bridge, {"clientCapabilities": capabilities}, "s", NoPage())
    client.turns.begin(1)
    events: list[SessionEvent] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(person.run)
        tasks.start_soon(bridge.run)
        with anyio.fail_after(PATIENCE):
            yield (
                Elicitor(
                    Router(client, min_human_latency=floor), limit=PATIENCE, observe=events.append
                ),
                events,
            )
        tasks.cancel_scope.cancel()


async def test_each_step_of_a_walk_is_told_with_what_was_pressed() -> None:
    question = asked("elicitation/select", prompt="Which?", options=["a", "b", "c", "d", "e"])
    async with watched(pressing("e")) as (asking, events):
        answer = await asking.resolve(question)
    requested, attempt, first, more, second, chosen, resolved = events
    assert isinstance(requested, InputRequestEvent)
    assert (requested, attempt) == (
        InputRequestEvent(requested.time, question, requested.context),
        AttemptEvent(attempt.time, "q1", "acp-permission (by pages)"),
    )
    assert first == StepEvent(first.time, "q1", 1, "Which?", ("a", "b", "c", "More …"))
    assert isinstance(more, ChoiceEvent)
    assert (more.number, more.label) == (1, "More …")
    assert second == StepEvent(second.time, "q1", 2, "Which?", ("d", "e", "Skip", "More …"))
    assert isinstance(chosen, ChoiceEvent)
    assert (chosen.number, chosen.label) == (2, "e")
    assert 0 <= chosen.seconds <= chosen.time - second.time
    assert resolved == InputResolvedEvent(resolved.time, question, answer, requested.context)
    assert [event.time for event in events] == sorted(event.time for event in events)


async def test_a_dismissed_step_has_no_label() -> None:
    async with watched(lambda method, params: CANCELLED) as (asking, events):
        await asking.resolve(asked("elicitation/confirm", message="Book it?"))
    assert [event.label for event in events if isinstance(event, ChoiceEvent)] == [None]
    assert [event.answer.outcome for event in events if isinstance(event, InputResolvedEvent)] == [
        Outcome.CANCELLED
    ]


async def test_who_answered_goes_by_the_slowest_step() -> None:
    async with watched(pressing("Delete"), floor=PATIENCE) as (asking, events):
        await asking.resolve(asked("elicitation/confirm", message="Delete all?", destructive=True))
    (resolved,) = (event for event in events if isinstance(event, InputResolvedEvent))
    assert (resolved.answer.answered_by, resolved.answer.outcome) == (
        AnsweredBy.HOST_POLICY,
        Outcome.UNSUPPORTED,
    )
