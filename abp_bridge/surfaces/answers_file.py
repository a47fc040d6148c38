"""A file of prepared answers as a surface, for tests and CI.

The first entry that matches a question answers it. Without one, or if it does not fit, the question
goes to the next surface with the reason.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
import anyio.to_thread

from abp_bridge.core import file, options
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_integer, as_number, parse_json
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, FieldType, Kind, Missing, Question
from abp_bridge.core.sanitize import label
from abp_bridge.core.surface import Surface
from abp_bridge.core.words import count_of, plural
from abp_bridge.errors import AbpBridgeError
from abp_bridge.session.context import NO_CONTEXT, AskContext
from abp_bridge.session.surface import SurfaceResponse, SurfaceUnsupportedError

MAX_FILE = 1_000_000  # bytes of an answers file: people write them, and a device has no end
REMEMBERED = 1_000  # questions: the surface lives as long as the bridge
SHAPE = (
    "a JSON list with one entry a question, as in "
    '["Ada", {"match": "season", "value": "autumn"}, "decline"]'
)

ALWAYS = "always"
NO_ENTRY = "no entry answers it"
RESULT = "result"
_ACTIONS = {"decline": Outcome.DECLINED, "cancel": Outcome.CANCELLED, "silence": None}
_GIVES = ("value", "content", "action", "file", RESULT)
_METHODS = {name: kind for kind in Kind for name in (kind.value, kind.value.rpartition("/")[2])} | {
    "sampling": Kind.SAMPLING
}


class AnswersError(AbpBridgeError):
    """An invalid answers file; the message says why and what is expected."""


@dataclass(slots=True)
class Entry:
    """One prepared answer, with the names of the file's members.

    Attributes:
        number: Its position in the file, from 1.
        action: How it answers; None for never.
        content: The answer by field name.
        value: The answer to the only field, instead of `content`.
        file: The path of a file to give, instead of `value`.
        result: A model's reply.
        match: Text that the question's message must contain.
        method: The kind of question.
        delay: Seconds before it answers.
        times: How often it may be used; None for always.
        uses: How often it was used.
    """

    number: int
    action: Outcome | None = Outcome.ACCEPTED
    content: JsonObject | None = None
    value: JsonValue = None
    file: str = ""
    result: JsonValue | Missing = MISSING
    match: re.Pattern[str] | None = None
    method: Kind | None = None
    delay: float = 0.0
    times: int | None = 1
    uses: int = 0

    @property
    def used_up(self) -> bool:
        return self.uses == self.times

    def matches(self, question: Question) -> bool:
        """Return whether it matches `question`; only an entry for models matches a model's
        question.
        """
        if self.method not in (None, question.kind) or (
            self.match is not None and not self.match.search(question.message)
        ):
            return False
        if question.kind is Kind.SAMPLING:
            return self.result is not MISSING or (
                self.action is not Outcome.ACCEPTED and self.method is Kind.SAMPLING
            )
        return self.result is MISSING

    async def fill(self, question: Question) -> JsonObject:
        """Return the content for `question` by field name; for a model's question, under `RESULT`.

        Raises:
            ValueError: The entry cannot answer it; the message holds no secret.
        """
        if self.result is not MISSING:
            return {RESULT: self.result}
        content = self.content
        if content is None:
            if (count := len(question.fields)) != 1:
                raise ValueError(
                    f"the question has {count} fields, so its answer must be given as content"
                )
            value = await self._load(question, self.file) if self.file else self.value
            content = {question.fields[0].name: value}
        content = {**content, **_read_consent(question, content)}
        if unknown := content.keys() - {each.name for each in question.fields}:
            raise ValueError(f"the question has no field {label(min(unknown), 80)!r}")
        if problems := validate_answer(question, content)[1]:
            # Without what was written: an entry may hold a secret, and be for another question.
            raise ValueError("; ".join(problem.partition(", not ")[0] for problem in problems))
        return content

    async def _load(self, question: Question, path: str) -> JsonValue:
        if question.fields[0].type is not FieldType.FILE:
            consent = ", but for consent to read one: its value is true or false"
            raise ValueError(f"it asks for no file{consent if question.consents else ''}")
        return await anyio.to_thread.run_sync(_load, path, abandon_on_cancel=True)


def _read_consent(question: Question, content: JsonObject) -> JsonObject:
    """Return true or false as the choice of a yes-or-no question; empty for another question."""
    if len(question.fields) != 1 or len(question.fields[0].choices) != 2:
        return {}
    [field] = question.fields
    safe, other = field.choices
    given = content.get(field.name)
    pairs = ((options.DISALLOW, options.ALLOW), ("No", options.DO), (options.DO_NOT, other.label))
    if not isinstance(given, bool) or (safe.label, other.label) not in pairs:
        return {}
    return {field.name: (other if given else safe).value}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the entry that answered it, or why none did.

    It holds no secret and no file content.
    """

    method: str
    message: str
    origin: str
    entry: int | None
    outcome: str
    content: JsonObject
    problem: str


class AnswersFile:
    """The entries of an answers file (`InputProvider`).

    `name` is how refusals call the file. `asked` holds the last `REMEMBERED` questions.
    """

    def __init__(self, entries: Sequence[Entry], name: str = "") -> None:
        self.asked: deque[Asked] = deque(maxlen=REMEMBERED)
        self._entries = list(entries)
        self._of = f" of {name}" if name else ""

    @property
    def unused(self) -> list[int]:
        """Return the numbers of unused entries."""
        return [entry.number for entry in self._entries if not entry.uses]

    def variants(self, calls: Sequence[str] = ()) -> Sequence[SurfaceVariant]:
        return [SurfaceVariant(Surface.MOCK)]

    async def prompt(
        self,
        question: Question,
        context: AskContext,
        variant: SurfaceVariant | None = None,
        problem: str = "",
    ) -> SurfaceResponse:
        """Answer with the first matching entry, after its delay; an entry of silence never returns.

        Raises:
            SurfaceUnsupportedError: No entry matches, or the one that matches does not fit.
        """
        message = label(question.message, 80)
        entry = self._take(question)
        if entry is None:
            spent = sum(each.used_up for each in self._entries)
            used_up = f"; {spent} of them are used up" if spent else ""
            self._refuse(
                question,
                None,
                f"none of the {len(self._entries)} entries{self._of} matches {message!r}"
                f" ({question.kind.value}){used_up}",
            )
        await anyio.sleep(entry.delay)
        content: JsonObject = {}
        if entry.action is Outcome.ACCEPTED:
            try:
                content = await entry.fill(question)
            except ValueError as why:
                reason = f"entry {entry.number}{self._of} does not answer {message!r}: {why}"
                self._refuse(question, entry, reason)
        outcome = entry.action
        self._record(question, entry, "silence" if outcome is None else outcome.value, content)
        while outcome is None:
            await anyio.sleep_forever()
        return SurfaceResponse(outcome, content, answered_by=AnsweredBy.SCRIPT)

    def _take(self, question: Question) -> Entry | None:
        for entry in self._entries:
            if not entry.used_up and entry.matches(question):
                entry.uses += 1
                return entry
        return None

    def _refuse(self, question: Question, entry: Entry | None, reason: str) -> NoReturn:
        self._record(question, entry, "refused", {}, reason)
        raise SurfaceUnsupportedError(reason, lasting=False)

    def _record(
        self,
        question: Question,
        entry: Entry | None,
        outcome: str,
        content: JsonObject,
        problem: str = "",
    ) -> None:
        hidden = {
            each.name for each in question.fields if each.secret or each.type is FieldType.FILE
        }
        self.asked.append(
            Asked(
                question.kind.value,
                question.message,
                question.origin,
                None if entry is None else entry.number,
                outcome,
                {name: "••••••" if name in hidden else value for name, value in content.items()},
                problem,
            )
        )


class Script:
    """An answers file in place of the user of a command."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._file = AnswersFile(entries)

    async def prompt(self, question: Question, context: AskContext = NO_CONTEXT) -> SurfaceResponse:
        """Answer with the first matching entry; if none fits, the response says why."""
        try:
            return await self._file.prompt(question, context)
        except SurfaceUnsupportedError as refusal:
            is_misfit = self._file.asked[-1].entry is not None
            return SurfaceResponse(
                Outcome.UNSUPPORTED,
                answered_by=AnsweredBy.NOBODY,
                reason=str(refusal) if is_misfit else NO_ENTRY,
            )

    @property
    def misfits(self) -> list[str]:
        """Return a sentence for each entry that matched but did not fit."""
        return [
            f"{each.problem[:1].upper()}{each.problem[1:]}."
            for each in self._file.asked
            if each.problem and each.entry is not None
        ]

    @property
    def unanswered(self) -> list[str]:
        """Return a sentence about the unanswered questions, if any."""
        asked = [
            label(each.message) for each in self._file.asked if each.problem and each.entry is None
        ]
        count = count_of(len(asked), "question")
        return [f"No entry answers {count}: {'; '.join(asked)}"] if asked else []

    @property
    def unused(self) -> list[str]:
        """Return a sentence about the unused entries, if any."""
        numbers = self._file.unused
        entries = plural(len(numbers), "entry", "entries")
        listed = ", ".join(map(str, numbers))
        return [f"No question used the {entries} {listed}."] if numbers else []


# --- from a file ----------------------------------------------------------------------------------


def read_answers(path: str) -> list[Entry]:
    """Read the answers file at `path`.

    Raises:
        AnswersError: It cannot be read or is invalid.
    """
    where = f"the answers file {label(path)}"
    try:
        with open(os.path.expanduser(path), "rb") as opened:
            data = opened.read(MAX_FILE + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise AnswersError(f"{where} cannot be read: {why}. It must be {SHAPE}.") from None
    if len(data) > MAX_FILE:
        raise AnswersError(f"{where} is larger than {MAX_FILE} bytes.")
    try:
        listed = parse_json(data)
    except ValueError as problem:
        raise AnswersError(f"{where} is not JSON: {label(problem)}. It must be {SHAPE}.") from None
    if not isinstance(listed, list):
        raise AnswersError(f"{where} holds no list. It must be {SHAPE}.")
    try:
        return decode_entries(listed, os.path.dirname(os.path.abspath(path)))
    except ValueError as problem:
        raise AnswersError(f"{where} cannot be used: {problem}.") from None


def decode_entries(listed: Sequence[JsonValue], folder: str = "") -> list[Entry]:
    """Decode the entries of an answers file (docs/asking.md); `folder` resolves relative paths.

    Raises:
        ValueError: An entry is invalid; the message has its number.
    """
    return [_entry(number, raw, folder) for number, raw in enumerate(listed, 1)]


def _entry(number: int, raw: JsonValue, folder: str) -> Entry:
    if raw in ("decline", "cancel"):
        return Entry(number, _ACTIONS[raw])
    if not isinstance(raw, Mapping):
        return Entry(number, value=raw)
    if unknown := raw.keys() - _MEMBERS.keys():
        raise ValueError(
            f"entry {number} has {label(min(unknown), 80)!r}, which means nothing here; known are"
            f" {', '.join(sorted(_MEMBERS))}"
        )
    given = [word for word in _GIVES if word in raw]
    if len(given) != 1:
        raise ValueError(
            f"entry {number} must have exactly one of {', '.join(_GIVES[:-1])} and {_GIVES[-1]}"
        )
    members: dict[str, Any] = {}
    for word, value in raw.items():
        try:
            members[word] = _MEMBERS[word](value, folder)
        except ValueError as problem:
            raise ValueError(f"the {word} of entry {number} {problem}") from None
    return Entry(number, **members)


def _pattern(given: JsonValue, folder: str) -> re.Pattern[str]:
    if not isinstance(given, str) or not given:
        raise ValueError(
            "must be a part of a question's message, or a regular expression between two /"
        )
    if len(given) < 3 or not given.startswith("/") or not given.endswith("/"):
        return re.compile(re.escape(given))
    try:
        return re.compile(given[1:-1])
    except re.error as problem:
        raise ValueError(f"is no regular expression: {label(problem)}") from None


def _seconds(given: JsonValue, folder: str) -> float:
    milliseconds = as_number(given)
    if milliseconds is None or milliseconds < 0:
        raise ValueError("must be a number of milliseconds")
    return milliseconds / 1000


def _times(given: JsonValue, folder: str) -> int | None:
    if given == ALWAYS:
        return None
    times = as_integer(given)
    if times is None or times < 1:
        raise ValueError(f"must be a whole number from 1 on, or {ALWAYS!r}")
    return times


def _content(given: JsonValue, folder: str) -> JsonObject:
    if not isinstance(given, Mapping):
        raise ValueError("must be an object with one member per field")
    return given


def _path(given: JsonValue, folder: str) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError("must be the name of a file, as seen from the answers file")
    path = os.path.join(folder, given)
    if not os.path.isfile(path):
        raise ValueError(f"names {label(path)}, which is no file")
    return path


def _as_given(given: JsonValue, folder: str) -> JsonValue:
    return given


def _one_of(words: Mapping[str, object], wanted: str) -> Callable[[JsonValue, str], object]:
    def decode_word(given: JsonValue, folder: str) -> object:
        if not isinstance(given, str) or given not in words:
            raise ValueError(f"must be {wanted}")
        return words[given]

    return decode_word


# What an entry may have, and its readers. A reader is given the value and the folder of the answers
# file, and raises ValueError with what it must be.
_METHOD_WORDS = f"one of {', '.join(kind.value for kind in Kind)}, or the last word of one"
_ACTION_WORDS = "'decline', 'cancel' or 'silence'; to accept, give content or a value"
_MEMBERS: dict[str, Callable[[JsonValue, str], object]] = {
    "match": _pattern,
    "method": _one_of(_METHODS, _METHOD_WORDS),
    "delay": _seconds,
    "times": _times,
    "action": _one_of(_ACTIONS, _ACTION_WORDS),
    "content": _content,
    "value": _as_given,
    RESULT: _as_given,
    "file": _path,
}


def _load(path: str) -> JsonValue:
    """Raises ValueError."""
    try:
        with open(path, "rb") as opened:
            content = opened.read(file.MAX_SIZE + 1)
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    return file.encode(file.File(content, file.guess_type(path), os.path.basename(path)))
