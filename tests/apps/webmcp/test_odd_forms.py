"""Forms as pages really have them, in which one value, or one name, stands twice or is too long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser
from support.pages.server import Web
from support.tool_pages import Running, accepted, as_shown, opened

from abp_bridge.core.answer import Answer
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import Question

Json = Any

pytestmark = pytest.mark.browser


@pytest.fixture
async def page(browser: Browser, site: Web) -> AsyncIterator[Running]:
    async with opened(browser, f"{site.here}/hostile.html") as running:
        yield running


async def has(page: Running, inner: str, script: str = "") -> None:
    """Add a form with these controls, and run the script with it as `form`."""
    await page.page.evaluate(
        """inner => {
            const form = document.createElement('form');
            form.setAttribute('toolname', 'odd');
            form.setAttribute('tooldescription', 'Odd');
            const made = trustedTypes.createPolicy('test', { createHTML: (html) => html });
            form.innerHTML = made.createHTML(inner + '<button>Go</button>');
            form.addEventListener('submit', (event) => {
                event.preventDefault();
                const sent = new FormData(form, event.submitter);
                event.respondWith(Promise.resolve([...sent].map(
                    ([name, value]) => `${name}=${value.name ?? value}`)));
            });
            document.body.append(form);
            Object.assign(window, { form, made });
        }""",
        inner,
    )
    if script:
        await page.page.evaluate(script)
    await page.offers("odd")


async def sends_itself(page: Running) -> None:
    """That form is sent as soon as it is filled in."""
    await page.page.evaluate("form.setAttribute('toolautosubmit', '')")
    await page.lists(lambda listed: [1 for each in listed if each.name == "odd" and each.presumed])


async def test_a_list_that_names_an_option_twice_is_sent(page: Running) -> None:
    await has(
        page,
        "<select name=land><option value=us>USA<option value=de>Germany"
        "<option value=us selected>United States</select>",
    )
    result = await page.call("odd", as_shown())
    [asked] = page.person.questions
    assert [each.label for each in asked.fields[0].choices] == ["USA / United States", "Germany"]
    assert result.data == ["land=us"]
    assert (await page.call("odd", as_shown(land="de"))).data == ["land=de"]


async def test_a_box_that_is_called_send_is_no_question_whether_to_send(page: Running) -> None:
    await has(page, "<label><input type=checkbox name=send>Send a copy</label><input name=to>")
    result = await page.call("odd", lambda question: accepted(send=False, to="Ada"))
    assert result.data == ["to=Ada"]


async def test_no_end_of_a_long_text_is_sent_unseen(page: Running) -> None:
    end = "and pay the thief"
    await has(page, f"<textarea name=words>{'x' * 100_000}{end}</textarea>")
    result = await page.call("odd", as_shown())
    [asked] = page.person.questions
    assert str(asked.fields[0].default).endswith(end)
    assert str(result.data).count(end) == 1


ADDED = {
    # the controls, what the page does to them; what the person is told of; what is sent
    "by a listener": (
        "",
        "form.addEventListener('formdata', (event) => event.formData.append('spy', '4711'))",
        *('sends what cannot be changed here: spy "4711".', ["to=Ada", "spy=4711"]),
    ),
    "by the browser": (
        "<input type=hidden name=n value=1 dirname=way>",
        "",
        *('here: n "1", way "ltr".', ["to=Ada", "n=1", "way=ltr"]),
    ),
    "by a file that the page chose": (
        "<input type=file name=f>",
        """() => {
            const files = new DataTransfer();
            files.items.add(new File(['x'], 'spy.txt'));
            form.f.files = files.files;
        }""",
        *('here: f (a file, "spy.txt").', ["to=Ada", "f=spy.txt"]),
    ),
}


@pytest.mark.parametrize("who", ADDED)
async def test_extra_entries_of_a_form_are_shown(page: Running, who: str) -> None:
    inner, script, told, sent = ADDED[who]
    await has(page, f"<input name=to value=Ada>{inner}", script)
    assert (await page.call("odd", as_shown())).data == sent
    [asked] = page.person.questions
    assert asked.note.endswith(told)


async def test_form_emptied_after_it_was_sent_has_an_unknown_outcome(page: Running) -> None:
    empties = "form.addEventListener('submit', () => form.reset())"
    await has(page, "<input name=to value=Ada>", empties)
    result = await page.call("odd", as_shown())
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"
    assert "once its form was sent" in result.failure.message


async def test_autosubmit_form_that_differs_from_the_question_is_not_sent(page: Running) -> None:
    await has(page, "<input name=to><input type=hidden name=n value=1>")
    await sends_itself(page)

    async def answer(question: Question) -> Answer:
        await page.page.evaluate("form.n.value = '2'")
        return accepted(send=True)

    result = await page.call("odd", answer)
    assert result.failure is not None
    assert "Nothing was sent: the page has changed its form" in result.failure.message


# What a page does as its form is filled in -> what its person is told of it before it is sent.
FILLED = {
    "another value": (
        "<input type=hidden name=n value=1>",
        "form.n.value = `to ${form.to.value}`",
        ['here: n "1".', 'here: n "to Ada".'],
        "n=to Ada",
    ),
    "another field": (
        "",
        """form.n || form.insertAdjacentHTML('beforeend',
            made.createHTML('<input type=hidden name=n value=2>'))""",
        ['here: n "2".'],
        "n=2",
    ),
}


@pytest.mark.parametrize("what", FILLED)
async def test_entries_added_while_an_autosubmit_form_is_filled_are_shown(
    page: Running, what: str
) -> None:
    inner, does, told, sent = FILLED[what]
    await has(
        page, f"<input name=to>{inner}", f"form.to.addEventListener('input', () => {{ {does} }})"
    )
    await sends_itself(page)
    result = await page.call("odd", as_shown(), to="Ada")
    assert result.data == ["to=Ada", sent]
    assert [
        each.note[-len(end) :] for each, end in zip(page.person.questions, told, strict=True)
    ] == told
    assert len(page.person.questions) == len(told)
    assert page.person.questions[-1].note.startswith(
        "Nothing was sent yet: its page changes n as it is filled in."
    )


async def test_entries_added_while_a_form_is_filled_need_a_yes(page: Running) -> None:
    inner, does, _, _ = FILLED["another field"]
    await has(
        page, f"<input name=to>{inner}", f"form.to.addEventListener('input', () => {{ {does} }})"
    )
    await page.page.evaluate("form.addEventListener('submit', () => window.sent = true)")
    await sends_itself(page)
    no = Answer(Outcome.DECLINED, AnsweredBy.PERSON)
    result = await page.call("odd", lambda question: no, to="Ada")
    assert result.failure is not None
    assert result.failure.code == "USER_CANCELLED"
    assert await page.page.evaluate("[window.sent, form.to.value]") == [None, ""]
    assert len(page.person.questions) == 1


async def test_form_that_changes_each_time_is_not_sent(page: Running) -> None:
    count = "event.formData.append('now', window.count = (window.count ?? 0) + 1)"
    await has(page, "<input name=to>", f"form.addEventListener('formdata', (event) => {count})")
    result = await page.call("odd", as_shown(to="Ada"))
    assert result.failure is not None
    assert result.failure.message.startswith("Nothing was sent")
    assert "another now" in result.failure.message


async def test_required_field_without_a_name_is_asked(page: Running) -> None:
    await has(
        page,
        "<input name=to value=Ada><label><input type=checkbox required>I agree</label>"
        "<input id=why required><input id=aside>",
    )
    result = await page.call("odd", as_shown(**{"I agree": True}, why="So"))
    assert result.data == ["to=Ada"]
    [asked] = page.person.questions
    assert [each.title for each in asked.fields] == ["to", "I agree", "why"]
    held = "() => [form.querySelector('[type=checkbox]').checked, form.querySelector('#why').value]"
    assert await page.page.evaluate(held) == [True, "So"]


async def test_page_that_reloads_while_it_is_filled_has_not_answered(page: Running) -> None:
    await page.page.evaluate(
        "() => { document.getElementById('pay').amount.oninput = () => location.reload() }"
    )
    result = await page.call("pay", as_shown(amount="20"))
    assert result.failure is not None
    assert result.failure.code in ("OUTCOME_UNKNOWN", "CANCELLED")
