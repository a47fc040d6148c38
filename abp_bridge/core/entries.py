"""A question with lists of flat objects as a series of questions, for surfaces without lists.

Other fields come first, together; then each list, entry by entry, while the user adds another. The
generator yields a question and is sent its content.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abp_bridge.core.answer import carries
from abp_bridge.core.json_value import JsonObject, JsonValue, as_count, as_list, as_object
from abp_bridge.core.question import MISSING, Field, FieldType, Missing, Question
from abp_bridge.core.schema import Schema

MAX_ENTRIES = 100  # of a list without a limit: nobody gives more, and a policy never ends by itself
MOST_ENTRIES = 400  # of a list whose limit is greater: with 20 columns each, one form brings them

Walk = Generator[Question, JsonObject, dict[str, JsonValue]]

_YES_NO: Schema = {"type": "boolean"}


class Bounds(NamedTuple):
    """How many entries a list may have."""

    least: int
    most: int

    def __str__(self) -> str:
        """In words: "at least 1, at most 3"."""
        least = [f"at least {self.least}"] if self.least else []
        return ", ".join([*least, f"at most {self.most}"])


def bounds(schema: Schema) -> Bounds:
    """Return a list schema's bounds: by default `MAX_ENTRIES`, at most `MOST_ENTRIES`."""
    least, most = (as_count(schema.get(word)) for word in ("minItems", "maxItems"))
    if most is None:
        return Bounds(least or 0, max(least or 0, MAX_ENTRIES))
    return Bounds(least or 0, min(most, MOST_ENTRIES))


def holds(columns: Sequence[Field], schema: Schema, proposed: JsonValue | Missing) -> bool:
    """Whether the entries can hold a list's whole default, so that none of it is lost."""
    if proposed is MISSING:
        return True
    kinds, entries = {each.name: each.type for each in columns}, as_list(proposed)
    return (
        isinstance(proposed, list)
        and len(entries) <= bounds(schema).most
        and all(
            isinstance(entry, Mapping)
            and entry.keys() <= kinds.keys()
            and all(value is None or carries(kinds[name], value) for name, value in entry.items())
            for entry in entries
        )
    )


def walk(question: Question) -> Walk:
    """The questions that together ask `question`; in the end its content, by field name."""
    content: dict[str, JsonValue] = {}
    if flat := tuple(each for each in question.fields if not each.columns):
        content |= yield replace(question, fields=flat)
    for each in question.fields:
        if each.columns and (entries := (yield from _entries(question, each))) is not MISSING:
            content[each.name] = entries
    return content


def _entries(
    question: Question, asked: Field
) -> Generator[Question, JsonObject, JsonValue | Missing]:
    least, most = bounds(asked.schema)
    proposed = as_list(asked.default) if asked.default is not MISSING else []
    another = _another(asked.columns)
    if not (least and asked.required):
        words = f"No entry yet ({bounds(asked.schema)})."
        any_at_all = replace(another, title="Add an entry", default=bool(proposed))
        if (yield _about(question, asked, words, (any_at_all,)))[another.name] is False:
            return [] if asked.required else MISSING
    entries: list[JsonValue] = []
    while len(entries) < most:
        number = len(entries) + 1
        fields = [with_default(each, proposed[number - 1 : number]) for each in asked.columns]
        if least <= number < most:
            fields.append(replace(another, default=len(proposed) > number))
        words = f"Entry {number} ({bounds(asked.schema)})."
        given = yield _about(question, asked, words, fields)
        entries.append({name: value for name, value in given.items() if name != another.name})
        if number >= least and given.get(another.name) is not True:
            break
    return entries


def _about(question: Question, asked: Field, words: str, fields: Sequence[Field]) -> Question:
    """What is asked of one entry: the list that it belongs to is said with the question."""
    named = asked.title if question.wrapped else asked.label
    about = ": ".join(filter(None, (named, asked.description)))
    message = "\n\n".join(filter(None, (question.message, about)))
    asking = replace(question, message=message, fields=tuple(fields), wrapped=False)
    return asking.with_note(words)


def _another(columns: Sequence[Field]) -> Field:
    """The field that says whether there is one more, under a name that no column has."""
    name = "another"
    while name in {each.name for each in columns}:
        name += "_"
    return Field(name, FieldType.BOOLEAN, _YES_NO, title="Add another entry")


def with_default(column: Field, proposed: Sequence[JsonValue]) -> Field:
    """Return the column with its default from the proposed entry; null is none unless a choice."""
    entry = as_object(proposed[0]) if proposed else {}
    if column.name not in entry:
        return column
    value = entry[column.name]
    is_none = value is None and all(each.value is not None for each in column.choices)
    return replace(column, default=MISSING if is_none else value)
