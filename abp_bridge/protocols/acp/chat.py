"""Questions in an ACP conversation: asked as an agent message, answered by the user's next prompt.

A prompt is classified by structure alone: the kinds of its blocks, a command at its start, or one
of two words by itself. Anything else is the answer, and is validated.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from abp_bridge.core.capability import Capability
from abp_bridge.core.json_value import JsonValue, as_list, as_object, as_texts, to_text
from abp_bridge.core.options import field_limits, is_default
from abp_bridge.core.question import MISSING, Field, FieldType, Question, message_of, quote
from abp_bridge.core.sanitize import label, message

NO_ANSWER = "no answer"  # in any case, alone in a prompt: some clients send no command of ours


class Meaning(enum.Enum):
    """What a prompt is while a question is open."""

    ANSWER = "answer"
    EMPTY = "skip"
    DECLINED = "decline"
    CANCELLED = "cancel"
    COMMAND = "command"  # of another kind: no answer
    UNREADABLE = "unreadable"  # no answer either: it has to be given again


_COMMANDS: Mapping[str, Meaning] = {
    f"/{each.value}": each for each in (Meaning.EMPTY, Meaning.DECLINED, Meaning.CANCELLED)
}

# What can be typed while a question is open, beside the answer itself.
COMMANDS = {
    "answer": Capability("answer", "Answer with what follows, as it stands"),
    "skip": Capability("skip", "Leave this empty, where it may be"),
    "decline": Capability("decline", "Give no answer"),
    "cancel": Capability("cancel", "Dismiss the question"),
}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A prompt, read as the reply to a question.

    `text` is the answer, another command's line, or why the prompt cannot be read.
    """

    meaning: Meaning
    text: str = ""


_NOT_TEXT = "an answer here is text alone, without files, links or images"
_NOTHING = "there was nothing in it"


def decode_reply(prompt: JsonValue) -> ChatReply:
    """What the content blocks of a prompt mean while a question is open."""
    blocks = [as_object(block) for block in as_list(prompt)]
    text = "\n".join(as_texts([block.get("text") for block in blocks]))
    reply = _decode_text(text)
    if reply.meaning is not Meaning.COMMAND and any(each.get("type") != "text" for each in blocks):
        return ChatReply(Meaning.UNREADABLE, _NOT_TEXT)
    return reply


def _decode_text(text: str) -> ChatReply:
    line = text.strip()
    if not line:
        return ChatReply(Meaning.UNREADABLE, _NOTHING)
    if line.casefold() == NO_ANSWER:
        return ChatReply(Meaning.DECLINED)
    if not line.startswith("/"):
        return ChatReply(Meaning.ANSWER, text)
    name, *rest = line.split(maxsplit=1)
    if name == "/answer":  # and one blank
        return ChatReply(Meaning.ANSWER, text.lstrip().removeprefix(name)[1:])
    if name in _COMMANDS and not rest:
        return ChatReply(_COMMANDS[name])
    return ChatReply(Meaning.COMMAND, line)


def encode_question(question: Question, number: int, problem: str = "") -> str:
    """Return the message that asks for one field of a question.

    Args:
        question: The question.
        number: Which of its fields, from 1.
        problem: What was wrong with the previous answer.
    """
    asked, several = question.fields[number - 1], len(question.fields) > 1
    if problem:
        parts = [f"That is no answer: {message(problem)}. Please answer again."]
    else:
        parts = [message_of(question)] if number == 1 else []
    if several:
        counted = f"({number} of {len(question.fields)})"
        parts.append(f"{question.asker} asks {counted}: {asked.label}")
    elif not question.wrapped:
        parts.append(_contain(asked.label))
    parts += [_contain(asked.description), _choices(asked), _limits(asked), _proposal(asked)]
    parts.append(_ways(asked, in_full=number == 1 and not problem))
    return "\n\n".join(filter(None, parts))


def _contain(words: str) -> str:
    """Keep an app's Markdown in a block, so that it cannot hide the bridge's lines."""
    return words if words[:1].isalnum() and "\n" not in words else quote(words) if words else ""


def _choices(asked: Field) -> str:
    """What there is to choose from, each as it has to be typed."""
    if asked.type is FieldType.BOOLEAN:
        return "Yes or no."
    labels = [each.label for each in asked.choices]
    lines = [
        f"- {each.label if labels.count(each.label) == 1 else each.key}"
        + (f": {label(each.description, 1_000)}" if each.description else "")
        + (" (proposed)" if is_default(asked, each) else "")
        for each in asked.choices
    ]
    if asked.type is FieldType.CHOICES:
        lines.append("\nSeveral go with commas between them.")
    return "\n".join(lines)


def find_ambiguity(asked: Field, typed: str) -> str:
    """Say why typed text may mean two options, as `1` for the option `1 (0)`; else ""."""
    several = asked.type is FieldType.CHOICES
    for words in map(str.strip, typed.split(",") if several else [typed]):
        meant = [
            each.label
            for each in asked.choices
            if each.key == words != each.label or each.label.startswith(f"{words} (")
        ]
        if len(meant) > 1 and words not in (each.label for each in asked.choices):
            return f"{words} may be {' or '.join(meant)}: write it as it stands there"
    return ""


def _limits(asked: Field) -> str:
    limits = field_limits(asked)
    return f"{limits}." if limits else ""


def _proposal(asked: Field) -> str:
    if asked.default is MISSING or asked.choices:
        return ""
    return f"Proposed by who asks: {label(to_text(asked.default), 1_000)}"


def _ways(asked: Field, *, in_full: bool) -> str:
    """What can be typed instead of an answer."""
    empty = "" if asked.required else "`/skip` leaves this empty. "
    ways = (
        f"Your next message is the answer, as it stands. {empty}`/decline`, or “{NO_ANSWER}”,"
        " gives none, `/cancel` dismisses the question. What begins with a slash is a command:"
        " such an answer goes after `/answer`."
    )
    words = (ways if in_full else empty).strip()
    return f"*{words}*" if words else ""
