"""Models behind an API: of three providers, and at any address that speaks as OpenAI's chat does.

Nothing of a conversation is kept: each turn is sent all of it. The libraries that speak to the APIs
are an extra, `abp-bridge[models]`, and are loaded when a first turn begins.
"""

from __future__ import annotations

import importlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio.to_thread

from abp_bridge.agents.exchange import Exchange
from abp_bridge.agents.session import Session
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

if TYPE_CHECKING:
    import httpx2

INSTALL = "pip install 'abp-bridge[models]'"


@dataclass(frozen=True, slots=True)
class Provider:
    """Who has models.

    Attributes:
        title: What people call it.
        library: The package that speaks to it.
        keys: The variables that may hold its key: the first that does counts.
        needs_key: Whether it answers nobody without one.
        base_url: The variable that names another address for it; empty for none.
    """

    title: str
    library: str
    keys: Sequence[str]
    needs_key: bool = True
    base_url: str = ""


ADDRESS = "address"
PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": Provider("OpenAI", "openai", ["OPENAI_API_KEY"], base_url="OPENAI_BASE_URL"),
        "anthropic": Provider(
            "Anthropic", "anthropic", ["ANTHROPIC_API_KEY"], base_url="ANTHROPIC_BASE_URL"
        ),
        "google": Provider(
            "Google",
            "google.genai",
            ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
            base_url="GOOGLE_GEMINI_BASE_URL",
        ),
        # A key that was given for somebody else is none for it.
        ADDRESS: Provider("the model's server", "openai", ["ABP_MODEL_KEY"], needs_key=False),
    }
)


class LlmAgent:
    """One model, and the sessions that were begun with it (`AgentProtocol`).

    Args:
        provider: Whose it is, one of `PROVIDERS`.
        name: Its name, as its provider has it.
        base_url: Where it is asked; empty for where its provider is.
        transport: Carries its requests, instead of connections.
    """

    transport_type: Transport = "llm"

    def __init__(
        self,
        provider: str,
        name: str,
        *,
        base_url: str = "",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._api = provider
        self._provider = PROVIDERS[provider]
        self._name = name
        self._base_url = base_url
        self._transport = transport
        self._sessions: dict[str, Session] = {}

    async def available(self) -> Availability:
        """Whether its packages and its key are here (`AgentProtocol.available`); the model itself
        is not asked.
        """
        return Availability(self._obstacle(os.environ))

    async def start(self, options: StartOptions) -> str:
        """Begin a session: there is nothing to be done for it (`AgentProtocol.start`)."""
        if why_not := self._obstacle({**os.environ, **options.environment}):
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, why_not)
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
        timeout: float,
    ) -> AgentResponse:
        """Ask it once (`AgentProtocol.send`); the messages are the whole conversation."""
        if (known := self._sessions.get(session)) is None:
            words = f"no session {label(session, 80)} was begun"
            raise AgentError(AgentErrorCode.SESSION_UNKNOWN, words)
        exchange = self._exchange({**os.environ, **known.options.environment})

        async def turn() -> AgentResponse:
            # In a thread: it is seconds of code, and others have their turns meanwhile.
            await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
            from abp_bridge.agents.model_turn import request_model

            return await request_model(
                self._api, self._name, exchange, messages, settings=settings, on_chunk=on_chunk
            )

        return await known.run(turn, timeout, label(self._name, 80))

    async def resume(
        self,
        session: str,
        messages: Sequence[AgentMessage],
        *,
        on_chunk: OnChunk = ignore_chunk,
        settings: ModelSettings = NO_SETTINGS,
        timeout: float,
    ) -> tuple[str, AgentResponse]:
        """As `send` (`AgentProtocol.resume`): what was said before stands in the messages."""
        turn = self.send(session, messages, on_chunk=on_chunk, settings=settings, timeout=timeout)
        return session, await turn

    async def stop(self, session: str) -> None:
        """Hang up (`AgentProtocol.stop`)."""
        if (known := self._sessions.get(session)) is not None:
            await known.stop()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """The conversation as JSON (`AgentProtocol.format_messages`), which each provider's API has
        in names of its own.
        """
        return json.dumps([asdict(each) for each in messages], ensure_ascii=False).encode()

    async def get_usage(self, session: str) -> Usage | None:
        """What its turns took so far (`AgentProtocol.get_usage`); no key tells of the billing
        period.
        """
        known = self._sessions.get(session)
        return None if known is None else known.usage

    def estimate_cost(self, response: AgentResponse) -> Cost | None:
        """What a table of prices says (`AgentProtocol.estimate_cost`); none has an address's."""
        return None if response.usage is None else response.usage.cost

    def _exchange(self, environment: Mapping[str, str]) -> Exchange:
        base_url = self._base_url or environment.get(self._provider.base_url, "")
        key = _key(self._provider, environment)
        return Exchange(base_url, key, plain=self._api == ADDRESS, transport=self._transport)

    def _obstacle(self, environment: Mapping[str, str]) -> str:
        """Why it cannot be had with such variables; empty where it can."""
        if not (_is_here("pydantic_ai") and _is_here(self._provider.library)):
            return f"the packages that speak to it are not here: {INSTALL}"
        key, names = _key(self._provider, environment), " or ".join(self._provider.keys)
        if not key and self._provider.needs_key:
            return f"there is no key of {self._provider.title}'s: set {names}"
        if not (key.isascii() and key.isprintable()) or " " in key:
            return f"what {names} holds is no key: there are blanks or special characters in it"
        return ""

    def _load(self) -> None:
        try:
            importlib.import_module("abp_bridge.agents.model_turn")
            importlib.import_module(self._provider.library)
        except ImportError as problem:
            words = f"{problem.name} cannot be imported: {INSTALL}"
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, words) from None


def _key(provider: Provider, environment: Mapping[str, str]) -> str:
    return next(filter(None, (environment.get(name, "").strip() for name in provider.keys)), "")


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it is in
        return False
