"""What agents have in common that are programs on this machine.

A program runs for as long as its turn: between turns nothing of a session is left but its folder
and what the agent itself has kept.
"""

from __future__ import annotations

import abc
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from abp_bridge.models.agent import (
    Availability,
    OnChunk,
    StartOptions,
    Transport,
)
from abp_bridge.models.session import Agent, Session
from abp_bridge.models.streams import LineStream, StreamParser
from abp_bridge.models.turn import AgentMessage, AgentResponse, ModelSettings

_COMMAND = re.compile(r"[\s\ufeff]*/")
_WHO = {"user": "The user", "assistant": "You"}


class LocalAgent(Agent):
    """One program, and the sessions that were begun with it (`AgentProtocol`).

    Args:
        title: What people are told of it.
        folder: Where sessions without a workspace have theirs; who made it removes it.
    """

    transport_type: Transport = "local_agent"
    keeps_sessions = True

    def __init__(self, title: str, folder: str) -> None:
        super().__init__(title)
        self.folder = folder

    @abc.abstractmethod
    async def available(self) -> Availability:
        """Whether it can be had here (`AgentProtocol.available`)."""

    async def start(self, options: StartOptions) -> str:
        """Begin a session, in a folder of its own (`AgentProtocol.start`)."""
        id = await super().start(options)
        self._sessions[id].folder = options.workspace or tempfile.mkdtemp(dir=self.folder)
        return id

    def open_stream(self) -> StreamParser:
        """What reads its stdout (`AgentProtocol.open_stream`)."""
        return LineStream()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """The messages as one prompt (`AgentProtocol.format_messages`)."""
        return format_prompt(messages).encode()

    @abc.abstractmethod
    async def _turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        *,
        resumes: bool,
    ) -> AgentResponse:
        """One turn, from the start of the program to its end, also where it is cancelled; sets
        `session.id` to the agent's own name.

        Raises:
            AgentError: It brought no whole answer.
        """

    async def _ask(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        settings: ModelSettings,
        *,
        resumes: bool,
    ) -> AgentResponse:
        response = await self._turn(session, messages, on_chunk, resumes=resumes)
        self._sessions[session.id] = session
        metadata = {**response.metadata, "session": session.id}
        return replace(response, ignored=settings.given, metadata=metadata)


def format_prompt(messages: Sequence[AgentMessage]) -> str:
    """What the system says, then what was said before, quoted, then the last message as it is. What
    begins with a slash does not come first: an agent would take it for a command of its own.

    Args:
        messages: The conversation, the oldest first.
    """
    rules = [each.content for each in messages if each.role == "system"]
    said = [each for each in messages if each.role != "system"]
    before = "\n\n".join(f"{_WHO[each.role]} said:\n{_quote(each.content)}" for each in said[:-1])
    last = [each.content for each in said[-1:]]
    prompt = "\n\n".join([*rules, *([before] if before else []), *last])
    return f"This is asked:\n\n{prompt}" if _COMMAND.match(prompt) else prompt


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
