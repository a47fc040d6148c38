"""A configuration file of any format. Each change is verified: nothing else may change."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Protocol

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.jsonc import Jsonc
from abp_bridge.setup.formats.text import (
    FormatError,
    Path,
    equal,
    find_value,
    holding,
    is_null,
    without,
)
from abp_bridge.setup.formats.toml import Toml
from abp_bridge.setup.formats.yaml import Yaml


class Format(Protocol):
    """How a text of one format is read and changed."""

    def read_value(self, text: str) -> JsonValue: ...
    def written(self, text: str) -> JsonValue: ...
    def insert(self, text: str, path: Path, value: JsonValue) -> str: ...
    def replace(self, text: str, path: Path, value: JsonValue) -> str: ...
    def cut(self, text: str, path: Path) -> str: ...
    def check(self, text: str, path: Path) -> None: ...


FORMATS: Mapping[str, Format] = {
    "json": Jsonc(comments=False, trailing_commas=False),
    "commented": Jsonc(trailing_commas=False),
    "jsonc": Jsonc(),
    "toml": Toml(),
    "yaml": Yaml(),
}


class Document:
    """The content of a file in UTF-8, with or without a byte order mark.

    Raises:
        FormatError: It is not understood.
    """

    def __init__(self, content: bytes, format: str) -> None:
        self._mark = BOM_UTF8 if content.startswith(BOM_UTF8) else b""
        self._format = FORMATS[format]
        try:
            self._text = content[len(self._mark) :].decode()
        except UnicodeDecodeError as problem:
            line = content.count(b"\n", 0, problem.start) + 1
            raise FormatError("this is no UTF-8", line) from None
        self._value = self._format.read_value(self._text)

    @property
    def content(self) -> bytes:
        return self._mark + self._text.encode()

    @property
    def value(self) -> JsonValue:
        return self._value

    def find(self, path: Path) -> JsonValue:
        return find_value(self._value, path)

    def check(self, path: Path) -> None:
        """Raise FormatError if a name on `path` is duplicate or not an object."""
        self._format.check(self._text, path)

    def insert(self, path: Path, value: JsonValue) -> None:
        """Put a member in at `path`, where none is, or a null. Raises FormatError."""
        if not is_null(self._value, path):
            self._take(self._format.insert(self._text, path, value), path, value)
        elif value is not None:
            self.replace(path, value)

    def replace(self, path: Path, value: JsonValue) -> None:
        """Give the member at `path` another value. Raises FormatError."""
        self._take(self._format.replace(self._text, path, value), path, value)

    def set(self, path: Path, value: JsonValue) -> None:
        """Set `path` to `value`; merge objects member by member."""
        there = self.find(path)
        if there is None:
            self.insert(path, value)
        elif isinstance(there, Mapping) and isinstance(value, Mapping) and there:
            for name, each in value.items():
                self.set((*path, name), each)
        elif not equal(there, value):
            self.replace(path, value)

    def fill(self, path: Path, value: JsonValue) -> None:
        """Set `path` to `value` if missing; of objects each missing member."""
        there = self.find(path)
        if there is None:
            self.insert(path, value)
        elif isinstance(there, Mapping) and isinstance(value, Mapping):
            for name, each in value.items():
                self.fill((*path, name), each)

    def cut(self, path: Path) -> None:
        """Take the member at `path` out. Raises FormatError."""
        text = self._format.cut(self._text, path)
        before = without(self._format.written(self._text), path)
        self._check(_bare(before, path), _bare(self._format.written(text), path))
        self._text, self._value = text, self._format.read_value(text)

    def _take(self, text: str, path: Path, value: JsonValue) -> None:
        """`text` is the content now, if nothing but the member at `path` says anything else."""
        before = without(self._format.written(self._text), path)
        after = without(self._format.written(text), path)
        self._check(_bare(before, path), _bare(after, path))
        said = self._format.read_value(text)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FormatError("what is to be written is no text") from None
        self._check(holding({}, path, find_value(said, path)), holding({}, path, value))
        self._text, self._value = text, said

    def _check(self, before: JsonValue, after: JsonValue) -> None:
        if not equal(before, after):
            raise FormatError("it cannot be changed in one place without changing others")


def _bare(value: JsonValue, path: Path) -> JsonValue:
    """`value` without the objects on the way to `path` that hold nothing: these come and go."""
    for depth in range(len(path) - 1, 0, -1):
        if find_value(value, path[:depth]) in ({}, None) or _is_nothing(
            find_value(value, path[:depth])
        ):
            value = without(value, path[:depth])
    return value


def _is_nothing(value: JsonValue) -> bool:
    return isinstance(value, tuple) and value[:1] == ("scalar",) and value[1] in ("", "~", "null")
