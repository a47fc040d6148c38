"""`abp-bridge mcp`: this process's stdio as a host's connection to a server of its own, from the
first byte to a quiet end.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import anyio

from abp_bridge.cli.compose import Composition, find_obstacle
from abp_bridge.cli.program import run_program
from abp_bridge.cli.runtime import load_session_settings, signals_interrupt
from abp_bridge.core.sanitize import command_name, label
from abp_bridge.log import print_message, warn_if_interactive
from abp_bridge.protocols.mcp.versions import ERAS
from abp_bridge.rpc.arrival import OPTIONS
from abp_bridge.rpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.settings import Settings, usual_settings

if TYPE_CHECKING:
    import argparse

    from abp_bridge.proxies.carrier import Side
    from abp_bridge.proxies.mcp.policy import Policy
    from abp_bridge.rpc.connection import ByteReader, ByteWriter

WRONG_USAGE = 2


class _Pipes(Protocol):
    """Where a server is spoken to."""

    @property
    def stdout(self) -> ByteReader: ...

    @property
    def stdin(self) -> ByteWriter: ...


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

A server that asks, to try it: docs/mcp-servers.md
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command of the server."""
    parser.add_argument(
        "server", nargs="*", metavar="SERVER", help="the server's command and arguments, after --"
    )


def run(options: argparse.Namespace) -> int:
    """Run a server behind our stdio until either side ends or a signal comes.

    Returns its exit code where it ended by itself.
    """
    settings = load_session_settings(options, usual=usual_settings("mcp"))
    if bool(options.server) == bool(settings.server_url):
        print_message("name one server: its command after --, or its address with --url")
        return WRONG_USAGE
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
                carry = partial(_carry, composition, command, (source, sink))
                if command:
                    code = await run_program(
                        command,
                        ("server", "host"),
                        tasks,
                        lambda server, stderr: carry(server, stderr.say),
                        f"[{label(command_name(command))}] ",
                    )
                else:
                    await _carry_over_http(settings, carry)
                    tasks.cancel_scope.cancel()
    return code


async def _carry(
    composition: Composition,
    command: Sequence[str],
    host: tuple[StreamReader, StreamWriter],
    server: _Pipes,
    overhear: Callable[[bytes], object],
) -> Side:
    """Carry lines between the host and the server until one of them ends: which."""
    from abp_bridge.proxies.mcp.eras import translated
    from abp_bridge.proxies.mcp.proxy import run_proxy

    settings = composition.settings
    async with translated(
        composition.tap("host")(*host),
        composition.tap("server")(server.stdout, server.stdin),
        park=settings.park_timeout,
        era=next((era for era in ERAS if era == settings.era), None),
        discover_first=not command,
    ) as sides:
        return await run_proxy(
            sides.host,
            sides.server,
            prefix=f"abp-{os.urandom(4).hex()}-",
            policy=_make_policy(settings, command, overhear),
            make_elicitor=partial(composition.make_mcp_elicitor, find_parked=sides.find_parked),
        )


def _make_policy(
    settings: Settings, command: Sequence[str], overhear: Callable[[bytes], object]
) -> Policy:
    from abp_bridge.proxies.mcp.policy import Policy

    return Policy(
        partial(_describe_server, settings, command),
        partial(_find_obstacle, settings),
        overhear,
        settings.confirm,
        [Path(root).absolute() for root in settings.roots],
    )


def _describe_server(settings: Settings, command: Sequence[str]) -> str:
    from abp_bridge.core.command_line import show_command  # for its table of secrets' names

    return show_command(command) if command else _name_of(str(settings.server_url))


async def _carry_over_http(
    settings: Settings, carry: Callable[[_Pipes, Callable[[bytes], None]], Awaitable[Side]]
) -> None:
    from abp_bridge.clients.mcp import connect
    from abp_bridge.clients.oauth import sign_in

    url, token = str(settings.server_url), settings.server_token
    auth = None if token else await sign_in(url, _send_to_sign_in)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with connect(url, headers=headers, auth=auth) as server:
        await carry(server, lambda data: None)


async def _send_to_sign_in(url: str) -> None:
    from abp_bridge.surfaces.page.browser import BrowserError, open_browser

    print_message(f"the server wants you to sign in, at {url}")
    with suppress(BrowserError):
        await open_browser(url)


def _name_of(url: str) -> str:
    """A server at an address, in front of a person."""
    return label(urlsplit(url).netloc.rpartition("@")[2]) or "a server"


def _find_obstacle(settings: Settings, host: str, host_asks: bool) -> str:
    """Why nobody can be asked, where that stops us."""
    why = find_obstacle(settings, host, host_asks=host_asks)
    if why and settings.without_person:
        print_message(f"nobody can be asked ({why}): each question is answered 'cancel'")
        return ""
    return why
