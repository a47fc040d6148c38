"""Lay out `--help`: prose is filled, rows of two columns stay rows, words stay whole."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

HANGING = 6  # columns before what is left of a term that needs several lines

Row = tuple[str, str]  # a term, and what it means


class HelpFormatter(argparse.HelpFormatter):
    """Lay out the commands' descriptions.

    A line that begins with two spaces is a row: a term, two spaces, its meaning, which continues in
    lines indented by eight. `- ` begins a list item. Other lines are paragraphs.
    """

    def __init__(self, prog: str, **given: Any) -> None:
        given.setdefault("width", min(_columns(), 100) - 2)
        super().__init__(prog, **given)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = itertools.groupby(_join_lines(text), lambda line: line.startswith("  "))
        lines: list[str] = []
        for are_rows, block in blocks:
            if are_rows:
                lines += _lay_out([_split_row(line) for line in block], width)
            else:
                for line in block:
                    lines += _wrap(line, width, "", "  " if line.startswith("- ") else "")
        return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrap(" ".join(text.split()), width, "", "")


def _columns() -> int:
    """Return the terminal's width without importing shutil, which starts slowly."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _join_lines(text: str) -> Iterator[str]:
    """One line for each paragraph, point, row and empty line."""
    whole = ""
    for line in text.rstrip("\n").split("\n"):
        if whole and _goes_on(whole, line):
            whole = f"{whole} {line.strip()}"
            continue
        if whole:
            yield whole
        if not line:
            yield line
        whole = line
    if whole:
        yield whole


def _goes_on(whole: str, line: str) -> bool:
    if not line or line.startswith("- "):
        return False
    if whole.startswith("  "):
        return line.startswith(" " * 8)
    return whole.startswith("- ") or not line.startswith("  ")


def _split_row(line: str) -> Row:
    term, *meaning = re.split(r" {2,}", line.strip(), maxsplit=1)
    return term, "".join(meaning)


def _lay_out(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield the rows with meanings in one column, or below terms wider than 3/5."""
    short = [len(term) for term, meaning in rows if meaning and len(term) <= width * 3 // 5]
    column = max(short, default=HANGING - 4) + 4
    for term, meaning in rows:
        if meaning and len(term) <= column - 4:
            yield from _wrap(meaning, width, f"  {term}".ljust(column), " " * column)
        else:
            yield from _wrap(term, width, "  ", " " * HANGING)
            yield from _wrap(meaning, width, " " * column, " " * column)


def _wrap(words: str, width: int, first: str, rest: str) -> list[str]:
    if not words:
        return [""] if not first else []
    return textwrap.wrap(
        words,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
