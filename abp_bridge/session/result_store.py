"""Save results that are too large or too binary for a message to files.

The folder is created with the first file: `ABP_OUTPUT_DIR`, or a temporary folder that is removed
at the end of the session. docs/results.md lists the limits.
"""

from __future__ import annotations

import contextlib
import mimetypes
import os
import re
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.to_thread

from abp_bridge.core.capability import AppFile, CallResult, SavedFile
from abp_bridge.core.file import sniff
from abp_bridge.core.json_value import JsonObject, JsonValue, to_text
from abp_bridge.core.sanitize import label
from abp_bridge.jsonrpc.files import make_folder, remove_folder
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.data import UNKNOWN
from abp_bridge.session.app import AppError

INLINE_LIMIT = 50_000  # characters of JSON that a result may have before it goes to a file
SHOWN_LIMIT = 256 * 1024  # bytes of the files that are shown with a result
READ_LIMIT = 8 * 2**20  # bytes of a file that a resource may carry in one message
SESSION_LIMIT = 512 * 2**20  # bytes of all files of a session: more would fill a small disk
MAX_TAKEN = 100  # files in one result: no model reads more names
FETCH_LIMIT = 60.0  # seconds to fetch the files of a result: the host waits for it meanwhile
HEAVY = 64 * 1024  # bytes or characters whose work is not for the event loop

T = TypeVar("T")
Given = TypeVarTuple("Given")
Download = Callable[[str, JsonObject], Awaitable[AppFile]]


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result that fits in a message.

    Attributes:
        result: Has `{"savedTo", "mimeType", "size"}` in place of each saved value.
        files: The saved files, with the content of at most `SHOWN_LIMIT` bytes in total.
        told: A line for each file that the app gave beside its data.
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
        self._files: dict[str, SavedFile] = {}
        self._removed: list[str] = []  # to make room, and not reported yet
        self._numbers: dict[str, int] = {}  # by path: the number that the next of its name gets

    def saved(self) -> list[SavedFile]:
        """Return the saved files, oldest first, without their content."""
        return list(self._files.values())

    async def keep(self, app: str, result: CallResult, download: Download) -> KeptResult:
        """Save binary data, referenced files, and data of more than `INLINE_LIMIT` characters.

        The result says what could not be saved.

        Args:
            app: The app's name.
            result: The app's result.
            download: Fetches a reference by its address and `auth`.
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
        """Save what is in `data`, add it to `files`, and return the data with its paths."""
        taken, found = await _offload(_is_heavy(data), abp.extract, data)
        if len(found) > MAX_TAKEN:
            told.append(f"its data hold {len(found)} files, so they went whole to one")
            return await self._save_whole(app, files, data)
        until = anyio.current_time() + FETCH_LIMIT
        items: list[dict[str, JsonValue]] = []
        for item in found:  # one after the other: all of them may not fit in memory
            if isinstance(item, abp.Blob):
                items.append(await self._save_blob(app, files, item))
            else:
                items.append(await self._keep_reference(app, files, item, download, until))
        data = abp.fill(taken, items) if items else data
        text = await _offload(_is_heavy(data), to_text, data)
        is_binary = len(text) <= INLINE_LIMIT and abp.holds_base64(text)
        if len(text) <= INLINE_LIMIT and not is_binary:
            return data
        whole = await self._save_whole(app, files, data)
        if "savedTo" in whole or is_binary:
            return whole
        files.pop()
        return data

    async def _save_whole(
        self, app: str, files: list[SavedFile], data: JsonValue
    ) -> dict[str, JsonValue]:
        text = await _offload(_is_heavy(data), to_text, data)
        kind, name = (
            ("text/plain", "txt") if isinstance(data, str) else ("application/json", "json")
        )
        content = await _offload(len(text) > HEAVY, _encode, text)
        # It is not to be shown: that is why it is a file.
        blob = abp.Blob(content, kind, f"result.{name}", readable=False)
        return await self._save_blob(app, files, blob)

    async def _keep_reference(
        self,
        app: str,
        files: list[SavedFile],
        item: abp.Reference,
        download: Download,
        until: float,
    ) -> dict[str, JsonValue]:
        """Fetch a file and save it; describe it, or why it was not fetched."""
        fetched: AppFile | str
        fetched = f"the files of this result did not come within {FETCH_LIMIT:g} s"
        with anyio.CancelScope(deadline=until):
            try:
                fetched = await download(item.url, item.auth)
            except AppError as problem:
                fetched = str(problem)
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
        """Save a file that an app gave beside its data, and return a line about it."""
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
            path = "".join(_name_parts(blob.mime_type, blob.name))
            saved = replace(_describe_file(app, path, blob.mime_type, size), path="")
            item["notSaved"] = str(problem)
        shown = sum(len(file.content or b"") for file in files) + size <= SHOWN_LIMIT
        files.append(replace(saved, content=blob.content) if shown and blob.readable else saved)
        return item

    async def save(self, app: str, content: bytes, mime_type: str, name: str = "") -> SavedFile:
        """Write `content` under a name that the bridge chooses.

        Raises:
            OSError: It cannot be written.
        """
        self._make_room(len(content))
        folder = os.path.join(await self._opened(), _safe(app))
        path = await _offload(
            len(content) > HEAVY, self._write_file, folder, _name_parts(mime_type, name), content
        )
        saved = _describe_file(app, path, mime_type, len(content))
        self._files[saved.uri] = saved
        self._on_change()
        return saved

    def _write_file(self, folder: str, name: tuple[str, str], content: bytes) -> str:
        """Write a new file, numbered if its name is taken; leave no part of it on OSError."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.path.islink(folder):
            raise OSError(f"{folder} is a link, and results go to no other folder")
        first = os.path.join(folder, "".join(name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        while True:
            number = self._numbers[first] = self._numbers.get(first, 0) + 1
            path = first if number == 1 else os.path.join(folder, f"-{number}".join(name))
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, flags, 0o600)
                break
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
        except OSError:  # a full disk
            os.unlink(path)
            raise
        return path

    def _make_room(self, size: int) -> None:
        """Remove the oldest files so that `size` more bytes fit in `SESSION_LIMIT`."""
        over = size - SESSION_LIMIT + sum(file.size for file in self._files.values())
        for file in self.saved():
            if over > 0:
                over -= file.size
                with contextlib.suppress(OSError):
                    os.unlink(file.path)
                self._removed.append(file.path)
                del self._files[file.uri]

    def find_file(self, uri: str) -> SavedFile | None:
        return self._files.get(uri)

    def read_file(self, file: SavedFile) -> bytes:
        """Return the content of a saved file.

        Raises:
            OSError: It cannot be read, exceeds `READ_LIMIT`, or was replaced by something else.
        """
        flags = os.O_RDONLY | sum(getattr(os, each, 0) for each in ("O_NOFOLLOW", "O_NONBLOCK"))
        with open(os.open(file.path, flags), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{file.path} is no file any more")
            if status.st_size > READ_LIMIT:
                raise OSError(
                    f"it has {status.st_size} bytes, more than a resource may carry ({READ_LIMIT});"
                    f" read it from {file.path}"
                )
            return opened.read(READ_LIMIT)

    def remove_temporary(self) -> None:
        """Remove the temporary folder; a folder from the settings stays."""
        if self._folder is not None and self._wanted is None:
            remove_folder(self._folder)
            self._files.clear()

    async def _opened(self) -> str:
        if self._folder is None:
            self._folder = self._wanted or make_folder()
        return self._folder


async def _offload(heavy: bool, work: Callable[[Unpack[Given]], T], *given: *Given) -> T:
    """Run `work`, in a thread if `heavy`."""
    return await anyio.to_thread.run_sync(work, *given) if heavy else work(*given)


def _encode(text: str) -> bytes:
    return text.encode(errors="replace")


def _is_heavy(data: JsonValue) -> bool:
    """Estimate whether `data` has more than `HEAVY` characters."""
    left, seen = HEAVY, [data]
    while seen and left > 0:
        value = seen.pop()
        left -= len(value) if isinstance(value, str) else 4
        if isinstance(value, Mapping):
            seen += value.values()
        elif isinstance(value, list):
            seen += value[:left] if left > 0 else ()
    return left <= 0


def _describe_file(app: str, path: str, mime_type: str, size: int) -> SavedFile:
    name = os.path.basename(path)
    return SavedFile(f"abp://{app}/results/{name}", path, name, mime_type, size)


def _name_parts(mime_type: str, name: str) -> tuple[str, str]:
    """Return the stem and the extension of a file's name."""
    stem, extension = os.path.splitext(_safe(name) or "result")
    return stem, extension or mimetypes.guess_extension(mime_type.partition(";")[0]) or ".bin"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")[
        :80
    ]
