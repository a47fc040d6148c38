"""Questions in an ACP conversation: the message, and the prompt that answers it."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.acp import v1
from abp_bridge.protocols.acp.v1 import ChatReply, Meaning

Json = Any


def text(words: str) -> Json:
    return {"type": "text", "text": words}


LINK: Json = {"type": "resource_link", "uri": "file:///a", "name": "a"}
NOT_TEXT = ChatReply(
    Meaning.UNREADABLE, "an answer here is text alone, without files, links or images"
)
EMPTY = ChatReply(Meaning.UNREADABLE, "there was nothing in it")

PROMPTS: dict[str, tuple[Json, ChatReply]] = {
    "text": ([text(" Ann\n")], ChatReply(Meaning.ANSWER, " Ann\n")),
    "an answer after its command": ([text("/answer /x")], ChatReply(Meaning.ANSWER, "/x")),
    "an answer of several lines": ([text(" /answer\n a\nb ")], ChatReply(Meaning.ANSWER, " a\nb ")),
    "two words alone": ([text(" No Answer ")], ChatReply(Meaning.DECLINED)),
    "decline": ([text("/decline")], ChatReply(Meaning.DECLINED)),
    "cancel": ([text("/cancel ")], ChatReply(Meaning.CANCELLED)),
    "skip": ([text("/skip")], ChatReply(Meaning.EMPTY)),
    "a way out with more behind it": (
        [text("/cancel it")],
        ChatReply(Meaning.COMMAND, "/cancel it"),
    ),
    "another command": ([text("/plan {}")], ChatReply(Meaning.COMMAND, "/plan {}")),
    "a slash": ([text("/")], ChatReply(Meaning.COMMAND, "/")),
    "blanks": ([text(" \n")], EMPTY),
    "nothing": ([], EMPTY),
    "text with a link": ([text("see"), LINK], NOT_TEXT),
    "a link": ([LINK], NOT_TEXT),
    "an answer with a link": ([text("/answer x"), LINK], NOT_TEXT),
    "a way out with a link": ([text("/cancel"), LINK], NOT_TEXT),
}


@pytest.mark.parametrize("case", PROMPTS)
def test_decode_chat_reply(case: str) -> None:
    prompt, reply = PROMPTS[case]
    assert v1.decode_reply(prompt) == reply


def asked(schema: Json, method: str = "elicitation/input", **more: Json) -> Question:
    params = {"prompt": "Which?", "schema": schema, **more}
    return decode_question({"method": method, "params": params}, id="q", origin="app.example")


WAYS = (
    "*Your next message is the answer, as it stands. `/decline`, or “no answer”, gives none,"
    " `/cancel` dismisses the question. What begins with a slash is a command: such an answer goes"
    " after `/answer`.*"
)
ASKS = "app.example asks: Which?"
HERE = ({"const": 1, "title": "Here"}, {"const": 2, "title": "Here"})
PLACES: Json = {"oneOf": [*HERE, {"const": 3, "title": "There"}], "default": 3}
FIRST = {"const": "a", "title": "A", "description": "First"}
FIELDS: Json = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "description": "About A"},
        "b": {"type": "boolean", "default": True},
    },
    "required": ["a"],
}
# a schema: what is between the question and the ways to answer
MESSAGES: dict[str, tuple[Json, list[str]]] = {
    "a text": ({"type": "string"}, []),
    "a number with bounds": ({"type": "integer", "minimum": 1}, ["A whole number, at least 1."]),
    "a description of HTML": ({"type": "string", "description": "<!--"}, ["> <!--"]),
    "a name of HTML": (
        {"type": "object", "properties": {"<!--": {"type": "string"}}, "required": ["<!--"]},
        ["> <!--"],
    ),
    "equal labels": (PLACES, ["- Here\n- Here (2)\n- There (proposed)"]),
    "choices": (
        {"type": "array", "items": {"oneOf": [FIRST]}},
        ["- A: First\n\nSeveral go with commas between them."],
    ),
    "the first of several fields": (FIELDS, ["app.example asks (1 of 2): a", "About A"]),
}


@pytest.mark.parametrize(("schema", "parts"), MESSAGES.values(), ids=MESSAGES)
def test_encode_chat_question(schema: Json, parts: list[str]) -> None:
    assert v1.encode_question(asked(schema), 1, "") == "\n\n".join([ASKS, *parts, WAYS])


def test_encode_chat_question_again() -> None:
    again = v1.encode_question(asked({"type": "string"}), 1, "too long")
    assert again == "That is no answer: too long. Please answer again."


def test_encode_chat_question_for_an_optional_field() -> None:
    assert v1.encode_question(asked(FIELDS), 2, "").split("\n\n") == [
        "app.example asks (2 of 2): b",
        "Yes or no.",
        "Proposed by who asks: true",
        "*`/skip` leaves this empty.*",
    ]
    only = {"type": "object", "properties": {"a": {"type": "string", "title": "The A"}}}
    ways = WAYS.replace(" `/decl", " `/skip` leaves this empty. `/decl")
    assert v1.encode_question(asked(only), 1, "").split("\n\n") == [ASKS, "The A", ways]


def copies(**schema: Any) -> Question:
    request: Any = {"prompt": "How many?", "schema": schema}
    return decode_question({"method": "elicitation/input", "params": request}, id="q", origin="app")


SHIFTED = [{"const": number, "title": str(number + 1)} for number in range(2)]
AMBIGUOUS = {
    # what is typed -> whether it may mean another option
    "1": True,
    "1 (0)": False,
    "2": False,
    "0": False,
}


@pytest.mark.parametrize("typed", AMBIGUOUS)
def test_ambiguous_chat_answer_is_found(typed: str) -> None:
    [one] = copies(oneOf=SHIFTED).fields
    assert [each.label for each in one.choices] == ["1 (0)", "2"]
    assert ("1 may be 1 (0) or 2" in v1.find_ambiguity(one, typed)) is AMBIGUOUS[typed]
    [some] = copies(type="array", items={"anyOf": SHIFTED}).fields
    assert bool(v1.find_ambiguity(some, f"2, {typed}")) is AMBIGUOUS[typed]
