"""Binary data in results of apps (X17), and text that only looks like it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_strategies import few, garbled

from abp_bridge.protocols.abp import Blob, Reference, extract, fill
from abp_bridge.protocols.abp.data import UNKNOWN, authorize

Json = Any

PDF = b"%PDF-1.7 " + bytes(range(256))
TEXT = base64.b64encode(PDF).decode()
LINES = base64.encodebytes(PDF).decode().replace("\n", "\r\n")
SAVED = {"savedTo": "/tmp/a.pdf"}
NOISE = bytes(range(256)) * 16
MANY = base64.b64encode(NOISE).decode()
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
PNG = base64.b64encode(PICTURE).decode()
MARKDOWN = f"# Report\n![chart](data:image/png;base64,{PNG})\n"
SNIFFED = Blob(PDF, "application/pdf", sniffed=True)

FOUND: dict[str, tuple[Json, list[Blob | Reference], Json]] = {
    # what the app returned, what is in it, and the result with a file in its place
    "X17 BinaryData": (
        {"content": TEXT, "mimeType": "application/pdf", "encoding": "base64"},
        [Blob(PDF, "application/pdf")],
        SAVED,
    ),
    "X17 in lines": (
        {"content": LINES, "mimeType": "application/pdf"},
        [Blob(PDF, "application/pdf")],
        SAVED,
    ),
    "X17 under a key": (
        {"file": {"content": TEXT, "mimeType": "application/pdf", "filename": "a.pdf"}, "pages": 3},
        [Blob(PDF, "application/pdf", "a.pdf")],
        {"file": {"filename": "a.pdf", "mimeType": "application/pdf", **SAVED}, "pages": 3},
    ),
    "X17 in a list": (
        [1, {"content": TEXT, "mimeType": "image/png"}],
        [Blob(PDF, "image/png")],
        [1, {"mimeType": "image/png", **SAVED}],
    ),
    "X17 flat": (
        {"pdf": TEXT, "mimeType": "application/pdf", "fileName": "b.pdf"},
        [Blob(PDF, "application/pdf", "b.pdf")],
        {"pdf": SAVED, "mimeType": "application/pdf", "fileName": "b.pdf"},
    ),
    "X17 a data URL": (f"data:image/png;base64,{TEXT}", [Blob(PDF, "image/png")], SAVED),
    "a reference": (
        {
            "downloadUrl": "https://a/b",
            "mimeType": "image/png",
            "size": 5,
            "filename": "b.png",
            "auth": {"token": "t"},
            "content": "A picture",
        },
        [Reference("https://a/b", "image/png", "b.png", 5, {"token": "t"})],
        {"mimeType": "image/png", "size": 5, "filename": "b.png", "content": "A picture", **SAVED},
    ),
    "a reference with an invalid size": (
        {"downloadUrl": "u", "mimeType": "m", "size": True},
        [Reference("u", "m")],
        {"mimeType": "m", "size": True, **SAVED},
    ),
    "base64 without a type": (TEXT, [SNIFFED], SAVED),
    "content that says it is base64, of any kind": (
        {"content": "aGk=", "encoding": "base64", "size": 9},
        [Blob(b"hi", UNKNOWN, sniffed=True, stated_size=9)],
        {"size": 9, **SAVED},
    ),
    "very long base64 of no known kind": (
        {"blob": MANY},
        [Blob(NOISE, UNKNOWN, sniffed=True)],
        {"blob": SAVED},
    ),
    "a data URL whose type its bytes say": (
        f"data:;base64,{TEXT}",
        [Blob(PDF, "application/pdf", sniffed=True)],
        SAVED,
    ),
    "text with a data URL in it": (
        {"markdown": MARKDOWN},
        [Blob(MARKDOWN.encode(), "text/plain", readable=False)],
        {"markdown": SAVED},
    ),
    "a data URL to be downloaded": (
        {"downloadUrl": f"data:;base64,{TEXT}", "mimeType": "a/pdf", "size": 9},
        [Blob(PDF, "a/pdf", stated_size=9)],
        {"mimeType": "a/pdf", "size": 9, **SAVED},
    ),
    **{
        f"text with base64 in it: {how}": (
            {"text": text},
            [Blob(text.encode(), "text/plain", readable=False)],
            {"text": SAVED},
        )
        for how, text in {
            "after words": f"Here: {MANY}",
            "before words": f"{MANY}\n-- \n",
            "for addresses": MANY.replace("+", "-").replace("/", "_"),
            "in lines": f"Here:\n{base64.encodebytes(NOISE).decode()}",
            "in lines of JSON": json.dumps({"file": base64.encodebytes(NOISE).decode()}),
            "a data URL in lines": f"<img src='data:image/png;base64,\n{PNG[:90]}\n{PNG[90:]}'>",
            "a data URL, escaped": f"url(data:image/png;base64,{quote(PNG, safe='')})",
            "a broken data URL": f"data:image/png;base64,{PNG}x",
        }.items()
    },
    "two levels down": (
        {"a": [{"b": {"content": TEXT, "mimeType": "image/png"}}]},
        [Blob(PDF, "image/png")],
        {"a": [{"b": {"mimeType": "image/png", **SAVED}}]},
    ),
    "beside another": (
        {"content": TEXT, "mimeType": "a/pdf", "small": {"png": PNG}},
        [Blob(PICTURE, "image/png", sniffed=True), Blob(PDF, "a/pdf")],
        {"mimeType": "a/pdf", "small": {"png": SAVED}, **SAVED},
    ),
}


@pytest.mark.parametrize(("data", "found", "filled"), FOUND.values(), ids=FOUND)
def test_extract_binary_data(data: Json, found: list[Blob | Reference], filled: Json) -> None:
    rest, taken = extract(data)
    assert taken == found
    put = fill(rest, [SAVED for _ in taken])
    beside = (
        {name: value for name, value in data.items() if name not in ("content", "encoding")}
        if isinstance(data, dict) and filled is SAVED
        else {}
    )
    assert put == {**beside, **SAVED} if filled is SAVED else put == filled


DIGEST = hashlib.sha512(b"x").hexdigest()
PROSE = (
    "a long description of the file with no punctuation at all so that without its spaces it would"
    " be base64 by its looks " * 4
)


def _nested(value: Json, levels: int) -> Json:
    return value if levels == 0 else [_nested(value, levels - 1)]


KEPT: dict[str, Json] = {
    "text": {"content": "Hello there", "mimeType": "text/plain"},
    "content that says it is no base64": {
        "content": "aGk=",
        "mimeType": "application/pdf",
        "encoding": "utf-8",
    },
    "content that is no base64": {"content": "%PDF-1.7", "mimeType": "application/pdf"},
    "content that is no text": {"content": 5, "mimeType": "application/pdf"},
    "a digest beside a type": {"sha512": DIGEST, "mimeType": "application/pdf"},
    "prose beside a type": {"about": PROSE, "mimeType": "application/pdf"},
    "base64 of no known kind": {"token": MANY[:4000]},
    "what begins as a file and is no base64": {"pdf": TEXT[:80] + "%" * 80},
    "base64 with more after its end": {"pdf": TEXT + TEXT},
    "one letter, very often": "x" * 5_000,
    "very many digests": "\n".join([base64.b64encode(bytes(range(64))).decode()] * 60),
    "very many words": "aB3 " * 2_000,
    "text that names data URLs": "Use data:image/png;base64,iVBORw for pictures.",
    "a data URL of garbage": {"image": "data:image/png;base64,a"},
    "many levels down": _nested(TEXT, 150),
    "nothing": None,
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_extract_leaves_text(data: Json) -> None:
    assert extract(data) == (data, [])


def test_extract_from_deeply_nested_data() -> None:
    deep = _nested(5, 950)
    rest, found = extract({"deep": deep, "pdf": TEXT})
    assert found == [SNIFFED]
    assert json.dumps(fill(rest, [SAVED])) == json.dumps({"deep": deep, "pdf": SAVED})


WORDS = ("mimeType", "content", "encoding", "downloadUrl", "size", "filename", "auth", "pdf")
VALUES = (
    "image/png",
    "text/plain",
    "base64",
    TEXT,
    f"data:image/png;base64,{TEXT}",
    "data:,x",
    5,
    None,
)


@few
@given(garbled(WORDS, VALUES) | st.dictionaries(st.sampled_from(WORDS), st.sampled_from(VALUES)))
def test_extract_loses_nothing_of_any_result(data: Json) -> None:
    rest, found = extract(data)
    if not found:
        assert rest == data
    fill(rest, [{"n": number} for number in range(len(found))])
    assert all(isinstance(each, Reference) or each.content is not None for each in found)


AUTHORIZED: dict[str, tuple[Json, str, list[tuple[str, str]]]] = {
    "nothing": ({}, "/f?a#b", []),
    "query": ({"type": "query", "token": "a b"}, "/f?a&token=a%20b#b", []),
    "bearer": ({"type": "bearer", "token": "t"}, "/f?a#b", [("Authorization", "Bearer t")]),
    "bearer, its value": (
        {"type": "bearer", "header": "Bearer t"},
        "/f?a#b",
        [("Authorization", "Bearer t")],
    ),
    "bearer, the whole header": (
        {"type": "bearer", "header": "X-Key: t"},
        "/f?a#b",
        [("X-Key", "t")],
    ),
    "bearer, the name of the header": (
        {"type": "bearer", "header": "X-Key", "token": "t"},
        "/f?a#b",
        [("X-Key", "Bearer t")],
    ),
    "two headers in one": ({"type": "bearer", "header": "X: a\r\nY: b"}, "/f?a#b", []),
    "no header": ({"type": "bearer", "header": "X Y: a"}, "/f?a#b", []),
}


@pytest.mark.parametrize(("auth", "url", "headers"), AUTHORIZED.values(), ids=AUTHORIZED)
def test_authorize_a_download(auth: Json, url: str, headers: list[tuple[str, str]]) -> None:
    assert authorize("/f?a#b", auth) == (url, headers)
