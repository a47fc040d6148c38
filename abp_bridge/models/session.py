"""What all kinds of agents have in common: sessions by id, one turn at a time, and their usage; and
for programs on this machine a folder for each session and one prompt for a conversation.

A program runs for one turn: between turns a session has only its folder and what the agent kept.
"""

from __future__ import annotations

import abc
import re
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio

from abp_bridge.core.sanitize import label
from abp_bridge.models.agent import (
    NO_SETTINGS,
    TIMEOUT_MS,
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentProtocol,
    AgentResponse,
    Availability,
    Chunk,
    Cost,
    ModelSettings,
    OnChunk,
    StartOptions,
    Transport,
    Usage,
    ignore_chunk,
)
from abp_bridge.models.streams import LineStream, StreamParser


@dataclass(slots=True)
class Session:
    """One conversation with an agent.

    Attributes:
        id: The agent's own id of it.
        folder: The agent's working directory; empty for none.
        usage: What its turns used so far.
    """

    id: str
    options: StartOptions
    folder: str = ""
    usage: Usage | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _turns: list[anyio.CancelScope] = field(default_factory=list)

    async def run_turn(
        self, turn: Callable[[], Awaitable[AgentResponse]], timeout: float, title: str
    ) -> AgentResponse:
        """Run a turn after those before it, and count its usage.

        Args:
            turn: Returns the answer; leaves nothing behind when cancelled.
            timeout: Seconds, including the wait for earlier turns.
            title: The agent's name in errors.

        Raises:
            AgentError: It was stopped, timed out or failed.
        """
        limit = anyio.current_time() + timeout
        response = None
        with anyio.CancelScope(deadline=limit) as scope:
            self._turns.append(scope)
            try:
                async with self._lock:
                    response = await turn()
            finally:
                self._turns.remove(scope)
        if response is None:
            if anyio.current_time() >= limit:
                words = f"{title} was not done within {timeout:g} s"
                raise AgentError(AgentErrorCode.TIMEOUT, words)
            raise AgentError(AgentErrorCode.CANCELLED, "the turn was stopped")
        if response.usage is not None:
            self._count(response.usage)
        return response

    async def cancel_turns(self) -> None:
        """Cancel the running turn and the waiting ones, and wait for their end."""
        for scope in self._turns:
            scope.cancel()
        async with self._lock:
            pass

    def _count(self, usage: Usage) -> None:
        """Add a turn's usage, unless it is already of the session."""
        before = self.usage or Usage("session")
        if usage.scope == "turn":
            usage = replace(
                usage,
                input=(before.input or 0) + (usage.input or 0),
                output=(before.output or 0) + (usage.output or 0),
                cost=_add(before.cost, usage.cost),
            )
        self.usage = replace(usage, scope="session")


def _add(before: Cost | None, cost: Cost | None) -> Cost | None:
    if cost is None or before is None or cost.scope == "session":
        return cost or before
    return replace(cost, amount=before.amount + cost.amount)


class Agent(AgentProtocol, abc.ABC):
    """One agent and its sessions (`AgentProtocol`).

    Attributes:
        title: Its name in messages.
        keeps_sessions: Whether it can resume a session that another process began.
    """

    keeps_sessions = False

    def __init__(self, title: str) -> None:
        self.title = title
        self._sessions: dict[str, Session] = {}

    async def start(self, options: StartOptions) -> str:
        """Begin a session; nothing runs yet."""
        id = options.session_id or str(uuid.uuid4())
        self._sessions[id] = Session(id, options)
        return id

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> AgentResponse:
        tell = on_chunk if stream else ignore_chunk
        return await self._send(session, messages, tell, settings, timeout_ms, resumes=False)

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        stream: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[str, AgentResponse]:
        if self.keeps_sessions and session not in self._sessions:
            await self.start(StartOptions(session_id=session))
        tell = on_chunk if stream else ignore_chunk
        response = await self._send(session, messages, tell, settings, timeout_ms, resumes=True)
        return self._sessions[session].id, response

    async def stop(self, session: str) -> None:
        if (known := self._sessions.get(session)) is not None:
            await known.cancel_turns()

    async def get_usage(self, session: str) -> Usage | None:
        """Return the session's usage; none of these agents reports a billing period."""
        known = self._sessions.get(session)
        return None if known is None else known.usage

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """Return the cost that came with the answer."""
        return None if response.usage is None else response.usage.cost

    @abc.abstractmethod
    async def _run_turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        settings: ModelSettings,
        *,
        resumes: bool,
    ) -> AgentResponse:
        """Run one turn; leaves nothing behind when cancelled. Raises AgentError."""

    async def _send(
        self,
        id: str,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        settings: ModelSettings,
        timeout_ms: int,
        *,
        resumes: bool,
    ) -> AgentResponse:
        if (session := self._sessions.get(id)) is None:
            words = f"no session {label(id, 80)} was begun"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words)

        def tell(chunk: Chunk) -> None:
            self.stream_message(session.id, chunk, on_chunk)

        response = await session.run_turn(
            lambda: self._run_turn(session, messages, tell, settings, resumes=resumes),
            timeout_ms / 1_000,
            self.title,
        )
        user = session.options.user_id
        return replace(response, metadata={**response.metadata, "user": user}) if user else response


_COMMAND = re.compile(r"[\s\ufeff]*/")
_WHO = {"user": "The user", "assistant": "You"}


class LocalAgent(Agent):
    """One program and its sessions (`AgentProtocol`).

    Args:
        title: Its name in messages.
        folder: Parent of the folders of sessions without a workspace; the caller removes it.
    """

    transport_type: Transport = "local_agent"
    keeps_sessions = True

    def __init__(self, title: str, folder: str) -> None:
        super().__init__(title)
        self.folder = folder

    @abc.abstractmethod
    async def available(self) -> Availability:
        """Whether it can be used here."""

    async def start(self, options: StartOptions) -> str:
        """Begin a session in its own folder."""
        id = await super().start(options)
        self._sessions[id].folder = options.workspace or tempfile.mkdtemp(dir=self.folder)
        return id

    def open_stream(self) -> StreamParser:
        return LineStream()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        return format_prompt(messages).encode()

    @abc.abstractmethod
    async def _run_program(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        """Run the program for one turn and set `session.id` to the agent's own id. Raises
        AgentError.
        """

    async def _run_turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        settings: ModelSettings,
        *,
        resumes: bool,
    ) -> AgentResponse:
        response = await self._run_program(session, messages, on_chunk, resumes=resumes)
        self._sessions[session.id] = session
        metadata = {**response.metadata, "session": session.id}
        return replace(response, ignored=settings.given, metadata=metadata)


def format_prompt(messages: Sequence[AgentMessage]) -> str:
    """Return a conversation, oldest message first, as one prompt with the earlier messages quoted.

    A prompt never starts with a slash: an agent would run it as a command.
    """
    rules = [each.content for each in messages if each.role == "system"]
    said = [each for each in messages if each.role != "system"]
    before = "\n\n".join(f"{_WHO[each.role]} said:\n{_quote(each.content)}" for each in said[:-1])
    last = [each.content for each in said[-1:]]
    prompt = "\n\n".join([*rules, *([before] if before else []), *last])
    return f"This is asked:\n\n{prompt}" if _COMMAND.match(prompt) else prompt


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
