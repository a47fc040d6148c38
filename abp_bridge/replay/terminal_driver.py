"""The person of a fixture at a terminal, and programs of theirs at the questions API: what they are
shown is heard, and what they do is done.

What they do at the bridge's own page is `visitor`'s.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import socket
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio

from abp_bridge.core.json_text import parse
from abp_bridge.replay.match import match

Json = Any

COLUMNS, ROWS = 200, 50  # wide enough that no name of a folder breaks a line
LARGEST = 2**20
# bytes of a line that the system keeps until Enter is pressed; it drops what is more, and does not
# say so
LONGEST = 4_095
PIECE = 1_024
REQUEST = 5.0  # seconds
AGAIN = 0.02  # seconds between two tries to reach what is not served yet
PASSWORD = "ABP_QUESTIONS_PASSWORD"  # noqa: S105

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
_HALF = re.compile(r"\x1b(?:\[[0-?]*[ -/]*)?\Z")
_QUIET = ("server.heartbeat",)


class Terminal:
    """A terminal of its own, for a bridge to open by `name`."""

    def __init__(self) -> None:
        self.fd, self._theirs = pty.openpty()
        os.set_blocking(self.fd, False)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.name = os.ttyname(self._theirs)
        self._shown = ""

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._theirs)

    def type(self, keys: str) -> None:
        """Raises OSError for what is not taken at once."""
        if os.write(self.fd, data := keys.encode()) < len(data):
            raise BlockingIOError("nobody reads at the terminal")

    async def enter(self, keys: str, limit: float) -> None:
        """Type all of it, as fast as it is taken.

        Raises OSError or ValueError when it is not taken.
        """
        left = memoryview(keys.encode())
        cooked = termios.tcgetattr(self._theirs)[3] & termios.ICANON
        if cooked and any(len(line) > LONGEST for line in bytes(left).split(b"\n")):
            raise ValueError(f"a terminal takes lines of {LONGEST} bytes at most")
        try:
            with anyio.fail_after(limit):
                while left:
                    await anyio.wait_writable(self.fd)
                    with suppress(BlockingIOError):
                        left = left[os.write(self.fd, left[:PIECE]) :]
        except TimeoutError:
            raise OSError(
                f"{len(left)} bytes are left after {limit:g} s: nobody reads at the terminal"
            ) from None

    async def watch(self) -> AsyncIterator[int]:
        """Read what is shown, for as long as it is there; how many bytes have come each time."""
        while True:
            await anyio.wait_readable(self.fd)
            if size := self.read():
                yield size

    def read(self) -> int:
        """Take in what is shown now; how many bytes that was."""
        try:
            data = os.read(self.fd, 65_536)
        except BlockingIOError:
            return 0
        self._shown = (self._shown + data.decode(errors="replace"))[-LARGEST:]
        return len(data)

    def taken(self) -> None:
        """What is there has been looked at; a control that has come by half stays."""
        half = _HALF.search(self._shown)
        self._shown = half[0] if half else ""

    @property
    def asks(self) -> bool:
        """Whether the cursor stands behind a prompt."""
        return self._shown.endswith(": ")

    @property
    def lines(self) -> list[str]:
        """What was shown since something was typed, line by line, without what is empty."""
        return [
            line.strip()
            for line in _ESCAPE.sub("", self._shown).replace("\r", "\n").split("\n")
            if line.strip()
        ]

    def shows(self, expected: Sequence[str], known: Mapping[str, Json]) -> bool:
        """Whether as much is there as is expected, down to the last line."""
        lines = self.lines
        return len(lines) >= len(expected) and bool(match(expected[-1], lines[-1], known))


class Program:
    """A program of the person's, at the questions API of a port."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.port = free_port()
        self._headers = {
            "Authorization": f"Bearer {env.get(PASSWORD, '')}",
            "Content-Type": "application/json",
        }

    async def send(
        self, said: Mapping[str, Json], limit: float, heard: Callable[[Json, int], None]
    ) -> None:
        """One request, and what comes back; of a stream, each event as it comes, with its size.

        Raises OSError, ValueError or HTTPException.
        """
        method, _, path = said["http"].partition(" ")
        body = json.dumps(said["body"]).encode() if "body" in said else None
        connection = await self._connected(limit)
        try:
            with anyio.fail_after(REQUEST):
                response = await anyio.to_thread.run_sync(
                    self._ask, connection, method, path, body, abandon_on_cancel=True
                )
            if (response.headers.get_content_type()) == "text/event-stream":
                await self._follow(connection, response, heard)
                return
            data = await anyio.to_thread.run_sync(response.read, LARGEST, abandon_on_cancel=True)
            heard({"status": response.status, "body": parse(data)}, len(data))
        finally:
            connection.close()

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> http.client.HTTPResponse:
        connection.request(method, path, body, self._headers)
        return connection.getresponse()

    async def _follow(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        heard: Callable[[Json, int], None],
    ) -> None:
        while line := await anyio.to_thread.run_sync(
            response.readline, LARGEST, abandon_on_cancel=True
        ):
            event = parse(line[6:]) if line.startswith(b"data: ") else None
            if event is not None and not (
                isinstance(event, Mapping) and event.get("type") in _QUIET
            ):
                heard(event, len(line))

    async def _connected(self, limit: float) -> http.client.HTTPConnection:
        """It is served with the first app, and that may be soon."""
        with anyio.move_on_after(limit):
            while True:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                with suppress(ConnectionRefusedError):
                    connection.connect()
                    return connection
                await anyio.sleep(AGAIN)
        raise OSError(f"nothing is served at port {self.port}")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
