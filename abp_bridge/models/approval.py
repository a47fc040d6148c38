"""The questions that ask the user before a model is sent a request and before its answer leaves."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Choice, Field, FieldType, Kind, Permission, Question, quote
from abp_bridge.core.sanitize import label, message

DECISION, ANSWER = "decision", "answer"
APPROVERS = (AnsweredBy.PERSON, AnsweredBy.SCRIPT)  # nothing is sent, or leaves, by anybody else


class Decision(enum.Enum):
    """The user's decision; the value is what a host sends for it."""

    REFUSE = "refuse"
    SEND = "send"
    REVIEW = "review"  # send it, and show them the answer before it leaves
    SEND_ALL = "send-all"  # and whatever else this app sends in this session


class Review(enum.Enum):
    """The user's decision about an answer; the value is what a host sends for it."""

    KEEP = "keep"
    PASS = "pass"  # noqa: S105 - no password
    EDIT = "edit"


def make_approval(id: str, asked: Question, model: str, sent: str) -> Question:
    """Return the question whether `model` may be sent `sent`, the whole text, safe to show."""
    app = label(asked.origin)
    labels = {
        Decision.REFUSE: "Do not send it",
        Decision.SEND: "Send it",
        Decision.REVIEW: "Send it, and show me the answer first",
        Decision.SEND_ALL: f"Send it, and all that {app} sends in this session",
    }
    words = f"May this be sent to {label(model)}? The answer goes back to {app}."
    return _make_select(id, asked, [words, quote(sent)], labels)


def make_review(id: str, asked: Question, model: str, answer: str, *, editable: bool) -> Question:
    """Return the question whether a model's `answer` may leave."""
    app = label(asked.origin)
    labels = {
        Review.KEEP: "Keep it back",
        Review.PASS: f"Pass it on to {app}",
        Review.EDIT: "Change it first",
    }
    if not editable:
        del labels[Review.EDIT]
    words = f"{label(model)} answered. May this go to {app}?"
    return _make_select(id, asked, [words, quote(answer)], labels)


def make_edit(id: str, asked: Question, answer: str) -> Question:
    """Return the question that lets the user edit a model's `answer`."""
    field = Field(
        ANSWER, FieldType.TEXT, {"type": "string", "default": answer}, "Answer", default=answer
    )
    words = f"What you write here goes to {label(asked.origin)} as the model's answer."
    return _make(id, asked, Kind.INPUT, words, field)


def read_decision(answer: Answer) -> Decision:
    """Read the decision: refuse, unless the user or an answers file said otherwise."""
    return Decision(_chosen(answer, Decision.REFUSE.value))


def read_review(answer: Answer) -> Review:
    """Read the review: keep the answer back, unless the user or an answers file said otherwise."""
    return Review(_chosen(answer, Review.KEEP.value))


def _chosen(answer: Answer, safe: str) -> object:
    approved = answer.outcome is Outcome.ACCEPTED and answer.answered_by in APPROVERS
    return answer.content.get(DECISION) if approved else safe


def _make_select(
    id: str,
    asked: Question,
    paragraphs: list[str],
    labels: Mapping[Decision, str] | Mapping[Review, str],
) -> Question:
    values = [each.value for each in labels]
    field = Field(
        DECISION,
        FieldType.CHOICE,
        {"enum": values, "default": values[0]},
        "Decision",
        default=values[0],
        choices=tuple(Choice(each.value, each.value, words) for each, words in labels.items()),
    )
    return _make(id, asked, Kind.SELECT, "\n\n".join(paragraphs), field)


def _make(id: str, asked: Question, kind: Kind, whole: str, field: Field) -> Question:
    shown = message(whole)
    return Question(
        id,
        kind,
        shown,
        (field,),
        asked.origin,
        permits=Permission.SAMPLING,
        uncut="" if shown == whole else whole,
    )
