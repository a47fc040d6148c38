"""One client and one agent, joined: each message is read, decided on, and written again.

A request of one side is sent to the other under its own id, and waits in a task for the response:
what answers no open request passes to no one. Two messages of the client are changed: a client
without forms is announced with forms, and a session gets another MCP server. The agent's forms that
the client cannot show are asked here (`AgentQuestions`). Our own requests to the client have ids
with a secret prefix.

asyncio's queue keeps the order: a response wakes a future, a request becomes a task, a notification
is `call_soon`. Only the end of a prompt takes longer: what the agent says after it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.lowlevel

from abp_bridge.acp.proxy.agent_questions import ELICIT, AgentQuestions
from abp_bridge.acp.proxy.sessions import SessionTable
from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.jsonrpc.connection import (
    ConnectionClosedError,
    JsonRpcConnection,
    RemoteError,
    WrappedReader,
    respond_internal_error,
)
from abp_bridge.jsonrpc.loop import Workers
from abp_bridge.jsonrpc.protocol import (
    END,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MAX_PASSED_LINE,
    InvalidMessage,
    JsonRpcProtocol,
    Notification,
    Request,
    UnmatchedResponse,
)
from abp_bridge.protocols.acp import v1 as acp

if TYPE_CHECKING:
    from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
    from abp_bridge.acp.proxy.sessions import ClientSession
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.session.host import HostSurfaces
    from abp_bridge.session.surface import ElicitorApi, Page

logger = logging.getLogger(__name__)

# Seconds for the agent after its client has left, and for what it does not read to move. Clients
# kill us after two in all.
DRAIN = 0.8

Side = Literal["host", "program"]


class Proxy:
    """One client and one agent.

    Args:
        client: The client's streams.
        agent: The agent's streams.
        prefix: The secret prefix of our own request ids.
        agent_name: The agent's name until it gives one.
        make_elicitor: Makes what puts the agent's questions of one session.
        page: The bridge's page.
        endpoints: Makes the MCP servers of sessions; None without apps.
        on_noise: Gets what the agent prints that is not a message.
    """

    def __init__(
        self,
        client: tuple[ByteReader, ByteWriter],
        agent: tuple[ByteReader, ByteWriter],
        *,
        prefix: str,
        agent_name: str,
        make_elicitor: Callable[[HostSurfaces], ElicitorApi],
        page: Page,
        endpoints: McpEndpoint | None,
        on_noise: Callable[[bytes], object] = lambda line: None,
    ) -> None:
        self._prefix = prefix
        self._endpoints = endpoints
        self._on_noise = on_noise
        self._client_reader = client[0]
        self._client = JsonRpcConnection(
            _make_protocol(prefix),
            _Reader(client[0], self._on_client_end),
            client[1],
            on_message=partial(self._receive, self._notify_agent, self._serve_client),
            on_protocol_error=partial(self._drop, "client"),
            cancel_request=acp.encode_cancel,
        )
        self._agent = JsonRpcConnection(
            _make_protocol(prefix),
            _Reader(agent[0], anyio.lowlevel.checkpoint),
            agent[1],
            on_message=partial(self._receive, self._notify_client, self._serve_agent),
            on_protocol_error=partial(self._drop, "agent"),
            rejects=False,
        )
        self._client.feeds, self._agent.feeds = self._agent, self._client
        self._sessions = SessionTable(self._client, page, f"{prefix}ask-")
        self._questions = AgentQuestions(self._agent, self._sessions, make_elicitor, agent_name)
        self._call_soon = asyncio.get_running_loop().call_soon
        self._workers: Workers
        self._behind: list[Callable[[], object]] | None = None  # what waits for a prompt to end
        self._unanswered = 0  # requests of the client
        self._answered = anyio.Event()
        self._ended: Side | None = None
        self._running = anyio.CancelScope(shield=True)  # what is open is answered first
        self._draining = anyio.CancelScope()
        self._agent_over = anyio.Event()

    async def run(self) -> Side:
        """Pass messages until one side ends: which. After the client, the agent has `DRAIN` s."""
        async with anyio.create_task_group() as tasks:
            self._workers = Workers(tasks)
            tasks.start_soon(self._run_connections)
            tasks.start_soon(self._watch_client)
            try:
                with self._draining:
                    await self._agent_over.wait()
                    while self._unanswered:
                        self._answered = anyio.Event()
                        await self._answered.wait()
                    await self._client.sent()
            finally:  # if this is cancelled, too
                self._questions.end()
                self._running.cancel()
            tasks.cancel_scope.cancel()
        return self._ended or "program"

    def _receive(
        self,
        notify: Callable[[Notification], object],
        serve: Callable[[Request], Awaitable[None]],
        message: Request | Notification,
    ) -> None:
        if isinstance(message, Notification):
            self._call_soon(notify, message)
        else:
            self._workers.start_soon(serve, message)

    # --- messages of the client ---

    def _notify_agent(self, message: Notification) -> None:
        params, session = as_object(message.params), None
        if message.method == "session/cancel":
            session = self._sessions.find(params.get("sessionId"))
        elif message.method == acp.CANCEL_REQUEST:
            session = self._sessions.find_prompted(params.get("requestId"))
        if session is not None:
            session.surfaces.turns.cancel()
        _forward(self._agent, message)

    async def _serve_client(self, request: Request) -> None:
        serve = _FROM_CLIENT.get(request.method) if isinstance(request.params, dict) else None
        answer = serve(self, request) if serve else self._pass(self._agent, request)
        self._unanswered += 1
        try:
            await _answer(self._client, request, answer)
        finally:
            self._unanswered -= 1
            self._answered.set()

    async def _initialize(self, request: Request) -> JsonValue:
        params = as_object(request.params)
        self._sessions.client = params
        declared = as_object(params.get("clientCapabilities"))
        capabilities = acp.decode_capabilities(declared)
        if not capabilities.form and params.get("protocolVersion") == acp.VERSION:
            self._questions.shown = ("url",) if capabilities.url else ()
            modes = {**as_object(declared.get("elicitation")), "form": {}}
            params = {**params, "clientCapabilities": {**declared, "elicitation": modes}}
        result = await self._pass(self._agent, request, params)
        told = as_object(result)
        info = as_object(told.get("agentInfo"))
        for name in (info.get("name"), info.get("title")):
            self._questions.agent_name = sanitize.label(as_text(name)) or self._questions.agent_name
        if (version := told.get("protocolVersion", acp.VERSION)) != acp.VERSION:
            logger.warning(
                "the client and the agent speak version %s of ACP:"
                " their messages pass, and nothing else is done",
                sanitize.label(version, 20),
            )
            self._endpoints = self._questions.shown = None
        return result

    async def _open(self, request: Request) -> JsonValue:
        """Handle `session/new` and `session/fork`: the agent names the session in its result."""
        session = self._sessions.make()
        result = await self._pass(self._agent, request, self._add_server(request, session))
        if isinstance(name := as_object(result).get("sessionId"), str):
            self._sessions.add(name, session)
        return result

    async def _reopen(self, request: Request) -> JsonValue:
        """Handle `session/load` and `session/resume`."""
        session = self._sessions.find_or_make(as_object(request.params).get("sessionId"))
        return await self._pass(self._agent, request, self._add_server(request, session))

    def _add_server(self, request: Request, session: ClientSession | None) -> JsonObject:
        params = as_object(request.params)
        servers = params.get("mcpServers")
        if self._endpoints is None or session is None or not isinstance(servers or [], list):
            return params
        taken = [as_object(server).get("name") for server in as_list(servers)]
        added = self._endpoints.server_entry(session, taken)
        return {**params, "mcpServers": [*as_list(servers), added]}

    async def _prompt(self, request: Request) -> JsonValue:
        session = self._sessions.find_or_make(as_object(request.params).get("sessionId"))
        if session is None:
            return await self._pass(self._agent, request)
        self._sessions.begin_prompt(request.id, session)
        try:
            result = await self._pass(self._agent, request)
        finally:
            await self._end_prompt(request)
        if self._endpoints is not None:
            self._endpoints.check_launched(session)
        return result

    async def _end_prompt(self, request: Request) -> None:
        """Take down what is still asked in a prompt, before its response passes."""
        self._behind = []
        try:
            await self._sessions.end_prompt(request.id)
        finally:
            behind, self._behind = self._behind, None
            for go_on in behind:  # in the next turn: the response goes first
                go_on()

    async def _close(self, request: Request) -> JsonValue:
        """Handle `session/close` and `session/delete`, if the agent agrees."""
        session = self._sessions.find(as_object(request.params).get("sessionId"))
        if session is not None:
            session.surfaces.turns.cancel("the user closed the session")
        result = await self._pass(self._agent, request)
        if session is not None:
            self._sessions.remove(session.surfaces.session_id)
            if self._endpoints is not None:
                self._endpoints.revoke(session.surfaces.session_id)
        return result

    # --- messages of the agent ---

    def _notify_client(self, message: Notification) -> None:
        if self._behind is not None:
            self._behind.append(lambda: self._call_soon(self._notify_client, message))
            return
        params = as_object(message.params)
        if message.method == acp.CANCEL_REQUEST and self._questions.cancel(params.get("requestId")):
            return
        if message.method == ELICIT and self._questions.are_ours(params):
            logger.warning("a question of the agent is dropped: it has no id")
            return
        _forward(self._client, message)

    async def _serve_agent(self, request: Request) -> None:
        await self._wait_turn()
        if request.method == ELICIT and self._questions.are_ours(as_object(request.params)):
            await self._questions.answer(request)
        else:
            await _answer(self._agent, request, self._pass(self._client, request))

    async def _wait_turn(self) -> None:
        """Wait while the end of a prompt, which was read before, is held back."""
        while self._behind is not None:
            self._behind.append((ended := anyio.Event()).set)
            await ended.wait()

    # --- messages of either ---

    async def _pass(
        self, reader: JsonRpcConnection, request: Request, params: JsonObject | None = None
    ) -> JsonValue:
        """Pass a request on, with other `params` if given, and return the result.

        Raises RemoteError, ConnectionClosedError.
        """
        given = request.params if params is None else params
        try:
            reply = await reader.exchange(request.method, given, reason=None, id=request.id)
        finally:
            await self._wait_turn()
        return reply.result

    def _drop(self, speaker: str, odd: UnmatchedResponse | InvalidMessage) -> None:
        if isinstance(odd, InvalidMessage):
            why = odd.reason
            if speaker == "agent" and odd.id is None and odd.line:  # it prints something
                self._on_noise(odd.line + (b"\n" if len(odd.line) < END else b" ... (cut)\n"))
                return
            if speaker == "agent":
                self._agent.send_line(odd.reply)
        elif isinstance(odd.id, str) and odd.id.startswith(self._prefix):
            return  # a late answer to us
        else:
            why = f"it answers no open request (id {sanitize.label(odd.id, 80)})"
        logger.warning("a message of the %s is dropped: %s", speaker, why)

    # --- the end ---

    async def _run_connections(self) -> None:
        with self._running:
            async with anyio.create_task_group() as both:
                both.start_soon(self._run_agent)
                await self._client.run()
                self._ended = self._ended or "host"  # no one reads there
                self._draining.cancel()

    async def _run_agent(self) -> None:
        await self._agent.run()
        self._ended = self._ended or "program"
        self._agent_over.set()

    async def _on_client_end(self) -> None:
        await self._leave_agent()
        await anyio.sleep_forever()  # the client may still read what the agent says

    async def _watch_client(self) -> None:
        """End although the client's end cannot be read: the agent does not read what is before it.

        That is lost.
        """
        await self._client_reader.wait_closed()
        waiting = -1
        while waiting != self._agent.queued:
            waiting = self._agent.queued
            await anyio.sleep(DRAIN)
        await self._leave_agent()

    async def _leave_agent(self) -> None:
        """Cancel what is asked, and close the agent's input: the client has left."""
        self._ended = self._ended or "host"
        self._draining.deadline = min(self._draining.deadline, anyio.current_time() + DRAIN)
        self._questions.end()
        await self._sessions.end_prompts()
        await self._agent.sent()
        self._agent.end_output()


class _Reader(WrappedReader):
    """Completes a last line that has no end, and then waits for `on_end`."""

    def __init__(self, reader: ByteReader, on_end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(reader)
        self._on_end = on_end

    async def deliver(self, take: Callable[[bytes], bool]) -> bool:
        """As the other, until its end (`ByteReader.deliver`)."""
        if await super().deliver(take):
            return True
        take(b"\n")
        await self._on_end()
        return False

    def close(self) -> None:
        """Leave it open (`ByteReader.close`): a program that still writes would fail."""


def _make_protocol(prefix: str) -> JsonRpcProtocol:
    return JsonRpcProtocol(prefix, max_depth=None, max_line=MAX_PASSED_LINE, inward=_add_version)


def _add_version(message: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Read a message without a version, as ACP's own SDKs do."""
    message.setdefault("jsonrpc", "2.0")
    return message


async def _answer(asker: JsonRpcConnection, request: Request, result: Awaitable[JsonValue]) -> None:
    """Answer with the result, or with the error that the other side answered."""
    try:
        try:
            asker.respond(request.id, await result)
        except RemoteError as problem:
            asker.forward_error(request.id, problem.error)
    except ConnectionClosedError:
        asker.respond_error(request.id, INTERNAL_ERROR, "the other side has ended")
    except ValueError as problem:  # what cannot be written: it is nested too deeply
        asker.respond_error(request.id, INVALID_REQUEST, str(problem))
    except Exception:  # a bug is logged, and ends this request alone
        respond_internal_error(asker, request.id, request.method)


def _forward(reader: JsonRpcConnection, message: Notification) -> None:
    try:
        reader.forward_notification(message.method, message.params)
    except ValueError as problem:
        logger.warning("a notification (%.100r) is dropped: %s", message.method, problem)


_FROM_CLIENT: dict[str, Callable[[Proxy, Request], Awaitable[JsonValue]]] = {
    "initialize": Proxy._initialize,
    "session/new": Proxy._open,
    "session/load": Proxy._reopen,
    "session/resume": Proxy._reopen,
    "session/fork": Proxy._open,
    "session/prompt": Proxy._prompt,
    "session/close": Proxy._close,
    "session/delete": Proxy._close,
}
