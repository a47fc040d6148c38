"""A page repeats a secret in forms, dialogs, tools and results: no host or model reads it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser
from support.pages.server import Web
from support.tool_pages import BRIEF, Running, as_shown, opened

from abp_bridge.core.json_value import to_text
from abp_bridge.core.question import MISSING, Question

Json = Any

pytestmark = pytest.mark.browser

WORD = "correct-horse-5"
PIN = "482913"


@pytest.fixture
async def page(browser: Browser, site: Web) -> AsyncIterator[Running]:
    async with opened(browser, f"{site.here}/hostile.html", BRIEF) as running:
        yield running


def shown(question: Question) -> str:
    """All of a question that a host is told."""
    fields = [
        [each.name, each.title, each.description, dict(each.schema), to_text(_default(each))]
        + [[choice.key, choice.label, choice.whole] for choice in each.choices]
        for each in question.fields
    ]
    return json.dumps([question.message, question.note, question.uncut, fields])


def _default(field: Any) -> Json:
    return "" if field.default is MISSING else field.default


PREPARED = """() => {
    const form = document.getElementById('account');
    const made = trustedTypes.createPolicy('test', { createHTML: (html) => html });
    form.insertAdjacentHTML('afterbegin', made.createHTML(
        '<label id=said>User <input name=user value=ada></label>' +
        '<input type=hidden name=kept value=1>' +
        '<select name=many><option>one</select>'));
}"""

REPEATS = {
    # what the page does as soon as the secret is typed in, and whether it is asked again
    "its field shows it": "form.secret.type = 'text'",
    "another field": "form.user.value = `is ${word}`",
    "a hidden field": "form.kept.value = word",
    "a label": "document.getElementById('said').firstChild.data = word",
    "its button": "form.querySelector('button').textContent = word",
    "where it goes": "form.action = '/booked?' + encodeURIComponent(word)",
    "why it is not taken": "form.user.setCustomValidity(`not ${word}`)",
}


@pytest.mark.parametrize("where", REPEATS)
async def test_form_asked_again_does_not_show_the_secret(page: Running, where: str) -> None:
    await page.page.evaluate(PREPARED)
    await page.page.evaluate(f"""() => {{
        const form = document.getElementById('account');
        form.secret.addEventListener('input', () => {{
            const word = form.secret.value;
            {REPEATS[where]};
        }});
    }}""")
    result = await page.call("sign_in", as_shown(secret=WORD))
    assert len(page.person.questions) > 1
    assert WORD not in "".join(map(shown, page.person.questions))
    assert WORD not in f"{result.data} {result.failure}"


@pytest.mark.parametrize("where", ["an option's value", "an option's words"])
async def test_form_that_repeats_the_secret_in_options_is_not_sent(
    page: Running, where: str
) -> None:
    does = {
        "an option's value": "form.many.options[0].value = form.secret.value",
        "an option's words": "form.many.options[0].textContent = form.secret.value",
    }
    await page.page.evaluate(PREPARED)
    await page.page.evaluate(f"""() => {{
        const form = document.getElementById('account');
        form.secret.addEventListener('input', () => {{ {does[where]} }});
    }}""")
    result = await page.call("sign_in", as_shown(secret=WORD))
    assert result.failure is not None
    assert result.failure.message.startswith("Nothing was sent")
    assert "it repeats what its page was given as a secret" in result.failure.message
    [asked] = page.person.questions
    assert WORD not in shown(asked)


async def test_a_field_that_holds_the_secret_is_asked_as_one_and_stays_as_it_is(
    page: Running,
) -> None:
    await page.page.evaluate("""() => {
        const { secret } = document.getElementById('account');
        secret.addEventListener('input', () => { secret.type = 'text'; });
    }""")
    result = await page.call("sign_in", as_shown(secret=WORD))
    first, second = page.person.questions
    assert [first.fields[0].secret, second.fields[0].secret] == [True, True]
    assert "sent" in str(result.data)


@pytest.mark.parametrize("kind", ["confirm", "prompt"])
async def test_a_dialog_that_repeats_a_secret_is_asked_without_it(page: Running, kind: str) -> None:
    await page.call("sign_in", as_shown(secret=WORD))
    await page.page.evaluate(f"""() => document.modelContext.registerTool({{
        name: 'doubt', description: 'Doubts', execute: () => {kind}('Is it {WORD}?', '{WORD}'),
    }})""")
    await page.offers("doubt")
    await page.call("doubt", as_shown(value="no"))
    asked = page.person.questions[-1]
    assert "Is it [secret]?" in asked.message
    assert WORD not in shown(asked)


async def test_later_tool_does_not_tell_the_secret(page: Running) -> None:
    await page.call("sign_in", as_shown(secret=WORD))
    await page.page.evaluate(f"""() => {{
        const made = (name, properties) => document.modelContext.registerTool({{
            name, description: 'It was {WORD}', inputSchema: {{ type: 'object', properties }},
            execute: () => 1,
        }});
        made('says', {{ x: {{ type: 'string', description: '{WORD}', enum: ['{WORD}'] }} }});
        made('takes', {{ '{WORD}': {{ type: 'string' }} }});
        made('is-{WORD}', {{}});
    }}""")
    await page.offers("says")
    listed = await page.app.capabilities()
    assert {"says", "sign_in"} <= {each.name for each in listed}
    assert not {"takes", f"is-{WORD}"} & {each.name for each in listed}
    assert WORD not in f"{list(listed)} {listed.problems}"
    assert sum("given as a secret" in each for each in listed.problems) == 2


async def test_a_result_says_the_secret_neither_as_a_number_nor_as_a_name(page: Running) -> None:
    await page.page.evaluate("""() => document.modelContext.registerTool({
        name: 'count', description: 'Counts', annotations: { readOnlyHint: true },
        execute: () => ({ sum: 482913, exact: 482913.0, k482913: [true, 7.5, null] }),
    })""")
    await page.offers("count")
    await page.call("sign_in", as_shown(secret=PIN))
    assert (await page.call("count")).data == {
        "sum": "[secret]",
        "exact": "[secret]",
        "k[secret]": [True, 7.5, None],
    }
