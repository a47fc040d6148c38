"""What says of itself that it is a secret: by the name it stands under, in JSON and in text, or by its look. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from abp_bridge.core.jsontext import parse

Json = Any

SECRET = "[secret]"  # noqa: S105
MAX_TEXT = 64 * 1024  # characters of a text that is looked into
WORD = 6  # what stands under a telling name, with fewer characters, may be anybody's word elsewhere
NESTED = 4  # levels of JSON inside of text inside of JSON

_KEYS = r"(?:api|access|private|secret|signing|encryption|ssh)[ _-]?key"
_TOKENS = r"(?:access|auth|bearer|refresh|id|session|api|csrf|device|personal[ _-]access)[ _-]?token"
_PASSWORDS = r"pass(?:word|wd|phrase|code)|pwd|(?:client[ _-]?)?secret"
_VARIABLE = r"(?-i:(?:[A-Z0-9]+_)+(?:TOKEN|KEY|SECRET|PASS|PWD))"
_NAMES = rf"(?:{_PASSWORDS}|{_KEYS}|{_TOKENS}|{_VARIABLE}|credential|authorization|(?:set-)?cookie)s?"
_ALONE = r"token|pin|otp|cvv|cvc|ssn"

_MORE = r"(?:[ _-]?(?:confirmation|confirm|again|repeat(?:ed)?|hash|value|\d{1,3}))?"

# A member's name, in any of the ways in which names are made of words.
_NAME = re.compile(rf"(?i:(?:^|[_.\s-]){_NAMES}{_MORE}\Z|\A(?:{_ALONE})\Z)|(?<=[a-z])(?=[A-Z])(?i:{_NAMES}{_MORE})\Z")
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_NOTHING = ("true", "false", "null", "True", "False", "None")
_GIVEN = ("default", "const", "example", "examples", "value")
_ABOUT = {"type", "title", "description", "format", "minLength", "maxLength", "pattern", "writeOnly", "sensitive"}

# The same in text: as a member of JSON (at any depth of escaping) or of Python, as a header, with = or : after it, as an element.
_MENTIONED = re.compile(rf"(?i)pass|pwd|secret|key|token|credential|authorization|cookie|{_ALONE}")
_QUOTED = re.compile(
    rf"(?i)(?P<head>(?P<quote>\\*+[\"'])(?:[\w .-]{{0,40}}[\w.-])??(?:{_NAMES}{_MORE}|(?<=[\"'])(?:{_ALONE}))(?P=quote)\s{{0,8}}[:=]\s{{0,8}})"
    r"(?:(?P<open>\\*+[\"'])(?P<text>.*?)(?P<end>(?<!\\)(?P=open)|\Z)|(?P<bare>-?[\w.+-]+))",
    re.DOTALL,
)
_HEADER = re.compile(r"(?i)(?<![\w-])(?P<head>(?:proxy-)?authorization|(?:set-)?cookie)(?P<mark>\s{0,8}[:=]\s{0,8})(?P<text>[^\r\n\"'\\]+)")
_ASSIGNED = re.compile(
    rf"(?i)(?<![\w.-])(?P<head>(?:[\w.-]{{0,40}}?(?:{_NAMES}{_MORE})[ \t]{{0,8}}(?:=>?|:(?!:))|(?:{_ALONE})[ \t]{{0,8}}=)[ \t]{{0,8}})"
    r"(?P<quote>\\*+[\"'`])?(?P<text>(?(quote).*?(?=(?<!\\)(?P=quote)|\Z)|[^\s\"'`\\,;&<>{}\[\]]+))",
    re.DOTALL,
)
_OPTION = re.compile(rf"(?i)(?<!\S)(--(?:[\w-]{{1,40}}-)?(?:{_NAMES}))([ \t]+)[^\s-][^\s]*")
_ELEMENT = re.compile(rf"(?i)(<(?:[\w.-]{{1,40}}[:_-])?(?:{_NAMES}|{_ALONE})(?:\s[^<>]{{0,400}})?>)[^<]+")

_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'@\\]{1,512}@"), rf"\1{SECRET}@"),
    (re.compile(r"(?i)\b(bearer|basic|digest)(\s+|%20|\+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1\2{SECRET}"),
    (
        re.compile(r"(?i)([?&#](?:[a-z0-9]+[_-])?(?:token|key|secret|password|passwd|pwd|auth|code|sig|signature|session)=)[^&\s\"'#\\]+"),
        rf"\1{SECRET}",
    ),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]*"), SECRET),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), SECRET),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:[spr]k[-_][A-Za-z0-9_-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}"
            r"|AKIA[A-Z0-9]{16}|AIza[\w-]{30,})"
        ),
        SECRET,
    ),
)


def telling(name: str) -> bool:
    """Whether what stands under this name is a secret."""
    return _NAME.search(name) is not None


def is_told_of(holder: Mapping[str, Json], member: str) -> bool:
    """Whether the name of this `value` stands beside it, and is a telling one: so it is with headers, and with variables of a program."""
    name = holder.get("name", holder.get("key"))
    return member == "value" and isinstance(name, str) and telling(name)


def is_schema(value: Json) -> bool:
    """Whether this describes a field, and is no value of one."""
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    typed = "type" in value and all(each in _TYPES for each in kinds)
    return typed or set(value) <= _ABOUT or any(isinstance(value.get(word), (list, Mapping)) for word in ("oneOf", "anyOf", "enum", "properties"))


def given(schema: Mapping[str, Json]) -> dict[str, Json]:
    """What a schema says of the value of its field."""
    return {name: schema[name] for name in _GIVEN if name in schema}


def told(value: Json, depth: int = NESTED) -> Iterator[str]:
    """Each value that stands under a telling name, in JSON and in JSON inside of its texts, where it is long enough to be nobody's word."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if telling(str(name)) or is_told_of(value, name):
                secret = given(each) if is_schema(each) else each
                yield from (leaf for leaf in map(str, leaves(secret)) if len(leaf) >= WORD and leaf != SECRET)
            yield from told(each, depth)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from told(each, depth)
    elif isinstance(value, str) and depth and len(value) <= MAX_TEXT:
        yield from told(_inside(value), depth - 1)


def _inside(text: str) -> Json:
    """The JSON that a text consists of."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def leaves(value: Json) -> Iterator[str | int | float]:
    """The texts and numbers in a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield value


def hide(text: str) -> str:
    """`text` without what stands under telling names in it, or looks like a secret."""
    if _MENTIONED.search(text):
        text = _QUOTED.sub(_unquoted, text)
        text = _HEADER.sub(rf"\g<head>\g<mark>{SECRET}", text)
        text = _ASSIGNED.sub(lambda found: f"{found['head']}{found['quote'] or ''}{SECRET}" if found["text"] else found[0], text)
        text = _OPTION.sub(rf"\1\2{SECRET}", text)
        text = _ELEMENT.sub(rf"\1{SECRET}", text)
    for pattern, instead in _LOOKS:
        text = pattern.sub(instead, text)
    return text


def _unquoted(found: re.Match[str]) -> str:
    if found["bare"] is not None:
        return found[0] if found["bare"] in _NOTHING else found["head"] + SECRET
    return f"{found['head']}{found['open']}{SECRET}{found['end']}" if found["text"] else found[0]
