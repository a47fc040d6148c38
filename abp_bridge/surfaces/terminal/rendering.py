"""Render questions and answers as lines for a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from abp_bridge.core.json_value import JsonValue, json_equal, to_text
from abp_bridge.core.question import (
    MISSING,
    QUOTE,
    SAYING_KINDS,
    Choice,
    Field,
    FieldType,
    Kind,
    Missing,
    Question,
)
from abp_bridge.core.sanitize import label

MAX_COLUMNS = 100  # columns: longer lines are hard to read

_STYLES = {
    "who": "1;36",
    "strong": "1",
    "dim": "2",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "bar": "36",
}


@dataclass(frozen=True, slots=True)
class Style:
    """Styles for a stream: colour on a terminal, none for a pipe, a dumb terminal, or NO_COLOR."""

    colour: bool
    columns: Callable[[], int]

    def __call__(self, style: str, words: str) -> str:
        return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if self.colour and words else words


def can_move() -> bool:
    """Return whether stdout is a terminal with a movable cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def width() -> int:
    """Return the columns of stdout's terminal."""
    return shutil.get_terminal_size().columns


def style_for(moves: bool | None = None, columns: Callable[[], int] = width) -> Style:
    """Return the styles for stdout, or for a terminal whose cursor `moves`."""
    coloured = (can_move() if moves is None else moves) and not os.environ.get("NO_COLOR")
    return Style(coloured, columns)


def wrapped(
    words: str, indent: str = "  ", hanging: str | None = None, columns: int | None = None
) -> list[str]:
    """Wrap `words` to the terminal, without cutting; each line of a quotation keeps its mark.

    Args:
        words: The text; its line breaks stay.
        indent: The beginning of each line.
        hanging: The beginning of continuation lines; None for `indent`.
        columns: The terminal's width; None for stdout's.
    """
    room = max(20, min(MAX_COLUMNS, width() if columns is None else columns))
    after = indent if hanging is None else hanging
    lines: list[str] = []
    for line in words.splitlines() or [""]:
        further = f"{after}{QUOTE}" if line.startswith(QUOTE) else after
        lines += textwrap.wrap(
            line,
            room,
            initial_indent=indent,
            subsequent_indent=further,
            break_on_hyphens=False,
            break_long_words=False,  # a link is copied whole where the terminal itself breaks it
        ) or [""]
    return lines


def hanging_lines(first: str, words: str, column: int) -> list[str]:
    """Return `words` beside the column `first`, `column` wide; wrapped on a terminal only."""
    if not sys.stdout.isatty():
        return [first + words]
    room = max(2 * column, min(width(), MAX_COLUMNS)) - column
    lines = textwrap.wrap(words, room, break_on_hyphens=False, break_long_words=False) or [""]
    return [first + lines[0], *(" " * column + line for line in lines[1:])]


def heading(question: Question, paint: Style) -> str:
    """Return the requester and the question, as they stay on the screen."""
    whom = " asks a model" if question.kind is Kind.SAMPLING else " asks"
    lines = ["", paint("who", f"● {question.asker}") + whom]
    lines.append(paragraph(question.quoted, "strong", paint))
    if question.link:
        lines.append(paragraph(f"It asks you to open {question.link}", "strong", paint))
    if question.warning:
        lines.append(paragraph(question.warning, "warn", paint))
    if question.note:
        lines.append(paragraph(question.note, "warn", paint))
    return "\n".join(lines)


def paragraph(words: str, style: str, paint: Style) -> str:
    """Return `words` wrapped, in one style."""
    return "\n".join(paint(style, line) for line in wrapped(words, columns=paint.columns()))


def value_text(field: Field, value: JsonValue) -> str:
    """Return a valid value as its label; a secret as dots."""
    if field.secret:
        return "••••••"
    if field.type is FieldType.BOOLEAN:
        return "yes" if value else "no"
    if field.type is FieldType.CHOICE:
        return _choice_label(field, value)
    if field.type is FieldType.CHOICES and isinstance(value, list):
        return ", ".join(_choice_label(field, each) for each in value) or "none of them"
    if field.type is FieldType.FILE and isinstance(value, Mapping):
        return label(f"{value.get('filename', 'a file')} ({value.get('mimeType')})")
    return label(to_text(value), 1_000) or "(nothing)"


def answer_line(
    question: Question, field: Field, value: JsonValue | Missing, paint: Style, after: str = ""
) -> str:
    """Return one answered field, as it stays on the screen.

    Args:
        question: The question.
        field: The field.
        value: The valid value, or `MISSING`.
        paint: The terminal's styles.
        after: Text behind it.
    """
    words = "(left out)" if value is MISSING else value_text(field, value)
    head = f"  {field_title(question, field)}: "
    first, *rest = wrapped(head.lstrip() + words + after, hanging="    ", columns=paint.columns())
    if first.startswith(head):
        first = paint("dim", head) + first.removeprefix(head)
    return "\n".join([first, *rest])


def field_title(question: Question, field: Field) -> str:
    """Return the title of a field; `Answer` for the only one if the question says it."""
    return field.label if len(question.fields) > 1 else _lone_title(question, field) or "Answer"


def unsaid_title(question: Question, field: Field) -> str:
    """Return the title of a field that the question does not explain; else empty."""
    if len(question.fields) > 1:
        return field.label
    return "" if question.kind in SAYING_KINDS else _lone_title(question, field)


def _lone_title(question: Question, field: Field) -> str:
    said = {line.strip(" ?:.").casefold() for line in question.message.splitlines()}
    return "" if field.title.strip(" ?:.").casefold() in said else field.title


def choice_description(choice: Choice) -> str:
    """Return the description of an option in one line."""
    return label(choice.description, 1_000)


def _choice_label(field: Field, value: JsonValue) -> str:
    return next(
        (choice.label for choice in field.choices if json_equal(choice.value, value)), label(value)
    )
