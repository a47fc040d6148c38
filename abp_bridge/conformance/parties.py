"""The parties of a replay: the host, stand-ins for apps, agent and server, and the server that the
bridge gives to its agent, which the replay launches as the agent would.

It carries bytes; `runner` decides what is said. The agent's server is the bridge's own program.
Nothing that a fixture names is launched.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import ExitStack, suppress
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from abp_bridge.conformance.connections import ApiConnection, Inbox, PartyConnection, ReplacePaths
from abp_bridge.conformance.format import AGENT, HOST, MODEL, PERSON, Entry
from abp_bridge.conformance.match import ReplayMismatchError, as_mismatch
from abp_bridge.conformance.workspace import BROWSER
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, walk
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, accept
from abp_bridge.jsonrpc.subprocess import Child, spawn

Connection = TypeVar("Connection", bound=PartyConnection)


class Parties:
    """The host and every program that the bridge starts."""

    def __init__(self, expected: Collection[str], replace_paths: ReplacePaths) -> None:
        """Accept stand-ins for the `expected` apps and agents."""
        self.agent_server = AgentServer()
        self.inbox = Inbox(replace_paths, {AGENT: self.agent_server.on_message})
        self.listening: set[str] = set()  # whom a bridge may still say something to
        self._expected = expected
        self._connections: dict[str, PartyConnection] = {}
        self._reading: set[str] = set()  # stand-ins to which the bridge has not ended what it says

    def __contains__(self, party: str) -> bool:
        return party in self._connections

    def add_host(self, bridge: Child) -> None:
        """Connect the host to the bridge's stdin."""
        self._connections[HOST] = PartyConnection(bridge.stdin)

    async def serve(self, listener: socket.socket) -> None:
        """Accept stand-ins until cancelled."""
        await _attend(listener, PartyConnection, self._read_stand_in)

    async def serve_model(self, listener: socket.socket) -> None:
        """Answer as the model's API until cancelled."""
        await _attend(listener, ApiConnection, self._read_requests)

    async def launch(self, entry: Entry, folder: str, *, task_status: TaskStatus[None]) -> None:
        """Run the agent's server in `folder` until it exits. Raises ReplayMismatchError if it
        cannot.
        """
        command, environment = self.agent_server.command(entry.line)
        with as_mismatch("the server that the bridge gives its agent cannot be launched"):
            async with spawn(command, env=environment, cwd=folder) as child:
                self._add_connection(entry.party, PartyConnection(child.stdin))
                task_status.started()
                await self.inbox.read_party(entry.party, self.inbox.lines(child.stdout.receive))

    async def send_to(self, party: str, data: bytes, patience: float) -> None:
        """Send `data` for a party, giving up after `patience` seconds."""
        with suppress(OSError), anyio.move_on_after(patience):
            if party in self:
                await self._connections[party].send(data)

    def close_party(self, party: str) -> None:
        if party in self:
            self._connections.pop(party).close()

    async def _read_requests(self, connection: ApiConnection) -> None:
        lines = self.inbox.lines(connection.receive)
        await self._hear(MODEL, lines, connection)

    async def _read_stand_in(self, connection: PartyConnection) -> None:
        """Read what the bridge sends to a stand-in, whose first line names its party."""
        lines = self.inbox.lines(connection.receive)
        party = (await anext(lines, b"")).decode(errors="replace")
        if party == BROWSER:
            address = (await anext(lines, b"")).decode(errors="replace")
            self.inbox.put(PERSON, "message", {"opened": address})
            connection.close()
            return
        if party in self._expected:
            await self._hear(party, lines, connection)

    async def _hear(
        self, party: str, lines: AsyncIterator[bytes], connection: PartyConnection
    ) -> None:
        """Read everything sent to a party until its end."""
        if party in self and (party != MODEL or party in self._reading):
            raise ReplayMismatchError(
                f"the bridge started the {party} again, while it was still running"
            )
        self.close_party(party)
        self._add_connection(party, connection)
        self._reading.add(party)
        await self.inbox.read_party(party, lines)
        self._reading.discard(party)

    def _add_connection(self, party: str, connection: PartyConnection) -> None:
        self._connections[party] = connection
        self.listening.add(party)


async def _attend(
    listener: socket.socket,
    connect: Callable[[StreamWriter, StreamReader], Connection],
    read: Callable[[Connection], Coroutine[object, object, None]],
) -> None:
    with listener, ExitStack() as connections:
        async with anyio.create_task_group() as tasks:
            while True:
                source, sink = await accept(listener)
                connection = connect(sink, source)
                connections.callback(connection.close)
                tasks.start_soon(read, connection)


class AgentServer:
    """The MCP server that the bridge names to its agent."""

    def __init__(self) -> None:
        self._said: set[str] = set()  # each text that the fixture had anybody say
        self._server: JsonObject | None = None

    def on_sent(self, message: JsonValue) -> None:
        """Note the servers that the host names."""
        self._said.update(each for each in walk(message) if isinstance(each, str))

    def on_message(self, message: JsonValue) -> None:
        """Note the server that the bridge names."""
        params = as_object(as_object(message).get("params"))
        for server in map(as_object, as_list(params.get("mcpServers"))):
            command = server.get("command")
            if isinstance(command, str) and command not in self._said:
                self._server = server

    def command(self, line: int) -> tuple[list[str], dict[str, str]]:
        """Return the agent's server command and environment. Raises ReplayMismatchError if there is
        none.
        """
        if self._server is None:
            raise ReplayMismatchError(
                "the agent is to use its tools here, and the bridge has given it no server for"
                " them",
                line,
            )
        args, env = self._server.get("args", []), self._server.get("env", [])
        variables = [
            (as_object(each).get("name"), as_object(each).get("value")) for each in as_list(env)
        ]
        words = [*as_list(args), *(word for pair in variables for word in pair)]
        are_lists = isinstance(args, list) and isinstance(env, list)
        if not are_lists or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ReplayMismatchError(
                "the server that the bridge gives its agent cannot be launched: its args and env"
                " must be texts",
                line,
            )
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        environment |= {str(name): str(value) for name, value in variables}
        return [as_text(self._server["command"]), *map(str, as_list(args))], environment
