"""How a proxy ends: whichever side leaves first, nobody stays behind and nothing is said twice.

Real processes on both sides.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.acp_proxy import ACP, AGENT, CONFIRM, begin, spawned, write
from support.harness import PATIENCE, RawHost

from abp_bridge.acp.proxy.proxy import DRAIN
from abp_bridge.jsonrpc.stderr import LAST_WORDS
from abp_bridge.jsonrpc.subprocess import GRACE
from abp_bridge.session.bridge import CLOSE_LIMIT

Json = Any

pytestmark = pytest.mark.process


def test_questions_are_withdrawn_when_the_agent_exits() -> None:
    with spawned(*AGENT) as proxy:
        begin(proxy)
        prompt(proxy, [CONFIRM])
        asked = until(proxy, "session/request_permission")
        prompt(proxy, [{"die": 7}])
        assert until(proxy, "$/cancel_request")["params"] == {"requestId": asked["id"]}
        rest, stderr = proxy.communicate(timeout=PATIENCE)
        assert b'"stopReason"' not in rest, "no answer is invented"
        assert proxy.returncode == 7
        assert stderr.decode().splitlines() == [
            f"abp-bridge: the agent {sys.executable} ended (exit code 7) before its client did"
        ]


def test_missing_agent_program_is_reported_in_one_line() -> None:
    with spawned("no-such-agent") as proxy:
        _, stderr = proxy.communicate(timeout=PATIENCE)
        assert proxy.returncode == 127
        assert re.fullmatch(
            r"abp-bridge: the agent cannot be started: .*'no-such-agent'.*\n", stderr.decode()
        )


def test_client_of_a_missing_agent_gets_a_setup_hint() -> None:
    command = ["--", "no-such-agent", "--api-key", "hunter2"]
    with RawHost(*command, command=ACP) as host:
        answer = host.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert answer["error"]["code"] == -32603
        for words in ("(no-such-agent --api-key ", "no program 'no-such-agent'", "after --"):
            assert words in answer["error"]["message"]
        assert "hunter2" not in str(answer)
        assert host.process.wait(PATIENCE) == 127


def test_killed_agent_gives_the_exit_code_of_a_shell() -> None:
    with spawned(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)") as proxy:
        assert proxy.wait(PATIENCE) == 137


def test_last_words_of_the_agent_reach_a_client_that_closed_stdin() -> None:
    line = b'{"jsonrpc":"2.0","method":"_last"}\n'
    late = "import sys; sys.stdout.write(sys.stdin.read() + 'no message')"
    with spawned(sys.executable, "-c", late) as proxy:
        stdout, stderr = proxy.communicate(line, timeout=PATIENCE)
        assert (stdout, stderr, proxy.returncode) == (line, b"no message\n", 0)


def test_proxy_ends_when_the_client_stops_reading() -> None:
    flood = """while True: print('{"jsonrpc":"2.0","method":"_again"}', flush=True)"""
    with spawned(sys.executable, "-c", flood) as proxy:
        assert proxy.stdout is not None
        assert proxy.stderr is not None
        proxy.stdout.readline()
        proxy.stdout.close()
        assert proxy.wait(PATIENCE) == 0
        assert proxy.stderr.read() == b""


# An agent that will not end by itself, and neither will its child: a file has their ids.
STUBBORN = """
import os
import signal
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".part", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
sys.stdout.write('{"jsonrpc":"2.0","method":"ready"}\\n')
sys.stdout.flush()
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["stdin", "SIGINT SIGINT SIGTERM"])
def test_end_is_quiet_and_leaves_no_process(how: str, tmp_path: Path) -> None:
    with spawned(sys.executable, "-c", STUBBORN, str(tmp_path / "pids")) as proxy:
        assert proxy.stdout is not None
        proxy.stdout.readline()
        if how == "stdin":
            assert proxy.stdin is not None
            proxy.stdin.close()
        else:
            for name in how.split():
                proxy.send_signal(getattr(signal, name))
        assert proxy.wait(PATIENCE) == 0, "the program itself would sleep for ten minutes"
        assert proxy.stderr is not None
        assert proxy.stderr.read() == b""
    assert all(ends(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_limits_at_the_end_fit_into_two_seconds() -> None:
    """Every wait at the end has one of these bounds, and clients kill after two seconds."""
    an_agent_that_will_not_leave = 3 * GRACE
    assert DRAIN + an_agent_that_will_not_leave + LAST_WORDS < 2
    assert max(CLOSE_LIMIT, an_agent_that_will_not_leave) < 2, "apps and agents end side by side"


def test_client_that_disconnects_during_a_question_leaves_no_process() -> None:
    with spawned("--app", "demo", "--", *AGENT, separated=False) as proxy:
        begin(proxy)
        request = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}
        prompt(
            proxy,
            [
                {
                    "call": "abp_call",
                    "arguments": {"capability": "demo.ask", "params": {"request": request}},
                }
            ],
        )
        until(proxy, "session/request_permission")
        children = Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()
        assert len(children) == 4, "the agent and the app, and a guardian of each"
        _, stderr = proxy.communicate(timeout=PATIENCE)
        assert (proxy.returncode, stderr) == (0, b"")
        assert all(ends(int(pid)) for pid in children)


# An agent that asks twice in a turn, and writes down what it is answered.
ASKING = """
import json
import sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            say(id=message["id"], result={"protocolVersion": 1})
        case "session/new":
            say(id=message["id"], result={"sessionId": "s1"})
        case "session/prompt":
            for id in ("q1", "q2"):
                say(id=id, method="elicitation/create", params=json.loads(sys.argv[2]))
        case None:
            with open(sys.argv[1], "a") as file:
                file.write(line)
"""


@pytest.mark.parametrize("how", ["stdin", "SIGTERM"])
def test_client_that_disconnects_cancels_the_agents_questions(how: str, tmp_path: Path) -> None:
    params = json.dumps({"sessionId": "s1", **CONFIRM["elicit"]})
    answers = tmp_path / "answers"
    with spawned(sys.executable, "-c", ASKING, str(answers), params) as proxy:
        begin(proxy)
        prompt(proxy, [])
        for _ in range(2):
            until(proxy, "session/request_permission")
        if how == "stdin":
            assert proxy.stdin is not None
            proxy.stdin.close()
        else:
            proxy.send_signal(getattr(signal, how))
        assert proxy.wait(PATIENCE) == 0
    said = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [(each["id"], each["result"]["action"]) for each in said] == [
        ("q1", "cancel"),
        ("q2", "cancel"),
    ]


def test_stderr_of_the_agent_is_passed_on_and_never_blocks_it() -> None:
    with spawned(*AGENT) as proxy:
        begin(proxy)
        prompt(proxy, [{"murmur": 10}, {"murmur": 5_000_000}, {"say": "done"}])
        until(
            proxy, "session/update", lambda params: params["update"]["content"]["text"] == '"done"'
        )
        lost = re.compile(rb"abp-bridge: \d+ bytes of the agent's stderr were not read in time\n")
        assert proxy.stderr is not None
        stderr = b""
        while lost.search(stderr) is None:
            line = proxy.stderr.readline()
            assert line, "its last words were others"
            stderr += line
        assert stderr.startswith(b"m" * 10 + b"\n" + b"m" * 50_000)


def ends(pid: int) -> bool:
    """Whether the process is over, or soon will be: who was killed may need a moment to go."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], PATIENCE)[0])
    finally:
        os.close(process)


def prompt(proxy: subprocess.Popen[bytes], steps: Json) -> None:
    params = {"sessionId": "s1", "prompt": [{"type": "text", "text": json.dumps(steps)}]}
    write(proxy, {"id": time.monotonic_ns(), "method": "session/prompt", "params": params})


def until(proxy: subprocess.Popen[bytes], method: str, wanted: Any = lambda params: True) -> Json:
    """The next message from the proxy with this method."""
    assert proxy.stdout is not None
    for line in proxy.stdout:
        message = json.loads(line)
        if message.get("method") == method and wanted(message["params"]):
            return message
    raise AssertionError(f"no {method} came")
