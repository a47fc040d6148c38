"""The redactor: every line of a trace goes through it. Pure.

It walks through a value as its `structure` says, and keeps the secrets in mind that stand there, or
that answer a question (`answers`): from then on they are replaced wherever they turn up (`known`).
What only looks like one (`patterns`), one-time links, sealed states and paths go where they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, leaves, member_names
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.redact.texts import SECRET, KnownTexts
from abp_bridge.errors import AbpBridgeError
from abp_bridge.trace.redact import structure
from abp_bridge.trace.redact.paths import path_replacer
from abp_bridge.trace.redact.patterns import hide
from abp_bridge.trace.redact.structure import KEPT, is_option

MAX_TEXT = 64 * 1024  # characters of a text that is looked into, and of a secret that is known
MAX_SECRETS = 500  # known secrets: looking for each costs time on every line
MAX_LINKS = 2_000  # one-time links, and as many states: for a link the same, for both memory
NESTED = 4  # levels of JSON inside of text inside of JSON
LONG = 8  # characters; a shorter value of the environment, or under a name, is anybody's
SHORT = 4  # characters; one of the environment whose name speaks of a key is not
MAX_SETTING = 512  # characters; a longer one is a list of many things
DIGITS = 3  # of a number: with fewer it is anybody's

_WORD = re.compile(r"[a-z]+(?:[_./-][a-z]+)+|[\d.,:/-]{1,7}|\d{4}-\d\d-\d\d|[A-Za-z]{1,15}")
_MIXED = re.compile(r".{16}|.*(?:\d|[a-z].*[A-Z]|[A-Z].*[a-z].*[A-Z]|[^\w\s./-])", re.DOTALL)
_ORDINARY = re.compile(
    r"[A-Za-z]+|[\d.,:/ -]+|[a-z]+(?:[_./-][a-z]+)+|[a-z]{2}_[A-Z]{2}[.\w-]*|/.*"
    r"|https?://(?:localhost|127\.0\.0\.1|\[::1\])\S*"
)
_LINK = re.compile(r"((?:/|%(?:25)*2[Ff])(?:open|code)\\*+(?:/|%(?:25)*2[Ff]))([A-Za-z0-9_-]{16,})")


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
        self._known = KnownTexts()
        for name, value in env.items():
            self._learn_setting(name, value)
        self._secrets: set[str] = set()
        self._numbers: set[int | float] = set()
        self._links: dict[str, str] = {}
        self._states: dict[str, str] = {}  # by a digest: they may be long
        self._replace_paths = path_replacer(places)
        self._present = self._known  # what stands in the value that is being cleaned
        self._bracketed = self._known  # what of it JSON is not to be looked for in
        self._named: list[str] = []  # what stands under telling names in it

    def learn(self, value: JsonValue) -> None:
        """Take `value`, and each text and number in it, for a secret from now on.

        Raises:
            RedactorFullError: there are `MAX_SECRETS` already.
        """
        for text in {str(leaf)[:MAX_TEXT] for leaf in leaves(value)} - self._secrets:
            if len(self._secrets) >= MAX_SECRETS:
                raise RedactorFullError
            self._secrets.add(text)
            self._numbers.update(_numbers(text))
            self._known.add(text, SECRET)

    def clean(self, value: JsonValue) -> JsonValue:
        """`value` as it may be written down; what its names tell of is learned from it.

        Raises:
            RedactorFullError: there is more in it than can be kept in mind.
        """
        cleaned = self._replace(value)
        named = {text[:MAX_TEXT] for text in self._named if _is_telling(text)} - self._secrets
        self.learn(sorted(named))
        return self._replace(value) if named else cleaned

    def clean_message(self, message: JsonValue) -> JsonValue:
        """The same for a message, whose id stays if it is a number: what answers what could not be
        told otherwise. One that is text is cleaned as all text is.
        """
        if isinstance(message, list):
            return [self.clean_message(each) for each in message]
        id, cleaned = as_object(message).get("id"), self.clean(message)
        return {**as_object(cleaned), "id": id} if isinstance(id, (int, float)) else cleaned

    def clean_text(self, text: str) -> str:
        """Text as it may be written down. What is long is left out, and that is said."""
        return str(self._replace(text))

    def _learn_setting(self, name: str, value: str) -> None:
        """A long key is known wherever it stands, the rest, if it is nobody's word, where it stands
        alone.
        """
        instead, size, is_key = f"[env {name}]", len(value), holds_secret(name)
        if is_key and size >= LONG:
            self._known.add(value, instead)
        elif (is_key and size >= SHORT and not value.isalpha()) or (
            LONG <= size <= MAX_SETTING and not _ORDINARY.fullmatch(value)
        ):
            self._known.add_piece(value, instead, alone=True)

    # --- values ---

    def _replace(self, value: JsonValue) -> JsonValue:
        texts = chain(map(str, leaves(value)), member_names(value))
        self._present = self._known.present_in(text for text in texts if len(text) <= MAX_TEXT)
        self._named = []
        self._bracketed = self._present.with_brackets()
        return self._value(value, NESTED)

    def _value(self, value: JsonValue, depth: int, around: str = "") -> JsonValue:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, Mapping):
            return structure.with_distinct_names(
                (self._name(name), self._member(value, name, depth, around)) for name in value
            )
        if isinstance(value, list):
            return [
                self._blank(each, depth) if is_option(before) else self._value(each, depth, around)
                for before, each in pairwise([None, *value])
            ]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return SECRET if abs(value) in self._numbers else value
        return value

    def _member(self, holder: JsonObject, name: str, depth: int, around: str) -> JsonValue:
        value = holder[name]
        if name == "requestState" and isinstance(value, str):
            digest = sha256(value.encode(errors="surrogatepass")).hexdigest()
            return _number(digest, "state", self._states)
        if structure.names_secret(holder, name, around):
            if not structure.is_schema(value):
                return self._blank(value, depth)
            value = structure.without_suggestions(value, partial(self._blank, depth=depth))
        return self._value(value, depth, structure.part_of(name, around))

    def _blank(self, value: JsonValue, depth: int) -> JsonValue:
        """Nothing of it; but what is in it, and is named there, may be said elsewhere."""
        self._value(value, depth)
        self._named += [str(leaf) for leaf in leaves(value) if leaf != SECRET]
        return structure.blank(value)

    # --- texts ---

    def _name(self, name: str) -> str:
        if len(name) > MAX_TEXT:
            return _cut(name)
        return name if name in KEPT else self._present.replace(name)

    def _text(self, text: str, depth: int) -> str:
        if len(text) > MAX_TEXT:
            return _cut(text)
        if text in KEPT:
            return text
        kept: list[str] = []
        done = 0
        text = self._bracketed.replace(text)
        for start, end, value in structure.json_in(text) if depth else ():
            before, inside = text[done:start], text[start:end]
            clean = self._blank if structure.names_next(before) else self._value
            cleaned = clean(value, depth - 1)
            kept += [self._plain(before), inside if cleaned == value else _dump(cleaned, inside)]
            done = end
        return "".join([*kept, self._plain(text[done:])])

    def _plain(self, text: str) -> str:
        """Text that is no JSON."""
        text = hide(self._present.replace(text))
        text = _LINK.sub(lambda found: f"{found[1]}{self._link(found[2])}", text)
        return self._replace_paths(text)

    def _link(self, token: str) -> str:
        is_new = token not in self._links
        instead = _number(token, "link", self._links)
        if is_new:
            self._known.add_piece(token, instead, alone=False)
        return instead


def _number(text: str, kind: str, numbered: dict[str, str]) -> str:
    """What is written for `text`, the same each time: its kind and its number among `numbered`."""
    if text not in numbered:
        if len(numbered) >= MAX_LINKS:
            raise RedactorFullError
        numbered[text] = f"[{kind} {len(numbered) + 1}]"
    return numbered[text]


def _cut(text: str) -> str:
    return f"[cut {len(text)} characters]"


def _dump(value: JsonValue, before: str) -> str:
    """JSON as it stood in its text: with blanks or without."""
    separators = (", ", ": ") if re.search(r"[\"\]}\w][:,] ", before) else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _is_telling(text: str) -> bool:
    """Whether a text from under a telling name is nobody's word, to be looked for elsewhere."""
    return len(text) >= LONG and not _WORD.fullmatch(text) and _MIXED.match(text) is not None


def _numbers(text: str) -> Iterator[int | float]:
    """The numbers that a text can stand for."""
    if sum(char.isdigit() for char in text) >= DIGITS:
        for read in (int, float):
            with suppress(ValueError, OverflowError):
                yield abs(read(text))
