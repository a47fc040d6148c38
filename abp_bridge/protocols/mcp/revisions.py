"""What differs between the revisions of MCP: tables and functions without state.

A *stateful* revision (2024-11-05 to 2025-11-25) begins with a handshake, and the server sends
requests. In the *stateless* one (2026-07-28) each request says in `_meta` who sends it, a question
is a result (`input_required`), and the answer comes with the request sent again
(basic/patterns/mrtr). Between two sides of one kind everything passes as it is. Between two kinds
`request_for`, `result_for` and `error_for` translate, and `CROSSING` says what only one kind has.

`modern` means stateless here. Imports no other codec, so that listing a server stays fast.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_object,
    as_text,
    to_text,
)
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.mcp.client import (
    LEGACY,
    MODERN,
    V2026_07_28,
    McpClientInfo,
    decode_capabilities,
)

_META = "io.modelcontextprotocol/"
VERSION = f"{_META}protocolVersion"
CAPABILITIES = f"{_META}clientCapabilities"
CLIENT = f"{_META}clientInfo"
LOG_LEVEL = f"{_META}logLevel"
SERVER = f"{_META}serverInfo"
SUBSCRIPTION = f"{_META}subscriptionId"

INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; since then it is INVALID_PARAMS
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

# What hosts allow: so many results of one call may ask for input before they give up without a word
# to the server.
MAX_ROUNDS = 10

# What a filter of `subscriptions/listen` can name.
TOOLS = "toolsListChanged"
PROMPTS = "promptsListChanged"
RESOURCES = "resourcesListChanged"
UPDATES = "resourceSubscriptions"
UPDATED = "notifications/resources/updated"
# What a server tells outside of any request, and the word of a filter that asks for it.
LISTENED = {
    "notifications/tools/list_changed": TOOLS,
    "notifications/prompts/list_changed": PROMPTS,
    "notifications/resources/list_changed": RESOURCES,
    UPDATED: UPDATES,
}
MAX_UPDATES = 1_000  # resources that all streams of a host watch together
MAX_URI = 2_000  # characters: browsers show no more, and our own have some hundred


class InvalidParamsError(AbpBridgeError):
    """A request that the revision does not allow: a JSON-RPC error with this code and data."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def is_enveloped(params: JsonValue) -> bool:
    """Whether a request speaks this revision, or a later one: it names its version itself."""
    return VERSION in as_object(as_object(params).get("_meta"))


def decode_envelope(params: JsonValue) -> McpClientInfo:
    """Return the client from a request's `_meta`.

    Raises InvalidParamsError: -32602 for missing members, -32022 for an unsupported version.
    """
    meta = as_object(as_object(params).get("_meta"))
    version, capabilities = meta.get(VERSION), meta.get(CAPABILITIES)
    missing = [
        key
        for key, value, kind in ((VERSION, version, str), (CAPABILITIES, capabilities, Mapping))
        if not isinstance(value, kind)
    ]
    if missing:
        raise InvalidParamsError(
            INVALID_PARAMS, f"each request needs params._meta with {' and '.join(missing)}"
        )
    if version not in MODERN:
        raise InvalidParamsError(
            UNSUPPORTED_VERSION,
            f"MCP {str(version)[:40]!r} is not spoken here",
            {"supported": list(MODERN), "requested": str(version)[:100]},
        )
    level = meta.get(LOG_LEVEL)
    return McpClientInfo(
        V2026_07_28,
        as_object(meta.get(CLIENT)),
        capabilities,
        modern=True,
        level=level if isinstance(level, str) else None,
    )


def complete_result(
    result: JsonObject, server: JsonObject, *, cached: bool = False
) -> dict[str, Json]:
    """Return a final result; `cached` adds that it must not be cached, as apps change."""
    lifetime = {"ttlMs": 0, "cacheScope": "private"} if cached else {}
    return {"resultType": "complete", **result, **lifetime, "_meta": {SERVER: dict(server)}}


def encode_round(requests: JsonObject, state: str) -> dict[str, Json]:
    """Return an `input_required` result; `state` must come back with the answers."""
    return {"resultType": "input_required", "inputRequests": dict(requests), "requestState": state}


def decode_retry(params: JsonObject) -> tuple[str | None, dict[str, JsonObject]]:
    """Return a call's `requestState` and its answers by key.

    Raises InvalidParamsError.
    """
    state, answers = params.get("requestState"), params.get("inputResponses", {})
    if "requestState" in params and not isinstance(state, str):
        raise InvalidParamsError(INVALID_PARAMS, "requestState must come back as it was sent")
    if not isinstance(answers, Mapping) or not all(
        isinstance(answer, Mapping) for answer in answers.values()
    ):
        raise InvalidParamsError(
            INVALID_PARAMS,
            "inputResponses must be an object with one result, an object too, per question",
        )
    return state if isinstance(state, str) else None, {
        key: as_object(answer) for key, answer in answers.items()
    }


def decode_filter(params: JsonObject, words: Sequence[str] = (TOOLS, RESOURCES)) -> dict[str, Json]:
    """Return the part of a `subscriptions/listen` filter that is supported.

    Args:
        params: Of the request.
        words: The lists whose changes are sent.

    Raises:
        InvalidParamsError: A missing or invalid filter.
    """
    wanted = params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise InvalidParamsError(
            INVALID_PARAMS, "subscriptions/listen needs notifications, an object that says which"
        )
    honoured: dict[str, Json] = {word: True for word in words if wanted.get(word) is True}
    uris = wanted.get(UPDATES, [])
    if not isinstance(uris, list) or not all(
        isinstance(uri, str) and len(uri) <= MAX_URI for uri in uris
    ):
        raise InvalidParamsError(
            INVALID_PARAMS, f"{UPDATES} must be a list of uris of at most {MAX_URI} characters"
        )
    return honoured | ({UPDATES: uris} if uris else {})


def listens(wanted: JsonObject, method: str, params: JsonValue) -> bool:
    """Whether a stream with the filter `wanted` is to be told this."""
    word = LISTENED.get(method)
    if word == UPDATES:
        return as_object(params).get("uri") in as_list(wanted.get(UPDATES))
    return word is not None and wanted.get(word) is True


def tag(params: JsonValue, stream: JsonValue) -> JsonObject:
    """What a server tells, on the stream of the listen request with this id."""
    given = as_object(params)
    return {**given, "_meta": {**as_object(given.get("_meta")), SUBSCRIPTION: stream}}


# --- between the two kinds ---

INVALID_REQUEST = -32600
URL_REQUIRED = -32042  # up to 2025-11-25: the person must go to an address first

# What a modern result must say that may be kept; all others say only that they are complete.
_CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
_NOT_KEPT: JsonObject = {"ttlMs": 0, "cacheScope": "private"}
_SCOPES = ("private", "public")

# The requests whose result may ask for input (basic/patterns/mrtr).
CAN_ASK = frozenset({"tools/call", "prompts/get", "resources/read"})


class Crossing(enum.Enum):
    """What becomes of a client's request where the server's revision is of the other kind."""

    PASSES = "translated, and passed on"
    HERE = "answered by the bridge"
    REFUSED = "refused by name"


_BOTH = {
    "tools/list": Crossing.PASSES,
    "tools/call": Crossing.PASSES,
    "prompts/list": Crossing.PASSES,
    "prompts/get": Crossing.PASSES,
    "resources/list": Crossing.PASSES,
    "resources/templates/list": Crossing.PASSES,
    "resources/read": Crossing.PASSES,
    "completion/complete": Crossing.PASSES,
}
_FROM_STATEFUL = {
    "initialize": Crossing.HERE,
    "ping": Crossing.HERE,
    "logging/setLevel": Crossing.HERE,
    "resources/subscribe": Crossing.HERE,
    "resources/unsubscribe": Crossing.HERE,
    **_BOTH,
    # Tasks of the two kinds are two things.
    "tasks/get": Crossing.REFUSED,
    "tasks/result": Crossing.REFUSED,
    "tasks/list": Crossing.REFUSED,
    "tasks/cancel": Crossing.REFUSED,
}
_FROM_STATELESS = {
    "server/discover": Crossing.HERE,
    "subscriptions/listen": Crossing.HERE,
    **_BOTH,
    "tasks/get": Crossing.REFUSED,
    "tasks/update": Crossing.REFUSED,
    "tasks/cancel": Crossing.REFUSED,
}
# By whether the client is stateless. A method that is in neither is a vendor's, and passes.
CROSSING: Mapping[bool, Mapping[str, Crossing]] = {False: _FROM_STATEFUL, True: _FROM_STATELESS}


REQUESTS = frozenset(_FROM_STATEFUL) | frozenset(_FROM_STATELESS)


def crossing(method: str, *, client_modern: bool, server_modern: bool) -> Crossing:
    """What becomes of a client's request. One that only the server's kind has is refused."""
    if client_modern == server_modern:
        return Crossing.PASSES
    only_there = CROSSING[server_modern].keys() - CROSSING[client_modern].keys()
    return CROSSING[client_modern].get(
        method, Crossing.REFUSED if method in only_there else Crossing.PASSES
    )


# The notifications that only the legacy era has. The client's: a modern server has no handshake,
# asks for roots when it needs them, and asks nothing whose progress could be told.
LEGACY_NOTIFICATIONS = frozenset(
    {
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
    }
)

# The feature of a server that has each list, and what it is to declare where the list may change.
_FEATURES = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources"}

# Legacy tasks and the modern extension of that name are two things: across the eras there are none.
_TASKS = "tasks"
_TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

# The capability that a client needs to be asked so.
_NEEDS = {"sampling/createMessage": "sampling", "roots/list": "roots"}

_ENVELOPE = (VERSION, CAPABILITIES, CLIENT, LOG_LEVEL)
_RETRY = ("requestState", "inputResponses")


# --- requests of the client ---


def request_for(params: JsonValue, client: McpClientInfo, *, server_modern: bool) -> JsonValue:
    """A client's request parameters, for a server of either kind.

    Args:
        params: As the client sent them.
        client: What the server sees of the client.
    """
    if server_modern:
        given = as_object(params) if client.modern else _without(as_object(params), ("task",))
        return {**given, "_meta": {**as_object(given.get("_meta")), **_envelope(client)}}
    if not client.modern:
        return params
    given = _without(as_object(params), (*_RETRY, "task"))
    return _without_meta(given, _ENVELOPE) or None


def _envelope(client: McpClientInfo) -> JsonObject:
    declared = as_object(client.capabilities)
    level = {} if client.level is None else {LOG_LEVEL: client.level}
    return {
        VERSION: MODERN[0],
        CAPABILITIES: declared if client.modern else without_tasks(declared),
        CLIENT: client.info,
        **level,
    }


def without_retry(params: JsonObject) -> JsonObject:
    """Without what only a retry brings: to a question that nobody asked there is no answer."""
    return _without(params, _RETRY)


# --- results ---


def to_discovered(initialized: JsonObject) -> JsonObject:
    """The result of `initialize` -> that of `server/discover`."""
    own = ("protocolVersion", "serverInfo", "capabilities")
    kept = {name: value for name, value in initialized.items() if name not in own}
    server = as_object(initialized.get("serverInfo"))
    found: JsonObject = {
        **kept,
        "supportedVersions": list(MODERN),
        "capabilities": without_tasks(as_object(initialized.get("capabilities"))),
    }
    return to_modern_result("server/discover", found, server)


def to_initialized(discovered: JsonObject, asked: JsonValue) -> JsonObject:
    """Return `server/discover`'s result as that of `initialize`, for the version `asked`."""
    found = to_legacy_result("server/discover", discovered)
    kept = {
        name: value
        for name, value in found.items()
        if name not in ("supportedVersions", "capabilities")
    }
    name: JsonObject = {"name": "an unnamed server", "version": ""}
    return {
        **kept,
        "protocolVersion": asked if asked in LEGACY else LEGACY[0],
        "capabilities": without_tasks(as_object(discovered.get("capabilities"))),
        "serverInfo": {**name, **as_object(as_object(discovered.get("_meta")).get(SERVER))},
    }


def to_modern_result(method: str, result: JsonValue, server: JsonObject) -> JsonObject:
    """Return a stateful server's result as a complete stateless one.

    Args:
        method: Of the request.
        result: The server's result; anything but an object has no members.
        server: The `serverInfo` of its handshake.
    """
    given = as_object(result)
    kept = _kept(given) if method in _CACHEABLE else {}
    meta = {**as_object(given.get("_meta")), SERVER: server}
    return {**given, "resultType": "complete", **kept, "_meta": meta}


def _kept(given: JsonObject) -> JsonObject:
    """For how long it may be kept: not at all, unless the server said so itself."""
    known = as_count(given.get("ttlMs")) is not None and given.get("cacheScope") in _SCOPES
    return {name: given[name] for name in _NOT_KEPT} if known else _NOT_KEPT


def to_legacy_result(method: str, result: JsonValue) -> JsonObject:
    """A modern server's complete result of `method` -> a legacy one."""
    given = as_object(result)
    new = {"resultType", *(_NOT_KEPT if method in _CACHEABLE else ())}
    kept = _without_meta({name: each for name, each in given.items() if name not in new}, (SERVER,))
    return _LEGACY_RESULTS.get(method, _as_it_is)(kept)


def _as_it_is(result: JsonObject) -> JsonObject:
    return result


def _tools(result: JsonObject) -> JsonObject:
    """Without what a legacy client refuses the whole list for: an output that is no object."""
    return {**result, "tools": [_tool(each) for each in as_list(result.get("tools"))]}


def _tool(tool: JsonValue) -> JsonValue:
    if not isinstance(tool, Mapping) or "outputSchema" not in tool:
        return tool
    if as_object(tool["outputSchema"]).get("type") == "object":
        return tool
    return {name: value for name, value in tool.items() if name != "outputSchema"}


def _called(result: JsonObject) -> JsonObject:
    """With what is structured in words, where a legacy client could not read it."""
    if isinstance(result.get("structuredContent", {}), Mapping):
        return result
    kept = {name: value for name, value in result.items() if name != "structuredContent"}
    content = as_list(result.get("content"))
    words: JsonObject = {"type": "text", "text": to_text(result["structuredContent"])}
    said = any(as_object(each).get("text") == words["text"] for each in content)
    return {**kept, "content": [*content, *([] if said else [words])]}


_LEGACY_RESULTS: dict[str, Callable[[JsonObject], JsonObject]] = {
    "tools/list": _tools,
    "tools/call": _called,
}


def result_for(
    method: str, result: JsonValue, server: JsonObject, *, client_modern: bool, server_modern: bool
) -> JsonValue:
    """A server's result, for a client of either kind.

    Args:
        server: Its `serverInfo`, for a client without a handshake.
    """
    if client_modern == server_modern:
        return result
    if client_modern:
        return to_modern_result(method, result, server)
    return to_legacy_result(method, result)


def error_for(
    method: str, error: JsonObject, *, client_modern: bool, server_modern: bool
) -> JsonObject:
    """A server's error object, for a client of either kind."""
    if client_modern == server_modern or method != "resources/read":
        return error
    if client_modern and error.get("code") == RESOURCE_NOT_FOUND:
        return {**error, "code": INVALID_PARAMS}
    names_one = "uri" in as_object(error.get("data"))
    if not client_modern and error.get("code") == INVALID_PARAMS and names_one:
        return {**error, "code": RESOURCE_NOT_FOUND}
    return error


# --- what a server asks ---


def to_modern_question(params: JsonObject) -> JsonObject:
    """The parameters of a stateful server's request, as a question to a stateless client."""
    return _without_meta(_without(params, ("task",)), ("progressToken",))


def asks_input(result: JsonValue) -> bool:
    """Whether a stateless server's result asks before it goes on, of a call or of a task."""
    given = as_object(result)
    return "input_required" in (given.get("resultType"), given.get("status"))


def questions_in(result: JsonValue) -> dict[str, tuple[str, JsonObject]]:
    """The questions of a result that asks: (method, params) by key."""
    asked = as_object(as_object(result).get("inputRequests"))
    return {
        key: (as_text(as_object(each).get("method")), as_object(as_object(each).get("params")))
        for key, each in asked.items()
    }


def can_be_asked(client: McpClientInfo, method: str, params: JsonValue) -> bool:
    """Whether a client declares that it answers this request of a server."""
    if method == "elicitation/create":
        need = "url" if as_object(params).get("mode") == "url" else "form"
    else:
        need = _NEEDS.get(method, "")
    declared = decode_capabilities(client.capabilities, client.version)
    return bool(need) and bool(getattr(declared, need))


def urls_required(error: JsonObject) -> list[JsonObject]:
    """Return the `elicitation/create` parameters for each link of a `URL_REQUIRED` error."""
    if error.get("code") != URL_REQUIRED:
        return []
    return [as_object(each) for each in as_list(as_object(error.get("data")).get("elicitations"))]


# --- what a server tells ---


def listen_filter(server: JsonValue, uris: list[JsonValue]) -> JsonObject:
    """Return the filter for a stateful client that subscribed to `uris`; empty for none."""
    features = as_object(server)
    wanted: dict[str, JsonValue] = {
        word: True
        for word, feature in _FEATURES.items()
        if as_object(features.get(feature)).get("listChanged") is True
    }
    return wanted | ({UPDATES: uris} if uris else {})


def may_have_changed(wanted: JsonObject) -> list[tuple[str, JsonObject | None]]:
    """What a server would tell with the filter `wanted` if all had changed: (method, params)."""
    lists = [method for method, word in LISTENED.items() if wanted.get(word) is True]
    updates = [{"uri": uri} for uri in as_list(wanted.get(UPDATES))]
    return [*((each, None) for each in lists), *((UPDATED, each) for each in updates)]


def untag(params: JsonValue) -> JsonObject:
    """What a server told on a stream, as a legacy one tells it."""
    return _without_meta(as_object(params), (SUBSCRIPTION,))


def without_tasks(capabilities: JsonObject) -> JsonObject:
    """Capabilities of one kind, as the other has them."""
    kept = dict(_without(capabilities, (_TASKS,)))
    extensions = kept.get("extensions")
    if isinstance(extensions, Mapping) and _TASKS_EXTENSION in extensions:
        others = {name: each for name, each in extensions.items() if name != _TASKS_EXTENSION}
        kept["extensions"] = others
    return kept


def _without(given: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: value for name, value in given.items() if name not in names}


def _without_meta(given: JsonObject, names: tuple[str, ...]) -> JsonObject:
    """Without these members of `_meta`, and without a `_meta` that had no others."""
    meta = as_object(given.get("_meta"))
    if not any(name in meta for name in names):
        return given
    kept = {name: value for name, value in meta.items() if name not in names}
    rest = {name: value for name, value in given.items() if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest
