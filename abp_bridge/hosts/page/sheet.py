"""A question as a sheet of HTML, and a filled-in sheet as content. No script is needed to read, fill in or send it. Pure.

Every word of an app's is escaped here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape

from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Question
from abp_bridge.core.schema import Json, same

Filled = Mapping[str, Sequence[str]]  # what a form sent, by control

SEARCH_FROM = 12  # choices, from which on they can be searched
LONG_TEXT = 200  # characters that may be typed, from which on there are several lines

_INPUTS = {"email": "email", "uri": "url", "date": "date"}


def document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        '<link rel="stylesheet" href="/page.css"><script src="/page.js" defer></script></head>'
        f"<body><main>{body}</main></body></html>"
    )


def notice(title: str, words: str, more: str = "") -> str:
    """A page that only says something."""
    return document(title, f"<h1>{escape(title)}</h1><p>{escape(words)}</p>{more}")


def sheet(question: Question, address: str, guard: str, filled: Filled | None = None, problems: Sequence[str] = ()) -> str:
    """The question at `address`. `guard` comes back with it; `filled` is what was sent before, and `problems` what was wrong with it."""
    controls = "".join(_control(question, number, filled) for number in range(len(question.fields)))
    wrong = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    warning = '<p class="warning">The app says that this cannot be undone.</p>' if question.destructive else ""
    body = (
        f'<p class="who"><strong>{escape(question.origin)}</strong> asks</p><h1>{_lines(question.message)}</h1>{warning}'
        + (f'<ul class="problems" role="alert" tabindex="-1">{wrong}</ul>' if wrong else "")
        + f'<form method="post" action="{escape(address)}" autocomplete="off" data-open>'
        f'<input type="hidden" name="guard" value="{escape(guard)}">{controls}'
        '<div class="buttons"><button name="action" value="send" class="send">Send</button>'
        '<button name="action" value="decline" formnovalidate>Decline</button>'
        '<button name="action" value="cancel" formnovalidate>Cancel</button></div></form>'
        + ("<p class=hint>What you enter here goes to the app only: not to the agent, and not to its model.</p>" if question.secret else "")
    )
    return document(f"{question.origin} asks", body)


def content(question: Question, filled: Filled) -> dict[str, Json]:
    """What was filled in, by field name, as far as anything was; for review."""
    found: dict[str, Json] = {}
    for number, field in enumerate(question.fields):
        values = filled.get(_name(number), ())
        if field.type is FieldType.CHOICES:
            found[field.name] = list(values)
        elif values and values[0] != "":
            found[field.name] = values[0]
    return found


def _control(question: Question, number: int, filled: Filled | None) -> str:
    field = question.fields[number]
    values = _values(field) if filled is None else filled.get(_name(number), ())
    make = _CONTROLS[field.type]
    words = escape(field.title or (field.name if len(question.fields) > 1 else "Your answer"))
    optional = "" if field.required else ' <span class="hint">(may stay empty)</span>'
    about = f'<p class="hint" id="{_name(number)}-about">{_lines(field.description)}</p>' if field.description else ""
    if make in (_radios, _checkboxes, _yes_or_no):
        return f"<fieldset><legend>{words}{optional}</legend>{about}{make(field, _name(number), values)}</fieldset>"
    return f'<div class="field"><label for="{_name(number)}">{words}{optional}</label>{about}{make(field, _name(number), values)}</div>'


def _input(field: Field, name: str, values: Sequence[str]) -> str:
    if field.secret:
        return f'<input type="password" {_named(field, name)} autocomplete="new-password">'
    limits = _limits(field, {"minLength": "minlength", "maxLength": "maxlength"})
    most = field.schema.get("maxLength")
    kind = _INPUTS.get(str(field.schema.get("format")), "text")
    if kind == "text" and isinstance(most, int) and most > LONG_TEXT:
        return f'<textarea rows="5" {_named(field, name)}{limits}>{escape(_first(values))}</textarea>'
    return f'<input type="{kind}" {_named(field, name)}{limits} value="{escape(_first(values))}">'


def _number(field: Field, name: str, values: Sequence[str]) -> str:
    step = "1" if field.type is FieldType.INTEGER else "any"
    limits = _limits(field, {"minimum": "min", "maximum": "max"})
    return f'<input type="number" step="{step}" {_named(field, name)}{limits} value="{escape(_first(values))}">'


def _json(field: Field, name: str, values: Sequence[str]) -> str:
    fits = escape(json.dumps(field.schema, ensure_ascii=False, indent=1, default=str))
    shape = f"<details><summary>JSON that fits this</summary><pre>{fits}</pre></details>"
    return f'<textarea rows="6" class="json" data-json {_named(field, name)} spellcheck="false">{escape(_first(values))}</textarea>{shape}'


def _yes_or_no(field: Field, name: str, values: Sequence[str]) -> str:
    return "".join(_option("radio", field, name, Choice(None, key, words), values) for key, words in (("true", "Yes"), ("false", "No")))


def _radios(field: Field, name: str, values: Sequence[str]) -> str:
    return _searched(field, [_option("radio", field, name, each, values) for each in field.choices])


def _checkboxes(field: Field, name: str, values: Sequence[str]) -> str:
    return _searched(field, [_option("checkbox", field, name, each, values) for each in field.choices])


def _option(kind: str, field: Field, name: str, choice: Choice, values: Sequence[str]) -> str:
    marks = (" checked" if choice.key in values else "") + (" required" if kind == "radio" and field.required else "")
    more = f'<span class="hint">{_lines(choice.description)}</span>' if choice.description else ""
    return (
        f'<label class="option"><input type="{kind}" name="{name}" value="{escape(choice.key)}"{marks}>'
        f"<span>{escape(choice.label)}{more}</span></label>"
    )


def _searched(field: Field, options: Sequence[str]) -> str:
    search = " data-search" if len(field.choices) >= SEARCH_FROM else ""
    return f'<div class="options"{search}>{"".join(options)}</div>'


def _values(field: Field) -> Sequence[str]:
    """The app's default, as its control has it."""
    if field.default is MISSING or field.secret:
        return ()
    if field.type in (FieldType.CHOICE, FieldType.CHOICES):
        wanted = field.default if field.type is FieldType.CHOICES and isinstance(field.default, list) else [field.default]
        return [choice.key for choice in field.choices if any(same(choice.value, value) for value in wanted)]
    return [field.default if isinstance(field.default, str) and field.type is FieldType.TEXT else json.dumps(field.default, ensure_ascii=False)]


def _limits(field: Field, words: Mapping[str, str]) -> str:
    said = ((attribute, field.schema.get(word)) for word, attribute in words.items())
    return "".join(f' {attribute}="{value}"' for attribute, value in said if isinstance(value, (int, float)) and not isinstance(value, bool))


def _named(field: Field, name: str) -> str:
    described = f' aria-describedby="{name}-about"' if field.description else ""
    return f'id="{name}" name="{name}"{described}{" required" if field.required else ""}'


def _name(number: int) -> str:
    return f"field-{number}"


def _first(values: Sequence[str]) -> str:
    return values[0] if values else ""


def _lines(words: str) -> str:
    return escape(words).replace("\n", "<br>")


_CONTROLS: dict[FieldType, Callable[[Field, str, Sequence[str]], str]] = {
    FieldType.TEXT: _input,
    FieldType.NUMBER: _number,
    FieldType.INTEGER: _number,
    FieldType.BOOLEAN: _yes_or_no,
    FieldType.CHOICE: _radios,
    FieldType.CHOICES: _checkboxes,
    FieldType.JSON: _json,
}
