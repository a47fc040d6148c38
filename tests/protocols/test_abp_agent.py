"""The agent's end of ABP: what an agent sends and gets, in both bindings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from abp_bridge.core.capability import AppFile, CallResult, Capability, Failure, failed
from abp_bridge.core.ledger import Notice, NoticeKind, Progress
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp import agent
from abp_bridge.protocols.abp.envelope import MAX_ASKED, AgentEnvelope, from_envelope, to_envelope

Json = Any


# --- who is there ---------------------------------------------------------------------------------

AGENTS: dict[str, tuple[Json, agent.AgentInfo]] = {
    "an agent that can ask": (
        {"agent": {"name": "Ada's"}, "features": {"elicitation": True}},
        agent.AgentInfo("Ada's", asks=True),
    ),
    "one that says nothing": ({}, agent.AgentInfo("an ABP agent")),
    "one that wants to hear nothing": (
        {"features": {"notifications": False, "progress": False}},
        agent.AgentInfo("an ABP agent", notices=False, progress=False),
    ),
    "one that takes some methods": (
        {
            "features": {"elicitation": True},
            "agentCapabilities": {"allowedRequests": ["elicitation/input", 5]},
        },
        agent.AgentInfo("an ABP agent", True, frozenset(["elicitation/input"])),
    ),
}


@pytest.mark.parametrize(("params", "info"), AGENTS.values(), ids=AGENTS)
def test_decode_agent(params: Json, info: agent.AgentInfo) -> None:
    assert agent.decode_agent(params) == info


def test_agent_may_be_asked_by_allowed_methods() -> None:
    some = agent.AgentInfo("a", True, frozenset(["elicitation/input"]))
    assert some.may_be_asked("elicitation/input")
    assert not some.may_be_asked("elicitation/confirm")
    assert agent.AgentInfo("a", True).may_be_asked("sampling/create")
    assert not agent.AgentInfo("a").may_be_asked("elicitation/input")


def test_capabilities_survive_encode_and_decode() -> None:
    offered = [
        Capability("plain", "Plain.", {"type": "object"}),
        Capability("wipe", destructive=True, available=False, experimental=True),
        Capability("look", harmless=True, deprecated="use plain"),
    ]
    listed = [agent.encode_capability(each.name, each) for each in offered]
    opened = abp.decode_app_info(
        agent.encode_opened("s1", {"id": "shop", "name": "The shop"}, listed)
    )
    assert (opened.session, opened.id, opened.name) == ("s1", "shop", "The shop")
    assert [replace(each, hints={}) for each in opened.capabilities] == offered
    hints = [each.hints.get("destructiveHint") for each in opened.capabilities]
    assert hints == [None, True, False]
    typed = Capability(
        "typed",
        title="T",
        output_schema={"type": "string"},
        hints={"idempotentHint": True},
        requirements=({"type": "permission", "met": False},),
        alternatives=("plain",),
    )
    assert agent.encode_capability("a.typed", typed) == {
        "name": "a.typed",
        "title": "T",
        "description": "",
        "inputSchema": {},
        "available": True,
        "outputSchema": {"type": "string"},
        "requirements": [{"type": "permission", "met": False}],
        "alternatives": ["plain"],
        "annotations": {"idempotentHint": True},
    }


# --- calls ----------------------------------------------------------------------------------------


def test_decode_call() -> None:
    whole: Json = {
        "capability": "export",
        "params": {"a": 1},
        "options": {"callId": "c1", "progressToken": 7, "timeout": 1500},
    }
    assert agent.decode_call(whole) == agent.CallRequest("export", {"a": 1}, "c1", 7, 1.5)
    assert agent.decode_call({"capability": "export"}) == agent.CallRequest("export", {})
    numbered: Json = {"capability": "export", "options": {"callId": 5}}
    assert agent.decode_call(numbered).id == "5"


@pytest.mark.parametrize(
    "params",
    [{}, {"capability": "a", "params": []}, {"capability": "a", "options": {"callId": {"a": 1}}}],
)
def test_invalid_call_is_refused(params: Json) -> None:
    with pytest.raises(RemoteProtocolError):
        agent.decode_call(params)


RESULTS = {
    "data": CallResult({"a": 1}),
    "words": CallResult("done", metadata={"duration": 5}),
    "a failure": failed("BUSY", "Later.", retryable=True),
    "all of a failure": CallResult(
        {"half": 1}, Failure("BUSY", "Later.", True, 1.5, {"why": 1}, ("other",))
    ),
    "a cancelled one": failed("CANCELLED", "No more.", cancelled=True),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_result_survives_encode_and_decode(result: CallResult) -> None:
    assert abp.decode_result(agent.encode_result(result)) == result


def test_result_metadata_has_a_summary() -> None:
    made = agent.encode_result(CallResult(1, metadata={"duration": 5}), ["started", "completed"])
    assert made["metadata"] == {"duration": 5, "summary": ["started", "completed"]}


# --- what is told ---------------------------------------------------------------------------------

PROGRESS = {
    "a number": Progress("c1", 3.0),
    "everything": Progress("c1", 0.5, 1.0, "Writing", "two", 4.0),
}


@pytest.mark.parametrize("progress", PROGRESS.values(), ids=PROGRESS)
def test_progress_survives_encode_and_decode(progress: Progress) -> None:
    assert abp.decode_progress(agent.encode_progress(progress, "c1", None)) == progress


def test_progress_has_the_token_of_the_agent() -> None:
    assert agent.encode_progress(Progress("abp-1", 1.0), "c1", 7)["progressToken"] == 7


def test_notice_has_the_call_id_of_the_agent() -> None:
    data = {"operationId": "abp-1", "capability": "export"}
    notice = Notice(NoticeKind.STARTED, "notifications/operation/started", data, "abp-1")
    assert agent.encode_notice(notice, {"abp-1": "c1"}) == {**data, "operationId": "c1"}
    assert agent.encode_notice(notice, {}) == data
    nobodys = Notice(NoticeKind.ERROR, "notifications/error", {"message": "Oh."})
    assert agent.encode_notice(nobodys, {"abp-1": "c1"}) == {"message": "Oh."}


def test_withdrawal_names_the_question() -> None:
    assert agent.encode_withdrawal("abp-1", "over") == (
        "notifications/elicitation/withdrawn",
        {"requestId": "abp-1", "reason": "over"},
    )


# --- the envelope ---------------------------------------------------------------------------------


def test_envelope_survives_both_ends() -> None:
    ours = AgentEnvelope(lambda: 1.5)
    for method in ("initialize", "capabilities/list", "capabilities/call", "shutdown"):
        request: Json = {
            "jsonrpc": "2.0",
            "id": f"abp-{method}",
            "method": method,
            "params": {"a": 1},
        }
        assert ours.inward(to_envelope(request, 1.5)) == request
        response: Json = {"jsonrpc": "2.0", "id": f"abp-{method}", "result": {"b": 2}}
        said = ours.outward(response)
        assert said["type"] == f"{method}-result"
        assert said["timestamp"] == 1500
        assert from_envelope(said) == response
    told: Json = {"jsonrpc": "2.0", "method": "shutdown-soon", "params": {}}
    assert ours.inward(to_envelope(told, 1.5)) == told
    messages: list[Json] = [
        {"id": "q1", "method": "elicitation/input", "params": {"timeout": 5, "prompt": "?"}},
        {"method": "notifications/progress", "params": {"progress": 1}},
        {"method": "notifications/state/changed", "params": {"field": "a"}},
    ]
    for message in messages:
        assert from_envelope(ours.outward({"jsonrpc": "2.0", **message})) == {
            "jsonrpc": "2.0",
            **message,
        }
    answer: Json = {"type": "elicitation/response", "id": "q1", "payload": {"success": True}}
    assert ours.inward(answer) == {"jsonrpc": "2.0", "id": "q1", "result": {"success": True}}


def test_envelope_keeps_the_newest_unanswered_requests() -> None:
    ours = AgentEnvelope(lambda: 0)
    for number in range(MAX_ASKED + 1):
        ours.inward({"type": "capabilities/call", "id": number})
    types = [ours.outward({"id": each, "result": {}})["type"] for each in (0, 1, MAX_ASKED)]
    assert types == ["-result", *["capabilities/call-result"] * 2]


def test_envelope_answers_requests_without_an_id() -> None:
    ours = AgentEnvelope(lambda: 0)
    first = ours.inward({"type": "initialize", "payload": {}})
    second = ours.inward({"type": "capabilities/list"})
    assert first["id"] != second["id"]
    said = ours.outward({"jsonrpc": "2.0", "id": second["id"], "result": []})
    assert said == {"type": "capabilities/list-result", "timestamp": 0, "payload": []}
    said = ours.outward({"jsonrpc": "2.0", "id": first["id"], "result": {}})
    assert said == {"type": "initialize-result", "timestamp": 0, "payload": {}}
    assert "id" not in ours.inward({"type": "shutdown", "payload": {}})


def test_envelope_error_has_an_abp_code() -> None:
    ours = AgentEnvelope(lambda: 0)
    ours.inward({"type": "capabilities/call", "id": 1, "payload": {}})
    said: Json = ours.outward({"id": 1, "error": {"code": -32602, "message": "No."}})
    assert (said["type"], said["id"]) == ("capabilities/call-result", 1)
    assert said["payload"]["error"]["message"] == "No."
    unread = ours.outward({"id": None, "error": {"code": -32700, "message": "What?"}})
    assert unread["type"] == "notification"
    assert unread["payload"] == {
        "event": "error",
        "data": {"code": "INVALID_PARAMS", "message": "What?", "retryable": False},
    }


def test_envelope_answer_has_the_type_of_its_request() -> None:
    ours = AgentEnvelope(lambda: 0)
    ours.inward({"type": "capabilities/call", "id": 1, "payload": {}})
    ours.inward({"type": "capabilities/list", "id": "1", "payload": {}})
    ours.inward({"jsonrpc": "2.0", "method": "capabilities/cancel", "id": 2, "params": {}})
    ours.inward({"type": "capabilities/call", "id": {"no": "id"}, "payload": {}})
    said = [ours.outward({"jsonrpc": "2.0", "id": id, "result": {}})["type"] for id in (1, "1", 2)]
    assert said == [
        "capabilities/call-result",
        "capabilities/list-result",
        "capabilities/cancel-result",
    ]


def test_result_metadata_has_files() -> None:
    printed = AppFile(b"%PDF-1.4", "", "page.pdf", "window.print()")
    made: Json = agent.encode_result(CallResult(1, files=(printed, AppFile(b"hi", ""))))
    first, second = made["metadata"]["files"]
    assert first == {
        "content": "JVBERi0xLjQ=",
        "mimeType": "application/pdf",
        "encoding": "base64",
        "size": 8,
        "filename": "page.pdf",
        "source": "window.print()",
    }
    assert (second["mimeType"], second["filename"]) == ("application/octet-stream", "")
