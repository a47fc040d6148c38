"""The terminal that is read and written: this process's own, or a named one.

A named terminal is opened with the first question. Writing to it never blocks: what a stopped
terminal (Ctrl-S) does not take is kept, up to a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio

from abp_bridge.jsonrpc.files import find_holder, lock, wait_for_lock
from abp_bridge.session.surface import SurfaceUnsupportedError
from abp_bridge.surfaces.terminal.rendering import can_move, width

logger = logging.getLogger(__name__)

CONTROLLING = "/dev/tty"
MAX_WAITING = 2**18  # bytes kept for a terminal that takes none: some screens full
CTRL_C = b"\x03"

_TRY = "Type 'tty' in the terminal to use: it prints the name to give"


class StdioTerminal:
    """This process's stdin and stdout.

    Attributes:
        moves: Whether the cursor can be moved.
        encoding: Of the input.
        is_open: Whether it can be written to.
    """

    is_open = True

    def __init__(self) -> None:
        self.moves = can_move()
        self.encoding = sys.stdin.encoding if sys.stdin is not None else "utf-8"

    @property
    def fd(self) -> int:
        return sys.stdin.fileno()

    @property
    def columns(self) -> int:
        return width()

    def open(self) -> None:
        """Do nothing: it is open."""

    def print(self, words: str) -> None:
        """Write at once; reading notices a closed terminal."""
        with contextlib.suppress(OSError):  # a terminal that is gone sends SIGHUP too
            sys.stdout.write(words)
            sys.stdout.flush()

    def keys(self) -> AbstractContextManager[None]:
        """Do nothing: prompt_toolkit uses stdio by default."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def lines(self, *, secret: bool) -> Iterator[None]:
        """Read whole lines, without echo if `secret`, as long as the block lasts."""
        if not secret:
            yield
            return
        import termios

        with _attributes(self.fd, termios.TCSADRAIN) as hidden:
            hidden[3] &= ~termios.ECHO
            termios.tcsetattr(self.fd, termios.TCSADRAIN, hidden)
            yield

    def close_lost(self) -> None:
        """Do nothing: the program that started us notices."""


class TtyDevice:
    """The terminal at `path`. Its signals go to another program, so Ctrl-C is read as a key.

    Attributes:
        moves: Whether the cursor can be moved.
        encoding: Of the input.
        fd: The descriptor; negative while it is closed.
    """

    encoding = "utf-8"

    def __init__(self, path: str) -> None:
        self.path = path
        # A host may give us no TERM, or its own; a terminal that somebody names is one that can do
        # what all can.
        self.term = os.environ.get("TERM") or "xterm"
        self.moves = self.term not in ("dumb", "unknown")
        self.fd = -1
        self._gone = False
        self._waiting = bytearray()

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return self.fd >= 0

    @property
    def columns(self) -> int:
        return self._size()[0]

    def open(self) -> None:
        """Open it with the first question. It stays open: its name may be reused once it is closed.

        Raises:
            SurfaceUnsupportedError: It cannot be opened, is gone, or another program uses it.
        """
        if self.fd < 0 and not self._gone:
            self.fd = _open_terminal(self.path)
        if self._gone or _hung_up(self.fd):
            self.close_lost()
        # not the terminal we were started from: nobody's foreground matters
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self.fd) != os.getpgrp():
                raise SurfaceUnsupportedError(
                    f"another program has {self._name} now. Ask at another one. {_TRY}",
                    lasting=False,
                )

    def close_lost(self) -> None:
        """Close it for good.

        Raises:
            SurfaceUnsupportedError: Always; it lasts.
        """
        self._gone = True
        if self.fd >= 0:
            self._stop_waiting()
            os.close(self.fd)
            self.fd = -1
        raise SurfaceUnsupportedError(
            f"{self._name} has gone. Start again with the name of another", lasting=True
        )

    def print(self, words: str) -> None:
        """Write lines, each from the first column."""
        self.put(words.replace("\n", "\r\n"))

    @contextlib.contextmanager
    def keys(self) -> Iterator[None]:
        """Let prompt_toolkit read and write here as long as the block lasts."""
        from prompt_toolkit.application import create_app_session
        from prompt_toolkit.data_structures import Size
        from prompt_toolkit.input.vt100 import Vt100Input
        from prompt_toolkit.output.vt100 import Vt100_Output

        def size() -> Size:
            columns, rows = self._size()
            return Size(rows=rows, columns=columns)

        source: Any = _TtyInput(self)
        output: Any = _TtyOutput(self)
        with create_app_session(
            input=Vt100Input(source), output=Vt100_Output(output, size, term=self.term)
        ):
            yield

    @contextlib.contextmanager
    def lines(self, *, secret: bool) -> Iterator[None]:
        """Read whole lines, with Ctrl-C as a character; restore the settings afterwards."""
        import termios

        with _attributes(self.fd, termios.TCSANOW) as ours:
            ours[0] |= termios.ICRNL
            ours[1] |= termios.OPOST | termios.ONLCR
            ours[3] |= termios.ICANON | termios.ECHOE | termios.ECHOK | termios.ECHO
            ours[3] &= ~(termios.ISIG | (termios.ECHO if secret else 0))
            ours[6] = list(ours[6])
            ours[6][termios.VEOL] = CTRL_C  # ends the line at once, as Enter does
            termios.tcsetattr(self.fd, termios.TCSANOW, ours)
            yield

    @property
    def _name(self) -> str:
        return "this terminal" if self.path == CONTROLLING else f"the terminal {self.path}"

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self.fd)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def put(self, words: str) -> None:
        """Write, or keep what a stopped terminal does not take, up to `MAX_WAITING`."""
        if self.fd < 0 or len(self._waiting) > MAX_WAITING:
            return
        idle = not self._waiting
        self._waiting += words.encode(errors="replace")
        self._flush()
        if self._waiting and idle:
            asyncio.get_running_loop().add_writer(self.fd, self._flush)

    def _flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self.fd, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._waiting.clear()
        with contextlib.suppress(RuntimeError):  # there is no loop any more
            asyncio.get_running_loop().remove_writer(self.fd)


def controlling() -> str | None:
    """Return the name of the terminal that started this process, or None."""
    for fd in (None, 2, 0, 1):
        with contextlib.suppress(OSError, SurfaceUnsupportedError):
            name = CONTROLLING if fd is None else os.ttyname(fd)
            check_terminal(name)
            return name
    return None


def check_terminal(path: str) -> None:
    """Raise SurfaceUnsupportedError if there is no usable terminal at `path`."""
    os.close(_open_terminal(path))


@contextlib.asynccontextmanager
async def alone_at(fd: int) -> AsyncIterator[None]:
    """Lock the terminal `fd` for the block; wait while another program asks there.

    Two prompts would share the keys, and one of them may show a secret.
    """
    own = None
    with contextlib.suppress(OSError, SurfaceUnsupportedError):
        own = _open_terminal(_own_name(fd))
    try:
        if own is not None:
            await _take_turn(own)
        yield
    finally:
        if own is not None:
            os.close(own)


async def _take_turn(own: int) -> None:
    """Lock the terminal once no other program has it; go on if the system has no such locks."""
    try:
        lock(own)
    except BlockingIOError:
        holder = find_holder(own)
        whom = "another program" if holder is None else f"process {holder}"
        logger.warning("a question waits until %s has its answer at the same terminal", whom)
        try:
            await wait_for_lock(own)
        except OSError as problem:
            raise SurfaceUnsupportedError(
                f"{whom} asks at the same terminal: {problem.strerror}", lasting=False
            ) from None
    except OSError as problem:
        logger.debug("a terminal cannot be locked: %s", problem)


def _own_name(fd: int) -> str:
    """Return the name that all programs use for the terminal `fd`. Raises OSError.

    /dev/tty is another terminal for each; the system has the number of its device.
    """
    if (name := os.ttyname(fd)) != CONTROLLING:
        return name
    try:
        device = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[4])
    except FileNotFoundError:  # another system
        return next((os.ttyname(each) for each in (0, 1, 2) if os.isatty(each)), "")
    names = (*Path("/dev/pts").glob("*"), *Path("/dev").glob("tty?*"))
    return next((str(each) for each in names if each.stat().st_rdev == device), "")


def forget_keys(fd: int) -> None:
    """Discard what was typed on `fd` before the question appeared."""
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


class _TtyInput:
    """A named terminal as the file that prompt_toolkit reads."""

    encoding = "utf-8"

    def __init__(self, tty: TtyDevice) -> None:
        self.tty = tty

    def fileno(self) -> int:
        return self.tty.fd

    def isatty(self) -> bool:
        return True


class _TtyOutput(_TtyInput):
    """The file that it writes. It has no descriptor, which prompt_toolkit would make blocking."""

    def write(self, words: str) -> None:
        self.tty.put(words)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def fileno(self) -> int:
        raise OSError("a terminal of another's")


def _open_terminal(path: str) -> int:
    """Return a descriptor that never blocks. Raises SurfaceUnsupportedError."""
    try:
        if stat.S_ISCHR(os.stat(path).st_mode):
            fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            if os.isatty(fd):
                return fd
            os.close(fd)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise SurfaceUnsupportedError(
            f"the terminal {path} cannot be opened: {why}. {_TRY}", lasting=False
        ) from None
    raise SurfaceUnsupportedError(f"{path} is no terminal. {_TRY}", lasting=False)


def _hung_up(fd: int) -> bool:
    watched = select.poll()
    watched.register(fd, 0)
    return bool(watched.poll(0))


Device = StdioTerminal | TtyDevice


async def read_line(device: Device) -> bytes | None:
    """Return a line; empty for Ctrl-D, None if the terminal is gone."""
    while True:
        try:
            await anyio.wait_readable(device.fd)
            data = os.read(device.fd, 65_536)
        except BlockingIOError:
            continue
        except OSError:
            return None
        return data or (None if _hung_up(device.fd) else b"")


@contextlib.contextmanager
def _attributes(fd: int, when: int) -> Iterator[list[Any]]:
    """Yield a copy of the terminal's attributes to change; restore them afterwards.

    `when` is the argument of `tcsetattr` for restoring them.
    """
    import termios

    before = termios.tcgetattr(fd)
    try:
        yield list(before)
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, when, before)
