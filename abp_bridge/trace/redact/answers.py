"""Which answers are secrets: those to questions that ask for one, whoever asked and whoever
answers. Blanked before they are written down. Pure.

An answer is known by what it answers: the id of its request, or in MCP 2026-07-28 the name that its
question has in a result. Where that is not sure, because two questions have one id, or because
nothing was asked that it answers, it is a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_object,
    as_text,
    leaves,
    member_names,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.redact.texts import SECRET
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.trace.format import Entry, is_request, is_response
from abp_bridge.trace.redact.structure import with_distinct_names, without_suggestions

Key = tuple[JsonValue, ...]  # a party, whether the bridge asked it, and what the question is

MAX_OPEN = 4_000  # requests that are kept in mind; an answer to an older one is taken for a secret
_VALUES = ("value", "confirmed", "selected", "result", "content", "data")
_MEMBERS = frozenset((*_VALUES, "mimeType", "encoding", "filename"))
_OUTCOMES = ("accept", "decline", "cancel", *(each.value for each in Outcome))
_RESULT = ("metadata", "_meta", "inputRequests", "requestState", "resultType")


class _Part(Enum):
    """A part of an answer: what was answered, and words about it, have none of their own."""

    MESSAGE = auto()
    RESULT = auto()
    ERROR = auto()
    CONTENT = auto()
    WORDS = auto()


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which members of a part are nobody's secret, and what the others are."""

    is_public: Callable[[str, JsonValue], bool]
    parts: Mapping[str, _Part] = field(default_factory=dict)
    rest: _Part = _Part.CONTENT
    public_if_ours: tuple[str, ...] = ()  # where the bridge itself said it


_RULES = {
    _Part.MESSAGE: _Rule(
        lambda name, value: name in ("jsonrpc", "id", "type", "timestamp") or value is None,
        {"result": _Part.RESULT, "payload": _Part.RESULT, "error": _Part.ERROR},
    ),
    _Part.RESULT: _Rule(
        lambda name, value: (
            value is None
            or isinstance(value, bool)
            or name in _RESULT
            or (name in ("action", "outcome") and value in _OUTCOMES)
        ),
        {"error": _Part.ERROR},
        public_if_ours=("error",),
    ),
    _Part.ERROR: _Rule(
        lambda name, value: (
            name == "code"
            and (isinstance(value, int) or (isinstance(value, str) and value.isupper()))
        ),
        rest=_Part.WORDS,
    ),
}


@dataclass(slots=True)
class _Asked:
    """What was asked under one key: how often, and the questions for a secret among it."""

    unanswered: int = 0
    questions: list[Question] = field(default_factory=list)


class SecretAnswers:
    """What one recording knows of open questions for secrets."""

    def __init__(self, learn: Callable[[JsonValue], None]) -> None:
        """`learn` hears of each secret that is found."""
        self._learn = learn
        self._open: dict[Key, _Asked] = {}  # the oldest first
        self._askers: set[Key] = set()  # who was ever asked for a secret

    def without_secrets(self, entry: Entry) -> JsonValue:
        """The message of `entry` without secrets that answer a question, or that one suggests."""
        if isinstance(entry.value, list):
            return [self._message(each, entry) for each in entry.value]
        return self._message(entry.value, entry)

    def may_be_answer(self, entry: Entry) -> bool:
        """Whether a line that nobody can read may answer a question for a secret."""
        return (entry.party, not entry.ours) in self._askers

    def _message(self, message: JsonValue, entry: Entry) -> JsonValue:
        if not isinstance(message, Mapping):
            return message
        read = from_envelope(message) if is_envelope(message) and not entry.ours else message
        question = secret_question(read)
        is_question = question is not None and str(read["method"]).startswith("elicitation/")
        if is_request(read) or (is_question and "id" not in read):
            self._on_question((entry.party, entry.ours, _id(read)), question)
            inside = "payload" if "payload" in message else "params"
            if question is not None:  # what there is to choose from stays, or nobody could choose
                message = {**message, inside: without_suggestions(message[inside])}
            return self._without_responses(message, entry)
        if read.get("type") == "elicitation/response" or is_response(read):
            result = as_object(read.get("result"))
            for name, request in as_object(result.get("inputRequests")).items():
                state = as_text(result.get("requestState"))
                within = secret_question(as_object(request))
                self._on_question((entry.party, entry.ours, state, name), within)
            key: Key = (entry.party, not entry.ours, _id(message))
            answer = self._without_secrets(message, _Part.MESSAGE, key, ours=entry.ours)
            if key in self._open:
                self._open[key].unanswered -= 1
                if not self._open[key].unanswered:
                    del self._open[key]
            return answer
        return self._without_responses(message, entry)

    # --- what is asked ---

    def _on_question(self, key: Key, question: Question | None) -> None:
        asked = self._open.setdefault(key, _Asked())
        asked.unanswered += 1
        if question is not None:
            asked.questions.append(question)
            self._askers.add(key[:2])
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    # --- what is answered ---

    def _without_secrets(
        self, answer: JsonValue, part: _Part, key: Key, *, ours: bool = False
    ) -> JsonValue:
        """`answer` as it is, if it answers what is no secret, or nobody was asked for one."""
        asked = self._open.get(key)
        questions = asked.questions if asked else []
        is_public = not questions if asked else key[:2] not in self._askers
        return answer if is_public else self._hide(answer, part, questions, ours=ours)

    def _hide(
        self, value: JsonValue, part: _Part, questions: Sequence[Question], *, ours: bool = False
    ) -> JsonValue:
        """A part of an answer: of a result what is no secret stays, of an error its code.

        An error may say what was wrong with the value; the bridge's own in a result do not.
        """
        if part is _Part.WORDS:
            return _flat(value)
        rule = _RULES.get(part)
        if rule is None or not isinstance(value, Mapping):
            return self._content(value, questions)
        return {
            name: each
            if rule.is_public(name, each) or (ours and name in rule.public_if_ours)
            else self._hide(each, rule.parts.get(name, rule.rest), questions, ours=ours)
            for name, each in value.items()
        }

    def _content(self, content: JsonValue, questions: Sequence[Question]) -> JsonValue:
        """What was answered: the names of fields stay, the rest is the person's, the names in it
        too.
        """
        given = [secrets_of(each, content) for each in questions] if questions else [content]
        names = [name for name in member_names(given) if name not in _MEMBERS]
        self._learn([*leaves(given), *names])
        if not isinstance(content, Mapping):
            return _flat(content)
        fields = _MEMBERS.union(each.name for question in questions for each in question.fields)
        return with_distinct_names(
            (name if name in fields else SECRET, _flat(each)) for name, each in content.items()
        )

    def _without_responses(self, message: JsonObject, entry: Entry) -> JsonValue:
        """MCP 2026-07-28: answers in the request that comes back. They may come again."""
        params = as_object(message.get("params"))
        responses = params.get("inputResponses")
        if not isinstance(responses, Mapping):
            return message
        asked = (entry.party, not entry.ours, as_text(params.get("requestState")))
        kept = {
            name: self._without_secrets(each, _Part.RESULT, (*asked, name))
            for name, each in responses.items()
        }
        return {**message, "params": {**params, "inputResponses": kept}}


def secret_question(message: JsonObject) -> Question | None:
    """The question that this request asks, if its answer is a secret; else None.

    Read as the bridge reads it: by format, by name and by wording.
    """
    method, params = message.get("method"), message.get("params")
    if method == "elicitation/create" and isinstance(params, Mapping):
        method = "elicitation/input"
        params = {"prompt": params.get("message"), "schema": params.get("requestedSchema")}
    try:
        question = decode_question({"method": method, "params": params}, id="", origin="")
    except RemoteProtocolError:
        return None
    return question if question.secret else None


def secrets_of(question: Question, answer: JsonValue) -> list[JsonValue]:
    """What in an answer is secret: all but the fields that are none, and what was chosen, which
    stands in the question.
    """
    fields = {field.name: field for field in question.fields}
    is_wrapped = set(as_object(answer)) == {"value"} and (question.wrapped or "value" not in fields)
    given = as_object(answer)["value"] if is_wrapped else answer
    if not isinstance(given, Mapping) or question.wrapped:
        return [] if len(fields) == 1 and question.fields[0].choices else [given]
    public = {
        name
        for name, field in fields.items()
        if (question.secret and not field.secret) or field.choices
    }
    return [each for name, each in given.items() if name not in public]


def _flat(value: JsonValue) -> JsonValue:
    return value if value is None or value == "" else SECRET


def _id(message: JsonObject) -> JsonValue:
    id = message.get("id")
    return id if isinstance(id, (str, int, float)) else None
