"""`--confirm` before a server's tools, for servers that never ask: a call that the user did not
allow never reaches the server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mcp_proxy import DESKTOP, FORM, Proxied, proxied
from support.paths import PYTHON
from support.programs import Desktop

Json = Any

CALLS = "tools/call"


def called(host: Proxied) -> list[str]:
    """The tools that the server was asked to run."""
    return [params["name"] for params in host.to_server(CALLS)]


@pytest.mark.parametrize(
    ("chosen", "tool", "asked"),
    [
        ("destructive", "azure", True),  # no hints: as destructive as MCP has it
        ("destructive", "say", False),
        ("destructive", "look", False),
        ("all", "look", True),
        ("say", "say", True),
        ("say", "look", False),
    ],
)
def test_confirm_option_chooses_the_tools_to_ask_about(
    chosen: str, tool: str, asked: bool, tmp_path: Path
) -> None:
    with proxied(
        tmp_path, "--confirm", chosen, "--page", "off", capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call(tool, lines=[], method="roots/list", params={})
        message = host.until(lambda each: "method" in each or each.get("id") == call)
        is_consent = message.get("method") == "elicitation/create"
        assert is_consent is asked
        if is_consent:
            words = message["params"]["message"]
            assert words.startswith(
                f"abp-bridge asks: May {tool} of {PYTHON} mcp_server.py read deeds be called?"
            )
            says = "Nothing says that this can be undone" in words
            assert says is (tool == "azure")
            assert not called(host)
            host.reply(message["id"], {"action": "decline"})
            assert host.response(call)["result"]["isError"]
            host.wait_read()
            assert not called(host)


def test_confirmed_call_passes_as_it_was_shown(tmp_path: Path) -> None:
    line = (
        b'{"jsonrpc": "2.0", "id":70, "method":"tools/call",'
        b'"params":{"name":"say",  "arguments":{"lines":["x"],"lines":[]},"_meta":{"k":1}}}\n'
    )
    with proxied(
        tmp_path, "--confirm", "all", "--page", "off", capabilities={"elicitation": FORM}
    ) as host:
        host.write(line)
        question = host.asked()
        assert '"x"' not in question["params"]["message"]
        host.reply(question["id"], {"action": "accept", "content": {"confirmed": "Allow"}})
        assert host.text(70) == "said"
        (given,) = host.to_server(CALLS)
        assert given == {"name": "say", "arguments": {"lines": []}, "_meta": {"k": 1}}


def test_confirm_with_an_unknown_tool_asks_before_every_tool(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The question and the refusal say so."""
    said = (
        "--confirm azur: this server has no tool of that name; is azure meant? Until that is"
        " corrected you are asked before every tool."
    )
    with proxied(
        tmp_path, "--confirm", "azur", "--page", "off", capabilities={"elicitation": FORM}
    ) as host:
        call = host.begin_call("look")
        question = host.asked()
        assert said in question["params"]["message"]
        host.reply(question["id"], {"action": "decline"})
        assert host.text(call).endswith(said)
        assert not called(host)
        call = host.begin_call("say", lines=[])
        host.reply(host.asked()["id"], {"action": "accept", "content": {"confirmed": "Allow"}})
        assert host.text(call) == "said"
        host.end()
    assert said in capfd.readouterr().err


def test_confirm_lists_the_tools_for_a_host_that_has_not(tmp_path: Path) -> None:
    with Proxied(tmp_path, "--confirm", "azure", "--page", "off") as host:
        host.initialize(elicitation=FORM)
        assert host.text(host.begin_call("say", lines=[])) == "said"
        call = host.begin_call("azure")
        host.reply(host.asked()["id"], {"action": "decline"})
        assert host.response(call)["result"]["isError"]
        assert called(host) == ["say"]


LONG = {"file": "x" * 5_000 + "END", "path": "/etc"}


@pytest.mark.network
def test_confirm_shows_a_long_call_whole_on_the_page(tmp_path: Path) -> None:
    """Where a form of the host's has no room for it, a page does."""
    desktop = Desktop(tmp_path)
    arguments = ("--confirm", "all")
    form: Json = {"elicitation": FORM}
    with proxied(tmp_path, *arguments, env=desktop.env, capabilities=form) as host:
        call = host.begin_call("say", lines=[], **LONG)
        page = desktop.visit()
        assert LONG["file"] in page.page
        assert "not shown" not in page.page
        page.send(action="yes")
        assert host.text(call) == "said"
    assert "elicitation/create" not in "".join(
        line for line in host.log_file.read_text().splitlines() if line.startswith("< ")
    )


@pytest.mark.parametrize("size", [5_000, 200_000])
def test_confirm_refuses_a_call_that_cannot_be_shown_whole(size: int, tmp_path: Path) -> None:
    page = "off" if size == 5_000 else "open"
    form: Json = {"elicitation": FORM}
    arguments = ("--confirm", "all", "--page", page)
    with proxied(tmp_path, *arguments, env=DESKTOP, capabilities=form) as host:
        call = host.begin_call("say", lines=[], text="x" * size)
        words = host.text(call)
        assert "mcp-form: it cannot be shown whole here" in words
        assert ("page: not set up (--page open)" in words) is (page == "off")
        assert not called(host)


def test_confirm_applies_to_calls_in_a_batch(tmp_path: Path) -> None:
    """Revisions with batches have no forms; no host sends one."""
    flags = ("--confirm", "all", "--page", "off", "--without-person")
    with Proxied(tmp_path, *flags) as host:
        host.initialize("2025-03-26")
        batch = [
            {"jsonrpc": "2.0", "id": n, "method": CALLS, "params": {"name": "say"}} for n in (5, 6)
        ]
        host.write(json.dumps(batch).encode() + b"\n")
        assert [each["result"]["isError"] for each in host.read()] == [True, True]
        host.wait_read()
        assert not called(host)


LOOK = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"look","arguments":%s}}'
# What a model writes as arguments, or a host around them, that no one can be shown: the error.
UNSHOWN: dict[str, tuple[str, int]] = {
    "nested": (LOOK % ('{"a":' * 490 + "1" + "}" * 490), -32602),
    "nested past reading": (LOOK % ('{"a":' * 9_000 + "1" + "}" * 9_000), -32700),
    "a list": (LOOK % '["/"]', -32602),
    "a text": (LOOK % '"{}"', -32602),
    "other letters": (LOOK % '{},"Name":"azure"', -32602),
    "a long s": (LOOK % '{},"argument\u017f":{"a":1}', -32602),
    "a zero behind": (LOOK % '{},"name\\u0000":"azure"', -32602),
    "a name that is a list": (LOOK.replace('"look"', '["azure"]') % "{}", -32602),
}


@pytest.mark.parametrize("case", UNSHOWN)
def test_confirm_refuses_a_call_that_cannot_be_shown(case: str, tmp_path: Path) -> None:
    with Proxied(tmp_path, "--confirm", "azure", "--page", "off") as host:
        host.initialize("2025-11-25", elicitation=FORM)
        line, code = UNSHOWN[case]
        host.write(line.encode() + b"\n")
        assert host.response(5)["error"]["code"] == code
        host.wait_read()
        assert not called(host)


def test_confirm_refuses_a_second_call_with_the_same_id(tmp_path: Path) -> None:
    with proxied(
        tmp_path, "--confirm", "all", "--page", "off", capabilities={"elicitation": FORM}
    ) as host:
        host.send(CALLS, {"name": "look"}, id=5)
        question = host.asked()
        host.send(CALLS, {"name": "azure"}, id=5)
        host.reply(question["id"], {"action": "decline"})
        assert host.response(5)["result"]["isError"]
        host.wait_read()
        assert not called(host)
        assert host.end() == 0
