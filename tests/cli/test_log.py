"""The log: a bug in any room leaves its traceback and the call's id there, and a plain sentence for
the requester. Logging never blocks, and no answer is in it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support import in_process
from support.apps.buggy import KEY, plant
from support.harness import PATIENCE, RawHost, environment, run
from support.in_process import Caught, kept_logging
from support.listening import listening
from support.mcp_proxy import FORM, proxied
from support.paths import APPS, ROOT
from support.terminal import Screen

Json = Any

CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Go on?"}}
AGENT = [sys.executable, str(APPS / "acp_agent.py"), "--plain"]


def command(bug: str) -> list[str]:
    """A process of the bridge with this bug."""
    return [sys.executable, str(APPS / "buggy.py"), bug]


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """This process with a bug, for a bridge in a thread."""
    repair = plant(bug)
    try:
        yield
    finally:
        repair()


def call(host: RawHost, tool: str = "abp_call", **arguments: Json) -> str:
    answer = host.request("tools/call", {"name": tool, "arguments": arguments})
    return json.dumps(answer.get("result") or answer["error"])


def ask_by_mcp(host: RawHost) -> str:
    """Have the demo app ask something, and return the bridge's error."""
    host.initialize()
    return call(host, capability="demo.ask", params={"request": CONFIRM})


def call_by_abp(host: RawHost) -> str:
    about = {"agent": {"name": "Tester", "version": "1"}, "protocolVersion": "0.1"}
    host.request("initialize", {**about, "features": {"elicitation": True}})
    wanted = {"capability": "demo.ask", "params": {"request": CONFIRM}}
    return json.dumps(host.request("capabilities/call", wanted))


def look_by_mcp(host: RawHost) -> str:
    host.initialize()
    return call(host, "abp_status")


def begin_acp(host: RawHost, words: str) -> int:
    """Prompt in a new session: the id of the request."""
    host.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = host.request("session/new", {"cwd": "/", "mcpServers": []})["result"]["sessionId"]
    prompt = [{"type": "text", "text": words}]
    return host.begin("session/prompt", {"sessionId": session, "prompt": prompt})


def prompt_by_acp(host: RawHost) -> str:
    return json.dumps(host.response(begin_acp(host, "/status")))


def ask_behind_the_proxy(host: RawHost) -> str:
    """The agent asks by a form, which this editor does not have."""
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    form = {"mode": "form", "message": "Go on?", "requestedSchema": schema}
    begin_acp(host, json.dumps([{"elicit": form}]))
    told = host.read()
    assert told["method"] == "session/update"
    return json.dumps(told)


BRIDGE = (sys.executable, "-m", "abp_bridge")
SORRY = "abp-bridge has a bug: ValueError. Please report it."
SERVE = ["serve", "--app", "demo"]
ERROR = "ERROR abp_bridge."
ASKED = f"{ERROR}session.connection: question question-2 of call call-1 failed"
CALLED = f"{ERROR}session.call: call call-1 of demo.ask failed"
REQUESTED = f"{ERROR}jsonrpc.connection: request %s failed"
RECORDED = f"{ERROR}conformance.recorder: a recording met something that it cannot write down"

# room: (where its bug is, how the bridge is started, what is done, what the log says of it)
Room = tuple[str, list[str], Callable[[RawHost], str], str]
ROOMS: dict[str, Room] = {
    "a question": ("session.elicitor:Elicitor.resolve", SERVE, ask_by_mcp, ASKED),
    "a call": ("session.result_store:ResultStore.keep", SERVE, ask_by_mcp, CALLED),
    "mcp": ("mcp.session:McpSession.call_tool", SERVE, ask_by_mcp, REQUESTED % "2 ('tools/call')"),
    "acp": (
        "acp.session:AcpSession.run_turn",
        SERVE,
        prompt_by_acp,
        REQUESTED % "3 ('session/prompt')",
    ),
    "abp": (
        "abp.session:AbpSession.call",
        SERVE,
        call_by_abp,
        REQUESTED % "2 ('capabilities/call')",
    ),
    "jsonrpc": (
        "jsonrpc.connection:JsonRpcConnection.respond",
        SERVE,
        look_by_mcp,
        REQUESTED % "1 ('initialize')",
    ),
    "a recording": (
        "conformance.redactor:Redactor.clean_message",
        [*SERVE, "--record", "TRACE"],
        look_by_mcp,
        RECORDED,
    ),
}

SERVERS = "mcp.proxy.keepalive:KeepaliveElicitor.resolve"
LISTENER = "cli.listen:Listener._show_page"


def provoke(room: Room, folder: Path, *, has_sentence: bool = True) -> None:
    """Check what a bridge with a bug tells its host, and the log that it leaves."""
    bug, arguments, do, said = room
    file = folder / "log"
    name, *words = (each.replace("TRACE", str(folder / "trace")) for each in arguments)
    bridge = [*BRIDGE, name] if in_process.enabled else [*command(bug), name]
    with planted(bug), RawHost("--log-file", str(file), *words, command=bridge) as host:
        told = do(host)
        host.end()
    check(told, file.read_text(), said, has_sentence=has_sentence)


def check(told: str, log: str, said: str, *, has_sentence: bool = True) -> None:
    assert f" abp-bridge: {said}\nTraceback (most recent call last):\n" in log
    assert ", in bug\n" in log
    assert KEY not in log + told
    assert not has_sentence or SORRY in told


@pytest.mark.parametrize("room", ROOMS)
def test_bug_leaves_a_traceback_and_a_plain_sentence(room: str, tmp_path: Path) -> None:
    provoke(ROOMS[room], tmp_path, has_sentence=room != "a recording")


@pytest.mark.process
def test_bug_behind_the_acp_proxy_leaves_a_traceback(tmp_path: Path) -> None:
    bug = "acp.proxy.agent_questions:AgentQuestions._resolve"
    said = f"{ERROR}acp.proxy.agent_questions: request 0 ('elicitation/create') failed"
    provoke((bug, ["acp", "--", *AGENT], ask_behind_the_proxy, said), tmp_path)


@pytest.mark.process
def test_bug_behind_the_mcp_proxy_cancels_its_question(tmp_path: Path) -> None:
    file = tmp_path / "log"
    bridge = [*command(SERVERS), "mcp", "--log-file", str(file)]
    with proxied(tmp_path, command=bridge, capabilities={"elicitation": FORM}) as host:
        told = host.text(host.begin_call("okta"))
        host.end()
    assert told == "cancelled"
    words = "a question of the server is cancelled: asking it failed"
    said = f"{ERROR}mcp.proxy.server_questions: {words}"
    check(told, file.read_text(), said, has_sentence=False)  # a server is told no reason


@pytest.mark.network
def test_bug_of_the_page_for_agents_is_logged_and_said(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with planted(LISTENER), listening("--app", "demo", "--log-file", str(file)) as running:
        assert httpx2.get(running.page).text == "The bridge failed at this."
    assert f"{ERROR}surfaces.http: a page of the bridge's own failed\nTraceback" in file.read_text()


FIXTURE = str(ROOT / "fixtures/mcp-form/2025-11-25/confirm.jsonl")
HOST = "cli.terminal_host:TerminalHost.call"
COMMANDS: dict[str, tuple[str, ...]] = {
    "settings": ("settings:read_settings", "serve"),
    "trace": ("conformance.sequence_diagram:draw", "trace", FIXTURE),
    "install": ("setup.change:install", "install", "codex", "--print"),
    "doctor": ("setup.doctor.gather:find_hosts", "doctor"),
    "ask": ("cli.ask:User.elicit", "ask", "elicitation/confirm", "Go on?"),
    "demo": (HOST, "demo"),
    "try": (HOST, "try", "demo", "demo.work"),
}


@pytest.mark.process
@pytest.mark.parametrize("room", COMMANDS)
def test_bug_in_a_command_is_one_traceback_and_one_sentence(room: str) -> None:
    bug, *words = COMMANDS[room]
    ended = subprocess.run(
        [*command(bug), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(),
    )
    assert ended.returncode == 1
    where, says = "cli.main: this command failed", ""
    if bug == HOST:  # which is at its work, and says who speaks
        where, says = "cli.terminal_host: the session with the bridge failed", f" {words[0]}"
    assert f"abp-bridge: {ERROR}{where}\n" in ended.stderr
    assert ended.stderr.endswith(f"\nabp-bridge{says}: {SORRY}\n")
    assert ended.stderr.count("Traceback") == 1
    assert KEY not in ended.stdout + ended.stderr


def test_bug_in_a_question_ends_neither_the_app_nor_the_call() -> None:
    with planted("session.elicitor:Elicitor.resolve"), RawHost("--app", "demo") as host:
        assert SORRY in ask_by_mcp(host)
        assert SORRY in call(host, capability="demo.ask", params={"request": CONFIRM})


# --- the handler ----------------------------------------------------------------------------------

SET_UP = """
import logging, os, sys
from abp_bridge.log import configure, print_message
logger = logging.getLogger("abp_bridge.room")
"""


def log(code: str) -> str:
    """What code that logs leaves on stderr."""
    with kept_logging(), Caught(2) as caught:
        logging.root.handlers.clear()
        exec(SET_UP + code, {"__name__": "room"})
    return caught.text


def test_record_is_one_line_with_its_logger() -> None:
    code = "configure(); logger.info('no'); logger.warning('call %s of %r', 'call-1', 'a\\x1b[2Jb')"
    assert log(code) == "abp-bridge: WARNING abp_bridge.room: call call-1 of 'a\\x1b[2Jb'\n"
    code = "configure(); logger.warning('caf\\u00e9 \\ud800 \\x1b[2J\\nnext')"
    assert log(code) == "abp-bridge: WARNING abp_bridge.room: café \\ud800 \\x1b[2J\\nnext\n"


def test_log_level_leaves_lesser_records_out() -> None:
    for level, count in {"debug": 4, "info": 3, "warning": 2, "error": 1}.items():
        code = f"configure({level!r})\nfor each in (10, 20, 30, 40): logger.log(each, 'said')"
        assert len(log(code).splitlines()) == count


def test_long_record_is_written_whole() -> None:
    assert log("configure(); logger.error('x' * 50_000)").count("x") == 50_000
    assert log("print_message('x' * 50_000)").count("x") == 50_000


def test_record_of_another_library_is_cut_before_its_data() -> None:
    code = f"""
configure("debug")
other = logging.getLogger("other")
other.info("%s", {KEY!r})
other.warning("it got %s", {KEY!r})
other.warning("it got: {KEY}")
other.error("a callback failed (%s)" % {KEY!r})
other.error("too %s %s", "few")
logger.error("too %s %s", "few")
"""
    assert log(code).splitlines() == [
        "abp-bridge: WARNING other: it got",
        "abp-bridge: WARNING other: it got",
        "abp-bridge: ERROR other: a callback failed",
        "abp-bridge: ERROR other: too",
        "abp-bridge: ERROR abp_bridge.log: a record of abp_bridge.room cannot be written",
    ]


QUOTING = {
    "a file": "open('/nonexistent/' + KEY)",
    "a group": "exec('raise ExceptionGroup(\"several\", [ValueError(KEY), KeyError(KEY)])')",
    "json": "json.loads('{' + KEY)",
    "a model": "pydantic.TypeAdapter(int).validate_python(KEY)",
}


@pytest.mark.parametrize("what", QUOTING)
def test_traceback_quotes_no_data(what: str) -> None:
    code = f"""
import json, pydantic
configure("debug")
KEY = "-".join(["planted", "key", "5be1"])
def read(secret):
    try:
        {QUOTING[what]}
    except Exception as problem:
        try: raise RuntimeError(KEY) from problem
        except RuntimeError as problem: problem.add_note(KEY); raise LookupError(KEY)
try: read(KEY)
except LookupError: logger.exception("it failed")
"""
    said = log(code)
    assert KEY not in said
    assert "LookupError (its message is left out: it may quote an answer)" in said
    assert said.count("Traceback") >= 3


def test_traceback_keeps_messages_without_data() -> None:
    code = "configure()\ntry: None.nothing\nexcept AttributeError: logger.exception('it failed')"
    assert "AttributeError: 'NoneType' object has no attribute 'nothing'\n" in log(code)
    code = "configure()\ntry: open('/nonexistent')\nexcept OSError: logger.exception('it failed')"
    assert log(code).endswith("FileNotFoundError: No such file or directory\n")


@pytest.mark.slow
def test_exceptions_of_threads_tasks_and_finalizers_are_logged() -> None:
    code = f"""
import asyncio, gc, threading
configure()
def fail(*_): raise KeyError({KEY!r})
thread = threading.Thread(target=fail); thread.start(); thread.join()
class Finalized: __del__ = fail
Finalized()
async def main():
    async def task(): fail()
    asyncio.create_task(task())
    await asyncio.sleep(0)
    gc.collect()
    asyncio.get_running_loop().call_soon(fail, {KEY!r})
    await asyncio.sleep(0)
asyncio.run(main())
"""
    said = log(code)
    assert KEY not in said
    assert [line for line in said.splitlines() if line.startswith("abp-bridge: ")] == [
        "abp-bridge: ERROR abp_bridge.log: a thread ended",
        "abp-bridge: ERROR abp_bridge.log: an exception could not be raised",
        "abp-bridge: ERROR asyncio: Task exception was never retrieved",
        "abp-bridge: ERROR asyncio: Exception in callback fail",
    ]
    assert said.count("Traceback") == 4


STUCK = """
reading, writing = os.pipe()
kept = os.dup(2)
os.set_blocking(writing, False)
try:
    while os.write(writing, b"x" * 65536): pass
except BlockingIOError:
    os.set_blocking(writing, True)
os.dup2(writing, 2)
"""


def test_log_never_waits_for_a_reader_and_counts_lost_records() -> None:
    code = f"""
configure()
{STUCK}
for number in range(3): logger.warning("nobody reads this")
print_message("nor this")
os.dup2(kept, 2)
logger.warning("this is read")
logger.warning("and this")
"""
    assert log(code).splitlines() == [
        "abp-bridge: WARNING abp_bridge.log: 3 records before this one were lost or cut: nobody"
        " read them in time",
        "abp-bridge: WARNING abp_bridge.room: this is read",
        "abp-bridge: WARNING abp_bridge.room: and this",
    ]


@pytest.mark.terminal
def test_log_at_a_terminal_is_sentences(tmp_path: Path) -> None:
    kept = tmp_path / "log"
    env = {**environment(), "ABP_HEADLES": "1", "ABP_LOG_FILE": str(kept)}
    asked = ["ask", "confirm", "Go on?", "--on", "page", "--timeout", "1ms"]
    with Screen([sys.executable, "-m", "abp_bridge", *asked], env, columns=200) as screen:
        screen.until("abp-bridge: ABP_HEADLES in the environment is no setting: is ABP_HEADLESS")
        assert screen.end() == 1
    assert "WARNING" not in screen.shown
    assert "abp-bridge: WARNING abp_bridge.settings: ABP_HEADLES in the" in kept.read_text()


def test_record_that_was_cut_is_reported_on_a_new_line() -> None:
    code = f"""
configure()
{STUCK}
os.read(reading, 8192)
logger.warning("y" * 20_000)
while b"y" not in (last := os.read(reading, 65536)): pass
logger.warning("this is read")
os.write(kept, (last + os.read(reading, 65536)).lstrip(b"x"))
"""
    said = log(code)
    cut, lost, read = said.splitlines()
    assert cut.endswith("yyy")
    assert "1 records before this one were lost or cut" in lost
    assert read == "abp-bridge: WARNING abp_bridge.room: this is read"


def test_log_without_a_stderr_does_nothing() -> None:
    assert log("configure(); os.close(2); logger.warning('x'); print_message('x')") == ""


# --- the options ----------------------------------------------------------------------------------


def test_log_file_is_private_and_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "log"
    options = ("--app", "demo", "--log-level", "debug")
    for _ in range(2):
        with (
            planted("mcp.session:McpSession.call_tool"),
            RawHost(*options, env={"ABP_LOG_FILE": str(file)}) as host,
        ):
            look_by_mcp(host)
            host.end()
    assert file.read_text().count("('tools/call') failed") == 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_debug_log_has_the_way_of_a_question_and_not_its_words(tmp_path: Path) -> None:
    file, answers = tmp_path / "log", tmp_path / "answers.json"
    answers.write_text('["Planted Answer"]')
    asked = ("input", "A planted prompt?", "--on", "mock", "--answers", str(answers))
    ended = run("ask", *asked, "--log-level", "debug", "--log-file", str(file))
    assert ended.returncode == 0
    lines = [line.partition("event_log: ")[2] for line in file.read_text().splitlines()]
    assert lines[:2] == [
        "question-1: this command asks elicitation/input",
        "question-1: asked by mock",
    ]
    assert lines[2].startswith("question-1: accepted by script (")
    assert "lanted" not in file.read_text()


@pytest.mark.parametrize("where", ["/nonexistent/log", "/dev/null", "/", "PIPE"])
def test_unusable_log_file_is_an_error(where: str, tmp_path: Path) -> None:
    if where == "PIPE":
        os.mkfifo(where := str(tmp_path / "pipe"))
    ended = run("serve", "--log-file", where)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"abp-bridge: --log-file {where!r} ")
    assert ended.stderr.count("\n") == 1


def test_log_level_may_be_in_capitals() -> None:
    env = {"ABP_LOG_LEVEL": "Debug", "ABP_PAGE": "OFF"}
    asked = run("matrix", "--log-level", "ERROR", env=env)
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.mark.parametrize("name", ["serve", "acp", "demo", "ask", "matrix", "replay", "trace"])
def test_every_command_has_the_log_options(name: str) -> None:
    words = run(name, "--help").stdout
    assert "--log-level" in words
    assert "--log-file" in words
