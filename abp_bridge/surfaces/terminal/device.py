"""Where the person sits: this process's own stdin and stdout, or a terminal that was named.

Reads and writes there; knows nothing of questions.

A named terminal is opened with the first question. Writing to it never waits: what a stopped one
(Ctrl-S) does not take is kept, up to a bound, until it does.
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
    """This process's own stdin and stdout.

    Attributes:
        moves: Whether its cursor can be moved.
        encoding: Of what is typed.
        is_open: Whether something can be said there.
    """

    is_open = True

    def __init__(self) -> None:
        self.moves = can_move()
        self.encoding = sys.stdin.encoding if sys.stdin is not None else "utf-8"

    @property
    def fd(self) -> int:
        """What is read from."""
        return sys.stdin.fileno()

    @property
    def columns(self) -> int:
        """How wide it is now."""
        return width()

    def open(self) -> None:
        """Make it ready for a question: it is."""

    def write(self, words: str) -> None:
        """Write at once; a terminal that is gone is found out by reading."""
        with contextlib.suppress(OSError):  # a terminal that is gone sends SIGHUP too
            sys.stdout.write(words)
            sys.stdout.flush()

    def keys(self) -> AbstractContextManager[None]:
        """prompt_toolkit's applications are here anyway."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def lines(self, *, secret: bool) -> Iterator[None]:
        """The terminal gives whole lines, and shows them unless they are `secret`, for as long as
        the block lasts.
        """
        if not secret:
            yield
            return
        import termios

        with _attributes(self.fd, termios.TCSADRAIN) as hidden:
            hidden[3] &= ~termios.ECHO
            termios.tcsetattr(self.fd, termios.TCSADRAIN, hidden)
            yield

    def close_lost(self) -> None:
        """It was read from, and has gone: whoever started us with it knows."""


class TtyDevice:
    """The terminal at `path`.

    Not ours: its signals go to whoever runs there, so that Ctrl-C is read as a key.

    Attributes:
        moves: Whether its cursor can be moved.
        encoding: Of what is typed.
        fd: What is read from; negative while it is not open.
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
        """Whether something can be said there."""
        return self.fd >= 0

    @property
    def columns(self) -> int:
        """How wide it is now."""
        return self._size()[0]

    def open(self) -> None:
        """Open it with the first question.

        It stays open: the name of one that was closed may be somebody else's soon.

        Raises:
            SurfaceUnsupportedError: It cannot be opened, has gone, or another program has it.
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
        """Close it for good, and say so.

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

    def write(self, words: str) -> None:
        """Write lines, each from the first column on."""
        self.put(words.replace("\n", "\r\n"))

    @contextlib.contextmanager
    def keys(self) -> Iterator[None]:
        """prompt_toolkit reads and writes here as long as the block lasts."""
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
        """The terminal gives whole lines, Ctrl-C among them.

        However the terminal was left by whoever runs there, it is put in order, and back.
        """
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
    """The name of the terminal that this process was started from; None when there is none."""
    for fd in (None, 2, 0, 1):
        with contextlib.suppress(OSError, SurfaceUnsupportedError):
            name = CONTROLLING if fd is None else os.ttyname(fd)
            check_terminal(name)
            return name
    return None


def check_terminal(path: str) -> None:
    """Open the terminal at `path`, and close it again.

    Raises:
        SurfaceUnsupportedError: It cannot be opened, or is none.
    """
    os.close(_open_terminal(path))


@contextlib.asynccontextmanager
async def alone_at(fd: int) -> AsyncIterator[None]:
    """Wait until no other program asks at the terminal that `fd` is, and keep them waiting as long
    as the block: of two prompts each has some of the keys, and one of them may show a secret.
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
    """Lock the terminal, once no other program has it; one that no system locks is free."""
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
    """The name that every program at the terminal `fd` has for it. Raises OSError.

    What /dev/tty is differs from one to the next: the system has the number of its device.
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
    """Throw away what was typed on `fd` before the question was there."""
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


class _TtyInput:
    """A named terminal as the file object that prompt_toolkit reads from."""

    encoding = "utf-8"

    def __init__(self, tty: TtyDevice) -> None:
        self.tty = tty

    def fileno(self) -> int:
        return self.tty.fd

    def isatty(self) -> bool:
        return True


class _TtyOutput(_TtyInput):
    """And that it writes to. It has no descriptor, which would be made to block."""

    def write(self, words: str) -> None:
        self.tty.put(words)

    def flush(self) -> None:
        """Nothing is kept back here."""

    def fileno(self) -> int:
        raise OSError("a terminal of another's")


def _open_terminal(path: str) -> int:
    """A descriptor that never blocks. Raises SurfaceUnsupportedError."""
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
    """A line as the terminal edited it; empty for Ctrl-D, None when the terminal has gone."""
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
    """A copy of the terminal's attributes, to change and set; after the block they are as before.

    `when` is termios' word for the moment at which they are put back.
    """
    import termios

    before = termios.tcgetattr(fd)
    try:
        yield list(before)
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, when, before)
