"""Questions and their answers, in no protocol's words.

A `Question` is what an app asks its user; an `Answer` is how that ended. `validate_answer` decides
whether what a host sent back really answers the question: it is the only door through which content
becomes an answer.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from abp_bridge.core import file as files
from abp_bridge.core import json_text, sanitize
from abp_bridge.core import schema as schemas
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.schema import Schema

# Said with a question by what has no other mark for it; MCP's forms are known again by it.
IRREVERSIBLE = "This cannot be undone, says who asks."
# The same, where who asks has said nothing of it.
PRESUMED = "Nothing says that this can be undone."

BRIDGE = "abp-bridge"  # who asks what no app does
QUOTE = "> "  # begins each line of others' words, where the bridge's own stand beside them
MAX_MESSAGE = 100_000  # characters that somebody can be shown; nobody reads as many
UNASKED = "Nobody could be asked: "  # begins the reason of a question that no surface asks
MAX_TIME = 3_600.0  # seconds that an app may give the person
MAX_PROBLEM = 1_000  # characters; a problem may quote what an app or a person wrote


class Missing(enum.Enum):
    """The type of `MISSING`: no value, where `None` would be a value."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class Kind(enum.Enum):
    """What an app wants from its user; the value is ABP's method name."""

    INPUT = "elicitation/input"
    PREFERENCE = "elicitation/preference"
    CONFIRM = "elicitation/confirm"
    SELECT = "elicitation/select"
    RESOURCE = "elicitation/resource"
    SAMPLING = "sampling/create"


# Their words say what their only field is for: its title is a name of the bridge's own.
SAYING_KINDS = (Kind.CONFIRM, Kind.SELECT, Kind.RESOURCE)


class Permission(enum.Enum):
    """What a question of the bridge's own asks its person to permit."""

    CALL = "call"  # that a capability, or a tool, is called
    BROWSER = "browser"  # that a page is used in a browser of the person's own
    SAMPLING = "sampling"  # that a model is sent something, or that its answer leaves


class FieldType(enum.Enum):
    """What can be filled into a field, and so which control asks for it."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"  # one of `choices`
    CHOICES = "choices"  # any number of `choices`
    LIST = "list"  # of flat objects, with `columns`
    FILE = "file"  # `file.SCHEMA`: its content and type
    JSON = "json"  # anything else: asked for as JSON text, checked against the schema


@dataclass(frozen=True, slots=True)
class Choice:
    """One option.

    `key` is its value as text, unique in its field: what goes over wires that only carry strings.
    `whole` is all of its label, where `label` is only the beginning: for who has room for it.
    """

    value: JsonValue
    key: str
    label: str
    description: str = ""
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to fill in.

    `schema` is the app's own in its normal form, and answers are checked against it; `default` fits
    it. `title` and `description` are safe to show. `accept` are the MIME types of a file
    (`image/png`, `image/*`); none means any. `empty` is the answer when nothing is filled in: null,
    where the app wants that rather than no member. `columns` are what each entry of a list holds.
    """

    name: str
    type: FieldType
    schema: Schema
    title: str = ""
    description: str = ""
    required: bool = True
    default: JsonValue | Missing = MISSING
    choices: tuple[Choice, ...] = ()
    secret: bool = False
    accept: tuple[str, ...] = ()
    empty: Missing | None = MISSING
    columns: tuple[Field, ...] = ()

    @property
    def label(self) -> str:
        """What it is called: its title, else its name; safe to show."""
        return self.title or sanitize.label(self.name)


@dataclass(frozen=True, slots=True)
class Question:
    """What an app asks its user.

    Attributes:
        id: The bridge's own name for it, used once.
        kind: What the app wants.
        message: The app's words, safe to show.
        fields: What is to be filled in, in the app's order; none when a model is asked.
        origin: Who asks, as the bridge knows it: an address or a command, safe to show.
        connection: Which of the session's connections it came by: two apps may be called the same.
            Empty where there is one only.
        calls: Which of the app's calls it may belong to, the likeliest first: one where that is
            sure, none where no call is running.
        tools: What those calls call, in their order, by the app's own names.
        wrapped: Whether the app wants the value of the only field, not an object of fields.
        default: The app's own answer, for a preference that nobody gives.
        destructive: Whether a yes cannot be undone, as the app says.
        presumed: Nobody said whether it is destructive: it is taken to be so, until a tool's
            annotations say otherwise.
        link: The address that the app asks the person to open, safe to show; it may let in
            whoever has it.
        permits: What a yes permits, where it is the bridge's own question; None for an app's.
        timeout: The person's time in seconds; None for the session's usual one.
        whole: What the app's schema says of the fields together.
        note: A remark of the bridge's own, to be shown with it.
        request: The method's own parameters as they came, for what is no form (resource, sampling).
        app: What the app calls itself, safe to show; empty where it does not say, or is no app.
        host_name: Through which host it is asked, as that calls itself, safe to show.
        icon: The app's own picture, as a `data:` address of a small PNG; empty where it has none.
        uncut: The whole message, where `message` is only the beginning of one that a person has to
            have before them; surfaces that cannot show it do not ask.
    """

    id: str
    kind: Kind
    message: str
    fields: tuple[Field, ...]
    origin: str
    connection: str = ""
    calls: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    wrapped: bool = True
    default: JsonValue | Missing = MISSING
    destructive: bool = False
    presumed: bool = False
    link: str = ""
    permits: Permission | None = None
    timeout: float | None = None
    whole: Schema = field(default_factory=dict)
    note: str = ""
    request: JsonObject = field(default_factory=dict)
    uncut: str = ""
    app: str = ""
    host_name: str = ""
    icon: str = field(default="", repr=False)

    def time_limit(self, usual: float) -> float:
        """The seconds that its person has: what its app gives, at most `MAX_TIME`, else `usual`."""
        return min(self.timeout, MAX_TIME) if self.timeout else usual

    def in_full(self) -> Question:
        """The same for a surface that shows messages of any length: nothing of it is cut."""
        return replace(self, message=self.uncut) if self.uncut else self

    def with_note(self, words: str) -> Question:
        """The same, with a remark more."""
        return replace(self, note=" ".join(filter(None, (self.note, words))))

    @property
    def asker(self) -> str:
        """Who asks, as it is shown: the bridge for a permission, else the app's origin."""
        return BRIDGE if self.permits else self.origin

    @property
    def quoted(self) -> str:
        """Its message as it stands beside the bridge's own lines: where the app's words have
        several, each begins with a mark that none of those has.
        """
        if self.permits or self.consents or "\n" not in self.message:
            return self.message
        return quote(self.message)

    @property
    def summary(self) -> str:
        """Its message for who lists questions: of the bridge's own what is asked, without what it
        is about, which may be secret, or was kept back.
        """
        return self.message.partition("\n\n")[0] if self.permits else self.message

    def introduce(self, words: str) -> str:
        """`words`, which end with a colon, and the message after them."""
        quoted = self.quoted
        return f"{words}{' ' if quoted == self.message else chr(10)}{quoted}"

    @property
    def call(self) -> str | None:
        """The call it surely belongs to."""
        return self.calls[0] if len(self.calls) == 1 else None

    @property
    def secret(self) -> bool:
        """Whether any of its fields asks for a secret, or its link is one."""
        return bool(self.link) or any(each.secret for each in self.fields)

    @property
    def elicitation_id(self) -> str:
        """What a host knows its link by: the app's own name of it, else the bridge's."""
        return as_text(self.request.get("elicitationId")) or f"abp-{self.id}"

    @property
    def warning(self) -> str:
        """What is said of a yes that cannot be undone; empty where it can. A form that only may be
        about such a deed says nothing: most are not.
        """
        if not self.destructive or (self.presumed and self.kind is not Kind.CONFIRM):
            return ""
        return PRESUMED if self.presumed else IRREVERSIBLE

    @property
    def consents(self) -> bool:
        """Whether it asks for consent: to make a call, to use a browser, or to read a file that the
        app named and not for the file itself.
        """
        return self.permits in (Permission.CALL, Permission.BROWSER) or (
            self.kind is Kind.RESOURCE
            and [each.type for each in self.fields] == [FieldType.BOOLEAN]
        )


def quote(words: str) -> str:
    """Words of others, each line with a mark that no line of the bridge's own has."""
    return "\n".join(f"{QUOTE}{line}".rstrip() for line in words.split("\n"))


def read_introduced(words: str) -> str:
    """The message that `Question.introduce` put behind its words, and what follows it: without the
    marks, where there are any.
    """
    if not words.startswith("\n"):
        return words.removeprefix(" ")
    mark = QUOTE.rstrip()
    lines = words[1:].split("\n")
    return "\n".join("" if each == mark else each.removeprefix(QUOTE) for each in lines)


def message_of(question: Question, problem: str = "") -> str:
    """What a question says, with its origin first, and what the bridge has to say of it."""
    lines = [
        question.introduce(f"{question.asker} asks:"),
        question.warning,
        question.note,
        f"Please answer again: {sanitize.message(problem)}." if problem else "",
    ]
    return "\n\n".join(filter(None, lines))


class Outcome(enum.Enum):
    """How a question ended. Every question has exactly one."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNSUPPORTED = "unsupported"  # no surface of this host can ask it
    INVALID = "invalid"  # what came back, again and again, was none
    WITHDRAWN = "withdrawn"  # its call, its app or its host ended first


class AnsweredBy(enum.Enum):
    """Who gave an answer; the value is what the app is told."""

    PERSON = "person"
    HOST_POLICY = "host-policy"  # the host, by itself
    UNKNOWN = "unknown"  # a host, and nothing speaks for a person or against one
    MODEL = "model"
    SCRIPT = "script"  # written down before the question came
    DEFAULT = "default"  # the app's own default, for a preference only
    NOBODY = "nobody"


# Who that is, in a sentence. What nobody knows who did, the host did in any case.
ANSWERERS: Mapping[AnsweredBy, str] = {
    AnsweredBy.PERSON: "the user",
    AnsweredBy.HOST_POLICY: "the host",
    AnsweredBy.UNKNOWN: "the host",
    AnsweredBy.MODEL: "a model",
    AnsweredBy.SCRIPT: "an answers file",
    AnsweredBy.DEFAULT: "the app's default",
    AnsweredBy.NOBODY: "nobody",
}
_REFUSALS = {
    Outcome.DECLINED: "declined to answer",
    Outcome.CANCELLED: "dismissed the question",
}


def describe_refusal(outcome: Outcome, by: AnsweredBy) -> str:
    """Who declined or dismissed a question, as a sentence; empty for another `outcome`."""
    did, who = _REFUSALS.get(outcome), ANSWERERS[by]
    return f"{who[:1].upper()}{who[1:]} {did}." if did else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question ended, with the validated content if it was accepted.

    `evidence` is the row of `evidence.EVIDENCE` that says who answered; `route` names the surface
    and what it did (`mcp-form`, `mcp-form (as text)`); `latency` is in seconds from asking to
    answering; `reason` is for the app's developer; `unchecked` names schema keywords that nobody
    checked; `metadata` is what the surface has to say of it besides. Where no person was
    asked, `tried` has each surface with its reason, and `ways` how one would be.
    """

    outcome: Outcome
    answered_by: AnsweredBy
    content: JsonObject = field(default_factory=dict)
    evidence: str = ""
    route: str = ""
    latency: float = 0.0
    reason: str = ""
    unchecked: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()

    @property
    def answerer(self) -> AnsweredBy:
        """Who gave it; nobody, where what somebody gave did not count, and it is none of theirs."""
        given = self.outcome in (Outcome.ACCEPTED, Outcome.DECLINED, Outcome.CANCELLED)
        return self.answered_by if given else AnsweredBy.NOBODY

    @property
    def unasked(self) -> bool:
        """Whether it says that no person was asked: no surface could, or a host answered by itself
        what is no accept.
        """
        by_itself = self.answered_by is AnsweredBy.HOST_POLICY
        refused = by_itself and self.outcome is not Outcome.ACCEPTED
        return refused or self.outcome is Outcome.UNSUPPORTED


def validate_answer(
    question: Question, content: JsonValue
) -> tuple[dict[str, JsonValue], list[str]]:
    """What a host sent back as an accepted form -> (the answer by field name, what is wrong with
    it).

    Text that stands for a number, a yes or a list is read as that where only one reading is
    possible (hosts with plain text lines send those). A field that was not asked is left out; an
    optional field left empty is no answer to it. Content with problems is no answer.
    """
    if not isinstance(content, Mapping):
        return {}, ["the answer must be an object with one member per field"]
    answer = _read_fields(question.fields, content)
    return answer, answer_errors(question, answer)


def _read_fields(fields: Sequence[Field], content: JsonObject) -> dict[str, JsonValue]:
    return {each.name: None for each in fields if each.empty is None} | {
        each.name: read(each, content[each.name])
        for each in fields
        if each.name in content and not _left_empty(each, content[each.name])
    }


def answer_errors(question: Question, answer: JsonObject) -> list[str]:
    """What is wrong with an answer by field name, in the app's own values; safe to show."""
    if wrong := field_errors(question, answer):
        return [problem for problems in wrong.values() for problem in problems]
    if not _asks_all(question):
        return []
    problems = schemas.check(dict(answer), question.whole)
    secrets = [each for each in question.fields if each.secret]
    problems = _without_values(problems, secrets[0]) if problems and secrets else problems
    return _shown(problems)


def field_errors(question: Question, answer: JsonObject) -> dict[str, list[str]]:
    """What is wrong with each field that is wrong by itself, by its name; safe to show."""
    found: dict[str, list[str]] = {}
    for each in question.fields:
        if wrong := _errors(each, answer.get(each.name, MISSING)):
            found[each.name] = _shown(_without_values(wrong, each) if each.secret else wrong)
    return found


def _errors(asked: Field, value: JsonValue | Missing) -> list[str]:
    if value is MISSING:
        return [f"{asked.name} is required"] if asked.required else []
    if value is None and asked.empty is None:
        return []
    wrong = schemas.check(value, asked.schema, asked.name)
    if not (wrong or asked.choices or _is_text(value)):
        return [f"{asked.name} must be whole characters"]
    if wrong or asked.type is not FieldType.FILE:
        return wrong
    return [f"{asked.name} {problem}" for problem in files.file_errors(value, asked.accept)]


def _is_text(value: JsonValue) -> bool:
    """Whether UTF-8 can carry it: strict readers take nothing else."""
    if value is None or isinstance(value, (int, float)):
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(problems: list[str]) -> list[str]:
    return [sanitize.label(problem, MAX_PROBLEM) for problem in problems]


def _without_values(problems: list[str], secret: Field) -> list[str]:
    """What is wrong, without the value that it is wrong with: problems are shown, logged and told
    to the app's developer.
    """
    if problems and secret.type is FieldType.JSON:  # the names in it are the person's too
        return [f"{secret.name} does not fit"]
    return [problem.partition(", not ")[0] for problem in problems]


def read(asked: Field, sent: JsonValue) -> JsonValue:
    """The value a host meant by `sent`: choice keys and labels become values, plain text becomes
    what the field holds. Never guesses.
    """
    return _READERS[asked.type](asked, sent)


# kind of field -> the types of JSON that it gives; any, where it has none here
_CARRIED: Mapping[FieldType, Sequence[str]] = {
    FieldType.TEXT: ("string",),
    FieldType.NUMBER: ("number", "integer"),
    FieldType.INTEGER: ("integer",),
    FieldType.BOOLEAN: ("boolean",),
    FieldType.CHOICES: ("array",),
    FieldType.LIST: ("array",),
}


def carries(kind: FieldType, value: JsonValue) -> bool:
    """Whether a control of this kind, left as it is, gives `value` back: one for text would make
    "5" of a 5.
    """
    return kind not in _CARRIED or schemas.type_of(value) in _CARRIED[kind]


def is_default(asked: Field, choice: Choice) -> bool:
    """Whether `choice` is what the app proposes for `asked`, or one of several."""
    if asked.default is MISSING:
        return False
    several = asked.type is FieldType.CHOICES and isinstance(asked.default, list)
    wanted = as_list(asked.default) if several else [asked.default]
    return any(schemas.json_equal(choice.value, each) for each in wanted)


def _asks_all(question: Question) -> bool:
    """Whether it asks for everything that `whole` speaks of: one field of several cannot be held
    against it.
    """
    return set(as_object(question.whole.get("properties"))) == {
        each.name for each in question.fields
    }


def _left_empty(asked: Field, sent: JsonValue) -> bool:
    if sent is None:
        return "null" not in _types(asked.schema) and all(
            choice.value is not None for choice in asked.choices
        )
    if sent != "" or asked.required or asked.type is FieldType.BOOLEAN:
        return False
    return all(choice.key != "" for choice in asked.choices)  # an option may be the empty text


def _types(schema: Schema) -> list[JsonValue]:
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else [kinds]


def _read_as_it_is(asked: Field, sent: JsonValue) -> JsonValue:
    return sent


def _read_number(asked: Field, sent: JsonValue) -> JsonValue:
    value = _number_in(sent.strip()) if isinstance(sent, str) else sent
    if asked.type is FieldType.INTEGER and isinstance(value, float) and value.is_integer():
        return _whole(sent.strip()) if isinstance(sent, str) else int(value)
    return sent if value is None else value


def _whole(text: str) -> int | str:
    """The whole number of at most some 300 digits that is written with a point or an exponent, each
    digit of it; `text` where it is none.
    """
    # Few questions need it, and it takes time to load.
    from decimal import Decimal, InvalidOperation

    try:
        exact = Decimal(text)  # of any exponent without computing it
    except InvalidOperation:  # but for those of twenty digits
        return text
    return int(exact) if exact == exact.to_integral_value() else text


def _number_in(text: str) -> int | float | None:
    if "_" in text:  # Python would take 1_000
        return None
    try:
        return int(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            value = float(text)
            return value if math.isfinite(value) else None
    return None


_YES_NO = {"true": True, "yes": True, "false": False, "no": False}


def read_boolean(sent: JsonValue) -> JsonValue:
    """A yes or no, also as a word; anything else as it came."""
    return _YES_NO.get(sent.strip().lower(), sent) if isinstance(sent, str) else sent


def _read_boolean(asked: Field, sent: JsonValue) -> JsonValue:
    return read_boolean(sent)


def _read_choice(asked: Field, sent: JsonValue) -> JsonValue:
    for choice in asked.choices:
        if schemas.json_equal(sent, choice.key) or schemas.json_equal(sent, choice.value):
            return choice.value
    labelled = [
        choice for choice in asked.choices if isinstance(sent, str) and choice.label == sent.strip()
    ]
    return labelled[0].value if len(labelled) == 1 else sent


def _read_choices(asked: Field, sent: JsonValue) -> JsonValue:
    if isinstance(sent, list):
        return [_read_choice(asked, item) for item in sent]
    if not isinstance(sent, str):
        return sent
    items = [part.strip() for part in sent.split(",") if part.strip()]
    if _is_option(asked, sent):
        if len(items) > 1 and all(_is_option(asked, item) for item in items):
            return sent  # one option with a comma in it, or several
        items = [sent]
    return [_read_choice(asked, item) for item in items]


def _is_option(asked: Field, sent: str) -> bool:
    value = _read_choice(asked, sent)
    return any(schemas.json_equal(value, choice.value) for choice in asked.choices)


def _read_json(asked: Field, sent: JsonValue) -> JsonValue:
    if not isinstance(sent, str):
        return sent
    try:
        value = json_text.parse(sent)
    except ValueError:
        return sent
    if schemas.is_valid(sent, asked.schema) and not schemas.is_valid(value, asked.schema):
        return sent
    return value


def _read_list(asked: Field, sent: JsonValue) -> JsonValue:
    """Each entry as its columns read it; what no column has stays, for the check to find."""
    entries = _read_json(asked, sent)
    names = {each.name for each in asked.columns}
    if not isinstance(entries, list):
        return entries
    return [
        {name: value for name, value in each.items() if name not in names}
        | _read_fields(asked.columns, each)
        if isinstance(each, Mapping)
        else each
        for each in entries
    ]


_READERS = {
    FieldType.TEXT: _read_as_it_is,
    FieldType.NUMBER: _read_number,
    FieldType.INTEGER: _read_number,
    FieldType.BOOLEAN: _read_boolean,
    FieldType.CHOICE: _read_choice,
    FieldType.CHOICES: _read_choices,
    FieldType.LIST: _read_list,
    FieldType.FILE: _read_as_it_is,
    FieldType.JSON: _read_json,
}
