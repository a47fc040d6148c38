"""The files of a session: how much is kept and how long, and that nobody waits for them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from abp_bridge.core.capability import AppFile, CallResult, Failure
from abp_bridge.core.json_value import JsonObject, as_object
from abp_bridge.protocols import abp
from abp_bridge.session import result_store
from abp_bridge.session.app import AppError
from abp_bridge.session.result_store import HEAVY, MAX_TAKEN, ResultStore

Json = Any


def blob(content: bytes) -> Json:
    return {"content": base64.b64encode(content).decode(), "mimeType": "a/b", "encoding": "base64"}


async def refuse(url: str, auth: JsonObject) -> AppFile:
    raise AppError("not today")


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(str(tmp_path), lambda: None)


async def test_a_large_result_is_decoded_and_written_while_others_go_on(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heavy step waits for the event loop here: on the loop itself it would wait forever."""
    steps: list[str] = []

    def beside(step: Callable[..., Json]) -> Callable[..., Json]:
        def run(*given: Json) -> Json:
            anyio.from_thread.run_sync(steps.append, step.__name__)
            return step(*given)

        return run

    for owner, name in ((abp, "extract"), (ResultStore, "_write_file")):
        monkeypatch.setattr(owner, name, beside(getattr(owner, name)))
    content = bytes(HEAVY + 1)
    kept = await store.keep("a", CallResult(blob(content)), refuse)
    assert steps == ["extract", "_write_file"]
    (file,) = kept.files
    assert Path(file.path).read_bytes() == content


async def test_when_a_session_has_too_much_its_oldest_files_go_and_that_is_told(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "SESSION_LIMIT", 10)
    first, second, third = [
        await store.keep("a", CallResult(blob(content)), refuse)
        for content in (b"12345", b"67890", b"123456")
    ]
    gone = [first.files[0].path, second.files[0].path]
    assert third.told == [f"older results were removed to make room: {', '.join(gone)}"]
    assert not any(map(os.path.exists, gone))
    assert [file.path for file in store.saved()] == [third.files[0].path]
    assert store.find_file(first.files[0].uri) is None


def refuse_writing(*_: object) -> str:
    raise OSError("the disk is full")


async def test_a_file_that_cannot_be_written_is_named_in_its_result(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResultStore, "_write_file", refuse_writing)
    given = CallResult(blob(b"12345"), files=(AppFile(b"12345", "", "a.bin", "a download"),))
    kept = await store.keep("a", given, refuse)
    assert kept.result.data == {"mimeType": "a/b", "size": 5, "notSaved": "the disk is full"}
    assert kept.told == [
        "by a download it gave the file a.bin (application/octet-stream, 5 bytes), not saved: the"
        " disk is full"
    ]
    assert [each.content for each in kept.files] == [b"12345", b"12345"], "they are shown"
    assert store.saved() == []


async def test_a_result_does_not_wait_for_its_files_without_end(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def download(url: str, auth: JsonObject) -> AppFile:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(result_store, "FETCH_LIMIT", 0.0)
    data = {"downloadUrl": "https://a.example/b", "mimeType": "a/b"}
    kept = await store.keep("a", CallResult(data), download)
    assert kept.result.data == {
        **data,
        "notDownloaded": "the files of this result did not come within 0 s",
    }


async def test_a_result_of_very_many_files_goes_whole_to_one(store: ResultStore) -> None:
    """Thousands would stop the event loop and fill a folder, and no model reads their names."""
    many: list[Json] = [{**blob(bytes([number])), "n": number} for number in range(MAX_TAKEN + 1)]
    kept = await store.keep("a", CallResult(many), refuse)
    (file,) = kept.files
    assert json.loads(Path(file.path).read_bytes()) == many
    assert kept.told == [f"its data hold {len(many)} files, so they went whole to one"]
    assert file.content is None, "and its base64 is before nobody"
    assert as_object(kept.result.data)["savedTo"] == file.path
    kept = await store.keep("a", CallResult(many[1:]), refuse)
    assert len(kept.files) == MAX_TAKEN


BASE64 = base64.b64encode(bytes(range(256)) * 15).decode()


@pytest.mark.parametrize(
    "data",
    [{BASE64: 1}, {"downloadUrl": f"https://a.example/{BASE64}", "mimeType": "a/b"}],
    ids=["a name", "an address that is not fetched"],
)
@pytest.mark.parametrize("full", [False, True], ids=["room", "no room"])
async def test_base64_where_nobody_looks_for_it_is_before_no_model(
    store: ResultStore, data: Json, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if full:
        monkeypatch.setattr(ResultStore, "_write_file", refuse_writing)
    kept = await store.keep("a", CallResult(data), refuse)
    assert BASE64 not in str(kept.result.data)
    (file,) = kept.files
    assert full or BASE64.encode() in store.read_file(file)
    assert ("savedTo" in as_object(kept.result.data)) != full


async def test_what_a_failed_call_holds_is_no_base64_either(store: ResultStore) -> None:
    inside: Json = {"code": 7, "screenshot": blob(b"\x89PNG picture")}
    failed = Failure("OPERATION_FAILED", "it broke", details=inside)
    kept = await store.keep("a", CallResult(None, failure=failed), refuse)
    assert kept.result.failure is not None
    details: Json = kept.result.failure.details
    assert details["code"] == 7
    assert Path(details["screenshot"]["savedTo"]).read_bytes() == b"\x89PNG picture"
    assert len(kept.files) == 1


async def test_files_of_a_result_are_saved_as_they_come(store: ResultStore) -> None:
    """Twenty of 48 MiB are not in memory at once."""
    before: list[int] = []

    async def download(url: str, auth: JsonObject) -> AppFile:
        before.append(len(store.saved()))
        return AppFile(b"x", "a/b")

    data = [{"downloadUrl": str(number), "mimeType": "a/b"} for number in range(3)]
    await store.keep("a", CallResult(data), download)
    assert before == [0, 1, 2]


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a larger file"])
async def test_what_has_been_put_in_place_of_a_result_is_not_read(
    store: ResultStore, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("precious")
    saved = await store.save("a", b"x", "text/plain")
    place = Path(saved.path)
    place.unlink()
    if kind == "a link":
        place.symlink_to(tmp_path / "key")
    elif kind == "a pipe":
        os.mkfifo(place)
    else:
        monkeypatch.setattr(result_store, "READ_LIMIT", 4)
        place.write_text("precious")
    with pytest.raises(OSError, match=re.escape(str(place))):
        store.read_file(saved)


async def test_folder_is_not_written_through_a_link(tmp_path: Path) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    out.mkdir()
    theirs.mkdir()
    (out / "a").symlink_to(theirs)
    store = ResultStore(str(out), lambda: None)
    with pytest.raises(OSError, match="is a link"):
        await store.save("a", b"x", "text/plain")
    assert Path((await store.save("b", b"x", "text/plain")).path).read_bytes() == b"x"
    assert not any(theirs.iterdir())


async def test_files_stay_in_a_named_folder_and_leave_a_temporary_one(tmp_path: Path) -> None:
    for folder, stays in ((str(tmp_path), True), (None, False)):
        store = ResultStore(folder, lambda: None)
        saved = await store.save("a", b"x", "text/plain")
        store.remove_temporary()
        assert os.path.exists(saved.path) is stays
