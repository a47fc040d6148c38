"""A field's options with distinct labels, the words for yes and no, and hints about the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace

from abp_bridge.core.json_value import JsonValue, as_list, as_text, json_equal, to_text, type_of
from abp_bridge.core.question import BRIDGE, MISSING, Choice, Field, FieldType, Kind, Question
from abp_bridge.core.sanitize import LINE_LIMIT, MESSAGE_LIMIT, label, message
from abp_bridge.core.schema import FORMATS, LIMITS, describe_limits, is_valid
from abp_bridge.errors import RemoteProtocolError

MAX_RANGE = 20  # whole numbers that are still buttons
MAX_CHOICES = 2_000  # options of a field; a user searches among hundreds, and labels are compared

# What can be typed or marked, as its limits begin.
_KINDS = {
    FieldType.TEXT: "",
    FieldType.NUMBER: "a number",
    FieldType.INTEGER: "a whole number",
    FieldType.CHOICES: "choose",
}
LISTED = (FieldType.BOOLEAN, FieldType.CHOICE, FieldType.CHOICES)  # chosen, not typed
YES_NO = (Choice(True, "true", "Yes"), Choice(False, "false", "No"))
DISALLOW, ALLOW = "Do not allow", "Allow"
DO_NOT, DO = "No, do not", "Yes, do it"
SKIP, LEAVE_EMPTY, MORE, SEND, CHANGE, DONE = (
    "Skip",
    "Leave empty",
    "More …",
    "Send",
    "Change",
    "Done",
)
ACCEPT, DECLINE, LEAVE_OUT = "Accept", "Decline to answer", "Leave this out"
DEFAULT_MARK = " (default)"


def is_default(asked: Field, choice: Choice) -> bool:
    """Whether `choice` is what the app proposes for `asked`, or one of several."""
    if asked.default is MISSING:
        return False
    several = asked.type is FieldType.CHOICES and isinstance(asked.default, list)
    wanted = as_list(asked.default) if several else [asked.default]
    return any(json_equal(choice.value, each) for each in wanted)


def choices_of(asked: Field) -> Sequence[Choice]:
    """Return the options of a field; none where its answer is typed."""
    if asked.type is FieldType.BOOLEAN:
        return YES_NO
    if asked.type is FieldType.INTEGER:
        return [Choice(number, str(number), str(number)) for number in whole_numbers(asked) or ()]
    return asked.choices


def mark_default(asked: Field, choice: Choice) -> str:
    """Return the label, with a mark if it is the default; no other option has that label."""
    marked = f"{choice.label}{DEFAULT_MARK}"
    if not is_default(asked, choice) or any(each.label == marked for each in asked.choices):
        return choice.label
    return marked


def own_label(words: str, taken: Container[str], mark: str = BRIDGE) -> str:
    """Return the label of a button of ours that no option of the requester has."""
    while words in taken:
        words = f"{words} ({mark})"
    return words


def chosen_labels(asked: Field, value: JsonValue) -> str:
    """Return an answer as its labels, with commas between them."""
    values = as_list(value) if asked.type is FieldType.CHOICES else [value]
    labels = [
        choice.label
        for each in values
        for choice in choices_of(asked)
        if json_equal(choice.value, each)
    ]
    return ", ".join(labels) or "(none)"


def explain_options(asked: Field) -> str:
    """Return the field's description and its options, one a line, each with its description."""
    lines = [asked.description] if asked.description else []
    for choice in choices_of(asked):
        about = f": {choice.description}" if choice.description else ""
        lines.append(f"- {choice.label}{about}")
    return "\n".join(lines)


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


def yes_or_no(question: Question) -> Sequence[Choice]:
    """Return the answers to a yes/no in the question's words; the safe one first if destructive."""
    yes, no = YES_NO
    if question.consents:
        return Choice(False, no.key, DISALLOW), Choice(True, yes.key, ALLOW)
    if question.kind is Kind.CONFIRM and question.destructive:
        word = act(question.message)
        refusal = DO_NOT if word else no.label
        return Choice(False, no.key, refusal), Choice(True, yes.key, word or DO)
    return yes, no


def act(words: str) -> str:
    """Return the verb of "Delete all files?", or "" if the message starts otherwise."""
    first, *others = _SENTENCE_END.split(words.strip(), maxsplit=1)
    if not first or ":" in first or (others and not first.endswith("?")):
        return ""
    word = first.split(maxsplit=1)[0].removesuffix("?")
    return word.capitalize() if word.isalpha() and word.lower() not in _NO_ACT else ""


def field_limits(field: Field) -> str:
    """What a field's answer has to be, in one line; empty where anything will do."""
    if field.type is FieldType.JSON:
        return f"JSON that fits {label(to_text(field.schema), LINE_LIMIT)}"
    checked = [
        word for word in LIMITS if word != "format" or as_text(field.schema.get(word)) in FORMATS
    ]
    limits = describe_limits(field.schema, checked)
    if field.type not in _KINDS or (field.type is FieldType.CHOICES and not limits):
        return ""
    between = " " if field.type is FieldType.CHOICES else ", "
    words = label(between.join(filter(None, (_KINDS[field.type], limits))), LINE_LIMIT)
    return words[:1].upper() + words[1:]


# --- labels that tell options apart


def decode_choices(listed: Sequence[tuple[JsonValue, JsonValue, JsonValue]]) -> tuple[Choice, ...]:
    """Return options of (value, label, description), each value once, with a unique key and label.

    Raises:
        RemoteProtocolError: There are more than `MAX_CHOICES`.
    """
    if len(listed) > MAX_CHOICES:
        raise RemoteProtocolError(
            f"a question may offer at most {MAX_CHOICES} options, not {len(listed)}"
        )
    texts = {value for value, _, _ in listed if isinstance(value, str)}
    found: dict[str, Choice] = {}
    for value, raw_label, description in listed:
        key = value if isinstance(value, str) else _key(value, texts, found)
        shown = label(to_text(raw_label)) or label(key) or "(empty)"
        known = found.get(key)
        if known is None:
            found[key] = Choice(
                value,
                key,
                shown,
                message(as_text(description), 1_000),
                _whole(to_text(raw_label), shown),
            )
        elif shown not in known.label.split(_BOTH):
            found[key] = replace(known, label=label(known.label + _BOTH + shown), whole="")
    return _unique_labels(found)


def _whole(raw: str, shown: str) -> str:
    """All of a label that is `shown` cut; empty where it is not."""
    whole = label(raw, MESSAGE_LIMIT)
    return whole if len(whole) > len(shown) else ""


_BOTH = " / "  # two labels of one option


def _key(value: JsonValue, texts: Collection[str], found: Mapping[str, Choice]) -> str:
    """Return a unique key of a value that is not text; a text is its own key."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    key = f"{type_of(value)} {text}" if text in texts else text
    while key in texts or (key in found and not json_equal(found[key].value, value)):
        key += "'"
    return key


def _unique_labels(found: Mapping[str, Choice]) -> tuple[Choice, ...]:
    """No two labels are alike, and none is another option's key: some hosts send labels back."""
    made: dict[str, Choice] = {}
    wholes = {""}
    for key, choice in found.items():
        shown = choice.label
        if shown != key and (shown in made or shown in found):
            shown = f"{shown} ({label(key)})"
        base, number = shown, 2
        while shown in made or (shown != key and shown in found):
            shown, number = f"{base} [{number}]", number + 1
        whole = "" if choice.whole in wholes else choice.whole
        wholes.add(whole)
        made[shown] = replace(choice, label=shown, whole=whole)
    return tuple(made.values())
