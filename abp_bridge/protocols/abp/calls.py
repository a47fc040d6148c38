"""ABP sessions, calls and notifications, in all documented shapes (X2, X4, X5, X12, X13, X24)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from abp_bridge.core import sanitize
from abp_bridge.core.capability import (
    AppInfo,
    CallResult,
    Capability,
    CapabilityList,
    Failure,
    failed,
)
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_list,
    as_number,
    as_object,
    as_text,
    as_texts,
)
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.envelope import payload_object

VERSION = "0.1"
MAX_CAPABILITIES = 1_000  # each is a tool of its own in the host's list, which a model reads
MAX_NAME = 120  # characters of a capability's name: a model must be able to say it back
MAX_NAMED = 1_000  # capabilities of one list that are named because they cannot be called

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")  # MCP's, with values
_REQUIREMENT = ("type", "description", "resolution")  # its words


def initialize_params(version: str) -> dict[str, JsonValue]:
    """The parameters of `initialize`; `version` is this program's own."""
    return {
        "agent": {"name": "abp-bridge", "version": version},
        "protocolVersion": VERSION,
        "features": {"notifications": True, "progress": True, "elicitation": True},
    }


def call_params(capability: str, params: JsonObject, call: str) -> dict[str, JsonValue]:
    """Return the parameters of a call. Its id is also its progress token (X4)."""
    return {
        "capability": capability,
        "params": dict(params),
        "options": {"callId": call, "progressToken": call},
    }


def decode_app_info(raw: JsonValue) -> AppInfo:
    """Decode the result of `initialize`, bare or as `{success, data}`.

    Raises RemoteProtocolError if the app refused.
    """
    body = _unwrapped(raw)
    if not isinstance(body, Mapping) or "success" in body or "error" in body:
        raise RemoteProtocolError(
            f"initialize() answered {_shown(raw)}, where ABP has an object with sessionId and app",
            "SESSION_INVALID",
        )
    app = as_object(body.get("app"))
    version = sanitize.label(body.get("protocolVersion") or VERSION, 40)
    capabilities = decode_capabilities(body.get("capabilities"))
    warnings = list(capabilities.problems)
    if version.split(".")[0] not in ("0", "1"):  # X16
        warnings.append(f"the app speaks ABP {version}; this bridge knows 0.x and 1.x")
    return AppInfo(
        id=sanitize.label(app.get("id") or app.get("name") or "app", 80),
        name=sanitize.label(app.get("name") or app.get("id") or "an unnamed app", 120),
        session=sanitize.label(body.get("sessionId") or "", 200),
        version=version,
        capabilities=capabilities,
        warnings=(*warnings, *_show_all(as_texts(app.get("warnings")), 1_000)),
        instructions=sanitize.message(as_text(app.get("instructions"))),
    )


def decode_capabilities(raw: JsonValue) -> CapabilityList:
    """Decode a list of capabilities or summaries, bare or wrapped (X12, X13)."""
    found: dict[str, Capability] = {}
    odd: dict[str, list[str]] = {}
    listed = _listed(raw)
    if listed is not None and not isinstance(listed, list):
        problem = f"its capabilities are {_shown(listed)}, and no list"
        return CapabilityList((), [problem], failed=True)
    for number, entry in enumerate(as_list(listed), 1):
        about = as_object({"name": entry} if isinstance(entry, str) else entry)
        name = as_text(about.get("name"))
        if problem := _name_problem(name, found):
            shown = repr(sanitize.label(name, 60)) if name else f"number {number}"
            odd.setdefault(problem, []).append(shown)
        if not problem or name in found:
            found[name] = _capability(name, about)
    problems = [_describe_odd(*each) for each in odd.items()]
    return CapabilityList(found.values(), problems)


def _name_problem(name: str, found: Mapping[str, Capability]) -> str:
    if not name:
        return "without a name cannot be called"
    if len(name) > MAX_NAME:
        return f"with a name of more than {MAX_NAME} characters cannot be called"
    if name != sanitize.label(name, MAX_NAME):
        return "with a name that cannot be shown as it is cannot be called"
    if name in found:
        return "that are listed twice are called as they were listed last"
    full = len(found) >= MAX_CAPABILITIES
    return f"beyond the first {MAX_CAPABILITIES} cannot be called" if full else ""


def _describe_odd(problem: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"capabilities {problem}: {shown}{more}"


def _listed(raw: JsonValue) -> JsonValue:
    listed = _unwrapped(raw)
    wrapped = isinstance(listed, Mapping) and "capabilities" in listed
    return as_object(listed)["capabilities"] if wrapped else listed


def merge_capabilities(*sources: Iterable[Capability]) -> tuple[Capability, ...]:
    """Merge manifest, initialize and list, in that order (X12, X13).

    The richest description and schema win, and the newest availability. Destructive stays so.
    An empty later source does not remove an earlier one. If the last source failed, capabilities
    that are not declared harmless are presumed destructive.
    """
    merged: dict[str, Capability] = {}
    for source in sources:
        newer = {capability.name: capability for capability in source}
        if newer:
            merged = {
                name: _richer(merged.get(name), capability) for name, capability in newer.items()
            }
        if isinstance(source, CapabilityList) and source.failed:
            merged = {name: _presume(capability) for name, capability in merged.items()}
    return tuple(merged.values())


def _presume(capability: Capability) -> Capability:
    if capability.destructive or capability.harmless:
        return capability
    return replace(capability, destructive=True, presumed=True)


def decode_result(raw: JsonValue) -> CallResult:
    """Decode an ABPResponse; anything else becomes the data of a result."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("success"), bool):
        return _odd_result(raw)
    metadata = as_object(raw.get("metadata"))
    if raw["success"]:
        return CallResult(data=raw.get("data"), metadata=metadata)
    failure = _failure(raw.get("error"), raw.get("cancelled") is True)
    return CallResult(
        failure=failure,
        cancelled=raw.get("cancelled") is True or failure.code in _CANCELLED,
        metadata=metadata,
        data=raw.get("data"),
    )


def _odd_result(raw: JsonValue) -> CallResult:
    if raw is None:
        words = "the app returned nothing (undefined or null): it must return {success: true, data}"
        return failed("INTERNAL_ERROR", words)
    said = as_object(raw)
    if "success" in said:
        words = f"the app said success: {_shown(said['success'])}, which must be true or false"
        return replace(failed("INTERNAL_ERROR", words), data=raw)
    if said.get("error") is not None:
        return CallResult(failure=_failure(said["error"], False), data=raw)
    note = "the app's answer had no 'success' member; it is passed on as it came"
    return CallResult(data=raw, metadata={"note": f"{note}. It should be {{success: true, data}}"})


def decode_seconds(milliseconds: JsonValue) -> float | None:
    """An app's time in milliseconds -> seconds; None for what is no time, or beyond 30 years."""
    number = as_number(milliseconds)
    return number / 1000 if number is not None and 0 < number < 1e12 else None


_CANCELLED = {"CANCELLED", "USER_CANCELLED"}  # X8

_RETRYABLE = {
    "NOT_INITIALIZED",
    "SESSION_EXPIRED",
    "SESSION_INVALID",
    "PERMISSION_REQUIRED",
    "TIMEOUT",
    "RATE_LIMITED",
    "DISCONNECTED",
}


def _failure(error: JsonValue, cancelled: bool) -> Failure:
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, Mapping):
        return (
            Failure("CANCELLED", "The call was cancelled.")
            if cancelled
            else Failure("OPERATION_FAILED", "The app gave no reason.")
        )
    code = sanitize.label(
        error.get("code") or ("CANCELLED" if cancelled else "OPERATION_FAILED"), 80
    )
    retryable = error.get("retryable")
    return Failure(
        code=code,
        message=sanitize.message(error.get("message") or "The app gave no reason."),
        retryable=retryable if isinstance(retryable, bool) else code in _RETRYABLE,
        retry_after=decode_seconds(error.get("retryAfter")),
        details=error.get("details"),
        alternatives=_show_all(as_texts(error.get("alternatives")), 120),
    )


def _show_all(texts: Sequence[str], size: int) -> tuple[str, ...]:
    """Return at most `MAX_NAMED` texts of at most `size` characters, and count the others."""
    more = (f"and {len(texts) - MAX_NAMED} more",) if len(texts) > MAX_NAMED else ()
    return (*(sanitize.label(text, size) for text in texts[:MAX_NAMED]), *more)


def _unwrapped(raw: JsonValue) -> JsonValue:
    """Return `raw`, or its data if it is `{success: true, data}`; raise for `{success: false}`."""
    if isinstance(raw, Mapping) and isinstance(raw.get("success"), bool):
        if not raw["success"]:
            failure = _failure(raw.get("error"), False)
            raise RemoteProtocolError(f"the app refused: {failure}", failure.code)
        return raw.get("data")
    return raw


def _capability(name: str, entry: JsonObject) -> Capability:
    instead = as_text(entry.get("deprecationMessage"))
    deprecated = instead or ("deprecated" if entry.get("deprecated") else "")
    return Capability(
        name=name,
        description=sanitize.message(as_text(entry.get("description"))),
        input_schema=as_object(entry.get("inputSchema")),
        available=entry.get("available") is not False,
        experimental=entry.get("experimental") is True,
        deprecated=sanitize.label(deprecated),
        destructive=(destructive := _is_destructive(entry)),
        harmless=not destructive and _is_harmless(entry),
        title=sanitize.label(as_text(entry.get("title"))),
        output_schema=as_object(entry.get("outputSchema")),
        hints=_hints(entry.get("annotations")),
        requirements=_requirements(entry.get("requirements")),
        alternatives=_show_all(as_texts(entry.get("alternatives")), MAX_NAME),
    )


def _hints(annotations: JsonValue) -> dict[str, JsonValue]:
    """MCP's hints, of those that are given."""
    given = as_object(annotations)
    return {name: given[name] for name in HINTS if isinstance(given.get(name), bool)}


def _requirements(listed: JsonValue) -> tuple[JsonObject, ...]:
    """Return each requirement in ABP's shape; a text is its description."""
    return tuple(filter(None, map(_requirement, as_list(listed))))


def _requirement(entry: JsonValue) -> JsonObject:
    about = as_object({"description": entry} if isinstance(entry, str) else entry)
    words = {name: sanitize.label(as_text(about.get(name))) for name in _REQUIREMENT}
    met = about.get("met")
    said: JsonObject = {"met": met} if isinstance(met, bool) else {}
    return {**{name: each for name, each in words.items() if each}, **said}


def _is_destructive(entry: JsonObject) -> bool:
    """Read ABP's member or the MCP and WebMCP annotations (X30).

    As in MCP, `readOnlyHint: false` means destructive unless another hint denies it.
    """
    hints = as_object(entry.get("annotations"))
    if True in (entry.get("destructive"), hints.get("destructiveHint")):
        return True
    if hints.get("consequentialHint") is True:
        return True
    return hints.get("readOnlyHint") is False and hints.get("destructiveHint") is not False


def _is_harmless(entry: JsonObject) -> bool:
    hints = as_object(entry.get("annotations"))
    denied = entry.get("destructive"), hints.get("destructiveHint"), hints.get("consequentialHint")
    return False in denied or hints.get("readOnlyHint") is True


def _richer(older: Capability | None, newer: Capability) -> Capability:
    if older is None:
        return newer
    return replace(
        newer,
        description=older.description
        if newer.description in ("", newer.name)
        else newer.description,
        input_schema=newer.input_schema or older.input_schema,
        title=newer.title or older.title,
        output_schema=newer.output_schema or older.output_schema,
        hints=newer.hints or older.hints,
        requirements=newer.requirements or older.requirements,
        alternatives=newer.alternatives or older.alternatives,
        destructive=newer.destructive or (older.destructive and not older.presumed),
        harmless=newer.harmless or older.harmless,
    )


def _shown(value: JsonValue) -> str:
    return sanitize.label(json.dumps(value, default=str), 60)


PREFIX = "notifications/"
PROGRESS = PREFIX + "progress"
WITHDRAWN = PREFIX + "elicitation/withdrawn"  # ours: an app waits for no answer any more
MAX_NUMBER = 1e15  # up to which a float still tells two steps apart

_EVENTS = {kind.value: kind for kind in NoticeKind if kind is not NoticeKind.OTHER}


def decode_notice(raw: JsonValue) -> Notice:
    """Decode `{event, data}` or `{method, params}`; an invalid one becomes an `OTHER` notice."""
    if not isinstance(raw, Mapping):
        return Notice(NoticeKind.OTHER, PREFIX + "unreadable", {"value": raw})
    name = raw.get("event", raw.get("method"))
    name = sanitize.label(name, 120) if isinstance(name, str) and name else "unnamed"
    name = name if name.startswith(PREFIX) else PREFIX + name
    data = payload_object(raw.get("data", raw.get("params")))
    kind = _EVENTS.get(name.removeprefix(PREFIX), NoticeKind.OTHER)
    if kind is NoticeKind.CAPABILITIES_CHANGED:
        data = decode_changes(data)
    operation = data.get("operationId")
    return Notice(kind, name, data, _name(operation) if operation is not None else None)


def decode_changes(raw: JsonValue) -> dict[str, list[str]]:
    """Decode CapabilityChanges `{added, removed, changed}`, with names or capabilities (X24)."""
    changes = as_object(raw)
    return {word: _names(changes.get(word)) for word in ("added", "removed", "changed")}


def decode_progress(raw: JsonValue) -> Progress | None:
    """Decode a progress report, or return None if it has no number.

    `percentage` may replace `progress` (X5). `estimatedRemaining` is in milliseconds.
    """
    report = as_object(raw)
    value, total, percentage = (
        _number(report.get(word)) for word in ("progress", "total", "percentage")
    )
    if value is None and percentage is None:
        return None
    if value is None or (total is None and percentage is not None):
        value, total = (percentage or 0.0) / 100, 1.0
    remaining = _number(report.get("estimatedRemaining"))
    token, operation = (
        None if report.get(word) is None else _name(report[word])
        for word in ("progressToken", "operationId")
    )
    return Progress(
        operation=operation or token,
        value=max(0.0, value),
        total=total if total is not None and total > 0 else None,
        status=sanitize.label(as_text(report.get("status", report.get("message")))),
        stage=sanitize.label(as_text(report.get("stage"))),
        remaining=None if remaining is None or remaining < 0 else remaining / 1000,
        token=token if operation else None,
    )


def _names(value: JsonValue) -> list[str]:
    named = [item.get("name") if isinstance(item, Mapping) else item for item in as_list(value)]
    return [_name(name) for name in named if isinstance(name, str)]


def _name(value: JsonValue) -> str:
    return sanitize.label(value, 120)


def _number(value: JsonValue) -> float | None:
    number = as_number(value)
    return number if number is not None and abs(number) < MAX_NUMBER else None
