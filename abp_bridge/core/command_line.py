"""A command line as it may be shown to a person: the program and its arguments, and in their place
a mark for those that are secrets, or may be.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence, Set

from abp_bridge.core.sanitize import command_name, label
from abp_bridge.core.secret_parts import (
    HIDDEN,
    MAX_NAMES,
    PATH,
    describe,
    find_address_secrets,
    find_keys,
    find_parts,
    find_secrets,
    hide_keys,
    read_address,
    read_named,
    read_url,
    signs_in,
    split,
)

MAX_COMMAND = 80  # characters: more, and the question after it is not read
MAX_WORD = 40  # characters of one argument
UNSHOWN = "TARGET"  # what stands in a command for a target that its person knows in full
MAX_TARGET = 20_000  # characters: more names nothing, and takes long to search

_PACKAGE = re.compile(r"[/@]|\w:\w")


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
    yield _program(command[0])
    for word in [*describe(command)][1:]:
        yield HIDDEN if word.whole else _show(word.text)


def _program(word: str) -> str:
    """The first word, by its file's name; an address or a variable there is a mistake, and may hold
    a secret too.
    """
    named = read_named(word)
    if read_url(word) is not None or (named is not None and named.is_secret):
        return _show(word)
    return os.path.basename(word) or word


def _show(word: str) -> str:
    shown, rest = "", word
    for _ in range(MAX_NAMES):
        if (address := read_url(rest)) is not None:
            return f"{shown}{address.start}{address.host}"
        if not _hides(rest):
            is_path = rest.startswith(PATH) and not shown
            return f"{shown}{os.path.basename(rest.rstrip('/')) if is_path else rest}"
        if signs_in(rest) or (named := read_named(rest)) is None:
            break
        shown += named.before
        if named.is_secret:
            break
        rest = named.value
    return f"{shown}{HIDDEN}"


def _hides(word: str) -> bool:
    return len(word.split()) > 1 or any(find_parts(word))


_SCHEME = re.compile(r"\s*(?P<start>[A-Za-z][\w+.-]*:)(?!\d+(?:/|\Z))(?P<rest>.*)", re.DOTALL)
_SIGNS_IN = re.compile(r"\S*:\S*@")


def show_target(target: str) -> str:
    """An app's target as it may be shown to people and models: of a command its program, of a
    server's or an agent's the whole line, and of an address its scheme, host and path.
    """
    scheme, _, command = target.partition(":")
    scheme = scheme.lower()
    if scheme == "stdio":
        words = command.split()
        return f"{scheme}:{command_name([*map(_program, words[:1]), *words[1:]])}"
    if scheme in ("mcp", "acp"):
        words = split(command)
        return f"{scheme}:{show_command(words) if words else ''}"
    return clean_target(target)


def target_word(target: str) -> str:
    """An app's target as a word of a command that its person may run: itself, or `UNSHOWN` where
    not all of it may be shown, as without the rest it would name another.
    """
    return shlex.quote(target) if show_target(target) == target else UNSHOWN


def show_model(model: str) -> str:
    """A model as it may be shown: an address with its model's name, which stands behind a `#`. A
    name that looks like a key is hidden: it is written there by mistake.
    """
    if model.startswith("acp:"):
        return show_target(model)
    is_address = read_address(model) is not None
    start, mark, name = model.partition("#" if is_address else ":")
    return f"{clean_target(start) if is_address else start}{mark}{hide_keys(name)}"


def find_target_secrets(target: str) -> list[str]:
    """What of an app's target, or a model, is a secret or looks like one, whole and in the parts
    that the app may say again: less than `show_target` and `show_model` leave out.
    """
    scheme, colon, command = target.partition(":")
    if scheme.lower() in ("stdio", "mcp", "acp"):
        return find_secrets(split(command))
    if read_address(target) is not None:
        return find_address_secrets(target)
    return find_keys(command if colon else target)


def show_unknown(text: str) -> str:
    """What is no target, nor anything else that is known, as an error quotes it: of what has a
    scheme and is no address the scheme alone, as what is behind it may be anything.
    """
    if read_address(text) is None and (found := _SCHEME.match(text)):
        return f"{found['start']}{HIDDEN}"
    return label(clean_target(text))


def clean_target(text: str) -> str:
    """What somebody wrote for a target, well or badly, without what may be secret: of an address
    who signs in (all up to the last `@`, where it is not sound), its query and its fragment, and
    the parts of its path that look like keys; of a command what looks like a secret.
    """
    if len(text) > MAX_TARGET:
        return HIDDEN
    if (address := read_address(text)) is not None:
        return f"{address.start}{address.host}{hide_keys(address.path)}"
    if _SIGNS_IN.match(text):
        return clean_target(text.rpartition("@")[2])
    named = _SCHEME.match(text)
    start, rest = (named["start"], named["rest"]) if named else ("", text)
    return f"{start}{_clean_command(rest)}"


def _clean_command(command: str) -> str:
    """Its words as they were written, but for those that `show_command` would hide."""
    words = split(command)
    shown = [*map(_show, words[:1]), *list(_shown(words))[1:]] if words else []
    return " ".join(
        word if os.path.basename(word.rstrip("/")) == each else each
        for word, each in zip(words, shown, strict=True)
    )
