"""Render a question as HTML pages: the form, the check before sending, and the end.

The templates need neither styles nor scripts. `autoescape` alone escapes what an app says.
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
from abp_bridge.surfaces.page import controls
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
    """Where and when a question is shown.

    Attributes:
        home: The path of the inbox.
        address: The path of the question.
        guard: The token that each form sends back.
        until: When the question closes; None for never.
        extends: Whether the user can extend the time.
        others: How many other questions are open.
        version: The inbox's version.
        kept: Whether the user has entered something.
        key: The key by which the page's script recognizes this bridge.
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
    """The open questions with their views, in one version of the list."""

    home: str
    version: int
    questions: Sequence[tuple[Question, View]]
    key: str = ""


def notice_page(
    key: str, words: Words = ENGLISH, inbox: Inbox | None = None, said: str = "", **values: object
) -> str:
    """Render a message under the heading `key`, with the open questions for the user."""
    asked = {} if inbox is None else {"inbox": inbox}
    sentence = said or words(f"{key}_words", **values)
    return _TEMPLATES.render("notice", words, heading=words(key), sentence=sentence, **asked)


def code_page(left: int, words: Words = ENGLISH) -> str:
    """Render the page that asks for a code; `left` attempts remain, 0 before the first."""
    return _TEMPLATES.render("code", words, heading=words("code.heading"), left=left)


def ending_words(ending: Ending, words: Words) -> str:
    """Return how a question ended, as a sentence."""
    return words(f"ended.{ending.value}")


def late_words(ending: Ending, words: Words) -> str:
    """Return why an answer to an ended question did not count."""
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
    """Render the page of an ended question.

    Args:
        ending: How it ended.
        words: The language.
        inbox: The questions still open, for the user only.
        asked: The question's first line, for the user only.
        all_open: The inbox's address, if the user came from there.
        late: Whether the user's answer came too late.
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
    """Render the form of a question, with earlier input (kept as `draft`) and its problems."""
    wrong, words = wrong or {}, view.words
    files = controls.takes_files(question)
    confirms = controls.confirms(question)
    row = controls.row_of(question)
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
    """Render the check before sending."""
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
    """Render the list of open questions."""
    count = f"({len(inbox.questions)}) " if inbox.questions else ""
    return _TEMPLATES.render(
        "inbox", words, heading=f"{count}{words('inbox.heading')}", inbox=inbox
    )


def _who(question: Question, context: AskContext, words: Words) -> Sequence[Markup]:
    """Return what is known of the requester: its own name, the tools and the host."""
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
