"""What a file is by its first bytes; and text, which has no mark."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from abp_bridge.core.file import sniff


def _zipped(name: str, content: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, content)
    return made.getvalue()


KINDS = {
    "application/pdf": b"%PDF-1.7\n",
    "image/png": b"\x89PNG\r\n\x1a\n\0\0",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8 ",
    "audio/wav": b"RIFF\n\0\0\0WAVEfmt ",
    "image/avif": b"\0\0\0\x1cftypavif",
    "audio/mp4": b"\0\0\0\x1cftypM4A \0",
    "video/mp4": b"\0\0\0\x18ftypisom\0\0\2\0",
    "audio/mpeg": b"ID3\4\0\0\0",
    "application/zip": _zipped("a.txt", "hello"),
    "application/epub+zip": _zipped("mimetype", "application/epub+zip"),
    "application/gzip": gzip.compress(b"hello"),
    "": b"Hello, RIFF, GIF and %PDF-",
}


@pytest.mark.parametrize(("kind", "content"), KINDS.items(), ids=[each or "none" for each in KINDS])
def test_a_file_is_what_its_first_bytes_say(kind: str, content: bytes) -> None:
    assert sniff(content) == kind
    assert sniff(b"x" + content) == ""
    assert sniff(b"") == ""
