"""What a page was given as a secret, taken out of whatever it says afterwards: of its forms, the
questions that are made of them, its tools and its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from abp_bridge.core.json_value import (
    JsonValue,
    as_object,
    as_text,
    map_texts,
    member_names,
    to_text,
)
from abp_bridge.core.question import MISSING, Field, Question
from abp_bridge.core.redact.texts import SECRET
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.webmcp.form import Control, Form
from abp_bridge.protocols.webmcp.tools import Tool

Hide = Callable[[str], str]
"""A text -> the same without what is a secret in it."""

REPEATED = "it repeats what its page was given as a secret"


def mark_secrets(form: Form, hide: Hide) -> Form:
    """The same, with each control that holds a secret as one that asks for it: what a page shows
    of a password, or writes beside it, is none the less one.
    """
    return replace(form, controls=tuple(_mark(each, hide) for each in form.controls))


def _mark(control: Control, hide: Hide) -> Control:
    return replace(control, holds_secret=hide(control.value) != control.value)


def clean_question(question: Question, hide: Hide) -> Question:
    """A question without secrets in what is shown of it.

    Raises:
        RemoteProtocolError: One stands where an answer needs it: in a name, or in what there is to
            choose.
    """
    return replace(
        question,
        message=hide(question.message),
        note=hide(question.note),
        uncut=hide(question.uncut),
        fields=tuple(_clean_field(each, hide) for each in question.fields),
    )


def _clean_field(field: Field, hide: Hide) -> Field:
    choices = [text for each in field.choices for text in (each.key, each.label, each.whole)]
    needed = [field.name, as_text(field.schema.get("pattern")), *choices]
    if field.default is not MISSING:
        needed.append(to_text(field.default))
    if any(hide(each) != each for each in needed):
        raise RemoteProtocolError(REPEATED)
    words = {name: hide(as_text(field.schema.get(name))) for name in ("title", "description")}
    return replace(
        field,
        title=hide(field.title),
        description=hide(field.description),
        schema={**field.schema, **{name: each for name, each in words.items() if each}},
    )


def clean_tool(tool: Tool, hide: Hide) -> Tool | None:
    """A tool without secrets in its words; None where one stands in what it is called by."""
    named = [tool.name, *member_names(tool.schema)]
    if any(hide(each) != each for each in named):
        return None
    schema = as_object(map_texts(tool.schema, hide))
    return replace(tool, description=hide(tool.description), schema=schema)


def clean_value(value: JsonValue, hide: Hide) -> JsonValue:
    """A result without secrets: neither texts, nor numbers, nor names of members."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        whole = isinstance(value, float) and value.is_integer()
        text = str(int(value) if whole else value)
        return value if hide(text) == text else SECRET
    if isinstance(value, Mapping):
        return {hide(name): clean_value(each, hide) for name, each in value.items()}
    return [clean_value(each, hide) for each in value] if isinstance(value, list) else value
