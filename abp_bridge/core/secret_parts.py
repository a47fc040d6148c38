"""What in the words of a command, and in an address, is a secret, or may be one: by how an address
is built, by the name that a value stands under, and by how a key looks.

`command_line` shows neither more nor less than what is none of it. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from abp_bridge.core.known_texts import KnownTexts
from abp_bridge.core.secret_names import holds_secret

HIDDEN = "\u2026"
MIN_SECRET = 4  # characters: less is no secret, and stands in many words
PATH = ("/", "~", "./", "../")  # what the path of a file begins with
MIN_TELLING = 6  # characters of a secret without a name: fewer may be any word

# A run of letters and digits as nobody would type it: a key, a token, a digest.
_RUN = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{40,}")
# Where it changes between letters and digits, or begins a capital: names that have a year or a
# version do so once or twice.
_CHANGE = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)|(?<=[a-z])(?=[A-Z])")
MIN_CHANGES = 3  # of those; what people name has one or two
_NAMED = re.compile(r"-*(?P<name>\w[\w.-]*)(?P<mark>[=:])(?P<value>.+)", re.DOTALL)
# The same anywhere in a word: a connection string, JSON, a query.
_PAIR = re.compile(r"[\"']?(?P<name>[\w.-]+)[\"']?\s*[=:]\s*[\"']?(?P<value>[^;&,{}\"'\s]+)")
_USER = re.compile(r"[^\s:/]*:(?P<password>[^\s@/:]*)@")
# How an address begins, also one that is misspelt: `htps://`, `http:/`, `http//`.
ADDRESS = re.compile(r"\s*(?P<start>[A-Za-z][\w+.-]*(?::/{1,2}|//))(?P<rest>.*)", re.DOTALL)
# What follows in a sound one; in its path an `@` begins a part, as in `/@name`.
_SOUND = re.compile(
    r"(?:(?P<user>[^/?#@]*)@)?"
    r"(?P<host>[\w.-]+|\[[\dA-Fa-f:.]+\])(?P<port>:\d+)?(?P<path>(?:/@?[^@?#/]*)*)"
    r"(?P<more>[?#].*)?",
    re.DOTALL,
)
# What stands before a credential in HTTP's `Authorization`, as in `Bearer abc`.
_AUTH_SCHEMES = frozenset({"basic", "bearer", "digest", "token"})
_USER_OPTIONS = frozenset({"-u", "--user"})  # of curl and its like: `NAME:PASSWORD`


class Address(NamedTuple):
    """The parts of an address, well or badly written.

    Attributes:
        start: Its scheme, up to the host.
        user: Who signs in, with a password or not; empty for nobody.
        host: With its port.
        path: With the slash that it begins with.
        more: Its query and its fragment.
    """

    start: str
    user: str
    host: str
    path: str
    more: str


def read_address(text: str) -> Address | None:
    """The parts of an address; where it is not sound, all up to the last `@` is its user. None
    where it is none.
    """
    found = ADDRESS.match(text)
    if found is None:
        return None
    if sound := _SOUND.fullmatch(found["rest"]):
        user, host, port, path, more = (each or "" for each in sound.groups())
        return Address(found["start"], user, f"{host}{port}", path, more)
    user, _, rest = found["rest"].rpartition("@")
    shown = re.split(r"[?#]", rest)[0]
    host, slash, path = shown.partition("/")
    return Address(found["start"], user, host, f"{slash}{path}", rest[len(shown) :])


def looks_like_key(text: str) -> bool:
    """Whether there is something in it that looks like a key, a token or a digest."""
    return _LONG_RUN.search(text) is not None or any(
        len(_CHANGE.findall(run[0])) >= MIN_CHANGES for run in _RUN.finditer(text)
    )


def hide_keys(path: str) -> str:
    """A path, or a model's name, with a mark for its parts that look like keys."""
    return "/".join(map(_hide_part, path.split("/")))


def find_keys(path: str) -> list[str]:
    """What `hide_keys` hides: a server may say it again."""
    return [*dict.fromkeys(key for part in path.split("/") for key in _part_secrets(part))]


def find_secrets(command: Sequence[str]) -> list[str]:
    """The secrets in the words of a command, whole and in the parts that its program may say."""
    return _sum_up(each for word in describe(command) for each in word.secrets)


def find_address_secrets(address: str) -> list[str]:
    """The same of an address, or of what somebody wrote for one."""
    return _sum_up(find_parts(address))


def _sum_up(found: Iterable[str]) -> list[str]:
    return [each for each in dict.fromkeys(found) if len(each) >= MIN_SECRET]


def hide(text: str, secrets: Iterable[str], mark: str = HIDDEN) -> str:
    """`text` with a mark in the place of each of `secrets`, however it is written there
    (`KnownTexts`), in small letters or in capitals.
    """
    known = KnownTexts()
    for each in secrets:
        for spelling in dict.fromkeys((each, each.lower(), each.upper())):
            known.add(spelling, mark)
    return known.replace(text)


class Word(NamedTuple):
    """A word of a command: what of it may be said again, and whether all of it is a secret."""

    text: str
    secrets: tuple[str, ...]
    whole: bool


def describe(command: Sequence[str]) -> Iterator[Word]:
    """What is secret in each word of a command, by itself and by the word before it."""
    is_credential = False  # by the word before it
    for before, word in pairwise(["", *command]):
        is_value = is_credential or _names_secret(before)
        is_credential = is_value and word.lower() in _AUTH_SCHEMES
        if is_value:
            yield Word(word, tuple(_values(word)), whole=True)
        elif before in _USER_OPTIONS and ":" in word and not word.rpartition(":")[2].isdigit():
            yield Word(word, (word, *_values(word.partition(":")[2])), whole=True)
        else:
            yield Word(word, tuple(find_parts(word)), whole=False)


def find_parts(word: str) -> Iterator[str]:
    """What in one word may be a secret, in the ways in which it may be said again."""
    if (address := read_address(word)) is not None:
        yield from _address_secrets(address)
    elif user := _USER.search(word):
        yield from _values(user["password"])
        yield word
    elif named := _NAMED.fullmatch(word):
        secret = holds_secret(named["name"])
        yield from _values(named["value"]) if secret else find_parts(named["value"])
    elif len(word.split()) > 1:
        yield word
        yield from find_secrets(split(word))
    else:
        yield from _pairs(word)
        yield from find_keys(word)
        if not word.startswith(PATH) and _LONG_RUN.search(word):
            yield word


def named_value(word: str) -> Mapping[str, str] | None:
    """`name`, `mark` and `value` of a word as `--name=value` or `NAME:value`; None of another."""
    found = _NAMED.fullmatch(word)
    if found is None:
        return None
    return {**found.groupdict(), "start": word[: found.start("name")]}


def split(command: str) -> list[str]:
    """The words of a command, as a shell splits it; of one that cannot be split the first."""
    try:
        return shlex.split(command)
    except ValueError:  # nobody can start it
        return command.split()[:1]


def _names_secret(word: str) -> bool:
    """Whether it is an option whose value is a secret."""
    return word.startswith("-") and "=" not in word and holds_secret(word.lstrip("-"))


def _values(value: str) -> Iterator[str]:
    """A secret, and the parts that may be said without the rest: `Bearer abc`, an address."""
    bare = value.strip().strip("\"'")
    yield bare
    yield from bare.split()[1:]
    yield unquote(bare)
    if (address := read_address(bare)) is not None:
        yield from _address_secrets(address)


def _pairs(text: str) -> Iterator[str]:
    for pair in _PAIR.finditer(text):
        if holds_secret(pair["name"]):
            yield from _values(pair["value"])


def _address_secrets(address: Address) -> Iterator[str]:
    name, colon, password = address.user.partition(":")
    yield from _values(password if colon else name)
    yield from find_keys(address.path)
    for pair in re.split(r"[?#&]", address.more):
        name, _, value = pair.partition("=")
        said = unquote_plus(value or name).strip("/")
        if value:
            yield pair
        if looks_like_key(said) or holds_secret(name) or _is_telling(said):
            yield from (value.strip("/"), said)


def _is_telling(value: str) -> bool:
    """Whether a value without a telling name is more than a word or a number."""
    return len(value) >= MIN_TELLING and not value.isalpha() and not value.isdigit()


def _part_secrets(part: str) -> Iterator[str]:
    """Of a part of a path."""
    said = unquote(part)
    if looks_like_key(said):
        yield from (part, said)
    else:
        yield from _pairs(said)


def _hide_part(part: str) -> str:
    if looks_like_key(unquote(part)):
        return HIDDEN
    return hide(part, _part_secrets(part))
