"""The user's answer to a form -> the state of each control, files to give, and the tool call."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Collection, Mapping
from decimal import Decimal

from abp_bridge.core import sanitize
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, as_text
from abp_bridge.core.question import MISSING
from abp_bridge.protocols.abp.questions import FILE
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
    with_plain_ends,
)

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
