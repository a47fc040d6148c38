"""`abp-bridge serve`: what it answers to good and bad lines, how it is started and how it ends."""

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
    text,
)
from support.paths import APPS

Json = Any

# "exit within two seconds" (design.md), as the bound of a wait.
QUIET_END = 2.0
CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Still there?"}}


def call(host: RawHost, tool: str, **arguments: Json) -> str:
    """All text of a tool's result."""
    return host.text(host.begin_call(tool, **arguments))


def call_failing(host: RawHost, tool: str, **arguments: Json) -> str:
    result = host.response(host.begin_call(tool, **arguments))["result"]
    assert result["isError"]
    return str(result["content"][0]["text"])


# --- the handshake and invalid messages -----------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "agreed"), [*zip(VERSIONS, VERSIONS, strict=True), ("2099-01-01", "2025-11-25")]
)
def test_serve_agrees_on_the_version_asked_for_or_the_newest(asked: str, agreed: str) -> None:
    with RawHost() as host:
        assert host.initialize(asked)["result"]["protocolVersion"] == agreed


def test_serve_accepts_a_handshake_after_discovery() -> None:
    with RawHost() as host:
        assert host.request("server/discover")["error"]["code"] == -32602
        assert host.initialize()["result"]["serverInfo"]["name"] == "abp-bridge"


def test_serve_recognises_an_acp_client_by_its_version() -> None:
    with RawHost() as host:
        answer = host.request("initialize", {"protocolVersion": 1})
    assert answer["result"]["agentInfo"]["name"] == "abp-bridge"


@pytest.mark.process
def test_serve_starts_no_app_for_a_host_that_only_lists_tools() -> None:
    """Some hosts start a copy for that and throw it away."""
    with RawHost("--app", "stdio:false") as host:
        host.initialize()
        tools = [tool["name"] for tool in host.request("tools/list")["result"]["tools"]]
        own = "connect disconnect status call wait ask"
        assert tools == [f"abp_{name}" for name in own.split()]
        assert processes_of(host.process.pid) == []
        assert host.end() == 0


LONG = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * 20_000_000 + b'"}}\n'
# tests/jsonrpc/test_protocol.py has the others.
INVALID = {
    "not json": (b"hello\n", -32700),
    "a 20 MB line": (LONG, -32600),
}


@pytest.mark.parametrize("line", INVALID)
def test_serve_continues_after_an_invalid_line(line: str) -> None:
    data, code = INVALID[line]
    with RawHost() as host:
        host.initialize()
        host.write(data)
        assert host.read()["error"]["code"] == code
        assert host.request("ping")["result"] == {}


def test_serve_drops_a_response_to_nothing() -> None:
    with RawHost() as host:
        host.initialize()
        for id in ("abp-1", 1, None):
            host.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode() + b"\n")
        assert host.request("ping")["result"] == {}


BAD_REQUESTS: dict[str, tuple[str, Json, int, str]] = {
    "unknown method": ("tools/burn", {}, -32601, "Method not found: tools/burn"),
    "unknown tool": ("tools/call", {"name": "abp_nothing"}, -32602, "Unknown tool 'abp_nothing'"),
    "list as arguments": (
        "tools/call",
        {"name": "abp_status", "arguments": []},
        -32602,
        "must be an object",
    ),
    "unknown resource": ("resources/read", {"uri": "abp://x/state/y"}, -32002, "There is no res"),
    "unknown log level": ("logging/setLevel", {"level": "loud"}, -32602, "must be one of debug"),
    "no protocol version": ("initialize", {}, -32602, "needs a protocolVersion"),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_serve_answers_a_wrong_request_with_its_error(case: str) -> None:
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
    "wrong type of params": (
        {"capability": "demo.echo", "params": 7},
        "INVALID_TYPE: params must be an object",
    ),
    "invalid params": (
        {"capability": "demo.ask", "params": {}},
        "INVALID_PARAMS: The parameters of demo.ask do not fit: request is",
    ),
    "unknown app": (
        {"capability": "demo.echo", "app": "nobody"},
        "DISCONNECTED: There is no connected app 'nobody'",
    ),
    "no timeout": (
        {"capability": "demo.echo", "timeout": 0},
        "INVALID_PARAMS: timeout must be a number of seconds",
    ),
    "unknown argument": (
        {"capability": "demo.echo", "arguments": {"value": 3}},
        "INVALID_PARAMS: abp_call has no argument 'arguments'; it takes capability, params,"
        " app, timeout.",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_serve_answers_a_wrong_call_with_what_to_do(case: str) -> None:
    arguments, words = BAD_CALLS[case]
    with RawHost("--app", "demo") as host:
        host.initialize()
        assert words in call_failing(host, "abp_call", **arguments)


# --- apps that cannot be connected ----------------------------------------------------------------

BAD_TARGETS = {
    "no target": ({}, "MISSING_PARAM: There is no app to connect"),
    "half an address": ({"target": "http://["}, "is no web address"),
    "not a target": ({"target": "gopher://x"}, "is no app that can be connected"),
    "no scheme": ({"target": "your.app/x"}, "Did you mean https://your.app/x?"),
    "a command named by the model": (
        {"target": "stdio:rm -rf /"},
        "PERMISSION_DENIED: Only the person can start a command",
    ),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_connect_says_why_a_target_is_rejected(case: str) -> None:
    arguments, words = BAD_TARGETS[case]
    with RawHost() as host:
        host.initialize()
        assert words in call_failing(host, "abp_connect", **arguments)


REFUSING = """
import json
error = {"code": "SESSION_INVALID", "message": "no"}
result = {"success": False, "error": error}
print(json.dumps({"jsonrpc": "2.0", "id": json.loads(input())["id"], "result": result}))
input()
"""
BAD_COMMANDS = {
    "a missing program": (["there-is-no-such-program"], "there is no program"),
    "a script": (["app.py"], "Put python3 before it, as in 'stdio:python3 FILE'."),
    "no program": ([__file__], "is a file that may not be run as a program"),
    "a program that exits": (
        [sys.executable, "-c", 'raise SystemExit("no licence")'],
        "its last words: no licence",
    ),
    "an app that refuses": ([sys.executable, "-c", REFUSING], "SESSION_INVALID: no"),
}


@pytest.mark.process
@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_connect_says_why_an_app_cannot_be_started(case: str) -> None:
    command, words = BAD_COMMANDS[case]
    with RawHost("--app", f"stdio:{shlex.join(command)}") as host:
        host.initialize()
        assert words in call_failing(host, "abp_connect")
        assert host.request("ping")["result"] == {}
        assert host.end() == 0


# Where a program says its own command line, before it is an app that can be connected.
TELL_TALES = {
    "on stdout": "import sys; print(sys.argv)",
    "on stderr": "import sys; sys.exit(' '.join(sys.argv[1:]).upper())",
    "in an error": (
        "import json, sys; id = json.loads(input())['id'];"
        " error = {'code': 1, 'message': str(sys.argv)};"
        " print(json.dumps({'jsonrpc': '2.0', 'id': id, 'error': error})); input()"
    ),
}


@pytest.mark.process
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
        said = call_failing(host, "abp_connect") + call(host, "abp_status")
        assert host.end() == 0
    for secret in ("hunter2", "a1b2c3d4e5f6a7b8c9"):
        assert secret not in (said + trace.read_text()).lower()


# What an MCP server and an ABP app answer; their call fails with their own command line.
FAILING = """
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


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["mcp", "stdio"])
def test_failed_call_does_not_quote_the_secrets_of_an_app(scheme: str, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(FAILING)
    target = f"{scheme}:{shlex.join([sys.executable, str(program), scheme, '--token', 'hunter2'])}"
    with RawHost("--app", target) as host:
        host.initialize()
        said = json.dumps(host.response(host.begin_call("abp_call", capability="go"))["result"])
    assert "--token" in said
    assert "argv" in said
    assert "hunter2" not in said


EXOTIC = [sys.executable, str(APPS / "exotic_server.py"), "legacy", "/dev/null", "--token"]


@pytest.mark.process
def test_connect_takes_an_app_by_its_shown_name() -> None:
    server = f"mcp:{shlex.join([*EXOTIC, 'hunter2'])}"
    with RawHost("--app", server, "--app", "demo") as host:
        host.initialize()
        status = json.loads(call(host, "abp_status"))
        [shown] = [each["app"] for each in status["notConnected"] if each["app"] != "demo"]
        assert shown.endswith("exotic_server.py legacy null --token …")
        for target in (shown, shown, server):
            connected = host.response(host.begin_call("abp_connect", target=target))
            assert not connected["result"]["isError"]
        unknown = call(host, "abp_connect", target="https://h.example/…/")
        assert "No app of this session is shown as 'https://h.example/…/'" in unknown


@pytest.mark.process
def test_connect_rejects_a_shown_name_of_two_apps() -> None:
    servers = (f"mcp:{shlex.join([*EXOTIC, secret])}" for secret in ("hunter1", "hunter2"))
    with RawHost(*(word for server in servers for word in ("--app", server))) as host:
        host.initialize()
        shown = json.loads(call(host, "abp_status"))["notConnected"][0]["app"]
        assert "Several apps are shown as" in call(host, "abp_connect", target=shown)
        assert not host.response(host.begin_call("abp_connect"))["result"]["isError"]


# --- how it ends ----------------------------------------------------------------------------------


def asking_host() -> RawHost:
    """A host with an open question."""
    host = RawHost("--app", "demo")
    host.initialize(elicitation={})
    arguments = {"capability": "demo.ask", "params": {"request": CONFIRM}}
    host.send("tools/call", {"name": "abp_call", "arguments": arguments}, id="call")
    while host.read().get("method") != "elicitation/create":
        pass
    return host


def processes_of(group: int) -> list[str]:
    """Every process that descends from `group`, by command."""
    found = subprocess.run(
        ["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [
        (int(pid), int(parent), words) for pid, parent, words in (r.split(None, 2) for r in found)
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


def signals(*numbers: signal.Signals) -> Any:
    return lambda host: [host.process.send_signal(number) for number in numbers]


def stop_reading(host: RawHost) -> None:
    host.process.stdout.close()
    host.send("ping", id=9)


ENDINGS = {
    "stdin closed": lambda host: host.process.stdin.close(),
    "SIGTERM": signals(signal.SIGTERM),
    "SIGINT twice, then SIGTERM": signals(signal.SIGINT, signal.SIGINT, signal.SIGTERM),
    "SIGHUP": signals(signal.SIGHUP),
    "the host stops reading": stop_reading,
}


@pytest.mark.process
@pytest.mark.parametrize("ending", ENDINGS)
def test_serve_ends_quietly_with_its_apps(ending: str, capfd: pytest.CaptureFixture[str]) -> None:
    with asking_host() as host:
        children = processes_of(host.process.pid)
        assert any("abp_bridge.apps.demo" in child for child in children)
        ENDINGS[ending](host)
        assert host.process.wait(QUIET_END) == 0
        assert [child for child in children if alive(child)] == []
    assert capfd.readouterr().err == ""


@pytest.mark.process
def test_app_ends_if_the_bridge_is_killed() -> None:
    with asking_host() as host:
        child = processes_of(host.process.pid)[0].split()[0]
        host.process.kill()
        host.process.wait(PATIENCE)
        gone = f"while kill -0 {child} 2>/dev/null; do :; done"
        subprocess.run(["sh", "-c", gone], check=True, timeout=PATIENCE)


@pytest.mark.process
@pytest.mark.parametrize("where", ["/dev/null", "a file"])
def test_serve_reads_stdin_that_is_not_a_pipe(where: str, tmp_path: Path) -> None:
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
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert done.stdout == (b"" if where == "/dev/null" else answer)


@pytest.mark.process
def test_serve_does_not_wait_for_a_reader_of_its_stderr() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 65536)
    os.set_blocking(writing, True)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*SERVE, "--app", "demo"], stdin=pipe, stdout=pipe, stderr=writing, env=environment()
    ) as process:
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        out, _ = process.communicate(ping, timeout=PATIENCE)
    os.close(reading)
    os.close(writing)
    assert json.loads(out)["result"] == {}


# --- how it is started ----------------------------------------------------------------------------


# (what the shell does with the streams, the command, its exit code, its stderr)
STREAMS = {
    "no command": ("", "", 2, "the command is missing; hosts launch 'abp-bridge serve'"),
    "serve without stdout": (">&-", "serve", 2, "stdout is closed: there is nowhere to answer to"),
    "matrix without stdout": (">&-", "matrix", 2, "stdout is closed"),
    "serve without stdin": ("<&-", "serve --app demo", 0, ""),
    "serve without stderr": ("</dev/null 2>&-", "serve --app demo", 0, ""),
}


@pytest.mark.process
@pytest.mark.parametrize("case", STREAMS)
def test_missing_stream_is_reported_or_an_end(case: str) -> None:
    words, arguments, code, said = STREAMS[case]
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m abp_bridge {arguments} {words}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == code
    assert said in ended.stderr if said else not ended.stderr


@pytest.mark.process
def test_serve_imports_no_module_of_its_working_directory(tmp_path: Path) -> None:
    """Hosts start their servers in the folder of a project, which may be hostile."""
    (tmp_path / "abp_bridge.py").write_text("raise SystemExit('an intruder')")
    command = (str(Path(sys.executable).parent / "abp-bridge"), "serve")
    with RawHost("--app", "demo", command=command, cwd=tmp_path) as host:
        host.initialize()
        assert not host.response(host.begin_call("abp_connect"))["result"]["isError"]
        assert host.end() == 0


# --- calls, as a host sees them -------------------------------------------------------------------


async def tell_state(host: Hosted, field: str, value: Json) -> None:
    data = {"field": field, "newValue": value}
    await host.call("demo.tell", event="notifications/state/changed", data=data)


async def test_state_is_a_resource_that_can_be_subscribed_to() -> None:
    uri = "abp://demo/state/page%20size"
    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_connect", {})
        await host.client.session.subscribe_resource(uri)
        await tell_state(host, "page size", "a4")
        (listed,) = (await host.client.list_resources()).resources
        assert str(listed.uri) == uri
        (content,) = (await host.client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == '"a4"'
        assert host.wire.sent("notifications/resources/updated") == [{"uri": uri}]
        await host.client.session.unsubscribe_resource(uri)
        await tell_state(host, "page size", "a5")
        assert len(host.wire.sent("notifications/resources/updated")) == 1


async def test_log_level_limits_what_is_sent() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.session.set_logging_level("error")
        await tell_state(host, "a", 1)
        await host.call("demo.fail")
        assert [params["level"] for params in host.wire.sent("notifications/message")] == ["error"]


async def test_binary_result_is_a_file_and_a_resource() -> None:
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


async def test_long_result_is_saved_whole(tmp_path: Path) -> None:
    async with hosted("--app", "demo", "--output-dir", str(tmp_path)) as host:
        result = await host.call("demo.echo", value=["word"] * 20_000)
        path = json.loads(text(result))["savedTo"]
    assert json.loads(Path(path).read_text()) == ["word"] * 20_000


@pytest.mark.process
def test_results_of_a_killed_bridge_are_removed_by_the_next(tmp_path: Path) -> None:
    def save(host: RawHost) -> Path:
        host.initialize()
        call(host, "abp_connect")
        result = host.response(host.begin_call("abp_demo_file"))["result"]
        return Path(json.loads(result["content"][0]["text"])["savedTo"])

    env = {"TMPDIR": str(tmp_path)}
    with RawHost("--app", "demo", env=env) as killed, RawHost("--app", "demo", env=env) as living:
        gone, kept = save(killed), save(living)
        killed.process.kill()
        killed.process.wait(PATIENCE)
        assert gone.exists()
        with RawHost("--app", "demo", env=env) as host:
            assert save(host).exists()
            assert (gone.exists(), kept.exists()) == (False, True)
            assert host.end() == 0
        assert living.end() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.parametrize("capability", ["echo", "file"])
def test_result_goes_to_the_host_if_the_disk_is_full(tmp_path: Path, capability: str) -> None:
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
        call(host, "abp_connect")
        arguments = {"value": ["word"] * 20_000} if capability == "echo" else {}
        given = host.response(host.begin_call(f"abp_demo_{capability}", **arguments))
        content, *more = given["result"]["content"]
        result = json.loads(content["text"])
        if capability == "file":
            assert "content" not in result, "a model reads no base64"
            assert result["notSaved"].startswith("[Errno 27]")
            assert base64.b64decode(more[0]["resource"]["blob"]).startswith(b"\x89PNG")
        else:
            assert (len(result), more) == (20_000, [])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def cancelling(call: str) -> bytes:
    params = {"requestId": call}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(message).encode() + b"\n"


def test_call_cancelled_in_the_same_read_never_begins() -> None:
    with RawHost("--app", "demo") as host:
        host.initialize(elicitation={})
        call(host, "abp_connect")
        arguments = {"capability": "demo.ask", "params": {"request": CONFIRM}}
        params = {"name": "abp_call", "arguments": arguments}
        begun = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params}
        host.write(json.dumps(begun).encode() + b"\n" + cancelling("c"))
        status = json.loads(call(host, "abp_status"))
        assert status["apps"]["demo"]["running"] == []
        assert status["questions"] == {"open": [], "ended": [], "endedCount": 0, "lateCount": 0}


def test_answer_in_the_same_read_as_the_cancel_is_too_late() -> None:
    """Codex and Claude cancel the call, and then answer its question with a cancel of their own."""
    with asking_host() as host:
        result = {"action": "accept", "content": {"confirmed": True}}
        answer = {"jsonrpc": "2.0", "id": "abp-1", "result": result}
        host.write(cancelling("call") + json.dumps(answer).encode() + b"\n")
        status = json.loads(call(host, "abp_status"))
        assert [question["outcome"] for question in status["questions"]["ended"]] == ["withdrawn"]


@asynccontextmanager
async def pondered(timeout: float) -> AsyncIterator[Hosted]:
    """A host whose user thinks until a call that began after their question is out of time."""

    async def slowly(params: Any) -> types.ElicitResult:
        late = {"capability": "demo.hold", "timeout": timeout}
        result = await host.client.call_tool("abp_call", late)
        assert "TIMEOUT" in text(result)
        return accept(confirmed=True)(params)

    async with hosted("--app", "demo", answer=slowly) as host:
        yield host


@pytest.mark.parametrize("is_known", [True, False], ids=["its call", "one of two calls"])
@pytest.mark.slow
async def test_timeout_of_a_call_stops_while_the_user_thinks(is_known: bool) -> None:
    asked = {"capability": "demo.ask", "params": {"request": CONFIRM}, "timeout": 0.2}
    hold = {"capability": "demo.hold", "timeout": 20}
    async with pondered(0.2) as host, anyio.create_task_group() as tasks:
        await host.client.call_tool("abp_connect", {})
        if not is_known:
            tasks.start_soon(lambda: host.client.call_tool("abp_call", hold))
        result = await host.client.call_tool("abp_call", asked)
        assert json.loads(text(result))["data"] == {"confirmed": True}
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_call_that_takes_too_long_times_out() -> None:
    async with hosted("--app", "demo") as host:
        hold = {"capability": "demo.hold", "timeout": 0.1}
        result = await host.client.call_tool("abp_call", hold)
        late = "demo.hold took longer than 0.1 s (retryable)"
        assert text(result) == f"TIMEOUT: Operation timed out: {late}"
        assert (await host.status())["apps"]["demo"]["running"] == []


async def test_app_that_exits_fails_its_call_and_can_be_connected_again() -> None:
    async with hosted("--app", "demo") as host:
        result = await host.call("demo.leave")
        assert result.is_error
        assert text(result).startswith("DISCONNECTED: ")
        assert text(await host.call("demo.echo", value="back")) == "back"


@pytest.mark.network
async def test_host_that_refuses_a_surface_is_not_asked_twice() -> None:
    def refuse(params: Any) -> types.ErrorData:
        return types.ErrorData(code=-32601, message="Elicitation not supported")

    async with hosted("--app", "demo", answer=refuse) as host:
        for _ in range(2):
            response = await host.ask("elicitation/confirm", message="Anybody?")
            assert response["error"]["code"] == "NOT_SUPPORTED"
        assert len(host.wire.sent("elicitation/create")) == 2, "each of its two ways once"


async def test_disconnected_app_has_no_tools() -> None:
    async with hosted("--app", "demo") as host:
        await host.client.call_tool("abp_connect", {})
        ended = await host.client.call_tool("abp_disconnect", {"app": "demo"})
        assert text(ended) == "Disconnected: demo."
        assert len((await host.client.list_tools()).tools) == 6
        assert text(await host.client.call_tool("abp_disconnect", {})) == "No app was connected."
