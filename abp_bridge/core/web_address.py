"""The host a web address leads to as a browser reads it, and oddities of its spelling."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote, urlsplit

from abp_bridge.core.sanitize import label

_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\Z")
_BASES = ((re.compile(r"0x[0-9a-f]*\Z"), 16), (re.compile(r"0\d*\Z"), 8))
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|\d+)\Z")  # what the last part of a numeric address looks like
_FOREIGN = "xn--"  # begins a label that stands for letters that are not ASCII


def host_of(url: str) -> str | None:
    """Return the host of a printable ASCII `url` as a browser reads it: `0x7f.1` is 127.0.0.1.

    None for another scheme, or for one with a user, which disguises the host.
    """
    try:
        parts = urlsplit(url)
        written = parts.hostname or ""
        port_fits = parts.port is None or parts.port > 0
        if "\\" in url or "@" in parts.netloc or parts.scheme not in ("http", "https"):
            return None
        if "[" in parts.netloc:
            return str(IPv6Address(written)) if port_fits else None
        host = unquote(written, errors="strict").lower().removesuffix(".")
        host = host if host.isascii() else host.encode("idna").decode()
        if _NUMBER.match(host.rpartition(".")[2]):
            host = str(_read_ipv4(host))
    except (ValueError, AddressValueError):
        return None
    return host if port_fits and _NAME.match(host) else None


def describe_oddities(url: str) -> str:
    """Say what is odd about the host of `url`, or ""."""
    host, written = host_of(url) or "", urlsplit(url).hostname or ""
    words = []
    if host != written:
        words.append(f"This address leads to {host}, which it spells as {label(written)!r}.")
    if any(part.startswith(_FOREIGN) for part in host.split(".")):
        shown = ".".join(map(_read_label, host.split(".")))
        words.append(
            f"{label(host)} stands for {label(shown)!r}: its letters may look like others."
        )
    return " ".join(words)


def _read_label(part: str) -> str:
    if not part.startswith(_FOREIGN):
        return part
    try:
        return part.removeprefix(_FOREIGN).encode().decode("punycode")
    except UnicodeError:
        return part


def _read_ipv4(host: str) -> IPv4Address:
    """Read one to four decimal, octal or hexadecimal numbers as browsers do.

    Raises ValueError.
    """
    *first, last = map(_read_number, host.split("."))
    if len(first) > 3 or any(each > 255 for each in first) or last >= 256 ** (4 - len(first)):
        raise ValueError("it is no address")
    return IPv4Address(sum(each << 8 * (3 - place) for place, each in enumerate(first)) + last)


def _read_number(word: str) -> int:
    base = next((base for pattern, base in _BASES if pattern.match(word)), 10)
    return int(word.removeprefix("0x") or "0" if base == 16 else word, base)
