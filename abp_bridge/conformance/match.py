"""Compare a message with a fixture's line: its differences, and the values of the line's
placeholders.

The `Kind` tables list what MCP and ACP allow a bridge to say differently with the same meaning.
"""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from abp_bridge.conformance.format import AGENT, HOST, TOOLS
from abp_bridge.conformance.placeholders import (
    ANY,
    EITHER,
    ID,
    LOCAL,
    NUMBER,
    PLACES,
    Known,
    alone,
    is_name,
    parts,
)
from abp_bridge.conformance.placeholders import (
    kind as kind_of_name,
)
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_integer,
    as_number,
    as_object,
    as_text,
    json_equal,
)
from abp_bridge.core.words import count_of
from abp_bridge.errors import AbpBridgeError

MAX_SHOWN = 400  # characters of a message in a complaint


class ReplayMismatchError(AbpBridgeError):
    """The bridge does not follow the fixture, or the fixture cannot be played.

    `line` is the fixture's line number, or 0; `expected` and `got` were compared; `details` has one
    difference a line, or what the bridge said.
    """

    def __init__(
        self,
        problem: str,
        line: int = 0,
        details: Iterable[str] | None = None,
        expected: JsonValue = None,
        got: JsonValue = None,
    ) -> None:
        super().__init__(problem)
        self.line = line
        said = () if got is None else (excerpt(got, MAX_SHOWN),)
        self.details = said if details is None else tuple(details)
        self.expected = expected
        self.got = got


@contextmanager
def as_mismatch(attempt: str, hint: str = "", line: int = 0) -> Iterator[None]:
    """Turn a failed attempt (OSError, ValueError) into a mismatch that names the attempt."""
    try:
        yield
    except (OSError, ValueError) as problem:
        words = str(problem) or "it took too long"
        raise ReplayMismatchError(f"{attempt}: {words}{hint}", line) from None


# --- what means the same --------------------------------------------------------------------------

REST = "*"  # the members that a table does not name
Absence = Mapping[str, Sequence[JsonValue]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object in a protocol. The items of a list have the list's kind.

    Attributes:
        members: The kinds of its members; others are compared exactly.
        absence: By member, the values that mean the same as absence; `[any]` for every value.
    """

    members: Mapping[str, Kind] = field(default_factory=dict)
    absence: Absence = field(default_factory=dict)

    def member(self, name: str) -> Kind:
        """Return the kind of the member `name`."""
        return self.members.get(name, self.members.get(REST, EXACT))

    def absent(self, name: str) -> Sequence[JsonValue]:
        """Return the values that mean the same as the absence of `name`."""
        return self.absence.get(name, self.absence.get(REST, ()))


EXACT = Kind()


def kind_of(party: str, host: str) -> Kind:
    """Return the kind of a message to `party`; `host` is the host's protocol."""
    return _KINDS.get((host if party == HOST else party).partition(" ")[0], EXACT)


def _open_kind(absence: Absence, known: Mapping[str, Kind] = EXACT.members) -> Kind:
    """Return a kind whose other members have the same kind."""
    members = dict(known)
    members[REST] = Kind(members, absence)
    return members[REST]


_META = Kind({}, {REST: (ANY,), "io.modelcontextprotocol/subscriptionId": ()})
_OFFERED = _open_kind({REST: (ANY, False, None)})  # to the host, who need not use it
_JSON_SCHEMA = {"required": ([],), "$schema": ("https://json-schema.org/draft/2020-12/schema",)}
_PROPERTIES = Kind({REST: Kind({}, _JSON_SCHEMA)})
_SCHEMA = Kind({"properties": _PROPERTIES}, _JSON_SCHEMA)

# --- MCP ---


def _noted(members: Mapping[str, Kind] = EXACT.members, absence: Absence = EXACT.absence) -> Kind:
    """Return an MCP kind with an optional `_meta`."""
    return Kind({"_meta": _META, **members}, {"_meta": ({},), **absence})


_CONTENT = _noted({"resource": _noted()})
_ASKED = Kind({"requestedSchema": _SCHEMA}, {"mode": ("form",)})
_TOOL = {
    "annotations": Kind(
        {},
        {
            "readOnlyHint": (False,),
            "destructiveHint": (True,),
            "idempotentHint": (False,),
            "openWorldHint": (True,),
        },
    ),
    "execution": Kind({}, {"taskSupport": ("forbidden",)}),
    "inputSchema": _SCHEMA,
    "outputSchema": _SCHEMA,
}
_PARAMS = {"messages": _noted({"content": _CONTENT}), **_ASKED.members}
_RESULT = {
    "capabilities": _OFFERED,
    "content": _CONTENT,
    "contents": _noted(),
    "inputRequests": Kind({REST: Kind({"params": _ASKED}, {"params": ({},)})}),
    "resources": _noted(),
    "resourceTemplates": _noted(),
    "tools": _noted(_TOOL, {"annotations": ({},), "execution": ({},)}),
}
_UNSAID: Absence = {"isError": (False,), "structuredContent": (ANY,), "instructions": (ANY,)}
_MCP = Kind(
    {
        "params": _noted(_PARAMS, {**_ASKED.absence, "includeContext": ("none",)}),
        "result": _noted(_RESULT, _UNSAID),
    },
    {"params": ({},)},
)

# --- ACP: null is absent, and whatever is no answer and nothing of a tool's own has notes ---

_NULL: Absence = {REST: (None,), "_meta": ({}, None)}
_AS_IT_IS = {"_meta": _META, "rawInput": EXACT, "rawOutput": EXACT, "requestedSchema": _SCHEMA}
_ITEM = _open_kind(_NULL, _AS_IT_IS)
_OFF: Absence = {"fs": ({},), "auth": ({},)}
_CLIENT = _open_kind({REST: (False, None), **_OFF, "_meta": ({}, None)}, {"_meta": _META})
_OFFERS = ("auth", "mcpCapabilities", "promptCapabilities", "sessionCapabilities")
_AGENT = Kind(_OFFERED.members, {**_OFFERED.absence, **dict.fromkeys(_OFFERS, (ANY, {}))})
_INITIALIZED: Absence = {
    **_NULL,
    "agentInfo": (ANY, None),
    "agentCapabilities": ({},),
    "authMethods": ([],),
}
_TO_CLIENT = Kind(
    {"params": _ITEM, "result": Kind({**_ITEM.members, "agentCapabilities": _AGENT}, _INITIALIZED)}
)
_TO_AGENT = Kind(
    {
        "params": Kind({**_ITEM.members, "clientCapabilities": _CLIENT}, _NULL),
        "result": Kind({"_meta": _META}, {"_meta": ({}, None)}),
    }
)

_KINDS = {
    "mcp": _MCP,
    TOOLS: _MCP,
    "acp": _TO_CLIENT,
    AGENT: _TO_AGENT,
    "abp": _open_kind({"_meta": (ANY,)}),
}


# --- comparing ------------------------------------------------------------------------------------

Choice = tuple[str, str, JsonValue]  # the kind of a name, the party, what the name stands for

MORE = "..."  # with [any]: an object may have more members
_OPTIONS = ("oneOf", "anyOf", "enum", "options", "choices", "enumNames")
MAX_DIFFERENCES = 8  # differences of one message that are shown
MAX_EXCERPT = 160  # characters of a value in a complaint
MAX_TRIALS = 2_000  # members of a message tried for names that the bridge chose: time is squared


class Difference(NamedTuple):
    """Where a message differs (a path such as `params.message`) and how."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


@dataclass
class Match:
    """A message compared with a line: the placeholders' values and the differences, if any."""

    party: str
    names: ChainMap[str, JsonValue]
    owners: ChainMap[Choice, str]
    trials: Iterator[int] = field(default_factory=lambda: iter(range(MAX_TRIALS)))
    differences: list[Difference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def learned(self) -> Mapping[str, JsonValue]:
        """The values of names that were unknown before."""
        return self.names.maps[0]

    @property
    def chosen(self) -> Mapping[Choice, str]:
        """The values in use, with their names."""
        return {each: name for each, name in self.owners.maps[0].items() if each[0] not in LOCAL}

    def choice(self, name: str, value: JsonValue) -> Choice:
        """Return the scope in which a value must be unique: party for ids, message for options."""
        return kind_of_name(name), self.party if kind_of_name(name) == ID else "", value

    # Each of these yields the differences at a path.

    def compare(
        self, expected: JsonValue, got: JsonValue, path: str, kind: Kind
    ) -> Iterator[Difference]:
        """Compare two values of one kind and learn names."""
        if isinstance(expected, str):
            yield from self._compare_text(expected, got, path)
        elif isinstance(expected, Mapping) and isinstance(got, Mapping):
            yield from self._compare_objects(expected, got, path, kind)
        elif isinstance(expected, list) and isinstance(got, list):
            if len(expected) != len(got):
                yield Difference(path, _describe_lists(expected, got, path))
                return
            for place, (one, other) in enumerate(zip(expected, got, strict=True)):
                yield from self.compare(one, other, f"{path}[{place}]", kind)
        elif not json_equal(expected, got):
            yield Difference(path, _describe_difference(expected, got))

    def _compare_text(self, expected: str, got: JsonValue, path: str) -> Iterator[Difference]:
        word = alone(expected)
        if word == ANY or (word == NUMBER and as_number(got) is not None):
            return
        found: Mapping[str, JsonValue] | None = {word: got} if is_name(word) else None
        if found is None and isinstance(got, str):
            found = names_in_text(parts(expected), got, self.names)
        if found is None:
            yield Difference(path, _describe_difference(expected, got))
        for name, value in (found or {}).items():
            if (words := self._learn(name, value)) is not None:
                yield Difference(path, words)

    def _learn(self, name: str, value: JsonValue) -> str | None:
        """Bind `name` to `value`; return the problem, or None."""
        given = f"expected, {excerpt(value)} given"
        if name in self.names:
            same = json_equal(self.names[name], value)
            return None if same else f"{excerpt(self.names[name])} (as before, for {name}) {given}"
        is_id = kind_of_name(name) == ID and (as_integer(value) is not None or value == "")
        if not is_id and not as_text(value):
            return f"something that the bridge chooses {given}"
        choice = self.choice(name, value)
        other, self.owners[choice], self.names[name] = self.owners.get(choice), name, value
        return f"one of its own {given}, which is {other} already" if other else None

    def _compare_objects(
        self, expected: JsonObject, got: JsonObject, path: str, kind: Kind
    ) -> Iterator[Difference]:
        has_more = expected.get(MORE) == ANY
        wanted = {
            name: value
            for name, value in expected.items()
            if not (has_more and name == MORE)
            and (value is not None or None not in kind.absent(name))
        }
        plain = {letters[0] for letters in map(parts, wanted) if len(letters) == 1}
        left = {name: value for name, value in got.items() if name not in plain}
        for name, value in wanted.items():
            letters, place = parts(name), _join(path, name)
            if len(letters) > 1 and left:
                yield from self._compare_member(name, value, left, place, kind)
            elif len(letters) == 1 and letters[0] in got:
                yield from self.compare(value, got[letters[0]], place, kind.member(letters[0]))
            elif all(self._differs(value, each, name, kind) for each in kind.absent(name)):
                yield Difference(place, f"{excerpt(value)} expected, nothing given")
        for name, value in {} if has_more else left.items():
            if all(self._differs(each, value, name, kind) for each in kind.absent(name)):
                yield Difference(_join(path, name), f"nothing expected, {excerpt(value)} given")

    def _differs(self, expected: JsonValue, got: JsonValue, name: str, kind: Kind) -> bool:
        return any(self.compare(expected, got, name, kind.member(name)))

    def _compare_member(
        self, name: str, value: JsonValue, left: dict[str, JsonValue], path: str, kind: Kind
    ) -> Iterator[Difference]:
        """Compare a member whose name the bridge chose with the most similar one, then drop it."""
        tried: list[tuple[list[Difference], str, Match]] = []
        for each, other in left.items():
            trial = replace(self, names=self.names.new_child(), owners=self.owners.new_child())
            found = [
                *trial._compare_text(name, each, path),
                *trial.compare(value, other, path, kind.member(each)),
            ]
            tried.append((found, each, trial))
            if not found or next(self.trials, None) is None:
                break
        found, each, trial = min(tried, key=lambda one: len(one[0]))
        self.names.update(trial.learned)
        self.owners.update(trial.owners.maps[0])
        del left[each]
        yield from found


def match(
    expected: JsonValue,
    got: JsonValue,
    known: Known,
    chosen: Mapping[Choice, str] = MappingProxyType({}),
    *,
    party: str = "",
    kind: Kind = EXACT,
) -> Match:
    """Compare `got` with `expected`.

    Args:
        expected: A fixture's value, with placeholders.
        got: What the bridge sent.
        known: Values that the bridge chose before, by name.
        chosen: Values in use, each with its name; another name must not get the same value.
        party: The recipient.
        kind: The kind of object, which says what may differ.
    """
    found = Match(party, ChainMap({}, dict(known)), ChainMap({}, dict(chosen)))
    found.differences += found.compare(expected, got, "", kind)
    return found


def excerpt(value: JsonValue, longest: int = MAX_EXCERPT) -> str:
    """Return a value as one line of JSON, cut to `longest` characters, with the number left out."""
    words = json.dumps(value, ensure_ascii=False, default=str)
    more = len(words) - longest
    return words if more <= 0 else f"{words[:longest]} … [{count_of(more, 'more character')}]"


# --- texts ---


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r'[^\s"\\]+')


def names_in_text(pattern: Sequence[str], text: str, known: Known) -> dict[str, str] | None:
    """Return the values of the unknown names of `pattern` in `text`, or None if it does not fit.

    A placeholder ends where the letters after it begin, without backtracking: linear time.

    Args:
        pattern: Letters and words by turns, from `placeholders.parts`.
        text: What the bridge said.
        known: Values that the bridge chose before, by name.
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
    """Return the unknown placeholders, and the text before, between and after them."""
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
    """Return the end of the word that begins at `start`, before `after`; -1 if not found."""
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


# --- words for what differs ---


def _describe_difference(expected: JsonValue, got: JsonValue) -> str:
    """Describe a difference; long texts are shown from where they part."""
    if isinstance(expected, str) and isinstance(got, str) and len(expected) > MAX_EXCERPT:
        pairs = zip(f"{expected}\0", got, strict=False)
        same = (place for place, (one, other) in enumerate(pairs) if one != other)
        start = max(0, next(same, len(got)) - 20)
        parted = f"{excerpt(expected[start:])} expected, {excerpt(got[start:])} given"
        return f"from character {start + 1} on {parted}"
    return f"{excerpt(expected)} expected, {excerpt(got)} given"


def _describe_lists(expected: Sequence[JsonValue], got: Sequence[JsonValue], path: str) -> str:
    """Describe the lengths of two lists and the items that only one has."""
    word = "options" if path.rpartition(".")[2] in _OPTIONS else "items"
    members = (member for each in expected for member in as_object(each).items())
    chosen = {name for name, value in members if len(parts(as_text(value))) > 1}

    def key(value: JsonValue) -> str:
        rest = {name: each for name, each in as_object(value).items() if name not in chosen}
        return json.dumps(rest or value, sort_keys=True)

    known, given = set(map(key, expected)), set(map(key, got))
    missing = _list("missing", [each for each in expected if key(each) not in given])
    extra = _list("not expected", [each for each in got if key(each) not in known])
    return f"{len(expected)} {word} expected, {len(got)} given{missing}{extra}"


def _list(what: str, values: Sequence[JsonValue]) -> str:
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return (
        f"; {what}: {', '.join(excerpt(each, 60) for each in values[:3])}{more}" if values else ""
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
