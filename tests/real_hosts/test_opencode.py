"""OpenCode's published SDK against the bridge's questions API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from support.harness import PATIENCE, Hosted, Pipes, Wire, text

from .hosts import gist
from .stage import BRIDGE, Json, Stage, recorded

CLIENT = Path(__file__).with_name("opencode_client.mjs")
PASSWORD = "planted-password-9d20"


class Sdk:
    """The SDK in a process of its own."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self._events: list[Json] = []

    async def call(self, name: str, **parameters: Json) -> tuple[int, Json]:
        await self._stdin.send(
            json.dumps({"call": name, "parameters": parameters}).encode() + b"\n"
        )
        while "event" in (message := await self._read()):
            self._events.append(message["event"])
        return message["status"], message.get("data", message.get("error"))

    async def event(self, kind: str) -> Json:
        while True:
            while self._events:
                if (event := self._events.pop(0))["type"] == kind:
                    return event["properties"]
            self._events.append((await self._read())["event"])

    async def _read(self) -> Json:
        with anyio.fail_after(PATIENCE):
            return json.loads(await self._stdout.receive_until(b"\n", 2**20))


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[tuple[Hosted, Sdk]]:
    """A bridge whose demo app asks on the questions API alone, and a program that listens there."""
    options = ["--app", "demo", "--questions-api", "0", "--ask-on", "questions-api"]
    wire = Wire()
    pipes = Pipes(
        recorded(stage.folder / "mcp", BRIDGE, "serve", *options),
        wire,
        env=stage.environment(ABP_QUESTIONS_PASSWORD=PASSWORD, ABP_PERSON_FLOOR="0"),
    )
    async with Client(pipes, mode="legacy") as client:
        host = Hosted(client, wire, pipes)
        await client.call_tool("abp_connect", {})
        (url,) = (each["at"] for each in (await host.status())["surfaces"])
        command = ["node", str(CLIENT), str(stage.program), url]
        async with await anyio.open_process(
            command, stderr=None, env=stage.environment(OPENCODE_SERVER_PASSWORD=PASSWORD)
        ) as process:
            sdk = Sdk(process)
            await sdk.event("server.connected")
            yield host, sdk
            assert process.stdin is not None
            await process.stdin.aclose()
            with anyio.fail_after(PATIENCE):
                assert await process.wait() == 0


TRIP = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Lima", "Rome"]},
        "meals": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        "seats": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
    },
    "required": ["city", "meals", "seats"],
}
PLAN = {"method": "elicitation/input", "params": {"prompt": "Plan it", "schema": TRIP}}
SECRET = {
    "method": "elicitation/input",
    "params": {"prompt": "Your API key?", "schema": {"type": "string"}},
}


async def answer(sdk: Sdk) -> None:
    asked = await sdk.event("question.asked")
    assert await sdk.call("list") == (200, [asked])
    texts = [info["question"].partition("\n")[0] for info in asked["questions"]]
    assert texts == ["demo asks: Plan it"] * 4
    wrong = [["Oslo"], [], ["2"], ["Leave empty"]]
    status, error = await sdk.call("reply", requestID=asked["id"], answers=wrong)
    assert (status, "'Oslo' is none of the options" in error["message"]) == (400, True)
    answers = [["Rome"], ["a", "c"], ["2"], ["by the window"]]
    assert await sdk.call("reply", requestID=asked["id"], answers=answers) == (200, True)
    replied = await sdk.event("question.replied")
    assert (replied["requestID"], replied["answers"]) == (asked["id"], answers)
    assert (await sdk.call("reply", requestID=asked["id"], answers=answers))[0] == 404
    assert await sdk.call("list") == (200, [])


async def reject(sdk: Sdk) -> None:
    asked = await sdk.event("question.asked")
    assert await sdk.call("reject", requestID=asked["id"]) == (200, True)
    assert (await sdk.event("question.rejected"))["requestID"] == asked["id"]


def test_sdk_answers_and_rejects_but_never_sees_a_secret(stage: Stage) -> None:
    responses: list[Json] = []

    async def ask(host: Hosted, *requests: Json) -> None:
        responses.extend(json.loads(text(await host.call("demo.ask_all", requests=requests))))

    async def run() -> None:
        async with opened(stage) as (host, sdk):
            for requests, person in (([SECRET, PLAN], answer), ([PLAN], reject)):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, host, *requests)
                    await person(sdk)

    anyio.run(run)
    refused, planned, rejected = responses
    assert refused["error"]["code"] == "NOT_SUPPORTED"
    value = {"city": "Rome", "meals": ["a", "c"], "seats": 2, "note": "by the window"}
    assert gist(planned) == (True, {"value": value}, "person")
    assert rejected["metadata"]["outcome"] == "declined"
