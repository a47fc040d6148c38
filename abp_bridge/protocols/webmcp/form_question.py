"""A page's form -> the question whether to send it, and the answer -> the form's state and call."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

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
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.words import count_of
from abp_bridge.protocols.abp.questions import FILE
from abp_bridge.protocols.schema_fields import MAX_FIELDS, decode_field
from abp_bridge.protocols.webmcp.form import (
    CHOSEN,
    MARKED,
    NUMBERS,
    Control,
    Entry,
    Form,
    mention,
    once,
    parse_number,
    plain_number,
    with_plain_ends,
)

SEND = "send"  # the one field of a form in which nothing can be changed
MAX_FIXED = 60  # characters of a hidden value; a longer one is a key of the page's, and no words
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


def make_question(
    form: Form,
    *,
    id: str,
    origin: str,
    description: str,
    note: str = "",
    places: Collection[int] | None = None,
) -> Question:
    """Return the question whether to send a form, and with what.

    Args:
        form: Its current state gives the defaults.
        id: The question's id.
        origin: Of the form's frame.
        description: The page's description of the tool.
        note: A note of the bridge.
        places: The controls to ask for, if not all.

    Raises:
        RemoteProtocolError: It cannot be shown.
    """
    asked = [each for each in form.entries(places) if not each.is_fixed]
    fields = [_field(each) for each in asked]
    if len(fields) == 1 and fields[0].type is FieldType.BOOLEAN:
        fields = [_with_or_without(fields[0], _title(asked[0]))]
    nothing = Field(SEND, FieldType.BOOLEAN, {"type": "boolean"}, title="Send")
    return Question(
        id,
        Kind.INPUT if fields else Kind.CONFIRM,
        sanitize.message(description) or "Please fill this in.",
        tuple(fields) or (nothing,),
        origin,
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
    """Say what a yes does and which fixed values are sent, with the page's text in quotes."""
    button = f" with its button {_quote(form.button)}" if form.button else ""
    elsewhere = "" if form.address.startswith(f"{origin}/") else f" to {_quote(form.address)}"
    words = f"If you accept, the form is sent{button}{elsewhere if form.address else ''}."
    return " ".join(filter(None, (words, describe_unasked(form))))


def describe_unasked(form: Form) -> str:
    """What a form sends, or keeps back, that nobody can change, as sentences; empty for nothing."""
    fixed = [f"{mention(each.title)} {_fixed(each)}" for each in form.unasked]
    fixed += [_fixed_button(*form.marked)] if form.marked else []
    more = len(fixed) - MAX_FIELDS
    shown = ", ".join([*fixed[:MAX_FIELDS], *([f"and {more} more"] if more > 0 else [])])
    omitted = ", ".join(map(mention, form.omissions[:MAX_FIELDS]))
    told = [
        f"It also sends what cannot be changed here: {shown}." if fixed else "",
        f"Its page does not send as it stands: {omitted}." if omitted else "",
    ]
    return " ".join(filter(None, told))


def _fixed(control: Control) -> str:
    """A value that nobody can change; a long one that is hidden is a key, and not for showing."""
    state = control.state
    words = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
    if control.secret or holds_secret(control.name):
        return "(not shown)"
    if control.type == "file":
        return f"(a file, {_quote(words)})"
    if control.type == "hidden" and len(words) > MAX_FIXED:
        return f"({count_of(len(words), 'character')}, not shown)"
    return _quote(words)


def _fixed_button(name: str, value: str) -> str:
    button = Control("submit", name, value, fixed=True)
    return f"{mention(button.title)} {_fixed(button)}"


def _quote(words: str) -> str:
    return json.dumps(sanitize.label(words), ensure_ascii=False)


def _show(entry: Entry, states: Mapping[int, JsonValue]) -> str:
    """What an entry would be sent with, in one line."""
    held = [(each, states[at]) for at, each in zip(entry.places, entry.controls, strict=True)]
    if entry.first.type in MARKED:
        marked = [each.label or each.value for each, state in held if state is True]
        alone = entry.first.type == "checkbox" and not entry.is_group
        words = ", ".join(["yes"] if alone and marked else marked)
    elif entry.first.type in CHOSEN:
        chosen = as_list(held[0][1])
        words = ", ".join(each.label for each in entry.first.options if each.value in chosen)
    else:
        words = as_text(held[0][1])
    return _quote(words) if words else "(nothing)"


def _with_or_without(field: Field, label: str) -> Field:
    """A lone yes or no as a choice: a no to it would be taken for a no to the sending."""
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
        "title": _title(entry),
        "description": " ".join(filter(None, description)),
    }
    made = _decode(entry, named)
    whole = sanitize.message(_beyond_title(entry), sanitize.MESSAGE_LIMIT)
    return replace(made, description=" ".join(filter(None, (whole, made.description))))


def _decode(entry: Entry, named: JsonObject) -> Field:
    first = entry.first
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
    """Return an entry's full title; several boxes use their name, as each has its own label."""
    if entry.is_file:
        return f"Give a file: {entry.first.full_title}"
    several = entry.is_group or entry.first.type == "radio"
    return entry.first.name if several else entry.first.full_title


def _beyond_title(entry: Entry) -> str:
    """Return the whole title if it was cut: the user reads all they agree to."""
    title = _title(entry)
    return "" if sanitize.label(title, sanitize.MESSAGE_LIMIT) == sanitize.label(title) else title


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
        return next(iter(entry.marked), MISSING)
    if entry.is_group:
        return list(entry.marked)
    if first.type == "checkbox":
        return first.checked
    chosen = [each.value for each in first.options if each.selected]
    if first.type == "select-multiple":
        return chosen
    if first.type == "select-one":
        return chosen[0] if chosen else MISSING
    if first.type in NUMBERS:
        return parse_number(first.value)
    return first.value or MISSING


def _schema(entry: Entry) -> dict[str, JsonValue]:
    """What an entry takes: its form's own constraints."""
    first = entry.first
    if entry.is_file:
        return {"type": "boolean"}
    if first.type == "radio" or entry.is_group:
        labels = [each.label or each.value for each in entry.controls]
        return _several(list(zip(entry.marks, labels, strict=True)), entry.is_group)
    if first.type == "checkbox":
        return {"type": "boolean", **({"const": True} if first.required else {})}
    if first.type in CHOSEN:
        options = [each for each in first.options if not each.disabled]
        listed = [(each.value, each.label) for each in options if each.value or not first.required]
        return _several(listed, first.type == "select-multiple")
    if first.type in NUMBERS:
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
    titles: dict[str, list[str]] = {}
    for value, label in listed:  # a list may name one thing twice: its favourites first
        titles.setdefault(value, []).append(label or value or "(empty)")
    options: list[JsonValue] = [
        {"const": value, "title": " / ".join(dict.fromkeys(each))} for value, each in titles.items()
    ]
    one: dict[str, JsonValue] = {"oneOf": options} if options else {"enum": [""]}
    return {"type": "array", "items": one, "uniqueItems": True} if several else one


def _number_schema(limits: JsonObject) -> dict[str, JsonValue]:
    least, most = (_limit(limits, word) for word in ("min", "max"))
    step = as_text(limits.get("step"), "1")
    whole = step in ("", "1") and (least is None or least.is_integer())
    schema: dict[str, JsonValue] = {"type": "integer" if whole else "number"}
    schema |= {} if least is None else {"minimum": plain_number(least)}
    return schema | ({} if most is None else {"maximum": plain_number(most)})


def _limit(limits: JsonObject, word: str) -> float | None:
    value = parse_number(as_text(limits.get(word)))
    return as_number(value) if isinstance(value, (int, float)) else None


def _hints(entry: Entry) -> list[str]:
    """What a field's schema does not say of its limits."""
    first, limits = entry.first, entry.first.limits
    said = [_PATTERNS[first.type][1]] if first.type in _PATTERNS else []
    if first.type not in NUMBERS:
        said += [f"from {limits['min']}"] if "min" in limits else []
        said += [f"to {limits['max']}"] if "max" in limits else []
    step = as_text(limits.get("step"))
    said += [f"in steps of {step}"] if step not in ("", "any", "1") else []
    if entry.is_file and first.required:
        said.append("the form needs one")
    words = sanitize.label(", ".join(said))
    return [f"({words})"] if words else []


_TIMES = {"time", "datetime-local"}


def answered_states(
    form: Form, content: JsonObject, places: Collection[int] | None = None
) -> dict[int, JsonValue]:
    """Return each control's state; an empty field is cleared, an empty secret or file kept.

    `places` are the controls that were asked for, if not all.
    """
    states: dict[int, JsonValue] = {at: each.state for at, each in enumerate(form.controls)}
    for entry in form.entries(places):
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
        marks = [each == value for each in entry.marks]
        return dict(zip(entry.places, marks, strict=True))
    if first.type == "checkbox":
        given = as_list(value) if entry.is_group else (entry.marks if value is True else [])
        marks = [each in given for each in entry.marks]
        return dict(zip(entry.places, marks, strict=True))
    [place] = entry.places
    if first.type in CHOSEN:
        wanted = list(as_list(value)) if first.type == "select-multiple" else [value]
        return {place: once(each.value for each in first.options if each.value in wanted)}
    if value is None:
        return {place: ""}
    return {place: value if isinstance(value, str) else json.dumps(value)}


def find_left_out(form: Form, content: JsonObject) -> list[str]:
    """Return the titles of filled fields that an answer omits: hosts omit untouched or cleared
    ones.
    """
    return [
        each.first.title
        for each in form.entries()
        if not (each.is_fixed or each.is_file or each.first.secret)
        and each.first.type != "radio"
        and each.key not in content
        and any(control.state not in ("", [], False) for control in each.controls)
    ]


def find_missing(form: Form) -> list[int]:
    """Return the places of required controls that no call fills in: secrets and unnamed ones."""
    return [
        at
        for at, each in enumerate(form.controls)
        if each.problem
        and not each.fixed
        and each.type != "file"
        and (each.secret or not each.name)
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


def find_changes(shown: Form, now: Form, given: Collection[str]) -> list[str]:
    """Return the names of fixed values that changed since the user saw them, safe to show.

    Args:
        shown: The form as the user saw it.
        now: The form as it would be sent.
        given: The files given since.
    """
    before, after = (
        Counter(
            [(each.name, each.value) for each in form.unasked if not _is_given(each, given)]
            + [("", title) for title in form.omissions]
        )
        for form in (shown, now)
    )
    changed = (before - after) + (after - before)
    return sorted({mention(sanitize.label(name or value, 80)) for name, value in changed})


def _is_given(sent: Control, given: Collection[str]) -> bool:
    return sent.type == "file" and sent.name in given


def _is_same(control: Control, state: JsonValue) -> bool:
    """Whether it holds that, however the browser spells it."""
    if not isinstance(state, str):
        return control.state == state
    if control.type in NUMBERS:
        if json.dumps(_number_or_none(control.value)) == state:
            return True  # it was proposed so: a script's numbers have fewer digits
        return _exact_number(control.value) == _exact_number(state)
    if control.type in _TIMES:
        return _shortest_time(control.value) == _shortest_time(state)
    return with_plain_ends(as_text(control.state)) == with_plain_ends(state)


def _number_or_none(text: str) -> JsonValue:
    number = parse_number(text)
    return None if number is MISSING else number


def _exact_number(text: str) -> Decimal | None:
    number = _number_or_none(text)
    try:
        return None if number is None else Decimal(text)
    except ArithmeticError:  # an exponent beyond all
        return Decimal(f"{number}")


def _shortest_time(text: str) -> str:
    """Without seconds where they are none, as a browser may spell it."""
    whole, _, part = text.partition(".")
    if part := part.rstrip("0"):
        return f"{whole}.{part}"
    return whole.removesuffix(":00") if whole.count(":") == 2 else whole


def make_arguments(
    form: Form, states: Mapping[int, JsonValue], schema: JsonObject
) -> dict[str, JsonValue]:
    """Return the tool's arguments for `states`, without empty, fixed and secret values."""
    takes = as_object(schema.get("properties"))
    made: dict[str, JsonValue] = {}
    for entry in form.entries():
        first, place = entry.first, entry.places[0]
        if entry.first.name not in takes or entry.is_fixed or first.secret or entry.is_file:
            continue
        if entry.marks != [each.value for each in entry.controls]:  # then the value says too little
            continue
        value = _argument(entry, {at: states[at] for at in entry.places}, states[place])
        if value not in (None, ""):
            made[first.name] = value
    return made


def _argument(entry: Entry, states: Mapping[int, JsonValue], state: JsonValue) -> JsonValue:
    first = entry.first
    if first.type in MARKED:
        pairs = zip(entry.controls, states.values(), strict=True)
        marked: list[JsonValue] = [each.value for each, on in pairs if on is True]
        if entry.is_group:
            return marked
        return state is True if first.type == "checkbox" else (marked[0] if marked else None)
    if first.type in CHOSEN:
        chosen = as_list(state)
        return list(chosen) if first.type == "select-multiple" else (chosen or [None])[0]
    number = parse_number(as_text(state)) if first.type in NUMBERS else MISSING
    if isinstance(number, int) and float(number) != number:
        return None  # a script's number would be another: it is set by hand
    return state if number is MISSING else number


def show_sent(form: Form) -> dict[str, JsonValue]:
    """What a form holds, without secrets, for who has to know what was sent."""
    return {
        each.key: [one.value for one in each.controls if one.checked]
        if each.first.type in MARKED
        else each.first.state
        for each in form.entries()
        if not (each.first.secret or each.is_fixed or each.is_file) and each.first.name
    }
