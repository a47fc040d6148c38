"""Fetch over HTTP with safeguards: each hop is checked, and only the checked IP is connected to.

Discovery (D1..D9) finds a page's manifest and icon without running the page. A manifest is not
trusted (D3..D5): the running app says what it can do. An icon proves nothing: it is shown beside
the origin, never instead of it.
"""

from __future__ import annotations

import base64
import codecs
import ipaddress
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import cast
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

import anyio
import httpcore2

from abp_bridge import VERSION
from abp_bridge.core.capability import AppFile, Capability, CapabilityList
from abp_bridge.core.file import sniff
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text, parse_json
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import find_codec
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.data import authorize
from abp_bridge.session.app import DOWNLOAD_LIMIT, MAX_DOWNLOAD, Absence, AppError, find_absence

MAX_REDIRECTS = 5
CONNECT_LIMIT = 4.0  # seconds for one of several addresses
HEAD_LIMIT = 50_000  # characters of a page, in which its manifest's link must be
MANIFEST_LIMIT = 1_000_000  # bytes of a manifest
TIME_LIMIT = 10.0  # seconds for the page, and again for the manifest
MAX_HOST = 253  # characters of a host (RFC 1035, 2.3.4): IDNA's time is quadratic
MAX_ICON_BYTES = 65_536  # bytes; ABP has 192 x 192 pixels
MAX_ICON_PIXELS = 1_024  # pixels, either way: what unpacks to more is a burden
DEFAULT_PORTS = {"http": 80, "https": 443}

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def split(url: str) -> SplitResult:
    """Split an http(s) address into parts that all readers agree on: ASCII, IDNA, no default port.

    Raises:
        AppError: The address is invalid (`INVALID_PARAMS`).
    """
    parts, host, port, why = _parse_address(url)
    if why:
        words = f"{label(show_target(url))!r} is no web address: {why}"
        raise AppError(words, "INVALID_PARAMS")
    if "@" in parts.netloc:
        raise AppError("An app's address cannot hold a user name or a password.", "INVALID_PARAMS")
    bracketed = f"[{host}]" if ":" in host else host
    place = bracketed if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{bracketed}:{port}"
    return parts._replace(
        netloc=place,
        path=_quote(parts.path) or "/",
        query=_quote(parts.query),
        fragment=_quote(parts.fragment),
    )


def _parse_address(url: str) -> tuple[SplitResult, str, int | None, str]:
    """Return the parts, host, port and problem of `url`; Python's errors would quote it."""
    empty = urlsplit("")
    if "\\" in url or not url.isprintable() or " " in url:
        return empty, "", None, "it holds characters that an address cannot have."
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
        if len(name) > MAX_HOST:
            return empty, "", None, f"its host has more than {MAX_HOST} characters."
        host = name.encode("idna").decode()
    except ValueError:
        return empty, "", None, "its host or its port cannot be read."
    fits = parts.scheme in DEFAULT_PORTS and host
    why = "" if fits else "it must begin with http:// or https:// and name a host."
    return parts, host, port, why


def join(base: str, link: str) -> str:
    """Resolve `link` against `base`; return an invalid link unchanged, which `split` rejects."""
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _quote(part: str) -> str:
    return "".join(letter if letter.isascii() else quote(letter) for letter in part)


_EXTENSION = re.compile(r"chrome-extension://[a-p]{32}(?=/|\Z)")


def site(url: str) -> str:
    """Return the origin of an http(s) or extension address as browsers write it, else ""."""
    if extension := _EXTENSION.match(url):
        return extension[0]
    try:
        parts = split(url)
    except AppError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"


class Guard:
    """Allows public hosts, and private ones that the user named as `host` or `host:port`."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = {each.strip().lower() for each in named}

    def names(self, host: str, port: int) -> bool:
        """Return whether the user named `host`."""
        plain = host.lower().strip("[]")
        return bool({plain, f"[{plain}]", f"{plain}:{port}", f"[{plain}]:{port}"} & self._named)

    def allows(self, host: str, port: int, address: str) -> bool:
        """Return whether `host`, resolved to the IP `address`, may be reached at `port`."""
        return self.names(host, port) or is_public(address)


def is_public(address: str) -> bool:
    """Return whether an IP address, and any address embedded in it, is public."""
    ip: IPAddress = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        carried = ip.ipv4_mapped or ip.sixtofour or _embedded_ipv4(ip)
        if carried is not None:
            return is_public(str(carried))
        if ip.teredo is not None:
            return False
    return ip.is_global and not (
        ip.is_multicast or ip.is_reserved or ip.is_link_local or ip.is_unspecified
    )


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _embedded_ipv4(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A response: its final `url`, and its `body` as the bytes arrive."""

    url: str
    headers: Mapping[str, str]  # by lower-case name
    body: AsyncIterator[bytes]


@asynccontextmanager
async def get(
    url: str,
    guard: Guard,
    *,
    what: str,
    accept: str,
    limit: float,
    headers: Sequence[tuple[str, str]] = (),
) -> AsyncIterator[FetchedDocument]:
    """GET `url`, following at most `MAX_REDIRECTS` redirects.

    Args:
        url: The address.
        guard: Decides which hosts are allowed.
        what: The document's name in errors.
        accept: The media type for `Accept`.
        limit: Seconds for the request and the block.
        headers: More headers, only for the origin of `url`.

    Raises:
        AppError: The request failed or is not allowed.
    """
    failed = f"Failed to fetch {what}"
    shown = show_target(url)
    more = list(headers)
    with _named_failures(failed, shown, limit):
        async with httpcore2.AsyncConnectionPool(network_backend=_Checked(guard)) as pool:
            for _ in range(MAX_REDIRECTS + 1):
                url = split(url)._replace(fragment="").geturl()
                asked = [("Accept", accept), *_HEADERS, *more]
                async with pool.stream("GET", url, headers=asked) as response:
                    told = {
                        name.decode("latin-1").lower(): value.decode("latin-1")
                        for name, value in response.headers
                    }
                    if response.status in _REDIRECTS and "location" in told:
                        target = _redirect_target(url, told["location"])
                        more = more if site(target) == site(url) else []
                        url = target
                        continue
                    _check_response(response.status, told, failed, show_target(url))
                    yield FetchedDocument(url, told, response.aiter_stream())
                    return
            raise _NamedError(f"{failed}: {shown} has more than {MAX_REDIRECTS} redirects")


class _NamedError(AppError):
    """An error whose message already names the document and address."""


@contextmanager
def _named_failures(failed: str, shown: str, limit: float) -> Iterator[None]:
    """Bound the block to `limit` seconds, and raise its errors as AppError with the address."""
    try:
        with anyio.fail_after(limit):
            yield
    except TimeoutError:
        raise AppError(f"{failed}: {shown} was not done within {limit:g} s", "TIMEOUT") from None
    except (
        httpcore2.NetworkError,
        httpcore2.TimeoutException,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
    ) as problem:
        raise _explain_failure(problem, failed, shown) from None
    except _NamedError:
        raise
    except AppError as problem:
        raise problem.with_message(f"{failed}: {shown}: {problem}") from None


def _explain_failure(problem: Exception, failed: str, shown: str) -> AppError:
    words = label(problem).rstrip(".") or type(problem).__name__
    if shown.startswith("https:") and speaks_plainly(words):
        plain = f"http{shown.removeprefix('https')}"
        return AppError(f"{failed}: {shown} speaks plain http there. Try {plain}")
    words = f"{failed}: {shown}: {words}. Is its server running?"
    return AppError(words, absence=Absence.SERVER)


def speaks_plainly(words: str) -> bool:
    """Return whether OpenSSL's error `words` mean that the server speaks no TLS."""
    return "WRONG_VERSION_NUMBER" in words or "RECORD_LAYER_FAILURE" in words


def _check_response(status: int, headers: Mapping[str, str], failed: str, shown: str) -> None:
    """Raise AppError unless the response has a readable document."""
    if not 200 <= status < 300:
        raise _NamedError(f"{failed}: HTTP {status} at {shown}", absence=find_absence(status))
    if headers.get("content-encoding", "identity") != "identity":
        raise _NamedError(f"{failed}: {shown} was sent compressed although asked not to.")


_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = (
    ("Accept-Encoding", "identity"),
    ("User-Agent", f"abp-bridge/{VERSION}"),
    ("Connection", "close"),
)


def _redirect_target(url: str, location: str) -> str:
    target = join(url, location)
    if url.startswith("https:") and not target.startswith("https:"):
        raise AppError(
            f"it redirects from https to {label(show_target(target))!r}", "PERMISSION_DENIED"
        )
    return target


class _Checked(httpcore2.AsyncNetworkBackend):
    """Connects to the very IP address that the guard checked, against DNS rebinding."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        allowed = await reachable(host, port, self._guard)
        *others, last = allowed
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._inner.connect_tcp(
                    address, port, CONNECT_LIMIT, local_address, socket_options
                )
        return await self._inner.connect_tcp(last, port, timeout, local_address, socket_options)


async def reachable(host: str, port: int, guard: Guard) -> list[str]:
    """Return the addresses of `host` that `guard` allows.

    Raises:
        AppError: There are none.
    """
    addresses = await resolve(host, port)
    allowed = [address for address in addresses if guard.allows(host, port, address)]
    if not allowed:
        raise AppError(
            f"{host} is on a private network ({addresses[0]}), which only the person can allow:"
            f" start abp-bridge with --app and the app's address, or with --allow {host}",
            "PERMISSION_DENIED",
        )
    return allowed


async def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of `host`.

    Raises:
        AppError: The host is unknown.
    """
    try:
        found = await anyio.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        words = f"there is no host {label(host)!r}"
        raise AppError(words, absence=Absence.HOST) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def download(url: str, auth: JsonObject, allowed_hosts: Sequence[str]) -> AppFile:
    """Fetch `url` for an app (`App.download`); `auth` goes to no other origin."""
    address, headers = authorize(url, auth)
    asked = get(
        address,
        Guard(allowed_hosts),
        what="file",
        accept="*/*",
        limit=DOWNLOAD_LIMIT,
        headers=headers,
    )
    content = bytearray()
    async with asked as file:
        async for data in file.body:
            content += data
            if len(content) > MAX_DOWNLOAD:
                raise AppError(f"it is larger than {MAX_DOWNLOAD} bytes")
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    return AppFile(bytes(content), file.headers.get("content-type", ""), name)


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
        return _decode_manifest(page.url, address, content)
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


def _decode_manifest(url: str, address: str, content: bytes) -> Manifest:
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


_SIZE = struct.Struct(">II")  # width and height, behind a PNG's mark and the name of its head
_SIZE_AT = 16


async def fetch_icon(url: str, guard: Guard) -> str:
    """Fetch the PNG at `url` and return it as a `data:` address.

    Raises:
        AppError: It cannot be fetched, or is not a small PNG.
    """
    content = b""
    async with get(url, guard, what="app icon", accept="image/png", limit=TIME_LIMIT / 2) as file:
        async for data in file.body:
            content += data
            if len(content) > MAX_ICON_BYTES:
                raise AppError(f"an icon may have {MAX_ICON_BYTES} bytes")
    if sniff(content) != "image/png" or len(content) < _SIZE_AT + _SIZE.size:
        raise AppError("an icon must be a PNG")
    if max(_SIZE.unpack_from(content, _SIZE_AT)) > MAX_ICON_PIXELS:
        raise AppError(f"an icon may be {MAX_ICON_PIXELS} pixels wide and high")
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
