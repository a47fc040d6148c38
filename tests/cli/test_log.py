"""What the bridge says of itself: a bug in any room leaves its traceback and the call's id in the
log, and a plain sentence for whoever asked; nobody waits for it, and no answer is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.harness import PATIENCE, RawHost, environment
from support.listening import listening
from support.mcp_proxy import FORM, proxied
from support.pages.server import web
from support.paths import APPS, ROOT
from support.terminal import Screen, Tty

from abp_bridge.log import format_exception

Json = Any

KEY = "planted-key-5be1"
CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Go on?"}}
AGENT = [sys.executable, str(APPS / "acp_agent.py"), "--plain"]


def command(*bugs: str) -> list[str]:
    """The bridge with bugs: each names a function, module:Class.function, that raises instead."""
    plant = (
        "import importlib, sys\n"
        "def plant(name):\n"
        "    module, _, path = name.partition(':')\n"
        "    *owners, last = path.split('.')\n"
        "    owner = importlib.import_module(module)\n"
        "    for each in owners: owner = getattr(owner, each)\n"
        "    assert callable(getattr(owner, last))\n"
        f"    def bug(*_, **__): raise ValueError({KEY!r})\n"
        "    setattr(owner, last, bug)\n"
        f"for name in {bugs!r}: plant(name)\n"
        "from abp_bridge.cli.main import entry\n"
        "entry()\n"
    )
    return [sys.executable, "-c", plant]


def call(host: RawHost, tool: str = "abp_call", **arguments: Json) -> str:
    answer = host.request("tools/call", {"name": tool, "arguments": arguments})
    return json.dumps(answer.get("result") or answer["error"])


def ask_by_mcp(host: RawHost) -> str:
    """Has the demo app ask something, and says how the bridge excuses itself."""
    host.initialize()
    return call(host, capability="demo.ask", params={"request": CONFIRM})


def ask_a_secret_by_mcp(host: RawHost) -> str:
    host.initialize(elicitation={"url": {}})
    params = {"message": "API key?", "sensitive": True}
    request = {"method": "elicitation/input", "params": params}
    return call(host, capability="demo.ask", params={"request": request})


def ask_in_a_form(method: str = "elicitation/confirm", **params: Json) -> Callable[[RawHost], str]:
    """As `ask_by_mcp`, of a host that has forms, and asks whatever else is asked."""

    def do(host: RawHost) -> str:
        host.initialize(elicitation={"form": {}})
        request = {"method": method, "params": params or CONFIRM["params"]}
        return call(host, capability="demo.ask", params={"request": request})

    return do


def call_by_mcp(capability: str, **params: Json) -> Callable[[RawHost], str]:
    """Has a capability of the app called."""

    def do(host: RawHost) -> str:
        host.initialize()
        return call(host, capability=capability, params=params)

    return do


def call_by_abp(host: RawHost) -> str:
    about = {"agent": {"name": "Tester", "version": "1"}, "protocolVersion": "0.1"}
    host.request("initialize", {**about, "features": {"elicitation": True}})
    wanted = {"capability": "demo.ask", "params": {"request": CONFIRM}}
    return json.dumps(host.request("capabilities/call", wanted))


def look_by_mcp(host: RawHost) -> str:
    host.initialize()
    return call(host, "abp_status")


def prompt_by_acp(host: RawHost) -> str:
    host.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    new = host.request("session/new", {"cwd": "/", "mcpServers": []})
    prompt = [{"type": "text", "text": "/status"}]
    answer = host.request(
        "session/prompt", {"sessionId": new["result"]["sessionId"], "prompt": prompt}
    )
    return json.dumps(answer)


def ask_behind_the_proxy(host: RawHost) -> str:
    """The agent asks by a form, which this editor does not have; how the bridge excuses itself."""
    host.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    new = host.request("session/new", {"cwd": "/", "mcpServers": []})
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    steps = [{"elicit": {"mode": "form", "message": "Go on?", "requestedSchema": schema}}]
    prompt = [{"type": "text", "text": json.dumps(steps)}]
    host.send("session/prompt", {"sessionId": new["result"]["sessionId"], "prompt": prompt}, id="p")
    told = host.read()
    assert told["method"] == "session/update"
    return json.dumps(told)


SORRY = "abp-bridge has a bug: ValueError. Please report it."
SERVE = ["serve", "--app", "demo"]
SDK_SERVER = f"mcp:{sys.executable} {APPS / 'sdk_server.py'}"
ACP_AGENT = f"acp:{sys.executable} {APPS / 'acp_agent.py'}"
MODEL = f"acp:{sys.executable} {APPS / 'acp_model.py'} heard"
ASKED = "ERROR abp_bridge.session.connection: question question-2 of call call-1 failed"

# room: (where its bug is, how the bridge is started, what is done, what the log says of it)
Room = tuple[str, list[str], Callable[[RawHost], str], str]
ROOMS: dict[str, Room] = {
    "bridge": (
        "abp_bridge.session.elicitor:Elicitor.resolve",
        SERVE,
        ask_by_mcp,
        ASKED,
    ),
    "bridge, a call": (
        "abp_bridge.session.result_store:ResultStore.keep",
        SERVE,
        ask_by_mcp,
        "ERROR abp_bridge.session.call: call call-1 of demo.ask failed",
    ),
    "hosts/mcp": (
        "abp_bridge.mcp.session:McpSession.call_tool",
        SERVE,
        ask_by_mcp,
        "ERROR abp_bridge.jsonrpc.connection: request 2 ('tools/call') failed",
    ),
    "hosts/acp": (
        "abp_bridge.acp.session:AcpSession.run_turn",
        SERVE,
        prompt_by_acp,
        "ERROR abp_bridge.jsonrpc.connection: request 3 ('session/prompt') failed",
    ),
    "apps": (
        "abp_bridge.apps.abp:AbpApp.call_capability",
        SERVE,
        ask_by_mcp,
        "ERROR abp_bridge.session.call: call call-1 of demo.ask failed",
    ),
    "core": ("abp_bridge.core.ledger:Ledger.add", SERVE, ask_by_mcp, ASKED),
    "protocols": (
        "abp_bridge.protocols.mcp.elicitation:encode_form",
        SERVE,
        ask_in_a_form(),
        ASKED,
    ),
    "agents": (
        "abp_bridge.models.surface:AgentSurface.prompt",
        [*SERVE, "--sampling", MODEL],
        ask_in_a_form("sampling/create", task="Say hello."),
        ASKED,
    ),
    "hosts/abp": (
        "abp_bridge.abp.session:AbpSession.call",
        SERVE,
        call_by_abp,
        "ERROR abp_bridge.jsonrpc.connection: request 2 ('capabilities/call') failed",
    ),
    "apps, a server": (
        "abp_bridge.apps.mcp:McpApp.call_capability",
        ["serve", "--app", SDK_SERVER],
        call_by_mcp("order", dish="soup"),
        "ERROR abp_bridge.session.call: call call-1 of order failed",
    ),
    "apps, an agent": (
        "abp_bridge.apps.acp:AcpApp.call_capability",
        ["serve", "--app", ACP_AGENT],
        call_by_mcp("agent.prompt", prompt="Hello."),
        "ERROR abp_bridge.session.call: call call-1 of agent.prompt failed",
    ),
    "clients": (
        "abp_bridge.mcp.client_session:open_session",
        ["serve", "--app", SDK_SERVER],
        call_by_mcp("order", dish="soup"),
        "ERROR abp_bridge.jsonrpc.connection: request 2 ('tools/call') failed",
    ),
    "surfaces/answers_file": (
        "abp_bridge.surfaces.answers_file:AnswersFile.prompt",
        [*SERVE, "--answers", "answers.json"],
        ask_by_mcp,
        ASKED,
    ),
    "surfaces/opencode": (
        "abp_bridge.surfaces.opencode:QuestionsApi.prompt",
        [*SERVE, "--questions-api", "0", "--ask-on", "questions-api"],
        ask_by_mcp,
        ASKED,
    ),
    "surfaces/terminal": (
        "abp_bridge.surfaces.terminal.surface:Terminal.prompt",
        [*SERVE, "--tty", "TTY"],
        ask_by_mcp,
        ASKED,
    ),
    "surfaces/inbox": (
        "abp_bridge.surfaces.inbox.register:Register._add",
        SERVE,
        ask_in_a_form(),
        ASKED,
    ),
    "surfaces/notify": (
        "abp_bridge.surfaces.notify:Notifier._add",
        [*SERVE, "--notify"],
        ask_in_a_form(),
        ASKED,
    ),
    "rpc": (
        "abp_bridge.jsonrpc.connection:JsonRpcConnection.respond",
        SERVE,
        look_by_mcp,
        "ERROR abp_bridge.jsonrpc.connection: request 1 ('initialize') failed",
    ),
    "surfaces/page": (
        "abp_bridge.surfaces.page.site:PageSite.open_form",
        SERVE,
        ask_a_secret_by_mcp,
        ASKED,
    ),
    "trace": (
        "abp_bridge.conformance.redactor:Redactor.clean_message",
        [*SERVE, "--record", "TRACE"],
        look_by_mcp,
        "ERROR abp_bridge.conformance.recorder: "
        "a recording met something that it cannot write down",
    ),
    "proxies/acp": (
        "abp_bridge.acp.proxy.agent_questions:AgentQuestions._resolve",
        ["acp", "--", *AGENT],
        ask_behind_the_proxy,
        "ERROR abp_bridge.acp.proxy.agent_questions: request 0 ('elicitation/create') failed",
    ),
}

SERVERS = "abp_bridge.mcp.proxy.keepalive:KeepaliveElicitor.resolve"
LISTENER = "abp_bridge.cli.listen:Listener._show_page"

# What an app in Chromium needs a real page for: (where the bug is, its page, what is called)
IN_A_PAGE = {
    "apps/browser": (
        "abp_bridge.apps.browser.app:BrowserApp.call_capability",
        "workshop.html",
        "run",
        {},
    ),
    "apps/webmcp": ("abp_bridge.apps.webmcp.call:ToolCall.run_call", "tools.html", "add", {"a": 1}),
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_bug_leaves_a_traceback_with_the_id_and_a_plain_sentence(
    room: str, tmp_path: Path
) -> None:
    bug, arguments, do, said = ROOMS[room]
    (tmp_path / "answers.json").write_text('["yes"]')
    with Tty() as tty:
        arguments = [tty.name if each == "TTY" else each for each in arguments]
        told, log = provoke(bug, arguments, do, tmp_path)
    check(told, log, said, has_sentence=room != "trace")  # whose bugs are nobody's but the log's


@pytest.mark.parametrize("room", IN_A_PAGE)
def test_a_bug_where_a_page_is_called_leaves_the_same(room: str, tmp_path: Path) -> None:
    bug, page, capability, params = IN_A_PAGE[room]
    with web() as site:
        arguments = ["serve", "--app", f"{site.here}/{page}"]
        told, log = provoke(bug, arguments, call_by_mcp(capability, **params), tmp_path)
    check(told, log, f"ERROR abp_bridge.session.call: call call-1 of {capability} failed")


def test_a_bug_behind_the_proxy_of_a_server_cancels_its_question(tmp_path: Path) -> None:
    file = tmp_path / "log"
    bridge = [*command(SERVERS), "mcp", "--log-file", str(file)]
    with proxied(tmp_path, command=bridge, capabilities={"elicitation": FORM}) as host:
        told = host.text(host.begin_call("okta"))
        host.end()
    assert told == "cancelled"
    words = "a question of the server's is cancelled: asking it failed"
    said = f"ERROR abp_bridge.mcp.proxy.server_questions: {words}"
    check(told, file.read_text(), said, has_sentence=False)  # a server is told no reason


def test_a_bug_where_agents_come_in_is_logged_and_said() -> None:
    bridge = [*command(LISTENER), "serve"]
    log = "ERROR abp_bridge.surfaces.http: a page of the bridge's own failed\nTraceback"
    with listening("--app", "demo", command=bridge, words=log) as running:
        assert httpx2.get(running.page).text == "The bridge failed at this."


# Rooms whose own process the app is.
NOT_PROVOKED = {"apps.demo"}
# Rooms of pure functions, or of a command's options: what calls them is provoked.
CALLED = {"core.redact", "protocols.abp", "protocols.acp", "protocols.webmcp"}


def test_every_room_is_provoked() -> None:
    planted = [row[0] for table in (ROOMS, IN_A_PAGE, COMMANDS) for row in table.values()]
    places = tuple(bug.partition(":")[0] for bug in (*planted, SERVERS, LISTENER))
    folders = [file.parent for file in (ROOT / "abp_bridge").rglob("*/__init__.py")]
    rooms = {".".join(folder.relative_to(ROOT / "abp_bridge").parts) for folder in folders}
    missed = {
        room for room in rooms if not any(f"abp_bridge.{room}." in f"{each}." for each in places)
    }
    assert missed == NOT_PROVOKED | CALLED


def provoke(
    bug: str, arguments: list[str], do: Callable[[RawHost], str], folder: Path
) -> tuple[str, str]:
    """What a bridge with a bug tells, and the log that it leaves."""
    file = folder / "log"
    arguments = [arguments[0], "--log-file", str(file), *arguments[1:]]
    env = {"ABP_CHROME_SANDBOX": "0", "ABP_QUESTIONS_PASSWORD": "a password"}
    with RawHost(*arguments, command=command(bug), cwd=folder, env=env) as host:
        told = do(host)
        host.end()
    return told, file.read_text()


def check(told: str, log: str, said: str, *, has_sentence: bool = True) -> None:
    assert f" abp-bridge: {said}\nTraceback (most recent call last):\n" in log
    assert ", in bug\n" in log
    assert KEY not in log + told
    assert not has_sentence or SORRY in told


FIXTURE = str(ROOT / "fixtures/mcp-form/2025-11-25/confirm.jsonl")
HOST = "abp_bridge.cli.terminal_host:TerminalHost.call"
COMMANDS = {
    "cli": ("abp_bridge.cli.matrix:run_matrix", "matrix"),
    "settings": ("abp_bridge.settings:read_settings", "serve"),
    "replay": ("abp_bridge.conformance.runner:play", "replay", FIXTURE),
    "trace": ("abp_bridge.conformance.sequence_diagram:draw", "trace", FIXTURE),
    "setup": ("abp_bridge.setup.change:install", "install", "codex", "--print"),
    "setup/formats": ("abp_bridge.setup.formats.toml:Toml.insert", "install", "codex", "--print"),
    "setup/doctor": ("abp_bridge.setup.doctor.gather:find_hosts", "doctor"),
    "surfaces/inbox": ("abp_bridge.surfaces.inbox.bridges:look", "inbox", "--json"),
    "cli.ask": ("abp_bridge.cli.ask:User.elicit", "ask", "elicitation/confirm", "Go on?"),
    "cli.check_app": ("abp_bridge.cli.check_app:gather_facts", "check", "demo"),
    "cli.demo": (HOST, "demo"),
    "cli.try_app": (HOST, "try", "demo", "demo.work"),
}


@pytest.mark.parametrize("room", COMMANDS)
def test_a_bug_in_a_command_is_one_traceback_and_one_sentence(room: str) -> None:
    bug, *words = COMMANDS[room]
    ended = run(*command(bug), *words)
    assert ended.returncode == 1
    where, says = "cli.main: this command failed", ""
    if bug == HOST:  # which is at its work, and says who speaks
        where, says = "cli.terminal_host: the session with the bridge failed", f" {words[0]}"
    assert f"abp-bridge: ERROR abp_bridge.{where}\n" in ended.stderr
    assert ended.stderr.endswith(f"\nabp-bridge{says}: {SORRY}\n")
    assert ended.stderr.count("Traceback") == 1
    assert KEY not in ended.stdout + ended.stderr


def test_a_bug_that_comes_with_a_question_ends_neither_the_app_nor_the_call() -> None:
    with RawHost(*SERVE, command=command("abp_bridge.session.elicitor:Elicitor.resolve")) as host:
        assert SORRY in ask_by_mcp(host)
        assert SORRY in call(host, capability="demo.ask", params={"request": CONFIRM})


# --- the handler ----------------------------------------------------------------------------------

SET_UP = """
import logging, os, sys
from abp_bridge.log import configure, print_message
logger = logging.getLogger("abp_bridge.room")
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment()
    )


def log(code: str) -> str:
    """What code that logs leaves on stderr."""
    ended = run(sys.executable, "-c", SET_UP + code)
    assert ended.stdout == ""
    return ended.stderr


def test_a_record_is_one_line_that_says_where_it_is_from() -> None:
    code = "configure(); logger.info('no'); logger.warning('call %s of %r', 'call-1', 'a\\x1b[2Jb')"
    assert log(code) == "abp-bridge: WARNING abp_bridge.room: call call-1 of 'a\\x1b[2Jb'\n"
    code = "configure(); logger.warning('caf\\u00e9 \\ud800 \\x1b[2J\\nnext')"
    assert log(code) == "abp-bridge: WARNING abp_bridge.room: café \\ud800 \\x1b[2J\\nnext\n"


@pytest.mark.parametrize(
    ("level", "count"), {"debug": 4, "info": 3, "warning": 2, "error": 1}.items()
)
def test_what_is_less_than_the_level_is_not_written(level: str, count: int) -> None:
    code = f"configure({level!r})\nfor each in (10, 20, 30, 40): logger.log(each, 'said')"
    assert len(log(code).splitlines()) == count


def test_a_long_record_is_written_whole() -> None:
    assert log("configure(); logger.error('x' * 50_000)").count("x") == 50_000
    assert log("print_message('x' * 50_000)").count("x") == 50_000


def test_of_another_library_the_words_before_any_data_are_written() -> None:
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
    "a key": "{}[KEY]",
    "a number": "int(KEY)",
    "a file": "open('/nonexistent/' + KEY)",
    "a group": "exec('raise ExceptionGroup(\"several\", [ValueError(KEY), KeyError(KEY)])')",
    "text": "KEY.encode('utf-16').decode('utf-8')",
    "json": "json.loads('{' + KEY)",
    "a model": "pydantic.TypeAdapter(int).validate_python(KEY)",
}


@pytest.mark.parametrize("what", QUOTING)
def test_no_exception_quotes_what_it_was_about(what: str) -> None:
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


def test_what_names_only_parts_of_the_program_keeps_its_message() -> None:
    code = "configure()\ntry: None.nothing\nexcept AttributeError: logger.exception('it failed')"
    assert "AttributeError: 'NoneType' object has no attribute 'nothing'\n" in log(code)
    code = "configure()\ntry: open('/nonexistent')\nexcept OSError: logger.exception('it failed')"
    assert log(code).endswith("FileNotFoundError: No such file or directory\n")


def test_an_exception_that_is_met_on_several_ways_is_written_once() -> None:
    problem: BaseException = ValueError(KEY)
    for number in range(18):
        problem, before = BaseExceptionGroup(f"level {number}", [problem]), problem
        problem.__context__ = before
    lines = list(format_exception(problem))
    assert len(lines) < 200
    assert sum("its message is left out" in line for line in lines) == 1
    assert sum("written above" in line for line in lines) == 18


def test_threads_tasks_and_finalizers_are_heard() -> None:
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


def test_nobody_waits_for_a_reader_and_what_was_lost_is_counted() -> None:
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


def test_a_person_at_a_terminal_reads_sentences_and_the_file_has_all(tmp_path: Path) -> None:
    kept = tmp_path / "log"
    env = {**environment(), "ABP_HEADLES": "1", "ABP_LOG_FILE": str(kept)}
    asked = ["ask", "confirm", "Go on?", "--on", "page", "--timeout", "1ms"]
    with Screen([sys.executable, "-m", "abp_bridge", *asked], env, columns=200) as screen:
        screen.until("abp-bridge: ABP_HEADLES in the environment is no setting: is ABP_HEADLESS")
        assert screen.end() == 1
    assert "WARNING" not in screen.shown
    assert "abp-bridge: WARNING abp_bridge.settings: ABP_HEADLES in the" in kept.read_text()


def test_nobody_waits_for_a_terminal_that_is_not_read() -> None:
    code = """
import pty
configure()
kept = os.dup(2)
reading, terminal = pty.openpty()
os.dup2(terminal, 2)
for _ in range(60): logger.warning("z" * 700)
print_message("nor this")
assert os.get_blocking(terminal)
os.dup2(kept, 2)
logger.warning("this is read")
"""
    lost, read = log(code).strip().splitlines()
    assert "records before this one were lost or cut" in lost
    assert read == "abp-bridge: WARNING abp_bridge.room: this is read"


def test_a_record_that_was_cut_in_the_middle_says_so_on_a_new_line() -> None:
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


def test_without_a_stderr_nothing_happens() -> None:
    assert log("configure(); os.close(2); logger.warning('x'); print_message('x')") == ""


# --- the options ----------------------------------------------------------------------------------


def bridge(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "abp_bridge", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(**env),
    )


def test_a_log_file_is_ones_own_and_is_added_to(tmp_path: Path) -> None:
    file = tmp_path / "log"
    for _ in range(2):
        with RawHost(
            *SERVE,
            "--log-level",
            "debug",
            command=command(ROOMS["hosts/mcp"][0]),
            env={"ABP_LOG_FILE": str(file)},
        ) as host:
            look_by_mcp(host)
            host.end()
    assert file.read_text().count("('tools/call') failed") == 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_at_level_debug_the_log_has_the_way_of_a_question_and_not_its_words(tmp_path: Path) -> None:
    file = tmp_path / "log"
    answers = tmp_path / "answers.json"
    answers.write_text('["Planted Answer"]')
    asked = bridge(
        "ask",
        *("input", "A planted prompt?", "--on", "mock", "--answers", str(answers)),
        *("--log-level", "debug", "--log-file", str(file)),
    )
    assert asked.returncode == 0
    lines = [line.partition("event_log: ")[2] for line in file.read_text().splitlines()]
    assert lines[:2] == [
        "question-1: this command asks elicitation/input",
        "question-1: asked by mock",
    ]
    assert lines[2].startswith("question-1: accepted by script (")
    assert "lanted" not in file.read_text()


@pytest.mark.parametrize("where", ["/nonexistent/log", "/dev/null", "/"])
def test_a_log_file_that_cannot_be_written_is_said_at_once(where: str) -> None:
    ended = bridge("serve", "--log-file", where)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"abp-bridge: --log-file {where!r} ")
    assert ended.stderr.count("\n") == 1


def test_a_pipe_is_no_log_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ended = bridge("serve", "--log-file", str(tmp_path / "pipe"))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


def test_a_level_that_there_is_not_is_said() -> None:
    ended = bridge("serve", ABP_LOG_LEVEL="loud")
    assert ended.returncode == 2
    assert "ABP_LOG_LEVEL cannot be used: it must be debug, info," in ended.stderr


def test_a_level_may_be_in_capitals() -> None:
    asked = bridge("serve", "--log-level", "ERROR", ABP_LOG_LEVEL="Debug")
    assert (asked.returncode, asked.stderr) == (0, "")
    meant = bridge("serve", ABP_LOG_LEVEL="ERROR", ABP_PAGE="OFF")
    assert (meant.returncode, meant.stderr) == (0, "")


@pytest.mark.parametrize("name", ["serve", "acp", "demo", "ask", "matrix", "replay", "trace"])
def test_every_command_takes_the_options(name: str) -> None:
    words = bridge(name, "--help").stdout
    assert "--log-level" in words
    assert "--log-file" in words
