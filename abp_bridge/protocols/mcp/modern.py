"""MCP 2026-07-28: the client in each request, and results without a handshake.

A question is a result (`input_required`), and the answer comes with the request sent again
(basic/patterns/mrtr). Imports no other codec, so that listing a server stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abp_bridge.core.json_value import Json, JsonObject, JsonValue, as_list, as_object
from abp_bridge.errors import AbpBridgeError
from abp_bridge.protocols.mcp.client import MODERN, V2026_07_28, McpClientInfo

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
