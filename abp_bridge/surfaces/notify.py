"""Notify the user that a question waits: on the desktop, by a bell, and through services they
chose.

A notification names the requester; it has the question's text only if the user set that.
"""

from __future__ import annotations

import contextlib
import html
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from abp_bridge.core.question import Question
from abp_bridge.core.sanitize import message
from abp_bridge.errors import AbpBridgeError, install_command
from abp_bridge.jsonrpc.subprocess import child_environment
from abp_bridge.session.context import (
    AttemptEvent,
    InputRequestEvent,
    InputResolvedEvent,
    Observer,
    SessionEvent,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

SEND_LIMIT = 10.0  # seconds for one place to take a notification
# seconds for a desktop to take one that holds a code: others can read it in the command's arguments
CODE_LIMIT = 3.0
# seconds in which a desktop has usually taken or refused one; a question waits no longer for it
GRACE = 0.5
MAX_TEXT = 500  # characters of a question's words
CONTROLLING = "/dev/tty"
_NOBODY = ("mock", "mcp-sampling", "sampling")  # the surfaces where no person is asked
_PLACES = {"page": "on a page in your browser", "terminal": "at your terminal"}
_AT_HOST = "where your agent runs"

_MAC = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


_Send = Callable[[str, str], Awaitable[None]]


class NotificationError(AbpBridgeError):
    """A notification was not delivered; the message says why."""


@dataclass(frozen=True, slots=True)
class Channels:
    """Where notifications go.

    Attributes:
        desktop: The desktop and a bell at the terminal `tty`.
        urls: Addresses for apprise.
        with_text: Whether they contain the question.
    """

    desktop: bool = False
    tty: str | None = None
    urls: Sequence[str] = ()
    with_text: bool = False


class Notifier:
    """Notify the user once of each question; simultaneous ones share a notification."""

    def __init__(self, tasks: TaskGroup, channels: Channels) -> None:
        self._tasks = tasks
        self._channels = channels
        self._waiting: list[tuple[Question, str]] = []
        self._sending = False
        # one thread, of no limit that others share: an apprise that hangs keeps its own
        self._threads = anyio.CapacityLimiter(1)

    def observer(self) -> Observer:
        """Return an observer of one session, which notifies when the user is asked."""
        asked: dict[str, Question] = {}  # not told yet; another session has the same names

        def observe(event: SessionEvent) -> None:
            match event:
                case InputRequestEvent(question=question):
                    asked[question.id] = question
                case InputResolvedEvent(question=question):
                    asked.pop(question.id, None)
                case AttemptEvent(question=id, route=route) if route.split()[0] not in _NOBODY:
                    if (untold := asked.pop(id, None)) is not None:
                        self._add(untold, _PLACES.get(route.split()[0], _AT_HOST))
                case _:
                    pass

        return observe

    def _add(self, question: Question, place: str) -> None:
        self._waiting.append((question, place))
        if not self._sending:
            self._sending = True
            self._tasks.start_soon(self._send_all)

    async def _send_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            title, body = _describe(waiting, with_text=self._channels.with_text)
            if self._channels.desktop:
                _ring(self._channels.tty or CONTROLLING)
                await self._send(_show_on_desktop, title, body)
            if self._channels.urls:
                await self._send(self._push_beside, title, body)
        self._sending = False

    async def _send(self, send: _Send, title: str, body: str) -> None:
        try:
            with anyio.fail_after(SEND_LIMIT):
                await send(title, body)
        except (NotificationError, OSError) as problem:
            why = str(problem) or "it took too long"
            logger.warning("a notification of a question was not sent: %s", why)

    async def _push_beside(self, title: str, body: str) -> None:
        await anyio.to_thread.run_sync(
            self._push, title, body, abandon_on_cancel=True, limiter=self._threads
        )

    def _push(self, title: str, body: str) -> None:
        """Send with apprise. Blocks."""
        try:
            services = import_module("apprise").Apprise()
            unread = [url for url in self._channels.urls if not services.add(url)]
            sent = services.notify(body, title)
        except ImportError:
            words = f"--notify-url needs apprise: {install_command('notify')}"
            raise NotificationError(words) from None
        except Exception as problem:  # whatever it is: its words may hold an address
            raise NotificationError(f"apprise failed ({type(problem).__name__})") from None
        if unread or not sent:  # which address, is not said: it may hold a password
            why = "cannot read an address" if unread else "did not get it through"
            raise NotificationError(f"apprise {why}")


async def show_on_desktop(
    tasks: TaskGroup, title: str, body: str, on_failure: Callable[[], None]
) -> bool:
    """Show a notification with a code; wait at most `GRACE` seconds for it.

    Returns:
        False if no desktop took it; `on_failure` is called if that is known only later.
    """
    ended, shown, is_late = anyio.Event(), True, False

    async def send() -> None:
        nonlocal shown
        try:
            with anyio.fail_after(CODE_LIMIT):
                await _show_on_desktop(title, body)
        except (NotificationError, OSError):
            shown = False
            if is_late:
                on_failure()
        ended.set()

    tasks.start_soon(send)
    with anyio.move_on_after(GRACE):
        await ended.wait()
    is_late = True
    return shown


async def _show_on_desktop(title: str, body: str) -> None:
    """Raises NotificationError or OSError."""
    if sys.platform == "darwin":
        command = ["osascript", *(word for line in _MAC for word in ("-e", line)), title, body]
    else:  # its body has markup
        command = ["notify-send", "--app-name=abp-bridge", "--", title, html.escape(body)]
    try:
        ended = await anyio.run_process(
            [word.encode() for word in command],  # a desktop reads UTF-8, whatever our locale is
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            check=False,
            env=child_environment(),
        )
    except ValueError as problem:  # half a character, or a null: no command can be given them
        words = f"{command[0]} cannot be given its words ({type(problem).__name__})"
        raise NotificationError(words) from None
    if ended.returncode:
        raise NotificationError(f"{command[0]} failed (exit code {ended.returncode})")


def _describe(waiting: Sequence[tuple[Question, str]], *, with_text: bool) -> tuple[str, str]:
    """Return the title and the body."""
    (question, place), count = waiting[0], len(waiting)
    if count > 1:
        return f"abp-bridge: {count} questions wait", f"Answer {place}."
    words = f"{message(question.message, MAX_TEXT)}\n" if with_text else ""
    return f"abp-bridge: {question.asker} asks", f"{words}Answer {place}."


def _ring(terminal: str) -> None:
    """Ring the bell of a terminal, if it exists and does not block."""
    with contextlib.suppress(OSError):
        bell = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(bell, b"\a")
        finally:
            os.close(bell)
