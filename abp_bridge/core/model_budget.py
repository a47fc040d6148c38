"""What a model has cost so far, held against what the person allows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from abp_bridge.core.agent_turn import AgentResponse, Cost
from abp_bridge.core.words import count_of

TOKENS = "tokens"
PRICED_IN = "USD"  # by tables of prices and command lines; over ACP an agent names its own
MAX_AMOUNT = 1e12  # of tokens, or of money in any currency: who speaks of more does not count
_UNIT = re.compile("[A-Z]{3}|turn")
_BUDGET = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Budget:
    """So much and no more: of `unit`, a currency by its ISO 4217 code or `tokens`."""

    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.amount:,.12g} {self.unit}"


def parse_budget(text: str) -> Budget:
    """A budget as a person writes it: `2`, `2USD`, `100000 tokens`.

    Raises:
        ValueError: It is none.
    """
    found = _BUDGET.fullmatch(text)
    unit = (found[2] if found else "") or PRICED_IN
    unit = unit.lower() if unit.lower() == TOKENS else unit.upper()
    amount = float(found[1]) if found else 0.0
    if not (0 < amount <= MAX_AMOUNT and (unit == TOKENS or len(unit) == 3)):
        raise ValueError("it must be an amount of money or of tokens: 2USD, 100000tokens")
    return Budget(amount, unit)


class Spending:
    """What the turns of one model took. What is no amount, a turn took all the same: that is known
    of it as little as of one that says nothing.

    Args:
        budget: What is allowed; None for no limit.
    """

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget
        self._answers = 0
        self._tokens = [0, 0]
        self._costs: dict[str, float] = {}
        self._unknown = False  # whether what a turn took was not said in the budget's unit

    def add(self, response: AgentResponse, cost: Cost | None) -> None:
        """Count an answer, with what it cost where that is known."""
        self._answers += 1
        usage = response.usage
        known = (None, None) if usage is None else (usage.input, usage.output)
        for place, each in enumerate(known):
            self._tokens[place] += (each or 0) if _is_amount(each) else 0
        cost = known_cost(cost)
        if cost is not None:
            self._costs[cost.unit] = self._costs.get(cost.unit, 0.0) + cost.amount
        if self._budget is not None:
            counted = all(map(_is_amount, known))
            priced = cost is not None and cost.unit == self._budget.unit
            self._unknown |= not (counted if self._budget.unit == TOKENS else priced)

    def add_unknown(self) -> None:
        """Count a turn that brought no answer: it may have cost as much as one."""
        self._unknown = True

    @property
    def obstacle(self) -> str:
        """Why nothing more may be asked; empty where it may."""
        if self._budget is None:
            return ""
        if self._unknown:
            return (
                f"a turn before did not say what it took in {self._budget.unit}, so that the"
                f" budget of {self._budget} (--sampling-budget) cannot be kept"
            )
        if self._spent >= self._budget.amount:
            return f"the budget of {self._budget} (--sampling-budget) is spent"
        return ""

    @property
    def _spent(self) -> float:
        assert self._budget is not None, "nothing is held against no budget"
        if self._budget.unit == TOKENS:
            return sum(self._tokens)
        return self._costs.get(self._budget.unit, 0.0)

    def __str__(self) -> str:
        """For `abp_status`: the answers, the tokens, the costs, and what is allowed."""
        parts = [
            count_of(self._answers, "answer"),
            f"{self._tokens[0]:,} tokens in, {self._tokens[1]:,} out",
            *(f"{amount:.6g} {unit}" for unit, amount in self._costs.items()),
        ]
        allowed = "" if self._budget is None else f" (of {self._budget})"
        return ", ".join(parts) + allowed


def known_cost(cost: Cost | None) -> Cost | None:
    """`cost` where it is one: so much of a currency, or of `turn`s."""
    named = cost is not None and _UNIT.fullmatch(cost.unit)
    return cost if cost is not None and named and _is_amount(cost.amount) else None


def _is_amount(value: float | None) -> bool:
    """Whether it is something that can have been spent."""
    return value is not None and 0 <= value <= MAX_AMOUNT
