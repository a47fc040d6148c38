"""Files that a session keeps: results too large or too binary for a host to read in a message.

Touches the output folder, and nothing else.

The folder is made when the first file is saved: `ABP_OUTPUT_DIR`, or a temporary one that goes when
the session ends.
"""

from __future__ import annotations

import json
import mimetypes
import os
import re
import shutil
import tempfile

from abp_bridge.core.capability import SavedFile
from abp_bridge.core.json_value import Json

INLINE_LIMIT = 50_000  # characters of JSON that a result may have before it goes to a file
SHOWN_LIMIT = 256 * 1024  # bytes of a file that is shown with its result
READ_LIMIT = 8 * 2**20
MAX_FILES = 1_000


class ResultStore:
    """The saved files of one session, by resource URI."""

    def __init__(self, folder: str | None) -> None:
        self._wanted = folder
        self._folder: str | None = None
        self._files: dict[str, SavedFile] = {}

    def list(self) -> list[SavedFile]:
        return list(self._files.values())

    def save(self, app: str, content: bytes, mime_type: str, name: str = "") -> SavedFile:
        """Write `content` under a name of our own making: nothing of the app's words decides where.

        Raises OSError.
        """
        folder = os.path.join(self._opened(), _safe(app))
        os.makedirs(folder, mode=0o700, exist_ok=True)
        stem, extension = os.path.splitext(_safe(name) or "result")
        extension = extension or mimetypes.guess_extension(mime_type.partition(";")[0]) or ".bin"
        path, number = os.path.join(folder, stem + extension), 2
        while True:
            try:
                file = os.open(
                    path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600
                )
                break
            except FileExistsError:
                path, number = os.path.join(folder, f"{stem}-{number}{extension}"), number + 1
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
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
        return saved

    def read(self, uri: str) -> tuple[str, bytes] | None:
        """The MIME type and content of a saved file; None when there is none. Raises OSError."""
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
            shutil.rmtree(self._folder, ignore_errors=True)
            self._files.clear()

    def _opened(self) -> str:
        if self._folder is None:
            self._folder = (
                os.path.abspath(self._wanted)
                if self._wanted
                else tempfile.mkdtemp(prefix="abp-bridge-")
            )
        return self._folder


def spelled(data: Json) -> str:
    """What an inline result looks like, for its length."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.replace("\\", "/").rpartition("/")[2]).strip("._")[
        :80
    ]
