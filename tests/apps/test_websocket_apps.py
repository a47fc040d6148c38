"""Apps over a WebSocket: both bindings, and what the user reads when there is none."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import pytest
from support import puppets
from support.harness import RawHost, accept, hosted, text
from support.in_process import open_process
from support.peer import read_lines
from support.tool_pages import Person
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from abp_bridge.apps import websocket
from abp_bridge.apps.targets import make_app
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.network

DEMO = (sys.executable, "-P", "-m", "abp_bridge.apps.demo")
QUESTIONS: dict[str, tuple[Json, Json]] = {
    "elicitation/input": (
        {"prompt": "Who?", "schema": {"type": "string"}},
        {"value": "Ann\nand \u2028 B"},
    ),
    "elicitation/select": ({"prompt": "Tea?", "options": ["tea", "mate"]}, {"selected": "mate"}),
}


@asynccontextmanager
async def at_socket(
    handle: Callable[[ServerConnection], Awaitable[None]], **options: Any
) -> AsyncIterator[str]:
    """A WebSocket server that handles each connection so: its address."""
    async with serve(handle, "127.0.0.1", 0, max_size=2**27, **options) as server:
        scheme = "wss" if "ssl" in options else "ws"
        yield f"{scheme}://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/abp"


@asynccontextmanager
async def program_at_socket(*command: str) -> AsyncIterator[str]:
    """A program that speaks ABP on a pipe, of its own for each connection: the address."""

    async def handle(socket: ServerConnection) -> None:
        async with await open_process(command, env=os.environ) as program:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bring, socket, program)
                try:
                    async for message in socket:
                        assert isinstance(message, str), "a text frame"
                        assert "\n" not in message, "one message a frame"
                        await program.stdin.send(message.encode() + b"\n")
                except ConnectionClosed:
                    pass
                await program.stdin.aclose()
            await program.wait()

    async def bring(socket: ServerConnection, program: Any) -> None:
        try:
            async for line in read_lines(program.stdout):
                await socket.send(line.decode())
        except ConnectionClosed:
            return
        await socket.close()

    async with at_socket(handle) as url:
        yield url


class SocketApp(puppets.App):
    """An app whose every message is the test's, a text frame each."""

    def __init__(self, socket: ServerConnection) -> None:
        super().__init__(socket, socket.send, socket.close)
        self.socket = socket

    async def send(self, **message: Json) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}))


@asynccontextmanager
async def app_at_socket(
    play: Callable[[SocketApp], Awaitable[None]], **options: Any
) -> AsyncIterator[str]:
    """An app that does `play` on each connection: the address."""

    async def handle(socket: ServerConnection) -> None:
        await play(SocketApp(socket))

    async with at_socket(handle, **options) as url:
        yield url


@pytest.mark.parametrize("method", QUESTIONS)
async def test_question_over_a_websocket_is_answered(method: str) -> None:
    params, given = QUESTIONS[method]
    async with (
        program_at_socket(*DEMO) as url,
        hosted("--app", url, answer=accept(**given)) as host,
    ):
        response = await host.ask(method, **params)
    assert (response["success"], response["data"]) == (True, given)


async def test_websocket_message_of_several_lines_is_one() -> None:
    async def play(app: SocketApp) -> None:
        await app.open("work")
        call = await app.next("capabilities/call")
        for odd in ("no JSON", b"\xff\xfe", ""):
            await app.write(odd)
        assert [(await app.next())["error"]["code"] for _ in range(2)] == [-32700, -32700]
        result = {"success": True, "data": "a\nb"}
        answer = {"jsonrpc": "2.0", "id": call["id"], "result": result}
        await app.write(json.dumps(answer, indent=1).replace("\n", "\r\n"))
        await app.next("shutdown")

    async with app_at_socket(play) as url, hosted("--app", url) as host:
        assert text(await host.call("work")) == "a\nb"
        told = [each["data"]["data"]["message"] for each in host.wire.sent("notifications/message")]
    assert len(told) == 2
    assert all(each.startswith("a line of the app's was dropped: Parse error") for each in told)


async def test_an_app_is_told_that_the_session_ends_and_then_left() -> None:
    heard: list[Json] = []

    async def play(app: SocketApp) -> None:
        await app.open()
        asked = await app.next("shutdown")
        await app.send(id=asked["id"], result={})
        heard.extend([asked["params"], await app.next(), app.socket.close_code])

    async with app_at_socket(play) as url, hosted("--app", url) as host:
        await host.client.call_tool("abp_connect", {})
    assert heard == [{"reason": "the session ended"}, None, 1000]


async def test_an_app_that_never_reads_or_closes_holds_nobody_up() -> None:
    flood: Json = {"method": "notifications/state/changed", "params": {"field": "a", "newValue": 1}}
    over = anyio.Event()

    async def handle(connection: ServerConnection) -> None:
        app = SocketApp(connection)
        await app.open("work")
        await app.next("capabilities/call")
        connection.transport.pause_reading()
        await app.send(**flood)
        await over.wait()
        connection.transport.abort()

    async with at_socket(handle) as url:
        async with hosted("--app", url) as host:
            call = {"capability": "work", "timeout": 0.2, "params": {"long": "x" * 2**22}}
            result = await host.client.call_tool("abp_call", call)
            assert text(result).startswith("TIMEOUT")
            assert (await host.status())["apps"]["puppet"]["state"]
        over.set()


# --- how it ends ----------------------------------------------------------------------------------


async def going_away(app: SocketApp) -> None:
    await app.socket.close(1001, "restart")


async def dying(app: SocketApp) -> None:
    app.socket.transport.abort()


async def talking_on(app: SocketApp) -> None:
    await app.write(b"x" * 2**20)
    await app.next("nothing more")


ENDINGS = {
    "going away": (going_away, "received 1001 (going away) restart"),
    "dying": (dying, "no close frame received"),
    "a message without an end": (talking_on, "1009 (message too big)"),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_app_that_ends_during_a_question_is_disconnected(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_LINE", 100_000)
    end, words = ENDINGS[how]
    asked = anyio.Event()

    async def play(app: SocketApp) -> None:
        await app.open("work")
        await app.next("capabilities/call")
        params = {"prompt": "Who?", "schema": {"type": "string"}}
        await app.send(id="q", method="elicitation/input", params=params)
        await asked.wait()
        await end(app)

    async def person(params: Json) -> None:
        asked.set()
        await anyio.sleep_forever()

    async with (
        app_at_socket(play) as url,
        hosted("--app", url, "--app", "demo", answer=person) as h,
    ):
        result = text(await h.call("work"))
        assert result.startswith("DISCONNECTED: The app is gone: the app ended (its WebSocket was")
        assert words in result
        questions = (await h.status())["questions"]
        assert (questions["open"], [each["outcome"] for each in questions["ended"]]) == (
            [],
            ["withdrawn"],
        )
        assert text(await h.call("demo.echo", value="fine")) == "fine"


# --- what is none ---------------------------------------------------------------------------------


async def words_of(url: str, *arguments: str) -> str:
    """What a host hears that connects it."""
    async with hosted("--app", url, *arguments) as host:
        return text(await host.client.call_tool("abp_connect", {}))


def refusing(status: int, body: str = "", **headers: str) -> Any:
    def process(connection: ServerConnection, request: Any) -> Any:
        response = connection.respond(HTTPStatus(status), body)
        for name, value in headers.items():
            response.headers[name] = value
        return response

    return process


async def nothing(connection: ServerConnection) -> None:
    raise AssertionError("it was connected")


REFUSALS = {
    "a reason": (
        refusing(403, "Wrong token.\n"),
        "HTTP 403 and opened no WebSocket (Wrong token.)",
    ),
    "no reason": (refusing(404), "HTTP 404 and opened no WebSocket: check the path, and"),
    "another place": (
        refusing(302, Location="wss://elsewhere.example/abp?token=hunter2"),
        "HTTP 302 and opened no WebSocket: it leads to wss://elsewhere.example/abp, which",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_refused_websocket_is_reported_with_its_reason(case: str) -> None:
    process, words = REFUSALS[case]
    async with at_socket(nothing, process_request=process) as url:
        told = await words_of(url)
    assert told.startswith(f"TRANSPORT_ERROR: {url} answered with ")
    assert words in told
    assert "hunter2" not in told


@asynccontextmanager
async def tcp(handle: Callable[[anyio.abc.SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"ws://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def test_what_speaks_no_http_is_told() -> None:
    async def handle(stream: anyio.abc.SocketStream) -> None:
        await stream.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        await stream.aclose()

    async with tcp(handle) as url:
        told = await words_of(url)
        without_tls = await words_of(url.replace("ws:", "wss:"))
    assert f"speaks plain http there. Try {url}" in without_tls
    assert "cannot be connected: did not receive a valid HTTP response" in told
    assert "that an app serves ABP over a WebSocket there" in told


async def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = await words_of(f"ws://127.0.0.1:{port}/abp?token=hunter2")
    assert told.startswith(f"TRANSPORT_ERROR: ws://127.0.0.1:{port}/abp cannot be connected: ")
    assert "Connect call failed" in told
    assert "hunter2" not in told


async def opened(url: str) -> None:
    async with make_app(url, True, Settings()).open_app(Person()):
        raise AssertionError("it was opened")


async def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "OPEN_LIMIT", 0.2)

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with tcp(handle) as url:
        with pytest.raises(AppError, match=r"opened no WebSocket within 0.2 s: is an app served"):
            await opened(url)


@pytest.mark.parametrize("url", ["ws://", "ws://127.0.0.1:99999/", "wss://[::1", "ws://h/#part"])
async def test_an_address_that_leads_nowhere_is_told(url: str) -> None:
    assert "is no address of a WebSocket, such as wss://" in await words_of(url)


def test_a_model_cannot_connect_a_websocket() -> None:
    with RawHost() as host:
        host.initialize()
        said = host.text(host.begin_call("abp_connect", target="ws://127.0.0.1:1/"))
    assert "PERMISSION_DENIED: Only the person can" in said


# --- who listens ----------------------------------------------------------------------------------


async def test_who_is_reached_in_plain_text_elsewhere_is_said() -> None:
    async with program_at_socket(*DEMO) as url:
        far = url.replace("127.0.0.1", "0.0.0.0")  # which is no address of this machine's alone
        async with hosted("--app", far) as host:
            await host.client.call_tool("abp_connect", {})
            (warning,) = (await host.status())["apps"]["demo"]["warnings"]
    assert warning.startswith(f"{far} is not encrypted: who is on the way reads")


@pytest.mark.parametrize(
    ("url", "risky"),
    [
        ("ws://localhost:80/", False),
        ("ws://[::1]/", False),
        ("ws://127.9.9.9/", False),
        ("wss://app.example/", False),
        ("WSS://app.example/", False),
        ("ws://localhost.example/", True),
        ("ws://192.168.1.5:3000/?token=1", True),
    ],
)
def test_plain_text_is_no_risk_on_this_machine(url: str, risky: bool) -> None:
    risks = websocket.find_risks(url)
    assert bool(risks) == risky
    assert "token" not in "".join(risks)


async def test_an_app_over_tls_is_checked(tmp_path: Path) -> None:
    certificate = certify(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def play(app: SocketApp) -> None:
        await app.open("work")
        await app.next("shutdown")

    async with app_at_socket(play, ssl=context) as url:
        assert "CERTIFICATE_VERIFY_FAILED" in await words_of(url)
        async with hosted("--app", url, env={"SSL_CERT_FILE": str(certificate)}) as host:
            said = text(await host.client.call_tool("abp_connect", {}))
    assert said.startswith("Connected puppet")


def certify(folder: Path) -> Path:
    """Make a certificate of this machine's own, with its key."""
    file = folder / "here.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run([*made.split(), *names], check=True, stderr=subprocess.DEVNULL)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


async def test_secrets_in_an_address_are_shown_to_nobody() -> None:
    async with program_at_socket(*DEMO) as url:
        secret = url.replace("//", "//user:hunter2@") + "?token=hunter2"
        async with hosted("--app", secret, answer=accept(value="x")) as host:
            await host.ask("elicitation/input", prompt="Who?", schema={"type": "string"})
            status = await host.status()
        assert "hunter2" not in json.dumps(host.wire.lines)
        assert status["apps"]["demo"]["origin"] == url
