"""The APIs of models, each as its own server streams an answer: for tests in one process."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import anyio
import distro
import httpx2
import pytest

from abp_bridge.models.llm import PROVIDERS, LlmAgent

Json = Any

# A library asks for the name of the system, and would run `lsb_release` to know it.
vars(distro.distro)["_distro"] = distro.LinuxDistribution(include_lsb=False, include_uname=False)

KEY = "sk-planted-1234567890"
TEXTS = ("Grü", "ße")
CALL = ("look_up", {"city": "Bern"})


@dataclass(frozen=True)
class Wire:
    """One API: how it streams an answer."""

    model: str  # one that it has
    said: tuple[str, str, str]  # whole, too long, refused
    events: Callable[[Sequence[str], Json, str], Iterator[Json]]
    ignored: tuple[str, ...] = ()  # what it does not keep of `WANTED`
    last: bytes = b""

    def stream(self, texts: Sequence[str] = TEXTS, call: Json = None, why: str = "") -> bytes:
        events = self.events(texts, call, why or self.said[0])
        return b"".join(map(encode_event, events)) + self.last


def encode_event(event: Json) -> bytes:
    named = f"event: {event['type']}\n" if "type" in event else ""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"{named}data: {data}\n\n".encode()


def _chat(texts: Sequence[str], call: Json, why: str) -> Iterator[Json]:
    def delta(why: str | None = None, **said: Json) -> Json:
        choice = {"index": 0, "delta": said, "finish_reason": why}
        return {"id": "c", "model": "m-1", "choices": [choice]}

    yield from (delta(content=text) for text in texts)
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        called = {"index": 0, "id": "call", "type": "function", "function": function}
        yield delta(tool_calls=[called])
        why = "tool_calls"
    yield delta(refusal="I cannot") if why == "refusal" else delta(why)
    yield {"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}


def _responses(texts: Sequence[str], call: Json, why: str) -> Iterator[Json]:
    def event(kind: str, **more: Json) -> Json:
        return {"type": f"response.{kind}", "sequence_number": 0, "output_index": 0, **more}

    response: Json = {"id": "r", "model": "gpt-5-mini", "output": []}
    item = {"id": "i", "type": "message", "role": "assistant", "content": []}
    yield event("output_item.added", item=item)
    at = {"content_index": 0, "item_id": "i"}
    yield from (event("output_text.delta", delta=text, logprobs=[], **at) for text in texts)
    if why == "refusal":
        yield event("refusal.delta", delta="I cannot", **at)
        why = "completed"
    if call:
        item = {"id": "f", "type": "function_call", "call_id": "call", "name": call[0]}
        yield event("output_item.added", item=item | {"arguments": ""})
        yield event("output_item.done", item=item | {"arguments": json.dumps(call[1])})
    usage: Json = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    details: Json = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {}}
    response |= {"usage": usage | details}
    if why == "completed":
        yield event("completed", response=response | {"status": why})
    else:
        cut = {"status": "incomplete", "incomplete_details": {"reason": why}}
        yield event("incomplete", response=response | cut)


def _messages(texts: Sequence[str], call: Json, why: str) -> Iterator[Json]:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "m", "role": "assistant", "model": "claude-opus-5-5", "content": []}
    yield {"type": "message_start", "message": message | {"type": "message", "usage": usage}}
    text = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": text}
    for each in texts:
        delta: Json = {"type": "text_delta", "text": each}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    if call:
        block = {"type": "tool_use", "id": "call", "name": call[0], "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
        why = "tool_use"
    ended = {"stop_reason": why, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _gemini(texts: Sequence[str], call: Json, why: str) -> Iterator[Json]:
    def piece(part: Json, **more: Json) -> Json:
        return {"candidates": [{"content": {"role": "model", "parts": [part]}, **more}]}

    parts: list[Json] = [{"text": text} for text in texts]
    if call:
        parts.append({"functionCall": {"id": "call", "name": call[0], "args": call[1]}})
    yield from map(piece, parts[:-1])
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    yield piece(parts[-1], finishReason=why) | {"usageMetadata": usage}


WIRES = {
    "address": Wire("llama3", ("stop", "length", "refusal"), _chat, last=b"data: [DONE]\n\n"),
    "openai": Wire(
        "gpt-5-mini",
        ("completed", "max_output_tokens", "refusal"),
        _responses,
        ("temperature", "stopSequences"),
    ),
    "anthropic": Wire(
        "claude-opus-5-5", ("end_turn", "max_tokens", "refusal"), _messages, ("temperature",)
    ),
    "google": Wire("gemini-2.5-flash", ("STOP", "MAX_TOKENS", "SAFETY"), _gemini),
}
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}


@dataclass
class Line(httpx2.AsyncByteStream, httpx2.AsyncBaseTransport):
    """A connection to whom nobody is behind: it has one answer, in these pieces."""

    pieces: Sequence[bytes | Exception]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    refuses: Exception | None = None
    asked: list[httpx2.Request] = field(default_factory=list)
    is_closed: bool = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if self.refuses is not None:
            raise self.refuses
        headers = {"content-type": "text/event-stream", **self.headers}
        return httpx2.Response(self.status, headers=headers, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
        if self.hangs:
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.is_closed = True


class Speaker(httpx2.AsyncBaseTransport):
    """A server that repeats what it was told; it hangs after `hang`, and breaks off at `die`."""

    def __init__(self, api: str) -> None:
        self.lines: list[Line] = []
        self._wire = WIRES[api]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        said = _last_words(json.loads(request.content))
        whole = self._wire.stream([said])
        pieces: list[bytes | Exception] = [whole]
        if said in ("hang", "die"):  # its words have come, and not its end
            begun = self._wire.stream([said, "."])[:-60]
            pieces = [begun, *([httpx2.ReadError("gone")] if said == "die" else [])]
        line = Line(pieces, hangs=said == "hang")
        self.lines.append(line)
        return await line.handle_async_request(request)


def _last_words(body: Json) -> str:
    last = next(body[name] for name in ("input", "messages", "contents") if name in body)[-1]
    content = last.get("content", last.get("parts"))
    return content if isinstance(content, str) else content[0]["text"]


def set_keys(environment: pytest.MonkeyPatch) -> None:
    """A key for each, and none of what else their libraries would take from the environment."""
    for name in KEYS.values():
        environment.setenv(name, KEY)
    environment.setenv("OPENAI_ORG_ID", "org-planted")
    addresses = (each.base_url for each in PROVIDERS.values() if each.base_url)
    for name in ("ABP_MODEL_KEY", "GOOGLE_API_KEY", *addresses):
        environment.delenv(name, raising=False)
    # Making one costs more than a turn here.
    one = ssl.create_default_context()
    environment.setattr(ssl, "create_default_context", lambda *more, **named: one)


def make_llm(
    api: str, transport: httpx2.AsyncBaseTransport | None = None, **more: Json
) -> LlmAgent:
    pytest.importorskip("pydantic_ai", reason="needs extra 'models'")
    speaks = "openai" if api == "address" else api
    for room in ("models", "providers"):  # the first time takes seconds, which are no turn's
        import_module(f"pydantic_ai.{room}.{speaks}")
    if api == "address":
        more = {"base_url": "http://127.0.0.1:9/v1", **more}
    return LlmAgent(api, WIRES[api].model, transport=transport, **more)
