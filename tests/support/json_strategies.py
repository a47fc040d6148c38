"""What hypothesis draws from: JSON as it comes, and JSON that speaks a protocol's words in no good
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Json = Any
JsonStrategy = st.SearchStrategy[Json]

# Lone surrogates too: JSON can spell them.
any_text = st.text(st.characters(exclude_categories=()), max_size=12)

scalars: JsonStrategy = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.just(10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | any_text
)


def _nested(leaves: JsonStrategy, keys: st.SearchStrategy[str], max_leaves: int) -> JsonStrategy:
    def grown(inner: JsonStrategy) -> JsonStrategy:
        return st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5)

    return st.recursive(leaves, grown, max_leaves=max_leaves)


json_values: JsonStrategy = _nested(scalars, any_text, 12)


def garbled(words: Sequence[str], values: Sequence[Json]) -> JsonStrategy:
    """JSON whose members have a protocol's names, and whose values are often such that they belong
    elsewhere.
    """
    return _nested(st.sampled_from(values) | scalars, st.sampled_from(words) | any_text, 10)


def shaped(members: Sequence[str], inner: JsonStrategy) -> st.SearchStrategy[Mapping[str, Json]]:
    """Objects with some of these members, whatever is in them."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(members, inner))


SCHEMA_WORDS = [
    "type",
    "enum",
    "const",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "items",
    "prefixItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
    "title",
    "description",
    "default",
    "enumNames",
    "sensitive",
    "writeOnly",
    "$ref",
]

SCHEMA_VALUES: Sequence[Json] = (
    *("string", "number", "integer", "boolean", "array", "object", "null", "any"),
    *(
        "email",
        "uri",
        "date",
        "date-time",
        "password",
        "^a",
        "(?=a)",
        "a",
        "1",
        "true",
        0,
        1,
        1.0,
        0.1,
        True,
        False,
        None,
        "",
        -1,
    ),
    *(
        ["a", "b"],
        ["1", 1, True, "true"],
        [{"const": "a", "title": "A"}, {"const": "b"}],
        [[], {}],
        {"type": "string"},
        {"enum": ["a", "b", "c"]},
    ),
)

schema_junk: JsonStrategy = garbled(SCHEMA_WORDS, SCHEMA_VALUES)
broken_schemas = shaped(SCHEMA_WORDS, schema_junk)
