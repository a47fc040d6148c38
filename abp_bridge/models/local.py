"""What agents that are programs on this machine have in common.

A program runs for one turn: between turns a session has only its folder and what the agent kept.
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
    async def _turn(
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
