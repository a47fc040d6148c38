"""A page's form, as it was read -> the question to the person who has to send it; and their answer
-> what each control has to hold then.

The other half is `apps/webmcp/form.js`, which reads and sets. Nothing that a page says of its form
is trusted: it is read again before it is sent, and compared with what was accepted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
)
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Missing, Question
from abp_bridge.core.secret_names import holds_secret
from abp_bridge.errors import RemoteProtocolError
from abp_bridge.protocols.abp.questions import FILE
from abp_bridge.protocols.schema_fields import MAX_FIELDS, decode_field

SEND = "send"  # the one field of a form in which nothing can be changed
MAX_SHOWN = 200  # characters of a value that is only shown
MAX_FIXED = 60  # characters of a hidden value; a longer one is a key of the page's, and no words
OWN_MADE = "?"  # the type of a control that a page made itself
_SECRET_TOKENS = {"current-password", "new-password", "one-time-code"}
_CARD: Final = "cc-"
_NUMBERS = {"number", "range"}
_MARKED = {"checkbox", "radio"}
_CHOSEN = {"select-one", "select-multiple"}
# What the browser takes there, and how it is said.
_PATTERNS = {
    "time": (r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,3})?)?$", "as HH:MM"),
    "month": (r"^[0-9]{4,}-(0[1-9]|1[0-2])$", "as YYYY-MM"),
    "week": (r"^[0-9]{4,}-W[0-5][0-9]$", "as YYYY-Www"),
    "datetime-local": (
        r"^[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?$",
        "as YYYY-MM-DDTHH:MM",
    ),
    "color": (r"^#[0-9a-f]{6}$", "as #rrggbb"),
}
_FORMATS = {"date": "date", "email": "email", "url": "uri"}


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

    @property
    def title(self) -> str:
        """What it is called, safe to show."""
        return sanitize.label(self.label) or sanitize.label(self.name)

    @property
    def secret(self) -> bool:
        """Whether it asks for a secret, by what it is and not by its words."""
        tokens = self.autocomplete
        named = any(each in _SECRET_TOKENS or each.startswith(_CARD) for each in tokens)
        return self.type == "password" or named

    @property
    def state(self) -> JsonValue:
        """What it holds: a text, whether it is marked, or the values that are chosen."""
        if self.type in _MARKED:
            return self.checked
        if self.type in _CHOSEN:
            return [each.value for each in self.options if each.selected]
        return self.value.replace("\r\n", "\n")

    @property
    def shape(self) -> JsonValue:
        """What it is, whatever it holds."""
        return [self.type, self.name, self.label, self.fixed, [each.label for each in self.options]]


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
            apart = "" if each.type in _MARKED else str(place)
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
        controls: They.
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
    def is_group(self) -> bool:
        """Whether several boxes may be marked."""
        return self.first.type == "checkbox" and len(self.controls) > 1


# --- reading --------------------------------------------------------------------------------------


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


# --- asking ---------------------------------------------------------------------------------------


def make_question(
    form: Form, *, id: str, origin: str, description: str, call: str, note: str = ""
) -> Question:
    """The question whether a form is sent, and with what.

    Args:
        form: As it is now: what it holds is what is proposed.
        id: The question's own.
        origin: Of the form's frame.
        description: The page's words of what the tool does.
        call: Which call it is about.
        note: What else the bridge has to say.

    Raises:
        RemoteProtocolError: It cannot be put to anybody.
    """
    fields = [_field(each) for each in form.entries() if not each.is_fixed]
    if len(fields) == 1 and fields[0].type is FieldType.BOOLEAN:
        fields = [_with_or_without(fields[0])]
    nothing = Field(SEND, FieldType.BOOLEAN, {"type": "boolean"}, title="Send")
    return Question(
        id,
        Kind.INPUT if fields else Kind.CONFIRM,
        sanitize.message(description) or "Please fill this in.",
        tuple(fields) or (nothing,),
        origin,
        calls=(call,),
        wrapped=False,
        destructive=True,
        presumed=True,
        note=" ".join(filter(None, (note, _describe_sending(form, origin)))),
    )


def make_confirm(question: Question, form: Form, states: Mapping[int, JsonValue]) -> Question:
    """Whether a form is really sent so, where an answer left something out that stood there."""
    lines = [
        f"{each.first.title}: {_show(each, states)}"
        for each in form.entries()
        if not (each.is_fixed or each.is_file or each.first.secret)
    ]
    field = Field(SEND, FieldType.BOOLEAN, {"type": "boolean"}, title="Send")
    words = "\n".join([question.message, "", "It would be sent with:", *lines])
    return replace(
        question, kind=Kind.CONFIRM, message=sanitize.message(words), fields=(field,), note=""
    )


def _describe_sending(form: Form, origin: str) -> str:
    """What happens on a yes, and what goes with it that nobody can change, in the bridge's words
    and the page's in quotes.
    """
    button = f" with its button {_quote(form.button)}" if form.button else ""
    elsewhere = "" if form.address.startswith(f"{origin}/") else f" to {_quote(form.address)}"
    words = f"If you accept, the form is sent{button}{elsewhere if form.address else ''}."
    fixed = [f"{each.title} {_fixed(each)}" for each in form.controls if each.fixed]
    fixed += [_fixed_button(*form.marked)] if form.marked else []
    shown = ", ".join(fixed[:MAX_FIELDS])
    return f"{words} It also sends what cannot be changed here: {shown}." if fixed else words


def _fixed(control: Control) -> str:
    """A value that nobody can change; a long one that is hidden is a key, and not for showing."""
    state = control.state
    words = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
    if control.secret or holds_secret(control.name):
        return "(not shown)"
    if control.type == OWN_MADE:
        return "(not known)"
    if control.type == "hidden" and len(words) > MAX_FIXED:
        return f"({len(words)} characters, not shown)"
    return _quote(words)


def _fixed_button(name: str, value: str) -> str:
    button = Control("submit", name, value, fixed=True)
    return f"{button.title} {_fixed(button)}"


def _quote(words: str) -> str:
    return json.dumps(sanitize.label(words, MAX_SHOWN), ensure_ascii=False)


def _show(entry: Entry, states: Mapping[int, JsonValue]) -> str:
    """What an entry would be sent with, in one line."""
    held = [(each, states[at]) for at, each in zip(entry.places, entry.controls, strict=True)]
    if entry.first.type in _MARKED:
        marked = [each.label or each.value for each, state in held if state is True]
        alone = entry.first.type == "checkbox" and not entry.is_group
        words = ", ".join(["yes"] if alone and marked else marked)
    elif entry.first.type in _CHOSEN:
        chosen = as_list(held[0][1])
        words = ", ".join(each.label for each in entry.first.options if each.value in chosen)
    else:
        words = as_text(held[0][1])
    return _quote(words) if words else "(nothing)"


def _with_or_without(field: Field) -> Field:
    """A lone yes or no as a choice: a no to it would be taken for a no to the sending."""
    label = field.label
    schema: JsonObject = {
        "oneOf": [
            {"const": True, "title": f"Send with: {label}"},
            {"const": False, "title": f"Send without: {label}"},
        ]
    }
    made = decode_field(field.name, schema, required=True)
    return replace(made, title=field.title, description=field.description)


def _field(entry: Entry) -> Field:
    """What is asked for an entry, with what it holds as the default."""
    first = entry.first
    schema = _schema(entry)
    description = [first.description, *_hints(entry)]
    named: JsonObject = {
        **schema,
        "title": f"Give a file: {first.title}" if entry.is_file else _title(entry),
        "description": " ".join(filter(None, description)),
    }
    if first.secret:
        unset = first.value == ""
        made = decode_field(entry.key, named, required=first.required and unset)
        return replace(made, secret=True, default=MISSING)
    proposed = _proposed(entry)
    given: JsonObject = {} if proposed is MISSING else {"default": proposed}
    made = decode_field(entry.key, {**named, **given}, required=_is_required(entry))
    plain = proposed not in (MISSING, "", [], False) and made.default is MISSING
    if plain and not made.description.endswith(")"):
        words = f"{made.description} (It holds {_quote(str(proposed))} now.)".strip()
        return replace(made, description=words)
    return made


def _title(entry: Entry) -> str:
    """What it is called: several boxes, or buttons, by their name, as each has its own words."""
    several = entry.is_group or entry.first.type == "radio"
    return entry.first.name if several else entry.first.title


def _is_required(entry: Entry) -> bool:
    if entry.first.type == "select-one":
        return True  # something is always chosen
    if entry.is_group or entry.first.type == "select-multiple":
        return False  # the browser says which of them have to be
    return any(each.required for each in entry.controls) and not entry.is_file


def _proposed(entry: Entry) -> JsonValue | Missing:
    """What an entry holds, as an answer to its field; MISSING for nothing."""
    first = entry.first
    if entry.is_file:
        return False
    if first.type == "radio":
        return next((each.value for each in entry.controls if each.checked), MISSING)
    if entry.is_group:
        return [each.value for each in entry.controls if each.checked]
    if first.type == "checkbox":
        return first.checked
    chosen = [each.value for each in first.options if each.selected]
    if first.type == "select-multiple":
        return chosen
    if first.type == "select-one":
        return chosen[0] if chosen else MISSING
    if first.type in _NUMBERS:
        return _number(first.value)
    return first.value or MISSING


def _number(text: str) -> JsonValue | Missing:
    try:
        value = float(text)
    except ValueError:
        return MISSING
    return _plain(value)


def _plain(value: float) -> int | float:
    """A number as people write it: 8, not 8.0."""
    return int(value) if value.is_integer() else value


def _schema(entry: Entry) -> dict[str, JsonValue]:
    """What an entry takes: its form's own constraints."""
    first = entry.first
    if entry.is_file:
        return {"type": "boolean"}
    if first.type == "radio" or entry.is_group:
        return _several([(each.value, each.label) for each in entry.controls], entry.is_group)
    if first.type == "checkbox":
        return {"type": "boolean", **({"const": True} if first.required else {})}
    if first.type in _CHOSEN:
        options = [each for each in first.options if not each.disabled]
        listed = [(each.value, each.label) for each in options if each.value or not first.required]
        return _several(listed, first.type == "select-multiple")
    if first.type in _NUMBERS:
        return _number_schema(first.limits)
    schema: dict[str, JsonValue] = {"type": "string"}
    for word in ("minLength", "maxLength"):
        if (count := as_count(first.limits.get(word))) is not None:
            schema[word] = count
    if first.type in _PATTERNS:
        schema["pattern"] = _PATTERNS[first.type][0]
    elif first.type in _FORMATS and "," not in first.value:
        schema["format"] = _FORMATS[first.type]
    if pattern := as_text(first.limits.get("pattern")):
        schema["pattern"] = f"^(?:{pattern})$"
    return schema


def _several(listed: Sequence[tuple[str, str]], several: bool) -> dict[str, JsonValue]:
    options: list[JsonValue] = [
        {"const": value, "title": label or value or "(empty)"} for value, label in listed
    ]
    one: dict[str, JsonValue] = {"oneOf": options} if options else {"enum": [""]}
    return {"type": "array", "items": one, "uniqueItems": True} if several else one


def _number_schema(limits: JsonObject) -> dict[str, JsonValue]:
    least, most = (_limit(limits, word) for word in ("min", "max"))
    step = as_text(limits.get("step"), "1")
    whole = step in ("", "1") and (least is None or least.is_integer())
    schema: dict[str, JsonValue] = {"type": "integer" if whole else "number"}
    schema |= {} if least is None else {"minimum": _plain(least)}
    return schema | ({} if most is None else {"maximum": _plain(most)})


def _limit(limits: JsonObject, word: str) -> float | None:
    value = _number(as_text(limits.get(word)))
    return as_number(value) if isinstance(value, (int, float)) else None


def _hints(entry: Entry) -> list[str]:
    """What a field's schema does not say of its limits."""
    first, limits = entry.first, entry.first.limits
    said = [_PATTERNS[first.type][1]] if first.type in _PATTERNS else []
    if first.type not in _NUMBERS:
        said += [f"from {limits['min']}"] if "min" in limits else []
        said += [f"to {limits['max']}"] if "max" in limits else []
    step = as_text(limits.get("step"))
    said += [f"in steps of {step}"] if step not in ("", "any", "1") else []
    if entry.is_file and first.required:
        said.append("the form needs one")
    words = sanitize.label(", ".join(said), MAX_SHOWN)
    return [f"({words})"] if words else []


# --- what the answer comes to ---------------------------------------------------------------------


def answered_states(form: Form, content: JsonObject) -> dict[int, JsonValue]:
    """What each control has to hold when the form is sent as it was answered.

    What was left empty is empty then; a secret or a file that was, stays as it is.
    """
    states: dict[int, JsonValue] = {at: each.state for at, each in enumerate(form.controls)}
    for entry in form.entries():
        kept = entry.is_fixed or entry.is_file
        kept = kept or (entry.first.secret and entry.key not in content)
        if not kept:
            states |= _states(entry, content.get(entry.key))
    return states


def _states(entry: Entry, value: JsonValue) -> dict[int, JsonValue]:
    first = entry.first
    if first.type == "radio":
        if value is None:  # no button can be taken back
            return {}
        marks = [each.value == value for each in entry.controls]
        return dict(zip(entry.places, marks, strict=True))
    if first.type == "checkbox":
        given = as_list(value) if entry.is_group else ([first.value] if value is True else [])
        marks = [each.value in given for each in entry.controls]
        return dict(zip(entry.places, marks, strict=True))
    [place] = entry.places
    if first.type in _CHOSEN:
        wanted = list(as_list(value)) if first.type == "select-multiple" else [value]
        return {place: [each.value for each in first.options if each.value in wanted]}
    if value is None:
        return {place: ""}
    return {place: value if isinstance(value, str) else json.dumps(value)}


def emptied(form: Form, content: JsonObject) -> list[str]:
    """What stood in the form and an answer left out, by its title: some hosts leave out what was
    not touched, and others what was taken out.
    """
    return [
        each.first.title
        for each in form.entries()
        if not (each.is_fixed or each.is_file or each.first.secret)
        and each.first.type != "radio"
        and each.key not in content
        and any(control.state not in ("", [], False) for control in each.controls)
    ]


def files_wanted(form: Form, content: JsonObject) -> list[Entry]:
    """The entries for which a file is to be asked."""
    wanted = [each for each in form.entries() if each.is_file and not each.is_fixed]
    return [each for each in wanted if content.get(each.key) is True or each.first.required]


def read_file(content: JsonObject) -> tuple[str, bytes]:
    """The name and the bytes of a file that was given: a name that leads nowhere else."""
    given = as_object(content.get(FILE))
    name = as_text(given.get("filename")).replace("\\", "/").rpartition("/")[2]
    name = sanitize.label(name, 120).lstrip(".") or "file"
    text = as_text(given.get("content"))
    return name, base64.b64decode(text) if "encoding" in given else text.encode()


def changed_places(form: Form, states: Mapping[int, JsonValue]) -> list[int]:
    """The controls that do not hold what they have to, by their place."""
    return [
        at
        for at, each in enumerate(form.controls)
        if each.type != "file" and at in states and not _is_same(each, states[at])
    ]


def _is_same(control: Control, state: JsonValue) -> bool:
    if control.type in _NUMBERS and isinstance(state, str):
        return _number(control.value) == _number(state)
    return control.state == state


def make_arguments(
    form: Form, states: Mapping[int, JsonValue], schema: JsonObject
) -> dict[str, JsonValue]:
    """What the tool is called with to hold `states`, as far as it takes that: nothing that is
    empty, fixed or a secret.
    """
    takes = as_object(schema.get("properties"))
    made: dict[str, JsonValue] = {}
    for entry in form.entries():
        first, place = entry.first, entry.places[0]
        if entry.first.name not in takes or entry.is_fixed or first.secret or entry.is_file:
            continue
        value = _argument(entry, {at: states[at] for at in entry.places}, states[place])
        if value not in (None, ""):
            made[first.name] = value
    return made


def _argument(entry: Entry, states: Mapping[int, JsonValue], state: JsonValue) -> JsonValue:
    first = entry.first
    if first.type in _MARKED:
        pairs = zip(entry.controls, states.values(), strict=True)
        marked: list[JsonValue] = [each.value for each, on in pairs if on is True]
        if entry.is_group:
            return marked
        return state is True if first.type == "checkbox" else (marked[0] if marked else None)
    if first.type in _CHOSEN:
        chosen = as_list(state)
        return list(chosen) if first.type == "select-multiple" else (chosen or [None])[0]
    number = _number(as_text(state)) if first.type in _NUMBERS else MISSING
    return state if number is MISSING else number


def show_sent(form: Form) -> dict[str, JsonValue]:
    """What a form holds, without secrets, for who has to know what was sent."""
    return {
        each.key: [one.value for one in each.controls if one.checked]
        if each.first.type in _MARKED
        else each.first.state
        for each in form.entries()
        if not (each.first.secret or each.is_fixed or each.is_file)
    }
