"""Results of a page in Chromium and of an app on a pipe: the text for the model, the files."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from support.pages.server import Web, web
from support.puppets import scripted

from abp_bridge import Bridge, make_app
from abp_bridge.apps.browser.app import BrowserApp
from abp_bridge.protocols.mcp.results import encode_result
from abp_bridge.session.host import CallOutcome
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.browser

PATIENCE = 60.0
PDF = b"%PDF-1.4\n" + bytes(range(256))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(128))
NOISE = bytes(range(256)) * 16


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass(frozen=True)
class Kind:
    """A kind of result.

    Attributes:
        says: What the model reads of it, in this order.
        content: What is in the person's file; None for what nobody can say byte by byte.
        pipe: What an app on a pipe returns; None where only a page can give it.
        page: Whether a page gives it too, as `GIFTS` of workshop.js has it by the same name.
    """

    says: tuple[str, ...]
    content: bytes | None
    pipe: Json = None
    page: bool = True


KINDS: dict[str, Kind] = {
    "blob": Kind(('"mimeType": "text/csv", "size": 3',), b"a,b"),
    "file": Kind(('/notes.txt"', '"mimeType": "text/plain"'), b"hello"),
    "buffer": Kind(('"mimeType": "application/octet-stream", "size": 4',), b"\0\1\2\3"),
    "base64 without a type": Kind(
        ('"mimeType": "application/pdf"', '"typeFrom": "its first bytes"'), PDF, {"pdf": b64(PDF)}
    ),
    "base64 of no known kind": Kind(
        ('"mimeType": "application/octet-stream", "size": 4096',), NOISE, b64(NOISE)
    ),
    "data URL": Kind(
        ('"mimeType": "image/png", "size": 136',), PNG, f"data:image/png;base64,{b64(PNG)}"
    ),
    "deep inside": Kind(
        ('"pages": 2', '"mimeType": "image/png"'),
        PNG,
        {"parts": [{"pages": 2, "thumb": {"content": b64(PNG), "mimeType": "image/png"}}]},
    ),
    "a long text": Kind(('"mimeType": "text/plain", "size": 60000',), b"words " * 10_000),
    "downloadUrl": Kind(
        ('"mimeType": "text/csv", "size": 4',),
        b"mine",
        {"downloadUrl": "{site}/file?body=mine&type=text/csv", "mimeType": "text/csv", "size": 4},
    ),
    "downloadUrl of another type": Kind(
        ('"size": 5', '"sizeStated": "7 by the app', '"served": "as text/html, not as what the'),
        b"login",
        {
            "downloadUrl": "{site}/file?body=login&type=text/html",
            "mimeType": "application/pdf",
            "size": 7,
        },
    ),
    "downloadUrl that is not there": Kind(
        ('"downloadUrl": "', '"notDownloaded": "', "HTTP 404"),
        None,
        {"downloadUrl": "{site}/file?status=404", "mimeType": "application/pdf"},
    ),
    "downloadUrl on a private network": Kind(
        ('"notDownloaded": "', "is on a private network"),
        None,
        {"downloadUrl": "http://10.9.8.7/x", "mimeType": "application/pdf"},
        page=False,
    ),
    "print": Kind(("by window.print() it gave the file workshop.pdf (application/pdf",), None),
    "download": Kind(("null", "by a download it gave the file x.bin", ", 1 bytes)"), b"x"),
    "ten megabytes": Kind(('"size": 10485760',), bytes(10 * 2**20)),
}


class Host:
    """A host that is asked nothing."""

    name = "test"
    on_notice = on_capabilities_changed = on_resources_changed = lambda *_: None
    lost_notifications = dict
    send_link = roots = ask = None

    def variants(self, calls: Json = ()) -> Json:
        return []


@dataclass
class Session:
    bridge: Bridge
    folder: Path

    async def outcome(self, app: str, kind: str) -> CallOutcome:
        params: Json = {"work": "give", "kind": kind} if app == "workshop" else {}
        capability = "run" if app == "workshop" else kind
        call = await self.bridge.start(capability, params, app=app)
        with anyio.fail_after(PATIENCE):
            return await call.wait()


@pytest.fixture(scope="module")
def site() -> Iterator[Web]:
    with web() as running:
        yield running


@asynccontextmanager
async def running(site: Web, folder: Path) -> AsyncIterator[Session]:
    steps = [
        {"name": name, "steps": [{"return": each.pipe}]}
        for name, each in KINDS.items()
        if each.pipe is not None
    ]
    script = json.dumps({"app": {"id": "pipe", "name": "Pipe"}, "capabilities": steps})
    (folder / "script.json").write_text(script.replace("{site}", site.here))
    settings = Settings(
        apps=(f"{site.here}/workshop.html", scripted(folder / "script.json")),
        output_dir=str(folder / "out"),
        allowed_hosts=("127.0.0.1",),
        chrome_sandbox=False,
        browser_timeout=PATIENCE,
    )

    def make(target: str, named: bool) -> Json:
        if target.startswith("http"):
            return BrowserApp(target, settings, named=named)
        return make_app(target, named, settings)

    async with anyio.create_task_group() as tasks:
        bridge = Bridge(settings, Host(), tasks, make)  # type: ignore[arg-type]
        await bridge.connect(None)
        yield Session(bridge, folder)
        await bridge.close("that was all")


@pytest.fixture(scope="module")
async def session(site: Web) -> AsyncIterator[Session]:
    with TemporaryDirectory() as folder:
        async with running(site, Path(folder)) as made:
            yield made


CASES = [
    (app, kind)
    for kind, each in KINDS.items()
    for app in ("workshop", "pipe")
    if (each.page if app == "workshop" else each.pipe is not None)
]


@pytest.mark.parametrize(("app", "kind"), CASES, ids=[" ".join(each) for each in CASES])
async def test_a_model_reads_what_it_is_and_the_person_opens_it(
    session: Session, app: str, kind: str
) -> None:
    wanted = KINDS[kind]
    ended = await session.outcome(app, kind)
    check_file(wanted, ended)
    result = encode_result(ended.result, summary=ended.summary, files=ended.files)
    read = "\n".join(each["text"] for each in result["content"] if each["type"] == "text")
    check_words(wanted, ended, read)
    links = [each["uri"] for each in result["content"] if each["type"] == "resource_link"]
    assert links == [file.uri for file in ended.files]


def check_file(wanted: Kind, ended: CallOutcome) -> None:
    assert ended.result.failure is None
    if wanted.content is not None:
        (file,) = ended.files
        assert Path(file.path).read_bytes() == wanted.content
        assert file.size == len(wanted.content)


def check_words(wanted: Kind, ended: CallOutcome, read: str) -> None:
    """They are said, each file's place among them, and nothing is in base64."""
    at = 0
    for words in wanted.says:
        at = read.index(words, at) if words in read[at:] else read.index(words)
    assert all(file.path in read for file in ended.files)
    content = wanted.content or b"%PDF-1.4"
    assert b64(content)[:24] not in read or len(content) < 18
    assert ";base64," not in read
