"""A fixture as it is being played: what is to be sent next, what is still expected, and what a
bridge says that does not fit. Pure.

What a bridge says between two lines of ours may come in any order, but for what a protocol orders:
a response after the progress of its request, one update after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from abp_bridge.replay.match import MOST, Match, match, shown
from abp_bridge.replay.placeholders import ANY, ID, OPTION, UnknownPlaceholderError, fill, kind
from abp_bridge.replay.shutdown import OpenQuestions, is_answer
from abp_bridge.trace.format import (
    AGENT,
    HOST,
    PERSON,
    TOOLS,
    Entry,
    is_request,
    is_response,
    unreadable,
)

Json = Any

ORDERED = ("notifications/progress", "session/update")
MOST_HELD = 1_000  # messages that come before the fixture comes to them
FREE = (
    "available_commands_update",
    "notice",
    "current_mode_update",
    "usage_update",
    "session_info_update",
)  # updates about nothing that goes on


class ReplayMismatchError(Exception):
    """The bridge does not do what the fixture shows.

    `line` is the fixture's; `details` are differences, a line each.
    """

    def __init__(
        self,
        words: str,
        line: int = 0,
        details: Iterable[str] = (),
        expected: Json = None,
        got: Json = None,
    ) -> None:
        super().__init__(words)
        self.line = line
        self.details = tuple(details)
        self.expected = expected
        self.got = got


@dataclass(slots=True)
class _Said:
    """Something that the bridge said before the fixture came to it."""

    party: str
    kind: str
    value: Json


@dataclass(slots=True)
class Script:
    """`known` is what is known from the start, such as the folder that the bridge runs in."""

    entries: Sequence[Entry]
    known: dict[str, Json] = field(default_factory=dict)
    _at: int = 0
    _done: set[int] = field(default_factory=set)
    _held: list[_Said] = field(default_factory=list)
    _looked: tuple[int, int] = (
        -1,
        -1,
    )  # where the window began, and how much was known, when what is held was last looked through
    _answered: dict[tuple[str, str, Json], int] = field(
        default_factory=dict
    )  # (party, type, id) of a request of ours -> the line that answered it
    _chosen: dict[tuple[str, str, Json], str] = field(
        default_factory=dict
    )  # (kind, party, value) -> the name that stands for it
    _loose: dict[int, int] = field(default_factory=dict)
    questions: OpenQuestions = field(default_factory=OpenQuestions)

    @property
    def over(self) -> bool:
        return self._at >= len(self.entries)

    def next(self) -> list[tuple[Entry, Json]]:
        """What can be sent now, with what it is with the bridge's own names in it.

        Raises ReplayMismatchError.
        """
        sending: list[tuple[Entry, Json]] = []
        while not self.over:
            entry = self.entries[self._at]
            if entry.ours:
                self._take_held()
                if any(place not in self._done for place in self._window()):
                    break
                self._at = max(self._window()) + 1
                continue
            sending.append((entry, self._filled(entry)))
            self._at += 1
        return sending

    def _filled(self, entry: Entry) -> Json:
        try:
            value = fill(entry.value, self.known)
        except UnknownPlaceholderError as problem:
            raise ReplayMismatchError(str(problem), entry.line) from None
        if (why := unreadable(entry.kind, value)) is not None:
            raise ReplayMismatchError(
                f"with what the bridge chose in it, its {entry.kind} cannot be read: {why}",
                entry.line,
                [shown(value, 400)],
            )
        if entry.kind == "message":
            self.questions.asked(entry.party, value)
        elif entry.kind == "closed":
            self._forget(entry.party)
        return value

    def heard(self, party: str, kind: str, value: Json) -> None:
        """The bridge said `value` to `party`.

        Raises ReplayMismatchError as soon as it cannot fit any more.
        """
        said = _Said(party, kind, value)
        if self._fits(said):
            return
        self._explain(said)
        if len(self._held) == MOST_HELD:
            line = 0 if self.waiting is None else self.waiting.line
            raise ReplayMismatchError(
                f"the bridge said {MOST_HELD} things and more before the fixture came to them",
                line,
                [f"the last was {_name(said)}"],
            )
        self._held.append(said)

    @property
    def waiting(self) -> Entry | None:
        """The first line of the bridge's that has not come."""
        return next(
            (self.entries[place] for place in self._window() if place not in self._done), None
        )

    def expected(self, kind: str) -> list[Entry]:
        """The lines of a kind that are awaited now."""
        return [
            self.entries[place]
            for place in self._window()
            if place not in self._done and self.entries[place].kind == kind
        ]

    @property
    def window_done(self) -> bool:
        """Whether all has come that is awaited now."""
        return all(place in self._done for place in self._window())

    def overdue(self, how: str) -> ReplayMismatchError:
        """Nothing more came: what was waited for, and what came instead.

        `how` says why there will be no more.
        """
        entry = self.waiting
        if entry is None:
            return self.left_over() or ReplayMismatchError(how)
        close = [
            said
            for said in self._held
            if (said.party, said.kind) == (entry.party, entry.kind)
            and _about(said.value) == _about(entry.value)
        ]
        if close:
            return self._differs(entry, close[0].value, self._held_against(entry, close[0]))
        instead = [
            f"{_name(said)} came instead: {shown(said.value, 400)}" for said in self._held[:MOST]
        ]
        return ReplayMismatchError(
            f"{how}: {_name(entry)} was expected", entry.line, instead, expected=entry.value
        )

    def left_over(self) -> ReplayMismatchError | None:
        """What the bridge said that the fixture does not show."""
        if not self._held:
            return None
        said = self._held[0]
        return ReplayMismatchError(
            f"the bridge said something that is not in the fixture: {_name(said)}",
            0,
            [shown(said.value, 400)],
            got=said.value,
        )

    # --- fitting ---

    def _window(self) -> list[int]:
        """Where the bridge's next lines are: up to the next one that is not the bridge's."""
        end = self._at
        while end < len(self.entries) and self.entries[end].ours:
            end += 1
        return list(range(self._at, end))

    def _take_held(self) -> None:
        now = (self._at, len(self.known))
        if now == self._looked:
            return
        self._looked = now
        for said in list(self._held):
            if self._fits(said):
                self._held.remove(said)
            elif not self._may_come_later(said):
                self._explain(said)

    def _fits(self, said: _Said) -> bool:
        # What says exactly what it is goes before what has words in brackets.
        for place in sorted(self._window(), key=self._looseness):
            entry = self.entries[place]
            if place in self._done or (entry.party, entry.kind) != (said.party, said.kind):
                continue
            if found := self._held_against(entry, said):
                self._keep_order(place, said)
                self._done.add(place)
                self._note(said, found.learned, entry.line)
                return True
        return False

    def _looseness(self, place: int) -> int:
        if place not in self._loose:
            self._loose[place] = json.dumps(self.entries[place].value, default=str).count(ANY)
        return self._loose[place]

    def _held_against(self, entry: Entry, said: _Said) -> Match:
        return match(
            entry.value,
            said.value,
            self.known,
            lambda name, value: self._chosen.get(_choice(name, said.party, value)),
        )

    def _note(self, said: _Said, learned: Mapping[str, Json], line: int) -> None:
        self.known.update(learned)
        self._chosen.update(
            (_choice(name, said.party, value), name)
            for name, value in learned.items()
            if kind(name) != OPTION
        )
        if said.kind == "closed":
            self._forget(said.party)
        self.questions.answered(said.party, said.value)
        if is_response(said.value):
            self._answered[(said.party, *_id(said.value))] = line

    def _forget(self, party: str) -> None:
        """It has ended: the next that is called so is spoken to from the beginning, and ids may be
        what they were.
        """
        self._chosen = {
            choice: name for choice, name in self._chosen.items() if choice[:2] != (ID, party)
        }
        self._answered = {
            answered: line for answered, line in self._answered.items() if answered[0] != party
        }
        self.questions.forget(party)

    def _keep_order(self, place: int, said: _Said) -> None:
        for before in self._window():
            entry = self.entries[before]
            if before >= place:
                return
            if (
                before not in self._done
                and entry.party == said.party
                and not _commute(entry.value, said.value)
            ):
                raise ReplayMismatchError(
                    f"{_name(said)} came before {_name(entry)}",
                    entry.line,
                    expected=entry.value,
                    got=said.value,
                )

    def _explain(self, said: _Said) -> None:
        """Raise ReplayMismatchError if `said` can fit nothing that is still to come."""
        if (
            is_response(said.value)
            and (answered := self._answered.get((said.party, *_id(said.value)))) is not None
        ):
            words = (
                f"the bridge answered twice: a second response to the {said.party}'s request"
                f" {said.value.get('id')!r}, which line {answered} answers"
            )
            raise ReplayMismatchError(words, answered, [shown(said.value, 400)], got=said.value)
        if self._may_come_later(said):
            return
        if (later := self._later(said)) is not None:
            words = (
                f"{_name(said)} came too early: it is line {later.line}, and before that somebody"
                " else has to speak"
            )
            raise ReplayMismatchError(
                words, self._line, [shown(said.value, 400)], expected=later.value, got=said.value
            )
        about = _about(said.value)
        alike = [
            self.entries[place]
            for place in self._window()
            if place not in self._done
            and self.entries[place].party == said.party
            and _about(self.entries[place].value) == about
        ]
        if alike:
            tried = [(self._held_against(entry, said), entry) for entry in alike]
            nearest, entry = min(tried, key=lambda pair: len(pair[0].differences))
            raise self._differs(entry, said.value, nearest)
        words = f"the bridge said something that the fixture does not show: {_name(said)}"
        waiting = self.waiting
        more = [] if waiting is None else [f"expected was {_name(waiting)}"]
        raise ReplayMismatchError(
            words, self._line, [shown(said.value, 400), *more], got=said.value
        )

    @property
    def _line(self) -> int:
        """The line at which the conversation is."""
        return (
            self.entries[min(self._at, len(self.entries) - 1)].line
            if self.waiting is None
            else self.waiting.line
        )

    def _may_come_later(self, said: _Said) -> bool:
        """Whether a later line is about the same: then it is only early."""
        later = self._later(said)
        return later is not None and not (
            is_answer(said.value) and self._decided_before(later, said)
        )

    def _later(self, said: _Said) -> Entry | None:
        """The first line after what is awaited now that it fits."""
        start = max(self._window(), default=self._at - 1) + 1
        about = _about(said.value)
        for entry in self.entries[start:]:
            same = (
                entry.ours
                and (entry.party, entry.kind) == (said.party, said.kind)
                and _about(entry.value) == about
            )
            if same and _early(entry.value, said.value):
                return entry
        return None

    def _decided_before(self, later: Entry, said: _Said) -> bool:
        """Whether what this answers, or somebody who may have a say in it, comes before its line
        and has not yet spoken: then it was made up.
        """
        for entry in self.entries[self._at :]:
            if entry is later:
                break
            asked = (
                entry.party == said.party
                and is_request(entry.value)
                and not entry.ours
                and _id(entry.value) == _id(said.value)
            )
            if asked or (
                not entry.ours
                and (entry.party in (HOST, PERSON, AGENT) or entry.party.startswith(TOOLS))
            ):
                return True
        return False

    def _differs(self, entry: Entry, got: Json, found: Match) -> ReplayMismatchError:
        more = len(found.differences) - MOST
        details = [str(each) for each in found.differences[:MOST]] + (
            [f"and {more} differences more"] if more > 0 else []
        )
        return ReplayMismatchError(
            f"{_name(entry)} is not as it should be",
            entry.line,
            details,
            expected=entry.value,
            got=got,
        )


def _early(expected: Json, got: Json) -> bool:
    """Only what fits, but for names that are not known yet, is early; anything else is wrong where
    it comes.
    """
    return bool(match(expected, got, {}))


def _choice(name: str, party: str, value: Json) -> tuple[str, str, Json]:
    """What a name must not have in common with another: ids of JSON-RPC differ for each party,
    other names everywhere, options in one message.
    """
    word = kind(name)
    return word, party if word == ID else "", value


def _id(message: Mapping[str, Json]) -> tuple[str, Json]:
    id = message.get("id")
    return type(id).__name__, id if isinstance(id, (str, int, float)) else None


def _about(message: Json) -> tuple[str, Json]:
    """What a message is about: messages about the same are held against each other."""
    if not isinstance(message, Mapping):
        return "", None
    if is_response(message):
        return "response", _id(message)
    return "request" if is_request(message) else "notification", message.get(
        "method", message.get("type")
    )


def _commute(one: Json, other: Json) -> bool:
    kinds = {_about(one)[0], _about(other)[0]}
    if len(kinds) == 1 and kinds <= {"request", "response"}:
        return True
    told = [each for each in (one, other) if _about(each)[0] == "notification"]
    return any(each.get("method") not in ORDERED or _is_free(each.get("params")) for each in told)


def _is_free(params: Json) -> bool:
    update = params.get("update") if isinstance(params, Mapping) else None
    return isinstance(update, Mapping) and update.get("sessionUpdate") in FREE


def _name(said: Entry | _Said) -> str:
    """What was said, to whom, in a few words."""
    value = said.value
    to = f"to the {said.party}"
    if said.kind == "closed":
        return f"the end of what is said {to}"
    if said.kind == "raw":
        return f"a line {to} that is no JSON"
    if said.kind == "screen":
        return "what the terminal shows"
    if said.party == PERSON:
        return (
            "the questions API's"
            f" {value.get('type', 'response') if isinstance(value, Mapping) else 'response'}"
        )
    if is_response(value):
        return (
            f"the {'error' if 'error' in value else 'response'} {to}'s request {value.get('id')!r}"
        )
    if is_request(value):
        return f"the request {value['method']} {to}"
    method = value.get("method", value.get("type")) if isinstance(value, Mapping) else None
    return f"the notification {method} {to}" if method else f"something {to}"
