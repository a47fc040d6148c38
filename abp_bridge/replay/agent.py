"""The MCP server that a bridge gives its agent: which one it is, and an agent's launch of it.

A replay stands for the agent, so it launches it too.

What a bridge names is the bridge's own program, of which the person who plays against it has to
think as of the bridge. What a fixture names is never launched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from abp_bridge.replay.script import ReplayMismatchError
from abp_bridge.rpc.streams import StreamReader, StreamWriter

Json = Any


class Servers:
    """What the bridge has told its agent to launch, as far as nobody else named it."""

    def __init__(self) -> None:
        self._said: set[str] = set()  # each text that the fixture had anybody say
        self._last: Json = None

    def sent(self, message: Json) -> None:
        """The bridge was sent this."""
        self._said.update(_texts(message))

    def heard(self, message: Json) -> None:
        """The bridge said this to its agent."""
        params = message.get("params") if isinstance(message, Mapping) else None
        servers = params.get("mcpServers") if isinstance(params, Mapping) else None
        for server in servers if isinstance(servers, list) else ():
            if (
                isinstance(server, Mapping)
                and isinstance(server.get("command"), str)
                and server["command"] not in self._said
            ):
                self._last = server

    def command(self, line: int) -> tuple[list[str], dict[str, str]]:
        """What the agent launches, and its environment.

        Raises ReplayMismatchError when the bridge gave it nothing to launch.
        """
        server = self._last
        if server is None:
            raise ReplayMismatchError(
                "the agent is to use its tools here, and the bridge has given it no server for"
                " them",
                line,
            )
        args, env = server.get("args", []), server.get("env", [])
        readable = (
            isinstance(args, list)
            and isinstance(env, list)
            and all(isinstance(each, Mapping) for each in env)
        )
        words = (
            [*args, *(each.get(name) for each in env for name in ("name", "value"))]
            if readable
            else [None]
        )
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ReplayMismatchError(
                "the server that the bridge gives its agent cannot be launched: its args and env"
                " must be texts",
                line,
            )
        return [server["command"], *args], {
            "PATH": os.environ.get("PATH", os.defpath),
            **{each["name"]: each["value"] for each in env},
        }


class PartyConnection:
    """What an app, an agent or a server that was launched says to the bridge."""

    def __init__(self, sink: StreamWriter, source: StreamReader | None = None) -> None:
        """With a `source` both are ours, and close together."""
        self._sink = sink
        self._source = source

    async def send(self, data: bytes) -> None:
        """Raises OSError when nobody reads it any more."""
        left = memoryview(data)
        while left:
            await self._sink.writable()
            left = left[self._sink.write_nowait(left) :]

    def close(self) -> None:
        """Nothing more is said. Idempotent."""
        self._sink.close()
        if self._source is not None:
            self._source.close()


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
