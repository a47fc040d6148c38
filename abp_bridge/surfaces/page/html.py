"""A question as a page of HTML: to fill in, to check before it is sent, and said to be over.

The pages are templates, readable without styles and scripts. Whatever an app says is escaped by
them (`autoescape`), and nowhere else; what they are given is made here, in `controls` and in
`buttons`, and our own sentences are `words`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from markupsafe import Markup, escape

from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.question import Permission, Question
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import Ending
from abp_bridge.surfaces.page import buttons, controls
from abp_bridge.surfaces.page.controls import Filled, Wrong
from abp_bridge.surfaces.page.web import Templates
from abp_bridge.surfaces.page.words import ENGLISH, Words

SHORTER = 60  # characters of a page's title
_PROTOCOL = re.compile(r" \((?:MCP|ACP|ABP)[^()]*\)")  # which a host's name ends with

_TEMPLATES = Templates(Path(__file__).parent / "templates")
_TEMPLATES.environment.globals["max_file"] = MAX_SIZE
_TEMPLATES.environment.globals["json_hint"] = controls.json_hint
_TEMPLATES.environment.filters["lines"] = lambda words: escape(words).replace("\n", Markup("<br>"))


@dataclass(frozen=True, slots=True)
class View:
    """Where and when a question is shown, and in which words.

    `home` is the address of the inbox, `address` that of the question; `guard` comes back with each
    form. `asked` is when it was asked, `until` when it closes, if it does, and `extends` whether
    the person can be given more time; `others` is how many other questions are open, in which
    `version` of the inbox, and `kept` whether something is filled in already. By the `key` the page
    knows that it is still the same bridge that it speaks to.
    """

    home: str
    address: str
    guard: str
    asked: datetime
    until: datetime | None = None
    extends: bool = False
    others: int = 0
    version: int = 0
    kept: bool = False
    words: Words = ENGLISH
    key: str = ""
    context: AskContext = NO_CONTEXT


@dataclass(frozen=True, slots=True)
class Inbox:
    """What is open now: each question with where it is shown, and the address of the list, in one
    of its versions; `key` is a `View`'s.
    """

    home: str
    version: int
    questions: Sequence[tuple[Question, View]]
    key: str = ""


def notice_page(
    key: str, words: Words = ENGLISH, inbox: Inbox | None = None, said: str = "", **values: object
) -> str:
    """A page that only says something, and, to their person, what is asked: the heading is the
    sentence `key`, and what it says another, or `said`.
    """
    asked = {} if inbox is None else {"inbox": inbox}
    sentence = said or words(f"{key}_words", **values)
    return _TEMPLATES.render("notice", words, heading=words(key), sentence=sentence, **asked)


def code_page(left: int, words: Words = ENGLISH) -> str:
    """Asks for the code of a question, of which it says nothing; `left` is how many may be given
    after a wrong one, 0 before any.
    """
    return _TEMPLATES.render("code", words, heading=words("code.heading"), left=left)


def ending_words(ending: Ending, words: Words) -> str:
    """What is said of a question that has ended."""
    return words(f"ended.{ending.value}")


def late_words(ending: Ending, words: Words) -> str:
    """What is said to who sends an answer to a question that has ended, which nobody gets."""
    if ending is Ending.SENT:
        return words("ended.late_sent")
    return f"{words('ended.late')} {ending_words(ending, words)}"


def closed_page(
    ending: Ending,
    words: Words = ENGLISH,
    inbox: Inbox | None = None,
    *,
    asked: str = "",
    all_open: str = "",
    late: bool = False,
) -> str:
    """What is said of a question that has ended: to its person with what it `asked`, and what is
    asked next, here and, where they came from there, in the inbox (`all_open`). What they sent
    `late` did not count.
    """
    sent = ending is Ending.SENT and not late
    heading = words("ended.heading_sent" if sent else "ended.heading")
    sentence = late_words(ending, words) if late else ending_words(ending, words)
    return _TEMPLATES.render(
        "closed",
        words,
        heading=heading,
        sentence=sentence,
        inbox=inbox,
        asked=asked,
        sent=sent,
        all_open=all_open,
    )


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
    wrong, words = wrong or {}, view.words
    files = controls.takes_files(question)
    confirms = buttons.confirms(question)
    row = buttons.row_of(question)
    title = _title(question, words)
    return _TEMPLATES.render(
        "question",
        words,
        heading=words("title.error", title=title) if wrong else title,
        question=question.in_full(),
        view=view,
        who=_who(question, view.context, words),
        problems=[(name, each) for name, sentences in wrong.items() for each in sentences],
        multipart=files,
        draft=draft,
        controls=() if confirms else controls.controls(question, filled, wrong, words),
        answers=[(each, each.label(question, words)) for each in row.answers],
        leaves=row.leaves,
        private=files or any(each.secret for each in question.fields),
    )


def summary_page(question: Question, view: View, filled: Filled, draft: str) -> str:
    """What was filled in, before it is sent."""
    words = view.words
    rows = [
        (
            controls.title(question, number, words),
            controls.answer_text(question, number, filled, words),
        )
        for number in range(len(question.fields))
    ]
    heading = words("title.check", title=_title(question, words))
    return _TEMPLATES.render(
        "summary",
        words,
        heading=heading,
        question=question,
        view=view,
        who=_who(question, view.context, words),
        rows=rows,
        draft=draft,
    )


def inbox_page(inbox: Inbox, words: Words = ENGLISH) -> str:
    """What is open now."""
    count = f"({len(inbox.questions)}) " if inbox.questions else ""
    return _TEMPLATES.render(
        "inbox", words, heading=f"{count}{words('inbox.heading')}", inbox=inbox
    )


def _who(question: Question, context: AskContext, words: Words) -> Sequence[Markup]:
    """What the bridge knows of who asks, beside the origin: what that calls itself, for which
    capability, and through which host.
    """
    said = []
    if context.app and context.app != question.origin and not question.permits:
        said.append(words.html("who.name", name=context.app))
    host = _PROTOCOL.sub("", context.host)
    agent = {"agent": host} if host else {}
    with_agent = "" if agent else "_only"
    if len(context.tools) == 1 and question.permits is not Permission.CALL:
        said.append(words.html(f"who.tool{with_agent}", tool=context.tools[0], **agent))
    elif len(context.tools) > 1:
        said.append(words.html(f"who.tools{with_agent}", count=len(context.tools), **agent))
    elif agent:
        said.append(words.html("who.agent", **agent))
    return said


def _title(question: Question, words: Words) -> str:
    first = question.message.partition("\n")[0]
    short = first if len(first) <= SHORTER else f"{first[: SHORTER - 1]}…"
    return words("title", asker=question.asker, message=short)
