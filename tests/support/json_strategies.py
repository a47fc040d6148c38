"""Strategies of hypothesis: any JSON, and JSON with the names of a protocol in any order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

Json = Any
JsonStrategy = st.SearchStrategy[Json]

few = settings(max_examples=20)  # for tests whose examples are large; `make fuzz` draws more

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
        return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)

    return st.recursive(leaves, grown, max_leaves=max_leaves)


json_values: JsonStrategy = _nested(scalars, any_text, 8)


def garbled(words: Sequence[str], values: Sequence[Json]) -> JsonStrategy:
    """JSON with a protocol's names, whose values often belong elsewhere."""
    return _nested(st.sampled_from(values) | scalars, st.sampled_from(words) | any_text, 6)


def shaped(members: Sequence[str], inner: JsonStrategy) -> st.SearchStrategy[Mapping[str, Json]]:
    """Objects with some of these members, whatever is in them."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(members, inner))


_TABLE = json.loads(Path(__file__).with_name("schema_words.json").read_text())
SCHEMA_WORDS: Sequence[str] = _TABLE["words"]
SCHEMA_VALUES: Sequence[Json] = _TABLE["values"]

schema_junk: JsonStrategy = garbled(SCHEMA_WORDS, SCHEMA_VALUES)
broken_schemas = shaped(SCHEMA_WORDS, schema_junk)
