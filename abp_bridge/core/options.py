"""What a field offers: its options, the words for yes and no, and what an answer has to be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from abp_bridge.core.json_value import as_list, as_text, json_equal, to_text
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import FORMATS, LIMITS, describe_limits, is_valid

MAX_RANGE = 20  # whole numbers that are still buttons
MAX_SCHEMA = 1_000  # characters of one that is shown

# What can be typed or marked, as its limits begin.
_KINDS = {
    FieldType.TEXT: "",
    FieldType.NUMBER: "a number",
    FieldType.INTEGER: "a whole number",
    FieldType.CHOICES: "choose",
}
YES_NO = (Choice(True, "true", "Yes"), Choice(False, "false", "No"))


def is_default(asked: Field, choice: Choice) -> bool:
    """Whether `choice` is what the app proposes for `asked`, or one of several."""
    if asked.default is MISSING:
        return False
    several = asked.type is FieldType.CHOICES and isinstance(asked.default, list)
    wanted = as_list(asked.default) if several else [asked.default]
    return any(json_equal(choice.value, each) for each in wanted)


def whole_numbers(asked: Field) -> Sequence[int] | None:
    """The whole numbers that a field accepts, when they are few."""
    low, high = asked.schema.get("minimum"), asked.schema.get("maximum")
    if (
        asked.type is not FieldType.INTEGER
        or not isinstance(low, int)
        or not isinstance(high, int)
        or not 0 <= high - low < MAX_RANGE
    ):
        return None
    return [number for number in range(low, high + 1) if is_valid(number, asked.schema)] or None


_FILLER = (
    "are is do does did will would should shall can could may really sure the this that please"
    " confirm you your i we it there"
)
_REFUSING = (
    "no not never none nothing nobody neither nor cancel stop abort quit exit skip decline deny"
    " reject refuse keep dismiss ignore leave back"
)
_NO_ACT = frozenset(f"{_FILLER} {_REFUSING}".split())
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


DISALLOW, ALLOW = "Do not allow", "Allow"
DO_NOT, DO = "No, do not", "Yes, do it"


def yes_or_no(question: Question) -> Sequence[Choice]:
    """The two answers to a yes or no, in the words of its question; the safe one comes first where
    the other cannot be undone.
    """
    yes, no = YES_NO
    if question.consents:
        return Choice(False, no.key, DISALLOW), Choice(True, yes.key, ALLOW)
    if question.kind is Kind.CONFIRM and question.destructive:
        word = act(question.message)
        refusal = DO_NOT if word else no.label
        return Choice(False, no.key, refusal), Choice(True, yes.key, word or DO)
    return yes, no


def act(message: str) -> str:
    """The word that names the act in "Delete all files?"; empty where the message does not begin
    with the question, as "Ada asks: Delete them?", or its first word may be read as a no.
    """
    first, *others = _SENTENCE_END.split(message.strip(), maxsplit=1)
    if not first or ":" in first or (others and not first.endswith("?")):
        return ""
    word = first.split(maxsplit=1)[0].removesuffix("?")
    return word.capitalize() if word.isalpha() and word.lower() not in _NO_ACT else ""


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
