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
MIN_SECRET = 4  # characters: less is no secret, and stands in many words

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


def find_secrets(command: Sequence[str]) -> dict[str, str]:
    """Of the command's words those that `show_command` hides, or the parts of them, each with what
    is shown in its place: the program may say them again.
    """
    found: dict[str, str] = {}
    for word, shown in zip(command, _shown(command), strict=True):
        if shown == HIDDEN or (shown != word and "://" in word):
            found[word] = shown
        elif shown.endswith(HIDDEN):
            found[word.removeprefix(shown.removesuffix(HIDDEN))] = HIDDEN
    return {secret: shown for secret, shown in found.items() if len(secret) >= MIN_SECRET}


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
    hides = False
    for word in command[1:]:
        yield HIDDEN if hides else _show(word)
        hides = word.startswith("-") and "=" not in word and holds_secret(word.lstrip("-"))


def _program(word: str) -> str:
    """The first word, by its file's name; an address or a variable there is a mistake, and may hold
    a secret too.
    """
    named = _NAMED.fullmatch(word)
    if "://" in word or (named and holds_secret(named["name"])):
        return _show(word)
    return os.path.basename(word) or word


def _show(word: str) -> str:
    if "://" in word:
        return _show_address(word)
    if (named := _NAMED.fullmatch(word)) and holds_secret(named["name"].lstrip("-")):
        return f"{named['name']}{named['mark']}{HIDDEN}"
    is_path = word.startswith(_PATH)
    if any(map(_KEY.search, word.split("/") if is_path else [word])):
        return HIDDEN
    if re.search(r":[^@/:]*@", word) or len(word.split()) > 1:
        return HIDDEN
    return os.path.basename(word.rstrip("/")) if is_path else word


def _show_address(word: str) -> str:
    """Without its user and what is behind its host, where secrets stand."""
    try:
        parts = urlsplit(word)
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# How an address begins, also one that is misspelt: `htps://`, `http:/`, `http//`.
_ADDRESS = re.compile(r"\s*(?P<start>[A-Za-z][\w+.-]*(?::/{1,2}|//))(?P<rest>.*)", re.DOTALL)
# What follows in a sound one; in its path an `@` begins a part, as in `/@name`.
_SOUND = re.compile(
    r"(?:[^/?#@]*@)?(?P<shown>(?:[\w.-]+|\[[\dA-Fa-f:.]+\])(?::\d+)?(?:/@?[^@?#/]*)*)(?:[?#].*)?",
    re.DOTALL,
)
_SCHEME = re.compile(r"\s*(?P<start>[A-Za-z][\w+.-]*:)(?!\d+(?:/|\Z))(?P<rest>.*)", re.DOTALL)
_USER = re.compile(r"\S*:\S*@")


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
        words = _split(command)
        return f"{scheme}:{show_command(words) if words else ''}"
    return clean_target(target)


def show_model(model: str) -> str:
    """A model as it may be shown: an address with its model's name, which stands behind a `#`. A
    name that looks like a key is hidden: it is written there by mistake.
    """
    if model.startswith("acp:"):
        return show_target(model)
    is_address = _ADDRESS.match(model) is not None
    start, mark, name = model.partition("#" if is_address else ":")
    return f"{clean_target(start) if is_address else start}{mark}{hide_keys(name)}"


def hide_keys(path: str) -> str:
    """A path, or a model's name, with a mark for its parts that look like keys."""
    return "/".join(HIDDEN if _KEY.search(part) else part for part in path.split("/"))


def find_keys(path: str) -> list[str]:
    """What `hide_keys` hides: a server may say it again."""
    return [part for part in path.split("/") if _KEY.search(part)]


def show_unknown(text: str) -> str:
    """What is no target, nor anything else that is known, as an error quotes it: of what has a
    scheme and is no address the scheme alone, as what is behind it may be anything.
    """
    if not _ADDRESS.match(text) and (found := _SCHEME.match(text)):
        return f"{found['start']}{HIDDEN}"
    return label(clean_target(text))


def clean_target(text: str) -> str:
    """What somebody wrote for a target, well or badly, without what may be secret: of an address
    who signs in (all up to the last `@`, where it is not sound), its query and its fragment, and
    the parts of its path that look like keys; of a command what looks like a secret.
    """
    found = _ADDRESS.match(text)
    if found is None and _USER.match(text):
        return clean_target(text.rpartition("@")[2])
    if found is None:
        named = _SCHEME.match(text)
        start, rest = (named["start"], named["rest"]) if named else ("", text)
        return f"{start}{_clean_command(rest)}"
    sound = _SOUND.fullmatch(found["rest"])
    shown = sound["shown"] if sound else re.split(r"[?#]", found["rest"].rpartition("@")[2])[0]
    host, mark, path = shown.partition("/")
    return f"{found['start']}{host}{mark}{hide_keys(path)}"


def _clean_command(command: str) -> str:
    """Its words as they were written, but for those that `show_command` would hide."""
    words = _split(command)
    shown = [*map(_show, words[:1]), *list(_shown(words))[1:]] if words else []
    return " ".join(
        word if os.path.basename(word.rstrip("/")) == each else each
        for word, each in zip(words, shown, strict=True)
    )


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # nobody can start it
        return command.split()[:1]
