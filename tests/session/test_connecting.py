"""An app that ends while it is being connected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from abp_bridge.core.capability import AppInfo, CapabilityList
from abp_bridge.core.surface import Surface
from abp_bridge.session.bridge import Bridge
from abp_bridge.session.host import SessionError
from abp_bridge.session.router import Router
from abp_bridge.session.surface import OwnSurface
from abp_bridge.settings import Settings

Json = Any

LAST_WORDS = "its process ended (exit code 1; its last words: out of memory)"


class Dying:
    """An app that is there, and gone when `end` is called."""

    origin = "stdio:x"
    renders = False

    def __init__(self) -> None:
        self.end: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def open_app(self, listener: Json) -> AsyncIterator[AppInfo]:
        self.end = lambda: listener.on_disconnect(LAST_WORDS)
        yield AppInfo(id="x", name="x", session="", version="0.1", capabilities=(), warnings=())

    async def capabilities(self) -> CapabilityList:
        return CapabilityList()


class Slow(OwnSurface):
    """A surface that the app's end comes before, when it is first started."""

    def __init__(self, app: Dying) -> None:
        self._app = app

    def variants(self, calls: Json = ()) -> Json:
        return ()

    async def make_ready(self) -> str:
        self._app.end()
        await anyio.wait_all_tasks_blocked()
        return ""


class Host:
    """A host that hears nothing."""

    name = "a host"

    def __getattr__(self, name: str) -> Json:
        return lambda *given, **more: ()

    def lost_notifications(self) -> Json:
        return {}


@pytest.mark.slow
async def test_an_app_that_ends_at_once_is_not_connected_and_its_last_words_say_why() -> None:
    app, host = Dying(), Host()
    hears: Json = host
    made: Json = app
    surface: Json = Slow(app)
    router = Router(hears, {Surface.QUESTIONS_API: surface}, min_human_latency=0.0)
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(Settings(), hears, tasks, lambda target, named: made, router=router)
        with pytest.raises(SessionError, match="out of memory") as caught:
            await bridge.connect("stdio:x")
        tasks.cancel_scope.cancel()
    assert caught.value.code == "DISCONNECTED"
