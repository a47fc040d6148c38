"""Changes of a configuration file: contents in, contents out, or `FormatError`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object
from abp_bridge.setup.entries import Server, Wanted
from abp_bridge.setup.formats.document import Document
from abp_bridge.setup.formats.text import FormatError, find_value


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file.

    Attributes:
        before: Its content; None if the file does not exist.
        after: Its new content; None to remove the file.
        keeps_backup: Keep the existing backup.
        exact: The file is again as it was before the install.
        left: Members we added to the user's entry, and that stay.
    """

    before: bytes | None
    after: bytes | None
    keeps_backup: bool = False
    exact: bool = True
    left: tuple[str, ...] = ()

    @property
    def is_one(self) -> bool:
        return self.before != self.after


def install(
    format: str, before: bytes | None, wanted: Wanted, backup: bytes | None = None
) -> Change:
    """Add an entry, or update ours and keep the user's changes."""
    document = Document(before or b"", format)
    there = document.find(wanted.path)
    if there is None:
        document.insert(wanted.path, wanted.entry)
        return Change(before, document.content)
    if not isinstance(there, Mapping):
        raise FormatError(f"{'.'.join(wanted.path)} is no object")
    keeps = _is_way_back(format, backup, wanted.path, there, before or b"")
    for name, each in wanted.set.items():
        document.set((*wanted.path, name), each)
    for name, each in wanted.filled.items():
        document.fill((*wanted.path, name), each)
    return Change(before, document.content, keeps_backup=keeps)


def uninstall(
    format: str, before: bytes, path: tuple[str, ...], backup: bytes | None = None
) -> Change:
    """Remove an entry, restoring the exact bytes if nothing else has changed."""
    entry = Document(before, format).find(path)
    if _is_way_back(format, backup, path, entry, before):
        return Change(before, backup, keeps_backup=True)
    after = _cut(format, before, path, backup)
    return Change(before, after, exact=_explains(format, after, path, entry, before))


def wrap(
    format: str, before: bytes, server: Server, members: JsonObject, added: JsonObject
) -> Change:
    """Set a server's command to `members`, and fill in missing members from `added`."""
    document = Document(before, format)
    for name, each in members.items():
        document.set((*server.path, name), each)
    for name, each in added.items():
        document.fill((*server.path, name), each)
    return Change(before, document.content)


def unwrap(
    format: str,
    before: bytes,
    server: Server,
    members: JsonObject,
    *,
    added: Collection[str],
    backup: bytes | None = None,
    originals: Sequence[Server] = (),
) -> Change:
    """Undo `wrap`: restore the backup if only wrapped servers differ, else the command alone.

    Args:
        members: The server's own command.
        added: Members that `wrap` may have added.
        originals: The servers in the backup that are wrapped now and otherwise unchanged.
    """
    others = [each for each in originals if each != server]
    if backup is not None and len(others) < len(originals):
        with suppress(FormatError):
            if _with_entries(format, backup, originals) == before:
                after = _with_entries(format, backup, others)
                return Change(before, after, keeps_backup=True)
    document = Document(before, format)
    for name, each in members.items():
        document.set((*server.path, name), each)
    left = tuple(name for name in added if name in as_object(server.entry))
    return Change(before, document.content, exact=not left, left=left)


def _with_entries(format: str, content: bytes, servers: Iterable[Server]) -> bytes:
    """A content in which these servers are as they are here."""
    document = Document(content, format)
    for server in servers:
        for name, each in as_object(server.entry).items():
            document.set((*server.path, name), each)
    return document.content


def _is_way_back(
    format: str, backup: bytes | None, path: tuple[str, ...], entry: JsonValue, content: bytes
) -> bool:
    """Whether a file was its backup, or without one was not there, before this entry came."""
    if _explains(format, b"" if backup is None else backup, path, entry, content):
        return True
    return backup is not None and _cut(format, content, path, backup) == backup


def _cut(format: str, content: bytes, path: tuple[str, ...], backup: bytes | None) -> bytes:
    """Remove the entry, and empty objects around it that the backup lacks."""
    document = Document(content, format)
    document.cut(path)
    earlier = None
    with suppress(FormatError):
        earlier = None if backup is None else Document(backup, format)
    for depth in range(len(path) - 1, 0, -1):
        is_empty = document.find(path[:depth]) == {}
        if is_empty and earlier is not None and earlier.find(path[:depth]) is None:
            document.cut(path[:depth])
    return document.content


def _explains(
    format: str,
    earlier: bytes | None,
    path: tuple[str, ...],
    entry: JsonValue,
    content: bytes | None,
) -> bool:
    """Whether `content` is `earlier` with this entry put in, and nothing else."""
    if earlier is None:
        return False
    with suppress(FormatError):
        document = Document(earlier, format)
        if find_value(document.value, path) is None:
            document.insert(path, entry)
            return document.content == content
    return False
