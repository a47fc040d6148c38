"""One open question as a bridge tells the inbox of it: who asks what, nothing that answers it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from abp_bridge.core.json_value import JsonObject, JsonValue, as_number, as_object, as_text
from abp_bridge.core.sanitize import label
from abp_bridge.errors import RemoteProtocolError

PLACES = ("host", "page", "terminal", "program")
MAX_LINE = 400  # characters of a question's first line, and of any other word in the list
MAX_LISTED = 200  # questions that the inbox is told of; how many more there are, too
MAX_ANSWER = 1024 * 1024  # bytes of an answer of a bridge's
_AROUND = 64  # bytes of such an answer around its questions


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for its person.

    Attributes:
        id: Its name at its bridge.
        asker: Who asks, as the bridge knows it.
        name: What that calls itself; empty where it is the same, or the bridge itself.
        capability: What runs meanwhile; empty where nothing does, or nobody can say.
        host: The program that launched the bridge, as it calls itself.
        kind: The method by which it was asked.
        message: The first line of what it says.
        undone: Whether a yes cannot be undone: `said` by who asks, or `presumed` where nobody says
            so; empty where it can.
        since: When it was asked, in seconds since 1970.
        until: When it closes, in the same; None where nothing bounds it.
        place: Where it is answered, one of `PLACES`: there is a link to a `page` alone.
    """

    id: str
    asker: str
    name: str
    capability: str
    host: str
    kind: str
    message: str
    undone: str
    since: float
    until: float | None
    place: str


_TEXTS = ("asker", "name", "capability", "host", "kind", "message", "undone", "place")
_ID = re.compile(r"[\w-]{1,64}", re.ASCII)  # stands in an address
_UNDONE = ("said", "presumed")


def encode(question: OpenQuestion) -> JsonObject:
    """As it stands on the wire between a bridge and the inbox."""
    texts = {name: getattr(question, name) for name in _TEXTS}
    times = {"since": question.since, "until": question.until}
    return {"id": question.id, **texts, **times}


def encode_all(questions: Iterable[OpenQuestion], count: int) -> JsonObject:
    """As many of these `count` questions as an answer holds, and how many more there are."""
    listed, room = [], MAX_ANSWER - _AROUND
    for encoded in map(encode, islice(questions, MAX_LISTED)):
        room -= len(dump(encoded)) + len(", ")
        if room < 0:
            break
        listed.append(encoded)
    return {"questions": listed, "more": count - len(listed)}


def dump(answer: JsonObject) -> bytes:
    """What stands on the wire: an escape has three times the bytes of a letter."""
    return json.dumps(answer, ensure_ascii=False).encode()


def describe(question: OpenQuestion) -> JsonObject:
    """As scripts get it: its times by the clock."""
    until = None if question.until is None else _clock(question.until)
    return {**encode(question), "since": _clock(question.since), "until": until}


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def decode(value: JsonValue) -> OpenQuestion:
    """What a bridge told: every text in one line, and bounded.

    Raises:
        RemoteProtocolError: It has no id, or no time.
    """
    members = as_object(value)
    id, since = as_text(members.get("id")), _time(members.get("since"))
    if not _ID.fullmatch(id) or since is None:
        raise RemoteProtocolError("a bridge told of a question without an id or a time")
    texts = {name: label(as_text(members.get(name)), MAX_LINE) for name in _TEXTS}
    texts["place"] = texts["place"] if texts["place"] in PLACES else PLACES[0]
    texts["undone"] = texts["undone"] if texts["undone"] in _UNDONE else ""
    return OpenQuestion(id, since=since, until=_time(members.get("until")), **texts)


def decode_all(value: JsonValue) -> Sequence[OpenQuestion]:
    """A list of them. Raises RemoteProtocolError, as `decode` does."""
    if not isinstance(value, list):
        raise RemoteProtocolError("a bridge answered without a list of its questions")
    return [decode(each) for each in value]


def _time(value: JsonValue) -> float | None:
    """Of this century, as clocks and calendars can show it."""
    seconds = as_number(value)
    return seconds if seconds is not None and 0 < seconds < 4e9 else None
