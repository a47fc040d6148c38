"""What a file is, by its first bytes: only marks that nothing else begins with by chance.

Knows no names of files and no text: what has no mark has no type here.
"""

from __future__ import annotations

import re

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


def sniff(content: bytes) -> str:
    """The MIME type that the first bytes of `content` speak for; empty when they speak for none."""
    return next((kind for mark, kind in _MARKS if mark.match(content[:HEAD])), "")
