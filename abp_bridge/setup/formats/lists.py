"""A list in brackets, changed an item at a time: what stays keeps its place, its blanks and the
comments around it. Where the items are, the formats say; pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from abp_bridge.core.json_value import JsonValue
from abp_bridge.setup.formats.text import Edit, equal, indent_of, line_end, line_start, newline

_BLANK = " \t\r\n"


def difference(
    old: Sequence[JsonValue], new: Sequence[JsonValue]
) -> tuple[int, int, Sequence[JsonValue]]:
    """What of two lists is not the same: items of `old`, from and to, and those of `new` that take
    their place. What both end with counts first: of a command behind another, that is all of it.
    """
    most = min(len(old), len(new))
    ends = _alike(old[::-1], new[::-1], most)
    start = _alike(old, new, most - ends)
    return start, len(old) - ends, new[start : len(new) - ends]


def _alike(one: Sequence[JsonValue], other: Sequence[JsonValue], most: int) -> int:
    """How many items both begin with, of at most so many."""
    return next((at for at in range(most) if not equal(one[at], other[at])), most)


@dataclass(frozen=True, slots=True)
class Brackets:
    """A list in a text.

    Attributes:
        text: The whole.
        start: Where its bracket opens; `end` behind the one that closes it.
        items: Where each item begins and ends.
        comment: A pattern for a comment, without the end of its line.
    """

    text: str
    start: int
    end: int
    items: Sequence[tuple[int, int]]
    comment: str

    def edits(
        self,
        old: Sequence[JsonValue],
        new: Sequence[JsonValue],
        render: Callable[[JsonValue], str],
    ) -> list[Edit] | None:
        """The edits that make `new` of `old`, which the items say; None where nothing would stay,
        neither an item nor a comment: then it is written anew.
        """
        start, end, items = difference(old, new)
        if end - start == len(old) and not self._has_comment():
            return None
        made = [render(each) for each in items]
        shared = min(end - start, len(made))
        edits = [
            Edit(*place, words) for place, words in zip(self.items[start:end], made, strict=False)
        ]
        if shared < len(made):
            return [*edits, *self._insert(end, made[shared:])]
        return [*edits, *self._cut(start + shared, end)]

    def _has_comment(self) -> bool:
        starts = [start for start, _ in self.items]
        ends = [end for _, end in self.items]
        between = zip([self.start + 1, *ends], [*starts, self.end - 1], strict=True)
        return any(self.text[start:end].strip(f"{_BLANK},") for start, end in between)

    def _comma(self, place: int) -> int | None:
        """Where the comma behind an item is."""
        found = re.compile(rf"(?:[{_BLANK}]|{self.comment})*+,", re.DOTALL).match(
            self.text, self.items[place][1]
        )
        return found.end() - 1 if found else None

    def _behind(self, place: int) -> int:
        """The place behind an item and its comma."""
        comma = self._comma(place)
        return self.items[place][1] if comma is None else comma + 1

    def _end_of_line(self, at: int) -> int | None:
        """Where the line of a place ends, where nothing but blanks and comments follows on it."""
        pattern = rf"(?:[ \t]|{self.comment})*+(?=\r?\n)"
        found = re.compile(pattern, re.DOTALL).match(self.text, at)
        return found.end() if found else None

    def _insert(self, place: int, made: Sequence[str]) -> list[Edit]:
        """Items before the one at `place`: lines of their own where that has one."""
        if not self.items:
            at = self.start + 1
            return [Edit(at, at, ", ".join(made))]
        if place == len(self.items):
            return self._append(made)
        start = self.items[place][0]
        behind = self._behind(place - 1) if place else self.start + 1
        ends = self._end_of_line(behind)
        if ends is None:
            return [Edit(start, start, "".join(f"{each}, " for each in made))]
        below = line_end(self.text, ends)
        indent, end = indent_of(self.text, start), newline(self.text)
        return [Edit(below, below, "".join(f"{indent}{each},{end}" for each in made))]

    def _append(self, made: Sequence[str]) -> list[Edit]:
        """Items behind the last one, which ends as it did: with a comma, or without."""
        start, end = self.items[-1]
        behind = self._behind(-1)
        has_comma = behind > end
        ends = None
        if not self.text[line_start(self.text, start) : start].strip():
            ends = self._end_of_line(behind)
        lead = " " if ends is None else newline(self.text) + indent_of(self.text, start)
        place = behind if ends is None else ends
        words = ",".join(f"{lead}{each}" for each in made)
        if has_comma:
            return [Edit(place, place, f"{words},")]
        if place == end:
            return [Edit(end, end, f",{words}")]
        return [Edit(end, end, ","), Edit(place, place, words)]

    def _cut(self, start: int, end: int) -> Iterator[Edit]:
        """Without items, from and to; the last one that stays ends as the last one did."""
        is_last = end == len(self.items)
        for place, (first, last) in enumerate(self._pieces(start, end)):
            before = line_start(self.text, first)
            is_first = not self.text[before:first].strip()
            follows = re.compile(r"[ \t]*").match(self.text, last)
            assert follows is not None, "it matches nothing, too"
            if is_first and self.text.startswith(("\n", "\r\n"), follows.end()):
                yield Edit(before, line_end(self.text, last), "")
            elif is_last and not is_first and not place:
                yield Edit(len(self.text[:first].rstrip(" \t")), last, "")
            else:
                yield Edit(first, follows.end(), "")
        comma = self._comma(start - 1) if is_last and start and start < end else None
        if comma is not None and self._comma(-1) is None:
            yield Edit(comma, comma + 1, "")

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """What goes with items, from and to: all in one where no comment is between, else each
        item, and its comma.
        """
        pieces = list[tuple[int, int]]()
        for place in range(start, end):
            (first, last), behind = self.items[place], self._behind(place)
            if self.text[last:behind].strip(_BLANK) in ("", ","):
                pieces.append((first, behind))
            else:
                pieces += [(first, last), (behind - 1, behind)]
        gaps = (self.text[one[1] : other[0]] for one, other in pairwise(pieces))
        if not pieces or any(map(str.strip, gaps)):
            return pieces
        return [(pieces[0][0], pieces[-1][1])]
