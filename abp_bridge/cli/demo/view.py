"""What the demo shows: the same events in words for a person, and as JSON lines for a program.

Everything that came over MCP is cleaned (`core.text`) before it is written.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from abp_bridge.core import json_text
from abp_bridge.core.json_value import Json
from abp_bridge.core.question import MISSING, Outcome, Question
from abp_bridge.core.sanitize import label, message
from abp_bridge.surfaces.terminal.rendering import (
    answer_line,
    can_move,
    field_title,
    heading,
    style_for,
    width,
    wrapped,
)
from abp_bridge.surfaces.terminal.surface import Terminal

Row = Mapping[str, Json]

PERSON = "person"
BAR, SHORTEST_BAR = 24, 6


@dataclass(frozen=True, slots=True)
class Account:
    """What was asked in a session.

    `rows` are the bridge's (`abp_status`, questions.ended); `asked` counts more where it has
    forgotten some.

    `answerers` says who stood behind the bridge's word for who answered, where that is not the
    word's own meaning: word -> (name, explanation).
    """

    rows: Sequence[Row]
    asked: int
    seconds: float
    answerers: Mapping[str, tuple[str, str]]
    remarks: Sequence[str]


class View(Protocol):
    """Where the demo tells what happens."""

    def note(self, words: str) -> None: ...

    def connected(self, facts: Mapping[str, Json]) -> None:
        """`bridge`, `mcp`, `app`, `origin`, `surfaces`, `capabilities`, `answers`."""
        ...

    def calling(self, capability: str, about: str) -> None: ...

    def asked(self, number: int, question: Question, by: str) -> None:
        """`by` is who is asked."""
        ...

    def answered(
        self,
        number: int,
        question: Question,
        outcome: Outcome,
        content: Mapping[str, Json],
        by: str,
    ) -> None: ...

    def progress(self, capability: str, value: float, total: float | None, words: str) -> None: ...

    def told(self, level: str, origin: str, words: str, data: Json) -> None: ...

    def result(self, capability: str, failed: bool, text: str) -> None: ...

    def account(self, account: Account) -> None: ...


class Out:
    """stdout, until it cannot be written any more: then `gone` is called, once."""

    def __init__(self, gone: Callable[[OSError], None]) -> None:
        self._gone: Callable[[OSError], None] | None = gone

    def write(self, words: str) -> None:
        if self._gone is None:
            return
        try:
            sys.stdout.write(words)
            sys.stdout.flush()
        except OSError as problem:
            gone, self._gone = self._gone, None
            gone(problem)


class JsonLines:
    """One JSON object a line, each with an `event`."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def _put(self, event: str, **members: Json) -> None:
        self._out.write(
            json.dumps({"event": event, **members}, ensure_ascii=False, default=str) + "\n"
        )

    def note(self, words: str) -> None:
        self._put("log", level="notice", **{"from": "abp-bridge demo"}, told=words)

    def connected(self, facts: Mapping[str, Json]) -> None:
        self._put("connected", **facts)

    def calling(self, capability: str, about: str) -> None:
        """The result says which capability it is of."""

    def asked(self, number: int, question: Question, by: str) -> None:
        fields = [
            {
                "name": field.name,
                "title": field_title(question, field),
                "type": field.type.value,
                "required": field.required,
            }
            | ({} if field.default is MISSING else {"default": field.default})
            | (
                {
                    "choices": [
                        {"key": choice.key, "label": choice.label} for choice in field.choices
                    ]
                }
                if field.choices
                else {}
            )
            for field in question.fields
        ]
        self._put(
            "asked",
            number=number,
            **{"from": question.origin},
            kind=question.kind.value,
            message=question.message,
            fields=fields,
        )

    def answered(
        self,
        number: int,
        question: Question,
        outcome: Outcome,
        content: Mapping[str, Json],
        by: str,
    ) -> None:
        secret = {field.name for field in question.fields if field.secret}
        shown = {name: "••••••" if name in secret else value for name, value in content.items()}
        self._put("answered", number=number, outcome=outcome.value, content=shown, by=by)

    def progress(self, capability: str, value: float, total: float | None, words: str) -> None:
        self._put("progress", capability=capability, progress=value, total=total, message=words)

    def told(self, level: str, origin: str, words: str, data: Json) -> None:
        self._put("log", level=level, **{"from": origin}, told=words, data=data)

    def result(self, capability: str, failed: bool, text: str) -> None:
        self._put("result", capability=capability, failed=failed, data=_parsed(text))

    def account(self, account: Account) -> None:
        rows = [
            (
                {**row, "answerer": account.answerers[row["answeredBy"]][0]}
                if row["answeredBy"] in account.answerers
                else row
            )
            for row in account.rows
        ]
        self._put(
            "account",
            asked=account.asked,
            seconds=round(account.seconds, 3),
            questions=rows,
            remarks=list(account.remarks),
        )


class Words:
    """Words on the terminal, or plain lines where it is none.

    With a `terminal`, that shows the questions itself.
    """

    def __init__(self, out: Out, terminal: Terminal | None) -> None:
        self._out = out
        self._terminal = terminal
        self._ink = style_for()
        self._bar = can_move()
        self._bar_open = False
        self._asking = False

    def _line(self, words: str) -> None:
        if self._asking and self._terminal is not None:
            self._terminal.say(words)
            return
        self._out.write(("\n" if self._bar_open else "") + words + "\n")
        self._bar_open = False

    def _lines(
        self, words: str, style: str = "", indent: str = "  ", hanging: str | None = None
    ) -> None:
        lines = wrapped(words, indent, hanging)
        self._line("\n".join(self._ink(style, line) if style else line for line in lines))

    def note(self, words: str) -> None:
        self._lines(words, "dim", indent="")

    def connected(self, facts: Mapping[str, Json]) -> None:
        self._line("")
        self._lines(
            f"Connected: {facts['app']} ({facts['origin']}), through {facts['bridge']} on MCP"
            f" {facts['mcp']}.",
            indent="",
        )
        self._lines(f"This host can be asked on {', '.join(facts['surfaces'])}.", "dim", indent="")

    def calling(self, capability: str, about: str) -> None:
        self._line(f"\n{self._ink('strong', f'── {capability}')}  {self._ink('dim', about)}")

    def asked(self, number: int, question: Question, by: str) -> None:
        if self._bar_open:
            self._out.write("\n")
            self._bar_open = False
        self._asking = True
        if self._terminal is None or by != PERSON:
            self._out.write(heading(question, self._ink) + "\n")

    def answered(
        self,
        number: int,
        question: Question,
        outcome: Outcome,
        content: Mapping[str, Json],
        by: str,
    ) -> None:
        self._asking = False
        if self._terminal is not None and by == PERSON:
            return
        lines = (
            [
                answer_line(question, field, content.get(field.name, MISSING), self._ink)
                for field in question.fields
            ]
            if outcome is Outcome.ACCEPTED
            else []
        )
        lines += [f"  {outcome.value}"] if outcome is not Outcome.ACCEPTED else []
        lines += (
            []
            if question.fields or outcome is not Outcome.ACCEPTED
            else ["\n".join(wrapped(str(content.get("result", "accepted"))))]
        )
        self._line("\n".join(lines) + self._ink("dim", f"  [{by}]"))

    def progress(self, capability: str, value: float, total: float | None, words: str) -> None:
        share = value / total if total else None
        amount = f"{value:g}" if share is None else f"{round(share * 100):3d} %"
        room = min(BAR, width() - len(f"   {amount}  {words}") - 1)
        if self._bar and not self._asking and room >= SHORTEST_BAR:
            done = 0 if share is None else round(min(share, 1.0) * room)
            bar = self._ink("bar", "━" * done) + self._ink(
                "dim", ("━" if self._ink.colour else "·") * (room - done)
            )
            self._out.write(f"\r\x1b[2K  {bar} {amount}  {words}")
            self._bar_open = True
            return
        self._lines(f"{amount}  {words}", hanging="         ")

    def told(self, level: str, origin: str, words: str, data: Json) -> None:
        mark = "!" if level in ("warning", "error", "critical", "alert", "emergency") else "·"
        self._lines(f"{mark} {origin}: {words}", "bad" if mark == "!" else "dim", hanging="    ")

    def result(self, capability: str, failed: bool, text: str) -> None:
        self._line("")
        data = _parsed(text)
        if failed or not isinstance(data, Mapping):
            words = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            self._lines(
                f"{capability} {'failed' if failed else 'returned'}: {message(words)}",
                "bad" if failed else "",
                hanging="    ",
            )
            return
        self._line(f"  {capability} returned:")
        names = [label(name, 40) for name in data]
        room = max(map(len, names), default=0)
        for name, value in zip(names, data.values(), strict=True):
            self._lines(
                f"{name:<{room}}  {message(_plain(value))}", indent="    ", hanging=" " * (6 + room)
            )

    def account(self, account: Account) -> None:
        self._line(
            f"\n{self._ink('strong', '── The account')} "
            f" {self._ink('dim', 'from the bridge itself (abp_status)')}\n"
        )
        rows = [
            _cells(number, row, account.answerers) for number, row in enumerate(account.rows, 1)
        ]
        self._line("\n".join(_table(rows, self._ink)))
        notes = [
            f"{label(row['reason'])} ({number})"
            for number, row in enumerate(account.rows, 1)
            if row["outcome"] == "unsupported"
        ]
        used = {row["answeredBy"] for row in account.rows}
        notes += [
            f"{name}: {why}" for word, (name, why) in account.answerers.items() if word in used
        ]
        if notes or account.remarks:
            self._line("")
        for note in (*notes, *account.remarks):
            self._lines(note, "dim", hanging="    ")
        counts: dict[str, int] = {}
        for row in account.rows:
            counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
        spread = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        waited = sum(row["seconds"] for row in account.rows)
        forgotten = (
            ""
            if account.asked == len(account.rows)
            else f" (the bridge remembers the last {len(account.rows)})"
        )
        self._line("")
        self._lines(
            f"{account.asked} questions{forgotten}: {spread}. {_took(account.seconds)} in all,"
            f" {_took(waited)} of it waiting for answers.",
            indent="",
        )


def _parsed(text: str) -> Any:
    try:
        return json_text.parse(text)
    except ValueError:
        return text


def _plain(value: Json) -> str:
    """An ABP answer's data as a person reads it: its only member, or the error it stands for."""
    if isinstance(value, Mapping):
        if "code" in value and "message" in value:
            return f"{value['code']}: {value['message']}"
        if len(value) == 1 and (only := next(iter(value))) in (
            "value",
            "confirmed",
            "selected",
            "result",
        ):
            return _plain(value[only])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- the account's table --------------------------------------------------------------------------

_HEADS = ("", "asked", "kind", "outcome", "by", "route", "took")
_MESSAGE = 1
_NARROWEST = 16
_COLOURS = {"accepted": "good", "declined": "warn", "cancelled": "warn"}


def _cells(number: int, row: Row, answerers: Mapping[str, tuple[str, str]]) -> list[str]:
    by = (
        answerers[row["answeredBy"]][0]
        if row["answeredBy"] in answerers
        else str(row["answeredBy"])
    )
    kind = str(row["method"]).removeprefix("elicitation/").removesuffix("/create")
    return [
        str(number),
        label(row["message"]),
        kind,
        str(row["outcome"]),
        by,
        str(row["route"]) or "-",
        _took(row["seconds"]),
    ]


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _table(rows: Sequence[Sequence[str]], paint: Callable[[str, str], str]) -> list[str]:
    """Aligned columns; the message wraps in what is left of the terminal's width, and has lines of
    its own where too little is.
    """
    rooms = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    rest = width() - sum(room + 2 for index, room in enumerate(rooms) if index != _MESSAGE) - 2
    stacked = rest < _NARROWEST
    rooms[_MESSAGE] = min(rooms[_MESSAGE], max(rest, _NARROWEST))
    lines: list[str] = []
    for cells in ([] if stacked else [_HEADS]) + list(rows):
        if stacked:
            lines += wrapped(
                f"{cells[0]:>{rooms[0]}}  {cells[_MESSAGE]}",
                indent="",
                hanging=" " * (rooms[0] + 2),
            )
            lines += wrapped("  ".join(cells[2:]), indent=" " * (rooms[0] + 2))
            continue
        asked, *more = textwrap.wrap(cells[_MESSAGE], rooms[_MESSAGE]) or [""]
        outcome = f"{cells[3]:<{rooms[3]}}"
        line = [
            f"{cells[0]:>{rooms[0]}}",
            f"{asked:<{rooms[1]}}",
            f"{cells[2]:<{rooms[2]}}",
            paint(_COLOURS.get(cells[3], "bad"), outcome),
        ]
        line += [f"{cells[4]:<{rooms[4]}}", f"{cells[5]:<{rooms[5]}}", f"{cells[6]:>{rooms[6]}}"]
        lines.append(
            "  ".join(line)
            if cells is not _HEADS
            else paint("dim", "  ".join([*line[:3], outcome, *line[4:]]))
        )
        lines += [f"{'':{rooms[0]}}  {extra}" for extra in more]
    return lines
