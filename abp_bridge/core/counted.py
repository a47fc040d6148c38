"""How many there are of something, in words. Pure."""

from __future__ import annotations


def plural(count: object, one: str = "", many: str = "s") -> str:
    """The end of a word for so many, `one` or `many`: `1 rule`, `2 rules`."""
    return one if count == 1 else many


def count_of(count: float, one: str, many: str = "") -> str:
    """The number, and the word for so many: `1 rule`, `2 rules`, `2 entries`.

    Args:
        count: How many.
        one: What each of them is called.
        many: What several are called; empty where that is `one` with an s.
    """
    return f"{count} {plural(count, one, many or f'{one}s')}"
