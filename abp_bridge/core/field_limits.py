"""What an answer to a field has to be, in a line of words: for surfaces where it is typed."""

from __future__ import annotations

from abp_bridge.core.json_value import as_text, to_text
from abp_bridge.core.question import Field, FieldType
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import LIMITS, describe_limits
from abp_bridge.core.text_format import FORMATS

MAX_SCHEMA = 1_000  # characters of one that is shown

# What can be typed or marked, as its limits begin.
_KINDS = {
    FieldType.TEXT: "",
    FieldType.NUMBER: "a number",
    FieldType.INTEGER: "a whole number",
    FieldType.CHOICES: "choose",
}


def field_limits(field: Field) -> str:
    """What a field's answer has to be, in one line; empty where anything will do."""
    if field.type is FieldType.JSON:
        return f"JSON that fits {label(to_text(field.schema), MAX_SCHEMA)}"
    checked = [
        word for word in LIMITS if word != "format" or as_text(field.schema.get(word)) in FORMATS
    ]
    limits = describe_limits(field.schema, checked)
    if field.type not in _KINDS or (field.type is FieldType.CHOICES and not limits):
        return ""
    between = " " if field.type is FieldType.CHOICES else ", "
    words = label(between.join(filter(None, (_KINDS[field.type], limits))), MAX_SCHEMA)
    return words[:1].upper() + words[1:]
