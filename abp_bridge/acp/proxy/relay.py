"""`relay.py SOCKET`: the MCP server that an agent launches, a pipe to the bridge's socket.

It runs alone, with the standard library only, to start fast. The token in the environment names the
session.
"""

import os
import signal
import socket
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = "ABP_RELAY_TOKEN"  # noqa: S105 - the name of a variable
WELCOME = b"\n"
CHUNK = 64 * 1024  # bytes of one read


def carry(path: str, environ: "Mapping[str, str]", stdin: int = 0, stdout: int = 1) -> int:
    """Carry bytes both ways until either side ends. Returns the exit code."""
    with socket.socket(socket.AF_UNIX) as bridge:
        try:
            bridge.connect(path)
            bridge.sendall(environ[TOKEN].encode() + b"\n")
            welcome = bridge.recv(1)
        except (OSError, LookupError) as problem:
            sys.stderr.write(f"abp-bridge relay: the bridge cannot be reached: {problem}\n")
            return 1
        if welcome != WELCOME:
            sys.stderr.write("abp-bridge relay: the bridge does not know this session\n")
            return 1
        threading.Thread(target=_to_bridge, args=(bridge, stdin), daemon=True).start()
        try:
            while data := bridge.recv(CHUNK):
                while data:
                    data = data[os.write(stdout, data) :]
        except OSError:
            pass  # either side is gone, which is the end
    return 0


def _to_bridge(bridge: socket.socket, stdin: int) -> None:
    try:
        while data := os.read(stdin, CHUNK):
            bridge.sendall(data)
        bridge.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction ends for the same reason


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os._exit(carry(sys.argv[1], os.environ))
