"""Where the inbox asks this bridge: a Unix socket, for processes of this user's alone. One request
is one line of JSON, and so is what comes back.

Whoever may connect is told what is open. A link is given to nobody but a browser that was paired.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import anyio
from anyio.abc import SocketListener, SocketStream

from abp_bridge.core.json_value import JsonObject, as_object, parse_json
from abp_bridge.jsonrpc.files import PlaceError
from abp_bridge.jsonrpc.streams import listen
from abp_bridge.surfaces.inbox import unix_peer
from abp_bridge.surfaces.inbox.open_question import dump
from abp_bridge.surfaces.inbox.places import remove, runtime_folder, socket_path, sockets

logger = logging.getLogger(__name__)

REQUEST_LIMIT = 2.0  # seconds for a request to come, and for its answer to go
MAX_REQUEST = 4096  # bytes
MAX_SWEPT = 200  # entries that a start looks at
# A request, and the name that this process can be found by -> what is answered
Answer = Callable[[JsonObject, str], JsonObject]
_FAILURES = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


async def serve(answer: Answer, on_problem: Callable[[str], None]) -> None:
    """Be found, and `answer` requests, until cancelled. Where that cannot be, the log says why, and
    `on_problem` is told.
    """
    try:
        path = socket_path(runtime_folder())
        listening = _listen(path)
        with suppress(OSError):
            _sweep(path.parent)
    except (PlaceError, OSError) as problem:
        logger.warning("no inbox finds this bridge: %s", problem)
        on_problem(str(problem))
        return
    try:
        listener = await SocketListener.from_socket(listening)
        async with listener, anyio.create_task_group() as tasks:
            while True:
                await unix_peer.wait_readable(listener)
                tasks.start_soon(_attend, answer, path.name, await listener.accept())
    finally:
        listening.close()
        remove(path)


def _listen(path: Path) -> socket.socket:
    """A socket there for this user alone. Raises OSError."""
    # It gets its name when it listens: one that does not is taken for a dead bridge's.
    hidden = path.with_name(f".{path.name}")
    remove(hidden)
    listening = listen(str(hidden))  # at once: anyio, when it is cancelled, leaves it there
    try:
        hidden.chmod(0o600)
        hidden.rename(path)
    except OSError:
        listening.close()
        remove(hidden)
        raise
    return listening


def _sweep(folder: Path) -> None:
    """Take out the entries that killed bridges left there."""
    for path, pid, _ in islice(sockets(folder), MAX_SWEPT):
        if _is_stale(path, pid):
            remove(path)


def _is_stale(path: Path, pid: int) -> bool:
    """Whether there is no such process, and nobody listens: one in another container may."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.setblocking(False)
            return connection.connect_ex(str(path)) == errno.ECONNREFUSED
    except (PermissionError, OverflowError):
        pass
    return False


async def _attend(answer: Answer, name: str, stream: SocketStream) -> None:
    with anyio.move_on_after(REQUEST_LIMIT):
        try:
            async with stream:
                if not unix_peer.is_own_user(stream):
                    return
                request = as_object(parse_json(await _read_line(stream)))
                await stream.send(dump(answer(request, name)) + b"\n")
        except (*_FAILURES, ValueError):
            return  # who asks without waiting, or what nobody can read, is told nothing
        except Exception:  # a bug of ours: what is asked here ends no question of the session's
            logger.exception("a request of the inbox failed")


async def _read_line(stream: SocketStream) -> bytes:
    """Raises ValueError where it is too long."""
    line = b""
    while not line.endswith(b"\n"):
        await unix_peer.wait_readable(stream)
        line += await stream.receive(MAX_REQUEST)
        if len(line) > MAX_REQUEST:
            raise ValueError("too long")
    return line
