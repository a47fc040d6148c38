"""Which answers are secrets: those to questions that ask for one, whoever asked and whoever answers. Blanked before they are written down. Pure.

An answer is known by what it answers: the id of its request, or in MCP 2026-07-28 the name that its question has in a result. Where two questions
have one id at the same time, whatever answers it is a secret for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.core.errors import RemoteProtocolError
from abp_bridge.core.question import Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.record.redact import Full, blank
from abp_bridge.record.telltale import SECRET
from abp_bridge.record.trace import Entry, is_request, is_response

Json = Any

MAX_OPEN = 4_000  # secret questions that are kept in mind
_OPEN = ("success", "cancelled", "action", "metadata", "error", "outcome", "_meta")  # what an answer says beside what was answered


@dataclass
class _Asked:
    """Secret questions under one id: whether one is still open, and whether it is sure which answer is whose."""

    questions: list[Question] = field(default_factory=list)
    open: bool = True
    mixed: bool = False


class Answers:
    """One recording's. `learn` hears of each secret that is found."""

    def __init__(self, learn: Callable[[Json], None]) -> None:
        self._learn = learn
        self._asked: dict[Json, _Asked] = {}
        self._plain: set[Json] = set()  # other requests that are open

    def withheld(self, entry: Entry) -> Json:
        """The message of `entry` without the secrets that it answers questions with. Raises Full."""
        if isinstance(entry.value, (list, tuple)):
            return [self._one(each, entry) for each in entry.value]
        return self._one(entry.value, entry)

    def _one(self, message: Json, entry: Entry) -> Json:
        read = from_envelope(message) if is_envelope(message) and not entry.ours else message
        if is_request(read):
            self._asks((entry.party, entry.ours, _key(read["id"])), secret_question(read))
            return self._with_responses(message, entry)
        if not isinstance(read, Mapping):
            return message
        if read.get("type") == "elicitation/response":
            return self._answered(entry, read, "payload")
        if is_response(read):
            self._ask_by_result(entry, read.get("result"))
            return self._answered(entry, read, "result")
        return message

    # --- what is asked ---

    def _asks(self, key: Json, question: Question | None) -> None:
        known = self._asked.get(key)
        if question is None:
            if known is None:
                self._plain.add(key)
                if len(self._plain) > MAX_OPEN:
                    self._plain.clear()
            elif known.open:
                known.mixed = True
            elif not known.mixed:
                del self._asked[key]
            return
        if known is None and len(self._asked) >= MAX_OPEN:
            raise Full
        found = self._asked.setdefault(key, _Asked())
        found.mixed = found.mixed or key in self._plain or (known is not None and known.open)
        found.open = True
        found.questions.append(question)
        del found.questions[:-16]

    def _answered(self, entry: Entry, message: Mapping[str, Json], member: str) -> Json:
        key = (entry.party, not entry.ours, _key(message.get("id")))
        self._plain.discard(key)
        known = self._asked.get(key)
        if known is None:
            return message
        known.open = known.mixed
        if "error" in message:  # it may say what was wrong with the value
            error = message["error"]
            return {**message, "error": {**error, "message": SECRET, "data": SECRET} if isinstance(error, Mapping) else SECRET}
        return {**message, member: self._blanked(known.questions, message.get(member))}

    def _blanked(self, questions: list[Question], result: Json) -> Json:
        if not isinstance(result, Mapping):
            self._learn(result)
            return blank(result)
        kept: dict[str, Json] = {}
        for name, value in result.items():
            if name in _OPEN or value is None:
                kept[name] = value
            else:
                for question in questions:
                    self._learn(secrets_of(question, value))
                kept[name] = blank(value)
        return kept

    # --- MCP 2026-07-28: questions in a result, and answers in the request that comes back ---

    def _ask_by_result(self, entry: Entry, result: Json) -> None:
        requests = result.get("inputRequests") if isinstance(result, Mapping) else None
        if isinstance(requests, Mapping):
            for name, request in requests.items():
                question = secret_question(request) if isinstance(request, Mapping) else None
                key = (entry.party, entry.ours, _state(result), name)
                if question is not None or key in self._asked:
                    self._asks(key, question)

    def _with_responses(self, message: Mapping[str, Json], entry: Entry) -> Json:
        params = message.get("params")
        responses = params.get("inputResponses") if isinstance(params, Mapping) else None
        if not isinstance(responses, Mapping):
            return message
        assert isinstance(params, Mapping)
        kept = {name: self._response(entry, _state(params), name, each) for name, each in responses.items()}
        return {**message, "params": {**params, "inputResponses": kept}}

    def _response(self, entry: Entry, state: Json, name: str, response: Json) -> Json:
        known = self._asked.get((entry.party, not entry.ours, state, name))
        return response if known is None else self._blanked(known.questions, response)


def secret_question(message: Mapping[str, Json]) -> Question | None:
    """The question that this request asks, if its answer is a secret. Read as the bridge reads it: by format, by name and by wording."""
    method, params = message.get("method"), message.get("params")
    if method == "elicitation/create" and isinstance(params, Mapping):
        method, params = "elicitation/input", {"prompt": params.get("message"), "schema": params.get("requestedSchema")}
    try:
        question = decode_question({"method": method, "params": params}, id="", origin="")
    except RemoteProtocolError:
        return None
    return question if question.secret else None


def secrets_of(question: Question, answer: Json) -> list[Json]:
    """What in an answer is secret: by field, where it has several."""
    given = answer.get("value") if isinstance(answer, Mapping) and set(answer) == {"value"} else answer
    if not isinstance(given, Mapping) or question.wrapped:
        return [given]
    return [given[field.name] for field in question.fields if field.secret and field.name in given]


def _key(id: Json) -> Json:
    return id if isinstance(id, (str, int, float)) else None


def _state(holder: Mapping[str, Json]) -> Json:
    state = holder.get("requestState")
    return state if isinstance(state, str) else None
