"""What a terminal host shows: the same events as text, and as JSON lines.

Everything from MCP is cleaned (`core.sanitize`) before it is written.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from abp_bridge.cli.parameters import titled_values
from abp_bridge.cli.runtime import shown_json
from abp_bridge.core.json_value import (
    Json,
    JsonObject,
    as_list,
    as_object,
    as_text,
    parse_json,
    to_text,
)
from abp_bridge.core.outcome import Outcome
from abp_bridge.core.question import MISSING, Field, Question
from abp_bridge.core.sanitize import label, message
from abp_bridge.core.words import count_of
from abp_bridge.surfaces.terminal.rendering import (
    Style,
    answer_line,
    can_move,
    field_title,
    heading,
    style_for,
    width,
    wrapped,
)
from abp_bridge.surfaces.terminal.surface import Terminal

PERSON = "person"
ASKS_FIRST = "consequential: you are asked before each call"
NEVER_PASSED = "asked of you, never passed"
BAR, SHORTEST_BAR = 24, 6  # columns of a progress bar
_WARNINGS = ("warning", "error", "critical", "alert", "emergency")


@dataclass(frozen=True, slots=True)
class Offer:
    """A capability from the bridge's list of tools; safe to show except its schema."""

    name: str
    tool: str
    description: str
    schema: JsonObject
    available: bool
    deprecated: str
    asks_first: bool
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """What was asked in a session.

    Attributes:
        rows: From `abp_status`; `answerer` names who really answered.
        asked: The number of questions, some of which may have no row any more.
        seconds: How long all took.
        answerers: A sentence for each answerer.
        remarks: Further sentences.
    """

    rows: Sequence[dict[str, Any]]
    asked: int
    seconds: float
    answerers: Sequence[str]
    remarks: Sequence[str]


class Output:
    """stdout, until it cannot be written any more: then `on_error` is called, once."""

    def __init__(self, on_error: Callable[[OSError], None]) -> None:
        self._on_error = on_error
        self._broken = False

    def write(self, words: str) -> None:
        """Write at once, or not at all."""
        if self._broken:
            return
        try:
            sys.stdout.write(words)
            sys.stdout.flush()
        except OSError as problem:
            self._broken = True
            self._on_error(problem)


class JsonView:
    """One JSON object a line, each with an `event`; `name` is the command's."""

    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name

    def _emit(self, event: str, **members: Json) -> None:
        line = json.dumps({"event": event, **members}, ensure_ascii=False, default=str)
        self._output.write(shown_json(line + "\n"))

    def note(self, words: str) -> None:
        self._emit("log", level="notice", **{"from": self._name}, told=words)

    def on_warning(self, words: str) -> None:
        self._emit("warning", told=words)

    def on_connected(self, **facts: Json) -> None:
        self._emit("connected", **facts)

    def on_offers(self, offers: Sequence[Offer]) -> None:
        members = ("name", "tool", "description", "available", "deprecated")
        listed = [
            {
                **{name: getattr(each, name) for name in members},
                **({"needsApproval": True} if each.asks_first else {}),
                **({"askedOfPerson": list(each.asked)} if each.asked else {}),
                "inputSchema": dict(each.schema),
            }
            for each in offers
        ]
        self._emit("capabilities", capabilities=listed)

    def on_call(self, capability: str, about: str) -> None:
        """The result says which capability it is of."""

    def on_question(self, number: int, question: Question, by: str) -> None:
        self._emit(
            "asked",
            number=number,
            **{"from": question.origin},
            kind=question.kind.value,
            message=question.message,
            fields=[_field_members(question, field) for field in question.fields],
        )

    def on_answer(
        self, number: int, question: Question, outcome: Outcome, content: JsonObject, by: str
    ) -> None:
        secret = {field.name for field in question.fields if field.secret}
        shown = {name: "••••••" if name in secret else value for name, value in content.items()}
        self._emit("answered", number=number, outcome=outcome.value, content=shown, by=by)

    def on_progress(self, capability: str, value: float, total: float | None, words: str) -> None:
        self._emit("progress", capability=capability, progress=value, total=total, message=words)

    def on_log(self, level: str, origin: str, words: str, data: Json) -> None:
        self._emit("log", level=level, **{"from": origin}, told=words, data=data)

    def on_result(
        self, capability: str, failed: bool, text: str, files: Sequence[str] = ()
    ) -> None:
        saved = {"files": list(files)} if files else {}
        self._emit("result", capability=capability, failed=failed, data=_parse(text), **saved)

    def on_error(self, code: int, words: str) -> None:
        """Why it ends early, with which exit code; stderr has the words too."""
        self._emit("error", exitCode=code, message=words)

    def on_end(self, account: Account) -> None:
        self._emit(
            "account",
            asked=account.asked,
            seconds=round(account.seconds, 3),
            questions=account.rows,
            remarks=account.remarks,
        )


def _field_members(question: Question, field: Field) -> dict[str, Json]:
    members: dict[str, Json] = {
        "name": field.name,
        "title": field_title(question, field),
        "type": field.type.value,
        "required": field.required,
    }
    if field.default is not MISSING:
        members["default"] = field.default
    if field.choices:
        members["choices"] = [{"key": each.key, "label": each.label} for each in field.choices]
    return members


class TextView:
    """Events as text. A `terminal` shows its own questions itself."""

    def __init__(self, output: Output, terminal: Terminal | None) -> None:
        self._output = output
        self._terminal = terminal
        self._style = style_for()
        self._has_bar = can_move()
        self._bar_open = False
        self._asking = False

    def _print_line(self, words: str = "") -> None:
        if self._asking and self._terminal is not None:
            self._terminal.say(words)
        else:
            self._end_bar()
            self._output.write(words + "\n")

    def _end_bar(self) -> None:
        if self._bar_open:
            self._output.write("\n")
            self._bar_open = False

    def _print_wrapped(
        self, words: str, style: str = "", indent: str = "  ", hanging: str | None = None
    ) -> None:
        lines = wrapped(words, indent, hanging)
        self._print_line("\n".join(self._style(style, line) if style else line for line in lines))

    def note(self, words: str) -> None:
        self._print_wrapped(words, "dim", indent="")

    def on_warning(self, words: str) -> None:
        self._print_wrapped(f"! {words}", "warn", indent="", hanging="  ")

    def on_connected(self, **facts: Json) -> None:
        app = f"{facts['app']} ({facts['origin']})"
        self._print_line()
        self._print_wrapped(
            f"Connected: {app}, through {facts['bridge']} on MCP {facts['mcp']}.", indent=""
        )
        if surfaces := ", ".join(facts["surfaces"]):
            self.note(f"This host can be asked on {surfaces}.")

    def on_offers(self, offers: Sequence[Offer]) -> None:
        self._print_line()
        for each in offers:
            state = "" if each.available else " (not available now)"
            gone = f" (deprecated: {each.deprecated})" if each.deprecated else ""
            asks = f" ({ASKS_FIRST})" if each.asks_first else ""
            self._print_line(f"  {self._style('strong', each.name)}{state}{gone}{asks}")
            self._print_wrapped(each.description, "dim", indent="    ")
            for words in parameter_lines(each.schema, each.asked):
                self._print_wrapped(words, indent="    ", hanging="      ")
        if not offers:
            self._print_wrapped("It names no capabilities.", indent="")

    def on_call(self, capability: str, about: str) -> None:
        self._heading(capability, about)

    def _heading(self, words: str, about: str) -> None:
        head = f"── {words}"
        first, *rest = wrapped(f"{head}  {about}" if about else head, indent="", hanging="   ")
        if first.startswith(head):
            first = self._style("strong", head) + self._style("dim", first.removeprefix(head))
        self._print_line("\n".join(["", first, *(self._style("dim", line) for line in rest)]))

    def on_question(self, number: int, question: Question, by: str) -> None:
        self._end_bar()
        self._asking = True
        if by != PERSON:
            self._output.write(heading(question, self._style) + "\n")

    def on_answer(
        self, number: int, question: Question, outcome: Outcome, content: JsonObject, by: str
    ) -> None:
        self._asking = False
        if by == PERSON:
            return
        source = f"  [{by}]"
        if outcome is not Outcome.ACCEPTED:
            lines = wrapped(outcome.value + source)
        elif not question.fields:
            lines = wrapped(str(content.get("result", "accepted")) + source)
        else:
            *others, last = question.fields
            lines = [
                answer_line(question, field, content.get(field.name, MISSING), self._style, after)
                for field, after in [*((each, "") for each in others), (last, source)]
            ]
        words = "\n".join(lines)
        if words.endswith(source):
            words = words.removesuffix(source) + self._style("dim", source)
        self._print_line(words)

    def on_progress(self, capability: str, value: float, total: float | None, words: str) -> None:
        """A bar that moves, or a line where it cannot."""
        share = value / total if total else None
        amount = (f"{value:g}" if value else "") if share is None else f"{round(share * 100):3d} %"
        room = min(BAR, width() - len(f"   {amount}  {words}") - 1)
        if not self._has_bar or self._asking or room < SHORTEST_BAR:
            self._print_wrapped(f"{amount}  {words}", hanging="         ")
            return
        done = 0 if share is None else round(min(share, 1.0) * room)
        rest = ("━" if self._style.colour else "·") * (room - done)
        bar = self._style("bar", "━" * done) + self._style("dim", rest)
        self._output.write(f"\r\x1b[2K  {bar} {amount}  {words}")
        self._bar_open = True

    def on_log(self, level: str, origin: str, words: str, data: Json) -> None:
        mark, style = ("!", "bad") if level in _WARNINGS else ("·", "dim")
        self._print_wrapped(f"{mark} {origin}: {words}", style, hanging="    ")

    def on_result(
        self, capability: str, failed: bool, text: str, files: Sequence[str] = ()
    ) -> None:
        self._print_line()
        self._show_result(capability, failed, _parse(text))
        for each in files:
            self._print_wrapped(each, indent="    ", hanging="      ")

    def _show_result(self, capability: str, failed: bool, data: Json) -> None:
        if failed or not isinstance(data, dict):
            verb, style = ("failed", "bad") if failed else ("returned", "")
            self._print_wrapped(
                f"{capability} {verb}: {message(to_text(data))}", style, hanging="    "
            )
            return
        self._print_line(f"  {capability} returned:")
        names = [label(name, 40) for name in data]
        room = max(map(len, names), default=0)
        for name, value in zip(names, data.values(), strict=True):
            words = f"{name:<{room}}  {message(_plain(value))}"
            self._print_wrapped(words, indent="    ", hanging=" " * (6 + room))

    def on_error(self, code: int, words: str) -> None:
        """Stderr has it."""

    def on_end(self, account: Account) -> None:
        self._heading("The account", "from the bridge itself (abp_status)")
        self._print_line()
        if not account.rows:
            self._print_wrapped(
                f"Nothing was asked. {_duration(account.seconds)} in all.", indent=""
            )
            return
        self._print_line(
            "\n".join(_table([_cells(*row) for row in enumerate(account.rows, 1)], self._style))
        )
        numbers: dict[str, list[str]] = {}
        for number, row in enumerate(account.rows, 1):
            if row["outcome"] == "unsupported":
                numbers.setdefault(label(row["reason"], 1_000), []).append(str(number))
        notes = [f"{reason} ({', '.join(asked)})" for reason, asked in numbers.items()]
        notes += [*account.answerers, *account.remarks]
        if notes:
            self._print_line()
        for note in notes:
            self._print_wrapped(note, "dim", hanging="    ")
        self._print_line()
        self._print_wrapped(_summary(account), indent="")


View = JsonView | TextView


def parameter_lines(schema: JsonObject, asked: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each parameter, and for those that are `asked` of the user."""
    required = as_list(schema.get("required"))
    known = as_object(schema.get("properties"))
    for name, part in known.items():
        about = as_object(part)
        named = dict.fromkeys(map(to_text, as_list(about.get("enum"))), "") | titled_values(about)
        options = (
            f"{value} ({title})" if title and title != value else value
            for value, title in named.items()
        )
        kind = label(" | ".join(options) or to_text(about.get("type", "any JSON")))
        left_out = ", asked of you where it is left out" if name in asked else ", may be left out"
        needed = "" if name in required else left_out
        described = label(as_text(about.get("description")), 300)
        yield f"{label(name)}: {kind}{needed}{f'. {described}' if described else ''}"
    yield from (f"{label(name)}: {NEVER_PASSED}" for name in asked if name not in known)


def _parse(text: str) -> Json:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _plain(value: Json) -> str:
    """Return a result's member as text; of an error its code and message."""
    if isinstance(value, dict) and "code" in value and "message" in value:
        return f"{value['code']}: {value['message']}"
    return to_text(value)


# --- the account ----------------------------------------------------------------------------------

_HEADS = ("", "asked", "kind", "outcome", "by", "route", "took")
_MESSAGE, _OUTCOME, _LAST = 1, 3, 6
_NARROWEST = 16  # columns for the messages
_COLOURS = {"accepted": "good", "declined": "warn", "cancelled": "warn"}


def _summary(account: Account) -> str:
    rows = account.rows
    counts = Counter(row["outcome"] for row in rows)
    spread = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    waited = _duration(sum(row["seconds"] for row in rows))
    forgotten = (
        "" if account.asked == len(rows) else f" (the bridge remembers the last {len(rows)})"
    )
    return (
        f"{count_of(account.asked, 'question')}{forgotten}: {spread}."
        f" {_duration(account.seconds)} in all, {waited} of it waiting for answers."
    )


def _cells(number: int, row: dict[str, Any]) -> list[str]:
    return [
        str(number),
        label(row["message"]),
        str(row["method"]).removeprefix("elicitation/").removesuffix("/create"),
        str(row["outcome"]),
        str(row.get("answerer", row["answeredBy"])),
        str(row["route"]) or "-",
        _duration(row["seconds"]),
    ]


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _table(rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    """Yield aligned columns; a long message wraps, or gets lines below."""
    rooms = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    rest = width() - sum(room + 2 for index, room in enumerate(rooms) if index != _MESSAGE) - 2
    if rest < _NARROWEST:
        indent = " " * (rooms[0] + 2)
        for number, asked, *others in rows:
            yield from wrapped(f"{number:>{rooms[0]}}  {asked}", indent="", hanging=indent)
            yield from wrapped("  ".join(others), indent=indent)
        return
    rooms[_MESSAGE] = min(rooms[_MESSAGE], rest)
    yield style("dim", "  ".join(_aligned(_HEADS, rooms)))
    for cells in rows:
        asked, *more = textwrap.wrap(cells[_MESSAGE], rooms[_MESSAGE]) or [""]
        line = _aligned([cells[0], asked, *cells[2:]], rooms)
        line[_OUTCOME] = style(_COLOURS.get(cells[_OUTCOME], "bad"), line[_OUTCOME])
        yield "  ".join(line)
        yield from (f"{'':{rooms[0]}}  {words}" for words in more)


def _aligned(cells: Sequence[str], rooms: Sequence[int]) -> list[str]:
    """Each cell as wide as its column; the first and the last are numbers, and stand right."""
    return [
        cell.rjust(room) if index in (0, _LAST) else cell.ljust(room)
        for index, (cell, room) in enumerate(zip(cells, rooms, strict=True))
    ]
