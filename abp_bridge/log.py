"""What this process says of itself on stderr."""

from __future__ import annotations

import contextlib
import os
import select

PIPE_BUF = 4096


def warn_if_interactive(who: str) -> None:
    """A person who typed the command sees what it waits for; a program that launched it sees
    nothing.
    """
    if os.isatty(0):
        whisper(
            f"waiting for {who} on stdin. It is launched by programs; to see it work here:"
            " abp-bridge demo. Ctrl-C ends it"
        )


def whisper(line: str) -> None:
    """A line to stderr if it can be taken at once; a host that does not read its server's stderr
    must not stop us.
    """
    with contextlib.suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"abp-bridge: {line}\n".encode(errors="backslashreplace")[:PIPE_BUF])
