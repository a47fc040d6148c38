"""Files that a session keeps: results too large or too binary for a host to read in a message.

Touches the output folder, and nothing else.

The folder is made when the first file is saved: `ABP_OUTPUT_DIR`, or a temporary one that goes when
the session ends. docs/results.md has how much is kept, and how long.
"""

from __future__ import annotations

import contextlib
import mimetypes
import os
import re
import stat
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.to_thread

from abp_bridge.core.capability import AppFile, CallResult, SavedFile
from abp_bridge.core.file import sniff
from abp_bridge.core.json_value import JsonObject, JsonValue, to_text
from abp_bridge.core.sanitize import label
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.data import UNKNOWN, Extracted
from abp_bridge.rpc.arrival import now
from abp_bridge.rpc.temporary import make_folder, remove_folder
from abp_bridge.session.app import AppError
from abp_bridge.session.saved_index import SavedIndex

INLINE_LIMIT = 50_000  # characters of JSON that a result may have before it goes to a file
SHOWN_LIMIT = 256 * 1024  # bytes of a file that is shown with its result
READ_LIMIT = 8 * 2**20  # bytes of a file that a resource may carry in one message
MAX_FILES = 1_000  # files that are listed as resources
MAX_TAKEN = 100  # files in one result: more names no model reads, and the loop stands still
FILE_LIMIT = 64 * 2**20  # bytes of one file: what a page's result may have fits
SESSION_LIMIT = 512 * 2**20  # bytes of all files of a session: more would fill a small disk
MAX_DOWNLOADS = 20  # files of one result that are fetched
FETCH_LIMIT = 60.0  # seconds for all of them: the host waits for the result meanwhile
HEAVY = 64 * 1024  # bytes or characters whose work is not for the event loop

T = TypeVar("T")
Given = TypeVarTuple("Given")
Download = Callable[[str, JsonObject], Awaitable[AppFile]]


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result without what a message cannot carry.

    Attributes:
        result: It has `{"savedTo", "mimeType", "size"}` where that was.
        files: What was saved, with its content as long as that is at most `SHOWN_LIMIT` bytes
            together.
        told: What became of files that the app gave beside its data, a line each.
    """

    result: CallResult
    files: Sequence[SavedFile] = ()
    told: Sequence[str] = ()


class ResultStore:
    """The saved files of one session, by resource URI."""

    def __init__(self, folder: str | None, on_change: Callable[[], None]) -> None:
        """Save in `folder`, or in a temporary one; `on_change` hears of each file that is saved."""
        self._wanted = folder and os.path.abspath(folder)
        self._on_change = on_change
        self._folder: str | None = None
        self._index: SavedIndex | None = None
        self._files: dict[str, SavedFile] = {}
        self._unsaved: dict[str, bytes] = {}  # by URI: what there was no room for on the disk
        self._held = 0  # such files, so far
        self._removed: list[str] = []  # to make room, and not told yet
        self._gone: set[str] = set()  # paths that stood for other files
        self._numbers: dict[str, int] = {}  # by path: the number that the next of its name gets

    def saved(self) -> list[SavedFile]:
        """The saved files, oldest first, at most `MAX_FILES`; without their content."""
        return list(self._files.values())

    async def keep(self, app: str, result: CallResult, download: Download) -> KeptResult:
        """Put into files what a message cannot carry: binary data, what it refers to, and what has
        more than `INLINE_LIMIT` characters. What cannot be saved is told.

        Args:
            app: Whose result it is.
            result: As the app gave it.
            download: Fetches what the app refers to, by its address and `auth`.
        """
        files: list[SavedFile] = []
        told: list[str] = []
        data = await self._keep_data(app, files, told, result.data, download)
        failure = result.failure
        if failure is not None and failure.details is not None:
            details = await self._keep_data(app, files, told, failure.details, download)
            failure = replace(failure, details=details)
        told += [await self._keep_beside(app, files, file) for file in result.files]
        if self._removed:
            told.append(f"older results were removed to make room: {', '.join(self._removed)}")
            self._removed.clear()
        return KeptResult(replace(result, data=data, failure=failure, files=()), files, told)

    async def _keep_data(
        self,
        app: str,
        files: list[SavedFile],
        told: list[str],
        data: JsonValue,
        download: Download,
    ) -> JsonValue:
        """Save what is in `data`, and add it to `files`; the data with its place instead."""
        taken, found = await _run(_is_heavy(data), abp.extract, data)
        if len(found) > MAX_TAKEN:
            told.append(f"its data hold {len(found)} files, so they went whole to one")
            return await self._save_whole(app, files, data)
        return await self._keep_items(app, files, data, (taken, found), download)

    async def _keep_items(
        self,
        app: str,
        files: list[SavedFile],
        data: JsonValue,
        extracted: tuple[Extracted, Sequence[abp.Blob | abp.Reference]],
        download: Download,
    ) -> JsonValue:
        """Save each that was `extracted`, or what it refers to; the data with that in its place."""
        taken, found = extracted
        fetch = _Fetch(download)
        items = [
            await self._keep_reference(app, files, item, await fetch.get(item))
            if isinstance(item, abp.Reference)
            else await self._save_blob(app, files, item)
            for item in found
        ]
        data = abp.fill(taken, items) if items else data
        text = await _run(_is_heavy(data), to_text, data)
        is_binary = len(text) <= INLINE_LIMIT and abp.holds_base64(text)
        if len(text) <= INLINE_LIMIT and not is_binary:
            return data
        whole = await self._save_whole(app, files, data)
        if "savedTo" in whole or is_binary:
            return whole
        self._forget(files.pop())
        return data

    async def _save_whole(
        self, app: str, files: list[SavedFile], data: JsonValue
    ) -> dict[str, JsonValue]:
        """Save data as one file, add it to `files` and describe it."""
        text = await _run(_is_heavy(data), to_text, data)
        kind, name = (
            ("text/plain", "txt") if isinstance(data, str) else ("application/json", "json")
        )
        content = await _run(len(text) > HEAVY, _encode, text)
        # It is not to be shown: that is why it is a file.
        blob = abp.Blob(content, kind, f"result.{name}", readable=False)
        return await self._save_blob(app, files, blob)

    async def _keep_reference(
        self, app: str, files: list[SavedFile], item: abp.Reference, fetched: AppFile | str
    ) -> dict[str, JsonValue]:
        """Save what was fetched, add it to `files`, and describe it, or why it was not."""
        if isinstance(fetched, str):
            return {"downloadUrl": item.url, "notDownloaded": fetched}
        kind = item.mime_type
        blob = abp.Blob(fetched.content, kind, item.name or fetched.name, stated_size=item.size)
        saved = await self._save_blob(app, files, blob)
        served = fetched.mime_type.partition(";")[0].strip().lower()
        if served not in ("", UNKNOWN, kind.partition(";")[0].strip().lower()):
            return {**saved, "served": f"as {label(served, 100)}, not as what the app said"}
        return saved

    async def _keep_beside(self, app: str, files: list[SavedFile], file: AppFile) -> str:
        """Save what an app gave beside its data, and say so in a line."""
        kind = file.mime_type or sniff(file.content) or UNKNOWN
        item = await self._save_blob(app, files, abp.Blob(file.content, kind, file.name))
        where = (
            f"saved to {item['savedTo']}" if "savedTo" in item else f"not saved: {item['notSaved']}"
        )
        named = f" {label(file.name, 100)}" if file.name else ""
        return (
            f"by {file.source} it gave the file{named} ({kind}, {len(file.content)} bytes), {where}"
        )

    async def _save_blob(
        self, app: str, files: list[SavedFile], blob: abp.Blob
    ) -> dict[str, JsonValue]:
        size = len(blob.content)
        item: dict[str, JsonValue] = {"mimeType": blob.mime_type, "size": size}
        if blob.sniffed:
            item["typeFrom"] = "its first bytes"
        if blob.stated_size not in (None, size):
            item["sizeStated"] = f"{blob.stated_size} by the app, but {size} bytes came"
        try:
            saved = await self.save(app, blob.content, blob.mime_type, blob.name)
            item["savedTo"] = saved.path
        except OSError as problem:
            saved = self._hold(app, blob)
            item["notSaved"] = str(problem)
        shown = sum(len(file.content or b"") for file in files) + size <= SHOWN_LIMIT
        held = replace(saved, content=blob.content) if shown and blob.readable else saved
        files.append(held)
        return item

    async def save(self, app: str, content: bytes, mime_type: str, name: str = "") -> SavedFile:
        """Write `content` under a name of our own making: nothing of the app's words decides where.

        Raises:
            OSError: It cannot be written, or has more than `FILE_LIMIT` bytes.
        """
        if len(content) > FILE_LIMIT:
            raise OSError(f"it has {len(content)} bytes, and a file at most {FILE_LIMIT}")
        self._make_room(len(content))
        folder = os.path.join(await self._opened(), _safe(app))
        heavy = len(content) > HEAVY
        numbered = _Numbered(_name(mime_type, name), self._numbers, self._gone)
        path = await _run(heavy, _write, folder, content, numbered)
        if self._index is not None:
            await anyio.to_thread.run_sync(self._index.add, path)
        return self._add(_describe(app, path, mime_type, len(content)))

    def _add(self, saved: SavedFile) -> SavedFile:
        self._files[saved.uri] = saved
        while len(self._files) > MAX_FILES:
            # The file stays, where there is one; only the listing forgets it.
            oldest = self._files.pop(next(iter(self._files)))
            if self._unsaved.pop(oldest.uri, None) is not None:
                self._removed.append(oldest.name)
        self._on_change()
        return saved

    def _hold(self, app: str, blob: abp.Blob) -> SavedFile:
        """What the disk did not take, as a resource that lives as long as the session."""
        stem, extension = _name(blob.mime_type, blob.name)
        self._held += 1
        path = f"{stem}-unsaved-{self._held}{extension}"
        saved = replace(_describe(app, path, blob.mime_type, len(blob.content)), path="")
        room = READ_LIMIT - sum(map(len, self._unsaved.values()))
        if len(blob.content) > room:
            return saved
        self._unsaved[saved.uri] = blob.content
        return self._add(saved)

    def _forget(self, file: SavedFile) -> None:
        self._unsaved.pop(file.uri, None)
        if self._files.pop(file.uri, None) is not None:
            self._on_change()

    def _make_room(self, size: int) -> None:
        """Remove the oldest files, where the session would have more than `SESSION_LIMIT` bytes."""
        over = size - SESSION_LIMIT + sum(file.size for file in self._files.values() if file.path)
        for file in self.saved():
            if over <= 0:
                return
            if file.path:
                over -= file.size
                with contextlib.suppress(OSError):
                    os.unlink(file.path)
                self._removed.append(file.path)
                self._gone.add(file.path)
                self._forget(file)

    def find(self, uri: str) -> SavedFile | None:
        """The saved file of a resource; None when there is none."""
        return self._files.get(uri)

    def read(self, file: SavedFile) -> bytes:
        """The content of a saved file.

        Raises:
            OSError: It cannot be read, or has more than `READ_LIMIT` bytes.
        """
        if not file.path:
            return self._unsaved[file.uri]
        if file.size > READ_LIMIT:
            raise OSError(
                f"it has {file.size} bytes, more than a resource may carry ({READ_LIMIT}); read it"
                f" from {file.path}"
            )
        return _read(file.path)

    def close(self) -> None:
        """Take the temporary folder away. A folder that the person named stays."""
        if self._folder is not None and self._wanted is None:
            remove_folder(self._folder)
            self._files.clear()

    async def _opened(self) -> str:
        if self._folder is None and self._wanted is None:
            self._folder = make_folder()
        elif self._folder is None:
            self._folder = self._wanted or ""
            self._index = SavedIndex(self._folder)
            await _run(self._index.exists(), self._index.sweep)
        assert self._folder is not None
        return self._folder


async def _run(heavy: bool, work: Callable[[Unpack[Given]], T], *given: *Given) -> T:
    """What `work` returns; where it is heavy, others go on meanwhile."""
    return await anyio.to_thread.run_sync(work, *given) if heavy else work(*given)


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


class _Fetch:
    """Fetches the files of one result, each when it is its turn to be saved: all of them would not
    fit in memory.
    """

    def __init__(self, download: Download) -> None:
        self._download = download
        self._left = MAX_DOWNLOADS
        self._until = now() + FETCH_LIMIT

    async def get(self, item: abp.Reference) -> AppFile | str:
        """What it refers to, or why it was not fetched."""
        if self._left <= 0:
            return f"more than {MAX_DOWNLOADS} files in one result"
        self._left -= 1
        with anyio.CancelScope(deadline=self._until):
            try:
                return await self._download(item.url, item.auth)
            except AppError as problem:
                return str(problem)
        return f"the files of this result did not come within {FETCH_LIMIT:g} s"


def _is_heavy(data: JsonValue) -> bool:
    """Whether `data` has more than `HEAVY` characters, as far as a short look can tell."""
    left, seen = HEAVY, [data]
    while seen and left > 0:
        value = seen.pop()
        left -= len(value) if isinstance(value, str) else 4
        if isinstance(value, Mapping):
            seen += value.values()
        elif isinstance(value, list):
            seen += value[:left] if left > 0 else ()
    return left <= 0


def _describe(app: str, path: str, mime_type: str, size: int) -> SavedFile:
    name = os.path.basename(path)
    return SavedFile(f"abp://{app}/results/{name}", path, name, mime_type, size)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The name of a new file, which gets a number after it where others have it.

    Attributes:
        name: Its stem and its extension.
        numbers: By path, the number that the next of that name gets: those before are not looked
            at again.
        gone: Paths that stood for other files, and never stand for another.
    """

    name: tuple[str, str]
    numbers: dict[str, int]
    gone: Container[str]

    def paths(self, folder: str) -> Iterator[str]:
        """Where it may go, one after the other."""
        stem, extension = self.name
        first = os.path.join(folder, stem + extension)
        while True:
            number = self.numbers.get(first, 1)
            self.numbers[first] = number + 1
            path = first if number == 1 else os.path.join(folder, f"{stem}-{number}{extension}")
            if path not in self.gone:
                yield path


def _read(path: str) -> bytes:
    """The content of a file, which somebody may have put another in place of since. Raises OSError
    where it is a link, a pipe or a device now, or has more than `READ_LIMIT` bytes.
    """
    flags = os.O_RDONLY | sum(getattr(os, each, 0) for each in ("O_NOFOLLOW", "O_NONBLOCK"))
    with open(os.open(path, flags), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(f"{path} is no file any more")
        content = opened.read(READ_LIMIT + 1)
    if len(content) > READ_LIMIT:
        raise OSError(f"{path} has more than {READ_LIMIT} bytes now: read it there")
    return content


def _write(folder: str, content: bytes, name: _Numbered) -> str:
    """Write a new file; its path. Raises OSError, and leaves no half of one."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder):
        raise OSError(f"{folder} is a link, and results go to no other folder")
    path, descriptor = _create(name.paths(folder))
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
    except OSError:  # a full disk: half of a file is none
        os.unlink(path)
        raise
    return path


def _create(paths: Iterator[str]) -> tuple[str, int]:
    """A new file at the first of `paths` where none is: its path and descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    while True:
        path = next(paths)
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, flags, 0o600)


def _name(mime_type: str, name: str) -> tuple[str, str]:
    stem, extension = os.path.splitext(_safe(name) or "result")
    return stem, extension or mimetypes.guess_extension(mime_type.partition(";")[0]) or ".bin"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")[
        :80
    ]
