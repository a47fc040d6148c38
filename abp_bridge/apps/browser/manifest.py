"""Discovery (D1..D9): from a page's address to its manifest and icon, without running the page.

A manifest is not trusted (D3..D5): the running app says what it can do. An icon proves nothing: it
is shown beside the origin, never instead of it.
"""

from __future__ import annotations

import base64
import codecs
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser

from abp_bridge.apps.browser.fetch import FetchedDocument, Guard, get, join
from abp_bridge.apps.browser.page_state import PAGE_LIMIT
from abp_bridge.core.capability import Capability, CapabilityList
from abp_bridge.core.file import sniff
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, parse_json
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import find_codec
from abp_bridge.protocols import abp
from abp_bridge.session.app import Absence, AppError

HEAD_LIMIT = 50_000  # characters of a page, in which its manifest's link must be
MANIFEST_LIMIT = 1_000_000  # bytes of a manifest
TIME_LIMIT = 10.0  # seconds for the page, and again for the manifest


@dataclass(frozen=True, slots=True)
class Manifest:
    """A page's head and manifest, with the page's `url` after redirects and the app's `icon`
    address.
    """

    url: str
    capabilities: tuple[Capability, ...]
    warnings: tuple[str, ...]
    content: JsonObject
    icon: str = ""


class NoManifestError(AppError):
    """A page without a link to a manifest; `url` is its address after redirects."""

    def __init__(self, message: str, url: str) -> None:
        super().__init__(message, "NOT_SUPPORTED", Absence.LINK)
        self.url = url


async def discover(target: str, guard: Guard) -> Manifest:
    """Read the page at `target` and the manifest that it links to.

    Raises:
        NoManifestError: The page has no link to a manifest.
        AppError: One of them cannot be fetched, or the manifest is invalid.
    """
    async with get(target, guard, what="app page", accept="text/html", limit=TIME_LIMIT) as page:
        head = await _read_head(page)
    if head.href is None:
        raise NoManifestError(_describe_missing_link(page.url, head.title), page.url)
    address = join(page.url, join(head.base, head.href))
    try:
        content = await _fetch_manifest(address, guard)
    except AppError as problem:
        raise AppError(str(problem), problem.code, Absence.MANIFEST) from None
    try:
        return _read(page.url, address, content)
    except ValueError as problem:
        words = f"Manifest {problem} ({show_target(address)})"
        raise AppError(words, "INVALID_PARAMS", Absence.CONTENT) from None


def _describe_missing_link(url: str, title: str) -> str:
    titled = f"is titled {label(title, 80)!r}" if title.strip() else "has no title"
    return (
        f'No <link rel="abp-manifest"> found in page head: the page at {show_target(url)} {titled}.'
        ' A page made for ABP (agenticbrowserprotocol.io) has <link rel="abp-manifest"'
        ' href="abp.json"> in its head.'
    )


async def _fetch_manifest(address: str, guard: Guard) -> bytes:
    async with get(
        address, guard, what="manifest", accept="application/json", limit=TIME_LIMIT
    ) as file:
        content = b""
        async for data in file.body:
            content += data
            if len(content) > MANIFEST_LIMIT:
                raise AppError(f"it is larger than {MANIFEST_LIMIT} bytes")
    return content


async def _read_head(page: FetchedDocument) -> _Head:
    head = _Head()
    kind = page.headers.get("content-type", "")
    charset = kind.partition("charset=")[2].split(";")[0].strip("\"' ")
    decoder = (find_codec(charset) or codecs.lookup("utf-8")).incrementaldecoder("replace")
    left = HEAD_LIMIT
    async for data in page.body:
        try:
            text = decoder.decode(data)[:left]
        except UnicodeError as problem:  # utf-16 without a mark of its order
            raise AppError(f"it is no text in {charset}: {problem}", "INVALID_PARAMS") from None
        left -= len(text)
        try:
            head.feed(text)
        except AssertionError:  # html.parser's way of giving up on a malformed declaration
            break
        if head.over or left <= 0:
            break
    return head


class _Head(HTMLParser):
    """Finds the first manifest link and the title; `over` once nothing more can be found."""

    def __init__(self) -> None:
        super().__init__()
        self.href: str | None = None
        self.base = ""
        self.title = ""
        self.over = False
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.over:
            return
        values = {name: value or "" for name, value in reversed(attrs)}
        if tag == "link" and "abp-manifest" in values.get("rel", "").lower().split():
            self.over, self.href = True, values.get("href", "").strip() or None
        elif tag == "title":
            self._in_title = not self.title
        elif tag == "base":
            self.base = self.base or values.get("href", "").strip()
        elif tag == "body":
            self.over = True

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"
        self.over = self.over or tag == "head"


def _read(url: str, address: str, content: bytes) -> Manifest:
    """Decode a manifest, or raise ValueError with the problem."""
    try:
        manifest = parse_json(content)
    except ValueError as problem:
        raise ValueError(f"is not valid JSON: {label(problem)}") from None
    if not isinstance(manifest, Mapping):
        raise ValueError("must be a JSON object")
    for field in ("abp", "app"):
        if not manifest.get(field):
            raise ValueError(f"missing required field: {field}")
    capabilities = _capabilities(manifest.get("capabilities"))
    warnings = (*_warnings(manifest["abp"]), *capabilities.problems)
    icon = as_text(as_object(manifest["app"]).get("icon"))
    return Manifest(url, capabilities, warnings, manifest, icon and join(address, icon))


def _capabilities(listed: JsonValue) -> CapabilityList:
    if listed is None:
        return CapabilityList()
    if not isinstance(listed, list):
        raise ValueError("field capabilities must be a list")
    for number, entry in enumerate(listed, 1):
        if not as_text(as_object(entry).get("name")):
            raise ValueError(f"capability {number} has no name: {label(json.dumps(entry), 80)}")
    return abp.decode_capabilities(listed)


def _warnings(version: JsonValue) -> tuple[str, ...]:
    """Warn of an unknown version, which is tried anyway (D6, X16)."""
    known = isinstance(version, (str, int, float)) and str(version).split(".")[0] in ("0", "1")
    if known:
        return ()
    return (f"its manifest says ABP {label(version, 40)}; this bridge knows 0.x and 1.x",)


MAX_ICON_BYTES = 65_536  # bytes; ABP has 192 x 192 pixels
MAX_ICON_PIXELS = 1_024  # pixels, either way: what unpacks to more is a burden

_SIZE = struct.Struct(">II")  # width and height, behind a PNG's mark and the name of its head
_SIZE_AT = 16


async def fetch_icon(url: str, guard: Guard) -> str:
    """Fetch the PNG at `url` and return it as a `data:` address.

    Raises:
        AppError: It cannot be fetched, or is not a small PNG.
    """
    content = b""
    async with get(url, guard, what="app icon", accept="image/png", limit=PAGE_LIMIT) as file:
        async for data in file.body:
            content += data
            if len(content) > MAX_ICON_BYTES:
                raise AppError(f"an icon may have {MAX_ICON_BYTES} bytes")
    if sniff(content) != "image/png" or len(content) < _SIZE_AT + _SIZE.size:
        raise AppError("an icon must be a PNG")
    if max(_SIZE.unpack_from(content, _SIZE_AT)) > MAX_ICON_PIXELS:
        raise AppError(f"an icon may be {MAX_ICON_PIXELS} pixels wide and high")
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
