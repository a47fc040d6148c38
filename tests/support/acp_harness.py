"""A raw ACP client on an agent, and a referee that checks messages against `acp.schema`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import acp.schema as types
import anyio
from pydantic import TypeAdapter

from abp_bridge.session.surface import Page
from support import peer
from support.harness import PATIENCE, SERVE, environment
from support.in_process import open_process
from support.peer import read_lines

Json = Any

FORM: Json = {"elicitation": {"form": {}}}

# --- the referee ----------------------------------------------------------------------------------

_TYPES = json.loads(Path(__file__).with_name("acp_types.json").read_text())
PARAMS: dict[str, Any]
RESULTS: dict[str, Any]
PARAMS, RESULTS = (
    {method: getattr(types, name) for method, name in _TYPES[part].items()}
    for part in ("params", "results")
)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def check_value(kind: Any, value: Json) -> None:
    """Check `value` strictly against a type of `acp.schema` that must know every member."""
    read = _adapter(kind).validate_json(json.dumps(value), strict=True)
    known = json.loads(_adapter(kind).dump_json(read, by_alias=True, exclude_unset=True))
    assert known == value, f"{kind} does not know all of {value}"


def check_params(method: str, params: Json) -> None:
    """The parameters of a request or notification."""
    update = params.get("update", {}) if method == "session/update" else {}
    if update.get("sessionUpdate") == "notice":  # newer than the SDK
        assert set(update) == {"sessionUpdate", "severity", "title"}
        assert update["severity"] in ("info", "warning", "error")
        assert isinstance(update["title"], str) and update["title"]  # noqa: PT018
        return
    check_value(PARAMS[method], params)
    if method == "elicitation/create" and params["mode"] == "form":
        _check_form(params["requestedSchema"])


def check_client(said: Sequence[Json], heard: Sequence[Json]) -> None:
    """Check what a client `said`, with at most one answer to each request that it `heard`."""
    asked = {_id(each): each["method"] for each in heard if "method" in each and "id" in each}
    for message in said:
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            check_value(PARAMS[message["method"]], message["params"])
        elif "error" in message:
            check_value(types.Error, message["error"])
            del asked[_id(message)]
        else:
            check_value(RESULTS[asked.pop(_id(message))], message["result"])


def _check_form(schema: Json) -> None:
    """What the SDK leaves open and strict clients refuse (reference/acp.md 1.3)."""
    assert schema["type"] == "object"
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for part in schema["properties"].values():
        kind = part["type"]
        assert kind in ("string", "number", "integer", "boolean", "array")
        assert part.get("format", "email") in ("email", "uri", "date", "date-time")
        for word, bits in (
            ("minLength", 32),
            ("maxLength", 32),
            ("minItems", 64),
            ("maxItems", 64),
        ):
            assert type(part.get(word, 0)) is int
            assert 0 <= part.get(word, 0) < 2**bits
        for word in ("minimum", "maximum", "default"):
            if kind == "integer":
                assert type(part.get(word, 0)) is int
                assert -(2**63) <= part.get(word, 0) < 2**63
            elif kind == "number":
                assert abs(part.get(word, 0)) <= 1.8e308
        for option in part.get("oneOf", part.get("items", {}).get("anyOf", [])):
            assert isinstance(option["const"], str)
            assert isinstance(option["title"], str)


class Wire(peer.Wire):
    """The wire of one ACP connection; the agent is the bridge."""

    def updates(self, kind: str, session: str | None = None) -> list[Json]:
        """The `session/update`s of one kind, of all sessions or of one."""
        sent = self.sent("session/update")
        told = [each["update"] for each in sent if session in (None, each["sessionId"])]
        return [update for update in told if update["sessionUpdate"] == kind]

    def check(self) -> None:
        """Each message of the agent is valid, and each request is answered at most once."""
        asked: dict[Json, str] = {}
        ours: set[Json] = set()
        for who, message in self.lines:
            if who == "host":
                if "method" in message and "id" in message:
                    asked[_id(message)] = message["method"]
                continue
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                check_params(message["method"], message["params"])
                assert message.get("id") not in ours or "id" not in message, (
                    f"{message['id']!r} was asked twice"
                )
                ours.add(message.get("id"))
            elif "error" in message:
                check_value(types.Error, message["error"])
                if message["id"] is not None:
                    del asked[_id(message)]
            else:
                method = asked.pop(_id(message))  # a second answer has no request any more
                check_value(RESULTS[method], message["result"])


def _id(message: Json) -> Json:
    return type(message["id"]), message["id"]


# --- the client -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failed:
    """What a handler returns to answer with a JSON-RPC error."""

    code: int
    message: str = "no"


Handler = Callable[[str, Json], Any]


def never(method: str, params: Json) -> None:
    """A person who does not answer."""


class Client:
    """`handler` answers requests with a result, `Failed`, or None for never; it may be async."""

    def __init__(
        self, process: anyio.abc.Process, handler: Handler, tasks: anyio.abc.TaskGroup
    ) -> None:
        self.process = process
        self.wire = Wire()
        self.handler = handler
        self._tasks = tasks
        self._serial = 0
        self._changed = anyio.Event()
        self._ended: Exception | None = None

    async def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with anyio.fail_after(PATIENCE):
            await self.process.stdin.send(line)

    async def send(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.wire.lines.append(("host", message))
        await self.write(json.dumps(message).encode() + b"\n")

    async def notify(self, method: str, params: Json) -> None:
        await self.send({"method": method, "params": params})

    async def begin(self, method: str, params: Json) -> int:
        self._serial += 1
        id = self._serial
        await self.send({"id": id, "method": method, "params": params})
        return id

    async def response(self, id: Json) -> Json:
        """The agent's response to the request `id`."""
        return await self.until(lambda message: "method" not in message and message.get("id") == id)

    async def exchange(self, method: str, params: Json) -> Json:
        return await self.response(await self.begin(method, params))

    async def request(self, method: str, params: Json) -> Json:
        response = await self.exchange(method, params)
        assert "result" in response, response
        return response["result"]

    async def until(self, wanted: Callable[[Json], bool], *, after: int = 0) -> Json:
        """Wait for the first message of the agent that is `wanted`, from line `after` on."""
        with anyio.fail_after(PATIENCE):
            while True:
                for who, message in self.wire.lines[after:]:
                    if who == "bridge" and wanted(message):
                        return message
                if self._ended is not None:
                    raise self._ended
                self._changed = anyio.Event()
                await self._changed.wait()

    async def asked(self, method: str, count: int = 1) -> Json:
        """The agent's `count`-th request or notification with this method, whole; waits for it."""
        await self.until(lambda _: len(self.wire.sent(method)) >= count)
        sent = [message for message in self.wire.sent() if message.get("method") == method]
        return sent[count - 1]

    async def initialize(
        self, capabilities: Json = None, name: str = "raw", version: int = 1
    ) -> Json:
        params = {
            "protocolVersion": version,
            "clientInfo": {"name": name, "version": "1"},
            "clientCapabilities": capabilities or {},
        }
        return await self.request("initialize", params)

    async def new(self, cwd: str = "/") -> str:
        opened = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        return str(opened["sessionId"])

    async def start(self, session: str, words: str, *blocks: Json) -> int:
        prompt = [{"type": "text", "text": words}, *blocks]
        return await self.begin("session/prompt", {"sessionId": session, "prompt": prompt})

    async def prompt(self, session: str, words: str, *blocks: Json) -> tuple[str, str]:
        """One whole turn: (its stop reason, what the agent said in it)."""
        before = len(self.wire.lines)
        response = await self.response(await self.start(session, words, *blocks))
        said = Wire(self.wire.lines[before:]).updates("agent_message_chunk", session)
        words = "".join(update["content"]["text"] for update in said)
        return response["result"]["stopReason"], words

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in read_lines(self.process.stdout):
            message = json.loads(line)
            self.wire.lines.append(("bridge", message))
            if "method" in message and "id" in message:
                self._tasks.start_soon(self._answer, message)
            self._changed.set()
        self._end(EOFError("the agent closed its stdout"))

    def _end(self, problem: Exception) -> None:
        self._ended = self._ended or problem
        self._changed.set()

    async def _answer(self, message: Json) -> None:
        try:
            given = self.handler(message["method"], message["params"])
            if isinstance(given, Awaitable):
                given = await given
        except Exception as problem:
            self._end(problem)  # whoever waits for the agent next gets to know
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has exited
            if isinstance(given, Failed):
                await self.send({"id": message["id"], "error": vars(given)})
            elif given is not None:
                await self.send({"id": message["id"], "result": given})

    async def leave(self) -> int:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.fail_after(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def client(
    *arguments: str,
    command: Sequence[str] = SERVE,
    handler: Handler = never,
    env: Mapping[str, str | None] | None = None,
) -> AsyncIterator[Client]:
    """Run a raw client on an agent (the bridge by default); `env` adds, None takes away."""
    variables = {
        name: value for name, value in {**environment(), **(env or {})}.items() if value is not None
    }
    async with (
        await open_process([*command, *arguments], env=variables) as process,
        anyio.create_task_group() as tasks,
    ):
        try:
            opened = Client(process, handler, tasks)
            tasks.start_soon(opened.read)
            yield opened
            code = await opened.leave()
            assert code == 0, f"it exited with {code}"
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        tasks.cancel_scope.cancel()
    opened.wire.check()


# --- a person's answers ---------------------------------------------------------------------------


def selected(option: str) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}


def labels(permission: Json) -> list[str]:
    return [option["name"] for option in permission["options"]]


def pressing(*buttons: str) -> Handler:
    """Press these buttons, one a step, with "More …" on the way to others."""
    left = list(buttons)

    def answer(method: str, params: Json) -> Json:
        assert method == "session/request_permission", method
        shown = {option["name"]: option["optionId"] for option in params["options"]}
        return selected(shown[left.pop(0)] if left[0] in shown else shown["More …"])

    return answer


def accepting(**content: Json) -> Handler:
    def answer(method: str, params: Json) -> Json:
        assert method == "elicitation/create", method
        return {"action": "accept", "content": content}

    return answer


class NoPage(Page):
    """The bridge's own page, where nobody is to be sent."""

    def show(self, question: Any, context: Any) -> Any:
        raise AssertionError(f"{question} was put on the page")
