"""ABP's other end, where we are the app: what an agent says, what it is asked and told, and what it
gets of calls. The counterpart of `calls`, `notices` and `questions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abp_bridge.core import sanitize
from abp_bridge.core.capability import CallResult, Capability, Failure
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, as_texts
from abp_bridge.core.notice import Notice, Progress
from abp_bridge.core.question import (
    MISSING,
    AnsweredBy,
    Field,
    FieldType,
    Kind,
    Outcome,
    Question,
)
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.calls import VERSION, decode_seconds
from abp_bridge.protocols.abp.notices import WITHDRAWN
from abp_bridge.protocols.mcp.elicitation import message_of


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent as it shows itself in `initialize`.

    Attributes:
        name: As it calls itself, safe to show.
        asks: Whether it has a way to ask its person.
        methods: The methods that it may be asked by; empty for all.
        notices: Whether it wants to hear what apps tell.
        progress: Whether it wants to hear how far calls are.
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
    """The parameters of `initialize`: what is not promised is not there, but for what it tells
    nobody to leave out.
    """
    features, agent = as_object(params.get("features")), as_object(params.get("agent"))
    allowed = as_object(params.get("agentCapabilities")).get("allowedRequests")
    return AgentInfo(
        name=sanitize.label(agent.get("name") or "an ABP agent", 120),
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
    if capability.output_schema:
        made["outputSchema"] = dict(capability.output_schema)
    if capability.experimental:
        made["experimental"] = True
    if capability.deprecated:
        made |= {"deprecated": True, "deprecationMessage": capability.deprecated}
    if capability.destructive or capability.harmless:
        made["annotations"] = {"destructiveHint": capability.destructive}
    return made


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The parameters of `capabilities/call`. `timeout` is in seconds."""

    capability: str
    params: JsonObject
    id: str = ""
    token: JsonValue = None
    timeout: float | None = None


def decode_call(params: JsonObject) -> CallRequest:
    """The parameters of `capabilities/call`.

    Raises:
        RemoteProtocolError: They name no capability, or its parameters are no object.
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
        as_text(options.get("callId")),
        options.get("progressToken"),
        decode_seconds(options.get("timeout")),
    )


def encode_result(result: CallResult, summary: Sequence[str] = ()) -> dict[str, JsonValue]:
    """How a call ended -> ABPResponse `{success, data?, error?, cancelled?, metadata?}`.

    `summary` is what the app told, a line each, for an agent that did not hear of it.
    """
    metadata = {**result.metadata, **({"summary": list(summary)} if summary else {})}
    made: dict[str, JsonValue] = {"success": result.failure is None}
    if result.failure is None or result.data is not None:
        made["data"] = result.data
    if result.failure is not None:
        made["error"] = encode_failure(result.failure)
    if result.cancelled:
        made["cancelled"] = True
    return made | ({"metadata": metadata} if metadata else {})


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
    """The notification, (method, params), that nobody waits for the answer to a question of ours
    any more: `id` is its request's. ABP has none of its own.
    """
    return WITHDRAWN, {"requestId": id, "reason": reason}


# --- questions ------------------------------------------------------------------------------------

_MILLISECONDS = 1000


def method_of(question: Question) -> str:
    """The closest of ABP's methods."""
    if question.consents or question.kind is Kind.CONFIRM:
        return Kind.CONFIRM.value
    if question.kind is Kind.INPUT and _is_select(question):
        return Kind.SELECT.value
    named: str = question.kind.value
    return named


def _is_select(question: Question) -> bool:
    """A lone choice of one that must be made; one that may be left out is a form."""
    [*fields] = question.fields
    lone = len(fields) == 1 and fields[0].type is FieldType.CHOICE
    return lone and (fields[0].required or question.wrapped)


def encode_request(question: Question, problem: str = "") -> tuple[str, dict[str, JsonValue]]:
    """A question -> (method, params). `problem` is what was wrong with the answer before."""
    method = method_of(question)
    params = _ENCODERS[Kind(method)](question, message_of(question, problem))
    if question.timeout is not None:
        params["timeout"] = round(question.timeout * _MILLISECONDS)
    return method, params


def _input(question: Question, words: str) -> dict[str, JsonValue]:
    if question.wrapped:
        return {"prompt": words, "schema": _described(question.fields[0])}
    fields = {each.name: _described(each) for each in question.fields}
    required: list[JsonValue] = [each.name for each in question.fields if each.required]
    schema: dict[str, JsonValue] = {**question.whole, "type": "object", "properties": fields}
    return {"prompt": words, "schema": schema | ({"required": required} if required else {})}


def _described(asked: Field) -> dict[str, JsonValue]:
    """A field's schema, with what people are told of it."""
    words = {"title": asked.title, "description": asked.description}
    made = {**asked.schema, **{name: text for name, text in words.items() if text}}
    made.pop("default", None)  # the field's is what may be proposed
    return made if asked.default is MISSING else {**made, "default": asked.default}


def _preference(question: Question, words: str) -> dict[str, JsonValue]:
    default = {} if question.default is MISSING else {"default": question.default}
    return {**_input(question, words), **default}


def _confirm(question: Question, words: str) -> dict[str, JsonValue]:
    return {"message": words} | ({"destructive": True} if question.destructive else {})


def _select(question: Question, words: str) -> dict[str, JsonValue]:
    [asked] = question.fields
    options: list[JsonValue] = [
        {"value": each.value, "label": each.label}
        | ({"description": each.description} if each.description else {})
        for each in asked.choices
    ]
    made: dict[str, JsonValue] = {"prompt": words, "options": options}
    if asked.type is FieldType.CHOICES:
        made["multiple"] = True
    return made if asked.default is MISSING else {**made, "default": asked.default}


def _resource(question: Question, words: str) -> dict[str, JsonValue]:
    named = {name: question.request.get(name) for name in ("type", "uri")}
    return {"prompt": words, **{name: value for name, value in named.items() if value is not None}}


def _sampling(question: Question, words: str) -> dict[str, JsonValue]:
    context = question.request.get("context")
    return {"task": question.message} | ({} if context is None else {"context": context})


_ENCODERS = {
    Kind.INPUT: _input,
    Kind.PREFERENCE: _preference,
    Kind.CONFIRM: _confirm,
    Kind.SELECT: _select,
    Kind.RESOURCE: _resource,
    Kind.SAMPLING: _sampling,
}


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent answered to a question.

    Attributes:
        outcome: Accepted, declined, cancelled or timed out.
        content: By field name, not validated.
        answered_by: Who answered, as it says itself, where that was no person.
    """

    outcome: Outcome
    content: JsonObject = field(default_factory=dict)
    answered_by: AnsweredBy | None = None


# That no person answered is believed; that one did is no proof.
_NO_PERSON = {
    each.value: each
    for each in AnsweredBy
    if each not in (AnsweredBy.PERSON, AnsweredBy.DEFAULT, AnsweredBy.NOBODY)
}
_BY_CODE = {
    "USER_CANCELLED": Outcome.DECLINED,
    "CANCELLED": Outcome.CANCELLED,
    "TIMEOUT": Outcome.TIMED_OUT,
}
_ENDED = (Outcome.DECLINED, Outcome.CANCELLED, Outcome.TIMED_OUT)


def decode_response(raw: JsonValue, question: Question) -> AgentAnswer:
    """An ABP elicitation response `{success, data?, error?, cancelled?, metadata?}` to `question`.

    An app's default that was given in a person's place is how that person's question ended.

    Raises:
        RemoteProtocolError: It is none, or says that nobody could be asked.
    """
    body, metadata = as_object(raw), as_object(as_object(raw).get("metadata"))
    answered_by = _NO_PERSON.get(as_text(metadata.get("answeredBy")))
    defaulted = metadata.get("answeredBy") == AnsweredBy.DEFAULT.value
    if body.get("success") is True and not defaulted:
        content = _content(question, as_object(body.get("data")))
        return AgentAnswer(Outcome.ACCEPTED, content, answered_by)
    error = as_object(body.get("error"))
    code = as_text(error.get("code"))
    cancelled = Outcome.DECLINED if body.get("cancelled") is True else None
    ended = _BY_CODE.get(code, cancelled)
    said = next((each for each in _ENDED if each.value == metadata.get("outcome")), ended)
    if said is None or not (ended or defaulted):
        words = sanitize.label(error.get("message") or "nothing that ABP has words for", 300)
        raise RemoteProtocolError(f"the agent answered: {code} {words}".replace("  ", " "))
    return AgentAnswer(said, {}, answered_by)


def _content(question: Question, data: JsonObject) -> dict[str, JsonValue]:
    """What the member of the method says, by the names of the fields."""
    method = method_of(question)
    if question.kind is Kind.SAMPLING:
        if not isinstance(data.get("result"), str):
            raise RemoteProtocolError("the agent's model answered without text")
        return {"result": data["result"]}
    name = question.fields[0].name
    if method == Kind.RESOURCE.value:
        return {name: dict(data)}
    member = _MEMBERS.get(method, "value")
    if member not in data:
        return {}
    value = data[member]
    if member == "value" and not question.wrapped:
        return dict(as_object(value))
    return {name: value}


_MEMBERS = {Kind.CONFIRM.value: "confirmed", Kind.SELECT.value: "selected"}
