"""The sessions between a client and its agent, and the host that the apps' bridge has in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import Revealed
from abp_bridge.core.surface import TRAITS, Advice
from abp_bridge.jsonrpc.protocol import Id, is_id
from abp_bridge.session.context import AskContext
from abp_bridge.session.host import Host
from abp_bridge.session.surface import PageLink, SurfaceResponse

if TYPE_CHECKING:
    from abp_bridge.jsonrpc.connection import JsonRpcConnection
    from abp_bridge.session.surface import ElicitorApi, Page


@dataclass(slots=True)
class ClientSession:
    """One session.

    Attributes:
        surfaces: Without an id until the agent has sent it; shared with a session of that id.
        elicitor: Puts the agent's questions, once there is one.
    """

    surfaces: ClientSurfaces
    elicitor: ElicitorApi | None = None


class ProxiedHost:
    """Asks the client and notifies the agent: the host of the apps' bridge.

    Notices and roots are the agent's: only it was told where the client works.
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
        """Return the client's surfaces, and the agent's model if it offers it."""
        asked = self._agent.variants(calls)
        models = [each for each in asked if TRAITS[each.surface].is_hosts_model]
        return [*self._client.surfaces.variants(), *models]

    def advise(self, question: Question, context: AskContext) -> Advice:
        return self._client.surfaces.advise(question, context)

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant,
        problem: str = "",
    ) -> SurfaceResponse:
        """Ask the client's user on a separate card, or the agent's model (`Host.prompt`)."""
        if TRAITS[variant.surface].is_hosts_model:
            return await self._agent.prompt(question, context, variant, problem)
        return await self._client.surfaces.prompt(question, context, variant, problem)

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        return await self._client.surfaces.send_link(question, context, link)


class SessionTable:
    """All sessions of one client, by name and by running prompt.

    Args:
        connection: The client's connection.
        page: The bridge's page.
        cards: The prefix of the ids of our tool calls.
    """

    def __init__(self, connection: JsonRpcConnection, page: Page, cards: str) -> None:
        self.client: JsonObject = {}  # the parameters of its `initialize`
        self._connection = connection
        self._page = page
        self._cards = cards
        self._revealed = Revealed()  # what passes is not changed; what we show is
        self._by_name: dict[str, ClientSession] = {}
        self._by_prompt: dict[Id, ClientSession] = {}

    def make(self, name: str | None = None) -> ClientSession:
        """A new session, which is in the table only when it has a name."""
        surfaces = ClientSurfaces(
            self._connection,
            self.client,
            name or "",
            self._page,
            cards=self._cards,
            revealed=self._revealed,
        )
        session = ClientSession(surfaces)
        if name is not None:
            self._by_name[name] = session
        return session

    def find(self, name: JsonValue) -> ClientSession | None:
        """The session of this name, if it is known."""
        return self._by_name.get(name) if isinstance(name, str) else None

    def find_or_make(self, name: JsonValue) -> ClientSession | None:
        """The session of this name, known from now on; None for what is no name."""
        return self.find(name) or (self.make(name) if isinstance(name, str) else None)

    def add(self, name: str, session: ClientSession) -> None:
        """Name a new session; if the name is known, share that session's surfaces."""
        session.surfaces.session_id = name
        session.surfaces = self._by_name.setdefault(name, session).surfaces

    def remove(self, name: str) -> None:
        self._by_name.pop(name, None)

    def begin_prompt(self, prompt: Id, session: ClientSession) -> None:
        session.surfaces.turns.begin(prompt)
        self._by_prompt[prompt] = session

    async def end_prompt(self, prompt: Id, why: str = "the agent ended the turn") -> None:
        """A prompt is over. Returns when nothing is asked in it any more."""
        if (session := self._by_prompt.pop(prompt, None)) is not None:
            await session.surfaces.turns.end(prompt, why)

    async def end_prompts(self) -> None:
        """The client has left: every prompt is over."""
        for prompt in list(self._by_prompt):
            await self.end_prompt(prompt, "the client left before it answered")

    def find_prompted(self, prompt: JsonValue) -> ClientSession | None:
        """The session in which the prompt with this request id runs."""
        return self._by_prompt.get(prompt) if is_id(prompt) else None

    def find_asked(self, elicitation: JsonObject) -> ClientSession | None:
        """The session an elicitation belongs to: by name, or by the prompt it came from."""
        if (name := elicitation.get("sessionId")) is not None:
            return self.find(name)
        return self.find_prompted(elicitation.get("requestId"))
