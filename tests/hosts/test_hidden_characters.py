"""What is there and not seen: characters that reorder a line, hide in it or move a cursor, planted
in each text of each message that an app can send. Whatever draws what the bridge writes (a host of
any kind, the page, a terminal, a log) gets none of them raw.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Awaitable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from support.acp_harness import CANCELLED, FORM, client
from support.browser import LINK, Browser
from support.harness import MODERN, environment, hosted
from support.paths import TESTS
from support.puppets import App, Puppets, puppets
from support.terminal import CTRL_D, Screen

from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question

Json = Any

# Overrides and isolates, no width, tags, escape sequences of one byte and of two, a blank letter.
PLANT = "é\u202e\u2066\u200b\U000e0041\x1b]666;\x07\x9b31m\u3164ñ"

TOOL: Json = {
    "name": "run",
    "description": "Runs",
    "deprecated": True,
    "deprecationMessage": "Use another",
    "inputSchema": {
        "type": "object",
        "title": "Parameters",
        "properties": {
            "step": {"type": "integer", "title": "Step", "description": "Which"},
            "colour": {"enum": ["red", "blue"], "default": "red", "enumNames": ["Red", "Blue"]},
            "mail": {
                "type": "string",
                "pattern": "^a",
                "format": "email",
                "examples": ["a@b.example"],
            },
        },
        "$defs": {"kind": {"const": "k"}},
        "anyOf": [{"title": "Any"}, {"required": ["step"]}],
    },
}
OPENED: Json = {
    "sessionId": "s",
    "protocolVersion": "0.1",
    "app": {"id": "planted", "name": "Planted"},
    "capabilities": [TOOL, "plain"],
}
FIELDS: Json = {
    "type": "object",
    "title": "All",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Yours", "default": "Ann"},
        "town": {"oneOf": [{"const": "m", "title": "Madrid", "description": "warm"}]},
        "any": {"type": "array", "items": {"enum": ["x", "y"]}, "default": ["x"]},
        "code": {"type": "string", "pattern": "^c", "format": "of-ours"},
        "whole": {
            "type": "object",
            "properties": {"deep": {"const": "d"}},
            "default": {"deep": "d"},
        },
    },
    "required": ["name"],
}
ASKED: list[Json] = [
    {"method": "elicitation/input", "params": {"prompt": "Who?", "schema": FIELDS}},
    {
        "method": "elicitation/input",
        "params": {"prompt": "What?", "schema": {"type": "string", "default": "this"}},
    },
    {
        "method": "elicitation/preference",
        "params": {"prompt": "How?", "schema": {"enum": ["a", "b"]}, "default": "a"},
    },
    {"method": "elicitation/confirm", "params": {"message": "Sure?", "destructive": True}},
    {
        "method": "elicitation/select",
        "params": {
            "prompt": "Which?",
            "options": [{"value": "v", "label": "V", "description": "the v"}, "w"],
        },
    },
    {
        "method": "elicitation/resource",
        "params": {"type": "image/png", "uri": "file:///x", "prompt": "Give"},
    },
    {"method": "sampling/create", "params": {"task": "Think", "context": {"about": "this"}}},
]
TOLD: list[Json] = [
    {"method": "notifications/state/changed", "params": {"field": "f", "newValue": {"k": "v"}}},
    {
        "method": "notifications/operation/started",
        "params": {"operationId": "o", "capability": "c"},
    },
    {
        "method": "notifications/operation/completed",
        "params": {"operationId": "o", "success": False},
    },
    {"method": "notifications/error", "params": {"code": "E", "message": "bad"}},
    {"method": "notifications/of-ours", "params": {"k": {"l": "m"}}},
    {"method": "notifications/progress", "params": {"progress": 1, "status": "s", "stage": "t"}},
]
RETURNED: list[Json] = [
    {"success": True, "data": {"k": ["v"]}, "metadata": {"note": "n"}},
    {"success": True, "data": "words\r\nin lines"},
    "no response",
    {
        "success": True,
        "data": {
            "mimeType": "text/plain",
            "filename": "f.txt",
            "content": "aGk=",
            "encoding": "base64",
        },
    },
    {
        "success": True,
        "data": {"mimeType": "image/png", "downloadUrl": "https://x.example", "size": 1},
    },
    {"success": True, "data": "data:text/plain;base64,4oCuG1swbQ=="},
    {
        "success": False,
        "error": {"code": "C", "message": "m", "details": {"k": "v"}, "alternatives": ["other"]},
    },
    {"success": "neither", "data": "d"},
]


def planted(value: Json) -> Iterator[Json]:
    """`value` with the plant in one text of it, or in one name of a member, each time another."""
    if isinstance(value, str):
        yield value + PLANT
    elif isinstance(value, dict):
        for name, each in value.items():
            rest = {key: other for key, other in value.items() if key != name}
            yield rest | {name + PLANT: each}
            yield from ({**value, name: other} for other in planted(each))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in planted(each))


# What an app does in one call: what it says meanwhile, and what the call is answered.
STEPS: list[tuple[Json, Json]] = [
    *((said, {"success": True}) for each in TOLD for said in planted(each)),
    *((said, {"success": True}) for each in ASKED for said in planted(each)),
    *((None, said) for each in RETURNED for said in planted(each)),
]
LAST = len(STEPS) - 1
PARTS = 4  # a session plays each fourth step: on a busy machine they all have time
parts = pytest.mark.parametrize("part", range(PARTS))


def texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from texts(each)
    if isinstance(value, dict):
        yield from value


def unseen(words: str) -> list[str]:
    """The characters in it that nobody sees, and that do something."""
    words = words.replace("\r\n", "\n")
    blank = [each for each in words if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    return [each for each in [*blank, *(set(words) & {"\u3164"})] if each not in "\n\t"]


def check(messages: list[Json]) -> None:
    shown = [each for message in messages for each in texts(message)]
    around = [each.partition(found[0]) for each in shown if (found := unseen(each))]
    assert [ascii(before[-200:] + there + after[:40]) for before, there, after in around] == []
    assert any("ñ" in each for each in shown), "nothing that was planted came through"


async def play(app: App, opened: Json) -> None:
    """An app that plays the steps, the one that each call names."""
    asked = await app.next("initialize")
    await app.send(id=asked["id"], result=opened)
    while (message := await app.next()) is not None:
        method = message.get("method")
        if method == "capabilities/call":
            said, returned = STEPS[message["params"]["params"].get("step", LAST)]
            asks = "method" in (said or {}) and not said["method"].startswith("notifications")
            if said is not None:
                await app.send(**said, **({"id": "q"} if asks else {}))
            if asks:
                while (await app.next() or {"id": "q"}).get("id") != "q":
                    pass
            await app.send(id=message["id"], result=returned)
        elif method == "capabilities/list":
            await app.send(id=message["id"], result=opened.get("capabilities", []))
        elif method is not None and "id" in message:
            await app.send(id=message["id"], result={})


async def serve(made: Puppets, openings: list[Json]) -> None:
    for opened in openings:
        await play(await made.app(), opened)


def answer(params: Json) -> Json:
    """A person who first leaves everything out, declines when asked again, and goes to no page."""
    over = "Please answer again" in params["message"] or LINK.search(json.dumps(params))
    return {"action": "decline"} if over else {"action": "accept", "content": {"name": 7}}


@pytest.mark.network
@parts
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
async def test_hidden_characters_never_reach_an_mcp_host(
    version: str, part: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def elicit(params: Any) -> types.ElicitResult:
        return types.ElicitResult.model_validate(answer(params.model_dump()))

    async def sample(context: Any, params: Any) -> Any:
        said = types.TextContent(type="text", text="thought")
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async with (
        puppets(tmp_path) as made,
        hosted(
            *("--app", made.target, "--log-level", "debug"),
            answer=elicit,
            sampling=sample,
            version=version,
        ) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve, made, [OPENED])
        with anyio.fail_after(120):
            await host.client.call_tool("abp_connect", {})
            for step in range(part, len(STEPS), PARTS):
                await host.call("run", step=step)
            await host.status()
            for resource in (await host.client.list_resources()).resources:
                await host.client.read_resource(resource.uri)
            await host.client.list_tools()
        tasks.cancel_scope.cancel()
    check(host.wire.sent())
    assert unseen(capfd.readouterr().err) == []


@pytest.mark.slow
async def test_hidden_characters_of_an_app_description_never_reach_a_host(tmp_path: Path) -> None:
    tools = [
        {**each, "name": f"run{n}"} if each.get("name") == TOOL["name"] else each
        for n, each in enumerate(planted(TOOL))
    ]
    plain = {**OPENED, "capabilities": ["plain"]}
    openings = [*planted(plain), {**OPENED, "capabilities": [TOOL, *tools]}]
    async with (
        puppets(tmp_path) as made,
        hosted("--app", made.target) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve, made, openings)
        for _ in openings:
            await host.client.call_tool("abp_connect", {})
            await host.client.list_tools()
            await host.status()
            await host.call("unknown")
            await host.client.call_tool("abp_disconnect", {})
        tasks.cancel_scope.cancel()
    check(host.wire.sent())


@parts
@pytest.mark.parametrize("forms", [True, False], ids=["forms", "permissions"])
@pytest.mark.slow
async def test_hidden_characters_never_reach_an_acp_client(
    forms: bool, part: int, tmp_path: Path
) -> None:
    def handle(method: str, params: Json) -> Json:
        return answer(params) if method == "elicitation/create" else CANCELLED

    capabilities = {**(FORM if forms else {}), "session": {"notices": {}}}
    async with (
        puppets(tmp_path) as made,
        client("--app", made.target, handler=handle) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve, made, [OPENED])
        await host.initialize(capabilities)
        session = await host.new()
        with anyio.fail_after(120):
            await host.prompt(session, "/connect")
            for step in range(part, len(STEPS), PARTS):
                await host.prompt(session, f'/run {{"step": {step}}}')
            await host.prompt(session, "/status")
        tasks.cancel_scope.cancel()
    check(host.wire.sent())


def is_question(request: Json) -> bool:
    """Whether a person can be asked that."""
    try:
        return bool(decode_question(request, id="q", origin="o").fields)
    except RemoteProtocolError:
        return False


@pytest.mark.network
@parts
async def test_hidden_characters_are_not_on_the_page(part: int, tmp_path: Path) -> None:
    pages: list[str] = []

    def look(params: Any) -> types.ElicitResult:
        browser = Browser()  # its own: the next question may come before this one is back
        found = LINK.search(params.model_dump_json())
        assert found is not None
        pages.append(browser.open(found[0]))
        browser.send(action="decline")
        return types.ElicitResult(action="accept", content={})

    def visit(params: Any) -> Awaitable[Any]:
        return anyio.to_thread.run_sync(look, params)

    asked = [step for step, (said, _) in enumerate(STEPS) if is_question(said)]
    async with (
        puppets(tmp_path) as made,
        hosted("--app", made.target, "--page", "--ask-on", "page", answer=visit) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve, made, [OPENED])
        with anyio.fail_after(120):
            for step in asked[part::PARTS]:
                await host.call("run", step=step)
        tasks.cancel_scope.cancel()
    assert len(pages) > 15
    check(pages)


@pytest.mark.terminal
def test_hidden_characters_are_not_drawn_on_a_terminal() -> None:
    requests = [each for each in chain(*map(planted, ASKED)) if is_question(each)]
    asker = [sys.executable, str(TESTS / "support" / "asker.py"), *map(json.dumps, requests)]
    for term in ("xterm-256color", "dumb"):
        with Screen(asker, {**environment(), "TERM": term}) as screen:
            for _ in requests:
                screen.until("declines")
                if term == "dumb":
                    screen.until(": ")  # its line is read from then on
                screen.press(CTRL_D)
            drawn = screen.raw.decode(errors="replace")
        for each in ("\u202e", "\u2066", "\u200b", "\U000e0041", "\x1b]666", "\x9b", "\u3164"):
            assert each not in drawn, ascii(each)
