"""Find and hide secrets in commands and addresses: by position, by name, and by look."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from string import hexdigits
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.sanitize import command_name, label

HIDDEN = "\u2026"
PATH = ("/", "~", "./", "../")  # what the path of a file begins with
MIN_SECRET = 4  # characters: less is no secret, and stands in many words
MAX_SEARCHED = 2_000  # characters of a word: one that is longer is a secret whole
MAX_NAMES = 10  # before one value, as in `--env=A=b`

# A run of letters and digits as nobody would type it: a key, a token, a digest.
_RUN = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{40,}")
# Where it changes between letters and digits, or begins a capital.
_CHANGE = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)|(?<=[a-z])(?=[A-Z])")
MIN_CHANGES = 3  # of those; words that have a year or a version have one or two
_MIXED = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{8,}")
_NAMED = re.compile(r"-*(?P<name>\w[\w.-]*)(?P<mark>[=:])(?P<value>.+)", re.DOTALL)
# The same anywhere in a word: a connection string, JSON, a query, a cookie.
_PAIR = re.compile(
    r"(?<![\w.-])[\"']?(?P<name>[\w.-]{1,200})[\"']?\s*[=:]\s*[\"']?(?P<value>[^;&,{}\"'\s]+)"
)
# `USER:PASSWORD@`, but no port with a path, and no tag of an image with its digest.
_USER = re.compile(r"[^\s:/]*:(?!\d+(?:/|\Z)|//)(?P<password>\S*)@(?!sha\d+:)")
_OF_USER = re.compile(r"(?:-u|--?(?:[\w-]+-)?user)", re.IGNORECASE)  # of curl and its like
_WITH_USER = re.compile(r"-u[^\s:=-][^\s:=]*:", re.IGNORECASE)
# How an address begins, also one that is misspelt: `htps://`, `http:/`, `http//`.
_ADDRESS = re.compile(r"\s*(?P<start>[A-Za-z][\w+.-]*(?::/{1,2}|//))(?P<rest>.*)", re.DOTALL)
# What follows in a sound one. In its path an `@` begins a part, as in `/@name`, or stands where no
# `:` does, as in `/repository@main`: with one, all before it may be a password with a slash.
_SOUND = re.compile(
    r"(?:(?P<user>[^/?#@]*)@)?"
    r"(?P<host>(?:[\w.-]+|\[[\dA-Fa-f:.]+\])(?P<port>:\d+)?)"
    r"(?P<path>(?:/@?[^@?#/]*)*|(?(port)(?!)|/[^?#:]*))"
    r"(?P<more>[?#].*)?",
    re.DOTALL,
)
_WITHIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+")
# What stands before a credential in HTTP's `Authorization`, as in `Bearer abc`.
_AUTH_SCHEMES = frozenset({"basic", "bearer", "digest", "token"})
# In a query each of them is one; elsewhere they are words.
_QUERY_NAMES = frozenset({"auth", "code", "k", "key", "sig", "signature"})
_BOOLEANS = frozenset({"true", "false", "none", "null"})


class Address(NamedTuple):
    """The parts of an address, valid or not.

    Attributes:
        start: Its scheme, up to the host.
        user: The user info; empty for none.
        host: With its port.
        path: With its leading slash.
        more: Its query and fragment.
    """

    start: str
    user: str
    host: str
    path: str
    more: str


def read_address(text: str) -> Address | None:
    """Return an address's parts, or None; the user of an invalid one is all up to the last `@`."""
    found = _ADDRESS.match(text)
    if found is None:
        return None
    if sound := _SOUND.fullmatch(found["rest"]):
        parts = (sound[each] or "" for each in ("user", "host", "path", "more"))
        return Address(found["start"], *parts)
    user, _, rest = found["rest"].rpartition("@")
    shown = re.split(r"[?#]", rest)[0]
    host, slash, path = shown.partition("/")
    return Address(found["start"], user, host, f"{slash}{path}", rest[len(shown) :])


def read_url(word: str) -> Address | None:
    """Split an address in a command's word, where `c:/folder` is not one."""
    return read_address(word) if "://" in word else None


def looks_like_key(text: str) -> bool:
    """Whether a part of it looks like a key, a token or a digest."""
    return _LONG_RUN.search(text) is not None or any(_is_key(run[0]) for run in _RUN.finditer(text))


def _is_key(run: str) -> bool:
    """Whether it is more than words with a number."""
    letters = "".join(filter(str.isalpha, run))
    is_word = not letters.isupper() and not set(letters) <= set(hexdigits)
    return not is_word or len(_CHANGE.findall(run)) >= MIN_CHANGES


def hide_keys(path: str) -> str:
    """Hide the parts of a path or model name that look like keys."""
    return "/".join(map(_hide_part, path.split("/")))


def find_keys(path: str) -> list[str]:
    """Return what `hide_keys` hides."""
    return [*dict.fromkeys(key for part in path.split("/") for key in _part_secrets(part))]


def find_secrets(command: Sequence[str]) -> list[str]:
    """Return the secrets in a command, whole and in the parts that its program may repeat."""
    return _sum_up(each for word in find_word_secrets(command) for each in word.secrets)


def find_address_secrets(address: str) -> list[str]:
    """Return the secrets in an address, even an invalid one."""
    found = read_address(address)
    return [] if found is None else _sum_up(_address_secrets(found))


def _sum_up(found: Iterable[str]) -> list[str]:
    return [each for each in dict.fromkeys(found) if len(each) >= MIN_SECRET]


def hide(text: str, secrets: Iterable[str], mark: str = HIDDEN) -> str:
    """Return `text` with `mark` for each secret in any spelling (`KnownTexts`) and case."""
    found = [*secrets]
    if not found:
        return text
    from abp_bridge.core.redact.texts import KnownTexts  # nothing needs it where nothing goes wrong

    known = KnownTexts()
    for each in found:
        for spelling in dict.fromkeys((each, each.lower(), each.upper())):
            known.add_text(spelling, mark)
    return known.replace(text)


class Word(NamedTuple):
    """A word of a command, its secrets, and whether the whole word is one."""

    text: str
    secrets: tuple[str, ...]
    whole: bool


def find_word_secrets(command: Sequence[str]) -> Iterator[Word]:
    """Yield each word of a command with its secrets, which may depend on the word before it."""
    is_credential = False  # by the word before it
    for before, word in pairwise(["", *command]):
        is_value = is_credential or names_secret(before)
        is_credential = is_value and word.lower() in _AUTH_SCHEMES
        if is_value:
            yield Word(word, _some(_values(word)), whole=True)
        elif _OF_USER.fullmatch(before) and (password := _password(word)):
            yield Word(word, _some(_values(password)), whole=True)
        else:
            yield Word(word, _some(find_parts(word)), whole=False)


def _some(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, found))


def find_parts(word: str) -> Iterator[str]:
    """Yield the secrets in one word, whole and in the parts that may be repeated alone."""
    if len(word) > MAX_SEARCHED:
        yield word
        return
    yield from _layers(word)
    yield from _pairs(word)
    if len(words := _split(word)) > 1:  # a shell's command, or a header
        yield from find_secrets(words)
    elif read_url(word) is None:
        yield from find_keys(word)
        if not word.startswith(PATH) and _LONG_RUN.search(word):
            yield word


def _layers(word: str) -> Iterator[str]:
    """Yield secrets by position: after a secret name, in an address, after a user's name."""
    rest = word
    for _ in range(MAX_NAMES):
        if (address := read_url(rest)) is not None:
            yield from _address_secrets(address)
            return
        if user := _USER.match(rest):
            yield from _values(user["password"])
        if (named := read_named(rest)) is None:
            break
        rest = named.value
        if named.is_secret:
            yield from _values(rest)
    for within in _WITHIN.findall(rest):
        yield from _layers(within)


def _password(word: str) -> str:
    """Return the password in `NAME:PASSWORD`, or "" if it is a number, as in `1000:1000`."""
    password = word.partition(":")[2]
    return "" if password.isdigit() else password


class Named(NamedTuple):
    """A word as `--name=value`, `NAME:value` or `-uNAME:PASSWORD`.

    Attributes:
        before: The text before the value.
        value: The value.
        is_secret: Whether its name says it is secret.
    """

    before: str
    value: str
    is_secret: bool


def read_named(word: str) -> Named | None:
    """Split a name and its value, or return None."""
    found = _NAMED.fullmatch(word)
    if found is None:
        return None
    before, value = word[: found.end("mark")], found["value"]
    if holds_secret(found["name"]) or (_WITH_USER.match(word) and not value.isdigit()):
        return Named(before, value, is_secret=True)
    if _OF_USER.fullmatch(before[:-1]) and (password := _password(value)):
        return Named(word[: -len(password)], password, is_secret=True)
    return Named(before, value, is_secret=False)


def signs_in(word: str) -> bool:
    """Whether it begins with `USER:PASSWORD@`."""
    return _USER.match(word) is not None


def split(command: str) -> list[str]:
    """Split a command as a shell does; the first word if it cannot be split."""
    try:
        return shlex.split(command)
    except ValueError:  # nobody can start it
        return command.split()[:1]


def _split(words: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


def names_secret(word: str) -> bool:
    """Whether the next word is a secret: after such an option, or a header's name."""
    names_next = (word.startswith("-") and "=" not in word) or word.endswith(":")
    return names_next and holds_secret(word.strip("-:"))


def _values(value: str) -> Iterator[str]:
    """Yield a secret and its parts: `Bearer abc`, `sid=abc; b=c`, an address."""
    bare = value.strip().strip("\"'")
    if bare.lower() in _BOOLEANS:
        return
    yield from (bare, unquote(bare))
    scheme, _, credential = bare.partition(" ")
    if scheme.lower() in _AUTH_SCHEMES:
        yield credential.strip()
    for pair in _PAIR.finditer(bare[:MAX_SEARCHED]):
        yield pair["value"]
    if (address := read_url(bare)) is not None:
        yield from _address_secrets(address)


def _pairs(text: str) -> Iterator[str]:
    for pair in _PAIR.finditer(text[:MAX_SEARCHED]):
        if holds_secret(pair["name"]):
            yield from _values(pair["value"])


def _address_secrets(address: Address) -> Iterator[str]:
    name, colon, password = address.user.partition(":")
    yield from _values(password if colon else name)
    yield from find_keys(address.path)
    for pair in re.split(r"[?#&]", address.more[:MAX_SEARCHED]):
        name, _, value = pair.partition("=")
        said = unquote_plus(value or name).strip("/")
        is_named = name.lower() in _QUERY_NAMES or holds_secret(name)
        if (is_named and value) or looks_like_key(said) or _MIXED.fullmatch(said):
            yield from (value.strip("/") or said, said)
    yield address.more.partition("#")[0]  # where the address is said again


def _part_secrets(part: str) -> Iterator[str]:
    if len(part) > MAX_SEARCHED:
        yield part
        return
    said = unquote(part)
    if looks_like_key(said):
        yield from (part, said)
    else:
        yield from _pairs(said)


def _hide_part(part: str) -> str:
    if len(part) > MAX_SEARCHED or looks_like_key(unquote(part)):
        return HIDDEN
    return hide(part, _part_secrets(part))


# --- as it may be shown ---------------------------------------------------------------------------

MAX_COMMAND = 80  # characters: more, and the question after it is not read
MAX_WORD = 40  # characters of one argument
UNSHOWN = "TARGET"  # what stands in a command for a target that its person knows in full
MAX_TARGET = 20_000  # characters: more names nothing, and takes long to search

_PACKAGE = re.compile(r"[/@]|\w:\w")


def show_command(command: Sequence[str]) -> str:
    """Return the command in about `MAX_COMMAND` characters: what is run, then options."""
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
    """Whether it is an option or perhaps its value; an image or a package is not."""
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
    for word in [*find_word_secrets(command)][1:]:
        yield HIDDEN if word.whole else _show_word(word.text)


def _program(word: str) -> str:
    """Return the first word's file name; an address or variable there may hold a secret."""
    named = read_named(word)
    if read_url(word) is not None or (named is not None and named.is_secret):
        return _show_word(word)
    return os.path.basename(word) or word


def _show_word(word: str) -> str:
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
    """Return a target safe to show: a program or its line, or an address without its query."""
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
    """Return a target as a word of a command, or `UNSHOWN` if not all of it may be shown."""
    return shlex.quote(target) if show_target(target) == target else UNSHOWN


def show_model(model: str) -> str:
    """Return a model that is safe to show: its address and name (after `#`), without keys."""
    if model.startswith("acp:"):
        return show_target(model)
    is_address = read_address(model) is not None
    start, mark, name = model.partition("#" if is_address else ":")
    return f"{clean_target(start) if is_address else start}{mark}{hide_keys(name)}"


def find_target_secrets(target: str) -> list[str]:
    """Return the secrets in a target or model, whole and in parts an app may repeat."""
    scheme, colon, command = target.partition(":")
    if scheme.lower() in ("stdio", "mcp", "acp"):
        return find_secrets(split(command))
    if read_address(target) is not None:
        return find_address_secrets(target)
    return find_keys(command if colon else target)


def show_unknown(text: str) -> str:
    """Return an invalid target for an error; only the scheme of one with a scheme."""
    if read_address(text) is None and (found := _SCHEME.match(text)):
        return f"{found['start']}{HIDDEN}"
    return label(clean_target(text))


def clean_target(text: str) -> str:
    """Return what was typed as a target without secrets.

    An address loses its user (all up to the last `@`), query, fragment and keys in its path.
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
    """Return a command unchanged except for words that `show_command` hides."""
    words = split(command)
    shown = [*map(_show_word, words[:1]), *list(_shown(words))[1:]] if words else []
    return " ".join(
        word if os.path.basename(word.rstrip("/")) == each else each
        for word, each in zip(words, shown, strict=True)
    )
