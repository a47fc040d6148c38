"""The questions of a server behind the proxy: which call they belong to, how many can be open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mcp_proxy import FORM, Proxied, proxied

from abp_bridge.mcp.proxy import server_questions

Json = Any

ASKED: Json = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
SHOWS_FORMS: Json = {"elicitation": FORM}


def line(**message: Json) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def begin_open_call(host: Proxied, tool: str) -> None:
    """Begin a call that stays open while the server takes others."""
    host.begin_call(tool, method="roots/list", params={})
    host.until(lambda message: message.get("method") == "roots/list")


@pytest.mark.parametrize(
    ("open_calls", "may_destroy"), [(["look"], False), (["look", "look"], False), (["ask"], True)]
)
def test_question_is_as_destructive_as_the_worst_call_it_may_belong_to(
    open_calls: list[str], may_destroy: bool, tmp_path: Path
) -> None:
    with proxied(tmp_path, "--page", "off", capabilities=SHOWS_FORMS) as host:
        for tool in open_calls:
            begin_open_call(host, tool)
        host.begin_call("look", method="elicitation/create", params=ASKED)
        assert ("can be undone" in host.asked()["params"]["message"]) is may_destroy


def test_question_of_a_cancelled_call_stays_destructive(tmp_path: Path) -> None:
    with proxied(tmp_path, "--page", "off", capabilities=SHOWS_FORMS) as host:
        call = host.begin_call("mongodb")
        host.asked()
        host.send("notifications/cancelled", {"requestId": call})
        host.begin_call("look", method="elicitation/create", params=ASKED)
        assert "can be undone" in host.asked()["params"]["message"]


def test_question_over_the_limit_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_questions, "MAX_OPEN", 2)
    with proxied(tmp_path, "--page", "off", capabilities=SHOWS_FORMS) as host:
        begin_open_call(host, "ask")
        asks = [line(id=id, method="elicitation/create", params=ASKED) for id in (70, 71, 70, 72)]
        host.begin_call("say", lines=asks)
        questions = [host.asked()["id"] for _ in range(2)]
        for id in questions:
            host.reply(id, {"action": "decline"})
        while len(answers := [each for each in host.to_server() if "action" in str(each)]) < 3:
            host.wait_read()
        actions = {each["id"]: each["result"]["action"] for each in answers}
        assert actions == {70: "decline", 71: "decline", 72: "cancel"}


def test_address_that_the_server_says_is_done_is_taken_down(tmp_path: Path) -> None:
    link = {"mode": "url", "message": "?", "url": "https://e.example/", "elicitationId": "E1"}
    shows: Json = {"elicitation": {"form": {}, "url": {}}}
    done = line(method="notifications/elicitation/complete", params={"elicitationId": "E1"})
    with proxied(tmp_path, "--page", "off", capabilities=shows) as host:
        begin_open_call(host, "ask")
        host.begin_call("say", lines=[line(id=9, method="elicitation/create", params=link)])
        question = host.asked()
        host.begin_call("say", lines=[done])
        assert host.notified("notifications/cancelled")["requestId"] == question["id"]
