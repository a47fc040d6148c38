"""Which answers are secrets: those to questions that ask for one, whoever asked and whoever
answers. Blanked before they are written down. Pure.

An answer is known by what it answers: the id of its request, or in MCP 2026-07-28 the name that its
question has in a result. Where that is not sure, because two questions have one id, or because
nothing was asked that it answers, it is a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, member_names
from abp_bridge.core.question import Outcome, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.trace.format import Entry, is_request, is_response
from abp_bridge.trace.redact.redactor import RedactorFullError
from abp_bridge.trace.redact.structure import (
    SECRET,
    blank,
    leaves,
    without_suggestions,
)

Asker = tuple[str, bool]  # a party, and whether the bridge asked it (or it asked the bridge)
Key = tuple[JsonValue, ...]  # an asker, and what its question is known by

MAX_OPEN = 4_000  # requests that are kept in mind
_ENVELOPE = ("jsonrpc", "id", "type", "timestamp")
_PUBLIC = ("metadata", "_meta", "inputRequests", "requestState", "resultType")
_OUTCOMES = {"accept", "decline", "cancel", *(each.value for each in Outcome)}
_VALUES = ("value", "confirmed", "selected", "result", "content", "data")
_MEMBERS = frozenset((*_VALUES, "mimeType", "encoding", "filename"))


class SecretAnswers:
    """What one recording knows of open questions for secrets."""

    def __init__(self, learn: Callable[[JsonValue], None]) -> None:
        """`learn` hears of each secret that is found."""
        self._learn = learn
        self._secret: dict[Key, list[Question]] = {}  # by what will answer them
        self._open: Counter[Key] = Counter()  # requests without an answer, the oldest first
        self._asked: set[Asker] = set()  # who was ever asked for a secret
        self._mixed: set[Key] = set()  # keys that two requests had at the same time

    def without_secrets(self, entry: Entry) -> JsonValue:
        """The message of `entry` without the secrets that it answers questions with, or suggests.

        Raises:
            RedactorFullError: too many questions for secrets are open.
        """
        if isinstance(entry.value, list):
            return [self._message(each, entry) for each in entry.value]
        return self._message(entry.value, entry)

    def may_be_answer(self, entry: Entry) -> bool:
        """Whether a line that nobody can read may answer a question for a secret."""
        asker = (entry.party, not entry.ours)
        return any(key[:2] == asker and key in self._open for key in self._secret)

    def _message(self, message: JsonValue, entry: Entry) -> JsonValue:
        if not isinstance(message, Mapping):
            return message
        read = from_envelope(message) if is_envelope(message) and not entry.ours else message
        question = secret_question(read)
        is_question = question is not None and str(read["method"]).startswith("elicitation/")
        if is_request(read) or (is_question and "id" not in read):
            self._on_question((entry.party, entry.ours, _id(read.get("id"))), question)
            return self._without_responses(without_suggested(message, question), entry)
        if read.get("type") == "elicitation/response" or is_response(read):
            self._on_result_questions(entry, read.get("result"))
            return self._without_answer(message, entry)
        return self._without_responses(message, entry)

    # --- what is asked ---

    def _on_question(self, key: Key, question: Question | None) -> None:
        if self._open[key]:
            self._mixed.add(key)
        elif question is None and key not in self._mixed:
            self._secret.pop(key, None)  # the id is used again, for something else
        self._open[key] += 1
        if question is not None:
            if len(self._secret) >= MAX_OPEN:
                raise RedactorFullError
            self._secret.setdefault(key, []).append(question)
            self._asked.add((str(key[0]), key[1] is True))
        if len(self._open) > MAX_OPEN:  # who was not answered for so long will not be
            del self._open[next(iter(self._open))]

    def _questions_for(self, entry: Entry, *name: JsonValue, known: bool) -> list[Question] | None:
        """The questions for secrets that this answers; none if nobody knows; None: it is public."""
        asker = (entry.party, not entry.ours)
        questions = self._secret.get((*asker, *name))
        if questions is None and (known or asker not in self._asked):
            return None
        return questions or []

    # --- what is answered ---

    def _without_answer(self, message: JsonObject, entry: Entry) -> JsonValue:
        """Of a result what is no secret stays, of an error its code."""
        id = _id(message.get("id"))
        key: Key = (entry.party, not entry.ours, id)
        known = self._open.pop(key, 0)
        if known > 1:
            self._open[key] = known - 1
        questions = self._questions_for(entry, id, known=known > 0)
        if questions is None:
            return message
        result = partial(self._result, questions, ours=entry.ours)
        readers: dict[str, Callable[[JsonValue], JsonValue]]
        readers = {"error": self._error, "result": result, "payload": result}
        return {
            name: value
            if name in _ENVELOPE or value is None
            else readers.get(name, self._secretly)(value)
            for name, value in message.items()
        }

    def _error(self, error: JsonValue) -> JsonValue:
        """It may say what was wrong with the value."""
        if not isinstance(error, Mapping):
            return self._secretly(error)
        code = error.get("code")
        public = isinstance(code, int) or (isinstance(code, str) and code.isupper())
        return {
            name: code if name == "code" and public else _flat_or_blank(each)
            for name, each in error.items()
        }

    def _result(
        self, questions: Sequence[Question], result: JsonValue, *, ours: bool = False
    ) -> JsonValue:
        """The bridge's own errors quote nobody, and stay."""
        if not isinstance(result, Mapping):
            return self._secretly(result)
        return {
            name: value
            if _is_public(name, value) or (name == "error" and ours)
            else self._error(value)
            if name == "error"
            else self._content(questions, value)
            for name, value in result.items()
        }

    def _content(self, questions: Sequence[Question], content: JsonValue) -> JsonValue:
        """What was answered.

        The names of fields stay; the rest is the person's, the names in it too.
        """
        secrets = [secret for question in questions for secret in secrets_of(question, content)]
        for secret in secrets if questions else [content]:
            self._learn_with_names(secret)
        if not isinstance(content, Mapping):
            return _flat_or_blank(content)
        fields = _MEMBERS | {field.name for question in questions for field in question.fields}
        return {name if name in fields else SECRET: _flat(each) for name, each in content.items()}

    def _secretly(self, value: JsonValue) -> JsonValue:
        self._learn_with_names(value)
        return _flat_or_blank(value)

    def _learn_with_names(self, value: JsonValue) -> None:
        """In what a person typed, the names inside are the person's too."""
        self._learn(
            [*leaves(value), *(name for name in member_names(value) if name not in _MEMBERS)]
        )

    # --- MCP 2026-07-28: questions in a result, and answers in the request that comes back ---

    def _on_result_questions(self, entry: Entry, result: JsonValue) -> None:
        for name, request in as_object(as_object(result).get("inputRequests")).items():
            key = (entry.party, entry.ours, _state(result), name)
            self._on_question(key, secret_question(as_object(request)))

    def _without_responses(self, message: JsonObject, entry: Entry) -> JsonValue:
        params = as_object(message.get("params"))
        responses = params.get("inputResponses")
        if not isinstance(responses, Mapping):
            return message
        kept: dict[str, JsonValue] = {}
        for name, response in responses.items():
            key = (_state(params), name)
            known = (entry.party, not entry.ours, *key) in self._open
            questions = self._questions_for(entry, *key, known=known)
            kept[name] = response if questions is None else self._result(questions, response)
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


def without_suggested(message: JsonObject, question: Question | None) -> JsonObject:
    """A question for a secret without the values that it suggests.

    What there is to choose from stays, or nobody could choose.
    """
    if question is None:
        return message
    inside = "payload" if "payload" in message else "params"
    return {**message, inside: without_suggestions(message[inside])}


def secrets_of(question: Question, answer: JsonValue) -> list[JsonValue]:
    """What in an answer is secret: all but the fields that are none, and what was chosen, which
    stands in the question.
    """
    names = [field.name for field in question.fields]
    is_wrapped = set(as_object(answer)) == {"value"}
    is_wrapped = is_wrapped and (question.wrapped or "value" not in names)
    given = as_object(answer)["value"] if is_wrapped else answer
    if not isinstance(given, Mapping) or question.wrapped:
        return [] if len(question.fields) == 1 and question.fields[0].choices else [given]
    public = {
        field.name
        for field in question.fields
        if (question.secret and not field.secret) or field.choices
    }
    return [each for name, each in given.items() if name not in public]


def _is_public(name: str, value: JsonValue) -> bool:
    is_outcome = name in ("action", "outcome") and isinstance(value, str) and value in _OUTCOMES
    return value is None or isinstance(value, bool) or name in _PUBLIC or is_outcome


def _flat_or_blank(value: JsonValue) -> JsonValue:
    return _flat(value) if isinstance(value, Mapping) else blank(value)


def _flat(value: JsonValue) -> JsonValue:
    return value if value is None or value == "" else SECRET


def _id(id: JsonValue) -> JsonValue:
    return id if isinstance(id, (str, int, float)) else None


def _state(holder: JsonValue) -> JsonValue:
    state = as_object(holder).get("requestState")
    return state if isinstance(state, str) else None
