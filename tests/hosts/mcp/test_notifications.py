"""What an app tells, as an MCP host hears it: of which call, in which words, what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.harness import RawHost
from support.puppets import puppets, scripted

from abp_bridge.jsonrpc.connection import MAX_NOTIFICATIONS
from abp_bridge.session.call import MAX_SUMMARY_LINES
from abp_bridge.session.connection import MAX_STATE_FIELDS

Json = Any

PROGRESS = "notifications/progress"
GO_ON = {"need": {"method": "elicitation/confirm", "params": {"message": "Go on?"}}}
STATE = "notifications/state/changed"
UPDATED = "notifications/resources/updated"
OWN = ("abp_connect", "abp_disconnect", "abp_status", "abp_call", "abp_wait", "abp_ask")
BURST, RUN = 5_000, 20


def report(**progress: Json) -> Json:
    """A step: progress under the names that it has itself."""
    return {"tell": PROGRESS, "params": progress, "apart": True}


class Listener(RawHost):
    """A host with one scripted app; each call has its capability's name as its token."""

    def __init__(self, folder: Path, patience: str = "30000", **steps: Json) -> None:
        script = folder / "script.json"
        capabilities = [{"name": name, "steps": each} for name, each in steps.items()]
        script.write_text(json.dumps({"app": {"id": "site"}, "capabilities": capabilities}))
        super().__init__("--app", scripted(script), env={"ABP_HOST_PATIENCE": patience})
        self.heard: list[Json] = []
        self.initialize(elicitation={})
        self.result("tools/call", {"name": "abp_connect", "arguments": {}})

    def read(self, limit: float | None = None) -> Json:
        message = super().read(limit)
        if "method" in message and "id" not in message:
            self.heard.append(message)
        return message

    def call(self, name: str, token: str | None = None) -> int:
        """Begin a call that asks whether to go on, up to that question."""
        id = self.start("abp_call", {"capability": name}, token or name)
        self.asked = self.until(lambda message: message.get("method") == "elicitation/create")["id"]
        return id

    def start(self, tool: str, arguments: Json, token: str) -> int:
        meta = {"progressToken": token}
        return self.begin("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})

    def go_on(self, question: Json = None) -> None:
        answer = {"action": "accept", "content": {"confirmed": True}}
        self.reply(question or self.asked, answer)

    def words(self, id: int) -> str:
        """All the text of a call's result."""
        return "\n".join(each["text"] for each in self.response(id)["result"]["content"])

    def progress(self, token: str) -> list[Json]:
        """What was heard on a token, as it must be: rising."""
        told = [each["params"] for each in self.heard if each["method"] == PROGRESS]
        mine = [each for each in told if each["progressToken"] == token]
        assert all(one["progress"] < next["progress"] for one, next in pairwise(mine))
        return mine


def messages(told: Sequence[Json]) -> list[str]:
    return [each.get("message", "") for each in told]


def test_operation_name_of_an_app_belongs_to_its_call(tmp_path: Path) -> None:
    started = {"operationId": "job", "capability": "crawl"}
    steps = [
        GO_ON,
        {"tell": "notifications/operation/started", "params": started, "apart": True},
        report(operationId="job", progress=1, status="Crawling"),
        report(operationId="job", progress=2, status="Still crawling"),
    ]
    with Listener(tmp_path, crawl=steps, other=[GO_ON]) as host:
        first, question = host.call("crawl"), host.asked
        second = host.call("other")
        host.go_on(question)
        host.words(first)
        host.go_on()
        host.words(second)
        assert messages(host.progress("crawl")) == ["Crawling", "Still crawling"]
        assert host.progress("other") == []


def test_notification_of_an_unknown_call_goes_to_every_call(tmp_path: Path) -> None:
    """The other of two, where one is known to speak of itself."""
    apart = [
        GO_ON,
        report(operationId="job", progress=1, total=3, status="Indexing"),
        {"tell": STATE, "params": {"field": "n", "newValue": 1}, "apart": 1},
        {"tell": PROGRESS, "params": {"progress": 5, "status": "Its own"}},
        report(operationId="rest", progress=1, status="Of the other"),
    ]
    with Listener(tmp_path, first=apart, second=[GO_ON]) as host:
        first, question = host.call("first"), host.asked
        second = host.call("second")
        host.go_on(question)
        told = host.words(first)
        host.go_on()
        assert "n is now 1" in told
        assert "n is now 1" in host.words(second)
        assert messages(host.progress("first")) == ["job: Indexing", "Its own"]
        assert messages(host.progress("second")) == ["job: Indexing", "Of the other"]


@pytest.mark.slow
def test_resumed_call_reports_the_progress_it_missed(tmp_path: Path) -> None:
    steps = [
        GO_ON,
        *(report(operationId="job", progress=n, total=9, status=f"Step {n}") for n in range(1, 4)),
        GO_ON,
    ]
    with Listener(tmp_path, "300", work=steps) as host:
        first = host.call("work")
        assert "abp_wait" in host.words(first)
        host.go_on()
        host.asked = host.until(lambda message: message.get("method") == "elicitation/create")["id"]
        assert host.progress("work") == [], "that request has its answer"
        again = host.start("abp_wait", {"call": "call-1"}, "again")
        told = host.notified(PROGRESS)
        assert (told["progressToken"], told["message"]) == ("again", "Step 3")
        host.go_on()
        words = host.words(again)
        assert "(2 notifications did not reach this host" in words


@pytest.mark.slow
async def test_slow_host_gets_the_newest_notifications_and_the_count_of_lost_ones(
    tmp_path: Path,
) -> None:
    async with puppets(tmp_path) as made:
        with RawHost("--app", made.target) as host:
            host.initialize()
            opening = host.begin("tools/call", {"name": "abp_connect", "arguments": {}})
            app = await made.app()
            await app.open("work")
            host.response(opening)
            call = host.begin(
                "tools/call", {"name": "abp_call", "arguments": {"capability": "work"}}
            )
            asked = await app.next("capabilities/call")
            await app.send(method="notifications/alarm", params={"n": 0})
            for n in range(BURST):
                await app.send(method="notifications/tick", params={"n": n, "text": "x" * 200})
            for n in range(RUN):
                await app.send(method=STATE, params={"field": "n", "newValue": n})
            await app.send(id="over", method="nothing")  # what answers this has read the others
            await app.next()
            await app.send(id=asked["id"], result={"success": True, "data": "done"})
            heard: list[Json] = []
            while (message := host.read()).get("id") != call:
                if message["method"] == "notifications/message":
                    heard.append(message["params"]["data"])
            status = host.result("tools/call", {"name": "abp_status", "arguments": {}})
    ticks = [each["data"]["n"] for each in heard if each["event"] == "notifications/tick"]
    assert ticks == sorted(ticks)
    assert ticks[-MAX_NOTIFICATIONS:] == list(range(BURST))[-MAX_NOTIFICATIONS:]
    assert [each["data"].get("newValue") for each in heard if each["event"] == STATE] == [RUN - 1]
    assert len(heard) == 1 + len(ticks) + 1, "and the alarm: a run gives way to itself"
    told = json.loads(status["content"][0]["text"])
    missing = BURST - len(ticks)
    assert told["lostNotifications"] == {"replacedByNewer": RUN - 1, "dropped": missing}
    assert told["apps"]["puppet"]["told"]["notifications/tick"]["count"] == BURST
    words = message["result"]["content"][-1]["text"].splitlines()
    assert 'alarm {"n": 0}' in words[1], "there too"
    assert f"n is now {RUN - 1}" in words[-3]
    assert f"and {BURST + RUN + 1 - MAX_SUMMARY_LINES} more before these" in words[-2]
    assert f"({missing + RUN - 1} notifications did not reach this host" in words[-1]


# --- what an app can do ---------------------------------------------------------------------------


def returning(name: str) -> Json:
    """A capability that says which it is."""
    return {"name": name, "steps": [{"return": f"this is {name}"}]}


ODD = {
    "long": "L" * 120,
    "longer": "L" * 119 + "M",
    "dotted": "report.make",
    "underlined": "report_make",
    "spaced": "report make",
    "of other letters": "отчёт",
    "of others still": "見積",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "of marks": "!!!",
    "like a tool": "connect",
    "quoted": "a\"b'c",
}


@pytest.mark.slow
def test_each_of_700_capabilities_can_be_called_or_is_named_with_the_reason(tmp_path: Path) -> None:
    names = [*ODD.values(), *(f"many.{n}" for n in range(690))]
    listed = [*map(returning, names), returning("x" * 121), returning("bad\x1b[2J"), returning("")]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"app": {"id": "site"}, "capabilities": listed}))
    with RawHost("--app", scripted(script)) as host:
        host.initialize()
        opened = host.result("tools/call", {"name": "abp_connect", "arguments": {}})
        words = opened["content"][0]["text"]
        tools = [each["name"] for each in host.result("tools/list")["tools"]]
        offered = tools[len(OWN) :]
        called = [host.result("tools/call", {"name": name, "arguments": {}}) for name in offered]
        by_name = [
            host.result("tools/call", {"name": "abp_call", "arguments": {"capability": name}})
            for name in ODD.values()
        ]
    assert tuple(tools[: len(OWN)]) == OWN
    assert len(set(offered)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in offered)
    answers = [each["content"][0]["text"] for each in called]
    assert sorted(answers) == sorted(f"this is {name}" for name in names)
    assert [each["content"][0]["text"] for each in by_name] == [
        f"this is {name}" for name in ODD.values()
    ]
    assert "with a name of more than 120 characters cannot be called: 'xxxx" in words
    assert "with a name that cannot be shown as it is cannot be called: 'bad[2J'" in words
    assert f"without a name cannot be called: number {len(listed)}" in words


def test_state_field_over_the_limit_is_not_reported_as_updated(
    tmp_path: Path,
) -> None:
    def told(field: str) -> Json:
        return {"tell": STATE, "params": {"field": field, "newValue": 1}}

    fields = [told(f"field{number}") for number in range(MAX_STATE_FIELDS)]
    steps = [*fields, GO_ON, told("too-many"), told("field0"), {"return": "done"}]
    with Listener(tmp_path, run=steps) as host:
        host.call("run")
        for field in ("too-many", "field0"):
            host.result("resources/subscribe", {"uri": f"abp://site/state/{field}"})
        host.go_on()
        updated = host.until(lambda message: message.get("method") == UPDATED)["params"]["uri"]
        assert updated == "abp://site/state/field0"
        assert host.result("resources/read", {"uri": updated})["contents"]
