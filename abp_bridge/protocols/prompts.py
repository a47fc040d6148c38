"""A conversation as one text, for agents that take no other."""

from __future__ import annotations

from collections.abc import Sequence

from abp_bridge.core.agent_turn import AgentMessage

_WHO = {"user": "The user", "assistant": "You"}


def format_prompt(messages: Sequence[AgentMessage]) -> str:
    """What the system says, then what was said before, quoted, then the last message as it is.

    Args:
        messages: The conversation, the oldest first.
    """
    rules = [each.content for each in messages if each.role == "system"]
    said = [each for each in messages if each.role != "system"]
    before = "\n\n".join(f"{_WHO[each.role]} said:\n{_quote(each.content)}" for each in said[:-1])
    last = [each.content for each in said[-1:]]
    return "\n\n".join([*rules, *([before] if before else []), *last])


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
