"""The bridge as a process: what it answers to good and bad lines, and how it ends."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from support.harness import (
    PATIENCE,
    SERVE,
    VERSIONS,
    Hosted,
    RawHost,
    accept,
    environment,
    hosted,
    run,
    text,
)
from support.paths import APPS

from abp_bridge.cli.compose import Composition
from abp_bridge.cli.serve import Hosts
from abp_bridge.jsonrpc.connection import ByteReader
from abp_bridge.settings import read_settings

Json = Any

# "exit within two seconds" (design.md), as the bound of a wait.
QUIET_END = 2.0


def test_a_host_gets_the_version_it_asked_for() -> None:
    for version in VERSIONS:
        with RawHost() as host:
            assert host.initialize(version)["result"]["protocolVersion"] == version


def test_a_version_from_the_future_is_answered_with_the_newest_known() -> None:
    with RawHost() as host:
        assert host.initialize("2099-01-01")["result"]["protocolVersion"] == "2025-11-25"


def test_a_host_that_looks_for_the_modern_era_can_still_begin_with_a_handshake() -> None:
    with RawHost() as host:
        assert host.request("server/discover")["error"]["code"] == -32602
        assert host.initialize()["result"]["serverInfo"]["name"] == "abp-bridge"


def test_an_acp_client_is_recognised_by_its_version() -> None:
    with RawHost() as host:
        assert (
            host.request("initialize", {"protocolVersion": 1})["result"]["agentInfo"]["name"]
            == "abp-bridge"
        )


def test_nothing_is_started_for_a_host_that_only_looks() -> None:
    """Some hosts start a throw-away copy to list the tools: no app, no folder, no child."""
    with RawHost("--app", "stdio:false") as host:
        host.initialize()
        tools = [tool["name"] for tool in host.request("tools/list")["result"]["tools"]]
        assert tools == [
            "abp_connect",
            "abp_disconnect",
            "abp_status",
            "abp_call",
            "abp_wait",
            "abp_ask",
        ]
        children = subprocess.run(
            ["pgrep", "-P", str(host.process.pid)], capture_output=True, text=True, check=False
        )
        assert children.stdout == ""
        assert host.end() == 0


GARBAGE = {
    "not json": (b"hello\n", -32700),
    "half json": (b'{"jsonrpc":"2.0","id":1,\n', -32700),
    "not utf-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}\n', -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}\n', -32700),
    "a 5000-digit number": (
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}\n',
        -32700,
    ),
    "100,000 brackets": (b"[" * 100_000 + b"\n", -32700),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600),
    "a number": (b"42\n", -32600),
    "no version": (b'{"id":1,"method":"ping"}\n', -32600),
    "a method that is no text": (b'{"jsonrpc":"2.0","id":1,"method":7}\n', -32600),
    "params that are text": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}\n', -32600),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600),
    "neither request nor response": (b'{"jsonrpc":"2.0","id":1}\n', -32600),
    "200 levels deep": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":'
        + b"[" * 200
        + b"]" * 200
        + b"}}\n",
        -32600,
    ),
    "a 20 MB line": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * 20_000_000 + b'"}}\n',
        -32600,
    ),
}


@pytest.mark.parametrize("line", GARBAGE)
def test_garbage_gets_its_error_and_the_session_goes_on(line: str) -> None:
    data, code = GARBAGE[line]
    with RawHost() as host:
        host.initialize()
        host.write(data)
        assert host.read()["error"]["code"] == code
        assert host.request("ping")["result"] == {}


BAD_REQUESTS: dict[str, tuple[str, Json, int, str]] = {
    "unknown method": ("tools/burn", {}, -32601, "Method not found: tools/burn"),
    "unknown tool": ("tools/call", {"name": "abp_nothing"}, -32602, "Unknown tool 'abp_nothing'"),
    "no tool": ("tools/call", {}, -32602, "needs the name of a tool"),
    "arguments that are a list": (
        "tools/call",
        {"name": "abp_status", "arguments": []},
        -32602,
        "must be an object",
    ),
    "unknown resource": (
        "resources/read",
        {"uri": "abp://x/state/y"},
        -32002,
        "There is no resource",
    ),
    "no resource": ("resources/read", {}, -32602, "needs a uri"),
    "unknown log level": ("logging/setLevel", {"level": "loud"}, -32602, "must be one of debug"),
    "no protocol version": ("initialize", {}, -32602, "needs a protocolVersion"),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_wrong_request_gets_its_error(case: str) -> None:
    method, params, code, words = BAD_REQUESTS[case]
    with RawHost() as host:
        host.initialize()
        error = host.request(method, params)["error"]
        assert error["code"] == code
        assert words in error["message"]


BAD_CALLS: dict[str, tuple[Json, str]] = {
    "unknown capability": (
        {"capability": "demo.fly"},
        "UNKNOWN_CAPABILITY: There is no capability 'demo.fly'. Known are demo.",
    ),
    "no capability": ({}, "MISSING_PARAM: abp_call needs the name of a capability"),
    "params of the wrong type": (
        {"capability": "demo.echo", "params": 7},
        "INVALID_TYPE: params must be an object",
    ),
    "params that do not fit": (
        {"capability": "demo.ask", "params": {}},
        "INVALID_PARAMS: The parameters of demo.ask do not fit: request is",
    ),
    "an app that is not there": (
        {"capability": "demo.echo", "app": "nobody"},
        "DISCONNECTED: There is no connected app 'nobody'",
    ),
    "a timeout of nothing": (
        {"capability": "demo.echo", "timeout": 0},
        "INVALID_PARAMS: timeout must be a number of seconds",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_wrong_call_is_a_tool_error_that_says_what_to_do(case: str) -> None:
    arguments, words = BAD_CALLS[case]
    with RawHost("--app", "demo") as host:
        host.initialize()
        result = host.request("tools/call", {"name": "abp_call", "arguments": arguments})["result"]
        assert result["isError"]
        assert words in result["content"][0]["text"]


def test_an_argument_that_a_tool_does_not_have_is_told() -> None:
    with RawHost("--app", "demo") as host:
        host.initialize()
        result = host.request(
            "tools/call",
            {
                "name": "abp_call",
                "arguments": {"capability": "demo.echo", "arguments": {"value": 3}},
            },
        )["result"]
        told = (
            "INVALID_PARAMS: abp_call has no argument 'arguments'; it takes capability, params,"
            " app, timeout."
        )
        assert result["content"][0]["text"] == told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--app", "your.app"), "Did you mean https://your.app?"),
        (
            ("--app", "gopher://x"),
            "it must be https://..., http://..., ws://..., wss://..., stdio:COMMAND,"
            " mcp:COMMAND, mcp+https://..., mcp+http://..., acp:COMMAND, ./folder"
            " of a Chrome extension, demo or demo:page.",
        ),
        (("--app", "stido:python app.py"), "Did you mean 'stdio:python app.py'?"),
        (("--allow", "http://localhost"), "is no host"),
    ],
)
def test_a_flag_that_cannot_be_used_is_said_at_the_start(
    arguments: tuple[str, str], words: str
) -> None:
    done = subprocess.run(
        [*SERVE, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


BAD_TARGETS = {
    "no target at all": (None, "MISSING_PARAM: There is no app to connect"),
    "half an address": ("http://[", "is no web address"),
    "not a target": ("gopher://x", "is no app that can be connected"),
    "an address without its scheme": ("your.app/x", "Did you mean https://your.app/x?"),
    "a command named by the model": (
        "stdio:rm -rf /",
        "PERMISSION_DENIED: Only the person can start a command",
    ),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_a_target_that_cannot_be_connected_says_why(case: str) -> None:
    target, words = BAD_TARGETS[case]
    with RawHost() as host:
        host.initialize()
        result = host.request(
            "tools/call",
            {"name": "abp_connect", "arguments": {} if target is None else {"target": target}},
        )["result"]
        assert result["isError"]
        assert words in result["content"][0]["text"]


BAD_COMMANDS = {
    "a missing program": ("stdio:there-is-no-such-program", "there is no program"),
    "a script": ("stdio:app.py --port 1", "Put python3 before it, as in 'stdio:python3 FILE'."),
    "a file that is no program": (
        f"stdio:{__file__}",
        "is a file that may not be run as a program",
    ),
    "a program that ends": (
        f"stdio:{sys.executable} -c 'raise SystemExit(\"no licence\")'",
        "its last words: no licence",
    ),
    "an app that refuses": (
        f"""stdio:{sys.executable} -c 'import json;i=json.loads(input())["id"];"""
        """e={"code":"SESSION_INVALID","message":"no"};r={"success":False,"error":e};"""
        """print(json.dumps({"jsonrpc":"2.0","id":i,"result":r}));input()'""",
        "SESSION_INVALID: no",
    ),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_an_app_that_cannot_be_started_says_why_and_the_session_goes_on(case: str) -> None:
    target, words = BAD_COMMANDS[case]
    with RawHost("--app", target) as host:
        host.initialize()
        result = host.request("tools/call", {"name": "abp_connect"})["result"]
        assert result["isError"]
        assert words in result["content"][0]["text"]
        assert host.request("ping")["result"] == {}
        assert host.end() == 0


# Where a program says its own command line, before it is one that can be connected.
TELL_TALES = {
    "on stdout": "import sys; print(sys.argv)",
    "on stderr": "import sys; sys.exit(' '.join(sys.argv[1:]).upper())",
    "in an error": (
        "import json, sys; id = json.loads(input())['id'];"
        " error = {'code': 1, 'message': str(sys.argv)};"
        " print(json.dumps({'jsonrpc': '2.0', 'id': id, 'error': error})); input()"
    ),
}


@pytest.mark.parametrize("scheme", ["mcp", "acp", "stdio"])
@pytest.mark.parametrize("where", TELL_TALES)
def test_what_an_app_says_of_its_own_secrets_is_not_quoted(
    scheme: str, where: str, tmp_path: Path
) -> None:
    program, trace = tmp_path / "app.py", tmp_path / "trace.jsonl"
    program.write_text(TELL_TALES[where])
    words = [sys.executable, str(program), "--header", "Authorization: Bearer hunter2"]
    target = f"{scheme}:{shlex.join([*words, 'https://h.example/s/a1b2c3d4e5f6a7b8c9/mcp'])}"
    with RawHost("--app", target, "--record", str(trace)) as host:
        host.initialize()
        said = host.request("tools/call", {"name": "abp_connect"})["result"]
        said = json.dumps([said, host.request("tools/call", {"name": "abp_status"})["result"]])
        assert host.end() == 0
    assert "isError" in said
    for secret in ("hunter2", "a1b2c3d4e5f6a7b8c9"):
        assert secret not in (said + trace.read_text()).lower()


# What an MCP server and an ABP app answer; their call fails with their own command line.
_FAILING = """
import json, sys
error = {"code": -1, "message": str(sys.argv), "data": {"argv": sys.argv}}
failed = {"code": "X", "message": str(sys.argv), "details": {"argv": sys.argv}}
offered = [{"name": "go", "inputSchema": {"type": "object"}}]
answers = {
    "initialize": {
        "result": {
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
            "sessionId": "s", "app": {"id": "s", "name": "s", "version": "1"},
            "capabilities": {"tools": {}} if "mcp" in sys.argv else offered,
        }
    },
    "tools/list": {"result": {"tools": offered}},
    "capabilities/list": {"result": {"capabilities": offered}},
    "tools/call": {"error": error},
    "capabilities/call": {"result": {"success": False, "error": failed}},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = answers.get(asked["method"], {"error": {"code": -32601, "message": "no"}})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("scheme", ["mcp", "stdio"])
def test_what_an_app_says_of_its_secrets_when_a_call_fails_is_not_quoted(
    scheme: str, tmp_path: Path
) -> None:
    program = tmp_path / "app.py"
    program.write_text(_FAILING)
    target = f"{scheme}:{shlex.join([sys.executable, str(program), scheme, '--token', 'hunter2'])}"
    with RawHost("--app", target) as host:
        host.initialize()
        call = {"name": "abp_call", "arguments": {"capability": "go", "params": {}}}
        said = json.dumps(host.request("tools/call", call)["result"])
    assert "--token" in said
    assert "argv" in said
    assert "hunter2" not in said


def test_an_app_is_connected_by_what_is_shown_of_it() -> None:
    server = shlex.join(
        [
            sys.executable,
            str(APPS / "exotic_server.py"),
            "legacy",
            "/dev/null",
            "--token",
            "hunter2",
        ]
    )
    with RawHost("--app", f"mcp:{server}", "--app", "demo") as host:
        host.initialize()
        status = json.loads(
            host.request("tools/call", {"name": "abp_status"})["result"]["content"][0]["text"]
        )
        [shown] = [each["app"] for each in status["notConnected"] if each["app"] != "demo"]
        assert shown.endswith("exotic_server.py legacy null --token …")
        for target in (shown, shown, f"mcp:{server}"):
            connect = {"name": "abp_connect", "arguments": {"target": target}}
            assert not host.request("tools/call", connect)["result"]["isError"]
        unknown = {"name": "abp_connect", "arguments": {"target": "https://h.example/…/"}}
        [text] = host.request("tools/call", unknown)["result"]["content"]
        assert "No app of this session is shown as 'https://h.example/…/'" in text["text"]


def test_apps_that_are_shown_alike_are_connected_together() -> None:
    server = shlex.join(
        [sys.executable, str(APPS / "exotic_server.py"), "legacy", "/dev/null", "--token"]
    )
    with RawHost("--app", f"mcp:{server} hunter1", "--app", f"mcp:{server} hunter2") as host:
        host.initialize()
        [text] = host.request("tools/call", {"name": "abp_status"})["result"]["content"]
        shown = json.loads(text["text"])["notConnected"][0]["app"]
        connect = {"name": "abp_connect", "arguments": {"target": shown}}
        [text] = host.request("tools/call", connect)["result"]["content"]
        assert "Several apps are shown as" in text["text"]
        assert not host.request("tools/call", {"name": "abp_connect"})["result"]["isError"]


def test_a_response_to_nothing_is_dropped() -> None:
    with RawHost() as host:
        host.initialize()
        for id in ("abp-1", 1, None):
            host.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode() + b"\n")
        assert host.request("ping")["result"] == {}


# --- endings --------------------------------------------------------------------------------------


def asking_host() -> RawHost:
    """A host in front of which a question is open."""
    host = RawHost("--app", "demo")
    host.initialize(elicitation={})
    request = {"method": "elicitation/confirm", "params": {"message": "Still there?"}}
    host.send(
        "tools/call",
        {
            "name": "abp_call",
            "arguments": {"capability": "demo.ask", "params": {"request": request}},
        },
        id="call",
    )
    while host.read().get("method") != "elicitation/create":
        pass
    return host


def processes_of(group: int) -> list[str]:
    """Every process that descends from `group`, by command."""
    found = subprocess.run(
        ["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [
        (int(pid), int(parent), command)
        for pid, parent, command in (row.split(None, 2) for row in found)
    ]
    family, grown = {group}, True
    while grown:
        more = {pid for pid, parent, _ in rows if parent in family} - family
        grown = bool(more)
        family |= more
    return [f"{pid} {command}" for pid, _, command in rows if pid in family - {group}]


def alive(process: str) -> bool:
    pid, command = process.split(None, 1)
    listed = subprocess.run(
        ["ps", "-wwp", pid, "-o", "stat=,args="], capture_output=True, text=True, check=False
    ).stdout.split(None, 1)
    return len(listed) == 2 and not listed[0].startswith("Z") and listed[1].strip() == command


def close_stdin(host: RawHost) -> None:
    assert host.process.stdin is not None
    host.process.stdin.close()


def signals(*numbers: signal.Signals) -> Any:
    return lambda host: [host.process.send_signal(number) for number in numbers]


def stop_reading(host: RawHost) -> None:
    assert host.process.stdout is not None
    host.process.stdout.close()
    host.send("ping", id=9)


def interrupt_until_it_ends(host: RawHost) -> None:
    """Sooner or later one comes in the last moment."""
    for _ in range(5_000):
        host.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            host.process.wait(0.0005)
            break


ENDINGS = {
    "stdin closed": close_stdin,
    "SIGTERM": signals(signal.SIGTERM),
    "SIGINT twice": signals(signal.SIGINT, signal.SIGINT),
    "SIGINT twice, then SIGTERM": signals(signal.SIGINT, signal.SIGINT, signal.SIGTERM),
    "SIGINT without end": interrupt_until_it_ends,
    "SIGHUP": signals(signal.SIGHUP),
    "the host stops reading": stop_reading,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_quiet_and_leaves_no_process(
    ending: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with asking_host() as host:
        children = processes_of(host.process.pid)
        assert any("abp_bridge.apps.demo" in child for child in children)
        ENDINGS[ending](host)
        assert host.process.wait(QUIET_END) == 0
        assert [child for child in children if alive(child)] == []
    assert capfd.readouterr().err == ""


def test_an_app_ends_even_when_the_bridge_is_killed() -> None:
    with asking_host() as host:
        children = processes_of(host.process.pid)
        host.process.kill()
        host.process.wait(PATIENCE)
        subprocess.run(
            [
                "timeout",
                "10",
                "sh",
                "-c",
                f"while kill -0 {children[0].split()[0]} 2>/dev/null; do :; done",
            ],
            check=True,
        )


@pytest.mark.parametrize("where", ["/dev/null", "a file"])
def test_stdin_may_be_anything(where: str, tmp_path: Any) -> None:
    requests = tmp_path / "requests"
    requests.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with open("/dev/null" if where == "/dev/null" else requests, "rb") as stdin:
        done = subprocess.run(
            SERVE,
            stdin=stdin,
            capture_output=True,
            timeout=PATIENCE,
            env=environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (
        b"" if where == "/dev/null" else b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    )


def test_a_host_that_never_reads_our_stderr_does_not_stop_us() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    process = subprocess.Popen(
        [*SERVE, "--app", "demo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        env=environment(),
    )
    with process:
        out, _ = process.communicate(
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', timeout=PATIENCE
        )
    os.close(reading)
    os.close(writing)
    assert json.loads(out)["result"] == {}


def test_a_person_who_types_it_is_told_what_it_waits_for() -> None:
    here, there = os.openpty()
    process = subprocess.Popen(
        [*SERVE], stdin=there, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )
    os.close(there)
    with process:
        assert process.stderr is not None
        assert b"abp-bridge demo" in process.stderr.readline()
        os.close(here)
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    "setting", ["ABP_CALL_TIMEOUT=soon", "ABP_HEADLESS=perhaps", "ABP_CALL_TIMEOUT=-1"]
)
def test_a_setting_that_cannot_be_used_is_said_and_nothing_starts(setting: str) -> None:
    name, value = setting.split("=")
    done = subprocess.run(
        SERVE,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(**{name: value}),
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"abp-bridge: {name}='{value}' cannot be used: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [["serve"], ["mcp", "--", "true"], ["acp", "--", "true"]])
@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("/nonexistent", "the terminal /nonexistent cannot be opened: No such file or directory"),
        ("/dev/null", "/dev/null is no terminal"),
    ],
)
def test_a_terminal_that_cannot_be_used_is_found_at_the_start(
    command: list[str], device: str, why: str
) -> None:
    name, *rest = command
    done = run(name, "--tty", device, *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"abp-bridge: --tty: {why}. Type 'tty' in the terminal to use: it prints the name to give\n"
    )


# --- calls, as a host sees them -------------------------------------------------------------------


@pytest.mark.anyio
async def test_progress_rises_on_the_calls_own_token() -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_call", {"capability": "demo.work"}, progress_callback=show)
        sent = [params["progress"] for params in host.wire.sent("notifications/progress")]
    assert sent == [1, 2, pytest.approx(2), 3, 4]
    assert sorted(set(sent)) == sent
    assert seen[1] == (2, 4, "Sorting · about 2 s left")
    assert seen[2] == (sent[2], 4, "Still sorting")


@pytest.mark.anyio
async def test_what_an_app_told_is_summed_up_in_the_result_and_logged() -> None:
    async with hosted("--app", "demo") as host:
        result = await host.call("demo.work")
        blocks = [block.text for block in result.content if isinstance(block, types.TextContent)]
        assert blocks[-1] == "While it ran, the app told:\n- started demo.work\n- completed work"
        events = [params["data"]["event"] for params in host.wire.sent("notifications/message")]
    assert events == ["notifications/operation/started", "notifications/operation/completed"]


@pytest.mark.anyio
async def test_a_new_capability_becomes_a_tool_and_the_host_is_told() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_connect", {})
        await host.call("demo.grow")
        with anyio.fail_after(PATIENCE):
            while len(host.wire.sent("notifications/tools/list_changed")) < 2:
                await host.status()
        tools = [tool.name for tool in (await host.client.list_tools()).tools]
        assert tools[-1] == "abp_demo_grown"
        assert text(await host.client.call_tool("abp_demo_grown", {})) == "here I am"


@pytest.mark.anyio
async def test_state_is_a_resource_and_subscribers_hear_of_it() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_connect", {})
        await host.client.session.subscribe_resource("abp://demo/state/page%20size")
        await host.call(
            "demo.tell",
            event="notifications/state/changed",
            data={"field": "page size", "newValue": "a4"},
        )
        (resource,) = (await host.client.list_resources()).resources
        assert str(resource.uri) == "abp://demo/state/page%20size"
        (content,) = (await host.client.read_resource("abp://demo/state/page%20size")).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == '"a4"'
        assert host.wire.sent("notifications/resources/updated") == [
            {"uri": "abp://demo/state/page%20size"}
        ]
        await host.client.session.unsubscribe_resource("abp://demo/state/page%20size")
        await host.call(
            "demo.tell",
            event="notifications/state/changed",
            data={"field": "page size", "newValue": "a5"},
        )
        assert len(host.wire.sent("notifications/resources/updated")) == 1


@pytest.mark.anyio
async def test_only_the_asked_for_log_levels_are_sent() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.session.set_logging_level("error")
        await host.call(
            "demo.tell", event="notifications/state/changed", data={"field": "a", "newValue": 1}
        )
        await host.call("demo.fail")
        assert [params["level"] for params in host.wire.sent("notifications/message")] == ["error"]


@pytest.mark.anyio
async def test_a_binary_result_is_a_file_and_a_resource() -> None:
    async with hosted("--app", "demo") as host:
        result = await host.call("demo.file")
        _, picture, link = result.content
        assert isinstance(picture, types.ImageContent)
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")
        assert isinstance(link, types.ResourceLink)
        assert (link.name, link.mime_type) == ("dot.png", "image/png")
        path = json.loads(text(result))["savedTo"]
        assert Path(path).read_bytes().startswith(b"\x89PNG")
        (read,) = (await host.client.read_resource(link.uri)).contents
        assert isinstance(read, types.BlobResourceContents)
    assert not os.path.exists(path), "the temporary folder goes with the session"


@pytest.mark.anyio
async def test_a_long_result_goes_whole_to_a_file(tmp_path: Any) -> None:
    async with hosted("--app", "demo", "--output-dir", str(tmp_path)) as host:
        result = await host.call("demo.echo", value=["word"] * 20_000)
        path = json.loads(text(result))["savedTo"]
    assert json.loads(Path(path).read_text()) == ["word"] * 20_000


def test_the_results_of_a_killed_bridge_are_gone_with_the_next(tmp_path: Path) -> None:
    def saved(host: RawHost) -> Path:
        host.initialize()
        host.request("tools/call", {"name": "abp_connect", "arguments": {}})
        call = {"name": "abp_demo_file", "arguments": {}}
        return Path(
            json.loads(host.request("tools/call", call)["result"]["content"][0]["text"])["savedTo"]
        )

    env = {"TMPDIR": str(tmp_path)}
    with RawHost("--app", "demo", env=env) as killed, RawHost("--app", "demo", env=env) as living:
        gone, kept = saved(killed), saved(living)
        killed.process.kill()
        killed.process.wait(PATIENCE)
        assert gone.exists()
        with RawHost("--app", "demo", env=env) as host:
            assert saved(host).exists()
            assert (gone.exists(), kept.exists()) == (False, True)
            assert host.end() == 0
        assert living.end() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("capability", ["echo", "file"])
def test_a_full_disk_leaves_no_half_of_a_result(tmp_path: Path, capability: str) -> None:
    """What cannot be saved goes to the host in the result itself."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limit[1]))
    try:
        # A module that is imported meanwhile would leave half of its bytecode behind.
        env = {"PYTHONDONTWRITEBYTECODE": "1"}
        host = RawHost("--app", "demo", "--output-dir", str(tmp_path), env=env)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with host:
        host.initialize()
        host.request("tools/call", {"name": "abp_connect", "arguments": {}})
        arguments = {"value": ["word"] * 20_000} if capability == "echo" else {}
        call = {"name": f"abp_demo_{capability}", "arguments": arguments}
        content, *more = host.request("tools/call", call)["result"]["content"]
        result = json.loads(content["text"])
        if capability == "file":
            assert "content" not in result, "a model reads no base64"
            assert result["notSaved"].startswith("[Errno 27]")
            embedded = more[0]
            assert base64.b64decode(embedded["resource"]["blob"]).startswith(b"\x89PNG")
        else:
            assert (len(result), more) == (20_000, [])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.anyio
async def test_a_failure_keeps_the_apps_own_code_and_hints() -> None:
    async with hosted("--app", "demo") as host:
        result = await host.call("demo.fail")
        assert result.is_error
        assert (
            text(result)
            == "PRINTER_JAM: The printer is jammed (retryable)\nThe app suggests instead: demo.file"
        )


@pytest.mark.anyio
async def test_a_call_the_host_cancels_is_cancelled_in_the_app_and_its_question_taken_down() -> (
    None
):
    shown = anyio.Event()

    def never(params: Any) -> None:
        shown.set()

    async with hosted("--app", "demo", answer=never) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: host.ask("elicitation/confirm", message="Still there?"))
            await shown.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            while (await host.status())["questions"]["open"]:
                pass
            while (await host.status())["apps"]["demo"]["running"]:
                pass
        (question,) = (await host.status())["questions"]["ended"]
        assert (question["outcome"], question["answeredBy"]) == ("withdrawn", "nobody")
        assert [params["reason"] for params in host.wire.sent("notifications/cancelled")] == [
            "the question is no longer open"
        ]


def test_a_call_cancelled_in_the_same_breath_never_begins() -> None:
    with RawHost("--app", "demo") as host:
        host.initialize(elicitation={})
        host.request("tools/call", {"name": "abp_connect"})
        arguments = {
            "capability": "demo.ask",
            "params": {"request": {"method": "elicitation/confirm", "params": {"message": "?"}}},
        }
        call = {
            "jsonrpc": "2.0",
            "id": "c",
            "method": "tools/call",
            "params": {"name": "abp_call", "arguments": arguments},
        }
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "c"},
        }
        host.write(b"".join(json.dumps(message).encode() + b"\n" for message in (call, cancel)))
        status = json.loads(
            host.request("tools/call", {"name": "abp_status"})["result"]["content"][0]["text"]
        )
        assert status["apps"]["demo"]["running"] == []
        assert status["questions"] == {
            "open": [],
            "ended": [],
            "endedCount": 0,
            "lateCount": 0,
        }


def test_an_odd_name_of_a_state_field_ends_nothing() -> None:
    with RawHost("--app", "demo") as host:
        host.initialize()
        params = {
            "event": "notifications/state/changed",
            "data": {"field": "\ud800", "newValue": 1},
        }
        host.request(
            "tools/call",
            {"name": "abp_call", "arguments": {"capability": "demo.tell", "params": params}},
        )
        (resource,) = host.request("resources/list")["result"]["resources"]
        assert (
            host.request("resources/read", {"uri": resource["uri"]})["result"]["contents"][0][
                "text"
            ]
            == "1"
        )


def test_an_answer_in_the_same_breath_as_the_cancel_is_too_late() -> None:
    """Codex and Claude cancel the call, and then answer its question with a cancel of their own."""
    with asking_host() as host:
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "call"},
        }
        answer = {
            "jsonrpc": "2.0",
            "id": "abp-1",
            "result": {"action": "accept", "content": {"confirmed": True}},
        }
        host.write(b"".join(json.dumps(message).encode() + b"\n" for message in (cancel, answer)))
        status = json.loads(
            host.request("tools/call", {"name": "abp_status"})["result"]["content"][0]["text"]
        )
        assert [question["outcome"] for question in status["questions"]["ended"]] == ["withdrawn"]


@asynccontextmanager
async def pondered(timeout: float) -> AsyncIterator[Hosted]:
    """A host whose person thinks until a call that began after their question is out of time."""

    async def slowly(params: Any) -> types.ElicitResult:
        late = {"capability": "demo.hold", "timeout": timeout}
        result = await host.client.call_tool("abp_call", late)
        assert "TIMEOUT" in text(result)
        return accept(confirmed=True)(params)

    async with hosted("--app", "demo", answer=slowly) as host:
        yield host


def ponder(timeout: float) -> Json:
    request = {"method": "elicitation/confirm", "params": {"message": "Take your time"}}
    return {"capability": "demo.ask", "params": {"request": request}, "timeout": timeout}


@pytest.mark.anyio
async def test_the_apps_clock_stands_still_while_a_person_thinks() -> None:
    async with pondered(0.3) as host:
        result = await host.client.call_tool("abp_call", ponder(0.3))
        assert json.loads(text(result))["data"] == {"confirmed": True}


@pytest.mark.anyio
async def test_the_apps_clock_stands_still_even_when_nobody_can_say_whose_question_it_is() -> None:
    async with pondered(0.3) as host, anyio.create_task_group() as tasks:
        await host.client.call_tool("abp_connect", {})
        tasks.start_soon(
            lambda: host.client.call_tool("abp_call", {"capability": "demo.hold", "timeout": 20})
        )
        result = await host.client.call_tool("abp_call", ponder(0.3))
        assert json.loads(text(result))["data"] == {"confirmed": True}
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_fields_that_fit_one_by_one_but_not_together_are_no_answer() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "not": {"properties": {"a": {"const": 5}, "b": {"const": 5}}},
    }
    async with hosted("--app", "demo", answer=accept(a=5, b=5)) as host:
        response = await host.ask(
            "elicitation/input", prompt="Two different numbers?", schema=schema
        )
        assert (response["success"], response["metadata"]["outcome"]) == (False, "invalid")


@pytest.mark.anyio
async def test_a_call_that_takes_too_long_times_out_and_the_app_is_told() -> None:
    async with hosted("--app", "demo") as host:
        result = await host.client.call_tool(
            "abp_call", {"capability": "demo.hold", "timeout": 0.2}
        )
        assert (
            text(result)
            == "TIMEOUT: Operation timed out: demo.hold took longer than 0.2 s (retryable)"
        )
        assert (await host.status())["apps"]["demo"]["running"] == []


@pytest.mark.anyio
async def test_an_app_that_dies_ends_its_call_with_a_clear_error_and_can_be_connected_again() -> (
    None
):
    async with hosted("--app", "demo") as host:
        result = await host.call("demo.leave")
        assert result.is_error
        assert text(result).startswith("DISCONNECTED: ")
        assert text(await host.call("demo.echo", value="back")) == "back"


@pytest.mark.anyio
async def test_a_host_without_elicitation_is_not_asked() -> None:
    async with hosted("--app", "demo") as host:
        response = await host.ask("elicitation/confirm", message="Anybody?")
        assert response["error"]["code"] == "NOT_SUPPORTED"
        assert "no way to ask its user" in response["error"]["message"]
        assert host.wire.sent("elicitation/create") == []


@pytest.mark.anyio
async def test_a_host_that_refuses_the_surface_is_not_asked_twice() -> None:
    def refuse(params: Any) -> types.ErrorData:
        return types.ErrorData(code=-32601, message="Elicitation not supported")

    async with hosted("--app", "demo", answer=refuse) as host:
        first = await host.ask("elicitation/confirm", message="Anybody?")
        second = await host.ask("elicitation/confirm", message="Anybody?")
        assert (first["error"]["code"], second["error"]["code"]) == (
            "NOT_SUPPORTED",
            "NOT_SUPPORTED",
        )
        assert len(host.wire.sent("elicitation/create")) == 2, "each of its two ways once"


@pytest.mark.anyio
async def test_sampling_goes_to_the_hosts_model() -> None:
    async def sample(
        context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant",
            model="m",
            content=types.TextContent(type="text", text="A short summary"),
        )

    async with hosted("--app", "demo", sampling=sample) as host:
        response = await host.ask("sampling/create", task="Summarise", context={"text": "long"})
        assert response["data"] == {"result": "A short summary"}
        assert response["metadata"]["answeredBy"] == "model"


@pytest.mark.anyio
async def test_an_answer_faster_than_a_person_is_the_hosts_own() -> None:
    env = {"ABP_PERSON_FLOOR": "60000"}
    async with hosted(
        "--app", "demo", answer=lambda params: types.ElicitResult(action="decline"), env=env
    ) as host:
        response = await host.ask("elicitation/confirm", message="Book?")
        assert (response["cancelled"], response["metadata"]["answeredBy"]) == (True, "host-policy")
        assert "no person was asked" in response["error"]["message"]


@pytest.mark.anyio
async def test_a_policy_cannot_confirm_what_is_destructive() -> None:
    async with hosted(
        "--app", "demo", answer=accept(confirmed=True), env={"ABP_PERSON_FLOOR": "60000"}
    ) as host:
        harmless = await host.ask("elicitation/confirm", message="Book?")
        assert (harmless["data"], harmless["metadata"]["answeredBy"]) == (
            {"confirmed": True},
            "host-policy",
        )
        destructive = await host.ask("elicitation/confirm", message="Delete?", destructive=True)
        assert (destructive["success"], destructive["metadata"]["answeredBy"]) == (
            False,
            "host-policy",
        )
        assert "So it is not accepted" in destructive["error"]["message"]


@pytest.mark.anyio
async def test_codex_is_asked_only_in_words_that_its_terminal_shows() -> None:
    codex = types.Implementation(name="codex-mcp-client", version="0.169.0")
    async with hosted("--app", "demo", answer=accept(value="4"), client_info=codex) as host:
        response = await host.ask(
            "elicitation/input", prompt="How many?", schema={"type": "integer", "minimum": 1}
        )
        assert response["data"] == {"value": 4}
        (shown,) = host.wire.sent("elicitation/create")
        assert shown["requestedSchema"]["properties"]["value"]["type"] == "string"


@pytest.mark.anyio
async def test_an_app_is_disconnected_and_its_tools_go() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_connect", {})
        assert (
            text(await host.client.call_tool("abp_disconnect", {"app": "demo"}))
            == "Disconnected: demo."
        )
        assert len((await host.client.list_tools()).tools) == 6
        assert text(await host.client.call_tool("abp_disconnect", {})) == "No app was connected."


# --- how it is started ----------------------------------------------------------------------------


def started(words: str, arguments: str) -> subprocess.CompletedProcess[str]:
    """A command with its streams as the shell words say."""
    command = f"{sys.executable} -m abp_bridge {arguments} {words}"
    return subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )


def test_without_a_command_it_says_what_there_is() -> None:
    ended = started("", "")
    assert ended.returncode == 2
    assert "the command is missing; hosts launch 'abp-bridge serve'" in ended.stderr


@pytest.mark.parametrize(
    "arguments", ["serve", "matrix", "ask input Name? --on mock --answers /dev/null"]
)
def test_without_a_stdout_it_says_so(arguments: str) -> None:
    ended = started(">&-", arguments)
    assert ended.returncode == 2
    assert ended.stderr == "abp-bridge: stdout is closed: there is nowhere to answer to\n"


@pytest.mark.parametrize(("words", "code"), [("<&-", 0), ("</dev/null 2>&-", 0)])
def test_a_stream_that_is_missing_is_an_end(words: str, code: int) -> None:
    ended = started(words, "serve --app demo")
    assert (ended.returncode, ended.stderr) == (code, "")


def test_a_project_in_whose_folder_it_runs_gives_it_no_modules(tmp_path: Path) -> None:
    """Hosts start their servers where they work: in folders of whoever wrote what lies there."""
    (tmp_path / "abp_bridge.py").write_text("raise SystemExit('an intruder')")
    with RawHost(
        "--app",
        "demo",
        command=(str(Path(sys.executable).parent / "abp-bridge"), "serve"),
        cwd=tmp_path,
    ) as host:
        host.initialize()
        assert not host.request("tools/call", {"name": "abp_connect", "arguments": {}})["result"][
            "isError"
        ]
        assert host.end() == 0


@pytest.mark.anyio
async def test_nothing_runs_on_for_a_host_that_left() -> None:
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:  # it waits for what runs in it
            composition = Composition(read_settings({}), "serve", tasks)
            host = LeavingHost()
            await Hosts(composition, tasks).attend(host, host)


class LeavingHost(ByteReader):
    """An MCP host that calls a tool, and leaves with the result."""

    def __init__(self) -> None:
        call: Json = {"name": "abp_status", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
        self._said = json.dumps(message).encode() + b"\n"
        self._answered = anyio.Event()

    async def receive(self) -> bytes:
        said, self._said = self._said, b""
        if not said:
            await self._answered.wait()
        return said

    def write_nowait(self, data: bytes | memoryview) -> int:
        assert json.loads(bytes(data))["id"] == 7
        self._answered.set()
        return len(data)

    async def writable(self) -> None: ...

    def close(self) -> None: ...
