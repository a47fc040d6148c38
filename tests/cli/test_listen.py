"""`abp-bridge serve --listen`: ABP agents over a WebSocket and on its page, and who is let in."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import anyio.lowlevel
import pytest
from playwright.async_api import Browser, Page
from support.harness import PATIENCE, accept, hosted, leave, refuse, run, text
from support.http_server import Reply, serving
from support.in_process import PipeThread
from support.listening import Listening, listening
from support.puppets import puppets, scripted
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

Json = Any

pytestmark = pytest.mark.network

HELLO: Json = {
    "agent": {"name": "test agent", "version": "1"},
    "protocolVersion": "0.1",
    "features": {"notifications": True, "progress": True, "elicitation": True},
}
TEXT: Json = {"prompt": "Who?", "schema": {"type": "string"}}
SELECT: Json = {"prompt": "Tea?", "options": ["tea", "mate"]}
CONFIRM: Json = {"message": "Go on?"}
SECRET: Json = {"prompt": "Password?", "schema": {"type": "string", "format": "password"}}

# (what the app asks, what the user does, what the app gets)
ASKED: dict[str, tuple[str, Json, Any, Json]] = {
    "input": ("elicitation/input", TEXT, accept(value="Ann"), {"value": "Ann"}),
    "select": ("elicitation/select", SELECT, accept(selected="mate"), {"selected": "mate"}),
    "destructive": (
        "elicitation/confirm",
        {**CONFIRM, "destructive": True},
        accept(confirmed=True),
        {"confirmed": True},
    ),
    "secret": ("elicitation/input", SECRET, accept(value="hunter2"), "NOT_SUPPORTED"),
    "declined": ("elicitation/select", SELECT, refuse("decline"), "USER_CANCELLED"),
    "no answer": ("elicitation/input", TEXT, lambda params: None, "TIMEOUT"),
}


async def ask_through(target: str, *cases: str, version: str | None = None) -> None:
    """A host whose app is at `target`, where the demo asks one after the other."""
    case = ""

    def person(params: Json) -> Any:
        return ASKED[case][2](params)

    wrong: dict[str, Json] = {}
    async with hosted("--app", target, answer=person, version=version) as host:
        for case in cases:
            method, params, _, got = ASKED[case]
            timeout = 100 if got == "TIMEOUT" else None
            response = await host.ask(method, timeout=timeout, **params)
            code = response.get("error", {}).get("code")
            if (code or (response["success"], response["data"])) not in (got, (True, got)):
                wrong[case] = response
    assert wrong == {}


@pytest.fixture(scope="module")
def demo() -> Iterator[Listening]:
    with listening("--app", "demo") as running:
        yield running


# --- over a WebSocket -----------------------------------------------------------------------------


async def test_listen_socket_is_an_app_of_another_bridge(demo: Listening) -> None:
    await ask_through(demo.socket, *ASKED)


def teller(folder: Path) -> str:
    """An app that tells of its state, of its progress and of a capability more."""
    tell: Json = [
        {"tell": "notifications/state/changed", "params": {"field": "mood", "newValue": "fine"}},
        {"tell": "notifications/progress", "params": {"progress": 1, "total": 2, "status": "Half"}},
        {"grow": "more"},
        {"return": "done"},
    ]
    script = {"app": {"id": "teller", "name": "T"}, "capabilities": [{"name": "t", "steps": tell}]}
    (folder / "script.json").write_text(json.dumps(script))
    return scripted(folder / "script.json")


async def test_listen_socket_passes_notifications(tmp_path: Path) -> None:
    heard: list[tuple[float, Any]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    with listening("--app", teller(tmp_path)) as running:
        async with hosted("--app", running.socket) as host:
            call = {"capability": "t", "params": {}}
            done = await host.client.call_tool("abp_call", call, progress_callback=on_progress)
            assert text(done) == "done"
            (app,) = (await host.status())["apps"].values()
    assert app["state"]
    assert any("Half" in str(words) for _, words in heard)


class Agent:
    """An agent at the WebSocket that says what a test says."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._ids = iter(range(1, 10_000))

    async def send(self, **message: Json) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def begin(self, method: str, params: Json) -> int:
        id = next(self._ids)
        await self.send(id=id, method=method, params=params)
        return id

    async def next(self) -> Json:
        with anyio.fail_after(PATIENCE):
            return json.loads(await self.socket.recv())

    async def result(self, id: int) -> Json:
        """The result of the request `id`; what comes before it is not looked at."""
        while True:
            message = await self.next()
            if message.get("id") == id and "method" not in message:
                return message.get("result", message.get("error"))

    async def request(self, method: str, params: Json) -> Json:
        return await self.result(await self.begin(method, params))


@asynccontextmanager
async def agent(url: str, **options: Any) -> AsyncIterator[Agent]:
    async with connect(url, **{"max_size": 2**27, **options}) as socket:
        yield Agent(socket)


async def test_listen_serves_each_connection_as_a_session(tmp_path: Path) -> None:
    async with puppets(tmp_path) as apps:
        with listening("--app", apps.target) as running:
            async with agent(running.socket) as first, agent(running.socket) as second:
                opening = [await each.begin("initialize", HELLO) for each in (first, second)]
                served = [await apps.app(), await apps.app()]
                for app in served:
                    await app.open("work")
                for each, id in zip((first, second), opening, strict=True):
                    assert [c["name"] for c in (await each.result(id))["capabilities"]] == ["work"]
                await first.socket.close()
                gone = 0
                async with anyio.create_task_group() as tasks:

                    async def wait_end(app: Any) -> None:
                        nonlocal gone
                        assert (await app.next("shutdown")) is not None
                        gone += 1
                        tasks.cancel_scope.cancel()

                    for app in served:
                        tasks.start_soon(wait_end, app)
                assert gone == 1
                assert await second.request("capabilities/list", {})


async def test_listen_continues_after_an_invalid_message(demo: Listening) -> None:
    async with agent(demo.socket) as odd:
        await odd.socket.send("no JSON")
        await odd.socket.send(b"{}")
        assert (await odd.next())["error"]["code"] == -32700
        assert (await odd.next())["error"]["code"] == -32600
        await odd.socket.send("x" * (17 * 2**20))
        assert "longer than" in (await odd.next())["error"]["message"]
        assert (await odd.request("initialize", HELLO))["sessionId"]
        with pytest.raises(ConnectionClosed):
            await odd.request("capabilities/list", {"long": "x" * (65 * 2**20)})
        assert odd.socket.close_code == 1009
    async with agent(demo.socket) as other:
        assert (await other.request("initialize", HELLO))["sessionId"]


# --- who is let in --------------------------------------------------------------------------------


def replaced(url: str, token: str) -> str:
    return f"{url.partition('token=')[0]}token={token}"


async def test_listen_rejects_a_long_handshake(demo: Listening) -> None:
    with pytest.raises(InvalidMessage):
        await agent(replaced(demo.socket, "x" * 9_000)).__aenter__()


@pytest.mark.parametrize("token", ["", "wrong", "%00", "%C3%A9", "x" * 900])
async def test_a_wrong_token_lets_nobody_in(demo: Listening, token: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await agent(replaced(demo.socket, token)).__aenter__()
    assert refused.value.response.status_code == 403
    assert b"The token in the address is wrong" in (refused.value.response.body or b"")


async def test_wrong_token_is_reported_to_the_host(demo: Listening) -> None:
    async with hosted("--app", replaced(demo.socket, "hunter2")) as host:
        said = text(await host.client.call_tool("abp_connect", {}))
    assert "HTTP 403 and opened no WebSocket (The token in the address is wrong" in said
    assert "hunter2" not in said


ORIGINS = {
    "none, as a program has": (None, True),
    "its own": ("{own}", True),
    "one that was named": ("https://agent.example", True),
    "another": ("https://evil.example", False),
    "another port": ("http://127.0.0.1:1", False),
    "its own without encryption": ("https://{host}", False),
    "one that begins so": ("https://agent.example.evil.example", False),
    "a frame without one": ("null", False),
}


@pytest.fixture(scope="module")
def named() -> Iterator[Listening]:
    with listening("--app", "demo", "--listen-origin", "https://agent.example") as running:
        yield running


@pytest.mark.parametrize("case", ORIGINS)
async def test_a_page_of_another_site_is_not_let_in(named: Listening, case: str) -> None:
    origin, is_let_in = ORIGINS[case]
    host = named.origin.removeprefix("http://")
    given = None if origin is None else origin.format(own=named.origin, host=host)
    visitors = agent(named.socket, origin=given)
    if is_let_in:
        async with visitors as visitor:
            assert (await visitor.request("initialize", HELLO))["sessionId"]
        return
    with pytest.raises(InvalidStatus) as refused:
        await visitors.__aenter__()
    assert refused.value.response.status_code == 403


def fetch(url: str, **headers: str) -> tuple[int, str, Any]:
    try:
        with urlopen(Request(url, headers=headers), timeout=PATIENCE) as response:
            return response.status, response.read().decode(), response.headers
    except HTTPError as refused:
        return refused.code, refused.read().decode(), refused.headers


@pytest.mark.parametrize("path", ["", "abp.js", "abp.json"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ],
)
def test_listen_page_rejects_other_hosts_and_origins(
    demo: Listening, path: str, headers: dict[str, str], status: int
) -> None:
    got, body, said = fetch(f"{demo.origin}/{path}", **headers)
    assert got == status
    assert said["Cache-Control"] == "no-store"
    assert "script-src 'self'" in said["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in said["Content-Security-Policy"]
    assert demo.page.partition("token=")[2] not in body


async def test_listen_socket_rejects_other_hosts(demo: Listening) -> None:
    host, _, port = demo.origin.removeprefix("http://").partition(":")
    evil = demo.socket.replace(host, "evil.example")
    with pytest.raises(InvalidStatus) as refused:
        await agent(evil, host=host, port=int(port)).__aenter__()
    assert refused.value.response.status_code == 421


def test_listen_manifest_does_not_name_its_apps(demo: Listening) -> None:
    _, body, headers = fetch(f"{demo.origin}/abp.json")
    manifest = json.loads(body)
    assert headers["Content-Type"] == "application/json"
    assert (manifest["abp"], manifest["app"]["id"]) == ("0.1", "abp-bridge")
    assert "demo" not in body


async def test_who_connects_and_asks_nothing_keeps_no_agent_out(demo: Listening) -> None:
    host, _, port = demo.origin.removeprefix("http://").partition(":")
    with ExitStack() as idle:
        for _ in range(200):
            stream = idle.enter_context(socket.create_connection((host, int(port))))
            stream.sendall(b"GET /abp?token=x HTTP/1.1\r\nUpgrade: websocket\r\n")
        async with agent(demo.socket) as visitor:
            assert (await visitor.request("initialize", HELLO))["sessionId"]


async def test_listen_serves_at_most_16_agents() -> None:
    with listening("--app", "demo") as demo:  # nobody else's agents are still on their way out
        async with AsyncExitStack() as agents:
            for _ in range(16):
                await agents.enter_async_context(agent(demo.socket))
            with pytest.raises(InvalidStatus) as refused:
                await agents.enter_async_context(agent(demo.socket))
            assert refused.value.response.status_code == 503
        opened = None
        while opened is None:
            with suppress(InvalidStatus):  # those have not all left yet
                async with agent(demo.socket) as again:
                    opened = await again.request("initialize", HELLO)
        assert opened["sessionId"]


# --- how it is started, and how it ends -----------------------------------------------------------

# (the address to listen at, the origins, the error)
WRONG = {
    "another machine": ("0.0.0.0:80", (), "it is served to this machine only"),
    "every machine": ("[::]:80", (), "it must be 127.0.0.1:PORT or localhost:PORT"),
    "no host": ("8000", (), "it must be 127.0.0.1:PORT or localhost:PORT"),
    "no port": ("localhost:abp", (), "from 0 (any that is free) to 65535"),
    "any origin": ("localhost:0", ("*",), "--listen-origin '*' is no origin"),
    "no origin": ("localhost:0", ("null",), "--listen-origin 'null' is no origin"),
    "a path": ("localhost:0", ("https://a.example/",), "'https://a.example/' is no origin"),
}


@pytest.mark.parametrize("case", WRONG)
def test_listen_rejects_other_machines_and_invalid_origins(case: str) -> None:
    address, origins, words = WRONG[case]
    done = run("serve", "--listen", address, *(w for o in origins for w in ("--listen-origin", o)))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_listen_rejects_a_port_in_use(demo: Listening) -> None:
    taken = demo.origin.removeprefix("http://")
    done = run("serve", "--listen", taken)
    assert done.returncode == 2
    assert "end what uses it, or give another port to --listen" in done.stderr


def test_listen_options_that_conflict_are_rejected(tmp_path: Path) -> None:
    alone = run("serve", "--listen-origin", "https://a.example")
    assert "--listen-origin says who may connect to --listen" in alone.stderr
    recorded = run("serve", "--listen", "localhost:0", "--record", str(tmp_path / "trace"))
    assert "--record writes down one conversation, and --listen has many" in recorded.stderr
    assert (alone.returncode, recorded.returncode) == (2, 2)


async def test_listen_serves_its_stdin_too() -> None:
    async with hosted("--app", "demo", "--listen", "localhost:0", answer=accept(value="x")) as host:
        assert (await host.ask("elicitation/input", **TEXT))["data"] == {"value": "x"}


@pytest.mark.process
@pytest.mark.parametrize("how", ["stdin", "signal"])
async def test_listen_shuts_the_apps_of_its_agents_down(tmp_path: Path, how: str) -> None:
    async with puppets(tmp_path) as apps:
        with listening("--app", apps.target) as running:
            async with agent(running.socket) as visitor:
                opening = await visitor.begin("initialize", HELLO)
                app = await apps.app()
                await app.open("work")
                await visitor.result(opening)
                assert not isinstance(running.process, PipeThread)
                if how == "signal":
                    running.process.send_signal(signal.SIGTERM)
                else:
                    assert running.process.stdin is not None
                    running.process.stdin.close()
                asked = await app.next("shutdown")
                await app.send(id=asked["id"], result={})
                with pytest.raises(ConnectionClosed):
                    await visitor.result(0)
            assert await anyio.to_thread.run_sync(running.process.wait, PATIENCE) == 0


# --- as a page, in Chromium -----------------------------------------------------------------------


@pytest.mark.browser
async def test_listen_page_is_an_app_of_another_bridge(demo: Listening) -> None:
    await ask_through(demo.page, *ASKED)


@asynccontextmanager
async def tab(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context()
    try:
        with anyio.fail_after(PATIENCE):
            yield await context.new_page()
    finally:
        await leave(context)


ACCEPT = {"success": True, "data": {"selected": "mate"}}
FIRST = "async (hello) => await window.abp.initialize(hello)"
LAST = """async ([name, params, options]) => {
    await window.abp.shutdown({ reason: 'done' });
    return await window.abp.call(name, params, options);
}"""
CALL = """async ([name, params, options]) => await window.abp.call(name, params, options)"""


async def test_listen_page_works_as_the_abp_documents_say(
    demo: Listening, browser: Browser
) -> None:
    """As its guide has it: the manifest by the page's head; then the functions are exposed, the
    page is opened, and `window.abp` is used.
    """
    _, head, _ = fetch(demo.page)
    assert '<link rel="abp-manifest" href="/abp.json">' in head
    asked: list[Json] = []

    async def elicit(request: Json) -> Json:
        asked.append(request)
        return ACCEPT

    async with tab(browser) as page:
        await page.expose_function("__abp_elicitation", elicit)
        await page.goto(demo.page)
        await page.wait_for_function("() => window.abp")
        opened = await page.evaluate(FIRST, HELLO)
        assert (opened["app"]["id"], opened["features"]["elicitation"]) == ("demo", True)
        listed = await page.evaluate("async () => await window.abp.listCapabilities()")
        assert "demo.ask" in [each["name"] for each in listed]
        request = {"method": "elicitation/select", "params": SELECT, "timeout": 9_000}
        options = {"callId": "c-1", "progressToken": "p-1"}
        done = await page.evaluate(CALL, ["demo.ask", {"request": request}, options])
        assert (done["success"], done["data"]["data"]) == (True, {"selected": "mate"})
        (question,) = asked
        assert question["method"] == "elicitation/select"
        assert "Tea?" in question["params"]["prompt"]
        assert await page.inner_text("#state") == "Connected to test agent."
        unknown = await page.evaluate(CALL, ["demo.nothing", {}, {}])
        assert (unknown["success"], unknown["error"]["code"]) == (False, "UNKNOWN_CAPABILITY")
        cancelled = await page.evaluate("async () => await window.abp.cancel('c-9', 'enough')")
        assert (cancelled["callId"], cancelled["cancelled"]) == ("c-9", False)
        after = await page.evaluate(LAST, ["demo.echo", {}, {}])
        assert after["error"]["code"] == "NOT_INITIALIZED"
        assert await page.inner_text("#state") == "No agent is connected."


@pytest.mark.parametrize("hears", ["__abp_notification", "__abp_capabilities_changed"])
async def test_listen_page_calls_the_hooks_of_notifications(
    tmp_path: Path, browser: Browser, hears: str
) -> None:
    send, receive = anyio.create_memory_object_stream[Json](100)
    heard: list[Json] = []
    wanted = 3 if "notif" in hears else 2  # with the progress

    with send, receive, listening("--app", teller(tmp_path)) as running:
        async with tab(browser) as page:
            await page.expose_function(hears, send.send)
            await page.expose_function("__abp_progress", send.send)
            await page.goto(running.page)
            await page.evaluate(FIRST, HELLO)
            await page.evaluate(CALL, ["t", {}, {"callId": "c", "progressToken": "p"}])
            with anyio.fail_after(PATIENCE):
                while len(heard) < wanted:
                    heard.append(await receive.receive())
    (report,) = [each for each in heard if "progress" in each]
    assert (report["progress"], report["total"], report["status"]) == (1, 2, "Half")
    events = {each.get("event", ""): each.get("data", each) for each in heard if each != report}
    changes = events["notifications/capabilities/list_changed" if "notif" in hears else ""]
    assert changes["added"] == ["more"]
    if "notif" in hears:
        mood = events["notifications/state/changed"]
        assert (mood["field"], mood["newValue"]) == ("mood", "fine")


THROWN = "throw new Error('no')"
HOOKS = {
    "a property": ("window.abp.onElicitation = (request) => answer(request)", ""),
    "the bridge's name": ("window.__abpOnElicitation = (request) => answer(request)", ""),
    "none": ("", "NOT_SUPPORTED"),
    "throws": (f"window.__abp_elicitation = () => {{ {THROWN} }}", "ELICITATION_FAILED"),
    "no answer": ("window.__abp_elicitation = () => undefined", "ELICITATION_FAILED"),
}


async def test_listen_page_asks_by_each_hook_of_an_agent(demo: Listening, browser: Browser) -> None:
    got = {}
    async with tab(browser) as page:
        for name, (script, _) in HOOKS.items():
            await page.goto(demo.page)
            await page.evaluate(f"() => {{ window.answer = () => ({json.dumps(ACCEPT)}) }}")
            await page.evaluate(f"() => {{ {script} }}")
            await page.evaluate(FIRST, HELLO)
            request = {"method": "elicitation/select", "params": SELECT}
            done = await page.evaluate(CALL, ["demo.ask", {"request": request}, {}])
            got[name] = (done["data"].get("error") or {}).get("code", "")
            assert done["data"]["success"] is not bool(got[name])
    assert got == {name: code for name, (_, code) in HOOKS.items()}


async def test_listen_page_aborts_the_signal_of_a_withdrawn_question(
    demo: Listening, browser: Browser
) -> None:
    async with tab(browser) as page:
        await page.goto(demo.page)
        await page.evaluate(
            "() => { window.withdrawn = new Promise((resolve) => {"
            " window.__abp_elicitation = ({ signal }) => new Promise(() =>"
            " signal.addEventListener('abort', () => resolve(true))) }) }"
        )
        await page.evaluate(FIRST, HELLO)
        request = {"method": "elicitation/select", "params": SELECT, "timeout": 200}
        done = await page.evaluate(CALL, ["demo.ask", {"request": request}, {}])
        assert done["data"]["error"]["code"] == "TIMEOUT"
        assert await page.evaluate("() => window.withdrawn")


async def test_listen_page_without_a_token_says_where_it_is(
    demo: Listening, browser: Browser
) -> None:
    async with tab(browser) as page:
        await page.goto(f"{demo.origin}/")
        words = await page.evaluate("(h) => window.abp.initialize(h).catch(String)", HELLO)
    assert "this page needs the whole address that it wrote to its stderr" in words


PARENT = """<!doctype html><title>An agent</title><body><script>
window.heard = [];
const waiting = new Map();
let frame;
addEventListener('message', ({ source, origin, data }) => {
  if (source !== frame.contentWindow || origin !== ORIGIN) return;
  heard.push(data);
  if (data.type === 'elicitation/request') {
    const payload = { success: true, data: { selected: 'mate' } };
    say({ type: 'elicitation/response', id: data.id, payload });
  }
  waiting.get(data.id)?.(data.payload);
});
const say = (message) => frame.contentWindow.postMessage(message, ORIGIN);
window.ask = (type, payload) => new Promise((resolve) => {
  const id = crypto.randomUUID();
  waiting.set(id, resolve);
  say({ type, id, timestamp: Date.now(), payload });
});
window.show = (url) => new Promise((resolve) => {
  frame = document.createElement('iframe');
  frame.addEventListener('load', () => resolve(true));
  frame.src = url;
  document.body.append(frame);
});
</script>"""


@asynccontextmanager
async def embedding(
    browser: Browser, *, named: bool = True
) -> AsyncIterator[tuple[Page, Listening, list[Any]]]:
    """A page of another site, which shows a bridge's page, and whether that lets it in."""
    html = [""]
    with serving(lambda request: Reply(html[0].encode(), "text/html")) as site:
        allowed = site if named else "https://agent.example"
        with listening("--app", "demo", "--listen-origin", allowed) as running:
            html[0] = PARENT.replace("ORIGIN", json.dumps(running.origin))
            async with tab(browser) as page:
                await page.goto(site)
                await page.evaluate("(url) => show(url)", running.page)
                yield page, running, html


async def test_listen_page_can_be_framed_by_a_named_origin(browser: Browser) -> None:
    async with embedding(browser) as (page, _, _):
        opened = await page.evaluate("(hello) => ask('initialize', hello)", HELLO)
        assert opened["app"]["id"] == "demo"
        request = {"method": "elicitation/select", "params": SELECT}
        call = {"capability": "demo.ask", "params": {"request": request}}
        done = await page.evaluate("(call) => ask('capabilities/call', call)", call)
        assert done["data"]["data"] == {"selected": "mate"}
        asked = await page.evaluate("() => heard.filter((m) => m.type === 'elicitation/request')")
        assert [each["payload"]["method"] for each in asked] == ["elicitation/select"]


async def test_a_page_that_was_not_named_has_no_frame_of_it(browser: Browser) -> None:
    async with embedding(browser, named=False) as (page, running, _):
        assert [each.url for each in page.frames if each.url.startswith(running.origin)] == []


async def test_another_frame_says_nothing_to_it(browser: Browser) -> None:
    """Who is no parent of it, though of a site that was named, is not heard."""
    async with embedding(browser) as (page, running, html):
        html[0] = f"""<script>
          const say = () => parent.frames[0].postMessage(
            {{ type: 'initialize', id: 'evil', payload: {json.dumps(HELLO)} }}, '*');
          addEventListener('message', ({{ data }}) => parent.postMessage({{ stolen: data }}, '*'));
          say();
        </script>"""
        await page.evaluate(
            "(url) => new Promise((resolve) => { const evil = document.createElement('iframe');"
            " evil.onload = () => resolve(); evil.src = url; document.body.append(evil); })",
            page.url,
        )
        opened = await page.evaluate("(hello) => ask('initialize', hello)", HELLO)
        assert opened["app"]["id"] == "demo"
        assert "evil" not in await page.evaluate("() => heard.map((each) => each.id)")
        assert (await fetch_agents(running)) == 1


async def fetch_agents(running: Listening) -> int:
    """How many agents are connected there: so many less are let in."""
    free = 0
    async with AsyncExitStack() as agents:
        while True:
            try:
                await agents.enter_async_context(agent(running.socket))
            except InvalidStatus:
                return 16 - free
            free += 1
