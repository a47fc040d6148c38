"""Turn a trace into a fixture: drop what is not part of the conversation, and name what the bridge
chooses.

A trace is literal except for the recorder's own placeholders; other text that looks like a
placeholder is escaped. What remains can be played: where the bridge forwards a message, both copies
are dropped or neither. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from abp_bridge.conformance.expectations import Key, key
from abp_bridge.conformance.format import (
    AGENT,
    BEHIND,
    BRIDGE,
    HOST,
    MODEL,
    PERSON,
    SERVER,
    TOOLS,
    Entry,
    Head,
    Recording,
    dump_entry,
    is_request,
    is_response,
    stand_in_scheme,
)
from abp_bridge.conformance.placeholders import ANY, NUMBER, reword
from abp_bridge.conformance.stand_in import program_name
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text, walk
from abp_bridge.core.matrix import MATRIX
from abp_bridge.core.surface import TRAITS, Surface
from abp_bridge.core.words import count_of
from abp_bridge.settings import usual_settings

# Where in a message a bridge says what it is called and how long it took: there, and nowhere else,
# a fixture leaves it free.
_TIMES = {("timestamp",), ("result", "metadata", "latencyMs"), ("payload", "metadata", "latencyMs")}
_OWN_WORDS = {
    *(("result", name) for name in ("serverInfo", "agentInfo", "instructions")),
    ("result", "_meta", "io.modelcontextprotocol/serverInfo"),
    *(("params", name) for name in ("agent", "clientInfo")),
    ("params", "_meta", "io.modelcontextprotocol/clientInfo"),
    ("payload", "agent"),
}
_TIME_IN_TEXT = re.compile(r'(\\*"latencyMs\\*": ?)-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
_POLICY = re.compile(r"(by itself in )[\d.]+ m?s")
_LINK = re.compile(r"https?://[^\s\"'\\]+/(?:open|code)/(\[link \d+\])")
# what a model is to bring back
_NAMED_IN_TEXT = re.compile(r'\\*"(question)\\*": ?\\*"([^"\\]+)\\*"')
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
# what a redactor counts, whoever chose it
_COUNTED = re.compile(r"\[(?:link|state) [0-9]+\]")
_TEMPORARY = re.compile(r"\[tmp\]/[^\s\"'\\/,;)]+")

# Words of the recording's own: it does not say whether they stood there already.
_RECORDED = re.compile(
    r"\[(?:cut [0-9]+ characters|(?:link|state) [0-9]+|tmp|cwd|folder|output|python)\]"
)

# What the bridge says of a page's form that waits: an app on a pipe, which plays it, has none.
_ABOUT_FORM = re.compile(r"\n\nIf you accept, the form is sent.*", re.DOTALL)

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
_PROGRESS = "progressToken"  # in `_meta`: a call to an MCP server has no other name
_INPUT = "inputRequests"  # whose members the bridge names
_ANYWHERE = {"call", "session", "elicitation", "question"}  # names that also stand in text


# What a host only looks at: it can be left out of a conversation without changing it.
_LOOKING = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping")

# What MCP itself puts into `_meta`. The rest of it are a host's own notes: its sessions, its turns,
# its folders.
_META = ("progressToken", "traceparent", "tracestate", "baggage")
_META_PREFIX = "io.modelcontextprotocol/"

# What an agent tells of itself: as updates, and as members of its results.
_ASIDES = {
    "available_commands_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}
_OF_ITSELF = {"configOptions", "models", "usage", "quota"}


HEADING = 200  # characters of what was asked, as far as it makes a heading

# Whatever is answered there, a person answered it, however fast.
_PERSONS_OWN = [each.value for each, its in TRAITS.items() if its.is_link or its.is_by_hand]


def reduce(recording: Recording, shows: str = "", *, looking: bool = False) -> Recording:
    """Return the fixture of a recording; a fixture stays unchanged.

    Args:
        recording: A trace or a fixture.
        shows: What it demonstrates; its questions if empty.
        looking: Whether to keep list requests of the host.
    """
    if recording.head.fixture:
        return recording
    names = _Names(recording.head.apps, _server_names(recording))
    kept = _without_noise(_with_browser(recording), looking=looking)
    entries = tuple(_with_any_server(names.entry(entry)) for entry in kept)
    return Recording(_head(recording, shows), entries)


def doubtful(recording: Recording) -> str:
    """Return why this recording's fixture will not pass unchanged; empty if no reason is known."""
    if len(_answerers(_events(recording))) < 2:
        return ""
    return (
        "some answers there were a person's, some a policy's, or nobody knows whose, told apart by"
        " how fast they came: a replay cannot do both. Keep one kind in it"
    )


# --- the head ---


def _head(recording: Recording, shows: str) -> Head:
    head, events = recording.head, _events(recording)
    answerers = _answerers(events)
    requests = [each for each in events if each["event"] == "InputRequestEvent"]
    asked = [as_text(each.get("message")) for each in requests]
    env = {
        name: _HERE.get(name, value.replace("[cwd]", "{folder}"))
        for name, value in head.env.items()
    }
    return replace(
        head,
        fixture=True,
        shows=shows or head.shows or _heading(asked) or "a conversation",
        proves=_cells(recording, events),
        env={**env, "ABP_PERSON_FLOOR": _FLOORS[answerers.pop()] if len(answerers) == 1 else "0"},
        apps={},
        bridge="",
        when="",
    )


def _heading(asked: Sequence[str]) -> str:
    """Return the questions as a heading, cut to its length."""
    sizes = accumulate(map(len, asked))
    kept = [words for words, size in zip(asked, sizes, strict=True) if size <= HEADING]
    if more := len(asked) - len(kept):
        return f"{'; '.join(kept)} and {more} more" if kept else count_of(more, "question")
    return "; ".join(kept)


def _events(recording: Recording) -> list[JsonObject]:
    return [each.value for each in recording.entries if each.kind == "event"]


def _surface(event: JsonObject) -> str:
    return str(event.get("route")).partition(" ")[0]


def _answerers(events: Sequence[JsonObject]) -> set[str]:
    """Return who answered on the host's surfaces: the user, a policy of the host, or unknown."""
    return {
        str(each.get("answeredBy"))
        for each in events
        if each["event"] == "InputResolvedEvent" and _surface(each) not in _PERSONS_OWN
    } & {*_FLOORS}


# Milliseconds that tell who answers in a replay, which answers faster than any person.
_FLOORS = {"host-policy": "60000", "person": "0", "unknown": "0.001"}


def _cells(recording: Recording, events: Sequence[JsonObject]) -> tuple[dict[str, str], ...]:
    """Return the cells of the matrix that the questions used."""
    shapes = {
        as_text(each.get("question")): as_text(each.get("shape"))
        for each in events
        if each["event"] == "InputRequestEvent"
    }
    version = recording.head.host.partition(" ")[2]
    for entry in recording.entries:
        if entry.kind == "message" and entry.to == HOST:
            result = as_object(as_object(entry.value).get("result"))
            version = as_text(result.get("protocolVersion"), version)
    found: dict[tuple[str, str, str], None] = {}
    for each in events:
        is_answered = each["event"] == "InputResolvedEvent" and each.get("route")
        if is_answered and each.get("outcome") != "unsupported":
            known = _surface(each) in _SURFACES and (Surface(_surface(each)), version) in MATRIX
            shape = shapes.get(as_text(each.get("question")), "")
            found[(_surface(each), version if known else "", shape)] = None
    return tuple(dict(zip(("surface", "version", "shape"), each, strict=True)) for each in found)


_SURFACES = [each.value for each in Surface]


def _server_names(recording: Recording) -> set[str]:
    """Return the bridge's names for the server behind it, if any."""
    behind = BEHIND.get(recording.head.run[0]) == SERVER
    return {as_text(each.get("app")) for each in _events(recording) if behind} - {""}


def _with_browser(recording: Recording) -> list[Entry]:
    """Add the opening of the user's browser where nothing else leads the user to the page."""
    usual = usual_settings(recording.head.run[0]).page
    opens = recording.head.env.get("ABP_PAGE", usual) == "open"
    kept: list[Entry] = []
    led: set[str] = set()  # to these pages
    for each in recording.entries:
        words = {*_COUNTED.findall(dump_entry(each))}
        if opens and each.kind == "fill" and not words & led:
            kept.append(Entry("message", {"opened": each.value["open"]}, BRIDGE, PERSON))
        if each.ours or each.kind == "fill":
            led |= words
        kept.append(each)
    return kept


# --- what a bridge chose ---


class _Names:
    """Name what the bridge chose, and use the name wherever the value appears later."""

    def __init__(self, apps: Mapping[str, str], servers: Collection[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._ids: dict[Key, str] = {}  # of a request of the bridge's
        self._values: dict[tuple[str, JsonValue], str] = {}
        self._in_text: list[tuple[re.Pattern[str], str]] = []  # names that also stand in text
        # what somebody else chose, and a proxy only passes on
        self._foreign: set[tuple[str, JsonValue]] = set()
        self._said: dict[str, bool] = {}  # a link or a state -> whether the bridge said it first
        self._origins = [
            *(_origin(party, target) for party, target in apps.items() if target),
            *((_alone(server), program_name(SERVER)) for server in servers),
        ]

    def entry(self, entry: Entry) -> Entry:
        """Return the fixture's line for an entry."""
        for word in _COUNTED.findall(dump_entry(entry)):
            self._said.setdefault(word, entry.ours or entry.party == PERSON)
        is_message = entry.kind == "message" and isinstance(entry.value, Mapping)
        value = self._message(entry) if is_message else self._value(entry.value, (), entry)
        return replace(entry, value=value, ms=None, line=0)

    def _message(self, entry: Entry) -> JsonObject:
        message: JsonObject = entry.value
        if entry.ours:
            self._choose(message, entry.party)
        else:
            self._foreign |= {
                (member, each)
                for member, each, _ in _chosen_names(message)
                if (member, each) not in self._values
            }
        made = as_object(self._value(message, (), entry))
        if "id" in message and entry.ours == is_request(message):
            return {**made, "id": self._id(entry.party, message["id"], made["id"])}
        params = as_object(message.get("params"))
        if "id" not in message and entry.ours and "requestId" in params:
            otherwise = as_object(made["params"])["requestId"]
            return _with(made, requestId=self._id(entry.party, params["requestId"], otherwise))
        return made

    def _id(self, party: str, id: JsonValue, otherwise: JsonValue) -> JsonValue:
        """Return the name of a request id of the bridge; `otherwise` for another party's."""
        return self._ids.get(key(party, id), otherwise)

    def _choose(self, message: JsonObject, party: str) -> None:
        if is_request(message) and isinstance(message["id"], (str, int)):
            self._ids[key(party, message["id"])] = self._new("id")
        is_permission = message.get("method") == "session/request_permission"
        for member, each, word in _chosen_names(message):
            is_new = word == "input" or (is_permission and word == "option")
            is_known = (member, each) in self._values and not is_new
            if (member, each) not in self._foreign and not is_known:
                self._name_value(member, each, word)

    def _new(self, word: str) -> str:
        self._counts[word] += 1
        return f"[{word} {self._counts[word]}]"

    def _name_value(self, member: str, value: str, word: str) -> None:
        name = self._values[(member, value)] = self._new(word)
        if word in _ANYWHERE and len(value) > 3:
            pattern = re.compile(rf"(?<![\w-]){re.escape(value)}(?![\w-])")
            self._in_text.append((pattern, name))

    def _value(self, value: JsonValue, path: tuple[str, ...], entry: Entry) -> JsonValue:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if entry.ours and path in _TIMES and is_number:
            return NUMBER
        if entry.ours and path in _OWN_WORDS and isinstance(value, (str, Mapping)):
            return ANY
        if isinstance(value, Mapping):
            return {
                self._member(name, path, entry): self._value(each, (*path, name), entry)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, (*path, ""), entry) for each in value]
        if isinstance(value, str) and path[-1:] == (_SUBSCRIPTION,):
            return self._ids.get(key(entry.party, value), value)
        if isinstance(value, str):
            return self._values.get((path[-1] if path else "", value)) or self._text(value, entry)
        return value

    def _member(self, name: str, path: tuple[str, ...], entry: Entry) -> str:
        """Return a member's name; a host answers under the names that it was given."""
        is_input = path[-1:] in ((_INPUT,), ("inputResponses",))
        return self._values.get((_INPUT if is_input else "", name)) or self._text(name, entry)

    def _text(self, words: str, entry: Entry) -> str:
        change = self._with_any if entry.ours else self._with_names
        if entry.sender == AGENT:
            change = self._with_repeated
        return reword(words, self._is_recorded, change)

    def _is_recorded(self, word: str) -> bool:
        """Whether the recorder put this placeholder there."""
        return _RECORDED.fullmatch(word) is not None and self._said.get(word, True)

    def _with_names(self, words: str) -> str:
        words = _LINK.sub(r"\1", words).replace("[cwd]", "[folder]")
        for pattern, name in self._in_text:
            words = pattern.sub(name, words)
        return words

    def _with_any(self, words: str) -> str:
        """Replace what the bridge chose, times and paths by placeholders."""
        words = _TIME_IN_TEXT.sub(rf"\1{NUMBER}", self._with_names(words))
        words = _TEMPORARY.sub(ANY, _POLICY.sub(rf"\1{NUMBER} ms", words))
        return self._with_origins(_ABOUT_FORM.sub(ANY, words), self._origins)

    def _with_repeated(self, words: str) -> str:
        """Replace app names in an agent's text, unless the bridge's words are ambiguous."""
        known = [each for each in self._origins if not each[1].startswith("[")]
        return self._with_origins(self._with_names(words), known)

    @staticmethod
    def _with_origins(words: str, origins: Iterable[tuple[re.Pattern[str], str]]) -> str:
        for origin, instead in origins:
            words = origin.sub(instead.replace("\\", r"\\"), words)
        return words


def _chosen_names(value: JsonValue) -> Iterator[tuple[str, str, str]]:
    """Yield each chosen name as (member, value, kind of placeholder)."""
    for each in walk(value):
        for name in _CHOSEN.keys() & as_object(each).keys():
            chosen = as_text(as_object(each)[name])
            if chosen and not chosen.startswith("["):
                yield name, chosen, _CHOSEN[name]
        if token := as_text(as_object(as_object(each).get("_meta")).get(_PROGRESS)):
            yield _PROGRESS, token, "call"
        for asked in as_object(as_object(each).get(_INPUT)):
            yield _INPUT, asked, "input"
        for found in _NAMED_IN_TEXT.finditer(as_text(each)):
            yield found[1], found[2], found[1]


def _origin(party: str, target: str) -> tuple[re.Pattern[str], str]:
    """Return a pattern of the app's name in the bridge's words, and the stand-in's name.

    A short name may also be the app's id, which stays unchanged.
    """
    if party == MODEL and target.startswith("http"):
        return _alone(target), ANY
    called = re.sub(r"^(https?://[^/]*).*", r"\1", target).replace("demo:page", "demo page")
    instead = f"{stand_in_scheme(target)}:{program_name(party)}"
    return _alone(called), instead if ":" in called else f"[either {called}|{instead}]"


def _alone(words: str) -> re.Pattern[str]:
    """Return a pattern for these words as whole words."""
    return re.compile(rf"(?<![\w./:-]){re.escape(words)}(?![\w/-]|\.\w)")


# --- what says nothing of the conversation ---


def _without_noise(entries: Sequence[Entry], *, looking: bool) -> list[Entry]:
    """Drop what does not matter; with `looking`, keep what a host only lists."""
    kept = _without_shutdown(_without_echoes([each for each in entries if each.kind != "event"]))
    if any(each.party == SERVER for each in kept):
        return kept  # everything is passed on, also what a host only looks at
    kept = _without_asides(kept if looking else _without_looking(kept))
    of_host = (each.value for each in kept if each.sender == HOST)
    others = {_server_name(server) for value in of_host for server in _servers(value)}
    has_agent = any(each.party == AGENT for each in kept)
    return [_shorten(each, others, has_agent=has_agent) for each in kept]


def _without_echoes(entries: list[Entry]) -> list[Entry]:
    """Drop the bridge's close to a party that closed first."""
    gone: set[str] = set()
    kept: list[Entry] = []
    for each in entries:
        if each.kind == "closed" and not each.ours:
            gone.add(each.party)
        elif each.ours and each.kind in ("message", "raw"):
            gone.discard(each.party)  # it has started again
        if not (each.kind == "closed" and each.ours and each.party in gone):
            kept.append(each)
    return kept


def _without_shutdown(entries: list[Entry]) -> list[Entry]:
    """Drop the shutdown: the replay does it."""
    by_host = [place for place, each in enumerate(entries) if each.party == HOST]
    last = max((place for place in by_host if entries[place].kind != "closed"), default=-1)
    ends = (place for place in by_host if entries[place].kind == "closed")
    ended = next((place for place in ends if not entries[place].ours), len(entries))
    if ended < last:
        return [each for each in entries if each.kind != "closed" or not each.ours]
    # A bridge that gets a signal ends it from its own side.
    end = next((place for place in by_host if place > last), len(entries))
    said = [each for each in entries[: last + 1] if each.kind != "closed" or each.party != HOST]
    left = [each for each in entries[last + 1 : end] if each.kind != "closed"]
    return said + _without_requests(left, ("shutdown",))


def _without_looking(entries: list[Entry]) -> list[Entry]:
    """Drop list requests of the host, and of an agent that uses the bridge's tools."""
    return _without_requests(entries, _LOOKING, _uses_tools)


def _without_requests(
    entries: list[Entry], methods: Collection[str], by: Callable[[str], bool] = bool
) -> list[Entry]:
    """Drop matching requests of the matching parties, with their responses."""
    asked: set[tuple[str, Key]] = set()  # who asked, and what
    kept: list[Entry] = []
    for each in entries:
        message = as_object(each.value)
        id = key(each.party, message.get("id"))
        if by(each.sender) and message.get("method") in methods:
            asked.add((each.sender, id))
        elif not is_response(message) or (each.to, id) not in asked:
            kept.append(each)
    return kept


def _uses_tools(party: str) -> bool:
    """Whether a party calls the bridge's tools: the host, or an agent with the bridge as server."""
    return party == HOST or party.startswith(TOOLS)


def _without_asides(entries: list[Entry]) -> list[Entry]:
    """Drop an agent's messages about itself that a proxy forwards."""
    kept: list[Entry] = []
    for each in entries:
        passed_on = (
            other
            for other in kept
            if other.sender == AGENT and each.to == HOST and other.value == each.value
        )
        other = next(passed_on, None) if _is_aside(each.value) else None
        if other is None:
            kept.append(each)
        else:
            kept.remove(other)
    return kept


def _is_aside(value: JsonValue) -> bool:
    message = as_object(value)
    update = as_object(as_object(message.get("params")).get("update"))
    is_own = str(message.get("method")).startswith("_")
    return "id" not in message and (is_own or update.get("sessionUpdate") in _ASIDES)


def _shorten(entry: Entry, others: Collection[str], *, has_agent: bool) -> Entry:
    """Remove what a host and an agent say about themselves; `others` are the host's own MCP
    servers.
    """
    if entry.kind != "message" or not isinstance(entry.value, Mapping):
        return entry
    message: JsonObject = entry.value
    meta = as_object(message.get("params")).get("_meta")
    is_call = _uses_tools(entry.sender) and message.get("method") == "tools/call"
    if is_call and isinstance(meta, Mapping):
        kept = {
            name: value
            for name, value in meta.items()
            if name in _META or name.startswith(_META_PREFIX)
        }
        message = _with(message, _meta=kept)
    if servers := _servers(message):
        left = [each for each in servers if _server_name(each) not in others]
        message = _with(message, mcpServers=left)
    if has_agent and "result" in message and (entry.sender == AGENT or entry.to == HOST):
        message = {**message, "result": _prune(message["result"])}
    return replace(entry, value=message)


def _with(message: JsonObject, **params: JsonValue) -> JsonObject:
    """Return the message with these members of its params."""
    return {**message, "params": {**as_object(message.get("params")), **params}}


def _prune(value: JsonValue) -> JsonValue:
    if not isinstance(value, Mapping):
        return value
    return {name: _prune(each) for name, each in value.items() if name not in _OF_ITSELF}


def _servers(message: JsonValue) -> Sequence[JsonValue]:
    return as_list(as_object(as_object(message).get("params")).get("mcpServers"))


def _server_name(server: JsonValue) -> str:
    return str(server.get("name")) if isinstance(server, Mapping) else ""


def _with_any_server(entry: Entry) -> Entry:
    """Accept any command for the server that the bridge gives to an agent."""
    if not entry.ours or not _servers(entry.value):
        return entry
    servers = [
        {name: each if name == "name" else ANY for name, each in server.items()}
        for server in _servers(entry.value)
        if isinstance(server, dict)
    ]
    return replace(entry, value=_with(entry.value, mcpServers=servers))
