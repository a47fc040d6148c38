"""A page's form: its controls, its submit button, and which controls belong together.

`apps/webmcp/form.js` reads and sets it. The page is not trusted: the form is read again and
compared before it is sent. `form_question.py` asks the user, `form_answer.py` applies the answer.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
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
_WORD = re.compile(r"[\w.\[\]-]+")
_WHOLE = re.compile(r"-?[0-9]{1,400}")


def once(values: Iterable[str]) -> list[JsonValue]:
    """Each of `values` once: a list may have one twice."""
    return list(dict.fromkeys(values))


def mention(title: str) -> str:
    """What a page calls something, in the bridge's own words: in quotes, but where it is a word."""
    return title if _WORD.fullmatch(title) else json.dumps(title, ensure_ascii=False)


def with_plain_ends(text: str) -> str:
    """Its lines as a form's control has them."""
    return text.replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a list. `value` is what is sent."""

    value: str
    label: str
    selected: bool
    disabled: bool


@dataclass(frozen=True, slots=True)
class Control:
    """A control of a form and its current state.

    Attributes:
        type: The DOM type: `text`, `select-one`, `checkbox` ...
        name: Its form data name; empty if it is not sent.
        value: Its value, or what it sends if checked.
        checked: Whether it is checked.
        label: The page's label.
        description: The page's other text about it.
        required: Whether it is required.
        limits: `min`, `max`, `step`, `minLength`, `maxLength`, `pattern`, if set.
        autocomplete: Its tokens.
        accept: The file types it takes, as in the page.
        fixed: Whether it is hidden or read-only.
        options: Its options.
        problem: The browser's validation message.
        id: Its DOM id.
        holds_secret: Whether its value was given as a secret.
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
    id: str = ""
    holds_secret: bool = False

    @property
    def full_title(self) -> str:
        """What it is called, whole, as it came."""
        named = (self.label, self.name, self.id)
        return next(filter(sanitize.label, named), "a field without a name")

    @property
    def title(self) -> str:
        """What it is called, safe to show."""
        return sanitize.label(self.full_title)

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
        return with_plain_ends(self.value)

    @property
    def values(self) -> list[str]:
        """What it is sent as, a text each."""
        if self.type in MARKED:
            return [self.value] if self.checked else []
        if self.type in CHOSEN:
            return [each.value for each in self.options if each.selected and not each.disabled]
        return [with_plain_ends(self.value)]

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
        active: Whether it waits for the user.
        controls: Its controls, in order.
        button: The label of its submit button; empty without one.
        marked: The name and value the button sends; none without a name.
        ready: Whether a button can be pressed.
        frames: The origins of visible frames in it; empty for an unknown one.
        address: Its action.
        way: `get`, `post` or `dialog`.
        target: Its target, as in the page.
        sends: All the browser would send, as controls; None if not read.
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
    sends: tuple[Control, ...] | None = None

    @property
    def beyond(self) -> list[Control]:
        """Return what it sends besides its controls and button, such as a script's additions."""
        known = Counter(self._held())
        found: list[Control] = []
        for each in self.sends or ():
            if known[each.name, each.value] > 0:
                known[each.name, each.value] -= 1
            else:
                found.append(each)
        return found

    @property
    def unasked(self) -> list[Control]:
        """What it sends that nobody can change."""
        fixed = [each for each in self.controls if each.fixed and each.type != OWN_MADE]
        return [*(each for each in fixed if each.name), *self.beyond]

    @property
    def omissions(self) -> list[str]:
        """What its controls hold and it does not send, by their titles: a script takes it out."""
        if self.sends is None:
            return []
        sent = Counter((each.name, each.value) for each in self.sends)
        missing = {name for name, value in Counter(self._held()) - sent if value}
        titles = {each.name: each.title for each in reversed(self.controls)}
        return sorted(titles.get(name, name) for name in missing)

    def _held(self) -> Iterator[tuple[str, str]]:
        """What its controls and its button hold, as it is sent: of files nobody here knows."""
        for each in self.controls:
            if each.name and each.type not in ("file", OWN_MADE):
                yield from ((each.name, value) for value in each.values)
        if self.marked:
            name, value = self.marked
            yield name, value

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

    def entries(self, wanted: Collection[int] | None = None) -> list[Entry]:
        """Return what can be asked, in order; checkboxes of one name are one entry.

        Args:
            wanted: The places of the controls; None for all.

        Raises:
            RemoteProtocolError: It has too many entries.
        """
        groups: dict[tuple[str, str], list[int]] = {}
        for place, each in enumerate(self.controls):
            if wanted is not None and place not in wanted:
                continue
            apart = "" if each.type in MARKED and each.name else str(place)
            groups.setdefault((f"{each.type}{apart}", each.name), []).append(place)
        if len(groups) > MAX_FIELDS:
            raise RemoteProtocolError(
                f"a form may have at most {MAX_FIELDS} fields to be asked, not {len(groups)}"
            )
        found: list[Entry] = []
        used: set[str] = set()
        for (_, name), places in groups.items():
            first = self.controls[places[0]]
            named = key = name or first.id or first.title
            number = 2
            while key in used:
                key, number = f"{named} ({number})", number + 1
            used.add(key)
            found.append(Entry(key, tuple(places), tuple(self.controls[at] for at in places)))
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One or more controls that are one field.

    Attributes:
        key: Its name in the question.
        places: The positions of the controls in the form.
        controls: The controls, in the same order.
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
        """Return a unique name for each checkbox: its value, numbered if repeated."""
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
        controls=tuple(controls),
        button=sanitize.label(as_text(button.get("text")) or value, 80),
        marked=(name, value) if name else (),
        address=as_text(said.get("action")),
        way=as_text(said.get("method")),
        target=as_text(said.get("target")),
        ready=said.get("submit") is not None,
        frames=tuple(map(as_text, as_list(said.get("frames")))),
        sends=None if said.get("sends") is None else _decode_sends(as_list(said.get("sends"))),
    )


def _decode_sends(said: Iterable[JsonValue]) -> tuple[Control, ...]:
    """All that is sent, a text or a file's name each; where there is no file, none."""
    found: list[Control] = []
    for each in map(as_object, said):
        kind = "file" if "file" in each else "hidden"
        value = with_plain_ends(as_text(each.get("file", each.get("value"))))
        if value or kind != "file":
            found.append(Control(kind, as_text(each.get("name")), value, fixed=True))
    return tuple(found)


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
        id=as_text(said.get("id")),
    )


def withheld_controls(form: Form, *, at_once: bool = False) -> dict[str, bool]:
    """Return the names a model may not fill in (secrets, files, fixed), and whether the user is
    asked.

    Args:
        form: The form.
        at_once: Whether it is sent as soon as it is filled in; only then is the user asked.
    """
    kept = (each for each in form.controls if each.secret or each.fixed or each.type == "file")
    return {
        each.name: not each.fixed and (each.required or not at_once) for each in kept if each.name
    }


def parse_number(text: str) -> JsonValue | Missing:
    """What a control of numbers holds, as a number; MISSING where it holds none."""
    try:
        value = float(text)
    except ValueError:
        return MISSING
    if not math.isfinite(value):
        return MISSING
    return int(text) if _WHOLE.fullmatch(text) else plain_number(value)


def plain_number(value: float) -> int | float:
    """A number as people write it: 8, not 8.0."""
    return int(value) if value.is_integer() else value


def mark_secrets(form: Form, hide: Callable[[str], str]) -> Form:
    """Mark each control whose text contains a secret."""
    marked = (replace(each, holds_secret=hide(each.value) != each.value) for each in form.controls)
    return replace(form, controls=tuple(marked))
