"""What real servers do with an answer: behind the proxy the deed is done when a person says so, and
only then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mcp_proxy import FORM, proxied

Json = Any

# how each server asks, and what a host answers that says yes in it
YES: dict[str, Json] = {
    "mongodb": {"confirmation": "Yes"},
    "okta": {"confirm": "Deactivate"},
    "azure": {"decision": "accept"},
    "fastmcp": {"value": "yes"},
    "supabase": {"confirmed": "Run"},
}
NO: dict[str, Json] = {
    "mongodb": {"confirmation": "No"},
    "okta": {"confirm": "No, do not"},
    "azure": {"decision": "reject"},
    "supabase": {"confirmed": "No, do not"},
}


@pytest.mark.parametrize("server", YES)
def test_a_person_says_yes_in_the_host(server: str, tmp_path: Path) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        call = host.call(server)
        question = host.asked()
        assert "python mcp_server.py asks:" in question["params"]["message"]
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
def test_any_other_answer_leaves_the_deed_undone(
    server: str, answer: Json, action: str, tmp_path: Path
) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        call = host.call(server)
        host.reply(host.asked()["id"], answer)
        host.response(call)
        assert not host.deeds
        (given,) = [
            each["result"] for each in host.to_server() if "action" in each.get("result", {})
        ]
        assert given["action"] == action
