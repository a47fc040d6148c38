"""What stands on a terminal: who asks, what, and how each field was filled in.

Turns questions into lines; neither asks nor writes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from abp_bridge.core.json_value import Json
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import json_equal

WIDEST = 100

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
    """Styles for a stream: modest colour on a terminal, none for a pipe, a dumb terminal, or a
    person who set NO_COLOR.
    """

    colour: bool

    def __call__(self, style: str, words: str) -> str:
        return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if self.colour and words else words


def can_move() -> bool:
    """Whether stdout is a terminal on which the cursor can be moved."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def style_for(moves: bool | None = None) -> Style:
    """The ink for stdout, or for a terminal of which it is known whether its cursor can be
    moved.
    """
    return Style((can_move() if moves is None else moves) and not os.environ.get("NO_COLOR"))


def width() -> int:
    """The columns of stdout's terminal."""
    return shutil.get_terminal_size().columns


def wrapped(
    words: str, indent: str = "  ", hanging: str | None = None, columns: int | None = None
) -> list[str]:
    """`words` as lines that fit the terminal and can be read; nothing is cut."""
    room = max(20, min(WIDEST, width() if columns is None else columns))
    after = indent if hanging is None else hanging
    lines: list[str] = []
    for line in words.splitlines() or [""]:
        lines += textwrap.wrap(
            line, room, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False
        ) or [""]
    return lines


def heading(question: Question, paint: Style, columns: int | None = None) -> str:
    """Who asks, then what, as both stay on the screen."""
    whom = " asks a model" if question.kind is Kind.SAMPLING else " asks"
    lines = ["", paint("who", f"● {question.origin}") + whom]
    lines += [paint("strong", line) for line in wrapped(question.message, columns=columns)]
    if question.destructive:
        lines += [
            paint("warn", line)
            for line in wrapped("This cannot be undone, the app says.", columns=columns)
        ]
    if question.note:
        lines += [paint("warn", line) for line in wrapped(question.note, columns=columns)]
    return "\n".join(lines)


def shown(field: Field, value: Json) -> str:
    """A reviewed value in the words it was chosen by; a secret as dots."""
    if field.secret:
        return "••••••"
    if field.type is FieldType.BOOLEAN:
        return "yes" if value else "no"
    if field.type is FieldType.CHOICE:
        return _labelled(field, value)
    if field.type is FieldType.CHOICES and isinstance(value, list):
        return ", ".join(_labelled(field, each) for each in value) or "none of them"
    if field.type is FieldType.FILE and isinstance(value, Mapping):
        return label(f"{value.get('filename', 'a file')} ({value.get('mimeType')})")
    return (
        label(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 1_000)
        or "(nothing)"
    )


def answered(
    question: Question, field: Field, value: Json, paint: Style, columns: int | None = None
) -> str:
    """One filled-in field, as it stays on the screen. `MISSING` was left out."""
    words = "(left out)" if value is MISSING else shown(field, value)
    head = f"  {titled(question, field)}: "
    name, *rest = wrapped(head.lstrip() + words, hanging="    ", columns=columns)
    return "\n".join(
        [paint("dim", head) + name.removeprefix(head), *rest]
        if name.startswith(head)
        else [name, *rest]
    )


def titled(question: Question, field: Field) -> str:
    """What a field is called; the only field of a question needs no name of its own."""
    return field.title or (label(field.name) if len(question.fields) > 1 else "Answer")


def described(choice: Choice) -> str:
    """What an option means, in one line."""
    return label(choice.description, 1_000)


def _labelled(field: Field, value: Json) -> str:
    return next(
        (choice.label for choice in field.choices if json_equal(choice.value, value)), label(value)
    )
