"""An app's info and capabilities, and the result of a call, for all protocols."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from abp_bridge.core.json_value import JsonObject, JsonValue
from abp_bridge.core.question import MAX_MESSAGE
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.sanitize import escape, reveal
from abp_bridge.core.schema import Schema, check, normalize
from abp_bridge.errors import RemoteProtocolError

LONG_VALUE = 400  # characters of one parameter, which stands below the others then
_HIDDEN = "(not shown: its name is a secret's)"


@dataclass(frozen=True, slots=True)
class Capability:
    """Something an app can do.

    `description`, `requirements` (ABP's `type`, `description`, `met`, `resolution`) and
    `alternatives`
    are safe to show. `destructive` is declared by the app, or `presumed`; `harmless` is declared.
    `title`, `output_schema` and `hints` are MCP's. `needs_approval` asks the user before each call.
    The user is asked for the parameters in `asked_of_person`: for one in `input_schema` if a call
    omits it, for any other always, and no call may give it.
    """

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=dict)
    available: bool = True
    experimental: bool = False
    deprecated: str = ""  # what to use instead, or just that it is
    destructive: bool = False
    presumed: bool = False
    harmless: bool = False
    title: str = ""
    output_schema: JsonObject = field(default_factory=dict)
    hints: JsonObject = field(default_factory=dict)
    requirements: tuple[JsonObject, ...] = ()
    alternatives: tuple[str, ...] = ()
    needs_approval: bool = False
    asked_of_person: tuple[str, ...] = ()
    # The schema in its normal form, once it was needed; None where there is none.
    _normal: list[Schema | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def parameter_errors(self, params: JsonObject) -> list[str]:
        """Return what is wrong with a call's parameters, a sentence each."""
        if not self._normal:
            self._normal.append(_normalize(self.input_schema))
        schema = self._normal[0]
        return [] if schema is None else check(dict(params), schema)


def _normalize(schema: Schema) -> Schema | None:
    try:
        return normalize(schema)
    except RemoteProtocolError:
        return None


class CapabilityList(tuple[Capability, ...]):
    """Capabilities that can be called.

    Attributes:
        problems: Names those that cannot, with the reason, safe to show.
        failed: Whether the app failed to list them.
    """

    problems: tuple[str, ...]
    failed: bool

    def __new__(
        cls,
        found: Iterable[Capability] = (),
        problems: Iterable[str] = (),
        *,
        failed: bool = False,
    ) -> Self:
        made = super().__new__(cls, found)
        made.problems = tuple(problems)
        made.failed = failed
        return made

    @classmethod
    def failure(cls, reason: str = "it did not answer in time") -> Self:
        """Of an app that did not say what it has; `reason` is safe to show."""
        return cls((), [f"it did not list its capabilities: {reason}"], failed=True)


@dataclass(frozen=True, slots=True)
class AppInfo:
    """An app's answer to `initialize`.

    `name`, `id` and `instructions` are its own words, `icon` is a `data:` address; `version` is
    that of
    its protocol.
    """

    id: str
    name: str
    session: str
    version: str
    capabilities: tuple[Capability, ...]
    warnings: tuple[str, ...] = ()
    instructions: str = ""
    icon: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed, with the app's own code. `retry_after` is in seconds."""

    code: str
    message: str
    retryable: bool = False
    retry_after: float | None = None
    details: JsonValue = None
    alternatives: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = " (retryable)" if self.retryable else ""
        after = f", after {self.retry_after:g} s" if self.retry_after else ""
        return f"{self.code}: {self.message}{hint}{after}"


@dataclass(frozen=True, slots=True)
class AppFile:
    """A file that an app gave outside its data, or that was fetched for it.

    Attributes:
        content: Its bytes.
        mime_type: Its type; empty if unknown.
        name: The app's name for it.
        source: How the app gave it, such as `window.print()`.
    """

    content: bytes
    mime_type: str
    name: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a call ended; `failure` is None on success.

    `files` are those outside `data`. `structured` is an MCP server's; `data` has it too.
    """

    data: JsonValue = None
    failure: Failure | None = None
    cancelled: bool = False
    metadata: JsonObject = field(default_factory=dict)
    files: tuple[AppFile, ...] = ()
    structured: JsonObject | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A saved file of a result.

    `uri` is its resource; `path` is empty if it could not be saved. `content` is set if it is small
    enough to be in the result.
    """

    uri: str
    path: str
    name: str
    mime_type: str
    size: int
    content: bytes | None = None


def describe_place(file: SavedFile) -> str:
    """Where a person finds a file, in words."""
    return f"Saved to {file.path}" if file.path else "Not saved: only this session has it"


def failed(
    code: str, message: str, *, retryable: bool = False, cancelled: bool = False
) -> CallResult:
    """A result that the bridge makes itself, in the app's shape."""
    return CallResult(failure=Failure(code, message, retryable), cancelled=cancelled)


def describe_parameters(params: JsonObject) -> str:
    """Return the parameters, one `name: JSON` a line, long ones last."""
    lines: list[str] = []
    room = MAX_MESSAGE
    for name, value in params.items():
        lines.append(f"{_plain(name)}: {_show(name, value)}")
        room -= len(lines[-1])
        if room < 0:
            break
    lines.sort(key=lambda line: len(line) > LONG_VALUE)
    return "\n".join(["With:", *lines]) if lines else "Without parameters."


def _show(name: str, value: JsonValue) -> str:
    if holds_secret(name):
        return _HIDDEN
    return _plain(json.dumps(_without_secrets(value), ensure_ascii=False, default=str))


def _plain(words: str) -> str:
    """Return one line without invisible characters."""
    return escape(reveal(words[: MAX_MESSAGE + 1]))


def _without_secrets(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return {
            name: _HIDDEN if holds_secret(name) else _without_secrets(each)
            for name, each in value.items()
        }
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value
