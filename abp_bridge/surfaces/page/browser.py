"""The person's own browser, opened at an address: which commands can do that, and how somebody who
works here over SSH gets to a page of this machine.

Starts short processes, and waits for each with a bound. Whether a browser came is for whoever
serves the address to see.
"""

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
    """Have the first command that can open `address`, which others can read in its arguments.

    Args:
        address: What is opened.
        environ: Names the commands (`BROWSER`) and where they find a desktop.

    Returns:
        The command that says that it did, or still runs after `COMMAND_LIMIT`.

    Raises:
        BrowserError: None can.
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
    """What went wrong. The browser is the person's: it is not ended with us."""
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
    """Whether there is a command to try: what it does, nobody knows before."""
    return any(True for _ in _commands("", environ))


def _split(line: str) -> list[str]:
    """The words of one command of `$BROWSER`; an `&` at its end says what is done anyhow."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote without another
        words = line.split()
    return words[:-1] if words[-1:] == ["&"] else words


def _has_display(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in _DISPLAYS)


def directions(url: str) -> str:
    """How a person who came over SSH gets to `url`, in words; empty where nobody came that way."""
    command = forwarding(url)
    return command and f"If you came over SSH, type this on your own machine first: {command}"


def forwarding(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """The command by which a person who came over SSH gets to `url`, typed on their own machine;
    empty where nobody came that way.
    """
    match environ.get("SSH_CONNECTION", "").split():
        case [_, _, server, port]:
            user = environ.get("USER") or environ.get("LOGNAME")
            address = f"{user}@{server}" if user else server
            page = urlsplit(url).port
            other = [] if port == "22" else ["-p", port]
            return shlex.join(["ssh", "-L", f"{page}:127.0.0.1:{page}", *other, address])
    return ""
