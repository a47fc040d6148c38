"""The formats that a text is held to, each by its name in JSON Schema: what it is in words, and
whether a text is one.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

MAX_EMAIL = 320  # characters: 64, an @, and 255
_ATOM = r'[^\s"(),:;<>@[\\\].\x00-\x1f\x7f]+'
_LABEL = r"[^\W_](?:[\w-]*[^\W_])?"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[^"\\\r\n]|\\.)*")'
_EMAIL = re.compile(rf"{_LOCAL}@(?:{_LABEL}(?:\.{_LABEL})*|\[(IPv6:)?([^]]*)\])")


def _is_email(value: str) -> bool:
    """As RFC 5321 has it, in the letters of any language."""
    found = _EMAIL.fullmatch(value) if len(value) <= MAX_EMAIL else None
    if found is None or found[2] is None:
        return found is not None
    try:
        (ipaddress.IPv6Address if found[1] else ipaddress.IPv4Address)(found[2])
    except ValueError:
        return False
    return True


def _is_uri(value: str) -> bool:
    try:
        return (
            bool(urlsplit(value).scheme)
            and re.fullmatch(r"[^:]+:[^\s\x00-\x1f\x7f]+", value) is not None
        )
    except ValueError:
        return False


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATE_TIME = re.compile(_DATE.pattern + r"[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and _moment(value) is not None


def _is_date_time(value: str) -> bool:
    """As RFC 3339 has it: Python alone would take weeks, missing seconds and missing separators
    too, and no leap second.
    """
    if _DATE_TIME.fullmatch(value) is None:
        return False
    leaps = value[17:19] == "60"
    moment = _moment(f"{value[:17]}59{value[19:]}".upper() if leaps else value.upper())
    if moment is None or not leaps:
        return moment is not None
    minutes = datetime.timedelta(hours=moment.hour, minutes=moment.minute + 1)
    return (minutes - (moment.utcoffset() or _DAY)) % _DAY == datetime.timedelta()


_DAY = datetime.timedelta(days=1)


def _moment(text: str) -> datetime.datetime | None:
    """The time, if there is such a time."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


FORMATS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "email": ("an e-mail address", _is_email),
    "uri": ("a full address with its scheme (https://...)", _is_uri),
    "date": ("a date (YYYY-MM-DD)", _is_date),
    "date-time": ("a date and time with its offset (2026-07-28T12:00:00Z)", _is_date_time),
}
