"""Strategies for questions with answers that fit them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from abp_bridge.core.json_value import json_equal, well_formed
from support.json_strategies import JsonStrategy, garbled, shaped

Json = Any

# Names that look like the numbered ones of options, values that texts confuse, and so on.
_TABLE: Json = json.loads(Path(__file__).with_name("question_words.json").read_text())

words = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.sampled_from(_TABLE["names"]) | words


@dataclass(frozen=True)
class Asked:
    """A field, and an answer that fits it."""

    schema: Mapping[str, Json]
    meant: Json


@st.composite
def _texts(draw: st.DrawFn) -> Asked:
    text = draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
    least, most = draw(st.integers(0, len(text))), draw(st.integers(len(text), 20))
    kind = draw(st.sampled_from(["string", ["string", "null"]]))
    limits = draw(st.sampled_from([{}, {"minLength": least, "maxLength": most}]))
    return Asked({"type": kind, **limits}, text)


formatted = st.sampled_from([Asked(*row) for row in _TABLE["formatted"]])


@st.composite
def _numbers(draw: st.DrawFn) -> Asked:
    whole = draw(st.booleans())
    number: float = draw(st.integers(-(10**20), 10**20) if whole else st.floats(-1e15, 1e15))
    between = {"maximum": number + 1, "exclusiveMinimum": number - 1e6}
    limits = draw(st.sampled_from([{}, {"minimum": number}, between, {"default": number}]))
    return Asked({"type": "integer" if whole else "number", **limits}, number)


yes_or_no = st.builds(
    lambda meant, more: Asked({"type": "boolean", **more}, meant),
    st.booleans(),
    st.sampled_from([{}, {"default": True}, {"default": False}]),
)

option_values: JsonStrategy = st.sampled_from(_TABLE["option_values"]) | words
option_titles = st.sampled_from(_TABLE["option_titles"]) | words


@st.composite
def _options(draw: st.DrawFn) -> tuple[dict[str, Json], list[Json]]:
    values: list[Json] = []
    for value in draw(st.lists(option_values, min_size=1, max_size=5)):
        if not any(json_equal(value, each) for each in values):
            values.append(value)
    how = draw(st.sampled_from(["enum", "enumNames", "oneOf", "anyOf"]))
    if how == "enum":
        return {"enum": values}, values
    titles = [draw(option_titles) for _ in values]
    if how == "enumNames":
        return {"enum": values, "enumNames": titles}, values
    titled = zip(values, titles, strict=True)
    return {how: [{"const": value, "title": title} for value, title in titled]}, values


@st.composite
def _choice(draw: st.DrawFn) -> Asked:
    listed, values = draw(_options())
    default = {"default": draw(st.sampled_from(values))} if draw(st.booleans()) else {}
    return Asked({**listed, **default}, draw(st.sampled_from(values)))


@st.composite
def _choices(draw: st.DrawFn) -> Asked:
    listed, values = draw(_options())
    meant = [value for value in values if draw(st.booleans())]
    least, most = {"minItems": len(meant)}, {"maxItems": len(meant), "uniqueItems": True}
    limits: dict[str, Json] = draw(st.sampled_from([{}, least, most, {"default": values[:1]}]))
    return Asked({"type": "array", "items": listed, **limits}, meant)


plain_json: JsonStrategy = garbled(["a", "b"], ["x", 1, 0.5, True, None]).map(well_formed)
nested = (
    st.builds(
        lambda meant: Asked({"type": "object"}, meant),
        st.dictionaries(words, plain_json, max_size=3),
    )
    | st.builds(
        lambda meant: Asked({"type": "array", "items": {"type": "integer"}}, meant),
        st.lists(st.integers(), max_size=3),
    )
    | st.builds(
        lambda meant: Asked({"anyOf": [{"type": "string"}, {"type": "object"}]}, meant),
        words | st.dictionaries(words, plain_json, max_size=2),
    )
)

fields = _texts() | formatted | _numbers() | yes_or_no | _choice() | _choices() | nested

asked_fields = st.lists(
    st.tuples(names, fields, st.booleans()), min_size=1, max_size=4, unique_by=lambda each: each[0]
)

requests: st.SearchStrategy[Mapping[str, Json]] = st.builds(
    lambda method, params, more: {"method": method, "params": params, **more},
    st.sampled_from(_TABLE["methods"]),
    shaped(
        _TABLE["params"],
        garbled(
            ["type", "properties", "enum", "value", "label", "title"],
            ["string", "object", "a", ["a", "b"], True, 1, None, {"type": "array"}],
        ),
    ),
    shaped(["timeout", "id"], st.integers() | st.none()),
)


# A list with entries of two fields.
GUESTS: Json = {
    "type": "array",
    "title": "Guests",
    "minItems": 1,
    "maxItems": 3,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2},
            "diet": {"enum": ["fish", "none"], "title": "Diet"},
        },
        "required": ["name"],
    },
}
