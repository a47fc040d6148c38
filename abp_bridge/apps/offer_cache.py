"""Remember what each app offered, for hosts that list tools only before an app is connected.

The folder is readable by this user only: a key, and a file for each app, named by a keyed digest of
the target, which may hold secrets. Cached offers are decoded like an app's own messages.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shlex
import sys
from pathlib import Path

from abp_bridge.errors import RemoteProtocolError
from abp_bridge.jsonrpc.files import (
    PlaceError,
    find_problem,
    private_folder,
    read_private,
    write_private,
)
from abp_bridge.protocols.offer import MAX_SIZE, Offer, decode_offer, encode_offer

logger = logging.getLogger(__name__)

MAX_APPS = 100  # files: with `MAX_SIZE`, what the folder may come to; the oldest goes
_KEY, _KEY_SIZE = "key", 32
_COMMANDS = ("stdio:", "mcp:", "acp:")


def cache_folder() -> Path:
    """Return our folder in the user's cache folder.

    Raises:
        RuntimeError: The user has no home folder.
    """
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "abp-bridge"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "abp-bridge"


class OfferCache:
    """The cache in `folder` or `cache_folder()`. It never raises: a broken cache is empty."""

    def __init__(self, folder: str | None = None) -> None:
        self._named = folder
        self._known: dict[str, Offer | None] = {}

    def recall(self, target: str) -> Offer | None:
        """Return the last offer of `target`, as this process first read it."""
        if target not in self._known:
            try:
                content = read_private(self._path(target, make=False), MAX_SIZE)
                self._known[target] = decode_offer(content)
            except FileNotFoundError:
                self._known[target] = None
            except (OSError, RuntimeError, PlaceError, RemoteProtocolError) as problem:
                logger.info("what an app offered last is not known: %s", problem)
                self._known[target] = None
        return self._known[target]

    def remember(self, target: str, offer: Offer) -> None:
        """Save an offer for later sessions."""
        try:
            if (content := encode_offer(offer)) is None:
                logger.info("what an app offers is not kept: it has more than %d bytes", MAX_SIZE)
                self._path(target, make=True).unlink(missing_ok=True)
                return
            path = self._path(target, make=True)
            write_private(path, content)
            self._sweep(path.parent)
        except (OSError, RuntimeError, PlaceError) as problem:
            logger.info("what an app offers is not kept: %s", problem)

    def _path(self, target: str, *, make: bool) -> Path:
        folder = Path(self._named) if self._named is not None else cache_folder()
        if make:
            private_folder(folder)
            _make_key(folder)
        elif folder.exists() and (problem := find_problem(folder)):
            raise PlaceError(problem)
        whole = "\0".join((target, *_place(target))).encode(errors="surrogateescape")
        digest = hashlib.blake2b(whole, key=_read_key(folder), digest_size=16).hexdigest()
        return folder / f"{digest}.json"

    def _sweep(self, folder: Path) -> None:
        files = [each for each in folder.iterdir() if each.suffix == ".json"]
        if len(files) <= MAX_APPS:
            return
        for each in sorted(files, key=_age)[: len(files) - MAX_APPS]:
            each.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # another process took it away
        return 0.0


def _place(target: str) -> tuple[str, ...]:
    """Return the current folder for a command with a relative path, which depends on it."""
    scheme, _, command = target.partition(":")
    if f"{scheme.lower()}:" not in _COMMANDS:
        return ()
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    is_here = any(not os.path.isabs(word) and os.path.exists(word) for word in words)
    return (os.getcwd(),) if is_here else ()


def _make_key(folder: Path) -> None:
    """Create the key, without which digests could be guessed."""
    path = folder / _KEY
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            write_private(path, secrets.token_bytes(_KEY_SIZE), new=True)


def _read_key(folder: Path) -> bytes:
    """Return the key; raise OSError or PlaceError if it is unreadable, shared or invalid."""
    path = folder / _KEY
    key = read_private(path, _KEY_SIZE)
    if len(key) != _KEY_SIZE:
        raise PlaceError(f"{path} is no key of ours")
    return key
