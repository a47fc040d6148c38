"""`abp-bridge acp`: between an editor and its agent.

Real processes on both sides; the editor is raw, the agent plays what its prompts say.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.acp_harness import (
    CANCELLED,
    FORM,
    Client,
    Failed,
    NoPage,
    accepting,
    check_params,
    client,
    labels,
    never,
    pressing,
    selected,
)
from support.harness import PATIENCE, environment
from support.paths import APPS

from abp_bridge.hosts.acp.client_surfaces import ClientSurfaces
from abp_bridge.hosts.mcp.session import McpSession
from abp_bridge.interfaces.host import SessionApi
from abp_bridge.proxies.acp import byte_edit, mcp_endpoint, relay
from abp_bridge.proxies.acp.client_session import ClientSession
from abp_bridge.proxies.acp.mcp_endpoint import LONGEST_TOKEN, MAX_UNAUTHENTICATED
from abp_bridge.proxies.acp.multiplex import MAX_UNREAD, InjectedConnection, SharedWriter
from abp_bridge.rpc.protocol import JsonRpcProtocol
from abp_bridge.rpc.streams import accept

Json = Any


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


ACP = (sys.executable, "-m", "abp_bridge", "acp")
AGENT = (sys.executable, str(APPS / "acp_agent.py"))
SHOWN = 57


# --- what passes ----------------------------------------------------------------------------------

ODD_LINES = [
    b"this is no JSON\n",
    b"\n",
    b" \t \r\n",
    b'[{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}]\n',
    b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"id":8,"method":"session/cancel","params":{"a":1,"a":2}}\n',
    (
        b'{ "jsonrpc" : "2.0" , "id" : 12345678901234567890123 , "method" : "session/prompt" ,'
        b' "params" : { "n" : 1.0e+05 , "m" : 1e999 } }\r\n'
    ),
    b'{"jsonrpc":"2.0","method":"session\\/cancel","params":{"sessionId":"\\u0061\\ud800"}}\n',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n',
    b'{"jsonrpc":"2.0","id":"abp-1","result":{"outcome":{"outcome":"cancelled"}}}\n',
    b'{"jsonrpc":"2.0","id":"1","error":{"code":-32800,"message":"\xff\xfe\x00 no UTF-8"}}\n',
    b'{"method":"initialize"\rand "session/new" broken off\n',
    b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":"' + b"x" * 20_000_000 + b'"}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"result":"elicitation/create"}}\n'
    * 20_000,
    b'{"jsonrpc":"2.0","id":4,"method":"session/prompt" and no line end',
]


def initialize(capabilities: Json = None, version: int = 1) -> bytes:
    params = {
        "protocolVersion": version,
        "clientInfo": {"name": "raw", "version": "1"},
        "clientCapabilities": capabilities or {},
    }
    return (
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
        + b"\n"
    )


@pytest.mark.parametrize(
    "arguments", [[], ["--app", "demo"]], ids=["nothing to look for", "looking"]
)
def test_every_line_passes_byte_for_byte(arguments: list[str], tmp_path: Path) -> None:
    heard, says = tmp_path / "heard", tmp_path / "says"
    told = b"".join(reversed(ODD_LINES[:-1])) + ODD_LINES[-1]
    says.write_bytes(told)
    asked = initialize(FORM) + b"".join(ODD_LINES)
    run = subprocess.run(
        [*ACP, *arguments, "--", sys.executable, APPS / "parrot.py", heard, says],
        input=asked,
        capture_output=True,
        env=environment(),
        timeout=PATIENCE * 2,
        check=False,
    )
    assert heard.read_bytes() == asked
    assert run.stdout == told
    assert (run.returncode, run.stderr) == (0, b"")


def test_who_does_not_read_holds_up_who_writes() -> None:
    with spawned(
        sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(600)"
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdout.readline()
        os.set_blocking(proxy.stdin.fileno(), False)
        written = 0
        while select.select([], [proxy.stdin], [], 1)[1]:
            written += os.write(proxy.stdin.fileno(), initialize(FORM) * 20)
        assert 64 * 1024 < written < 2**20


def test_a_line_of_any_length_passes_in_bounded_memory() -> None:
    cutter = byte_edit.Cutter(longest=10)
    blocks = [
        *cutter.cut(b"short\nlong "),
        *cutter.cut(b"long long"),
        *cutter.cut(b" and longer"),
        *cutter.cut(b" end\nnext\nla"),
    ]
    assert blocks == [
        (b"short\n", True),
        (b"long long long", False),
        (b" and longer", False),
        (b" end\n", False),
        (b"next\n", True),
    ]
    assert cutter.rest() == b"la"


@given(st.lists(st.binary(min_size=1, max_size=12).map(lambda data: data.replace(b"x", b"\n"))))
def test_however_a_stream_comes_its_lines_are_the_same(chunks: list[bytes]) -> None:
    cutter = byte_edit.Cutter(longest=10)
    blocks = [block for chunk in chunks for block in cutter.cut(chunk)]
    rest = cutter.rest()
    assert b"".join(block for block, _ in blocks) + rest == b"".join(chunks)
    for block, whole in blocks:
        assert block
        assert block.endswith(b"\n") or not whole
    assert b"\n" not in rest
    assert len(rest) <= 10


@pytest.mark.anyio
async def test_two_writers_never_mix_their_lines() -> None:
    """The sink takes a few bytes at a time, and only one of them may wait for it; whoever began a
    line ends it.
    """
    outlet = SharedWriter(sink := Narrow())
    ours = InjectedConnection(JsonRpcProtocol(), outlet, on_message=lambda message: None)

    async def theirs() -> None:
        for number in range(200):
            ours.connection.notify("ours", {"number": number})
            await outlet.forward(b'{"theirs":%d' % number)
            await anyio.lowlevel.checkpoint()
            await outlet.forward(b"}\n")
            await anyio.lowlevel.checkpoint()
        ours.close()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.connection.run)
            tasks.start_soon(theirs)
    written = [json.loads(line) for line in bytes(sink.written).splitlines()]
    assert [line["theirs"] for line in written if "theirs" in line] == list(range(200))
    assert [line["params"]["number"] for line in written if "method" in line] == list(range(200))


@pytest.mark.anyio
async def test_a_line_that_we_give_up_in_the_middle_is_ended_before_the_next() -> None:
    outlet = SharedWriter(sink := Narrow())
    ours = InjectedConnection(JsonRpcProtocol(), outlet, on_message=lambda message: None)
    ours.connection.notify("ours")
    assert len(sink.written) == 3
    ours.connection.close()
    with anyio.fail_after(PATIENCE):
        await outlet.forward(b"{}\n")
        await outlet.forward(b"{}\n")
    assert bytes(sink.written) == b'{"jsonrpc":"2.0","method":"ours"}\n{}\n{}\n'


class Narrow:
    """Takes three bytes, then seven each time it has been waited for; by one at a time."""

    def __init__(self) -> None:
        self.written = bytearray()
        self._room = 3
        self._awaited = False

    def write_nowait(self, data: bytes | memoryview) -> int:
        taken, self._room = min(len(data), self._room), max(0, self._room - len(data))
        self.written += data[:taken]
        return taken

    async def writable(self) -> None:
        assert not self._awaited
        self._awaited = True
        await anyio.lowlevel.checkpoint()
        self._awaited = False
        self._room = 7

    def close(self) -> None: ...


@pytest.mark.anyio
async def test_who_takes_messages_aside_waits_until_few_are_left_to_read() -> None:
    aside = InjectedConnection(
        JsonRpcProtocol(), SharedWriter(Narrow()), on_message=lambda message: None
    )
    taken: list[int] = []

    async def take() -> None:
        for number in range(4):
            await aside.feed({"method": "x", "params": {"pad": "y" * (MAX_UNREAD // 2)}})
            taken.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        assert taken == [0]
        for count in (2, 3):
            await aside.receive()
            await anyio.wait_all_tasks_blocked()
            assert len(taken) == count
        aside.close()
    assert len(taken) == 4


def test_a_line_that_never_ends_is_not_held() -> None:
    cutter, part = byte_edit.Cutter(), b"x" * 2**20
    passed = sum(len(block) for _ in range(66) for block, _ in cutter.cut(part))
    assert passed > 64 * 2**20


json_objects = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
        ),
    ),
)


# --- what is changed ------------------------------------------------------------------------------

GRAFTS = [
    ('{"params":{}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"a":1}}', '{"params":{"a":1,"c":{"e":{"f":{}}}}}'),
    (
        '{ "params" : { "c" : { } , "n" : 12345678901234567890123 } }',
        '{ "params" : { "c" : { "e":{"f":{}}} , "n" : 12345678901234567890123 } }',
    ),
    ('{"params":{"c":null}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"c":{"e":{}}}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    ('{"params":{"c":{"e":{"url":{}}}}}', '{"params":{"c":{"e":{"url":{},"f":{}}}}}'),
    ('{"params":{"c":{"e":{"f":null}}}}', '{"params":{"c":{"e":{"f":{}}}}}'),
    (
        '{"params":{"c":{"e":1},"c":{"e":{}}},"x":{"c":{}}}',
        '{"params":{"c":{"e":1},"c":{"e":{"f":{}}}},"x":{"c":{}}}',
    ),
    ('{"params":{"c":{"\\u0065":{}}}}', '{"params":{"c":{"\\u0065":{"f":{}}}}}'),
    (
        '\ufeff{"x":"\\"}{","params":{"c":{}}}\r\n',
        '\ufeff{"x":"\\"}{","params":{"c":{"e":{"f":{}}}}}\r\n',
    ),
    ('{"params":[]}', '{"params":[]}'),
    ('{"params":{"c":"none"}}', '{"params":{"c":"none"}}'),
]


@pytest.mark.parametrize(("line", "grafted"), GRAFTS)
def test_a_member_is_put_where_it_belongs_and_nothing_else_changes(line: str, grafted: str) -> None:
    assert byte_edit.put(line.encode(), ("params", "c", "e", "f"), {}) == grafted.encode()


@given(json_objects, st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_a_member_is_put_anywhere(value: Json, path: list[str]) -> None:
    line = json.dumps({"a": {}, **value}, indent=1).encode()
    grafted = json.loads(byte_edit.put(line, path, "new"))
    inner = grafted
    for name in path:
        inner = inner[name] if isinstance(inner, dict) else "nowhere"
    assert inner == "new" or (inner == "nowhere" and grafted == json.loads(line))


ADDITIONS = [
    ('{"params":{"s":[]}}', '{"params":{"s":["new"]}}'),
    ('{"params":{"s":[ ]}}', '{"params":{"s":[ "new"]}}'),
    ('{"params":{"s":[1.0, {"a":1,"a":2}]}}', '{"params":{"s":[1.0, {"a":1,"a":2},"new"]}}'),
    ('{"params":{"cwd":"/"}}', '{"params":{"cwd":"/","s":["new"]}}'),
    ('{"params":{"s":null}}', '{"params":{"s":["new"]}}'),
    ('{"params":{"s":{}}}', '{"params":{"s":{}}}'),
]


@pytest.mark.parametrize(("line", "added"), ADDITIONS)
def test_an_item_is_added_at_the_end_of_a_list(line: str, added: str) -> None:
    assert byte_edit.add(line.encode(), ("params", "s"), "new") == added.encode()


@pytest.mark.anyio
async def test_an_editor_without_forms_is_announced_with_forms_and_nothing_else_changes() -> None:
    async with proxied() as editor:
        meta = (await editor.initialize({"fs": {"readTextFile": True}}))["_meta"]
        sent = json.dumps(editor.wire.received()[0])
        assert (
            meta["line"]
            == sent.replace(
                '{"readTextFile": true}}', '{"readTextFile": true},"elicitation":{"form":{}}}'
            )
            + "\n"
        )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("capabilities", "version"), [(FORM, 1), ({}, 2)], ids=["it has forms", "another version"]
)
async def test_other_editors_are_announced_as_they_are(capabilities: Json, version: int) -> None:
    async with proxied() as editor:
        meta = (await editor.initialize(capabilities, version=version))["_meta"]
        assert meta["line"] == json.dumps(editor.wire.received()[0]) + "\n"


@pytest.mark.anyio
async def test_without_an_app_a_session_passes_as_it_is() -> None:
    async with proxied() as editor:
        await editor.initialize()
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": []})
        assert result["_meta"]["line"] == json.dumps(editor.wire.received()[-1]) + "\n"


@pytest.mark.anyio
async def test_with_an_app_a_session_has_one_server_more() -> None:
    theirs = {"name": "abp", "command": "theirs", "args": [], "env": []}
    async with proxied("--app", "demo") as editor:
        await editor.initialize()
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": [theirs]})
        line = result["_meta"]["line"]
        *others, ours = json.loads(line)["params"]["mcpServers"]
        assert others == [theirs]
        check_params("session/new", {"cwd": "/", "mcpServers": [ours]})
        assert ours["name"] == "abp-2"
        assert (
            line
            == json.dumps(editor.wire.received()[-1]).replace("}]}}", "}," + compact(ours) + "]}}")
            + "\n"
        )
        folder = Path(ours["args"][-1]).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert ours["env"][0]["value"] not in str(ours["args"])
    assert not folder.exists()


@pytest.mark.anyio
async def test_another_version_of_the_protocol_is_left_alone() -> None:
    async with proxied("--app", "demo") as editor:
        await editor.initialize(version=2)
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": []})
        assert "relay" not in result["_meta"]["line"]


# --- what the apps ask ----------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("app", ["demo", "demo:page"], ids=["on a pipe", "page in Chromium"])
async def test_an_apps_question_is_a_form_in_an_editor_that_has_forms(app: str) -> None:
    async with proxied("--app", app, handler=accepting(selected="5E")) as editor:
        session = await opened(editor, FORM)
        response = await ask(
            editor,
            session,
            "elicitation/select",
            prompt="Which seat?",
            options=["1A", "2B", "3C", "4D", "5E", "6F"],
        )
        assert response["data"] == {"selected": "5E"}
        assert response["metadata"]["route"] == "acp-form"
        (form,) = editor.wire.sent("elicitation/create")
        (call,) = editor.wire.updates("tool_call")
        assert (form["sessionId"], form["toolCallId"]) == (session, call["toolCallId"])
        (after,) = editor.wire.updates("tool_call_update")
        assert (after["toolCallId"], after["status"]) == (call["toolCallId"], "completed")


@pytest.mark.anyio
@pytest.mark.parametrize("app", ["demo", "demo:page"], ids=["on a pipe", "page in Chromium"])
async def test_an_apps_question_is_buttons_in_an_editor_that_has_none(app: str) -> None:
    options = [f"Seat {number}" for number in range(SHOWN)]
    async with proxied("--app", app, handler=pressing("Seat 56")) as editor:
        session = await opened(editor)
        response = await ask(
            editor, session, "elicitation/select", prompt="Which seat?", options=options
        )
        assert response["data"] == {"selected": "Seat 56"}
        shown = editor.wire.sent("session/request_permission")
        assert max(len(each["options"]) for each in shown) <= 4
        assert len({each["toolCall"]["toolCallId"] for each in shown}) == 1


@pytest.mark.anyio
async def test_an_editor_that_refuses_the_form_is_asked_by_buttons() -> None:
    def answer(method: str, params: Json) -> Json:
        return Failed(-32601) if method == "elicitation/create" else pressing("Yes")(method, params)

    async with proxied("--app", "demo", handler=answer) as editor:
        session = await opened(editor, FORM)
        response = await ask(editor, session, "elicitation/confirm", message="Sure?")
        assert response["data"] == {"confirmed": True}


@pytest.mark.anyio
async def test_what_the_apps_tell_goes_to_the_agent() -> None:
    async with proxied("--app", "demo") as editor:
        session = await opened(editor)
        params = {
            "event": "notifications/state/changed",
            "data": {"field": "size", "newValue": "a4"},
        }
        (said,) = await play(
            editor,
            session,
            {"call": "abp_call", "arguments": {"capability": "demo.tell", "params": params}},
        )
        assert "notifications/message" in said["told"]
        assert "notifications/tools/list_changed" in said["told"]
        assert editor.wire.updates("notice") == []


@pytest.mark.anyio
async def test_each_session_has_apps_of_its_own_and_is_asked_itself() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes", "Yes")) as editor:
        first = await opened(editor)
        second = await editor.new()
        for session in (second, first):
            await ask(editor, session, "elicitation/confirm", message="Sure?")
        assert [
            params["sessionId"] for params in editor.wire.sent("session/request_permission")
        ] == [second, first]


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_session_of_before_has_the_apps_too(method: str) -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as editor:
        await editor.initialize()
        result = await editor.request(
            method, {"sessionId": "of-before", "cwd": "/", "mcpServers": []}
        )
        session = result.get("sessionId", "of-before")
        assert (await ask(editor, session, "elicitation/confirm", message="Sure?"))["data"] == {
            "confirmed": True
        }
        assert [
            params["sessionId"] for params in editor.wire.sent("session/request_permission")
        ] == [session]


@pytest.mark.anyio
async def test_a_policy_cannot_confirm_what_is_destructive() -> None:
    async with proxied(
        "--app", "demo", handler=pressing("Delete"), env={"ABP_PERSON_FLOOR": "60000"}
    ) as editor:
        session = await opened(editor)
        response = await ask(
            editor, session, "elicitation/confirm", message="Delete all?", destructive=True
        )
        assert (response["success"], response["metadata"]["answeredBy"]) == (False, "host-policy")


WHO_ENDED = {
    "the agent": ("_go", ("withdrawn", "the agent ended the turn")),
    "the user": ("session/cancel", ("cancelled", "the user cancelled the turn")),
}


@pytest.mark.anyio
@pytest.mark.parametrize("who", WHO_ENDED)
async def test_nobody_is_said_to_have_answered_what_ended_with_its_turn(who: str) -> None:
    """However fast it ended: the person floor is a minute."""
    method, expected = WHO_ENDED[who]
    async with proxied("--app", "demo", env={"ABP_PERSON_FLOOR": "60000"}) as editor:
        session = await opened(editor)
        arguments = {
            "capability": "demo.ask",
            "params": {
                "request": {"method": "elicitation/confirm", "params": {"message": "Sure?"}}
            },
        }
        prompt = await editor.start(
            session,
            json.dumps(
                [{"call": "abp_call", "arguments": arguments, "and": "leave"}, {"wait": True}]
            ),
        )
        await editor.asked("session/request_permission")
        await editor.notify(method, {"sessionId": session})
        await editor.response(prompt)
        (said,) = await play(editor, session, {"call": "abp_status"})
        (ended,) = json.loads(said["text"])["questions"]["ended"]
        assert (ended["outcome"], ended["reason"], ended["answeredBy"]) == (*expected, "nobody")


@pytest.mark.anyio
async def test_a_question_does_not_outlive_its_prompt() -> None:
    """It is taken down before the editor hears that the prompt has ended, and what the app asks
    then is not shown.
    """
    async with proxied("--app", "demo") as editor:
        session = await opened(editor)
        questions = [
            {"method": "elicitation/confirm", "params": {"message": message}}
            for message in ("Still there?", "And now?")
        ]
        first, second = (
            {
                "call": "abp_call",
                "arguments": {"capability": "demo.ask", "params": {"request": each}},
            }
            for each in questions
        )
        prompt = await editor.start(
            session,
            json.dumps([{**first, "and": "leave"}, {**second, "and": "leave"}, {"wait": True}]),
        )
        asked = {
            (await editor.asked("session/request_permission", count))["id"] for count in (1, 2)
        }
        await editor.notify("_go", {"sessionId": session})
        ended = await editor.response(prompt)
        assert {params["requestId"] for params in editor.wire.sent("$/cancel_request")} == asked
        assert editor.wire.sent()[-1] == ended
        assert [update["status"] for update in editor.wire.updates("tool_call_update")] == [
            "failed",
            "failed",
        ]


@pytest.mark.anyio
async def test_outside_of_a_prompt_nobody_is_asked() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as editor:
        session, busy = await opened(editor), await editor.new()
        await editor.start(busy, json.dumps([{"wait": True}]))
        request = {"method": "elicitation/confirm", "params": {"message": "Anybody?"}}
        arguments = {"capability": "demo.ask", "params": {"request": request}}
        step = {"call": "abp_call", "arguments": arguments, "of": session}
        (said,) = await play(editor, await editor.new(), step)
        assert json.loads(said["text"])["error"]["code"] == "NOT_SUPPORTED"
        assert "no prompt is running" in json.loads(said["text"])["error"]["message"]
        assert editor.wire.sent("session/request_permission") == []
        await editor.notify("session/cancel", {"sessionId": busy})


# --- what the agent asks --------------------------------------------------------------------------


def form(message: str = "Well?", required: list[str] | None = None, **properties: Json) -> Json:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return {"elicit": {"mode": "form", "message": message, "requestedSchema": schema}}


CONFIRM = form(ok={"type": "boolean"})
COLOURS = ["red", "green", "blue", "black", "white", "grey"]
TAGS = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1}

FORMS = [
    ("confirm", form(ok={"type": "boolean"}), ["No"], {"ok": False}),
    ("select", form(colour={"type": "string", "enum": COLOURS}), ["white"], {"colour": "white"}),
    (
        "titled",
        form(
            seat={
                "type": "string",
                "oneOf": [{"const": "w", "title": "Window"}, {"const": "a", "title": "Aisle"}],
            }
        ),
        ["Aisle"],
        {"seat": "a"},
    ),
    ("several", form(tags=TAGS), ["☐ a", "☐ c", "Done (2 chosen)"], {"tags": ["a", "c"]}),
    (
        "fields",
        form(ok={"type": "boolean"}, n={"type": "integer", "minimum": 1, "maximum": 3}),
        ["Yes", "3", "Send"],
        {"ok": True, "n": 3},
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "buttons", "content"),
    [each[1:] for each in FORMS],
    ids=[each[0] for each in FORMS],
)
async def test_an_agents_form_is_asked_by_buttons(
    question: Json, buttons: list[str], content: Json
) -> None:
    async with proxied(handler=pressing(*buttons)) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, question)
        assert (said["action"], said["content"]) == ("accept", content)
        assert said["_meta"]["abp"]["answeredBy"] == "person"
        shown = editor.wire.sent("session/request_permission")
        assert all(
            len(step["options"]) <= 4 and step["toolCall"]["title"].startswith("fake asks: Well?")
            for step in shown
        )
        assert editor.wire.sent("elicitation/create") == []


@pytest.mark.anyio
async def test_a_form_that_belongs_to_a_prompt_is_asked_in_its_session() -> None:
    async with proxied(handler=pressing("Yes")) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, {**CONFIRM, "of": "prompt"})
        assert said["content"] == {"ok": True}
        assert editor.wire.sent("session/request_permission")[0]["sessionId"] == session


@pytest.mark.anyio
async def test_an_editor_that_shows_no_labels_is_asked_yes_or_no() -> None:
    def allow_green(method: str, params: Json) -> Json:
        return selected(
            params["options"][0 if "green" in params["toolCall"]["title"] else 1]["optionId"]
        )

    async with proxied(handler=allow_green) as editor:
        session = await opened(editor, name="acpx")
        (said,) = await play(editor, session, form(colour={"type": "string", "enum": COLOURS}))
        assert said["content"] == {"colour": "green"}
        assert all(
            labels(step) == ["Yes", "No"] for step in editor.wire.sent("session/request_permission")
        )


@pytest.mark.anyio
async def test_what_nobody_chose_is_no_choice_for_an_agent() -> None:
    async with proxied(handler=pressing("Yes"), env={"ABP_PERSON_FLOOR": "60000"}) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, CONFIRM)
        assert (said["action"], said.get("content"), said["_meta"]["abp"]["answeredBy"]) == (
            "cancel",
            None,
            "host-policy",
        )
        assert "no person was asked" in said["_meta"]["abp"]["reason"]


@pytest.mark.anyio
async def test_an_agents_question_that_nobody_answers_ends() -> None:
    async with proxied(env={"ABP_QUESTION_TIMEOUT": "1"}) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, CONFIRM)
        assert (said["action"], said["_meta"]["abp"]["reason"]) == (
            "cancel",
            "nobody answered within 0.001 s",
        )


@pytest.mark.anyio
async def test_an_agent_has_a_hundred_questions_at_once() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, {"burst": CONFIRM["elicit"], "count": 101})
        assert said["error"]["message"] == "100 questions of this agent are open already"
        assert (
            len(editor.wire.sent("session/request_permission"))
            == len(editor.wire.sent("$/cancel_request"))
            == 100
        )
        editor.handler = pressing("Yes")
        (said,) = await play(editor, session, CONFIRM)
        assert said["content"] == {"ok": True}, "those are over"


@pytest.mark.anyio
async def test_an_agent_may_use_an_id_again() -> None:
    line = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "q",
            "method": "elicitation/create",
            "params": {"sessionId": "s1", **CONFIRM["elicit"]},
        }
    )
    async with proxied(handler=pressing("Yes", "No")) as editor:
        session = await opened(editor)
        said = await play(editor, session, *[{"line": line, "id": "q"}] * 2)
        assert [each["result"]["content"] for each in said] == [{"ok": True}, {"ok": False}]


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", [[], ["--app", "demo"]], ids=["no apps", "apps"])
async def test_a_question_before_its_session_mutes_no_later_one(arguments: list[str]) -> None:
    async with proxied(*arguments, handler=pressing("Yes")) as editor:
        await editor.initialize()
        result = await editor.request(
            "session/new", {"cwd": "/", "mcpServers": [], "_meta": {"ask": CONFIRM["elicit"]}}
        )
        early = result["_meta"]["early"]["result"]
        assert (early["action"], "no prompt is running" in early["_meta"]["abp"]["reason"]) == (
            "cancel",
            True,
        )
        (said,) = await play(editor, result["sessionId"], CONFIRM)
        assert said["content"] == {"ok": True}


@pytest.mark.anyio
async def test_a_session_that_is_opened_twice_is_one() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as editor:
        await editor.initialize()
        for _ in range(2):
            await editor.request(
                "session/new", {"cwd": "/", "mcpServers": [], "_meta": {"name": "only"}}
            )
        assert (await ask(editor, "only", "elicitation/confirm", message="Sure?"))["data"] == {
            "confirmed": True
        }


@pytest.mark.anyio
async def test_an_agent_whose_title_cannot_be_seen_is_called_by_its_name() -> None:
    info = '{"title":"\\u200b\\u2060","name":"Ann","version":"1"}'
    result = f'{{"protocolVersion":1,"agentInfo":{info}}}'
    hidden = f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'
    elicit = {"sessionId": "s", **CONFIRM["elicit"]}
    asks = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": elicit})
    agent = (
        "import sys\n"
        f"for line in ({hidden!r}, {asks!r}): input(), print(line, flush=True)\n"
        "sys.stdin.read()"
    )
    async with client("--", sys.executable, "-c", agent, command=ACP) as editor:
        await editor.initialize()
        await editor.start("s", "")
        asked = await editor.asked("session/request_permission")
        assert asked["params"]["toolCall"]["title"].startswith("Ann asks")
        await editor.send({"id": asked["id"], "result": CANCELLED})


REFUSED = [
    ("free text", form(name={"type": "string"}), "free text"),
    (
        "an address",
        {
            "elicit": {
                "mode": "url",
                "message": "Sign in",
                "url": "https://example.test/",
                "elicitationId": "e",
            }
        },
        "no addresses",
    ),
    (
        "another session",
        {"elicit": {**form(ok={"type": "boolean"})["elicit"], "sessionId": "elsewhere"}},
        "no prompt is running",
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "reason"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
async def test_what_buttons_cannot_ask_is_cancelled_and_says_why(
    question: Json, reason: str
) -> None:
    async with proxied() as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, question)
        assert said["action"] == "cancel"
        assert "content" not in said
        assert reason in said["_meta"]["abp"]["reason"]
        assert editor.wire.sent("session/request_permission") == []


@pytest.mark.anyio
async def test_a_form_that_is_none_is_an_error() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, {"elicit": {"mode": "form", "message": 1}})
        assert said["code"] == -32602


@pytest.mark.anyio
async def test_optional_text_beside_a_choice_stays_empty_and_both_are_told() -> None:
    other = {"type": "string", "title": "Other"}
    async with proxied(handler=pressing("red")) as editor:
        session = await opened(editor)
        (said,) = await play(
            editor,
            session,
            form(required=[], colour={"type": "string", "enum": COLOURS}, other=other),
        )
        assert said["content"] == {"colour": "red"}
        assert said["_meta"]["abp"]["notAsked"] == ["other"]
        (step,) = editor.wire.sent("session/request_permission")
        assert "What stays empty: Other" in step["toolCall"]["content"][0]["content"]["text"]
        assert step["toolCall"]["title"] == "fake asks: Well? colour"


@pytest.mark.anyio
async def test_an_editor_that_shows_addresses_gets_the_agents_own() -> None:
    def open_it(method: str, params: Json) -> Json:
        return {"action": "decline"}

    async with proxied(handler=open_it) as editor:
        session = await opened(editor, {"elicitation": {"url": {}}})
        (said,) = await play(editor, session, REFUSED[1][1])
        assert said == {"action": "decline"}


@pytest.mark.anyio
async def test_an_editor_with_forms_gets_the_agents_own() -> None:
    async with proxied("--app", "demo", handler=accepting(name="Ann")) as editor:
        session = await opened(editor, FORM)
        (said,) = await play(editor, session, form(name={"type": "string"}))
        assert said == {"action": "accept", "content": {"name": "Ann"}}


@pytest.mark.anyio
async def test_a_question_that_the_agent_takes_back_is_taken_down() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, {"withdraw": form(ok={"type": "boolean"})["elicit"]})
        assert said["code"] == -32800
        asked = [
            message["id"]
            for message in editor.wire.sent()
            if message.get("method") == "session/request_permission"
        ]
        assert [params["requestId"] for params in editor.wire.sent("$/cancel_request")] == asked


# --- odd answers ----------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (selected("made up"), "made up"),
        ({"outcome": {"outcome": "postponed"}}, "postponed"),
        ({}, "None"),
        (CANCELLED, "dismissed"),
        (Failed(-32603, "out of order"), "out of order"),
        (Failed(-32800, "taken down"), "dismissed"),
    ],
)
async def test_an_odd_answer_is_a_cancel(answer: Json, reason: str) -> None:
    async with proxied(handler=lambda method, params: answer) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, CONFIRM)
        assert said["action"] == "cancel"
        assert reason in said["_meta"]["abp"]["reason"]


QUESTION = {"sessionId": "s1", **CONFIRM["elicit"]}
PADDED = compact({**QUESTION, "message": "Well?" + "x" * 17_000_000})
ODD_QUESTIONS = {
    "numbers that JSON has not": (
        '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":'
        + compact(QUESTION).replace('"boolean"', '"boolean","maximum":Infinity,"x":NaN,"y":1e999')
        + "}"
    ),
    "no version": '{"id":"q","method":"elicitation/create","params":' + compact(QUESTION) + "}",
    "17 MB, the id last": (
        '{"jsonrpc":"2.0","params":' + PADDED + ',"method":"elicitation/create","id":"q"}'
    ),
    "no session, but a prompt": (
        '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":'
        + compact({**QUESTION, "sessionId": None, "requestId": 3})
        + "}"
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", ODD_QUESTIONS)
async def test_an_odd_question_is_asked_and_answered_by_its_id(case: str) -> None:
    async with proxied(handler=pressing("Yes")) as editor:
        session = await opened(editor)
        (said,) = await play(editor, session, {"line": ODD_QUESTIONS[case], "id": "q"})
        assert said["result"]["content"] == {"ok": True}


@pytest.mark.anyio
async def test_a_question_that_is_too_deep_to_be_ours_passes() -> None:
    deep = compact({**QUESTION, "_meta": {"x": 0}}).replace("0", "[" * 140 + "]" * 140)
    async with proxied(handler=lambda method, params: Failed(-32601, method)) as editor:
        session = await opened(editor)
        line = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":' + deep + "}"
        (said,) = await play(editor, session, {"line": line, "id": "q"})
        assert said["error"]["message"] == "elicitation/create"


def deep(levels: int) -> Callable[[str, str], bytes]:
    return lambda id, yes: (
        b'{"id":"%b","result":%b%b}\n' % (id.encode(), b"[" * levels, b"]" * levels)
    )


ODD_ANSWERS: dict[str, tuple[Callable[[str, str], bytes], str]] = {
    "no version": (
        lambda id, yes: b'{"id":"%b","result":%b}\n' % (id.encode(), yes.encode()),
        "accept",
    ),
    "NaN beside it": (
        lambda id, yes: (
            b'{"jsonrpc":"2.0","result":{"_meta":NaN,%b,"id":"%b"}\n'
            % (yes[1:].encode(), id.encode())
        ),
        "accept",
    ),
    "nothing said": (lambda id, yes: b'{"jsonrpc":"2.0","id":"%b"}\n' % id.encode(), "cancel"),
    "no UTF-8": (
        lambda id, yes: b'{"jsonrpc":"2.0","id":"%b","result":"\xff\xfe\xfd"}\n' % id.encode(),
        "cancel",
    ),
    **{f"{levels} deep": (deep(levels), "cancel") for levels in (140, 950, 5_000)},
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", ODD_ANSWERS)
async def test_an_answer_to_us_ends_our_question_however_it_is_written(case: str) -> None:
    write, action = ODD_ANSWERS[case]
    async with proxied() as editor:
        session = await opened(editor)
        prompt = await editor.start(session, json.dumps([CONFIRM, {"strays": True}]))
        asked = await editor.asked("session/request_permission")
        await editor.write(
            write(asked["id"], compact(selected(asked["params"]["options"][0]["optionId"])))
        )
        await editor.response(prompt)
        answer, strays = said_in(editor, session)
        assert (answer["action"], strays) == (action, [])


@pytest.mark.anyio
async def test_a_prompt_with_an_escaped_name_is_a_prompt() -> None:
    async with proxied(handler=pressing("Yes")) as editor:
        session = await opened(editor)
        params = {"sessionId": session, "prompt": [{"type": "text", "text": json.dumps([CONFIRM])}]}
        line = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params})
        editor.wire.lines.append(("host", json.loads(line)))
        await editor.write(line.replace("session/", "session\\/").encode() + b"\n")
        await editor.response(9)
        assert said_in(editor, session)[0]["content"] == {"ok": True}


@pytest.mark.anyio
async def test_answers_that_come_late_or_twice_go_no_further() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        prompt = await editor.start(session, json.dumps([CONFIRM]))
        asked = await editor.asked("session/request_permission")
        yes = selected(asked["params"]["options"][0]["optionId"])
        await editor.send({"id": asked["id"], "result": yes})
        await editor.response(prompt)
        await editor.send({"id": asked["id"], "result": yes})
        await editor.send({"id": asked["id"], "error": {"code": -32800, "message": "late"}})
        (strays,) = await play(editor, session, {"strays": True})
        assert strays == []


@pytest.mark.anyio
async def test_an_error_for_nobody_ends_no_question() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        prompt = await editor.start(session, json.dumps([CONFIRM, {"strays": True}]))
        asked = await editor.asked("session/request_permission")
        await editor.send({"id": None, "error": {"code": -32600, "message": "what?"}})
        await editor.send(
            {"id": asked["id"], "result": selected(asked["params"]["options"][0]["optionId"])}
        )
        await editor.response(prompt)
        answer, strays = said_in(editor, session)
        assert answer["content"] == {"ok": True}
        assert [each["error"]["message"] for each in strays] == ["what?"], "it may be the agent's"


@pytest.mark.anyio
async def test_cancelling_the_turn_takes_the_question_down() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        prompt = await editor.start(session, json.dumps([CONFIRM, CONFIRM]))
        asked = await editor.asked("session/request_permission")
        await editor.notify("session/cancel", {"sessionId": session})
        assert (await editor.response(prompt))["result"]["stopReason"] == "cancelled"
        assert [answer["action"] for answer in said_in(editor, session)] == ["cancel", "cancel"]
        assert editor.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        assert len(editor.wire.sent("session/request_permission")) == 1, (
            "nothing is asked in a turn that was cancelled"
        )
        editor.handler = pressing("Yes")
        (said,) = await play(editor, session, CONFIRM)
        assert said["content"] == {"ok": True}, "the next turn is another"


@pytest.mark.anyio
async def test_cancelling_the_prompt_takes_its_question_down() -> None:
    async with proxied() as editor:
        session = await opened(editor)
        prompt = await editor.start(session, json.dumps([CONFIRM, CONFIRM]))
        asked = await editor.asked("session/request_permission")
        await editor.notify("$/cancel_request", {"requestId": prompt})
        await editor.response(prompt)
        assert [answer["_meta"]["abp"]["reason"] for answer in said_in(editor, session)] == [
            "the user cancelled the turn"
        ] * 2
        assert editor.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_closed_session_is_asked_nothing_and_lets_nobody_in(method: str) -> None:
    async with proxied("--app", "demo") as editor:
        await editor.initialize()
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": []})
        session = result["sessionId"]
        prompt = await editor.start(session, json.dumps([CONFIRM, {"wait": True}, CONFIRM]))
        asked = await editor.asked("session/request_permission")
        await editor.request(method, {"sessionId": session})
        await editor.until(lambda _: len(said_in(editor, session)) == 1)
        await editor.notify("_go", {"sessionId": session})
        await editor.response(prompt)
        first, _, second = said_in(editor, session)
        assert first["_meta"]["abp"]["reason"] == "the user closed the session"
        assert "no prompt is running" in second["_meta"]["abp"]["reason"]
        assert editor.wire.sent("$/cancel_request") == [{"requestId": asked["id"]}]
        entry = json.loads(result["_meta"]["line"])["params"]["mcpServers"][0]
        relay = await anyio.run_process(
            [entry["command"], *entry["args"]],
            env={each["name"]: each["value"] for each in entry["env"]},
            check=False,
        )
        assert "does not know this session" in relay.stderr.decode()


# --- endings --------------------------------------------------------------------------------------


def test_an_agent_that_dies_takes_its_questions_with_it() -> None:
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


def test_an_agent_that_cannot_be_started_is_said_in_one_line() -> None:
    with spawned("no-such-agent") as proxy:
        _, stderr = proxy.communicate(timeout=PATIENCE)
        assert proxy.returncode == 127
        assert re.fullmatch(
            r"abp-bridge: the agent cannot be started: .*'no-such-agent'.*\n", stderr.decode()
        )


def test_an_agent_that_is_killed_is_an_exit_code_as_in_a_shell() -> None:
    with spawned(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)") as proxy:
        assert proxy.wait(PATIENCE) == 137


def test_an_editor_that_leaves_is_told_what_the_agent_still_says() -> None:
    late = 'import sys; sys.stdin.read(); print(\'{"last":"words"}\')'
    with spawned(sys.executable, "-c", late) as proxy:
        stdout, stderr = proxy.communicate(b"hello\n", timeout=PATIENCE)
        assert (stdout, stderr, proxy.returncode) == (b'{"last":"words"}\n', b"", 0)


def test_an_editor_that_no_longer_reads_ends_it() -> None:
    with spawned(sys.executable, "-c", "while True: print('{}', flush=True)") as proxy:
        assert proxy.stdout is not None
        assert proxy.stderr is not None
        proxy.stdout.readline()
        proxy.stdout.close()
        assert proxy.wait(PATIENCE) == 0
        assert proxy.stderr.read() == b""


def test_an_editor_that_goes_while_its_agent_reads_nothing_ends_it() -> None:
    with spawned(
        sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(600)"
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdout.readline()
        os.set_blocking(proxy.stdin.fileno(), False)
        while select.select([], [proxy.stdin], [], 1)[1]:
            os.write(proxy.stdin.fileno(), initialize(FORM) * 20)
        proxy.stdin.close()
        proxy.stdout.close()
        assert proxy.wait(PATIENCE) == 0


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT SIGINT SIGTERM", "SIGHUP"])
def test_the_end_is_quiet_and_leaves_nobody_behind(how: str, tmp_path: Path) -> None:
    with spawned(sys.executable, str(APPS / "stubborn.py"), str(tmp_path / "pids")) as proxy:
        assert proxy.stdout is not None
        proxy.stdout.readline()
        started = time.monotonic()
        if how == "stdin":
            assert proxy.stdin is not None
            proxy.stdin.close()
        else:
            for name in how.split():
                proxy.send_signal(getattr(signal, name))
        assert proxy.wait(PATIENCE) == 0
        assert time.monotonic() - started < (3 if how == "stdin" else 2)
        assert proxy.stderr is not None
        assert proxy.stderr.read() == b""
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_an_editor_that_leaves_in_the_middle_of_a_question_leaves_nobody_behind() -> None:
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
        assert len(children) == 2, "the agent and the app"
        started = time.monotonic()
        _, stderr = proxy.communicate(timeout=PATIENCE)
        assert (proxy.returncode, stderr) == (0, b"")
        assert time.monotonic() - started < 3
        assert not any(alive(int(pid)) for pid in children)


def test_the_agents_stderr_is_ours_and_never_holds_it_up() -> None:
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


@pytest.mark.anyio
async def test_only_who_has_a_sessions_token_is_let_in() -> None:
    async with proxied("--app", "demo") as editor:
        await editor.initialize()
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": []})
        (entry,) = json.loads(result["_meta"]["line"])["params"]["mcpServers"]
        for env, words in (
            ({}, "cannot be reached"),
            ({"ABP_RELAY_TOKEN": "guessed"}, "does not know this session"),
        ):
            relay = await anyio.run_process(
                [entry["command"], *entry["args"]], env=env, check=False
            )
            assert (relay.returncode, relay.stdout) == (1, b"")
            assert words in relay.stderr.decode()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("capabilities", "answer"),
    [(FORM, accepting(confirmed=True)), (None, pressing("Yes"))],
    ids=["its form passes", "by buttons"],
)
async def test_a_bridge_behind_the_proxy_is_an_agent_like_any(
    capabilities: Json, answer: Any
) -> None:
    """Both number their requests: neither takes the other's answers."""
    request = {"request": {"method": "elicitation/confirm", "params": {"message": "Sure?"}}}
    async with client(
        "--",
        sys.executable,
        "-m",
        "abp_bridge",
        "serve",
        "--app",
        "demo",
        command=ACP,
        handler=answer,
    ) as editor:
        await editor.initialize(capabilities)
        session = await editor.new()
        _, words = await editor.prompt(session, f"/demo_ask {json.dumps(request)}")
        assert '"confirmed": true' in words.lower()


# --- who connects to the apps ---------------------------------------------------------------------


@pytest.mark.anyio
async def test_many_who_do_not_say_who_they_are_keep_nobody_out() -> None:
    async with proxied("--app", "demo", handler=pressing("Yes")) as editor:
        await editor.initialize()
        result = await editor.request("session/new", {"cwd": "/", "mcpServers": []})
        (entry,) = json.loads(result["_meta"]["line"])["params"]["mcpServers"]
        before = descriptors(editor.process.pid)
        with ExitStack() as strangers:
            for _ in range(60):
                strangers.enter_context(knocking(entry["args"][-1]))
            await play(editor, result["sessionId"], *[{"say": "still here"}] * 20)
            assert descriptors(editor.process.pid) <= before + 2 * MAX_UNAUTHENTICATED
        assert (await ask(editor, result["sessionId"], "elicitation/confirm", message="Sure?"))[
            "data"
        ] == {"confirmed": True}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("says", "admission"), [(b"", 0.0), (b"x" * LONGEST_TOKEN, 600.0)], ids=["nothing", "no end"]
)
async def test_who_does_not_say_who_it_is_is_sent_away(
    says: bytes, admission: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "AUTHENTICATION_LIMIT", admission)
    async with inviting() as (address, _, _):
        with knocking(address) as stranger:
            stranger.sendall(says)
            await anyio.wait_readable(stranger)
            assert stranger.recv(1) == b""


@pytest.mark.anyio
async def test_a_connection_for_which_there_is_no_descriptor_leaves_none_behind(
    tmp_path: Path,
) -> None:
    with (
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as stranger,
        ExitStack() as filling,
    ):
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        stranger.connect(str(tmp_path / "s"))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
        try:
            occupy(filling, free_descriptors() - 1)
            with pytest.raises(OSError, match="Too many open files"):
                await accept(listening)
            assert free_descriptors() == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.anyio
async def test_when_an_agent_leaves_its_server_the_apps_are_told() -> None:
    async with inviting() as (address, token, closed):
        with knocking(address) as agent:
            agent.sendall(token.encode() + b"\n")
            await anyio.wait_readable(agent)
            assert agent.recv(1) == relay.WELCOME
            params = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "agent", "version": "1"},
            }
            agent.sendall(
                compact(
                    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
                ).encode()
                + b"\n"
            )
            agent.sendall(
                compact(
                    {
                        "jsonrpc": "2.0",
                        "id": 2,
                        "method": "tools/call",
                        "params": {"name": "abp_status"},
                    }
                ).encode()
                + b"\n"
            )
            heard = b""
            while heard.count(b"\n") < 2:
                await anyio.wait_readable(agent)
                heard += agent.recv(2**16)
        with anyio.fail_after(PATIENCE):
            await closed.wait()


@pytest.mark.anyio
async def test_what_a_killed_proxy_left_is_gone_with_the_next() -> None:
    with tempfile.TemporaryDirectory(prefix="left-") as folder:  # short enough for a socket's name
        await _kill_and_begin_again(Path(folder))


async def _kill_and_begin_again(tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path)}
    (tmp_path / "abp-bridge-results").mkdir()
    with (
        spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as first,
        spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as living,
    ):
        begin(first)
        begin(living)
        first.kill()
        first.wait(PATIENCE)
        assert len(list(tmp_path.glob("abp-*-*"))) == 3
        with spawned("--app", "demo", "--", *AGENT, separated=False, env=env) as second:
            begin(second)
            left = sorted(int(folder.name.split("-")[1]) for folder in tmp_path.glob("abp-[0-9]*"))
            assert left == sorted([living.pid, second.pid])
    assert (tmp_path / "abp-bridge-results").exists()


# --- who they are ---------------------------------------------------------------------------------


@asynccontextmanager
async def proxied(
    *arguments: str, handler: Any = never, env: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """An editor on a proxy with the fake agent behind it."""
    async with client(*arguments, "--", *AGENT, command=ACP, handler=handler, env=env) as editor:
        yield editor


async def opened(editor: Client, capabilities: Json = None, name: str = "raw") -> str:
    await editor.initialize(capabilities, name)
    return await editor.new()


async def play(editor: Client, session: str, *steps: Json) -> list[Json]:
    """One turn: what the agent says came of each step."""
    stopped, _ = await editor.prompt(session, json.dumps(steps))
    assert stopped == "end_turn"
    return said_in(editor, session)[-len(steps) :]


def said_in(editor: Client, session: str) -> list[Json]:
    return [
        json.loads(update["content"]["text"])
        for update in editor.wire.updates("agent_message_chunk", session)
    ]


async def ask(editor: Client, session: str, method: str, **params: Json) -> Json:
    """Have the agent have the demo app ask one thing: the ABP response it got."""
    arguments = {
        "capability": "demo.ask",
        "params": {"request": {"method": method, "params": params}},
    }
    (said,) = await play(editor, session, {"call": "abp_call", "arguments": arguments})
    return json.loads(said["text"])


@asynccontextmanager
async def inviting() -> AsyncIterator[tuple[str, str, anyio.Event]]:
    """An injected server in this process: (its address, the token of its only session, what is set
    when its bridge is closed).
    """
    closed = anyio.Event()

    class Quiet:
        """A desk without apps."""

        def status(self) -> Json:
            return {}

        async def close(self, reason: str) -> None:
            closed.set()

    server = mcp_endpoint.McpEndpoint(
        lambda host, tasks: cast(SessionApi, Quiet()),
        lambda connection, begin: McpSession(connection, begin, NoPage(), park=1),
        modern=True,
    )
    connection = InjectedConnection(
        JsonRpcProtocol(), SharedWriter(Narrow()), on_message=lambda message: None
    ).connection
    session = ClientSession(ClientSurfaces(connection, {}, "s1", NoPage()))
    entry: Json = server.server_entry(session, [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        with anyio.fail_after(PATIENCE):
            yield entry["args"][-1], entry["env"][0]["value"], closed
        tasks.cancel_scope.cancel()


def knocking(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def free_descriptors() -> int:
    """How many more this process can open."""
    with ExitStack() as opened:
        return occupy(opened, 10_000)


def occupy(opened: ExitStack, count: int) -> int:
    """Open so many descriptors, or as many as there are: how many that was."""
    for number in range(count):
        try:
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return number
    return count


@contextmanager
def spawned(
    *command: str, separated: bool = True, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A proxy on plain pipes, ended whatever happens."""
    arguments = ["--", *command] if separated else command
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*ACP, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment(**(env or {}))
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        with process:
            yield process
            process.kill()
    finally:
        watchdog.cancel()


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def write(proxy: subprocess.Popen[bytes], message: Json) -> None:
    assert proxy.stdin is not None
    proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    proxy.stdin.flush()


def begin(proxy: subprocess.Popen[bytes]) -> None:
    """Initialised, with a session that is called s1."""
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    proxy.stdin.write(initialize())
    write(proxy, {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
    while json.loads(proxy.stdout.readline())["id"] != 1:
        pass


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
