"""What the apps of a proxied session ask and tell: the client is asked, the agent is told."""

from __future__ import annotations

from typing import Any

import pytest
from support.acp_harness import (
    FORM,
    Failed,
    accepting,
    pressing,
)
from support.acp_proxy import (
    SHOWN,
    ask,
    opened,
    play,
    proxied,
)

Json = Any


@pytest.mark.anyio
@pytest.mark.parametrize("app", ["demo", "demo:page"], ids=["on a pipe", "page in Chromium"])
async def test_an_apps_question_is_a_form_in_a_client_that_has_forms(app: str) -> None:
    async with proxied("--app", app, handler=accepting(selected="5E")) as client:
        session = await opened(client, FORM)
        response = await ask(
            client,
            session,
            "elicitation/select",
            prompt="Which seat?",
            options=["1A", "2B", "3C", "4D", "5E", "6F"],
        )
        assert response["data"] == {"selected": "5E"}
        assert response["metadata"]["route"] == "acp-form"
        (form,) = client.wire.sent("elicitation/create")
        (call,) = client.wire.updates("tool_call")
        assert (form["sessionId"], form["toolCallId"]) == (session, call["toolCallId"])
        (after,) = client.wire.updates("tool_call_update")
        assert (after["toolCallId"], after["status"]) == (call["toolCallId"], "completed")


@pytest.mark.anyio
@pytest.mark.parametrize("app", ["demo", "demo:page"], ids=["on a pipe", "page in Chromium"])
async def test_an_apps_question_is_buttons_in_a_client_that_has_none(app: str) -> None:
    options = [f"Seat {number}" for number in range(SHOWN)]
    async with proxied("--app", app, handler=pressing("Seat 56")) as client:
        session = await opened(client)
        response = await ask(
            client, session, "elicitation/select", prompt="Which seat?", options=options
        )
        assert response["data"] == {"selected": "Seat 56"}
        shown = client.wire.sent("session/request_permission")
        assert max(len(each["options"]) for each in shown) <= 4
        assert len({each["toolCall"]["toolCallId"] for each in shown}) == 1


@pytest.mark.anyio
async def test_a_client_that_refuses_the_form_is_asked_by_buttons() -> None:
    def answer(method: str, params: Json) -> Json:
        return Failed(-32601) if method == "elicitation/create" else pressing("Yes")(method, params)

    async with proxied("--app", "demo", handler=answer) as client:
        session = await opened(client, FORM)
        response = await ask(client, session, "elicitation/confirm", message="Sure?")
        assert response["data"] == {"confirmed": True}


@pytest.mark.anyio
async def test_what_the_apps_tell_goes_to_the_agent() -> None:
    async with proxied("--app", "demo") as client:
        session = await opened(client)
        params = {
            "event": "notifications/state/changed",
            "data": {"field": "size", "newValue": "a4"},
        }
        (said,) = await play(
            client,
            session,
            {"call": "abp_call", "arguments": {"capability": "demo.tell", "params": params}},
        )
        assert "notifications/message" in said["told"]
        assert "notifications/tools/list_changed" in said["told"]
        assert client.wire.updates("notice") == []


@pytest.mark.anyio
async def test_a_policy_cannot_confirm_what_is_destructive() -> None:
    async with proxied(
        "--app", "demo", handler=pressing("Delete"), env={"ABP_PERSON_FLOOR": "60000"}
    ) as client:
        session = await opened(client)
        response = await ask(
            client, session, "elicitation/confirm", message="Delete all?", destructive=True
        )
        assert (response["success"], response["metadata"]["answeredBy"]) == (False, "host-policy")
