"""Find and decode binary data in an app's result, wherever ABP's documents put it (X17).

A member is binary if its neighbours say so (`mimeType` with `encoding` or a binary type), if it is
a data URL or a reference to download, or if it is base64 that starts like a known kind of file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import quote, unquote

from abp_bridge.core import sanitize
from abp_bridge.core.file import HEAD, sniff
from abp_bridge.core.json_value import JsonObject, JsonValue, as_count, as_object, as_text

UNKNOWN = "application/octet-stream"
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.-]+)*?)(;base64)?,", re.IGNORECASE)
_INNER_DATA_URL = re.compile(r";base64,(?:[a-z0-9+/_-]|%[0-9a-f]{2}|\s|\\[rn]){160}", re.IGNORECASE)
# As files have it and words have not: in one piece or in long lines, which may be escaped. Each
# letter is looked at once.
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{60,}+(?:(?:\\r)?\\n|\r?\n)?)++", re.ASCII
)
_LINE, _WINDOW = re.compile(r"[A-Za-z0-9+/_-]{60}"), 60 + 4 + 60  # with a line's end between two
_BASE64 = re.compile(r"[A-Za-z0-9+/]{32}")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "image/svg+xml",
)
_LONG = 160  # longer than any digest, which is base64 too by its looks
_VERY_LONG = 4_096  # characters of base64 that are a file though nobody knows of which kind
_MAX_LEVELS = 100  # levels that are looked at; a page's results have no more
_HEAD = 4 * -(-HEAD // 3)  # characters of base64 that are the first `HEAD` bytes
_PIECE = 2**20  # characters that are decoded at once: a multiple of four


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes found in a result, with the app's type and file name.

    Attributes:
        sniffed: The type comes from the first bytes.
        stated_size: The size the app gave.
        readable: Whether a model may read it if its type is text.
    """

    content: bytes
    mime_type: str
    name: str = ""
    sniffed: bool = False
    stated_size: int | None = None
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Reference:
    """A BinaryDataReference to download, with the app's `size` and raw `auth`."""

    url: str
    mime_type: str
    name: str = ""
    size: int | None = None
    auth: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the `index`th item was taken from; `beside` is what stood next to it and stays."""

    index: int
    beside: Mapping[str, Extracted]


Extracted = JsonValue | Place | list["Extracted"] | Mapping[str, "Extracted"]
Found = list[Blob | Reference]


def extract(data: JsonValue) -> tuple[Extracted, Found]:
    """Return `data` with a `Place` for each binary value, and these values; `fill` reverses it."""
    found: Found = []
    return _replace(data, found, 0), found


def fill(data: Extracted, items: Sequence[JsonObject]) -> JsonValue:
    """`data` with `items[n]` and what stood beside it in each nth `Place`."""
    return _fill(data, items, 0)


def _fill(data: Extracted, items: Sequence[JsonObject], depth: int) -> JsonValue:
    if depth > _MAX_LEVELS:
        return cast("JsonValue", data)  # nobody has looked there
    if isinstance(data, Place):
        beside = {name: _fill(each, items, depth + 1) for name, each in data.beside.items()}
        return {**beside, **items[data.index]}
    if isinstance(data, Mapping):
        return {name: _fill(each, items, depth + 1) for name, each in data.items()}
    return [_fill(each, items, depth + 1) for each in data] if isinstance(data, list) else data


def holds_base64(text: str) -> bool:
    """Whether so much base64 is somewhere in `text` that it is a file's, and nothing to be read."""
    if len(text) < _VERY_LONG:
        return False
    # A run that is long enough has a whole line in one of these windows: most texts have none.
    windows = range(0, len(text), _VERY_LONG // 2)
    if not any(_LINE.search(text, start, start + _WINDOW) for start in windows):
        return False
    runs = (found[0] for found in _RUN.finditer(text))
    return any(len(run) >= _VERY_LONG and _is_mixed(run[:_VERY_LONG]) for run in runs)


def authorize(url: str, auth: JsonObject) -> tuple[str, list[tuple[str, str]]]:
    """Return the address and headers of a request with a BinaryDataReference's `auth`.

    A `bearer` header is `Name: value`, the name beside a `token`, or the value.
    """
    token, header = as_text(auth.get("token")), as_text(auth.get("header"))
    if auth.get("type") == "query" and token:
        address, mark, fragment = url.partition("#")
        join = "&" if "?" in address else "?"
        return f"{address}{join}token={quote(token, safe='')}{mark}{fragment}", []
    if auth.get("type") != "bearer" or not (token or header):
        return url, []
    name, colon, value = header.partition(":")
    if not colon:
        value = f"Bearer {token}" if token else header
        name = header if token and header else "Authorization"
        value = value if " " in value else f"Bearer {value}"
    sent = name.strip(), value.strip()
    return url, [sent] if _HEADER.fullmatch(sent[0]) and _is_header_value(sent[1]) else []


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _replace(value: JsonValue, found: Found, depth: int) -> Extracted:
    if depth > _MAX_LEVELS:
        return value
    if isinstance(value, str):
        blob = _from_text(value)
        return value if blob is None else _add(blob, {}, found)
    if isinstance(value, Mapping):
        taken = _take(value, found, depth)
        return _members(value, found, depth) if taken is None else taken
    return (
        [_replace(each, found, depth + 1) for each in value] if isinstance(value, list) else value
    )


def _members(parent: JsonObject, found: Found, depth: int, *taken: str) -> dict[str, Extracted]:
    """What is in an object, without the members that were `taken` out of it."""
    return {
        name: _member(parent, name, value, found, depth)
        for name, value in parent.items()
        if name not in taken
    }


def _member(parent: JsonObject, name: str, value: JsonValue, found: Found, depth: int) -> Extracted:
    declared = parent.get("mimeType")
    if (
        isinstance(value, str)
        and len(value) >= _LONG
        and isinstance(declared, str)
        and name != "mimeType"
        and not _is_textual(declared)
        and (content := _decode_base64(value)) is not None
    ):
        return _add(Blob(content, _type(declared), _file_name(parent)), {}, found)
    return _replace(value, found, depth + 1)


def _take(value: JsonObject, found: Found, depth: int) -> Place | None:
    declared = value.get("mimeType")
    mime_type = _type(declared) if isinstance(declared, str) else ""
    name, size = _file_name(value), as_count(value.get("size"))
    if mime_type and isinstance(url := value.get("downloadUrl"), str):
        inside = _from_data_url(url)
        item = (
            Reference(url, mime_type, name, size, as_object(value.get("auth")))
            if inside is None
            else replace(inside, mime_type=mime_type, name=name, sniffed=False, stated_size=size)
        )
        return _add(item, _members(value, found, depth, "downloadUrl", "auth"), found)
    content, encoding = value.get("content"), value.get("encoding")
    if not isinstance(content, str) or encoding == "utf-8":
        return None
    if encoding != "base64" and (not mime_type or _is_textual(mime_type)):
        return None
    if (raw := _decode_base64(content)) is None:
        return None
    blob = Blob(raw, mime_type or sniff(raw) or UNKNOWN, name, not mime_type, size)
    return _add(blob, _members(value, found, depth, "content", "encoding"), found)


def _add(item: Blob | Reference, beside: Mapping[str, Extracted], found: Found) -> Place:
    found.append(item)
    return Place(len(found) - 1, beside)


def _from_text(value: str) -> Blob | None:
    """What a text is that nothing beside it speaks of."""
    if (blob := _from_data_url(value)) is not None:
        return blob
    if _BASE64.match(value) and (blob := _from_base64(value)) is not None:
        return blob
    if (";base64," in value and _INNER_DATA_URL.search(value)) or holds_base64(value):
        return Blob(value.encode(errors="replace"), _markup(value), readable=False)
    return None


def _from_data_url(value: str) -> Blob | None:
    """What a text is that is one data URL of base64, which may be escaped and hold blanks."""
    match = _DATA_URL.match(value) if value[:5].lower() == "data:" else None
    if match is None or match[3] is None:
        return None
    body = value[match.end() :]
    content = _decode_base64("".join((unquote(body) if "%" in body else body).split()))
    return None if content is None else _typed(content, match[1] or "", "text/plain")


def _typed(content: bytes, declared: str, otherwise: str) -> Blob:
    kind = "" if declared else sniff(content)
    return Blob(content, _type(declared) or kind or otherwise, sniffed=bool(kind))


def _from_base64(value: str) -> Blob | None:
    head = _decode_base64("".join(value[: 4 * HEAD].splitlines())[:_HEAD])
    kind = sniff(head or b"")
    if not kind and (len(value) < _VERY_LONG or not _is_mixed(value[:_VERY_LONG])):
        return None
    content = _decode_base64(value)
    return None if content is None else Blob(content, kind or UNKNOWN, sniffed=True)


def _is_mixed(text: str) -> bool:
    """Whether it has letters of both sizes and digits, as files have and words have not."""
    return text != text.lower() and text != text.upper() and any(map(str.isdecimal, text))


def _markup(text: str) -> str:
    begins = text[:HEAD].lstrip().lower()
    return "text/html" if begins.startswith(("<!doctype html", "<html")) else "text/plain"


def _decode_base64(content: str) -> bytes | None:
    """Decode base64 with or without line breaks; spaces are not base64 but words."""
    text = "".join(content.splitlines()) if "\n" in content or "\r" in content else content
    if text.find("=", 0, -2) >= 0:
        return None
    try:
        pieces = range(0, len(text), _PIECE)
        return b"".join(base64.b64decode(text[at : at + _PIECE], validate=True) for at in pieces)
    except ValueError:
        return None


def _is_textual(mime_type: str) -> bool:
    return mime_type.lower().startswith(_TEXT_TYPES)


def _type(mime_type: str) -> str:
    return sanitize.label(mime_type, 100)


def _file_name(value: JsonObject) -> str:
    name = value.get("filename", value.get("fileName"))
    return sanitize.label(name, 120) if isinstance(name, str) else ""
