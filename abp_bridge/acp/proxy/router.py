"""The lines that a proxy handles: one table of methods for the client, one for the agent.

Everything else passes unchanged. A client's line is changed in two places: a client without forms
is announced with forms, and a session gets another MCP server.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from abp_bridge.acp.proxy.agent_questions import ELICIT, AgentQuestions
from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object
from abp_bridge.jsonrpc import byte_edit
from abp_bridge.jsonrpc.protocol import Id, is_id
from abp_bridge.jsonrpc.splice import LineFilter
from abp_bridge.protocols.acp import v1 as acp

if TYPE_CHECKING:
    from abp_bridge.acp.proxy.mcp_endpoint import McpEndpoint
    from abp_bridge.acp.proxy.sessions import ClientSession, SessionTable
    from abp_bridge.jsonrpc.multiplex import InjectedConnection

logger = logging.getLogger(__name__)

# The two places where a line is changed.
FORMS = ("params", "clientCapabilities", "elicitation", "form")
SERVERS = ("params", "mcpServers")


class Router:
    """Handle the lines of both sides, and return what to pass on.

    Args:
        injected: Our connection to the client, which gets the responses to our requests.
        sessions: The session table.
        questions: Asks the agent's questions that the client cannot show.
        endpoints: Makes the MCP servers of sessions; None without apps.
    """

    def __init__(
        self,
        injected: InjectedConnection,
        sessions: SessionTable,
        questions: AgentQuestions,
        endpoints: McpEndpoint | None,
    ) -> None:
        self.from_client = LineFilter(self._is_relevant_from_client, self._rewrite_from_client)
        self.from_agent = LineFilter(self._is_relevant_from_agent, self._rewrite_from_agent)
        self._injected = injected
        self._sessions = sessions
        self._questions = questions
        self._endpoints = endpoints
        self._is_told = False  # that the agent has none of the tools
        self._needles: tuple[bytes, ...] = (b'"initialize"',)  # of the client's relevant lines
        # The client's requests whose response is looked at before it passes.
        self._on_response: dict[Id, Callable[[JsonObject], Awaitable[None]]] = {}

    # --- lines of the client ---

    def _is_relevant_from_client(self, data: bytes) -> bool:
        return any(mark in data for mark in self._needles)

    async def _rewrite_from_client(self, line: bytes) -> bytes:
        message = byte_edit.parse_line(line)
        if await self._injected.take_response(line, message):
            return b""
        if not isinstance(message, dict):
            return line
        method, id = message.get("method"), message.get("id")
        handle = _FROM_CLIENT.get(method) if isinstance(method, str) else None
        return line if handle is None else handle(self, line, id, as_object(message.get("params")))

    def _initialize(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        self._sessions.client = params
        capabilities = acp.decode_capabilities(params.get("clientCapabilities"))
        downgrades = not capabilities.form and params.get("protocolVersion") == acp.VERSION
        if downgrades:
            self._questions.modes = ("form",) if capabilities.url else ("form", "url")
        self._expect(id, self._on_initialize_result)
        if self._endpoints is None and not downgrades:
            self._needles = ()  # nothing of ours is to be found in what passes
            return line
        self._needles = (
            b'"initialize"',
            b'"session/',
            b'"session\\/',
            b"cancel_request",
            self._injected.mark,
        )
        return byte_edit.put_member(line, FORMS, {}) if downgrades else line

    async def _on_initialize_result(self, response: JsonObject) -> None:
        result = as_object(response.get("result"))
        info = as_object(result.get("agentInfo"))
        names = (
            sanitize.label(name)
            for name in (info.get("title"), info.get("name"))
            if isinstance(name, str)
        )
        self._questions.agent_name = next(filter(None, names), self._questions.agent_name)
        if (version := result.get("protocolVersion", acp.VERSION)) != acp.VERSION:
            logger.warning(
                "the client and the agent speak version %s of ACP:"
                " their lines pass, and nothing else is done",
                sanitize.label(version, 20),
            )
            self._needles, self._endpoints, self._questions.modes = (), None, ()

    def _new(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        """Handle `session/new` and `session/fork`: the agent names the session later."""
        if self._endpoints is None:
            return line
        session = self._sessions.make()

        async def on_opened(response: JsonObject) -> None:
            if isinstance(name := as_object(response.get("result")).get("sessionId"), str):
                self._sessions.add(name, session)

        self._expect(id, on_opened)
        return self._add_server(line, session, params)

    def _reopen(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        """Handle `session/load` and `session/resume`."""
        session = self._sessions.find_or_make(params.get("sessionId"))
        return line if session is None else self._add_server(line, session, params)

    def _add_server(self, line: bytes, session: ClientSession, params: JsonObject) -> bytes:
        if self._endpoints is None:
            return line
        taken = [as_object(server).get("name") for server in as_list(params.get("mcpServers"))]
        return byte_edit.append_item(line, SERVERS, self._endpoints.server_entry(session, taken))

    def _prompt(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        session = self._sessions.find_or_make(params.get("sessionId"))
        if session is not None and is_id(id):
            prompt = id

            async def on_end(response: JsonObject) -> None:
                await self._sessions.end_prompt(prompt)
                self._check_launched(session)

            self._sessions.begin_prompt(prompt, session)
            self._expect(prompt, on_end)
        return line

    def _check_launched(self, session: ClientSession) -> None:
        """Warn once if an agent ignores its MCP servers, like `copilot --acp`."""
        if self._endpoints is None or self._is_told or self._endpoints.is_launched(session):
            return
        self._is_told = True
        logger.warning(
            "the agent did not start the MCP server that it was given for its session: it has none"
            " of the apps' tools (docs/acp-clients.md)"
        )

    def _cancel(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        if (session := self._sessions.find(params.get("sessionId"))) is not None:
            session.surfaces.turns.cancel()
        return line

    def _cancel_request(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        if (session := self._sessions.find_prompted(params.get("requestId"))) is not None:
            session.surfaces.turns.cancel()
        return line

    def _close(self, line: bytes, id: JsonValue, params: JsonObject) -> bytes:
        """End the questions, and forget the session if the agent agrees (`session/close`,
        `delete`).
        """
        if (session := self._sessions.find(params.get("sessionId"))) is not None:
            session.surfaces.turns.cancel("the user closed the session")

            async def on_closed(response: JsonObject) -> None:
                if "error" not in response:
                    self._sessions.remove(session.surfaces.session_id)
                    if self._endpoints is not None:
                        self._endpoints.revoke(session.surfaces.session_id)

            self._expect(id, on_closed)
        return line

    def _expect(self, id: JsonValue, on_response: Callable[[JsonObject], Awaitable[None]]) -> None:
        if is_id(id):
            self._on_response[id] = on_response

    # --- lines of the agent ---

    def _is_relevant_from_agent(self, data: bytes) -> bool:
        if self._questions.is_relevant(data):
            return True
        return (
            bool(self._on_response)
            and b'"id"' in data
            and (b'"result"' in data or b'"error"' in data)
        )

    async def _rewrite_from_agent(self, line: bytes) -> bytes:
        message = byte_edit.parse_line(line)
        if not isinstance(message, dict):
            return line
        method, id = message.get("method"), message.get("id")
        if method is None:
            if is_id(id) and (on_response := self._on_response.pop(id, None)) is not None:
                await on_response(message)
            return line
        take = _FROM_AGENT.get(method) if isinstance(method, str) else None
        return b"" if take is not None and await take(self._questions, message) else line


_FROM_CLIENT: dict[str, Callable[[Router, bytes, JsonValue, JsonObject], bytes]] = {
    "initialize": Router._initialize,
    "session/new": Router._new,
    "session/load": Router._reopen,
    "session/resume": Router._reopen,
    "session/fork": Router._new,
    "session/prompt": Router._prompt,
    "session/cancel": Router._cancel,
    "session/close": Router._close,
    "session/delete": Router._close,
    acp.CANCEL_REQUEST: Router._cancel_request,
}

# Whether the line is taken, and goes no further.
_FROM_AGENT: dict[str, Callable[[AgentQuestions, JsonObject], Awaitable[bool]]] = {
    ELICIT: AgentQuestions.take_question,
    acp.CANCEL_REQUEST: AgentQuestions.take_cancel,
}
