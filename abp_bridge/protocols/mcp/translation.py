"""Translate messages between stateful (up to 2025-11-25) and stateless MCP (2026-07-28).

Pure tables and functions; `mcp/proxy` keeps the state. Unknown members and methods pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abp_bridge.core.json_value import JsonObject, JsonValue, as_count, as_list, as_object, to_text
from abp_bridge.protocols.mcp.client import LEGACY, LOG_LEVELS, MODERN, McpClientInfo
from abp_bridge.protocols.mcp.modern import (
    CAPABILITIES,
    CLIENT,
    INVALID_PARAMS,
    LISTENED,
    LOG_LEVEL,
    PROMPTS,
    RESOURCE_NOT_FOUND,
    RESOURCES,
    SERVER,
    SUBSCRIPTION,
    TOOLS,
    UPDATED,
    UPDATES,
    VERSION,
)

INVALID_REQUEST = -32600
URL_REQUIRED = -32042  # up to 2025-11-25: the person must go to an address first
_NOT_VISITED = "the server wants its user at an address first, and they did not go there"

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

# The requests of the client that only one era has: they are answered here.
LEGACY_REQUESTS = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
MODERN_REQUESTS = frozenset({"server/discover", "subscriptions/listen"})

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

_CODES_TO_MODERN = {("resources/read", RESOURCE_NOT_FOUND): INVALID_PARAMS}
_CODES_TO_LEGACY = {
    (method, modern): legacy for (method, legacy), modern in _CODES_TO_MODERN.items()
}

# The capability that a client needs to be asked so.
_NEEDS = {"sampling/createMessage": "sampling", "roots/list": "roots"}
_MODES = {"url": "url"}

_ENVELOPE = (VERSION, CAPABILITIES, CLIENT, LOG_LEVEL)
_RETRY = ("requestState", "inputResponses")


# --- requests of the client ---


def add_envelope(params: JsonValue, client: McpClientInfo) -> JsonObject:
    """The parameters of a legacy request -> those of a modern one, which says who sends it."""
    said: dict[str, JsonValue] = {
        VERSION: MODERN[0],
        CAPABILITIES: client_capabilities(client.capabilities),
        CLIENT: client.info,
    }
    if client.level is not None:
        said[LOG_LEVEL] = client.level
    given = as_object(params)
    return {**given, "_meta": {**as_object(given.get("_meta")), **said}}


def strip_envelope(params: JsonValue) -> JsonObject:
    """Return a stateless request's parameters without the client and the retry members."""
    return _without_meta(without_retry(as_object(params)), _ENVELOPE)


def without_retry(params: JsonObject) -> JsonObject:
    """Without what only a retry brings: to a question that nobody asked there is no answer."""
    return {name: value for name, value in params.items() if name not in _RETRY}


def initialize_params(client: McpClientInfo) -> JsonObject:
    """The handshake of the legacy era, for a client that showed itself by an envelope."""
    name: JsonObject = {"name": "an unnamed host", "version": ""}
    return {
        "protocolVersion": LEGACY[0],
        "capabilities": client_capabilities(client.capabilities),
        "clientInfo": {**name, **client.info},
    }


def client_capabilities(declared: JsonValue) -> JsonObject:
    """What a client of one era declares, as the other has it."""
    return _without_tasks(as_object(declared))


# --- results ---


def to_discovered(initialized: JsonObject) -> JsonObject:
    """The result of `initialize` -> that of `server/discover`."""
    own = ("protocolVersion", "serverInfo", "capabilities")
    kept = {name: value for name, value in initialized.items() if name not in own}
    server = as_object(initialized.get("serverInfo"))
    found: JsonObject = {
        **kept,
        "supportedVersions": list(MODERN),
        "capabilities": _without_tasks(as_object(initialized.get("capabilities"))),
    }
    return to_modern_result("server/discover", found, server)


def to_initialized(
    discovered: JsonObject, asked: JsonValue, *, verbatim: bool = False
) -> JsonObject:
    """Return `server/discover`'s result as that of `initialize`, for the version `asked`.

    `verbatim` keeps the stateless members.
    """
    found = discovered if verbatim else to_legacy_result("server/discover", discovered)
    kept = {
        name: value
        for name, value in found.items()
        if name not in ("supportedVersions", "capabilities")
    }
    name: JsonObject = {"name": "an unnamed server", "version": ""}
    return {
        **kept,
        "protocolVersion": asked if asked in LEGACY else LEGACY[0],
        "capabilities": _without_tasks(as_object(discovered.get("capabilities"))),
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


def to_modern_error(method: str, error: JsonObject) -> JsonObject:
    """A legacy server's error for `method`, with the code that it has in the modern era."""
    if error.get("code") == URL_REQUIRED:  # a question there, whose addresses no model is to read
        return {"code": INVALID_REQUEST, "message": _NOT_VISITED}
    return _with_code(_CODES_TO_MODERN, method, error)


def to_legacy_error(method: str, error: JsonObject) -> JsonObject:
    """Return a stateless server's error with its stateful code."""
    names_one = "uri" in as_object(error.get("data"))
    return _with_code(_CODES_TO_LEGACY, method, error) if names_one else error


def _with_code(codes: Mapping[tuple[str, int], int], method: str, error: JsonObject) -> JsonObject:
    code = error.get("code")
    found = codes.get((method, code)) if isinstance(code, int) else None
    return error if found is None else {**error, "code": found}


# --- what a server asks ---


def to_modern_question(method: str, params: JsonValue, elicitation_id: str) -> JsonObject:
    """Return a stateful server's request as an item of `inputRequests`.

    It drops the progress token. A link without an id gets `elicitation_id`, which clients require.
    """
    kept = {name: value for name, value in as_object(params).items() if name != "task"}
    named = _name_link(kept, elicitation_id)
    return {"method": method, "params": _without_meta(named, ("progressToken",))}


def to_legacy_question(asked: JsonValue, elicitation_id: str) -> tuple[str, JsonObject]:
    """Return an item of `inputRequests` as (method, params) of a stateful request.

    A link without an id gets `elicitation_id`.
    """
    method, params = as_object(asked).get("method"), as_object(as_object(asked).get("params"))
    return method if isinstance(method, str) else "", _name_link(params, elicitation_id)


def _name_link(params: JsonObject, elicitation_id: str) -> JsonObject:
    linked = {"elicitationId": elicitation_id} if params.get("mode") == "url" else {}
    return {**linked, **params}


def urls_required(error: JsonObject) -> list[JsonObject]:
    """Return the `elicitation/create` parameters for each link of a `URL_REQUIRED` error."""
    if error.get("code") != URL_REQUIRED:
        return []
    return [as_object(each) for each in as_list(as_object(error.get("data")).get("elicitations"))]


def needed_capability(method: str, params: JsonValue) -> str | None:
    """Return the capability a request needs (`form`, `url`, `sampling`, `roots`), or None."""
    if method == "elicitation/create":
        return _MODES.get(to_text(as_object(params).get("mode")), "form")
    return _NEEDS.get(method)


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


def logs(least: str | None, params: JsonValue) -> bool:
    """Whether a client that wants logs from level `least` gets this one; unknown levels are
    highest.
    """
    level = as_object(params).get("level")
    rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
    return least in LOG_LEVELS and rank >= LOG_LEVELS.index(least)


def _without_tasks(capabilities: JsonObject) -> JsonObject:
    kept = {name: value for name, value in capabilities.items() if name != _TASKS}
    extensions = kept.get("extensions")
    if isinstance(extensions, Mapping) and _TASKS_EXTENSION in extensions:
        others = {name: each for name, each in extensions.items() if name != _TASKS_EXTENSION}
        kept["extensions"] = others
    return kept


def _without_meta(given: JsonObject, names: tuple[str, ...]) -> JsonObject:
    """Without these members of `_meta`, and without a `_meta` that had no others."""
    meta = as_object(given.get("_meta"))
    if not any(name in meta for name in names):
        return given
    kept = {name: value for name, value in meta.items() if name not in names}
    rest = {name: value for name, value in given.items() if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest
