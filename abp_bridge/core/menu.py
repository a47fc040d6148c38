"""A question as a series of steps with buttons, as many as a host shows, and its answer.

What does not fit on one step is on the next; nothing is cut. With two buttons a host shows "allow"
and "deny" without their labels, so each step is then a yes or no in its title. The generator yields
a page and is sent the pressed button; `Menu` drives it.

For surfaces without lists, `walk` asks for a list of flat objects entry by entry, after the other
fields, while the user adds another.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from abp_bridge.core import sanitize
from abp_bridge.core.answer import carries
from abp_bridge.core.json_value import (
    JsonObject,
    JsonValue,
    as_count,
    as_list,
    as_object,
    is_number,
    to_text,
)
from abp_bridge.core.options import (
    CHANGE,
    DONE,
    LEAVE_EMPTY,
    LISTED,
    MORE,
    SEND,
    SKIP,
    choices_of,
    chosen_labels,
    explain_options,
    is_default,
    mark_default,
    own_label,
    whole_numbers,
    yes_or_no,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Choice, Field, FieldType, Kind, Missing, Question
from abp_bridge.core.schema import Schema
from abp_bridge.errors import RemoteProtocolError

TITLE_LIMIT = 300  # characters; some hosts show nothing but the title
PART_LIMIT = 140  # of a title: the form's message, and what one field of it asks
MIN_STEPS = 60  # a walk ends after this many steps and some per option, however buttons are pressed
ROUNDS = 2  # of yes or no to everything there is, before "no" to all of it is taken for leaving


@dataclass(frozen=True, slots=True)
class Option:
    """A button; one that `rejects` says no or leaves, and is "deny" on hosts with two."""

    id: str
    label: str
    rejects: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A step; `title` must be enough, `text` adds descriptions, the selection and all options."""

    title: str
    text: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class MenuResult:
    """The end of a menu: content by field name, a decline, or too many steps."""

    outcome: Outcome
    content: JsonObject = field(default_factory=dict)


def obstacle(question: Question) -> str:
    """Why buttons cannot answer `question`; empty when they can."""
    if question.secret:
        return "a secret never passes through the host"
    if question.kind is Kind.SAMPLING or not question.fields:
        return "buttons carry no text"
    for each in question.fields:
        if each.columns:  # asked entry by entry
            if problem := obstacle(replace(question, fields=each.columns)):
                return problem
        elif each.type not in LISTED and whole_numbers(each) is None:
            return (
                f"{sanitize.label(each.title or each.name, 60)} is {_NAMES[each.type]}, and buttons"
                " cannot say that"
            )
    return ""


def as_kept(asked: Field) -> Field | None:
    """Return a text or number as a choice of its default, or None if a button cannot show it."""
    proposed = None if asked.default is MISSING else asked.default
    if asked.type not in _TYPED or not (isinstance(proposed, str) or is_number(proposed)):
        return None
    words = to_text(proposed)
    if not words or sanitize.label(words, sanitize.LABEL_LIMIT - len(_KEEP)) != words:
        return None
    kept = Choice(proposed, words, f"{_KEEP}{words}")
    return replace(asked, type=FieldType.CHOICE, default=MISSING, choices=(kept,))


class Menu:
    """One walk. `step` is what to show now; `choose` takes what was pressed on it."""

    def __init__(self, question: Question, max_buttons: int = 4) -> None:
        """`max_buttons` is at least 2. Raises ValueError if there is an `obstacle`."""
        if (problem := obstacle(question)) or max_buttons < 2:
            raise ValueError(problem or f"nothing can be chosen with {max_buttons} buttons")
        self._walk = _walk_question(question, max_buttons)
        self._note = f"\n{question.note}" if question.note else ""
        self._titles_only = max_buttons == 2
        self._taken = 0
        self._limit = MIN_STEPS + 10 * sum(len(choices_of(each)) for each in question.fields)
        self.step = self._shown(next(self._walk))

    def choose(self, option: str) -> Step | MenuResult:
        """Return the next step or the result.

        Raises RemoteProtocolError for an unknown option.
        """
        shown = [each.id for each in self.step.options]
        if option not in shown:
            raise RemoteProtocolError(
                f"the host chose {sanitize.label(option, 60)!r}, which is not on this step"
            )
        self._taken += 1
        if self._taken >= self._limit:
            return MenuResult(Outcome.INVALID)
        try:
            self.step = self._shown(self._walk.send(self._page.items[shown.index(option)].value))
        except StopIteration as end:
            walked: MenuResult = end.value
            return walked
        except _LeftError:
            return MenuResult(Outcome.CANCELLED)
        return self.step

    def _shown(self, page: _Page) -> Step:
        self._page = page
        options = tuple(
            Option(f"s{self._taken}-{number}", item.label, item.rejects)
            for number, item in enumerate(page.items)
        )
        also = f" {sanitize.label(self._note, sanitize.LABEL_LIMIT)}" if self._titles_only else ""
        return Step(
            f"{sanitize.label(page.title, TITLE_LIMIT)}{page.asked}{also.rstrip()}",
            page.text + self._note,
            options,
        )


# --- walks ----------------------------------------------------------------------------------------


class _Item(NamedTuple):
    label: str
    value: _Pressed
    rejects: bool = False


class _Page(NamedTuple):
    title: str
    text: str
    items: Sequence[_Item]
    asked: str = ""  # ends the title, and is never what is shortened


class _LeftError(Exception):
    """Everything that could be said was denied, again and again."""


class _MenuAction(enum.Enum):
    """What a button can mean that is no value of the app's."""

    MORE = enum.auto()
    SKIP = enum.auto()
    EMPTY = enum.auto()
    DONE = enum.auto()
    SEND = enum.auto()
    CHANGE = enum.auto()


_Pressed = JsonValue | _MenuAction
_Walk = Generator[_Page, _Pressed, _Pressed]

_MORE: Final = _Item(MORE, _MenuAction.MORE)
_SKIP: Final = _Item(SKIP, _MenuAction.SKIP, rejects=True)
_EMPTY: Final = _Item(LEAVE_EMPTY, _MenuAction.EMPTY, rejects=True)
_SEND: Final = _Item(SEND, _MenuAction.SEND)
_CHANGE: Final = _Item(CHANGE, _MenuAction.CHANGE)


def _walk_question(question: Question, max_buttons: int) -> Generator[_Page, _Pressed, MenuResult]:
    if question.kind is Kind.CONFIRM or question.consents:
        return (yield from _confirm(question, max_buttons))
    if len(question.fields) == 1:
        # An app that asks for one value says itself whether "none" is among its options; where an
        # agent's field may stay empty, there is a "Skip"; where that is null, "Leave empty".
        only = question.fields[0]
        skip = _SKIP if only.empty is MISSING else _EMPTY
        only = replace(only, required=skip is _SKIP and (only.required or question.wrapped))
        heading = (
            question.message
            if question.wrapped
            else f"{sanitize.label(question.message, PART_LIMIT)} {_wanted(only)}"
        )
        value = yield from _field(only, heading, max_buttons, skip)
        if value is _MenuAction.EMPTY:
            return MenuResult(Outcome.ACCEPTED)
        return (
            MenuResult(Outcome.DECLINED)
            if isinstance(value, _MenuAction)
            else MenuResult(Outcome.ACCEPTED, {only.name: value})
        )
    return (yield from _form(question, max_buttons))


def _confirm(question: Question, max_buttons: int) -> Generator[_Page, _Pressed, MenuResult]:
    items = [
        _Item(choice.label, choice.value, rejects=choice.value is False)
        for choice in yes_or_no(question)
    ]
    message = "\n\n".join(filter(None, (question.quoted, question.warning)))
    if question.consents:  # which file it is stands in the first paragraph, and is never shortened
        confirmed = yield _Page("", message, items, message.partition("\n\n")[0])
    else:
        warning = f" {question.warning}" if question.warning and max_buttons == 2 else ""
        confirmed = yield _Page(question.message, message, items, warning)
    return MenuResult(Outcome.ACCEPTED, {question.fields[0].name: confirmed is True})


def _form(question: Question, max_buttons: int) -> Generator[_Page, _Pressed, MenuResult]:
    content: dict[str, JsonValue] = {}
    todo = list(question.fields)
    while True:
        for each in todo:
            heading = (
                f"{sanitize.label(question.message, PART_LIMIT)} ({question.fields.index(each) + 1}"
                f" of {len(question.fields)}) {_wanted(each)}"
            )
            value = yield from _field(
                each, heading, max_buttons, _SKIP if each.required else _EMPTY
            )
            if value is _MenuAction.SKIP:
                return MenuResult(Outcome.DECLINED)
            content.pop(each.name, None)
            if not isinstance(value, _MenuAction):
                content[each.name] = value
        summary = "\n".join(f"{each.label}: {_answered(each, content)}" for each in question.fields)
        sent = (
            f"{sanitize.label(question.message, PART_LIMIT)} {summary}"
            if max_buttons == 2
            else question.message
        )  # with two buttons, titles are all that is seen
        pressed = yield from _one_of(
            f"{sent}\nSend this?", summary, [_SEND, _CHANGE, _SKIP], max_buttons
        )
        if pressed is _MenuAction.SEND:
            return MenuResult(Outcome.ACCEPTED, content)
        if pressed is _MenuAction.SKIP:
            return MenuResult(Outcome.DECLINED)
        fields = [
            _Item(f"{each.label}: {_answered(each, content)}", number)
            for number, each in enumerate(question.fields)
        ]
        changed = yield from _one_of(
            f"{question.message}\nChange which?", summary, fields, max_buttons
        )
        assert isinstance(changed, int)
        todo = [question.fields[changed]]


def _field(asked: Field, title: str, max_buttons: int, skip: _Item) -> _Walk:
    """One field: its value, or what `skip` stands for."""
    if asked.type is FieldType.CHOICES:
        return (yield from _several(asked, title, skip, max_buttons))
    choices = sorted(choices_of(asked), key=lambda choice: not is_default(asked, choice))
    items = [_Item(mark_default(asked, choice), choice.value) for choice in choices]
    # The way out comes last, and is not there when the options fill the step exactly: dismissing it
    # is the way out then.
    return (
        yield from _one_of(
            title,
            explain_options(asked),
            items if asked.required and len(items) == max_buttons > 2 else [*items, skip],
            max_buttons,
        )
    )


def _several(asked: Field, title: str, skip: _Item, max_buttons: int) -> _Walk:
    """Yield toggles until "Done", without those that the bounds forbid."""
    least, most = (
        default if (limit := as_count(asked.schema.get(word))) is None else limit
        for word, default in (("minItems", 0), ("maxItems", len(asked.choices)))
    )
    chosen = {choice.key for choice in asked.choices if is_default(asked, choice)}
    if max_buttons == 2:
        return (yield from _each_by_yes_or_no(asked, title, skip, chosen, (least, most)))
    page = 0
    while True:
        done = [_done(chosen)] if least <= len(chosen) <= most else []
        toggles = [
            _Item(_toggle(choice, chosen), choice.key)
            for choice in asked.choices
            if choice.key in chosen or len(chosen) < most
        ]
        pressed, page = yield from _paged(
            title, _chosen(asked, chosen), [*toggles, skip], max_buttons, pinned=done, page=page
        )
        if pressed is _MenuAction.DONE:
            return [choice.value for choice in asked.choices if choice.key in chosen]
        if pressed is skip.value:
            return pressed
        chosen ^= {str(pressed)}


def _each_by_yes_or_no(
    asked: Field, title: str, skip: _Item, chosen: set[str], limits: tuple[int, int]
) -> _Walk:
    """Yield a yes or no for each option; `limits` is the least and the most."""
    least, most = limits
    denied = 0
    while denied < ROUNDS:
        denied += 1
        for choice in asked.choices:
            if choice.key not in chosen and len(chosen) >= most:
                continue
            if (yield _question(title, _chosen(asked, chosen), _toggle(choice, chosen))):
                chosen.add(choice.key)
                denied = 0
            else:
                chosen.discard(choice.key)
        ends = [_done(chosen), skip] if least <= len(chosen) <= most else [skip]
        for item in ends:
            if (yield _question(title, _chosen(asked, chosen), item.label)):
                if item is skip:
                    return skip.value
                return [choice.value for choice in asked.choices if choice.key in chosen]
    raise _LeftError


def _done(chosen: Collection[str]) -> _Item:
    return _Item(f"{DONE} ({len(chosen)} chosen)", _MenuAction.DONE)


def _toggle(choice: Choice, chosen: Container[str]) -> str:
    return f"{'☑' if choice.key in chosen else '☐'} {choice.label}"


def _chosen(asked: Field, chosen: Container[str]) -> str:
    picked = ", ".join(choice.label for choice in asked.choices if choice.key in chosen)
    return f"Chosen: {picked or 'nothing yet'}\n{explain_options(asked)}"


def _one_of(title: str, about: str, items: Sequence[_Item], max_buttons: int) -> _Walk:
    pressed, _ = yield from _paged(title, about, items, max_buttons)
    return pressed


def _paged(
    title: str,
    about: str,
    items: Sequence[_Item],
    max_buttons: int,
    *,
    pinned: Sequence[_Item] = (),
    page: int = 0,
) -> Generator[_Page, _Pressed, tuple[_Pressed, int]]:
    """One of `items`: (its value, the page it was on). `pinned` ones are on every page."""
    options = {each.label for each in items if not isinstance(each.value, _MenuAction)}
    items, pinned = ([_set_apart(each, options) for each in some] for some in (items, pinned))
    more = _set_apart(_MORE, options)
    if max_buttons == 2:
        return (
            yield from _yes_or_no(title, about, [*items[:-1], *pinned, items[-1]], page)
        )  # the way out comes last
    if len(items) + len(pinned) <= max_buttons:
        return (yield _Page(title, about, [*pinned, *items])), 0
    size = max_buttons - 1 - len(pinned)
    pages = [items[start : start + size] for start in range(0, len(items), size)]
    page %= len(pages)
    while True:
        pressed = yield _Page(
            title, f"{about}\n(page {page + 1} of {len(pages)})", [*pinned, *pages[page], more]
        )
        if pressed is not _MenuAction.MORE:
            return pressed, page
        page = (page + 1) % len(pages)


def _set_apart(item: _Item, options: Container[str]) -> _Item:
    is_own = isinstance(item.value, _MenuAction)
    return item._replace(label=own_label(item.label, options)) if is_own else item


def _yes_or_no(
    title: str, about: str, items: Sequence[_Item], start: int
) -> Generator[_Page, _Pressed, tuple[_Pressed, int]]:
    """One of `items`, by a yes or no to each in turn."""
    at = start % len(items)
    for _ in range(ROUNDS * len(items)):
        item = items[at]
        if (yield _question(title, about, item.label)):
            return item.value, at + 1
        at = (at + 1) % len(items)
    raise _LeftError


def _question(title: str, about: str, words: str) -> _Page:
    """A yes or no."""
    items = [_Item("Yes", True), _Item("No", False, rejects=True)]
    return _Page(title, about, items, f" — {words}?")


# --- fields as lists of choices -------------------------------------------------------------------

_TYPED = {FieldType.TEXT, FieldType.NUMBER, FieldType.INTEGER}
_KEEP = "Keep: "
_NAMES = {
    FieldType.TEXT: "free text",
    FieldType.NUMBER: "a number",
    FieldType.INTEGER: "a number of any size",
    FieldType.FILE: "a file",
    FieldType.JSON: "nested data",
}


def _answered(asked: Field, content: JsonObject) -> str:
    return chosen_labels(asked, content[asked.name]) if asked.name in content else "(empty)"


def _wanted(asked: Field) -> str:
    """Return what a field asks: agents put the question into the description."""
    return sanitize.label(": ".join(filter(None, (asked.label, asked.description))), PART_LIMIT)


MAX_ENTRIES = 100  # of a list without a limit: nobody gives more, and a policy never ends by itself
MOST_ENTRIES = 400  # of a list whose limit is greater: with 20 columns each, one form brings them

Walk = Generator[Question, JsonObject, dict[str, JsonValue]]

_YES_NO: Schema = {"type": "boolean"}


class Bounds(NamedTuple):
    """How many entries a list may have."""

    least: int
    most: int

    def __str__(self) -> str:
        """In words: "at least 1, at most 3"."""
        least = [f"at least {self.least}"] if self.least else []
        return ", ".join([*least, f"at most {self.most}"])


def bounds(schema: Schema) -> Bounds:
    """Return a list schema's bounds: by default `MAX_ENTRIES`, at most `MOST_ENTRIES`."""
    least, most = (as_count(schema.get(word)) for word in ("minItems", "maxItems"))
    if most is None:
        return Bounds(least or 0, max(least or 0, MAX_ENTRIES))
    return Bounds(least or 0, min(most, MOST_ENTRIES))


def holds(columns: Sequence[Field], schema: Schema, proposed: JsonValue | Missing) -> bool:
    """Whether the entries can hold a list's whole default, so that none of it is lost."""
    if proposed is MISSING:
        return True
    kinds, entries = {each.name: each.type for each in columns}, as_list(proposed)
    return (
        isinstance(proposed, list)
        and len(entries) <= bounds(schema).most
        and all(
            isinstance(entry, Mapping)
            and entry.keys() <= kinds.keys()
            and all(value is None or carries(kinds[name], value) for name, value in entry.items())
            for entry in entries
        )
    )


def walk(question: Question) -> Walk:
    """The questions that together ask `question`; in the end its content, by field name."""
    content: dict[str, JsonValue] = {}
    if flat := tuple(each for each in question.fields if not each.columns):
        content |= yield replace(question, fields=flat)
    for each in question.fields:
        if each.columns and (entries := (yield from _entries(question, each))) is not MISSING:
            content[each.name] = entries
    return content


def _entries(
    question: Question, asked: Field
) -> Generator[Question, JsonObject, JsonValue | Missing]:
    least, most = bounds(asked.schema)
    proposed = as_list(asked.default) if asked.default is not MISSING else []
    another = _another(asked.columns)
    if not (least and asked.required):
        words = f"No entry yet ({bounds(asked.schema)})."
        any_at_all = replace(another, title="Add an entry", default=bool(proposed))
        if (yield _about(question, asked, words, (any_at_all,)))[another.name] is False:
            return [] if asked.required else MISSING
    entries: list[JsonValue] = []
    while len(entries) < most:
        number = len(entries) + 1
        fields = [with_default(each, proposed[number - 1 : number]) for each in asked.columns]
        if least <= number < most:
            fields.append(replace(another, default=len(proposed) > number))
        words = f"Entry {number} ({bounds(asked.schema)})."
        given = yield _about(question, asked, words, fields)
        entries.append({name: value for name, value in given.items() if name != another.name})
        if number >= least and given.get(another.name) is not True:
            break
    return entries


def _about(question: Question, asked: Field, words: str, fields: Sequence[Field]) -> Question:
    """What is asked of one entry: the list that it belongs to is said with the question."""
    named = asked.title if question.wrapped else asked.label
    about = ": ".join(filter(None, (named, asked.description)))
    message = "\n\n".join(filter(None, (question.message, about)))
    asking = replace(question, message=message, fields=tuple(fields), wrapped=False)
    return asking.with_note(words)


def _another(columns: Sequence[Field]) -> Field:
    """The field that says whether there is one more, under a name that no column has."""
    name = "another"
    while name in {each.name for each in columns}:
        name += "_"
    return Field(name, FieldType.BOOLEAN, _YES_NO, title="Add another entry")


def with_default(column: Field, proposed: Sequence[JsonValue]) -> Field:
    """Return the column with its default from the proposed entry; null is none unless a choice."""
    entry = as_object(proposed[0]) if proposed else {}
    if column.name not in entry:
        return column
    value = entry[column.name]
    is_none = value is None and all(each.value is not None for each in column.choices)
    return replace(column, default=MISSING if is_none else value)
