"""ABP's envelope `{type, id?, timestamp?, payload}` <-> its JSON-RPC binding on a pipe.

Inside the bridge an app on a pipe always speaks JSON-RPC. See docs/abp-on-a-pipe.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text

_REQUESTS = (
    "initialize",
    "capabilities/list",
    "capabilities/call",
    "capabilities/cancel",
    "shutdown",
)
_ANSWERS = {f"{each}-result" for each in _REQUESTS}  # the types that answer a request
QUESTION = "elicitation/request"
ANSWER = "elicitation/response"  # the type that answers an app's
_ASKING = ("elicitation/", "sampling/")  # what a type begins with that asks a person
MAX_ASKED = 10_000  # requests whose types are known when they are answered, the newest
_UNNAMED = "abp-unnamed-"  # begins the ids of an agent's requests that came without one


def is_envelope(message: JsonValue) -> bool:
    """A line is an envelope when it has a `type` and no `jsonrpc`."""
    return (
        isinstance(message, Mapping)
        and isinstance(message.get("type"), str)
        and "jsonrpc" not in message
    )


def is_enveloped_request(message: JsonValue) -> bool:
    """Whether it is an envelope that wants an answer."""
    said = as_object(message)
    return is_envelope(message) and "id" in said and _is_request(as_text(said["type"]))


def _is_request(kind: str) -> bool:
    return kind in _REQUESTS or (kind.startswith(_ASKING) and kind != ANSWER)


def to_envelope(message: JsonObject, now: float) -> dict[str, JsonValue]:
    """Wrap a JSON-RPC message; `now` is in seconds since the epoch."""
    if "method" in message:
        kind, payload = message["method"], message.get("params", {})
    elif "result" in message:
        kind, payload = ANSWER, message["result"]
    else:
        kind, payload = ANSWER, {"success": False, "error": _failure(message)}
    identity = {"id": message["id"]} if "id" in message else {}
    return {"type": kind, **identity, "timestamp": round(now * 1000), "payload": payload}


def from_envelope(envelope: JsonObject) -> dict[str, JsonValue]:
    """Return the JSON-RPC message an app's envelope means; `timestamp` may be missing (X28).

    An unknown type becomes a notification of that name.
    """
    kind, payload = envelope["type"], envelope.get("payload")
    rpc: dict[str, JsonValue] = {"jsonrpc": "2.0"}
    if "id" in envelope:
        rpc["id"] = envelope["id"]
    if kind in _ANSWERS:
        return rpc | {"result": payload}
    body = payload_object(payload)
    if kind == QUESTION:
        method = body.get("method")
        params = body.get("params")
        if "timeout" in body and (params is None or isinstance(params, Mapping)):
            params = {"timeout": body["timeout"], **(params or {})}
        return rpc | {
            "method": method if isinstance(method, str) else QUESTION,
            "params": params,
        }
    if _is_request(as_text(kind)):
        return rpc | {"method": kind, "params": payload}
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


class AgentEnvelope:
    """The envelope as an agent speaks it; remembers the method of each open request.

    Args:
        clock: The time in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: dict[JsonValue, str] = {}  # by their ids: the types of open requests
        self._unnamed = 0

    def inward(self, envelope: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the JSON-RPC message an agent's envelope means.

        A request without an id gets one that its answer omits; anything else stays unchanged.
        """
        if not is_envelope(envelope):
            self._remember(envelope.get("id"), as_text(envelope.get("method")))
            return envelope
        kind, payload = as_text(envelope["type"]), envelope.get("payload")
        rpc: dict[str, JsonValue] = {"jsonrpc": "2.0"}
        if "id" in envelope:
            rpc["id"] = envelope["id"]
        if kind == ANSWER:
            return rpc | {"result": payload}
        if "id" not in envelope and kind in _REQUESTS and kind != "shutdown":
            self._unnamed += 1
            rpc["id"] = f"{_UNNAMED}{self._unnamed}"
        self._remember(rpc.get("id"), kind)
        return rpc | {"method": kind, "params": payload_object(payload)}

    def _remember(self, id: JsonValue, kind: str) -> None:
        if kind and isinstance(id, (str, int, float)):
            self._asked[id] = kind
            if len(self._asked) > MAX_ASKED:  # some are never answered
                del self._asked[next(iter(self._asked))]

    def outward(self, message: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """A JSON-RPC message of ours -> an envelope for the agent."""
        id = message.get("id")
        named = {} if id is None or str(id).startswith(_UNNAMED) else {"id": id}
        kind, payload = self._say(message)
        return {"type": kind, **named, "timestamp": round(self._clock() * 1000), "payload": payload}

    def _say(self, message: JsonObject) -> tuple[str, JsonValue]:
        """The type of a message of ours, and its payload."""
        params = as_object(message.get("params"))
        if "method" not in message:
            asked = self._asked.pop(message.get("id"), "")
            if "result" in message:
                return f"{asked}-result", message["result"]
            failure = _failure(message)
            if asked:
                return f"{asked}-result", {"success": False, "error": failure}
            return "notification", {"event": "error", "data": failure}
        method = as_text(message["method"])
        if "id" in message:
            asked_of = {word: each for word, each in params.items() if word != "timeout"}
            timeout = {"timeout": params["timeout"]} if "timeout" in params else {}
            return "elicitation/request", {"method": method, "params": asked_of, **timeout}
        if method == "notifications/progress":
            return "progress", params
        event = method.removeprefix("notifications/")
        return "notification", {"event": event, "data": params}


def _failure(message: JsonObject) -> JsonObject:
    words = as_object(message["error"]).get("message")
    return {"code": "INVALID_PARAMS", "message": words, "retryable": False}


def payload_object(value: JsonValue) -> JsonObject:
    """What an app sent along as an object; anything else is kept in one, as its `value`."""
    return value if isinstance(value, Mapping) else {} if value is None else {"value": value}
