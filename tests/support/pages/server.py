"""The web that the browser tests live in: this folder on a port of this machine, and addresses that
misbehave.

`127.0.0.1` and `localhost` are two origins of the same server, and two sites to a browser.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).parent
TYPES = {".html": "text/html", ".js": "text/javascript", ".json": "application/json"}

# As strict as apps are: what crosses must cross without inline scripts, without eval, and with
# trusted types.
POLICY = "default-src 'self'; frame-src *; require-trusted-types-for 'script'"


class Web:
    """A running server. `requests` are the paths that were asked for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.here = f"http://127.0.0.1:{port}"
        self.elsewhere = f"http://localhost:{port}"
        self.requests: list[str] = []


@contextmanager
def web() -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            running.requests.append(self.path)
            parts = urlsplit(self.path)
            asked = {
                name: values[0]
                for name, values in parse_qs(parts.query, keep_blank_values=True).items()
            }
            if parts.path == "/redirect":
                self.answer(302, location=asked["to"])
            elif parts.path == "/loop":
                self.answer(302, location=f"/loop?n={int(asked.get('n', 0)) + 1}")
            elif parts.path == "/head":  # a page with any head, after `pad` spaces
                self.answer(200, (" " * int(asked.get("pad", 0)) + asked["html"]).encode())
            elif parts.path == "/json":  # any manifest
                self.answer(200, asked["body"].encode(), "application/json")
            elif parts.path == "/spaces":
                self.answer(200, b" " * int(asked["size"]), asked.get("type", "text/html"))
            elif parts.path == "/gzip":
                self.answer(200, b"\x1f\x8b", encoding="gzip")
            else:
                file = HERE / parts.path.removeprefix("/")
                known = file.suffix in TYPES and file.is_file()
                self.answer(
                    200 if known else 404,
                    file.read_bytes() if known else b"",
                    TYPES.get(file.suffix, "text/plain"),
                )

        def answer(
            self,
            status: int,
            body: bytes = b"",
            kind: str = "text/html",
            *,
            location: str = "",
            encoding: str = "",
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            if location:
                self.send_header("Location", location)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        running = Web(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()


def manifest(**members: object) -> str:
    return json.dumps(
        {
            "abp": "0.1",
            "app": {"id": "t", "name": "T", "version": "1"},
            "capabilities": [],
            **members,
        }
    )
