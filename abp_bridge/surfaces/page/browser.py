"""How the user's browser reaches the page: commands that open it, links and codes, and its tabs.

A browser gets one tab for all questions. Over SSH, `directions` says how to forward the port.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.subprocess import child_environment
from abp_bridge.session.surface import Ending

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from abp_bridge.surfaces.http import Server, Streams

COMMAND_LIMIT = 3.0  # seconds for a command to end; one that opens a browser may be the browser
OPEN_LIMIT = 5.0  # seconds for a browser to come, before the user gets a link
LATE_LIMIT = 25.0  # seconds more if the user cannot get a link: hosts wait for 60
CLOSED_LIMIT = 10.0  # seconds without a tab, for a user who reloads or restores it
TAB_LIMIT = 2.0  # seconds for the tab of a page that was sent to begin to listen
MAX_ENDED = 200  # ended questions that the page remembers
MAX_CODES = 5  # wrong codes, after which a question accepts none
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # they form no words and look like no digits
CODE_LENGTH = 8  # letters: 34 bits against `MAX_CODES` guesses
SHORTENED = 200  # characters of an ended question that are kept

# In $BROWSER for a terminal: without one they read the page, and nobody sees it.
_TEXT_BROWSERS = {"elinks", "links", "links2", "lynx", "w3m", "www-browser"}
_WSL = (("wslview",),)
_DESKTOP = (("xdg-open",), ("gio", "open"), (sys.executable, "-m", "webbrowser"))
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


class BrowserError(AbpBridgeError):
    """No command opens a browser here; the message says why."""


async def open_browser(address: str, environ: Mapping[str, str] = os.environ) -> str:
    """Open `address` with the first command that can; other users can read it in its arguments.

    Returns:
        The command that succeeded, or still runs after `COMMAND_LIMIT`.

    Raises:
        BrowserError: No command can.
    """
    # what is for a terminal gets none, and what asks $BROWSER again would ask in vain
    env = child_environment(environ)
    for name in ("BROWSER", "TERM"):
        env.pop(name, None)
    problems = []
    for command in _commands(address, environ):
        problem = await anyio.to_thread.run_sync(_run_command, command, env, abandon_on_cancel=True)
        if not problem:
            return command[0]
        problems.append(f"{command[0]} {problem}")
    if sys.platform != "darwin" and not _has_display(environ):
        problems.append(f"this process was given neither {' nor '.join(_DISPLAYS)}")
    raise BrowserError("; ".join(problems))


def _run_command(command: list[str], env: Mapping[str, str]) -> str:
    """Return what went wrong. The browser outlives this process."""
    null = subprocess.DEVNULL
    try:
        browser = subprocess.Popen(  # noqa: S603
            command, env=env, start_new_session=True, stdin=null, stdout=null, stderr=null
        )
        code = browser.wait(COMMAND_LIMIT)
    except subprocess.TimeoutExpired:
        return ""  # it stays in the foreground: some do
    except OSError as problem:
        return f"cannot be run ({problem.strerror})"
    return f"failed (exit code {code})" if code else ""


def _commands(address: str, environ: Mapping[str, str]) -> Iterator[list[str]]:
    for line in environ.get("BROWSER", "").split(os.pathsep):
        words = _split(line)
        if words and Path(words[0]).name not in _TEXT_BROWSERS:
            filled = [word.replace("%s", address) for word in words]
            yield filled if filled != words else [*words, address]
    known = (("open",),) if sys.platform == "darwin" else _WSL
    for command in (*known, *(_DESKTOP if _has_display(environ) else ())):
        if shutil.which(command[0], path=environ.get("PATH")):
            yield [*command, address]


def can_open(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is a command to try."""
    return any(True for _ in _commands("", environ))


def _split(line: str) -> list[str]:
    """Return the words of one command of `$BROWSER`, without an `&` at the end."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote without another
        words = line.split()
    return words[:-1] if words[-1:] == ["&"] else words


def _has_display(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in _DISPLAYS)


def directions(url: str) -> str:
    """Return how to reach `url` over SSH, as text; empty for a local user."""
    command = forwarding(url)
    return command and f"If you came over SSH, type this on your own machine first: {command}"


def forwarding(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the ssh command that forwards `url` to the user's machine; empty for a local user."""
    match environ.get("SSH_CONNECTION", "").split():
        case [_, _, server, port]:
            user = environ.get("USER") or environ.get("LOGNAME")
            address = f"{user}@{server}" if user else server
            page = urlsplit(url).port
            other = [] if port == "22" else ["-p", port]
            return shlex.join(["ssh", "-L", f"{page}:127.0.0.1:{page}", *other, address])
    return ""


def _new_code() -> str:
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


@dataclass(slots=True)
class Link:
    """The way to one question; it outlives the question.

    Attributes:
        address: The path of the question.
        asked: The beginning of the question.
        token: Admits one browser, once.
        code: Does the same at another path; typed by the user.
        mark: The cookie of the admitted browser; empty before.
        ending: How the question ended; None while it is open.
        wrong: How many wrong codes were given.
        inbox: The inbox's address, if the user came from there.
    """

    id: str
    address: str
    asked: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    code: str = field(default_factory=_new_code)
    mark: str = ""
    ending: Ending | None = None
    wrong: int = 0
    inbox: str = ""

    def use(self) -> str:
        """Admit one browser and return its mark."""
        self.mark = secrets.token_urlsafe(32)
        return self.mark

    def is_code(self, given: str) -> bool:
        """Return whether `given` is the code, in any spelling; count a wrong one."""
        right = same("".join(filter(str.isalpha, given.upper())), self.code)
        self.wrong += not right
        return right


class Links:
    """All links of one page; the questions are below `home`."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._by_token: dict[str, Link] = {}
        self._by_id: dict[str, Link] = {}
        self._renewed: dict[str, str] = {}  # the token that was made last, by id

    def add(self, message: str) -> Link:
        id = secrets.token_urlsafe(12)
        link = Link(id, f"{self._home}q/{id}", message.partition("\n")[0][:SHORTENED])
        self._by_token[link.token] = self._by_id[id] = link
        return link

    def renew(self, link: Link) -> Link:
        """Make another link to the question; the previous renewed link stops working."""
        self._by_token.pop(self._renewed.get(link.id, ""), None)
        again = Link(link.id, link.address, link.asked)
        self._by_token[again.token] = again
        self._renewed[link.id] = again.token
        return again

    def by_token(self, token: str) -> Link | None:
        link = self._by_token.get(token)
        if link is not None:
            link.ending = self._by_id[link.id].ending
        return link

    def by_id(self, id: str) -> Link | None:
        return self._by_id.get(id)

    @property
    def last(self) -> Link | None:
        return next(reversed(self._by_id.values()), None)

    def forget_old(self, is_open: Container[str]) -> None:
        """Forget the oldest ended questions."""
        over = [link for link in self._by_id.values() if link.id not in is_open]
        for link in over[:-MAX_ENDED]:
            del self._by_id[link.id], self._by_token[link.token]
            self._by_token.pop(self._renewed.pop(link.id, ""), None)


def same(given: str, wanted: str) -> bool:
    """Compare two secrets in constant time."""
    return secrets.compare_digest(given.encode(), wanted.encode())


@dataclass(slots=True)
class Opening:
    """One attempt to open a browser; all questions asked meanwhile share it.

    `address` works once. `problem` says why it failed once it is `done`; `command` may still bring
    a
    browser.
    """

    address: str
    came: anyio.Event
    done: anyio.Event
    command: str = ""
    problem: str = ""

    @property
    def path(self) -> str:
        return urlsplit(self.address).path


class Visits:
    """The user's tabs at the page of `server`, which listen to its `streams`."""

    def __init__(self, tasks: TaskGroup, server: Server, streams: Streams) -> None:
        self.opening: Opening | None = None  # the last one
        self._tasks = tasks
        self._server = server
        self._streams = streams
        self._seen = -inf  # when the person's browser last asked for a page
        self._tabs: set[str] = set()  # that say that they are open
        self._gone, self._back = anyio.Event(), anyio.Event()  # of the last tab

    async def open_browser(self) -> str:
        """Open the page in one tab for all questions; return why that failed, or nothing."""
        with anyio.move_on_after(OPEN_LIMIT):
            await self._streams.wait_idle()  # a tab that closes now has not shown it
        listens_until = self._seen + TAB_LIMIT
        if not self._streams.open and (left := listens_until - anyio.current_time()) > 0:
            await anyio.sleep(left)
        if self._streams.open:  # a tab that shows what is asked next
            return ""
        if (opening := self.opening) is None or opening.done.is_set():
            address, came = f"{self._server.url}/go/{secrets.token_urlsafe(8)}", anyio.Event()
            if opening is not None and not opening.came.is_set():
                address, came = opening.address, opening.came  # its browser may be slow
            opening = self.opening = Opening(address, came, anyio.Event())
            self._tasks.start_soon(self._wait_browser, opening)
        await opening.done.wait()
        return opening.problem

    async def _wait_browser(self, opening: Opening) -> None:
        try:
            with anyio.move_on_after(OPEN_LIMIT):
                opening.command = await open_browser(opening.address)
                await opening.came.wait()
        except BrowserError as problem:
            opening.problem = f"No browser could be opened: {problem}"
        else:
            if not opening.came.is_set():
                command = opening.command or "its command"
                opening.problem = f"No browser could be opened: {command} ran, and none came"
        opening.done.set()

    async def wait_late_browser(self) -> bool:
        """Return whether a slow browser comes within `LATE_LIMIT`."""
        opening = self.opening
        if opening is None or not opening.command:
            return False
        with anyio.move_on_after(LATE_LIMIT):
            await opening.came.wait()
        return opening.came.is_set()

    async def wait_closed(self) -> None:
        """Wait until the last tab reports that it closes and none returns in `CLOSED_LIMIT`.

        Without scripts no tab reports, so this never returns.
        """
        while True:
            gone, back = self._gone, self._back
            await gone.wait()
            with anyio.move_on_after(CLOSED_LIMIT):
                await back.wait()
                continue
            return

    def mark_seen(self) -> None:
        """Note that the user's browser made a request."""
        self._seen = anyio.current_time()
        if self._gone.is_set():
            self._back.set()
            self._gone, self._back = anyio.Event(), anyio.Event()

    def come(self, tab: str) -> None:
        self._tabs.add(tab)

    def leave(self, tab: str) -> None:
        """Forget a tab that was closed or shows another page; ignore an unknown name."""
        if tab in self._tabs:
            self._tabs.remove(tab)
            if not self._tabs:
                self._gone.set()
