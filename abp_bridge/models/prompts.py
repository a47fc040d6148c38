"""A conversation as one text, for agents that take no other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from abp_bridge.models.turn import AgentMessage

_COMMAND = re.compile(r"[\s\ufeff]*/")
_WHO = {"user": "The user", "assistant": "You"}


def format_prompt(messages: Sequence[AgentMessage]) -> str:
    """What the system says, then what was said before, quoted, then the last message as it is. What
    begins with a slash does not come first: an agent would take it for a command of its own.

    Args:
        messages: The conversation, the oldest first.
    """
    rules = [each.content for each in messages if each.role == "system"]
    said = [each for each in messages if each.role != "system"]
    before = "\n\n".join(f"{_WHO[each.role]} said:\n{_quote(each.content)}" for each in said[:-1])
    last = [each.content for each in said[-1:]]
    prompt = "\n\n".join([*rules, *([before] if before else []), *last])
    return f"This is asked:\n\n{prompt}" if _COMMAND.match(prompt) else prompt


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
