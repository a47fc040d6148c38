"""Find out, from the kernel, which local user made a loopback connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

LOOK_LIMIT = 2.0  # seconds for `lsof`, where there is no /proc
_ESTABLISHED = "01"  # other states have no owner any more: the kernel says 0 then, as for root

Address = tuple[str, int]


def is_own_user(client: Address, server: Address) -> bool:
    """Return whether this user, or root, made the connection; False if unknown.

    Blocks while it reads a table of the kernel.
    """
    if sys.platform == "linux":
        return _find_owner(client, server) in (os.getuid(), 0)
    return _lsof_finds(client)


def _find_owner(client: Address, server: Address) -> int | None:
    wanted = (_hex(client), _hex(server), _ESTABLISHED)
    for name in ("tcp", "tcp6"):  # a socket of the second may be connected to an IPv4 address
        try:
            with open(f"/proc/net/{name}") as table:
                rows = [line.split() for line in table]
        except OSError:
            continue
        for row in rows:
            if (row[1][-13:], row[2][-13:], row[3]) == wanted and row[9] != "0":
                return int(row[7])
    return None


def _hex(address: Address) -> str:
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def _lsof_finds(client: Address) -> bool:
    """Return whether another process of this user has a connection with that address."""
    host, port = client
    what = ["-u", str(os.getuid()), "-p", f"^{os.getpid()}", "-i", f"TCP@{host}:{port}"]
    command = ["lsof", "-nP", "-a", "-t", *what, "-s", "TCP:ESTABLISHED"]
    try:
        found = subprocess.run(  # noqa: S603
            command, capture_output=True, timeout=LOOK_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and bool(found.stdout.strip())
