"""MCP 2026-07-28 as a host speaks it: what each request must say, rounds of questions, and calls
that wait for a host to come back.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import MCPError
from support.harness import MODERN, Hosted, RawHost, accept, hosted, text
from support.puppets import App, Puppets, puppets

from abp_bridge.mcp.tool_calls import MAX_ASKED

Json = Any

META = "io.modelcontextprotocol/"
FORM: Json = {"elicitation": {"form": {}}}


def envelope(capabilities: Json = None, **more: Json) -> Json:
    """Params with the `_meta` that each request needs."""
    return {
        "_meta": {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": capabilities or {},
        },
        **more,
    }


def confirms(*messages: str) -> Json:
    """The arguments of a call that asks these at the same time."""
    requests = [
        {"method": "elicitation/confirm", "params": {"message": message}} for message in messages
    ]
    return {"capability": "demo.ask_all", "params": {"requests": requests}}


YES = types.ElicitResult(action="accept", content={"confirmed": True})


@asynccontextmanager
async def modern(*arguments: str, **more: Any) -> AsyncIterator[Hosted]:
    """A host that asks nobody by itself: the test brings the answers."""
    more.setdefault("answer", accept(confirmed=True))
    async with hosted(*(arguments or ("--app", "demo")), version=MODERN, **more) as host:
        yield host


async def call(host: Hosted, arguments: Json, tool: str = "abp_call", **retry: Any) -> Any:
    """One leg: a CallToolResult, or the InputRequiredResult that asks."""
    return await host.client.session.call_tool(tool, arguments, allow_input_required=True, **retry)


async def together(host: Any, arguments: Json) -> Any:
    """The round that asks both: on a busy machine they may come one after the other, and coming
    back shows all that are open.
    """
    asked = await call(host, arguments)
    while len(messages(asked)) < 2:
        asked = await call(host, arguments, request_state=asked.request_state)
    return asked


def messages(asked: Any) -> dict[str, str]:
    """What a round asks, by key."""
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.input_requests is not None
    return {
        key: request.params.message
        for key, request in asked.input_requests.items()
        if isinstance(request, types.ElicitRequest)
    }


def outcomes(result: types.CallToolResult) -> list[str]:
    return [response["metadata"]["outcome"] for response in json.loads(text(result))]


# --- what a host finds ----------------------------------------------------------------------------


async def test_client_that_discovers_first_speaks_stateless_mcp() -> None:
    async with hosted("--app", "demo", answer=accept(confirmed=True), version="auto") as host:
        assert host.client.session.protocol_version == MODERN
        assert (await host.ask("elicitation/confirm", message="Book?"))["data"] == {
            "confirmed": True
        }
        assert host.wire.sent("elicitation/create") == [], "a question is a result, not a request"


@pytest.mark.network
def test_url_question_has_an_unguessable_id() -> None:
    secret = {"method": "elicitation/input", "params": {"schema": {"format": "password"}}}
    asking = {
        "name": "abp_call",
        "arguments": {"capability": "demo.ask", "params": {"request": secret}},
    }
    ids = set()
    with RawHost("--app", "demo") as host:
        for name in (None, "", "copilot", "goose-cli"):
            client = {} if name is None else {f"{META}clientInfo": {"name": name, "version": "1"}}
            params = envelope({"elicitation": {"form": {}, "url": {}}}, **asking)
            params["_meta"] |= client
            result = host.request("tools/call", params)["result"]
            [asked] = result["inputRequests"].values()
            assert asked["params"]["mode"] == "url"
            id = asked["params"]["elicitationId"]
            assert re.fullmatch(r"abp-question-\d+-[0-9a-f]{16}", id)
            ids.add(id.rpartition("-")[2])
    assert len(ids) == 4


def test_both_revisions_are_spoken_on_one_pipe() -> None:
    with RawHost("--app", "demo") as host:
        host.request("server/discover", envelope())
        assert host.initialize(elicitation={})["result"]["protocolVersion"] == "2025-11-25"
        assert "resultType" not in host.request("tools/list")["result"]
        assert host.request("tools/list", envelope())["result"]["resultType"] == "complete"
        assert "resultType" not in host.request("tools/call", {"name": "abp_status"})["result"]


def test_stateless_mcp_can_be_switched_off() -> None:
    with RawHost("--app", "demo", env={"ABP_MCP_MODERN": "false"}) as host:
        assert host.request("server/discover", envelope())["error"]["code"] == -32601
        assert host.initialize()["result"]["protocolVersion"] == "2025-11-25"


OTHER_VERSION: Json = {
    "_meta": {f"{META}protocolVersion": "2099-01-01", f"{META}clientCapabilities": {}}
}
# method, params, code, words of the message
REFUSED: dict[str, tuple[str, Json, int, str]] = {
    "another version": ("tools/list", OTHER_VERSION, -32022, "not spoken here"),
    "a handshake in an envelope": (
        "initialize",
        envelope(),
        -32601,
        "Method not found: initialize",
    ),
    "an unknown resource": (
        "resources/read",
        envelope(uri="abp://nowhere"),
        -32602,
        "There is no resource",
    ),
    "an unknown tool": ("tools/call", envelope(name="fly"), -32602, "Unknown tool"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_stateless_request_gets_an_error(case: str) -> None:
    method, params, code, words = REFUSED[case]
    with RawHost("--app", "demo") as host:
        host.request("server/discover", envelope())
        error = host.request(method, params)["error"]
        assert (error["code"], words in error["message"]) == (code, True), error
        if code == -32022:
            assert error["data"] == {"supported": [MODERN], "requested": "2099-01-01"}
        if method == "resources/read":
            assert error["data"] == {"uri": "abp://nowhere"}
        assert host.request("server/discover", envelope())["result"]["supportedVersions"] == [
            MODERN
        ]


# --- rounds ---------------------------------------------------------------------------------------


async def test_open_questions_are_asked_again_and_unknown_answers_ignored() -> None:
    arguments = confirms("One?", "Two?")
    async with modern() as host:
        first = await together(host, arguments)
        one, two = messages(first)
        again = await call(
            host,
            arguments,
            input_responses={one: YES, "q99": YES},
            request_state=first.request_state,
        )
        assert list(messages(again)) == [two]
        nothing = await call(host, arguments, request_state=again.request_state)
        assert list(messages(nothing)) == [two]
        assert len({first.request_state, again.request_state, nothing.request_state}) == 3
        result = await call(
            host,
            arguments,
            input_responses={two: types.ElicitResult(action="decline")},
            request_state=nothing.request_state,
        )
        assert outcomes(result) == ["accepted", "declined"]


async def test_answer_without_request_state_starts_the_call_anew() -> None:
    """docs/security.md says why."""
    arguments = confirms("One?")
    async with modern() as host:
        for _ in range(2):
            asked = await call(host, arguments, input_responses={"q1": YES})
            assert list(messages(asked)) == ["q1"]


async def test_repeated_answer_changes_nothing() -> None:
    arguments = confirms("One?", "Two?")
    async with modern() as host:
        first = await together(host, arguments)
        one, two = messages(first)
        second = await call(
            host, arguments, input_responses={one: YES}, request_state=first.request_state
        )
        no = types.ElicitResult(action="decline")
        result = await call(
            host, arguments, input_responses={one: no, two: YES}, request_state=first.request_state
        )
        assert outcomes(result) == ["accepted", "accepted"]
        for state in (first.request_state, second.request_state):
            once_more = await call(
                host, arguments, input_responses={one: no, two: no}, request_state=state
            )
            assert text(once_more) == text(result), (
                "the result comes again, and nothing is asked or answered again"
            )
        ended = (await host.status())["questions"]["ended"]
        assert [each["outcome"] for each in ended] == ["accepted", "accepted"]


def changed(state: str) -> str:
    return state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")


@pytest.mark.parametrize(
    ("state", "arguments", "tool", "words"),
    [
        (changed, confirms("One?"), "abp_call", "not made here, or was changed"),
        (str, confirms("Two?"), "abp_call", "another tool, or with other arguments"),
        (str, {}, "abp_status", "another tool, or with other arguments"),
    ],
    ids=["tampered", "other arguments", "another tool"],
)
async def test_wrong_request_state_is_an_error_and_the_call_continues(
    state: Any, arguments: Json, tool: str, words: str
) -> None:
    async with modern() as host:
        asked = await call(host, confirms("One?"))
        with pytest.raises(MCPError, match=words) as refused:
            await call(
                host,
                arguments,
                tool,
                input_responses={"q1": YES},
                request_state=state(asked.request_state),
            )
        assert refused.value.code == -32602
        result = await call(
            host, confirms("One?"), input_responses={"q1": YES}, request_state=asked.request_state
        )
        assert outcomes(result) == ["accepted"]


async def test_eleventh_round_is_reached_by_waiting() -> None:
    """Hosts give a call up after ten rounds, without a word."""
    requests = [
        {"method": "elicitation/confirm", "params": {"message": f"Number {number}?"}}
        for number in range(1, 12)
    ]
    shown: list[str] = []

    def answer(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        shown.append(params.message.rpartition(" asks: ")[2])
        return YES

    async with modern(answer=answer) as host:
        first = await host.call("demo.ask_each", requests=requests)
        assert len(shown) == 10
        assert "waits for an answer" in text(first)
        (connected,) = (await host.status())["apps"].values()
        (running,) = connected["running"]
        result = await host.client.call_tool("abp_wait", {"call": running["call"]})
        assert outcomes(result) == ["accepted"] * 11
    assert shown == [f"Number {number}?" for number in range(1, 12)]


async def test_capabilities_are_those_of_each_request() -> None:
    """The capabilities are those of each request: what it does not declare is not asked."""
    with RawHost("--app", "demo") as host:
        arguments = {
            "name": "abp_call",
            "arguments": {"capability": "demo.ask", "params": {"request": CONFIRM}},
        }
        asked = host.request("tools/call", envelope(FORM, **arguments))["result"]
        assert asked["resultType"] == "input_required"
        without = host.request("tools/call", envelope({"sampling": {}}, **arguments))["result"]
        assert "NOT_SUPPORTED" in without["content"][0]["text"]


CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Book?"}}


@pytest.mark.slow
async def test_call_that_fails_without_a_capability_names_it(tmp_path: Path) -> None:
    async with puppets(tmp_path) as made, hosted("--app", made.target, version=MODERN) as host:

        async def needy() -> None:
            app = await made.app()
            await app.open("work")
            work = await app.next("capabilities/call")
            await app.send(id="q", method="sampling/create", params={"task": "Summarise"})
            while (answer := await app.next()).get("id") != "q":
                pass
            failure = {"code": answer["result"]["error"]["code"], "message": "I need a model"}
            await app.send(id=work["id"], result={"success": False, "error": failure})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(needy)
            with pytest.raises(MCPError, match="I need a model") as refused:
                await call(host, {"capability": "work"})
        assert (refused.value.code, refused.value.error.data) == (
            -32021,
            {"requiredCapabilities": {"sampling": {}}},
        )


async def test_only_what_was_shown_can_be_answered() -> None:
    """Keys can be guessed: a yes to what nobody has seen is nobody's."""
    requests = [
        {"method": "elicitation/confirm", "params": {"message": f"Number {number}?"}}
        for number in range(22)
    ]
    arguments = {"capability": "demo.ask_all", "params": {"requests": requests}}
    async with modern() as host:
        shown: set[str] = set()
        asked = await call(host, arguments)
        while isinstance(asked, types.InputRequiredResult):
            keys = set(messages(asked))
            assert keys.isdisjoint(shown), "what was not shown stayed open, whatever came for it"
            assert len(keys) <= MAX_ASKED
            shown |= keys
            everything = {f"q{number}": YES for number in range(1, 23)}
            asked = await call(
                host, arguments, input_responses=everything, request_state=asked.request_state
            )
        assert len(shown) == 22
        assert outcomes(asked) == ["accepted"] * 22


@pytest.mark.slow
def test_wait_cancelled_in_the_same_read_ends_its_call() -> None:
    """Whoever waits no more for a call that was parked wants it no more."""
    ask = {"capability": "demo.ask", "params": {"request": CONFIRM}}
    with RawHost("--app", "demo", env={"ABP_HOST_PATIENCE": "100"}) as host:
        host.initialize(**FORM)
        parked = host.request("tools/call", {"name": "abp_call", "arguments": ask})
        assert '{"call": "call-1"}' in parked["result"]["content"][0]["text"]
        wait = {"name": "abp_wait", "arguments": {"call": "call-1"}}
        both: Json = (
            {"jsonrpc": "2.0", "id": "wait", "method": "tools/call", "params": wait},
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": "wait"},
            },
        )
        host.write(b"".join(json.dumps(message).encode() + b"\n" for message in both))
        again = host.request("tools/call", wait)
        assert again["result"]["content"][0]["text"].startswith("CANCELLED")


# --- hosts that do not come back ------------------------------------------------------------------


async def asking(made: Puppets) -> tuple[App, Json]:
    """An app that has been called and asks: (it, the call)."""
    app = await made.app()
    await app.open("work")
    work = await app.next("capabilities/call")
    await app.send(id="q", method="elicitation/confirm", params={"message": "Go?"})
    return app, work


@pytest.mark.slow
async def test_host_that_never_returns_times_out_and_ends_the_call(
    tmp_path: Path,
) -> None:
    async with (
        puppets(tmp_path) as made,
        modern("--app", made.target, env={"ABP_PARK_TIMEOUT": "200"}) as host,
        anyio.create_task_group() as tasks,
    ):
        found: list[tuple[App, Json]] = []

        async def act() -> None:
            found.append(await asking(made))

        tasks.start_soon(act)
        asked = await call(host, {"capability": "work"})
        ((app, work),) = found
        answer = await app.next()
        assert (
            answer["id"],
            answer["result"]["error"]["code"],
            answer["result"]["metadata"]["outcome"],
        ) == ("q", "TIMEOUT", "timed_out")
        assert "did not come back within 0.2 s" in answer["result"]["error"]["message"]
        cancelled = await app.next("capabilities/cancel")
        assert cancelled["params"]["callId"] == work["params"]["options"]["callId"]
        with pytest.raises(MCPError, match="too old: its call is over"):
            await call(
                host,
                {"capability": "work"},
                input_responses={"q1": YES},
                request_state=asked.request_state,
            )


@pytest.mark.slow
async def test_cancelled_request_ends_the_call_and_gets_no_response(
    tmp_path: Path,
) -> None:
    async with (
        puppets(tmp_path) as made,
        modern("--app", made.target) as host,
        anyio.create_task_group() as tasks,
    ):
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await call(host, {"capability": "work"})

        tasks.start_soon(run)
        app = await made.app()
        await app.open("work")
        work = await app.next("capabilities/call")
        scope.cancel()
        assert (await app.next("capabilities/cancel"))["params"]["callId"] == work["params"][
            "options"
        ]["callId"]
        (request,) = host.wire.received("tools/call")
        await host.status()
        assert [message for message in host.wire.sent() if message.get("id") == request["id"]] == []


@pytest.mark.network
async def test_question_outside_a_call_is_refused(tmp_path: Path) -> None:
    async with (
        puppets(tmp_path) as made,
        modern("--app", made.target) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(host.client.call_tool, "abp_connect", {})
        app = await made.app()
        await app.open("work")
        await app.send(id="q", method="elicitation/confirm", params={"message": "Anybody?"})
        while (answer := await app.next()).get("id") != "q":
            pass
        assert answer["result"]["error"]["code"] == "NOT_SUPPORTED"
        assert "only while it waits for a tool call" in answer["result"]["error"]["message"]


# --- what a host is told --------------------------------------------------------------------------


@pytest.mark.slow
async def test_progress_uses_the_token_of_the_waiting_request() -> None:
    seen: list[float] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with modern() as host:
        arguments = {"capability": "demo.ask_each", "params": {"requests": [CONFIRM, CONFIRM]}}
        await host.client.call_tool("abp_call", arguments, progress_callback=show)
        tokens = [params["progressToken"] for params in host.wire.sent("notifications/progress")]
        legs = [
            message["params"]["_meta"]["progressToken"]
            for message in host.wire.received("tools/call")
        ]
        assert tokens == legs[1:]
        await host.client.call_tool("abp_call", {"capability": "demo.work"})
        assert len(host.wire.sent("notifications/progress")) == 2, "nobody asked for more"


def test_logs_are_sent_only_for_requests_with_a_log_level() -> None:
    tell = {
        "name": "abp_call",
        "arguments": {
            "capability": "demo.tell",
            "params": {"event": "notifications/mood", "data": {}},
        },
    }
    with RawHost("--app", "demo") as host:
        for level, heard in ((None, 0), ("error", 0), ("info", 1), ("loud", 0)):
            params = envelope(**tell)
            params["_meta"] |= {} if level is None else {f"{META}logLevel": level}
            host.send("tools/call", params, id=f"call {level}")
            before = []
            while (message := host.read()).get("id") != f"call {level}":
                before.append(message["method"])
            assert before.count("notifications/message") == heard, level


async def test_stream_gets_only_what_it_subscribed_to() -> None:
    with RawHost("--app", "demo") as host:
        host.send(
            "subscriptions/listen",
            envelope(notifications={"toolsListChanged": True, "promptsListChanged": True}),
            id="tools",
        )
        uri = "abp://demo/state/mood"
        host.send(
            "subscriptions/listen",
            envelope(notifications={"resourceSubscriptions": [uri], "resourcesListChanged": True}),
            id="mood",
        )
        acknowledged = [host.read()["params"] for _ in range(2)]
        assert acknowledged == [
            {
                "notifications": {"toolsListChanged": True},
                "_meta": {f"{META}subscriptionId": "tools"},
            },
            {
                "notifications": {"resourceSubscriptions": [uri], "resourcesListChanged": True},
                "_meta": {f"{META}subscriptionId": "mood"},
            },
        ]
        told = {
            "event": "notifications/state/changed",
            "data": {"field": "mood", "newValue": "good"},
        }
        host.send(
            "tools/call",
            envelope(name="abp_call", arguments={"capability": "demo.tell", "params": told}),
            id="call",
        )
        heard = []
        while (message := host.read()).get("id") != "call":
            heard.append(
                (
                    message["params"]["_meta"][f"{META}subscriptionId"],
                    message["method"].removeprefix("notifications/"),
                )
            )
        assert heard == [
            ("tools", "tools/list_changed"),
            ("mood", "resources/list_changed"),
            ("mood", "resources/updated"),
        ]
        host.send("notifications/cancelled", {"requestId": "tools"})
        host.send("tools/call", envelope(name="abp_disconnect"), id="gone")
        assert host.read()["id"] == "gone", (
            "a stream that was left hears no more, and gets no response"
        )
        host.send("subscriptions/listen", envelope(notifications={}), id="tools")
        assert host.read()["params"]["_meta"] == {f"{META}subscriptionId": "tools"}


# --- patience, in both eras -----------------------------------------------------------------------


@pytest.mark.slow
async def test_call_over_the_host_limit_can_be_resumed() -> None:
    gate = anyio.Event()

    async def later(params: Any) -> types.ElicitResult:
        await gate.wait()
        return YES

    async with hosted("--app", "demo", answer=later, env={"ABP_HOST_PATIENCE": "500"}) as host:
        await host.client.call_tool("abp_connect", {})
        result = await host.call("demo.ask", request=CONFIRM)
        assert not result.is_error
        assert text(result).startswith(
            "The call call-1 waits for an answer of the person's; nothing is lost."
        )
        assert len((await host.status())["questions"]["open"]) == 1, (
            "the question stays in front of the person"
        )
        gate.set()
        await host.after_it_ended(YES)
        result = await host.client.call_tool("abp_wait", {"call": "call-1"})
        assert json.loads(text(result))["data"] == {"confirmed": True}


@pytest.mark.slow
async def test_host_that_stops_its_clock_waits_for_the_answer() -> None:
    """Codex stops its clock while it shows a question."""

    async def slowly(params: Any) -> types.ElicitResult:
        # Longer than the patience, which the bridge's own time must not be.
        assert "is still running" in text(await host.call("demo.hold"))
        return YES

    info = types.Implementation(name="codex-mcp-client", version="0.169.0")
    async with hosted(
        "--app", "demo", answer=slowly, client_info=info, env={"ABP_HOST_PATIENCE": "1500"}
    ) as host:
        await host.client.call_tool("abp_connect", {})  # the host waits for the app to start, too
        assert (await host.ask("elicitation/confirm", message="Book?"))["data"] == {
            "confirmed": True
        }
