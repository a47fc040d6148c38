"""Fetching a page and its manifest: which addresses are reached, and what errors say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import anyio
import httpcore2
import pytest
from support.harness import hosted, text
from support.pages.server import Web, manifest, web

from abp_bridge.apps.browser import fetch as fetching
from abp_bridge.apps.browser.fetch import Guard, Manifest, discover, is_public, site, split
from abp_bridge.apps.targets import make_app
from abp_bridge.core.redact.command import show_target
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

HERE = Guard(["127.0.0.1"])
PATIENCE = 15.0


@pytest.fixture(scope="module")
def running() -> Iterator[Web]:
    with web() as server:
        yield server


async def found(address: str, guard: Guard = HERE) -> Manifest:
    with anyio.fail_after(PATIENCE):
        return await discover(address, guard)


async def problem(address: str, guard: Guard = HERE) -> AppError:
    with pytest.raises(AppError) as caught:
        await found(address, guard)
    return caught.value


def head(running: Web, html: str) -> str:
    return f"{running.here}/head?html={quote(html)}"


def linking(running: Web, body: str) -> str:
    """A page whose manifest is `body`."""
    return head(running, f'<link rel="abp-manifest" href="/json?body={quote(body)}">')


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize(
    "html",
    [
        '<head><link rel="abp-manifest" href="/abp.json"></head>',
        "<LINK HREF=abp.json REL=ABP-Manifest>",
        '<link href="abp.json" rel="alternate abp-manifest other"/>',
        (
            '<!-- <link rel="abp-manifest" href="/no.json"> --><link rel="abp-manifest"'
            ' href="/abp.json">'
        ),
        (
            '<script>"<link rel=abp-manifest href=/no.json>"</script><link rel="abp-manifest"'
            ' href="/abp.json">'
        ),
        '<base href="/deeper/"><link rel="abp-manifest" href="../abp.json">',
        (
            '<link rel="stylesheet" href="/no.css"><title>&lt;</title>\n<link rel="abp-manifest"'
            ' href=" /abp.json ">'
        ),
    ],
)
async def test_the_first_manifest_link_of_the_head_is_followed(running: Web, html: str) -> None:
    assert [each.name for each in (await found(head(running, html))).capabilities] == ["run"]


@pytest.mark.network
@pytest.mark.parametrize("charset", ["utf-8", "zlib", "undefined", "no-such"])
async def test_a_page_in_whatever_encoding_is_read(running: Web, charset: str) -> None:
    page = head(running, '<link rel="abp-manifest" href="/abp.json">')
    kind = quote(f"text/html; charset={charset}")
    assert (await found(f"{page}&type={kind}")).capabilities


@pytest.mark.network
@pytest.mark.parametrize(
    "path",
    ["/redirect?to=http://[::1", f"/head?html={quote('<link rel=abp-manifest href=http://[x>')}"],
    ids=["a redirect", "a link"],
)
async def test_an_address_that_cannot_be_read_is_the_pages_fault(running: Web, path: str) -> None:
    async with hosted("--app", f"{running.here}{path}") as host:
        for _ in range(2):
            result = await host.client.call_tool("abp_connect", {})
            assert "is no web address: its host or its port cannot be read" in text(result)


@pytest.mark.network
@pytest.mark.parametrize(
    "html",
    [
        "<title>nothing</title>",
        '<head></head><link rel="abp-manifest" href="/abp.json">',
        '<body><link rel="abp-manifest" href="/abp.json">',
        '<link rel="abp-manifests" href="/abp.json">',
        '<link rel="abp-manifest">',
        '<![if odd><link rel="abp-manifest" href="/abp.json">',
    ],
)
async def test_a_head_without_a_manifest_link_is_named_so(running: Web, html: str) -> None:
    assert str(await problem(head(running, html))).startswith(
        'No <link rel="abp-manifest"> found in page head'
    )


@pytest.mark.network
async def test_a_link_beyond_the_first_50000_characters_is_not_looked_for(running: Web) -> None:
    page = head(running, '<link rel="abp-manifest" href="/abp.json">')
    assert (await found(f"{page}&pad=49000")).capabilities
    for pad in (50_000, 5_000_000):
        assert str(await problem(f"{page}&pad={pad}")).startswith("No <link")


@pytest.mark.network
async def test_a_page_that_is_not_there_says_what_its_server_said(running: Web) -> None:
    missing = f"{running.here}/no-such-page"
    assert (
        str(await problem(f"{missing}?key=1")) == f"Failed to fetch app page: HTTP 404 at {missing}"
    )


@pytest.mark.network
async def test_a_server_that_is_not_there_is_named_so() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
    said = str(await problem(f"http://127.0.0.1:{port}/"))
    assert said.startswith(f"Failed to fetch app page: http://127.0.0.1:{port}/: ")
    assert "Is its server running?" in said


@pytest.mark.network
async def test_a_server_without_tls_is_said_to_have_none(running: Web) -> None:
    address = f"{running.here}/".replace("http:", "https:")
    assert str(await problem(address)) == (
        f"Failed to fetch app page: {address} speaks plain http there. Try {running.here}/"
    )


async def test_a_host_that_is_not_there_is_named_so() -> None:
    assert (
        str(await problem("http://no-such-host.invalid/"))
        == "Failed to fetch app page: http://no-such-host.invalid/: there is no host"
        " 'no-such-host.invalid'"
    )


@pytest.mark.network
async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abp_bridge.apps.browser.fetch.TIME_LIMIT", 0.2)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        said = await problem(f"http://127.0.0.1:{port}/")
    assert str(said) == (
        f"Failed to fetch app page: http://127.0.0.1:{port}/ was not done within 0.2 s"
    )
    assert said.code == "TIMEOUT"


@pytest.mark.network
async def test_a_compressed_answer_that_nobody_asked_for_is_refused(running: Web) -> None:
    assert "compressed" in str(await problem(f"{running.here}/gzip"))


# --- redirects ------------------------------------------------------------------------------------


@pytest.mark.network
async def test_redirects_are_followed_to_where_the_page_is(running: Web) -> None:
    there = await found(f"{running.here}/redirect?to=/redirect%3Fto%3D/workshop.html")
    assert there.url == f"{running.here}/workshop.html"


@pytest.mark.network
async def test_redirects_in_a_circle_end(running: Web) -> None:
    before = len(running.requests)
    assert (
        str(await problem(f"{running.here}/loop"))
        == f"Failed to fetch app page: {running.here}/loop has more than 5 redirects"
    )
    assert len(running.requests) - before == 6


@pytest.mark.network
@pytest.mark.parametrize(
    "to",
    [
        "http://localhost:{port}/workshop.html",
        "http://[::1]:{port}/",
        "http://169.254.169.254/latest/",
    ],
)
async def test_redirect_to_an_unnamed_private_host_is_refused(running: Web, to: str) -> None:
    said = await problem(f"{running.here}/redirect?to={to.format(port=running.port)}")
    assert said.code == "PERMISSION_DENIED"
    assert "on a private network" in str(said)
    assert "--allow" in str(said)


@pytest.mark.network
@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://127.0.0.1/", "//user:word@127.0.0.1/", "http://[::1"]
)
async def test_a_redirect_to_what_is_no_plain_web_address_is_refused(running: Web, to: str) -> None:
    assert (await problem(f"{running.here}/redirect?to={quote(to)}")).code == "INVALID_PARAMS"


def test_a_redirect_from_https_to_http_is_refused() -> None:
    with pytest.raises(AppError, match="redirects from https"):
        fetching._redirect_target("https://app.example/", "http://app.example/")


@pytest.mark.network
async def test_a_manifest_on_a_private_host_that_nobody_named_is_refused(running: Web) -> None:
    said = await problem(
        head(running, f'<link rel="abp-manifest" href="{running.elsewhere}/abp.json">')
    )
    address = f"{running.elsewhere}/abp.json"
    assert str(said).startswith(
        f"Failed to fetch manifest: {address}: localhost is on a private network"
    )


# --- the manifest ---------------------------------------------------------------------------------


@pytest.mark.network
async def test_a_manifest_is_information_about_capabilities(running: Web) -> None:
    said = await found(
        linking(running, manifest(capabilities=[{"name": "a", "description": "A"}, {"name": "b"}]))
    )
    assert [(each.name, each.description) for each in said.capabilities] == [("a", "A"), ("b", "")]
    assert said.warnings == ()


@pytest.mark.network
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "Manifest is not valid JSON"),
        ("NaN", "Manifest is not valid JSON"),
        ("[]", "Manifest must be a JSON object"),
        ('{"app": {"id": "x"}}', "Manifest missing required field: abp"),
        ('{"abp": "0.1"}', "Manifest missing required field: app"),
        (manifest(capabilities={}), "Manifest field capabilities must be a list"),
        (manifest(capabilities=[{"name": "a"}, {"name": 7}]), "Manifest capability 2 has no name"),
    ],
)
async def test_a_manifest_that_is_none_says_why(running: Web, body: str, said: str) -> None:
    assert str(await problem(linking(running, body))).startswith(said)


@pytest.mark.network
@pytest.mark.parametrize(
    ("version", "warned"),
    [("0.1", False), ("1.0", False), (1, False), ("2.0", True), ({"major": 1}, True)],
)
async def test_only_an_unknown_version_is_warned_of(
    running: Web, version: Any, warned: bool
) -> None:
    assert bool((await found(linking(running, manifest(abp=version)))).warnings) is warned


@pytest.mark.network
async def test_a_manifest_that_is_not_there_or_too_large_is_refused(running: Web) -> None:
    missing = head(running, '<link rel="abp-manifest" href="/no.json">')
    assert str(await problem(missing)) == (
        f"Failed to fetch manifest: HTTP 404 at {running.here}/no.json"
    )
    huge = head(running, '<link rel="abp-manifest" href="/spaces?size=1000001">')
    assert str(await problem(huge)) == (
        f"Failed to fetch manifest: {running.here}/spaces: it is larger than 1000000 bytes"
    )


# --- whom it reaches ------------------------------------------------------------------------------


PUBLIC = """
93.184.215.14 2606:2800:21f:cb07:6820:80da:af6b:8b2c ::ffff:93.184.215.14 64:ff9b::5db8:d70e
"""
PRIVATE = """
127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
255.255.255.255 240.0.0.1 198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 ff02::1 ::ffff:127.0.0.1
2002:7f00:1:: 64:ff9b::7f00:1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1
"""


def test_addresses_of_private_networks_are_not_public() -> None:
    assert [each for each in PRIVATE.split() if is_public(each)] == []
    assert [each for each in PUBLIC.split() if not is_public(each)] == []


def test_a_named_host_is_allowed_wherever_it_is_and_others_are_not() -> None:
    guard = Guard(["LOCALHOST", "intra.example:8080", "[::1]:3000"])
    assert guard.allows("localhost", 1, "127.0.0.1")
    assert guard.allows("intra.example", 8080, "10.0.0.1")
    assert not guard.allows("intra.example", 80, "10.0.0.1")
    assert guard.allows("::1", 3000, "::1")
    assert not guard.allows("::1", 80, "::1")
    assert not guard.allows("app.example", 443, "10.0.0.1")
    assert guard.allows("app.example", 443, "93.184.215.14")


class Wire(httpcore2.AnyIOBackend):
    """Records to which addresses connections are made, and makes none."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def connect_tcp(
        self, host: str, *_: object, **__: object
    ) -> httpcore2.AsyncNetworkStream:
        self.reached.append(host)
        raise httpcore2.ConnectError("nobody is there")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    made = Wire()
    monkeypatch.setattr(httpcore2, "AnyIOBackend", lambda: made)
    return made


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: Iterable[str]) -> None:
    """Names resolve to each of `answers` in turn, as a name that is rebound does."""
    left = [list(answer) for answer in answers]

    async def resolve(host: str, port: int, **_: object) -> list[Any]:
        return [
            (2, 1, 6, "", (address, port))
            for address in (left.pop(0) if len(left) > 1 else left[0])
        ]

    monkeypatch.setattr(anyio, "getaddrinfo", resolve)


async def test_the_address_that_was_checked_is_the_one_that_is_reached(
    monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    resolving(monkeypatch, ["93.184.215.14"], ["127.0.0.1"])
    await problem("http://rebound.example/", Guard([]))
    assert wire.reached == ["93.184.215.14"], (
        "a second look at the name would have found this machine"
    )


async def test_of_several_addresses_only_the_public_ones_are_tried(
    monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    resolving(monkeypatch, ["10.0.0.1", "93.184.215.14", "::1", "93.184.215.15"])
    await problem("https://mixed.example/", Guard([]))
    assert wire.reached == ["93.184.215.14", "93.184.215.15"]


async def test_a_name_that_leads_to_this_machine_is_refused_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    for host in (
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
    ):
        assert (await problem(f"http://{host}/", Guard([]))).code == "PERMISSION_DENIED", host
    resolving(monkeypatch, ["192.168.0.1"])
    assert "start abp-bridge with --app" in str(await problem("http://router.example/", Guard([])))
    assert wire.reached == []


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://App.Example", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://localhost:3000/", "http://localhost:3000"),
        ("http://[::1]:3000/", "http://[::1]:3000"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("about:blank", ""),
        ("file:///etc/passwd", ""),
        ("", ""),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert site(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "http://a@b/",
        "http://a\\@b/",
        "http://a b/",
        "http://a/\n",
        "http://a:99999/",
        "http://a..b/",
        "javascript:1",
        "x" * 9000,
        f"http://{'a' * 254}/",
        f"http://{'ü' * 1_000_000}.example/",  # IDNA would take hours
    ],
    ids=lambda url: url[:20],
)
def test_what_two_readers_could_read_differently_is_no_address(url: str) -> None:
    with pytest.raises(AppError) as caught:
        split(url)
    assert caught.value.code == "INVALID_PARAMS"


def test_letters_of_other_scripts_are_quoted_and_the_fragment_stays() -> None:
    assert (
        split("https://app.example/ü?q=ä%20b#/edit").geturl()
        == "https://app.example/%C3%BC?q=%C3%A4%20b#/edit"
    )


@pytest.mark.parametrize(
    "target",
    [
        "http://user:hunter2@[::1",
        "http://user:hunt/er2@example.org/",
        "http://user:hunter2@exa mple/",
        "http://user:hunter2@127.0.0.1:99999/",
        "http:/user:hunter2@example.org",
        "http://user:hunter2@example.org/?key=hunter2#hunter2",
        "ws://user:hunter2@[::1",
        "mcp+http://user:hunter2@[::1",
        "htps://user:hunter2@example.org",
    ],
)
def test_error_about_an_address_tells_no_secret(target: str) -> None:
    with pytest.raises(AppError) as refused:
        split(target)
    assert not re.search("hunt|er2", f"{refused.value}{show_target(target)}")
    if not target.startswith("http:"):
        with pytest.raises(AppError) as refused:
            make_app(target, True, Settings())
        assert "hunter2" not in str(refused.value)
