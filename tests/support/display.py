"""A display that nobody sees, what is drawn on it, and a hand that points and presses there.

The hand is XTEST, by which an X server takes a program's pressing for a person's; a page is told
that it can be trusted.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from support.harness import PATIENCE

_QUERY, _FOCUS, _FAKE = 98, 43, 2
_PRESS, _RELEASE, _MOVE = 4, 5, 6


@dataclass(frozen=True)
class Display:
    """A running X server: `name` as $DISPLAY has it, and the file that holds its picture."""

    name: str
    picture: Path

    def colour(self, x: int, y: int) -> str:
        """What is drawn there, as `#rrggbb`."""
        held = self.picture.read_bytes()
        header = struct.unpack(">25I", held[:100])
        size, depth, row, colours = header[0], header[11], header[12], header[19]
        at = size + colours * 12 + y * row + x * (depth // 8)
        blue, green, red = held[at : at + 3]
        return f"#{red:02x}{green:02x}{blue:02x}"

    async def until(self, colour: str, x: int = 300, y: int = 300) -> None:
        """Look there, where no pointer is, until it is drawn so."""
        with anyio.fail_after(PATIENCE):
            while await anyio.to_thread.run_sync(self.colour, x, y) != colour:
                pass

    def press(self, x: int = 500, y: int = 500) -> None:
        """Point there, and press the first button of the mouse."""
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(PATIENCE)
            server.connect(f"/tmp/.X11-unix/X{self.name.removeprefix(':')}")
            server.sendall(b"l\0" + struct.pack("<HHHHH", 11, 0, 0, 0, 0))
            ok, _, _, _, rest = struct.unpack("<BBHHH", _read(server, 8))
            assert ok == 1, "the display lets nobody in"
            _read(server, rest * 4)
            server.sendall(struct.pack("<BBHHH", _QUERY, 0, 4, 5, 0) + b"XTEST\0\0\0")
            extension = _read(server, 32)[9]
            for kind, button in ((_MOVE, 0), (_PRESS, 1), (_RELEASE, 1)):
                event = struct.pack("<BBHIIQhh", kind, button, 0, 0, 0, 0, x, y)
                server.sendall(struct.pack("<BBH", extension, _FAKE, 9) + event + bytes(8))
            server.sendall(struct.pack("<BBH", _FOCUS, 0, 1))  # it answers when all that is done
            _read(server, 32)


def _read(server: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        more = server.recv(size - len(read))
        assert more, "the display is gone"
        read += more
    return read


@contextmanager
def display(size: str = "1000x800") -> Iterator[Display]:
    """A display of that many pixels."""
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        shown = ["-displayfd", str(writing), "-screen", "0", f"{size}x24", "-fbdir", folder]
        command = ["Xvfb", *shown, "-nolisten", "tcp"]
        with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
            os.close(writing)
            try:
                with open(reading) as said:
                    number = said.readline().strip()
                yield Display(f":{number}", Path(folder, "Xvfb_screen0"))
            finally:
                server.terminate()
