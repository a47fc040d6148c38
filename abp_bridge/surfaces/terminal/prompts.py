"""What both ways of prompting share: `interactive` by arrow keys, `plain` by numbers and lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from abp_bridge.core.json_value import JsonValue
from abp_bridge.core.outcome import Outcome

# what is wrong with an answer, in words; empty when nothing is
Check = Callable[[JsonValue], str]
MarksCheck = Callable[[Sequence[int]], str]  # of options by their indexes


class PromptExit(Exception):  # noqa: N818 - a way out of a prompt, no error
    """The user declines or cancels."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


def hint_line(*ways: str, cancel: str) -> str:
    """Return the hint of a prompt: its `ways` to answer, and how to cancel."""
    return " · ".join(way for way in (*ways, "Ctrl-D declines", f"{cancel} cancels") if way)
