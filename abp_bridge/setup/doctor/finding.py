"""A line of `abp-bridge doctor`: its verdict, its words, and the next step. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What is said of one thing; the value is what programs read."""

    WORKS = "works"
    UNSUPPORTED = "unsupported"
    REFUSED = "advertised but refused by policy"
    UNANSWERED = "advertised and unanswered"
    POLICY = "answered by a policy"
    FAILS = "fails"
    WARNING = "warning"
    NOTE = "note"
    NOT_TRIED = "not tried"

    @property
    def fails(self) -> bool:
        """Whether something has to be done."""
        return self in _FAILING

    @property
    def word(self) -> str:
        """The verdict as a line for people has it."""
        return _WORDS.get(self, self.value)


_FAILING = (Verdict.UNSUPPORTED, Verdict.REFUSED, Verdict.UNANSWERED, Verdict.FAILS)
_WORDS = {
    Verdict.REFUSED: "refused",
    Verdict.UNANSWERED: "unanswered",
    Verdict.POLICY: "by policy",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: What was looked at, in a word or two: of a trap its name.
        verdict: What came of it.
        says: In a sentence.
        cure: The next step, as a sentence; empty where there is none.
        seconds: How long it took, where that matters.
    """

    check: str
    verdict: Verdict
    says: str
    cure: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The lines about one thing.

    Attributes:
        name: `machine`, a host's name, or an app's target.
        title: For people.
        findings: The lines.
    """

    name: str
    title: str
    findings: tuple[Finding, ...]

    @property
    def fails(self) -> bool:
        """Whether one of them does."""
        return any(each.verdict.fails for each in self.findings)
