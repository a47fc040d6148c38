"""A file that an app asks for: its accepted types, its checks, and types by first bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.core.sanitize import label

MAX_SIZE = 10 * 2**20  # bytes; in base64 it fits a line of JSON-RPC

# What an app's answer looks like: ABP's `{content, mimeType}`, with base64 for what is no text.
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "mimeType": {"type": "string", "minLength": 1},
        "encoding": {"const": "base64"},
        "filename": {"type": "string"},
    },
    "required": ["content", "mimeType"],
}

_FAMILIES = ("image", "audio", "video", "text", "font", "model")
_TEXTUAL = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "image/svg+xml",
)
# What names speak for: the same on every machine.
_TYPES = {
    "bmp": "image/bmp",
    "gif": "image/gif",
    "heic": "image/heic",
    "ico": "image/x-icon",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "webp": "image/webp",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "avi": "video/x-msvideo",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "otf": "font/otf",
    "ttf": "font/ttf",
    "woff2": "font/woff2",
    "css": "text/css",
    "csv": "text/csv",
    "htm": "text/html",
    "html": "text/html",
    "ics": "text/calendar",
    "log": "text/plain",
    "md": "text/markdown",
    "py": "text/x-python",
    "txt": "text/plain",
    "vcf": "text/vcard",
    "js": "text/javascript",
    "json": "application/json",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "pdf": "application/pdf",
    "rtf": "application/rtf",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip",
    "gz": "application/gzip",
    "tar": "application/x-tar",
    "zip": "application/zip",
}

HEAD = 64  # bytes that are enough for every mark

# The whole mark at the beginning of a file -> its MIME type.
_MARKS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(mark, re.DOTALL), kind)
    for mark, kind in (
        (rb"%PDF-", "application/pdf"),
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff[\xc0-\xfe]", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBP", "image/webp"),
        (rb"RIFF....WAVE", "audio/wav"),
        (rb"RIFF....AVI ", "video/x-msvideo"),
        (rb"II\*\x00|MM\x00\*", "image/tiff"),
        (rb"....ftyp(avif|avis)", "image/avif"),
        (rb"....ftyp(heic|heix|mif1)", "image/heic"),
        (rb"....ftypM4A", "audio/mp4"),
        (rb"....ftypqt", "video/quicktime"),
        (rb"....ftyp[\w ]{4}", "video/mp4"),
        (rb"\x1aE\xdf\xa3", "video/webm"),
        (rb"OggS\x00", "audio/ogg"),
        (rb"fLaC\x00", "audio/flac"),
        (rb"ID3[\x02-\x04]\x00", "audio/mpeg"),
        (rb"PK\x03\x04.{26}mimetypeapplication/epub\+zip", "application/epub+zip"),
        (rb"PK\x03\x04|PK\x05\x06", "application/zip"),
        (rb"\x1f\x8b\x08[\x00-\x1f]", "application/gzip"),
        (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (rb"\{\\rtf1", "application/rtf"),
        (rb"wOF2", "font/woff2"),
        (rb"wOFF", "font/woff"),
        (rb"\x00asm\x01\x00\x00\x00", "application/wasm"),
        (rb"SQLite format 3\x00", "application/vnd.sqlite3"),
    )
)


@dataclass(frozen=True, slots=True)
class File:
    """`name` is what the person's own machine calls it, without its folder."""

    content: bytes
    mime_type: str
    name: str = ""


def kinds(wanted: JsonValue) -> tuple[str, ...]:
    """Return the MIME types of an app's `type` (`"image/*"`, `"image"`, a list); empty for any."""
    listed = wanted if isinstance(wanted, list) else str(wanted or "").split(",")
    words = [label(each, 100).strip().lower() for each in listed if isinstance(each, str)]
    found = [
        f"{word}/*" if word in _FAMILIES else word
        for word in words
        if word in _FAMILIES or word.count("/") == 1
    ]
    return () if "*/*" in found or len(found) < len(words) else tuple(dict.fromkeys(found))


def admits(accept: Sequence[str], mime_type: str) -> bool:
    """Whether a MIME type is accepted; parameters (`; charset=utf-8`) do not count."""
    given = mime_type.partition(";")[0].strip().lower()
    return not accept or any(
        given == kind or (kind.endswith("/*") and given.startswith(kind[:-1])) for kind in accept
    )


def guess_type(name: str) -> str:
    """The MIME type that a file's name speaks for."""
    _, dot, ending = name.rpartition(".")
    return _TYPES.get(ending.lower() if dot else "", "application/octet-stream")


def encode(file: File) -> dict[str, str]:
    """A file as an app gets it: as text where it is text, else as base64."""
    named = {"filename": file.name} if file.name else {}
    if file.mime_type.lower().startswith(_TEXTUAL):
        try:
            return {"content": file.content.decode(), "mimeType": file.mime_type, **named}
        except UnicodeDecodeError:
            pass
    return {
        "content": base64.b64encode(file.content).decode(),
        "mimeType": file.mime_type,
        "encoding": "base64",
        **named,
    }


def file_errors(given: JsonValue, accept: Sequence[str]) -> list[str]:
    """Return what is wrong with a file of `SCHEMA`: its type, size or encoding."""
    problems: list[str] = []
    sent = as_object(given)
    mime_type = as_text(sent.get("mimeType"))
    if not admits(accept, mime_type):
        problems.append(f"must be {' or '.join(accept)}, not {label(mime_type, 100)}")
    if (size := _size(as_text(sent.get("content")), "encoding" in sent)) is None:
        problems.append("says that it is base64, and is not")
    elif size > MAX_SIZE:
        problems.append(f"has {size} bytes; at most {MAX_SIZE} can be given")
    return problems


def _size(content: str, is_base64: bool) -> int | None:
    if not is_base64:
        return len(content.encode(errors="replace"))
    try:
        return len(base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError):
        return None


def sniff(content: bytes) -> str:
    """The MIME type that the first bytes of `content` speak for; empty when they speak for none."""
    return next((kind for mark, kind in _MARKS if mark.match(content[:HEAD])), "")
