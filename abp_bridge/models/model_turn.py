"""Send a conversation to a model's API with pydantic-ai.

The import takes seconds, so `LlmAgent` does it in a thread at its first turn. The library treats a
stream that was cut off as finished; here an answer is whole only if the API said why it stopped.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import httpx2
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings as WireSettings

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.models.agent import (
    MAX_ANSWER,
    SHORT,
    AgentError,
    AgentErrorCode,
    AgentMessage,
    AgentResponse,
    Chunk,
    ChunkKind,
    Cost,
    EndlessTurnError,
    ModelSettings,
    OnChunk,
    ToolCall,
    Usage,
)
from abp_bridge.models.exchange import Exchange

# What each setting is called in the body of a request, by all of the APIs.
_IN_REQUESTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "maxTokens": frozenset(
            {"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"}
        ),
        "temperature": frozenset({"temperature"}),
        "stopSequences": frozenset({"stop", "stop_sequences", "stopSequences"}),
    }
)
_CODES: Sequence[tuple[type[Exception], AgentErrorCode]] = (
    (exceptions.ModelAuthenticationError, AgentErrorCode.AUTH_REQUIRED),
    (exceptions.ModelRateLimitError, AgentErrorCode.RATE_LIMITED),
    (exceptions.ModelNotFoundError, AgentErrorCode.NOT_AVAILABLE),
)
_WHOLE = ("stop", "tool_call")
CUT = "its answer ended before it was whole"


@dataclass(frozen=True, slots=True)
class ModelClient:
    """A model and the HTTP client of its requests."""

    model: Model
    client: httpx2.AsyncClient


def make_model(provider: str, name: str, exchange: Exchange) -> ModelClient:
    """Return a model; no request is sent. May take seconds.

    Raises:
        ImportError: The provider's package is not installed.
        Exception: The library's, for an invalid address or proxy.
    """
    client = exchange.client()
    return ModelClient(MODELS[provider](name, exchange, client), client)


async def request_model(
    asked: ModelClient,
    exchange: Exchange,
    messages: Sequence[AgentMessage],
    *,
    settings: ModelSettings,
    on_chunk: OnChunk,
) -> AgentResponse:
    """Request one answer, without retries: the caller knows how long it may take.

    Args:
        asked: The model, made for `exchange`.
        messages: The whole conversation.
        on_chunk: Gets each piece as it comes.

    Raises:
        AgentError: There is no whole answer.
    """
    answer = _Answer(on_chunk)
    with _own_errors(exchange, answer):
        async with asked.client:
            request = model_request_stream(
                asked.model, _conversation(messages), model_settings=_settings(settings)
            )
            async with request as stream:
                async for event in stream:
                    answer.hear(event)
        return _conclude(stream.get(), settings, exchange)


def _openai(name: str, exchange: Exchange, client: httpx2.AsyncClient) -> Model:
    """Use Responses: all models of OpenAI have it, and its last event says how it ended."""
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider

    at = OpenAIProvider(exchange.url or None, exchange.key, http_client=client)
    # What is said here is not left at the provider's.
    return OpenAIResponsesModel(
        name, provider=at, settings=OpenAIResponsesModelSettings(openai_store=False)
    )


def _address(name: str, exchange: Exchange, client: httpx2.AsyncClient) -> Model:
    """Use Chat Completions: compatible servers often have nothing else."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    at = OpenAICompatibleProvider(
        "address",
        base_url=exchange.url,
        api_key=exchange.key or None,
        http_client=client,
        # Its older name is what all of them know.
        profile=OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False),
    )
    return OpenAIChatModel(name, provider=at)


def _anthropic(name: str, exchange: Exchange, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    at = AnthropicProvider(api_key=exchange.key, base_url=exchange.url or None, http_client=client)
    return AnthropicModel(name, provider=at)


def _google(name: str, exchange: Exchange, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    at = GoogleProvider(api_key=exchange.key, base_url=exchange.url or None, http_client=client)
    return GoogleModel(name, provider=at)


MODELS: Mapping[str, Callable[[str, Exchange, httpx2.AsyncClient], Model]] = MappingProxyType(
    {"openai": _openai, "anthropic": _anthropic, "google": _google, "address": _address}
)


def _conversation(messages: Sequence[AgentMessage]) -> list[ModelMessage]:
    rules = "\n\n".join(each.content for each in messages if each.role == "system")
    said: list[ModelMessage] = []
    for each in messages:
        if each.role == "assistant":
            said.append(ModelResponse(parts=[TextPart(each.content)]))
        elif each.role == "user":
            said.append(ModelRequest(parts=[UserPromptPart(_content(each))]))
    if said and isinstance(said[-1], ModelRequest) and rules:
        said[-1].instructions = rules
    return said


def _content(message: AgentMessage) -> str | list[UserContent]:
    if not message.images:
        return message.content
    shown = [
        BinaryContent(base64.b64decode(each.data), media_type=each.kind) for each in message.images
    ]
    return [*shown, *filter(None, [message.content])]


def _settings(settings: ModelSettings) -> WireSettings:
    # One that a model has not is left out with a warning for programmers: `ignored` says it.
    warnings.filterwarnings("ignore", module=r"pydantic_ai\b")
    wanted = WireSettings(max_retries=0)
    if settings.max_tokens is not None:
        wanted["max_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        wanted["temperature"] = settings.temperature
    if settings.stop_sequences:
        wanted["stop_sequences"] = list(settings.stop_sequences)
    return wanted


class _Answer:
    """Reports what comes and bounds it; `problem` is what the listener raised."""

    def __init__(self, on_chunk: OnChunk) -> None:
        self.problem: Exception | None = None
        self._on_chunk = on_chunk
        self._size = 0

    def hear(self, event: ModelResponseStreamEvent) -> None:
        """Count an event, and report it if it has a `ChunkKind`."""
        match event:
            case PartStartEvent(part=TextPart() | ThinkingPart() as part):
                self._say(isinstance(part, TextPart), part.content)
            case PartDeltaEvent(delta=TextPartDelta() | ThinkingPartDelta() as delta):
                self._say(isinstance(delta, TextPartDelta), delta.content_delta or "")
            case PartEndEvent(part=ToolCallPart() as part):
                call = _call(part)
                self._count(str(part.args))
                data: JsonObject = {"id": call.id, "arguments": call.arguments}
                self._tell(Chunk(ChunkKind.TOOL_START, call.name, data))

    def _say(self, is_text: bool, words: str) -> None:
        self._count(words)
        if words:
            self._tell(Chunk(ChunkKind.TEXT if is_text else ChunkKind.THOUGHT, words))

    def _tell(self, chunk: Chunk) -> None:
        try:
            self._on_chunk(chunk)
        except Exception as problem:  # its own: no server is to blame
            self.problem = problem
            raise

    def _count(self, words: str) -> None:
        self._size += len(words)
        if self._size > MAX_ANSWER:
            raise EndlessTurnError("says", MAX_ANSWER, "characters")


def _call(part: ToolCallPart) -> ToolCall:
    return ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(raise_if_invalid=True))


# --- the end of it ---


def _conclude(
    response: ModelResponse, settings: ModelSettings, exchange: Exchange
) -> AgentResponse:
    """Return the answer, if the API said that it is whole."""
    details = response.provider_details or {}
    said = as_text(details.get("finish_reason"))  # the API's own word: nobody made it up
    if response.finish_reason == "content_filter":
        words = as_text(details.get("refusal")) or f"the model declines to answer {said}"
        raise AgentError(AgentErrorCode.REFUSED, exchange.quote(words, SHORT))
    if not said:
        raise AgentError(AgentErrorCode.TRUNCATED, CUT)
    answer = _response(response, said, settings, exchange)
    if response.finish_reason == "length":
        kept = settings.max_tokens is not None and "maxTokens" not in answer.ignored
        words = f"it stopped at its limit of tokens ({label(said, 80)})"
        partial = answer if kept else None
        raise AgentError(AgentErrorCode.TRUNCATED, words, partial=partial)
    if response.finish_reason == "error":
        raise AgentError(AgentErrorCode.FAILED, f"it failed, and says only {label(said, 80)}")
    if response.finish_reason not in _WHOLE:
        words = f"it stopped before its end, and says only {label(said, 80)}"
        raise AgentError(AgentErrorCode.TRUNCATED, words)
    return answer


def _response(
    response: ModelResponse, said: str, settings: ModelSettings, exchange: Exchange
) -> AgentResponse:
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [_call(part) for part in response.parts if isinstance(part, ToolCallPart)]
    sent = exchange.sent.keys() | as_object(exchange.sent.get("generationConfig")).keys()
    return AgentResponse(
        "".join(texts) or None,
        calls,
        _usage(response),
        "length" if response.finish_reason == "length" else label(said, 80),
        label(response.model_name or "", 200),
        tuple(name for name in settings.given if not _IN_REQUESTS[name] & sent),
    )


def _usage(response: ModelResponse) -> Usage | None:
    used = response.usage
    if used.unmeasured_requests or not used.has_values():
        return None
    return Usage("turn", used.input_tokens, used.output_tokens, _cost(response))


def _cost(response: ModelResponse) -> Cost | None:
    """Return the price from the library's offline table."""
    try:
        price = response.cost().total_price
    except (LookupError, ValueError, AssertionError):  # no such provider or model, or no numbers
        return None
    return Cost(float(price), "USD", "turn", "genai-prices")


@contextmanager
def _own_errors(exchange: Exchange, answer: _Answer) -> Iterator[None]:
    try:
        yield
    except (
        Exception
    ) as problem:  # whatever libraries meet in what a server says, and how they say it
        if isinstance(problem, AgentError) or problem is answer.problem:
            raise
        raise exchange.failure or _read_error(problem, exchange) from None


def _read_error(problem: Exception, exchange: Exchange) -> AgentError:
    if isinstance(problem, exceptions.ModelHTTPError):
        return _read_status(problem, exchange)
    words = exchange.quote(_words(problem), SHORT)
    match problem:
        case exceptions.ModelTimeoutError(phase="read" | "write"):
            return AgentError(AgentErrorCode.TIMEOUT, words)
        case exceptions.ModelConnectionError():
            return AgentError(AgentErrorCode.NETWORK, f"it cannot be reached: {words}")
        case exceptions.ModelAPIError(in_stream=True):  # an error in the middle of its answer
            return AgentError(_code(problem), words, retry_after=problem.retry_after)
    if exchange.is_cut:
        return AgentError(AgentErrorCode.TRUNCATED, CUT)
    return AgentError(AgentErrorCode.PROTOCOL, f"its answer cannot be read: {words}")


def _read_status(problem: exceptions.ModelHTTPError, exchange: Exchange) -> AgentError:
    said = f"HTTP {problem.status_code}: {_words(problem)}"
    # Also where a quota is used up, and nothing says for how long.
    code = AgentErrorCode.RATE_LIMITED if problem.status_code == 429 else _code(problem)
    return AgentError(code, exchange.quote(said, SHORT), retry_after=problem.retry_after)


def _code(problem: Exception) -> AgentErrorCode:
    codes = (code for kind, code in _CODES if isinstance(problem, kind))
    return next(codes, AgentErrorCode.FAILED)


def _words(problem: Exception) -> str:
    """Return the message in the API's answer; else the library's."""
    body: JsonValue = getattr(problem, "body", None)
    for _ in range(3):  # an error within an error: APIs have one or two
        about = as_object(body)
        if message := as_text(about.get("message")):
            return message
        body = about.get("error")
    if isinstance(problem, exceptions.ModelHTTPError):
        return "" if problem.body is None else str(problem.body)
    return str(problem) or type(problem).__name__
