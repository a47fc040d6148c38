"""Questions through the model of a host that cannot ask: off unless the person switched it on, and
only what a model may carry.
"""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from support.harness import MODERN, PATIENCE, VERSIONS, Hosted, hosted, text

Json = Any

ASK = ("--app", "demo", "--ask-via-model")


async def asked(host: Hosted, method: str, *, timeout: float | None = None, **params: Json) -> str:
    """Have the app ask: what the model is told."""
    request = {"method": method, "params": params} | (
        {} if timeout is None else {"timeout": timeout}
    )
    return text(await host.call("demo.ask", request=request))


def named(words: str, what: str) -> str:
    """The question or the call that `words` name."""
    found = re.search(rf'"{what}": "([^"]+)"', words)
    assert found is not None, words
    return found[1]


async def bring(host: Hosted, words: str, **answer: Json) -> CallToolResult:
    return await host.client.call_tool(
        "abp_answer", {"question": named(words, "question"), **answer}
    )


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_the_model_asks_its_user_and_brings_the_answer(version: str) -> None:
    async with hosted(*ASK, version=version) as host:
        words = await asked(
            host, "elicitation/input", prompt="How many?", schema={"type": "integer", "minimum": 1}
        )
        assert "demo asks: How many?" in words
        assert "This is for your user, and not for you to answer." in words
        assert '"minimum": 1' in words
        response = json.loads(text(await bring(host, words, content={"value": 3})))
    assert response["data"] == {"value": 3}
    assert (response["metadata"]["answeredBy"], response["metadata"]["route"]) == (
        "model",
        "model-relay (in the model's words)",
    )


@pytest.mark.parametrize(("action", "outcome"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_the_user_may_want_not_to_answer(action: str, outcome: str) -> None:
    async with hosted(*ASK) as host:
        words = await asked(host, "elicitation/confirm", message="Go on?")
        assert (
            json.loads(text(await bring(host, words, action=action)))["metadata"]["outcome"]
            == outcome
        )


async def test_invalid_answer_of_the_model_is_asked_again_with_the_reason() -> None:
    async with hosted(*ASK) as host:
        words = await asked(host, "elicitation/select", prompt="Which?", options=["a", "b"])
        again = text(await bring(host, words, content={"selected": "c"}))
        assert "Please answer again: selected must be one of" in again
        assert json.loads(text(await bring(host, again, content={"selected": "b"})))["data"] == {
            "selected": "b"
        }


async def test_what_is_no_answer_leaves_the_question_open() -> None:
    async with hosted(*ASK) as host:
        told = await asked(host, "elicitation/input", prompt="Name?")
        refused = await bring(host, told)
        assert refused.is_error
        assert "say what the user said" in text(refused)
        assert json.loads(text(await bring(host, told, content={"value": "Ada"})))["data"] == {
            "value": "Ada"
        }


async def test_each_question_is_answered_once() -> None:
    async with hosted(*ASK) as host:
        told = await asked(host, "elicitation/input", prompt="Name?")
        await bring(host, told, content={"value": "Ada"})
        twice = await bring(host, told, content={"value": "Bob"})
        assert "UNKNOWN_QUESTION" in text(twice)
        made_up = await host.client.call_tool(
            "abp_answer", {"question": "question-99", "content": {}}
        )
        nameless = await host.client.call_tool("abp_answer", {"content": {}})
    assert "UNKNOWN_QUESTION" in text(made_up)
    assert "MISSING_PARAM" in text(nameless)


async def test_model_can_wait_for_the_answer() -> None:
    """The question is told once at once; another request brings the answer, and both get the
    result.
    """
    async with hosted(*ASK) as host:
        words = await asked(host, "elicitation/input", prompt="Name?")
        results: list[Json] = []

        async def wait() -> None:
            results.append(
                json.loads(
                    text(await host.client.call_tool("abp_wait", {"call": named(words, "call")}))
                )
            )

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                results.append(json.loads(text(await bring(host, words, content={"value": "Ada"}))))
    assert [result["data"] for result in results] == [{"value": "Ada"}] * 2


@pytest.mark.slow
async def test_unanswered_question_times_out() -> None:
    async with hosted(*ASK) as host:
        words = await asked(host, "elicitation/input", prompt="Name?", timeout=1_000)
        response = json.loads(
            text(await host.client.call_tool("abp_wait", {"call": named(words, "call")}))
        )
        assert response["error"]["code"] == "TIMEOUT"
        assert "UNKNOWN_QUESTION" in text(await bring(host, words, content={"value": "too late"}))


NEVER: dict[str, tuple[str, Json, str]] = {
    "what cannot be undone": (
        "elicitation/confirm",
        {"message": "Delete all?", "destructive": True},
        "a model cannot confirm what cannot be undone",
    ),
    "a secret": (
        "elicitation/input",
        {"prompt": "Your password?"},
        "secrets never pass through the model",
    ),
    "a file": (
        "elicitation/resource",
        {"type": "image/png"},
        "a model gives no files of the person's",
    ),
    "consent to read a file": (
        "elicitation/resource",
        {"uri": __file__},
        "a model cannot consent for the person",
    ),
    "a task": ("sampling/create", {"task": "Write"}, "this asks the person through the model"),
}


@pytest.mark.parametrize("case", NEVER)
async def test_what_a_model_may_not_carry(case: str) -> None:
    method, params, reason = NEVER[case]
    async with hosted(*ASK, "--root", "/") as host:
        response = await host.ask(method, **params)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert reason in response["error"]["message"]


async def test_host_chat_is_off_by_default() -> None:
    async with hosted("--app", "demo") as host:
        assert "abp_answer" not in {tool.name for tool in (await host.client.list_tools()).tools}
        assert (await host.ask("elicitation/input", prompt="Name?"))["error"][
            "code"
        ] == "NOT_SUPPORTED"
        with pytest.raises(MCPError, match="Unknown tool"):
            await host.client.call_tool("abp_answer", {"question": "question-1", "content": {}})


async def test_host_that_can_ask_is_asked_before_its_model() -> None:
    async with hosted(
        *ASK, answer=lambda params: types.ElicitResult(action="accept", content={"value": "Ada"})
    ) as host:
        response = await host.ask("elicitation/input", prompt="Name?")
        status = await host.status()
    assert response["metadata"]["route"] == "mcp-form"
    assert [(each["surface"], each["provider"]) for each in status["surfaces"]][-1] == (
        "model-relay",
        "model-relay",
    )


# --- whose surfaces, in which order ---------------------------------------------------------------


async def test_order_of_surfaces_of_the_user_comes_before_the_hosts() -> None:
    async with hosted(*ASK, "--ask-on", "model-relay,host", answer=lambda params: None) as host:
        assert "This is for your user" in await asked(host, "elicitation/input", prompt="Name?")
