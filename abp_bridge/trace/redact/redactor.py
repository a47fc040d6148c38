"""The redactor: every line of a trace goes through it. Pure.

A secret is known by the question that it answers (`answers`) or by the name that it stands under
(`structure`); from then on it is replaced wherever it turns up, in any of its `encodings`. What
only looks like one (`patterns`), one-time links, sealed states and paths go where they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, member_names
from abp_bridge.core.secret_names import holds_secret
from abp_bridge.errors import AbpBridgeError
from abp_bridge.trace.redact.encodings import EncodedText, encoded_texts
from abp_bridge.trace.redact.paths import path_replacer
from abp_bridge.trace.redact.patterns import hide
from abp_bridge.trace.redact.structure import (
    KEPT,
    SECRET,
    blank,
    follows_option,
    json_in,
    leaves,
    looks_secret,
    names_next,
    program_part,
    without_secret,
)

MAX_TEXT = 64 * 1024  # characters of a text that is looked into, and of a secret that is known
MAX_SECRETS = 500  # known secrets: looking for each costs time on every line
NESTED = 4  # levels of JSON inside of text inside of JSON
LONG_SETTING = 8  # characters; a shorter environment value is anybody's
SHORT_SETTING = 4  # characters; one whose name speaks of a key is not
LONGEST_SETTING = 512  # characters; a longer one is a list of many things
DIGITS = 3  # of a number: with fewer it is anybody's

_ORDINARY = re.compile(
    r"[A-Za-z]+|[\d.,:/ -]+|[a-z]+(?:[_./-][a-z]+)+|[a-z]{2}_[A-Z]{2}[.\w-]*|/.*"
    r"|https?://(?:localhost|127\.0\.0\.1|\[::1\])\S*"
)
_LINK = re.compile(r"((?:/|%(?:25)*2[Ff])(?:open|code)\\*+(?:/|%(?:25)*2[Ff]))([A-Za-z0-9_-]{16,})")
_STATE = re.compile(r"(?<!\\)(requestState(\\*+\")\s{0,8}:\s{0,8}\2)([^\"\\]{8,})")
_VERSION = re.compile(r"\d{4}-\d\d-\d\d\Z")


class RedactorFullError(AbpBridgeError):
    """There are more secrets than can be kept in mind: nothing more can be written down safely."""


class Redactor:
    """What one recording knows of secrets, and how it leaves them out."""

    def __init__(self, *, env: Mapping[str, str], places: Mapping[str, str]) -> None:
        """
        Args:
            env: the environment whose values must not be read in a trace, by their names.
            places: paths of this machine, and what to write for them.
        """
        self._secrets: set[str] = set()
        self._known: list[EncodedText] = []
        self._settings = list(_settings(env))
        self._numbers: set[int | float] = set()
        self._links: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._replace_paths = path_replacer(places)
        self._present: list[EncodedText] = []  # what stands in the value that is being cleaned
        self._named: list[str] = []  # what stands under telling names in it

    def learn(self, value: JsonValue) -> None:
        """Take `value`, and each text and number in it, for a secret from now on.

        Raises:
            RedactorFullError: there are `MAX_SECRETS` already.
        """
        for leaf in leaves(value):
            text = str(leaf)[:MAX_TEXT]
            if text in self._secrets:
                continue
            if len(self._secrets) >= MAX_SECRETS:
                raise RedactorFullError
            self._secrets.add(text)
            self._numbers |= set(_numbers(text))
            self._known += encoded_texts(text, SECRET)

    def learn_named(self, value: JsonValue) -> None:
        """Learn what stands under telling names in `value`, if it is nobody's word."""
        self._replace(value)
        self._learn_what_was_named()

    def clean(self, value: JsonValue) -> JsonValue:
        """`value` as it may be written down; what its names tell of is learned from it."""
        cleaned = self._replace(value)
        return self._replace(value) if self._learn_what_was_named() else cleaned

    def clean_message(self, message: JsonValue) -> JsonValue:
        """The same for a message, whose id stays: nothing can be told apart without it."""
        return _with_ids(message, self.clean(message))

    def clean_members(self, line: JsonObject) -> dict[str, JsonValue]:
        """The same for a line of the recording's own, whose members keep their names."""
        return {
            name: each if name in ("event", "press") else self.clean(each)
            for name, each in line.items()
        }

    def clean_text(self, text: str) -> str:
        """Text as it may be written down. What is long is left out, and that is said."""
        return str(self._replace(text))

    def _learn_what_was_named(self) -> bool:
        """Whether there was something new."""
        before = len(self._secrets)
        for text in self._named:
            if looks_secret(text) and len(self._secrets) < MAX_SECRETS:
                self.learn(text)
        return len(self._secrets) > before

    # --- values ---

    def _replace(self, value: JsonValue) -> JsonValue:
        everything = "\0".join((*map(str, leaves(value)), *member_names(value)))
        self._present = [
            known for known in (*self._known, *self._settings) if known.may_stand_in(everything)
        ]
        self._named = []
        return self._value(value, NESTED)

    def _value(self, value: JsonValue, depth: int, under: str = "") -> JsonValue:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, Mapping):
            return {
                self._name(name, depth): self._member(value, name, depth, under) for name in value
            }
        if isinstance(value, list):
            return [
                self._blank(each, depth)
                if follows_option(value, at)
                else self._value(each, depth, under)
                for at, each in enumerate(value)
            ]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return SECRET if abs(value) in self._numbers else value
        return value

    def _name(self, name: str, depth: int) -> str:
        if name in KEPT:
            return name
        self._find_named(name, depth)
        return self._without_known(name, settings=False)

    def _member(self, holder: JsonObject, name: str, depth: int, under: str) -> JsonValue:
        value = holder[name]
        if name == "requestState" and isinstance(value, str):
            return self._state(value)
        if name == "protocolVersion" and isinstance(value, str) and _VERSION.match(value):
            return value
        value = without_secret(holder, name, under, partial(self._blank, depth=depth))
        return self._value(value, depth, program_part(name))

    def _blank(self, value: JsonValue, depth: int) -> JsonValue:
        for text in (*map(str, leaves(value)), *member_names(value)):
            self._find_named(text, depth)
        self._named += [str(leaf) for leaf in leaves(value) if leaf != SECRET]
        return blank(value)

    def _find_named(self, text: str, depth: int) -> None:
        """Note what is named in the JSON inside of a text that does not stay."""
        for _, _, value in json_in(text) if depth else ():
            self._value(value, depth - 1)

    # --- texts ---

    def _text(self, text: str, depth: int) -> str:
        if len(text) > MAX_TEXT:
            return f"[cut {len(text)} characters]"
        if text in KEPT:
            return text
        kept: list[str] = []
        done = 0
        for start, end, value in json_in(text) if depth else ():
            before = text[done:start]
            cleaned = (
                self._blank(value, depth) if names_next(before) else self._value(value, depth - 1)
            )
            kept += [
                self._plain(before),
                text[start:end] if cleaned == value else _dump_like(cleaned, text[start:end]),
            ]
            done = end
        return "".join([*kept, self._plain(text[done:])])

    def _plain(self, text: str) -> str:
        """Text that is no JSON."""
        text = hide(self._without_known(text))
        text = _LINK.sub(lambda found: f"{found[1]}{self._link(found[2])}", text)
        text = _STATE.sub(lambda found: f"{found[1]}{self._state(found[3])}", text)
        return self._replace_paths(text)

    def _link(self, token: str) -> str:
        if token not in self._links:
            self._links[token] = f"[link {len(self._links) + 1}]"
            self._known.append(EncodedText(token, self._links[token]))
        return self._links[token]

    def _state(self, state: str) -> str:
        return self._states.setdefault(state, f"[state {len(self._states) + 1}]")

    def _without_known(self, text: str, *, settings: bool = True) -> str:
        """All that is looked for is found before anything is replaced: one may be a part of
        another, or overlap it.
        """
        found = [
            (*span, known.instead)
            for known in self._present
            if settings or known.instead == SECRET
            for span in known.spans(text)
        ]
        kept: list[str] = []
        done = 0
        for start, end, instead in _merge_overlaps(found):
            kept += [text[done:start], instead]
            done = end
        return "".join([*kept, text[done:]])


def _merge_overlaps(found: list[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
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


def _with_ids(message: JsonValue, cleaned: JsonValue) -> JsonValue:
    if isinstance(message, list) and isinstance(cleaned, list):
        return list(map(_with_ids, message, cleaned))
    id = as_object(message).get("id")
    return {**as_object(cleaned), "id": id} if isinstance(id, (int, float)) else cleaned


def _dump_like(value: JsonValue, before: str) -> str:
    """JSON as it stood in its text: with blanks or without."""
    separators = (", ", ": ") if re.search(r"[\"\]}\w][:,] ", before) else (",", ":")
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


def _settings(env: Mapping[str, str]) -> Iterator[EncodedText]:
    """What of the environment must not be read in a trace: a long key wherever it stands, the rest,
    if it is nobody's word, where it stands alone.
    """
    for name, value in env.items():
        instead, size = f"[env {name}]", len(value)
        if holds_secret(name) and size >= LONG_SETTING:
            yield from encoded_texts(value, instead)
            continue
        is_short_key = holds_secret(name) and size >= SHORT_SETTING and not value.isalpha()
        is_telling = LONG_SETTING <= size <= LONGEST_SETTING and not _ORDINARY.fullmatch(value)
        if is_short_key or is_telling:
            yield EncodedText(value, instead, alone=True)
