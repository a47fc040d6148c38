"""Hide secrets of a user's file in the lines that are shown.

Hidden are values of variables and headers, members named as secrets, addresses with more than a
host, and words that look like a secret. A model may read the output of an agent that runs this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from abp_bridge.core.json_value import JsonValue, as_list, as_texts, leaves
from abp_bridge.core.redact.command import (
    HIDDEN,
    MIN_SECRET,
    clean_target,
    describe,
    names_secret,
    read_named,
    show_command,
)
from abp_bridge.core.redact.names import holds_secret

_HOLDERS = ("env", "envs", "environment", "headers")
_COMMANDS = ("command", "cmd")
WORK = 2**28  # characters that are searched, for each secret anew: a few seconds
_EACH = 50  # characters: what a text costs besides, however short
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def find_secrets(value: JsonValue) -> set[str]:
    """Return the texts to hide in a file's content."""
    return _long_enough(_secrets(value))


def find_own_secrets(value: JsonValue) -> set[str]:
    """Return the texts to hide in our own entry."""
    return _long_enough(_own_secrets(value))


def _long_enough(found: Iterator[str]) -> set[str]:
    """Return the texts and their lines, without short ones."""
    texts = {each for text in found for each in (text, *map(str.strip, text.splitlines()))}
    return {each for each in texts if len(each) >= MIN_SECRET}


def _secrets(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name in _HOLDERS or holds_secret(name):
                yield from map(str, leaves(each))
            elif name in _COMMANDS and isinstance(each, str):
                yield from _secret_words(each.split())
            else:
                yield from _secrets(each)
    elif isinstance(value, list):
        yield from _secret_words(as_texts(value))
        for each in value:
            yield from _secrets(each)
    elif isinstance(value, str) and _tells_more(value):
        yield value


def _secret_words(words: list[str]) -> Iterator[str]:
    for word in describe(words):
        if word.whole or word.secrets or len(word.text.split()) > 1 or _tells_more(word.text):
            yield word.text


def _tells_more(word: str) -> bool:
    """Whether it is an address with more than its host, which often holds a key."""
    return "://" in word and show_command(["x", word]) != f"x {word.rstrip('/')}"


def _own_secrets(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from map(str, leaves(each)) if holds_secret(name) else _own_secrets(each)
    elif isinstance(value, str):
        yield from _own_words(value.split())
    for each in as_list(value):
        yield from _own_secrets(each)
    words = as_texts(value)
    yield from (word for before, word in pairwise(words) if names_secret(before))


def _own_words(words: list[str]) -> Iterator[str]:
    """Yield the secrets in a text that may be a command."""
    for word in describe(words):
        named = read_named(word.text)
        if named is not None and named.is_secret:
            yield named.value
        elif word.whole or ("://" in word.text and clean_target(word.text) != word.text):
            yield word.text


class Mask:
    """Replace each secret in a text, however quoted; the whole text if there are too many."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._left = WORK

    def hide(self, line: str) -> str:
        said = self._without(_QUOTED.sub(self._requote, line))
        return said if self._left >= 0 else HIDDEN

    def _requote(self, quoted: re.Match[str]) -> str:
        try:
            said = str(json.loads(quoted[0]))
        except ValueError:
            return quoted[0]
        shown = self._without(said)
        return quoted[0] if shown == said else json.dumps(shown, ensure_ascii=False)

    def _without(self, text: str) -> str:
        self._left -= (len(text) + _EACH) * len(self._secrets)
        for each in self._secrets if self._left >= 0 else ():
            text = text.replace(json.dumps(each)[1:-1], HIDDEN).replace(each, HIDDEN)
        return text
