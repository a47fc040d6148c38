"""What the apps of a proxied session ask and tell: the client is asked, the agent is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.acp_harness import selected
from support.acp_proxy import ask, opened, play, proxied
from support.peer import PATIENCE
from support.puppets import puppets

Json = Any

CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}


async def test_notifications_of_apps_go_to_the_agent() -> None:
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


@pytest.mark.parametrize("size", [66_000, 400_000], ids=["in the pipe", "still to be written"])
@pytest.mark.slow
async def test_time_in_which_the_agent_does_not_read_is_not_answer_time(size: int) -> None:
    """The client's yes comes at once, behind a file that the agent asked for and does not read."""
    answered = anyio.Event()

    async def answer(method: str, params: Json) -> Json:
        if method == "fs/read_text_file":
            answered.set()
            return {"content": "x" * size}
        await answered.wait()
        options = {option["kind"]: option["optionId"] for option in params["options"]}
        return selected(options["allow_once"])

    env = {"ABP_PERSON_FLOOR": "200"}
    async with proxied("--app", "demo", handler=answer, env=env) as client:
        session = await opened(client, name="acpx")
        await play(client, session, {"call": "abp_connect"})
        request = {
            "method": "elicitation/confirm",
            "params": {"message": "Delete all?", "destructive": True},
        }
        call = {"capability": "demo.ask", "params": {"request": request}}
        steps = [{"deaf": 0.5}, {"call": "abp_call", "arguments": call}]
        _, said = await play(client, session, *steps)
    response = json.loads(said["text"])
    assert response["metadata"]["answeredBy"] == "host-policy"
    assert response["metadata"]["evidence"] == "faster-than-reading"
    assert not response["success"]


@pytest.mark.process
async def test_app_hears_how_its_questions_ended_when_the_client_disconnects(
    tmp_path: Path,
) -> None:
    async with puppets(tmp_path) as apps, proxied("--app", apps.target) as client:
        session = await opened(client)
        called = {"call": "abp_call", "arguments": {"capability": "work"}}
        steps = [called, {"deaf": PATIENCE}]  # it does not hear that its client has gone
        await client.start(session, json.dumps(steps))
        app = await apps.app()
        await app.open("work")
        await app.next("capabilities/call")
        await app.send(id="q", **CONFIRM)
        await client.until(lambda message: message.get("method") == "session/request_permission")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.leave)
            first = await app.next()
            ended = {"jsonrpc": "2.0", "id": (await app.next("shutdown"))["id"], "result": {}}
            asked = {"jsonrpc": "2.0", "id": "last", **CONFIRM}
            await app.write(b"".join(json.dumps(each).encode() + b"\n" for each in (asked, ended)))
            last = await app.next()
    assert (first["id"], last["id"]) == ("q", "last")
    assert {each["result"]["metadata"]["answeredBy"] for each in (first, last)} == {"nobody"}


async def test_agent_that_does_not_start_its_mcp_server_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "did not start the MCP server"
    async with proxied("--app", "demo") as client:
        await ask(client, await opened(client), "confirm", prompt="no")
        assert words not in caplog.text
        session = await client.new()
        for _ in range(2):
            await client.prompt(session, "[]")
    assert caplog.text.count(words) == 1
