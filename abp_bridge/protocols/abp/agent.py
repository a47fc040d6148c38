"""ABP from the app's side: an agent's requests, the results it gets, and questions to it.

An ABP app's question is sent as it came; any other uses the closest method.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core import sanitize
from abp_bridge.core.capability import AppFile, CallResult, Capability, Failure
from abp_bridge.core.file import sniff
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_text,
    as_texts,
    is_number,
)
from abp_bridge.core.ledger import Notice, Progress
from abp_bridge.core.outcome import BY_CODE, AnsweredBy, Outcome
from abp_bridge.core.question import (
    MISSING,
    SAYING_KINDS,
    Field,
    FieldType,
    Kind,
    Question,
    message_of,
)
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.calls import VERSION, WITHDRAWN, decode_seconds
from abp_bridge.protocols.abp.questions import (
    CONFIRMED,
    SELECTED,
    VALUE,
    decode_question,
)
from abp_bridge.protocols.host_words import decode_answered_by, describe_request
from abp_bridge.protocols.schema_fields import ACKNOWLEDGE


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent as `initialize` describes it.

    Attributes:
        name: Its own name, safe to show.
        asks: Whether it can ask its user.
        methods: The elicitation methods it supports; empty for all.
        notices: Whether it wants the app's events.
        progress: Whether it wants progress reports.
    """

    name: str
    asks: bool = False
    methods: frozenset[str] = frozenset()
    notices: bool = True
    progress: bool = True

    def may_be_asked(self, method: str) -> bool:
        """Whether it takes requests of this method."""
        return self.asks and (not self.methods or method in self.methods)


def decode_agent(params: JsonObject) -> AgentInfo:
    """Decode the parameters of `initialize`; `agent` may be a bare name (X14)."""
    features, agent = as_object(params.get("features")), params.get("agent")
    allowed = as_object(params.get("agentCapabilities")).get("allowedRequests")
    return AgentInfo(
        name=sanitize.label(as_text(agent) or as_object(agent).get("name") or "an ABP agent", 120),
        asks=features.get("elicitation") is True,
        methods=frozenset(as_texts(as_list(allowed))),
        notices=features.get("notifications") is not False,
        progress=features.get("progress") is not False,
    )


def encode_opened(
    session: str, app: JsonObject, capabilities: Sequence[JsonObject]
) -> dict[str, JsonValue]:
    """The result of `initialize`; `app` is who speaks: `{id, name, version}`."""
    names = ("notifications", "progress", "elicitation", "dynamicCapabilities")
    return {
        "sessionId": session,
        "protocolVersion": VERSION,
        "app": app,
        "capabilities": list(capabilities),
        "features": dict.fromkeys(names, True),
    }


def encode_capability(name: str, capability: Capability) -> dict[str, JsonValue]:
    """A capability, by the `name` that the agent calls it by."""
    made: dict[str, JsonValue] = {
        "name": name,
        "description": capability.description,
        "inputSchema": dict(capability.input_schema),
        "available": capability.available,
    }
    if capability.title:
        made["title"] = capability.title
    if capability.output_schema:
        made["outputSchema"] = dict(capability.output_schema)
    if capability.experimental:
        made["experimental"] = True
    if capability.deprecated:
        made |= {"deprecated": True, "deprecationMessage": capability.deprecated}
    if capability.requirements:
        made["requirements"] = list(capability.requirements)
    if capability.alternatives:
        made["alternatives"] = list(capability.alternatives)
    hints = dict(capability.hints)
    if capability.destructive or capability.harmless:
        hints["destructiveHint"] = capability.destructive
    return made | ({"annotations": hints} if hints else {})


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The parameters of `capabilities/call`. `timeout` is in seconds."""

    capability: str
    params: JsonObject
    id: str = ""
    token: JsonValue = None
    timeout: float | None = None


def decode_call(params: JsonObject) -> CallRequest:
    """Decode the parameters of `capabilities/call`.

    Raises:
        RemoteProtocolError: No capability, parameters that are not an object, or an invalid id.
    """
    name, given = params.get("capability"), params.get("params")
    if not isinstance(name, str) or not name:
        raise RemoteProtocolError("capabilities/call needs the name of a capability")
    if given is not None and not isinstance(given, Mapping):
        raise RemoteProtocolError("the params of a capability must be an object")
    options = as_object(params.get("options"))
    return CallRequest(
        name,
        as_object(given),
        decode_call_id(options.get("callId")),
        options.get("progressToken"),
        decode_seconds(options.get("timeout")),
    )


def decode_call_id(value: JsonValue) -> str:
    """Return the agent's id of a call as text, or "" without one.

    Raises:
        RemoteProtocolError: It is neither text nor a number.
    """
    if value is not None and not is_number(value) and not isinstance(value, str):
        raise RemoteProtocolError("a callId is text")
    return "" if value is None else str(value)


def encode_result(result: CallResult, summary: Sequence[str] = ()) -> dict[str, JsonValue]:
    """Encode an ABPResponse `{success, data?, error?, cancelled?, metadata?}`.

    `summary` holds the app's events, a line each, for an agent that did not get them.
    """
    metadata = {**result.metadata, **({"summary": list(summary)} if summary else {})}
    if result.files:
        metadata["files"] = [_encode_file(file) for file in result.files]
    made: dict[str, JsonValue] = {"success": result.failure is None}
    if result.failure is None or result.data is not None:
        made["data"] = result.data
    if result.failure is not None:
        made["error"] = encode_failure(result.failure)
    if result.cancelled:
        made["cancelled"] = True
    return made | ({"metadata": metadata} if metadata else {})


def _encode_file(file: AppFile) -> dict[str, JsonValue]:
    """A BinaryData of what the app gave beside its data."""
    return {
        "content": base64.b64encode(file.content).decode(),
        "mimeType": file.mime_type or sniff(file.content) or "application/octet-stream",
        "encoding": "base64",
        "size": len(file.content),
        "filename": file.name,
        "source": file.source,
    }


def encode_failure(failure: Failure) -> dict[str, JsonValue]:
    """ABP's error object."""
    made: dict[str, JsonValue] = {
        "code": failure.code,
        "message": failure.message,
        "retryable": failure.retryable,
    }
    if failure.retry_after is not None:
        made["retryAfter"] = round(failure.retry_after * 1000)
    if failure.details is not None:
        made["details"] = failure.details
    if failure.alternatives:
        made["alternatives"] = list(failure.alternatives)
    return made


def encode_progress(progress: Progress, call: str, token: JsonValue) -> dict[str, JsonValue]:
    """How far the agent's call `call` is, with the token that it gave."""
    made: dict[str, JsonValue] = {"operationId": call, "progress": progress.value}
    if token is not None:
        made["progressToken"] = token
    if progress.total is not None:
        made["total"] = progress.total
    if progress.remaining is not None:
        made["estimatedRemaining"] = round(progress.remaining * 1000)
    words = {"status": progress.status, "stage": progress.stage}
    return made | {name: text for name, text in words.items() if text}


def encode_notice(notice: Notice, calls: Mapping[str, str]) -> dict[str, JsonValue]:
    """What a notice says. `calls` are the agent's ids of calls, by ours."""
    operation = notice.operation
    named = {} if operation is None else {"operationId": calls.get(operation, operation)}
    return {**notice.data, **named}


def encode_withdrawal(id: JsonValue, reason: str) -> tuple[str, JsonObject]:
    """Return the notification (method, params) that cancels our request `id`. ABP has none."""
    return WITHDRAWN, {"requestId": id, "reason": reason}


PROMPTS = ("prompt", "message", "question", "title")  # the first of these is what people read


def encode_request(
    question: Question,
    *,
    call: str = "",
    timeout: float | None = None,
    problem: str = "",
    named: bool = False,
    plain: bool = False,
) -> tuple[str, dict[str, JsonValue]]:
    """Return the (method, params) that ask a question.

    Args:
        question: The question.
        call: The agent's id of the call it belongs to; empty for none.
        timeout: The user's time in seconds, if the app sets it.
        problem: What was wrong with the previous answer.
        named: Whether an ABP app's message must name the app, as other messages do.
        plain: Whether to leave out all text but the requester's.
    """
    words = question.message if plain else message_of(question, problem)
    if (own := _find_own(question)) is not None:
        method, params = own
        if (problem or question.note or named) and method is not Kind.SAMPLING:
            params[next((each for each in PROMPTS if as_text(params.get(each))), "prompt")] = words
    else:
        method, params = _make(question, words)
    if timeout is not None and "timeout" not in params:
        params["timeout"] = round(timeout * 1000)
    params.pop("operationId", None)  # that names a call to us
    return method.value, {**params, **({"operationId": call} if call else {})}


def _find_own(question: Question) -> tuple[Kind, dict[str, JsonValue]] | None:
    """The method and parameters of the ABP app that asked it, where they still ask the same."""
    for kind in dict.fromkeys((question.kind, Kind.INPUT, Kind.PREFERENCE)):
        raw = {"method": kind.value, "params": question.request}
        try:
            came = decode_question(raw, id=question.id, origin=question.origin)
        except RemoteProtocolError:
            continue
        if _asks(came) == _asks(question):
            return kind, dict(question.request)
    return None


def _asks(question: Question) -> tuple[object, ...]:
    whole = (question.whole, question.wrapped, question.default, question.destructive)
    return (question.kind, question.message, question.fields, *whole)


def _make(question: Question, words: str) -> tuple[Kind, dict[str, JsonValue]]:
    if question.kind is Kind.SAMPLING:
        context = {word: each for word, each in question.request.items() if word != "messages"}
        return Kind.SAMPLING, {
            "task": describe_request(question.request) or question.message,
            **({"context": context} if context else {}),
        }
    [first, *more] = question.fields
    may_be_empty = first.type is FieldType.CHOICE and not first.required
    if not more and not may_be_empty and (make := _LONE.get(first.type)) is not None:
        about = "" if question.kind in SAYING_KINDS else _describe_field(first)
        return make(question, first, "\n\n".join(filter(None, (words, about))))
    return Kind.INPUT, {"prompt": words, "schema": _schema(question)}


def _describe_field(asked: Field) -> str:
    return ": ".join(filter(None, (asked.label, asked.description)))


def _confirm(question: Question, asked: Field, words: str) -> tuple[Kind, dict[str, JsonValue]]:
    return Kind.CONFIRM, {"message": words, "destructive": question.destructive}


def _select(question: Question, asked: Field, words: str) -> tuple[Kind, dict[str, JsonValue]]:
    options = [
        {"value": each.value, "label": each.label}
        | ({"description": each.description} if each.description else {})
        for each in asked.choices
    ]
    several = {"multiple": True} if asked.type is FieldType.CHOICES else {}
    default = {} if asked.default is MISSING else {"default": asked.default}
    return Kind.SELECT, {"prompt": words, "options": options, **several, **default}


def _resource(question: Question, asked: Field, words: str) -> tuple[Kind, dict[str, JsonValue]]:
    wanted = {word: question.request[word] for word in ("type", "uri") if word in question.request}
    return Kind.RESOURCE, {"prompt": words, **wanted}


_LONE: Mapping[FieldType, Callable[[Question, Field, str], tuple[Kind, dict[str, JsonValue]]]] = {
    FieldType.BOOLEAN: _confirm,
    FieldType.CHOICE: _select,
    FieldType.CHOICES: _select,
    FieldType.FILE: _resource,
}


def _schema(question: Question) -> dict[str, JsonValue]:
    if question.wrapped:
        return _property(question.fields[0])
    parts = {each.name: _property(each) for each in question.fields}
    asks_all = set(as_object(question.whole.get("properties"))) == set(parts)
    required = [each.name for each in question.fields if each.required]
    return {
        **(question.whole if asks_all else {}),
        "type": "object",
        "properties": parts,
        **({"required": required} if required else {}),
    }


def _property(asked: Field) -> dict[str, JsonValue]:
    """A field's schema, with what people are told of it and only what may be proposed."""
    told = {"title": asked.title, "description": asked.description}
    made = {word: each for word, each in asked.schema.items() if word not in (*told, "default")}
    made |= {word: text for word, text in told.items() if text}
    return made if asked.default is MISSING else {**made, "default": asked.default}


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An agent's answer.

    Attributes:
        outcome: How the question ended.
        content: By field name, not validated.
        answered_by: Who answered, if the agent says it was not the user.
        reason: Why there is no answer.
    """

    outcome: Outcome
    content: JsonObject = field(default_factory=dict)
    answered_by: AnsweredBy | None = None
    reason: str = ""


_OUTCOMES = {each.value: each for each in Outcome if each is not Outcome.ACCEPTED}


def decode_response(raw: JsonValue, question: Question, method: str) -> AgentAnswer:
    """Decode an ABP elicitation response `{success, data?, error?, cancelled?, metadata?}`.

    A default given for the user, and a contradictory accept, do not count as the user's answer.

    Raises:
        RemoteProtocolError: An invalid response, or an accept without data.
    """
    body, metadata = as_object(raw), as_object(as_object(raw).get("metadata"))
    if not isinstance(body.get("success"), bool):
        raise RemoteProtocolError("the agent's answer does not say success: true or false")
    said = _OUTCOMES.get(as_text(metadata.get("outcome")))
    who = decode_answered_by(metadata.get("answeredBy"))
    nobody = who is AnsweredBy.NOBODY
    answered_by = None if nobody else who
    if body["success"] and not (nobody or said or body.get("cancelled") is True):
        if not isinstance(data := body.get("data"), Mapping):
            raise RemoteProtocolError("the agent's answer has no data")
        return AgentAnswer(Outcome.ACCEPTED, _content(question, method, data), answered_by)
    error = body.get("error")
    code = as_text(as_object(error).get("code"))
    words = as_text(error) or as_text(as_object(error).get("message")) or code
    outcome = said or BY_CODE.get(code, Outcome.UNSUPPORTED)
    if not (said or code):
        cancelled = body.get("cancelled") is True
        failed = nobody or error  # X9: an error is no person's no
        outcome = Outcome.CANCELLED if cancelled else Outcome.UNSUPPORTED if failed else outcome
    return AgentAnswer(outcome, {}, answered_by, sanitize.message(words, 1_000))


def _content(question: Question, method: str, data: JsonObject) -> dict[str, JsonValue]:
    """What the method's member of `data` says, by field name; nothing where it is not there."""
    if method == Kind.SAMPLING.value:
        if data.get("result") in (None, ""):
            raise RemoteProtocolError("the agent's model answered without a result")
        return {"result": data["result"]}
    if method == Kind.RESOURCE.value:
        return {question.fields[0].name: data}
    if (member := _MEMBERS.get(method, VALUE)) not in data:
        return {}
    value = data[member]
    if member == CONFIRMED and not isinstance(value, bool):
        return {}  # nobody guesses what is meant
    if member != VALUE or question.wrapped:
        return {question.fields[0].name: value}
    if question.fields == (ACKNOWLEDGE,):
        return {CONFIRMED: True}
    return dict(as_object(value))


_MEMBERS = {Kind.CONFIRM.value: CONFIRMED, Kind.SELECT.value: SELECTED}
