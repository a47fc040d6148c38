"""The MCP server that a proxied agent gets: it launches `relay.py`, which connects here.

Each session has a token, which identifies its connections. An agent may launch its server several
times: each connection is a separate host, whose bridge is made with the first use.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from abp_bridge.acp.proxy import relay
from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.jsonrpc.connection import JsonRpcConnection
from abp_bridge.jsonrpc.files import make_folder, remove_folder
from abp_bridge.jsonrpc.protocol import JsonRpcProtocol
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, accept, listen
from abp_bridge.mcp.connection import McpConnection, encode_cancel
from abp_bridge.mcp.server import McpServer

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.acp.proxy.sessions import ClientSession
    from abp_bridge.jsonrpc.tap import Tap
    from abp_bridge.mcp.session import McpSession
    from abp_bridge.mcp.tool_list import ToolList
    from abp_bridge.session.bridge import Bridge
    from abp_bridge.session.host import Host

logger = logging.getLogger(__name__)

NAME = "abp"
AUTHENTICATION_LIMIT = 5.0  # seconds to say who one is
MAX_UNAUTHENTICATED = 8  # who have not said it yet, at once
MAX_TOKEN = 64  # bytes
RETRY = 0.1  # seconds after an accept that failed, as where no descriptor is free
MAX_PARENT = 70  # bytes; some systems take 103 for the path of a socket


@dataclass(slots=True)
class McpEndpoint:
    """The injected servers of one proxy.

    Attributes:
        begin: Makes the bridge of one connection, which lives in the given tasks.
        make_session: Makes the MCP session of one connection.
        modern: As in `McpServer`.
        make_tap: Makes the tap of one connection.
        make_tools: Makes the tool list of one connection.
    """

    begin: Callable[[Host, TaskGroup], Bridge]
    make_session: Callable[[McpConnection, Callable[[Host], Bridge]], McpSession]
    modern: bool
    make_tap: Callable[[], Tap]
    make_tools: Callable[[], ToolList]
    _sessions: dict[str, ClientSession] = field(default_factory=dict)  # by token
    _launched: set[str] = field(default_factory=set)  # tokens of those who have been here
    _is_told: bool = False  # that an agent starts no servers
    _folder: str = ""
    _socket: socket.socket | None = None
    _opened: anyio.Event = field(default_factory=anyio.Event)
    _unauthenticated: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(MAX_UNAUTHENTICATED)
    )
    _served: dict[anyio.CancelScope, anyio.Event] = field(
        default_factory=dict
    )  # and whether closed

    def server_entry(self, session: ClientSession, taken: Collection[JsonValue]) -> JsonObject:
        """Return an `mcpServers` entry for `session`, under a name that is not `taken`."""
        token = os.urandom(16).hex()
        self._sessions[token] = session
        name, number = NAME, 2
        while name in taken:
            name, number = f"{NAME}-{number}", number + 1
        # Alone and isolated: it starts in half the time, whatever the agent's environment is.
        args = ["-I", "-S", relay.__file__, self._address()]
        return {
            "name": name,
            "command": sys.executable,
            "args": args,
            "env": [{"name": relay.TOKEN, "value": token}],
        }

    def check_launched(self, session: ClientSession) -> None:
        """Warn once if an agent ignores its MCP servers, like `copilot --acp`."""
        tokens = {
            token for token, known in self._sessions.items() if known.surfaces is session.surfaces
        }
        if self._launched.isdisjoint(tokens) and not self._is_told:
            self._is_told = True
            logger.warning(
                "the agent did not start the MCP server that it was given for its session: it has"
                " none of the apps' tools (docs/acp-clients.md)"
            )

    def revoke(self, session: str) -> None:
        """Nobody is let in to this session any more."""
        self._sessions = {
            token: known
            for token, known in self._sessions.items()
            if known.surfaces.session_id != session
        }

    def _address(self) -> str:
        if self._socket is None:
            parent = tempfile.gettempdir()
            if len(os.fsencode(parent)) > MAX_PARENT:
                parent = "/tmp"  # noqa: S108 - the folder in it is our own
            self._folder = make_folder(parent)
            self._socket = listen(f"{self._folder}/s")
            self._opened.set()
        return f"{self._folder}/s"

    async def close(self) -> None:
        """Close the socket and every connection, after its apps know how their questions ended."""
        self._sessions.clear()
        served = dict(self._served)
        for connection in served:
            connection.cancel()
        for closed in served.values():
            await closed.wait()

    async def run(self) -> None:
        """Take connections until cancelled. Then the socket is gone."""
        try:
            async with anyio.create_task_group() as tasks:
                await self._opened.wait()
                assert self._socket is not None
                while True:
                    await self._unauthenticated.acquire_on_behalf_of(borrower := object())
                    try:
                        streams = await accept(self._socket)
                    except OSError:  # gone again, or no descriptor is free
                        self._unauthenticated.release_on_behalf_of(borrower)
                        await anyio.sleep(RETRY)
                    else:
                        tasks.start_soon(self._admit, *streams, borrower)
        finally:
            if self._socket is not None:
                self._socket.close()
                remove_folder(self._folder)

    async def _admit(self, source: StreamReader, sink: StreamWriter, borrower: object) -> None:
        try:
            try:
                session = self._sessions.get(token := await _token(source))
            finally:
                self._unauthenticated.release_on_behalf_of(borrower)
            if session is not None and sink.write_nowait(relay.WELCOME):
                self._launched.add(token)
                await self._serve(session, source, sink)
        # of one connection: the others, and the lines that pass, have nothing to do with it
        except Exception:
            logger.exception("a connection to the injected MCP server failed")
        finally:
            source.close()
            sink.close()

    async def _serve(
        self, session: ClientSession, source: StreamReader, sink: StreamWriter
    ) -> None:
        apis: list[Bridge] = []

        def begin(connection: McpConnection) -> McpSession:
            from abp_bridge.acp.proxy.sessions import ProxiedHost

            def make_api(agent: Host) -> Bridge:
                apis.append(self.begin(ProxiedHost(session, agent), tasks))
                return apis[-1]

            return self.make_session(connection, make_api)

        async with anyio.create_task_group() as tasks:
            rpc = JsonRpcConnection(
                JsonRpcProtocol(revealed=True),
                *self.make_tap()(source, sink),
                on_message=lambda message: server.on_message(message),  # noqa: PLW0108 - made below
                cancel_request=encode_cancel,
            )
            connected = McpConnection(rpc, tasks, self.make_tools())
            server = McpServer(connected, begin, modern=self.modern)
            closed = self._served[serving := anyio.CancelScope()] = anyio.Event()
            try:
                with serving:
                    await rpc.run()
            finally:
                for api in apis:
                    await api.close("the agent ended the connection")
                del self._served[serving]
                closed.set()
            tasks.cancel_scope.cancel()


async def _token(source: StreamReader) -> str:
    """Return the first line, or its part that came in time and is not too long."""
    token = b""
    with anyio.move_on_after(AUTHENTICATION_LIMIT):
        while (
            not token.endswith(b"\n")
            and len(token) < MAX_TOKEN
            and (data := await source.receive())
        ):
            token += data
    return token.decode(errors="replace").strip()
