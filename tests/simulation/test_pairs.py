"""The table of pairs, driven in memory: each question of each asking side on each surface.

Each cell is a session of the product's own code on a virtual clock, from the first byte of a host
to the last of an app. Every question is accepted on every surface. Other outcomes are driven for
one question of each kind that ends differently, and with `--whole` for every question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.pair_answers import CONTENT, MEANT
from support.pairs import ABP, ACP, MCP, QUESTIONS, find_pair

from abp_bridge.core.matrix import Cell
from abp_bridge.core.outcome import AnsweredBy
from abp_bridge.core.question import Kind, Question
from abp_bridge.core.surface import Surface

from .answering_sides import SIDES, WISHES, AbpAgent, Side
from .asking_sides import ASKERS, Agent, Asker, ModernServer
from .pair import Session, play

Json = Any

OUTCOMES = ("accepted", "declined", "cancelled", "timed out", "withdrawn", "left")
DIFFERENT = (  # one question of each kind whose other ends differ
    (ABP, "elicitation/select"),
    (ABP, "elicitation/preference"),
    (MCP, "a lone choice"),
    (MCP, "an address (url)"),
    (ACP, "a permission of six options"),
)
CODES = {  # what an ABP app is told
    "declined": "USER_CANCELLED",
    "cancelled": "USER_CANCELLED",
    "timed out": "TIMEOUT",
    "withdrawn": "CANCELLED",
    "left": "CANCELLED",
}
# How it ends where a surface of the person's own goes away: their host is still there.
LEFT = {Surface.PAGE: "cancelled", Surface.TERMINAL: "refused", Surface.QUESTIONS_API: "timed out"}
TAKEN_BACK = {"code": -32800, "message": "the request was taken back"}


def _cells(asker: type[Asker], side: Side, *, whole: bool) -> Iterator[tuple[tuple[str, str], str]]:
    """Each question of a pair, and how it ends; `whole` for every end of every question."""
    for pair in filter(asker.asks_for, QUESTIONS):
        if asker is ModernServer and pair not in DIFFERENT and not whole:
            continue  # decoded as from a legacy server
        yield pair, "accepted"
        if (whole or pair in DIFFERENT) and find_pair(QUESTIONS[pair](), side.variant).asks:
            yield from ((pair, each) for each in OUTCOMES[1:] if _can_happen(asker, side, each))


def _can_happen(asker: type[Asker], side: Side, outcome: str) -> bool:
    if outcome == "withdrawn":
        return asker.can_withdraw
    return side.dismisses or outcome != "cancelled"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("files") / "hi.png"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.slow
def test_pair_does_what_the_table_says(
    asker: str, side: str, picture: str, request: pytest.FixtureRequest
) -> None:
    wrong: list[str] = []
    whole = request.config.getoption("--whole")
    for pair, outcome in _cells(ASKERS[asker], SIDES[side], whole=whole):
        question, meant = QUESTIONS[pair](), MEANT[pair]
        session = play(ASKERS[asker], question, SIDES[side], outcome, meant, picture)
        found = [*session.problems, *_judge(ASKERS[asker], SIDES[side], pair, outcome, session)]
        wrong += [f"{pair[1]}, {outcome}: {each}" for each in found]
    assert wrong == []


def _judge(
    asker: type[Asker], side: Side, pair: tuple[str, str], outcome: str, session: Session
) -> Iterator[str]:
    cell = find_pair(QUESTIONS[pair](), side.variant)
    if session.question is None or session.answer is None:
        yield "the bridge never had it"
        return
    if not cell.asks:
        yield from _asked_all_the_same(session, cell)
        outcome = "refused"
    else:
        yield from _wrong_cell(session, side, cell)
        yield from _missing_words(session, side, is_filled=outcome == "accepted")
        outcome = _really(session, side, outcome)
        if outcome in ("timed out", "withdrawn") and not _is_taken_down(session, side):
            yield f"it still stands where it was asked ({outcome})"
    if outcome == "accepted":
        yield from _wrong_teller(session, side)
    wanted = _wanted(asker, pair, outcome, session)
    got = [_plain(each.get("result", each.get("error"))) for each in session.answers]
    if got != wanted:
        yield f"{outcome}, and was answered {got}, not {wanted}"


def _really(session: Session, side: Side, outcome: str) -> str:
    """How it ended, where the surface has no word for what was meant: of a yes or no the no."""
    if outcome == "left":
        return LEFT.get(side.variant.surface, outcome)
    return session.said[-1][0] if outcome in WISHES else outcome


def _asked_all_the_same(session: Session, cell: Cell) -> Iterator[str]:
    assert session.answer is not None
    if session.shown or session.routes:
        yield f"it is refused, and was asked: {session.routes}"
    if cell.how not in session.answer.reason:
        yield f"its reason is not the table's: {session.answer.reason!r}, not {cell.how!r}"


def _wrong_cell(session: Session, side: Side, cell: Cell) -> Iterator[str]:
    assert session.question is not None
    if (really := find_pair(session.question, side.variant)) != cell:
        yield f"the table has {cell}, and of what came {really}"
    name = side.variant.surface.value
    if issubclass(side.host, AbpAgent):
        yield from _wrong_request(session, cell)
        expected = name
    else:
        expected = f"{name} ({cell.how})" if cell.how else name
    if session.routes != [expected]:
        yield f"it was asked by {session.routes}, not by {expected}"


def _wrong_request(session: Session, cell: Cell) -> Iterator[str]:
    assert session.question is not None
    method, params = ({}, {}) if session.requested is None else session.requested
    named = ("operationId", "timeout")
    own = {word: each for word, each in session.question.request.items() if word not in named}
    came = {word: each for word, each in params.items() if word not in named}
    how = "as it is" if (method, came) == (session.question.kind.value, own) else f"as {method}"
    if how != cell.how:
        yield f"it was asked {how} ({came}), and the table has {cell.how}"


def _missing_words(session: Session, side: Side, *, is_filled: bool) -> Iterator[str]:
    assert session.question is not None
    seen = "\n".join(session.shown)
    for words in _words(session.question, side, is_filled=is_filled):
        if re.search(rf"(?<!\w){re.escape(words)}(?!\w)", seen) is None:
            yield f"{words!r} was not to be seen: {seen}"


def _wrong_teller(session: Session, side: Side) -> Iterator[str]:
    assert session.question is not None
    assert session.answer is not None
    asks_model = session.question.kind is Kind.SAMPLING
    by_model = asks_model or side.variant.surface is Surface.MODEL_RELAY
    told = [AnsweredBy.MODEL] if by_model else [AnsweredBy.PERSON]
    if side.variant.surface is Surface.QUESTIONS_API:  # nobody knows who is at a program
        told.append(AnsweredBy.UNKNOWN)
    if session.answer.answered_by not in told:
        yield f"it is told as {session.answer.answered_by}'s"


def _words(question: Question, side: Side, *, is_filled: bool) -> Iterator[str]:
    yield question.message
    if question.link and side.variant.surface is Surface.MCP_URL:
        yield question.link
    for each in question.fields if is_filled else question.fields[:1]:
        if len(question.fields) > 1:
            yield each.label
        yield from (choice.label for choice in each.choices)


def _is_taken_down(session: Session, side: Side) -> bool:
    # A round of a modern host, and what a model was told, are results: nothing takes them back.
    return session.taken_down or not side.takes_down


def _plain(got: Json) -> Json:
    if "success" not in got:
        return {word: each for word, each in got.items() if word not in ("_meta", "data")}
    code = {"code": got["error"]["code"]} if "error" in got else {"data": got["data"]}
    return {"success": got["success"], **code}


def _wanted(
    asker: type[Asker], pair: tuple[str, str], outcome: str, session: Session
) -> list[Json]:
    data = session.said[-1][1] if outcome == "accepted" else None
    question = QUESTIONS[pair]()
    if pair[0] == ABP:
        return [_for_abp(question, outcome, data)]
    if question.kind is Kind.SAMPLING:
        return _for_sampling(asker, outcome, data, session)
    if outcome == "withdrawn":
        return [TAKEN_BACK] if issubclass(asker, Agent) else []
    if outcome == "left" and issubclass(asker, ModernServer):
        return []  # who called it is gone: it is not called again
    if pair[0] == ACP:
        if data is None:
            return [{"outcome": {"outcome": "cancelled"}}]
        return [{"outcome": {"outcome": "selected", "optionId": data["answer"]}}]
    if data is None or data == {"ok": False}:  # the no of a consent
        is_no = outcome in ("accepted", "declined")
        return [{"action": "decline" if is_no else "cancel"}]
    return [{"action": "accept", **({} if question.link else {"content": data})}]


def _for_abp(question: Question, outcome: str, data: Json) -> Json:
    if data is not None:
        value = next(iter(data.values())) if question.kind is Kind.RESOURCE else data
        is_form = question.kind is Kind.INPUT and not question.wrapped
        return {"success": True, "data": {"value": data} if is_form else value}
    gone = ("withdrawn", "left")
    if question.kind is Kind.PREFERENCE and outcome not in gone:
        return {"success": True, "data": {"value": "b"}}
    return {"success": False, "code": CODES.get(outcome, "NOT_SUPPORTED")}


def _for_sampling(asker: type[Asker], outcome: str, data: Json, session: Session) -> list[Json]:
    if data is not None:
        said = {"type": "text", "text": data["result"]}
        return [{"role": "assistant", "content": said, "model": "unknown"}]
    if outcome == "withdrawn" or issubclass(asker, ModernServer):
        return []  # to a modern one there is no word for "no": its call ends
    assert session.answer is not None
    return [{"code": -1, "message": f"no model answered: {session.answer.reason}"}]
