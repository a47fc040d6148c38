"""The part of JSON Schema that questions and capabilities use: does a value fit, and if not, what
is wrong, in words for a person.

Total and bounded: any schema an app can send gives an answer, in linear time for patterns and with
a limit on the rest. A keyword that is not in the table is not checked; `unchecked` names it, so
that nobody believes it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    is_deeper,
    is_number,
    json_equal,
    type_of,
)
from abp_bridge.core.pattern import find_matcher
from abp_bridge.core.text_format import FORMATS
from abp_bridge.core.words import plural

Schema = JsonObject

MAX_DEPTH = 32  # levels of the schema; more is never a question, and each costs stack
MAX_LEVELS = 100  # levels of the value; the check recurses into each
MAX_CHECKS = 20_000  # keywords applied in one check, some 10 µs each: a fraction of a second
MAX_PROBLEMS = 20  # sentences; a person mends no more at once

_STEPS = 4_000  # characters times size of a pattern that take as long as a keyword does
_CHARACTERS = 1_000  # of a value that is looked through in the time that a keyword takes

_ANNOTATION_NAMES = """
    $schema $id $comment $defs definitions title description default examples
    enumNames deprecated readOnly writeOnly sensitive
"""
ANNOTATIONS = frozenset(_ANNOTATION_NAMES.split())


def check(value: JsonValue, schema: Schema, name: str = "") -> list[str]:
    """What is wrong with `value` under `schema`, a sentence each; empty when it fits.

    At most `MAX_PROBLEMS`.

    `name` is what the sentences call the value. What is too deep or too large to be checked does
    not fit.
    """
    if is_deeper(value, MAX_LEVELS):
        return [f"{name or 'the answer'} is nested more than {MAX_LEVELS} levels deep"]
    walk = _Walk(MAX_CHECKS)
    walk.visit(value, schema, name, 0)
    return list(dict.fromkeys(walk.undecided + walk.problems))[:MAX_PROBLEMS]


def is_undecided(value: JsonValue, schema: Schema) -> bool:
    """Whether `value` or `schema` is too deep or too large for `check` to say what is wrong."""
    if is_deeper(value, MAX_LEVELS):
        return True
    walk = _Walk(MAX_CHECKS)
    walk.visit(value, schema, "", 0)
    return bool(walk.undecided)


def is_valid(value: JsonValue, schema: Schema) -> bool:
    """Whether `check` finds nothing wrong with `value`."""
    return not check(value, schema)


def unsupported_keywords(schema: Schema) -> tuple[str, ...]:
    """The keywords that `check` passes over, anywhere in `schema`, sorted.

    A known one is among them whose value is none of its own: `exclusiveMinimum: true`.
    """
    inside = parts(schema)
    found = {
        "pattern" if word == "patternProperties" and isinstance(value, Mapping) else word
        for _, part in inside
        for word, value in part.items()
        if not (_READABLE[word](value) if word in _READABLE else _is_annotation(word))
    }
    formats = {as_text(part.get("format")) for _, part in inside} - {"", *FORMATS}
    return tuple(sorted(found | {f"format {each}" for each in formats}))


def _is_annotation(word: str) -> bool:
    return word in ANNOTATIONS or word.startswith("x-")


def parts(schema: Schema) -> list[tuple[str, Schema]]:
    """Every schema inside `schema`, itself first: (the property it is for, if any; the schema)."""
    found: list[tuple[str, Schema]] = [("", schema)]
    for _, part in found:
        for word, value in part.items():
            if (members := NESTED.get(word)) is not None:
                inner = members(value)
                found.extend((name, each) for name, each in inner if isinstance(each, Mapping))
    return found


_Members = Callable[[JsonValue], Iterable[tuple[str, JsonValue]]]


def _itself(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return [("", value)]


def _each(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return [("", each) for each in as_list(value)]


def _by_name(value: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    return as_object(value).items()


# The schemas that stand under a keyword, each with the property it is for.
BY_NAME = ("properties", "patternProperties")
SEVERAL = ("allOf", "anyOf", "oneOf")
NESTED: dict[str, _Members] = {
    **dict.fromkeys(("items", "additionalProperties", "not"), _itself),
    **dict.fromkeys(SEVERAL, _each),
    **dict.fromkeys(BY_NAME, _by_name),
}


def _named(schema: Schema, word: str) -> JsonObject:
    return as_object(schema.get(word))


class _Site(NamedTuple):
    """Where in the value a keyword applies, and the schema it stands in."""

    path: str
    depth: int
    schema: Schema


class _Walk:
    """One check of one value.

    Holds the problems found, how much work is left, and why it had to stop where it could not
    decide.
    """

    def __init__(self, left: int, trial: bool = False) -> None:
        self.problems: list[str] = []
        self.undecided: list[str] = []
        self.left = left
        self._trial = trial

    def visit(self, value: JsonValue, schema: JsonValue, path: str, depth: int) -> None:
        if not isinstance(schema, Mapping):
            if schema is False:
                self.say(path, "is not allowed")
            return
        if depth > MAX_DEPTH:
            self.give_up(
                path, f"must fit a schema of more than {MAX_DEPTH} levels, which cannot be checked"
            )
            return
        for word, limit in schema.items():
            if not self.afford(1 + _breadth(limit) // 16 + _breadth(value) // 8, path):
                return
            if (keyword := CHECKED.get(word)) is not None:
                keyword(self, value, limit, _Site(path, depth, schema))

    def afford(self, cost: int, path: str) -> bool:
        """Whether so much work, in keywords, may still be done; else the check is given up."""
        self.left -= cost
        if self.left < 0:
            self.give_up(path, "is too large to check")
        return self.left >= 0

    def matches(self, pattern: str, text: str, path: str) -> bool:
        """Whether it matches, or might: not every pattern can be run."""
        matcher = find_matcher(pattern)
        if matcher is None or not self.afford(1 + len(text) * matcher.size // _STEPS, path):
            return True
        return matcher.test(text)

    def show(self, value: JsonValue) -> str:
        """A value in a sentence; empty where nobody reads that."""
        unread = self._trial or len(self.problems) >= MAX_PROBLEMS
        return "" if unread else _shown(value)

    def list(self, values: list[JsonValue]) -> str:
        """Values in a sentence."""
        shown = ", ".join(self.show(value) for value in values[:12])
        return shown if len(values) <= 12 else f"{shown} and {len(values) - 12} more"

    def say(self, path: str, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{path or 'the answer'} {problem}")

    def give_up(self, path: str, why: str) -> None:
        self.say(path, why)
        self.undecided = self.problems[-1:]

    def holds(self, value: JsonValue, schema: JsonValue, at: _Site) -> bool:
        """Whether `value` fits; when that cannot be decided, neither can the whole check, whatever
        the keyword that asks makes of it.
        """
        trial = _Walk(self.left, trial=True)
        trial.visit(value, schema, at.path, at.depth + 1)
        self.left = trial.left
        self.undecided = self.undecided or trial.undecided
        return not trial.problems


def _breadth(value: JsonValue) -> int:
    return len(value) if isinstance(value, (list, Mapping)) else 0


def _shown(value: JsonValue) -> str:
    text = ""
    for piece in _WRITER.iterencode(value[:60] if isinstance(value, str) else value):
        text += piece
        if len(text) > 60:
            return text[:57] + "..."
    return text


_WRITER = json.JSONEncoder(ensure_ascii=False, default=str)


_ARTICLES = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _types(limit: JsonValue) -> Sequence[JsonValue]:
    return limit if isinstance(limit, list) else [limit]


def _type(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    actual = type_of(value)
    known = [name for name in _types(limit) if isinstance(name, str) and name in _ARTICLES]
    if known and actual not in known and not (actual == "integer" and "number" in known):
        walk.say(
            at.path,
            f"must be {' or '.join(_ARTICLES[name] for name in known)}, not {walk.show(value)}",
        )


def _enum(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(limit, list) and not any(json_equal(value, allowed) for allowed in limit):
        walk.say(at.path, f"must be one of {walk.list(limit)}, not {walk.show(value)}")


def _const(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if not json_equal(value, limit):
        walk.say(at.path, f"must be {walk.show(limit)}, not {walk.show(value)}")


def _all_of(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    for part in as_list(limit):
        walk.visit(value, part, at.path, at.depth + 1)


def _any_of(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(limit, list) and not any(walk.holds(value, part, at) for part in limit):
        walk.say(at.path, f"fits none of {len(limit)} allowed forms")


def _one_of(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if not isinstance(limit, list):
        return
    matches = sum(walk.holds(value, part, at) for part in limit)
    constants = [part["const"] for part in limit if isinstance(part, Mapping) and "const" in part]
    if matches == 0 and len(constants) == len(limit):
        walk.say(at.path, f"must be one of {walk.list(constants)}, not {walk.show(value)}")
    elif matches != 1:
        walk.say(at.path, f"fits {matches} of {len(limit)} allowed forms, and must fit exactly one")


def _not(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(limit, (Mapping, bool)) and walk.holds(value, limit, at):
        walk.say(at.path, "has a form that is not allowed")


def _properties(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, dict) and isinstance(limit, Mapping):
        for name, part in limit.items():
            if name in value:
                walk.visit(value[name], part, _joined(at.path, name), at.depth + 1)


def _pattern_properties(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, dict) and isinstance(limit, Mapping):
        for pattern, part in limit.items():
            for name in value if find_matcher(pattern) is not None else ():
                if walk.left < 0:
                    return
                if walk.matches(pattern, name, at.path):
                    walk.visit(value[name], part, _joined(at.path, name), at.depth + 1)


def _additional(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, dict):
        named, patterns = _named(at.schema, "properties"), _named(at.schema, "patternProperties")
        for name in value:
            if walk.left < 0:
                return
            # A pattern that cannot be run might allow the name.
            if name not in named and not any(
                walk.matches(each, name, at.path) for each in patterns
            ):
                walk.visit(value[name], limit, _joined(at.path, name), at.depth + 1)


def _required(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, dict) and isinstance(limit, list):
        for name in limit:
            if isinstance(name, str) and name not in value:
                walk.say(_joined(at.path, name), "is required")


def _items(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, list):
        for index in range(len(as_list(at.schema.get("prefixItems"))), len(value)):
            walk.visit(value[index], limit, f"{at.path}[{index}]", at.depth + 1)


def _unique(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if limit is True and isinstance(value, list):
        texts = [_canonical(each) for each in value]
        spent = walk.afford(sum(map(len, texts)) // _CHARACTERS, at.path)
        if spent and len(set(texts)) < len(texts):
            walk.say(at.path, "must not name the same thing twice")


def _canonical(value: JsonValue) -> str:
    """What is the `same` reads the same."""
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{_canonical(each)}" for name, each in sorted(value.items()))
        return f"{{{','.join(members)}}}"
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _compared(test: Callable[[float, float], bool], words: str) -> _Keyword:
    def keyword(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
        if is_number(value) and is_number(limit) and not test(value, limit):
            walk.say(at.path, f"must be {words} {limit}, not {walk.show(value)}")

    return keyword


def _sized(
    kind: type[str] | type[list[JsonValue]] | type[dict[str, JsonValue]],
    test: Callable[[int, float], bool],
    words: str,
) -> _Keyword:
    def keyword(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
        if isinstance(value, kind) and is_number(limit) and not test(len(value), limit):
            walk.say(at.path, words.format(limit, s=plural(limit)))

    return keyword


def _multiple(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if is_number(value) and is_number(limit) and limit > 0 and not _divides(limit, value):
        walk.say(at.path, f"must be a multiple of {limit}, not {walk.show(value)}")


def _divides(limit: float, value: float) -> bool:
    """Exact, in the decimal digits that people write: 0.3 is a multiple of 0.1."""
    from fractions import Fraction  # few schemas need it, and it takes time to load

    try:
        return Fraction(str(value)) % Fraction(str(limit)) == 0
    except ValueError:  # not a finite number
        return False


def _pattern(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if not (isinstance(value, str) and isinstance(limit, str)):
        return
    if not walk.matches(limit, value, at.path):
        walk.say(at.path, f"must match the pattern {walk.show(limit)}")


def _format(walk: _Walk, value: JsonValue, limit: JsonValue, at: _Site) -> None:
    if isinstance(value, str) and isinstance(limit, str) and limit in FORMATS:
        words, test = FORMATS[limit]
        if walk.afford(len(value) * 5 // _CHARACTERS, at.path) and not test(value):
            walk.say(at.path, f"must be {words}, not {walk.show(value)}")


# What a keyword asks of a value, before there is one.
LIMITS = {
    "format": "format {}",
    "minLength": "at least {} character{s}",
    "maxLength": "at most {} character{s}",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minProperties": "at least {} field{s}",
    "maxProperties": "at most {} field{s}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "must match {}",
}


def describe_limits(schema: Schema, keywords: Iterable[str] = LIMITS) -> str:
    """What a value has to be by these `keywords` of its schema, in words with commas between them;
    not safe to show.
    """
    return ", ".join(filter(None, (_limit_words(word, schema.get(word)) for word in keywords)))


def _limit_words(keyword: str, limit: JsonValue) -> str:
    text = as_text(limit)
    if keyword == "format" and text in FORMATS:
        return FORMATS[text][0]
    readable = text if keyword in ("format", "pattern") else is_number(limit)
    return LIMITS[keyword].format(limit, s=plural(limit)) if readable else ""


_Keyword = Callable[[_Walk, JsonValue, JsonValue, _Site], None]

_AT_LEAST = "must have at least {} character{s}"
_AT_MOST = "must have at most {} character{s}"
_FILLED_AT_LEAST = "must have at least {} field{s} filled in"
_FILLED_AT_MOST = "must have at most {} field{s} filled in"

CHECKED: dict[str, _Keyword] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "uniqueItems": _unique,
    "minimum": _compared(lambda value, limit: value >= limit, "at least"),
    "maximum": _compared(lambda value, limit: value <= limit, "at most"),
    "exclusiveMinimum": _compared(lambda value, limit: value > limit, "more than"),
    "exclusiveMaximum": _compared(lambda value, limit: value < limit, "less than"),
    "multipleOf": _multiple,
    "minLength": _sized(str, lambda size, limit: size >= limit, _AT_LEAST),
    "maxLength": _sized(str, lambda size, limit: size <= limit, _AT_MOST),
    "minItems": _sized(list, lambda size, limit: size >= limit, "must name at least {}"),
    "maxItems": _sized(list, lambda size, limit: size <= limit, "must name at most {}"),
    "minProperties": _sized(dict, lambda size, limit: size >= limit, _FILLED_AT_LEAST),
    "maxProperties": _sized(dict, lambda size, limit: size <= limit, _FILLED_AT_MOST),
    "pattern": _pattern,
    "format": _format,
}

# What a keyword's value must be to say anything.
_READABLE: dict[str, Callable[[JsonValue], bool]] = {
    **dict.fromkeys(CHECKED, is_number),
    **dict.fromkeys(("enum", "required", *SEVERAL), lambda value: isinstance(value, list)),
    **dict.fromkeys(
        ("items", "additionalProperties", "not"), lambda value: isinstance(value, (Mapping, bool))
    ),
    "type": lambda value: all(
        isinstance(each, str) and each in _ARTICLES for each in _types(value)
    ),
    "const": lambda value: True,
    "multipleOf": lambda value: is_number(value) and value > 0,
    "properties": lambda value: isinstance(value, Mapping),
    "patternProperties": lambda value: (
        isinstance(value, Mapping) and None not in map(find_matcher, value)
    ),
    "pattern": lambda value: isinstance(value, str) and find_matcher(value) is not None,
    "format": lambda value: isinstance(value, str),
    "uniqueItems": lambda value: isinstance(value, bool),
}

KEYWORDS = ANNOTATIONS.union(CHECKED)  # all that this part of JSON Schema has
