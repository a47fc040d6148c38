"""Whether a message is what a line of a fixture has for it, where it differs, and what the line's
placeholders stand for in it.

Names such as `[id 1]` mean the same wherever they stand. It does not decide which line a message
belongs to (`expectations`), nor how placeholders are written (`placeholders`). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.replay.placeholders import (
    ANY,
    EITHER,
    ID,
    NUMBER,
    PLACES,
    Known,
    alone,
    is_name,
    kind,
    over,
    parts,
)

Json = Any
Taken = Callable[
    [str, Json], str | None
]  # (a name, what it would stand for) -> the other name that stands for that already

MORE = "..."  # with [any]: an object may have more members
_OPTIONS = ("oneOf", "anyOf", "enum", "options", "choices", "enumNames")
MOST = 8  # differences of one message that are shown
LONGEST = 160
HELD_AGAINST = 400  # pairs of items of two lists, each with its words in brackets
COMPARED = 20_000  # pairs of items that are held against each other to tell what a list lacks


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a message differs, as a path such as `params.message`, and how, in words."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


def _nobody(name: str, value: Json) -> None:
    return None


@dataclass
class Match:
    """A message held against a line: what it taught, and where it differs.

    Without differences, it is the one.
    """

    learned: dict[str, Json] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    taken: Taken = _nobody
    values: dict[tuple[str, Json], str] = field(default_factory=dict)

    def learn(self, name: str, value: Json, path: str) -> None:
        """What a name stands for: an id is a text or a whole number, any other name a text; and
        names tell things apart.
        """
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not (isinstance(value, str) and value) and not (
            kind(name) == ID and (is_number or value == "")
        ):
            self.differences.append(
                Difference(
                    path, f"something that the bridge chooses expected, {shown(value)} given"
                )
            )
            return
        same = self.values.setdefault((kind(name), value), name)
        if same == name:
            same = self.taken(name, value) or name
        if same != name:
            self.differences.append(
                Difference(
                    path, f"one of its own expected, {shown(value)} given, which is {same} already"
                )
            )
        self.learned[name] = value

    def __bool__(self) -> bool:
        return not self.differences


def match(expected: Json, got: Json, known: Known, taken: Taken = _nobody) -> Match:
    """Hold `got` against `expected`.

    Names of one kind must differ within `got`, and `taken` says what must not be chosen any more.
    """
    found = Match(taken=taken)
    _compare(expected, got, "", over(found.learned, known), found)
    return found


def shown(value: Json, longest: int = LONGEST) -> str:
    """A value in one line; what is left out is counted."""
    words = json.dumps(value, ensure_ascii=False, default=str)
    return (
        words
        if len(words) <= longest
        else f"{words[:longest]} … [{len(words) - longest} more characters]"
    )


# --- comparing ---


def _compare(expected: Json, got: Json, path: str, known: Known, found: Match) -> None:
    if isinstance(expected, str):
        _compare_text(expected, got, path, known, found)
    elif isinstance(expected, Mapping) and isinstance(got, Mapping):
        _compare_objects(expected, got, path, known, found)
    elif isinstance(expected, list) and isinstance(got, list):
        _compare_lists(expected, got, path, known, found)
    elif not _same(expected, got):
        found.differences.append(Difference(path, _expected(expected, got)))


def _expected(expected: Json, got: Json) -> str:
    return f"{shown(expected)} expected, {shown(got)} given"


def _same(expected: Json, got: Json) -> bool:
    """JSON has one kind of number, and a yes is none."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return bool(expected == got)


def _compare_text(expected: str, got: Json, path: str, known: Known, found: Match) -> None:
    word = alone(expected)
    if word == ANY or (
        word == NUMBER and isinstance(got, (int, float)) and not isinstance(got, bool)
    ):
        return
    if is_name(word):
        if word not in known:
            found.learn(word, got, path)
        elif not _same(known[word], got):
            found.differences.append(
                Difference(
                    path,
                    f"{shown(known[word])} (as before, for {expected}) expected, {shown(got)}"
                    " given",
                )
            )
        return
    taught = names_in_text(parts(expected), got, known) if isinstance(got, str) else None
    if taught is None:
        at_length = isinstance(got, str) and len(expected) > LONGEST
        words = _at(expected, str(got)) if at_length else _expected(expected, got)
        found.differences.append(Difference(path, words))
        return
    for name, value in taught.items():
        found.learn(name, value, path)


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r'[^\s"\\]+')


def names_in_text(pattern: Sequence[str], text: str, known: Known) -> dict[str, str] | None:
    """What `text` has for the names of `pattern` that are not known yet.

    A placeholder ends where the letters after it begin, and the last one where the letters at the
    end do; nothing is tried and taken back, so the time grows with the length of the text alone.

    Args:
        pattern: letters, word, letters, ..., letters, as `placeholders.parts` has it.
        text: what the bridge said.
        known: what the bridge chose before, by name.

    Returns:
        The values by name; None when the text does not fit.
    """
    learned: dict[str, str] = {}
    words, letters = _unknown_words(pattern, known)
    if not text.startswith(letters[0]):
        return None
    end = len(letters[0])
    for place, word in enumerate(words, 1):
        start, after = end, letters[place]
        end = _word_end(word, after, text, start, learned, is_last=place == len(words))
        if end < start or not text.startswith(after, end):
            return None
        if is_name(word):
            learned[word] = text[start:end]
        end += len(after)
    return learned if end == len(text) else None


def _unknown_words(pattern: Sequence[str], known: Known) -> tuple[list[str], list[str]]:
    """The words that are to be read, and the letters before, between and after them."""
    words, letters = [], [pattern[0]]
    for word, after in zip(pattern[1::2], pattern[2::2], strict=True):
        if word in PLACES or word in known:
            letters[-1] += (word if word in PLACES else str(known[word])) + after
        else:
            words.append(word)
            letters.append(after)
    return words, letters


def _word_end(
    word: str, after: str, text: str, start: int, learned: Mapping[str, str], *, is_last: bool
) -> int:
    """Where the word that begins at `start` ends, before `after`; -1 when it is not there."""
    if word == NUMBER:
        number = _NUMBER.match(text, start)
        return number.end() if number else -1
    if word in learned or word.startswith(EITHER):
        texts = [learned[word]] if word in learned else word[len(EITHER) : -1].split("|")
        longest = (len(each) for each in texts if text.startswith(each + after, start))
        return start + max(longest, default=-1 - start)
    least = start + is_name(word)
    end = len(text) - len(after) if is_last else text.find(after, least)
    return end if not is_name(word) or _NAME.fullmatch(text, start, end) else -1


def _at(expected: str, got: str) -> str:
    """Long texts are shown from where they part."""
    same = next(
        (
            place
            for place, (one, other) in enumerate(zip(expected, got, strict=False))
            if one != other
        ),
        min(len(expected), len(got)),
    )
    start = max(0, same - 20)
    return (
        f"from character {start + 1} on {shown(expected[start:])} expected, {shown(got[start:])}"
        " given"
    )


def _compare_objects(
    expected: Mapping[str, Json], got: Mapping[str, Json], path: str, known: Known, found: Match
) -> None:
    more = expected.get(MORE) == ANY
    wanted = {name: value for name, value in expected.items() if not more or name != MORE}
    plain = {letters[0] for letters in map(parts, wanted) if len(letters) == 1}
    left = {name: value for name, value in got.items() if name not in plain}
    for name, value in wanted.items():
        letters, place = parts(name), _join(path, name)
        if len(letters) == 1 and letters[0] in got:
            _compare(value, got[letters[0]], place, known, found)
        elif len(letters) > 1 and (chosen := _named(name, value, left, known, found)) is not None:
            del left[chosen]
        else:
            found.differences.append(Difference(place, f"{shown(value)} expected, nothing given"))
    if not more:
        found.differences += [
            Difference(_join(path, name), f"nothing expected, {shown(value)} given")
            for name, value in left.items()
        ]


def _named(
    name: str, value: Json, left: Mapping[str, Json], known: Known, found: Match
) -> str | None:
    """Which member of those that are left stands under a name that the bridge chose."""
    for each in left:
        trial = Match(dict(found.learned), taken=found.taken, values=dict(found.values))
        tried = over(trial.learned, known)
        _compare_text(name, each, "", tried, trial)
        if trial:
            _compare(value, left[each], "", tried, trial)
        if trial:
            found.learned.update(trial.learned)
            found.values.update(trial.values)
            return each
    return None


def _compare_lists(
    expected: Sequence[Json], got: Sequence[Json], path: str, known: Known, found: Match
) -> None:
    if len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            _compare(one, other, f"{path}[{place}]", known, found)
        return
    word = "options" if path.rpartition(".")[2] in _OPTIONS else "items"
    words = f"{len(expected)} {word} expected, {len(got)} given"
    if len(expected) * len(got) > COMPARED:
        found.differences.append(Difference(path, words))
        return
    few = len(expected) * len(got) <= HELD_AGAINST

    def same(one: Json, other: Json) -> bool:
        return bool(match(one, other, known)) if few else _same(one, other)

    missing = [each for each in expected if not any(same(each, other) for other in got)]
    extra = [each for each in got if not any(same(other, each) for other in expected)]
    for what, which in (("missing", missing), ("not expected", extra)):
        if which:
            more = f" and {len(which) - 3} more" if len(which) > 3 else ""
            words += f"; {what}: {', '.join(shown(each, 60) for each in which[:3])}{more}"
    found.differences.append(Difference(path, words))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
