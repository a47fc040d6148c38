"""The state of a fixture being played: which lines can be sent, which are still expected, and which
messages of the bridge do not fit.

Between two of our lines the bridge's messages may come in any order, except where a protocol orders
them: a response comes after the progress of its request, and updates keep their order. Pure:
`runner` does the I/O, `match` compares values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from abp_bridge.conformance.format import (
    AGENT,
    BRIDGE,
    HOST,
    PERSON,
    SERVER,
    TOOLS,
    Entry,
    is_request,
    is_response,
    unreadable,
)
from abp_bridge.conformance.match import (
    MAX_DIFFERENCES,
    MAX_SHOWN,
    Choice,
    Kind,
    Match,
    ReplayMismatchError,
    excerpt,
    kind_of,
    match,
)
from abp_bridge.conformance.placeholders import ANY, ID, UnknownPlaceholderError, fill
from abp_bridge.core.json_value import JsonObject, JsonValue, as_object, as_text
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope

# --- what may be said when the host has left ------------------------------------------------------

Key = tuple[str, str, JsonValue]  # (party, the type of an id, the id)

# What ends a session, a call or a question, and to whom it is said; each may be a request or a
# notification, and an envelope's type.
LAST_METHODS = {
    "shutdown": ("app",),
    "capabilities/cancel": ("app",),
    "notifications/cancelled": ("app", TOOLS, SERVER),
    "session/cancel": (AGENT,),
    "$/cancel_request": ("app", AGENT),
}
ONCE = ("shutdown",)
RESPONSE = "elicitation/response"
PREFERENCE = "elicitation/preference"  # its default is an answer that needs nobody


class OpenQuestions:
    """The unanswered questions of the apps and the agent, tracked by messages alone."""

    def __init__(self) -> None:
        self._methods: dict[Key, JsonValue] = {}

    def note_question(self, party: str, message: JsonValue) -> None:
        """Note a question, if this is a request."""
        said = as_object(message)
        request = from_envelope(said) if is_envelope(said) else said
        if is_request(request):
            self._methods[key(party, request["id"])] = request["method"]

    def forget(self, party: str) -> None:
        self._methods = {each: method for each, method in self._methods.items() if each[0] != party}

    def remove(self, party: str, message: JsonValue) -> JsonValue:
        """Close the question that this answers and return its method, or None."""
        id = as_object(message).get("id")
        return self._methods.pop(key(party, id), None) if is_answer(message) else None


def key(party: str, id: JsonValue) -> Key:
    """Return a key that identifies a request: its party and the type and value of its id."""
    return party, type(id).__name__, id if isinstance(id, (str, int, float)) else None


def is_answer(message: JsonValue) -> bool:
    """Whether it answers a question, as a response or in ABP's envelope."""
    is_reply = is_envelope(message) and as_object(message)["type"] == RESPONSE
    return is_response(message) or is_reply


def goodbye_fault(party: str, kind: str, value: JsonValue, questions: OpenQuestions) -> str:
    """Return why this is not a valid goodbye to `party`; empty if it is."""
    message = as_object(value)
    if kind == "raw":
        return f"a line to the {party} that is no JSON"
    if is_answer(message):
        method = questions.remove(party, message)
        id = repr(message.get("id"))
        if method is None:
            return f"a response to the {party}, to a question that is not open: {id}"
        if _accepts(message) and method != PREFERENCE:
            return f"an answer to the {party}, when there was nobody to answer: {id}"
        return ""
    said = message.get("method", message.get("type"))
    if not isinstance(said, str):
        return f"something to the {party}"
    return "" if party.partition(" ")[0] in LAST_METHODS.get(said, ()) else f"{said} to the {party}"


def goodbye_reply(value: JsonValue) -> JsonObject | None:
    """Return the response to a goodbye, or None."""
    message = as_object(value)
    if "id" not in message or is_answer(message):
        return None
    if is_envelope(message):
        return {"type": f"{message['type']}-result", "id": message["id"], "payload": {}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {}}


def _accepts(message: JsonObject) -> bool:
    result = as_object(message.get("result", message.get("payload")))
    is_selected = as_object(result.get("outcome")).get("outcome") == "selected"
    return result.get("success") is True or result.get("action") == "accept" or is_selected


# --- the conversation -----------------------------------------------------------------------------

# who may have a say in an answer, besides those who use tools
_SAYS = (HOST, PERSON, AGENT, SERVER)
ORDERED = ("notifications/progress", "session/update")
# what takes a request back, and the member of its parameters that says which
CANCELLED = {"notifications/cancelled": "requestId", "$/cancel_request": "requestId"}
MAX_EARLY = 1_000  # messages before their time: more than any fixture has lines in a window
# updates about nothing that goes on
UNORDERED_UPDATES = (
    "available_commands_update",
    "notice",
    "current_mode_update",
    "usage_update",
    "session_info_update",
)


class Expectations:
    """What a fixture's lines still expect.

    The window holds what the bridge may send now: its lines up to the next line of another party.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        known: Mapping[str, JsonValue] = MappingProxyType({}),
        host: str = "",
    ) -> None:
        """Start with `known` names (such as the bridge's folder); `host` is the host's protocol."""
        self.entries = entries
        self._host = host
        self.known = dict(known)
        self.questions = OpenQuestions()
        self.awaited: list[Entry] = []  # of the window, what has not come
        self._start = self._end = 0  # of the window, as places in `entries`
        self._early: list[Entry] = []  # what the bridge said before the fixture came to it
        self._matched_early = (-1, -1)  # the window and the names when `_early` was last matched
        self._answered: dict[Key, int] = {}  # a request of ours -> the line that answered it
        self._answers: set[Key] = set()  # the bridge's requests that our lines answered
        self._chosen: dict[Choice, str] = {}  # the name that stands for it
        self._open_window(0)

    @property
    def is_over(self) -> bool:
        """Whether the last line was sent or received."""
        return self._start >= len(self.entries)

    @property
    def last_line(self) -> int:
        """The number of the fixture's last line, or 0."""
        return self.entries[-1].line if self.entries else 0

    @property
    def line(self) -> int:
        """The number of the current line."""
        at = [*self.awaited, *self.entries[self._start : self._start + 1]]
        return at[0].line if at else self.last_line

    def expects_close(self, party: str) -> bool:
        """Whether the bridge closes its side of `party` in the fixture."""
        return any(e.ours and e.kind == "closed" and e.party == party for e in self.entries)

    def take_next(self) -> list[tuple[Entry, JsonValue]]:
        """Return the lines to send now, with known names filled in. Raises ReplayMismatchError."""
        taken: list[tuple[Entry, JsonValue]] = []
        while not self.is_over:
            entry = self.entries[self._start]
            if entry.ours:
                self._match_early()
                if self.awaited:
                    break
                self._open_window(self._end)
            else:
                taken.append((entry, self._fill(entry)))
                self._open_window(self._start + 1)
        return taken

    def on_message(self, party: str, kind: str, value: JsonValue) -> None:
        """Take a message of the bridge to `party`. Raises ReplayMismatchError if it cannot fit."""
        message = Entry(kind, value, BRIDGE, party)
        if self._fits(message) or self._crosses(message) or self._tells_time(message):
            return
        self._check_early(message)
        if len(self._early) == MAX_EARLY:
            raise ReplayMismatchError(
                f"the bridge said {MAX_EARLY} things and more before the fixture came to them",
                self.line,
                [f"the last was {_summary(message)}"],
            )
        self._early.append(message)

    def overdue(self, reason: str) -> ReplayMismatchError:
        """Return the mismatch of what was expected and what came; `reason` says why nothing more
        comes.
        """
        if not self.awaited:
            return self.left_over() or ReplayMismatchError(reason)
        entry = self.awaited[0]
        for message in self._early:
            if _topic(message) == _topic(entry):
                return self._mismatch(entry, message.value, self._compare(entry, message))
        instead = [
            f"{_summary(message)} came instead: {excerpt(message.value, MAX_SHOWN)}"
            for message in self._early[:MAX_DIFFERENCES]
        ]
        problem = f"{reason}: {_summary(entry)} was expected"
        return ReplayMismatchError(problem, entry.line, instead, expected=entry.value)

    def left_over(self) -> ReplayMismatchError | None:
        """Return the mismatch for extra messages, or None."""
        if not self._early:
            return None
        return _unexpected("that is not in the fixture", self._early[0], 0)

    # --- what is sent ---

    def _open_window(self, start: int) -> None:
        self._start = self._end = start
        while self._end < len(self.entries) and self.entries[self._end].ours:
            self._end += 1
        self.awaited = list(self.entries[start : self._end])

    def _fill(self, entry: Entry) -> JsonValue:
        try:
            value = fill(entry.value, self.known)
        except UnknownPlaceholderError as problem:
            raise ReplayMismatchError(str(problem), entry.line) from None
        if (why := unreadable(entry.kind, value)) is not None:
            raise ReplayMismatchError(
                f"with what the bridge chose in it, its {entry.kind} cannot be read: {why}",
                entry.line,
                got=value,
            )
        if entry.kind == "message":
            self.questions.note_question(entry.party, value)
            if is_response(value):
                self._answers.add(key(entry.party, as_object(value).get("id")))
        elif entry.kind == "closed":
            self._forget(entry.party)
        return value

    # --- what is heard ---

    def _match_early(self) -> None:
        now = (self._start, len(self.known))
        if now == self._matched_early:
            return
        self._matched_early = now
        for message in list(self._early):
            if self._fits(message):
                self._early.remove(message)
            else:
                self._check_early(message)

    def _fits(self, message: Entry) -> bool:
        alike = [e for e in self.awaited if (e.party, e.kind) == (message.party, message.kind)]
        # What says exactly what it is goes before what has words in brackets.
        for entry in sorted(alike, key=_looseness):
            if found := self._compare(entry, message):
                self._check_order(entry, message)
                self.awaited = [each for each in self.awaited if each is not entry]
                self._on_match(message, found, entry.line)
                return True
        return False

    def _crosses(self, message: Entry) -> bool:
        """Whether the bridge cancels a request that our lines answered; MCP and ACP let the two
        cross.
        """
        said = as_object(message.value)
        member = CANCELLED.get(as_text(said.get("method")), "")
        cancelled = as_object(said.get("params")).get(member)
        return bool(member) and key(message.party, cancelled) in self._answers

    def _tells_time(self, message: Entry) -> bool:
        """Whether it is an extra progress report: their number depends on the machine's speed."""
        about = as_object(as_object(message.value).get("params"))
        return (
            _about(message.value) == ("notification", "notifications/progress")
            and about.get("progress") == 0
            and "total" not in about
            and all(_topic(each) != _topic(message) for each in self.entries[self._start :])
        )

    def _compare(self, entry: Entry, message: Entry) -> Match:
        party, kind = message.party, self._kind(message)
        return match(entry.value, message.value, self.known, self._chosen, party=party, kind=kind)

    def _kind(self, message: Entry) -> Kind:
        return kind_of(message.party, self._host)

    def _on_match(self, message: Entry, found: Match, line: int) -> None:
        self.known.update(found.learned)
        self._chosen.update(found.chosen)
        if message.kind == "closed":
            self._forget(message.party)
        self.questions.remove(message.party, message.value)
        if is_response(message.value):
            self._answered[key(message.party, message.value.get("id"))] = line

    def _forget(self, party: str) -> None:
        """Forget an ended party: the next one of that name may reuse its ids."""
        self._chosen = {
            choice: name for choice, name in self._chosen.items() if choice[:2] != (ID, party)
        }
        self._answered = {
            request: line for request, line in self._answered.items() if request[0] != party
        }
        self._answers = {request for request in self._answers if request[0] != party}
        self.questions.forget(party)

    # --- what does not fit ---

    def _check_order(self, entry: Entry, message: Entry) -> None:
        for before in self.awaited:
            if before is entry:
                return
            if before.party == message.party and not _commute(before.value, message.value):
                raise ReplayMismatchError(
                    f"{_summary(message)} came before {_summary(before)}",
                    before.line,
                    expected=before.value,
                    got=message.value,
                )

    def _check_early(self, message: Entry) -> None:
        """Raise ReplayMismatchError if `message` fits no later line."""
        self._check_answered_once(message)
        later = self._later(message)
        if later is not None:
            if not self._is_made_up(message, later):
                return
            problem = (
                f"{_summary(message)} came too early: it is line {later.line}, and before that"
                " somebody else has to speak"
            )
            raise ReplayMismatchError(problem, self.line, expected=later.value, got=message.value)
        alike = [
            (self._compare(entry, message), entry)
            for entry in self.awaited
            if _topic(entry) == _topic(message)
        ]
        if alike:
            nearest, entry = min(alike, key=lambda pair: len(pair[0].differences))
            raise self._mismatch(entry, message.value, nearest)
        expected = [f"expected was {_summary(entry)}" for entry in self.awaited[:1]]
        raise _unexpected("that the fixture does not show", message, self.line, expected)

    def _check_answered_once(self, message: Entry) -> None:
        id = as_object(message.value).get("id")
        answered = self._answered.get(key(message.party, id))
        if is_response(message.value) and answered is not None:
            raise ReplayMismatchError(
                f"the bridge answered twice: a second response to the {message.party}'s request"
                f" {id!r}, which line {answered} answers",
                answered,
                got=message.value,
            )

    def _later(self, message: Entry) -> Entry | None:
        """Return the first line after the window that fits, apart from unknown names."""
        for entry in self.entries[self._end :]:
            same = entry.ours and _topic(entry) == _topic(message)
            if same and match(entry.value, message.value, {}, kind=self._kind(message)):
                return entry
        return None

    def _is_made_up(self, message: Entry, later: Entry) -> bool:
        """Whether it answers a request, or depends on a party, that has not been heard yet."""
        if not is_answer(message.value):
            return False
        asked = key(message.party, message.value.get("id"))
        for entry in self.entries[self._start :]:
            if entry is later:
                break
            if entry.ours:
                continue
            asks = is_request(entry.value) and key(entry.party, entry.value.get("id")) == asked
            if asks or entry.party in _SAYS or entry.party.startswith(TOOLS):
                return True
        return False

    def _mismatch(self, entry: Entry, got: JsonValue, found: Match) -> ReplayMismatchError:
        details = [str(each) for each in found.differences[:MAX_DIFFERENCES]]
        if (more := len(found.differences) - MAX_DIFFERENCES) > 0:
            details.append(f"and {more} differences more")
        problem = f"{_summary(entry)} is not as it should be"
        return ReplayMismatchError(problem, entry.line, details, entry.value, got)


def _unexpected(
    what: str, message: Entry, line: int, more: Sequence[str] = ()
) -> ReplayMismatchError:
    problem = f"the bridge said something {what}: {_summary(message)}"
    details = [excerpt(message.value, MAX_SHOWN), *more]
    return ReplayMismatchError(problem, line, details, got=message.value)


def _looseness(entry: Entry) -> int:
    return json.dumps(entry.value, default=str).count(ANY)


def _topic(entry: Entry) -> tuple[object, ...]:
    """Return what two messages must share to be shown as a difference: party, kind and subject."""
    return entry.party, entry.kind, _about(entry.value)


def _about(value: JsonValue) -> tuple[str, object]:
    """Return whether a message is a request, response or notification, and its subject."""
    if not isinstance(value, Mapping):
        return "", None
    message = as_object(value)
    if is_response(message):
        return "response", key("", message.get("id"))
    method = message.get("method", message.get("type"))
    return "request" if is_request(message) else "notification", method


def _commute(one: JsonValue, other: JsonValue) -> bool:
    """Whether two messages to one party may come in either order."""
    kinds = {_about(one)[0], _about(other)[0]}
    if len(kinds) == 1 and kinds <= {"request", "response"}:
        return True
    notifications = [as_object(each) for each in (one, other) if _about(each)[0] == "notification"]
    return any(
        each.get("method") not in ORDERED or _is_unordered(each.get("params"))
        for each in notifications
    )


def _is_unordered(params: JsonValue) -> bool:
    update = as_object(as_object(params).get("update"))
    return update.get("sessionUpdate") in UNORDERED_UPDATES


_NAMES = {
    "closed": "the end of what is said to the {party}",
    "raw": "a line to the {party} that is no JSON",
    "screen": "what the terminal shows",
}


def _summary(message: Entry) -> str:
    value, to = as_object(message.value), f"to the {message.party}"
    if message.kind in _NAMES:
        return _NAMES[message.kind].format(party=message.party)
    if "opened" in value:
        return "the page in the person's browser"
    if message.party == PERSON:
        return f"the questions API's {value.get('type', 'response')}"
    if is_response(value):
        what = "error" if "error" in value else "response"
        return f"the {what} {to}'s request {value.get('id')!r}"
    method = value.get("method", value.get("type"))
    if is_request(value):
        return f"the request {method} {to}"
    return f"the notification {method} {to}" if method else f"something {to}"
