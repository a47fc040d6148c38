"""A stand-in for a model behind an API: what the bridge asks of it by HTTP is a line of JSON, and
lines of a fixture are its answer (`agents/transcript.py` has them the other way round).
"""

from __future__ import annotations

import http
import json
import socket

from abp_bridge.core.json_value import JsonValue, as_integer, as_object, as_text, parse_json
from abp_bridge.replay.mismatch import ReplayMismatchError
from abp_bridge.replay.party_connection import PartyConnection
from abp_bridge.rpc.streams import StreamReader, StreamWriter

MAX_HEAD = 64 * 2**10  # bytes of a request's head
MAX_BODY = 16 * 2**20  # bytes of what is asked
_NO_REQUEST = "what the bridge says to its model's address is no request over HTTP"


def listen() -> socket.socket:
    """A free port of this machine, for `accept`. Raises OSError."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


class ApiConnection(PartyConnection):
    """One request and its answer."""

    def __init__(self, sink: StreamWriter, source: StreamReader) -> None:
        super().__init__(sink, source)
        self._is_asked = self._has_begun = False

    async def receive(self) -> bytes:
        """The request, as a line; then nothing, when the bridge leaves.

        Raises:
            ReplayMismatchError: It is none.
        """
        if self._is_asked:
            return await super().receive()
        self._is_asked = True
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self._more(len(data), MAX_HEAD)
        head, _, body = data.partition(b"\r\n\r\n")
        request, size = _read_head(head)
        while len(body) < size:
            body += await self._more(len(body), MAX_BODY)
        return json.dumps({"http": request, "body": _read_body(body)}).encode() + b"\n"

    async def _more(self, size: int, most: int) -> bytes:
        data = await super().receive() if size <= most else b""
        if not data:
            raise ReplayMismatchError(_NO_REQUEST)
        return data

    async def send(self, data: bytes) -> None:
        """Send lines of the fixture: the first is the answer's head, each other one an event."""
        for line in filter(None, data.split(b"\n")):
            await super().send(_encode_event(line) if self._has_begun else _encode_head(line))
            self._has_begun = True


def _read_head(head: bytes) -> tuple[str, int]:
    """The request line without its version, and how long the body is."""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
    size = headers.get("content-length", "0").strip()
    if not first.endswith(" HTTP/1.1") or not size.isdecimal() or int(size[:9]) > MAX_BODY:
        raise ReplayMismatchError(_NO_REQUEST)
    return first.removesuffix(" HTTP/1.1"), int(size)


def _read_body(body: bytes) -> JsonValue:
    try:
        return parse_json(body)
    except ValueError:
        return body.decode(errors="replace")


def _encode_head(line: bytes) -> bytes:
    """`{"status": 200}` begins a stream of events; with a `body` it is the whole answer."""
    try:
        about = as_object(parse_json(line))
    except ValueError:
        about = {}
    status = as_integer(about.get("status"))
    if status not in set(http.HTTPStatus):
        raise ReplayMismatchError(
            'the first line of a model behind an API must have its status, as {"status": 200}'
        )
    body = json.dumps(about["body"]).encode() if "body" in about else b""
    kind = "application/json" if "body" in about else "text/event-stream"
    lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}", f"content-type: {kind}"]
    if (again := as_text(about.get("retry-after"))).isalnum():
        lines.append(f"retry-after: {again}")
    if "body" in about:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


def _encode_event(line: bytes) -> bytes:
    try:
        name = as_text(as_object(parse_json(line)).get("type"))
    except ValueError:
        name = ""
    named = f"event: {name}\n" if name.replace(".", "_").isidentifier() else ""
    return f"{named}data: ".encode() + line + b"\n\n"
