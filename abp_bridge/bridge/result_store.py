"""Files that a session keeps: results too large or too binary for a host to read in a message.

Touches the output folder, and nothing else.

The folder is made when the first file is saved: `ABP_OUTPUT_DIR`, or a temporary one that goes when
the session ends.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import re
from collections.abc import Callable
from dataclasses import replace

from abp_bridge.core.capability import CallResult, SavedFile
from abp_bridge.core.json_value import JsonValue, to_text
from abp_bridge.protocols import abp
from abp_bridge.rpc.temporary import make_folder, remove_folder

INLINE_LIMIT = 50_000  # characters of JSON that a result may have before it goes to a file
SHOWN_LIMIT = 256 * 1024  # bytes of a file that is shown with its result
READ_LIMIT = 8 * 2**20  # bytes of a file that a resource may carry in one message
MAX_FILES = 1_000  # files that are listed as resources


class ResultStore:
    """The saved files of one session, by resource URI."""

    def __init__(self, folder: str | None, on_change: Callable[[], None]) -> None:
        """Save in `folder`, or in a temporary one; `on_change` hears of each file that is saved."""
        self._wanted = folder
        self._on_change = on_change
        self._folder: str | None = None
        self._files: dict[str, SavedFile] = {}

    def saved(self) -> list[SavedFile]:
        """The saved files, oldest first, at most `MAX_FILES`; without their content."""
        return list(self._files.values())

    def keep(self, app: str, result: CallResult) -> tuple[CallResult, list[SavedFile]]:
        """Put into files what a message cannot carry: binary data, and what has more than
        `INLINE_LIMIT` characters. What cannot be saved stays where it is, and says so.

        Returns:
            The result with `{"savedTo", "mimeType", "size"}` where the data was, and the files,
            with their content as long as it is at most `SHOWN_LIMIT` bytes together.
        """
        files: list[SavedFile] = []
        taken, found = abp.extract(result.data)
        items = [self._save_item(app, files, item) for item in found]
        data = abp.fill(taken, items) if items else result.data
        text = to_text(data)
        if len(text) > INLINE_LIMIT:
            is_text = isinstance(data, str)
            kind, name = (
                ("text/plain", "result.txt") if is_text else ("application/json", "result.json")
            )
            whole: list[SavedFile] = []
            item = self._save_item(app, whole, abp.Blob(text.encode(errors="replace"), kind, name))
            # It is too large to be shown: that is why it is a file.
            files += [replace(file, content=None) for file in whole]
            data = item if "savedTo" in item else data
        return result if data is result.data else replace(result, data=data), files

    def _save_item(
        self, app: str, files: list[SavedFile], item: abp.Blob | abp.Reference
    ) -> dict[str, JsonValue]:
        """Save `item`, add it to `files`, and describe it."""
        if isinstance(item, abp.Reference):
            return {"downloadUrl": item.url, "note": "not downloaded"}
        content, mime_type = item.content, item.mime_type
        try:
            saved = self.save(app, content, mime_type, item.name)
        except OSError as problem:
            return {
                "notSaved": str(problem),
                "mimeType": mime_type,
                "encoding": "base64",
                "content": base64.b64encode(content).decode(),
            }
        shown = sum(len(file.content or b"") for file in files) + len(content) <= SHOWN_LIMIT
        files.append(replace(saved, content=content) if shown else saved)
        return {"savedTo": saved.path, "mimeType": mime_type, "size": len(content)}

    def save(self, app: str, content: bytes, mime_type: str, name: str = "") -> SavedFile:
        """Write `content` under a name of our own making: nothing of the app's words decides where.

        Raises:
            OSError: It cannot be written.
        """
        folder = os.path.join(self._opened(), _safe(app))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        stem, extension = os.path.splitext(_safe(name) or "result")
        extension = extension or mimetypes.guess_extension(mime_type.partition(";")[0]) or ".bin"
        path, descriptor = _create(folder, stem, extension)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
        except OSError:  # a full disk: half of a file is none
            os.unlink(path)
            raise
        saved = SavedFile(
            f"abp://{app}/results/{os.path.basename(path)}",
            path,
            os.path.basename(path),
            mime_type,
            len(content),
        )
        self._files[saved.uri] = saved
        while len(self._files) > MAX_FILES:
            self._files.pop(next(iter(self._files)))  # the file stays; only the listing forgets it
        self._on_change()
        return saved

    def read(self, uri: str) -> tuple[str, bytes] | None:
        """The MIME type and content of a saved file; None when there is none.

        Raises:
            OSError: It cannot be read, or has more than `READ_LIMIT` bytes.
        """
        file = self._files.get(uri)
        if file is None:
            return None
        if file.size > READ_LIMIT:
            raise OSError(
                f"it has {file.size} bytes, more than a resource may carry ({READ_LIMIT}); read it"
                f" from {file.path}"
            )
        with open(file.path, "rb") as opened:
            return file.mime_type, opened.read()

    def close(self) -> None:
        """Take the temporary folder away. A folder that the person named stays."""
        if self._folder is not None and self._wanted is None:
            remove_folder(self._folder)
            self._files.clear()

    def _opened(self) -> str:
        if self._folder is None:
            self._folder = os.path.abspath(self._wanted) if self._wanted else make_folder()
        return self._folder


def _create(folder: str, stem: str, extension: str) -> tuple[str, int]:
    """A new file of that name, or with a number after it: its path and descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    path, number = os.path.join(folder, stem + extension), 2
    while True:
        try:
            return path, os.open(path, flags, 0o600)
        except FileExistsError:
            path, number = os.path.join(folder, f"{stem}-{number}{extension}"), number + 1


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")[
        :80
    ]
