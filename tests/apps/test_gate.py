"""The proxy through which a page that nobody named gets to the network, spoken to as a browser
does and as none does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream
from support.http_server import Reply, serving

from abp_bridge.apps.browser.fetch import Guard
from abp_bridge.apps.browser.gate import open_gate
from abp_bridge.session.app import AppError

pytestmark = pytest.mark.anyio

GREETING = b"\x05\x01\x00"
Refusals = list[tuple[str, int, str]]


@asynccontextmanager
async def gate(*named: str, refusals: Refusals | None = None) -> AsyncIterator[int]:
    def on_refusal(host: str, port: int, problem: AppError) -> None:
        if refusals is not None:
            refusals.append((host, port, problem.code))

    with anyio.fail_after(20):
        async with open_gate(Guard(named), on_refusal) as address:
            scheme, _, port = address.rpartition(":")
            assert scheme == "socks5://127.0.0.1"
            yield int(port)


async def read_all(stream: SocketStream) -> bytes:
    return b"".join([data async for data in stream])


def request(host: bytes, port: int) -> bytes:
    return b"\x05\x01\x00\x03" + bytes([len(host)]) + host + port.to_bytes(2)


async def ask(port: int, wanted: bytes) -> tuple[SocketStream, int]:
    """A connection past its greeting, and the code that its request is answered with."""
    browser = await anyio.connect_tcp("127.0.0.1", port)
    await browser.send(GREETING)
    assert await browser.receive(2) == b"\x05\x00"
    await browser.send(wanted)
    return browser, (await browser.receive(10))[1]


@pytest.mark.parametrize("kind", ["name", "IPv4"])
async def test_what_is_allowed_is_relayed_whole(kind: str) -> None:
    body = bytes(range(256)) * 8192
    with serving(lambda asked: Reply(body + asked.body)) as site:
        place = int(site.rpartition(":")[2])
        wanted = {
            "name": request(b"127.0.0.1", place),
            "IPv4": b"\x05\x01\x00\x01\x7f\x00\x00\x01" + place.to_bytes(2),
        }
        async with gate("127.0.0.1") as port:
            browser, code = await ask(port, wanted[kind])
            async with browser:
                assert code == 0
                await browser.send(b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
                assert (await read_all(browser)).endswith(body + b"hello")


@pytest.mark.parametrize(
    ("wanted", "code", "refused"),
    [
        (request(b"localhost", 9), 2, ("localhost", 9, "PERMISSION_DENIED")),
        (
            b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x09",
            2,
            ("::1", 9, "PERMISSION_DENIED"),
        ),
        (request(b"no-such-host.invalid", 80), 4, ("no-such-host.invalid", 80, "TRANSPORT_ERROR")),
        (request(b"a\0b", 80), 4, ("a\0b", 80, "TRANSPORT_ERROR")),
        (request(b"127.0.0.1", 1), 4, ("127.0.0.1", 1, "TRANSPORT_ERROR")),
    ],
    ids=["private", "private IPv6", "no such host", "no host at all", "nobody listens"],
)
async def test_what_is_not_reached_is_answered_and_told(
    wanted: bytes, code: int, refused: tuple[str, int, str]
) -> None:
    refusals: Refusals = []
    async with gate("127.0.0.1", refusals=refusals) as port:
        browser, answered = await ask(port, wanted)
        async with browser:
            assert answered == code
            assert await read_all(browser) == b""
    assert refusals == [refused]


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x05\x01\x02",
        GREETING + b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
        GREETING + b"\x05\x01\x00\x09\x00\x50",
        GREETING + b"\x05\x01\x00\x03\x01\xff\x00\x50",
        b"\x05",
    ],
    ids=["http", "authentication", "BIND", "kind", "no ASCII", "cut"],
)
async def test_who_speaks_otherwise_is_let_go(said: bytes) -> None:
    refusals: Refusals = []
    async with gate("127.0.0.1", refusals=refusals) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as browser:
            await browser.send(said)
            await browser.send_eof()
            try:
                answered = await read_all(browser)
            except anyio.BrokenResourceError:
                answered = b""
        assert answered[:2] in (b"", b"\x05\x00")
        assert b"\x05\x00\x00\x01" not in answered
        browser, code = await ask(port, request(b"localhost", 9))  # others are served as before
        await browser.aclose()
    assert code == 2
    assert [host for host, *_ in refusals] == ["localhost"]


async def test_its_connections_end_with_it() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        place = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with gate("127.0.0.1") as port:
            browser, code = await ask(port, request(b"127.0.0.1", place))
        async with browser:
            assert code == 0
            with anyio.fail_after(20):
                assert await read_all(browser) == b""
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.1", port)
