"""ABP envelopes to JSON-RPC and back."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.protocols.abp.envelope import (
    from_envelope,
    is_envelope,
    is_enveloped_request,
    to_envelope,
)

Json = Any

ENVELOPES: dict[str, tuple[Json, bool]] = {
    "an envelope": ({"type": "notification"}, True),
    "JSON-RPC": ({"jsonrpc": "2.0", "method": "a"}, False),
    "an invalid type": ({"type": 5}, False),
}


@pytest.mark.parametrize(("message", "is_one"), ENVELOPES.values(), ids=ENVELOPES)
def test_is_envelope(message: Json, is_one: bool) -> None:
    assert is_envelope(message) is is_one


REQUESTS: dict[str, tuple[Json, bool]] = {
    "a call": ({"type": "capabilities/call", "id": 1}, True),
    "a question": ({"type": "elicitation/request", "id": "q"}, True),
    "a model's by its method": ({"type": "sampling/create", "id": 1}, True),
    "one that wants no answer": ({"type": "shutdown"}, False),
    "an answer": ({"type": "elicitation/response", "id": "q"}, False),
    "an event of another protocol": ({"type": "question.asked", "id": "q"}, False),
    "JSON-RPC": ({"jsonrpc": "2.0", "id": 1, "method": "initialize"}, False),
}


@pytest.mark.parametrize(("message", "wants"), REQUESTS.values(), ids=REQUESTS)
def test_is_enveloped_request(message: Json, wants: bool) -> None:
    assert is_enveloped_request(message) is wants


OUT: dict[str, tuple[Json, Json]] = {
    "a request": (
        {"id": "abp-1", "method": "initialize", "params": {"agent": {}}},
        {"type": "initialize", "id": "abp-1", "payload": {"agent": {}}},
    ),
    "a notification": ({"method": "shutdown"}, {"type": "shutdown", "payload": {}}),
    "an answer": (
        {"id": 7, "result": {"success": True}},
        {"type": "elicitation/response", "id": 7, "payload": {"success": True}},
    ),
    "an error": (
        {"id": 7, "error": {"code": -32602, "message": "No."}},
        {
            "type": "elicitation/response",
            "id": 7,
            "payload": {
                "success": False,
                "error": {"code": "INVALID_PARAMS", "message": "No.", "retryable": False},
            },
        },
    ),
}


@pytest.mark.parametrize(("message", "envelope"), OUT.values(), ids=OUT)
def test_to_envelope(message: Json, envelope: Json) -> None:
    assert to_envelope({"jsonrpc": "2.0", **message}, 1.5) == {"timestamp": 1500, **envelope}


ASK = {"method": "elicitation/confirm", "params": {"message": "?"}}


def question(payload: Json, **more: Json) -> Json:
    return {"type": "elicitation/request", "id": 7, "payload": payload, **more}


IN: dict[str, tuple[Json, Json]] = {
    "an answer": (
        {"type": "initialize-result", "id": 1, "payload": {"app": {}}},
        {"id": 1, "result": {"app": {}}},
    ),
    "a question": ({"type": "elicitation/request", "id": 7, "payload": ASK}, {"id": 7, **ASK}),
    "a question with a timeout": (
        question({**ASK, "timeout": 300}),
        {"id": 7, "method": "elicitation/confirm", "params": {"message": "?", "timeout": 300}},
    ),
    "a question with its own timeout": (
        question({"method": "m", "params": {"timeout": 1}, "timeout": 300}),
        {"id": 7, "method": "m", "params": {"timeout": 1}},
    ),
    "a question whose params are wrong stays wrong": (
        question({"method": "m", "params": ["?"], "timeout": 300}),
        {"id": 7, "method": "m", "params": ["?"]},
    ),
    "a question without a method": (
        question({}),
        {"id": 7, "method": "elicitation/request", "params": None},
    ),
    "a question whose type is its method": (
        {"type": "elicitation/confirm", "id": 7, "payload": {"message": "?"}},
        {"id": 7, "method": "elicitation/confirm", "params": {"message": "?"}},
    ),
    "a question without an id": (
        {"type": "elicitation/confirm", "payload": {"message": "?"}},
        {"method": "elicitation/confirm", "params": {"message": "?"}},
    ),
    "a request of an agent": (
        {"type": "capabilities/list", "id": 7, "payload": {}},
        {"id": 7, "method": "capabilities/list", "params": {}},
    ),
    "an answer of an agent": (
        {"type": "elicitation/response", "id": 7, "payload": {"success": True}},
        {"method": "notifications/elicitation/response", "params": {"success": True}},
    ),
    "progress": (
        {"type": "progress", "id": 9, "payload": {"percentage": 5}},
        {"method": "notifications/progress", "params": {"percentage": 5}},
    ),
    "X2 a notification by event": (
        {"type": "notification", "payload": {"event": "error", "data": {"code": "X"}}},
        {"method": "notifications/error", "params": {"code": "X"}},
    ),
    "a notification of a value": (
        {"type": "notification", "payload": {"event": "n", "data": [1]}},
        {"method": "notifications/n", "params": {"value": [1]}},
    ),
    "a notification of nothing": (
        {"type": "notification"},
        {"method": "notifications/unnamed", "params": {}},
    ),
    "an unknown type": (
        {"type": "cart", "id": 1, "payload": {"n": 1}},
        {"method": "notifications/cart", "params": {"n": 1}},
    ),
}


@pytest.mark.parametrize(("envelope", "message"), IN.values(), ids=IN)
def test_from_envelope(envelope: Json, message: Json) -> None:
    assert from_envelope(envelope) == {"jsonrpc": "2.0", **message}
