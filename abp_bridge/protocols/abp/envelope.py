"""ABP's message envelope `{type, id?, timestamp?, payload}` <-> the JSON-RPC binding of ABP on a
pipe.

Inside the bridge an app on a pipe always speaks JSON-RPC with ABP's names as methods; an app that
speaks the envelope is translated here, message by message. docs/abp-on-a-pipe.md describes both.
"""

from __future__ import annotations

from collections.abc import Mapping

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object

# The types that answer a request of ours.
_ANSWERS = {
    "initialize-result",
    "capabilities/list-result",
    "capabilities/call-result",
    "capabilities/cancel-result",
    "shutdown-result",
}


def is_envelope(message: JsonValue) -> bool:
    """A line is an envelope when it has a `type` and no `jsonrpc`."""
    return (
        isinstance(message, Mapping)
        and isinstance(message.get("type"), str)
        and "jsonrpc" not in message
    )


def to_envelope(message: JsonObject, now: float) -> dict[str, JsonValue]:
    """A JSON-RPC message of ours -> an envelope; methods are types.

    `now` is in seconds since the epoch; envelopes carry milliseconds.
    """
    if "method" in message:
        kind, payload = message["method"], message.get("params", {})
    elif "result" in message:
        kind, payload = "elicitation/response", message["result"]
    else:
        words = as_object(message["error"])["message"]
        failure: JsonObject = {"code": "INVALID_PARAMS", "message": words, "retryable": False}
        kind, payload = "elicitation/response", {"success": False, "error": failure}
    identity = {"id": message["id"]} if "id" in message else {}
    return {"type": kind, **identity, "timestamp": round(now * 1000), "payload": payload}


def from_envelope(envelope: JsonObject) -> dict[str, JsonValue]:
    """An app's envelope -> the JSON-RPC message it means.

    `timestamp` may be missing (X28); an unknown type becomes a notification of that name.
    """
    kind, payload = envelope["type"], envelope.get("payload")
    rpc: dict[str, JsonValue] = {"jsonrpc": "2.0"}
    if "id" in envelope:
        rpc["id"] = envelope["id"]
    if kind in _ANSWERS:
        return rpc | {"result": payload}
    body = payload_object(payload)
    if kind == "elicitation/request":
        method = body.get("method")
        params = body.get("params")
        if "timeout" in body and (params is None or isinstance(params, Mapping)):
            params = {"timeout": body["timeout"], **(params or {})}
        return rpc | {
            "method": method if isinstance(method, str) else "elicitation/request",
            "params": params,
        }
    rpc.pop("id", None)
    if kind == "progress":
        return rpc | {"method": "notifications/progress", "params": body}
    if kind == "notification":
        name = body.get("event", body.get("method"))
        data = body.get("data", body.get("params"))
        name = name if isinstance(name, str) else "unnamed"
        method = name if name.startswith("notifications/") else f"notifications/{name}"
        return rpc | {"method": method, "params": payload_object(data)}
    return rpc | {"method": f"notifications/{kind}", "params": body}


def payload_object(value: JsonValue) -> JsonObject:
    """What an app sent along as an object; anything else is kept in one, as its `value`."""
    return value if isinstance(value, Mapping) else {} if value is None else {"value": value}
