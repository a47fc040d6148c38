"""Turn a question's fields into form controls and buttons, and a submitted form into content.

The form works without scripts. A secret is never written into a page again: the bridge keeps what
the user typed and the control says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from abp_bridge.core import file as files
from abp_bridge.core.answer import validate_answer
from abp_bridge.core.json_value import JsonObject, JsonValue, as_count, as_list, as_object
from abp_bridge.core.menu import bounds, with_default
from abp_bridge.core.options import LISTED, YES_NO, act, choices_of, is_default
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Question
from abp_bridge.core.sanitize import label, reveal
from abp_bridge.core.schema import is_valid
from abp_bridge.surfaces.page.words import ENGLISH, Words

SEARCH_FROM = 12  # choices, from which on they can be searched
LONG_TEXT = 200  # characters that may be typed, from which on there are several lines
DOTS = "••••••••"

Wrong = Mapping[str, Sequence[str]]  # what is wrong, by control; "" is the form as a whole

_SURROGATE = re.compile("[\ud800-\udfff]")
_INPUTS = {"email": "email", "uri": "url", "date": "date"}


@dataclass(frozen=True, slots=True)
class Filled:
    """The values and files that a form sent, by control."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, files.File] = field(default_factory=dict)

    def first(self, name: str) -> str:
        """Return the first value of a control; empty for none."""
        return next(iter(self.values.get(name, ())), "")


# --- what was filled in ---------------------------------------------------------------------------


def merge_kept(question: Question, filled: Filled, before: Filled | None) -> Filled:
    """Add to `filled` the secrets and files of the form `before` that were not sent again."""
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


def drop_wrong(question: Question, filled: Filled, wrong: Wrong) -> Filled:
    """Return `filled` without invalid secrets and files: the user enters them again."""
    names = {
        name_of(number): each
        for number, each in enumerate(question.fields)
        if name_of(number) in wrong
    }
    bad = {name for name, each in names.items() if each.secret or name in filled.files}
    return Filled(
        {name: values for name, values in filled.values.items() if name not in bad},
        {name: given for name, given in filled.files.items() if name not in bad},
    )


def content(question: Question, filled: Filled) -> dict[str, JsonValue]:
    """Return the submitted content by field name; it is not validated yet."""
    if confirms(question):
        return {question.fields[0].name: filled.first("action") == "yes"}
    return _content(question.fields, "field", filled)


def _content(fields: Sequence[Field], place: str, filled: Filled) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for number, each in enumerate(fields):
        name = f"{place}-{number}"
        if each.columns:
            rows = range(_rows(each, name, filled))
            if rows or each.required:
                found[each.name] = [
                    _content(_columns(each, row), f"{name}-{row}", filled) for row in rows
                ]
        elif each.type is FieldType.FILE:
            if name in filled.files:
                found[each.name] = files.encode(filled.files[name])
        elif each.type is FieldType.CHOICES:
            chosen = [choice.key for choice in _chosen(each, filled.values.get(name, ()))]
            if chosen or each.required or is_valid([], each.schema):
                found[each.name] = chosen
        elif each.type in LISTED:
            for choice in _chosen(each, filled.values.get(name, ()))[:1]:
                found[each.name] = choice.key
        elif (typed := filled.first(name)) != "":
            found[each.name] = _as_proposed(each, typed)
    return found


def _columns(asked: Field, row: int) -> list[Field]:
    """Return the columns of a list, with the defaults for entry `row`."""
    proposed = as_list(asked.default) if asked.default is not MISSING else []
    return [with_default(column, proposed[row : row + 1]) for column in asked.columns]


def _as_proposed(asked: Field, typed: str) -> str:
    """Return `typed` with plain line ends, or the app's default if nothing else changed."""
    lines = _plain_lines(typed)
    proposed = asked.default if isinstance(asked.default, str) else None
    return proposed if proposed is not None and _plain_lines(proposed) == lines else lines


def _plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def input_errors(
    question: Question, given: JsonObject, words: Words = ENGLISH
) -> dict[str, list[str]]:
    """Return the problems with the content of a form, by control; empty if it is valid."""
    found: dict[str, list[str]] = {}
    for number, each in enumerate(question.fields):
        inside: dict[str, list[str]] = {}
        for row, entry in enumerate(as_list(given.get(each.name)) if each.columns else ()):
            for place, column in enumerate(each.columns):
                heading = f"{title(question, number, words)} {row + 1}: {column.label}"
                if wrong := _field_errors(question, column, as_object(entry), heading):
                    inside[f"{name_of(number)}-{row}-{place}"] = wrong
        wrong = _field_errors(question, each, given, title(question, number, words))
        found |= inside or ({name_of(number): wrong} if wrong else {})
    if not found and (wrong := validate_answer(question, given)[1]):
        found[""] = wrong
    return found


def _field_errors(question: Question, asked: Field, given: JsonObject, heading: str) -> list[str]:
    wrong = validate_answer(replace(question, fields=(asked,), whole={}), given)[1]
    return [
        f"{heading}{words.removeprefix(asked.name)}" if words.startswith(asked.name) else words
        for words in wrong
    ]


def has_counts(question: Question, filled: Filled) -> bool:
    """Return whether a form gives a valid number of entries for each list."""
    counts = (
        (filled.first(f"{name_of(number)}-rows"), bounds(each.schema).most)
        for number, each in enumerate(question.fields)
        if each.columns
    )
    return all(
        count.isascii() and count.isdecimal() and len(count) < 5 and int(count) <= most
        for count, most in counts
    )


def change_rows(question: Question, filled: Filled) -> tuple[Filled, str] | None:
    """Add or remove the list entry that the pressed button names.

    Returns:
        The changed form and the id to scroll to, or None if another button was pressed.
    """
    for number, each in enumerate(question.fields):
        name = name_of(number)
        rows = _rows(each, name, filled) if each.columns else 0
        kept = list(range(rows))
        adds = each.columns and filled.first("action") == f"add {name}"
        if adds and rows < bounds(each.schema).most:
            kept.append(rows)  # a place where nothing is filled in yet
        for row in range(rows):
            if filled.first("action") == f"remove {name} {row}":
                kept.remove(row)
        if adds or len(kept) != rows:
            last = f"{name}-{len(kept) - 1}-0" if len(kept) > rows else name
            return Filled(_moved(filled.values, name, kept), filled.files), last
    return None


def _moved(
    values: Mapping[str, Sequence[str]], name: str, kept: Sequence[int]
) -> dict[str, Sequence[str]]:
    """Return the values with the `kept` entries of a list, renumbered."""
    moved = {each: value for each, value in values.items() if not each.startswith(f"{name}-")}
    for place, row in enumerate(kept):
        for each, value in values.items():
            if each.startswith(f"{name}-{row}-"):
                moved[f"{name}-{place}-{each.removeprefix(f'{name}-{row}-')}"] = value
    return {**moved, f"{name}-rows": [str(len(kept))]}


def _rows(asked: Field, name: str, filled: Filled | None) -> int:
    """Return the number of entries to show for a list."""
    if filled is not None:
        return int(filled.first(f"{name}-rows"))
    proposed = as_list(asked.default) if asked.default is not MISSING else []
    return len(proposed) or (bounds(asked.schema).least if asked.required else 0)


def answer_text(question: Question, number: int, filled: Filled, words: Words = ENGLISH) -> str:
    """Return what the user entered, as text to check."""
    return _answer_text(question.fields[number], name_of(number), filled, words)


def _answer_text(each: Field, name: str, filled: Filled, said: Words) -> str:
    if each.columns:
        rows = (
            ", ".join(
                f"{column.label}: {words}"
                for place, column in enumerate(each.columns)
                if (words := _answer_text(column, f"{name}-{row}-{place}", filled, said))
            )
            for row in range(_rows(each, name, filled))
        )
        return "\n".join(f"{row}. {words}" for row, words in enumerate(rows, 1))
    if name in filled.files:
        return _file_text(filled.files[name], said)
    values = filled.values.get(name, ())
    if each.type in LISTED:
        values = [_label(choice, said) for choice in _chosen(each, values)]
    words = ", ".join(values)
    return DOTS if words and each.secret else words


def takes_files(question: Question) -> bool:
    """Return whether the question has a file field."""
    return any(each.type is FieldType.FILE for each in question.fields)


def _file_text(given: files.File, words: Words) -> str:
    return f"{given.name or words('file.unnamed')} ({given.mime_type}, {_size(len(given.content))})"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.3g} KiB" if count < 1000 * 1024 else f"{count / 1024**2:.3g} MiB"


def _chosen(asked: Field, values: Sequence[str]) -> list[Choice]:
    """Return the choices at the submitted positions: a key could be any string, even empty."""
    choices = choices_of(asked)
    places = dict.fromkeys(
        int(value) for value in values if value.isascii() and value.isdecimal() and len(value) < 10
    )
    return [choices[place] for place in places if place < len(choices)]


def _label(choice: Choice, words: Words) -> str:
    if choice in YES_NO:
        return words("button.yes" if choice.value else "button.no")
    return choice.whole or choice.label


# --- controls -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """One choice: its value, its label and whether it is checked."""

    value: str
    label: str
    description: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """One field, as `templates/controls.html` shows it.

    Attributes:
        kind: The macro of the template.
        suggested: Whether the values are the app's default.
        label: The ids of further labels; None for none.
        hints: The ids of its descriptions; None for none.
        kept: Which kept value is not shown, as text.
        attributes: HTML attributes; None omits one.
        rows: The controls of each entry of a list.
        extends: Whether an entry can be added, and removed.
    """

    kind: str
    name: str
    title: str
    field: Field
    values: Sequence[str]
    suggested: bool
    problem: str
    label: str | None
    hints: str | None
    kept: str
    required: bool
    attributes: JsonObject
    hint: str
    options: Sequence[Option]
    rows: Sequence[Sequence[Control]] = ()
    extends: tuple[bool, bool] = (False, False)

    @property
    def is_group(self) -> bool:
        """Whether it consists of several elements."""
        return self.field.type in LISTED or bool(self.field.columns)

    @property
    def search(self) -> bool:
        """Whether it has enough choices for a search box."""
        return self.field.type in LISTED and len(choices_of(self.field)) >= SEARCH_FROM


def controls(
    question: Question, filled: Filled | None, wrong: Wrong, words: Words = ENGLISH
) -> list[Control]:
    """Return the controls of a form, with earlier input and its problems."""
    form = _Form(question, filled, wrong, words)
    made = [
        form.control(each, name_of(number), title(question, number, words), focus=number == 0)
        for number, each in enumerate(question.fields)
    ]
    # What the bridge's own question stands on, nobody has suggested.
    return [replace(each, suggested=False) for each in made] if question.permits else made


def _label_ids(question: Question, asked: Field, name: str) -> str | None:
    """Return the ids that label the only field: the question, and its title if that differs."""
    if len(question.fields) != 1 or name != name_of(0):
        return None
    first = question.message.partition("\n")[0]
    return "asked" if asked.title.lower() in first.lower() else f"asked {name}-label"


@dataclass(frozen=True, slots=True)
class _Form:
    question: Question
    filled: Filled | None
    wrong: Wrong
    words: Words

    def control(self, asked: Field, name: str, heading: str, *, focus: bool = False) -> Control:
        problems = self.wrong.get(name, ())
        values = self._values(asked, name)
        kept, rows = self._kept(asked, name), self._rows(asked, name)
        kind, attributes, hint = _KINDS[asked.type](asked, values, self.words)
        parts = (("about", asked.description), ("hint", hint), ("wrong", problems), ("kept", kept))
        hints = " ".join(f"{name}-{part}" for part, there in parts if there) or None
        required = asked.required and not kept and asked.type is not FieldType.CHOICES
        holds = required or len(self.question.fields) > 1  # an Enter that is pressed too early
        if asked.type not in LISTED and not asked.columns:
            attributes = {
                "aria-invalid": "true" if problems else None,
                "required": "" if required else None,
                # Where Enter alone sends something, nobody stands who has not read what is asked.
                "autofocus": "" if focus and not values and holds and not self.wrong else None,
                **attributes,
            }
        return Control(
            kind,
            name,
            heading,
            asked,
            values,
            suggested=self.filled is None and bool(values),
            problem=next(iter(problems), ""),
            label=_label_ids(self.question, asked, name),
            hints=hints,
            kept=kept,
            required=required,
            attributes=attributes,
            hint=hint,
            options=_options(asked, values, self.words) if asked.type in LISTED else (),
            rows=rows,
            extends=_extends(asked, len(rows)),
        )

    def _values(self, asked: Field, name: str) -> Sequence[str]:
        if self.filled is None:
            return _default(asked)
        return () if asked.secret else self.filled.values.get(name, ())

    def _kept(self, asked: Field, name: str) -> str:
        """Return which value is kept but not shown, as text."""
        if self.filled is None:
            return ""
        if name in self.filled.files:
            file = _file_text(self.filled.files[name], self.words)
            return self.words("field.kept_file", file=file)
        if asked.secret and self.filled.first(name):
            return self.words("field.kept_secret")
        return ""

    def _rows(self, asked: Field, name: str) -> list[list[Control]]:
        if not asked.columns:
            return []
        return [
            [
                self.control(column, f"{name}-{row}-{place}", column.label)
                for place, column in enumerate(_columns(asked, row))
            ]
            for row in range(_rows(asked, name, self.filled))
        ]


def _extends(asked: Field, rows: int) -> tuple[bool, bool]:
    least, most = bounds(asked.schema)
    return rows < most, rows > (least if asked.required else 0)


def title(question: Question, number: int, words: Words = ENGLISH) -> str:
    """Return the title of a field."""
    each = question.fields[number]
    return each.title or (label(each.name) if len(question.fields) > 1 else words("field.answer"))


def name_of(number: int) -> str:
    """Return the name and id of a field's control."""
    return f"field-{number}"


# What a kind of field has beside what all have: the macro that shows it, attributes, and a hint.
_More = tuple[str, JsonObject, str]


def _text(asked: Field, values: Sequence[str], words: Words) -> _More:
    limits = _limits(asked, minLength="data-least", maxLength="data-most")
    least, most = limits.get("data-least"), limits.get("data-most")
    hint = _bounds(words, ("field.between", "field.at_least", "field.at_most"), least or None, most)
    if asked.secret:
        return "password", {"autocomplete": "off", **limits}, hint
    kind = _INPUTS.get(str(asked.schema.get("format")), "text")
    long = isinstance(most, int) and most > LONG_TEXT
    if kind == "text" and (long or any("\n" in value for value in values)):
        return "textarea", limits, hint
    return "input", {"type": kind, "dir": "auto" if kind == "text" else "ltr", **limits}, hint


def _number(asked: Field, values: Sequence[str], words: Words) -> _More:
    limits = _limits(asked, minimum="min", maximum="max")
    whole = asked.type is FieldType.INTEGER
    if whole:  # a browser counts its steps from the least: from 0.5 it would take 1.5, and not 1
        for key, rounded in (("min", math.ceil), ("max", math.floor)):
            if isinstance(limit := limits.get(key), float) and math.isfinite(limit):
                limits[key] = rounded(limit)
    keys = ("field.from_to", "field.from", "field.to")
    hint = _bounds(words, keys, limits.get("min"), limits.get("max"))
    if asked.secret:  # mostly a code, which no manager of passwords should keep or invent
        return "password", {"inputmode": "decimal", "autocomplete": "one-time-code"}, hint
    return "input", {"type": "number", "step": "1" if whole else "any", **limits}, hint


def _bounds(
    words: Words, keys: tuple[str, str, str], least: float | None, most: float | None
) -> str:
    """Return the limits as text."""
    if least is not None and most is not None:
        return words(keys[0], least=least, most=most)
    if least is not None:
        return words(keys[1], least=least)
    return "" if most is None else words(keys[2], most=most)


def _json(asked: Field, values: Sequence[str], words: Words) -> _More:
    return "json", {}, ""


def json_hint(asked: Field) -> str:
    """Return the schema of a JSON field, to be shown."""
    return _as_json(asked.schema, indent=1)


def _file(asked: Field, values: Sequence[str], words: Words) -> _More:
    kinds = ""
    for each in asked.accept:
        kind = each.removesuffix("/*")
        kinds = words("file.or", first=kinds, second=kind) if kinds else kind
    size = _size(files.MAX_SIZE)
    hint = (
        words("file.takes", kinds=kinds, size=size) if kinds else words("file.at_most", size=size)
    )
    return "file", {"accept": ",".join(asked.accept) or None}, hint


def _list(asked: Field, values: Sequence[str], words: Words) -> _More:
    least, most = bounds(asked.schema)
    return "entries", {}, words("list.bounds" if least else "list.at_most", least=least, most=most)


def _radios(asked: Field, values: Sequence[str], words: Words) -> _More:
    return "radios", {}, ""


def _checkboxes(asked: Field, values: Sequence[str], words: Words) -> _More:
    least, most = (as_count(asked.schema.get(word)) for word in ("minItems", "maxItems"))
    key = {
        (True, True): "choose.some" if least != most else "choose.exactly",
        (True, False): "choose.at_least",
        (False, True): "choose.at_most",
    }.get((bool(least), most is not None), "choose.any")
    optional = None if asked.required else ""
    limits = {"data-least": least or 0, "data-most": most, "data-optional": optional}
    return "checkboxes", limits, words(key, least=least, most=most)


def _options(asked: Field, values: Sequence[str], words: Words) -> list[Option]:
    found = [
        Option(str(place), _label(choice, words), choice.description, checked=str(place) in values)
        for place, choice in enumerate(choices_of(asked))
    ]
    if asked.type is FieldType.CHOICES or asked.required:
        return found
    return [Option("", words("field.no_answer"), checked=not any(values)), *found]


def _default(asked: Field) -> Sequence[str]:
    """Return the app's default as its control sends it."""
    if asked.default is MISSING or asked.secret or asked.type is FieldType.FILE:
        return ()
    if asked.type in LISTED:
        return [
            str(place)
            for place, choice in enumerate(choices_of(asked))
            if is_default(asked, choice)
        ]
    if isinstance(asked.default, str) and asked.type is FieldType.TEXT:
        return [asked.default] if _fits(asked.default) else []
    return [_as_json(asked.default)]


def _as_json(value: JsonValue, indent: int | None = None) -> str:
    words = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return reveal(words) if _fits(words) else json.dumps(value, indent=indent, default=str)


def _fits(words: str) -> bool:
    """Return whether UTF-8 can encode it: there are no lone surrogates."""
    return not _SURROGATE.search(words)


def _limits(asked: Field, **words: str) -> dict[str, int | float]:
    """Return the numeric limits of the schema by HTML attribute."""
    limits = {attribute: asked.schema.get(word) for word, attribute in words.items()}
    return {
        attribute: value
        for attribute, value in limits.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


_KINDS: dict[FieldType, Callable[[Field, Sequence[str], Words], _More]] = {
    FieldType.TEXT: _text,
    FieldType.NUMBER: _number,
    FieldType.INTEGER: _number,
    FieldType.BOOLEAN: _radios,
    FieldType.CHOICE: _radios,
    FieldType.CHOICES: _checkboxes,
    FieldType.LIST: _list,
    FieldType.FILE: _file,
    FieldType.JSON: _json,
}


@dataclass(frozen=True, slots=True)
class Button:
    """One button: the value it sends, the key of its label, and its look.

    If `names_act`, the label is the act that the question names.
    """

    sends: str
    words: str
    look: str = ""
    names_act: bool = False

    def label(self, question: Question, words: Words) -> str:
        named = act(question.message) if self.names_act else ""
        if named and self.sends == "yes":
            return named
        return words("button.do_not" if named else self.words)


@dataclass(frozen=True, slots=True)
class Row:
    """The buttons of one sort of question: its answers, and the ways not to answer."""

    name: str
    applies: Callable[[Question], bool]
    answers: tuple[Button, ...]
    leaves: tuple[str, ...]


def confirms(question: Question) -> bool:
    """Return whether two buttons answer the question."""
    return question.kind is Kind.CONFIRM or question.consents


def _chooses(question: Question) -> bool:
    return any(each.type is FieldType.CHOICE for each in question.fields)


# A no is an answer there, or among the options: it can only be dismissed beside that.
_DISMISS = ("cancel",)
_DECLINE = ("decline", "cancel")

ROWS = (
    Row(
        "a link",
        lambda asked: bool(asked.link),
        (Button("yes", "button.opened", "send"), Button("no", "button.decline")),
        _DISMISS,
    ),
    Row(
        "consent to what cannot be undone",
        lambda asked: asked.consents and asked.destructive,
        (
            Button("no", "button.do_not_allow", "safe"),
            Button("yes", "button.allow", "danger"),
        ),
        _DISMISS,
    ),
    Row(
        "consent",
        lambda asked: asked.consents,
        (Button("yes", "button.allow", "send"), Button("no", "button.do_not_allow")),
        _DISMISS,
    ),
    Row(
        "a confirm of what cannot be undone",
        lambda asked: confirms(asked) and asked.destructive,
        (
            Button("no", "button.no", "safe", names_act=True),
            Button("yes", "button.do", "danger", names_act=True),
        ),
        _DISMISS,
    ),
    Row(
        "a confirm",
        confirms,
        (Button("yes", "button.yes", "send"), Button("no", "button.no")),
        _DISMISS,
    ),
    Row(  # its options say what is sent, and what is not
        "an approval of what a model is sent, or says",
        lambda asked: asked.permits is not None and _chooses(asked),
        (Button("send", "button.continue", "send"),),
        _DISMISS,
    ),
    Row(
        "a model's answer, changed",
        lambda asked: asked.permits is not None,
        (Button("send", "button.send", "send"),),
        _DISMISS,
    ),
    Row(
        "a form of one field",
        lambda asked: len(asked.fields) < 2,
        (Button("send", "button.send", "send"),),
        _DECLINE,
    ),
    Row(
        "a form of several fields",
        lambda asked: True,
        (Button("send", "button.check", "send"),),
        _DECLINE,
    ),
)


def row_of(question: Question) -> Row:
    """Return the first row that applies to the question."""
    return next(each for each in ROWS if each.applies(question))
