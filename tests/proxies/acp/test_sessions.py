"""Sessions behind the proxy: each has apps of its own; what is asked in it ends with its turn."""

from __future__ import annotations

import json
import socket
from typing import Any

import anyio
import pytest
from support.acp_harness import FORM, pressing
from support.acp_proxy import CONFIRM, YES, ask, form, opened, play, proxied, said_in

from abp_bridge.acp.proxy.sessions import SessionTable
from abp_bridge.jsonrpc.connection import Reply
from abp_bridge.protocols.mcp.server_elicitation import decode_question
from abp_bridge.session.context import NO_CONTEXT

Json = Any


class Connection:
    """A client that picks the first option of a form."""

    async def exchange(self, method: str, params: Json, **more: Json) -> Reply:
        self.shown = params["requestedSchema"]["properties"]["seat"]["oneOf"][0]["const"]
        return Reply({"action": "accept", "content": {"seat": self.shown}}, 1.0)

    def postpone(self, tell: Json) -> None: ...


async def test_hidden_characters_of_a_question_are_shown_and_restored() -> None:
    """Though what only passes on the same connection is not changed."""
    client: Json = Connection()
    page: Json = None
    table = SessionTable(client, page, "card-")
    table.client = {"clientCapabilities": FORM}
    session = table.make("s1")
    table.begin_prompt(1, session)
    asked = form(seat={"type": "string", "enum": ["a\u200bb", "c"]})["elicit"]
    question = decode_question(asked, id="q", origin="agent", destructive=False)
    [variant, *_] = session.surfaces.variants()
    response = await session.surfaces.prompt(question, NO_CONTEXT, variant)
    assert client.shown == r"a\u200bb"
    assert response.content == {"seat": "a\u200bb"}


async def test_each_session_has_its_own_apps_and_questions() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes", "Yes")) as client:
        first = await opened(client)
        second = await client.new()
        for session in (second, first):
            await ask(client, session, "elicitation/confirm", message="Sure?")
        assert [
            params["sessionId"] for params in client.wire.sent("session/request_permission")
        ] == [second, first]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_loaded_session_has_the_apps_too(method: str) -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as client:
        await client.initialize()
        result = await client.request(
            method, {"sessionId": "of-before", "cwd": "/", "mcpServers": []}
        )
        session = result.get("sessionId", "of-before")
        assert (await ask(client, session, "elicitation/confirm", message="Sure?"))["data"] == {
            "confirmed": True
        }
        assert [
            params["sessionId"] for params in client.wire.sent("session/request_permission")
        ] == [session]


WHO_ENDED = {
    "the agent": ("_go", ("withdrawn", "the agent ended the turn")),
    "the user": ("session/cancel", ("cancelled", "the user cancelled the turn")),
}


@pytest.mark.parametrize("who", WHO_ENDED)
async def test_question_that_ended_with_its_turn_has_no_answerer(who: str) -> None:
    """However fast it ended: the person floor is a minute."""
    method, expected = WHO_ENDED[who]
    async with proxied("--app", "demo", env={"ABP_PERSON_FLOOR": "60000"}) as client:
        session = await opened(client)
        arguments = {
            "capability": "demo.ask",
            "params": {
                "request": {"method": "elicitation/confirm", "params": {"message": "Sure?"}}
            },
        }
        prompt = await client.start(
            session,
            json.dumps(
                [{"call": "abp_call", "arguments": arguments, "and": "leave"}, {"wait": True}]
            ),
        )
        await client.asked("session/request_permission")
        await client.notify(method, {"sessionId": session})
        await client.response(prompt)
        (said,) = await play(client, session, {"call": "abp_status"})
        (ended,) = json.loads(said["text"])["questions"]["ended"]
        assert (ended["outcome"], ended["reason"], ended["answeredBy"]) == (*expected, "nobody")


async def test_question_ends_with_its_prompt() -> None:
    """It is taken down before the client hears that the prompt has ended, and what the app asks
    then is not shown.
    """
    async with proxied("--app", "demo") as client:
        session = await opened(client)
        questions = [
            {"method": "elicitation/confirm", "params": {"message": message}}
            for message in ("Still there?", "And now?")
        ]
        first, second = (
            {
                "call": "abp_call",
                "arguments": {"capability": "demo.ask", "params": {"request": each}},
            }
            for each in questions
        )
        prompt = await client.start(
            session,
            json.dumps([{**first, "and": "leave"}, {**second, "and": "leave"}, {"wait": True}]),
        )
        asked = {
            (await client.asked("session/request_permission", count))["id"] for count in (1, 2)
        }
        await client.notify("_go", {"sessionId": session})
        ended = await client.response(prompt)
        assert {params["requestId"] for params in client.wire.sent("$/cancel_request")} == asked
        assert client.wire.sent()[-1] == ended
        assert [update["status"] for update in client.wire.updates("tool_call_update")] == [
            "failed",
            "failed",
        ]


async def test_question_outside_a_prompt_is_refused() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as client:
        session, busy = await opened(client), await client.new()
        await client.start(busy, json.dumps([{"wait": True}]))
        request = {"method": "elicitation/confirm", "params": {"message": "Anybody?"}}
        arguments = {"capability": "demo.ask", "params": {"request": request}}
        step = {"call": "abp_call", "arguments": arguments, "of": session}
        (said,) = await play(client, await client.new(), step)
        assert json.loads(said["text"])["error"]["code"] == "NOT_SUPPORTED"
        assert "no prompt is running" in json.loads(said["text"])["error"]["message"]
        assert client.wire.sent("session/request_permission") == []
        await client.notify("session/cancel", {"sessionId": busy})


async def test_session_opened_twice_is_one_session() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as client:
        await client.initialize()
        for _ in range(2):
            await client.request(
                "session/new", {"cwd": "/", "mcpServers": [], "_meta": {"name": "only"}}
            )
        assert (await ask(client, "only", "elicitation/confirm", message="Sure?"))["data"] == {
            "confirmed": True
        }


async def test_cancelled_turn_withdraws_its_question() -> None:
    async with proxied() as client:
        session = await opened(client)
        prompt = await client.start(session, json.dumps([CONFIRM, CONFIRM]))
        asked = await client.asked("session/request_permission")
        await client.notify("session/cancel", {"sessionId": session})
        assert (await client.response(prompt))["result"]["stopReason"] == "cancelled"
        assert [answer["action"] for answer in said_in(client, session)] == ["cancel", "cancel"]
        assert client.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        assert len(client.wire.sent("session/request_permission")) == 1, (
            "nothing is asked in a turn that was cancelled"
        )
        client.handler = pressing(YES)
        (said,) = await play(client, session, CONFIRM)
        assert said["content"] == {"ok": True}, "the next turn is another"


async def test_cancelled_prompt_withdraws_its_question() -> None:
    async with proxied() as client:
        session = await opened(client)
        prompt = await client.start(session, json.dumps([CONFIRM, CONFIRM]))
        asked = await client.asked("session/request_permission")
        await client.notify("$/cancel_request", {"requestId": prompt})
        await client.response(prompt)
        assert [answer["_meta"]["abp"]["reason"] for answer in said_in(client, session)] == [
            "the user cancelled the turn"
        ] * 2
        assert client.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_closed_session_asks_nothing_and_refuses_relays(method: str) -> None:
    async with proxied("--app", "demo") as client:
        await client.initialize()
        result = await client.request("session/new", {"cwd": "/", "mcpServers": []})
        session = result["sessionId"]
        prompt = await client.start(session, json.dumps([CONFIRM, {"wait": True}, CONFIRM]))
        asked = await client.asked("session/request_permission")
        await client.request(method, {"sessionId": session})
        await client.until(lambda _: len(said_in(client, session)) == 1)
        await client.notify("_go", {"sessionId": session})
        await client.response(prompt)
        first, _, second = said_in(client, session)
        assert first["_meta"]["abp"]["reason"] == "the user closed the session"
        assert "no prompt is running" in second["_meta"]["abp"]["reason"]
        assert client.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        entry = json.loads(result["_meta"]["line"])["params"]["mcpServers"][0]
        with socket.socket(socket.AF_UNIX) as agent:
            agent.connect(entry["args"][-1])
            agent.sendall(entry["env"][0]["value"].encode() + b"\n")
            await anyio.wait_readable(agent)
            assert agent.recv(1) == b""
