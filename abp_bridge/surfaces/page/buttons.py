"""The buttons of a question on the page: a table whose first matching row applies.

The safe answer comes first where the other is destructive. Every question also has `Later`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abp_bridge.core.options import act
from abp_bridge.core.question import FieldType, Kind, Question
from abp_bridge.surfaces.page.words import Words


@dataclass(frozen=True, slots=True)
class Button:
    """One button: the value it sends, the key of its label, and its look.

    If `names_act`, the label is the act that the question names.
    """

    sends: str
    words: str
    look: str = ""
    names_act: bool = False

    def label(self, question: Question, words: Words) -> str:
        named = act(question.message) if self.names_act else ""
        if named and self.sends == "yes":
            return named
        return words("button.do_not" if named else self.words)


@dataclass(frozen=True, slots=True)
class Row:
    """The buttons of one sort of question: its answers, and the ways not to answer."""

    name: str
    applies: Callable[[Question], bool]
    answers: tuple[Button, ...]
    leaves: tuple[str, ...]


def confirms(question: Question) -> bool:
    """Return whether two buttons answer the question."""
    return question.kind is Kind.CONFIRM or question.consents


def _chooses(question: Question) -> bool:
    return any(each.type is FieldType.CHOICE for each in question.fields)


# A no is an answer there, or among the options: it can only be dismissed beside that.
_DISMISS = ("cancel",)
_DECLINE = ("decline", "cancel")

ROWS = (
    Row(
        "a link",
        lambda asked: bool(asked.link),
        (Button("yes", "button.opened", "send"), Button("no", "button.decline")),
        _DISMISS,
    ),
    Row(
        "consent to what cannot be undone",
        lambda asked: asked.consents and asked.destructive,
        (
            Button("no", "button.do_not_allow", "safe"),
            Button("yes", "button.allow", "danger"),
        ),
        _DISMISS,
    ),
    Row(
        "consent",
        lambda asked: asked.consents,
        (Button("yes", "button.allow", "send"), Button("no", "button.do_not_allow")),
        _DISMISS,
    ),
    Row(
        "a confirm of what cannot be undone",
        lambda asked: confirms(asked) and asked.destructive,
        (
            Button("no", "button.no", "safe", names_act=True),
            Button("yes", "button.do", "danger", names_act=True),
        ),
        _DISMISS,
    ),
    Row(
        "a confirm",
        confirms,
        (Button("yes", "button.yes", "send"), Button("no", "button.no")),
        _DISMISS,
    ),
    Row(  # its options say what is sent, and what is not
        "an approval of what a model is sent, or says",
        lambda asked: asked.permits is not None and _chooses(asked),
        (Button("send", "button.continue", "send"),),
        _DISMISS,
    ),
    Row(
        "a model's answer, changed",
        lambda asked: asked.permits is not None,
        (Button("send", "button.send", "send"),),
        _DISMISS,
    ),
    Row(
        "a form of one field",
        lambda asked: len(asked.fields) < 2,
        (Button("send", "button.send", "send"),),
        _DECLINE,
    ),
    Row(
        "a form of several fields",
        lambda asked: True,
        (Button("send", "button.check", "send"),),
        _DECLINE,
    ),
)


def row_of(question: Question) -> Row:
    """Return the first row that applies to the question."""
    return next(each for each in ROWS if each.applies(question))
