"""The person of a fixture at a terminal: what they are shown, and what they type.

It keeps the bytes that a bridge shows and says which lines they are; whether these are the right
ones is compared elsewhere.
"""

from __future__ import annotations

import os
import re
import select
import struct
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio

COLUMNS, ROWS = 200, 50  # characters: wide enough that no name of a folder breaks a line
MAX_SHOWN = 2**20  # characters that are kept between two keys
# bytes of a line that the system keeps until Enter is pressed; it drops what is more, and does not
# say so
MAX_LINE = 4_095
MAX_WRITE = 1_024  # bytes typed at once: less than any terminal's buffer

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
_UNFINISHED_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*)?\Z")


class Terminal:
    """A terminal of its own, for a bridge to open by `name`; `fd` is readable when it shows more.

    Close it when it is done with.
    """

    def __init__(self) -> None:
        import fcntl
        import pty
        import termios

        self.fd, self._device = pty.openpty()
        os.set_blocking(self.fd, False)
        fcntl.ioctl(self._device, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.name = os.ttyname(self._device)
        self._shown = ""

    def close(self) -> None:
        """Give the terminal back to the system."""
        os.close(self.fd)
        os.close(self._device)

    def type(self, keys: str, patience: float) -> None:
        """Type all of `keys` as fast as it is taken; blocks for `patience` seconds at most.

        Raises:
            OSError: nobody takes it.
            ValueError: it has a line that no terminal takes.
        """
        import termios

        left, deadline = memoryview(keys.encode()), time.monotonic() + patience
        is_cooked = termios.tcgetattr(self._device)[3] & termios.ICANON
        if is_cooked and any(len(line) > MAX_LINE for line in bytes(left).split(b"\n")):
            raise ValueError(f"a terminal takes lines of {MAX_LINE} bytes at most")
        while left:
            if (remaining := deadline - time.monotonic()) <= 0:
                raise OSError(
                    f"{len(left)} bytes are left after {patience:g} s: nobody reads at the terminal"
                )
            select.select([], [self.fd], [], remaining)
            with suppress(BlockingIOError):
                left = left[os.write(self.fd, left[:MAX_WRITE]) :]

    async def watch(self) -> AsyncIterator[int]:
        """Read what is shown as it comes, without end; yields how many bytes came each time."""
        while True:
            await anyio.wait_readable(self.fd)
            if size := self.read():
                yield size

    def read(self) -> int:
        """Take in what is shown now, and return how many bytes that was."""
        try:
            data = os.read(self.fd, 65_536)
        except BlockingIOError:
            return 0
        self._shown = (self._shown + data.decode(errors="replace"))[-MAX_SHOWN:]
        return len(data)

    def clear(self) -> None:
        """Forget what was shown; a control sequence that has come by half stays."""
        half = _UNFINISHED_ESCAPE.search(self._shown)
        self._shown = half[0] if half else ""

    @property
    def is_at_prompt(self) -> bool:
        """Whether the cursor stands behind a prompt."""
        return self._shown.endswith(": ")

    @property
    def lines(self) -> list[str]:
        """What was shown since it was cleared, line by line, without what is empty."""
        plain = _ESCAPE.sub("", self._shown).replace("\r", "\n")
        return [line.strip() for line in plain.split("\n") if line.strip()]
