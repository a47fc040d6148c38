"""A question as a page of HTML: to fill in, to check before it is sent, and said to be over.

Readable without styles and scripts. Pure.

Every word of an app's is escaped here and in `controls`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from abp_bridge.core.menu import act
from abp_bridge.core.question import FieldType, Question
from abp_bridge.surfaces.page.controls import (
    Filled,
    Wrong,
    confirms,
    control,
    lines,
    name_of,
    spelled,
    title,
)

SHORT = 90  # characters of a heading, from which on it is set smaller
SHORTER = 60  # of a page's title
CANNOT_BE_UNDONE = "The app says that this cannot be undone."


@dataclass(frozen=True, slots=True)
class View:
    """Where and when a question is shown: `home` is the address of the inbox, `address` that of the
    question, `guard` comes back with each form.

    `asked` and `until` are times of day; `ends` is the second, as the browser counts them, in which
    it closes, if it does.
    """

    home: str
    address: str
    guard: str
    asked: str
    until: str = ""
    ends: int | None = None
    others: int = 0


def document(heading: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1"><title>{escape(heading)}</title><link'
        ' rel="icon" href="data:,"><link rel="stylesheet" href="/form.css"><script src="/form.js"'
        f" defer></script></head><body><main>{body}</main></body></html>"
    )


def notice(heading: str, words: str, more: str = "") -> str:
    """A page that only says something."""
    return document(heading, f'<h1 tabindex="-1">{escape(heading)}</h1><p>{lines(words)}</p>{more}')


def over(words: str, home: str, others: int) -> str:
    """What is said of a question that has ended."""
    more = (
        f'<p><a href="{home}">{_other_questions(others)}</a></p>'
        if others
        else "<p>You can close this page.</p>"
    )
    return notice("This question is closed", words, more)


def sheet(
    question: Question,
    view: View,
    filled: Filled | None = None,
    wrong: Wrong | None = None,
    draft: str = "",
) -> str:
    """The question, to be answered.

    `filled` is what was sent before, kept under the name `draft`; `wrong` says what was wrong with
    it.
    """
    wrong = wrong or {}
    controls = "" if confirms(question) else _controls(question, filled, wrong)
    kept = f'<input type="hidden" name="draft" value="{escape(draft)}">' if draft else ""
    encoding = (
        ' enctype="multipart/form-data"'
        if any(each.type is FieldType.FILE for each in question.fields)
        else ""
    )
    body = (
        _head(question, view)
        + _problems(question, wrong)
        + f'<form method="post" action="{escape(view.address)}" autocomplete="off"{encoding}'
        f' data-open="{escape(view.address)}/events"><input type="hidden" name="guard"'
        f' value="{escape(view.guard)}">{kept}{controls}{_buttons(question)}</form>'
        + (
            '<p class="hint">What you enter here is given to the app, and to nobody else: not to'
            " the agent, and not to its model.</p>"
            if question.secret or any(each.type is FieldType.FILE for each in question.fields)
            else ""
        )
    )
    return document(_title(question), body + _foot(view))


def summary(question: Question, view: View, filled: Filled, draft: str) -> str:
    """What was filled in, before it is sent."""
    rows = "".join(
        f"<dt>{escape(title(question, number))}</dt>"
        f"<dd>{lines(spelled(question, number, filled)) or '<em>left empty</em>'}</dd>"
        for number in range(len(question.fields))
    )
    body = (
        _head(question, view)
        + f"<h2>Check your answers</h2><dl>{rows}</dl>"
        + f'<form method="post" action="{escape(view.address)}/check/{escape(draft)}"'
        f' data-open="{escape(view.address)}/events"><input type="hidden" name="guard"'
        f' value="{escape(view.guard)}"><div class="buttons"><button name="action" value="send"'
        ' class="send" autofocus>Send</button><button name="action"'
        ' value="change">Change</button></div></form>'
    )
    return document(f"Check: {_title(question)}", body + _foot(view))


def inbox(questions: Sequence[tuple[Question, View]], home: str, version: int) -> str:
    """What is open now; `version` tells one state of it from the next."""
    asked = "".join(
        f'<li><a href="{escape(view.address)}"><strong>{escape(question.origin)}</strong> asks:'
        f' {escape(_first_line(question))}</a><p class="hint">{_when(view)}</p></li>'
        for question, view in questions
    )
    words = (
        f'<ul class="inbox">{asked}</ul>'
        if asked
        else "<p>Nothing is asked now. Questions appear here when an app has one.</p>"
    )
    count = f"({len(questions)}) " if questions else ""
    live = (
        f'<div data-inbox="{escape(home)}events" data-version="{version}"'
        f' aria-live="polite">{words}</div>'
    )
    return document(
        f"{count}Open questions",
        f'<h1>Open questions</h1>{live}<noscript><p><a href="{escape(home)}">Look'
        " again</a></p></noscript>",
    )


# --- parts ----------------------------------------------------------------------------------------


def _head(question: Question, view: View) -> str:
    """Who asks, what, since when, and what there is to know before answering."""
    first, _, rest = question.message.partition("\n")
    small = ' class="long"' if len(first) > SHORT else ""
    return (
        f'<p class="who"><strong>{escape(question.origin)}</strong>'
        f" asks</p><h1{small}>{escape(first)}</h1>"
        + (f'<p class="more">{lines(rest.strip())}</p>' if rest.strip() else "")
        + f'<p class="hint when">{_when(view)}</p>'
        + (f'<p class="note">abp-bridge: {lines(question.note)}</p>' if question.note else "")
        + (
            f'<p class="warning"><strong>{CANNOT_BE_UNDONE}</strong></p>'
            if question.destructive
            else ""
        )
    )


def _when(view: View) -> str:
    if view.ends is None:
        return f"Asked {view.asked}"
    return f'Asked {view.asked}, open until <time data-ends="{view.ends}">{view.until}</time>'


def _problems(question: Question, wrong: Wrong) -> str:
    items = "".join(
        (
            f"<li>{escape(words)}</li>"
            if number is None
            else f'<li><a href="#{name_of(number)}">{escape(words)}</a></li>'
        )
        for number, sentences in wrong.items()
        for words in sentences
    )
    return (
        '<div class="problems" role="alert" tabindex="-1" autofocus><p>This was not sent'
        f" yet:</p><ul>{items}</ul></div>"
        if items
        else ""
    )


def _controls(question: Question, filled: Filled | None, wrong: Wrong) -> str:
    return "".join(
        control(question, number, filled, wrong, focus=not wrong and number == 0)
        for number in range(len(question.fields))
    )


def _buttons(question: Question) -> str:
    """The answers of a confirm are its buttons, the safe one first where that matters; a form is
    sent, or goes to be checked.
    """
    if question.consents:
        return _row(
            ("yes", "Allow", "send"), ("no", "Do not allow", ""), ("cancel", "Cancel", "quiet")
        )
    if confirms(question) and question.destructive:
        word = act(question.message)
        safe = ("no", "No, do not" if word else "No", "safe")
        return _row(safe, ("yes", word or "Yes, do it", "danger"), ("cancel", "Cancel", "quiet"))
    if confirms(question):
        return _row(("yes", "Yes", "send"), ("no", "No", ""), ("cancel", "Cancel", "quiet"))
    send = ("send", "Send" if len(question.fields) < 2 else "Check your answers", "send")
    return _row(send, ("decline", "Decline", ""), ("cancel", "Cancel", "quiet"))


def _row(*buttons: tuple[str, str, str]) -> str:
    made = "".join(
        '<button name="action"'
        f' value="{value}"{f" class={kind!r}" if kind else ""}'
        f"{' autofocus' if kind == 'safe' else ''}"
        f"{' formnovalidate' if value in ('decline', 'cancel') else ''}>{escape(words)}</button>"
        for value, words, kind in buttons
    )
    return f'<div class="buttons">{made}</div>'


def _foot(view: View) -> str:
    return (
        f'<p class="foot"><a href="{escape(view.home)}">{_other_questions(view.others)}</a></p>'
        if view.others
        else ""
    )


def _other_questions(count: int) -> str:
    return "1 other question is open" if count == 1 else f"{count} other questions are open"


def _first_line(question: Question) -> str:
    return question.message.partition("\n")[0]


def _title(question: Question) -> str:
    first = _first_line(question)
    return (
        f"{question.origin} asks: {first if len(first) <= SHORTER else first[: SHORTER - 1] + '…'}"
    )
