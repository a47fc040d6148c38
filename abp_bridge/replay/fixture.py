"""A trace made into a fixture: without what says nothing of the conversation, and with names for
what a bridge chooses. Pure.

A trace is literal, but for the words that the recording put there itself. Everything else in it
that looks like a word in brackets is escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from abp_bridge.core.matrix import MATRIX, Surface
from abp_bridge.replay.noise import started_as_it_likes, without_noise
from abp_bridge.replay.placeholders import ANY, NUMBER, reworded
from abp_bridge.replay.shutdown import Key, key
from abp_bridge.replay.stand_in import program_name
from abp_bridge.trace.format import HOST, Entry, Head, Recording, is_request

Json = Any

# Where in a message a bridge says what it is called and how long it took: there, and nowhere else,
# a fixture leaves it free.
_TIMES = {("timestamp",), ("result", "metadata", "latencyMs"), ("payload", "metadata", "latencyMs")}
_OWN_WORDS = {
    *(("result", name) for name in ("serverInfo", "agentInfo", "instructions")),
    ("result", "_meta", "io.modelcontextprotocol/serverInfo"),
    *(("params", name) for name in ("agent", "clientInfo")),
    ("payload", "agent"),
}
_TIME_IN_TEXT = re.compile(r'(\\*"latencyMs\\*": ?)-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
_ONE_WORD = re.compile(r"[\w-]+")
_POLICY = re.compile(r"(by itself in )[\d.]+ ms")
_LINK = re.compile(r"https?://[^\s\"'\\]+/open/(\[link \d+\])")
_NAMED_IN_TEXT = re.compile(
    r'\\*"(question)\\*": ?\\*"([^"\\]+)\\*"'
)  # what a model is to bring back
_TEMPORARY = re.compile(r"\[tmp\]/[^\s\"'\\/,;)]+")

# Words of the recording's own: it does not say whether they stood there already.
_RECORDED = re.compile(
    r"\[(?:cut [0-9]+ characters|(?:link|state) [0-9]+|tmp|cwd|folder|output|python)\]"
)

# What a replay brings along: a terminal, and a free port.
_HERE = {"ABP_TTY": "{tty}", "ABP_QUESTIONS_API": "{port}"}

# Members in which a bridge puts names of its own, and what they are called here.
_CHOSEN = {
    "callId": "call",
    "elicitationId": "elicitation",
    "toolCallId": "tool",
    "optionId": "option",
    "sessionId": "session",
}
_ANYWHERE = {"call", "session", "elicitation", "question"}  # names that also stand in text


def reduce(recording: Recording, shows: str = "", *, looking: bool = False) -> Recording:
    """The fixture of a recording; one that is a fixture already stays what it is.

    With `looking` it has what the host only lists, too.
    """
    if recording.head.fixture:
        return recording
    named = _Named(recording.head.apps)
    kept = tuple(
        started_as_it_likes(named.entry(entry))
        for entry in without_noise(recording.entries, looking=looking)
    )
    return Recording(_head(recording, shows), kept)


def _head(recording: Recording, shows: str) -> Head:
    head, events = (
        recording.head,
        [each.value for each in recording.entries if each.kind == "event" and _is_told(each.value)],
    )
    floor = "60000" if _answerers(events) == {"host-policy"} else "0"
    asked = [
        str(each.get("message", "")) for each in events if each["event"] == "InputRequestEvent"
    ]
    return replace(
        head,
        fixture=True,
        shows=shows or head.shows or _listed(asked) or "a conversation",
        proves=_proven(recording, events),
        env={
            **{
                name: _HERE.get(name, value.replace("[cwd]", "{folder}"))
                for name, value in head.env.items()
            },
            "ABP_PERSON_FLOOR": floor,
        },
        apps={},
        bridge="",
        when="",
    )


def _listed(asked: Sequence[str]) -> str:
    """What was asked, as far as it makes a heading, and how much more there was."""
    kept: list[str] = []
    while len(kept) < len(asked) and sum(map(len, kept)) + len(asked[len(kept)]) <= HEADING:
        kept.append(asked[len(kept)])
    more = len(asked) - len(kept)
    return "; ".join(kept) + (
        f" and {more} more" if more and kept else f"{more} questions" if more else ""
    )


HEADING = 200  # characters


# Whatever is answered there, a person answered it, however fast.
_NO_HOSTS = ("mcp-url", "acp-url", "page", "terminal")


def _answerers(events: Sequence[Mapping[str, Json]]) -> set[str]:
    """Who answered on the host's surfaces: a person, or a policy of the host's.

    A replay answers faster than any person.
    """
    resolved = [
        each
        for each in events
        if each["event"] == "InputResolvedEvent"
        and str(each.get("route")).partition(" ")[0] not in _NO_HOSTS
    ]
    return {str(each.get("answeredBy")) for each in resolved} & {"person", "host-policy"}


def doubtful(recording: Recording) -> str:
    """Why the fixture of a recording will not pass as it is; empty where nothing is known
    of that.
    """
    events = [
        each.value for each in recording.entries if each.kind == "event" and _is_told(each.value)
    ]
    if len(_answerers(events)) < 2:
        return ""
    return (
        "some answers there were a person's and some a policy's, told apart by how fast they came:"
        " a replay cannot do both. Keep either in it"
    )


def _is_told(event: Mapping[str, Json]) -> bool:
    """Whether an event is as a bridge writes it: any text may stand in a file."""
    return all(
        isinstance(event.get(name, ""), str) for name in ("question", "answeredBy", "shape")
    ) and ("question" in event or not event["event"].startswith("Input"))


def _proven(
    recording: Recording, events: Sequence[Mapping[str, Json]]
) -> tuple[Mapping[str, str], ...]:
    """The cells that the questions went through, by the events."""
    shapes = {
        each["question"]: each.get("shape", "")
        for each in events
        if each["event"] == "InputRequestEvent"
    }
    version = recording.head.host.partition(" ")[2]
    for entry in recording.entries:
        result = (
            entry.value.get("result")
            if entry.kind == "message" and entry.ours and isinstance(entry.value, Mapping)
            else None
        )
        if (
            isinstance(result, Mapping)
            and isinstance(result.get("protocolVersion"), str)
            and entry.party == HOST
        ):
            version = result["protocolVersion"]
    found: dict[tuple[str, str, str], None] = {}
    for each in events:
        if (
            each["event"] == "InputResolvedEvent"
            and each.get("outcome") != "unsupported"
            and each.get("route")
        ):
            surface = str(each["route"]).partition(" ")[0]
            known = (
                surface in [one.value for one in Surface] and (Surface(surface), version) in MATRIX
            )
            found[(surface, version if known else "", str(shapes.get(each["question"], "")))] = None
    return tuple(
        {"surface": surface, "version": version, "shape": shape}
        for surface, version, shape in found
    )


class _Named:
    """Gives names to what a bridge chose, as it says it, and writes them wherever it stands
    afterwards.
    """

    def __init__(self, apps: Mapping[str, str]) -> None:
        self._counts: Counter[str] = Counter()
        self._ids: dict[Key, str] = {}  # of a request of the bridge's
        self._values: dict[tuple[str, Json], str] = {}
        self._words: dict[str, str] = {}  # names that also stand in text
        self._phrases: list[tuple[re.Pattern[str], str]] = []  # those that are no single word
        self._heard: set[tuple[str, Json]] = (
            set()
        )  # what somebody else chose, and a proxy only passes on
        self._origins = [_origin(party, target) for party, target in apps.items() if target]

    def entry(self, entry: Entry) -> Entry:
        value = entry.value
        if entry.kind == "message" and isinstance(value, Mapping):
            value = self._message(value, entry)
        elif entry.kind == "screen":
            value = self._value(value, (), entry)
        elif entry.kind in ("fill", "keys", "http", "raw"):
            value = self._plain(value)
        return replace(entry, value=value, ms=None, line=0)

    def _message(self, message: Mapping[str, Json], entry: Entry) -> Json:
        if entry.ours:
            if is_request(message) and isinstance(message["id"], (str, int)):
                self._ids[key(entry.party, message["id"])] = self._new("id")
            self._choose(message, fresh=message.get("method") == "session/request_permission")
        else:
            self._heard |= {
                (member, each)
                for member, each, _ in _chosen(message)
                if (member, each) not in self._values
            }
        made = self._value(message, (), entry)
        given = self._ids.get(key(entry.party, message.get("id")))
        if given is not None and (entry.ours == is_request(message)):
            made["id"] = given
        asked = message.get("params")
        taken_back = asked.get("requestId") if isinstance(asked, Mapping) else None
        if (
            entry.ours
            and "id" not in message
            and (name := self._ids.get(key(entry.party, taken_back))) is not None
        ):
            made["params"]["requestId"] = name
        return made

    def _new(self, word: str) -> str:
        self._counts[word] += 1
        return f"[{word} {self._counts[word]}]"

    def _choose(self, message: Json, *, fresh: bool) -> None:
        for member, each, word in _chosen(message):
            if (member, each) not in self._heard:
                self._name(member, each, word, fresh=fresh and word == "option")

    def _name(self, member: str, value: str, word: str, *, fresh: bool) -> None:
        if (member, value) in self._values and not fresh:
            return
        name = self._values[(member, value)] = self._new(word)
        if word in _ANYWHERE and len(value) > 3:
            if _ONE_WORD.fullmatch(value):
                self._words[value] = name
            else:
                self._phrases.append((re.compile(rf"(?<![\w-]){re.escape(value)}(?![\w-])"), name))

    def _value(self, value: Json, path: tuple[str, ...], entry: Entry) -> Json:
        if (
            entry.ours
            and path in _TIMES
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
        ):
            return NUMBER
        if entry.ours and path in _OWN_WORDS and isinstance(value, (str, Mapping)):
            return ANY
        if isinstance(value, Mapping):
            return {
                self._text(name, entry): self._value(each, (*path, name), entry)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, (*path, ""), entry) for each in value]
        if isinstance(value, str):
            return self._values.get((path[-1] if path else "", value)) or self._text(value, entry)
        return value

    def _text(self, words: str, entry: Entry) -> str:
        return self._reworded(words, self._chosen_by_the_bridge if entry.ours else self._named)

    def _plain(self, value: Json) -> Json:
        """Text with names for links and calls in it."""
        if isinstance(value, Mapping):
            return {name: self._plain(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        return self._reworded(value, self._named) if isinstance(value, str) else value

    def _reworded(self, words: str, change: Callable[[str], str]) -> str:
        return reworded(words, lambda word: _RECORDED.fullmatch(word) is not None, change)

    def _named(self, words: str) -> str:
        words = _LINK.sub(r"\1", words).replace("[cwd]", "[folder]")
        words = (
            _ONE_WORD.sub(lambda found: self._words.get(found[0], found[0]), words)
            if self._words
            else words
        )
        for pattern, name in self._phrases:
            words = pattern.sub(name, words)
        return words

    def _chosen_by_the_bridge(self, words: str) -> str:
        words = self._named(words)
        words = _POLICY.sub(rf"\1{NUMBER} ms", _TIME_IN_TEXT.sub(rf"\1{NUMBER}", words))
        words = _TEMPORARY.sub(ANY, words)
        for origin, instead in self._origins:
            words = origin.sub(instead.replace("\\", r"\\"), words)
        return words


def _chosen(value: Json) -> Iterator[tuple[str, str, str]]:
    """Each name that somebody gave: the member that it stands under, the name, and what such names
    are called here.
    """
    if isinstance(value, Mapping):
        for name, each in value.items():
            if (
                (word := _CHOSEN.get(name)) is not None
                and isinstance(each, str)
                and not each.startswith("[")
            ):
                yield name, each, word
            else:
                yield from _chosen(each)
    elif isinstance(value, list):
        for each in value:
            yield from _chosen(each)
    elif isinstance(value, str):
        for found in _NAMED_IN_TEXT.finditer(value):
            yield found[1], found[2], found[1]


def _origin(party: str, target: str) -> tuple[re.Pattern[str], str]:
    """How the bridge calls an app, and how it will call the app's stand-in.

    A short name may mean the app's id too, which stays what it is.
    """
    called = re.sub(r"^(https?://[^/]*).*", r"\1", target).replace("demo:page", "demo page")
    instead = stand_in(party)
    return re.compile(rf"(?<![\w./:-]){re.escape(called)}(?![\w/-]|\.\w)"), (
        instead if ":" in called else f"[either {called}|{instead}]"
    )


def stand_in(party: str) -> str:
    """What a bridge calls the stand-in of a party."""
    return f"stdio:{program_name(party)}"
