"""`relay.py SOCKET`: the MCP server that an agent launches, a pipe to the bridge's socket.

It runs alone, with the standard library only, to start fast. The token in the environment names the
session.
"""

import os
import signal
import socket
import sys
import threading

TOKEN = "ABP_RELAY_TOKEN"  # noqa: S105 - the name of a variable
WELCOME = b"\n"
CHUNK = 64 * 1024  # bytes of one read


def main() -> int:
    """Carry bytes both ways until either side ends. Returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    bridge = socket.socket(socket.AF_UNIX)
    try:
        bridge.connect(sys.argv[1])
        bridge.sendall(os.environ[TOKEN].encode() + b"\n")
        welcome = bridge.recv(1)
    except (OSError, LookupError) as problem:
        sys.stderr.write(f"abp-bridge relay: the bridge cannot be reached: {problem}\n")
        return 1
    if welcome != WELCOME:
        sys.stderr.write("abp-bridge relay: the bridge does not know this session\n")
        return 1
    threading.Thread(target=_to_bridge, args=(bridge,), daemon=True).start()
    try:
        while data := bridge.recv(CHUNK):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        pass  # either side is gone, which is the end
    return 0


def _to_bridge(bridge: socket.socket) -> None:
    try:
        while data := os.read(0, CHUNK):
            bridge.sendall(data)
        bridge.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction ends for the same reason


if __name__ == "__main__":
    os._exit(main())
