"""Read the file that the user names at a terminal."""

from __future__ import annotations

import os
import shlex
import stat

import anyio
import anyio.to_thread

from abp_bridge.core import file
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError

READ_LIMIT = 10.0  # seconds: a network drive may never answer


class FileInputError(AbpBridgeError):
    """The named file cannot be used; the message says why."""


async def load(typed: str, accept: tuple[str, ...]) -> dict[str, str]:
    """Return the file `typed` as an app gets it (`file.SCHEMA`).

    Args:
        typed: Its name, as typed or dropped into the terminal.
        accept: The permitted media types; empty for any.

    Raises:
        FileInputError: It cannot be used.
    """
    with anyio.move_on_after(READ_LIMIT):
        return file.encode(
            await anyio.to_thread.run_sync(_read, typed, accept, abandon_on_cancel=True)
        )
    raise FileInputError(f"it could not be read within {READ_LIMIT:g} s")


def _read(typed: str, accept: tuple[str, ...]) -> file.File:
    path = _path(typed)
    name = label(os.path.basename(path) or path or "nothing")
    try:
        with open(path, "rb", opener=_open) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise FileInputError(f"{name} is no file")
            mime_type = file.guess_type(path)
            if not file.admits(accept, mime_type):
                raise FileInputError(f"{name} is {mime_type}; it must be {' or '.join(accept)}")
            content = opened.read(file.MAX_SIZE + 1)
    except IsADirectoryError:
        raise FileInputError(f"{name} is a folder; give a file in it") from None
    except FileNotFoundError:
        raise FileInputError(
            f"there is no file {name} there" if path.strip() else "give the name of a file"
        ) from None
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise FileInputError(f"{name} cannot be read: {why}") from None
    if len(content) > file.MAX_SIZE:
        raise FileInputError(f"{name} is too large: at most {file.MAX_SIZE} bytes can be given")
    return file.File(content, mime_type, os.path.basename(path))


def _open(path: str, flags: int) -> int:
    """Open without waiting for a pipe's writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _path(typed: str) -> str:
    """Return a path as typed, or unquoted: a terminal quotes a file that is dropped there."""
    path = os.path.expanduser(typed.strip())
    if path and not os.path.lexists(path):
        try:
            words = shlex.split(typed)
        except ValueError:
            return path
        if len(words) == 1 and os.path.lexists(unquoted := os.path.expanduser(words[0])):
            return unquoted
    return path
