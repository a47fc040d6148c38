"""One request to a model's API and its answer, as bytes: where it may go and with which headers,
how large the answer may be, and whether it is complete.

A tap gets it as lines of JSON, to be recorded and replayed like a program's, without headers: the
key is one of them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.core.redact.command import hide
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc import protocol
from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
from abp_bridge.jsonrpc.tap import Tap, unobserved_stream
from abp_bridge.models.agent import AgentError, AgentErrorCode

CONNECT_LIMIT = 15.0  # seconds; the bound of the whole turn is its user's
MAX_BODY = 64 * 2**20  # bytes: each token of an answer comes in an object of its own
HIDDEN = "[key]"
_RETRY_AFTER = "retry-after"
_DATA = b"data:"

# All that an address is sent: the libraries add what machine this is, and what their variables say
# (an organization, a project, headers) is meant for the provider that they are named after.
_PLAIN = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }
)


class Exchange:
    """One request and its answer.

    Args:
        url: The API's address; empty for the provider's own.
        key: Sent with the request; empty for none.
        plain: Whether headers that the libraries add are removed.
        transport: Replaces the connection.
        root: The path of the provider's own address.
        tap: Observes it as lines of JSON.
        secrets: Hidden, like the key, in quotes and from the tap.

    Attributes:
        sent: The body of the request.
        failure: What is wrong with the answer, whatever the libraries raise.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        plain: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
        root: str = "",
        tap: Tap = unobserved_stream,
        secrets: Sequence[str] = (),
    ) -> None:
        self.url = url
        self.key = key
        self.sent: JsonObject = {}
        self.failure: AgentError | None = None
        self._plain = plain
        self._transport = transport
        self._root = root
        self._secrets = sorted(filter(None, (key, *secrets)), key=len, reverse=True)
        self._transcript = Transcript(tap, self._secrets, HIDDEN)
        self._is_stream = False
        self._tail = b""  # the answer's last bytes: an empty line ends an event

    @property
    def is_cut(self) -> bool:
        """Whether the stream ended within an event."""
        return self._is_stream and not self._tail.endswith((b"\n\n", b"\n\r\n"))

    def client(self) -> httpx2.AsyncClient:
        """Return an HTTP client that follows no redirects, as they would get the key, and uses no
        proxy to
        this machine.
        """
        return httpx2.AsyncClient(
            transport=self._transport,
            trust_env=not _is_here(self.url),
            follow_redirects=False,
            timeout=httpx2.Timeout(CONNECT_LIMIT, read=None),
            event_hooks={"request": [self._on_request], "response": [self._on_response]},
        )

    def close(self) -> None:
        """End the exchange. Idempotent."""
        self._transcript.close()

    def quote(self, words: str, limit: int) -> str:
        """Return a server's words as one line without secrets: some repeat a wrong key."""
        return label(hide(words, self._secrets, HIDDEN), limit)

    async def _on_request(self, request: httpx2.Request) -> None:
        self.sent = as_object(json.loads(request.content or b"{}"))
        for name in list(request.headers) if self._plain else ():
            if name.lower() not in _PLAIN or (name.lower() == "authorization" and not self.key):
                del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"  # what comes is as large as it looks
        root = urlsplit(self.url).path.rstrip("/") if self.url else self._root
        path = request.url.raw_path.decode().removeprefix(root)
        self._transcript.on_request(f"{request.method} {path}", self.sent)

    async def _on_response(self, response: httpx2.Response) -> None:
        kind, location = (response.headers.get(name, "") for name in ("content-type", "location"))
        self._is_stream = kind.lower().startswith("text/event-stream")
        if response.is_redirect:
            words = f"it sends its callers on, and the key stays here: {self.quote(location, 200)}"
            self.failure = AgentError(AgentErrorCode.FAILED, words)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            words = "its answer is compressed, which nobody asked for"
            self.failure = AgentError(AgentErrorCode.PROTOCOL, words)
            raise self.failure
        response.stream = _Bounded(response.stream, self)
        status, headers = response.status_code, response.headers
        await self._transcript.on_response(status, headers, events=self._is_stream)

    async def add_data(self, data: bytes, size: int) -> None:
        """Take a piece of the answer, which has `size` bytes by now. Raises AgentError."""
        if size > MAX_BODY:
            words = f"its answer has more than {MAX_BODY:,} bytes"
            self.failure = AgentError(AgentErrorCode.TRUNCATED, words)
            raise self.failure
        self._tail = (self._tail + data)[-3:]
        await self._transcript.add_data(data)

    async def end_data(self) -> None:
        """End the answer."""
        await self._transcript.end_data()


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer, seen by its exchange."""

    def __init__(self, stream: object, exchange: Exchange) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._stream:
            size += len(data)
            await self._exchange.add_data(data, size)
            yield data
        await self._exchange.end_data()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Transcript:
    """The lines of one exchange, without `secrets`, which `hidden` replaces."""

    def __init__(self, tap: Tap, secrets: Sequence[str], hidden: str) -> None:
        self._passage = _Passage()
        self._source, self._sink = tap(self._passage, self._passage)
        self._secrets = [each.encode() for each in secrets]
        self._hidden = hidden.encode()
        self._about: dict[str, JsonValue] = {}
        self._has_events = False
        self._rest = b""

    def on_request(self, request: str, body: JsonValue) -> None:
        """Write a request: its method and its path below the API's address, and its body."""
        self._sink.write_nowait(self._line({"http": request, "body": body}))

    async def on_response(self, status: int, headers: Mapping[str, str], *, events: bool) -> None:
        """Begin the answer, which is a stream of `events` or one text."""
        self._about = {"status": status}
        if _RETRY_AFTER in headers:
            self._about[_RETRY_AFTER] = headers[_RETRY_AFTER]
        self._has_events = events
        if events:
            await self._tell(self._line(self._about))

    async def add_data(self, data: bytes) -> None:
        """Take a piece of the answer."""
        *lines, rest = (
            (self._rest + data).split(b"\n") if self._has_events else (self._rest + data,)
        )
        # more than a tap keeps of a line, which then knows that the line is not whole
        self._rest = rest[: protocol.MAX_LINE + 64]
        for line in lines:
            await self._on_line(line)

    async def end_data(self) -> None:
        """End the answer."""
        if self._has_events:
            await self._on_line(self._rest)
        elif self._about:
            await self._tell(self._line({**self._about, "body": _parse_body(self._rest)}))
        self._rest = b""
        await self._tell(b"")

    def close(self) -> None:
        """Stop waiting for the answer. Idempotent."""
        self._sink.close()

    async def _on_line(self, line: bytes) -> None:
        said = line.removeprefix(_DATA).strip()
        if line.startswith(_DATA) and said:
            await self._tell(self._without_secrets(said) + b"\n")

    def _line(self, message: JsonValue) -> bytes:
        return self._without_secrets(json.dumps(message, ensure_ascii=False).encode()) + b"\n"

    def _without_secrets(self, line: bytes) -> bytes:
        for each in self._secrets:
            line = line.replace(each, self._hidden)
        return line

    async def _tell(self, data: bytes) -> None:
        self._passage.next = data
        await self._source.receive()


def _parse_body(body: bytes) -> JsonValue:
    text = body.decode(errors="replace")
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


class _Passage(ByteReader, ByteWriter):
    """The streams for a tap: returns the bytes put there, and discards what is written."""

    def __init__(self) -> None:
        self.next = b""

    async def receive(self) -> bytes:
        return self.next

    def write_nowait(self, data: bytes | memoryview) -> int:
        return len(data)

    async def writable(self) -> None: ...

    def close(self) -> None: ...
