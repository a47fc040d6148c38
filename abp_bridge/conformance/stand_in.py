"""A stand-in for an app or an agent: connects its pipes to the replay. Standalone."""

import contextlib
import os
import socket
import sys
import threading


def program_name(party: str) -> str:
    """Return the name of a party's program: `app` for the first app, else its name or number."""
    name = party.removeprefix("app ")
    return f"app-{name}" if name.isdigit() else name


def carry(address: str, party: str) -> None:
    """Connect to `address`, send this party's name, and carry bytes until the end."""
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
