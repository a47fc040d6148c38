"""A stand-in for an app or an agent: carries its pipes to whoever replays a fixture, and nothing
else. Run as a program, without this package.
"""

import contextlib
import os
import socket
import sys
import threading


def carry(address: str, party: str) -> None:
    line = socket.socket(socket.AF_UNIX)
    line.connect(address)
    line.sendall(party.encode() + b"\n")

    def up() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 65_536):
                line.sendall(data)
            line.shutdown(socket.SHUT_WR)

    threading.Thread(target=up, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := line.recv(65_536):
            while data:
                data = data[os.write(1, data) :]
    os._exit(0)


if __name__ == "__main__":
    carry(sys.argv[1], sys.argv[2])
