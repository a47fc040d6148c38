"""Pages of others behind the bridge: what is offered, asked, and returned."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from support.harness import MODERN, Hosted, hosted, text

from .demos import HERE, Demo, Step, served, trusting_chromium

Json = Any

GLANCE = 0.2  # seconds between two calls of what has no end that it tells
TRIES = 100
LOOK = Step("")  # at what a demo offers for which no call is known
# What a host speaks, and whether the browser has a window.
WAYS = {"2025-11-25": (None, False), f"{MODERN}, in a window": (MODERN, True)}


class Person:
    """Who answers as a step has it, and notes what was asked."""

    def __init__(self) -> None:
        self.expected: list[Json] = []

    def answer(self, asked: types.ElicitRequestFormParams) -> types.ElicitResult:
        assert self.expected, f"asked: {asked.message}"
        wanted = self.expected.pop(0)
        assert wanted["words"] in asked.message, asked.message
        if "decline" in wanted:
            return types.ElicitResult(action="decline")
        named = asked.requested_schema["properties"]
        shown = {name: part["default"] for name, part in named.items() if "default" in part}
        given = {**shown, **wanted["accept"]}
        return types.ElicitResult(action="accept", content=given)


@pytest.mark.parametrize("way", WAYS)
async def test_demo_does_what_it_offers(demo: Demo, way: str, screen: str, tmp_path: Path) -> None:
    version, window = WAYS[way]
    options = ["--headful"] if window else []
    env = {"DISPLAY": screen} if window else {}
    if demo.extension:  # one that takes addresses may want them to be https
        env["ABP_CHROME"] = str(trusting_chromium(tmp_path))
        place = served(HERE, tmp_path)
    else:
        place = served(demo.folder.parent)
    with place as site:
        for page, steps in groupby(demo.steps or [LOOK], lambda step: step.page):
            here = f"{site}/{demo.folder.name}/{page}"
            target = str(demo.folder) if demo.extension else here
            person = Person()
            async with hosted(
                *("--app", target, *options),
                answer=person.answer,
                version=version,
                env=env,
                shared=True,
            ) as host:
                connected = await host.client.call_tool("abp_connect", {})
                refused = text(connected) if connected.is_error else ""
                kept = {"page": f"{site}/article.html"}
                for step in steps:
                    if step.call:
                        kept |= await take(host, step, person, kept)
                    else:
                        assert re.fullmatch(step.result, refused), refused


async def take(host: Hosted, step: Step, person: Person, kept: dict[str, str]) -> dict[str, str]:
    given = fill_in(step.given, kept)
    person.expected = list(step.asks)
    for _ in range(TRIES if step.again else 1):
        result = await host.call(step.call, **given)
        words = said(result)
        if re.search(step.result, words):
            break
        await anyio.sleep(GLANCE)
    assert re.search(step.result, words), words
    assert person.expected == [], "not all was asked"
    return {name: str(find(json.loads(words), path)) for name, path in step.keep.items()}


def said(result: types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def fill_in(given: Json, kept: dict[str, str]) -> Json:
    if isinstance(given, dict):
        return {name: fill_in(value, kept) for name, value in given.items()}
    if isinstance(given, list):
        return [fill_in(value, kept) for value in given]
    if isinstance(given, str) and given.startswith("$"):
        return kept[given[1:]]
    return given


def find(value: Json, path: Sequence[str | int]) -> Json:
    for each in path:
        value = value[each]
    return value
