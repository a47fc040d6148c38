"""An MCP server behind the translators between the eras, in all four pairs: what a host gets is
what a server of its own era would have given it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.apps.exotic_server import BIG, FORM, SAMPLING, URL
from support.era_host import ANSWERS, CLIENT, PREFIX, Host
from support.mcp_proxy import MCP

from abp_bridge import VERSION
from abp_bridge.mcp import server_link

Json = Any

TESTS = Path(__file__).parents[2]
STUB = TESTS / "support/apps/exotic_server.py"
ERAS = ("legacy", "modern")
SERVERS = f"[{Path(sys.executable).name} {STUB.name}]"  # before each line of the server's own
PAIRS = [(host, server) for host in ERAS for server in ERAS]
pairs = pytest.mark.parametrize(("era", "upstream"), PAIRS)

PLAIN: list[tuple[str, Json]] = [
    ("tools/list", {}),
    ("tools/list", {"cursor": "p2", "x-own": 1}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "stub://a"}),
    ("resources/read", {"uri": "stub://gone"}),
    ("completion/complete", {"ref": {}, "argument": {}}),
    ("vendor/thing", {"k": BIG, "_meta": {"v/k": 1}}),
    ("vendor/unknown", {}),
    ("tools/call", {"name": "caps", "arguments": {}}),
    ("tools/call", {"name": "gone"}),
]
ASKED = {
    "ask": [FORM],
    "url": [URL],
    "sample": [SAMPLING],
    "roots": [{}],
    "two": [FORM, {**FORM, "message": "Q2"}],
}


# What stands between the host and the server.
NOTHING: tuple[str, ...] = ()
WHOLE = (*MCP, "--")
PUMP = WHOLE
both = pytest.mark.parametrize("between", [WHOLE], ids=["proxy"])


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "REOPEN_PAUSE", 0.01)


@contextmanager
def started(
    tmp_path: Path, era: str, upstream: str, *more: str, between: tuple[str, ...] = PUMP, **env: str
) -> Iterator[Host]:
    log = tmp_path / f"{upstream}-{len(between)}.log"
    command = [*between, sys.executable, str(STUB), upstream, str(log), *more]
    with Host(command, env={"PYTHONPATH": str(TESTS), **env}) as host:
        host.era, host.log = era, log
        yield host


@both
@pairs
def test_host_gets_what_a_server_of_its_own_revision_gives(
    tmp_path: Path, era: str, upstream: str, between: tuple[str, ...]
) -> None:
    with (
        started(tmp_path, era, upstream, between=between) as host,
        started(tmp_path, era, era, between=NOTHING) as direct,
    ):
        hello, own = host.shake_hands(), direct.shake_hands()
        if era != upstream:  # tasks are another thing in each era
            own["result"]["capabilities"].pop("tasks", None)
        assert hello == own
        for method, params in PLAIN:
            assert _unnamed(host.request(method, params)) == direct.request(method, params)


def _unnamed(message: Json) -> Json:
    """Without our own name, which the proxy adds to the host's."""
    return json.loads(json.dumps(message).replace(f" (via abp-bridge {VERSION})", ""))


@pairs
@pytest.mark.slow
def test_host_can_disconnect_quietly(tmp_path: Path, era: str, upstream: str) -> None:
    """Also where a stream is open that tells of changes."""
    with started(tmp_path, era, upstream, between=WHOLE) as host:
        host.shake_hands()
        if era == "modern":
            host.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            host.until(lambda message: str(message.get("method")).endswith("acknowledged"))
        if upstream == "modern":
            host.heard_of(lambda message: message.get("method") == "subscriptions/listen")
            host.request("vendor/thing")  # that is answered after what was heard before it
        assert host.end() == 0


@pairs
@pytest.mark.parametrize(("tool", "method"), [("ask", "elicitation"), ("sample", "sampling")])
@pytest.mark.slow
def test_host_that_disconnects_during_a_question_is_not_logged_as_a_bug(
    tmp_path: Path,
    era: str,
    upstream: str,
    tool: str,
    method: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with started(tmp_path, era, upstream, between=WHOLE) as host:
        host.shake_hands()
        host.begin("tools/call", {"name": tool, "arguments": {}})
        host.until(lambda message: f'"{method}/create' in json.dumps(message))
        assert host.end() == 0
    ours = [line for line in capfd.readouterr().err.splitlines() if not line.startswith(SERVERS)]
    assert "Traceback" not in "\n".join(ours)


@pairs
@pytest.mark.parametrize("tool", ASKED)
@pytest.mark.slow
def test_question_reaches_a_host_of_either_revision(
    tmp_path: Path, era: str, upstream: str, tool: str
) -> None:
    with (
        started(tmp_path, era, upstream) as host,
        started(tmp_path, era, era, between=NOTHING) as own,
    ):
        host.shake_hands()
        own.shake_hands()
        asked: list[Json] = []
        response = host.call(tool, asked)
        assert response["result"] == own.call(tool)["result"]
        seen = [dict(message["params"]) for message in asked]
        for each in seen:
            link = each.pop("elicitationId", None)
            assert (link is not None) == (tool == "url")
        assert seen == ASKED[tool]


@both
@pairs
@pytest.mark.slow
def test_notifications_reach_subscribers(
    tmp_path: Path, era: str, upstream: str, between: tuple[str, ...]
) -> None:
    def told(host: Host) -> list[Json]:
        host.shake_hands()
        meta: Json = {"progressToken": "p7"}
        if era == "modern":
            wanted = {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["stub://a"],
            }
            listening = host.begin("subscriptions/listen", {"notifications": wanted})
            acknowledged = host.notified("notifications/subscriptions/acknowledged")
            assert acknowledged["notifications"] == wanted
            assert acknowledged["_meta"] == {f"{PREFIX}subscriptionId": listening}
            meta[f"{PREFIX}logLevel"] = "info"
        else:
            assert host.result("logging/setLevel", {"level": "info"}) == {}
            assert host.result("resources/subscribe", {"uri": "stub://a"}) == {}
            assert host.result("ping") == {}
        response = host.call("notes", _meta=meta)
        assert response["result"]["structuredContent"] == {"r": "noted"}
        host.request("vendor/thing")
        return sorted((m for m in host._passed if "id" not in m), key=lambda m: m["method"])

    with (
        started(tmp_path, era, upstream) as host,
        started(tmp_path, era, era, between=NOTHING) as own,
    ):
        expected = told(own)
        if upstream == "modern":  # which has no word for it
            gone = "notifications/elicitation/complete"
            expected = [each for each in expected if each["method"] != gone]
        assert [(each["method"], each.get("params", {})) for each in told(host)] == [
            (each["method"], each.get("params", {})) for each in expected
        ]


@pytest.mark.parametrize(
    "link",
    [{}, "x", {**URL, "url": "javascript:alert(1)"}, {"mode": "url", "url": URL["url"]}],
    ids=["nothing", "no object", "no page", "no words"],
)
def test_url_error_without_a_valid_page_is_refused(tmp_path: Path, link: Json) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        asked: list[Json] = []
        assert host.call("visit", asked, arguments={"to": [link]})["error"]["code"] == -32600
        assert asked == []


def _said(message: Json) -> Json:
    """What a response says, whatever its id is."""
    return {name: each for name, each in _unnamed(message).items() if name != "id"}


@both
@pytest.mark.parametrize("upstream", ERAS)
def test_host_that_falls_back_to_stateful_mcp_is_served(
    tmp_path: Path, upstream: str, between: tuple[str, ...]
) -> None:
    """As after ten seconds without an answer to its `server/discover`."""
    with (
        started(tmp_path, "modern", upstream, between=between) as host,
        started(tmp_path, "legacy", upstream, between=between) as own,
    ):
        host.begin("server/discover")
        host.era = "legacy"
        assert _said(host.shake_hands()) == _said(own.shake_hands())
        for method, params in PLAIN:
            assert _said(host.request(method, params)) == _said(own.request(method, params))
        for tool in ("ask", "notes", "two"):
            asked: list[Json] = []
            of_own: list[Json] = []
            response = host.call(tool, asked, _meta={"progressToken": "p"})
            assert (
                response["result"] == own.call(tool, of_own, _meta={"progressToken": "p"})["result"]
            )
            assert [each["params"] for each in asked] == [each["params"] for each in of_own]
        told, told_own = (
            [each["method"] for each in one._passed if "id" not in each and "method" in each]
            for one in (host, own)
        )
        assert told == told_own != []
        id = host.begin("tools/call", {"name": "wait"})
        host.request("vendor/thing")
        host.send("notifications/cancelled", {"requestId": id, "reason": "r"})
        host.heard_of(lambda each: each.get("method") == "notifications/cancelled")


@pytest.mark.slow
def test_hidden_characters_never_reach_a_stateless_host_raw(tmp_path: Path) -> None:
    """And the server gets its own names and values back."""
    unseen = "a\u202eb\u200bc\ud800"
    asks: Json = {
        "message": "Which?",
        "requestedSchema": {
            "type": "object",
            "properties": {unseen: {"type": "string"}},
            "required": [unseen],
        },
    }
    with started(tmp_path, "modern", "legacy", between=WHOLE) as host:
        call: Json = {"name": "ask", "arguments": {"asks": asks}}
        result = host.request("tools/call", call)["result"]
        drawn = json.dumps(result, ensure_ascii=False)
        assert not {each for each in drawn if not each.isprintable()}
        ((key, question),) = result["inputRequests"].items()
        (name,) = question["params"]["requestedSchema"]["properties"]
        answers = {key: {"action": "accept", "content": {name: "x"}}}
        retry = {"requestState": result["requestState"], "inputResponses": answers}
        done = host.request("tools/call", {**call, **retry})["result"]
        assert done["structuredContent"]["r"]["content"] == {unseen: "x"}


def test_logs_reach_only_requests_with_a_log_level(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        host.call("notes", _meta={f"{PREFIX}logLevel": "error"})
        host.call("notes")
        assert not [each for each in host._passed if each.get("method") == "notifications/message"]
        levels = [each["params"] for each in host.heard() if each["method"] == "logging/setLevel"]
        assert levels == [{"level": "error"}]


def test_retry_sends_the_same_call_with_a_new_id(tmp_path: Path) -> None:
    with started(tmp_path, "legacy", "modern") as host:
        host.shake_hands()
        host.call("ask", _meta={"progressToken": "p1", "v/k": BIG})
        first, again = [each for each in host.heard() if each["method"] == "tools/call"]
        assert first["id"] != again["id"]
        brought = {name: again["params"].pop(name) for name in ("requestState", "inputResponses")}
        assert again["params"] == first["params"]
        assert brought["inputResponses"] == {"k0": ANSWERS["elicitation/create"]}


def test_question_refused_by_the_host_is_cancelled(tmp_path: Path) -> None:
    with started(tmp_path, "legacy", "modern") as host:
        host.shake_hands()
        id = host.begin("tools/call", {"name": "ask"})
        asked = host.until(lambda message: message.get("method") == "elicitation/create")
        host._send({"id": asked["id"], "error": {"code": -32601, "message": "no"}})
        assert host.response(id)["result"]["structuredContent"] == {"r": {"action": "cancel"}}
        id = host.begin("tools/call", {"name": "ask"})
        asked = host.until(lambda message: message.get("method") == "elicitation/create")
        host.reply(asked["id"], {"content": {"s": "x"}})
        assert host.response(id)["result"]["structuredContent"] == {"r": {"action": "cancel"}}


@pytest.mark.slow
def test_stateless_host_is_asked_at_most_ten_rounds(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        asked: list[Json] = []
        response = host.call("many", asked)
        assert len(asked) == 10
        # The others go to whoever asks: it has other surfaces.
        outcomes = response["result"]["structuredContent"]["r"]
        assert outcomes == ["accept"] * 10 + [-32600] * 2


def test_stateless_server_that_never_stops_asking_gets_an_error(tmp_path: Path) -> None:
    with started(tmp_path, "legacy", "modern") as host:
        host.shake_hands()
        asked: list[Json] = []
        assert "more than 10 times" in host.call("many", asked)["error"]["message"]
        assert len(asked) == 10


def test_question_outside_a_call_is_refused_by_a_stateless_host(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        host.shake_hands()
        host.send("notifications/vendor/ask")
        answer = host.notified("notifications/vendor/asked")["answer"]
        assert answer["code"] == -32600
        assert "inside of a call" in answer["message"]


@pairs
def test_a_cancelled_call_is_cancelled_at_the_server(
    tmp_path: Path, era: str, upstream: str
) -> None:
    with started(tmp_path, era, upstream) as host:
        host.shake_hands()
        id = host.begin("tools/call", {"name": "wait"})
        host.request("vendor/thing")
        host.send("notifications/cancelled", {"requestId": id, "reason": "r"})
        heard = host.heard_of(lambda each: each["method"] == "notifications/cancelled")
        [call] = [each for each in heard if each["method"] == "tools/call"]
        [cancelled] = [each for each in heard if each["method"] == "notifications/cancelled"]
        assert cancelled["params"]["requestId"] == call["id"]


def test_cancelled_call_withdraws_all_its_questions(tmp_path: Path) -> None:
    with started(tmp_path, "legacy", "modern") as host:
        host.shake_hands()
        id = host.begin("tools/call", {"name": "two"})
        asked = [
            host.until(lambda message: message.get("method") == "elicitation/create")["id"]
            for _ in range(2)
        ]
        host.send("notifications/cancelled", {"requestId": id})
        gone = [host.notified("notifications/cancelled")["requestId"] for _ in range(2)]
        assert sorted(gone) == sorted(asked)


@pytest.mark.slow
def test_question_of_a_host_that_never_returns_times_out(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy", PARK="0.05") as host:
        state = host.request("tools/call", {"name": "ask"})["result"]["requestState"]
        heard = host.heard_of(lambda each: "error" in each)
        answers = [each for each in heard if "error" in each]
        assert [each["error"]["code"] for each in answers] == [-32600]
        late = host.request("tools/call", {"name": "ask", "requestState": state})
        assert "too old" in late["error"]["message"]


@pytest.mark.slow
def test_question_withdrawn_by_the_server_is_never_answered(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        asked = host.request("tools/call", {"name": "withdraw"})["result"]
        host.send("notifications/vendor/go")
        host.until(lambda message: message.get("method") == "notifications/vendor/gone")
        retry = {
            "name": "withdraw",
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept"} for key in asked["inputRequests"]},
        }
        late = host.request("tools/call", retry)
        assert late["result"]["structuredContent"] == {"r": "withdrawn"}
        assert not [each for each in host.heard() if "result" in each]


@pytest.mark.parametrize(
    "change",
    [
        {"requestState": "made up"},
        {"requestState": 7},
        {"arguments": {"a": "other"}},
        {"name": "two"},
        {"inputResponses": [1]},
    ],
)
@pytest.mark.slow
def test_request_state_of_another_call_is_refused(tmp_path: Path, change: Json) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        asked = host.request("tools/call", {"name": "ask"})["result"]
        answers = dict.fromkeys(asked["inputRequests"], ANSWERS["elicitation/create"])
        retry = {"name": "ask", "requestState": asked["requestState"], "inputResponses": answers}
        assert host.request("tools/call", {**retry, **change})["error"]["code"] == -32602
        assert len([each for each in host.heard() if each.get("method") == "tools/call"]) == 1
        assert host.request("tools/call", retry)["result"]["isError"] is False


@pytest.mark.slow
def test_answer_without_request_state_starts_the_call_anew(
    tmp_path: Path,
) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        asked = host.request("tools/call", {"name": "ask"})["result"]
        answers = dict.fromkeys(asked["inputRequests"], ANSWERS["elicitation/create"])
        again = host.request("tools/call", {"name": "ask", "inputResponses": answers})["result"]
        assert again["requestState"] != asked["requestState"]
        assert list(again["inputRequests"].values()) == list(asked["inputRequests"].values())
        assert not [each for each in host.heard() if "result" in each]


def test_stateless_host_gets_errors_for_stateful_requests(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        host.shake_hands()
        host.send("ping", {}, id="bare")
        assert host.response("bare")["error"]["code"] == -32602
        assert host.request("ping")["error"]["code"] == -32601
        assert host.request("resources/subscribe", {"uri": "a"})["error"]["code"] == -32601
        assert host.request("subscriptions/listen")["error"]["code"] == -32602


def test_cancelled_stream_unsubscribes(tmp_path: Path) -> None:
    with started(tmp_path, "modern", "legacy") as host:
        wanted = {"resourceSubscriptions": ["stub://a"]}
        streams = [host.begin("subscriptions/listen", {"notifications": wanted}) for _ in range(2)]
        for _ in streams:
            host.notified("notifications/subscriptions/acknowledged")
        first, second = streams
        host.heard_of(lambda each: each["method"] == "resources/subscribe")
        host.send("notifications/cancelled", {"requestId": first})
        host.heard()
        host.send("notifications/cancelled", {"requestId": second})
        heard = host.heard_of(lambda each: each["method"] == "resources/unsubscribe")
        methods = [each["method"] for each in heard]
        assert methods.count("resources/subscribe") == methods.count("resources/unsubscribe") == 1


def listened(host: Host) -> list[Json]:
    return [each for each in host.heard() if each["method"] == "subscriptions/listen"]


def until_told(host: Host, what: str) -> None:
    host.until(lambda message: message.get("method") == f"notifications/{what}/list_changed")


@pytest.mark.parametrize("how", ["ends", "cancels", "refuses"])
def test_subscription_stream_is_reopened(tmp_path: Path, how: str) -> None:
    with started(tmp_path, "legacy", "modern", f"{how}:2") as host:
        host.shake_hands()
        for each in ("tools", "prompts", "resources"):  # may have changed meanwhile
            until_told(host, each)
        host.heard_of(lambda each: len(listened(host)) == 3)


@pytest.mark.parametrize("how", ["ends", "refuses"])
@pytest.mark.slow
def test_stream_that_cannot_be_reopened_is_reported(
    tmp_path: Path, how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, "legacy", "modern", f"{how}:99", between=WHOLE) as host:
        host.shake_hands()
        said = host.notified("notifications/message")
        assert (said["level"], said["logger"]) == ("warning", "abp-bridge")
        assert "tells of no changes" in said["data"]
        assert len(listened(host)) == server_link.REOPENS + 1
    assert "tells of no changes" in capfd.readouterr().err


@both
def test_bytes_pass_unchanged_between_stateful_sides(
    tmp_path: Path, between: tuple[str, ...]
) -> None:
    odd = (
        b'{"jsonrpc":"2.0", "id":5,"method":"vendor/thing","params":{"a":1.50e1,"a":2,'
        b'"n":12345678901234567890123,"t":"\\u00fc\\ud800","big":"' + b"x" * 3_000_000 + b'"}}\n'
    )
    with started(tmp_path, "legacy", "legacy", between=between) as host:
        host.shake_hands()
        host.write(odd)
        assert host.response(5)["result"] == {"v": BIG}
        assert odd in host.log.read_bytes()


@pytest.mark.parametrize("discover", ["", "1"])
@pairs
@pytest.mark.slow
def test_revision_of_the_server_is_found_in_either_order(
    tmp_path: Path, era: str, upstream: str, discover: str
) -> None:
    with started(tmp_path, era, upstream, DISCOVER_FIRST=discover) as host:
        assert "result" in host.shake_hands()
        assert host.call("ask")["result"]["isError"] is False


@pytest.mark.parametrize(
    ("era", "upstream", "code"), [("legacy", "modern", -32022), ("modern", "legacy", -32600)]
)
@pytest.mark.parametrize("speaks", ERAS)
def test_chosen_revision_is_the_only_one(
    tmp_path: Path, speaks: str, era: str, upstream: str, code: int
) -> None:
    with started(tmp_path, speaks, upstream, ERA=era) as host:
        assert host.request(*HELLO[speaks])["error"]["code"] == code


HELLO: dict[str, tuple[str, Json]] = {
    "legacy": (
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    ),
    "modern": ("tools/list", {}),
}


SILENT = "import sys; sys.stdin.read()"
ASKS_FIRST = """
import json, sys
hello = json.loads(input())
print('{"jsonrpc":"2.0","id":"first","method":"ping"}', flush=True)
while json.loads(input()).get("id") != "first":
    pass
info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
print(json.dumps({"jsonrpc": "2.0", "id": hello["id"], "result": info}), flush=True)
sys.stdin.read()
"""


@contextmanager
def in_front_of(program: str, folder: Path) -> Iterator[Host]:
    script = folder / "server.py"
    script.write_text(program)
    with Host([*WHOLE, sys.executable, str(script)], env={"BROWSER": "true"}) as host:
        yield host


@pytest.mark.slow
def test_lines_for_a_silent_server_are_bounded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "MAX_LINE", limit := 100_000)
    half = {"x": "x" * (limit // 2)}
    with in_front_of(SILENT, tmp_path) as host:
        host.send(*HELLO["legacy"], id="hello")
        host.send("vendor/thing", half, id="fits")
        host.send("notifications/vendor/lost", half)
        host.send("vendor/thing", half, id="too much")
        assert "has not answered initialize" in host.response("too much")["error"]["message"]
    assert "a message of the host's is dropped" in capfd.readouterr().err


def test_server_may_send_a_request_before_it_answers_initialize(tmp_path: Path) -> None:
    with in_front_of(ASKS_FIRST, tmp_path) as host:
        host.send(*HELLO["legacy"], id="hello")
        host.until(lambda message: message.get("method") == "ping")
        host.reply("first", {})
        assert host.response("hello")["result"]["protocolVersion"] == "2025-11-25"
