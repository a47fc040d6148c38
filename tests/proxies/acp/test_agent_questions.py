"""The agent's own questions: asked by buttons where its client has no forms, and answered by their
id, each once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.acp_harness import CANCELLED, Failed, labels, pressing, selected
from support.acp_proxy import CONFIRM, NO, YES, compact, form, opened, play, proxied

Json = Any


async def test_instant_choice_is_cancelled_for_the_agent() -> None:
    async with proxied(handler=pressing(YES), env={"ABP_PERSON_FLOOR": "60000"}) as client:
        session = await opened(client)
        (said,) = await play(client, session, CONFIRM)
        assert (said["action"], said.get("content")) == ("cancel", None)
        assert said["_meta"]["abp"]["answeredBy"] == "nobody"
        assert "no person was asked" in said["_meta"]["abp"]["reason"]


async def test_yes_of_an_unknown_client_confirms_nothing_destructive() -> None:
    """A client that nobody knows may approve all by itself, and a server behind the agent destroys
    what it was asked about.
    """
    async with proxied(handler=pressing(YES), env={"ABP_PERSON_FLOOR": "0.01"}) as client:
        session = await opened(client, name="nobody-knows-it")
        (said,) = await play(client, session, CONFIRM)
        assert (said["action"], said.get("content")) == ("cancel", None)
        [asked] = client.wire.sent("session/request_permission")
        assert labels(asked) == [NO, YES]


@pytest.mark.slow
async def test_agent_may_have_100_open_questions() -> None:
    async with proxied() as client:
        session = await opened(client)
        (said,) = await play(client, session, {"burst": CONFIRM["elicit"], "count": 101})
        reason = said["result"]["_meta"]["abp"]["reason"]
        assert reason == "100 questions of this agent are open already"
        asked = len(client.wire.sent("session/request_permission"))
        client.handler = pressing(YES)
        (said,) = await play(client, session, CONFIRM)
        assert said["content"] == {"ok": True}, "those are over"
        assert asked == len(client.wire.sent("$/cancel_request")) == 100


@pytest.mark.parametrize("arguments", [[], ["--app", "demo"]], ids=["no apps", "apps"])
async def test_question_before_its_session_is_cancelled_and_later_ones_are_asked(
    arguments: list[str],
) -> None:
    async with proxied(*arguments, handler=pressing(YES)) as client:
        await client.initialize()
        result = await client.request(
            "session/new", {"cwd": "/", "mcpServers": [], "_meta": {"ask": CONFIRM["elicit"]}}
        )
        early = result["_meta"]["early"]["result"]
        assert (early["action"], "no prompt is running" in early["_meta"]["abp"]["reason"]) == (
            "cancel",
            True,
        )
        (said,) = await play(client, result["sessionId"], CONFIRM)
        assert said["content"] == {"ok": True}


REFUSED = [
    ("free text", form(name={"type": "string"}), "free text"),
    (
        "an address",
        {
            "elicit": {
                "mode": "url",
                "message": "Sign in",
                "url": "https://example.test/",
                "elicitationId": "e",
            }
        },
        "no addresses",
    ),
    (
        "another session",
        {"elicit": {**form(ok={"type": "boolean"})["elicit"], "sessionId": "elsewhere"}},
        "no prompt is running",
    ),
]


@pytest.mark.parametrize(
    ("question", "reason"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
@pytest.mark.slow
async def test_question_that_buttons_cannot_ask_is_cancelled_with_the_reason(
    question: Json, reason: str
) -> None:
    async with proxied() as client:
        session = await opened(client)
        (said,) = await play(client, session, question)
        assert said["action"] == "cancel"
        assert "content" not in said
        assert reason in said["_meta"]["abp"]["reason"]
        assert client.wire.sent("session/request_permission") == []


async def test_invalid_form_is_cancelled() -> None:
    async with proxied() as client:
        session = await opened(client)
        (said,) = await play(client, session, {"elicit": {"mode": "form", "message": 1}})
        assert said["action"] == "cancel"
        assert "an elicitation needs a message in words" in said["_meta"]["abp"]["reason"]


async def test_question_withdrawn_by_the_agent_is_closed() -> None:
    async with proxied() as client:
        session = await opened(client)
        (said,) = await play(client, session, {"withdraw": form(ok={"type": "boolean"})["elicit"]})
        assert said["code"] == -32800
        asked = [
            message["id"]
            for message in client.wire.sent()
            if message.get("method") == "session/request_permission"
        ]
        assert [params["requestId"] for params in client.wire.sent("$/cancel_request")] == asked


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (selected("made up"), "made up"),
        ({"outcome": {"outcome": "postponed"}}, "postponed"),
        (CANCELLED, "dismissed"),
        (Failed(-32603, "out of order"), "out of order"),
        (Failed(-32800, "taken down"), "dismissed"),
    ],
)
async def test_invalid_answer_is_cancelled(answer: Json, reason: str) -> None:
    async with proxied(handler=lambda method, params: answer) as client:
        session = await opened(client)
        (said,) = await play(client, session, CONFIRM)
        assert said["action"] == "cancel"
        assert reason in said["_meta"]["abp"]["reason"]


QUESTION = {"sessionId": "s1", **CONFIRM["elicit"]}


@pytest.mark.parametrize("levels", [126, 900])
async def test_question_nested_too_deeply_is_cancelled(levels: int) -> None:
    deep = compact({**QUESTION, "_meta": {"x": 0}}).replace("0", "[" * levels + "]" * levels)
    async with proxied(handler=pressing(YES)) as client:
        session = await opened(client)
        line = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":' + deep + "}"
        (said,) = await play(client, session, {"line": line, "id": "q"})
        result = said["result"]
        assert (result["action"], "content" in result) == ("cancel", False)
        assert result["_meta"]["abp"]["reason"] == "it is nested too deeply"
        (said,) = await play(client, session, CONFIRM)
        assert said["content"] == {"ok": True}
        assert client.wire.sent("elicitation/create") == []


async def test_late_and_repeated_answers_are_dropped() -> None:
    async with proxied() as client:
        session = await opened(client)
        prompt = await client.start(session, json.dumps([CONFIRM]))
        asked = await client.asked("session/request_permission")
        yes = selected(asked["params"]["options"][1]["optionId"])
        await client.send({"id": asked["id"], "result": yes})
        await client.response(prompt)
        await client.send({"id": asked["id"], "result": yes})
        await client.send({"id": asked["id"], "error": {"code": -32800, "message": "late"}})
        (strays,) = await play(client, session, {"strays": True})
        assert strays == []
