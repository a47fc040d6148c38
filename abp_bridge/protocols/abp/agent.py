"""ABP from the app's side: what an agent sends, and the results and events it gets."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abp_bridge.core import sanitize
from abp_bridge.core.capability import AppFile, CallResult, Capability, Failure
from abp_bridge.core.event import Notice, Progress
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
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.calls import VERSION, decode_seconds
from abp_bridge.protocols.abp.notices import WITHDRAWN


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
