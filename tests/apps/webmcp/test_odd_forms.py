"""Forms as pages really have them, in which one value, or one name, stands twice or is too long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser
from support.pages.server import Web
from support.tool_pages import Running, accepted, as_shown, opened

from abp_bridge.core.question import Answer, AnsweredBy, Outcome, Question

Json = Any

pytestmark = pytest.mark.anyio


@pytest.fixture
async def page(browser: Browser, site: Web) -> AsyncIterator[Running]:
    async with opened(browser, f"{site.here}/hostile.html") as running:
        yield running


async def has(page: Running, inner: str) -> None:
    """A form with these controls, whose page answers with what it is sent with."""
    await page.page.evaluate(
        """inner => {
            const form = document.createElement('form');
            form.setAttribute('toolname', 'odd');
            form.setAttribute('tooldescription', 'Odd');
            const made = trustedTypes.createPolicy('test', { createHTML: (html) => html });
            form.innerHTML = made.createHTML(inner + '<button>Go</button>');
            form.addEventListener('submit', (event) => {
                event.preventDefault();
                event.respondWith(Promise.resolve([...new FormData(form)].map(
                    ([name, value]) => `${name}=${value}`)));
            });
            document.body.append(form);
        }""",
        inner,
    )
    await page.offers("odd")


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


async def test_of_boxes_that_have_one_value_only_what_was_chosen_is_marked(page: Running) -> None:
    box = "<label><input type=checkbox name=yes>{}</label>"
    await has(page, f"{box.format('Terms')}{box.format('Newsletter')}<input name=note value=n>")

    def only(words: str) -> Any:
        def answer(question: Question) -> Answer:
            [chosen] = [each.value for each in question.fields[0].choices if each.label == words]
            return accepted(yes=[chosen], note="n")

        return answer

    assert (await page.call("odd", only("Newsletter"))).data == ["yes=on", "note=n"]
    marks = "() => [...document.querySelectorAll('[name=yes]')].map((each) => each.checked)"
    assert await page.page.evaluate(marks) == [False, True]
    assert len(page.person.questions) == 1


async def test_of_buttons_that_have_one_value_the_chosen_one_is_marked(page: Running) -> None:
    await has(
        page,
        "<label><input type=radio name=way>Slow</label>"
        "<label><input type=radio name=way checked>Fast</label>",
    )

    def slow(question: Question) -> Answer:
        choices = {each.label: each.value for each in question.fields[0].choices}
        assert question.fields[0].default == choices["Fast"]
        return accepted(way=choices["Slow"])

    assert (await page.call("odd", slow)).data == ["way=on"]
    marks = "() => [...document.querySelectorAll('[name=way]')].map((each) => each.checked)"
    assert await page.page.evaluate(marks) == [True, False]


async def test_a_box_that_is_called_send_is_no_question_whether_to_send(page: Running) -> None:
    await has(page, "<label><input type=checkbox name=send>Send a copy</label><input name=to>")
    result = await page.call("odd", lambda question: accepted(send=False, to="Ada"))
    assert result.data == ["to=Ada"]


async def test_a_lone_box_that_is_called_send_may_be_empty(page: Running) -> None:
    await has(page, "<label><input type=checkbox name=send>Send a copy</label>")
    result = await page.call("odd", lambda question: accepted(send=False))
    assert result.data == []


async def test_no_end_of_a_long_text_is_sent_unseen(page: Running) -> None:
    end = "and pay the thief"
    await has(page, f"<textarea name=words>{'x' * 100_000}{end}</textarea>")
    result = await page.call("odd", as_shown())
    [asked] = page.person.questions
    assert str(asked.fields[0].default).endswith(end)
    assert str(result.data).count(end) == 1


async def test_a_form_that_is_too_large_to_be_shown_is_not_sent(page: Running) -> None:
    await has(page, "<textarea name=words></textarea>")
    await page.page.evaluate(
        "() => { document.querySelector('[name=words]').value = 'x'.repeat(5000000) }"
    )
    result = await page.call("odd", as_shown())
    assert result.data is None
    assert "too large" in str(result.failure)
    assert page.person.questions == []


async def test_an_image_of_the_page_is_nothing_to_fill_in(page: Running) -> None:
    await has(page, "<object name=map></object><input name=to value=Ada>")
    assert (await page.call("odd", as_shown())).data == ["to=Ada"]
    [asked] = page.person.questions
    assert [each.name for each in asked.fields] == ["to"]


SWAPS = {
    # the controls, what becomes of them while they are accepted, and how the call ends
    "a button's value": (
        "<label><input type=radio name=way value=once checked>Pay once</label>",
        "document.querySelector('[name=way]').value = 'monthly'",
        "CANCELLED",  # the browser ends a call whose tool is another by now
    ),
    "a box's value": (
        "<label><input type=checkbox name=way value=once checked>Pay once</label><input name=n>",
        "document.querySelector('[name=way]').value = 'monthly'",
        "USER_CANCELLED",
    ),
    "a list's values": (
        "<select name=way><option value=once>Pay once</select>",
        "document.querySelector('[name=way]').options[0].value = 'monthly'",
        "USER_CANCELLED",
    ),
    "what it says of a field": (
        "<input name=way value=1 toolparamdescription='euros'>",
        "document.querySelector('[name=way]').setAttribute('toolparamdescription', 'millions')",
        "CANCELLED",
    ),
}


@pytest.mark.parametrize("what", SWAPS)
async def test_what_was_accepted_under_the_same_words_is_not_sent_where_it_changed(
    page: Running, what: str
) -> None:
    inner, swap, ends = SWAPS[what]
    await has(page, inner)

    async def answer(question: Question) -> Answer:
        if len(page.person.questions) == 1:
            await page.page.evaluate(swap)
            return await certain(as_shown()(question))
        return Answer(Outcome.DECLINED, AnsweredBy.PERSON)

    result = await page.call("odd", answer)
    assert result.failure is not None
    assert result.failure.code == ends


async def certain(answer: Any) -> Answer:
    assert isinstance(answer, Answer)
    return answer


async def test_a_page_that_is_loaded_again_while_it_is_filled_in_has_not_answered(
    page: Running,
) -> None:
    await page.page.evaluate(
        "() => { document.getElementById('pay').amount.oninput = () => location.reload() }"
    )
    result = await page.call("pay", as_shown(amount="20"))
    assert result.failure is not None
    assert result.failure.code in ("OUTCOME_UNKNOWN", "CANCELLED")
