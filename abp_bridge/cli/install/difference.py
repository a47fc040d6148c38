"""The lines that go and come between two contents of a file, as a diff without the lines around
them. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

MAX_COMPARED = 10**8  # pairs of lines: of more, hard ones would be compared for minutes


def changed_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The hunks of a unified diff; of what is too much to compare, how many lines it has."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = range(1, shorter - start + 1)
    end = next((at - 1 for at in rest if before[-at] != after[-at]), len(rest))
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if len(old) * len(new) > MAX_COMPARED:
        yield f"  ({len(old):,} lines become {len(new):,}, from line {start + 1}: too many to show)"
        return
    for kind, *places in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            first, last, new_first, new_last = places
            there, then = ((first, last), (new_first, new_last))
            yield f"@@ -{_range(start, *there)} +{_range(start, *then)} @@"
            yield from (f"-{line}" for line in old[first:last])
            yield from (f"+{line}" for line in new[new_first:new_last])


def _range(offset: int, first: int, last: int) -> str:
    """Lines as a hunk's head names them."""
    length = last - first
    begin = offset + first + (length > 0)
    return f"{begin}" if length == 1 else f"{begin},{length}"
