"""GET over HTTP with safeguards: each hop is checked, and only the checked IP is connected to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

import anyio
import httpcore2

from abp_bridge import VERSION
from abp_bridge.core.capability import AppFile
from abp_bridge.core.json_value import JsonObject
from abp_bridge.core.redact.command import show_target
from abp_bridge.core.sanitize import label
from abp_bridge.protocols.abp.data import authorize
from abp_bridge.session.app import DOWNLOAD_LIMIT, MAX_DOWNLOAD, Absence, AppError, find_absence

MAX_REDIRECTS = 5
MAX_URL = 8_000  # characters of an address: what servers take
CONNECT_LIMIT = 4.0  # seconds for one of several addresses
DEFAULT_PORTS = {"http": 80, "https": 443}

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def split(url: str) -> SplitResult:
    """Split an http(s) address into parts that all readers agree on: ASCII, IDNA, no default port.

    Raises:
        AppError: The address is invalid (`INVALID_PARAMS`).
    """
    parts, host, port, why = _read(url)
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


def _read(url: str) -> tuple[SplitResult, str, int | None, str]:
    """Return the parts, host, port and problem of `url`; Python's errors would quote it."""
    empty = urlsplit("")
    if len(url) > MAX_URL or "\\" in url or not url.isprintable() or " " in url:
        return empty, "", None, "it is too long or holds characters that an address cannot have."
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
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
