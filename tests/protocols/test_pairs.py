"""The matrix by pairs in the codecs: each question of each asking side on each surface, asked and
answered in the words of both. Whole sessions are in `tests/simulation/test_pairs.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.pair_answers import MEANT
from support.pairs import (
    ABP,
    ACP,
    MCP,
    PAGE_FORMS,
    QUESTIONS,
    WEBMCP,
    find_pair,
    make_page_form,
)

from abp_bridge.core.answer import Answer, validate_answer
from abp_bridge.core.matrix import MATRIX, Cell, Support, SurfaceVariant, candidate_attempts, narrow
from abp_bridge.core.menu import Menu, MenuResult
from abp_bridge.core.options import yes_or_no
from abp_bridge.core.outcome import AnsweredBy, Outcome
from abp_bridge.core.question import FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols import abp
from abp_bridge.protocols.abp.agent import decode_response, encode_request
from abp_bridge.protocols.acp.agent import encode_permission
from abp_bridge.protocols.acp.v1 import encode_form as encode_acp_form
from abp_bridge.protocols.mcp import elicitation, sampling, server_elicitation
from abp_bridge.protocols.webmcp.form import decode_page_form
from abp_bridge.protocols.webmcp.form_question import answered_states

Json = Any


def on_form(question: Question, meant: Json, version: str) -> Json:
    """Filled in as the form has its properties: a yes or no for each option, what cannot be undone
    by the words of its yes, and JSON as text.
    """
    form: Json = elicitation.encode_form(question, version)
    encode_acp_form(question, "session", "card")
    properties = form["requestedSchema"]["properties"]
    content: dict[str, Json] = {}
    for each in question.fields:
        value = meant[each.name]
        if each.name not in properties:
            names = iter(properties)
            content |= {next(names): choice.value in value for choice in each.choices}
        elif each.type is FieldType.CHOICE:
            content[each.name] = next(one.key for one in each.choices if one.value == value)
        elif properties[each.name]["type"] == "string" and value is True:
            content[each.name] = yes_or_no(question)[-1].label
        elif properties[each.name]["type"] == "string" and not isinstance(value, str):
            content[each.name] = json.dumps(value)
        else:
            content[each.name] = value
    _, sent = elicitation.decode_reply({"action": "accept", "content": content}, question)
    return sent


def on_agent(question: Question, meant: Json, version: str) -> Json:
    """As its own end reads it: another question of ABP, answered as such."""
    method, params = encode_request(question)
    there = abp.decode_question({"method": method, "params": params}, id="q", origin="bridge")
    values = dict(meant) if not there.wrapped or there.kind is Kind.SAMPLING else {}
    if there.fields and not values:
        values = {there.fields[0].name: next(iter(meant.values()))}
    response = abp.encode_answer(there, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, values))
    return decode_response(response, question, method).content


def by_buttons(question: Question, meant: Json, version: str) -> Json:
    """Whatever is meant is pressed, or what leads to it."""
    [attempt] = candidate_attempts(question, [SurfaceVariant(Surface.ACP_PERMISSION)])
    question = narrow(question, attempt)
    menu, left = Menu(question), list[str]()
    for field in question.fields:
        value = meant[field.name]
        values = value if isinstance(value, list) else [value]
        offered = field.choices or yes_or_no(question)
        left += [each.label for each in offered if each.value in values]
    while True:
        options = {_plain(each.label): each.id for each in menu.step.options}
        wanted = [
            *(label for label in options if left and label.partition(" (")[0] in left),
            *(label for label in options if not left and label.startswith(("Done", "Send"))),
            "More …",
        ]
        left = [label for label in left if label != wanted[0].partition(" (")[0]]
        after = menu.choose(options[wanted[0]])
        if isinstance(after, MenuResult):
            return after.content


def _plain(label: str) -> str:
    return label.lstrip("☐☑ ")


def by_model(question: Question, meant: Json, version: str) -> Json:
    assert elicitation.encode_asked(question)
    return elicitation.decode_answered({"content": meant})[1]


def as_meant(question: Question, meant: Json, version: str) -> Json:
    """A surface of the person's own, or the page, gives values by the names of fields."""
    return meant


ANSWER: Mapping[Surface, Callable[[Question, Json, str], Json]] = dict.fromkeys(
    Surface, as_meant
) | {
    Surface.MCP_FORM: on_form,
    Surface.ACP_FORM: on_form,
    Surface.ABP: on_agent,
    Surface.ACP_PERMISSION: by_buttons,
    Surface.MODEL_RELAY: by_model,
}


def told(who: str, what: str, question: Question, answer: Answer) -> Json:
    """What the asking side gets."""
    if who is WEBMCP:
        form = decode_page_form(make_page_form(*PAGE_FORMS[what]))
        return answered_states(form, answer.content)
    if who is ACP:
        return encode_permission(question, answer)
    if who is ABP:
        return abp.encode_answer(question, answer)["data"]
    if question.kind is Kind.SAMPLING:
        return sampling.encode_sampled(answer)
    return {
        word: each
        for word, each in server_elicitation.encode_answer(question, answer).items()
        if word != "_meta"
    }


@pytest.mark.parametrize(("surface", "version"), MATRIX, ids=str)
def test_pair_of_question_and_surface(surface: Surface, version: str) -> None:
    for pair, ask in QUESTIONS.items():
        question, meant = ask(), MEANT[pair]
        cell = find_pair(question, SurfaceVariant(surface, version))
        assert cell.how or cell.support is Support.NATIVE, pair
        if not cell.asks:
            continue
        answered = ANSWER[surface](question, meant, version or "2025-11-25")
        if question.kind is not Kind.SAMPLING:
            answered, problems = validate_answer(question, answered)
            assert not problems, pair
        got, wanted = (
            told(*pair, question, Answer(Outcome.ACCEPTED, AnsweredBy.PERSON, each))
            for each in (answered, meant)
        )
        assert got == wanted, pair


def test_every_question_has_an_answer() -> None:
    assert set(MEANT) == set(QUESTIONS)


def test_abp_question_on_an_abp_agent() -> None:
    said = {
        what: find_pair(ask(), SurfaceVariant(Surface.ABP))
        for (who, what), ask in QUESTIONS.items()
        if who is ABP
    }
    assert {what for what, cell in said.items() if cell != Cell(Support.NATIVE, "as it is")} == {
        "elicitation/input: a secret"
    }


def test_server_url_is_opened_by_the_host() -> None:
    ask = QUESTIONS[MCP, "an address (url)"]
    cell = find_pair(ask(), SurfaceVariant(Surface.MCP_URL))
    assert cell == Cell(Support.NATIVE, "the address itself")
