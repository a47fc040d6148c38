"""Answers written down before the questions: a file of entries as a surface, for tests and CI.

Nothing here guesses. The first entry that matches a question answers it, or nothing does: a
question without an entry, or with one that does not fit it, is refused with the reason, and goes to
the next surface.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import anyio
import anyio.to_thread

from abp_bridge.core import file, json_text
from abp_bridge.core.event import Observer, no_observer
from abp_bridge.core.json_value import Json
from abp_bridge.core.matrix import Surface, SurfaceVariant
from abp_bridge.core.question import MISSING, FieldType, Kind, Outcome, Question, validate_answer
from abp_bridge.core.sanitize import label
from abp_bridge.errors import AbpBridgeError
from abp_bridge.interfaces.surface import SurfaceResponse, SurfaceUnsupportedError

MAX_FILE = 1_000_000
MAX_DELAY = 3_600_000  # milliseconds
MAX_TIMES = 1_000_000
REMEMBERED = 1_000
READ_LIMIT = 10.0  # seconds
SHAPE = (
    "a JSON list with one entry a question, as in "
    '["Ada", {"match": "season", "value": "autumn"}, "decline"]'
)

ALWAYS = "always"
RESULT = "result"
_SILENCE = "silence"
_ACTIONS = {"decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED, _SILENCE: None}
_GIVES = ("value", "content", "action", "file", RESULT)
_WORDS = (*_GIVES, "match", "method", "delay", "times")
_METHODS = {name: kind for kind in Kind for name in (kind.value, kind.value.rpartition("/")[2])} | {
    "sampling": Kind.SAMPLING
}


class AnswersError(AbpBridgeError):
    """An answers file that cannot be used; the message says why, and what it must look like."""


@dataclass(slots=True)
class Entry:
    """One answer: what it is for, and one of what an answer can be.

    `outcome` None never answers; `left` is how often it may still be used.
    """

    number: int
    outcome: Outcome | None = Outcome.ACCEPTED
    content: Mapping[str, Json] | None = None
    value: Json = MISSING
    path: str | None = None
    result: Json = MISSING
    match: re.Pattern[str] | None = None
    method: Kind | None = None
    delay: float = 0.0  # seconds
    left: int | None = 1  # None: always

    def matches(self, question: Question) -> bool:
        """Whether it is for this question.

        What a model is asked is only answered by what is written for that.
        """
        if self.method not in (None, question.kind) or (
            self.match is not None and not self.match.search(question.message)
        ):
            return False
        if question.kind is Kind.SAMPLING:
            return self.result is not MISSING or (
                self.outcome is not Outcome.ACCEPTED and self.method is Kind.SAMPLING
            )
        return self.result is MISSING

    async def fill(self, question: Question) -> Mapping[str, Json]:
        """The content for `question`. Raises ValueError when the entry cannot answer it."""
        if question.kind is Kind.SAMPLING:
            return {RESULT: self.result}
        content = self.content
        if content is None:
            if len(question.fields) != 1:
                raise ValueError(
                    f"the question has {len(question.fields)} fields, so its answer must be given"
                    " as content"
                )
            content = {
                question.fields[0].name: (
                    self.value if self.path is None else await self._load(question)
                )
            }
        if unknown := content.keys() - {each.name for each in question.fields}:
            raise ValueError(f"the question has no field {label(min(unknown), 80)!r}")
        if problems := validate_answer(question, content)[1]:
            # Without what was written: an entry may hold a secret, and be for another question.
            raise ValueError("; ".join(problem.partition(", not ")[0] for problem in problems))
        return content

    async def _load(self, question: Question) -> Json:
        assert self.path is not None
        if question.fields[0].type is not FieldType.FILE:
            raise ValueError(
                "it asks for no file"
                + (
                    ", but for leave to read one: its value is true or false"
                    if question.consents
                    else ""
                )
            )
        with anyio.move_on_after(READ_LIMIT):
            return await anyio.to_thread.run_sync(_load, self.path, abandon_on_cancel=True)
        raise ValueError(f"{self.path} could not be read within {READ_LIMIT:g} s")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, and how it was answered: by which entry, or why by none.

    Holds no secret, and no file's content.
    """

    method: str
    message: str
    origin: str
    entry: int | None
    outcome: str
    content: Mapping[str, Json] = field(default_factory=dict)
    problem: str = ""


class AnswersFile:
    """Implements `InputProvider` with entries, each used as often as it says, the first that
    matches first.
    """

    def __init__(self, entries: Sequence[Entry], name: str = "") -> None:
        self.asked: deque[Asked] = deque(maxlen=REMEMBERED)
        self._entries = list(entries)
        self._used: set[int] = set()
        self._of = f" of {name}" if name else ""

    @property
    def unused(self) -> list[int]:
        """The numbers of the entries that no question used."""
        return [entry.number for entry in self._entries if entry.number not in self._used]

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        """See `InputProvider.columns`."""
        return [SurfaceVariant(Surface.MOCK)]

    async def ask(
        self,
        question: Question,
        variant: SurfaceVariant | None = None,
        problem: str = "",
        observe: Observer = no_observer,
    ) -> SurfaceResponse:
        """See `InputProvider.ask`. Accepted only with content that fits the question."""
        entry = self._take(question)
        if entry is None:
            spent = sum(each.left == 0 for each in self._entries)
            reason = (
                f"none of the {len(self._entries)} entries{self._of} matches"
                f" {label(question.message, 80)!r} ({question.kind.value})"
            )
            self._refuse(
                question, None, reason + (f"; {spent} of them are used up" if spent else "")
            )
        await anyio.sleep(entry.delay)
        outcome = entry.outcome
        if outcome is not Outcome.ACCEPTED:
            self._record(question, entry, _SILENCE if outcome is None else outcome.value)
            while outcome is None:
                await anyio.sleep_forever()
            return SurfaceResponse(outcome)
        try:
            content = await entry.fill(question)
        except ValueError as why:
            self._refuse(
                question,
                entry,
                f"entry {entry.number}{self._of} does not answer {label(question.message, 80)!r}:"
                f" {why}",
            )
        self._record(question, entry, outcome.value, content)
        return SurfaceResponse(Outcome.ACCEPTED, content)

    def _take(self, question: Question) -> Entry | None:
        entry = next(
            (each for each in self._entries if each.left != 0 and each.matches(question)), None
        )
        if entry is not None:
            self._used.add(entry.number)
            if entry.left is not None:
                entry.left -= 1
        return entry

    def _refuse(self, question: Question, entry: Entry | None, reason: str) -> NoReturn:
        self._record(question, entry, "refused", problem=reason)
        raise SurfaceUnsupportedError(reason, lasting=False)

    def _record(
        self,
        question: Question,
        entry: Entry | None,
        outcome: str,
        content: Mapping[str, Json] | None = None,
        problem: str = "",
    ) -> None:
        hidden = {
            each.name for each in question.fields if each.secret or each.type is FieldType.FILE
        }
        shown = {
            name: "••••••" if name in hidden else value for name, value in (content or {}).items()
        }
        number = None if entry is None else entry.number
        self.asked.append(
            Asked(
                question.kind.value,
                question.message,
                question.origin,
                number,
                outcome,
                shown,
                problem,
            )
        )


# --- from a file ----------------------------------------------------------------------------------


def read_answers(path: str) -> list[Entry]:
    """The entries of an answers file. Raises AnswersError."""
    try:
        with open(path, "rb") as opened:
            data = opened.read(MAX_FILE + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise AnswersError(
            f"the answers file {label(path)} cannot be read: {why}. It must be {SHAPE}."
        ) from None
    if len(data) > MAX_FILE:
        raise AnswersError(f"the answers file {label(path)} is larger than {MAX_FILE} bytes.")
    try:
        listed = json_text.parse(data)
    except ValueError as problem:
        raise AnswersError(
            f"the answers file {label(path)} is not JSON: {label(problem)}. It must be {SHAPE}."
        ) from None
    if not isinstance(listed, list):
        raise AnswersError(f"the answers file {label(path)} holds no list. It must be {SHAPE}.")
    try:
        return decode_entries(listed, os.path.dirname(os.path.abspath(path)))
    except ValueError as problem:
        raise AnswersError(f"the answers file {label(path)} cannot be used: {problem}.") from None


def decode_entries(listed: Sequence[Json], folder: str = "") -> list[Entry]:
    """`"decline"`, `"cancel"`, a bare value, or an object: docs/asking.md has its members.

    Files are found from `folder`. Raises ValueError.
    """
    return [_entry(number, raw, folder) for number, raw in enumerate(listed, 1)]


def _entry(number: int, raw: Json, folder: str) -> Entry:
    if raw in ("decline", "cancel"):
        return Entry(number, _ACTIONS[raw])
    if not isinstance(raw, Mapping):
        return Entry(number, value=raw)
    if unknown := raw.keys() - set(_WORDS):
        raise ValueError(
            f"entry {number} has {label(min(unknown), 80)!r}, which means nothing here; known are"
            f" {', '.join(sorted(_WORDS))}"
        )
    given = [word for word in _GIVES if word in raw]
    if len(given) != 1:
        raise ValueError(
            f"entry {number} must have exactly one of {', '.join(_GIVES[:-1])} and {_GIVES[-1]}"
        )
    entry = Entry(number)
    for word in raw:
        try:
            _READERS[word](entry, raw[word], folder)
        except ValueError as problem:
            raise ValueError(f"the {word} of entry {number} {problem}") from None
    return entry


def _read_match(entry: Entry, given: Json, folder: str) -> None:
    if not isinstance(given, str) or not given:
        raise ValueError(
            "must be a part of a question's message, or a regular expression between two /"
        )
    if len(given) < 3 or not given.startswith("/") or not given.endswith("/"):
        entry.match = re.compile(re.escape(given))
        return
    try:
        entry.match = re.compile(given[1:-1])
    except re.error as problem:
        raise ValueError(f"is no regular expression: {label(problem)}") from None


def _read_method(entry: Entry, given: Json, folder: str) -> None:
    if not isinstance(given, str) or given not in _METHODS:
        raise ValueError(
            f"must be one of {', '.join(kind.value for kind in Kind)}, or the last word of one"
        )
    entry.method = _METHODS[given]


def _read_delay(entry: Entry, given: Json, folder: str) -> None:
    if (
        isinstance(given, bool)
        or not isinstance(given, (int, float))
        or not 0 <= given <= MAX_DELAY
    ):
        raise ValueError(f"must be a number of milliseconds, at most {MAX_DELAY}")
    entry.delay = given / 1000


def _read_times(entry: Entry, given: Json, folder: str) -> None:
    if given != ALWAYS and (
        isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_TIMES
    ):
        raise ValueError(f"must be a whole number from 1 to {MAX_TIMES}, or {ALWAYS!r}")
    entry.left = None if given == ALWAYS else given


def _read_action(entry: Entry, given: Json, folder: str) -> None:
    if not isinstance(given, str) or given not in _ACTIONS:
        raise ValueError(
            "must be 'decline', 'cancel' or 'silence'; to accept, give content or a value"
        )
    entry.outcome = _ACTIONS[given]


def _read_content(entry: Entry, given: Json, folder: str) -> None:
    if not isinstance(given, Mapping):
        raise ValueError("must be an object with one member per field")
    entry.content = given


def _read_value(entry: Entry, given: Json, folder: str) -> None:
    entry.value = given


def _read_result(entry: Entry, given: Json, folder: str) -> None:
    entry.result = given


def _read_file(entry: Entry, given: Json, folder: str) -> None:
    if not isinstance(given, str) or not given:
        raise ValueError("must be the name of a file, as seen from the answers file")
    entry.path = os.path.join(folder, given)
    try:
        if os.path.isfile(entry.path):
            return
    except ValueError:
        pass
    raise ValueError(f"names {label(entry.path)}, which is no file")


_READERS: dict[str, Callable[[Entry, Json, str], None]] = {
    "match": _read_match,
    "method": _read_method,
    "delay": _read_delay,
    "times": _read_times,
    "action": _read_action,
    "content": _read_content,
    "value": _read_value,
    RESULT: _read_result,
    "file": _read_file,
}


def _load(path: str) -> Json:
    """Raises ValueError."""
    try:
        with open(path, "rb") as opened:
            content = opened.read(file.MAX_SIZE + 1)
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    return file.encode(file.File(content, file.guess_type(path), os.path.basename(path)))
