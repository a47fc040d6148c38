"""What is not shown of a person's file, though it stands in a line that changes: values of
variables and headers, what is named as a secret, and words of commands that look like one. An agent
may run this, and its model reads what it prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from abp_bridge.core.command_line import HIDDEN, show_command
from abp_bridge.core.json_value import JsonValue, as_texts, leaves
from abp_bridge.core.secret_names import holds_secret

SHORTEST = 4  # characters: less is no secret, and stands in many words
_HOLDERS = ("env", "envs", "environment", "headers")


def find_secrets(value: JsonValue) -> set[str]:
    """The texts in what a file says that are not shown."""
    return {each for each in _secrets(value) if len(each) >= SHORTEST}


def _secrets(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name in _HOLDERS or holds_secret(name):
                yield from map(str, leaves(each))
            else:
                yield from _secrets(each)
    elif isinstance(value, list):
        yield from _secret_words(as_texts(value))
        for each in value:
            yield from _secrets(each)


def _secret_words(words: list[str]) -> Iterator[str]:
    """Of a command's arguments."""
    for before, word in zip(["", *words], words, strict=False):
        shown = show_command(["x", before, word] if before else ["x", word])
        if shown.endswith(HIDDEN) or ("://" in word and "@" in word):
            yield word


def hide(lines: Iterable[str], secrets: Iterable[str]) -> Iterator[str]:
    """`lines` with a mark for each of the secrets in them."""
    found = sorted(secrets, key=len, reverse=True)
    for line in lines:
        shown = line
        for each in found:
            shown = shown.replace(json.dumps(each)[1:-1], HIDDEN).replace(each, HIDDEN)
        yield shown
