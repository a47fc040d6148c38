"""A stand-in for an app or an agent: carries its pipes to whoever replays a fixture, and nothing
else; and how stand-ins are called.

Run as a program, without this package.
"""

import contextlib
import os
import socket
import sys
import threading


def program_name(party: str) -> str:
    """The name of a party's program: `app` for the first app, its own name or number for others."""
    name = party.removeprefix("app ")
    return f"app-{name}" if name.isdigit() else name


def carry(address: str, party: str) -> None:
    """Connect the socket at `address`, say whom this stands for, and carry bytes to the end."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.sendall(party.encode() + b"\n")

    def send_input() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 65_536):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=send_input, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := connection.recv(65_536):
            while data:
                data = data[os.write(1, data) :]
    os._exit(0)


if __name__ == "__main__":
    carry(sys.argv[1], sys.argv[2])
