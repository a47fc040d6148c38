"""Remove from a trace secrets, one-time links, sealed states and this machine's paths.

Each line passes through `Redactor`, in one walk over the message. It remembers secrets found under
telling names or given as answers (`SecretAnswers`), and replaces them everywhere afterwards. Links,
states, paths and texts that only look like a secret are replaced in place. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain, count, pairwise
from urllib.parse import unquote_plus

from abp_bridge.conformance.format import Entry, is_request, is_response
from abp_bridge.core.json_value import (
    DECODER,
    JsonObject,
    JsonValue,
    as_object,
    as_text,
    is_deeper,
    leaves,
    member_names,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import Question
from abp_bridge.core.redact.names import asks_for_secret, holds_secret
from abp_bridge.core.redact.texts import SECRET, KnownTexts
from abp_bridge.core.schema import KEYWORDS, parts
from abp_bridge.errors import AbpBridgeError, RemoteProtocolError
from abp_bridge.protocols.abp import decode_question
from abp_bridge.protocols.abp.envelope import from_envelope, is_envelope
from abp_bridge.protocols.methods import METHODS

MAX_TEXT = 64 * 1024  # characters of a text that is looked into, and of a secret that is known
MAX_KNOWN = 2_000  # secrets, and as many links and states: each takes time on every line
MAX_OPEN = 4_000  # requests that are remembered; an answer to an older one counts as secret
NESTED = 4  # levels of JSON inside of text inside of JSON
LONG = 8  # characters; a shorter value of the environment, or under a name, is anybody's
SHORT = 4  # characters; one of the environment whose name speaks of a key is not
MAX_SETTING = 512  # characters; a longer one is a list of many things
DIGITS = 3  # of a number: with fewer it is anybody's

_WORD = re.compile(r"[a-z]+(?:[_./-][a-z]+)+|[\d.,:/-]{1,7}|\d{4}-\d\d-\d\d|[A-Za-z]{1,15}")
_MIXED = re.compile(r".{16}|.*(?:\d|[a-z].*[A-Z]|[A-Z].*[a-z].*[A-Z]|[^\w\s./-])", re.DOTALL)
_ORDINARY = re.compile(
    r"[A-Za-z]+|[\d.,:/ -]+|[a-z]+(?:[_./-][a-z]+)+|[a-z]{2}_[A-Z]{2}[.\w-]*|/.*"
    r"|https?://(?:localhost|127\.0\.0\.1|\[::1\])\S*"
)
_LINK = re.compile(r"((?:/|%(?:25)*2[Ff])(?:open|code)\\*+(?:/|%(?:25)*2[Ff]))([A-Za-z0-9_-]{16,})")


class RedactorFullError(AbpBridgeError):
    """There are more secrets than can be remembered, so nothing more can be recorded."""


class Redactor:
    """The secrets known in one recording, and their removal."""

    def __init__(self, *, env: Mapping[str, str], places: Mapping[str, str]) -> None:
        """Hide the values of `env`, and replace each path in `places` with its name there."""
        self._known = KnownTexts()
        for name, value in env.items():
            self._learn_setting(name, value)
        self._secrets: set[str] = set()
        self._numbers: set[int | float] = set()
        self._links: dict[str, str] = {}
        self._states: dict[str, str] = {}  # by a digest: they may be long
        self._replace_paths = path_replacer(places)
        self._present = self._known  # what stands in the value that is being cleaned
        self._bracketed = self._known  # what of it JSON is not to be looked for in
        self._named: list[str] = []  # what stands under telling names in it

    def learn(self, value: JsonValue) -> None:
        """Treat each text and number in `value` as a secret. Raises RedactorFullError."""
        for text in {str(leaf)[:MAX_TEXT] for leaf in leaves(value)} - self._secrets:
            if len(self._secrets) >= MAX_KNOWN:
                raise RedactorFullError
            self._secrets.add(text)
            self._numbers.update(_numbers(text))
            self._known.add_text(text, SECRET)

    def clean(self, value: JsonValue) -> JsonValue:
        """Return `value` redacted, and learn the secrets in it. Raises RedactorFullError."""
        cleaned = self._replace(value)
        named = {text[:MAX_TEXT] for text in self._named if _is_telling(text)} - self._secrets
        self.learn(sorted(named))
        return self._replace(value) if named else cleaned

    def clean_message(self, message: JsonValue) -> JsonValue:
        """Return a message redacted; a numeric id stays, so that responses match their requests."""
        if isinstance(message, list):
            return [self.clean_message(each) for each in message]
        id, cleaned = as_object(message).get("id"), self.clean(message)
        return {**as_object(cleaned), "id": id} if isinstance(id, (int, float)) else cleaned

    def clean_text(self, text: str) -> str:
        """Return text redacted; long text is cut, with a note."""
        return str(self._replace(text))

    def _learn_setting(self, name: str, value: str) -> None:
        """Hide a long key wherever it appears, and other unusual values where they appear alone."""
        instead, size, is_key = f"[env {name}]", len(value), holds_secret(name)
        if is_key and size >= LONG:
            self._known.add_text(value, instead)
        elif (is_key and size >= SHORT and not value.isalpha()) or (
            LONG <= size <= MAX_SETTING and not _ORDINARY.fullmatch(value)
        ):
            self._known.add_piece(value, instead, alone=True)

    # --- values ---

    def _replace(self, value: JsonValue) -> JsonValue:
        texts = chain(map(str, leaves(value)), member_names(value))
        self._present = self._known.present_in(text for text in texts if len(text) <= MAX_TEXT)
        self._named = []
        self._bracketed = self._present.with_brackets()
        return self._value(value, NESTED)

    def _value(self, value: JsonValue, depth: int, around: str = "") -> JsonValue:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, Mapping):
            return with_distinct_names(
                (self._clean_name(name), self._member(value, name, depth, around)) for name in value
            )
        if isinstance(value, list):
            return [
                self._blank(each, depth) if is_option(before) else self._value(each, depth, around)
                for before, each in pairwise([None, *value])
            ]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return SECRET if abs(value) in self._numbers else value
        return value

    def _member(self, holder: JsonObject, name: str, depth: int, around: str) -> JsonValue:
        value = holder[name]
        if name == "requestState" and isinstance(value, str):
            digest = sha256(value.encode(errors="surrogatepass")).hexdigest()
            return _number(digest, "state", self._states)
        if names_secret(holder, name, around):
            if not is_schema(value):
                return self._blank(value, depth)
            value = without_suggestions(value, partial(self._blank, depth=depth))
        return self._value(value, depth, part_of(name, around))

    def _blank(self, value: JsonValue, depth: int) -> JsonValue:
        """Blank the value and learn what is in it."""
        self._value(value, depth)
        self._named += [str(leaf) for leaf in leaves(value) if leaf != SECRET]
        return blank(value)

    # --- texts ---

    def _clean_name(self, name: str) -> str:
        if len(name) > MAX_TEXT:
            return _cut(name)
        return name if name in KEPT else self._present.replace(name)

    def _text(self, text: str, depth: int) -> str:
        if len(text) > MAX_TEXT:
            return _cut(text)
        if text in KEPT:
            return text
        kept: list[str] = []
        done = 0
        text = self._bracketed.replace(text)
        for start, end, value in json_in(text) if depth else ():
            before, inside = text[done:start], text[start:end]
            clean = self._blank if names_next(before) else self._value
            cleaned = clean(value, depth - 1)
            kept += [self._plain(before), inside if cleaned == value else _dump(cleaned, inside)]
            done = end
        return "".join([*kept, self._plain(text[done:])])

    def _plain(self, text: str) -> str:
        text = hide_values(self._present.replace(text))
        text = _LINK.sub(lambda found: f"{found[1]}{self._link(found[2])}", text)
        return self._replace_paths(text)

    def _link(self, token: str) -> str:
        is_new = token not in self._links
        instead = _number(token, "link", self._links)
        if is_new:
            self._known.add_piece(token, instead, alone=False)
        return instead


def _number(text: str, kind: str, numbered: dict[str, str]) -> str:
    """Return a stable numbered placeholder for `text`."""
    if text not in numbered:
        if len(numbered) >= MAX_KNOWN:
            raise RedactorFullError
        numbered[text] = f"[{kind} {len(numbered) + 1}]"
    return numbered[text]


def _cut(text: str) -> str:
    return f"[cut {len(text)} characters]"


def _dump(value: JsonValue, before: str) -> str:
    """Encode JSON spaced as it was in its text."""
    separators = (", ", ": ") if re.search(r"[\"\]}\w][:,] ", before) else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _is_telling(text: str) -> bool:
    """Whether a text from under a telling name is unusual enough to be searched elsewhere."""
    return len(text) >= LONG and not _WORD.fullmatch(text) and _MIXED.match(text) is not None


def _numbers(text: str) -> Iterator[int | float]:
    """Yield the numbers that a text may spell."""
    if sum(char.isdigit() for char in text) >= DIGITS:
        for read in (int, float):
            with suppress(ValueError, OverflowError):
                yield abs(read(text))


# --- where in a message secrets are ------------------------------------------------------------

MAX_LEVELS = 100  # levels of JSON inside of text: no app nests more, and each is walked
TRIES = 64  # places in a text where JSON may begin: each may be read to the text's end

# Names of members, and words that stand alone. All methods are words of a message too.
_WORDS = """
    jsonrpc 2.0 id method params result error type timestamp payload event data code message
    reason accept accepted decline declined cancel cancelled selected action outcome content success
    metadata string number integer boolean object array null text form url mode schema prompt
    options required properties enum oneOf anyOf items title description default const format value
    confirmed optionId sessionId toolCallId requestedSchema protocolVersion capabilities name
    arguments kind status
"""
KEPT = METHODS | frozenset(_WORDS.split())

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SUGGESTIONS = ("default", "const", "example", "examples")
_DESCRIBES = frozenset(["$ref", "nullable", "contentEncoding", "contentMediaType", "x-order"])
_DESCRIBES |= KEYWORDS.union(_SUGGESTIONS)

_BEGINS = re.compile(r'\{\s*["}]|\[\s*(?:[\[{"\d-]|true\b|false\b|null\b)')
_NAMES_NEXT = re.compile(r"([\w .\[\]%-]{1,80})[\"']?\s{0,8}[:=]\s{0,8}\Z")


def blank(value: JsonValue) -> JsonValue:
    """Return the same structure with each text and number hidden."""
    if isinstance(value, Mapping):
        return {name: blank(each) for name, each in value.items()}
    if isinstance(value, list):
        return [blank(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else SECRET


def with_distinct_names(members: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return an object of these members; repeated names are numbered."""
    kept: dict[str, JsonValue] = {}
    for name, value in members:
        names = (f"{name} {number}" for number in count(2))
        kept[name if name not in kept else next(each for each in names if each not in kept)] = value
    return kept


def part_of(name: str, around: str) -> str:
    """Return what a member's object belongs to: `program`, `given` (its env or headers), or
    `around`.
    """
    if name == "mcpServers":
        return "program"
    return "given" if around and name in ("env", "headers") else around


def names_secret(holder: JsonObject, name: str, around: str) -> bool:
    """Whether a member is a secret, by its name, the name beside it, or what it belongs to."""
    beside = holder.get("name", holder.get("key"))
    if name == "value" and isinstance(beside, str) and holds_secret(beside):
        return True
    is_given = around == "given" and not (name == "name" and "value" in holder)
    return is_given or holds_secret(name)


def is_option(word: JsonValue) -> bool:
    """Whether the next item of the list is a secret, as after `--api-key`."""
    return isinstance(word, str) and re.match(r"-[^=]*\Z", word) is not None and holds_secret(word)


def without_suggestions(
    schema: JsonValue, blank: Callable[[JsonValue], JsonValue] = blank
) -> JsonValue:
    """Return a secret's schema without suggested values; choices stay."""
    if isinstance(schema, Mapping):
        return {
            name: blank(each) if name in _SUGGESTIONS else without_suggestions(each, blank)
            for name, each in schema.items()
        }
    return [without_suggestions(e, blank) for e in schema] if isinstance(schema, list) else schema


def is_schema(value: JsonValue) -> bool:
    """Whether this describes a field: it has only JSON Schema's keywords."""
    if not isinstance(value, Mapping):
        return False
    inside, kind = value.get("properties", {}), value.get("type", "string")
    return (
        all(_DESCRIBES.issuperset(part) for _, part in parts(value))
        and isinstance(inside, Mapping)
        and all(isinstance(each, Mapping) for each in inside.values())
        and all(each in _TYPES for each in (kind if isinstance(kind, list) else [kind]))
    )


def json_in(text: str) -> Iterator[tuple[int, int, JsonValue]]:
    """Yield the JSON in a text as (start, end, value)."""
    at = 0
    for _ in range(TRIES):
        found = _BEGINS.search(text, at)
        if found is None:
            return
        at = found.start() + 1
        with suppress(ValueError, RecursionError):
            value, end = DECODER.raw_decode(text, found.start())
            if not is_deeper(value, MAX_LEVELS):
                yield found.start(), end, value
                at = end


def names_next(text: str) -> bool:
    """Whether this text names what follows as a secret."""
    found = _NAMES_NEXT.search(text[-200:])
    return found is not None and holds_secret(found[1])


# --- what looks like a secret in a text ---------------------------------------------------------

_QUOTED = r"(?P<open>\\*+[\"'`])%s*?(?<!\\)(?P=open)"  # of the letters that may stand in it
_BEFORE = r"(?:[^\W\d_]\w{0,30}[ ]){0,2}"
_NAME = rf"(?P<name>{_BEFORE}(?:[^\W\d]|%)[\w.\[\]%-]{{0,80}})"
_HEADERS = r"(?i:authorization|cookie)"
_HEADER = rf"(?P<name>{_BEFORE}(?=[^\W\d]|%)[\w.\[\]%-]{{0,80}}{_HEADERS})"
_MARK = r"[ \t]{0,8}+(?:=>?+|[:\uff1a](?![:/]))[ \t]{0,8}+"
_BLOCK = r"[|>]?[+-]?[ \t]*\r?\n(?:[ \t]+\S[^\n]*(?:\n|\Z))+"
_LINE = r"[^\r\n]*"
_ANY, _IN_LINE = _QUOTED % r"(?s:.)", _QUOTED % r"[^\n]"
_VALUES = {
    # a member of JSON or Python; what is no whole string goes to the text's end
    r"(?<!\\)(?P<quote>\\*+[\"'])(?P<name>[^\"'\\\n]{1,80})(?P=quote)\s{0,8}[:=]\s{0,8}": (
        rf"{_ANY}|(?s:[\[{{\\\"'`].*)|-?[\w.+-]+"
    ),
    # an option of a command
    r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,60})(?:=|[ \t]+(?![-\s]))": rf"{_IN_LINE}|\S+",
    rf"(?<![\w.%?&#;-]){_HEADER}{_MARK}": _LINE,
    rf"(?<=[?&#;]){_NAME}{_MARK}": r"[^&\s\"'#\\]*",  # where the parameters of an address begin
    # a line of YAML, of a shell or of settings
    rf"^[ \t]*(?:- |export |set )?{_NAME}{_MARK}": rf"{_IN_LINE}|{_BLOCK}|{_LINE}",
    rf"(?<![\w.%?&#;-]){_NAME}{_MARK}": rf"{_IN_LINE}|\S+",  # an assignment within a line
    r"<(?P<name>[A-Za-z][\w:.-]{0,80})(?:\s[^<>]{0,400})?>": r"(?!\s*\[secret\])[^<]+",
    # a parameter of an address, whatever its name is made of
    r"[?&#;](?P<name>[^=&\s\"'\\?#;]{1,80})=": r"[^&\s\"'#\\]+",
}
VALUES = [(re.compile(head, re.MULTILINE), re.compile(tail)) for head, tail in _VALUES.items()]
# For texts without those words: looking for what is in front of them takes as long as all the rest.
_NO_HEADERS = [(head, value) for head, value in VALUES if _HEADERS not in head.pattern]
_HIDDEN = (SECRET, "[env ", "[link ", "[state ")
_NOTHING = ("", "true", "false", "null", "True", "False", "None", '""', "''", "[]", "{}")
_TAG = re.compile(r"<[A-Za-z][^<>]{0,800}>")
_TAGS_VALUE = re.compile(r"(\bvalue\s{0,4}=\s{0,4}([\"'])).+?(?=\2)")

_TOKENS = {
    # a parameter that has other meanings too, if it is long
    r"([?&#;](?:[^=&\s\"'\\?#;]{0,79}(?:[_-]|%2[Dd]|%5[Ff]))?"
    r"(?i:key|code|sig|signature|auth|session|sid)=)(?!\[)[^&\s\"'#\\]{8,}": rf"\1{SECRET}",
    # who logs in by an address
    r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,20}://)[^/\s\"'\\]{1,512}@": rf"\1{SECRET}@",
    r"(?i)\b(bearer(?:\s+|%20|\+))[a-z0-9._~+/=-]{8,}": rf"\1{SECRET}",
    r"\b((?i:basic)(?:\s+|%20|\+))(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=]{8,}": rf"\1{SECRET}",
    # a JSON Web Token
    r"(?<![\w-])eyJ[\w-]{8,8192}\.[\w-]{8,8192}\.[\w-]*": SECRET,
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)": SECRET,
    # keys of services, by their first letters
    r"(?<![A-Za-z0-9])(?:[spr]k[-_](?=[a-z_-]{0,80}[A-Z0-9])[A-Za-z0-9_-]{16,}"
    r"|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})": SECRET,
}
TOKENS = [(re.compile(look), instead) for look, instead in _TOKENS.items()]


def hide_values(text: str) -> str:
    """Hide values under telling names, and what looks like a secret; JSON may be cut."""
    for head, value in VALUES if re.search(_HEADERS, text) else _NO_HEADERS:
        text = _hide_values(text, head, value)
    text = _TAG.sub(_hide_attribute, text)
    for look, instead in TOKENS:
        text = look.sub(instead, text)
    return text


def _hide_values(text: str, head: re.Pattern[str], value: re.Pattern[str]) -> str:
    kept: list[str] = []
    done = 0
    for named in head.finditer(text):
        at, name = named.end(), unquote_plus(named["name"])
        if named.start() < done or text.startswith(_HIDDEN, at) or not _tells(name):
            continue
        found = value.match(text, at)
        if found is not None and found[0].strip() not in _NOTHING:
            quote = found.groupdict().get("open") or ""
            kept += [text[done:at], quote, SECRET, quote]
            done = found.end()
    return "".join([*kept, text[done:]])


def _tells(name: str) -> bool:
    return name == "requestState" or holds_secret(name)


def _hide_attribute(tag: re.Match[str]) -> str:
    """Hide the value of a tag that asks for a secret."""
    tells = "value" in tag[0] and asks_for_secret(tag[0])
    return _TAGS_VALUE.sub(rf"\1{SECRET}", tag[0]) if tells else tag[0]


def path_replacer(places: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces whole paths in a text, the longest first."""
    names = {path.rstrip("/"): name for path, name in places.items() if len(path) > 1}
    deepest = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"(?!)"
    pattern = re.compile(rf"(?<![\w.])(?:{deepest})(?![\w-]|\.\w)")
    return lambda text: pattern.sub(lambda found: names[found[0]], text)


# --- answers that are secrets -------------------------------------------------------------------

Key = tuple[JsonValue, ...]  # a party, whether the bridge asked it, and what the question is

_CONTENT = ("value", "confirmed", "selected", "result", "content", "data")
_MEMBERS = frozenset((*_CONTENT, "mimeType", "encoding", "filename"))
_OUTCOMES = ("accept", "decline", "cancel", *(each.value for each in Outcome))
_RESULT = ("metadata", "_meta", "inputRequests", "requestState", "resultType")


# What is inside of a part of an answer; anything else is what was answered.
_INSIDE = {
    ("message", "result"): "result",
    ("message", "payload"): "result",
    ("message", "error"): "error",
    ("result", "error"): "error",
}


def _is_public(part: str, name: str, value: JsonValue) -> bool:
    """Whether a member of an answer is never a secret."""
    if part == "error":
        is_name = isinstance(value, str) and value.isupper()
        return name == "code" and (isinstance(value, int) or is_name)
    if value is None:
        return True
    if part == "message":
        return name in ("jsonrpc", "id", "type", "timestamp")
    is_outcome = name in ("action", "outcome") and value in _OUTCOMES
    return isinstance(value, bool) or name in _RESULT or is_outcome


@dataclass(slots=True)
class _Asked:
    """The number of requests under one key, and the questions for a secret among them."""

    unanswered: int = 0
    questions: list[Question] = field(default_factory=list)


class SecretAnswers:
    """The open questions for secrets in one recording."""

    def __init__(self, learn: Callable[[JsonValue], None]) -> None:
        """`learn` gets each secret."""
        self._learn = learn
        self._open: dict[Key, _Asked] = {}  # the oldest first
        self._askers: set[Key] = set()  # who was ever asked for a secret

    def without_secrets(self, entry: Entry) -> JsonValue:
        """Return the message without secret answers and suggestions."""
        if isinstance(entry.value, list):
            return [self._message(each, entry) for each in entry.value]
        return self._message(entry.value, entry)

    def may_be_answer(self, entry: Entry) -> bool:
        """Whether an unreadable line may answer a question for a secret."""
        return (entry.party, not entry.ours) in self._askers

    def _message(self, message: JsonValue, entry: Entry) -> JsonValue:
        if not isinstance(message, Mapping):
            return message
        read = from_envelope(message) if is_envelope(message) and not entry.ours else message
        question = secret_question(read)
        is_question = question is not None and str(read["method"]).startswith("elicitation/")
        if is_request(read) or (is_question and "id" not in read):
            self._on_question((entry.party, entry.ours, _id(read)), question)
            inside = "payload" if "payload" in message else "params"
            if question is not None:  # what there is to choose from stays, or nobody could choose
                message = {**message, inside: without_suggestions(message[inside])}
            return self._without_responses(message, entry)
        if read.get("type") == "elicitation/response" or is_response(read):
            result = as_object(read.get("result"))
            for name, request in as_object(result.get("inputRequests")).items():
                state = as_text(result.get("requestState"))
                within = secret_question(as_object(request))
                self._on_question((entry.party, entry.ours, state, name), within)
            key: Key = (entry.party, not entry.ours, _id(message))
            answer = self._without_secrets(message, "message", key, ours=entry.ours)
            if key in self._open:
                self._open[key].unanswered -= 1
                if not self._open[key].unanswered:
                    del self._open[key]
            return answer
        return self._without_responses(message, entry)

    # --- what is asked ---

    def _on_question(self, key: Key, question: Question | None) -> None:
        asked = self._open.setdefault(key, _Asked())
        asked.unanswered += 1
        if question is not None:
            asked.questions.append(question)
            self._askers.add(key[:2])
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    # --- what is answered ---

    def _without_secrets(
        self, answer: JsonValue, part: str, key: Key, *, ours: bool = False
    ) -> JsonValue:
        """Return `answer` unchanged unless it may answer a question for a secret."""
        asked = self._open.get(key)
        questions = asked.questions if asked else []
        is_public = not questions if asked else key[:2] not in self._askers
        return answer if is_public else self._hide(answer, part, questions, ours=ours)

    def _hide(
        self, value: JsonValue, part: str, questions: Sequence[Question], *, ours: bool
    ) -> JsonValue:
        """Hide a part of an answer: public members of a result stay, and an error's code.

        An error may quote the value; the bridge's own error in a result does not.
        """
        if part == "content" or not isinstance(value, Mapping):
            return self._content(value, questions)
        hidden: dict[str, JsonValue] = {}
        for name, each in value.items():
            is_ours = ours and (part, name) == ("result", "error")
            if is_ours or _is_public(part, name, each):
                hidden[name] = each
            elif part == "error":
                hidden[name] = _flat(each)
            else:
                inside = _INSIDE.get((part, name), "content")
                hidden[name] = self._hide(each, inside, questions, ours=ours)
        return hidden

    def _content(self, content: JsonValue, questions: Sequence[Question]) -> JsonValue:
        """Hide the answer, but keep the names of the question's fields."""
        given = [secrets_of(each, content) for each in questions] if questions else [content]
        names = [name for name in member_names(given) if name not in _MEMBERS]
        self._learn([*leaves(given), *names])
        if not isinstance(content, Mapping):
            return _flat(content)
        fields = _MEMBERS.union(each.name for question in questions for each in question.fields)
        return with_distinct_names(
            (name if name in fields else SECRET, _flat(each)) for name, each in content.items()
        )

    def _without_responses(self, message: JsonObject, entry: Entry) -> JsonValue:
        """Hide answers in the retried request (MCP 2026-07-28); they may come again."""
        params = as_object(message.get("params"))
        responses = params.get("inputResponses")
        if not isinstance(responses, Mapping):
            return message
        asked = (entry.party, not entry.ours, as_text(params.get("requestState")))
        kept = {
            name: self._without_secrets(each, "result", (*asked, name))
            for name, each in responses.items()
        }
        return {**message, "params": {**params, "inputResponses": kept}}


def secret_question(message: JsonObject) -> Question | None:
    """Return the question that this request asks if its answer is a secret, else None."""
    method, params = message.get("method"), message.get("params")
    if method == "elicitation/create" and isinstance(params, Mapping):
        method = "elicitation/input"
        params = {"prompt": params.get("message"), "schema": params.get("requestedSchema")}
    try:
        question = decode_question({"method": method, "params": params}, id="", origin="")
    except RemoteProtocolError:
        return None
    return question if question.secret else None


def secrets_of(question: Question, answer: JsonValue) -> list[JsonValue]:
    """Return the secret parts of an answer: not public fields, nor choices, which the question
    lists.
    """
    fields = {field.name: field for field in question.fields}
    is_wrapped = set(as_object(answer)) == {"value"} and (question.wrapped or "value" not in fields)
    given = as_object(answer)["value"] if is_wrapped else answer
    if not isinstance(given, Mapping) or question.wrapped:
        return [] if len(fields) == 1 and question.fields[0].choices else [given]
    public = {
        name
        for name, field in fields.items()
        if (question.secret and not field.secret) or field.choices
    }
    return [each for name, each in given.items() if name not in public]


def _flat(value: JsonValue) -> JsonValue:
    return value if value is None or value == "" else SECRET


def _id(message: JsonObject) -> JsonValue:
    id = message.get("id")
    return id if isinstance(id, (str, int, float)) else None
