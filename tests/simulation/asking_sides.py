"""Who asks, one question in one call: ABP apps on a pipe, over a WebSocket and as a page, MCP
servers of both eras, ACP agents. Each has what it gets in its own protocol's words.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

from support import pairs
from websockets.exceptions import ConnectionClosedOK

from abp_bridge.apps import websocket
from abp_bridge.apps.browser import app as browser
from abp_bridge.apps.browser.fetch import Manifest, NoManifestError
from abp_bridge.core.question import Kind, Question
from abp_bridge.jsonrpc import subprocess

from .apps import Child, connected
from .servers import VERSION
from .wires import Peer, Weather

Json = Any

QUESTION = 1_000  # the id of what it asks, where that has one
INFO = {"name": "simulated", "version": "1"}
KEPT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
WORK: Json = {"name": "work", "description": "Work", "inputSchema": {"type": "object"}}


class Asker:
    """An app at the end of two pipes, which asks `question` as often as it is called.

    Attributes:
        answers: What it got, as often as it did.
        over: Set when it waits for an answer no more.
    """

    target: ClassVar[str] = "stdio:sim"
    asks: ClassVar[tuple[str, ...]] = (pairs.ABP,)  # whose questions
    capability: ClassVar[str] = "work"
    given: ClassVar[Json] = {}
    can_withdraw: ClassVar[bool] = True
    method: str

    def __init__(self, rng: Random, question: Question) -> None:
        self.rng = rng
        self.method, self.params = self._encode(question)
        self._tool = {**WORK, "annotations": {"destructiveHint": question.destructive}}
        self.peer: Peer
        self.over = asyncio.Event()
        self.call: Json = None
        self._work: asyncio.Task[None] | None = None

    @classmethod
    def asks_for(cls, pair: tuple[str, str]) -> bool:
        """Whether it has a way to ask that, of the table's."""
        return pair[0] in cls.asks

    def _encode(self, question: Question) -> tuple[str, Json]:
        return question.kind.value, dict(question.request)

    @property
    def answers(self) -> list[Json]:
        return self.peer.answered.get(QUESTION, [])

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """For as long as this lasts, the bridge reaches it."""
        with patch.object(subprocess, "spawn", self._spawn):
            yield

    @asynccontextmanager
    async def _spawn(self, command: Json, *, env: Json = None) -> AsyncIterator[Child]:
        async with connected(self.rng, Weather(), self._on_message) as (child, self.peer):
            yield child
        await self.end()

    async def end(self) -> None:
        self.over.set()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await self.peer.end()

    def _on_message(self, message: Json) -> None:
        if "id" not in message:
            return
        method, params = message["method"], message.get("params") or {}
        if method in ("capabilities/call", "tools/call", "session/prompt"):
            self.call = params
            self._work = asyncio.get_running_loop().create_task(self._do(message["id"], params))
        else:
            self._reply(message["id"], self._results(params).get(method))

    def _reply(self, id: Json, result: Json) -> None:
        refused = {"error": {"code": -32601, "message": "no such method"}}
        self.peer.send({"id": id, **(refused if result is None else {"result": result})})

    async def _do(self, id: Json, params: Json) -> None:
        await self.peer.request(self.method, {**self.params, **self._named(params)}, id=QUESTION)
        self._finish(id)

    def _finish(self, id: Json) -> None:
        self.over.set()
        self._reply(id, self._done())

    # --- what each protocol has its own words for: here ABP's ---

    def _results(self, params: Json) -> Json:
        about = {"sessionId": "1", "app": {"id": "sim", "name": "Simulated"}}
        offered = {"initialize": {**about, "capabilities": [WORK]}, "capabilities/list": [WORK]}
        return {**offered, "shutdown": {}, "capabilities/cancel": {}}

    def _named(self, params: Json) -> Json:
        return {"operationId": params["options"]["callId"]}

    def _done(self) -> Json:
        return {"success": True, "data": {}}

    def withdraw(self) -> None:
        """It waits for the answer no more."""
        params = {"requestId": QUESTION, "reason": "not needed"}
        self.peer.send({"method": "notifications/elicitation/withdrawn", "params": params})


class SocketAsker(Asker):
    """The same over a WebSocket: each line a message of a connection."""

    target = "ws://127.0.0.1:1/app"

    @contextmanager
    def reachable(self) -> Iterator[None]:
        self._stack = AsyncExitStack()
        with patch.object(websocket, "_open_socket", self._open):
            yield

    async def _open(self, url: str) -> Connection:
        return Connection(await self._stack.enter_async_context(self._spawn(None)))

    async def end(self) -> None:
        await super().end()
        await self._stack.aclose()


class Connection:
    """What `websockets` gives, with a program at its other end."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._lines: list[bytes] = []
        self.transport = self

    async def recv(self, *, decode: bool) -> bytes:
        while not self._lines:
            data = await self._child.stdout.receive()
            if not data:
                raise ConnectionClosedOK(None, None)
            self._lines = data.splitlines()
        return self._lines.pop(0)

    async def send(self, text: str) -> None:
        self._child.stdin.write_nowait(text.encode() + b"\n")

    async def close(self) -> None:
        self._child.stdin.close()

    def abort(self) -> None: ...


class PageAsker(Asker):
    """The same as a page: of Playwright's browser, context, page, frame, script and CDP session all
    that `apps/browser` uses of them, and the messages of inject.js.
    """

    target = "http://127.0.0.1:1/"
    url = target

    def __init__(self, rng: Random, question: Question) -> None:
        super().__init__(rng, question)
        self.got: list[Json] = []
        self._withdrawing: asyncio.Task[Json] | None = None
        self.main_frame = self
        self.frames = [self]

    @property
    def answers(self) -> list[Json]:
        return self.got

    @contextmanager
    def reachable(self) -> Iterator[None]:
        async def discover(address: str, guard: Json) -> Manifest:
            return Manifest(self.target, (), (), {})

        @asynccontextmanager
        async def run(settings: Json) -> AsyncIterator[PageAsker]:
            yield self
            await self.end()

        with ExitStack() as stack:
            stack.enter_context(patch.object(browser, "discover", discover))
            made = browser.BrowserApp.__init__.__kwdefaults__
            stack.enter_context(patch.dict(made, {"browser": run}))
            yield

    async def end(self) -> None:
        self.over.set()
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)

    def withdraw(self) -> None:
        said = self._post({"frame": self}, "withdraw", str(QUESTION))
        self._withdrawing = asyncio.get_running_loop().create_task(said)

    # --- Playwright ---

    async def new_context(self, **options: Json) -> PageAsker:
        return self

    async def new_page(self) -> PageAsker:
        return self

    async def new_cdp_session(self, page: Json) -> PageAsker:
        return self

    async def evaluate_handle(self, expression: str) -> PageAsker:
        return self

    def on(self, event: str, listener: Json) -> None: ...

    async def send(self, method: str, params: Json = None) -> Json:
        return {"frameTree": {"frame": {"id": "1", "securityOrigin": self.url}}}

    async def add_init_script(self, script: str) -> None: ...

    async def goto(self, url: str, **options: Json) -> None: ...

    async def wait_for_load_state(self, state: str, timeout: float) -> None: ...

    async def expose_binding(self, name: str, binding: Json) -> None:
        self._post = binding

    async def evaluate(self, expression: str, given: Json = None) -> Json:
        if "script.forever" in expression:
            await asyncio.Event().wait()
        method = expression.partition("script.")[2].partition("(")[0]
        if method == "call":
            self.call = {"options": {"callId": given[0]}}
            return await self._run()
        value = self._results({}).get({"capabilities": "capabilities/list"}.get(method, method))
        return "" if method == "ready" else [json.dumps({"value": value}), True]

    async def _run(self) -> Json:
        self._work = asyncio.get_running_loop().create_task(self._ask())
        await asyncio.shield(self._work)
        return [json.dumps({"value": self._done()}), True]

    async def _ask(self) -> None:
        said = {"method": self.method, "params": {**self.params, **self._named(self.call)}}
        source = {"frame": self}
        self.got.append(
            {"result": await self._post(source, "ask", json.dumps(said), str(QUESTION))}
        )
        self.over.set()


def _elicitation(question: Question) -> Json:
    """The parameters of an `elicitation/create` that asks this."""
    if question.link:
        return {"elicitationId": "e", **question.request}
    required = [each.name for each in question.fields if each.required]
    schema = {**question.whole, "required": required}
    return {"mode": "form", "message": question.message, "requestedSchema": schema}


class ToolsPage(PageAsker):
    """A page whose WebMCP form waits for its person: the browser's protocol as `apps/webmcp` speaks
    it, and what form.js reads and does. What it got is what it was sent with, or that it was reset.
    """

    target = "http://127.0.0.1:1/tools"
    asks = (pairs.WEBMCP,)
    _CALL = "invocation-1"

    @classmethod
    def asks_for(cls, pair: tuple[str, str]) -> bool:
        """All but a lone box, which is a choice of two there: who takes the first is not told from
        a program that always does. The codecs' table has it.
        """
        return super().asks_for(pair) and pair[1] != "a lone yes or no"

    def __init__(self, rng: Random, question: Question) -> None:
        super().__init__(rng, question)
        self._words = question.message
        self._form = next(
            pairs.make_page_form(*controls)
            for what, controls in pairs.PAGE_FORMS.items()
            if pairs.QUESTIONS[pairs.WEBMCP, what]().fields == question.fields
        )
        self._held = json.loads(json.dumps({**self._form, "active": False}))
        self._listeners: dict[str, list[Json]] = {}
        self.frames = [self]

    @contextmanager
    def reachable(self) -> Iterator[None]:
        async def discover(address: str, guard: Json) -> Manifest:
            raise NoManifestError(f"{address} has none", address)

        with super().reachable(), patch.object(browser, "discover", discover):
            yield

    def withdraw(self) -> None:
        """The page takes its form away."""
        self._held["active"] = False
        self._respond("Canceled")

    def on(self, event: str, listener: Json) -> None:
        self._listeners.setdefault(event, []).append(listener)

    async def goto(self, url: str, **options: Json) -> None:
        schema = {"type": "object", "properties": {}}
        tool = {**WORK, "frameId": "1", "backendNodeId": 1, "inputSchema": schema}
        self._tell("WebMCP.toolsAdded", {"tools": [{**tool, "description": self._words}]})

    async def title(self) -> str:
        return "Simulated"

    async def evaluate(self, expression: str, given: Json = None) -> Json:
        return "modelContext" in expression

    async def send(self, method: str, params: Json = None) -> Json:
        given = params or {}
        match method:
            case "WebMCP.invokeTool":
                self.call, self._held["active"] = given, True
                return {"invocationId": self._CALL}
            case "WebMCP.cancelInvocation":
                self._respond("Canceled")
            case "Page.createIsolatedWorld":
                return {"executionContextId": 1}
            case "Browser.getVersion":
                return {"userAgent": "HeadlessChrome"}  # it has no window
            case "Runtime.evaluate":
                return {"result": {}}
            case "DOM.resolveNode":
                return {"object": {"objectId": "form"}}
            case "Runtime.callFunctionOn":
                work, value = (each["value"] for each in given["arguments"])
                return {"result": {"value": self._do_work(work, value)}}
        return await super().send(method, params)

    def _do_work(self, work: str, given: Json) -> Json:
        if work == "send":
            if given != json.dumps(self._held):
                return "changed"
            self._get({each["name"]: _state(each) for each in self._held["controls"]})
            self._respond("Completed", output={})
            return "sent"
        if work == "reset":
            self._get("reset")
        for place, state in given if work == "set" else ():
            _set(self._held["controls"][place], state)
        return json.dumps(self._held)

    def _get(self, what: Json) -> None:
        self.got.append({"result": {"form": what}})
        self.over.set()

    def _respond(self, status: str, **more: Json) -> None:
        said = {"invocationId": self._CALL, "status": status, **more}
        self._tell("WebMCP.toolResponded", said)

    def _tell(self, event: str, said: Json) -> None:
        for each in self._listeners.get(event, ()):
            each(said)


def _state(control: Json) -> Json:
    if "options" in control:
        return [each["value"] for each in control["options"] if each.get("selected")]
    return control.get("checked", False) if control["type"] == "checkbox" else control.get("value")


def _set(control: Json, state: Json) -> None:
    if isinstance(state, bool):
        control["checked"] = state
    elif isinstance(state, list):
        for each in control["options"]:
            each["selected"] = each["value"] in state
    else:
        control["value"] = state


class LegacyServer(Asker):
    """An MCP server up to 2025-11-25."""

    target = "mcp:sim"
    asks = (pairs.MCP, pairs.PRESUMED)

    def _encode(self, question: Question) -> tuple[str, Json]:
        if "messages" in question.request:
            return "sampling/createMessage", {"maxTokens": 9, **question.request}
        return "elicitation/create", _elicitation(question)

    def _results(self, params: Json) -> Json:
        hello = {"capabilities": {"tools": {}}, "serverInfo": INFO}
        hello["protocolVersion"] = params.get("protocolVersion")
        return {"initialize": hello, "ping": {}, "tools/list": {"tools": [self._tool]}}

    def _named(self, params: Json) -> Json:
        return {}

    def _done(self) -> Json:
        return {"content": [{"type": "text", "text": "done"}]}

    def withdraw(self) -> None:
        params = {"requestId": QUESTION, "reason": "not needed"}
        self.peer.send({"method": "notifications/cancelled", "params": params})
        self.peer.expect_nothing(QUESTION)


class ModernServer(LegacyServer):
    """An MCP server of 2026-07-28: what it asks is a result, which cannot be taken back."""

    can_withdraw = False

    def _results(self, params: Json) -> Json:
        kept = {**KEPT, "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        about = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}}
        return {"server/discover": about | kept, "tools/list": {"tools": [self._tool], **kept}}

    async def _do(self, id: Json, params: Json) -> None:
        if "requestState" in params:
            answer = {"result": params["inputResponses"]["k"]}
            self.peer.answered.setdefault(QUESTION, []).append(answer)
            self._finish(id)
        else:
            asked = {"k": {"method": self.method, "params": self.params}}
            round = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            self._reply(id, round)

    def _done(self) -> Json:
        return {**super()._done(), "resultType": "complete"}


class Agent(Asker):
    """An ACP agent: it asks for leave, or by a form."""

    target = "acp:sim"
    asks = (pairs.ACP, pairs.PRESUMED)
    capability = "agent.prompt"
    given: ClassVar[Json] = {"prompt": "Go."}

    @classmethod
    def asks_for(cls, pair: tuple[str, str]) -> bool:
        return pair[0] in cls.asks or pair == (pairs.MCP, "an address (url)")

    def _encode(self, question: Question) -> tuple[str, Json]:
        if question.kind is not Kind.SELECT:
            return "elicitation/create", _elicitation(question)
        tool = {"toolCallId": "t", "title": question.message}
        names = [str(each.value) for each in question.fields[0].choices]
        options = [{"optionId": each, "name": each, "kind": each} for each in names]
        return "session/request_permission", {"toolCall": tool, "options": options}

    def _results(self, params: Json) -> Json:
        hello = {"protocolVersion": 1, "agentInfo": INFO}
        return {"initialize": hello, "session/new": {"sessionId": "sim"}}

    def _named(self, params: Json) -> Json:
        return {"sessionId": "sim"}

    def _done(self) -> Json:
        return {"stopReason": "end_turn"}

    def withdraw(self) -> None:
        self.peer.send({"method": "$/cancel_request", "params": {"requestId": QUESTION}})


ASKERS: dict[str, type[Asker]] = {
    "ABP on a pipe": Asker,
    "ABP over a WebSocket": SocketAsker,
    "ABP page": PageAsker,
    "WebMCP page": ToolsPage,
    "MCP server, legacy": LegacyServer,
    "MCP server, modern": ModernServer,
    "ACP agent": Agent,
}
