"""An ABP agent that launches the bridge: both bindings of ABP on a pipe, by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from support.harness import RawHost
from support.peer import RpcPeer

Json = Any

FEATURES = {"elicitation": True, "notifications": True, "progress": True}


class EnvelopePeer(RpcPeer):
    """Speaks JSON-RPC or ABP's envelope; who uses it sees JSON-RPC either way."""

    speaks_envelopes = False

    def read(self, limit: float | None = None) -> Json:
        said = super().read(limit)
        if not self.speaks_envelopes:
            return said
        assert "jsonrpc" not in said
        assert isinstance(said["timestamp"], int)
        kind, payload = said["type"], said["payload"]
        named = {"id": said["id"]} if "id" in said else {}
        if kind.endswith("-result"):
            return {**named, "result": payload}
        if kind == "elicitation/request":
            timeout = {"timeout": payload["timeout"]} if "timeout" in payload else {}
            return {**named, "method": payload["method"], "params": payload["params"] | timeout}
        if kind == "progress":
            return {"method": "notifications/progress", "params": payload}
        assert kind == "notification"
        return {"method": f"notifications/{payload['event']}", "params": payload["data"]}

    def _send(self, message: Mapping[str, Json]) -> None:
        if not self.speaks_envelopes:
            super()._send(message)
            return
        kind = message.get("method", "elicitation/response")
        payload = message.get("params", message.get("result"))
        named = {"id": message["id"]} if "id" in message else {}
        said = {"type": kind, **named, "timestamp": 1_700_000_000_000, "payload": payload}
        self.write(json.dumps(said).encode() + b"\n")


class AbpAgent(EnvelopePeer, RawHost):
    """Speaks JSON-RPC or, with `envelope`, ABP's envelope."""

    def __init__(self, *arguments: str, envelope: bool = False, **more: Json) -> None:
        super().__init__(*arguments, **more)
        self.speaks_envelopes = envelope

    def open(self, features: Json = FEATURES, **more: Json) -> Json:
        about = {"agent": {"name": "Tester", "version": "1"}, "protocolVersion": "0.1"}
        return self.result("initialize", {**about, "features": features, **more})

    def begin_capability(self, capability: str, call: str = "", **params: Json) -> int:
        """Call it: the id of the request. `call` is the agent's own name for the call."""
        named = {"callId": call, "progressToken": f"{call}!"} if call else {}
        wanted = {"capability": capability, "params": params, "options": named}
        return self.begin("capabilities/call", wanted)

    def call(self, capability: str, **params: Json) -> Json:
        return self.response(self.begin_capability(capability, **params))["result"]

    def question(self) -> Json:
        return self.until(lambda message: "method" in message and "id" in message)

    def answer(self, question: Json, data: Json = None, **response: Json) -> None:
        """Answer a question: with `data`, and whatever else a response has."""
        given = {} if data is None else {"data": data}
        self.reply(question["id"], {"success": True, **given, **response})

    def ask(self, method: str, **params: Json) -> int:
        """Have the demo ask: the id of the call, whose data is the ABP response that it got."""
        return self.begin_capability("demo.ask", request={"method": method, "params": params})
