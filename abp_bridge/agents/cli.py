"""Agents by their command lines: a process a turn, in its own process group, the prompt on its
stdin (an argument can be seen by everybody on the machine) and JSON lines on its stdout.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import anyio

from abp_bridge.core.agent_turn import (
    NO_SETTINGS,
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Cost,
    ModelSettings,
    Usage,
)
from abp_bridge.core.sanitize import label
from abp_bridge.interfaces.agent import (
    Availability,
    OnChunk,
    StartOptions,
    Transport,
    ignore_chunk,
)
from abp_bridge.protocols.cli_agents import CliDialect, CliTurn
from abp_bridge.protocols.prompts import format_prompt
from abp_bridge.rpc.pipe import write_all
from abp_bridge.rpc.subprocess import Child, child_environment, spawn

VERSION_LIMIT = 10.0  # seconds for `--version`: the slowest takes two, on a cold disk more
END_LIMIT = 5.0  # seconds to be gone after its last word: it saves its session


@dataclass(slots=True)
class _Session:
    """One conversation: `id` is the agent's own name of it, `scope` what ends its turn."""

    id: str
    folder: str
    options: StartOptions
    usage: Usage | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    scope: anyio.CancelScope | None = None

    def count(self, usage: Usage) -> None:
        """Add a turn's, unless it speaks of the session so far."""
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


class CliAgent:
    """One command line, and the sessions that were begun with it (`AgentProtocol`).

    Args:
        dialect: How it is spoken to.
        folder: Where sessions without a workspace have theirs; who made it removes it.
    """

    transport_type: Transport = "local_agent"

    def __init__(self, dialect: CliDialect, folder: str) -> None:
        self._dialect = dialect
        self.folder = folder
        self._sessions: dict[str, _Session] = {}

    @property
    def toolless(self) -> bool:
        """Whether it can be had without its tools."""
        return self._dialect.toolless is not None

    async def available(self) -> Availability:
        """Whether its program is on the PATH and says its version (`AgentProtocol.available`)."""
        program, title = self._dialect.program, self._dialect.title
        if shutil.which(program) is None:
            return Availability(f"there is no program {program} on the PATH: install {title}")
        try:
            with anyio.fail_after(VERSION_LIMIT):
                ran = await anyio.run_process([program, "--version"], check=False)
        except TimeoutError:
            return Availability(f"{program} --version took more than {VERSION_LIMIT:g} s")
        except OSError as problem:
            return Availability(f"{program} cannot be started: {problem}")
        version = label(ran.stdout.decode(errors="replace").strip().split("\n")[0], 80)
        if ran.returncode:
            return Availability(f"{program} --version ended with the exit code {ran.returncode}")
        return Availability(version=version)

    async def start(self, options: StartOptions) -> str:
        """Begin a session, of which nothing runs yet (`AgentProtocol.start`)."""
        id = options.session_id or str(uuid.uuid4())
        self._dialect.command(id, resumes=False, tools=options.tools)
        folder = options.workspace or tempfile.mkdtemp(dir=self.folder)
        self._sessions[id] = _Session(id, folder, options)
        return id

    async def send(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> AgentResponse:
        """Run it once, to its end (`AgentProtocol.send`)."""
        response = await self._run(session, messages, on_chunk, timeout, resumes=False)
        return replace(response, ignored=settings.given)

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> tuple[str, AgentResponse]:
        """Run it once more, in its own session (`AgentProtocol.resume`); one that another process
        began is known by the agent alone.
        """
        if session not in self._sessions:
            await self.start(StartOptions(session_id=session))
        response = await self._run(session, messages, on_chunk, timeout, resumes=True)
        return session, replace(response, ignored=settings.given)

    async def stop(self, session: str) -> None:
        """End its process, with all that it started (`AgentProtocol.stop`)."""
        known = self._sessions.get(session)
        if known is not None and known.scope is not None:
            known.scope.cancel()
            async with known.lock:
                pass

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """The prompt on its stdin (`AgentProtocol.format_messages`)."""
        return format_prompt(messages).encode()

    async def get_usage(self, session: str) -> Usage | None:
        """What its turns took so far (`AgentProtocol.get_usage`); of the billing period no command
        line tells.
        """
        known = self._sessions.get(session)
        return None if known is None else known.usage

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """What it said itself (`AgentProtocol.estimate_cost`)."""
        return None if response.usage is None else response.usage.cost

    # --- one turn ---

    async def _run(
        self,
        id: str,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        timeout: float,
        *,
        resumes: bool,
    ) -> AgentResponse:
        if (session := self._sessions.get(id)) is None:
            raise AgentError(
                AgentErrorCode.SESSION_UNKNOWN, f"no session {label(id, 80)} was begun"
            )
        async with session.lock:
            limit = anyio.current_time() + timeout
            scope = session.scope = anyio.CancelScope(deadline=limit)
            response = None
            with scope:
                response = await self._read(session, messages, on_chunk, resumes=resumes)
            session.scope = None
        if response is None:
            if anyio.current_time() >= limit:
                words = f"{self._dialect.title} was not done within {timeout:g} s"
                raise AgentError(AgentErrorCode.TIMEOUT, words)
            raise AgentError(AgentErrorCode.CANCELLED, "the turn was stopped")
        self._sessions[session.id] = session
        if response.usage is not None:
            session.count(response.usage)
        return response

    async def _read(
        self,
        session: _Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        options = session.options
        command = self._dialect.command(session.id, resumes=resumes, tools=options.tools)
        turn = CliTurn(self._dialect, session.id, resumes=resumes)
        env = {**child_environment(), **options.environment}
        try:
            async with (
                spawn(command, env=env, cwd=session.folder) as child,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(_prompt, child, self.format_messages(messages))
                while turn.failure is None and (data := await child.stdout.receive()):
                    for chunk in turn.feed(data):
                        on_chunk(chunk)
                if turn.failure is None:
                    with anyio.move_on_after(END_LIMIT):
                        await child.process.wait()
                        await child.heard.wait()
                tasks.cancel_scope.cancel()
        except OSError as problem:
            words = f"{self._dialect.program} cannot be started: {problem}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None
        response = turn.end(child.process.returncode or 0, "\n".join(child.last_words))
        session.id = turn.session
        return replace(response, metadata={**response.metadata, "session": session.id})


async def _prompt(child: Child, prompt: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended: how, its reader says
        await write_all(child.stdin, prompt)
        child.stdin.close()
