"""A command line as it may be shown to a person: the program and its arguments, and in their place
a mark for those that are secrets, or may be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from abp_bridge.core.sanitize import label
from abp_bridge.core.secret_names import holds_secret

MAX_COMMAND = 80  # characters: more, and the question after it is not read
MAX_WORD = 40  # characters of one argument

HIDDEN = "\u2026"
# A run of letters and digits that nobody would type: a key, a token, a digest.
_KEY = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}|[A-Za-z0-9+/]{40,}")
_NAMED = re.compile(r"(?P<name>[\w-]+)(?P<mark>[=:])(?P<value>.+)", re.DOTALL)


def show_command(command: Sequence[str]) -> str:
    """The command on one line of about `MAX_COMMAND` characters: of a longer one the middle is left
    out, as the program and what it runs stand at the ends.
    """
    words = [label(word, MAX_WORD) for word in _shown(command)]
    first, rest = words[:2], words[2:]
    room = MAX_COMMAND - sum(map(len, first))
    kept: list[str] = []
    while rest and (not kept or len(rest[-1]) < room):
        room -= len(rest[-1]) + 1
        kept.insert(0, rest.pop())
    return label(" ".join([*first, *([HIDDEN] if rest else []), *kept]), 4 * MAX_COMMAND)


def _shown(command: Sequence[str]) -> Iterator[str]:
    yield os.path.basename(command[0]) or command[0]
    hides = False
    for word in command[1:]:
        yield HIDDEN if hides else _show(word)
        hides = word.startswith("-") and "=" not in word and holds_secret(word.lstrip("-"))


def _show(word: str) -> str:
    if "://" in word:
        return _show_address(word)
    if (named := _NAMED.fullmatch(word)) and holds_secret(named["name"].lstrip("-")):
        return f"{named['name']}{named['mark']}{HIDDEN}"
    if _KEY.search(word) or re.search(r":[^@/]*@", word) or len(word.split()) > 1:
        return HIDDEN
    return os.path.basename(word.rstrip("/")) if word.startswith(("/", "~", "./", "../")) else word


def _show_address(word: str) -> str:
    """Without its user and what is behind its host, where secrets stand."""
    try:
        parts = urlsplit(word)
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
