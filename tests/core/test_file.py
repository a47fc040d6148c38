"""Files as an app asks for them and as it gets them."""

from __future__ import annotations

import base64
import gzip
import io
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from abp_bridge.core import file
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.file import File
from abp_bridge.core.question import Field, FieldType, Kind, Question

Json = Any


@pytest.mark.parametrize(
    ("wanted", "accept"),
    [
        ("image/png", ("image/png",)),
        ("Image/*, .pdf", ()),  # an unknown part: any file will do
        ("image/png, image/jpeg, image/png", ("image/png", "image/jpeg")),
        (["image", "text/csv"], ("image/*", "text/csv")),
        ("*/*", ()),
        (None, ()),
        ([1, "audio"], ("audio/*",)),
    ],
)
def test_file_types_that_an_app_takes(wanted: Json, accept: tuple[str, ...]) -> None:
    assert file.kinds(wanted) == accept


@pytest.mark.parametrize(
    ("accept", "given", "taken"),
    [
        ((), "anything/at-all", True),
        (("image/*",), "image/png", True),
        (("image/*",), "imagery/png", False),
        (("text/plain",), "Text/Plain; charset=utf-8", True),
        (("text/plain", "image/png"), "image/png", True),
        (("text/plain",), "text/plainer", False),
    ],
)
def test_file_types_that_a_question_admits(
    accept: tuple[str, ...], given: str, taken: bool
) -> None:
    assert file.admits(accept, given) is taken


def test_type_of_a_file_is_guessed_from_its_name() -> None:
    assert file.guess_type("a.png") == "image/png"
    assert file.guess_type("x") == "application/octet-stream"


@given(
    some.binary(max_size=50),
    some.sampled_from(["text/plain", "image/png", "application/json"]),
    some.sampled_from(["", "a.b"]),
)
def test_file_is_encoded_without_loss(content: bytes, mime_type: str, name: str) -> None:
    made = file.encode(File(content, mime_type, name))
    arrived = (
        base64.b64decode(made["content"])
        if made.get("encoding") == "base64"
        else made["content"].encode()
    )
    assert (arrived, made["mimeType"], made.get("filename", "")) == (content, mime_type, name)
    assert validate_answer(asking(), {"file": made}) == ({"file": made}, [])


def asking(*accept: str) -> Question:
    return Question(
        "q",
        Kind.RESOURCE,
        "A file?",
        (Field("file", FieldType.FILE, file.SCHEMA, accept=accept),),
        "app",
    )


def test_text_stays_text() -> None:
    assert file.encode(File("Grüße".encode(), "text/plain")) == {
        "content": "Grüße",
        "mimeType": "text/plain",
    }


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"content": "x", "mimeType": "text/plain"}, "file must be image/*, not text/plain"),
        (
            {"content": "x!", "mimeType": "image/png", "encoding": "base64"},
            "file says that it is base64, and is not",
        ),
        (
            {"content": "x" * (file.MAX_SIZE + 1), "mimeType": "image/svg+xml"},
            f"file has {file.MAX_SIZE + 1} bytes; at most {file.MAX_SIZE} can be given",
        ),
        ({"content": "x"}, "file.mimeType is required"),
        ("/etc/passwd", 'file must be an object, not "/etc/passwd"'),
    ],
)
def test_invalid_file_is_described(given: Json, wrong: str) -> None:
    assert validate_answer(asking("image/*"), {"file": given})[1] == [wrong]


# --- what the first bytes say ---


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
def test_sniff_reads_the_first_bytes(kind: str, content: bytes) -> None:
    assert file.sniff(content) == kind
    assert file.sniff(b"x" + content) == ""
    assert file.sniff(b"") == ""
