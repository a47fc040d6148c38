"""Wrong command lines and settings: the one line of the error, and what the host gets of it."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import mcp_types as types
import pytest
from acp import schema
from mcp import MCPError
from support.acp_harness import check_value
from support.harness import ENVELOPE, MODERN, PATIENCE, SERVE, RawHost, hosted

from abp_bridge.cli import refusal
from abp_bridge.cli.main import main
from abp_bridge.jsonrpc.memory_pipe import MemoryPipe
from abp_bridge.settings import TABLE, SettingsError, read_settings

Json = Any

FORMS = "must be https://..., http://..., ws://..., wss://..., stdio:COMMAND"
# The words of a command line, and what is said to them.
COMMAND_LINES = {
    "serv --app demo": "'serv' is no command: is 'abp-bridge serve' meant?",
    "start": "'start' is no command: there are serve, mcp, acp, demo, try",
    "": "the command is missing; hosts launch 'abp-bridge serve'",
    "--app demo": "a command comes before --app: is 'abp-bridge serve --app ...' meant?",
    "--versoin": "--versoin is no option (is --version meant?)",
    "serve --ap demo": "--ap is no option (is --app meant?)",
    "serve -a demo": "-a is no option (is --app or --allow or",
    "serve more": "'more' is one word too many",
    "serve --page opne": "argument --page: invalid choice: 'opne' (choose from 'off', 'link',"
    " 'open'): is open meant?",
    "serve http://localhost:3000": "one word too many: is --app http://localhost:3000 meant?",
    "serve --app localhost:3000": "Did you mean http://localhost:3000?",
    "serve --app [::1]:3000": "Did you mean 'http://[::1]:3000'?",
    "serve --app example.org": "Did you mean https://example.org?",
    "serve --app file:///a%20b/c.html": "--bind 127.0.0.1 --directory '/a b') and name"
    " http://127.0.0.1:3000/c.html\n",
    "serve --app ./app.py": "./folder of a Chrome extension, demo or demo:page. Did you mean"
    " 'stdio:python3 ./app.py' or 'mcp:python3 ./app.py' or 'acp:python3 ./app.py'?",
    "serve --app nope:x": f"--app 'nope:\u2026' is no app: it {FORMS}",
    "serve --app stdio:": "stdio: needs a command, as in --app 'stdio:python my_app.py'",
    "serve --app mcp:x'": "this cannot be read as a command: No closing quotation",
    "serve --confirm destructiv": "--confirm 'destructiv': is destructive meant?",
    "serve --ask-on pag": "--ask-on: 'pag' is no surface (is page meant?); there are mock, host,",
    "serve --sampling foo": "'foo' is no model: write cli:NAME, acp:COMMAND",
    "serve --root /nope": "--root '/nope' is no folder",
    "serve --answers /nope": "the answers file /nope cannot be read: No such file or directory. It"
    " must be a JSON list",
    "serve --audit /nope/a": "--audit '/nope/a' cannot be used: No such file or directory",
    "serve --tty /dev/nope": "--tty: the terminal /dev/nope cannot be opened: No such file or"
    " directory. Type 'tty' in the terminal to use",
    "mcp --tty /dev/null -- true": "--tty: /dev/null is no terminal. Type 'tty' in the terminal",
    "serve --log-file /nope/l": "--log-file '/nope/l' cannot be written: No such file or directory",
    "serve --record /nope/x": "--record '/nope/x' cannot be written: there is no /nope. Name a file"
    " in a folder that is there",
    "serve --record .": "--record '.' is no file: it must be one, or not be there yet",
    "serve --output-dir /proc/x": "--output-dir '/proc/x' cannot be used: nothing can be written in"
    " /proc (No such file or directory). Name another folder",
    "serve --output-dir /dev/null/x": "--output-dir '/dev/null/x' cannot be used: /dev/null is no"
    " folder",
    "serve --page-port 99999": "--page-port: it must be a port, from 0 (any that is free) to 65535",
    "serve --park-timeout 0": "--park-timeout: it must be more than 0",
    "mcp": "name one server: its command after --, as in: abp-bridge mcp -- npx",
    "acp --app demo": "the agent's command is missing, as in: abp-bridge acp --app demo --",
    "acp --confrm=all -- true --yes": "--confrm is no option (is --confirm meant?)",
}
# Those that no host launches.
TYPED_LINES = {
    "try": "name the app: abp-bridge try http://localhost:3000.",
    "agents cli:claude what now": "one word too many: is --ask 'what now' meant?",
    "trace": "name a trace or a fixture: abp-bridge trace session.jsonl.",
    "replay": "name a fixture or a folder of them: abp-bridge replay fixtures/.",
    "completion": "name your shell: abp-bridge completion bash.",
    "check /": "no app: this folder has no manifest.json, as that of a Chrome extension has."
    " A program in it is named by its command: 'stdio:COMMAND'\n",
    "try 127.0.0.1:3000": "Did you mean http://127.0.0.1:3000?",
    "try demo --on page --answers a.json": "--on says where you are asked, and --answers",
    "try index.html": "serve its folder (python3 -m http.server 3000 --bind 127.0.0.1) and name"
    " http://127.0.0.1:3000\n",
    "check": "name the app: abp-bridge check http://localhost:3000.",
    "check demo demo.echo n=1": "one word too many: is --call demo.echo n=1 meant?",
    "ask": 'name what is asked: abp-bridge ask confirm "Go on?".',
    "ask confirm --on terminal x": "one word too many: options stand before METHOD, or after all",
    "check demo --answers a.json": "--answers is for what --call asks: name a capability too",
}
VARIABLES = {
    "ABP_CALL_TIMEOUT=soon": "it must be a number of milliseconds, or have a unit: 500ms, 30s",
    "ABP_CALL_TIMEOUT=0": "ABP_CALL_TIMEOUT='0' cannot be used: it must be more than 0",
    "ABP_HEADLESS=maybe": "ABP_HEADLESS='maybe' cannot be used: it must be true or false",
    "ABP_LOG_LEVEL=loud": "it must be debug, info, warning or error",
    "ABP_RECORD=/nope/x": "--record '/nope/x' cannot be written: there is no /nope",
    "ABP_CHROME=/nope": "there is no program '/nope': set ABP_CHROME to the path of a Chromium",
    "ABP_QUESTIONS_API=80": "--questions-api needs a password in ABP_QUESTIONS_PASSWORD",
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What hosts are told. Whatever the command changes in this process is as before afterwards."""
    heard: list[str] = []
    monkeypatch.setattr(refusal, "refuse_host", heard.append)
    monkeypatch.setattr("os.isatty", lambda fd: False)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    interrupt, handlers = signal.getsignal(signal.SIGINT), list(logging.root.handlers)
    yield heard
    signal.signal(signal.SIGINT, interrupt)
    logging.root.handlers[:] = handlers


def check_refused(
    words: list[str], said: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("abp-bridge: ")
    assert said in err
    assert told == [err.rstrip("\n")], "a host's person reads what stderr has"


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_wrong_command_line_is_answered_with_the_right_one(
    line: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused(line.split(), COMMAND_LINES[line], told, capsys)


@pytest.mark.parametrize("line", TYPED_LINES)
def test_wrong_command_line_that_users_type_is_answered(
    line: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), told) == ("", 1, [])
    assert TYPED_LINES[line] in err


@pytest.mark.parametrize("given", VARIABLES)
def test_wrong_environment_is_answered_with_the_right_one(
    given: str, told: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*given.split("="))
    check_refused(["serve"], VARIABLES[given], told, capsys)


# A secret in what is wrong with a setting, and where it stands: in words or in a variable.
PLANTED_WORDS = (
    "serve --app htps://user:hunter2@example.com/x",
    "serve --app http:/user:hunter2@example.com ",
    "serve --app http//user:hunter2@example.com",
    "serve --app ftp://user:hunter2@example.com/?key=hunter2#hunter2",
    "serve --app user:hunter2@example.com",
    "serve --app stdi:o|python|--password|hunter2",
    "serve --app mcp:python|--password|hunter2|'",
    "serve --allow http://u:hunter2@h/",
    "serve --listen 1234 --listen-origin http://u:hunter2@h/",
    "serve --sampling cli:claude|--api-key|hunter2|'",
    "serve --sampling acp:claude|--api-key|hunter2|'",
    "serve --sampling opnai:hunter2",
    "serve --sampling http://u:hunter2@h/#m",
    "serve http://u:hunter2@h/",
    "serve --call-timeout htp://u:hunter2@h/",
)


@pytest.mark.parametrize("line", PLANTED_WORDS)
def test_what_is_wrong_tells_no_secret(
    line: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("|", " ") for word in line.split(" ") if word]
    assert main(words) == 2
    assert "hunter2" not in "".join([*told, *capsys.readouterr()])


@pytest.mark.parametrize("variable", [each.variable for each in TABLE.values() if each.variable])
def test_no_variable_that_cannot_be_used_tells_one(variable: str) -> None:
    said = ""
    try:
        read_settings({variable: "htps://u:hunter2@h/?hunter2#hunter2"})
    except SettingsError as problem:
        said = str(problem)
    assert "hunter2" not in said


# --- what a host hears ----------------------------------------------------------------------------

WRONG = ("--app", "localhost:3000")
MEANT = "Did you mean http://localhost:3000?"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": RawHost.client}
META = {ENVELOPE: MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
GREETINGS = {
    "MCP": ("initialize", HELLO),
    "ACP": ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
    "ABP": ("initialize", {"agent": {"name": "a", "version": "1"}, "features": {}}),
}


@pytest.mark.parametrize("protocol", GREETINGS)
def test_wrong_command_line_is_the_error_of_a_request(
    protocol: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with RawHost(*WRONG) as host:
        answer = host.request(*GREETINGS[protocol])
        assert host.process.wait(PATIENCE) == 2
    said = capfd.readouterr().err.rstrip("\n")
    assert answer["error"] == {"code": -32603, "message": said}
    assert said.endswith(MEANT)
    types.JSONRPCError.model_validate(answer, strict=True)
    check_value(schema.Error, answer["error"])


def test_wrong_command_line_is_the_error_of_an_envelope() -> None:
    with RawHost(*WRONG) as host:
        host.write(b'{"type": "initialize", "id": "first", "timestamp": 1, "payload": {}}\n')
        assert host.process.stdout is not None
        answer = host.process.stdout.readline()
        assert host.process.wait(PATIENCE) == 2
    assert b'"type":"initialize-result","id":"first"' in answer
    assert MEANT.encode() in answer


def test_wrong_command_line_is_the_error_of_discovery_and_initialize() -> None:
    with RawHost(*WRONG) as host:
        assert MEANT in host.request("server/discover", {"_meta": META})["error"]["message"]
        assert MEANT in host.request("initialize", HELLO)["error"]["message"]
        assert host.process.wait(PATIENCE) == 2


async def test_wrong_command_line_is_the_error_in_the_mcp_sdk() -> None:
    reason = pytest.RaisesExc(MCPError, match=re.escape(MEANT))
    with pytest.RaisesGroup(reason, allow_unwrapped=True, flatten_subgroups=True):
        async with hosted(*WRONG):
            pass


async def test_host_that_sends_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "FIRST_WORDS", 0.01)
    with anyio.fail_after(PATIENCE):
        await refusal.refuse(MemoryPipe(), MemoryPipe(), "why")


@pytest.mark.terminal
@pytest.mark.parametrize("line", [["serve", *WRONG], []])
def test_user_at_a_terminal_is_not_answered_as_a_host(line: list[str]) -> None:
    person, terminal = os.openpty()
    try:
        ended = subprocess.run(
            [*SERVE[:-1], *line], stdin=terminal, capture_output=True, check=False, timeout=PATIENCE
        )
    finally:
        os.close(person)
        os.close(terminal)
    assert ended.returncode == 2
    assert ended.stdout.startswith(b"usage: abp-bridge") is not bool(line)


@pytest.mark.network
def test_serve_warns_of_a_page_port_in_use(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with RawHost("--page-port", port) as host:
            assert "result" in host.initialize()
            assert host.end() == 0
    said = capfd.readouterr().err
    assert f"port {port} cannot be used (Address already in use): end what uses it, or" in said
