"""Unix sockets: which user of this machine is at the other end, as its kernel knows it, and a wait
that may be cancelled at any moment.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

import anyio
from anyio import TypedAttributeProvider
from anyio.abc import SocketAttribute, SocketStream

_LINUX = struct.Struct("3i")  # pid, uid, gid
# BSD's `xucred`, as a Mac has it: version, uid, and the number and names of groups
_BSD = struct.Struct("II")
_BSD_SIZE, _SOL_LOCAL, _LOCAL_PEERCRED = 76, 0, 1


def is_own_user(stream: SocketStream) -> bool:
    """Whether a process of this user's is at the other end. False where nobody can say."""
    return find_user(stream.extra(SocketAttribute.raw_socket)) == os.getuid()  # noqa: S610


def find_user(connection: socket.socket) -> int | None:
    """Who that is, by their number; None where nobody can say."""
    try:
        if sys.platform == "linux":
            option = (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return int(_LINUX.unpack(connection.getsockopt(*option, _LINUX.size))[1])
        found = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _BSD_SIZE)
        return int(_BSD.unpack_from(found)[1])
    except (OSError, struct.error):
        return None


async def wait_readable(end: TypedAttributeProvider) -> None:
    """Wait until something is there to receive, or to accept. anyio's own wait in its Unix sockets
    ends with an error of the event loop where it is cancelled in the turn in which that comes.
    """
    await anyio.wait_readable(end.extra(SocketAttribute.raw_socket))  # noqa: S610
