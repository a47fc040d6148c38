"""Files that an app asks for by name: read when they lie in a granted folder and the person allows
it, and never otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from support.acp_harness import client, pressing
from support.harness import MODERN, PATIENCE, VERSIONS, Hosted, accept, hosted, refuse

from abp_bridge.core.file import MAX_SIZE
from abp_bridge.core.matrix import SurfaceVariant
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question
from abp_bridge.session import files
from abp_bridge.session.context import AskContext
from abp_bridge.session.elicitor import Elicitor
from abp_bridge.session.files import FileAccess
from abp_bridge.session.router import Router
from abp_bridge.session.surface import SurfaceResponse

Json = Any

CODEX = types.Implementation(
    name="codex-mcp-client", version="0.169.0"
)  # opens no addresses of this machine


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    folder = tmp_path / "granted"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "secret.txt").write_text("not yours")
    return folder


def no_person(params: Any) -> Any:
    raise AssertionError(f"nobody is to be asked: {params}")


async def asking(host: Hosted, uri: object, **params: Json) -> Json:
    return await host.ask("elicitation/resource", uri=str(uri), **params)


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_a_named_file_is_read_when_the_person_allows_it(granted: Path, version: str) -> None:
    shown: list[Any] = []

    def allow(params: Any) -> types.ElicitResult:
        shown.append(params)
        return types.ElicitResult(action="accept", content={"confirmed": True})

    file = granted / "notes.txt"
    async with hosted(
        "--app", "demo", "--root", str(granted), answer=allow, version=version
    ) as host:
        response = await asking(host, file.as_uri())
    assert response["data"] == {
        "content": "mine",
        "mimeType": "text/plain",
        "filename": "notes.txt",
    }
    assert response["metadata"]["route"] == "mcp-form (as options, the safe one first)"
    [params] = shown
    assert params.message.startswith(
        f"demo asks: May it read {file}? (4 bytes, text/plain)\n\nThe app says: "
    )


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (accept(confirmed=False), "declined"),
        (refuse("decline"), "declined"),
        (refuse("cancel"), "cancelled"),
    ],
)
async def test_without_leave_nothing_is_read(
    granted: Path, answer: Callable[..., Any], outcome: str
) -> None:
    async with hosted("--app", "demo", "--root", str(granted), answer=answer) as host:
        response = await asking(host, granted / "notes.txt")
    assert (response["success"], response["metadata"]["outcome"]) == (False, outcome)
    assert "mine" not in str(response)


async def test_leave_that_no_person_gave_is_none(granted: Path) -> None:
    async with hosted(
        "--app",
        "demo",
        "--root",
        str(granted),
        answer=accept(confirmed=True),
        env={"ABP_PERSON_FLOOR": "60000"},
    ) as host:
        response = await asking(host, granted / "notes.txt")
    assert (response["success"], response["metadata"]["answeredBy"]) == (False, "host-policy")
    assert "mine" not in str(response)


def _linked(granted: Path) -> Path:
    (granted / "link.txt").symlink_to(granted.parent / "secret.txt")
    return granted / "link.txt"


def _folder_linked(granted: Path) -> Path:
    (granted / "up").symlink_to(granted.parent)
    return granted / "up" / "secret.txt"


def _large(granted: Path) -> Path:
    with (granted / "large.txt").open("wb") as file:
        file.truncate(MAX_SIZE + 1)
    return granted / "large.txt"


def _circle(granted: Path) -> Path:
    (granted / "a").symlink_to(granted / "b")
    (granted / "b").symlink_to(granted / "a")
    return granted / "a" / "notes.txt"


def _pipe(granted: Path) -> Path:
    os.mkfifo(granted / "pipe.txt")
    return granted / "pipe.txt"


OUTSIDE = "it lies in no folder that was granted (--root)"
NOT_THIS = "it is not there, or not such a file"  # which of these, only the person is told

NOT_READ: dict[str, tuple[Callable[[Path], object], str]] = {
    "outside": (lambda granted: granted.parent / "secret.txt", OUTSIDE),
    "outside, and not there": (lambda granted: granted.parent / "none.txt", OUTSIDE),
    "by a way out": (lambda granted: f"{granted}/../secret.txt", OUTSIDE),
    "by a link": (_linked, NOT_THIS),
    "by a linked folder": (_folder_linked, OUTSIDE),
    "a folder with a like name": (lambda granted: f"{granted}-too/notes.txt", OUTSIDE),
    "not there": (lambda granted: granted / "none.txt", NOT_THIS),
    "a folder": (lambda granted: granted, NOT_THIS),
    "a pipe": (_pipe, NOT_THIS),
    "too large": (_large, NOT_THIS),
    "of another type": (lambda granted: granted / "notes.txt", NOT_THIS),
    "a relative path": (lambda granted: "notes.txt", "it must be an absolute path"),
    "of another machine": (
        lambda granted: f"file://elsewhere{granted}/notes.txt",
        "only files of this machine are read",
    ),
    "by links in a circle": (_circle, OUTSIDE),
    "with a zero in it": (
        lambda granted: f"file://{granted}/notes.txt%00",
        "it must be an absolute path",
    ),
}


@pytest.mark.parametrize("case", NOT_READ)
async def test_what_may_not_be_read_is_not(granted: Path, case: str) -> None:
    """Nor can a host without a page pick another: the app is told so."""
    name, reason = NOT_READ[case]
    kinds = {"type": "image/*"} if "type" in case else {}
    async with hosted(
        "--app", "demo", "--root", str(granted), answer=no_person, client_info=CODEX
    ) as host:
        response = await asking(host, name(granted), **kinds)
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert reason in response["error"]["message"]


def _with_a_link(notes: Path) -> None:
    notes.unlink()
    notes.symlink_to(notes.parent.parent / "secret.txt")


def _with_one_of_its_number(notes: Path) -> None:
    """As far as the file system gives a number again."""
    number = notes.stat().st_ino
    notes.unlink()
    others = [notes.with_name(f"other{each}.txt") for each in range(20)]
    for each in others:
        each.write_text("not yours")
    same = (each for each in others if each.stat().st_ino == number)
    next(same, others[0]).rename(notes)


def _with_other_words(notes: Path) -> None:
    notes.write_text("not yours")


@pytest.mark.parametrize("replace", [_with_a_link, _with_one_of_its_number, _with_other_words])
async def test_a_file_that_was_replaced_after_the_person_allowed_it_is_not_read(
    granted: Path, replace: Callable[[Path], None]
) -> None:
    def allow(params: Any) -> types.ElicitResult:
        replace(granted / "notes.txt")
        return types.ElicitResult(action="accept", content={"confirmed": True})

    async with hosted("--app", "demo", "--root", str(granted), answer=allow) as host:
        response = await asking(host, granted / "notes.txt")
    assert response["error"]["code"] == "NOT_SUPPORTED"
    assert "cannot be read" in response["error"]["message"]
    assert "not yours" not in str(response)


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
async def test_the_hosts_own_roots_are_granted(granted: Path, version: str) -> None:
    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": granted.as_uri()})])

    async with hosted(
        "--app", "demo", answer=accept(confirmed=True), version=version, list_roots_callback=roots
    ) as host:
        response = await asking(host, granted / "notes.txt")
    assert response["data"]["content"] == "mine"


async def test_a_host_that_does_not_say_its_roots_grants_none(granted: Path) -> None:
    async def roots(context: Any) -> types.ErrorData:
        return types.ErrorData(code=-32603, message="no")

    async with hosted(
        "--app", "demo", answer=no_person, client_info=CODEX, list_roots_callback=roots
    ) as host:
        assert OUTSIDE in (await asking(host, granted / "notes.txt"))["error"]["message"]


async def test_an_acp_client_grants_the_folder_it_works_in_and_is_asked_by_buttons(
    granted: Path,
) -> None:
    async with client("--app", "demo", handler=pressing("Allow")) as editor:
        await editor.initialize({})
        request = '{"request": {"method": "elicitation/resource", "params": {"uri": "%s"}}}' % (
            granted / "notes.txt"
        )
        _, words = await editor.prompt(await editor.new(cwd=str(granted)), f"/demo_ask {request}")
    assert '"content": "mine"' in words


async def test_a_call_that_is_over_before_its_file_was_looked_at_asks_nobody(granted: Path) -> None:
    """The host is slow to say what it grants, and cancels the call meanwhile."""
    asked, seen = anyio.Event(), anyio.Event()

    async def roots(context: Any) -> types.ListRootsResult:
        asked.set()
        await seen.wait()
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": granted.as_uri()})])

    async with (
        hosted("--app", "demo", answer=no_person, list_roots_callback=roots) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(asking, host, granted / "notes.txt")
        with anyio.fail_after(PATIENCE):
            await asked.wait()
        assert len((await host.status())["questions"]["open"]) == 1
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            while (await host.status())["questions"]["open"]:
                await anyio.lowlevel.checkpoint()
            seen.set()
            [ended] = (await host.status())["questions"]["ended"]
    assert ended["outcome"] == "withdrawn"


@pytest.mark.parametrize("root", ["file:///none/such", "file:///etc%00", "file://" + "/x" * 3000])
async def test_a_root_that_is_none_grants_nothing(granted: Path, root: str) -> None:
    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[
                types.Root.model_validate({"uri": root}),
                types.Root.model_validate({"uri": granted.as_uri()}),
            ]
        )

    async with hosted(
        "--app", "demo", answer=accept(confirmed=True), list_roots_callback=roots
    ) as host:
        assert (await asking(host, granted / "notes.txt"))["data"]["content"] == "mine"


@pytest.mark.slow
async def test_a_file_that_was_allowed_in_time_is_read_after_it(
    granted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 0.3
    over = time.monotonic() + limit
    read = files._read

    def read_late(named: Any) -> bytes:
        time.sleep(max(0.0, over - time.monotonic()) + 0.1)  # a slow disk
        return read(named)

    class Person:
        def variants(self, calls: object = ()) -> list[SurfaceVariant]:
            return [SurfaceVariant(Surface.TERMINAL)]

        async def prompt(self, *_: object, **__: object) -> SurfaceResponse:
            return SurfaceResponse(Outcome.ACCEPTED, {"confirmed": True})

    async def roots(context: AskContext) -> list[str]:
        return [str(granted)]

    monkeypatch.setattr(files, "_read", read_late)
    asked = {"prompt": "Which?", "uri": str(granted / "notes.txt")}
    question = decode_question(
        {"method": "elicitation/resource", "params": asked}, id="q", origin="x"
    )
    asking = Elicitor(Router(Person(), min_human_latency=0.0), limit=limit, files=FileAccess(roots))
    assert (await asking.resolve(question)).outcome is Outcome.ACCEPTED
