"""An HTTP server that runs SQL and, in modern MCP, asks before it drops something."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.http_server import Reply, Request, json_reply, serving

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
    """A running one: what it `ran` and `heard`. `instead` and `to_answers` are its next replies."""

    url: str = ""
    token: str = TOKEN
    ran: list[str] = field(default_factory=list)
    heard: list[tuple[Mapping[str, str], Json]] = field(default_factory=list)
    moved: bool = False
    instead: list[Reply] = field(default_factory=list)
    to_answers: list[Reply] = field(default_factory=list)

    def sign(self, query: str) -> str:
        return hmac.new(KEY, query.encode(), hashlib.sha256).hexdigest() + '"\\ü\u2028'

    def reply(self, request: Request) -> Reply:
        if request.method != "POST":
            return Reply(kind="text/plain", status=405)
        if self.token and request.headers["authorization"] != f"Bearer {self.token}":
            return Reply(b"no token", "text/plain", 401)
        if self.moved and request.parts.path == "/mcp":
            return Reply(status=307, headers={"Location": "/mcp/"})
        message = request.json
        self.heard.append((dict(request.headers), message))
        if "method" not in message and self.to_answers:
            return self.to_answers.pop(0)
        if self.instead:
            return self.instead.pop(0)
        if "id" not in message or "method" not in message:
            return Reply(status=202)
        return json_reply({"jsonrpc": "2.0", "id": message["id"], **self.answer(message)})

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
            hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            return {"result": {**hello, "serverInfo": SERVER}}
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
def sql_server(token: str = TOKEN) -> Iterator[SqlServer]:
    running = SqlServer(token=token)
    with serving(running.reply) as here:
        running.url = f"{here}/mcp"
        yield running
