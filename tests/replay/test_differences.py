"""A bridge that means the same as the fixtures passes, whatever its protocol lets it say otherwise;
and one that means something else does not.
"""

from __future__ import annotations

import copy
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.apps.differing import CHANGES, DIFFERENCES
from support.harness import run
from support.paths import APPS, FIXTURES

from abp_bridge.cli.replay import _missing_extra
from abp_bridge.conformance.format import HOST, parse_recordings
from abp_bridge.conformance.match import Kind, kind_of, match

Json = Any
# Differences that every fixture shows: one of so many fixtures is played without --whole.
EACH = {"other ids": 32, "another order, and spaces": 32}
LIMIT = 900.0  # seconds for all fixtures


def bridge(difference: str) -> str:
    return shlex.join([sys.executable, str(APPS / "differing.py"), difference])


@cache
def said() -> dict[Path, tuple[str, list[Json]]]:
    """Of each fixture: the protocol of its host, and what it has the bridge say to it."""
    found = {}
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        (recording,) = parse_recordings(path.read_text())
        if _missing_extra(recording.head):
            continue
        ours = (each for each in recording.entries if each.ours and each.party == HOST)
        messages = [each.value for each in ours if each.kind == "message"]
        found[path] = recording.head.host, [each for each in messages if isinstance(each, dict)]
    return found


def places(before: Json, after: Json, name: str = "") -> Iterator[str]:
    """The members that an edit changed, each with the one that it stands in."""
    if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
        for each in before:
            yield from places(before[each], after[each], each)
    elif isinstance(before, dict) and isinstance(after, dict):
        changed = before.keys() ^ after.keys()
        yield from (
            (f"{name}.{each.partition(' ')[0]}" for each in changed) if changed else ["order"]
        )
        for each in before.keys() & after.keys():
            yield from places(before[each], after[each], each)
    elif isinstance(before, list):
        for one, other in zip(before, after, strict=True):
            yield from places(one, other, name)
    elif before != after:
        yield name


def touched(difference: str) -> dict[Path, set[tuple[str, str]]]:
    """The fixtures that show something of a difference: in which protocols, and where."""
    edit, _ = (DIFFERENCES | CHANGES)[difference]
    found = {}
    for path, (host, messages) in said().items():
        other = copy.deepcopy(messages)
        for each in other:
            edit(each)
        if shown := {(host, place) for place in places(messages, other)}:
            found[path] = shown
    return found


def chosen(difference: str) -> list[Path]:
    """A few fixtures that show a difference in each protocol and place that it has in all."""
    left = touched(difference)
    found = []
    while left:
        path = max(left, key=lambda each: len(left[each]))
        found.append(path)
        shown = left[path]
        left = {each: places - shown for each, places in left.items() if places - shown}
    return found


@pytest.mark.process
@pytest.mark.parametrize("difference", DIFFERENCES)
def test_replay_passes_a_bridge_that_means_the_same(difference: str, request: Json) -> None:
    whole = request.config.getoption("--whole")
    some = list(said())[:: EACH[difference]] if difference in EACH else []
    fixtures = [FIXTURES] if whole else sorted({*chosen(difference), *some})
    played = run("replay", *map(str, fixtures), "--bridge", bridge(difference), timeout=LIMIT)
    assert (played.returncode, played.stderr) == (0, ""), played.stdout


# what a bridge does wrong -> what is said of it
WRONG = {
    "an error that looks like none": "result.isError: true expected, nothing given",
    "a link that looks like a form": 'params.mode: "url" expected, nothing given',
    "a capability less": "result.capabilities.tools: {",
    "a notice of no subscription": "io.modelcontextprotocol/subscriptionId: ",
    "a question less": "result.inputRequests.[input 2]: {",
    "answers to each other's questions": "to the app's request",
}
TWO_AT_ONCE = FIXTURES / "hosts" / "recorded" / "goose-acp" / "two-at-once.jsonl"


@pytest.mark.process
@pytest.mark.parametrize("change", CHANGES)
def test_replay_fails_a_bridge_that_means_something_else(change: str) -> None:
    path = next(iter(touched(change)), TWO_AT_ONCE)
    played = run("replay", str(path), "--bridge", bridge(change))
    assert played.returncode == 1
    assert WRONG[change] in played.stdout


MCP, ACP = kind_of("host", "mcp 2025-11-25"), kind_of("host", "acp 1")
NOTES = {"_meta": {"example.org/x": 1}}
FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}


def called(**result: Json) -> Json:
    return {"id": 1, "result": {"content": [{"type": "text", "text": "done"}], **result}}


def initialized(**result: Json) -> Json:
    return {"id": 1, "result": {"protocolVersion": 1, **result}}


def listed(**tool: Json) -> Json:
    return {"id": 1, "result": {"tools": [{"name": "x", "inputSchema": {}, **tool}]}}


# what may stand for what, either way
SAME: dict[str, tuple[Kind, Json, Json]] = {
    "isError": (MCP, called(isError=False), called()),
    "mode": (MCP, {"params": {**FORM, "mode": "form"}}, {"params": FORM}),
    "no parameters": (MCP, {"method": "x", "params": {}}, {"method": "x"}),
    "nothing required": (MCP, listed(inputSchema={"required": []}), listed()),
    "a hint": (MCP, listed(annotations={"destructiveHint": True}), listed()),
    "null": (ACP, initialized(authMethods=[], _meta=None), initialized()),
    "off": (ACP, initialized(agentCapabilities={"loadSession": False, "auth": {}}), initialized()),
}
# what may be there where a fixture does not show it
MORE: dict[str, tuple[Kind, Json, Json]] = {
    "structured content": (MCP, called(), called(structuredContent={"x": 1})),
    "notes": (MCP, called(), called(**NOTES)),
    "notes of a block": (MCP, called(content=[{}]), called(content=[NOTES])),
    "notes where nothing stood": (MCP, {"method": "x"}, {"method": "x", "params": NOTES}),
    "an own capability": (
        MCP,
        {"result": {"capabilities": {}}},
        {"result": {"capabilities": {"experimental": {"x": {}}}}},
    ),
    "notes of ACP's": (ACP, {"params": {"_meta": None}}, {"params": NOTES}),
    "an agent's switch": (ACP, initialized(), initialized(agentCapabilities={"loadSession": True})),
    "an agent's capability": (
        ACP,
        initialized(agentCapabilities={}),
        initialized(agentCapabilities={"promptCapabilities": {"image": True}}),
    ),
}
# what is not the same, either way
OTHER: dict[str, tuple[Kind, Json, Json]] = {
    "an error": (MCP, called(isError=True), called()),
    "a mode": (MCP, {"params": {"mode": "url", "url": "x"}}, {"params": {"url": "x"}}),
    "one of each": (MCP, called(structuredContent=1), called(structuredContent=2)),
    "what a schema requires": (MCP, listed(inputSchema={"required": ["x"]}), listed()),
    "what an app says": (
        MCP,
        called(structuredContent={"isError": False}),
        called(structuredContent={}),
    ),
    "an error's members": (MCP, {"error": {"code": 1, "isError": False}}, {"error": {"code": 1}}),
    "a member of no schema": (MCP, {"result": {"x": 1}}, {"result": {}}),
    "a subscription": (
        MCP,
        {"params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "a"}}},
        {"params": {}},
    ),
    "an answer": (
        kind_of("agent", "acp 1"),
        {"result": {"content": {"x": None}}},
        {"result": {"content": {}}},
    ),
    "to an app": (kind_of("app", "mcp 2025-11-25"), called(isError=False), called()),
}


@pytest.mark.parametrize("case", [*SAME.values(), *MORE.values()], ids=[*SAME, *MORE])
def test_match_takes_the_same_meaning(case: tuple[Kind, Json, Json]) -> None:
    kind, expected, got = case
    assert match(expected, got, {}, kind=kind)
    assert not match(expected, got, {}), "but only as its schema has it"


@pytest.mark.parametrize("name", SAME)
def test_match_takes_a_default_that_is_omitted_or_written(name: str) -> None:
    kind, one, other = SAME[name]
    assert match(other, one, {}, kind=kind)


@pytest.mark.parametrize("name", MORE)
def test_match_rejects_what_is_left_out(name: str) -> None:
    kind, less, more = MORE[name]
    assert not match(more, less, {}, kind=kind)


@pytest.mark.parametrize("name", OTHER)
def test_match_rejects_another_meaning(name: str) -> None:
    kind, one, other = OTHER[name]
    assert not match(one, other, {}, kind=kind)
    assert not match(other, one, {}, kind=kind)


def test_match_finds_a_question_under_any_key() -> None:
    expected: Json = {"[input 1]": {"message": "a"}, "[input 2]": {"message": "b", "of": [1, 2]}}
    found = match(expected, {"y": {"message": "b", "of": [1, 2]}, "x": {"message": "a"}}, {})
    assert found.learned == {"[input 1]": "x", "[input 2]": "y"}
    assert not found.differences
    cut = match(expected, {"y": {"message": "b", "of": [1]}, "x": {"message": "a"}}, {})
    assert [each.path for each in cut.differences] == ["[input 2].of"]


@pytest.mark.slow
def test_match_of_a_large_message_ends() -> None:
    many = range(3_000)
    expected = {f"[input {place}]": {"n": place} for place in many}
    got = {str(place): {"n": place} for place in reversed(many)}
    assert not match(expected, got, {})
    assert not match([f"[id {place}]" for place in many], ["same"] * len(many), {})
