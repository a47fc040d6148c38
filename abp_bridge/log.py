"""Logging to stderr and a log file, without ever blocking on a reader.

Exceptions are written without their messages if those may quote an answer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from abp_bridge.errors import AbpBridgeError

PIPE_BUF = 4096  # bytes: what a pipe that is writable takes at once, without blocking
LEVELS = ("debug", "info", "warning", "error")

logger = logging.getLogger(__name__)


class LogFileError(AbpBridgeError):
    """The log cannot be written to the file that was named; the message says why."""


def print_message(sentence: str) -> None:
    """Say a plain sentence to the person at the terminal, as far as stderr takes it at once."""
    _write_nowait(2, f"abp-bridge: {sentence}\n".encode(errors="backslashreplace"))


def warn_if_interactive(who: str) -> None:
    """Tell a user who typed the command at a terminal what it waits for."""
    if os.isatty(0):
        print_message(
            f"waiting for {who} on stdin. It is launched by programs; to see it work here:"
            " abp-bridge demo. Ctrl-C ends it"
        )


def configure(level: str = "warning", file: str | None = None, *, own_only: bool = False) -> None:
    """Send all records to stderr, and to `file` if given; of other libraries only warnings.

    Args:
        own_only: Keep other libraries' records off stderr.

    Raises:
        LogFileError: `file` cannot be written.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, NonBlockingHandler)]:
        root.removeHandler(old)
    stderr = NonBlockingHandler(2, plain=os.isatty(2))
    if own_only:
        stderr.addFilter(logging.Filter("abp_bridge"))
    root.addHandler(stderr)
    if file is not None:
        root.addHandler(NonBlockingHandler(_open_log(file), stamped=True))
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("abp_bridge").setLevel(number)
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread


class NonBlockingHandler(logging.Handler):
    """Write each record without blocking, or drop it and report the count with the next.

    A record longer than `PIPE_BUF` is written in several parts.
    """

    def __init__(self, descriptor: int, *, stamped: bool = False, plain: bool = False) -> None:
        """Write to `descriptor`; `stamped` adds time and process, `plain` omits our level and
        logger.
        """
        super().__init__()
        self._formatter = _Formatter(stamped, plain)
        self.setFormatter(self._formatter)
        self._descriptor = descriptor
        self._lost = 0
        self._cut = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record` (`logging.Handler`). Never raises and never waits."""
        try:
            text = self.format(record)
        except Exception:  # a record of another library whose arguments do not fit its words
            head = self._formatter.head(logging.ERROR, __name__)
            text = f"{head}a record of {record.name} cannot be written"
        data = f"{self._said_of_lost()}{text}\n".encode(errors="backslashreplace")
        written = _write_nowait(self._descriptor, data)
        if written == len(data):
            self._lost, self._cut = 0, False
        else:
            self._lost += 1
            self._cut = self._cut or bool(written)

    def _said_of_lost(self) -> str:
        if not self._lost:
            return ""
        words = f"{self._lost} records before this one were lost or cut: nobody read them in time"
        head = self._formatter.head(logging.WARNING, __name__)
        return f"{chr(10) if self._cut else ''}{head}{words}\n"


class _Formatter(logging.Formatter):
    """`abp-bridge: LEVEL logger: message`, and the traceback in the lines after it."""

    def __init__(self, stamped: bool, plain: bool) -> None:
        super().__init__()
        self._stamped = stamped
        self._plain = plain

    def head(self, level: int, name: str) -> str:
        """What a record of this level begins with, from the logger of this name."""
        if self._plain and level >= logging.WARNING and name.partition(".")[0] == "abp_bridge":
            return "abp-bridge: "
        return f"abp-bridge: {logging.getLevelName(level)} {name}: "

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{_stamp(record)} {record.process} " if self._stamped else ""
        words = _printable(_message(record))
        lines = [f"{stamp}{self.head(record.levelno, record.name)}{words}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines += format_exception(record.exc_info[1])
        return "\n".join(lines)


def _stamp(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03}Z"


def _message(record: logging.LogRecord) -> str:
    """Another library's words only as far as no data can be in them."""
    if record.name.partition(".")[0] == "abp_bridge":
        return record.getMessage()
    return re.split(r"[\n(:={\[\"'%<]", str(record.msg), maxsplit=1)[0].strip()


def _printable(words: str) -> str:
    """One line that moves no cursor."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode()
        for letter in words
    )


# What the interpreter itself says in these names types and attributes of the program, no values.
_PLAIN = (
    AttributeError,
    BaseExceptionGroup,
    ImportError,
    IndexError,
    NameError,
    RecursionError,
    TypeError,
    ZeroDivisionError,
)


def format_exception(problem: BaseException, *, written: set[int] | None = None) -> Iterator[str]:
    """Yield a traceback's lines with its causes, without messages that may quote a value.

    `written` has the `id` of exceptions written already, as groups may share causes.
    """
    written = set() if written is None else written
    chain = list[BaseException]()
    before: BaseException | None = problem
    while before is not None and id(before) not in written:
        written.add(id(before))
        chain.append(before)
        before = before.__cause__ or (None if before.__suppress_context__ else before.__context__)
    if before is not None:
        yield f"{_type_name(before)}, as written above"
    for each in reversed(chain):
        if each is not chain[-1] or before is not None:
            yield "The above exception led to this one:"
        yield "Traceback (most recent call last):"
        yield from "".join(traceback.format_tb(each.__traceback__)).splitlines()
        yield f"{_type_name(each)}{_said(each)}"
        parts = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for number, inner in enumerate(parts, 1):
            yield f"  {number} of {len(parts)}:"
            yield from (f"    {line}" for line in format_exception(inner, written=written))


def _type_name(problem: BaseException) -> str:
    return f"{type(problem).__module__}.{type(problem).__qualname__}".removeprefix("builtins.")


def _said(problem: BaseException) -> str:
    if type(problem) in _PLAIN or isinstance(problem, BaseExceptionGroup):
        return f": {_printable(str(problem))}"
    if isinstance(problem, OSError) and problem.strerror:
        return f": {_printable(str(problem.strerror))}"  # without the name of a file
    return " (its message is left out: it may quote an answer)" if str(problem) else ""


def _write_nowait(descriptor: int, data: bytes) -> int:
    """Write as far as it is taken at once. Returns the number of bytes."""
    written = 0
    if not hasattr(os, "ttyname"):  # Windows, where nothing but a socket can be polled
        with contextlib.suppress(OSError):
            written = os.write(descriptor, data)
        return written
    with contextlib.suppress(OSError, ValueError), open_nonblocking(descriptor) as ours:
        while written < len(data) and select.select([], [ours], [], 0)[1]:
            written += os.write(ours, data[written : written + PIPE_BUF])
    return written


@contextlib.contextmanager
def open_nonblocking(descriptor: int) -> Iterator[int]:
    """Yield a descriptor for the same file that does not block if it is a terminal.

    Setting O_NONBLOCK on the original would affect other processes that share it.
    """
    ours = descriptor
    with contextlib.suppress(OSError):  # no terminal, or none that can be opened here
        ours = os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        yield ours
    finally:
        if ours != descriptor:
            os.close(ours)


def _open_log(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for name in ("O_CLOEXEC", "O_NONBLOCK"):  # Windows has neither
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise LogFileError(f"--log-file {path!r} cannot be written: {why}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LogFileError(f"--log-file {path!r} is no file: it must be one, or not be there yet")
    return descriptor


def _log_unraisable(problem: Any) -> None:
    logger.error("an exception could not be raised", exc_info=problem.exc_value)


def _log_thread(problem: Any) -> None:
    logger.error("a thread ended", exc_info=problem.exc_value)
