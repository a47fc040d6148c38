"""A Streamable HTTP MCP server as lines, through the official SDK's transport.

The transport carries values, not bytes: duplicate members, number spelling, unknown members beside
a message's own and beside an error's `code, message, data` are lost. A message that cannot be
carried is answered with an error or logged. Importing this loads the SDK (0.5 s).
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import jsonrpc_message_adapter

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    parse_json,
)
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe, write_all
from abp_bridge.jsonrpc.protocol import INVALID_REQUEST, Id, dump, is_id
from abp_bridge.protocols.mcp.revisions import VERSION
from abp_bridge.protocols.mcp.server import UNREACHED

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.shared._stream_protocols import ReadStream, WriteStream

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT = 30.0  # seconds to be let in; how long an answer may take, the host decides
FAREWELL = 0.5  # seconds for the end of a session to be told: a host kills us after two
ROOM = 64 * 2**20  # bytes of one line, and of those that wait: as the proxy's own
ERROR_LIMIT = 5.0  # seconds for the words of an error to come
RETRY_DELAYS = (0.5, 1.0, 2.0)  # seconds before an answer that did not arrive is sent again
TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})  # of a server that may be there again soon
UNREACHABLE = -32000  # the code of a request that never reached the server, as in the SDK


@dataclass(slots=True)
class HttpServer:
    """A connected server: `stdin` takes its lines, `stdout` brings them."""

    stdin: MemoryPipe = field(default_factory=lambda: MemoryPipe(ROOM))
    stdout: MemoryPipe = field(default_factory=lambda: MemoryPipe(ROOM))


@asynccontextmanager
async def connect(
    url: str, *, headers: Mapping[str, str] | None = None, auth: httpx2.Auth | None = None
) -> AsyncIterator[HttpServer]:
    """Connect to the server at `url` while the block lasts; nothing is sent before the first line.

    Args:
        headers: Sent with each request.
        auth: Signs in if the server requires it.
    """
    server, left = HttpServer(), anyio.Event()
    # It logs what it cannot read with a traceback, and with that the values: answers, tokens.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    # No limit to reading: a stream may be silent for as long as nothing happens.
    timeout = httpx2.Timeout(CONNECT_TIMEOUT, read=None)
    http = _HttpClient(headers=dict(headers or {}), timeout=timeout, auth=auth)
    async with anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(_carry, server, url, http, left)
            yield server
        finally:
            server.stdin.close()
            left.set()


async def _carry(server: HttpServer, url: str, http: _HttpClient, left: anyio.Event) -> None:
    """Carry lines until `left` is set, with the last answers."""
    with anyio.CancelScope(shield=True) as ending:
        async with (
            http,
            # The SDK drops an event of more than 1 MiB; a result may be longer.
            streamable_http_client(url, http_client=http, max_sse_event_size=None) as (read, write),
            anyio.create_task_group() as tasks,
        ):
            http.tasks = tasks
            lines = _Lines(server, read, write)
            tasks.start_soon(lines.carry_out)
            tasks.start_soon(lines.carry_in)
            try:
                await left.wait()
                with anyio.move_on_after(FAREWELL):
                    await lines.sent.wait()
                    await http.wait_told(lines.telling)
            finally:
                server.stdout.close()
                tasks.cancel_scope.cancel()
                # The transport ends its session by a request that may take for ever.
                ending.deadline = anyio.current_time() + FAREWELL


class _HttpClient(httpx2.AsyncClient):
    """Turn transport errors into responses: the SDK ends all requests for one exception."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tasks: TaskGroup | None = None  # in which answers are sent again
        self._told = 0  # answers and notifications that have reached the server, or cannot
        self._changed = anyio.Event()

    async def wait_told(self, count: int) -> None:
        """Wait until so many answers and notifications have reached the server, or cannot."""
        while self._told < count:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; return the response or an error in its place.

        An answer is sent again in the background if the server was unreachable or busy.
        """
        message: JsonObject = {}
        if request.method == "POST":
            with suppress(ValueError):
                message = as_object(parse_json(await request.aread()))
        tells, is_answer = _tells(message), bool(message) and "method" not in message
        retries = False
        try:
            response, is_transient = await self._send(request, options, _expects_response(message))
            tells = tells and response.next_request is None  # which the SDK sends, where it may
            if is_answer and is_transient and self.tasks is not None:
                retries = True
                self.tasks.start_soon(self._send_again, request, options)
                return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
            if is_answer and response.is_error:
                _log_lost_answer(response)
            return response
        finally:
            if tells and not retries:
                self._count_told()

    async def _send_again(self, request: httpx2.Request, options: Mapping[str, Any]) -> None:
        response: httpx2.Response | None = None
        try:
            for delay in RETRY_DELAYS:
                await anyio.sleep(delay)
                response, is_transient = await self._send(request, options, False)
                await response.aclose()
                if not is_transient:
                    break
        finally:
            if response is None or not response.is_success:
                _log_lost_answer(response)
            self._count_told()

    def _count_told(self) -> None:
        self._told += 1
        self._changed.set()

    async def _send(
        self, request: httpx2.Request, options: Mapping[str, Any], expects_response: bool
    ) -> tuple[httpx2.Response, bool]:
        """Return the response or an error, and whether the server may take the request soon."""
        error: JsonObject = {"code": UNREACHABLE}
        response: httpx2.Response | None = None
        try:
            response = await super().send(request, **options)
            is_transient = response.status_code in TRANSIENT_STATUSES
            if request.method != "POST":
                return response, is_transient
            if not response.is_error:
                if expects_response and _is_json(response):
                    await _read_body(response, None)
                return response, is_transient
            await _read_body(response, ERROR_LIMIT)
            if _is_json(response):
                return response, is_transient
            status = response.status_code
            words = f"the server answered with HTTP {status}: {label(response.text, 300)}"
        except OAuthFlowError as problem:
            status, is_transient = 502, False
            words = f"signing in failed: {label(str(problem), 300)}"
        except Exception as problem:
            logger.debug("a request failed", exc_info=True)
            said = label(str(problem) or type(problem).__name__, 300)
            if response is None:
                status, is_transient = 502, True
                error, words = {**error, "data": UNREACHED}, f"the server cannot be reached: {said}"
            else:
                status, is_transient = 502, response.status_code in TRANSIENT_STATUSES
                words = f"the server's answer broke off: {said}"
        logger.warning("%s", words)
        body = {"jsonrpc": "2.0", "id": None, "error": {**error, "message": words}}
        return httpx2.Response(status, json=body, request=request), is_transient


def _log_lost_answer(response: httpx2.Response | None) -> None:
    status = "it was left before" if response is None else f"HTTP {response.status_code}"
    logger.error("the server did not take an answer (%s), and may wait for it", status)


def _expects_response(message: JsonObject) -> bool:
    return "method" in message and "id" in message


def _tells(message: JsonObject) -> bool:
    """Whether it is a response or a notification other than a cancellation."""
    cancels = message.get("method") == "notifications/cancelled"
    return not cancels and not _expects_response(message)


async def _read_body(response: httpx2.Response, limit: float | None) -> None:
    """Read the body within `limit` seconds; a broken body would end the SDK's whole connection."""
    try:
        with anyio.fail_after(limit):
            await response.aread()
    except BaseException:  # a cancellation too; it is raised again
        await response.aclose()
        raise


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


class _Lines:
    """Carries messages between the lines of `server` and the SDK's streams."""

    def __init__(
        self,
        server: HttpServer,
        read: ReadStream[SessionMessage | Exception],
        write: WriteStream[SessionMessage],
    ) -> None:
        self._server = server
        self._read_body = read
        self._write = write
        self._version: str | None = None  # of the handshake; in the modern era each request has it
        self._asked: dict[Id, str] = {}  # the requests whose result matters here
        # Which arguments of a tool go into headers too: the SDK's session knows, not its transport.
        self._parameters: dict[str, dict[tuple[str, ...], str]] = {}
        self.sent = anyio.Event()  # all that was written has gone to the SDK
        self.telling = 0  # answers and notifications among that

    async def carry_out(self) -> None:
        rest = b""
        while data := await self._server.stdin.receive():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.strip():
                    await self._send(line)
        self.sent.set()
        self._server.stdout.close()

    async def _send(self, line: bytes) -> None:
        message: JsonValue = None
        try:
            message = parse_json(line)
            made = jsonrpc_message_adapter.validate_python(message, by_name=False)
            json.dumps(message, ensure_ascii=False).encode()  # half a character ends the transport
            sent = made.model_dump(by_alias=True, mode="json", exclude_unset=True)
        except (ValueError, RecursionError):
            await self._refuse(as_object(message))
            return
        given = as_object(message)
        dropped = [name for name in given if name not in sent]
        if "id" in dropped:  # a request with such an id is a notification to the SDK
            await self._refuse(given)
            return
        if dropped:
            names = ", ".join(label(name, 40) for name in dropped)
            logger.warning("members beside a message's own are not sent over HTTP: %s", names)
        id, method = given.get("id"), as_text(given.get("method"))
        if is_id(id) and method in ("initialize", "tools/list"):
            self._asked[id] = method
        metadata = ClientMessageMetadata(headers=self._headers(method, given.get("params")))
        self.telling += _tells(given)
        await self._write.send(SessionMessage(made, metadata))

    async def _refuse(self, message: JsonObject) -> None:
        """Answer or log a message that HTTP does not carry."""
        words = (
            "this message cannot be sent over HTTP: ids are strings or whole numbers, params are"
            " objects, text is Unicode, and nothing is nested some hundred levels deep"
        )
        logger.warning("%s", words)
        if "method" in message and is_id(id := message.get("id")):
            error: JsonObject = {"code": INVALID_REQUEST, "message": words}
            await self._bring({"jsonrpc": "2.0", "id": id, "error": error})

    def _headers(self, method: str, params: JsonValue) -> dict[str, str]:
        """Return the revisions' headers, which the SDK's transport does not set."""
        given = as_object(params)
        modern = as_object(given.get("_meta")).get(VERSION)
        if not isinstance(modern, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        headers = {MCP_PROTOCOL_VERSION_HEADER: modern, MCP_METHOD_HEADER: method}
        if isinstance(name := given.get(NAME_BEARING_METHODS.get(method, "")), str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and name in self._parameters:
                arguments = dict(as_object(given.get("arguments")))
                headers |= mcp_param_headers(self._parameters[name], arguments)
        return headers

    async def carry_in(self) -> None:
        async for item in self._read_body:
            if isinstance(item, Exception):
                logger.warning("the server sent what is no message: %s", type(item).__name__)
                continue
            message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            self._note(message)
            await self._bring(message)
        self._server.stdout.close()

    def _note(self, message: JsonObject) -> None:
        id = message.get("id")
        method = self._asked.pop(id, "") if is_id(id) and "method" not in message else ""
        result = as_object(message.get("result"))
        if method == "initialize" and isinstance(version := result.get("protocolVersion"), str):
            self._version = version
        for tool in as_list(result.get("tools")) if method == "tools/list" else ():
            name, schema = as_object(tool).get("name"), as_object(tool).get("inputSchema")
            if isinstance(name, str) and find_invalid_x_mcp_header(schema) is None:
                self._parameters[name] = x_mcp_header_map(schema)

    async def _bring(self, message: JsonObject) -> None:
        try:
            await write_all(self._server.stdout, dump(message))
        except OSError:
            return  # nobody reads any more
