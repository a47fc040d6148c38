"""What a line of a fixture means: which messages it stands for, what it learns from them, and how a message differs. Pure.

Words in brackets stand for what a bridge chooses: `[any]`, `[number]`, and names such as `[id 1]`, which mean the same wherever they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Json = Any
Known = Mapping[str, Json]  # by name, what a bridge chose for it

ANY, NUMBER = "[any]", "[number]"
PLACES = ("[folder]", "[tmp]")  # what is said has these words already when it is compared
_NAMES = "id|call|question|link|state|elicitation|option|session|tool|value|tmp|cwd|output|folder|python"
_PART = re.compile(rf"\[(?:any|number|cut \d+ characters|either [^\]|]+\|[^\]]+|(?:{_NAMES})(?: \d+)?)\]")
_OPTIONS = ("oneOf", "anyOf", "enum", "options", "choices", "enumNames")
MOST = 8  # differences of one message that are shown
LONGEST = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a message differs, as a path such as `params.message`, and how, in words."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


@dataclass
class Match:
    """A message held against a line: what it taught, and where it differs. Without differences, it is the one."""

    learned: dict[str, Json] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences


def match(expected: Json, got: Json, known: Known) -> Match:
    """Hold `got` against `expected`."""
    found = Match()
    _compare(expected, got, "", known, found)
    return found


class Unknown(Exception):
    """A line that is to be sent has a name that no bridge has chosen anything for yet."""


def fill(value: Json, known: Known) -> Json:
    """`value` with what the bridge chose in place of the names. Raises Unknown."""
    if isinstance(value, str):
        return _filled(value, known)
    if isinstance(value, Mapping):
        return {_filled(name, known): fill(each, known) for name, each in value.items()}
    return [fill(each, known) for each in value] if isinstance(value, list) else value


def _filled(words: str, known: Known) -> Json:
    if not (parts := _PART.findall(words)):
        return words
    for part in parts:
        if part not in known:
            raise Unknown(part)
    return known[words] if parts == [words] else _PART.sub(lambda found: str(known[found[0]]), words)


def shown(value: Json, longest: int = LONGEST) -> str:
    """A value in one line; what is left out is counted."""
    words = json.dumps(value, ensure_ascii=False, default=str)
    return words if len(words) <= longest else f"{words[:longest]} … [{len(words) - longest} more characters]"


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
    if expected == ANY:
        return
    if expected == NUMBER and isinstance(got, (int, float)) and not isinstance(got, bool):
        return
    if _PART.fullmatch(expected) and expected not in (NUMBER, *PLACES) and not expected.startswith(("[cut", "[either")):
        chosen = found.learned.get(expected, known.get(expected))
        if chosen is None and not isinstance(got, (Mapping, list)) and got is not None:
            if (same := _namesake(expected, got, found.learned)) is not None:
                found.differences.append(Difference(path, f"one of its own expected, {shown(got)} given, which is {same} already"))
            found.learned[expected] = got
        elif chosen is None or not _same(chosen, got):
            says = "something that the bridge chooses" if chosen is None else f"{shown(chosen)} (as before, for {expected})"
            found.differences.append(Difference(path, f"{says} expected, {shown(got)} given"))
        return
    if not isinstance(got, str):
        found.differences.append(Difference(path, _expected(expected, got)))
        return
    if expected == got:
        return
    taught = _read(expected, got, {**known, **found.learned})
    if taught is None:
        found.differences.append(Difference(path, _at(expected, got) if len(expected) > LONGEST else _expected(expected, got)))
    else:
        found.learned.update(taught)


def _namesake(name: str, value: Json, learned: Known) -> str | None:
    """What has the same id in one message: ids tell things apart."""
    word = name.partition(" ")[0]
    return next((each for each, other in learned.items() if each.partition(" ")[0] == word and _same(value, other)), None)


def _at(expected: str, got: str) -> str:
    """Long texts are shown from where they part."""
    same = next((place for place, (one, other) in enumerate(zip(expected, got, strict=False)) if one != other), min(len(expected), len(got)))
    start = max(0, same - 20)
    return f"from character {start + 1} on {shown(expected[start:])} expected, {shown(got[start:])} given"


def _read(expected: str, got: str, known: Known) -> dict[str, str] | None:
    """What `got` has in place of the names in `expected`; None when it does not fit."""
    pattern, names = _pattern(expected)
    if not names and pattern is None:
        return None
    read = re.fullmatch(_bound(pattern or "", names, known), got, re.DOTALL)
    return None if read is None else {name: read[f"n{number}"] for name, number in names.items() if name not in known}


@lru_cache(maxsize=2_000)
def _pattern(expected: str) -> tuple[str | None, dict[str, int]]:
    """`expected` as a pattern with `{{n}}` for its names, and their numbers; None when there is nothing in brackets."""
    parts = _PART.split(expected)
    marks = _PART.findall(expected)
    if not marks:
        return None, {}
    names: dict[str, int] = {}
    made = re.escape(parts[0])
    for mark, part in zip(marks, parts[1:], strict=True):
        if mark in PLACES:
            made += re.escape(mark)
        elif mark == NUMBER:
            made += r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
        elif mark == ANY or mark.startswith("[cut"):
            made += ".*?"
        elif mark.startswith("[either "):
            made += "(?:" + "|".join(map(re.escape, mark[8:-1].split("|"))) + ")"
        else:
            made += f"\0{names.setdefault(mark, len(names))}\0"
        made += re.escape(part)
    return made, names


def _bound(pattern: str, names: Mapping[str, int], known: Known) -> str:
    for name, number in names.items():
        mark = f"\0{number}\0"
        if name in known:
            pattern = pattern.replace(mark, re.escape(str(known[name])))
        else:
            pattern = pattern.replace(mark, rf"(?P<n{number}>[^\s\"\\]+?)", 1).replace(mark, f"(?P=n{number})")
    return pattern


def _compare_objects(expected: Mapping[str, Json], got: Mapping[str, Json], path: str, known: Known, found: Match) -> None:
    left = {name: value for name, value in got.items() if name not in expected}
    for name, value in expected.items():
        if name == "...":
            continue
        place = _join(path, name)
        if name in got:
            _compare(value, got[name], place, known, found)
        elif _PART.search(name) and (chosen := _named(name, value, left, known, found)) is not None:
            del left[chosen]
        else:
            found.differences.append(Difference(place, f"{shown(value)} expected, nothing given"))
    if "..." not in expected:
        found.differences += [Difference(_join(path, name), f"nothing expected, {shown(value)} given") for name, value in left.items()]


def _named(name: str, value: Json, left: Mapping[str, Json], known: Known, found: Match) -> str | None:
    """Which member of those that are left stands under a name that the bridge chose."""
    for each in left:
        trial = Match(dict(found.learned))
        _compare_text(name, each, "", known, trial)
        if trial:
            _compare(value, left[each], "", {**known, **trial.learned}, trial)
        if trial:
            found.learned.update(trial.learned)
            return each
    return None


def _compare_lists(expected: Sequence[Json], got: Sequence[Json], path: str, known: Known, found: Match) -> None:
    if len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            _compare(one, other, f"{path}[{place}]", known, found)
        return
    word = "options" if path.rpartition(".")[2] in _OPTIONS else "items"
    bound = {**known, **found.learned}
    missing = [each for each in expected if not any(match(each, other, bound) for other in got)]
    extra = [each for each in got if not any(match(other, each, bound) for other in expected)]
    words = f"{len(expected)} {word} expected, {len(got)} given"
    for what, which in (("missing", missing), ("not expected", extra)):
        if which:
            more = f" and {len(which) - 3} more" if len(which) > 3 else ""
            words += f"; {what}: {', '.join(shown(each, 60) for each in which[:3])}{more}"
    found.differences.append(Difference(path, words))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
