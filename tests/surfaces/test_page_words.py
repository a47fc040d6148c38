"""What the page says and offers, without a browser: its sentences in each language, and the table
of buttons row by row.
"""

from __future__ import annotations

from string import Formatter
from typing import Any

import pytest

from abp_bridge.core.capability import Capability
from abp_bridge.core.question import Kind, Question
from abp_bridge.models.request import make_approval, make_edit, make_review
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session.approval import make_question
from abp_bridge.surfaces.page import controls
from abp_bridge.surfaces.page.words import ENGLISH, LANGUAGES, choose, words_of

Json = Any


def placeholders(sentence: str) -> list[str]:
    return sorted(name for _, name, _, _ in Formatter().parse(sentence) if name is not None)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_every_sentence_with_the_same_placeholders(language: str) -> None:
    words = words_of(language)
    assert list(words.sentences) == list(ENGLISH.sentences)
    for key, sentence in words.sentences.items():
        assert placeholders(sentence) == placeholders(ENGLISH.sentences[key]), key
        assert sentence.strip(), key


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("fr-FR, fr;q=0.9, he;q=0.5, de;q=0.4", "de"),
        ("he-IL, he;q=0.9", "en"),
        ("en;q=0.5, de; q=0.8", "de"),
        ("de;q=0, fr", "en"),
        ("de;q=x", "en"),
        ("de;q=nan", "en"),
    ],
)
def test_the_language_is_the_browsers(header: str, language: str) -> None:
    assert choose(header).language == language


def ask(method: str, **params: Json) -> Question:
    raw: Json = {"method": f"elicitation/{method}", "params": params}
    return decode_question(raw, id="q", origin="app")


TWO: Json = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
MODEL = Question("q", Kind.SAMPLING, "task", (), "app")
WIPE = Capability("x", destructive=True)
DELETE = ask("confirm", message="Delete it?", destructive=True)
BUTTONS = {
    "confirm": (ask("confirm", message="Go?"), "Yes|No", "cancel"),
    "undone": (DELETE, "No, do not|Delete", "cancel"),
    "no act": (ask("confirm", message="Is it?", destructive=True), "No|Yes, do it", "cancel"),
    "call": (make_question("q", "app", Capability("x"), {}), "Allow|Do not allow", "cancel"),
    "wipe": (make_question("q", "app", WIPE, {}), "Do not allow|Allow", "cancel"),
    "field": (ask("input", prompt="Name?"), "Send", "decline cancel"),
    "fields": (ask("input", prompt="Both?", schema=TWO), "Check your answers", "decline cancel"),
    "approval": (make_approval("q", MODEL, "model", "words"), "Continue", "cancel"),
    "review": (make_review("q", MODEL, "m", "words", editable=True), "Continue", "cancel"),
    "edit": (make_edit("q", MODEL, "words"), "Send", "cancel"),
}


@pytest.mark.parametrize("name", BUTTONS)
def test_each_sort_of_question_has_its_buttons(name: str) -> None:
    question, answers, leaves = BUTTONS[name]
    row = controls.row_of(question)
    assert [each.label(question, ENGLISH) for each in row.answers] == answers.split("|")
    assert row.leaves == tuple(leaves.split())


def test_what_a_model_may_be_sent_is_chosen_among_options_of_which_the_safe_one_stands() -> None:
    (control,) = controls.controls(make_approval("q", MODEL, "model", "words"), None, {})
    assert [(each.label, each.checked) for each in control.options] == [
        ("Do not send it", True),
        ("Send it", False),
        ("Send it, and show me the answer first", False),
        ("Send it, and all that app sends in this session", False),
    ]
    assert (control.kind, control.suggested) == ("radios", False), "the bridge's own, nobody's hint"
