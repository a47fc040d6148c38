"""What passes between a host and its server: every value, both ways, but for the server's own
questions, and what it says that is no message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.mcp_proxy import FORM, Proxied, proxied
from support.paths import PYTHON

from abp_bridge.mcp.proxy import proxy

Json = Any

# What passes from a host: the line, and what its server reads.
ODD: list[tuple[bytes, Json]] = [
    (
        b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"vendor/x","params":{"x":1e2}}',
        {"id": 12345678901234567890123, "method": "vendor/x", "params": {"x": 100}},
    ),
    (
        b'{"jsonrpc" : "2.0","method":"notifications/vendor/\\u0078" ,"params":{"s":"\\ud83d"}}',
        {"method": "notifications/vendor/x", "params": {"s": "\ud83d"}},
    ),
    (
        b'{"jsonrpc":"2.0","id":"0","method":"logging/setLevel","params":{"level":"debug"}}\r',
        {"id": "0", "method": "logging/setLevel", "params": {"level": "debug"}},
    ),
    (
        b'{"jsonrpc":"2.0","id":1005,"method":"tools\\/call","params":{"name":"none","x":null}}',
        {"id": 1005, "method": "tools/call", "params": {"name": "none", "x": None}},
    ),
]
# What passes from a server, of all that it may say.
SAID: list[Json] = [
    {"id": 12345678901234567890123, "method": "vendor/number", "params": {"x": 1.5}},
    {"id": "0", "method": "vendor/thing"},
    {"method": "notifications/vendor/x", "params": {"s": "\ud83d", "_meta": {"n": 1}}},
    {"id": 1, "method": "roots/list"},
    {"id": 2, "method": "sampling/createMessage", "params": {"messages": [], "x": 1}},
    {"method": "notifications/elicitation/complete", "params": {"elicitationId": "E"}},
]
# What answers no request, or nobody asked for, is dropped.
DROPPED: list[Json] = [
    {"id": 1009, "result": {"for": "nobody"}},
    {"id": "abp-0-1", "result": {}},
    {"id": 77, "error": {"code": -32042, "message": "u", "data": {"elicitations": []}}},
    {"method": "notifications/cancelled", "params": {"requestId": 0}},
]
SAID_ALL = {"content": [{"type": "text", "text": "said"}], "isError": False}


def stamped(messages: list[Json]) -> list[Json]:
    return [{"jsonrpc": "2.0", **each} for each in messages]


def test_messages_of_the_host_pass_value_for_value(tmp_path: Path) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        before = len(host.to_server())
        for line, _ in ODD:
            host.write(line + b"\n")
        for dropped in DROPPED:
            host.write(json.dumps(dropped).encode() + b"\n")
        host.wait_read()
        assert host.to_server()[before:-1] == stamped([message for _, message in ODD])
        host.log_file.write_bytes(b"")  # these are nothing for the referee
        host.read_by_server.write_bytes(b"")


def test_messages_of_the_server_pass_value_for_value(tmp_path: Path) -> None:
    with Proxied(tmp_path) as host:
        host.initialize(elicitation=FORM, sampling={}, roots={})
        lines = [json.dumps(each) + "\n" for each in stamped([*SAID, *DROPPED])]
        call = host.begin_call("say", lines=lines)
        said = [host.read() for _ in range(len(SAID) + 1)]
        assert said == [*stamped(SAID), {"jsonrpc": "2.0", "id": call, "result": SAID_ALL}]


def test_the_server_is_told_what_can_be_asked_here(tmp_path: Path) -> None:
    given: Json = {
        "sampling": {"tools": {}},
        "extensions": {"io.x/y": {}},
        "elicitation": {"x": {}},
    }
    with proxied(tmp_path, "--page", "open", env={"BROWSER": "true"}, capabilities=given) as host:
        (told,) = host.to_server("initialize")
        assert told["capabilities"] == given | {"elicitation": {"x": {}, "form": {}, "url": {}}}
        assert told["clientInfo"] == host.client


def test_root_option_is_used_for_a_host_without_roots(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    with proxied(tmp_path, "--root", str(folder), capabilities={"elicitation": FORM}) as host:
        assert host.to_server("initialize")[0]["capabilities"]["roots"] == {}
        said = json.loads(host.text(host.begin_call("ask", method="roots/list", params={})))
        assert said["result"] == {"roots": [{"uri": folder.as_uri(), "name": "mine"}]}


def test_roots_of_the_host_come_before_the_option(tmp_path: Path) -> None:
    has: Json = {"elicitation": FORM, "roots": {"listChanged": True}}
    with proxied(tmp_path, "--root", str(tmp_path), capabilities=has) as host:
        assert host.to_server("initialize")[0]["capabilities"]["roots"] == has["roots"]
        call = host.begin_call("ask", method="roots/list", params={})
        asked = host.until(lambda message: message.get("method") == "roots/list")
        host.reply(asked["id"], {"roots": []})
        assert json.loads(host.text(call))["result"] == {"roots": []}


def test_control_characters_of_the_server_are_escaped_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        lines = ["50 %\rabp-bridge: all is well\n", "\x1b[2J\x7fgone\r\n"]
        assert host.text(host.begin_call("say", lines=lines)) == "said"
        host.end()
    said = capfd.readouterr().err
    assert f"[{PYTHON} mcp_server.py] 50 %\\rabp-bridge: all is well\n" in said
    assert f"[{PYTHON} mcp_server.py] \\u001b[2J\\u007fgone\n" in said


def test_line_over_the_limit_gets_an_error_if_its_id_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "MAX_PASSED_LINE", 10_000)
    long = b"x" * 20_000
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        host.write(
            b'{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"x":"%b"}}\n' % long
        )
        error = host.response("long")["error"]
        assert (error["code"], "longer than" in error["message"]) == (-32600, True)
        host.wait_read()
        assert not [line for line in host.lines_to_server() if b"xxx" in line]
