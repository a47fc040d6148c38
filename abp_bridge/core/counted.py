"""How many there are of something, in words. Pure."""

from __future__ import annotations


def count_of(count: float, one: str, many: str = "") -> str:
    """`1 rule`, `2 rules`, `2 entries`.

    Args:
        count: How many.
        one: What each of them is called.
        many: What several are called; empty where that is `one` with an s.

    Returns:
        The number, and the word for so many.
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"
