"""What an app asks its user, in the terms of no protocol."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_text
from abp_bridge.core.schema import Schema

# Said with a question by what has no other mark for it; MCP's forms are known again by it.
IRREVERSIBLE = "This cannot be undone, says who asks."
# The same, where who asks has said nothing of it.
PRESUMED = "Nothing says that this can be undone."

BRIDGE = "abp-bridge"  # who asks what no app does
QUOTE = "> "  # begins each line of others' words, where the bridge's own stand beside them
MAX_MESSAGE = 100_000  # characters that somebody can be shown; nobody reads as many
UNASKED = "Nobody could be asked: "  # begins the reason of a question that no surface asks


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
    BROWSER = "browser"  # that a page is opened, or used in a browser of the user's own
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
    """An option.

    `key` is its value as text, unique in its field; `whole` is the full label if `label` is cut.
    """

    value: JsonValue
    key: str
    label: str
    description: str = ""
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a question.

    `schema` is the app's, normalized; `default` fits it. `title` and `description` are safe to
    show.
    `accept` are a file's MIME types, empty for any. `empty` is the value of an empty field (null or
    nothing). `columns` are the fields of a list's entries.
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
    """An app's question to the user.

    Attributes:
        id: The bridge's id, used once.
        kind: Its kind.
        message: The app's words, safe to show.
        fields: In the app's order; empty for sampling.
        origin: The requester's address or command, safe to show.
        wrapped: Whether the app wants the only field's value, not an object.
        default: The app's default of a preference.
        destructive: Whether a yes cannot be undone, as the app says.
        presumed: Whether `destructive` is only presumed until a tool's annotations say otherwise.
        link: The address to open, safe to show; it may grant access.
        permits: What a yes permits, if the bridge asks; None for an app's question.
        whole: The app's schema of all fields together.
        note: A remark of the bridge.
        request: The raw parameters, for a resource or sampling.
        uncut: The whole message if `message` is cut and the user has to see all; surfaces that
            cannot
            show it do not ask.
    """

    id: str
    kind: Kind
    message: str
    fields: tuple[Field, ...]
    origin: str
    wrapped: bool = True
    default: JsonValue | Missing = MISSING
    destructive: bool = False
    presumed: bool = False
    link: str = ""
    permits: Permission | None = None
    whole: Schema = field(default_factory=dict)
    note: str = ""
    request: JsonObject = field(default_factory=dict)
    uncut: str = ""

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
        """Return the message beside the bridge's lines: several lines are marked as a quote."""
        if self.permits or self.consents or "\n" not in self.message:
            return self.message
        return quote(self.message)

    @property
    def summary(self) -> str:
        """Return the message for lists of questions; the bridge's own without its details."""
        return self.message.partition("\n\n")[0] if self.permits else self.message

    def introduce(self, words: str) -> str:
        """`words`, which end with a colon, and the message after them."""
        quoted = self.quoted
        return f"{words}{' ' if quoted == self.message else chr(10)}{quoted}"

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
        """Return the warning of a destructive yes, or ""."""
        if not self.destructive or (self.presumed and self.kind is not Kind.CONFIRM):
            return ""
        return PRESUMED if self.presumed else IRREVERSIBLE

    @property
    def consents(self) -> bool:
        """Whether it asks for consent: to a call, a browser, or reading a named file."""
        return self.permits in (Permission.CALL, Permission.BROWSER) or (
            self.kind is Kind.RESOURCE
            and [each.type for each in self.fields] == [FieldType.BOOLEAN]
        )


def quote(words: str) -> str:
    """Words of others, each line with a mark that no line of the bridge's own has."""
    return "\n".join(f"{QUOTE}{line}".rstrip() for line in words.split("\n"))


def read_introduced(words: str) -> str:
    """Return the message that `Question.introduce` quoted, without its marks."""
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
