"""Which answers are secrets: those to questions that ask for one, whoever asked and whoever
answers. Blanked before they are written down. Pure.

An answer is known by what it answers: the id of its request, or in MCP 2026-07-28 the name that its
question has in a result. Where that is not sure, because two questions have one id, or because
nothing was asked that it answers, it is a secret.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from abp_bridge.core.question import Outcome, Question
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.trace.format import Entry, is_request, is_response
from abp_bridge.trace.redact import RedactorFullError
from abp_bridge.trace.secret_scan import SECRET, blank, leaves, without_given

Json = Any
Key = tuple[Json, ...]

MAX_OPEN = 4_000  # requests that are kept in mind
_ENVELOPE = ("jsonrpc", "id", "type", "timestamp")
_ANSWERED = ("result", "payload", "error")
_OUTCOMES = {"accept", "decline", "cancel", *(each.value for each in Outcome)}
_MEMBERS = {
    "value",
    "confirmed",
    "selected",
    "result",
    "content",
    "data",
    "mimeType",
    "encoding",
    "filename",
}


class Answers:
    """One recording's. `learn` hears of each secret that is found."""

    def __init__(self, learn: Callable[[Json], None]) -> None:
        self._learn = learn
        self._secret: dict[Key, list[Question]] = {}  # by what will answer them
        self._open: dict[Key, int] = {}  # requests without an answer, and how many have this key
        self._asked: set[tuple[str, bool]] = (
            set()
        )  # who was ever asked for a secret, and whether by the bridge
        self._mixed: set[Key] = set()  # keys that two requests had at the same time
        self._order: deque[Key] = deque()

    def withheld(self, entry: Entry) -> Json:
        """The message of `entry` without the secrets that it answers questions with, or that it
        suggests. Raises RedactorFullError.
        """
        if isinstance(entry.value, (list, tuple)):
            return [self._one(each, entry) for each in entry.value]
        return self._one(entry.value, entry)

    def answers_secret(self, entry: Entry) -> bool:
        """Whether a line that nobody can read may answer a question for a secret."""
        return any(
            key[:2] == (entry.party, not entry.ours) and key in self._open for key in self._secret
        )

    def _one(self, message: Json, entry: Entry) -> Json:
        if not isinstance(message, Mapping):
            return message
        read = from_envelope(message) if is_envelope(message) and not entry.ours else message
        if is_request(read) or self._is_question(read):
            question = secret_question(read)
            self._asks((entry.party, entry.ours, _key(read.get("id"))), question)
            return self._with_responses(without_suggested(message, question), entry)
        if read.get("type") == "elicitation/response" or is_response(read):
            self._ask_by_result(entry, read.get("result"))
            return self._answered(entry, message)
        return self._with_responses(message, entry)

    @staticmethod
    def _is_question(message: Mapping[str, Json]) -> bool:
        """Whether it asks, though it lacks an id."""
        return (
            str(message.get("method")).startswith("elicitation/")
            and "id" not in message
            and secret_question(message) is not None
        )

    # --- what is asked ---

    def _asks(self, key: Key, question: Question | None) -> None:
        if self._open.get(key):
            self._mixed.add(key)
        elif question is None and key not in self._mixed:
            self._secret.pop(key, None)  # the id is used again, for something else
        self._open[key] = self._open.get(key, 0) + 1
        self._order.append(key)
        if question is not None:
            if len(self._secret) >= MAX_OPEN:
                raise RedactorFullError
            self._secret.setdefault(key, []).append(question)
            self._asked.add((key[0], key[1]))
        if len(self._order) > 2 * MAX_OPEN:  # who was not answered for so long will not be
            self._open.pop(self._order.popleft(), None)

    def _answered(self, entry: Entry, message: Mapping[str, Json]) -> Json:
        asker = (entry.party, not entry.ours)
        key: Key = (*asker, _key(message.get("id")))
        known = self._open.pop(key, 0)
        if known > 1:
            self._open[key] = known - 1
        questions = self._secret.get(key)
        if questions is None and (known or asker not in self._asked):
            return message
        return self._blanked(questions or [], message, ours=entry.ours)

    def _blanked(
        self, questions: Sequence[Question], message: Mapping[str, Json], *, ours: bool
    ) -> Json:
        """A whole response: of its result what is no secret stays, of an error its code.

        The bridge's own errors quote nobody.
        """
        kept: dict[str, Json] = {}
        for name, value in message.items():
            if name in _ENVELOPE or value is None:
                kept[name] = value
            elif name == "error":
                kept[name] = self._error(value)
            elif name in _ANSWERED:
                kept[name] = self._result(questions, value, ours=ours)
            else:
                kept[name] = self._secretly(value)
        return kept

    def _error(self, error: Json) -> Json:
        """It may say what was wrong with the value."""
        if not isinstance(error, Mapping):
            return self._secretly(error)
        code = error.get("code")
        public = isinstance(code, int) or (isinstance(code, str) and code.isupper())
        return {
            name: code if name == "code" and public else self._secretly(each, learn=False)
            for name, each in error.items()
        }

    def _result(self, questions: Sequence[Question], result: Json, *, ours: bool = False) -> Json:
        if not isinstance(result, Mapping):
            return self._secretly(result)
        kept: dict[str, Json] = {}
        for name, value in result.items():
            if (
                value is None
                or isinstance(value, bool)
                or (name in ("action", "outcome") and isinstance(value, str) and value in _OUTCOMES)
            ):
                kept[name] = value
            elif name == "error":
                kept[name] = value if ours else self._error(value)
            elif name in ("metadata", "_meta", "inputRequests", "requestState", "resultType"):
                kept[name] = value
            else:
                kept[name] = self._content(questions, value)
        return kept

    def _content(self, questions: Sequence[Question], content: Json) -> Json:
        """What was answered.

        The names of fields stay; the rest is the person's, the names in it too.
        """
        found = (
            [content]
            if not questions
            else [secret for question in questions for secret in secrets_of(question, content)]
        )
        for secret in found:
            self._learn([secret, *_names(secret)])
        if not isinstance(content, Mapping):
            return self._secretly(content, learn=False)
        fields = _MEMBERS | {field.name for question in questions for field in question.fields}
        return {name if name in fields else SECRET: _flat(each) for name, each in content.items()}

    def _secretly(self, value: Json, *, learn: bool = True) -> Json:
        if learn:
            self._learn([*leaves(value), *_names(value)])
        return blank(value) if not isinstance(value, Mapping) else _flat(value)

    # --- MCP 2026-07-28: questions in a result, and answers in the request that comes back ---

    def _ask_by_result(self, entry: Entry, result: Json) -> None:
        requests = result.get("inputRequests") if isinstance(result, Mapping) else None
        for name, request in requests.items() if isinstance(requests, Mapping) else ():
            question = secret_question(request) if isinstance(request, Mapping) else None
            self._asks((entry.party, entry.ours, _state(result), name), question)

    def _with_responses(self, message: Mapping[str, Json], entry: Entry) -> Json:
        params = message.get("params")
        responses = params.get("inputResponses") if isinstance(params, Mapping) else None
        if not isinstance(responses, Mapping):
            return message
        assert isinstance(params, Mapping)
        kept = {
            name: self._response(entry, _state(params), name, each)
            for name, each in responses.items()
        }
        return {**message, "params": {**params, "inputResponses": kept}}

    def _response(self, entry: Entry, state: Json, name: str, response: Json) -> Json:
        asker = (entry.party, not entry.ours)
        key = (*asker, state, name)
        questions = self._secret.get(key)
        if questions is None and (key in self._open or asker not in self._asked):
            return response
        return self._result(questions or [], response)


def secret_question(message: Mapping[str, Json]) -> Question | None:
    """The question that this request asks, if its answer is a secret.

    Read as the bridge reads it: by format, by name and by wording.
    """
    method, params = message.get("method"), message.get("params")
    if method == "elicitation/create" and isinstance(params, Mapping):
        method, params = (
            "elicitation/input",
            {"prompt": params.get("message"), "schema": params.get("requestedSchema")},
        )
    try:
        question = decode_question({"method": method, "params": params}, id="", origin="")
    except RemoteProtocolError:
        return None
    sensitive = (
        isinstance(params, Mapping) and params.get("sensitive") is True
    )  # a file can be, though it is asked for as any other
    return question if question.secret or sensitive else None


def without_suggested(message: Mapping[str, Json], question: Question | None) -> Mapping[str, Json]:
    """A question for a secret without the values that it suggests.

    What there is to choose from stays, or nobody could choose.
    """
    if question is None:
        return message
    inside = "payload" if "payload" in message else "params"
    return {**message, inside: without_given(message[inside])}


def secrets_of(question: Question, answer: Json) -> list[Json]:
    """What in an answer is secret: all but the fields that are none, and what was chosen, which
    stands in the question.
    """
    given = answer
    if (
        isinstance(answer, Mapping)
        and set(answer) == {"value"}
        and (question.wrapped or "value" not in [field.name for field in question.fields])
    ):
        given = answer["value"]
    if not isinstance(given, Mapping) or question.wrapped:
        return [] if len(question.fields) == 1 and question.fields[0].choices else [given]
    public = {
        field.name
        for field in question.fields
        if (question.secret and not field.secret) or field.choices
    }
    return [each for name, each in given.items() if name not in public]


def _flat(value: Json) -> Json:
    return value if value is None or value == "" else SECRET


def _names(value: Json) -> list[str]:
    """The names inside of a value: in what a person typed, they are the person's too."""
    if isinstance(value, Mapping):
        return [name for name in value if name not in _MEMBERS] + [
            each for inside in value.values() for each in _names(inside)
        ]
    return (
        [each for inside in value for each in _names(inside)]
        if isinstance(value, (list, tuple))
        else []
    )


def _key(id: Json) -> Json:
    return id if isinstance(id, (str, int, float)) else None


def _state(holder: Mapping[str, Json]) -> Json:
    state = holder.get("requestState")
    return state if isinstance(state, str) else None
