"""A page that the model named, in a real Chromium: nothing that it loads, and no redirect, reaches
a private network. What a server on it hears is counted there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Any

import pytest
from support.harness import Hosted, hosted, text
from support.http_server import Reply, Request, serving
from support.pages.server import Web, web

from abp_bridge.apps.browser.page import MAX_REFUSED

Json = Any

pytestmark = pytest.mark.anyio

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
  fetch: (url) => fetch(url, { mode: 'no-cors' }).then(() => 'loaded', () => 'failed'),
  image, frame,
  beacon: async (url) => navigator.sendBeacon(url, 'x') && 'sent',
  socket: (url) => new Promise((done) => {
    const made = new WebSocket(url.replace('http', 'ws'));
    Object.assign(made, { onopen: () => done('open'), onerror: () => done('failed') });
  }),
  stun: async (url) => {
    const made = new RTCPeerConnection({ iceServers: [{ urls: `stun:${new URL(url).host}` }] });
    made.createDataChannel('x');
    await made.setLocalDescription(await made.createOffer());
    await new Promise((done) => {
      made.onicegatheringstatechange = () => made.iceGatheringState === 'complete' && done();
    });
    return 'gathered';
  },
  leave: async (url) => { location.assign(url); await new Promise(() => {}); },
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


async def test_where_a_browser_alone_is_led_is_refused_before_it_is_sent(private: Web) -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1") as host:
            said = await connect(host, f"{site}/?to={private.elsewhere}/workshop.html")
    assert said.startswith("PERMISSION_DENIED: Failed to fetch app page: localhost is on a private")
    assert "--allow localhost" in said
    assert private.requests == []


async def test_nothing_that_a_page_loads_reaches_a_private_network(private: Web) -> None:
    with lure() as site:
        ways = ["fetch", "image", "frame", "beacon", "leave"]
        async with hosted("--allow", "127.0.0.1") as host:
            assert "Connected lure" in await connect(host, f"{site}/")
            for way in ways:
                for url in (f"{private.elsewhere}/{way}", f"/?to={private.elsewhere}/{way}-led"):
                    await host.call("go", way=way, url=url)
                    if way == "leave":
                        await connect(host, f"{site}/")
            told = json.dumps(host.wire.sent("notifications/message"))
    assert private.requests == []
    refused = f"a connection to localhost:{private.port} was refused: localhost is on a private"
    assert refused in told


async def test_of_many_refusals_the_first_are_named_and_the_others_said() -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1") as host:
            await connect(host, f"{site}/")
            for port in range(20_000, 20_000 + MAX_REFUSED + 3):
                await host.call("go", way="fetch", url=f"http://localhost:{port}/")
            told = json.dumps(host.wire.sent("notifications/message"))
    assert told.count("a connection to localhost:") == MAX_REFUSED
    assert told.count(f"more than {MAX_REFUSED} were refused: the others are not named") == 1


async def test_no_socket_of_a_page_reaches_a_private_network(private: Web) -> None:
    with lure() as site, socket(AF_INET, SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        async with hosted("--allow", "127.0.0.1") as host:
            await connect(host, f"{site}/")
            await host.call("go", way="socket", url=f"{private.elsewhere}/socket")
            place = f"http://localhost:{datagrams.getsockname()[1]}"
            assert "gathered" in text(await host.call("go", way="stun", url=place))
            with pytest.raises(BlockingIOError):
                datagrams.recv(1)
    assert private.requests == []


async def test_a_page_that_the_person_named_loads_what_it_likes(private: Web) -> None:
    with lure() as site:
        async with hosted("--app", f"{site}/") as host:
            await host.call("go", way="image", url=f"{private.elsewhere}/image")
    assert private.requests == ["/image"]


async def test_what_is_allowed_by_name_is_loaded(private: Web) -> None:
    with lure() as site:
        async with hosted("--allow", "127.0.0.1", "--allow", "localhost") as host:
            await connect(host, f"{site}/")
            await host.call("go", way="image", url=f"/?to={private.elsewhere}/image")
    assert private.requests == ["/image"]
