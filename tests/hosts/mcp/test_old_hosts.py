"""Hosts of the first two revisions of MCP: they get what their revision has, and no more.

The referee is each revision's own schema, read strictly (support/old_schemas.py).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from support.harness import RawHost
from support.old_schemas import Referee
from support.puppets import scripted

Json = Any

OLDEST, OLD = "2024-11-05", "2025-03-26"
VERSIONS = (OLDEST, OLD)
STATE = "notifications/state/changed"


class OldHost(RawHost):
    """A host of an old revision, with a scripted app; every message is held against its schema."""

    def __init__(self, version: str, folder: Path, **steps: Json) -> None:
        script = folder / "script.json"
        capabilities = [{"name": name, "steps": each} for name, each in steps.items()]
        script.write_text(json.dumps({"app": {"id": "site"}, "capabilities": capabilities}))
        results = {"ABP_OUTPUT_DIR": str(folder)}
        super().__init__("--app", scripted(script), env=results)
        self.referee = Referee(version)
        self.asked: dict[Json, str] = {}
        self.told: list[str] = []
        opened = self.initialize(version, sampling={}, roots={}, elicitation={})
        assert opened["result"]["protocolVersion"] == version
        self.result("tools/call", {"name": "abp_connect", "arguments": {}})

    def begin(self, method: str, params: Json = None) -> int:
        id = super().begin(method, params)
        self.asked[id] = method
        return id

    def read(self, limit: float | None = None) -> Json:
        message = super().read(limit)
        for each in message if isinstance(message, list) else [message]:
            self.check(each)
        return message

    def check(self, message: Json) -> None:
        if "method" in message:
            self.referee.check_message(message)
            self.told.append(message["method"])
        elif "result" in message:
            self.referee.check_result(self.asked[message["id"]], message["result"])

    def call(self, capability: str) -> Json:
        arguments = {"capability": capability}
        meta = {"progressToken": "p"}
        return self.result(
            "tools/call", {"name": "abp_call", "arguments": arguments, "_meta": meta}
        )


def file(mime_type: str) -> list[Json]:
    content = base64.b64encode(b"RIFF" * 9).decode()
    return [{"return": {"content": content, "mimeType": mime_type, "encoding": "base64"}}]


STEPS: dict[str, Json] = {
    "sound": file("audio/wav"),
    "picture": file("image/png"),
    "document": file("application/pdf"),
    "text": file("text/plain"),
    "tell": [
        {"tell": "notifications/progress", "params": {"progress": 1, "status": "Reading"}},
        {"tell": "notifications/progress", "params": {"progress": 1, "status": "Sorting"}},
        {"tell": STATE, "params": {"field": "n", "newValue": 1}},
        {"tell": STATE, "params": {"field": "n", "newValue": 2}},
        {"tell": "notifications/error", "params": {"code": "X", "message": "m"}},
        {"grow": "more"},
    ],
    "ask": [{"ask": {"method": "elicitation/confirm", "params": {"message": "Go on?"}}}],
    "think": [{"ask": {"method": "sampling/create", "params": {"task": "Sum it up"}}}],
}


@pytest.mark.parametrize("version", VERSIONS)
def test_old_host_gets_only_messages_of_its_revision(version: str, tmp_path: Path) -> None:
    with OldHost(version, tmp_path, **STEPS) as host:
        kinds = {
            name: [block["type"] for block in host.call(name)["content"]]
            for name in ("sound", "picture", "document", "text")
        }
        assert kinds == {
            "sound": ["text", "resource" if version == OLDEST else "audio", "text"],
            "picture": ["text", "image", "text"],
            "document": ["text", "text"],
            "text": ["text", "resource", "text"],
        }
        saved = host.result("resources/list")["resources"]
        assert len(saved) == len(kinds)
        host.result("resources/read", {"uri": saved[0]["uri"]})
        host.result("resources/templates/list")
        host.result("resources/subscribe", {"uri": "abp://site/state/n"})
        host.result("logging/setLevel", {"level": "debug"})
        host.result("ping")
        host.call("tell")
        host.result("tools/list")
        assert host.call("ask")["content"][0]["text"] == "NOT_SUPPORTED", "whatever it declares"
        thinking = host.begin(
            "tools/call", {"name": "abp_call", "arguments": {"capability": "think"}}
        )
        asked = host.until(lambda message: message.get("method") == "sampling/createMessage")
        answer = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"}
        host.reply(asked["id"], answer)
        host.response(thinking)
    assert {
        "notifications/progress",
        "notifications/message",
        "notifications/resources/updated",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
        "sampling/createMessage",
    } == set(host.told)


# --- several messages as one ----------------------------------------------------------------------


def request(id: Json, method: str, **params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notice(method: str, **params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answered(host: RawHost, *messages: Json) -> Json:
    """What comes back, when each message is a line."""
    host.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
    return host.read()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.slow
def test_a_batch_is_answered_as_one(version: str) -> None:
    with RawHost("--app", "demo") as host:
        host.initialize(version)
        call = {"name": "abp_call", "arguments": {"capability": "demo.work"}}
        batch = [
            request("call", "tools/call", **call),
            notice("notifications/cancelled", requestId="nothing"),
            request("ping", "ping"),
            request("bad", "no/such"),
            {"jsonrpc": "2.0", "id": "result of nothing", "result": {}},
            7,
        ]
        host.write(json.dumps(batch).encode() + b"\n")
        together = host.until(lambda message: isinstance(message, list))
    by_id = {each["id"]: each for each in together}
    assert len(together) == len(by_id) == 4
    assert by_id["ping"]["result"] == {}
    assert "sorted" in by_id["call"]["result"]["content"][0]["text"]
    assert by_id["bad"]["error"]["code"] == -32601
    assert by_id[None]["error"]["code"] == -32600


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_later_hosts_send_one_message_a_line(version: str) -> None:
    with RawHost() as host:
        refused = [answered(host, [request(1, "ping")])]
        host.initialize(version)
        refused.append(answered(host, [request(1, "ping")]))
    assert [each["error"]["message"] for each in refused] == [
        "Batches are not supported: send one message a line"
    ] * 2


# --- odd ones -------------------------------------------------------------------------------------

MODES: dict[str, tuple[Json, bool]] = {
    "names none": ({}, True),
    "has forms": ({"form": {}, "voice": {}}, True),
    "speaks only": ({"voice": {}}, False),
}


@pytest.mark.parametrize(("declared", "form"), MODES.values(), ids=MODES)
def test_named_elicitation_modes_are_the_only_ones(declared: Json, form: bool) -> None:
    with RawHost("--app", "demo") as host:
        host.initialize("2025-11-25", elicitation=declared)
        status = host.result("tools/call", {"name": "abp_status", "arguments": {}})
    surfaces = json.loads(status["content"][0]["text"])["surfaces"]
    assert ("mcp-form" in [each["surface"] for each in surfaces]) is form


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list"])
def test_unknown_cursor_is_refused(method: str) -> None:
    with RawHost() as host:
        host.initialize()
        for cursor in ("page-2", "", 7):
            refused = host.request(method, {"cursor": cursor})["error"]
            assert (refused["code"], "no such cursor" in refused["message"]) == (-32602, True)
        assert "result" in host.request(method, {"cursor": None})
