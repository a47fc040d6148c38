"""Agents behind the Agent Client Protocol, as models.

Each turn has its own process, environment and folder, which costs the agent's start (0.3 to 3
seconds). A session continues as the agent kept it: by `session/resume`, else by `session/load`.
The bridge offers no files, terminals, forms or MCP servers and refuses every permission. An agent
that may use its tools does so by its own permissions.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from abp_bridge.core.json_value import JsonObject, as_object, as_text
from abp_bridge.core.redact.command import show_command
from abp_bridge.core.sanitize import SCRIPTS, label
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.connection import ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.program_lines import NO_RESPONSE
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND
from abp_bridge.jsonrpc.subprocess import Child, child_environment, spawn
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.acp_turn import (
    RESUME,
    ModelTurn,
    decode_failure,
    decode_mode,
    decode_model,
    decode_resume,
    takes_images,
)
from abp_bridge.models.agent import Availability, OnChunk, ignore_chunk
from abp_bridge.models.local import LocalAgent, format_prompt
from abp_bridge.models.session import Session
from abp_bridge.models.turn import (
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Image,
    images_of,
)
from abp_bridge.protocols.acp import agent as acp_agent
from abp_bridge.session.app import only_error

if TYPE_CHECKING:
    from abp_bridge.acp.agent_session import AgentSession

START_LIMIT = 60.0  # seconds for the handshake: npx and uvx fetch a program first
CANCEL_LIMIT = 5.0  # seconds to end a turn that was cancelled: some wait for their model
END_LIMIT = 2.0  # seconds for a process that says no more to be gone


class AcpAgent(LocalAgent):
    """A command that speaks ACP on its stdio.

    Args:
        command: The program and its arguments.
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
        tap: Observes its pipes.
    """

    def __init__(self, command: Sequence[str], folder: str, tap: Tap = unobserved_stream) -> None:
        super().__init__(show_command(command), folder)
        program, *arguments = command
        # It works in another folder than the one that a path was written for.
        program = os.path.abspath(program) if os.sep in program else program
        self._command = [program, *map(_find_file, arguments)]
        self._tap = tap

    async def available(self) -> Availability:
        """Start and initialize it."""
        exchange = _Exchange(ModelTurn(tools=False), ignore_chunk)
        try:
            async with self._connect(exchange, {}, self.folder):
                pass
        except AgentError as problem:
            return Availability(str(problem))
        name = acp_agent.decode_info(exchange.about).name
        version = label(as_object(exchange.about.get("agentInfo")).get("version") or "", 40)
        return Availability(version=f"{name} {version}".rstrip())

    # --- one turn ---

    async def _turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        config = session.options.cli_config
        turn = ModelTurn(tools=config.tools)
        exchange = _Exchange(turn, on_chunk)
        async with self._connect(exchange, config.environment, session.folder) as agent:
            images = images_of(messages)
            if images and not takes_images(exchange.about):
                words = f"{self.title} takes no images (promptCapabilities.image)"
                raise AgentError(AgentErrorCode.NO_IMAGES, words)
            enter = self._go_on if resumes else self._begin
            opened = await enter(agent, exchange.about, session)
            mode = None if config.tools else decode_mode(opened)
            if mode is not None:
                await agent.set_mode(mode.id, mode.option)
            result = await exchange.prompt(agent, format_prompt(messages), images)
            session.id = agent.id
        return replace(turn.end(result), model=decode_model(opened))

    async def _begin(self, agent: AgentSession, about: JsonObject, session: Session) -> JsonObject:
        return await agent.start(session.folder)

    async def _go_on(self, agent: AgentSession, about: JsonObject, session: Session) -> JsonObject:
        if not (method := decode_resume(about)):
            words = f"{self.title} offers neither session/resume nor session/load"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words)
        go_on = agent.resume if method == RESUME else agent.load
        try:
            return await go_on(session.id, session.folder)
        except RemoteError as problem:
            if problem.code == acp_agent.AUTH_REQUIRED:
                raise
            words = f"it does not go on with {label(session.id, 80)}: {label(problem, 300)}"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words) from None

    # --- its process ---

    @asynccontextmanager
    async def _connect(
        self, exchange: _Exchange, environment: Mapping[str, str], cwd: str
    ) -> AsyncIterator[AgentSession]:
        """Run the agent, initialized, during the block. Raises AgentError."""
        env = {**child_environment(), **environment}
        try:
            async with (
                only_error(AgentError, OSError),
                spawn(self._command, env=env, cwd=cwd) as child,
                self._open(child, exchange) as agent,
                self._only_agent_errors(child, exchange),
            ):
                await self._greet(agent, exchange)
                yield agent
        except OSError as problem:
            words = f"{self.title} cannot be started: {problem}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None

    @asynccontextmanager
    async def _open(self, child: Child, exchange: _Exchange) -> AsyncIterator[AgentSession]:
        """Open a session on its pipes; the tap sees them close."""
        from abp_bridge.acp.agent_session import open_session

        source, sink = self._tap(child.stdout, child.stdin)
        with closing(sink):
            async with open_session(source, sink, exchange) as agent:
                yield agent

    async def _greet(self, agent: AgentSession, exchange: _Exchange) -> None:
        try:
            with anyio.fail_after(START_LIMIT):
                exchange.about = await agent.initialize(elicits=False)
        except TimeoutError:
            words = f"{self.title} did not answer within {START_LIMIT:g} s. Does it speak ACP?"
            raise AgentError(AgentErrorCode.TIMEOUT, words) from None

    @asynccontextmanager
    async def _only_agent_errors(self, child: Child, exchange: _Exchange) -> AsyncIterator[None]:
        """Turn errors of the connection into AgentError."""
        try:
            yield
        except RemoteError as problem:
            said = as_text(problem.error.get("message"))
            if NO_RESPONSE in said:
                raise AgentError(AgentErrorCode.PROTOCOL, said) from None
            sign_in = acp_agent.decode_sign_in(exchange.about, self.title)
            raise decode_failure(problem.code, said, problem.data, sign_in) from None
        except RemoteProtocolError as problem:
            words = f"{self.title}: {problem}"
            raise AgentError(AgentErrorCode.PROTOCOL, words) from None
        except ConnectionClosedError:
            raise await self._end(child, exchange.malformed) from None

    async def _end(self, child: Child, malformed: str) -> AgentError:
        """Explain why it stopped."""
        with anyio.move_on_after(END_LIMIT):
            await child.process.wait()
            await child.heard.wait()
        if child.process.returncode is None:
            words = f"{self.title} can be understood no more: {malformed or 'it closed its stdout'}"
            return AgentError(AgentErrorCode.PROTOCOL, words)
        words = f"{self.title} ended before its turn was over ({child.ending})"
        return AgentError(AgentErrorCode.AGENT_DIED, words)


def _find_file(word: str) -> str:
    """Make an argument absolute that is the path of an existing file or script."""
    is_path = os.sep in word or word.endswith(SCRIPTS)
    return os.path.abspath(word) if is_path and os.path.exists(word) else word


class _Exchange:
    """One prompt, and the listener to the agent meanwhile (`AgentListener`).

    Attributes:
        about: The agent's result of `initialize`.
        malformed: What was wrong with its last invalid line.
    """

    def __init__(self, turn: ModelTurn, on_chunk: OnChunk) -> None:
        self.about: JsonObject = {}
        self.malformed = ""
        self._turn = turn
        self._on_chunk = on_chunk
        self._session = ""  # once its prompt is sent: what is told before that is no news
        self._over = anyio.Event()  # it is answered, or there will be no answer
        self._result: JsonObject | None = None
        self._problem: Exception | None = None

    async def prompt(self, agent: AgentSession, words: str, images: Sequence[Image]) -> JsonObject:
        """Prompt the agent and return its result, empty if the turn failed before.

        An abandoned or failed turn is cancelled first and awaited. Raises RemoteError,
        ConnectionClosedError.
        """
        self._session = agent.id
        answered = anyio.Event()
        asking = anyio.CancelScope(shield=True)

        async def ask() -> None:
            with asking:
                await self._ask(agent, words, images)
            self._over.set()
            answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            try:
                await self._over.wait()
            finally:
                if not answered.is_set():
                    with anyio.move_on_after(CANCEL_LIMIT, shield=True):
                        await agent.cancel()
                        await answered.wait()
                asking.cancel()
        if self._problem is not None:
            raise self._problem
        return self._result or {}

    async def _ask(self, agent: AgentSession, words: str, images: Sequence[Image]) -> None:
        try:
            shown = [(each.data, each.kind) for each in images]
            self._result = await agent.prompt(words, shown)
        except (RemoteError, ConnectionClosedError) as problem:
            self._problem = self._problem or problem

    # --- AgentListener ---

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Refuse every request."""
        if method == "session/request_permission":
            return self._turn.refuse(params)
        if method == "elicitation/create":
            return {"action": "decline"}
        words = f"{label(method, 80)} is not offered by this client"
        raise RemoteError({"code": METHOD_NOT_FOUND, "message": words}, 0.0)

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Report an update of this turn to the listener."""
        session = as_text(params.get("sessionId"))
        if method != "session/update" or not self._session or session != self._session:
            return
        try:
            for chunk in self._turn.add(as_object(params.get("update"))):
                self._on_chunk(chunk)
        except Exception as problem:  # whatever who listens raised is raised where they wait
            self._problem = self._problem or problem
        if self._problem is not None or self._turn.failure is not None:
            self._over.set()

    def on_malformed(self, reason: str) -> None:
        """Keep the reason: this may be its last line."""
        self.malformed = reason

    def on_end(self) -> None:
        """Do nothing: the pending request fails by itself."""
