"""A client's session behind the proxy, and the host that the apps' bridge has there: the client is
asked, the agent is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.question import Question
from abp_bridge.core.surface import TRAITS, Advice
from abp_bridge.session.context import AskContext
from abp_bridge.session.host import Host
from abp_bridge.session.proxy_elicitor import ElicitorApi
from abp_bridge.session.surface import PageLink, SurfaceResponse


@dataclass(slots=True)
class ClientSession:
    """One session.

    Attributes:
        surfaces: How it is asked. Its id is empty until the agent has said it; a session that turns
            out to be another is asked where that one is.
        elicitor: Asks the agent's own questions in this session, once there is one.
    """

    surfaces: ClientSurfaces
    elicitor: ElicitorApi | None = None


class ProxiedHost:
    """Asks the client and tells the agent: the host of the apps' bridge.

    What the agent is told, and the folders that it grants, is its own business: where the client
    works, only the agent was told.
    """

    def __init__(self, client: ClientSession, agent: Host) -> None:
        self._client = client
        self._agent = agent
        self.roots = agent.roots
        self.on_notice = agent.on_notice
        self.on_capabilities_changed = agent.on_capabilities_changed
        self.on_resources_changed = agent.on_resources_changed
        self.lost_notifications = agent.lost_notifications

    @property
    def name(self) -> str:
        """The client, and the agent."""
        return f"{self._client.surfaces.name}, with the agent {self._agent.name}"

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """The client's surfaces for its person; the agent's model, where it lends it."""
        asked = self._agent.variants(calls)
        models = [each for each in asked if TRAITS[each.surface].is_hosts_model]
        return [*self._client.surfaces.variants(), *models]

    def advise(self, question: Question, context: AskContext) -> Advice:
        """What its person can do in this client to be asked (`Advising.advise`)."""
        return self._client.surfaces.advise(question, context)

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Ask the client's person on a card of its own, for which tool call a question belongs to
        only the agent knows; or the agent's model on a surface of its own (`Host.prompt`).
        """
        if TRAITS[variant.surface].is_hosts_model:
            return await self._agent.prompt(question, context, variant, problem)
        return await self._client.surfaces.prompt(question, context, variant, problem)

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        """Send the client's person to the page (`Host.send_link`)."""
        return await self._client.surfaces.send_link(question, context, link)
