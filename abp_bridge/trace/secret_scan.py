"""What says of itself that it is a secret: by the name it stands under, in JSON and in text, or by
its look. Pure.

Which names say so, `core.secrecy` knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import JSONDecoder
from typing import Any
from urllib.parse import unquote_plus

from abp_bridge.core.json_text import is_deeper
from abp_bridge.core.secret_names import holds_secret

Json = Any

SECRET = "[secret]"  # noqa: S105
MAX_TEXT = 64 * 1024  # characters of a text that is looked into
DEEPEST = 100  # levels of JSON inside of text
TRIES = 64  # places in a text where JSON may begin
NESTED = 4  # levels of JSON inside of text inside of JSON

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_GIVEN = ("default", "const", "example", "examples")
_KEYWORDS = {
    *(
        "type",
        "title",
        "description",
        "format",
        "pattern",
        "enum",
        "enumNames",
        "oneOf",
        "anyOf",
        "allOf",
        "not",
        "$ref",
        "$schema",
        "$defs",
    ),
    *(
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "uniqueItems",
    ),
    *(
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "writeOnly",
        "readOnly",
        "deprecated",
        "sensitive",
        "nullable",
    ),
    *("contentEncoding", "contentMediaType", "x-order", *_GIVEN),
}
_LISTED = ("mcpServers",)  # each of these says what its programs are given
_HANDED = ("env", "headers")


# --- values ---------------------------------------------------------------------------------------


def is_schema(value: Json) -> bool:
    """Whether this describes a field, and is no value of one: it has what JSON Schema knows, and
    nothing else.
    """
    if not isinstance(value, Mapping) or not set(value) <= _KEYWORDS:
        return False
    inside = value.get("properties", {})
    if not isinstance(inside, Mapping) or not all(
        isinstance(each, Mapping) for each in inside.values()
    ):
        return False
    kind = value.get("type", "string")
    return all(each in _TYPES for each in (kind if isinstance(kind, list) else [kind]))


def is_told_of(holder: Mapping[str, Json], member: str) -> bool:
    """Whether the name of this `value` stands beside it, and is a telling one: so it is with
    headers, and with variables of a program.
    """
    name = holder.get("name", holder.get("key"))
    return member == "value" and isinstance(name, str) and holds_secret(name)


def without_told(value: Json, under: str = "") -> Json:
    """`value` with everything blanked that stands under a telling name."""
    if isinstance(value, Mapping):
        handed = under in _LISTED or under in _HANDED
        return {name: _member(value, name, each, handed=handed) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return _arguments([without_told(each, under) for each in value])
    return value


def _member(holder: Mapping[str, Json], name: str, value: Json, *, handed: bool) -> Json:
    if handed and name in _HANDED and isinstance(value, (list, Mapping)):
        return _all_handed(value)
    if is_told_of(holder, name):
        return blank(value)
    if not holds_secret(name):
        return without_told(value, name if name in (*_LISTED, *_HANDED) else "")
    return without_given(value) if is_schema(value) else blank(value)


def _all_handed(value: Json) -> Json:
    """Variables and headers that a program is given: all of them, whatever they are called."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    return [
        (
            {name: blank(each) if name == "value" else each for name, each in item.items()}
            if isinstance(item, Mapping)
            else item
        )
        for item in value
    ]


def _arguments(items: list[Json]) -> list[Json]:
    """A command's words: what comes after `--api-key` is one."""
    told = [
        isinstance(each, str) and each.startswith("-") and "=" not in each and holds_secret(each)
        for each in items
    ]
    return [
        blank(each) if place and told[place - 1] and isinstance(each, str) else each
        for place, each in enumerate(items)
    ]


def without_given(schema: Json) -> Json:
    """A schema of a secret without the values that it suggests."""
    if isinstance(schema, Mapping):
        return {
            name: blank(each) if name in _GIVEN else without_given(each)
            for name, each in schema.items()
        }
    return [without_given(each) for each in schema] if isinstance(schema, list) else schema


def blank(value: Json) -> Json:
    """The same shape, with no text and no number in it."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [blank(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else SECRET


def blanked(before: Json, after: Json) -> Iterator[str | int | float]:
    """What stood where something is blanked now."""
    if after == SECRET and before != SECRET:
        yield from leaves(before)
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name, each in before.items():
            yield from blanked(each, after.get(name))
    elif isinstance(before, (list, tuple)) and isinstance(after, list):
        for one, other in zip(before, after, strict=False):
            yield from blanked(one, other)


def leaves(value: Json) -> Iterator[str | int | float]:
    """The texts and numbers in a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield value


_ORDINARY = re.compile(r"[a-z]+(?:[_./-][a-z]+)+|[\d.,:/-]{1,7}|\d{4}-\d\d-\d\d|[A-Za-z]{1,15}")


def looks_secret(text: str) -> bool:
    """Whether a text that stood under a telling name is worth looking for elsewhere: and is not
    anybody's word.
    """
    if len(text) < 8 or _ORDINARY.fullmatch(text):
        return False
    mixed = (
        re.search(r"\d", text) is not None
        or re.search(r"[a-z].*[A-Z]|[A-Z].*[a-z].*[A-Z]|[^\w\s./-]", text) is not None
    )
    return mixed or len(text) >= 16


# --- JSON in text ---------------------------------------------------------------------------------

_BEGINS = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\d-]|true\b|false\b|null\b)')


def _no_constant(word: str) -> Json:
    raise ValueError(word)


_DECODER = JSONDecoder(parse_constant=_no_constant)


def json_in(text: str) -> Iterator[tuple[int, int, Json]]:
    """The JSON that stands in a text: from where to where, and what it is."""
    at = 0
    for _ in range(TRIES):
        found = _BEGINS.search(text, at)
        if found is None:
            return
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.start() + 1
            continue
        if is_deeper(value, DEEPEST):
            at = found.start() + 1
        else:
            yield found.start(), end, value
            at = end


def names_next(text: str) -> bool:
    """Whether what comes after this text is named a secret by it."""
    found = _NAMED_NEXT.search(text[-200:])
    return found is not None and holds_secret(found[1])


_NAMED_NEXT = re.compile(r"([\w .\[\]%-]{1,80})[\"']?\s{0,8}[:=]\s{0,8}\Z")


# --- names and values in text ---------------------------------------------------------------------


def hide(text: str) -> str:
    """`text` without what stands under telling names in it, or looks like a secret.

    It may be JSON that is not whole.
    """
    for pattern, end in _HEADS:
        text = _cut_out(text, pattern, end)
    text = _TAG.sub(
        _without_value,
        _ELEMENT.sub(
            lambda found: f"{found[1]}{SECRET}" if holds_secret(found[2]) else found[0], text
        ),
    )
    text = _PARAMETER.sub(_parameter, text)
    for look, instead in _LOOKS:
        text = look.sub(instead, text)
    return text


def _cut_out(text: str, heads: re.Pattern[str], end_of: Callable[[str, re.Match[str]], int]) -> str:
    """What follows the heads with telling names, up to where its end is."""
    kept: list[str] = []
    done = 0
    for head in heads.finditer(text):
        at = head.end()
        if (
            head.start() < done
            or not holds_secret(unquote_plus(head["name"]))
            or text.startswith((SECRET, "[env "), at)
        ):
            continue
        end = end_of(text, head)
        if end > at and text[at:end].strip() not in _NOTHING:
            opened, closed = _quotes(text[at:end])
            kept += [text[done : at + opened], SECRET, text[end - closed : end]]
            done = end
    return "".join([*kept, text[done:]])


_NOTHING = ("", "true", "false", "null", "True", "False", "None", '""', "''", "[]", "{}")
_QUOTE = re.compile(r"\\*+[\"'`]")


def _quotes(value: str) -> tuple[int, int]:
    """How long the quotes are that a value begins and ends with."""
    found = _QUOTE.match(value)
    if found is None:
        return 0, 0
    return len(found[0]), (
        len(found[0]) if len(value) > len(found[0]) and value.endswith(found[0]) else 0
    )


_MEMBER = re.compile(
    r"(?<!\\)(?P<quote>\\*+[\"'])(?P<name>[^\"'\\\n]{1,80})(?P=quote)\s{0,8}[:=]\s{0,8}"
)
_OPTION = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,60})(?:=|[ \t]+(?![-\s]))")
_ASSIGNED = re.compile(
    r"(?<![\w.%-])(?P<name>(?:[A-Za-z]\w{0,30}[ ]){0,2}[A-Za-z_%][\w.\[\]%-]{0,80})(?P<mark>["
    r" \t]{0,8}(?:=>?|:(?![:/]))[ \t]{0,8})",
    re.ASCII,
)
_WORD = re.compile(r"\S+")
_IN_QUERY = re.compile(r"[^&\s\"'#\\]*")
_LINE = re.compile(r"[^\r\n]*")
_BLOCK = re.compile(r"[|>]?[+-]?[ \t]*\r?\n(?:[ \t]+\S[^\n]*(?:\n|\Z))+")
_BARE = re.compile(r"-?[\w.+-]+")
_SINGLE = re.compile(r"([\"'`])(?:[^\\\n]|\\.)*?\1")
_START = re.compile(r"[ \t]*(?:- |export |set )?\Z")
_WHOLE_LINE = re.compile(r"(?i)(?:authorization|cookie)\Z")


def _end_of_member(text: str, head: re.Match[str]) -> int:
    at, quote = head.end(), head["quote"]
    if text.startswith(("{", "["), at):
        return len(text)
    opened = _QUOTE.match(text, at)
    if opened is None:
        bare = _BARE.match(text, at)
        return at if bare is None else bare.end()
    if len(quote) == len(opened[0]) == 1:
        closed = re.compile(rf"(?:[^{quote}\\]|\\.)*+{opened[0]}", re.DOTALL).match(text, at + 1)
    else:
        closed = re.compile(rf".*?(?<!\\){re.escape(opened[0])}", re.DOTALL).match(
            text, opened.end()
        )
    return len(text) if closed is None else closed.end()


def _end_of_option(text: str, head: re.Match[str]) -> int:
    found = _SINGLE.match(text, head.end()) or _WORD.match(text, head.end())
    return head.end() if found is None else found.end()


def _end_of_assigned(text: str, head: re.Match[str]) -> int:
    at, start = head.end(), text.rfind("\n", 0, head.start()) + 1
    if head.start() and text[head.start() - 1] in "?&#;":
        return _match_end(_IN_QUERY, text, at)
    begins = _START.fullmatch(text, start, head.start()) is not None
    if (quoted := _SINGLE.match(text, at)) is not None and not _WHOLE_LINE.search(head["name"]):
        return quoted.end()
    if begins and (block := _BLOCK.match(text, at)) is not None:
        return block.end()
    return _match_end(_LINE if begins or _WHOLE_LINE.search(head["name"]) else _WORD, text, at)


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


_HEADS: Sequence[tuple[re.Pattern[str], Callable[[str, re.Match[str]], int]]] = (
    (_MEMBER, _end_of_member),
    (_OPTION, _end_of_option),
    (_ASSIGNED, _end_of_assigned),
)

_ELEMENT = re.compile(r"(<([A-Za-z][\w:.-]{0,80})(?:\s[^<>]{0,400})?>)(?!\s*\[secret\])[^<]+")
_TAG = re.compile(r"<[A-Za-z][^<>]{0,800}>")
_ATTRIBUTE = re.compile(r"([\w:-]{1,40})\s{0,4}=\s{0,4}([\"'])(.*?)\2")


def _without_value(found: re.Match[str]) -> str:
    """A tag whose name, type or key says that its value is a secret."""
    said = _ATTRIBUTE.findall(found[0])
    if not any(
        name.lower() in ("name", "type", "key", "id") and holds_secret(value)
        for name, _, value in said
    ):
        return found[0]
    return _ATTRIBUTE.sub(
        lambda each: (
            f"{each[1]}={each[2]}{SECRET}{each[2]}" if each[1].lower() == "value" else each[0]
        ),
        found[0],
    )


_PARAMETER = re.compile(r"([?&#;])([^=&\s\"'\\?#;]{1,80})=([^&\s\"'#\\]+)")
_WEAKER = re.compile(r"(?i)(?:\A|[_-])(?:key|code|sig|signature|auth|session|sid)\Z")


def _parameter(found: re.Match[str]) -> str:
    """A parameter of an address. Some names are those of other things too."""
    name = unquote_plus(found[2])
    told = holds_secret(name) or (
        _WEAKER.search(name) is not None and (looks_secret(found[3]) or len(found[3]) >= 8)
    )
    return f"{found[1]}{found[2]}={SECRET}" if told and not found[3].startswith("[") else found[0]


_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'\\]{1,512}@"),
        rf"\1{SECRET}@",
    ),
    (re.compile(r"(?i)\b(bearer)(\s+|%20|\+)[a-z0-9._~+/=-]{8,}"), rf"\1\2{SECRET}"),
    (
        re.compile(r"\b((?i:basic))(\s+|%20|\+)(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=]{8,}"),
        rf"\1\2{SECRET}",
    ),
    (
        re.compile(
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]*"
        ),
        SECRET,
    ),
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        SECRET,
    ),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:[spr]k[-_](?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
            r"|xox[a-z]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})"
        ),
        SECRET,
    ),
)
