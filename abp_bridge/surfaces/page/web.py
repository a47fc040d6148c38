"""What the question page and the inbox share: templates, refusals, headers and who connects."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from abp_bridge.surfaces import http
from abp_bridge.surfaces.page.browser import COMMAND_LIMIT
from abp_bridge.surfaces.page.words import Words, choose

HERE = Path(__file__).parent
STATIC = HERE / "static"

_CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ESTABLISHED = "01"  # other states have no owner any more: the kernel says 0 then, as for root
_REFUSED = {421: "refused.host", 403: "refused.site", 500: "refused.fault"}

Address = tuple[str, int]
Handler = Callable[[Request], Awaitable[Response]]
Notice = Callable[[HTTPConnection, str, int], Response]  # by a sentence's key, with HTTP's status


class Templates:
    """The templates of a folder; the page's are the fallback."""

    def __init__(self, folder: Path) -> None:
        self.environment = Environment(
            loader=FileSystemLoader([folder, HERE / "templates"]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def render(self, template: str, words: Words, **context: object) -> str:
        """Render `template` in the language of `words`."""
        page = self.environment.get_template(f"{template}.html").render(words=words, **context)
        return page.encode(errors="replace").decode()  # it may quote what UTF-8 has not


def make_site(
    routes: Sequence[BaseRoute], notice: Notice, guard: Callable[[Handler], Handler]
) -> http.Site:
    """Make a site that refuses with `notice`; only visitors that `guard` admits see a 404."""

    async def respond_not_found(request: Request) -> Response:
        return notice(request, "refused.nothing", 404)

    default = request_response(guard(respond_not_found))
    router = Router(routes, redirect_slashes=False, default=default)
    refusals = {status: _refusal(notice, key, status) for status, key in _REFUSED.items()}
    return http.Site(router, refusals, {"Content-Security-Policy": _CONTENT_POLICY})


def _refusal(notice: Notice, key: str, status: int) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await notice(HTTPConnection(scope), key, status)(scope, receive, send)

    return respond


def static(
    file: Path, media_type: str, guard: Callable[[Handler], Handler] = lambda handle: handle
) -> Route:
    """Return the route of a constant file, for visitors that `guard` admits."""
    content = file.read_bytes()

    async def respond(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(f"/{file.name}", guard(respond), methods=["GET"])


def readers_words(request: HTTPConnection) -> Words:
    """Return the catalogue of the browser's language."""
    return choose(request.headers.get("accept-language", ""))


def looks_ahead(request: Request) -> bool:
    """Return whether a browser prefetches, without the user."""
    purpose = request.headers.get("sec-purpose", request.headers.get("purpose", ""))
    return request.method != "GET" or "prefetch" in purpose


async def is_own_user(request: Request) -> bool:
    """Return whether a program of this user makes the request."""
    ends = tuple(request.scope["client"]), tuple(request.scope["server"])
    return await anyio.to_thread.run_sync(owns_connection, *ends)


def owns_connection(client: Address, server: Address) -> bool:
    """Return whether this user, or root, made the connection; False if unknown.

    Blocks while it reads a table of the kernel.
    """
    if sys.platform == "linux":
        return _find_owner(client, server) in (os.getuid(), 0)
    return _lsof_finds(client)


def _find_owner(client: Address, server: Address) -> int | None:
    wanted = (_hex(client), _hex(server), _ESTABLISHED)
    for name in ("tcp", "tcp6"):  # a socket of the second may be connected to an IPv4 address
        try:
            with open(f"/proc/net/{name}") as table:
                rows = [line.split() for line in table]
        except OSError:
            continue
        for row in rows:
            if (row[1][-13:], row[2][-13:], row[3]) == wanted and row[9] != "0":
                return int(row[7])
    return None


def _hex(address: Address) -> str:
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def _lsof_finds(client: Address) -> bool:
    """Return whether another process of this user has a connection with that address."""
    host, port = client
    what = ["-u", str(os.getuid()), "-p", f"^{os.getpid()}", "-i", f"TCP@{host}:{port}"]
    command = ["lsof", "-nP", "-a", "-t", *what, "-s", "TCP:ESTABLISHED"]
    try:
        found = subprocess.run(  # noqa: S603
            command, capture_output=True, timeout=COMMAND_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and bool(found.stdout.strip())
