"""WebMCP tools of a page in Chromium: offers, questions, and how a call ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

import anyio
import anyio.lowlevel
import pytest
from playwright.async_api import Browser
from support.harness import MODERN, accept, hosted, text
from support.pages.server import Web
from support.tool_pages import BRIEF, PATIENCE, Running, as_shown, opened

from abp_bridge.apps.webmcp import call
from abp_bridge.core.answer import Answer
from abp_bridge.core.capability import CallResult
from abp_bridge.core.json_value import as_object
from abp_bridge.core.ledger import NoticeKind
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import MISSING, Question
from abp_bridge.session.app import AppError
from abp_bridge.settings import Settings

Json = Any

pytestmark = pytest.mark.browser

HASTY = Settings(chrome_sandbox=False, browser_timeout=1.0)  # in a browser that runs already


@pytest.fixture
async def running(browser: Browser, site: Web) -> AsyncIterator[Running]:
    async with opened(browser, f"{site.here}/tools.html") as made:
        yield made


async def test_a_page_offers_its_tools_with_what_they_do(running: Running) -> None:
    offered = {each.name: each for each in running.opened.capabilities}
    assert running.opened.name == "Tables and tools"
    assert offered["add"].harmless
    assert offered["wipe"].needs_approval
    assert not offered["wipe"].presumed
    assert offered["search"].needs_approval
    assert offered["search"].presumed
    assert not offered["book_table"].needs_approval
    taken = {"shop", "secret", "photo", "pin"}
    for each in offered.values():
        assert not taken & as_object(each.input_schema["properties"]).keys()
    assert "format" not in str(offered["book_table"].input_schema)


def _say(answer: Answer, question: Question) -> Answer:
    return answer


ENDS = {
    # what ends the question: the code of the call's failure
    "declined": (Answer(Outcome.DECLINED, AnsweredBy.PERSON), "USER_CANCELLED"),
    "dismissed": (Answer(Outcome.CANCELLED, AnsweredBy.PERSON), "USER_CANCELLED"),
    "timed out": (Answer(Outcome.TIMED_OUT, AnsweredBy.NOBODY), "TIMEOUT"),
    "nobody": (Answer(Outcome.UNSUPPORTED, AnsweredBy.NOBODY), "NOT_SUPPORTED"),
    "a policy": (Answer(Outcome.DECLINED, AnsweredBy.HOST_POLICY), "PERMISSION_REQUIRED"),
}


async def test_form_that_no_one_accepts_is_not_sent(running: Running) -> None:
    for why, (answer, code) in ENDS.items():
        result = await running.call("book_table", partial(_say, answer), name="Ann")
        assert result.failure is not None
        assert result.failure.code == code, why
        assert result.failure.message.startswith("Nothing was sent"), why
    again = await running.call("book_table", as_shown(name="Eve"))
    assert again.failure is None
    assert running.person.questions[-1].fields[0].default is MISSING  # Ann is gone


@pytest.mark.parametrize("what", ["remove", "leave"])
async def test_question_ends_when_the_page_removes_its_form(running: Running, what: str) -> None:
    ended: list[CallResult] = []

    async def call() -> None:
        ended.append(await running.app.call_capability("book_table", {"name": "Ann"}, "call-1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await running.person.until(lambda: running.person.questions)
        await running.work(what)
    assert ended[0].failure is not None
    assert ended[0].failure.code == "CANCELLED"
    assert running.person.reasons == []


async def test_secret_of_a_form_is_asked_and_in_no_result(running: Running) -> None:
    given = await running.call("sign_in", as_shown(secret="open-sesame"), user="ann")
    assert [each.name for each in running.person.questions[0].fields if each.secret] == ["secret"]
    assert given.data == {"agent": True, "sent": {"user": "ann", "secret": "[secret]"}}
    by_model = await running.call("sign_in", as_shown(), secret="x")
    assert by_model.failure is not None
    assert by_model.failure.code == "INVALID_PARAMS"
    by_function = await running.call("login", as_shown(pin="4711-0815"), user="ann")
    assert by_function.data == {"user": "ann", "said": "pin [secret]"}


async def test_a_file_is_the_persons_own(running: Running) -> None:
    file = {
        "content": "aGVsbG8=",
        "encoding": "base64",
        "mimeType": "image/png",
        "filename": "../a.png",
    }
    result = await running.call("send_photo", as_shown(file=file))
    assert result.data == {"agent": True, "sent": {"photo": "a.png, 5 bytes"}}


async def test_fields_named_like_members_of_a_form_are_sent(running: Running) -> None:
    result = await running.call("odd_names", as_shown(submit="z", elements="y"))
    sent = {"submit": "z", "elements": "y", "requestSubmit": "c", "action": "d"}
    assert result.data == {"agent": True, "sent": sent}


async def test_form_changed_after_the_answer_is_asked_again(running: Running) -> None:
    await running.work("rewrite")
    result = await running.call("book_table", as_shown(name="Eve", when="19:30"))
    first, second = running.person.questions
    assert 'shop "12"' in first.note
    assert 'shop "99"' in second.note
    assert "changed" in second.note
    assert as_object(as_object(result.data)["sent"])["shop"] == "99"


async def test_form_that_refuses_an_answer_is_asked_again(running: Running) -> None:
    result = await running.call("book_table", as_shown(guests=9), name="Ann")
    assert len(running.person.questions) == 3
    assert "8" in running.person.questions[1].note
    assert result.failure is not None
    assert result.failure.message.startswith("Nothing was sent")


async def test_unknown_outcome_is_not_retryable(browser: Browser, site: Web) -> None:
    async with opened(browser, f"{site.here}/tools.html", BRIEF) as running:
        for name in ("whisper", "hang"):
            result = await running.call(name, as_shown())
            assert result.failure is not None
            assert (result.failure.code, result.failure.retryable) == ("OUTCOME_UNKNOWN", False)
            assert (await running.call("add", a=1)).data == {"sum": 1}


async def test_form_is_not_reported_as_sent_when_its_page_is_not_left(
    browser: Browser, site: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "QUIET_LIMIT", 0.0)
    html = '<form toolname="go" tooldescription="Go" action="/empty.html">'
    page = urlencode({"html": f'{html}<input name="word"><button>Go</button></form>'})
    async with opened(browser, f"{site.here}/head?{page}") as running:
        await running.page.mouse.click(1, 1)  # only a page that somebody used may ask
        await running.page.evaluate(
            "() => addEventListener('beforeunload', (event) => event.preventDefault())"
        )
        result = await running.call("go", as_shown(), word="there")
        assert "/empty.html?word=there" not in site.requests
        assert result.failure is not None
        assert result.failure.code == "OUTCOME_UNKNOWN"
        assert "The browser did not send the form" in result.failure.message
        assert "It was sent" not in result.failure.message


async def test_tools_that_come_and_go_are_told(running: Running) -> None:
    await running.work("more")
    await running.person.until(lambda: running.person.notices)
    assert running.person.notices[0].kind is NoticeKind.CAPABILITIES_CHANGED
    await running.offers("later")
    assert (await running.call("later")).data == "late"


async def test_tools_of_a_frame_of_another_origin_are_not_offered(
    running: Running, site: Web
) -> None:
    count = len(running.opened.capabilities)
    await running.work("frame", f"{site.elsewhere}/tools.html")
    with anyio.fail_after(PATIENCE):
        while not (problems := (await running.app.capabilities()).problems):
            await anyio.lowlevel.checkpoint()
    assert site.elsewhere in problems[0]
    assert len(await running.app.capabilities()) == count


async def test_tools_of_a_frame_have_prefixed_names(running: Running) -> None:
    await running.work("frame", "/tools.html")
    await running.offers("frame2.add")
    assert (await running.call("add", a=1, b=2)).data == {"sum": 3}
    assert (await running.call("frame2.add", a=1, b=1)).data == {"sum": 2}


async def test_a_page_that_leaves_its_origin_is_gone(running: Running) -> None:
    await running.work("away")
    await running.person.until(lambda: running.person.reasons)
    assert (await running.call("add", a=1)).failure is not None


async def test_a_page_without_either_says_so_of_both(browser: Browser, site: Web) -> None:
    for page, abp in (("empty.html", "window.abp"), ("head?html=hi", "abp-manifest")):
        with pytest.raises(AppError) as caught:
            async with opened(browser, f"{site.here}/{page}", HASTY):
                pass
        assert abp in str(caught.value)
        assert "WebMCP: no script of it registered one" in str(caught.value)
        assert "both a toolname and a tooldescription" in str(caught.value)


async def test_stateless_host_shows_the_form_and_sends_what_the_user_made_of_it(site: Web) -> None:
    given = {"name": "Eve", "guests": 4, "room": "out", "quiet": True}
    page = f"{site.here}/tools.html"
    async with hosted("--app", page, answer=accept(**given), version=MODERN) as host:
        result = await host.call("book_table", name="Ann")
        assert json.loads(text(result))["sent"] == {
            "name": "Eve",
            "guests": "4",
            "when": "",
            "room": "out",
            "quiet": "on",
            "shop": "12",
            "how": "now",
        }


async def test_form_is_not_sent_without_a_user(site: Web) -> None:
    async with hosted("--app", f"{site.here}/tools.html") as host:
        for name, words in (("book_table", "Nothing was sent"), ("wipe", "was not called")):
            refused = await host.call(name)
            assert refused.is_error
            assert words in text(refused)
