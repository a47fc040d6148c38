"""Answers written down before the questions: the person's answers file, and the demo's own script where there is no terminal.

Nothing here guesses: a question without an entry, or with one that does not fit it, is declined, and the remarks say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core import jsontext
from abp_bridge.core.question import MISSING, Outcome, Question, review
from abp_bridge.core.schema import Json
from abp_bridge.core.text import label
from abp_bridge.hosts.contract import Reply

MAX_FILE = 1_000_000
SHAPE = """a JSON list with one entry a question, as in ["Ada", {"match": "season", "value": "autumn"}, "decline"]"""

_OUTCOMES = {"accept": Outcome.ACCEPTED, "decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED}
_WORDS = {"match", "content", "value", "action"}


class AnswersError(Exception):
    """An answers file that cannot be used; the message says why, and what it must look like."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer: `content` by field name, or `value` for the only field. With a `match`, only for a message that holds it."""

    number: int
    outcome: Outcome = Outcome.ACCEPTED
    content: Mapping[str, Json] | None = None
    value: Json = MISSING
    match: str | None = None

    def fill(self, question: Question) -> Mapping[str, Json]:
        """The content for `question`. Raises ValueError when the entry cannot answer it."""
        content = self.content
        if content is None:
            if len(question.fields) != 1:
                raise ValueError(f"the question has {len(question.fields)} fields, so its answer must be given as content")
            content = {question.fields[0].name: self.value}
        if unknown := content.keys() - {each.name for each in question.fields}:
            raise ValueError(f"the question has no field {label(min(unknown), 80)!r}")
        if problems := review(question, content)[1]:
            raise ValueError("; ".join(problems))
        return content


def read_answers(path: str) -> list[Entry]:
    """The entries of an answers file. Raises AnswersError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise AnswersError(f"the answers file {label(path)} cannot be read: {why}. It must be {SHAPE}.") from None
    if len(data) > MAX_FILE:
        raise AnswersError(f"the answers file {label(path)} is larger than {MAX_FILE} bytes.")
    try:
        listed = jsontext.parse(data)
    except ValueError as problem:
        raise AnswersError(f"the answers file {label(path)} is not JSON: {label(problem)}. It must be {SHAPE}.") from None
    if not isinstance(listed, list):
        raise AnswersError(f"the answers file {label(path)} holds no list. It must be {SHAPE}.")
    try:
        return decode_entries(listed)
    except ValueError as problem:
        raise AnswersError(f"the answers file {label(path)} cannot be used: {problem}.") from None


def decode_entries(listed: Sequence[Json]) -> list[Entry]:
    """`"decline"`, `"cancel"`, a bare value, or an object with one of `content`, `value`, `action` and perhaps `match`. Raises ValueError."""
    return [_entry(number, raw) for number, raw in enumerate(listed, 1)]


def _entry(number: int, raw: Json) -> Entry:
    if raw in ("decline", "cancel"):
        return Entry(number, _OUTCOMES[raw])
    if not isinstance(raw, Mapping):
        return Entry(number, value=raw)
    if unknown := raw.keys() - _WORDS:
        raise ValueError(f"entry {number} has {label(min(unknown), 80)!r}, which means nothing here; known are {', '.join(sorted(_WORDS))}")
    match = raw.get("match")
    if match is not None and not (isinstance(match, str) and match):
        raise ValueError(f"the match of entry {number} must be a part of a question's message")
    given = raw.keys() - {"match"}
    if len(given) != 1:
        raise ValueError(f"entry {number} must have exactly one of content, value and action")
    if "value" in raw:
        return Entry(number, value=raw["value"], match=match)
    if "content" in raw:
        if not isinstance(raw["content"], Mapping):
            raise ValueError(f"the content of entry {number} must be an object with one member per field")
        return Entry(number, content=raw["content"], match=match)
    if raw["action"] not in ("decline", "cancel"):
        raise ValueError(f"the action of entry {number} must be 'decline' or 'cancel'; to accept, give content or a value")
    return Entry(number, _OUTCOMES[raw["action"]], match=match)


@dataclass(slots=True)
class Script:
    """Answers questions with entries, each used once: the first whose `match` is in the message, else the next one without a `match`."""

    entries: list[Entry]
    misfits: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)

    async def ask(self, question: Question) -> Reply:
        """Accepted only with content that fits the question."""
        entry = self._take(question.message)
        if entry is None:
            self.unanswered.append(label(question.message, 80))
            return Reply(Outcome.DECLINED)
        if entry.outcome is not Outcome.ACCEPTED:
            return Reply(entry.outcome)
        try:
            return Reply(Outcome.ACCEPTED, entry.fill(question))
        except ValueError as problem:
            self.misfits.append(f"Entry {entry.number} does not answer {label(question.message, 80)!r}: {problem}. Declined.")
            return Reply(Outcome.DECLINED)

    def account(self) -> list[str]:
        """What did not go as written, a sentence each."""
        said = list(self.misfits)
        if self.unanswered:
            said.append(f"No answer was left for {len(self.unanswered)} questions, which were declined: {'; '.join(self.unanswered)}")
        if self.entries:
            said.append(f"No question used the entries {', '.join(str(entry.number) for entry in self.entries)}.")
        return said

    def _take(self, message: str) -> Entry | None:
        named = (entry for entry in self.entries if entry.match is not None and entry.match in message)
        entry = next(named, None) or next((entry for entry in self.entries if entry.match is None), None)
        if entry is not None:
            self.entries.remove(entry)
        return entry


# A no, a decline and a cancel too: they are answers that a person gives.
BUILT_IN: tuple[Json, ...] = (
    {"match": "Whose trip", "value": "Ada Example"},
    {"match": "ticket be sent", "value": "ada@example.org"},
    {"match": "Sea or mountains", "value": "sea"},
    {"match": "season", "value": "autumn"},
    {"match": "month", "value": "09"},
    {"match": "How many travellers", "value": 2},
    {"match": "cost at most", "action": "cancel"},
    {"match": "By train", "value": True},
    {"match": "Which class", "value": "second"},
    {"match": "Who should be called", "content": {"name": "Grace Example"}},
    {"match": "Window or aisle", "action": "decline"},
    {"match": "Book it", "value": True},
    {"match": "Delete the draft", "value": False},
)
