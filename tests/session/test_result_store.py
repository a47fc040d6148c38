"""The files of a session: how much is kept and how long, and that nobody waits for them."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from abp_bridge.core.capability import AppFile, CallResult, Failure
from abp_bridge.core.json_value import JsonObject, as_list, as_object
from abp_bridge.protocols import abp
from abp_bridge.rpc.file_lock import lock
from abp_bridge.session import result_store, saved_index
from abp_bridge.session.app import AppError
from abp_bridge.session.result_store import HEAVY, MAX_TAKEN, ResultStore
from abp_bridge.session.saved_index import KEPT_DAYS, NAME, SavedIndex

Json = Any

pytestmark = pytest.mark.anyio

DAY = 86_400


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

    for owner, name in ((abp, "extract"), (result_store, "_write")):
        monkeypatch.setattr(owner, name, beside(getattr(owner, name)))
    content = bytes(HEAVY + 1)
    kept = await store.keep("a", CallResult(blob(content)), refuse)
    assert steps == ["extract", "_write"]
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
    assert store.find(first.files[0].uri) is None


async def test_a_file_that_is_too_large_is_not_saved_and_its_result_says_so(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "FILE_LIMIT", 4)
    given = CallResult(blob(b"12345"), files=(AppFile(b"12345", "", "a.bin", "a download"),))
    kept = await store.keep("a", given, refuse)
    assert kept.result.data == {
        "mimeType": "a/b",
        "size": 5,
        "notSaved": "it has 5 bytes, and a file at most 4",
    }
    assert kept.told == [
        "by a download it gave the file a.bin (application/octet-stream, 5 bytes), not saved: it"
        " has 5 bytes, and a file at most 4"
    ]
    assert store.read(kept.files[0]) == b"12345", "the session has it"


async def test_only_so_many_files_of_a_result_are_fetched(store: ResultStore) -> None:
    asked: list[str] = []

    async def download(url: str, auth: JsonObject) -> AppFile:
        asked.append(url)
        return AppFile(b"x", "a/b")

    data = [{"downloadUrl": str(number), "mimeType": "a/b"} for number in range(22)]
    kept = await store.keep("a", CallResult(data), download)
    assert len(asked) == len(kept.files) == 20
    last = as_object(as_list(kept.result.data)[-1])
    assert last["notDownloaded"] == "more than 20 files in one result"


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


async def test_old_results_go_from_a_folder_but_nothing_that_somebody_changed(
    tmp_path: Path,
) -> None:
    now = time.time()
    index = SavedIndex(str(tmp_path), lambda: now - (KEPT_DAYS + 1) * DAY)
    old, changed, theirs, new = (tmp_path / name for name in ("old", "changed", "theirs", "new"))
    for file in (old, changed, theirs, new):
        file.write_text("result")
    index.add(str(old))
    index.add(str(changed))
    SavedIndex(str(tmp_path), lambda: now).add(str(new))
    changed.write_text("result, and a note")
    with (tmp_path / NAME).open("a") as lines:
        lines.write('{"path": "../outside", "saved": 1}\nhalf a li')
    store = ResultStore(str(tmp_path), lambda: None)
    await store.save("a", b"x", "text/plain")
    assert [file.exists() for file in (old, changed, theirs, new)] == [False, True, True, True]
    noted = (tmp_path / NAME).read_text().splitlines()
    assert len(noted) == 2, "the new one, and what was saved now"


async def test_two_sessions_in_one_folder_lose_no_note(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")

    def add() -> None:
        for _ in range(20):
            SavedIndex(str(tmp_path)).add(str(file))

    adding = [threading.Thread(target=add) for _ in range(3)]
    for each in adding:
        each.start()
    for each in adding:
        await anyio.to_thread.run_sync(each.join)
    assert len((tmp_path / NAME).read_text().splitlines()) == 60


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


async def test_many_files_of_one_name_are_not_looked_through_for_each(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    really = os.open

    def count(path: str, *given: Json) -> int:
        opened.append(path)
        return really(path, *given)

    monkeypatch.setattr(os, "open", count)
    saved = [await store.save("a", b"x", "text/plain") for _ in range(20)]
    assert len({file.path for file in saved}) == 20
    assert len([path for path in opened if not path.endswith(NAME)]) == 20


BASE64 = base64.b64encode(bytes(range(256)) * 15).decode()


@pytest.mark.parametrize(
    "data",
    [{BASE64: 1}, {"downloadUrl": f"https://a.example/{BASE64}", "mimeType": "a/b"}],
    ids=["a name", "an address that is not fetched"],
)
@pytest.mark.parametrize("limit", [result_store.FILE_LIMIT, 0], ids=["room", "no room"])
async def test_base64_where_nobody_looks_for_it_is_before_no_model(
    store: ResultStore, data: Json, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "FILE_LIMIT", limit)
    kept = await store.keep("a", CallResult(data), refuse)
    assert BASE64 not in str(kept.result.data)
    (file,) = kept.files
    assert BASE64.encode() in store.read(file)
    assert ("savedTo" in as_object(kept.result.data)) == bool(limit)


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


@pytest.mark.parametrize(
    "path",
    ["\0", "\ud800", "l/x", "a/b/x"],
    ids=["NUL", "half a character", "by a link", "too deep"],
)
async def test_a_note_that_is_none_of_ours_removes_nothing_and_stops_nothing(
    tmp_path: Path, path: str
) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    out.mkdir()
    (theirs / "b").mkdir(parents=True)
    (out / "l").symlink_to(theirs)
    (out / "a").symlink_to(theirs)
    for file in (theirs / "x", theirs / "b" / "x"):
        file.write_text("precious")
        os.utime(file, (1, 1))
    note = {"path": path, "size": 8, "changed": 10**9, "saved": 1}
    (out / NAME).write_text(f"{'[' * 100_000}\n{json.dumps(note)}\n")
    await ResultStore(str(out), lambda: None).save("c", b"x", "text/plain")
    assert len((out / NAME).read_text().splitlines()) == 1
    assert (theirs / "x").exists()
    assert (theirs / "b" / "x").exists()


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
        store.read(saved)


async def test_neither_index_nor_folder_is_written_through_a_link(tmp_path: Path) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    out.mkdir()
    theirs.mkdir()
    (theirs / "notes").write_text("precious\n")
    (out / NAME).symlink_to(theirs / "notes")
    (out / "a").symlink_to(theirs)
    store = ResultStore(str(out), lambda: None)
    with pytest.raises(OSError, match="is a link"):
        await store.save("a", b"x", "text/plain")
    assert Path((await store.save("b", b"x", "text/plain")).path).read_bytes() == b"x"
    assert [each.name for each in theirs.iterdir()] == ["notes"]
    assert (theirs / "notes").read_text() == "precious\n"


async def test_who_locks_the_index_for_good_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_index, "LOCK_LIMIT", 0.01)
    with (tmp_path / NAME).open("w") as other:
        lock(other.fileno())
        saved = await ResultStore(str(tmp_path), lambda: None).save("a", b"x", "text/plain")
    assert Path(saved.path).read_bytes() == b"x", "it stays, for nobody noted it"
    assert not (tmp_path / NAME).read_text()


async def test_what_is_held_without_a_file_keeps_its_own_address_and_is_told_when_it_goes(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "FILE_LIMIT", 4)
    monkeypatch.setattr(result_store, "MAX_FILES", 2)
    kept = [
        await store.keep("a", CallResult(blob(content)), refuse)
        for content in (b"first", b"second", b"third", b"fourth")
    ]
    files = [each.files[0] for each in kept]
    assert len({each.uri for each in files}) == 4
    assert [store.read(each) for each in files[2:]] == [b"third", b"fourth"]
    assert kept[3].told == [f"older results were removed to make room: {files[1].name}"]
