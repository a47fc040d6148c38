"""One field as a control of a page, and a filled-in form as content.

No script is needed to fill one in. Pure.

What is secret is never written into a page again: what was typed before is kept where the form is
kept, and the control says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from abp_bridge.core import file as files
from abp_bridge.core.json_value import Json
from abp_bridge.core.question import (
    MISSING,
    Choice,
    Field,
    FieldType,
    Kind,
    Question,
    validate_answer,
)
from abp_bridge.core.sanitize import label
from abp_bridge.core.schema import is_valid, json_equal

SEARCH_FROM = 12  # choices, from which on they can be searched
LONG_TEXT = 200  # characters that may be typed, from which on there are several lines
DOTS = "••••••••"

Wrong = Mapping[int | None, Sequence[str]]  # what is wrong, by field; None is the form as a whole

_INPUTS = {"email": "email", "uri": "url", "date": "date"}
_YES_NO = (Choice(True, "true", "Yes"), Choice(False, "false", "No"))


@dataclass(frozen=True, slots=True)
class Filled:
    """What a form sent, by control."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, files.File] = field(default_factory=dict)

    def first(self, name: str) -> str:
        return next(iter(self.values.get(name, ())), "")


# --- what was filled in ---------------------------------------------------------------------------


def confirms(question: Question) -> bool:
    """Whether it is answered by one of two buttons."""
    return question.kind is Kind.CONFIRM or question.consents


def carried(question: Question, filled: Filled, before: Filled | None) -> Filled:
    """`filled`, with what was kept of the form `before` where nothing else was given: what a page
    does not show again.
    """
    if before is None:
        return filled
    values, given = dict(filled.values), dict(filled.files)
    for number, each in enumerate(question.fields):
        name = name_of(number)
        if filled.first(f"{name}-empty"):
            continue
        if name in before.files and name not in given:
            given[name] = before.files[name]
        if each.secret and not filled.first(name) and name in before.values:
            values[name] = before.values[name]
    return Filled(values, given)


def without(question: Question, filled: Filled, wrong: Wrong) -> Filled:
    """`filled` less the secrets and files that are wrong: they are to be given anew."""
    bad = {name_of(number) for number in wrong if number is not None}
    bad = {
        name
        for name in bad
        if question.fields[int(name.removeprefix("field-"))].secret or name in filled.files
    }
    return Filled(
        {name: values for name, values in filled.values.items() if name not in bad},
        {name: given for name, given in filled.files.items() if name not in bad},
    )


def content(question: Question, filled: Filled) -> dict[str, Json]:
    """What was filled in, by field name, as far as anything was; for review."""
    if confirms(question):
        return {question.fields[0].name: filled.first("action") == "yes"}
    found: dict[str, Json] = {}
    for number, each in enumerate(question.fields):
        name = name_of(number)
        if each.type is FieldType.FILE:
            if name in filled.files:
                found[each.name] = files.encode(filled.files[name])
        elif each.type is FieldType.CHOICES:
            chosen = [choice.key for choice in _chosen(each, filled.values.get(name, ()))]
            if chosen or each.required or is_valid([], each.schema):
                found[each.name] = chosen
        elif each.type in _LISTED:
            for choice in _chosen(each, filled.values.get(name, ()))[:1]:
                found[each.name] = choice.key
        elif filled.first(name) != "":
            found[each.name] = filled.first(name)
    return found


def input_errors(question: Question, given: Mapping[str, Json]) -> dict[int | None, list[str]]:
    """What is wrong with the content of a form; empty when it is an answer."""
    found: dict[int | None, list[str]] = {}
    for number, each in enumerate(question.fields):
        if wrong := validate_answer(replace(question, fields=(each,), whole={}), given)[1]:
            found[number] = [
                (
                    f"{title(question, number)}{words[len(each.name) :]}"
                    if words.startswith(each.name)
                    else words
                )
                for words in wrong
            ]
    if not found and (wrong := validate_answer(question, given)[1]):
        found[None] = wrong
    return found


def spelled(question: Question, number: int, filled: Filled) -> str:
    """What was filled in, for a person to check."""
    each, name = question.fields[number], name_of(number)
    if name in filled.files:
        return described(filled.files[name])
    values = filled.values.get(name, ())
    if each.type in _LISTED:
        values = [choice.label for choice in _chosen(each, values)]
    words = ", ".join(values)
    return DOTS if words and each.secret else words


def described(given: files.File) -> str:
    return f"{given.name or 'a file'} ({given.mime_type}, {size(len(given.content))})"


def size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.3g} KiB" if count < 1000 * 1024 else f"{count / 1024**2:.3g} MiB"


def _chosen(asked: Field, values: Sequence[str]) -> list[Choice]:
    """Controls send the place of a choice in its list: a key may be anything, even nothing."""
    choices = _choices(asked)
    places = dict.fromkeys(
        int(value) for value in values if value.isascii() and value.isdecimal() and len(value) < 10
    )
    return [choices[place] for place in places if place < len(choices)]


def _choices(asked: Field) -> Sequence[Choice]:
    return _YES_NO if asked.type is FieldType.BOOLEAN else asked.choices


# --- controls -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a control stands: its field and name, what is in it, what attributes it needs, and
    whether something unseen is kept for it.
    """

    field: Field
    name: str
    values: Sequence[str]
    attributes: str
    kept: str = ""
    marked: bool = False  # whether the app's default is what stands in it


def control(
    question: Question, number: int, filled: Filled | None, wrong: Wrong, *, focus: bool
) -> str:
    """The control of one field, with its label, its description, and what was wrong with it."""
    each, name = question.fields[number], name_of(number)
    values = (
        _default(each) if filled is None else () if each.secret else filled.values.get(name, ())
    )
    kept = _kept(each, name, filled)
    marked = filled is None and bool(values)
    problems = wrong.get(number, ())
    hints = [
        f"{name}-{part}"
        for part, there in (("about", each.description), ("wrong", problems))
        if there
    ]
    group = each.type in _LISTED
    attributes = (
        (f' aria-describedby="{" ".join(hints)}"' if hints else "")
        + (' aria-invalid="true"' if problems else "")
        + (" required" if each.required and not kept and each.type is not FieldType.CHOICES else "")
        + (" autofocus" if focus and not group else "")
    )
    slot = _Slot(each, name, values, attributes, kept, marked)
    words = escape(title(question, number)) + (
        "" if each.required else ' <span class="optional">optional</span>'
    )
    above = (
        f'<p class="hint" id="{name}-about">{lines(each.description)}</p>'
        if each.description
        else ""
    )
    above += "".join(
        f'<p class="wrong" id="{name}-wrong">{escape(problem)}</p>' for problem in problems[:1]
    )
    below = '<p class="hint">Suggested by the app.</p>' if marked and not group else ""
    if kept:
        below += f'<p class="hint">{escape(kept)}</p>'
        if not each.required:
            below += (
                f'<label class="small"><input type="checkbox" name="{name}-empty" value="yes">'
                " Leave it empty instead</label>"
            )
    body = _CONTROLS[each.type](slot)
    if group:
        described_by = f' aria-describedby="{" ".join(hints)}"' if hints else ""
        return (
            f'<fieldset id="{name}"'
            f' tabindex="-1"{described_by}><legend>{words}</legend>{above}{body}{below}</fieldset>'
        )
    return f'<div class="field"><label for="{name}">{words}</label>{above}{body}{below}</div>'


def title(question: Question, number: int) -> str:
    each = question.fields[number]
    return each.title or (label(each.name) if len(question.fields) > 1 else "Your answer")


def name_of(number: int) -> str:
    return f"field-{number}"


def lines(words: str) -> str:
    return escape(words).replace("\n", "<br>")


def _kept(asked: Field, name: str, filled: Filled | None) -> str:
    """What is kept of a form and not shown again, in words."""
    if filled is None:
        return ""
    if name in filled.files:
        return f"{described(filled.files[name])} is kept: choose another file to replace it."
    return (
        "What you entered is kept: leave this empty to keep it."
        if asked.secret and filled.first(name)
        else ""
    )


def _text(slot: _Slot) -> str:
    if slot.field.secret:
        return _hidden(slot)
    limits = _limits(slot.field, {"minLength": "minlength", "maxLength": "maxlength"})
    most = slot.field.schema.get("maxLength")
    kind = _INPUTS.get(str(slot.field.schema.get("format")), "text")
    if kind == "text" and ((isinstance(most, int) and most > LONG_TEXT) or "\n" in _value(slot)):
        return f'<textarea rows="5" {_named(slot)}{limits}>\n{escape(_value(slot))}</textarea>'
    return f'<input type="{kind}" {_named(slot)}{limits} value="{escape(_value(slot))}">'


def _number(slot: _Slot) -> str:
    if slot.field.secret:
        return _hidden(slot, ' inputmode="decimal"')
    step = "1" if slot.field.type is FieldType.INTEGER else "any"
    limits = _limits(slot.field, {"minimum": "min", "maximum": "max"})
    return (
        f'<input type="number" step="{step}" {_named(slot)}{limits}'
        f' value="{escape(_value(slot))}">{_range(slot.field)}'
    )


def _range(asked: Field) -> str:
    low, high = (asked.schema.get(word) for word in ("minimum", "maximum"))
    shown = [
        f"{word} {value}"
        for word, value in (("from", low), ("to", high))
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return f'<p class="hint">{" ".join(shown).capitalize()}.</p>' if shown else ""


def _json(slot: _Slot) -> str:
    wanted = escape(json.dumps(slot.field.schema, ensure_ascii=False, indent=1, default=str))
    shape = f"<details><summary>JSON that fits this</summary><pre>{wanted}</pre></details>"
    hidden = " hidden-text" if slot.field.secret else ""
    return (
        f'<textarea rows="6" class="json{hidden}" data-json {_named(slot)}'
        f' spellcheck="false">\n{escape(_value(slot))}</textarea>{shape}'
    )


def _hidden(slot: _Slot, more: str = "") -> str:
    return f'<input type="password" {_named(slot)}{more} autocomplete="new-password">'


def _file(slot: _Slot) -> str:
    accept = f' accept="{escape(",".join(slot.field.accept))}"' if slot.field.accept else ""
    kinds = (
        f"Takes {' or '.join(kind.removesuffix('/*') for kind in slot.field.accept)} files, at most"
        if slot.field.accept
        else "At most"
    )
    return (
        f'<div class="drop" data-drop="{files.MAX_SIZE}"><input type="file" {_named(slot)}{accept}>'
        f'<p class="hint">{escape(kinds)} {size(files.MAX_SIZE)}.</p></div>'
    )


def _radios(slot: _Slot) -> str:
    none = (
        ""
        if slot.field.required
        else _option("radio", slot, "", Choice(None, "", "No answer"), checked=not any(slot.values))
    )
    return _listed(slot, "radio", none)


def _checkboxes(slot: _Slot) -> str:
    least, most = (_count(slot.field.schema.get(word)) for word in ("minItems", "maxItems"))
    words = {
        (True, True): f"Choose {least} to {most}." if least != most else f"Choose {least}.",
        (True, False): f"Choose at least {least}.",
        (False, True): f"Choose at most {most}.",
    }.get((bool(least), most is not None), "Choose as many as you like.")
    bounds = (
        f' data-least="{least or 0}"'
        + ("" if most is None else f' data-most="{most}"')
        + ("" if slot.field.required else " data-optional")
    )
    return f'<p class="hint" data-count{bounds}>{words}</p>{_listed(slot, "checkbox")}'


def _listed(slot: _Slot, kind: str, more: str = "") -> str:
    choices = _choices(slot.field)
    options = "".join(
        _option(kind, slot, str(place), choice, checked=str(place) in slot.values)
        for place, choice in enumerate(choices)
    )
    search = " data-search" if len(choices) >= SEARCH_FROM else ""
    return f'<div class="options"{search}>{more}{options}</div>'


def _option(kind: str, slot: _Slot, value: str, choice: Choice, *, checked: bool) -> str:
    needed = " required" if kind == "radio" and " required" in slot.attributes else ""
    mark = ' <span class="optional">suggested by the app</span>' if checked and slot.marked else ""
    about = f'<span class="hint">{lines(choice.description)}</span>' if choice.description else ""
    return (
        f'<label class="option"><input type="{kind}" name="{slot.name}"'
        f' value="{value}"{" checked" if checked else ""}{needed}>'
        f"<span>{escape(choice.label)}{mark}{about}</span></label>"
    )


def _default(asked: Field) -> Sequence[str]:
    """The app's default, as its control has it."""
    if asked.default is MISSING or asked.secret or asked.type is FieldType.FILE:
        return ()
    if asked.type in _LISTED:
        wanted = (
            asked.default
            if asked.type is FieldType.CHOICES and isinstance(asked.default, list)
            else [asked.default]
        )
        return [
            str(place)
            for place, choice in enumerate(_choices(asked))
            if any(json_equal(choice.value, value) for value in wanted)
        ]
    return [
        (
            asked.default
            if isinstance(asked.default, str) and asked.type is FieldType.TEXT
            else json.dumps(asked.default, ensure_ascii=False)
        )
    ]


def _limits(asked: Field, words: Mapping[str, str]) -> str:
    said = ((attribute, asked.schema.get(word)) for word, attribute in words.items())
    return "".join(
        f' {attribute}="{value}"'
        for attribute, value in said
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _named(slot: _Slot) -> str:
    return f'id="{slot.name}" name="{slot.name}"{slot.attributes}'


def _value(slot: _Slot) -> str:
    return slot.values[0] if slot.values else ""


_LISTED = {FieldType.BOOLEAN, FieldType.CHOICE, FieldType.CHOICES}
_CONTROLS: dict[FieldType, Callable[[_Slot], str]] = {
    FieldType.TEXT: _text,
    FieldType.NUMBER: _number,
    FieldType.INTEGER: _number,
    FieldType.BOOLEAN: _radios,
    FieldType.CHOICE: _radios,
    FieldType.CHOICES: _checkboxes,
    FieldType.FILE: _file,
    FieldType.JSON: _json,
}
