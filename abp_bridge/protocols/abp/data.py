"""Binary data inside an app's result: found wherever ABP's documents put it (X17), and taken out as
bytes.

Nothing is guessed from content alone: a member counts as binary when its neighbours say so
(`mimeType` with `encoding` or a binary type), when it is a data URL, or when it is a reference to
download.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_count

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.-]+)*?)(;base64)?,", re.IGNORECASE)
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "image/svg+xml",
)
_LONG = 160  # longer than any digest, which is base64 too by its looks


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes found in a result, with the type and the file name that the app gave them."""

    content: bytes
    mime_type: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A BinaryDataReference: bytes to be fetched. `size` is what the app promised."""

    url: str
    mime_type: str
    name: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the `index`th item was taken from; `beside` is what stood next to it and stays."""

    index: int
    beside: JsonObject


Member = JsonValue | Place
Extracted = Member | list[Member] | Mapping[str, Member]


def extract(data: JsonValue) -> tuple[Extracted, list[Blob | Reference]]:
    """`data` -> (the same with a `Place` where binary content was, what was taken out).

    `fill` puts something back.

    Looked for at the top level and one level down (DF2, DF3).
    """
    found: list[Blob | Reference] = []
    whole = _take(data, found)
    if whole is not None:
        return whole, found
    if isinstance(data, Mapping):
        return {name: _member(data, name, value, found) for name, value in data.items()}, found
    if isinstance(data, list):
        return [
            taken if (taken := _take(value, found)) is not None else value for value in data
        ], found
    return data, found


def fill(data: Extracted, items: Sequence[JsonObject]) -> JsonValue:
    """`data` with `items[n]` and what stood beside it in each nth `Place`."""

    def filled(value: Member) -> JsonValue:
        return {**value.beside, **items[value.index]} if isinstance(value, Place) else value

    if isinstance(data, Mapping):
        return {name: filled(value) for name, value in data.items()}
    return [filled(value) for value in data] if isinstance(data, list) else filled(data)


def _member(
    parent: JsonObject, name: str, value: JsonValue, found: list[Blob | Reference]
) -> Member:
    taken = _take(value, found)
    if taken is not None:
        return taken
    declared = parent.get("mimeType")
    if (
        isinstance(value, str)
        and len(value) >= _LONG
        and isinstance(declared, str)
        and name != "mimeType"
        and not _is_textual(declared)
    ):
        content = _decode_base64(value)
        if content is not None:
            return _add(Blob(content, _type(declared), _file_name(parent)), {}, found)
    return value


def _take(value: JsonValue, found: list[Blob | Reference]) -> Place | None:
    if isinstance(value, str):
        blob = _from_data_url(value)
        return None if blob is None else _add(blob, {}, found)
    if not isinstance(value, Mapping) or not isinstance(mime_type := value.get("mimeType"), str):
        return None
    if isinstance(url := value.get("downloadUrl"), str):
        size = as_count(value.get("size"))
        return _add(
            Reference(url, _type(mime_type), _file_name(value), size),
            _without(value, "downloadUrl", "auth"),
            found,
        )
    content = value.get("content")
    if not isinstance(content, str) or (
        value.get("encoding") != "base64" and _is_textual(mime_type)
    ):
        return None
    raw = _decode_base64(content)
    return (
        None
        if raw is None
        else _add(
            Blob(raw, _type(mime_type), _file_name(value)),
            _without(value, "content", "encoding"),
            found,
        )
    )


def _without(value: JsonObject, *taken: str) -> dict[str, JsonValue]:
    return {name: each for name, each in value.items() if name not in taken}


def _add(item: Blob | Reference, beside: JsonObject, found: list[Blob | Reference]) -> Place:
    found.append(item)
    return Place(len(found) - 1, beside)


def _from_data_url(value: str) -> Blob | None:
    match = _DATA_URL.match(value) if value[:5].lower() == "data:" else None
    if match is None or match[3] is None:
        return None
    content = _decode_base64(value[match.end() :])
    return None if content is None else Blob(content, _type(match[1] or "text/plain"))


def _decode_base64(content: str) -> bytes | None:
    """Base64, in lines or not.

    Spaces are not base64: without them, words in a row would pass for it.
    """
    try:
        return base64.b64decode("".join(content.splitlines()), validate=True)
    except ValueError:
        return None


def _is_textual(mime_type: str) -> bool:
    return mime_type.lower().startswith(_TEXT_TYPES)


def _type(mime_type: str) -> str:
    return sanitize.label(mime_type, 100)


def _file_name(value: JsonObject) -> str:
    name = value.get("filename", value.get("fileName"))
    return sanitize.label(name, 120) if isinstance(name, str) else ""
