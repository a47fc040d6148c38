"""Open the user's browser at an address, and say how a user who came over SSH reaches a page."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread

from abp_bridge.errors import AbpBridgeError
from abp_bridge.jsonrpc.subprocess import child_environment

COMMAND_LIMIT = 3.0  # seconds for a command that opens a browser; what runs longer is one

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
        problem = await anyio.to_thread.run_sync(_run, command, env, abandon_on_cancel=True)
        if not problem:
            return command[0]
        problems.append(f"{command[0]} {problem}")
    if sys.platform != "darwin" and not _has_display(environ):
        problems.append(f"this process was given neither {' nor '.join(_DISPLAYS)}")
    raise BrowserError("; ".join(problems))


def _run(command: list[str], env: Mapping[str, str]) -> str:
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
