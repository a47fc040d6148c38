"""What a model may cost: how that is written, and when it is spent."""

from __future__ import annotations

from math import inf, nan

import pytest

from abp_bridge.core.agent_turn import AgentResponse, Cost, Usage
from abp_bridge.core.model_budget import Budget, Spending, parse_budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2", Budget(2, "USD")),
        (" 2.5usd ", Budget(2.5, "USD")),
        ("10 EUR", Budget(10, "EUR")),
        ("100000 Tokens", Budget(100_000, "tokens")),
    ],
)
def test_a_budget_is_an_amount_and_a_unit(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    "text", ["", "USD", "0", "-1", "2 dollars", "1e3", "2 US", "0.0 tokens", "9" * 400]
)
def test_anything_else_is_no_budget(text: str) -> None:
    with pytest.raises(ValueError, match="2USD, 100000tokens"):
        parse_budget(text)


def spent(budget: Budget | None, *answers: tuple[Usage | None, Cost | None]) -> Spending:
    spending = Spending(budget)
    for usage, cost in answers:
        spending.add(AgentResponse("yes", usage=usage), cost)
    return spending


CHEAP = (Usage("turn", 30, 10), Cost(0.5, "USD"))


def test_without_a_budget_nothing_is_too_much() -> None:
    spending = spent(None, CHEAP, (None, None), CHEAP)
    assert not spending.obstacle
    assert str(spending) == "3 answers, 60 tokens in, 20 out, 1 USD"


@pytest.mark.parametrize(
    ("budget", "answers", "why"),
    [
        (Budget(1, "USD"), [CHEAP], ""),
        (Budget(1, "USD"), [CHEAP, CHEAP], "the budget of 1 USD (--sampling-budget) is spent"),
        (Budget(41, "tokens"), [CHEAP], ""),
        (Budget(40, "tokens"), [CHEAP], "the budget of 40 tokens (--sampling-budget) is spent"),
        (Budget(1, "USD"), [(CHEAP[0], None)], "did not say what it took in USD"),
        (Budget(1, "EUR"), [CHEAP], "did not say what it took in EUR"),
        (Budget(9, "tokens"), [(None, CHEAP[1])], "did not say what it took in tokens"),
        (Budget(9, "tokens"), [(Usage("turn", 1), None)], "did not say what it took in tokens"),
        (Budget(9, "tokens"), [(Usage("turn", -9, 1), None)], "did not say what it took in tokens"),
        (Budget(1, "USD"), [(None, Cost(-9, "USD"))], "did not say what it took in USD"),
        (Budget(1, "USD"), [(None, Cost(nan, "USD"))], "did not say what it took in USD"),
        (Budget(1, "USD"), [(None, Cost(inf, "USD"))], "did not say what it took in USD"),
    ],
)
def test_what_is_spent_or_not_known_stops_the_next(
    budget: Budget, answers: list[tuple[Usage | None, Cost | None]], why: str
) -> None:
    obstacle = spent(budget, *answers).obstacle
    assert why in obstacle
    assert bool(why) == bool(obstacle)


def test_what_no_amount_is_counts_for_nothing() -> None:
    spending = spent(
        None, CHEAP, (Usage("turn", -30, 2), Cost(nan, "USD")), (None, Cost(-1, "USD"))
    )
    assert str(spending) == "3 answers, 30 tokens in, 12 out, 0.5 USD"


def test_a_turn_that_brought_nothing_may_have_cost_something() -> None:
    spending = spent(Budget(1, "USD"))
    spending.add_unknown()
    assert "did not say what it took in USD" in spending.obstacle
    free = spent(None)
    free.add_unknown()
    assert not free.obstacle


def test_the_status_says_what_is_allowed() -> None:
    assert str(spent(Budget(2, "USD"))) == "0 answers, 0 tokens in, 0 out (of 2 USD)"
