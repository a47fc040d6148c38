"""The files of a session: how much is kept and how long, and that nobody waits for them."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from abp_bridge.bridge import result_store
from abp_bridge.bridge.result_store import HEAVY, ResultStore
from abp_bridge.bridge.saved_index import KEPT_DAYS, NAME, SavedIndex
from abp_bridge.core.capability import AppFile, CallResult
from abp_bridge.core.json_value import JsonObject, as_list, as_object
from abp_bridge.interfaces.app import AppError
from abp_bridge.protocols import abp

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
