"""What a recording must not hold: secrets, one-time links, sealed states, and what this machine is
called. Every line of a trace goes through here.

A secret is known by the question that it answers (`answers`), or by what says of itself that it is
one (`telltale`); from then on it is replaced wherever it turns up, however it is spelled
(`spelling`). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abp_bridge.core.secret_names import holds_secret
from abp_bridge.trace.encodings import Spelling, spellings
from abp_bridge.trace.secret_scan import (
    MAX_TEXT,
    NESTED,
    SECRET,
    blank,
    blanked,
    hide,
    json_in,
    leaves,
    looks_secret,
    names_next,
    without_told,
)

Json = Any

MAX_SECRETS = 500
LONGEST = MAX_TEXT  # characters of a secret that are looked for elsewhere
LONG_SETTING = 8  # an environment value of fewer characters is anybody's
SHORT_SETTING = 4  # one whose name speaks of a key is not
LONGEST_SETTING = 512  # a longer one is a list of many things
DIGITS = 3  # of a number: with fewer it is anybody's

_ORDINARY_SETTING = re.compile(
    r"[A-Za-z]+|[\d.,:/"
    r" -]+|[a-z]+(?:[_./-][a-z]+)+|https?://(?:localhost|127\.0\.0\.1|\[::1\])\S*|[a-z]{2}_[A-Z]{2}[.\w-]*|/.*"
)
_LINK = re.compile(r"((?:/|%(?:25)*2[Ff])open\\*+(?:/|%(?:25)*2[Ff]))([A-Za-z0-9_-]{16,})")
_STATE = re.compile(r"(?<!\\)(requestState(\\*+\")\s{0,8}:\s{0,8}\2)([^\"\\]{8,})")
_VERSION = re.compile(r"\d{4}-\d\d-\d\d\Z")
# What a message must keep to be one: names of its members, and words that stand alone.
_KEPT = frozenset(
    (
        *(
            "jsonrpc",
            "id",
            "method",
            "params",
            "result",
            "error",
            "type",
            "timestamp",
            "payload",
            "event",
            "data",
            "code",
            "message",
            "reason",
        ),
        *(
            "accept",
            "accepted",
            "decline",
            "declined",
            "cancel",
            "cancelled",
            "selected",
            "action",
            "outcome",
            "content",
            "success",
            "metadata",
        ),
        *(
            "string",
            "number",
            "integer",
            "boolean",
            "object",
            "array",
            "null",
            "text",
            "form",
            "url",
            "mode",
            "schema",
            "prompt",
            "options",
        ),
        *(
            "required",
            "properties",
            "enum",
            "oneOf",
            "anyOf",
            "items",
            "title",
            "description",
            "default",
            "const",
            "format",
            "value",
            "confirmed",
        ),
        *(
            "optionId",
            "sessionId",
            "toolCallId",
            "requestedSchema",
            "protocolVersion",
            "capabilities",
            "name",
            "arguments",
            "kind",
            "status",
            "2.0",
        ),
    )
)
_METHODS = frozenset(
    f"{area}/{each}"
    for area, all_of_it in {
        "tools": "list call",
        "resources": "list read subscribe unsubscribe templates/list",
        "elicitation": "create complete input preference confirm select resource request response",
        "sampling": "create createMessage",
        "session": (
            "new load resume prompt update cancel request_permission set_mode close delete list"
        ),
        "capabilities": "list call cancel",
        "notifications": (
            "initialized cancelled progress message error tools/list_changed resources/list_changed"
            " resources/updated state/changed operation/started operation/completed"
            " capabilities/list_changed elicitation/complete subscriptions/acknowledged"
        ),
        "subscriptions": "listen",
        "server": "discover",
        "$": "cancel_request",
    }.items()
    for each in all_of_it.split()
) | {"initialize", "ping", "shutdown", "authenticate"}


class RedactorFullError(Exception):
    """There are more secrets than can be kept in mind: nothing more can be written down safely."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Something that is looked for, and what is written in its place."""

    spelling: Spelling
    instead: str


class Redactor:
    """One recording's.

    `env` is the environment, `places` paths of this machine and what to write for them.
    """

    def __init__(self, *, env: Mapping[str, str], places: Mapping[str, str]) -> None:
        self._secrets: set[str] = set()
        self._known: list[_Known] = []
        self._settings = list(_settings(env))
        self._numbers: set[int | float] = set()
        self._links: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._places = _places(places)
        self._looked_for: list[_Known] = []  # what stands in the value that is being cleaned

    def learn(self, value: Json) -> None:
        """`value`, and each value in it, is a secret from now on. Raises RedactorFullError."""
        for leaf in leaves(value):
            text = str(leaf)[:LONGEST]
            if text in self._secrets:
                continue
            if len(self._secrets) >= MAX_SECRETS:
                raise RedactorFullError
            self._secrets.add(text)
            self._numbers |= set(_numbers(text))
            self._known += [_Known(spelling, SECRET) for spelling in spellings(text)]

    def told(self, value: Json) -> None:
        """Learn what says of itself in `value` that it is a secret, if it is nobody's word.

        Where it stands, it is blanked in any case.
        """
        for leaf in _told(value, NESTED):
            if looks_secret(str(leaf)) and len(self._secrets) < MAX_SECRETS:
                self.learn(leaf)

    def clean(self, value: Json) -> Json:
        """`value` as it may be written down."""
        self.told(value)
        return self._looked_into(value)

    def message(self, message: Json) -> Json:
        """The same for a message, whose id stays: nothing can be told apart without it."""
        cleaned = self.clean(message)
        if isinstance(message, (list, tuple)):
            return [_identified(one, other) for one, other in zip(message, cleaned, strict=True)]
        return _identified(message, cleaned)

    def values(self, line: Mapping[str, Json]) -> dict[str, Json]:
        """A line of the recording's own, whose members keep their names."""
        return {
            name: each if name in ("event", "press") else self.clean(each)
            for name, each in line.items()
        }

    def text(self, words: str) -> str:
        """Text as it may be written down. What is long is left out, and that is said."""
        return str(self._looked_into(words))

    def _looked_into(self, value: Json) -> Json:
        everything = "\0".join(_texts(value))
        self._looked_for = [
            known
            for known in (*self._known, *self._settings)
            if known.spelling.stands_in(everything)
        ]
        return self._cleaned(without_told(value), NESTED)

    def _cleaned(self, value: Json, depth: int) -> Json:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, Mapping):
            return {
                self._name(str(name)): self._member(str(name), each, depth)
                for name, each in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._cleaned(each, depth) for each in value]
        return (
            SECRET
            if isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) in self._numbers
            else value
        )

    def _name(self, name: str) -> str:
        return name if name in _KEPT else self._without_known(name, settings=False)

    def _member(self, name: str, value: Json, depth: int) -> Json:
        if name == "requestState" and isinstance(value, str):
            return self._stated(value)
        if name == "protocolVersion" and isinstance(value, str) and _VERSION.match(value):
            return value
        return self._cleaned(value, depth)

    def _text(self, words: str, depth: int) -> str:
        if len(words) > MAX_TEXT:
            return f"[cut {len(words)} characters]"
        if words in _KEPT or words in _METHODS:
            return words
        kept: list[str] = []
        done = 0
        for start, end, value in json_in(words) if depth else ():
            before = words[done:start]
            told = without_told(value)
            cleaned = blank(value) if names_next(before) else self._cleaned(told, depth - 1)
            kept += [
                self._plain(before),
                words[start:end] if cleaned == value else _spelled(cleaned, words[start:end]),
            ]
            done = end
        return "".join([*kept, self._plain(words[done:])])

    def _plain(self, words: str) -> str:
        """Text that is no JSON."""
        words = hide(self._without_known(words))
        words = _LINK.sub(lambda found: f"{found[1]}{self._linked(found[2])}", words)
        words = _STATE.sub(lambda found: f"{found[1]}{self._stated(found[3])}", words)
        for place, name in self._places:
            words = place.sub(name, words)
        return words

    def _linked(self, token: str) -> str:
        if token not in self._links:
            self._links[token] = f"[link {len(self._links) + 1}]"
            self._known.append(_Known(Spelling(token), self._links[token]))
        return self._links[token]

    def _stated(self, state: str) -> str:
        return self._states.setdefault(state, f"[state {len(self._states) + 1}]")

    def _without_known(self, words: str, *, settings: bool = True) -> str:
        """All that is looked for is found before anything is replaced: one may be a part of
        another, or overlap it.
        """
        found = [
            (*span, known.instead)
            for known in self._looked_for
            if settings or known.instead == SECRET
            for span in known.spelling.spans(words)
        ]
        if not found:
            return words
        kept: list[str] = []
        done = 0
        for start, end, instead in _merged(found):
            kept += [words[done:start], instead]
            done = end
        return "".join([*kept, words[done:]])


def _merged(found: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """What overlaps or touches is one; a secret is one whatever else it is."""
    start, end, instead = -1, -1, ""
    for each in sorted(found, key=lambda each: (each[0], -each[1])):
        if each[0] < end or (each[0] == end and each[2] == instead):
            end, instead = max(end, each[1]), SECRET if SECRET in (instead, each[2]) else instead
        else:
            if instead:
                yield start, end, instead
            start, end, instead = each
    if instead:
        yield start, end, instead


def _told(value: Json, depth: int) -> Iterator[str | int | float]:
    """What is blanked in a value, and in the JSON inside of its texts."""
    yield from blanked(value, without_told(value))
    if depth:
        for text in _texts(value):
            if len(text) <= MAX_TEXT:
                for _, _, inside in json_in(text):
                    yield from _told(inside, depth - 1)


def _texts(value: Json) -> Iterator[str]:
    """The texts in a value, and the names of its members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _identified(message: Json, cleaned: Json) -> Json:
    number = isinstance(message, Mapping) and isinstance(message.get("id"), (int, float))
    return {**cleaned, "id": message["id"]} if number else cleaned


def _spelled(value: Json, as_before: str) -> str:
    """JSON as it stood in its text: with blanks or without."""
    separators = (", ", ": ") if re.search(r"[\"\]}\w][:,] ", as_before) else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _numbers(text: str) -> Iterator[int | float]:
    """The numbers that a text can stand for."""
    if sum(char.isdigit() for char in text) < DIGITS:
        return
    for read in (int, float):
        try:
            yield abs(read(text))
        except (ValueError, OverflowError):
            continue


def placed(value: Json, places: Mapping[str, str]) -> Json:
    """`value` with other words for the paths in it, and nothing else changed."""
    return _placed(value, _places(places))


def _placed(value: Json, places: Sequence[tuple[re.Pattern[str], str]]) -> Json:
    if isinstance(value, str):
        for place, name in places:
            value = place.sub(name, value)
        return value
    if isinstance(value, Mapping):
        return {name: _placed(each, places) for name, each in value.items()}
    return [_placed(each, places) for each in value] if isinstance(value, list) else value


def _settings(env: Mapping[str, str]) -> Iterator[_Known]:
    """What of the environment must not be read in a trace: a long key wherever it stands, the rest,
    if it is nobody's word, where it stands alone.
    """
    for name, value in env.items():
        if not holds_secret(name):
            if LONG_SETTING <= len(value) <= LONGEST_SETTING and not _ORDINARY_SETTING.fullmatch(
                value
            ):
                yield _Known(Spelling(value, alone=True), f"[env {name}]")
        elif len(value) >= LONG_SETTING:
            yield from (_Known(spelling, f"[env {name}]") for spelling in spellings(value))
        elif len(value) >= SHORT_SETTING and not value.isalpha():
            yield _Known(Spelling(value, alone=True), f"[env {name}]")


def _places(places: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Paths, the deepest first, each as a whole name: /home/ann, and not the beginning of
    /home/anna, nor a part of an address.
    """
    whole = {path.rstrip("/"): name for path, name in places.items() if len(path.rstrip("/")) > 1}
    longest_first = sorted(whole, key=len, reverse=True)
    return [
        (
            re.compile(rf"(?<![\w.]){re.escape(path)}(?![\w-]|\.\w)"),
            whole[path].replace("\\", r"\\"),
        )
        for path in longest_first
    ]
