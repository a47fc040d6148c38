"""What a host hears when its server cannot be started, or ends before it has answered: an error for
each open request, which says what happened and what to do. The next request starts it again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.harness import RawHost
from support.mcp_proxy import DESKTOP, FORM, MCP, Proxied
from support.paths import PYTHON

Json = Any

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": RawHost.client}


def ended(answer: Json, *words: str) -> None:
    assert answer["error"]["code"] == -32603
    for each in words:
        assert each in answer["error"]["message"]


def ending(*command: str, first: str = "initialize") -> tuple[Json, int]:
    """What a host gets for its first request, and then the bridge's exit code."""
    with RawHost("--", *command, command=MCP, env=DESKTOP) as host:
        answer = host.request(first, HELLO)
        return answer, host.process.wait(20)


@pytest.mark.parametrize("first", ["initialize", "ping"])
def test_the_first_request_says_that_the_server_cannot_be_started(first: str) -> None:
    answer, code = ending("no-such-server-here", "--token", "hunter2", first=first)
    ended(answer, "cannot be started", "no program 'no-such-server-here'", "configuration")
    assert "hunter2" not in str(answer)
    assert code == 127


def test_server_that_exits_at_initialize_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("input(); raise SystemExit(3)")
    answer, code = ending(sys.executable, str(program))
    ended(answer, f"{PYTHON} server.py", "exit code 3", "its stderr")
    assert code == 3


@pytest.mark.process
def test_server_that_exits_before_the_first_request_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    os.mkfifo(gone)  # only the first server, and not the one that is started again, waits for it
    command = f"import os; p = {str(gone)!r}; os.path.exists(p) and open(p, 'w'); os._exit(4)"
    with RawHost("--", sys.executable, "-c", command, command=MCP, env=DESKTOP) as host:
        gone.read_bytes()
        gone.unlink()
        ended(host.request("initialize", HELLO), "exit code 4")


def test_every_open_request_gets_one_error_when_the_server_ends(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    read = json.loads(line)\n"
        "    if 'initialize' in line and 'id' in read:\n"
        "        answer = {'jsonrpc': '2.0', 'id': read['id'], 'result': {}}\n"
        "        print(json.dumps(answer), flush=True)\n"
        "    if 'crash' in line: sys.exit(7)\n"
    )
    odd = b'{"method":"vendor/slow","params":{"x":{"id":8}},"id":"odd","jsonrpc":"2.0"}\n'
    with RawHost("--", sys.executable, str(program), command=MCP, env=DESKTOP) as host:
        assert "result" in host.initialize()
        calls = [host.begin_call("slow"), host.begin("resources/read", {"uri": "x:y"})]
        host.send("vendor/slow", {}, id="taken back")
        host.send("notifications/cancelled", {"requestId": "taken back"})
        host.write(odd)
        for id in (99, 100):  # the second starts the server again
            host.send("crash", id=id)
            open_calls = [*calls, "odd", 99] if id == 99 else [100]
            answers = [host.read() for _ in open_calls]
            assert sorted(str(each["id"]) for each in answers) == sorted(map(str, open_calls))
            for each in answers:
                ended(each, "exit code 7", "is unknown", "not send it again")
        assert host.end() == 7


def test_approved_call_starts_a_server_that_ended_meanwhile(tmp_path: Path) -> None:
    with Proxied(tmp_path, "--confirm", "all") as host:
        host.initialize(elicitation=FORM)
        call = host.begin_call("say", lines=[])
        question = host.asked()
        host.send("crash", id="crash")
        ended(host.response("crash"), "exit code 7")
        host.reply(question["id"], {"action": "accept", "content": {"confirmed": "Allow"}})
        assert host.text(call) == "said"
        assert len(host.to_server("initialize")) == 2
        assert len(host.to_server("tools/call")) == 1


def test_last_answer_without_a_line_end_is_passed_on(tmp_path: Path) -> None:
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}})
    program = tmp_path / "server.py"
    program.write_text(f"input(); print({said!r}, end='', flush=True)")
    with RawHost("--", sys.executable, str(program), command=MCP, env=DESKTOP) as host:
        host.send("initialize", HELLO, id=1)
        assert host.response(1)["result"] == {}
