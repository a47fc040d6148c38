"""The web of the browser tests: this folder, and addresses that misbehave."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from support.http_server import Reply, Request, json_reply, serving

HERE = Path(__file__).parent
TYPES = {".html": "text/html", ".js": "text/javascript", ".json": "application/json"}

# As strict as apps are: what crosses must cross without inline scripts, without eval, and with
# trusted types.
POLICY = "default-src 'self'; frame-src *; require-trusted-types-for 'script'"


class Web:
    """A running server: the `requests`, those that `left` early, and what has `happened`."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.port = here.rpartition(":")[2]
        self.elsewhere = here.replace("127.0.0.1", "localhost")
        self.requests: list[str] = []
        self.left: list[str] = []
        self.happened: set[str] = set()


def _answer(request: Request) -> Reply:
    path, asked = request.parts.path, request.query
    if path == "/redirect":
        return Reply(status=302, headers={"Location": asked["to"]})
    if path == "/loop":
        return Reply(status=302, headers={"Location": f"/loop?n={int(asked.get('n', 0)) + 1}"})
    if path == "/head":  # a page with any head, after `pad` spaces, and of any type
        kind = asked.get("type", "text/html")
        return Reply((" " * int(asked.get("pad", 0)) + asked["html"]).encode(), kind)
    if path == "/json":  # any manifest
        return Reply(asked["body"].encode())
    if path == "/spaces":
        return Reply(b" " * int(asked["size"]), asked.get("type", "text/html"))
    if path == "/icon.png":  # a PNG's head, with any size in pixels, and `pad` bytes behind it
        head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", *[int(asked["size"])] * 2)
        return Reply(head + bytes(int(asked.get("pad", 0))), "image/png")
    if path == "/gzip":
        return Reply(b"\x1f\x8b", "text/html", headers={"Content-Encoding": "gzip"})
    if path == "/file":
        return _file(request)
    file = HERE / path.removeprefix("/")
    if file.suffix in TYPES and file.is_file():
        return Reply(file.read_bytes(), TYPES[file.suffix])
    return Reply(kind="text/plain", status=404)


def _file(request: Request) -> Reply:
    """A file as its address says."""
    asked = request.query
    for header in ("cookie", "authorization"):
        if asked.get(header, request.headers.get(header)) != request.headers.get(header):
            return Reply(kind="text/plain", status=401)
    body = asked.get("body", "").encode() or b" " * int(asked.get("size", 0))
    named = (
        {"Content-Disposition": f"attachment; filename={asked['name']}"} if "name" in asked else {}
    )
    return Reply(body, asked.get("type", "text/plain"), int(asked.get("status", 200)), named)


@contextmanager
def web() -> Iterator[Web]:
    def answer(request: Request) -> Reply:
        running.requests.append(request.path)
        if request.parts.path == "/happened":
            reply = json_reply(request.query["what"] in running.happened)
        else:
            reply = _answer(request)
        headers = {"Content-Security-Policy": POLICY, **reply.headers}
        if request.parts.path == "/file" and "endless" in request.query:
            reply = replace(reply, on_left=lambda: running.left.append(request.path))
        return replace(reply, kind=f"{reply.kind}; charset=utf-8", headers=headers)

    with serving(answer) as here:
        running = Web(here)
        yield running


def manifest(**members: object) -> str:
    return json.dumps(
        {
            "abp": "0.1",
            "app": {"id": "t", "name": "T", "version": "1"},
            "capabilities": [],
            **members,
        }
    )
