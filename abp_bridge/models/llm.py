"""Models behind an API: of three providers, and at any address that speaks OpenAI's chat
completions.

Each turn sends the whole conversation. The libraries are an extra, `abp-bridge[models]`, imported
when the first turn begins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio.to_thread

from abp_bridge.core.redact.command import find_address_secrets, find_keys, hide_keys
from abp_bridge.core.sanitize import label
from abp_bridge.errors import install_command
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.agent import (
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Availability,
    ModelSettings,
    OnChunk,
    StartOptions,
    Transport,
)
from abp_bridge.models.session import Agent, Session
from abp_bridge.models.streams import ApiStream, StreamParser

if TYPE_CHECKING:
    import httpx2

    from abp_bridge.models.exchange import Exchange
    from abp_bridge.models.model_turn import ModelClient


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models.

    Attributes:
        title: Its name in messages.
        library: The package that speaks to it.
        keys: Variables that may hold its key; the first one set counts.
        base_url: The variable that holds another address for it; empty for none.
        root: The path of its own address.
    """

    title: str
    library: str
    keys: Sequence[str]
    needs_key: bool = True
    base_url: str = ""
    root: str = ""


ADDRESS = "address"
PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": Provider(
            "OpenAI", "openai", ["OPENAI_API_KEY"], base_url="OPENAI_BASE_URL", root="/v1"
        ),
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
        ADDRESS: Provider("any compatible server", "openai", ["ABP_MODEL_KEY"], needs_key=False),
    }
)


class LlmAgent(Agent):
    """One model behind an API (`AgentProtocol`).

    Args:
        provider: One of `PROVIDERS`.
        name: The model's name at its provider.
        base_url: The API's address; empty for the provider's.
        transport: Replaces connections.
        tap: Observes requests and answers as lines of JSON.
    """

    transport_type: Transport = "llm"

    def __init__(
        self,
        provider: str,
        name: str,
        *,
        base_url: str = "",
        transport: httpx2.AsyncBaseTransport | None = None,
        tap: Tap = unobserved_stream,
    ) -> None:
        super().__init__(label(hide_keys(name), 80))
        self._api = provider
        self._provider = PROVIDERS[provider]
        self._name = name
        self._base_url = base_url
        self._transport = transport
        self._tap = tap

    def find_obstacle(self, *, images: bool = False) -> str:
        """Check its packages and its key in this process's variables."""
        return self._check(os.environ)

    async def available(self) -> Availability:
        """Check its packages and its key; no request is sent."""
        return Availability(self.find_obstacle())

    async def start(self, options: StartOptions) -> str:
        """Begin a session; no request is sent."""
        if why_not := self._check({**os.environ, **options.cli_config.environment}):
            raise AgentError(AgentErrorCode.NOT_AVAILABLE, why_not)
        return await super().start(options)

    def open_stream(self) -> StreamParser:
        return ApiStream()

    def format_messages(self, messages: Sequence[AgentMessage]) -> bytes:
        """Return the conversation as JSON; each API has its own names for it."""
        said = [{name: it for name, it in asdict(each).items() if it} for each in messages]
        return json.dumps(said, ensure_ascii=False).encode()

    async def _run_turn(
        self,
        session: Session,
        messages: Sequence[AgentMessage],
        on_chunk: OnChunk,
        settings: ModelSettings,
        *,
        resumes: bool,
    ) -> AgentResponse:
        exchange = self._exchange({**os.environ, **session.options.cli_config.environment})
        # In a thread: the first takes seconds, and others have their turns meanwhile.
        asked = await anyio.to_thread.run_sync(self._load_model, exchange, abandon_on_cancel=True)
        from abp_bridge.models.model_turn import request_model

        with closing(exchange):
            return await request_model(
                asked, exchange, messages, settings=settings, on_chunk=on_chunk
            )

    def _exchange(self, environment: Mapping[str, str]) -> Exchange:
        from abp_bridge.models.exchange import Exchange

        base_url = self._base_url or environment.get(self._provider.base_url, "")
        key = _key(self._provider, environment)
        return Exchange(
            base_url,
            key,
            plain=self._api == ADDRESS,
            transport=self._transport,
            root=self._provider.root,
            tap=self._tap,
            secrets=[*find_address_secrets(base_url), *find_keys(self._name)],
        )

    def _check(self, environment: Mapping[str, str]) -> str:
        if not (_is_here("pydantic_ai") and _is_here(self._provider.library)):
            return f"the extra 'models' is not installed: {install_command('models')}"
        key, names = _key(self._provider, environment), " or ".join(self._provider.keys)
        if not key and self._provider.needs_key:
            return f"there is no key of {self._provider.title}'s: set {names}"
        if not (key.isascii() and key.isprintable()) or " " in key:
            return f"what {names} holds is no key: there are blanks or special characters in it"
        return ""

    def _load_model(self, exchange: Exchange) -> ModelClient:
        try:
            from abp_bridge.models.model_turn import make_model

            return make_model(self._api, self._name, exchange)
        except ImportError as problem:
            words = f"{problem.name} cannot be imported: {install_command('models')}"
        except Exception as problem:  # the libraries': of addresses and proxies that are none
            words = exchange.quote(f"it cannot be asked: {problem}", 300)
        raise AgentError(AgentErrorCode.NOT_AVAILABLE, words)


def _key(provider: Provider, environment: Mapping[str, str]) -> str:
    return next(filter(None, (environment.get(name, "").strip() for name in provider.keys)), "")


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it is in
        return False
