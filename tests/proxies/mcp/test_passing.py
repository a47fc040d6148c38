"""What passes between a host and its server: every byte, both ways, but for the first frame, the
server's own questions, and what it says that is no message.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.harness import PATIENCE, environment
from support.mcp_proxy import FORM, MCP, Proxied, proxied
from support.paths import PYTHON

from abp_bridge import VERSION
from abp_bridge.jsonrpc.byte_edit import MAX_LINE

Json = Any

ODD = [
    b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1007,"id":1008,"method":"vendor/thing",'
    b'"params":{"a":1,"a":2}}\n',
    b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"vendor/number","params":{"x":1e2}}\n',
    b'{"jsonrpc" : "2.0","method":"notifications/vendor/\\u0078" ,"params":{"s":"\\ud83d"}}\n',
    b'{"jsonrpc":"2.0","id":0,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":"0","method":"logging/setLevel","params":{"level":"debug"}}\r\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"x-own":[1]}}\n',
    b'{"jsonrpc":"2.0","id":1003,"method":"tools/list",'
    b'"params":{"cursor":"\\u00e9","_meta":{"v":1}}}\n',
    b'{"jsonrpc":"2.0","id":1005,"method":"tools\\/call",'
    b'"params":{"name":"none","_meta":{"k":1}}}\n',
    b'[{"jsonrpc":"2.0","id":1004,"method":"ping"}]\n',
]
# Of a server's these are its own business; of a host's they may be meant for a question to come.
UNASKED = [
    b'{"jsonrpc":"2.0","id":1009,"result":{"for":"nobody"}}\n',
    b'{"jsonrpc":"2.0","id":"abp-0-1","result":{}}\n',
]

# What a server may say that is no question of its own.
SAID = [
    *(each for each in ODD if b"tools" not in each),
    *UNASKED,
    b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}\n',
    b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"x":1}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/elicitation/complete",'
    b'"params":{"elicitationId":"E"}}\n',
    b'{"jsonrpc":"2.0","id":77,"error":{"code":-32042,"message":"u","data":{"elicitations":[]}}}\n',
    b'{"jsonrpc":"2.0","id":78,"result":{"_meta":{"n":1},'
    b'"tools":[{"name":"x","x-unknown":"keep"}]}}\n',
]

SAID_ALL = {"content": [{"type": "text", "text": "said"}], "isError": False}


def test_each_line_of_the_host_passes_byte_for_byte(tmp_path: Path) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        before = len(host.lines_to_server())
        for line in ODD:
            host.write(line)
        host.request("ping")
        assert host.lines_to_server()[before:-1] == ODD
        host.log_file.write_bytes(b"")  # these are nothing for the referee
        host.read_by_server.write_bytes(b"")


def test_each_line_of_the_server_passes_byte_for_byte(tmp_path: Path) -> None:
    with Proxied(tmp_path) as host:
        host.initialize(elicitation=FORM)
        call = host.begin_call("say", lines=[line.decode("latin-1") for line in SAID])
        while host.read() != {"jsonrpc": "2.0", "id": call, "result": SAID_ALL}:
            pass
        raw = host.log_file.read_bytes().splitlines(keepends=True)
        said = [line[2:] for line in raw if line.startswith(b"< ")]
        assert said[1:-1] == SAID


def test_the_server_is_told_what_can_be_asked_here(tmp_path: Path) -> None:
    given: Json = {
        "sampling": {"tools": {}},
        "extensions": {"io.x/y": {}},
        "elicitation": {"x": {}},
    }
    with proxied(tmp_path, "--page", "open", env={"BROWSER": "true"}, capabilities=given) as host:
        (told,) = host.to_server("initialize")
        assert told["capabilities"] == given | {"elicitation": {"form": {}, "url": {}}}
        assert told["clientInfo"] == {"name": f"raw (via abp-bridge {VERSION})", "version": "1"}


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


def test_output_that_is_not_json_goes_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        lines = ["Listening ...\n", "[INFO] on stdio\n", "  {'a': 1}\n", "17\n"]
        assert host.text(host.begin_call("say", lines=lines[:2] + lines[3:])) == "said"
        host.end()
        said = capfd.readouterr().err
        for line in lines[:2] + lines[3:]:
            assert f"[{PYTHON} mcp_server.py] {line}" in said


def test_control_characters_of_the_server_are_escaped_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        lines = ["50 %\rabp-bridge: all is well\n", "\x1b[2J\x7fgone\r\n"]
        assert host.text(host.begin_call("say", lines=lines)) == "said"
        host.end()
    said = capfd.readouterr().err
    assert f"[{PYTHON} mcp_server.py] 50 % abp-bridge: all is well\n" in said
    assert f"[{PYTHON} mcp_server.py] \\u001b[2J\\u007fgone\r\n" in said


def test_ids_that_look_alike_are_not_mixed_up(tmp_path: Path) -> None:
    """The server's questions have the ids of the host's own requests, and so have the answers."""
    with proxied(tmp_path, capabilities={"elicitation": FORM, "roots": {}}) as host:
        first = {"name": "ask", "arguments": {"method": "roots/list", "params": {}}}
        host.send("tools/call", first, id=0)
        asked = host.until(lambda message: message.get("method") == "roots/list")
        assert asked["id"] == 0
        host.reply(0, {"roots": []})
        assert host.response(0)["result"]["content"]
        host.send("tools/call", {"name": "azure"}, id="1")
        question = host.asked()
        host.reply(question["id"], {"action": "decline"})
        assert "decline" in str(host.response("1"))


@pytest.mark.process
@pytest.mark.parametrize("separated", [True, False])
def test_missing_server_program_is_reported(separated: bool) -> None:
    command = [*MCP, *(["--"] if separated else []), "no-such-server-here"]
    ended = subprocess.run(
        command, input=b"", capture_output=True, env=environment(), timeout=PATIENCE, check=False
    )
    assert ended.returncode == 127
    assert b"the server cannot be started" in ended.stderr


SHOUTS = """
import sys
request = __import__("json").loads(sys.stdin.readline())
result = '{"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": %s}'
info = '{"name": "s", "version": "1"}'
print('{"jsonrpc": "2.0", "id": %d, "result": %s}' % (request["id"], result % info), flush=True)
note = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "%s"}}'
with open(sys.argv[1], "w") as counted:
    while True:
        print(note % ("x" * 1000), flush=True)
        counted.write("x")
        counted.flush()
"""


@pytest.mark.process
def test_server_is_held_up_while_the_host_does_not_read(tmp_path: Path) -> None:
    """A server that says more than its host reads is held up, and not kept in memory."""
    hello: Json = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    info = {"name": "h", "version": "1"}
    offers = {"elicitation": FORM}
    hello["params"] = {"protocolVersion": "2025-11-25", "capabilities": offers, "clientInfo": info}
    counted, pipe = tmp_path / "counted", subprocess.PIPE
    command = [*MCP, "--", sys.executable, "-c", SHOUTS, str(counted)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment()) as proxy:
        watchdog = threading.Timer(PATIENCE, proxy.kill)
        watchdog.start()
        assert proxy.stdout is not None
        assert proxy.stdin is not None
        proxy.stdin.write(json.dumps(hello).encode() + b"\n")
        proxy.stdin.flush()
        assert len(proxy.stdout.read(10**6)) == 10**6
        proxy.stdin.close()
        assert proxy.wait(PATIENCE) == 0
        watchdog.cancel()
    assert counted.stat().st_size < 5_000


@pytest.mark.slow
def test_line_over_the_limit_gets_an_error_if_its_id_is_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    long = b"x" * (MAX_LINE + 2**20)
    with proxied(tmp_path, capabilities={"elicitation": FORM}) as host:
        host.write(
            b'{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"x":"%b"}}\n' % long
        )
        error = host.response("long")["error"]
        assert (error["code"], "more than" in error["message"]) == (-32600, True)
        host.write(b'{"params":{"x":"%b"},"jsonrpc":"2.0","id":7,"method":"tools/call"}\n' % long)
        host.request("ping")
        assert not [line for line in host.lines_to_server() if b"xxx" in line]
        host.end()
    said = capfd.readouterr().err
    assert said.count("a line of the host's is dropped") == 2
