"""A server over HTTP that runs SQL, and asks before it drops something: as Supabase's does.

In the modern era it returns `input_required` with an empty form and a `requestState` that it has
signed, bound to the SQL; in the legacy era it never asks.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any

TOKEN = "sbp_0123456789"
KEY = b"the server's own"
MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
SERVER = {"name": "sql", "version": "1", "title": "SQL over HTTP", "x-own": 1}
TOOL = {
    "name": "execute_sql",
    "title": "Execute SQL",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "region": {"x-mcp-header": "Region"} | {"type": "string"},
        },
        "required": ["query"],
    },
    "annotations": {"destructiveHint": True, "x-ann": 2},
    "x-unknown": "keep",
}
BIG = 12345678901234567890123


@dataclass
class SqlServer:
    """A running one: what it `ran`, and each message that it `heard` with its headers."""

    url: str = ""
    ran: list[str] = field(default_factory=list)
    heard: list[tuple[Mapping[str, str], Json]] = field(default_factory=list)

    def sign(self, query: str) -> str:
        return hmac.new(KEY, query.encode(), hashlib.sha256).hexdigest() + '"\\ü\u2028'

    def answer(self, message: Json) -> Json:
        method, params = message["method"], message.get("params", {})
        modern = VERSION in params.get("_meta", {})
        if method == "server/discover":
            if not modern:
                return _error(-32600, "no envelope")
            return _result(
                supportedVersions=[MODERN],
                capabilities={"tools": {}, "experimental": {"vendor/x": {"a": BIG}}},
                instructions="DO THIS",
                ttlMs=1000,
                cacheScope="public",
            )
        if method == "initialize":
            return {
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": SERVER,
                }
            }
        if method == "tools/list":
            return _result(tools=[TOOL], ttlMs=1000, cacheScope="public")
        if method == "tools/call":
            return self.execute(params, modern)
        return _error(-32601, f"nf {method}", {"keep": 1})

    def execute(self, params: Json, modern: bool) -> Json:
        query = params["arguments"]["query"]
        if modern and "DROP" in query:
            state = self.sign(query)
            if "requestState" not in params:
                form = {"type": "object", "properties": {}}
                asked = {"mode": "form", "message": f"Run {query}?", "requestedSchema": form}
                return _result(
                    "input_required",
                    inputRequests={"confirm": {"method": "elicitation/create", "params": asked}},
                    requestState=state,
                )
            if params["requestState"] != state:
                return _error(-32602, "bad requestState")
            if params["inputResponses"]["confirm"].get("action") != "accept":
                return _result(content=[{"type": "text", "text": "not run"}], isError=True)
        self.ran.append(query)
        return _result(content=[{"type": "text", "text": f"ran {query}"}], isError=False, x=BIG)


def _result(kind: str = "complete", **members: Json) -> Json:
    meta = {"io.modelcontextprotocol/serverInfo": SERVER}
    return {"result": {"resultType": kind, **members, "_meta": meta}}


def _error(code: int, message: str, data: Json = None) -> Json:
    return {"error": {"code": code, "message": message} | ({"data": data} if data else {})}


@contextmanager
def sql_server() -> Iterator[SqlServer]:
    running = SqlServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                self.reply(401, b"no token", "text/plain")
                return
            message = json.loads(body)
            running.heard.append((dict(self.headers), message))
            if "id" not in message:
                self.reply(202, b"", "application/json")
                return
            answer = {"jsonrpc": "2.0", "id": message["id"], **running.answer(message)}
            self.reply(200, json.dumps(answer).encode(), "application/json")

        def do_GET(self) -> None:
            self.reply(405, b"", "text/plain")

        def do_DELETE(self) -> None:
            self.reply(405, b"", "text/plain")

        def reply(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
