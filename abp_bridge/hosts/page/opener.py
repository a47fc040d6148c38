"""The person's own browser, opened at an address. Starts one short process, and waits for it with a bound."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import anyio
import anyio.to_thread

OPEN_LIMIT = 5.0


async def open_browser(url: str) -> bool:
    """Whether a browser was told to open `url`. The link in it works once, so that it is of no use to whoever sees the command."""
    command = _command()
    return command is not None and await anyio.to_thread.run_sync(_run, [*command, url], abandon_on_cancel=True)


def _run(command: list[str]) -> bool:
    """The browser is the person's: it is not ended with us."""
    null = subprocess.DEVNULL
    try:
        browser = subprocess.Popen(command, start_new_session=True, stdin=null, stdout=null, stderr=null)  # noqa: S603
        return browser.wait(OPEN_LIMIT) == 0
    except subprocess.TimeoutExpired:
        return True  # it stays in the foreground: some do
    except OSError:
        return False


def _command() -> list[str] | None:
    if sys.platform == "darwin":
        return ["open"]
    seen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    found = next(filter(None, map(shutil.which, ("xdg-open", "gio"))), None)
    if not seen or found is None:
        return None
    return [found, *(["open"] if found.endswith("gio") else [])]
