"""A call on the command line: a capability, and parameters as JSON or `name=value` words."""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    parse_json,
    to_text,
)
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import check, normalize
from abp_bridge.core.words import SIMILAR, nearest
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError

_EXAMPLES: dict[str, str] = {
    "string": "...",
    "number": "1.5",
    "integer": "1",
    "boolean": "true",
    "array": "'[...]'",
    "object": "'{...}'",
}


_NAMED = 30  # capabilities that are named where there is none of a name


class CapabilityError(AbpBridgeError):
    """A name that no capability has; the message says which there are."""


def find_capability(name: str, known: Sequence[str]) -> int:
    """Return the index of the capability `name`."""
    if name in known:
        return known.index(name)
    if "=" in name or name.lstrip().startswith("{"):
        example = f", as in {label(known[0])} {label(name, 60)}" if known else ""
        raise CapabilityError(
            f"{label(name, 60)!r} is a parameter: name the capability first{example}"
        )
    near = nearest(name, known, SIMILAR)
    near = near or next((each for each in known if each.endswith(f".{name}")), "")
    meant = f" Did you mean {near}?" if near else ""
    more = " ..." if len(known) > _NAMED else ""
    there = f" It has {', '.join(known[:_NAMED])}{more}." if known else ""
    raise CapabilityError(f"the app has no capability {name!r}.{meant}{there}")


class ParameterError(AbpBridgeError):
    """Parameters that cannot be used; the message says which, and what would be right."""


def read_call(
    words: Sequence[str], capabilities: Sequence[Capability]
) -> tuple[str, dict[str, JsonValue]]:
    """Return the capability and parameters that `words` name."""
    name, *more = words
    capability = capabilities[find_capability(name, [each.name for each in capabilities])]
    try:
        given = read_parameters(more, capability.input_schema, capability.asked_of_person)
        return capability.name, given
    except ParameterError as problem:
        raise ParameterError(f"{label(capability.name)}: {problem}") from None


def read_parameters(
    words: Sequence[str], schema: JsonObject, asked: Sequence[str] = ()
) -> dict[str, JsonValue]:
    """Return the parameters in `words`, checked against the schema.

    `asked` has the parameters that the user is asked for (`Capability.asked_of_person`).
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        given = _read_object(words[0])
    else:
        given = _read_pairs(words, schema)
    check_parameters(given, schema, asked)
    return given


def _read_object(text: str) -> dict[str, JsonValue]:
    try:
        return dict(as_object(parse_json(text)))
    except ValueError as problem:
        raise ParameterError(f"{label(text, 60)} is not valid JSON: {problem}") from None


def _read_pairs(words: Sequence[str], schema: JsonObject) -> dict[str, JsonValue]:
    given: dict[str, JsonValue] = {}
    for name, value in (_read_pair(word, schema) for word in words):
        if name in given:
            raise ParameterError(f"{label(name)} is given twice: several values are one JSON array")
        given[name] = value
    return given


def _read_pair(word: str, schema: JsonObject) -> tuple[str, JsonValue]:
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise ParameterError(
            f"{label(word, 60)!r} is no parameter: give name=value, or all of them as one JSON"
            " object"
        )
    about = as_object(as_object(schema.get("properties")).get(name))
    kind, named = about.get("type"), titled_values(about)
    by_title = {title: value for value, title in named.items()}
    if text in by_title and text not in named:
        return name, by_title[text]
    return name, _read_value(name, text, [kind] if isinstance(kind, str) else as_list(kind))


def titled_values(about: JsonObject) -> dict[str, str]:
    """Return a parameter's allowed texts with their titles; empty if others are allowed."""
    listed = [as_object(each) for each in as_list(about.get("oneOf", about.get("anyOf")))]
    named = {as_text(each.get("const")): as_text(each.get("title")) for each in listed}
    return named if len(named) == len(listed) and all(map(_is_text, listed)) else {}


def _is_text(each: JsonObject) -> bool:
    return isinstance(each.get("const"), str)


def _read_value(name: str, text: str, kinds: Sequence[JsonValue]) -> JsonValue:
    """Return text if the schema has text, else JSON, else text if the schema allows any."""
    if "string" in kinds:
        return text
    try:
        return parse_json(text)
    except ValueError:
        if not kinds:
            return text
        what = " or ".join(map(to_text, kinds))
        raise ParameterError(f"{label(name)} must be {what}, not {label(text, 60)!r}") from None


def check_parameters(given: JsonObject, schema: JsonObject, asked: Sequence[str] = ()) -> None:
    """Raises ParameterError with all that is wrong; of `asked`, see `read_parameters`."""
    known = list(as_object(schema.get("properties")))
    missing = [
        to_text(name) for name in as_list(schema.get("required")) if to_text(name) not in given
    ]
    problems = [f"it needs {_parameter_words(name, schema)}" for name in missing]
    withheld = [name for name in asked if name in given and name not in known]
    problems += [
        f"{label(name)} is asked of you, and never passed: leave it out" for name in withheld
    ]
    # Where a schema says nothing of others, a name that it has not is taken for a misspelt one.
    others = schema.get("additionalProperties", False)
    takes_others = others is not False or "patternProperties" in schema
    for name in given if known and not takes_others else ():
        if name not in (*known, *withheld):
            near = nearest(name, known)
            meant = f" (is {label(near)} meant?)" if near else ""
            problems.append(f"it has no parameter {label(name)}{meant}")
    if not problems:
        try:
            problems = check(dict(given), normalize(schema))
        except RemoteProtocolError:  # a schema that cannot be followed: the app looks too
            return
    if problems:
        example = " ".join(f"{name}={_example(name, schema)}" for name in missing)
        more = f", such as {label(example)}" if example else ""
        raise ParameterError(f"{'; '.join(problems)}{more}")


def example_words(schema: JsonObject) -> str:
    """The parameters that a call needs, as words to be filled in; empty where it needs none."""
    names = map(to_text, as_list(schema.get("required")))
    return label(" ".join(f"{name}={_example(name, schema)}" for name in names))


def _parameter_words(name: str, schema: JsonObject) -> str:
    about = as_object(as_object(schema.get("properties")).get(name))
    kind, words = about.get("type"), label(as_text(about.get("description")), 120)
    more = ", ".join(filter(None, (kind if isinstance(kind, str) else "", words)))
    return f"{label(name)} ({more})" if more else label(name)


def _example(name: str, schema: JsonObject) -> str:
    about = as_object(as_object(schema.get("properties")).get(name))
    if options := [*as_list(about.get("enum")), *titled_values(about)]:
        return label(to_text(options[0]), 40)
    return _EXAMPLES.get(as_text(about.get("type")), "...")
