"""Servers over HTTP on a port of this machine; what one answers is its user's."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

Json = Any


@dataclass(frozen=True)
class Request:
    """What a server is asked; `path` has the query too."""

    method: str
    path: str
    headers: Message
    body: bytes

    @cached_property
    def parts(self) -> SplitResult:
        return urlsplit(self.path)

    @property
    def query(self) -> dict[str, str]:
        return first_values(self.parts.query)

    @property
    def json(self) -> Json:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """An answer. `on_left` is called when the client leaves a reply that never ends."""

    body: bytes = b""
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    on_left: Callable[[], None] | None = None
    breaks_off: bool = False


def json_reply(value: Json, status: int = 200) -> Reply:
    return Reply(json.dumps(value).encode(), status=status)


def first_values(encoded: str) -> dict[str, str]:
    """The first value of each name in what a form or an address says."""
    return {name: first for name, (first, *_) in parse_qs(encoded, keep_blank_values=True).items()}


@contextmanager
def serving(answer: Callable[[Request], Reply], port: int = 0) -> Iterator[str]:
    """Serve on `port` or a free one, each request on a thread: the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply = answer(Request(self.command, self.path, self.headers, body))
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            length = len(reply.body) + (reply.on_left is not None or reply.breaks_off)
            self.close_connection |= reply.breaks_off
            self.send_header("Content-Length", str(length))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.on_left is not None:
                self.wfile.flush()
                with suppress(ConnectionError):
                    self.rfile.read(1)
                self.close_connection = True
                reply.on_left()

        do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

        def log_message(self, *words: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
