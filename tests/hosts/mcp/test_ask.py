"""`abp_ask`: a host's own model asks its person, by whatever can ask them, without an app."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ElicitResult
from support.harness import MODERN, PATIENCE, VERSIONS, Hosted, accept, hosted, refuse, text

Json = Any


async def ask(host: Hosted, kind: str, message: str = "Which?", **more: Json) -> CallToolResult:
    return await host.client.call_tool("abp_ask", {"kind": kind, "message": message, **more})


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_question_of_the_model_names_it_and_returns_the_answer(version: str) -> None:
    shown: list[str] = []

    def answer(params: Json) -> ElicitResult:
        shown.append(params.message)
        return accept(confirmed=True)(params)

    async with hosted(version=version, answer=answer) as host:
        result = await ask(host, "confirm", "Delete the branch?")
    assert shown[0].startswith("the model of ")
    assert shown[0].endswith("asks: Delete the branch?")
    assert not result.is_error
    assert '"confirmed": true' in text(result)


async def test_each_kind_is_asked_like_an_apps_question() -> None:
    asked: list[Json] = []

    def answer(params: Json) -> ElicitResult:
        asked.append(params.requested_schema["properties"])
        return accept(selected="b", value=4)(params)

    async with hosted(answer=answer) as host:
        chosen = await ask(host, "select", options=["a", "b"])
        typed = await ask(host, "input", schema={"type": "integer", "maximum": 4})
        preferred = await ask(host, "preference", schema={"type": "integer"}, default=7)
        questions = (await host.status())["questions"]
    answers = [json.loads(text(each)) for each in (chosen, typed, preferred)]
    assert [each["answer"] for each in answers] == [{"selected": "b"}, {"value": 4}, {"value": 4}]
    assert all(each["answeredBy"] != "default" for each in answers)
    assert asked[1]["value"]["maximum"] == 4
    assert asked[2]["value"]["default"] == 7
    assert (questions["open"], questions["endedCount"]) == ([], 3)


async def test_default_is_not_reported_as_the_users_answer() -> None:
    async with hosted() as host:
        result = await ask(host, "preference", default="red")
    said = json.loads(text(result))
    assert said.pop("reason").startswith("Nobody could be asked: ")
    assert said == {"answer": {"value": "red"}, "answeredBy": "default", "outcome": "unsupported"}


async def test_declined_question_never_returns_its_default() -> None:
    actions = ["decline", "cancel"]
    told: list[Json] = []

    def answer(params: Json) -> ElicitResult:
        return refuse(actions[len(told)])(params)

    async with hosted(answer=answer) as host:
        for _ in actions:
            schema = {"type": "boolean"}
            result = await ask(host, "preference", "Delete all?", schema=schema, default=True)
            assert result.is_error
            code, _, words = text(result).partition(":")
            told.append((code, json.loads(words.partition("Data: ")[2])))
    assert told == [
        ("USER_CANCELLED", {"answeredBy": "person", "outcome": "declined"}),
        ("USER_CANCELLED", {"answeredBy": "person", "outcome": "cancelled"}),
    ]


PUBLIC: Json = {"type": "string", "title": "Password", "sensitive": False}
SAID_TO_BE_PUBLIC: list[Json] = [
    PUBLIC,
    {"sensitive": False, "properties": {"password": {"type": "string"}}},
    {"properties": {"password": PUBLIC}},
    {"properties": {"one": PUBLIC, "two": {"type": "string"}}},
    {"type": "array", "items": {"type": "object", "properties": {"password": PUBLIC}}},
]


async def test_model_cannot_declare_a_secret_public() -> None:
    asked: list[Json] = []

    def answer(params: Json) -> ElicitResult:
        asked.append(params.message)
        return accept(value="hunter2")(params)

    async with hosted(answer=answer) as host:
        for schema in SAID_TO_BE_PUBLIC:
            for kind, words in (("input", "Your password?"), ("preference", "Please sign in")):
                result = await ask(host, kind, words, schema=schema)
                assert "A secret is nothing for a model to ask for" in text(result), (kind, schema)
    assert not asked


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "MISSING_PARAM: abp_ask needs a kind: confirm, select"),
        ({"kind": "password", "message": "?"}, "INVALID_PARAMS: kind must be one of confirm"),
        ({"kind": "confirm"}, "MISSING_PARAM: abp_ask needs the message"),
        ({"kind": "confirm", "message": "?", "mesage": "?"}, "no argument 'mesage'"),
        ({"kind": "select", "message": "?", "options": []}, "Nobody can be asked this:"),
        (
            {"kind": "input", "message": "?", "schema": {"type": "string", "format": "password"}},
            "A secret is nothing for a model to ask for",
        ),
    ],
)
async def test_question_that_cannot_be_asked_gives_the_reason(arguments: Json, why: str) -> None:
    async with hosted(answer=accept()) as host:
        result = await host.client.call_tool("abp_ask", arguments)
        assert not (await host.status())["questions"]["endedCount"]
    assert result.is_error
    assert why in text(result)


async def test_cancelled_ask_tool_withdraws_its_question() -> None:
    shown = anyio.Event()

    def answer(params: Json) -> None:
        shown.set()

    async with hosted(answer=answer) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, host, "confirm")
            with anyio.fail_after(PATIENCE):
                await shown.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            while not (await host.status())["questions"]["endedCount"]:
                await anyio.lowlevel.checkpoint()
        ended = (await host.status())["questions"]["ended"]
    assert [each["outcome"] for each in ended] == ["withdrawn"]
