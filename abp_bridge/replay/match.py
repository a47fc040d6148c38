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

from abp_bridge.core.json_value import JsonObject, JsonValue, as_integer, as_text
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
    parts,
)

# (a name, what it would stand for) -> the other name that stands for that already
Taken = Callable[[str, JsonValue], str | None]

MORE = "..."  # with [any]: an object may have more members
_OPTIONS = ("oneOf", "anyOf", "enum", "options", "choices", "enumNames")
MOST = 8  # differences of one message that are shown
LONGEST = 160  # characters of a value in a complaint
# pairs of items that are compared to tell what a list lacks: with their words in brackets, and as
# they are; each is a walk through two values
MAX_MATCHED = 400
MAX_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a message differs, as a path such as `params.message`, and how, in words."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


def _nobody(name: str, value: JsonValue) -> None:
    return None


@dataclass
class Match:
    """A message compared with a line: what it taught, and where it differs.

    Without differences, it is the one.
    """

    known: Known
    taken: Taken = _nobody
    learned: dict[str, JsonValue] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences

    def differs(self, path: str, words: str) -> None:
        """Note a difference at `path`."""
        self.differences.append(Difference(path, words))

    def learn(self, name: str, value: JsonValue, path: str) -> None:
        """Note what a name stands for: an id is a text or a whole number, any other name a text;
        and names tell things apart.
        """
        is_id = kind(name) == ID and (as_integer(value) is not None or value == "")
        if not is_id and not as_text(value):
            self.differs(
                path, f"something that the bridge chooses expected, {excerpt(value)} given"
            )
            return
        here = (n for n, v in self.learned.items() if kind(n) == kind(name) and v == value)
        if same := next(here, None) or self.taken(name, value):
            words = f"one of its own expected, {excerpt(value)} given, which is {same} already"
            self.differs(path, words)
        self.learned[name] = value


def match(expected: JsonValue, got: JsonValue, known: Known, taken: Taken = _nobody) -> Match:
    """Compare `got` with `expected`.

    Args:
        expected: what a line of a fixture has, with words in brackets.
        got: what a bridge said.
        known: what it chose before, by name.
        taken: the name that stands for a value already, for what must not be chosen any more.
            Names of one kind must differ within `got`, too.
    """
    found = Match(known, taken)
    _compare(expected, got, "", found)
    return found


def excerpt(value: JsonValue, longest: int = LONGEST) -> str:
    """A value as JSON in one line of at most `longest` characters, and how many more there are."""
    words = json.dumps(value, ensure_ascii=False, default=str)
    more = len(words) - longest
    return words if more <= 0 else f"{words[:longest]} … [{more} more characters]"


# --- comparing ---


def _compare(expected: JsonValue, got: JsonValue, path: str, found: Match) -> None:
    if isinstance(expected, str):
        _compare_text(expected, got, path, found)
    elif isinstance(expected, Mapping) and isinstance(got, Mapping):
        _compare_objects(expected, got, path, found)
    elif isinstance(expected, list) and isinstance(got, list):
        _compare_lists(expected, got, path, found)
    elif not _same(expected, got):
        found.differs(path, _describe(expected, got))


def _describe(expected: JsonValue, got: JsonValue) -> str:
    return f"{excerpt(expected)} expected, {excerpt(got)} given"


def _same(expected: JsonValue, got: JsonValue) -> bool:
    """JSON has one kind of number, and a yes is none."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return bool(expected == got)


def _compare_text(expected: str, got: JsonValue, path: str, found: Match) -> None:
    word = alone(expected)
    is_number = isinstance(got, (int, float)) and not isinstance(got, bool)
    if word == ANY or (word == NUMBER and is_number):
        return
    known = {**found.known, **found.learned} if len(parts(expected)) > 1 else {}
    if is_name(word):
        if word not in known:
            found.learn(word, got, path)
        elif not _same(known[word], got):
            before = f"{excerpt(known[word])} (as before, for {expected})"
            found.differs(path, f"{before} expected, {excerpt(got)} given")
        return
    learned = names_in_text(parts(expected), got, known) if isinstance(got, str) else None
    if learned is None:
        is_long = isinstance(got, str) and len(expected) > LONGEST
        found.differs(path, _at(expected, str(got)) if is_long else _describe(expected, got))
        return
    for name, value in learned.items():
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
    pairs = zip(f"{expected}\0", got, strict=False)
    same = next((place for place, (one, other) in enumerate(pairs) if one != other), len(got))
    start = max(0, same - 20)
    return f"from character {start + 1} on {_describe(expected[start:], got[start:])}"


def _compare_objects(expected: JsonObject, got: JsonObject, path: str, found: Match) -> None:
    has_more = expected.get(MORE) == ANY
    wanted = {name: value for name, value in expected.items() if not has_more or name != MORE}
    plain = {letters[0] for letters in map(parts, wanted) if len(letters) == 1}
    left = {name: value for name, value in got.items() if name not in plain}
    for name, value in wanted.items():
        letters, place = parts(name), _join(path, name)
        if len(letters) == 1 and letters[0] in got:
            _compare(value, got[letters[0]], place, found)
        elif len(letters) > 1 and (chosen := _member(name, value, left, found)) is not None:
            del left[chosen]
        else:
            found.differs(place, f"{excerpt(value)} expected, nothing given")
    if not has_more:
        for name, value in left.items():
            found.differs(_join(path, name), f"nothing expected, {excerpt(value)} given")


def _member(name: str, value: JsonValue, left: JsonObject, found: Match) -> str | None:
    """Which member of those that are left stands under a name that the bridge chose."""
    for each in left:
        trial = Match(found.known, found.taken, dict(found.learned))
        _compare_text(name, each, "", trial)
        if trial:
            _compare(value, left[each], "", trial)
        if trial:
            found.learned.update(trial.learned)
            return each
    return None


def _compare_lists(
    expected: Sequence[JsonValue], got: Sequence[JsonValue], path: str, found: Match
) -> None:
    if len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            _compare(one, other, f"{path}[{place}]", found)
        return
    word = "options" if path.rpartition(".")[2] in _OPTIONS else "items"
    words = f"{len(expected)} {word} expected, {len(got)} given"
    pairs, known = len(expected) * len(got), {**found.known, **found.learned}

    def same(one: JsonValue, other: JsonValue) -> bool:
        is_few = pairs <= MAX_MATCHED
        return bool(match(one, other, known)) if is_few else _same(one, other)

    if pairs <= MAX_COMPARED:
        missing = [each for each in expected if not any(same(each, other) for other in got)]
        extra = [each for each in got if not any(same(other, each) for other in expected)]
        words += _list("missing", missing) + _list("not expected", extra)
    found.differs(path, words)


def _list(what: str, values: Sequence[JsonValue]) -> str:
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return (
        f"; {what}: {', '.join(excerpt(each, 60) for each in values[:3])}{more}" if values else ""
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
