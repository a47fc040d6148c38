"""A command line as it may be shown to a person: the program and its arguments, and in their place
a mark for those that are secrets, or may be.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence, Set
from urllib.parse import urlsplit

from abp_bridge.core.sanitize import command_name, label
from abp_bridge.core.secret_names import holds_secret

MAX_COMMAND = 80  # characters: more, and the question after it is not read
MAX_WORD = 40  # characters of one argument

HIDDEN = "\u2026"
# A run of letters and digits that nobody would type: a key, a token, a digest.
_KEY = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}|[A-Za-z0-9+/]{40,}")
_PATH = ("/", "~", "./", "../")
_PACKAGE = re.compile(r"[/@]|\w:\w")
_NAMED = re.compile(r"(?P<name>[\w-]+)(?P<mark>[=:])(?P<value>.+)", re.DOTALL)


def show_command(command: Sequence[str]) -> str:
    """The command on one line of about `MAX_COMMAND` characters. Of a longer one the words that say
    what is run come first, then options as far as there is room; a mark stands for the others.
    """
    words = [label(word, MAX_WORD) for word in _shown(command)]
    kept: set[int] = set()
    room = MAX_COMMAND
    for place in sorted(range(len(words)), key=lambda place: _is_option(words, place)):
        room -= len(words[place]) + 1
        if room < 0 and len(kept) > 1:
            break
        kept.add(place)
    return " ".join(_marked(words, kept))


def _is_option(words: Sequence[str], place: int) -> bool:
    """An option, or what may be the value of one: an image or a package has a mark of its own."""
    if words[place].startswith("-"):
        return True
    return place > 0 and words[place - 1].startswith("-") and not _PACKAGE.search(words[place])


def _marked(words: Sequence[str], kept: Set[int]) -> Iterator[str]:
    for place, word in enumerate(words):
        if place in kept:
            yield word
        elif place - 1 in kept:
            yield HIDDEN


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
    is_path = word.startswith(_PATH)
    if any(map(_KEY.search, word.split("/") if is_path else [word])):
        return HIDDEN
    if re.search(r":[^@/]*@", word) or len(word.split()) > 1:
        return HIDDEN
    return os.path.basename(word.rstrip("/")) if is_path else word


def _show_address(word: str) -> str:
    """Without its user and what is behind its host, where secrets stand."""
    try:
        parts = urlsplit(word)
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def show_target(target: str) -> str:
    """An app's target as it may be shown to people and models: of a command its program, of a
    server's or an agent's the whole line, and of an address all but its user and query, where
    secrets stand.
    """
    scheme, _, command = target.partition(":")
    scheme = scheme.lower()
    if scheme == "stdio":
        return f"{scheme}:{command_name(command.split())}"
    if scheme in ("mcp", "acp"):
        try:
            words = shlex.split(command)
        except ValueError:  # nobody can start it
            words = command.split()[:1]
        return f"{scheme}:{show_command(words) if words else ''}"
    address = target.partition("?")[0]
    return re.sub(r"^([\w+]+://)[^/]*@", r"\1", address)
