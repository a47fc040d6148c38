"""Apps on a pipe: both bindings, the documented example, and apps that misbehave."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.harness import PATIENCE, Hosted, RawHost, accept, hosted, refuse, run, text
from support.paths import APPS, ROOT
from support.puppets import App, puppets, scripted

from abp_bridge.apps import abp

Json = Any


def program(path: Path | str) -> str:
    return f"stdio:{shlex.join([sys.executable, str(path)])}"


@pytest.mark.process
async def test_the_documented_example_works_as_printed(tmp_path: Path) -> None:
    code = re.search(
        r"```python\n(.*?)```", (ROOT / "docs/abp-on-a-pipe.md").read_text(), re.DOTALL
    )
    assert code is not None
    app = tmp_path / "hello.py"
    app.write_text(code[1])
    async with hosted("--app", program(app), answer=accept(value="Ann")) as host:
        assert text(await host.call("greet")) == "Hello, Ann!"
    async with hosted("--app", program(app), answer=refuse("decline")) as host:
        assert text(await host.call("greet")) == "Hello, whoever you are!"
    ended = run("check", program(app), "--call", "greet")
    assert " 0 failed, 0 to look at, " in ended.stdout


@asynccontextmanager
async def odd_call(folder: Path, said: list[str]) -> AsyncIterator[tuple[Hosted, App, Json]]:
    """A call of an app that refuses `capabilities/list`; its result is added to `said`."""
    async with (
        puppets(folder) as started,
        hosted("--app", started.target) as host,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            said.append(text(await host.call("odd.work")))

        tasks.start_soon(call)
        app = await started.app()
        opened = await app.next("initialize")
        await app.send(id=opened["id"], result={"app": {"id": "odd"}, "capabilities": ["odd.work"]})
        listing = await app.next("capabilities/list")
        await app.send(id=listing["id"], error={"code": -32601, "message": "no such thing"})
        yield host, app, (await app.next("capabilities/call"))["id"]


@pytest.mark.slow
async def test_misbehaving_app_gets_errors_and_stays_connected(tmp_path: Path) -> None:
    said: list[str] = []
    async with odd_call(tmp_path, said) as (host, app, call):
        await app.write(b"Listening on port 3000\n")
        await app.send(id="nobody-asked", result={})
        await app.send(id="x", method="files/read", params={"path": "/etc/passwd"})
        await app.send(id="y", method="elicitation/select", params={"prompt": "Which?"})
        garbage, unknown, refused = [await app.next() for _ in range(3)]
        await app.send(id=call, result={"success": True, "data": "talked"})
    assert said == ["talked"]
    assert garbage["error"]["code"] == -32700
    assert (unknown["id"], unknown["error"]["code"]) == ("x", -32601)
    assert (
        refused["result"]["error"]["message"]
        == "elicitation/select needs a list of at least one option"
    )
    (log,) = host.wire.sent("notifications/message")
    assert log["data"]["data"]["message"].startswith("a line of the app's was dropped: Parse error")


@pytest.mark.slow
async def test_line_that_is_too_long_is_dropped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abp, "MAX_LINE", 100_000)
    said: list[str] = []
    async with odd_call(tmp_path, said) as (host, app, call):
        await app.write(b"x" * 2**20 + b"\n")
        await app.send(id=call, result={"success": True, "data": "after the long line"})
    assert said == ["after the long line"]
    (log,) = host.wire.sent("notifications/message")
    assert "longer than 100000 bytes" in log["data"]["data"]["message"]


async def test_one_broken_app_does_not_take_the_others_down() -> None:
    async with hosted("--app", "stdio:there-is-no-such-program", "--app", "demo") as host:
        connected = text(await host.client.call_tool("abp_connect", {}))
        assert "Connected demo" in connected
        assert "Could not connect stdio:there-is-no-such-program: " in connected
        assert text(await host.call("demo.echo", value="fine")) == "fine"


async def test_secret_in_an_app_command_is_not_shown() -> None:
    app = f"{program(APPS / 'envelope.py')} --token=hunter2"
    missing = "http://user:hunter2@127.0.0.1:1/?key=hunter2"
    async with hosted(
        "--app",
        app,
        "--app",
        missing,
        "--app",
        "stdio:no-such-program hunter2",
        answer=accept(selected="tea"),
    ) as host:
        await host.client.call_tool("abp_connect", {})
        await host.call("ask")
        await host.status()
        assert "hunter2" not in json.dumps(host.wire.lines)


async def test_capability_of_two_apps_needs_the_app_name() -> None:
    async with hosted(
        "--app", "demo", "--app", f"stdio:{sys.executable} -P -m abp_bridge.apps.demo"
    ) as host:
        await host.client.call_tool("abp_connect", {})
        both = await host.call("demo.echo", value=1)
        assert (
            text(both)
            == "INVALID_PARAMS: Several apps have demo.echo: name one of demo, demo-2 as app."
        )
        arguments = {"capability": "demo.echo", "params": {"value": 2}, "app": "demo-2"}
        assert text(await host.client.call_tool("abp_call", arguments)) == "2"
        tools = [tool.name for tool in (await host.client.list_tools()).tools]
        assert {"abp_demo_echo", "abp_demo_echo_2"} <= set(tools)


async def test_notification_with_the_greeting_has_the_apps_name() -> None:
    async with hosted("--app", scripted(APPS / "early.json")) as host:
        uri = "abp://early/state/mood"
        await host.client.session.subscribe_resource(uri)
        await host.client.call_tool("abp_connect", {})
        assert host.wire.sent("notifications/resources/updated") == [{"uri": uri}]
        told = [message["method"] for message in host.wire.sent() if "method" in message]
        assert told.index("notifications/tools/list_changed") < told.index(
            "notifications/resources/list_changed"
        )
        assert [
            str(resource.uri) for resource in (await host.client.list_resources()).resources
        ] == [uri]


async def nobody(params: Json) -> None:
    await anyio.sleep_forever()


async def test_question_during_shutdown_is_answered(tmp_path: Path) -> None:
    confirm = {"method": "elicitation/confirm", "params": {"message": "Save before you go?"}}
    last = [{"jsonrpc": "2.0", "id": f"q{each}", **confirm} for each in range(20)]
    async with (
        puppets(tmp_path) as apps,
        hosted("--app", apps.target, answer=nobody) as host,
        anyio.create_task_group() as tasks,
    ):

        async def come_and_go() -> None:
            for tool in ("abp_connect", "abp_disconnect"):
                await host.client.call_tool(tool, {})

        tasks.start_soon(come_and_go)
        app = await apps.app()
        await app.open()
        ended = {"jsonrpc": "2.0", "id": (await app.next("shutdown"))["id"], "result": {}}
        await app.write(b"".join(json.dumps(each).encode() + b"\n" for each in [*last, ended]))
        answers = [await app.next() for _ in last]
    assert {each["id"] for each in answers} == {each["id"] for each in last}
    assert {each["result"]["error"]["code"] for each in answers} == {"CANCELLED"}
    assert {each["result"]["metadata"]["answeredBy"] for each in answers} == {"nobody"}


def test_app_that_exits_without_an_answer_is_disconnected_quietly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with RawHost("--app", scripted(APPS / "early.json")) as host:
        host.initialize()
        for tool in ("abp_connect", "abp_disconnect") * 20:
            assert not host.request("tools/call", {"name": tool})["result"]["isError"]
        assert host.end() == 0
    assert capfd.readouterr().err == ""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
async def test_child_of_an_app_ends_when_the_bridge_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    app = shlex.join([sys.executable, str(APPS / "envelope.py")])
    script = f"sleep 600 & echo $! > {shlex.quote(str(started))}; {app}; true"
    with RawHost("--app", f"stdio:{shlex.join(['sh', '-c', script])}") as host:
        host.initialize()
        host.request("tools/call", {"name": "abp_connect", "arguments": {}})
        grandchild = os.pidfd_open(int(started.read_text()))
        host.process.kill()
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(grandchild)
    os.close(grandchild)


@pytest.mark.process
def test_demo_that_leaves_in_a_call_prints_nothing() -> None:
    call = {"capability": "demo.leave", "params": {}, "options": {"callId": "c"}}
    lines = [
        {"jsonrpc": "2.0", "id": "1", "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": "2", "method": "capabilities/call", "params": call},
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "abp_bridge.apps.demo"],
        input="".join(f"{json.dumps(each)}\n" for each in lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert len(ended.stdout.splitlines()) == 1
