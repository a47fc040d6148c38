"""Version 2 of ACP, a draft: each of our messages in its words."""

from __future__ import annotations

from typing import Any

import pytest

from abp_bridge.protocols.acp import v1 as acp
from abp_bridge.protocols.acp import v2

Json = Any

CALL = {"toolCallId": "c", "kind": "other", "status": "pending", "content": []}
OPTIONS = [{"optionId": "s0-0", "name": "Yes", "kind": "allow_once"}]


def update(**said: Json) -> Json:
    return {"method": "session/update", "params": {"sessionId": "s", "update": said}}


def permission(**params: Json) -> Json:
    return {
        "id": 1,
        "method": "session/request_permission",
        "params": {"sessionId": "s", "options": OPTIONS, **params},
    }


COMMAND = {"name": "a", "description": "A", "input": {"hint": "h"}}
MESSAGES: dict[str, tuple[Json, Json]] = {
    "a permission has a title, and a subject": (
        permission(toolCall={**CALL, "title": "Book it?"}),
        permission(title="Book it?", subject={"type": "tool_call", "toolCall": CALL}),
    ),
    "a tool call begins with an update": (
        update(sessionUpdate="tool_call", **CALL),
        update(sessionUpdate="tool_call_update", **CALL),
    ),
    "an update stays": (
        update(sessionUpdate="tool_call_update", **CALL),
        update(sessionUpdate="tool_call_update", **CALL),
    ),
    "what is said is a message": (
        update(**acp.encode_message("hello")),
        update(**acp.encode_message("hello"), messageId="abp-said-1"),
    ),
    "a command is one, and takes text": (
        update(sessionUpdate="available_commands_update", availableCommands=[COMMAND]),
        update(
            sessionUpdate="available_commands_update",
            availableCommands=[
                {
                    "type": "command",
                    "name": "a",
                    "description": "A",
                    "input": {"type": "text", "hint": "h"},
                }
            ],
        ),
    ),
    "there are no modes": (
        {"id": 1, "result": {"sessionId": "s", "modes": {}}},
        {"id": 1, "result": {"sessionId": "s"}},
    ),
    "an error stays": ({"id": 1, "error": {"code": 1}}, {"id": 1, "error": {"code": 1}}),
    "a form stays": (
        {"id": 1, "method": "elicitation/create", "params": {"a": 1}},
        {"id": 1, "method": "elicitation/create", "params": {"a": 1}},
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_message_in_the_words_of_version_two(case: str) -> None:
    first, second = MESSAGES[case]
    assert v2.Outward()(first) == second


def test_each_message_of_the_agent_has_an_id_of_its_own() -> None:
    outward = v2.Outward()
    said = [
        outward(update(**acp.encode_message("hello")))["params"]["update"]["messageId"]
        for _ in range(2)
    ]
    assert said == ["abp-said-1", "abp-said-2"]


@pytest.mark.parametrize("capabilities", [{"elicitation": {"form": {}}}, None, []])
def test_a_client_is_read_as_one_of_version_one(capabilities: Json) -> None:
    client = v2.decode_client(
        {"protocolVersion": 2, "info": {"name": "x"}, "capabilities": capabilities}
    )
    found = acp.decode_capabilities(client["clientCapabilities"])
    assert (client["clientInfo"], found.form, found.notices) == (
        {"name": "x"},
        bool(capabilities),
        True,
    )


def test_a_prompt_is_taken_echoed_and_ended_with_its_reason() -> None:
    prompt = [{"type": "text", "text": "hello"}]
    assert v2.encode_taken("m1") == {"messageId": "m1"}
    assert v2.encode_prompt("m1", prompt) == {
        "sessionUpdate": "user_message",
        "messageId": "m1",
        "content": prompt,
    }
    assert v2.encode_state() == {"sessionUpdate": "state_update", "state": "running"}
    assert v2.encode_state(asking=True)["state"] == "requires_action"
    assert v2.encode_state("cancelled") == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "cancelled",
    }


def test_the_agent_says_who_it_is() -> None:
    opened = v2.encode_opened({"name": "a", "version": "1"})
    assert (opened["protocolVersion"], opened["info"]) == (2, {"name": "a", "version": "1"})
