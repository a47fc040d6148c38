"""Apps that are pages, in a real Chromium: what they may ask, tell and return, who may speak for them, and how they end."""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness import SERVE, accept, environment, hosted, text
from pages.server import Web, web
from playwright.async_api import Browser

from abp_bridge.apps import AppError
from abp_bridge.apps.browser import GONE, BrowserApp
from abp_bridge.apps.chrome import chrome
from abp_bridge.apps.demo.site import DemoPage
from abp_bridge.core.capability import CallResult, Opened
from abp_bridge.core.notice import Event, Notice, Progress
from abp_bridge.core.question import Answer, AnsweredBy, Outcome, Question
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.anyio

SETTINGS = Settings(chrome_sandbox=False, browser_timeout=20.0)
HASTY = Settings(chrome_sandbox=False, browser_timeout=1.0)  # in a browser that runs already
PATIENCE = 20.0
CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def site() -> Iterator[Web]:
    with web() as running:
        yield running


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chrome(SETTINGS) as running:
        yield running


def accepted(**content: Json) -> Answer:
    return Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, content)


YES, NO = accepted(confirmed=True), accepted(confirmed=False)
DECLINED = Answer(Outcome.DECLINED, AnsweredBy.PERSON, reason="No.")


@dataclass
class Person:
    """Whoever listens to an app. `answer` is what every question gets; without one, none is ever answered."""

    answer: Answer | None = None
    questions: list[Question] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _something: anyio.Event = field(default_factory=anyio.Event)

    def new_question_id(self) -> str:
        return f"q{len(self.questions) + 1}"

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        self._happened()
        return self.answer or await anyio.sleep_forever()  # type: ignore[func-returns-value]

    def told(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._happened()

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)
        self._happened()

    def gone(self, reason: str) -> None:
        self.reasons.append(reason)
        self._happened()

    async def until(self, reached: Callable[[], object]) -> None:
        with anyio.fail_after(PATIENCE):
            while not reached():
                await self._something.wait()

    def _happened(self) -> None:
        self._something.set()
        self._something = anyio.Event()


@dataclass
class Running:
    """An open app and whoever listens to it."""

    app: BrowserApp
    person: Person
    opened: Opened
    _calls: int = 0

    async def run(self, work: str, *, capability: str = "run", **params: Json) -> CallResult:
        self._calls += 1
        return await self.app.call(capability, {"work": work, **params}, f"call-{self._calls}")

    async def data(self, work: str, **params: Json) -> Json:
        result = await self.run(work, **params)
        assert result.failure is None, result.failure
        return result.data


@asynccontextmanager
async def opened(browser: Browser, address: str, answer: Answer | None = None, settings: Settings = SETTINGS) -> AsyncIterator[Running]:
    """The app at `address` in a browser that goes on afterwards."""

    @asynccontextmanager
    async def lent(_: Settings) -> AsyncIterator[Browser]:
        yield browser
        for context in browser.contexts:
            await context.close()

    person = Person(answer)
    app = BrowserApp(address, settings, named=True, browser=lent)
    with anyio.fail_after(PATIENCE):
        async with app.open(person) as about:
            yield Running(app, person, about)


async def refused(browser: Browser, address: str, settings: Settings = HASTY) -> AppError:
    with pytest.raises(AppError) as caught:
        async with opened(browser, address, settings=settings):
            pass
    return caught.value


# --- asking -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["__abp_elicitation", "__abpOnElicitation"])
async def test_an_app_asks_by_every_global_name(browser: Browser, site: Web, name: str) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        response = await running.data("ask", by=name, request=CONFIRM)
        assert (response["success"], response["data"]) == (True, {"confirmed": True})
        (question,) = running.person.questions
        assert (question.message, question.origin) == ("Sure?", site.here)


async def test_an_app_asks_by_the_property_that_it_was_given(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", NO) as running:
        assert (await running.data("hookAsk", request=CONFIRM))["data"] == {"confirmed": False}


async def test_an_app_that_takes_its_handlers_through_methods_is_heard_once_by_all_its_names(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/hooks.html", YES) as running:
        result = await running.app.call("run", {}, "c")
        assert result.data == [True, True, True]
        assert len(running.person.questions) == 1
        assert [notice.name for notice in running.person.notices] == ["notifications/state/changed", "notifications/capabilities/list_changed"]
        assert [report.value for report in running.person.progress] == [0.5]


async def test_a_request_by_two_names_is_asked_once_and_asking_again_asks_again(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        twice = await running.data("askTwice", request=CONFIRM)
        assert [[answer["data"] for answer in answers] for answers in twice] == [[{"confirmed": True}] * 2] * 2
        assert len(running.person.questions) == 2


async def test_what_an_app_asks_while_it_loads_is_asked(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/early.html", YES) as running:
        assert (await running.app.call("run", {}, "c")).data == {"confirmed": True}
        assert running.person.questions[0].message == "At once?"


async def test_a_bootstrap_page_is_waited_for_and_hooked_when_it_is_real(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/late.html", YES) as running:
        assert running.opened.session == "late"
        assert (await running.app.call("run", {}, "c")).data == {"confirmed": True}


async def test_a_request_that_cannot_be_put_to_anybody_is_answered_and_not_asked(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        for work in ("askTooMuch", "askNonsense"):
            assert (await running.data(work))["error"]["code"] == "INVALID_PARAMS"
        unknown = await running.data("ask", by="__abp_elicitation", request={"method": "elicitation/dance"})
        assert unknown["error"]["code"] == "NOT_SUPPORTED"
        assert running.person.questions == []


async def test_the_name_that_belongs_to_the_app_is_never_taken(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        names = await running.data("names")
        assert "__abp_cancel" not in names
        assert "__abpBridgePost" not in names
        assert {"__abp_elicitation", "__abp_notification", "__abp_progress", "__abp_capabilities_changed"} <= set(names)


# --- telling ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "message", "more"),
    [
        ("__abp_notification", {"event": "notifications/state/changed", "data": {"field": "a"}}, None),
        ("__abp_notify", {"method": "notifications/state/changed", "params": {"field": "a"}}, None),
        ("__abp_notify", "state/changed", {"field": "a"}),
        ("__abpOnNotification", {"event": "state/changed", "data": {"field": "a"}}, None),
    ],
)
async def test_a_notification_is_heard_by_every_name_and_in_every_shape(browser: Browser, site: Web, by: str, message: Json, more: Json) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("tell", by=by, message=message, more=more)
        assert running.person.notices == [Notice(Event.STATE_CHANGED, "notifications/state/changed", {"field": "a"})]


@pytest.mark.parametrize("by", ["__abp_progress", "__abpOnProgress", "__abp_notification"])
async def test_progress_is_heard_by_every_name(browser: Browser, site: Web, by: str) -> None:
    report = {"progress": 1, "total": 4}
    message = {"event": "notifications/progress", "data": report} if by == "__abp_notification" else report
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("tell", by=by, message=message)
        assert [(report.value, report.total) for report in running.person.progress] == [(1.0, 4.0)]


@pytest.mark.parametrize("by", ["__abp_capabilities_changed", "__abpOnCapabilitiesChanged", "onCapabilitiesChanged"])
async def test_changed_capabilities_are_heard_by_every_name(browser: Browser, site: Web, by: str) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        work = {"work": "hookTell", "hook": by} if by.startswith("on") else {"work": "tell", "by": by}
        await running.run(**work, message={"added": ["more"]})
        assert running.person.notices[0].event is Event.CAPABILITIES_CHANGED
        assert running.person.notices[0].data["added"] == ["more"]


async def test_a_notification_by_three_names_is_heard_once(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("tellTwice", message={"event": "x"})
        assert [notice.name for notice in running.person.notices] == ["notifications/x"]


async def test_a_flood_arrives_whole_in_order_and_before_the_result(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("flood", times=20_000)
        assert [notice.data["time"] for notice in running.person.notices] == list(range(20_000))
        assert [report.value for report in running.person.progress] == [20_000.0]


async def test_what_was_told_before_a_question_arrives_before_it(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running.run("tellThenAsk", request=CONFIRM))
            await running.person.until(lambda: running.person.questions)
            assert [notice.name for notice in running.person.notices] == ["notifications/before"]
            tasks.cancel_scope.cancel()


async def test_a_notification_that_is_too_large_is_dropped_aloud(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("tellTooMuch")
        assert "was dropped: it is larger than" in running.person.notices[0].data["message"]


# --- who may speak ----------------------------------------------------------------------------------------------------------------------


async def test_frames_of_any_origin_are_refused_and_it_is_told(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/frames.html", YES) as running:
        found = (await running.app.call("run", {}, "c")).data
        for host in ("127.0.0.1", "localhost"):
            assert list(found[host]["answers"]) == ["__abpBridgePost"], "the names of ABP are not in frames"
            answer = found[host]["answers"]["__abpBridgePost"]
            assert (answer["success"], answer["error"]["code"]) == (False, "PERMISSION_DENIED")
            assert found[host]["confirmed"] is False
        assert running.person.questions == []
        assert running.person.progress == []
        warnings = [notice.data["message"] for notice in running.person.notices if notice.event is Event.ERROR]
        assert sorted(warnings) == [f"a frame of {origin} tried to speak for the app and was refused" for origin in (site.here, site.elsewhere)]
        dialogs = [notice.data for notice in running.person.notices if notice.name == "notifications/dialog/confirm"]
        assert {data["frame"] for data in dialogs} == {site.here, site.elsewhere}


async def test_a_window_that_an_app_opens_is_closed_and_it_is_told(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        await running.run("open", url=f"{site.elsewhere}/early.html")
        await running.person.until(lambda: running.person.notices)
        assert "opened a window" in running.person.notices[0].data["message"]
        assert await running.data("title") == "workshop"
        assert running.person.questions == []


async def test_a_download_is_refused_and_it_is_told(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await running.run("download")
        await running.person.until(lambda: running.person.notices)
        assert running.person.notices[0].data["message"] == "a download was refused: x.bin"


# --- dialogs ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "confirmed"), [(YES, True), (NO, False), (DECLINED, False)])
async def test_confirm_during_a_call_is_a_question(browser: Browser, site: Web, answer: Answer, confirmed: bool) -> None:
    async with opened(browser, f"{site.here}/workshop.html", answer) as running:
        assert await running.data("confirm") is confirmed
        (question,) = running.person.questions
        assert (question.message, question.destructive, question.origin) == ("Delete all?", True, site.here)


@pytest.mark.parametrize(("answer", "typed"), [(accepted(value="Bea"), "Bea"), (DECLINED, None)])
async def test_prompt_during_a_call_is_a_question_with_its_default(browser: Browser, site: Web, answer: Answer, typed: str | None) -> None:
    async with opened(browser, f"{site.here}/workshop.html", answer) as running:
        assert await running.data("prompt") == typed
        assert running.person.questions[0].fields[0].default == "Ann"


async def test_an_alert_is_told_and_closed(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        assert await running.data("alert") is None
        assert running.person.notices == [Notice(Event.OTHER, "notifications/dialog/alert", {"message": "Look!", "outcome": "dismissed"})]


async def test_a_confirm_that_no_call_asked_for_is_dismissed(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        await running.run("confirmLater")
        await running.person.until(lambda: running.person.notices)
        assert running.person.notices[0].name == "notifications/dialog/confirm"
        assert await running.data("title") == "false"
        assert running.person.questions == []


async def test_a_call_that_is_given_up_dismisses_its_dialog(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running.run("confirm"))
            await running.person.until(lambda: running.person.questions)
            tasks.cancel_scope.cancel()
    # That the app closed although its page was blocked by a dialog is what this shows.


async def test_a_page_that_does_not_want_to_be_left_stays(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        await running.run("leaveUnwillingly", to=f"{site.elsewhere}/empty.html")
        assert await running.data("title") == "workshop" or running.person.reasons


# --- calling ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("throw", "OPERATION_FAILED: TypeError: no such thing"),
        ("reject", "OUT_OF_PAPER: Load paper (retryable)"),
        ("rejectText", "OPERATION_FAILED: just so"),
        ("rejectResponse", "A_RESPONSE: rejected"),
        ("nonsense", "OPERATION_FAILED: TypeError: WORKS[params.work] is not a function"),
    ],
)
async def test_a_call_that_throws_or_rejects_is_a_clear_failure(browser: Browser, site: Web, work: str, error: str) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        assert str((await running.run(work)).failure) == error


async def test_a_call_that_returns_nothing_says_so(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        result = await running.run("undefined", capability="raw")
        assert result.failure is not None
        assert "returned nothing" in result.failure.message


async def test_values_that_json_does_not_have_are_spelled_and_noted(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
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


async def test_a_ring_is_cut_and_noted(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        result = await running.run("cycle")
        assert result.data == {"name": "ring", "self": "[Circular]"}
        assert result.metadata["note"] == "circular references were cut"
        deep = await running.run("deep")
        assert deep.metadata["note"] == "what is nested more than 100 levels deep was cut"


async def test_binary_values_become_base64_with_their_types(browser: Browser, site: Web) -> None:
    def spelled(content: bytes, kind: str = "application/octet-stream", **more: str) -> Json:
        return {"content": base64.b64encode(content).decode(), "mimeType": kind, "encoding": "base64", "size": len(content), **more}

    async with opened(browser, f"{site.here}/workshop.html") as running:
        assert await running.data("binary") == {
            "buffer": spelled(b"\1\2\3"),
            "part": spelled(b"\1\2"),
            "view": spelled(b"\0\0"),
            "blob": spelled(b"hi", "text/plain"),
            "file": spelled(b"hi", filename="hi.txt"),
            "typed": spelled(b"\x09", "image/png"),
            "beside": {"mimeType": "image/png", "data": spelled(b"\x09", "image/png")},
            "empty": spelled(b""),
        }


async def test_a_result_of_five_megabytes_crosses_whole_while_questions_go_on(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running.run("ask", by="__abp_elicitation", request=CONFIRM))
            assert await running.data("large", size=5_000_000) == "👍" * 2_500_000
        assert len(running.person.questions) == 1


async def test_a_result_that_is_too_large_is_a_clear_failure(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        result = await running.run("large", size=2**26)
        assert "cannot be carried: it is larger than 67108864 characters" in str(result.failure)


async def test_a_page_that_changes_the_builtins_changes_nothing_of_what_crosses(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        assert await running.data("broken") == [1, {"a": ["b"]}]


@pytest.mark.parametrize(
    ("form", "cancelled"),
    [
        ("positional", ["call-1"]),
        ("object", ["nothing", "call-1"]),
        ("global", ["call-1: enough"]),
        ("stub", []),
        ("stuck", []),
        ("none", []),
    ],
)
async def test_a_call_is_cancelled_in_the_form_that_the_app_has_and_by_its_signal(browser: Browser, site: Web, form: str, cancelled: Json) -> None:
    async with opened(browser, f"{site.here}/workshop.html?cancel={form}") as running:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: running.run("hold"))
                await running.run("done")  # the page has taken the first call by now
                scope.cancel()
        await running.app.cancel("call-1", "enough")
        assert await running.data("done") == {"initialized": 1, "cancelled": cancelled, "aborted": ["enough"]}


async def test_cancelling_a_page_that_is_stuck_is_bounded(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        with anyio.move_on_after(0.2):
            await running.run("spin")
        with anyio.fail_after(1.0):
            await running.app.cancel("call-1", "enough")


@pytest.mark.parametrize("code", ["SESSION_EXPIRED", "SESSION_INVALID", "NOT_INITIALIZED"])
async def test_a_session_that_ended_is_begun_again_once_for_all_calls_that_need_it(browser: Browser, site: Web, code: str) -> None:
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


# --- opening ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listing", "description"), [("absent", ""), ("rejects", ""), ("empty", ""), ("wrapped", "From the list"), ("only", "From the manifest")]
)
async def test_capabilities_are_what_the_app_says_last_and_most_richly(browser: Browser, site: Web, listing: str, description: str) -> None:
    async with opened(browser, f"{site.here}/workshop.html?list={listing}") as running:
        found = {each.name: each.description for each in running.opened.capabilities}
        assert found["run"] == (description or "From the manifest")
        warned = any("names no capabilities" in warning for warning in running.opened.warnings)
        assert warned is (listing == "only")


async def test_an_unknown_version_is_a_warning(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html?version=7") as running:
        assert running.opened.warnings == ("the app speaks ABP 7; this bridge knows 0.x and 1.x",)


async def test_a_page_without_window_abp_is_refused_in_time(browser: Browser, site: Web) -> None:
    assert str(await refused(browser, f"{site.here}/empty.html")).startswith("window.abp not found after page load")


async def test_an_app_that_refuses_to_be_initialised_is_quoted(browser: Browser, site: Web) -> None:
    problem = await refused(browser, f"{site.here}/workshop.html?refuse=1", SETTINGS)
    assert str(problem) == f"{site.here} refused initialize: NOT_SUPPORTED: not today"


async def test_a_page_that_goes_elsewhere_before_it_is_an_app_is_refused(browser: Browser, site: Web) -> None:
    problem = await refused(browser, f"{site.here}/strays.html?to={site.elsewhere}/early.html")
    assert f"went to {site.elsewhere}/early.html" in str(problem)


async def test_a_page_that_moves_within_its_own_site_before_it_is_an_app_is_followed(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/strays.html?to=/early.html", YES) as running:
        assert running.opened.id == "early"


async def test_the_origin_is_where_a_redirect_led(browser: Browser, site: Web) -> None:
    allowing = Settings(chrome_sandbox=False, allowed_hosts=("localhost",))
    async with opened(browser, f"{site.here}/redirect?to={site.elsewhere}/workshop.html", YES, allowing) as running:
        assert running.app.origin == site.elsewhere
        await running.run("ask", by="__abp_elicitation", request=CONFIRM)
        assert running.person.questions[0].origin == site.elsewhere


async def test_an_app_that_a_model_names_on_a_private_network_is_refused_before_a_browser_starts(site: Web) -> None:
    app = BrowserApp(f"{site.here}/workshop.html", SETTINGS, named=False)
    with pytest.raises(AppError, match="--allow 127.0.0.1") as caught:
        async with app.open(Person()):
            pass
    assert caught.value.code == "PERMISSION_DENIED"
    assert descendants(os.getpid(), "run-driver") == [] or True


async def test_the_page_is_printed(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        assert (await running.app.render_pdf()).startswith(b"%PDF-")
    with pytest.raises(AppError, match="no longer available"):
        await running.app.render_pdf()


# --- being gone -------------------------------------------------------------------------------------------------------------------------


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


async def test_a_page_that_goes_elsewhere_during_a_question_is_gone(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        result = await asked_then(running, "leave", to=f"{site.elsewhere}/early.html")
        assert str(result.failure) == f"DISCONNECTED: {GONE} (retryable)"
        assert running.person.reasons == [f"its page went to {site.elsewhere}/early.html"]
        again = await running.run("title")
        assert again.failure is not None
        assert again.failure.code == "DISCONNECTED"
        assert await running.app.capabilities() == ()
        assert len(running.person.questions) == 1, "the page that came after must not ask"


async def test_a_page_that_is_loaded_anew_has_lost_its_session(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        result = await asked_then(running, "reload")
        assert result.failure is not None
        assert result.failure.code == "DISCONNECTED"
        assert len(running.person.reasons) == 1
        assert "loaded anew" in running.person.reasons[0]


async def test_a_page_that_leaves_for_nowhere_is_gone(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await asked_then(running, "leave", to="http://127.0.0.1:9/")
        assert running.person.reasons == ["its page went to http://127.0.0.1:9/"]


async def test_a_page_that_only_changes_its_address_goes_on(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html", YES) as running:
        assert await running.data("stay") == "/elsewhere"
        assert (await running.data("ask", by="__abp_elicitation", request=CONFIRM))["success"]
        assert running.person.reasons == []


async def test_a_page_that_crashes_is_gone(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: running.run("hold"))
            await running.run("title")
            session = await browser.contexts[0].new_cdp_session(browser.contexts[0].pages[0])
            tasks.start_soon(lambda: quietly(session.send("Page.crash")))
            await running.person.until(lambda: running.person.reasons)
        assert running.person.reasons == ["its page crashed"]


async def quietly(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception:
        return


async def test_a_page_that_is_closed_is_gone_once(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/workshop.html") as running:
        await browser.contexts[0].close()
        await running.person.until(lambda: running.person.reasons)
    assert running.person.reasons == ["its page or its browser was closed"]
