"""The person of a fixture at the bridge's own page: opens a link as a browser does, fills in the
form that is there, and sends it.

A form is read as it is: its controls in their order, its buttons by what they send or say. What is
only asked whether it is right is said to be.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPException
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

from abp_bridge.core import file

Json = Any

PAGE = 5.0  # seconds for one request
LARGEST = 2**22
HERE = ("127.0.0.1", "localhost", "::1")
STEPS = 3  # pages after the first that may want to be sent again: a summary


def fill_in(link: str, values: Sequence[Json], press: str, reads: Sequence[str] = ()) -> None:
    """Open `link`, fill in the controls there with `values`, one for each in order, and press a
    button. Raises ValueError or OSError.

    None leaves a control empty; those that have no value are sent as they stand. All of `reads`
    must stand on the page.
    """
    visit = _Visit()
    visit.open(link)
    if visit.sheet is None:
        raise ValueError(f"its link leads to no form, but to: {visit.said}")
    if missing := [words for words in reads if words not in visit.words]:
        raise ValueError(f"there is nothing of {missing[0]!r} on it, but: {visit.said}")
    visit.send(visit.sheet.filled(values, press))
    for _ in range(STEPS):
        if visit.sheet is None:
            return
        if visit.sheet.controls:
            raise ValueError(f"it does not take what is filled in: {visit.said}")
        visit.send(visit.sheet.filled([], press))
    raise ValueError(f"it wants to be sent again and again: {visit.said}")


class _Visit:
    """One browser, and the page that it shows."""

    def __init__(self) -> None:
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
        self._url = ""
        self.sheet: _Sheet | None = None
        self.said = self.words = ""

    def open(self, url: str, body: bytes | None = None, kind: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in HERE:
            raise ValueError(f"{url} is no page of this machine's")
        headers = (
            {}
            if body is None
            else {"Content-Type": kind, "Origin": f"{parts.scheme}://{parts.netloc}"}
        )
        try:
            with self._opener.open(Request(url, body, headers), timeout=PAGE) as response:  # noqa: S310
                self._url = response.url
                page = _Page(response.read(LARGEST).decode(errors="replace"))
        except HTTPError as refused:
            page = _Page(refused.read(LARGEST).decode(errors="replace"))
            raise ValueError(f"HTTP {refused.code}: {page.said}") from None
        except HTTPException as problem:
            raise ValueError(f"it does not speak HTTP: {problem!r}") from None
        self.sheet, self.said, self.words = next(iter(page.sheets), None), page.said, page.words

    def send(self, filled: _Parts) -> None:
        assert self.sheet is not None
        body, kind = _multipart(filled) if self.sheet.multipart else _plain(filled)
        self.open(urljoin(self._url, self.sheet.action), body, kind)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a form sends for a control; `file` where that is one."""

    name: str
    value: str = ""
    file: file.File | None = None


_Parts = Sequence[_Part]


@dataclass
class _Control:
    """One control, whatever it consists of: options are (value, label)."""

    name: str
    options: list[list[str]] = field(default_factory=list)
    standing: list[list[str]] = field(
        default_factory=list
    )  # what it is sent with if nobody touches it, each a text in a list

    def untouched(self) -> list[_Part]:
        return [_Part(self.name, text) for (text,) in self.standing]

    def filled(self, given: Json) -> list[_Part]:
        if given is None:
            return []
        if isinstance(given, Mapping):
            return [_Part(self.name, file=file.File(*_content(given)))]
        if not self.options:
            return [
                _Part(
                    self.name,
                    given if isinstance(given, str) else json.dumps(given, ensure_ascii=False),
                )
            ]
        return [
            _Part(self.name, self._option(str(each)))
            for each in (given if isinstance(given, list) else [given])
        ]

    def _option(self, wanted: str) -> str:
        for place in (1, 0):  # what a person reads, before what a form sends
            for option in self.options:
                if option[place].strip() == wanted:
                    return option[0]
        raise ValueError(
            f"there is no option {wanted!r} among"
            f" {', '.join(repr(label.strip()) for _, label in self.options)}"
        )


def _content(given: Mapping[str, Json]) -> tuple[bytes, str, str]:
    text = str(given.get("content", ""))
    data = base64.b64decode(text) if given.get("encoding") == "base64" else text.encode()
    return data, str(given.get("mimeType", "text/plain")), str(given.get("filename", "file"))


@dataclass
class _Sheet:
    """A form: where it goes, its controls in order, what goes with it unseen, and its buttons as
    (name, value, words).
    """

    action: str
    multipart: bool
    hidden: list[_Part] = field(default_factory=list)
    controls: dict[str, _Control] = field(default_factory=dict)
    buttons: list[list[str]] = field(default_factory=list)

    def filled(self, values: Sequence[Json], press: str) -> list[_Part]:
        """What is sent. Raises ValueError for what the form has not."""
        if len(values) > len(self.controls):
            raise ValueError(f"{len(values)} fields are filled in, and it has {len(self.controls)}")
        button = next((each for each in self.buttons if press in (each[1], each[2].strip())), None)
        if button is None:
            raise ValueError(
                f"there is no button {press!r} among"
                f" {', '.join(repr(each[1] or each[2]) for each in self.buttons)}"
            )
        given = [
            part
            for control, value in zip(self.controls.values(), values, strict=False)
            for part in control.filled(value)
        ]
        rest = [
            part
            for control in list(self.controls.values())[len(values) :]
            for part in control.untouched()
        ]
        return [*self.hidden, *given, *rest, _Part(button[0], button[1])]


class _Page(HTMLParser):
    """The forms of a page, and what it says.

    What has a name that ends with `-empty` is a switch beside a control, and no control of its own.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sheets: list[_Sheet] = []
        self._words: list[str] = []
        self._taking: list[str] | None = None  # the option or button whose words come
        self._in_form = False
        try:
            self.feed(text)
        except AssertionError as problem:  # what the parser says of markup that it does not know
            raise ValueError(f"it cannot be read: {problem}") from None

    @property
    def words(self) -> str:
        return " ".join(" ".join(self._words).split())

    @property
    def said(self) -> str:
        return self.words if len(self.words) <= 200 else self.words[:199] + "…"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._in_form = True
            self.sheets.append(
                _Sheet(found.get("action", ""), "multipart" in found.get("enctype", ""))
            )
        elif (
            self._in_form and tag in ("input", "textarea", "select", "button") and found.get("name")
        ):
            self._control(tag, found)
        elif self._in_form and tag == "option" and self.sheets[-1].controls:
            self._takes(
                next(reversed(self.sheets[-1].controls.values())).options, found.get("value", "")
            )
        elif tag == "span" and "class" in dict(attrs):
            self._taking = None  # what is said of an option is not its name

    def _control(self, tag: str, found: Mapping[str, str]) -> None:
        sheet, name, kind = (
            self.sheets[-1],
            found["name"],
            found.get("type", "text") if tag == "input" else tag,
        )
        if kind == "hidden":
            sheet.hidden.append(_Part(name, found.get("value", "")))
        elif kind == "button":
            sheet.buttons.append([name, found.get("value", ""), ""])
            self._taking = sheet.buttons[-1]
        elif not name.endswith("-empty"):
            control = sheet.controls.setdefault(name, _Control(name))
            if kind in ("radio", "checkbox"):
                self._takes(control.options, found.get("value", "on"))
                if "checked" in found:
                    control.standing.append([found.get("value", "on")])
            elif kind == "textarea":
                control.standing.append([""])
                self._taking = control.standing[-1]
            elif kind != "file":
                control.standing.append([found.get("value", "")])

    def _takes(self, options: list[list[str]], value: str) -> None:
        options.append([value, ""])
        self._taking = options[-1]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("label", "button", "option", "textarea"):
            self._taking = None
        elif tag == "form":
            self._in_form = False

    def handle_data(self, data: str) -> None:
        if self._taking is not None:
            self._taking[-1] += data
        if data.strip():
            self._words.append(data)


def _plain(parts: _Parts) -> tuple[bytes, str]:
    return (
        urlencode([(part.name, part.value) for part in parts]).encode(),
        "application/x-www-form-urlencoded",
    )


def _multipart(parts: _Parts) -> tuple[bytes, str]:
    boundary, body = secrets.token_hex(16), bytearray()
    for part in parts:
        more = (
            ""
            if part.file is None
            else f'; filename="{part.file.name}"\r\nContent-Type: {part.file.mime_type}'
        )
        head = f'Content-Disposition: form-data; name="{part.name}"{more}'
        body += f"--{boundary}\r\n{head}\r\n\r\n".encode()
        body += (part.value.encode() if part.file is None else part.file.content) + b"\r\n"
    return bytes(body) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
