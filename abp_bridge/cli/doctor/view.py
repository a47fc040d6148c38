"""How `abp-bridge doctor` tells what it found: lines for people, one object for programs, and on a
terminal what takes long.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from abp_bridge.core.json_value import Json
from abp_bridge.core.sanitize import reveal
from abp_bridge.setup.doctor.finding import Section, Verdict
from abp_bridge.surfaces.terminal.rendering import Style, hanging_lines

COLUMN = 13  # characters of a verdict
_STYLES = {
    Verdict.WORKS: "good",
    Verdict.WARNING: "warn",
    Verdict.POLICY: "warn",
    Verdict.NOTE: "dim",
    Verdict.NOT_TRIED: "dim",
}


def lines(section: Section, paint: Style) -> Iterator[str]:
    """A section as lines for people."""
    yield paint("strong", section.title)
    for each in section.findings:
        verdict = each.verdict
        shown = verdict.word.upper() if verdict.fails else verdict.word
        style = "bad" if verdict.fails else _STYLES[verdict]
        yield from hanging_lines(paint(style, shown.ljust(COLUMN)), _shown(each.says), COLUMN)
        if each.cure:
            yield from hanging_lines(" " * COLUMN, f"Next: {_shown(each.cure)}", COLUMN)


def _shown(words: str) -> str:
    """On one line, and without what would repaint a terminal: it may be from a stranger's file."""
    return reveal(words.replace("\n", " "))


def summary(sections: Sequence[Section]) -> str:
    """How many lines have which verdict."""
    counts = Counter(finding.verdict for each in sections for finding in each.findings)
    counted = [f"{counts[each]} {each.word}" for each in Verdict if counts[each]]
    return f"{', '.join(counted) or 'No host has a configuration here'}."


def members(section: Section) -> dict[str, Json]:
    """A section as JSON for programs."""
    findings: list[Json] = [
        {
            "check": each.check,
            "verdict": each.verdict.value,
            "failed": each.verdict.fails,
            "says": each.says,
            "cure": each.cure,
            **({} if each.seconds is None else {"seconds": round(each.seconds, 3)}),
        }
        for each in section.findings
    ]
    return {"name": section.name, "title": section.title, "findings": findings}


@contextmanager
def progress(words: str) -> Iterator[None]:
    """What takes long is said on a terminal's stderr, while it does."""
    if not os.isatty(2):
        yield
        return
    sys.stderr.write(f"\r\x1b[2K{words} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
