"""The person's own browser, opened at an address.

Starts one short process, and waits for it with a bound; keeps a file as long as it is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import anyio
import anyio.to_thread

OPEN_LIMIT = 5.0  # seconds for the command that opens a browser


@contextmanager
def leading_to(url: str) -> Iterator[str]:
    """The address of a file that leads a browser to `url`, for as long as the block lasts.

    A command and its arguments can be read by everybody on this machine, and a link works for
    whoever is first; the file is its owner's alone.
    """
    with tempfile.NamedTemporaryFile("w", prefix="abp-", suffix=".html") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><title>abp-bridge</title><meta'
            f' http-equiv="refresh" content="0; url={escape(url)}">'
        )
        file.flush()
        yield Path(file.name).as_uri()


async def open_browser(address: str) -> bool:
    """Whether a browser was told to open `address`."""
    command = _command()
    return command is not None and await anyio.to_thread.run_sync(
        _run, [*command, address], abandon_on_cancel=True
    )


def _run(command: list[str]) -> bool:
    """The browser is the person's: it is not ended with us."""
    null = subprocess.DEVNULL
    try:
        browser = subprocess.Popen(  # noqa: S603
            command, start_new_session=True, stdin=null, stdout=null, stderr=null
        )
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
