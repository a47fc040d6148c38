"""A page's form -> the question whether to send it, with a field and default per entry."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_number,
    as_text,
)
from abp_bridge.core.options import MAX_WHOLE
from abp_bridge.core.question import MISSING, Field, FieldType, Kind, Missing, Question
from abp_bridge.core.redact.names import holds_secret
from abp_bridge.core.words import count_of
from abp_bridge.protocols.schema_fields import MAX_FIELDS, decode_field
from abp_bridge.protocols.webmcp.form import (
    CHOSEN,
    MARKED,
    NUMBERS,
    Control,
    Entry,
    Form,
    mention,
    parse_number,
    plain_number,
)

SEND = "send"  # the one field of a form in which nothing can be changed
MAX_SHOWN = 200  # characters of a value that is only shown
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
    return json.dumps(sanitize.label(words, MAX_SHOWN), ensure_ascii=False)


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
    whole = sanitize.message(_beyond_title(entry), MAX_WHOLE)
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
    return "" if sanitize.label(title, MAX_WHOLE) == sanitize.label(title) else title


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
    words = sanitize.label(", ".join(said), MAX_SHOWN)
    return [f"({words})"] if words else []
