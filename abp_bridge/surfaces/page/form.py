"""Read a submitted form into `Filled`, bounded in size and time, in memory only."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import parse_qs

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from abp_bridge.core import file
from abp_bridge.core.sanitize import label
from abp_bridge.surfaces.http import MAX_BODY, FormError, read_body
from abp_bridge.surfaces.page.controls import Filled

MAX_FIELDS = 10_000  # of one form: a long list of checkboxes sends one for each
MAX_NAME = 255  # characters of a file's name: what file systems take


async def read(request: Request, *, files: bool) -> Filled:
    """Read the form of `request`, with uploads only if `files`.

    Raises:
        FormError: It is malformed, too large, or too slow.
    """
    body = await read_body(request, MAX_BODY + (file.MAX_SIZE if files else 0))
    media_type = request.headers.get("content-type", "").lower()
    try:
        if not files or not media_type.startswith("multipart/form-data"):
            text = body.decode()
            return Filled(parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        parser = _InMemory(
            request.headers,
            _once(body),
            max_files=100,
            max_fields=MAX_FIELDS,
            max_part_size=MAX_BODY,
        )
        return _collect(await parser.parse())
    except (ValueError, MultiPartException):
        raise FormError("The form could not be read. Open the question again.", 400) from None


def _collect(parts: FormData) -> Filled:
    values: dict[str, list[str]] = {}
    files: dict[str, file.File] = {}
    for name, part in parts.multi_items():
        if isinstance(part, str):
            values.setdefault(name, []).append(part)
        elif part.filename:  # a picker that nothing was picked with sends a file without a name
            files.setdefault(name, _file(part))
    return Filled(values, files)


def _file(part: UploadFile) -> file.File:
    name = label((part.filename or "").replace("\\", "/").rpartition("/")[2], MAX_NAME)
    kind = label(part.content_type or "", 100).partition(";")[0].strip().lower()
    if "/" not in kind or kind == "application/octet-stream":
        kind = file.guess_type(name)
    with part.file as opened:
        return file.File(opened.read(), kind, name)


class _InMemory(MultiPartParser):
    spool_max_size = 0  # never to disk: the whole body is bounded


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
