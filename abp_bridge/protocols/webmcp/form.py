"""A page's form as it was read: its controls, the button that sends it, what goes together.

The other half is `apps/webmcp/form.js`, which reads and sets. Nothing that a page says of its form
is trusted: it is read again before it is sent, and compared with what was accepted.
`form_question.py` asks its person, and `form_answer.py` says what their answer comes to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.question import MISSING, Missing
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.schema_fields import MAX_FIELDS

OWN_MADE = "?"  # the type of a control that a page made itself
NUMBERS = {"number", "range"}
MARKED = {"checkbox", "radio"}
CHOSEN = {"select-one", "select-multiple"}
_SECRET_TOKENS = {"current-password", "new-password", "one-time-code"}
_CARD: Final = "cc-"


def once(values: Iterable[str]) -> list[JsonValue]:
    """Each of `values` once: a list may have one twice."""
    return list(dict.fromkeys(values))


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a list. `value` is what is sent."""

    value: str
    label: str
    selected: bool
    disabled: bool


@dataclass(frozen=True, slots=True)
class Control:
    """A control of a form, as it is now.

    Attributes:
        type: What the browser calls it: `text`, `select-one`, `checkbox` ...
        name: What its value is sent as.
        value: What it holds; of what is marked, what is sent then.
        checked: Whether it is marked.
        label: The page's words for it.
        description: What else the page says of it.
        required: Whether it may not be left empty.
        limits: `min`, `max`, `step`, `minLength`, `maxLength`, `pattern`, where they are set.
        autocomplete: What the page says that it is for, a word each.
        accept: What files it takes, as the page has it.
        fixed: Whether nobody can change it: hidden, or only to be read.
        options: What there is to choose.
        problem: Why the browser would not send it.
        holds_secret: Whether it holds what was given as a secret, whatever it asks for.
    """

    type: str
    name: str
    value: str = ""
    checked: bool = False
    label: str = ""
    description: str = ""
    required: bool = False
    limits: JsonObject = field(default_factory=dict)
    autocomplete: tuple[str, ...] = ()
    accept: str = ""
    fixed: bool = False
    options: tuple[Option, ...] = ()
    problem: str = ""
    holds_secret: bool = False

    @property
    def title(self) -> str:
        """What it is called, safe to show."""
        return sanitize.label(self.label) or sanitize.label(self.name)

    @property
    def secret(self) -> bool:
        """Whether it asks for a secret, by what it is and not by its words, or holds one."""
        tokens = self.autocomplete
        named = any(each in _SECRET_TOKENS or each.startswith(_CARD) for each in tokens)
        kept = self.holds_secret and self.type not in MARKED | CHOSEN
        return self.type == "password" or named or kept

    @property
    def state(self) -> JsonValue:
        """What it holds: a text, whether it is marked, or the values that are chosen."""
        if self.type in MARKED:
            return self.checked
        if self.type in CHOSEN:
            return once(each.value for each in self.options if each.selected)
        return self.value.replace("\r\n", "\n")

    @property
    def shape(self) -> JsonValue:
        """What it is, whatever it holds."""
        options = [[each.value, each.label] for each in self.options]
        value = self.value if self.type in MARKED else ""
        return [self.type, self.name, self.label, self.description, self.fixed, value, *options]


@dataclass(frozen=True, slots=True)
class Form:
    """A form as it was read.

    Attributes:
        active: Whether it waits for its person.
        controls: What it would send, in its order.
        button: The words of the button that sends it; empty where it has none.
        marked: The name and the value that this button sends with it; none where it has no name.
        ready: Whether a button of it can be pressed.
        frames: Whose frames are in it, to be seen: the origin of each, empty where it has none.
        address: Where it is sent to.
        way: How: `get`, `post` or `dialog`.
        target: Where its answer is shown, as the page has it.
    """

    active: bool
    controls: tuple[Control, ...]
    button: str = ""
    marked: tuple[str, ...] = ()
    address: str = ""
    way: str = "get"
    target: str = ""
    ready: bool = True
    frames: tuple[str, ...] = ()

    @property
    def stuck(self) -> list[str]:
        """What the browser would not send it for, and nobody here can fill in; safe to show."""
        return [each.title for each in self.controls if each.fixed and each.problem]

    @property
    def shape(self) -> JsonValue:
        """What it is, whatever is filled in."""
        controls = [each.shape for each in self.controls]
        return [controls, self.button, list(self.marked), self.address, self.way, self.target]

    @property
    def problems(self) -> list[str]:
        """Why the browser would not send it, a sentence for each control; safe to show."""
        wrong = [each for each in self.controls if each.problem]
        return [
            f"{each.title}: {'does not fit' if each.secret else sanitize.label(each.problem)}"
            for each in wrong
        ]

    def entries(self) -> list[Entry]:
        """What can be asked of it, in its order: controls of one name that are marked go together.

        Raises:
            RemoteProtocolError: It has more than a person can be asked.
        """
        groups: dict[tuple[str, str], list[int]] = {}
        for place, each in enumerate(self.controls):
            apart = "" if each.type in MARKED else str(place)
            groups.setdefault((f"{each.type}{apart}", each.name), []).append(place)
        if len(groups) > MAX_FIELDS:
            raise RemoteProtocolError(
                f"a form may have at most {MAX_FIELDS} fields to be asked, not {len(groups)}"
            )
        found: list[Entry] = []
        used: set[str] = set()
        for (_, name), places in groups.items():
            key, number = name, 2
            while key in used:
                key, number = f"{name} ({number})", number + 1
            used.add(key)
            found.append(Entry(key, tuple(places), tuple(self.controls[at] for at in places)))
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One or more controls that are one thing to fill in.

    Attributes:
        key: What the question calls it.
        places: Where they stand in the form.
        controls: The controls themselves, in the same order.
    """

    key: str
    places: tuple[int, ...]
    controls: tuple[Control, ...]

    @property
    def first(self) -> Control:
        """The control that speaks for all."""
        return self.controls[0]

    @property
    def is_file(self) -> bool:
        """Whether it takes a file."""
        return self.first.type == "file"

    @property
    def is_fixed(self) -> bool:
        """Whether nobody can change any of it."""
        return all(each.fixed for each in self.controls)

    @property
    def marks(self) -> list[str]:
        """What an answer calls each of them that may be marked: its value, and a number where one
        before has the same.
        """
        found: list[str] = []
        for each in self.controls:
            mark, number = each.value, 2
            while mark in found:
                mark, number = f"{each.value} ({number})", number + 1
            found.append(mark)
        return found

    @property
    def marked(self) -> list[str]:
        """What is marked, as an answer calls it."""
        pairs = zip(self.marks, self.controls, strict=True)
        return [mark for mark, each in pairs if each.checked]

    @property
    def is_group(self) -> bool:
        """Whether several boxes may be marked."""
        return self.first.type == "checkbox" and len(self.controls) > 1


def decode_page_form(raw: JsonValue) -> Form:
    """What form.js read -> Form; whatever a page made of it."""
    said = as_object(raw)
    button = as_object(said.get("submit"))
    name, value = as_text(button.get("name")), as_text(button.get("value"))
    controls = map(_decode_control, map(as_object, as_list(said.get("controls"))))
    return Form(
        active=said.get("active") is True,
        controls=tuple(each for each in controls if each.name),
        button=sanitize.label(as_text(button.get("text")) or value, 80),
        marked=(name, value) if name else (),
        address=as_text(said.get("action")),
        way=as_text(said.get("method")),
        target=as_text(said.get("target")),
        ready=said.get("submit") is not None,
        frames=tuple(map(as_text, as_list(said.get("frames")))),
    )


_LIMITS = ("min", "max", "step", "minLength", "maxLength", "pattern")


def _decode_control(said: JsonObject) -> Control:
    options = map(as_object, as_list(said.get("options")))
    return Control(
        type=as_text(said.get("type"), OWN_MADE),
        name=as_text(said.get("name")),
        value=as_text(said.get("value")),
        checked=said.get("checked") is True,
        label=as_text(said.get("label")),
        description=as_text(said.get("description")),
        required=said.get("required") is True,
        limits={word: said[word] for word in _LIMITS if said.get(word) not in (None, "")},
        autocomplete=tuple(as_text(said.get("autocomplete")).lower().split()),
        accept=as_text(said.get("accept")),
        fixed=said.get("fixed") is True,
        options=tuple(
            Option(
                as_text(each.get("value")),
                as_text(each.get("label")),
                each.get("selected") is True,
                each.get("disabled") is True,
            )
            for each in options
        ),
        problem=as_text(said.get("problem")),
    )


def withheld_controls(form: Form) -> set[str]:
    """The names of what no model may fill in: secrets, files, and what is fixed."""
    return {each.name for each in form.controls if each.secret or each.fixed or each.type == "file"}


def parse_number(text: str) -> JsonValue | Missing:
    """What a control of numbers holds, as a number; MISSING where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return MISSING
    return plain_number(value)


def plain_number(value: float) -> int | float:
    """A number as people write it: 8, not 8.0."""
    return int(value) if value.is_integer() else value
