"""A question as a page of HTML: to fill in, to check before it is sent, and said to be over.

The pages are templates, readable without styles and scripts. Whatever an app says is escaped by
them (`autoescape`), and nowhere else; what they are given is made here and in `controls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.menu import act
from abp_bridge.core.question import Question
from abp_bridge.surfaces.page import controls
from abp_bridge.surfaces.page.controls import Filled, Wrong

SHORTER = 60  # characters of a page's title

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["max_file"] = MAX_SIZE
_TEMPLATES.filters["lines"] = lambda words: escape(words).replace("\n", Markup("<br>"))


@dataclass(frozen=True, slots=True)
class View:
    """Where and when a question is shown.

    `home` is the address of the inbox, `address` that of the question; `guard` comes back with each
    form. `asked` is when it was asked, `until` when it closes, if it does; `others` is how many
    other questions are open, in which `version` of the inbox.
    """

    home: str
    address: str
    guard: str
    asked: datetime
    until: datetime | None = None
    others: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class Inbox:
    """What is open now: each question with where it is shown, and the address of the list, in one
    of its versions.
    """

    home: str
    version: int
    questions: Sequence[tuple[Question, View]]


def notice_page(heading: str, words: str, inbox: Inbox | None = None) -> str:
    """A page that only says something, and, to their person, what is asked."""
    asked = {} if inbox is None else {"inbox": inbox}
    return _render("notice", heading=heading, words=words, **asked)


def code_page(left: int) -> str:
    """Asks for the code of a question, of which it says nothing; `left` is how many may be given
    after a wrong one, 0 before any.
    """
    return _render("code", heading="Type the code", left=left)


def closed_page(words: str, inbox: Inbox | None = None) -> str:
    """What is said of a question that has ended, and, to its person, of what is asked next."""
    return _render("notice", heading="This question is closed", words=words, inbox=inbox)


def question_page(
    question: Question,
    view: View,
    filled: Filled | None = None,
    wrong: Wrong | None = None,
    draft: str = "",
) -> str:
    """The question, to be answered.

    Args:
        question: what is asked.
        view: where and when.
        filled: what was sent before, kept under the name `draft`.
        wrong: what was wrong with it, by control.
        draft: that name; empty for none.
    """
    wrong = wrong or {}
    files = controls.takes_files(question)
    return _render(
        "question",
        heading=_heading(question),
        question=question.in_full(),
        view=view,
        problems=[(name, words) for name, sentences in wrong.items() for words in sentences],
        multipart=files,
        draft=draft,
        controls=() if controls.confirms(question) else controls.controls(question, filled, wrong),
        buttons=_buttons(question),
        private=files or any(each.secret for each in question.fields),
    )


def summary_page(question: Question, view: View, filled: Filled, draft: str) -> str:
    """What was filled in, before it is sent."""
    rows = [
        (controls.title(question, number), controls.answer_text(question, number, filled))
        for number in range(len(question.fields))
    ]
    heading = f"Check: {_heading(question)}"
    return _render("summary", heading=heading, question=question, view=view, rows=rows, draft=draft)


def inbox_page(inbox: Inbox) -> str:
    """What is open now."""
    count = f"({len(inbox.questions)}) " if inbox.questions else ""
    return _render("inbox", heading=f"{count}Open questions", inbox=inbox)


def _render(template: str, **context: object) -> str:
    page = _TEMPLATES.get_template(f"{template}.html").render(context)
    return page.encode(errors="replace").decode()  # a sentence may quote what UTF-8 has not


def _buttons(question: Question) -> Sequence[tuple[str, str, str]]:
    """(what it sends, its words, its look): the answers of a confirm are its buttons, the safe one
    first where that matters; a form is sent, or goes to be checked.
    """
    cancel = ("cancel", "Cancel", "quiet")
    if question.link:
        return ("yes", "I have opened it", "send"), ("no", "Decline", ""), cancel
    if question.consents and question.destructive:
        return ("no", "Do not allow", "safe"), ("yes", "Allow", "danger"), cancel
    if question.consents:
        return ("yes", "Allow", "send"), ("no", "Do not allow", ""), cancel
    if controls.confirms(question) and question.destructive:
        word = act(question.message)
        safe = ("no", "No, do not" if word else "No", "safe")
        return safe, ("yes", word or "Yes, do it", "danger"), cancel
    if controls.confirms(question):
        return ("yes", "Yes", "send"), ("no", "No", ""), cancel
    if question.permits:  # whose options say themselves what is sent, and what is not
        return ("send", "OK", "send"), cancel
    send = "Send" if len(question.fields) < 2 else "Check your answers"
    return ("send", send, "send"), ("decline", "Decline", ""), cancel


def _heading(question: Question) -> str:
    first = question.message.partition("\n")[0]
    short = first if len(first) <= SHORTER else f"{first[: SHORTER - 1]}…"
    return f"{question.asker} asks: {short}"
