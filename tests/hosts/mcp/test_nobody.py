"""Where no person was asked, or a card was closed without an answer, the result says so: what was
asked, what was tried, and how somebody would be asked on this host.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from support.harness import MODERN, VERSIONS, Hosted, hosted, text

Json = Any

CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Book it?"}}
SECRET: Json = {
    "method": "elicitation/input",
    "params": {"prompt": "The key?", "schema": {"type": "string", "format": "password"}},
}


def named(name: str) -> types.Implementation:
    return types.Implementation(name=name, version="1")


async def words(host: Hosted, request: Json) -> str:
    """All that the result of a call says in which an app asks this."""
    result = await host.call("demo.ask", request=request)
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("version", [VERSIONS[0], MODERN])
async def test_host_that_cannot_ask_gets_the_question_and_setup_hints(version: str) -> None:
    async with hosted("--app", "demo", version=version, client_info=named("claude-code")) as host:
        said = await words(host, CONFIRM)
        [ended] = (await host.status())["questions"]["ended"]
    assert json.loads(said.splitlines()[0])["error"]["code"] == "NOT_SUPPORTED", "the app's refusal"
    assert '- demo asked: "Book it?"' in said
    assert "  tried: the host offers no way to ask its user" in said
    ways = ["claude in a terminal", "--ask-via-model: ", "--page open: ", "--tty DEVICE: "]
    assert [way for way in ways if f"\n- {way}" in said] == ways
    assert [each.partition(": ")[0] for each in ended["ways"][1:3]] == [
        "--ask-via-model",
        "--page open",
    ]


async def test_only_setup_hints_that_help_are_given() -> None:
    async with hosted("--app", "demo", "--ask-via-model") as host:
        said = await words(host, SECRET)
    assert "  tried: model-relay: secrets never pass through the model" in said
    assert "\n- --page open" in said
    assert "--ask-via-model" not in said
    assert "--questions-api" not in said


async def test_automatic_decline_is_not_reported_as_the_users() -> None:
    no = types.ElicitResult(action="decline")
    async with hosted(
        "--app",
        "demo",
        answer=lambda params: no,
        client_info=named("codex-mcp-client"),
        env={"ABP_PERSON_FLOOR": "60000"},
    ) as host:
        said = await words(host, CONFIRM)
    assert "  tried: mcp-form" in said
    assert "The host answered by itself in" in said
    assert "\n- codex in a terminal" in said
    assert 'env_vars = ["DISPLAY"' in said


@pytest.mark.parametrize("version", [VERSIONS[0], MODERN])
async def test_reason_of_the_host_is_quoted(version: str) -> None:
    given = {"action": "cancel", "_meta": {"message": "elicitation mode is not supported"}}
    async with hosted(
        "--app",
        "demo",
        answer=lambda params: types.ElicitResult.model_validate(given),
        version=version,
    ) as host:
        response = await host.ask("elicitation/confirm", message="Book?")
        [ended] = (await host.status())["questions"]["ended"]
    theirs = 'The host says: "elicitation mode is not supported".'
    assert response["error"]["message"] == f"The user dismissed the question. {theirs}"
    assert ended["reason"].endswith(theirs)


@pytest.mark.network
@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_closed_card_is_reported_as_unanswered(version: str) -> None:
    went = types.ElicitResult(action="accept")
    async with hosted(
        "--app",
        "demo",
        answer=lambda params: went,
        version=version,
        env={"ABP_HOST_PATIENCE": "1000"},
    ) as host:
        said = text(await host.call("demo.ask", request=SECRET))
        while "is closed" not in said:  # it was not shown yet
            said = text(await host.client.call_tool("abp_wait", {"call": "call-1"}))
        [asked] = (await host.status())["questions"]["open"]
    assert 'demo asked: "The key?"' in said
    assert "is closed, and there is no answer yet: nobody has been at it yet." in said
    assert "abp_wait" in said
    assert asked["message"] == "The key?"
