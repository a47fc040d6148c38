"""What a model has cost so far, held against what the person allows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from abp_bridge.core.agent_turn import AgentResponse, Cost

TOKENS = "tokens"
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
    unit = (found[2] if found else "") or "USD"
    unit = unit.lower() if unit.lower() == TOKENS else unit.upper()
    if found is None or not float(found[1]) or not (unit == TOKENS or len(unit) == 3):
        raise ValueError("it must be an amount of money or of tokens: 2USD, 100000tokens")
    return Budget(float(found[1]), unit)


class Spending:
    """What the answers of one model took.

    Args:
        budget: What is allowed; None for no limit.
    """

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget
        self._answers = 0
        self._tokens = [0, 0]
        self._costs: dict[str, float] = {}
        self._unknown = False  # whether an answer's price in the budget's unit was not said

    def add(self, response: AgentResponse, cost: Cost | None) -> None:
        """Count an answer, with what it cost where that is known."""
        self._answers += 1
        usage = response.usage
        known = None if usage is None else (usage.input, usage.output)
        for place, each in enumerate(known or ()):
            self._tokens[place] += each or 0
        if cost is not None:
            self._costs[cost.unit] = self._costs.get(cost.unit, 0.0) + cost.amount
        if self._budget is not None:
            counted = known is not None and None not in known
            priced = cost is not None and cost.unit == self._budget.unit
            self._unknown |= not (counted if self._budget.unit == TOKENS else priced)

    @property
    def obstacle(self) -> str:
        """Why nothing more may be asked; empty where it may."""
        if self._budget is None:
            return ""
        if self._unknown:
            return (
                f"an answer before did not say what it took in {self._budget.unit}, so that the"
                f" budget of {self._budget} (--model-budget) cannot be kept"
            )
        if self._spent >= self._budget.amount:
            return f"the budget of {self._budget} (--model-budget) is spent"
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
            f"{self._answers} answer{'' if self._answers == 1 else 's'}",
            f"{self._tokens[0]:,} tokens in, {self._tokens[1]:,} out",
            *(f"{amount:.6g} {unit}" for unit, amount in self._costs.items()),
        ]
        allowed = "" if self._budget is None else f" (of {self._budget})"
        return ", ".join(parts) + allowed
