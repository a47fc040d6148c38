"""An editor's session behind the proxy: it can be asked while a prompt of its own runs, and what is asked ends with the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from abp_bridge.core.event import Observer, unobserved
from abp_bridge.core.matrix import Column, Surface
from abp_bridge.core.notice import Notice
from abp_bridge.core.question import Answer, Outcome, Question
from abp_bridge.hosts.acp.client_surfaces import Surfaces
from abp_bridge.hosts.acp.turns import Turns
from abp_bridge.interfaces.host import Host
from abp_bridge.interfaces.surface import Reply
from abp_bridge.rpc.protocol import Id

_THE_AGENTS = {Surface.MCP_SAMPLING, Surface.MODEL}


class Asks(Protocol):
    """Who puts questions to a host, and answers each exactly once."""

    async def ask(self, question: Question) -> Answer: ...


class EditorSession:
    """One session. `prompted`, `cancelled` and `answered` tell it what passes between the editor and the agent.

    `asks` puts the agent's own questions to this session, once there is one.
    """

    def __init__(self, surfaces: Surfaces) -> None:
        self.asks: Asks | None = None
        self._surfaces = surfaces
        self._turns = Turns()

    @property
    def id(self) -> str:
        """Empty until the agent has said it."""
        return self._surfaces.session

    @id.setter
    def id(self, known: str) -> None:
        self._surfaces.session = known

    def adopt(self, known: EditorSession) -> None:
        """It turned out to be `known`: whoever was given this one asks there."""
        self._surfaces, self._turns = known._surfaces, known._turns

    # --- what passes by ---

    def prompted(self, prompt: Id) -> None:
        self._turns.begin(prompt)

    def cancelled(self, reason: str = "the user cancelled the turn") -> None:
        """The editor ends the turn: what is asked is taken down, and nothing more is asked in it."""
        self._turns.cancel(reason)

    async def answered(self, prompt: Id) -> None:
        """The agent ended a prompt. Returns when nothing is asked any more, if it was the last: its response must come after."""
        await self._turns.end(prompt, "the agent ended the turn")

    # --- asking ---

    @property
    def name(self) -> str:
        return self._surfaces.name

    def columns(self, carriers: Sequence[str] = ()) -> Sequence[Column]:
        return self._surfaces.columns

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        """See `Host.ask`. Each question is on a card of its own: which tool call it belongs to, only the agent knows."""
        return await self._turns.within(lambda: self._surfaces.ask(question, column, problem, observe))

    async def point(self, question: Question, url: str) -> Outcome:
        """See `Host.point`."""
        return await self._turns.within(lambda: self._surfaces.point(question, url))


class Between:
    """Asks the editor and tells the agent: the host of the apps' bridge, and, without an agent to tell, of the agent's own questions."""

    def __init__(self, editor: EditorSession, agent: Host | None = None) -> None:
        self._editor = editor
        self._agent = agent

    @property
    def name(self) -> str:
        return self._editor.name if self._agent is None else f"{self._editor.name}, with the agent {self._agent.name}"

    def columns(self, carriers: Sequence[str] = ()) -> Sequence[Column]:
        """The editor's surfaces for its person; the agent's model, where it lends it."""
        models = [] if self._agent is None else [column for column in self._agent.columns(carriers) if column.surface in _THE_AGENTS]
        return [*self._editor.columns(), *models]

    async def ask(self, question: Question, column: Column, problem: str = "", observe: Observer = unobserved) -> Reply:
        if column.surface in _THE_AGENTS and self._agent is not None:
            return await self._agent.ask(question, column, problem, observe)
        return await self._editor.ask(question, column, problem, observe)

    async def point(self, question: Question, url: str) -> Outcome:
        return await self._editor.point(question, url)

    async def roots(self, carriers: Sequence[str] = ()) -> Sequence[str]:
        """The folders that the agent grants: where the editor works, only the agent was told."""
        return () if self._agent is None else await self._agent.roots(carriers)

    def told(self, app: str, origin: str, notice: Notice) -> None:
        if self._agent is not None:
            self._agent.told(app, origin, notice)

    def capabilities_changed(self) -> None:
        if self._agent is not None:
            self._agent.capabilities_changed()

    def resources_changed(self) -> None:
        if self._agent is not None:
            self._agent.resources_changed()
