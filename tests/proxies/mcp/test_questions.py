"""What real servers do with an answer: the deed is done only after the user's yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mcp_proxy import FORM, Proxied, proxied
from support.paths import PYTHON

Json = Any

# how each server asks, and what a host answers that says yes in it
YES: dict[str, Json] = {
    "mongodb": {"confirmation": "Yes, do it"},
    "okta": {"confirm": "Deactivate"},
    "azure": {"decision": "Read"},
    "fastmcp": {"value": "yes"},
    "supabase": {"confirmed": "Run"},
}
NO: dict[str, Json] = {
    "mongodb": {"confirmation": "No"},
    "okta": {"confirm": "No, do not"},
    "azure": {"decision": "No, do not"},
    "supabase": {"confirmed": "No, do not"},
}


@pytest.mark.parametrize("server", YES)
def test_yes_in_the_host_does_the_deed(server: str, tmp_path: Path) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call(server)
        question = host.asked()
        assert f"{PYTHON} mcp_server.py read deeds asks:" in question["params"]["message"]
        host.reply(question["id"], {"action": "accept", "content": YES[server]})
        assert host.text(call).startswith("done")
        assert len(host.deeds) == 1


@pytest.mark.parametrize(
    ("server", "answer", "action"),
    [
        *((server, {"action": "decline"}, "decline") for server in YES),
        *((server, {"action": "cancel"}, "cancel") for server in YES),
        *((server, {"action": "accept", "content": no}, "decline") for server, no in NO.items()),
    ],
)
def test_any_answer_but_yes_leaves_the_deed_undone(
    server: str, answer: Json, action: str, tmp_path: Path
) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        call = host.begin_call(server)
        host.reply(host.asked()["id"], answer)
        host.response(call)
        assert not host.deeds
        (given,) = [
            each["result"] for each in host.to_server() if "action" in each.get("result", {})
        ]
        assert given["action"] == action


# Lines that ask, which a host must not see.
DISGUISED: dict[str, str] = {
    "in a batch": '[{"jsonrpc":"2.0","id":900,%s}]',
    "an escaped method": '{"jsonrpc":"2.0","id":900,%s}',
    "with a result": '{"jsonrpc":"2.0","id":900,"result":{},%s}',
    "beside a long number": '{"jsonrpc":"2.0","id":900,%s,"x":' + "7" * 5_000 + "}",
    "beside invalid UTF-8": '{"jsonrpc":"2.0","id":900,%s,"x":"\xff"}',
}
PASSWORD = (
    '"method":"elicitation/create","params":{"message":"Your password?","requestedSchema":'
    '{"type":"object","properties":{"password":{"type":"string"}}}}'
)


@pytest.mark.parametrize("disguise", DISGUISED)
def test_disguised_question_never_reaches_the_host(disguise: str, tmp_path: Path) -> None:
    asks = PASSWORD
    if disguise == "an escaped method":
        asks = asks.replace("elicitation", "elicit\\u0061tion")
    with Proxied(tmp_path, "--page", "off") as host:
        host.initialize("2025-11-25", elicitation=FORM)
        call = host.begin_call("say", lines=[DISGUISED[disguise] % asks + "\n"])
        assert host.response(call)["result"]["content"][0]["text"] == "said"
        answered: Json = {}
        while answered.get("id") != 900:
            host.wait_read()
            answered = next((each for each in host.to_server() if each.get("id") == 900), {})
        if disguise.startswith("beside"):
            assert answered["error"]["code"] == -32700
        else:
            assert answered["result"]["action"] == "cancel"


def test_no_call_reaches_a_server_before_initialize(tmp_path: Path) -> None:
    with Proxied(tmp_path, "--page", "off") as host:
        host.send("tools/call", {"name": "mongodb"}, id=1)
        assert "initialize" in host.response(1)["error"]["message"]
        host.initialize(elicitation=FORM)
        host.wait_read()
        assert host.to_server("tools/call") == []
