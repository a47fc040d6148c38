"""Apps that are ACP agents, each started by a command.

The prompt is a capability, and so is each of the agent's commands. Its permission requests and
elicitations become questions, its tool calls operations and progress. A cancelled turn continues
until the agent ends it or is ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from abp_bridge.apps.program import START_LIMIT, Pipes, ProgramApp
from abp_bridge.core.capability import AppInfo, CallResult, CapabilityList, failed
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.core.ledger import Progress
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.connection import ConnectionClosedError, RemoteError
from abp_bridge.jsonrpc.protocol import METHOD_NOT_FOUND
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.protocols.acp import agent
from abp_bridge.protocols.mcp import server
from abp_bridge.session.app import END_LIMIT, AppError, AppListener

if TYPE_CHECKING:
    from abp_bridge.acp.agent_session import AgentSession

CANCEL_LIMIT = 30.0  # seconds for a turn to end that was cancelled: some wait for their model


@dataclass(slots=True)
class _Running:
    """A turn, its result, and whether it was cancelled."""

    turn: agent.TurnDecoder
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: CallResult = field(default_factory=partial(failed, "CANCELLED", "The session ended."))
    cancelled: bool = False


class AcpApp(ProgramApp):
    """An agent that runs while the app is open.

    Args:
        origin: The agent's command, as the user sees it.
        connect: Starts the agent while its block runs.
        roots: The user's folders.
        tap: Observes the pipes.
    """

    def __init__(
        self,
        origin: str,
        connect: Callable[[], AbstractAsyncContextManager[Pipes]],
        *,
        roots: Sequence[str] = (),
        tap: Tap = unobserved_stream,
    ) -> None:
        super().__init__(origin, "agent", tap)
        self._connect = connect
        self._roots = [str(Path(root).absolute()) for root in roots]
        self._session: AgentSession | None = None
        self._commands: list[JsonValue] = []
        self._offered = agent.decode_commands([])
        self._running: _Running | None = None
        self._between = agent.TurnDecoder()

    # --- App ---

    @asynccontextmanager
    async def open_app(self, listener: AppListener) -> AsyncIterator[AppInfo]:
        """Start the agent and a session; at the end, cancel its questions and end it."""
        async with (
            self._program.report_to(listener),
            self._connect() as pipes,
            self._begin(pipes) as session,
            anyio.create_task_group() as tasks,
        ):
            self._tasks = tasks
            tasks.start_soon(self._program.watch, lambda: pipes)
            async with self._program.greeting(lambda: pipes, "ACP", START_LIMIT):
                opened = await self._start_session(session)
            try:
                yield opened
            finally:
                self._program.listener = None
                self._program.withdraw()
                if self._running is not None and not self._running.cancelled:
                    with anyio.move_on_after(END_LIMIT, shield=True):
                        await session.cancel_turn()
                tasks.cancel_scope.cancel()

    async def call_capability(self, capability: str, params: JsonObject, call: str) -> CallResult:
        """Prompt the agent after its current turn; its error becomes a failed result."""
        assert self._tasks is not None, "the app is open"
        while self._running is not None:
            await self._running.ended.wait()
        running = self._running = _Running(agent.TurnDecoder(call))
        self._tasks.start_soon(self._run_turn, running, agent.encode_prompt(capability, params))
        await running.ended.wait()
        return self._program.clean(running.result)

    async def cancel_call(self, call: str, reason: str) -> None:
        """Cancel the turn if it belongs to `call`, and wait `END_LIMIT` for its end.

        If the turn does not end within `CANCEL_LIMIT`, end the agent.
        """
        running = self._running
        if running is None or running.turn.call != call or self._tasks is None:
            return
        self._tasks.start_soon(self._stop, running)
        with anyio.move_on_after(END_LIMIT):
            await running.ended.wait()

    async def capabilities(self) -> CapabilityList:
        """Return what the agent offered last."""
        return self._offered

    # --- from the beginning to the end ---

    def _begin(self, pipes: Pipes) -> AbstractAsyncContextManager[AgentSession]:
        from abp_bridge.acp.agent_session import open_session

        return open_session(*self._tap(self._program.overhear(pipes.stdout), pipes.stdin), self)

    async def _start_session(self, session: AgentSession) -> AppInfo:
        self._session = session
        about = await session.initialize()
        try:
            directories = self._roots if agent.takes_directories(about) else ()
            await session.start_conversation(str(Path.cwd()), directories)
        except RemoteError as problem:
            if problem.code != agent.AUTH_REQUIRED:
                raise
            words = agent.decode_sign_in(about, self.origin)
            raise AppError(words, "PERMISSION_REQUIRED") from None
        return replace(agent.decode_info(about), capabilities=self._offered)

    # --- turns ---

    async def _run_turn(self, running: _Running, words: str) -> None:
        assert self._session is not None
        turn = running.turn
        try:
            running.result = turn.result(await self._session.prompt(words))
        except RemoteError as problem:
            said = as_text(problem.error.get("message"))
            running.result = turn.fail(problem.code, said, problem.data)
        except ConnectionClosedError:
            running.result = await self._program.end_call()
        finally:
            self._running = None
            running.ended.set()

    async def _stop(self, running: _Running) -> None:
        assert self._session is not None
        if running.cancelled:
            return
        running.cancelled = True
        self._program.withdraw()
        with anyio.move_on_after(CANCEL_LIMIT):
            await self._session.cancel_turn()
            await running.ended.wait()
            return
        self._program.disconnect(
            f"it did not end a turn that was cancelled, within {CANCEL_LIMIT:g} s, and was ended"
        )

    # --- AgentListener ---

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Answer permission requests and elicitations; files and terminals are the agent's own."""
        if method == "session/request_permission":
            return await self._ask_leave(params)
        if method == "elicitation/create":
            return await self._program.elicit(params, self._calls, destructive=True)
        words = f"{label(method, 80)} is not offered by this client"
        raise RemoteError({"code": METHOD_NOT_FOUND, "message": words}, 0.0)

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Pass a notification to the listener."""
        if method == "elicitation/complete":
            if link := as_text(params.get("elicitationId")):
                self._program.complete(link)
        elif method == "session/update":
            self._on_update(as_object(params.get("update")))
        else:
            self._program.tell(server.decode_notice(method, params))

    @property
    def _turn(self) -> agent.TurnDecoder:
        return self._between if self._running is None else self._running.turn

    @property
    def _calls(self) -> Sequence[str]:
        return () if self._running is None else (self._running.turn.call,)

    def _on_update(self, update: JsonObject) -> None:
        if update.get("sessionUpdate") == "available_commands_update":
            old, self._commands = self._commands, agent.list_commands(update)
            self._offered = agent.decode_commands(self._commands)
            self._program.tell(server.decode_change("tools", old, self._commands))
            return
        for told in self._turn.add(update):
            if not isinstance(told, Progress):
                self._program.tell(told)
            elif self._program.listener is not None:
                self._program.listener.on_progress(told)
        running = self._running
        if running is not None and running.turn.full and self._tasks is not None:
            self._tasks.start_soon(self._stop, running)

    async def _ask_leave(self, params: JsonObject) -> JsonObject:
        """Ask a `session/request_permission`, and return its result, never an error."""
        if self._running is not None and self._running.cancelled:
            return agent.CANCELLED
        title = self._turn.title(as_object(params.get("toolCall")))
        decode = partial(agent.decode_permission, params, title, origin=self.origin)
        return await self._program.put_question(
            lambda id: decode(id=id),
            agent.encode_permission,
            agent.CANCELLED,
            calls=self._calls,
        )
