"""`abp-bridge mcp`: carry stdio between a host and the server that this process starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from abp_bridge.cli.compose import Composition, find_obstacle
from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.program import NO_PROGRAM
from abp_bridge.cli.runtime import give_up, signals_interrupt
from abp_bridge.core.sanitize import command_name, label
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.stderr import Stderr
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.jsonrpc.subprocess import spawn
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.protocols.mcp.client import ERAS
from abp_bridge.settings import Settings, usual_settings

if TYPE_CHECKING:
    import argparse

    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.jsonrpc.subprocess import Child
    from abp_bridge.mcp.server_link import Pipes


HELP = "an MCP server whose questions reach you, for a host to launch in place of the server"
USAGE = "abp-bridge mcp [OPTION]... -- SERVER [ARGUMENT]..."
DESCRIPTION = """\
Runs between an MCP host (Claude Desktop, Gemini CLI, Codex ...) and a server, so that what the
server asks reaches you. Give the host this command where it has the server's:

  abp-bridge mcp -- npx -y mongodb-mcp-server      in a host's configuration: "command":
                                                   "abp-bridge", "args": ["mcp", "--", "npx", ...]
  abp-bridge mcp --confirm destructive -- SERVER   you are asked too before tools that may destroy
  abp-bridge mcp --url https://mcp.example/mcp     a server over Streamable HTTP

- Many servers do what they should ask for where the host cannot ask. Here they are told that they
  can ask: you answer in the host where it shows questions, else on a page that opens in your
  browser (--page off switches that off), or at your terminal (--tty).
- No answer is 'cancel', your no is 'decline'. A host never answers for you.
- Everything else passes value for value, both ways; between MCP 2026-07-28 and an older revision it
  is translated. The server's stderr is ours, and so is its exit code.
- A server that ends between two requests is started again.

A server that asks, to try it: docs/examples/notes_server.py
"""


def add_mcp_options(parser: argparse.ArgumentParser) -> None:
    """Add the command of the server."""
    parser.add_argument(
        "server", nargs="*", metavar="SERVER", help="the server's command and arguments, after --"
    )


def run_mcp(options: argparse.Namespace) -> int:
    """Run a server behind our stdio until either side ends or a signal comes."""
    settings = load_session_settings(options, usual=usual_settings("mcp"))
    if bool(options.server) == bool(settings.server_url):
        give_up(
            "name one server: its command after --, as in: abp-bridge mcp -- npx"
            " mongodb-mcp-server; or its address with --url"
        )
    warn_if_interactive("an MCP host")
    stdio = take_over_stdio()
    return anyio.run(_serve, settings, options.server, *stdio, backend_options=OPTIONS)


async def _serve(
    settings: Settings, command: Sequence[str], source: StreamReader, sink: StreamWriter
) -> int:
    server = _Server(settings, command)
    serving = anyio.CancelScope()
    async with signals_interrupt(lambda number: serving.cancel()):
        with serving:
            async with anyio.create_task_group() as tasks:
                composition = Composition(settings, "mcp", tasks)
                if command:
                    tasks.start_soon(server.stderr.copy_lines)
                try:
                    await _join(settings, server, composition, (source, sink))
                finally:
                    if command:
                        await server.stderr.aclose()
                tasks.cancel_scope.cancel()
    return server.exit_code


async def _join(
    settings: Settings,
    server: _Server,
    composition: Composition,
    host: tuple[ByteReader, ByteWriter],
) -> None:
    from abp_bridge.mcp.proxy.proxy import Policy, run_proxy

    policy = Policy(
        server.name,
        partial(_find_obstacle, settings),
        server.stderr.say,
        settings.confirm,
        _find_roots(settings),
        can_sample=settings.sampling is not None,
        era=next((era for era in ERAS if era == settings.era), None),
        modern_first=not server.command,
        pending_timeout=settings.park_timeout,
    )
    await run_proxy(
        composition.tap("host")(*host),
        server.open if server.command else server.open_http,
        policy=policy,
        make_elicitor=composition.make_mcp_elicitor,
        tap_server=composition.tap("server"),
    )


class _Server:
    """The server: a command that is started, again where it has ended, or an address.

    Attributes:
        exit_code: Of its last process, where that ended before its host did.
    """

    def __init__(self, settings: Settings, command: Sequence[str]) -> None:
        self.command = command
        self.exit_code = 0
        self._settings = settings
        self._starts = 0
        prefix = f"[{label(command_name(command))}] " if command else ""
        self.stderr = Stderr("server", prefix.encode())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Child]:
        """Start it. Raises OSError."""
        self._starts += 1
        self.exit_code = NO_PROGRAM
        if self._starts > 1:
            print_message("the server is started again")
        try:
            async with spawn(self.command, overhear=self.stderr.say) as child:
                self.exit_code = 0
                try:
                    yield child
                finally:
                    code = child.process.returncode
                    if code is not None:
                        self.exit_code = code if code >= 0 else 128 - code
        except OSError as problem:
            if self.exit_code == NO_PROGRAM:
                print_message(f"the server cannot be started: {problem}")
            raise

    @asynccontextmanager
    async def open_http(self) -> AsyncIterator[Pipes]:
        """Connect to its address. Raises OSError."""
        from abp_bridge.mcp.client import connect
        from abp_bridge.mcp.oauth import sign_in

        url, token = str(self._settings.server_url), self._settings.server_token
        auth = None if token else await sign_in(url, _send_to_sign_in)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with connect(url, headers=headers, auth=auth) as pipes:
            yield pipes

    def name(self) -> str:
        """Its name for the user."""
        from abp_bridge.core.redact.command import show_command  # for its table of secrets' names

        url = str(self._settings.server_url)
        return show_command(self.command) if self.command else _name_of(url)


def _find_roots(settings: Settings) -> list[Path]:
    return [Path(root).absolute() for root in settings.roots]


async def _send_to_sign_in(url: str) -> None:
    from abp_bridge.surfaces.page.browser import BrowserError, open_browser

    print_message(f"the server wants you to sign in, at {url}")
    with suppress(BrowserError):
        await open_browser(url)


def _name_of(url: str) -> str:
    return label(urlsplit(url).netloc.rpartition("@")[2]) or "a server"


def _find_obstacle(settings: Settings, host: str, host_asks: bool) -> str:
    """Why nobody can be asked, where that stops us."""
    why = find_obstacle(settings, host, host_asks=host_asks)
    if why and settings.without_person:
        print_message(f"nobody can be asked ({why}): each question is answered 'cancel'")
        return ""
    return why
