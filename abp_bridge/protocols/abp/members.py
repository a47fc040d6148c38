"""Find misspelt members of a request: ABP ignores unknown ones, so `optoins` would be lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object
from abp_bridge.core.question import Kind
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import MISSPELT, nearest

_ANY = ("prompt", "message", "question", "title", "sensitive", "timeout", "operationId")
_OWN = {
    Kind.INPUT: ("schema",),
    Kind.PREFERENCE: ("schema", "default"),
    Kind.CONFIRM: ("destructive",),
    Kind.SELECT: ("options", "multiple", "default"),
    Kind.RESOURCE: ("type", "uri"),
    Kind.SAMPLING: ("task", "context"),
}
_OPTION = ("value", "label", "description")
_KEYWORDS = (
    *("type", "title", "description", "default", "enum", "const", "format", "pattern", "examples"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "items", "minItems", "maxItems", "uniqueItems", "properties", "required"),
    *("minProperties", "maxProperties", "additionalProperties", "patternProperties", "prefixItems"),
    *("anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions"),
    *("enumNames", "readOnly", "writeOnly", "contentMediaType", "contentEncoding"),
)
_MAX_LEVELS = 32  # levels of a schema that are looked at


def known_members(kind: Kind) -> Sequence[str]:
    """What the params of such a request may have."""
    return (*_ANY, *_OWN[kind])


def find_misspelt(kind: Kind, params: JsonObject) -> Iterator[str]:
    """Yield a sentence for each unknown name that is near a known one."""
    yield from find_near("the params have", params, known_members(kind))
    for option in as_list(params.get("options")) if kind is Kind.SELECT else ():
        yield from find_near("an option has", as_object(option), _OPTION)
    yield from _find_in_schema(params.get("schema"), _MAX_LEVELS)


def _find_in_schema(schema: JsonValue, depth: int) -> Iterator[str]:
    keywords = as_object(schema)
    if not keywords or not depth:
        return
    yield from find_near("the schema has", keywords, _KEYWORDS)
    inner = list(as_object(keywords.get("properties")).values())
    for name in ("items", "anyOf", "oneOf", "allOf"):
        each = keywords.get(name)
        inner += as_list(each) or [each]
    for each in inner:
        yield from _find_in_schema(each, depth - 1)


def find_near(where: str, names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence, starting with `where`, for each unknown name near a known one."""
    for name in names:
        if name not in known and (meant := nearest(name, known, MISSPELT)):
            yield f"{where} {label(name, 60)!r}, which is nothing; {meant!r} is"
