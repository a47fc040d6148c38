"""Pages that the model named open no private address without the user's yes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from support.harness import Hosted, accept, hosted, text
from support.http_server import Reply, Request, serving
from support.pages.server import Web, web
from support.tool_pages import Person as Listener
from support.tool_pages import accepted

from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any

PAGE = """<!doctype html><title>lure</title><link rel="abp-manifest" href="/abp.json">
<script>
const frame = (src) => new Promise((done) => {
  const made = document.createElement('iframe');
  Object.assign(made, { src, onload: () => done('loaded'), onerror: () => done('failed') });
  document.body.append(made);
});
const image = (src) => new Promise((done) => {
  Object.assign(new Image(), { src, onload: () => done('loaded'), onerror: () => done('failed') });
});
const WAYS = {
  image, frame, leave: async (url) => { location.assign(url); await new Promise(() => {}); },
};
window.abp = {
  initialize: async () => ({ app: { id: 'lure', name: 'Lure' }, capabilities: ['go'] }),
  shutdown: async () => {},
  call: async (name, { way, url }) => ({ success: true, data: await WAYS[way](url) }),
};
</script><body>"""
MANIFEST = '{"abp": "0.1", "app": {"id": "lure", "name": "Lure", "version": "1"}}'


@contextmanager
def lure() -> Iterator[str]:
    """A site that shows the bridge a page, and leads a browser wherever `to` says: its address."""

    def answer(request: Request) -> Reply:
        to = request.query.get("to", "")
        browser = "abp-bridge" not in request.headers["User-Agent"]
        body = MANIFEST if request.parts.path == "/abp.json" else PAGE
        leads = {"Location": to} if to and browser else {}
        return Reply(body.encode(), "text/html; charset=utf-8", 302 if leads else 200, leads)

    with serving(answer) as site:
        yield site


@pytest.fixture
def private() -> Iterator[Web]:
    """Somebody's own server, which the person allowed nobody to reach."""
    with web() as running:
        yield running


async def connect(host: Hosted, target: str) -> str:
    return text(await host.client.call_tool("abp_connect", {"target": target}))


@pytest.mark.browser
async def test_browser_redirect_to_a_private_host_is_refused(private: Web) -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1") as host:
            said = await connect(host, f"{site}/?to={private.elsewhere}/workshop.html")
    assert said.startswith("PERMISSION_DENIED: Failed to fetch app page: localhost is on a private")
    assert "--allow localhost" in said
    assert private.requests == []


@pytest.mark.browser
async def test_documents_of_a_model_named_page_reach_no_private_host(private: Web) -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1") as host:
            assert "Connected lure" in await connect(host, f"{site}/")
            for way in ("frame", "leave"):
                for url in (f"{private.elsewhere}/{way}", f"/?to={private.elsewhere}/{way}-led"):
                    await host.call("go", way=way, url=url)
                    if way == "leave":
                        await connect(host, f"{site}/")
            told = json.dumps(host.wire.sent("notifications/message"))
    assert private.requests == []
    assert f"{private.elsewhere}/frame was not opened: localhost is on a private" in told


@pytest.mark.browser
async def test_page_that_the_user_named_loads_what_it_likes(private: Web) -> None:
    with lure() as site:
        async with hosted("--app", f"{site}/") as host:
            await host.call("go", way="frame", url=f"{private.elsewhere}/frame")
    assert private.requests == ["/frame"]


@pytest.mark.browser
async def test_allowed_host_is_opened_without_a_question(private: Web) -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1", "--allow", "localhost") as host:
            await connect(host, f"{site}/")
            await host.call("go", way="image", url=f"/?to={private.elsewhere}/image")
    assert private.requests == ["/image"]


@pytest.mark.browser
async def test_private_address_is_opened_only_after_the_users_yes(private: Web) -> None:
    asked: list[str] = []

    def answering(yes: bool) -> Callable[[Json], Json]:
        def answer(params: Json) -> Json:
            asked.append(params.message)
            return accept(confirmed=yes)(params)

        return answer

    target = f"{private.here}/workshop.html"
    async with hosted(answer=answering(False)) as host:
        said = await connect(host, target)
        assert said.startswith(f"USER_CANCELLED: {private.here} was not opened: the user did not")
        assert f"Start abp-bridge with --app {private.here}" in said
    async with hosted() as host:  # whose host can ask nobody
        said = await connect(host, target)
        assert f"{private.here} was not opened: nobody could be asked to allow that" in said
        assert f"--allow {private.here.removeprefix('http://')}, to open it" in said
    assert private.requests == []
    assert f"Open {private.here}?" in asked[0]
    assert "127.0.0.1 is a private or local address (127.0.0.1)" in asked[0]
    async with hosted(answer=answering(True)) as host:
        assert "Connected" in await connect(host, target)
    assert len(asked) == 2


@pytest.mark.network
async def test_policys_yes_opens_no_address(private: Web) -> None:
    listener = Listener()
    listener.says = lambda _: replace(accepted(confirmed=True), answered_by=AnsweredBy.HOST_POLICY)
    app = BrowserApp(f"{private.here}/workshop.html", Settings(), named=False)
    with pytest.raises(AppError, match="only a person can allow that") as caught:
        async with app.open_app(listener):
            pass
    assert caught.value.code == "PERMISSION_REQUIRED"
    assert private.requests == []


@pytest.mark.network
async def test_name_that_turns_private_after_the_question_is_refused(
    private: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = iter(["93.184.215.14", "127.0.0.1"])

    async def resolve(host: str, port: int, **_: object) -> list[Any]:
        return [(2, 1, 6, "", (next(addresses), port))]

    monkeypatch.setattr(anyio, "getaddrinfo", resolve)
    listener = Listener()
    listener.says = lambda _: accepted(confirmed=True)
    app = BrowserApp(f"http://rebound.example:{private.port}/", Settings(), named=False)
    with pytest.raises(AppError, match="is on a private network"):
        async with app.open_app(listener):
            pass
    assert "private" not in listener.questions[0].message
    assert private.requests == []
