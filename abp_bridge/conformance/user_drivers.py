"""The user of a fixture: at the bridge's page, at a terminal, and with a program that uses the
questions API.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import secrets
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException, HTTPMessage
from http.cookiejar import CookieJar
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import (
    BaseHandler,
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    ProxyHandler,
    Request,
    build_opener,
)

import anyio

from abp_bridge.conformance.connections import MAX_BYTES
from abp_bridge.conformance.match import MAX_SHOWN
from abp_bridge.core.file import File
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_object,
    as_text,
    parse_json,
    to_text,
)

REQUEST_TIMEOUT = 5.0  # seconds for one request; a page of this machine takes none of that
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_SUMMARIES = 3  # pages after the first that only want to be sent again
_CONTROLS = ("input", "textarea", "select", "option", "button")
_CHOICES = ("radio", "checkbox", "option")  # kinds of items to choose from

FormFields = Sequence[tuple[str, str | File]]  # what a form sends: names and values


def fill_in(link: str, values: Sequence[JsonValue], press: str, reads: Sequence[str] = ()) -> None:
    """Open `link`, fill in the form there, and press a button until no form is left.

    Args:
        link: An http address of this machine.
        values: One for each control, in order: text, a number, an option's label, a list of them,
            or a
            file as `{content, encoding, mimeType, filename}`. None leaves a control empty; extra
            controls keep their values, and a list gets extra entries.
        press: A button, by its value or label.
        reads: Texts that must be on the page.

    Raises:
        ValueError: The page differs; the message says how.
        OSError: It cannot be reached.
    """
    browser = FormBrowser(origin_of(link))
    page = browser.visit(link)
    if page.action is None:
        raise ValueError(f"its link leads to no form, but to: {page.shown}")
    if missing := [words for words in reads if words not in page.words]:
        raise ValueError(f"there is nothing of {missing[0]!r} on it, but: {page.shown}")
    while len(values) > len(page.controls) and (add := page.more_button):
        page = browser.submit(page, page.fields([], add))
    page = browser.submit(page, page.fields(values, press))
    for _ in range(MAX_SUMMARIES):
        if page.action is None:
            return
        if page.controls:
            raise ValueError(f"it does not take what is filled in: {page.shown}")
        page = browser.submit(page, page.fields([], press))
    raise ValueError(f"it wants to be sent again and again: {page.shown}")


Origin = tuple[str, int]  # host and port; the scheme is http


def origin_of(url: str) -> Origin:
    """Return host and port of an http address of this machine. Raises ValueError for others."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host not in LOOPBACK:
        raise ValueError(f"{url} is no page of this machine's")
    return host, parts.port or 80


class PageBrowser:
    """A browser with cookies; with an `origin`, limited to that host and port. `url` is the last
    page's.
    """

    def __init__(self, origin: Origin | None = None, timeout: float = REQUEST_TIMEOUT) -> None:
        self.url = ""
        self.cookies = CookieJar()
        self._origin = origin
        self._timeout = timeout
        handlers: list[BaseHandler] = [ProxyHandler({}), HTTPCookieProcessor(self.cookies)]
        self.opener = build_opener(*handlers, *([_Redirects(origin)] if origin else []))

    def load(self, url: str, body: bytes | None = None, content_type: str = "") -> bytes:
        """Get `url`, or post `body`; return the page. Raises HTTPError and OSError."""
        if self._origin is not None:
            _check_origin(url, self._origin)
        parts = urlsplit(url)
        headers = {"Content-Type": content_type, "Origin": f"{parts.scheme}://{parts.netloc}"}
        request = Request(url, body, {} if body is None else headers)  # noqa: S310
        with self.opener.open(request, timeout=self._timeout) as response:
            self.url = response.url
            page: bytes = response.read(MAX_BYTES)
        return page


class FormBrowser(PageBrowser):
    """A browser without scripts that fills in forms. An HTTP error is a ValueError."""

    def visit(self, url: str, body: bytes | None = None, content_type: str = "") -> _Page:
        try:
            return _Page(self.load(url, body, content_type))
        except HTTPError as refused:
            page = _Page(refused.read(MAX_BYTES))
            raise ValueError(f"HTTP {refused.code}: {page.shown}") from None
        except HTTPException as problem:
            raise ValueError(f"it does not speak HTTP: {problem!r}") from None

    def submit(self, page: _Page, fields: FormFields) -> _Page:
        body, content_type = encode_form(fields, multipart=page.multipart)
        return self.visit(urljoin(self.url, page.action or ""), body, content_type)


class _Redirects(HTTPRedirectHandler):
    """Follow redirects within the origin only."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def redirect_request(  # noqa: PLR0917 (as urllib calls it)
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        _check_origin(newurl, self._origin)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_origin(url: str, origin: Origin) -> None:
    if origin_of(url) != origin:
        raise ValueError(f"it leads away from where it is, to {url}")


@dataclass
class _Item:
    """A control, option or button: what it sends and its label. `kind` is an input's type, or the
    tag.
    """

    name: str
    kind: str
    value: str
    is_chosen: bool = False
    words: str = ""

    @property
    def untouched(self) -> list[str]:
        """What it sends unchanged."""
        if self.kind in ("file", "select") or (self.kind in _CHOICES and not self.is_chosen):
            return []
        return [self.words.removeprefix("\n") if self.kind == "textarea" else self.value]


def _fill(items: Sequence[_Item], given: JsonValue) -> list[str | File]:
    """Return what a filled-in control sends."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [_file(given)]
    options = [item for item in items if item.kind in _CHOICES]
    if not options:
        return [to_text(given)]
    wanted = given if isinstance(given, list) else [given]
    return [_pick(options, str(each), "option").value for each in wanted]


def _pick(items: Sequence[_Item], wanted: str, what: str) -> _Item:
    """Return the item with this label, else with this value."""
    by_words = [each for each in items if each.words.strip() == wanted]
    for item in by_words or [each for each in items if each.value == wanted]:
        return item
    names = ", ".join(repr(each.words.strip()) for each in items)
    raise ValueError(f"there is no {what} {wanted!r} among {names}")


def _file(given: JsonObject) -> File:
    text = as_text(given.get("content"))
    content = base64.b64decode(text) if given.get("encoding") == "base64" else text.encode()
    mime_type = as_text(given.get("mimeType"), "text/plain")
    return File(content, mime_type, as_text(given.get("filename"), "file"))


class _Page(HTMLParser):
    """The first form of a page, and the page's text. A name ending in `-empty` is a control's
    switch.
    """

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.action: str | None = None  # where its form goes; None where there is no form
        self.multipart = False
        self._items: list[_Item] = []
        self._words: list[str] = []
        self._reading: _Item | None = None  # whose words come now
        self._in_form = False
        try:
            self.feed(html.decode(errors="replace"))
        except AssertionError as problem:  # what the parser says of markup that it does not know
            raise ValueError(f"it cannot be read: {problem}") from None

    @property
    def controls(self) -> dict[str, list[_Item]]:
        """The items of each control by name."""
        found: dict[str, list[_Item]] = {}
        for item in self._items:
            if item.kind not in ("hidden", "button") and not item.name.endswith("-empty"):
                found.setdefault(item.name, []).append(item)
        return found

    @property
    def more_button(self) -> str:
        """Return what the button for another list entry sends, or empty."""
        return next(
            (
                each.value
                for each in self._items
                if each.kind == "button" and each.value.startswith("add ")
            ),
            "",
        )

    @property
    def words(self) -> str:
        return " ".join(" ".join(self._words).split())

    @property
    def shown(self) -> str:
        return self.words if len(self.words) <= MAX_SHOWN else f"{self.words[: MAX_SHOWN - 1]}…"

    def fields(self, values: Sequence[JsonValue], press: str) -> FormFields:
        """Return what the form sends. Raises ValueError."""
        controls = self.controls
        if len(values) > len(controls):
            raise ValueError(f"{len(values)} fields are filled in, and it has {len(controls)}")
        button = _pick([each for each in self._items if each.kind == "button"], press, "button")
        sent: list[tuple[str, str | File]] = [
            (each.name, each.value) for each in self._items if each.kind == "hidden"
        ]
        for place, (name, items) in enumerate(controls.items()):
            if place < len(values):
                sent += [(name, each) for each in _fill(items, values[place])]
            else:
                sent += [(name, each) for item in items for each in item.untouched]
        return [*sent, (button.name, button.value)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self._in_form = True
            self.action = attributes.get("action", "")
            self.multipart = "multipart" in attributes.get("enctype", "")
        elif tag == "span" and "class" in attributes:
            self._reading = None  # what is said of an option is not its name
        elif self._in_form and tag in _CONTROLS:
            self._add_item(tag, attributes)

    def _add_item(self, tag: str, attributes: Mapping[str, str]) -> None:
        select = self._items[-1].name if tag == "option" and self._items else ""
        name = select or attributes.get("name", "")
        kind = attributes.get("type", "text") if tag == "input" else tag
        value = attributes.get("value", "on" if kind in _CHOICES else "")
        item = _Item(name, kind, value, bool(attributes.keys() & {"checked", "selected"}))
        if name:
            self._items.append(item)
        if name and kind in (*_CHOICES, "button", "textarea"):
            self._reading = item

    def handle_endtag(self, tag: str) -> None:
        if tag in ("label", "button", "option", "textarea"):
            self._reading = None
        elif tag == "form":
            self._in_form = False

    def handle_data(self, data: str) -> None:
        if self._reading is not None:
            self._reading.words += data
        if data.strip():
            self._words.append(data)


def encode_form(fields: FormFields, *, multipart: bool) -> tuple[bytes, str]:
    """Encode a form; return the body and its content type."""
    if not multipart:
        texts = [(name, each.name if isinstance(each, File) else each) for name, each in fields]
        return urlencode(texts).encode(), "application/x-www-form-urlencoded"
    boundary, body = secrets.token_hex(16), b""
    for name, value in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
        if isinstance(value, File):
            head += f'; filename="{value.name}"\r\nContent-Type: {value.mime_type}'
        content = value.content if isinstance(value, File) else value.encode()
        body += head.encode() + b"\r\n\r\n" + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


# --- at a terminal --------------------------------------------------------------------------------

COLUMNS, ROWS = 200, 50  # characters: wide enough that no name of a folder breaks a line
# bytes of a line that the system keeps until Enter is pressed; it drops what is more, and does not
# say so
MAX_LINE = 4_095
MAX_WRITE = 1_024  # bytes typed at once: less than any terminal's buffer

_SEQUENCE = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")
_UNFINISHED_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*)?\Z")


def without_control(shown: str) -> str:
    """Remove the sequences that move the cursor, colour, or set a title."""
    return _SEQUENCE.sub("", shown)


class Terminal:
    """A pseudo-terminal that a bridge opens by `name`; `fd` is readable when it shows more."""

    def __init__(self, columns: int = COLUMNS, rows: int = ROWS) -> None:
        import fcntl
        import pty
        import termios

        self.fd, self.device = pty.openpty()
        os.set_blocking(self.fd, False)
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.name = os.ttyname(self.device)
        self._shown = ""

    def hang_up(self) -> None:
        os.close(self.fd)
        os.close(self.device)

    def type_keys(self, keys: str, patience: float) -> None:
        """Type `keys` as fast as they are read; blocks for at most `patience` seconds.

        Raises:
            OSError: No program reads them.
            ValueError: A line is longer than a terminal accepts.
        """
        import termios

        left, deadline = memoryview(keys.encode()), time.monotonic() + patience
        is_cooked = termios.tcgetattr(self.device)[3] & termios.ICANON
        if is_cooked and any(len(line) > MAX_LINE for line in bytes(left).split(b"\n")):
            raise ValueError(f"a terminal takes lines of {MAX_LINE} bytes at most")
        while left:
            if (remaining := deadline - time.monotonic()) <= 0:
                raise OSError(
                    f"{len(left)} bytes are left after {patience:g} s: nobody reads at the terminal"
                )
            select.select([], [self.fd], [], remaining)
            with suppress(BlockingIOError):
                left = left[os.write(self.fd, left[:MAX_WRITE]) :]

    async def watch(self) -> AsyncIterator[int]:
        """Read output until cancelled; yield the number of new bytes."""
        while True:
            await anyio.wait_readable(self.fd)
            if size := self.update():
                yield size

    def update(self) -> int:
        """Read the output now available; return its number of bytes."""
        try:
            data = os.read(self.fd, 65_536)
        except BlockingIOError:
            return 0
        self._shown += data.decode(errors="replace")
        return len(data)

    def clear(self) -> None:
        """Forget the output, except an incomplete control sequence."""
        half = _UNFINISHED_ESCAPE.search(self._shown)
        self._shown = half[0] if half else ""

    @property
    def is_at_prompt(self) -> bool:
        return self._shown.endswith(": ")

    @property
    def lines(self) -> list[str]:
        """The lines shown since `clear`, without empty ones."""
        plain = without_control(self._shown).replace("\r", "\n")
        return [line.strip() for line in plain.split("\n") if line.strip()]


# --- at the questions API -------------------------------------------------------------------------

RESPONSE_TIMEOUT = 5.0  # seconds for the head of a response
EVENT_TIMEOUT = 60.0  # seconds between two lines of a stream; a heartbeat is one
RETRY_INTERVAL = 0.02  # seconds between two tries to reach what is not served yet
_HEARTBEAT = "server.heartbeat"


class QuestionsClient:
    """A client of the questions API on a local port."""

    def __init__(self, port: int, password: str) -> None:
        self.port = port
        self._headers = {"Authorization": f"Bearer {password}", "Content-Type": "application/json"}
        self._is_closed = False

    def stop_connecting(self) -> None:
        """Stop trying to connect."""
        self._is_closed = True

    def exchange(
        self, request: str, body: str | None, patience: float
    ) -> Iterator[tuple[JsonValue, int]]:
        """Send one request and yield each event, or one `{status, body}`, with its number of bytes.
        Blocks.

        Args:
            request: Method and path, such as `GET /event`.
            patience: Seconds to wait for the port to open.

        Raises:
            OSError, ValueError, HTTPException: It is not served, or not understood.
        """
        method, _, path = request.partition(" ")
        with closing(self._connect(patience)) as connection:
            stream = connection.sock
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            if response.headers.get_content_type() != "text/event-stream":
                data = response.read(MAX_BYTES)
                yield {"status": response.status, "body": parse_json(data)}, len(data)
                return
            stream.settimeout(EVENT_TIMEOUT)
            while line := response.readline(MAX_BYTES):
                event = parse_json(line[6:]) if line.startswith(b"data: ") else None
                if event is not None and as_object(event).get("type") != _HEARTBEAT:
                    yield event, len(line)

    def _connect(self, patience: float) -> http.client.HTTPConnection:
        deadline = time.monotonic() + patience
        while not self._is_closed and time.monotonic() < deadline:
            connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=RESPONSE_TIMEOUT
            )
            with suppress(ConnectionRefusedError):
                connection.connect()
                return connection
            time.sleep(RETRY_INTERVAL)
        raise OSError(f"nothing is served at port {self.port}")


def free_port() -> int:
    """Return an unused local port."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
