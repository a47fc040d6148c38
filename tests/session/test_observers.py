"""A program that embeds the bridge sees what happens, by the example in the docs and by what a trip
tells.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import anyio
import pytest
from support.harness import PATIENCE
from support.paths import DOCS

from abp_bridge.apps.targets import make_app
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.surface import Surface
from abp_bridge.session.bridge import Bridge
from abp_bridge.session.context import (
    AskContext,
    AttemptEvent,
    InputRequestEvent,
    InputResolvedEvent,
    NoticeEvent,
    ProgressEvent,
    SessionEvent,
)
from abp_bridge.session.surface import PageLink, SurfaceResponse
from abp_bridge.settings import Settings

DOCS = DOCS / "embedding.md"

pytestmark = pytest.mark.process


def test_the_example_of_the_docs_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    said = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert re.findall(r"^(\w+)\(time=", said, re.MULTILINE) == [
        "InputRequestEvent",
        "AttemptEvent",
        "InputResolvedEvent",
    ]
    assert "'confirmed': True" in said.splitlines()[-1]


class Typing:
    """A host whose person types the same into every form."""

    name = "typing"

    def __init__(self, surface: Surface) -> None:
        self._column = SurfaceVariant(surface, "2025-11-25" if surface is Surface.MCP_FORM else "")

    def variants(self, calls: Any = ()) -> list[SurfaceVariant]:
        return [self._column]

    async def prompt(
        self, question: Question, context: AskContext, variant: SurfaceVariant, problem: str = ""
    ) -> SurfaceResponse:
        return SurfaceResponse(Outcome.ACCEPTED, {"value": "planted-key-90c1"})

    async def send_link(
        self, question: Question, context: AskContext, link: PageLink
    ) -> SurfaceResponse:
        return SurfaceResponse(Outcome.DECLINED)

    async def roots(self, calls: Any = ()) -> list[str]:
        return []

    def on_notice(self, app: str, origin: str, notice: Any) -> None:
        """Not shown."""

    def on_capabilities_changed(self) -> None:
        """Not shown."""

    def on_resources_changed(self) -> None:
        """Not shown."""

    def lost_notifications(self) -> dict[str, int]:
        return {}


async def watched(surface: Surface, capability: str, params: Any) -> list[SessionEvent]:
    seen: list[SessionEvent] = []
    settings = Settings(apps=("demo",), min_human_latency=0.0)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            bridge = Bridge(
                settings,
                Typing(surface),
                tasks,
                lambda target, named: make_app(target, named, settings),
                observe=seen.append,
            )
            await (await bridge.start(capability, params)).wait()
            await bridge.close("that was all")
    return seen


async def test_what_an_app_tells_is_seen() -> None:
    told = {"event": "notifications/state/changed", "data": {"field": "mood", "newValue": "good"}}
    (event,) = await watched(Surface.MCP_FORM, "demo.tell", told)
    assert isinstance(event, NoticeEvent)
    assert (event.app, event.notice.data["field"]) == ("demo", "mood")


async def test_how_far_an_app_is_is_seen() -> None:
    events = await watched(Surface.MCP_FORM, "demo.work", {})
    values = [event.progress.value for event in events if isinstance(event, ProgressEvent)]
    assert values == [1, 2, 2, 0.75, 4], "as the app says it; hosts are told what only rises"


async def test_a_secret_is_in_no_event() -> None:
    request = {
        "method": "elicitation/input",
        "params": {"prompt": "Your API key?", "schema": {"type": "string", "format": "password"}},
    }
    events = await watched(Surface.MCP_URL, "demo.ask", {"request": request})
    assert [type(event) for event in events] == [
        InputRequestEvent,
        AttemptEvent,
        InputResolvedEvent,
    ]
    assert "planted-key-90c1" not in repr(events)
