"""The bridge's servers on Unix sockets instead of TCP, for tests of what they say.

`surfaces.http.listen` gives a Unix socket that has a port's number, and a connection of
`http.client` or anyio to that port of this machine reaches it.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from abp_bridge.surfaces import http
from abp_bridge.surfaces.page import web

ADDRESS = http.ADDRESS
_folder = tempfile.TemporaryDirectory(prefix="abp-http-")
_listening: dict[int, socket.socket] = {}  # by their ports
_ports = count(20_001)
_connect, _connect_tcp = HTTPConnection.connect, anyio.connect_tcp


class _Socket(socket.socket):
    """A Unix socket with the addresses of a TCP socket."""

    port = 0

    def getsockname(self) -> Any:
        return ADDRESS, self.port

    def getpeername(self) -> Any:
        return ADDRESS, 1

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, _ = super().accept()
        connection = _Socket(fileno=accepted.detach())
        connection.port = self.port
        return connection, (ADDRESS, 1)


def free_port() -> int:
    return next(_ports)


def listen(port: int) -> socket.socket:
    port = port or free_port()
    if port in _listening and _listening[port].fileno() >= 0:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    path = _path(port)
    path.unlink(missing_ok=True)
    listener = _Socket(socket.AF_UNIX)
    listener.port = port
    listener.bind(str(path))
    listener.listen(http.BACKLOG)
    _listening[port] = listener
    return listener


def connect(connection: HTTPConnection) -> None:
    if connection.port not in _listening or connection.host not in (ADDRESS, "localhost"):
        _connect(connection)
        return
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(connection.timeout)
    connection.sock.connect(str(_path(connection.port)))


async def connect_tcp(host: str, port: int) -> SocketStream:
    if port in _listening:
        return await anyio.connect_unix(_path(port))
    return await _connect_tcp(host, port)


def _path(port: int) -> Path:
    return Path(_folder.name, str(port))


@pytest.fixture(autouse=True)
def without_tcp(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests without a marker. Whoever connects is a program of this user."""
    if any(map(request.node.get_closest_marker, ("browser", "network", "process"))):
        return
    monkeypatch.setattr(http, "listen", listen)
    monkeypatch.setattr(HTTPConnection, "connect", connect)
    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    monkeypatch.setattr(web, "owns_connection", lambda client, server: True)
