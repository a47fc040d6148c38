"""A host and a server joined by `abp-bridge mcp`, in memory and on a virtual clock.

Each of them checks every message that reaches it against the official types of its revision, and
writes what a test tells it to. Its tests need the fixture
`anyio_backend` of `proxies/mcp`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp_types import methods
from simulation.virtual_loop import VirtualLoop, run_here
from simulation.wires import Peer, Pipe, ReadEnd, Weather

from abp_bridge.cli.compose import Composition
from abp_bridge.jsonrpc.tap import unobserved_stream
from abp_bridge.mcp.proxy.proxy import Policy, run_proxy
from abp_bridge.protocols.mcp.client import ERAS
from abp_bridge.settings import Settings
from support.mcp_messages import (
    ANSWERS,
    ASKABLE,
    CAPABILITIES,
    CLIENT,
    META,
    RESULTS,
    SERVER,
    STATEFUL,
    STATELESS,
)

Json = Any

VIRTUAL = ("asyncio", {"loop_factory": VirtualLoop})
LIMIT = 3_600.0  # virtual seconds of a test: nothing waits so long
# Not in the official types: vendors' messages, tasks and what they tell.
_UNTYPED = ("vendor/", "notifications/vendor/", "tasks/", "notifications/tasks/")


KINDS = {False: "stateful", True: "stateless"}


kinds = pytest.mark.parametrize("stateless", KINDS, ids=KINDS.values())


def pair(host: bool, server: bool, *more: Json) -> Json:
    """Parameters of a test for this pair."""
    id = "-".join([f"{KINDS[host]} host", f"{KINDS[server]} server", *map(str, more)])
    return pytest.param(host, server, *more, id=id)


pairs = pytest.mark.parametrize(
    ("host_kind", "server_kind"), [pair(host, server) for host in KINDS for server in KINDS]
)


def _version(stateless: bool) -> str:
    return STATELESS if stateless else STATEFUL


def _is_typed(method: str) -> bool:
    return not method.startswith(_UNTYPED)


@dataclass
class Told:
    """What one side heard: notifications, and requests, as (method, params)."""

    notified: list[tuple[str, Json]] = field(default_factory=list)
    asked: list[tuple[str, Json]] = field(default_factory=list)

    def notices(self, method: str) -> list[Json]:
        return [params for each, params in self.notified if each == method]

    def requests(self, method: str) -> list[Json]:
        return [params for each, params in self.asked if each == method]


class Host(Told):
    """A host of either kind, which answers questions as `answers` says; None is never."""

    def __init__(self, *, stateless: bool, capabilities: Json = None) -> None:
        super().__init__()
        self.stateless = stateless
        self.capabilities: Json = ASKABLE if capabilities is None else capabilities
        self.answers: dict[str, Json] = dict(ANSWERS)
        self.refuses = ""  # a method that it answers with an error
        self.to_bridge, self.from_bridge = (Pipe(Random(0), Weather()) for _ in range(2))
        self.peer = Peer(self.from_bridge, self.to_bridge, self._on_message)

    def _on_message(self, message: Json) -> None:
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if _is_typed(method):
                methods.parse_server_notification(method, _version(self.stateless), params)
            self.notified.append((method, params))
            return
        assert not self.stateless, "a stateless host is sent no requests"
        if _is_typed(method):
            methods.parse_server_request(method, STATEFUL, params)
        self.asked.append((method, params))
        if method == self.refuses:
            self.peer.send({"id": message["id"], "error": {"code": -32601, "message": "no"}})
        elif (answer := self.answers.get(method, {"vendor": 1})) is not None:
            self.peer.send({"id": message["id"], "result": answer})

    def envelope(self, meta: Json = None) -> Json:
        own = {
            f"{META}protocolVersion": STATELESS,
            f"{META}clientCapabilities": self.capabilities,
            f"{META}clientInfo": CLIENT,
        }
        return {**(meta or {}), **own}

    def begin(self, method: str, params: Json = None) -> int:
        """Send a request, and return its id."""
        id = self.peer.next_id()
        self.peer.send(self._make(id, method, params))
        return id

    def _make(self, id: int, method: str, params: Json) -> Json:
        if self.stateless:
            params = {**(params or {}), "_meta": self.envelope((params or {}).get("_meta"))}
        return {"id": id, "method": method, **({} if params is None else {"params": params})}

    async def request(self, method: str, params: Json = None) -> Json:
        """The whole response, whose result is valid."""
        id = self.peer.next_id()
        message = self._make(id, method, params)
        response = await self.peer.request(method, message.get("params"), id)
        assert response is not None, "the bridge has ended"
        if "result" not in response:
            types.JSONRPCError.model_validate(response)
        elif _is_typed(method):
            version = _version(self.stateless)
            methods.validate_server_result(method, version, response["result"])
        return response

    async def result(self, method: str, params: Json = None) -> Json:
        response = await self.request(method, params)
        assert "result" in response, response
        return response["result"]

    async def shake_hands(self) -> Json:
        if self.stateless:
            return await self.result("server/discover")
        params = {"protocolVersion": STATEFUL, "capabilities": self.capabilities}
        hello = await self.result("initialize", {**params, "clientInfo": CLIENT})
        self.notify("notifications/initialized")
        return hello

    async def call(self, tool: str, arguments: Json = None, meta: Json = None) -> Json:
        """Call a tool and answer what it asks; the response."""
        params: Json = {"name": tool, "arguments": arguments or {}}
        return await self.carry("tools/call", params | ({"_meta": meta} if meta else {}))

    async def carry(self, method: str, params: Json) -> Json:
        """Send a request and answer what it asks; the response."""
        response = await self.request(method, params)
        while response.get("result", {}).get("resultType") == "input_required":
            retry = self._answer(response["result"])
            response = await self.request(method, {**params, **retry})
        return response

    def _answer(self, result: Json) -> Json:
        """Answer the questions of a result."""
        asked = result.get("inputRequests", {})
        self.asked += [(each["method"], each.get("params")) for each in asked.values()]
        answers = {key: self.answers[each["method"]] for key, each in asked.items()}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {**state, "inputResponses": answers}

    def notify(self, method: str, params: Json = None) -> None:
        self.peer.send({"method": method, **({} if params is None else {"params": params})})


class ToolError(Exception):
    """A JSON-RPC error that a server answers with."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


Tool = Callable[["Server", Json], Awaitable[Json]]


class Server(Told):
    """A server of either kind, which can be killed, and is started again.

    `results` are by method. `tools` are functions that make a result, by the tool's name or by
    the method; they may `ask`.
    """

    def __init__(self, *, stateless: bool) -> None:
        super().__init__()
        self.stateless = stateless
        self.capabilities: Json = CAPABILITIES
        self.results: dict[str, Json] = {**RESULTS, "vendor/thing": {"v": 1}}
        self.tools: dict[str, Tool] = {}
        self.starts = 0
        self.at_other_hello = "refuses"  # what it does at the other kind's; or "exits", "silent"
        self.is_missing = False  # whether it cannot be started
        self.streams: dict[Json, Json] = {}  # the filters of open streams, by id
        self.cancelled: list[Json] = []  # the params of each cancellation
        self.open: dict[Json, Json] = {}  # requests that wait, by id
        self.peer: Peer
        self._tasks: Any = None

    # --- its process ---

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Any]:
        """Its pipes, as the bridge opens them."""
        self.starts += 1
        if self.is_missing:
            raise FileNotFoundError("no such program")
        self.streams.clear()
        stdin, stdout = (Pipe(Random(0), Weather()) for _ in range(2))
        self.peer = peer = Peer(stdin, stdout, self._on_message)
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(peer.run)
            yield _Pipes(ReadEnd(stdout), stdin)
            tasks.cancel_scope.cancel()

    def kill(self) -> None:
        self.peer.hang_up()

    # --- what it hears ---

    def _on_message(self, message: Json) -> None:
        method, params, version = message["method"], message.get("params"), self.version
        if "id" not in message:
            if _is_typed(method):
                methods.parse_client_notification(method, version, params)
            self.notified.append((method, params))
            if method == "notifications/cancelled":
                self.cancelled.append(params)
                self.streams.pop(params["requestId"], None)
            return
        if method == ("initialize" if self.stateless else "server/discover"):
            self._hear_other_hello(message["id"], method)
            return
        if _is_typed(method) and (method, version) in methods.CLIENT_REQUESTS:
            methods.parse_client_request(method, version, params)
        self.asked.append((method, params))
        self._tasks.start_soon(self._answer, self.peer, message["id"], method, params or {})

    def _hear_other_hello(self, id: Json, method: str) -> None:
        if self.at_other_hello == "refuses":
            self.refuse(id, ToolError(-32022 if self.stateless else -32601, method))
        elif self.at_other_hello == "exits":
            self.kill()

    @property
    def version(self) -> str:
        return _version(self.stateless)

    async def _answer(self, peer: Peer, id: Json, method: str, params: Json) -> None:
        self.open[id] = params
        try:
            result = await self._find_result(id, method, params)
        except ToolError as problem:
            peer.send({"id": id, "error": problem.error})
        else:
            if result is not None:
                peer.send({"id": id, "result": self._dress(method, result)})
        finally:
            self.open.pop(id, None)

    async def _find_result(self, id: Json, method: str, params: Json) -> Json:
        if (make := self.tools.get(params.get("name", method))) is not None:
            return await make(self, params)
        if method == "initialize":
            info = {"serverInfo": SERVER, "capabilities": self.capabilities, "x-own": 1}
            return {"protocolVersion": params["protocolVersion"], **info}
        if method == "server/discover":
            return {"supportedVersions": [STATELESS], "capabilities": self.capabilities, "x-own": 1}
        if method == "subscriptions/listen":
            self.streams[id] = params["notifications"]
            told = {"notifications": params["notifications"], **self._tagged(id)}
            self.notify("notifications/subscriptions/acknowledged", told)
            return None
        if method in self.results:
            return self.results[method]
        if method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            return {}
        raise ToolError(-32601, f"no {method}", {"keep": 1})

    def _dress(self, method: str, result: Json) -> Json:
        if not self.stateless or result.get("resultType") == "input_required":
            return result
        meta = {**result.get("_meta", {}), f"{META}serverInfo": SERVER}
        kept = {"ttlMs": 0, "cacheScope": "private"} if method in methods.CACHEABLE_METHODS else {}
        return {"resultType": "complete", **kept, **result, "_meta": meta}

    # --- what it says ---

    def refuse(self, id: Json, problem: ToolError) -> None:
        self.peer.send({"id": id, "error": problem.error})

    def notify(self, method: str, params: Json = None) -> None:
        self.peer.send({"method": method, **({} if params is None else {"params": params})})

    def tell(self, method: str, params: Json = None) -> None:
        """Say a change: on each stream, where the kind has streams."""
        for id in self.streams if self.stateless else ():
            self.notify(method, {**(params or {}), **self._tagged(id)})
        if not self.stateless:
            self.notify(method, params)

    def _tagged(self, stream: Json) -> Json:
        return {"_meta": {f"{META}subscriptionId": stream}}

    async def ask(self, params: Json, *questions: tuple[str, Json]) -> list[Json]:
        """Ask during a call with these params, all at once; the answers.

        Raises _Asks for a stateless server, whose call ends with the question (`asking`).
        """
        answers: list[Json] = [None] * len(questions)
        if self.stateless:
            given = params.get("inputResponses")
            if given is None:
                raise _Asks(questions)
            answers = [given[f"k{number}"] for number in range(len(questions))]
        else:
            async with anyio.create_task_group() as tasks:
                for number, question in enumerate(questions):
                    tasks.start_soon(self._request, number, question, answers)
        for (method, _), answer in zip(questions, answers, strict=True):
            if _is_typed(method) and "code" not in answer:
                methods.validate_client_result(method, STATEFUL, answer)
        return answers

    async def _request(self, number: int, question: tuple[str, Json], answers: list[Json]) -> None:
        method, params = question
        self.peer._serial = max(self.peer._serial, 1_000)
        response = await self.peer.request(method, params)
        while response is None:  # the bridge has closed the server's input
            await anyio.sleep_forever()
        answers[number] = response.get("result", response.get("error"))


class _Asks(Exception):
    def __init__(self, questions: tuple[tuple[str, Json], ...]) -> None:
        super().__init__()
        self.questions = questions


@dataclass
class _Pipes:
    stdout: ReadEnd
    stdin: Pipe


def asking(*questions: tuple[str, Json]) -> Tool:
    """A tool that asks this, all at once, and returns the answers as structured content."""

    async def call(server: Server, params: Json) -> Json:
        try:
            answers = await server.ask(params, *questions)
        except _Asks:
            asked = {
                f"k{number}": {"method": method, "params": each}
                for number, (method, each) in enumerate(questions)
            }
            return {
                "resultType": "input_required",
                "inputRequests": asked,
                "requestState": "s",
            }
        return {"content": [], "structuredContent": {"answers": answers}}

    return call


async def never(server: Server, params: Json) -> Json:
    """A tool whose call never ends."""
    await anyio.sleep_forever()


@asynccontextmanager
async def joined(host: Host, server: Server, **settings: Any) -> AsyncIterator[None]:
    """Join them until the block ends."""
    chosen = Settings(**{"page": "off", "min_human_latency": 0.0, **settings})
    policy = Policy(
        origin=lambda: "stub",
        obstacle=lambda name, shows: "",
        overhear=lambda data: None,
        confirm=chosen.confirm,
        era=next((era for era in ERAS if era == chosen.era), None),
        pending_timeout=chosen.park_timeout,
    )
    with anyio.fail_after(LIMIT), patch.object(anyio.to_thread, "run_sync", run_here):
        async with anyio.create_task_group() as tasks:
            composition = Composition(chosen, "mcp", tasks)

            async def run() -> None:
                await run_proxy(
                    (ReadEnd(host.to_bridge), host.from_bridge),
                    server.start,
                    policy=policy,
                    make_elicitor=composition.make_mcp_elicitor,
                    tap_server=unobserved_stream,
                )
                tasks.cancel_scope.cancel()

            tasks.start_soon(run)
            tasks.start_soon(host.peer.run)
            yield
            host.peer.hang_up()


async def until(holds: Callable[[], object]) -> None:
    """Wait until this holds, on the virtual clock."""
    while not holds():  # noqa: ASYNC110
        await anyio.sleep(0.01)
