"""What it is to prompt for one thing. `interactive` does it with arrow keys, `plain` by numbers
and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from abp_bridge.core.json_value import Json
from abp_bridge.core.question import Choice, Outcome

Check = Callable[[Json], str]  # what is wrong with an answer, in words; empty when nothing is


class PromptExit(Exception):
    """The person wants no answer given."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class Prompts(Protocol):
    """One way of prompting. Every prompt raises PromptExit when the person declines or cancels."""

    async def line(self, title: str, default: str, check: Check, *, hint: str, secret: bool) -> str:
        """One line, typed until `check` finds nothing wrong with it."""
        ...

    async def path(
        self, title: str, default: str, accept: Sequence[str], *, hint: str, problem: str
    ) -> str:
        """A file's name, or nothing. `problem` is what was wrong with `default`."""
        ...

    async def pick(self, title: str, options: Sequence[Choice], start: int | None) -> int:
        """The index of one option."""
        ...

    async def mark(
        self, title: str, options: Sequence[Choice], marked: set[int], check: Check
    ) -> list[int]:
        """The indexes of any number of options, picked until `check` finds nothing wrong."""
        ...

    def above(self, write: Callable[[], None]) -> None:
        """Write lines above the open prompt."""
        ...


def hinted(*ways: str, cancel: str) -> str:
    """The hint line of a prompt: its `ways` to answer, less empty ones, and how to end it."""
    return " · ".join(way for way in (*ways, "Ctrl-D declines", f"{cancel} cancels") if way)
