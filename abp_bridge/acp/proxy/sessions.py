"""The sessions that pass between a client and its agent, by name and by the prompts that run in
them. It remembers; what passes, and what is asked, is not its business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abp_bridge.acp.client_surfaces import ClientSurfaces
from abp_bridge.acp.proxy.client_session import ClientSession
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.jsonrpc.protocol import Id, is_id

if TYPE_CHECKING:
    from abp_bridge.jsonrpc.connection import JsonRpcConnection
    from abp_bridge.session.surface import Page


class SessionTable:
    """All sessions of one client.

    Args:
        connection: Where the client is asked.
        page: The bridge's own page, for what the client cannot show.
        cards: What the ids of our tool calls begin with.
    """

    def __init__(self, connection: JsonRpcConnection, page: Page, cards: str) -> None:
        self.client: JsonObject = {}  # the parameters of its `initialize`
        self._connection = connection
        self._page = page
        self._cards = cards
        self._by_name: dict[str, ClientSession] = {}
        self._by_prompt: dict[Id, ClientSession] = {}

    def make(self, name: str | None = None) -> ClientSession:
        """A new session, which is in the table only when it has a name."""
        session = ClientSession(
            ClientSurfaces(self._connection, self.client, name or "", self._page, cards=self._cards)
        )
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
        """The agent has named a new session. One of that name that is known already stays, and
        the new one asks there.
        """
        session.surfaces.session_id = name
        session.surfaces = self._by_name.setdefault(name, session).surfaces

    def remove(self, name: str) -> None:
        """Forget a session, if it is known."""
        self._by_name.pop(name, None)

    def begin_prompt(self, prompt: Id, session: ClientSession) -> None:
        """A prompt runs in `session`: its person can be asked now."""
        session.surfaces.turns.begin(prompt)
        self._by_prompt[prompt] = session

    async def end_prompt(self, prompt: Id) -> None:
        """A prompt is over. Returns when nothing is asked in it any more."""
        await _end(prompt, self._by_prompt.pop(prompt))

    async def end_prompts(self) -> None:
        """The agent has gone: every prompt is over."""
        for prompt, session in list(self._by_prompt.items()):
            await _end(prompt, session)

    def find_prompted(self, prompt: JsonValue) -> ClientSession | None:
        """The session in which the prompt with this request id runs."""
        return self._by_prompt.get(prompt) if is_id(prompt) else None

    def find_asked(self, elicitation: JsonObject) -> ClientSession | None:
        """The session an elicitation belongs to: by name, or by the prompt it came from."""
        if (name := elicitation.get("sessionId")) is not None:
            return self.find(name)
        return self.find_prompted(elicitation.get("requestId"))


async def _end(prompt: Id, session: ClientSession) -> None:
    await session.surfaces.turns.end(prompt, "the agent ended the turn")
