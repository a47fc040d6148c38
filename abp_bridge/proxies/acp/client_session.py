"""A client's session behind the proxy: it can be asked while a prompt of its own runs, and what is
asked ends with the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.notice import Notice
from abp_bridge.core.question import Answer, Outcome, Question
from abp_bridge.hosts.acp.client_surfaces import ClientSurfaces
from abp_bridge.hosts.acp.turns import Turns
from abp_bridge.interfaces.host import Host
from abp_bridge.interfaces.surface import SurfaceResponse
from abp_bridge.rpc.protocol import Id

_THE_AGENTS = {Surface.MCP_SAMPLING, Surface.MODEL}


class ElicitorApi(Protocol):
    """Who puts questions to a host, and answers each exactly once."""

    async def ask(self, question: Question) -> Answer:
        """Ask, and return how it was answered; what is no answer is one that says so."""
        ...


class ClientSession:
    """One session.

    `begin_prompt`, `cancel_turn` and `end_prompt` tell it what passes between the client and
    its agent.

    Attributes:
        elicitor: Asks the agent's own questions in this session, once there is one.
    """

    def __init__(self, surfaces: ClientSurfaces) -> None:
        self.elicitor: ElicitorApi | None = None
        self._surfaces = surfaces
        self._turns = Turns()

    @property
    def id(self) -> str:
        """Empty until the agent has said it."""
        return self._surfaces.session

    @id.setter
    def id(self, known: str) -> None:
        self._surfaces.session = known

    def adopt(self, known: ClientSession) -> None:
        """It turned out to be `known`: whoever was given this one asks there."""
        self._surfaces, self._turns = known._surfaces, known._turns

    # --- what passes by ---

    def begin_prompt(self, prompt: Id) -> None:
        """A prompt runs: the person can be asked."""
        self._turns.begin(prompt)

    def cancel_turn(self, reason: str = "the user cancelled the turn") -> None:
        """The client ends the turn: what is asked is taken down, and nothing more is asked
        in it.
        """
        self._turns.cancel(reason)

    async def end_prompt(self, prompt: Id) -> None:
        """The agent ended a prompt.

        Returns when nothing is asked any more, if it was the last: its response must come after.
        """
        await self._turns.end(prompt, "the agent ended the turn")
        self._surfaces.flush()

    # --- asking ---

    @property
    def name(self) -> str:
        """The client as it calls itself."""
        return self._surfaces.name

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The surfaces of the client, best first."""
        return self._surfaces.variants

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask while a prompt runs (`Host.ask`).

        Each question is on a card of its own: which tool call it belongs to, only the agent knows.
        """
        return await self._turns.within(
            lambda: self._surfaces.ask(question, variant, problem, observe)
        )

    async def send_link(self, question: Question, url: str) -> Outcome:
        """Show the link by a form or buttons, while a prompt runs (`Host.send_link`)."""
        return await self._turns.within(lambda: self._surfaces.send_link(question, url))


class ProxiedHost:
    """Asks the client and tells the agent: the host of the apps' bridge, and, without an agent to
    tell, of the agent's own questions.
    """

    def __init__(self, client: ClientSession, agent: Host | None = None) -> None:
        self._client = client
        self._agent = agent

    @property
    def name(self) -> str:
        """The client, and the agent if there is one."""
        return (
            self._client.name
            if self._agent is None
            else f"{self._client.name}, with the agent {self._agent.name}"
        )

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The client's surfaces for its person; the agent's model, where it lends it."""
        models = (
            []
            if self._agent is None
            else [each for each in self._agent.variants(calls) if each.surface in _THE_AGENTS]
        )
        return [*self._client.variants(), *models]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """Ask the client's person, or the agent's model on a surface of its own (`Host.ask`)."""
        if variant.surface in _THE_AGENTS and self._agent is not None:
            return await self._agent.ask(question, variant, problem, observe)
        return await self._client.ask(question, variant, problem, observe)

    async def send_link(self, question: Question, url: str) -> Outcome:
        """Send the client's person to `url` (`Host.send_link`)."""
        return await self._client.send_link(question, url)

    async def roots(self, calls: Sequence[str] = ()) -> Sequence[str]:
        """The folders that the agent grants: where the client works, only the agent was told."""
        return () if self._agent is None else await self._agent.roots(calls)

    def on_notice(self, app: str, origin: str, notice: Notice) -> None:
        """Tell the agent (`Host.on_notice`)."""
        if self._agent is not None:
            self._agent.on_notice(app, origin, notice)

    def on_capabilities_changed(self) -> None:
        """Tell the agent (`Host.on_capabilities_changed`)."""
        if self._agent is not None:
            self._agent.on_capabilities_changed()

    def on_resources_changed(self) -> None:
        """Tell the agent (`Host.on_resources_changed`)."""
        if self._agent is not None:
            self._agent.on_resources_changed()
