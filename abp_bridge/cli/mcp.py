"""`abp-bridge mcp`: carry stdio between a host and the server that this process starts."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from abp_bridge.cli.compose import Composition, find_obstacle
from abp_bridge.cli.options import load_session_settings
from abp_bridge.cli.program import run_program, wait_for_end
from abp_bridge.cli.refusal import FIRST_WORDS
from abp_bridge.cli.runtime import give_up, signals_interrupt
from abp_bridge.core.sanitize import command_name, label
from abp_bridge.jsonrpc.loop import OPTIONS
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.protocols.mcp.client import ERAS
from abp_bridge.settings import Settings, usual_settings

if TYPE_CHECKING:
    import argparse

    from abp_bridge.jsonrpc.carrier import Side
    from abp_bridge.jsonrpc.connection import ByteReader, ByteWriter
    from abp_bridge.jsonrpc.stderr import Stderr
    from abp_bridge.jsonrpc.subprocess import Child


HELP = "an MCP server whose questions reach you, for a host to launch in place of the server"
USAGE = "abp-bridge mcp [OPTION]... -- SERVER [ARGUMENT]..."
DESCRIPTION = """\
Stands between an MCP host (Claude Desktop, Gemini CLI, Codex ...) and a server, so that what the
server asks reaches you. Give the host this command where it has the server's:

  abp-bridge mcp -- npx -y mongodb-mcp-server      in a host's configuration: "command":
                                                   "abp-bridge", "args": ["mcp", "--", "npx", ...]
  abp-bridge mcp --confirm destructive -- SERVER   you are asked too before tools that may destroy
  abp-bridge mcp --url https://mcp.example/mcp     a server over Streamable HTTP

- Many servers do what they should ask for where the host cannot ask. Here they are told that they
  can ask: you answer in the host where it shows questions, else on a page that opens in your
  browser (--page off switches that off), or at your terminal (--tty).
- Nobody there is 'cancel', your no is 'decline', and no host answers in your place.
- Everything else passes byte for byte, both ways. The server's stderr is ours, and so is its exit
  code. Over HTTP, and where the host speaks MCP 2026-07-28 and the server does not, or the other
  way round, it passes as the same values.

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
    code = 0
    serving = anyio.CancelScope()
    async with signals_interrupt(lambda number: serving.cancel()):
        with serving:
            async with anyio.create_task_group() as tasks:
                composition = Composition(settings, "mcp", tasks)
                proxy = _Proxy(settings, command, composition, source, sink)
                if command:
                    code = await run_program(
                        command,
                        ("server", "host"),
                        tasks,
                        proxy.carry_child,
                        proxy.carry_failure,
                        prefix=f"[{label(command_name(command))}] ",
                    )
                else:
                    await proxy.carry_over_http()
                    tasks.cancel_scope.cancel()
    return code


@dataclass(frozen=True, slots=True)
class _Proxy:
    """The host's connection to its server: a child, one that cannot be started, or an address."""

    settings: Settings
    command: Sequence[str]
    composition: Composition
    source: StreamReader
    sink: StreamWriter

    async def carry_child(self, server: Child, stderr: Stderr) -> Side:
        async def ending() -> str:
            await wait_for_end(server)
            return f"the server ({self._server_name()}) ended ({server.exit})"

        return await self._carry(server.stdout, server.stdin, stderr.say, ending)

    async def carry_failure(self, why: str) -> None:
        async def ending() -> str:
            return f"the server ({self._server_name()}) cannot be started: {why}"

        nothing = MemoryPipe()
        nothing.close()
        with anyio.move_on_after(FIRST_WORDS):
            await self._carry(nothing, nothing, lambda data: None, ending)

    async def carry_over_http(self) -> None:
        from abp_bridge.mcp.client import connect
        from abp_bridge.mcp.oauth import sign_in

        async def ending() -> str:
            return f"the connection to the server at {self._server_name()} ended"

        url, token = str(self.settings.server_url), self.settings.server_token
        auth = None if token else await sign_in(url, _send_to_sign_in)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with connect(url, headers=headers, auth=auth) as server:
            await self._carry(server.stdout, server.stdin, lambda data: None, ending)

    async def _carry(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        overhear: Callable[[bytes], None],
        ending: Callable[[], Awaitable[str]],
    ) -> Side:
        from abp_bridge.mcp.proxy.eras import translated
        from abp_bridge.mcp.proxy.proxy import run_proxy
        from abp_bridge.mcp.proxy.router import Policy

        settings, tap = self.settings, self.composition.tap
        async with translated(
            tap("host")(self.source, self.sink),
            tap("server")(reader, writer),
            pending_timeout=settings.park_timeout,
            origin=self._server_name,
            era=next((era for era in ERAS if era == settings.era), None),
            discover_first=not self.command,
        ) as sides:
            policy = Policy(
                self._server_name,
                partial(_find_obstacle, settings),
                ending,
                overhear,
                settings.confirm,
                _find_roots(settings),
                can_sample=settings.sampling is not None,
            )
            return await run_proxy(
                sides.host,
                sides.server,
                prefix=f"abp-{os.urandom(4).hex()}-",
                policy=policy,
                make_elicitor=partial(
                    self.composition.make_mcp_elicitor, find_pending=sides.find_pending
                ),
            )

    def _server_name(self) -> str:
        from abp_bridge.core.redact.command import show_command  # for its table of secrets' names

        url = str(self.settings.server_url)
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
