"""Pages as apps, in Chromium: questions, notifications, results, downloads and how they end."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import Browser
from support.harness import RawHost, hosted, text
from support.pages.server import Web, manifest, web
from support.tool_pages import Person as Listener
from support.tool_pages import accepted, lend

from abp_bridge.apps import demo
from abp_bridge.apps.browser import files
from abp_bridge.apps.browser.app import GONE, BrowserApp
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import AppInfo, CallResult
from abp_bridge.core.ledger import Notice, NoticeKind
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.browser

SETTINGS = Settings(chrome_sandbox=False, browser_timeout=20.0)
HASTY = Settings(chrome_sandbox=False, browser_timeout=1.0)  # in a browser that runs already
PATIENCE = 20.0
CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}


@pytest.fixture(scope="module")
def site() -> Iterator[Web]:
    with web() as running:
        yield running


YES, NO = accepted(confirmed=True), accepted(confirmed=False)
DECLINED = Answer(Outcome.DECLINED, AnsweredBy.PERSON, reason="No.")


@dataclass
class Person(Listener):
    """Gives `answer` to every question; without one, no question is ever answered."""

    answer: Answer | None = None

    def __post_init__(self) -> None:
        self.says = lambda question: self.answer


@dataclass
class Running:
    """An open app and whoever listens to it."""

    app: BrowserApp
    person: Person
    opened: AppInfo
    _calls: int = 0

    async def run(
        self, work: str, *, capability: str = "run", call: str = "", **params: Json
    ) -> CallResult:
        self._calls += 1
        return await self.app.call_capability(
            capability, {"work": work, **params}, call or f"call-{self._calls}"
        )

    async def data(self, work: str, **params: Json) -> Json:
        result = await self.run(work, **params)
        assert result.failure is None, result.failure
        return result.data


@asynccontextmanager
async def opened(
    browser: Browser, address: str, answer: Answer | None = None, settings: Settings = SETTINGS
) -> AsyncIterator[Running]:
    """The app at `address` in a browser that goes on afterwards."""
    person = Person(answer=answer)
    app = BrowserApp(address, settings, named=True, browser=lend(browser))
    with anyio.fail_after(PATIENCE):
        async with app.open_app(person) as about:
            yield Running(app, person, about)


@pytest.fixture
async def running(browser: Browser, site: Web) -> AsyncIterator[Running]:
    """The workshop page, open."""
    async with opened(browser, f"{site.here}/workshop.html") as made:
        yield made


def page_with_icon(site: Web, icon: str) -> str:
    """The workshop under a manifest of its own."""
    named = manifest(app={"id": "t", "name": "T", "version": "1", "icon": icon})
    link = f'<link rel="abp-manifest" href="/json?{escape(urlencode({"body": named}))}">'
    html = f'{link}<script src="/workshop.js"></script>'
    return f"{site.here}/head?{urlencode({'html': html})}"


async def refused(browser: Browser, address: str, settings: Settings = HASTY) -> AppError:
    with pytest.raises(AppError) as caught:
        async with opened(browser, address, settings=settings):
            pass
    return caught.value


@pytest.mark.parametrize(
    ("icon", "why"),
    [
        ("/icon.png?size=192", ""),
        ("/icon.png?size=1025", "an icon may be 1024 pixels wide and high"),
        ("/icon.png?size=192&pad=65536", "an icon may have 65536 bytes"),
        ("/nothing.png", "HTTP 404"),
    ],
)
async def test_icon_that_is_no_small_png_is_ignored(
    browser: Browser, site: Web, caplog: pytest.LogCaptureFixture, icon: str, why: str
) -> None:
    async with opened(browser, page_with_icon(site, icon)) as running:
        assert running.opened.icon.startswith("data:image/png;base64,iVBOR") is not bool(why)
    assert why in caplog.text


# --- asking ---------------------------------------------------------------------------------------


async def test_page_asks_by_every_global_name_and_by_its_property(
    running: Running, site: Web
) -> None:
    running.person.answer = YES
    for work in (
        {"work": "ask", "by": "__abp_elicitation"},
        {"work": "ask", "by": "__abpOnElicitation"},
        {"work": "hookAsk"},
    ):
        response = await running.data(**work, request=CONFIRM)
        assert (response["success"], response["data"]) == (True, {"confirmed": True}), work
    asked = [(question.message, question.origin) for question in running.person.questions]
    assert asked == [("Sure?", site.here)] * 3


async def test_page_that_takes_handlers_by_methods_is_heard_once(
    browser: Browser, site: Web
) -> None:
    async with opened(browser, f"{site.here}/hooks.html", YES) as running:
        result = await running.app.call_capability("run", {}, "c")
        assert result.data == [True, True, True]
        assert len(running.person.questions) == 1
        assert [notice.name for notice in running.person.notices] == [
            "notifications/state/changed",
            "notifications/capabilities/list_changed",
        ]
        assert [report.value for report in running.person.progress] == [0.5]


async def test_request_by_two_names_is_asked_once(running: Running) -> None:
    running.person.answer = YES
    twice = await running.data("askTwice", request=CONFIRM)
    assert [[answer["data"] for answer in answers] for answers in twice] == [
        [{"confirmed": True}] * 2
    ] * 2
    assert len(running.person.questions) == 2


async def test_request_that_its_page_takes_back_is_withdrawn(running: Running) -> None:
    response = await running.data("takeBack", request=CONFIRM)
    assert response["error"]["code"] == "CANCELLED"
    assert response["metadata"]["outcome"] == "withdrawn"


async def test_request_of_a_loading_page_is_asked(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/early.html", YES) as running:
        assert (await running.app.call_capability("run", {}, "c")).data == {"confirmed": True}
        assert running.person.questions[0].message == "At once?"


async def test_bootstrap_page_is_waited_for(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/late.html", YES) as running:
        assert running.opened.session == "late"
        assert (await running.app.call_capability("run", {}, "c")).data == {"confirmed": True}


async def test_invalid_request_gets_an_error_and_is_not_asked(running: Running) -> None:
    running.person.answer = YES
    for work in ("askTooMuch", "askNonsense"):
        assert (await running.data(work))["error"]["code"] == "INVALID_PARAMS"
    unknown = await running.data(
        "ask", by="__abp_elicitation", request={"method": "elicitation/dance"}
    )
    assert unknown["error"]["code"] == "NOT_SUPPORTED"
    assert running.person.questions == []


async def test_names_that_belong_to_the_page_are_not_taken(running: Running) -> None:
    names = await running.data("names")
    assert "__abp_cancel" not in names
    assert "__abpBridgePost" not in names
    assert {
        "__abp_elicitation",
        "__abp_notification",
        "__abp_progress",
        "__abp_capabilities_changed",
    } <= set(names)


# --- telling --------------------------------------------------------------------------------------


async def test_notification_is_heard_by_every_name_and_in_every_shape(running: Running) -> None:
    for by, message, more in (
        (
            "__abp_notification",
            {"event": "notifications/state/changed", "data": {"field": "a"}},
            None,
        ),
        ("__abp_notify", {"method": "notifications/state/changed", "params": {"field": "a"}}, None),
        ("__abp_notify", "state/changed", {"field": "a"}),
        ("__abpOnNotification", {"event": "state/changed", "data": {"field": "a"}}, None),
    ):
        running.person.notices.clear()
        await running.run("tell", by=by, message=message, more=more)
        assert running.person.notices == [
            Notice(NoticeKind.STATE_CHANGED, "notifications/state/changed", {"field": "a"})
        ], by


async def test_progress_is_heard_by_every_name(running: Running) -> None:
    await running.run("tell", by="__abp_progress", message={"progress": 1, "total": 4})
    await running.run("tell", by="__abpOnProgress", message={"progress": 2, "total": 4})
    await running.run("hookTell", hook="onProgress", message={"progress": 3, "total": 4})
    await running.run(
        "tell",
        by="__abp_notification",
        message={"event": "notifications/progress", "data": {"progress": 4, "total": 4}},
    )
    assert [(report.value, report.total) for report in running.person.progress] == [
        (1.0, 4.0),
        (2.0, 4.0),
        (3.0, 4.0),
        (4.0, 4.0),
    ]


async def test_changed_capabilities_are_heard_by_every_name(running: Running) -> None:
    await running.run("tell", by="__abp_capabilities_changed", message={"added": ["a"]})
    await running.run("tell", by="__abpOnCapabilitiesChanged", message={"added": ["b"]})
    await running.run("hookTell", hook="onCapabilitiesChanged", message={"added": ["c"]})
    assert {notice.kind for notice in running.person.notices} == {NoticeKind.CAPABILITIES_CHANGED}
    assert [notice.data["added"] for notice in running.person.notices] == [["a"], ["b"], ["c"]]


async def test_a_notification_by_three_names_is_heard_once(running: Running) -> None:
    await running.run("tellTwice", message={"event": "x"})
    assert [notice.name for notice in running.person.notices] == ["notifications/x"]


async def test_a_flood_arrives_whole_in_order_and_before_the_result(running: Running) -> None:
    await running.run("flood", times=20_000)
    assert [notice.data["time"] for notice in running.person.notices] == list(range(20_000))
    assert [report.value for report in running.person.progress] == [20_000.0]


async def test_a_notification_that_is_too_large_is_dropped_aloud(running: Running) -> None:
    await running.run("tellTooMuch")
    assert "was dropped: it is larger than" in str(running.person.notices[0].data["message"])


# --- who may speak --------------------------------------------------------------------------------


async def test_frames_that_ask_are_refused_and_reported(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/frames.html", YES) as running:
        found: Any = (await running.app.call_capability("run", {}, "c")).data
        for host in ("127.0.0.1", "localhost"):
            assert list(found[host]["answers"]) == ["__abpBridgePost"], (
                "the names of ABP are not in frames"
            )
            answer = found[host]["answers"]["__abpBridgePost"]
            assert (answer["success"], answer["error"]["code"]) == (False, "PERMISSION_DENIED")
            assert found[host]["confirmed"] is False
        assert running.person.questions == []
        assert running.person.progress == []
        warnings = [
            str(notice.data["message"])
            for notice in running.person.notices
            if notice.kind is NoticeKind.ERROR
        ]
        assert sorted(warnings) == [
            f"a frame of {origin} tried to speak for the app and was refused"
            for origin in (site.here, site.elsewhere)
        ]
        assert len(running.person.notices) == 2


async def test_window_that_a_page_opens_is_closed_and_reported(running: Running, site: Web) -> None:
    running.person.answer = YES
    await running.run("open", url=f"{site.elsewhere}/early.html")
    await running.person.until(lambda: running.person.notices)
    assert "opened a window" in str(running.person.notices[0].data["message"])
    assert await running.data("title") == "workshop"
    assert running.person.questions == []


async def test_downloads_during_a_call_are_files_of_its_result(running: Running, site: Web) -> None:
    file = f"{site.here}/file?body=a,b&type=text/csv&name=r.csv"
    came: dict[str, Json] = {}
    for work, params in {
        "download": {},
        "save": {"url": file, "name": "s.csv"},
        "leave": {"to": file},
        "open": {"url": file},
    }.items():
        result = await running.run(work, **params)
        came[work] = [(each.name, each.content, each.source) for each in result.files]
        assert "note" not in result.metadata
    named = [("r.csv", b"a,b", "a download")]
    assert came == {
        "download": [("x.bin", b"x", "a download")],
        "save": named,
        "leave": named,
        "open": named,
    }
    gone = await running.run("save", url=f"{site.here}/file?status=404", name="s.csv")
    assert (gone.files, "s.csv failed" in str(gone.metadata["note"])) == ((), True)
    await running.run("saveLater", url=file, name="late.csv")
    await running.person.until(lambda: len(running.person.notices) > 1)
    told = running.person.notices[-1].data["message"]
    assert str(told).startswith("a download was refused")
    assert await running.data("title") == "workshop", "the page is where it was"


async def seen(path: str, paths: list[str], times: int = 1) -> None:
    """Until the server has it so often."""
    with anyio.fail_after(PATIENCE):
        while paths.count(path) < times:  # noqa: ASYNC110  another thread tells nobody
            await anyio.sleep(0.02)


async def begun(running: Running, site: Web, path: str) -> None:
    """Until a download has begun at the server, and in the browser."""
    await seen(path, site.requests)
    for _ in range(10):
        await running.app.wait_idle()


@pytest.mark.parametrize("by", ["a download", "the page"])
async def test_download_of_a_cancelled_call_is_given_up(
    running: Running, by: str, site: Web
) -> None:
    path = f"/file?size=99&type=text/csv&name=r.csv&endless={by.replace(' ', '-')}"
    async with anyio.create_task_group() as tasks:
        if by == "a download":
            params: Json = {"work": "save", "url": site.here + path, "name": "r.csv"}
            tasks.start_soon(running.app.call_capability, "run", params, "c1")
        else:
            tasks.start_soon(running.app.download, site.here + path, {})
        await begun(running, site, path)
        assert path not in site.left
        tasks.cancel_scope.cancel()
    await seen(path, site.left)
    assert await running.data("title") == "workshop"


async def test_download_that_is_too_large_is_given_up(
    running: Running, site: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_DOWNLOAD", 1_000)
    file = f"{site.here}/file?size=1000&type=text/csv&name=r.csv"
    fits = await running.run("save", url=file, name="r.csv")
    assert [len(each.content) for each in fits.files] == [1_000]
    result = await running.run("saveOften", url=f"{file}&endless=2", name="r.csv", times=2)
    assert result.files == ()
    said = "its download r.csv has more than 1000 bytes"
    assert str(result.metadata["note"]).count(said) == 2


async def test_print_during_a_call_is_a_pdf(running: Running) -> None:
    result = await running.run("print")
    assert result.data == ["before", "after"], "as a printer would have it"
    (printed,) = result.files
    assert (printed.mime_type, printed.name) == ("application/pdf", "workshop.pdf")
    assert printed.content.startswith(b"%PDF-")
    await running.run("printOften", times=12)
    await running.person.until(lambda: len(running.person.notices) == 2)
    assert {notice.data["code"] for notice in running.person.notices} == {"PERMISSION_DENIED"}


async def test_a_file_is_fetched_by_the_pages_own_rules(running: Running, site: Web) -> None:
    await running.run("sign", cookie="session=1; path=/")
    own = f"{site.here}/file?cookie=session%3D1&body=mine&type=text/csv"
    file = await running.app.download(own, {})
    assert (file.content, file.mime_type) == (b"mine", "text/csv; charset=utf-8")
    bearer = {"type": "bearer", "token": "t"}
    locked = f"{site.here}/file?authorization=Bearer%20t&body=open"
    assert (await running.app.download(locked, bearer)).content == b"open"
    refused = {
        locked: "HTTP 401",
        f"{site.elsewhere}/file?body=theirs": "CORS or the page's Content-Security-Policy",
        f"{site.here}/file?size={48 * 2**20 + 1}": "it is larger than 50331648 bytes",
        "http://": "Invalid URL",
    }
    for url, why in refused.items():
        with pytest.raises(AppError, match=re.escape(why)):
            await running.app.download(url, {})


# --- dialogs --------------------------------------------------------------------------------------


async def test_confirm_during_a_call_is_a_question(running: Running, site: Web) -> None:
    for running.person.answer, confirmed in ((YES, True), (NO, False), (DECLINED, False)):
        assert await running.data("confirm") is confirmed
    asked = {
        (question.message, question.destructive, question.origin)
        for question in running.person.questions
    }
    assert asked == {("Delete all?", True, site.here)}


async def test_prompt_during_a_call_is_a_question(running: Running) -> None:
    for running.person.answer, typed in ((accepted(value="Bea"), "Bea"), (DECLINED, None)):
        assert await running.data("prompt") == typed
    assert running.person.questions[0].fields[0].default == "Ann"


async def test_an_alert_is_told_and_closed(running: Running) -> None:
    running.person.answer = YES
    assert await running.data("alert") is None
    assert running.person.notices == [
        Notice(
            NoticeKind.OTHER,
            "notifications/dialog/alert",
            {"message": "Look!", "outcome": "dismissed"},
        )
    ]


async def test_confirm_outside_of_a_call_is_dismissed(running: Running) -> None:
    running.person.answer = YES
    await running.run("confirmLater")
    await running.person.until(lambda: running.person.notices)
    assert running.person.notices[0].name == "notifications/dialog/confirm"
    assert await running.data("title") == "false"
    assert running.person.questions == []


async def test_a_call_that_is_given_up_dismisses_its_dialog(browser: Browser, site: Web) -> None:
    async with (
        opened(browser, f"{site.here}/workshop.html") as running,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: running.run("confirm"))
        await running.person.until(lambda: running.person.questions)
        tasks.cancel_scope.cancel()
    # That the app closed although its page was blocked by a dialog is what this shows.


# --- calling --------------------------------------------------------------------------------------


async def test_values_that_json_does_not_have_are_spelled_and_noted(running: Running) -> None:
    result = await running.run("odd")
    assert result.data == {
        "map": {"a": [[1, 2]]},
        "set": [1, 2],
        "date": "1970-01-01T00:00:00.000Z",
        "noDate": None,
        "big": str(2**70),
        "not": [None, None, 0],
        "holes": [None, None],
        "element": "[HTMLParagraphElement]",
        "error": {"name": "RangeError", "message": "far", "far": 7},
        "regexp": "/a+/g",
        "boxed": ["text", 1, True],
        "url": "https://app.example/x",
        "query": "[URLSearchParams]",
        "half": "half �",
        "__proto__x": 1,
        "bad": "[Unreadable: sealed]",
        "proxy": "[Unreadable: shut]",
        "window": "[Window]",
    }
    assert "numbers that JSON does not have became null" in str(result.metadata["note"])


async def test_large_result_crosses_whole_during_a_question(running: Running) -> None:
    running.person.answer = YES
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: running.run("ask", by="__abp_elicitation", request=CONFIRM))
        assert await running.data("large", size=5_000_000) == "👍" * 2_500_000
    assert len(running.person.questions) == 1


async def test_a_result_that_is_too_large_is_a_clear_failure(running: Running) -> None:
    result = await running.run("large", size=2**26)
    assert "cannot be carried: it is larger than 67108864 characters" in str(result.failure)


async def test_page_that_changes_builtins_changes_no_result(running: Running) -> None:
    running.person.answer = YES
    assert await running.data("broken") == [1, {"a": ["b"]}]


@pytest.mark.parametrize(
    ("form", "cancelled"),
    [
        ("positional", ["held"]),
        ("object", ["nothing", "held"]),
        ("global", ["held: enough"]),
        ("none", []),
    ],
)
async def test_call_is_cancelled_in_the_form_that_the_page_has(
    browser: Browser, site: Web, form: str, cancelled: Json
) -> None:
    async with opened(browser, f"{site.here}/workshop.html?cancel={form}") as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running.run("hold", call="held"))
            await anyio.wait_all_tasks_blocked()
            await running.run("done")  # the page has taken the call by now
            tasks.cancel_scope.cancel()
        await running.app.cancel_call("held", "enough")
        assert await running.data("done") == {
            "initialized": 1,
            "cancelled": cancelled,
            "aborted": ["enough"],
        }


async def test_cancelling_a_page_that_is_stuck_is_bounded(running: Running) -> None:
    with anyio.move_on_after(0.2):
        await running.run("spin", call="spinning")
    with anyio.fail_after(1.0):
        await running.app.cancel_call("spinning", "enough")


@pytest.mark.parametrize("code", ["SESSION_EXPIRED", "NOT_INITIALIZED"])
async def test_expired_session_is_begun_again_once_for_all_calls(
    browser: Browser, site: Web, code: str
) -> None:
    async with opened(browser, f"{site.here}/workshop.html?expired={code}") as running:
        await running.run("expire")
        answers: list[Json] = []

        async def call() -> None:
            answers.append(await running.data("title"))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call)
        assert answers == ["workshop"] * 3
        assert (await running.data("done"))["initialized"] == 2


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listing", "description"),
    [("absent", ""), ("wrapped", "From the list"), ("only", "From the manifest")],
)
async def test_capabilities_are_merged_from_manifest_and_list(
    browser: Browser, site: Web, listing: str, description: str
) -> None:
    async with opened(browser, f"{site.here}/workshop.html?list={listing}") as running:
        found = {each.name: each.description for each in running.opened.capabilities}
        assert found["run"] == (description or "From the manifest")
        warned = any("names no capabilities" in warning for warning in running.opened.warnings)
        assert warned is (listing == "only")


async def test_capability_only_in_the_manifest_is_a_warning(browser: Browser, site: Web) -> None:
    """It is no capability (D3), and does not vanish."""
    named = [{"name": name} for name in ("run", "report.pdf", "report.csv", "n" * 121)]
    manifest = {"abp": "0.1", "app": {"id": "tests", "name": "Tests"}, "capabilities": named}
    link = f'<link rel="abp-manifest" href="/json?{urlencode({"body": json.dumps(manifest)})}">'
    page = urlencode({"html": f'{link}<script src="early.js"></script>'})
    async with opened(browser, f"{site.here}/head?{page}") as running:
        assert [each.name for each in running.opened.capabilities] == ["run"]
        long, unlisted = running.opened.warnings
    assert unlisted == (
        "its manifest also names report.pdf, report.csv, which the page itself does not list"
    )
    assert "with a name of more than 120 characters cannot be called" in long


async def test_a_page_without_window_abp_is_refused_in_time(browser: Browser, site: Web) -> None:
    said = str(await refused(browser, f"{site.here}/empty.html"))
    assert said.startswith("window.abp not found after page load")
    assert "is titled 'empty'. No script of the page set window.abp." in said
    assert "signing in" not in said, "nobody signs in on this machine"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("misnamed", "Its window.apb looks like one: is window.abp meant?"),
        ("variable", "Its abp is a variable and no member of window: write window.abp = abp."),
    ],
)
async def test_what_is_nearly_window_abp_is_named(
    browser: Browser, site: Web, name: str, words: str
) -> None:
    assert words in str(await refused(browser, f"{site.here}/{name}.html"))


async def test_a_page_with_a_mistake_in_its_script_is_told_where(
    browser: Browser, site: Web
) -> None:
    said = str(await refused(browser, f"{site.here}/broken.html"))
    assert f"the page at {site.here}/broken.html is titled 'My invoices'." in said
    assert "Its page's console has an error: Uncaught SyntaxError: Unexpected" in said
    assert "(/broken.js:3:14)." in said
    assert "secret" not in said


async def test_a_pages_console_is_told_as_its_own_words(running: Running, site: Web) -> None:
    failure = (await running.run("grumble", words="it is late")).failure
    assert failure is not None
    assert "TypeError: no such thing (at /workshop.js:" in failure.message
    told = [each for each in running.person.notices if each.kind is NoticeKind.CONSOLE]
    lines = [(each.data["level"], each.data["message"]) for each in told]
    assert set(lines) == {
        ("error", 'no paper {"tray":2} RangeError: far'),
        ("warning", "it is late"),
        ("error", "Uncaught (in promise) Error: nobody caught it"),
        ("error", "Uncaught SyntaxError: too late"),
        ("error", f"GET {site.here}/no.json was answered with HTTP 404"),
    }
    places = [str(each.data["at"]) for each in told if "at" in each.data]
    assert len(places) == 4
    assert all(re.fullmatch(r"/workshop\.js:\d+:\d+", each) for each in places)


SAID_SECRETS: dict[str, tuple[Json, Json]] = {  # what is answered, and what of it the page says
    "a word": ("hunter2-plain", "hunter2-plain"),
    "a number": (482913, 482913),
    "a quoted one": ('pa"ss\\hunter2', 'pa"ss\\hunter2'),
    "one that addresses escape": ("p@ss/hunter2 one?é", "p@ss/hunter2 one?é"),
    "a token that is longer than a line": ("eyJ" + "hunter2x" * 420, "eyJ" + "hunter2x" * 420),
}


async def test_console_of_a_page_tells_no_secret(running: Running) -> None:
    running.person.answer = YES

    async def say(secret: Json, **params: Json) -> str:
        running.person.answer = accepted(value=secret)
        running.person.notices.clear()
        if params:
            kind = "integer" if isinstance(secret, int) else "string"
            asked = {"prompt": "Password?", "sensitive": True, "schema": {"type": kind}}
            request = {"method": "elicitation/input", "params": asked}
            await running.run("ask", by="__abp_elicitation", request=request)
        await running.run("echo", **params)
        assert len(running.person.notices) >= 4
        return json.dumps([each.data for each in running.person.notices])

    for secret, said in SAID_SECRETS.values():
        told = await say(secret, words=said)
        assert "[secret]" in told
        assert not re.search("hunter|4829|p%40ss|p@ss|pa..?ss", told), told
    assert "hunter" not in await say("hunter2-by-prompt")


async def test_an_app_that_refuses_to_be_initialised_is_quoted(browser: Browser, site: Web) -> None:
    problem = await refused(browser, f"{site.here}/workshop.html?refuse=1", SETTINGS)
    assert str(problem) == f"{site.here} refused initialize: NOT_SUPPORTED: not today."


async def test_page_that_leads_elsewhere_is_refused(browser: Browser, site: Web) -> None:
    problem = await refused(browser, f"{site.here}/strays.html?to={site.elsewhere}/early.html")
    assert f"went to {site.elsewhere}/early.html" in str(problem)


async def test_the_origin_is_where_a_redirect_led(browser: Browser, site: Web) -> None:
    allowing = Settings(chrome_sandbox=False, allowed_hosts=("localhost",))
    async with opened(
        browser, f"{site.here}/redirect?to={site.elsewhere}/workshop.html", YES, allowing
    ) as running:
        assert running.app.origin == site.elsewhere
        await running.run("ask", by="__abp_elicitation", request=CONFIRM)
        assert running.person.questions[0].origin == site.elsewhere


async def test_the_page_is_printed(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        assert (await running.app.render_pdf()).startswith(b"%PDF-")
    with pytest.raises(AppError, match="no longer available"):
        await running.app.render_pdf()


# --- being gone -----------------------------------------------------------------------------------


async def asked_then(running: Running, work: str, **params: Json) -> CallResult:
    """The result of a call whose app asked, and then did something before the answer."""
    results: list[CallResult] = []

    async def call() -> None:
        results.append(await running.run("ask", by="__abp_elicitation", request=CONFIRM))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await running.person.until(lambda: running.person.questions)
        tasks.start_soon(lambda: running.run(work, **params))
        await running.person.until(lambda: running.person.reasons)
    return results[0]


async def test_page_that_leaves_during_a_question_is_disconnected(
    running: Running, site: Web
) -> None:
    result = await asked_then(running, "leave", to=f"{site.elsewhere}/early.html")
    assert str(result.failure) == f"DISCONNECTED: {GONE} (retryable)"
    assert running.person.reasons == [f"its page went to {site.elsewhere}/early.html"]
    again = await running.run("title")
    assert again.failure is not None
    assert again.failure.code == "DISCONNECTED"
    assert await running.app.capabilities() == ()
    assert len(running.person.questions) == 1, "the page that came after must not ask"


async def test_page_that_reloads_is_disconnected(running: Running) -> None:
    result = await asked_then(running, "reload")
    assert result.failure is not None
    assert result.failure.code == "DISCONNECTED"
    assert len(running.person.reasons) == 1
    assert "loaded anew" in running.person.reasons[0]


async def test_page_that_only_changes_its_address_stays_connected(running: Running) -> None:
    running.person.answer = YES
    assert await running.data("stay") == "/elsewhere"
    assert (await running.data("ask", by="__abp_elicitation", request=CONFIRM))["success"]
    assert running.person.reasons == []


async def test_a_page_that_is_closed_is_gone_once(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await browser.contexts[0].close()
        await running.person.until(lambda: running.person.reasons)
    assert running.person.reasons == ["its page or its browser was closed"]


# --- processes ------------------------------------------------------------------------------------


async def test_chromium_has_every_feature_flag_of_playwright(browser: Browser) -> None:
    session = await browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    [process] = [each["id"] for each in processes if each["type"] == "browser"]
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode().replace("\0", " ").split()
    for flag in ("--enable-features=", "--disable-features="):
        theirs, ours = (
            set(word.removeprefix(flag).split(",")) for word in words if word.startswith(flag)
        )
        assert theirs - ours == set()  # the last list is all that counts


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A mark in the environment of every process that is started from now on."""
    value = f"test-{os.urandom(8).hex()}"
    monkeypatch.setenv("ABP_TEST_MARK", value)
    return value


def marked(mark: str) -> dict[int, str]:
    """The processes that bear `mark`, wherever they have got to: id -> command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and mark.encode() in (entry / "environ").read_bytes()
                and int(entry.name) != os.getpid()
            ):
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue
    return found


def no_process_left(mark: str, within: float = 10.0) -> bool:
    """Whether all processes that bear `mark` end within so many seconds, each."""
    while processes := marked(mark):  # again, as one that ends may have been starting another
        for process in processes:
            try:
                fd = os.pidfd_open(process)
            except ProcessLookupError:
                continue
            try:
                if not select.select([fd], [], [], within)[0]:
                    return False
            finally:
                os.close(fd)
    return True


def browser_of(processes: dict[int, str]) -> int:
    return next(
        id
        for id, command in processes.items()
        if "--remote-debugging-pipe" in command and "--type=" not in command
    )


async def test_closing_an_app_leaves_no_process(site: Web, mark: str) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", SETTINGS, named=True)
    with anyio.fail_after(PATIENCE):
        async with app.open_app(Person()):
            started = marked(mark)
            assert any("run-driver" in command for command in started.values())
            assert browser_of(started)
    assert no_process_left(mark)


@pytest.mark.parametrize("delay", [0.15, 0.8])
async def test_giving_up_while_opening_leaves_no_process(
    site: Web, mark: str, delay: float
) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", SETTINGS, named=True)
    with anyio.fail_after(PATIENCE):
        with anyio.move_on_after(delay):
            async with app.open_app(Person()):
                await anyio.sleep_forever()
    assert await anyio.to_thread.run_sync(no_process_left, mark)


async def test_a_browser_that_hangs_is_killed(site: Web, mark: str) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", SETTINGS, named=True)
    with anyio.fail_after(PATIENCE):
        async with app.open_app(Person()):
            started = marked(mark)
            os.kill(browser_of(started), signal.SIGSTOP)
    assert no_process_left(mark)


async def test_a_browser_that_is_not_there_is_named(site: Web) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", Settings(chrome="/no/such/browser"), named=True)
    with pytest.raises(AppError, match=r"'/no/such/browser'.*ABP_CHROME"):
        async with app.open_app(Person()):
            pass


async def test_browser_that_does_not_start_in_time_is_given_up(
    site: Web, mark: str, tmp_path: Path
) -> None:
    sleepy = tmp_path / "sleepy"
    sleepy.write_text("#!/bin/sh\nexec sleep 60\n")
    sleepy.chmod(0o755)
    app = BrowserApp(
        f"{site.here}/workshop.html", Settings(chrome=str(sleepy), browser_timeout=1.0), named=True
    )
    with anyio.fail_after(PATIENCE), pytest.raises(AppError, match=r"^Browser launch timeout"):
        async with app.open_app(Person()):
            pass
    # A driver that is slow to start is ended once it has: by this loop.
    assert await anyio.to_thread.run_sync(no_process_left, mark)


@pytest.mark.skipif(os.geteuid() != 0, reason="Chromium's sandbox fails for root")
async def test_a_sandbox_that_cannot_start_says_what_to_do(site: Web) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", Settings(browser_timeout=PATIENCE), named=True)
    with anyio.fail_after(PATIENCE), pytest.raises(AppError, match="ABP_CHROME_SANDBOX=0"):
        async with app.open_app(Person()):
            pass


def test_page_without_playwright_names_the_extra_to_install() -> None:
    code = """
import sys
sys.modules["playwright"] = None
from abp_bridge.session.app import AppError
from abp_bridge.apps.targets import make_app
from abp_bridge.settings import Settings
for target in ("https://app.example", "demo:page"):
    try:
        make_app(target, True, Settings())
    except AppError as problem:
        print(problem)
"""
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout
    assert said.count(f"{sys.executable} -m pip install 'httpcore2") == 2
    assert said.count("'playwright<") == 2


# --- through the public door ----------------------------------------------------------------------


def test_the_demo_pages_manifest_names_what_its_script_does() -> None:
    here = Path(demo.__file__).parent
    script = json.loads((here / "script.json").read_text())
    stated = json.loads((here / "page/abp.json").read_text())
    assert stated["app"] == script["app"]
    told = [
        {"name": each["name"], "description": each["description"]}
        for each in script["capabilities"]
        if not each.get("hidden")
    ]
    assert stated["capabilities"] == told


async def test_killed_browser_ends_its_question_and_can_be_reconnected(mark: str) -> None:
    asked, answers = anyio.Event(), list[Any]()
    async with hosted(
        "--app", "demo:page", answer=lambda _: asked.set(), env={"ABP_TEST_MARK": mark}
    ) as host:

        async def call() -> None:
            answers.append(await host.call("demo.ask", request=CONFIRM))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(PATIENCE):
                await asked.wait()
            os.kill(browser_of(marked(mark)), signal.SIGKILL)
        assert text(answers[0]).startswith("DISCONNECTED: ")
        assert "abp_connect" in text(answers[0])
        assert len(host.wire.sent("notifications/cancelled")) == 1
        assert (await host.status())["apps"] == {}
        assert text(await host.call("demo.echo", value="again")) == "again"
    assert no_process_left(mark)


@pytest.mark.process
@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGKILL])
def test_no_browser_is_left_when_the_bridge_ends(mark: str, end: signal.Signals | None) -> None:
    with RawHost("--app", "demo:page", env={"ABP_TEST_MARK": mark}) as host:
        host.initialize(elicitation={})
        host.request("tools/call", {"name": "abp_connect", "arguments": {}})
        assert browser_of(marked(mark))
        host.send(
            "tools/call", {"name": "abp_demo_ask", "arguments": {"request": CONFIRM}}, id="asking"
        )
        while host.read().get("method") != "elicitation/create":
            pass
        if end is None:
            assert host.end() == 0
        else:
            host.process.send_signal(end)
            host.process.wait(2.5)
    assert no_process_left(mark)


@pytest.mark.process
def test_no_temporary_file_is_left_when_all_processes_are_signalled(mark: str) -> None:
    with (
        TemporaryDirectory(dir="/tmp") as folder,
        RawHost("--app", "demo:page", env={"ABP_TEST_MARK": mark, "TMPDIR": folder}) as host,
    ):
        host.initialize(elicitation={})
        host.request("tools/call", {"name": "abp_connect", "arguments": {}})
        assert len(os.listdir(folder)) == 1
        for process in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        assert host.process.wait(PATIENCE) == 0
        assert os.listdir(folder) == []
    assert no_process_left(mark)


def test_playwright_debug_variables_write_no_answer_to_stderr(tmp_path: Path) -> None:
    code = f"""
import anyio
from abp_bridge.apps.demo.site import DemoPage
from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.settings import Settings
from abp_bridge.session.context import AskContext

class Person:
    def new_question_id(self):
        return "q"
    async def elicit(self, question, context):
        return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, {{question.fields[0].name: "planted"}})
    def on_notice(self, _): ...
    can_sample = on_progress = on_disconnect = on_notice

async def main():
    app = DemoPage({SETTINGS!r})
    async with app.open_app(Person()):
        params = {{"prompt": "Key?", "sensitive": True}}
        request = {{"method": "elicitation/input", "params": params}}
        result = await app.call_capability("demo.ask", {{"request": request}}, "c1")
        assert result.data["data"] == {{"value": "planted"}}, result

anyio.run(main)
"""
    with (tmp_path / "said").open("wb") as said:
        subprocess.run(
            [sys.executable, "-c", code],
            stdout=said,
            stderr=said,
            timeout=PATIENCE,
            check=True,
            env={**os.environ, "DEBUG": "pw:*", "DEBUGP": "pw:*"},
        )
    assert (tmp_path / "said").read_text() == ""
