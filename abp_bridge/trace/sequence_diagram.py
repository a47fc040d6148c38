"""Draws a recording as a sequence for a person: the host on the left, the bridge in the middle,
apps and agents on the right. Pure.

It fits the width it is given. Of what is long the beginning is shown, and how much more there is.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from abp_bridge.core.json_value import Json
from abp_bridge.core.sanitize import label
from abp_bridge.trace.format import (
    BRIDGE,
    HOST,
    PERSON,
    Entry,
    Head,
    Recording,
    is_request,
    is_response,
)

NARROWEST = 60
DETAIL_LINES = 3
PERMISSION, UPDATE, FORM = "session/request_permission", "session/update", "elicitation/create"
QUESTION_LINES = 40  # of what is asked, and of what comes of it
# The member of a request's params that says what it is about.
_ABOUT = {"tools/call": "name", "capabilities/call": "capability", "resources/read": "uri"}
# What is asked and answered is worth the first lines, what goes with every message the last ones.
_WEIGHT = {"inputRequests": -1, "inputResponses": -1, "_meta": 1}

# What a response answers: (party, whether the bridge asked, id) -> the request.
Asked = Mapping[tuple[str, bool, str], Mapping[str, Json]]


def draw(recording: Recording, width: int, *, full: bool = False) -> Iterator[str]:
    """The lines of the drawing, none wider than `width` (of which it needs 60 at least).

    `full` leaves nothing out.
    """
    width = max(NARROWEST, width)
    yield from _title(recording.head, width)
    right = [
        party
        for party in dict.fromkeys(each.party for each in recording.entries if each.party)
        if party not in (HOST, PERSON)
    ]
    half = (width - 3) // 2
    space = max(0, width - half - len(BRIDGE) - 2)
    yield (f"{HOST:<{half}} {BRIDGE} {', '.join(right):>{space}}".rstrip())
    asked: dict[tuple[str, bool, str], Mapping[str, Json]] = {}
    for entry in recording.entries:
        if is_request(entry.value) and entry.kind == "message":
            asked[(entry.party, entry.ours, str(entry.value["id"]))] = entry.value
        if entry.kind == "event":
            yield from _wrapped(f"{_when(entry)}· {_event(entry.value)}", width, "    ")
        else:
            yield from _arrow(
                entry, asked, half, many=len(right) > 1, most=None if full else DETAIL_LINES
            )
    if recording.unfinished:
        yield "(the last line of the file is cut off)"


def _title(head: Head, width: int) -> Iterator[str]:
    if head.shows:
        yield from _wrapped(label(head.shows, 1_000), width, "")
    for cell in head.proves:
        yield from _wrapped(f"proves {label(', '.join(filter(None, cell.values())))}", width, "  ")
    about = [
        head.host,
        " ".join(head.run),
        *(f"{name}={value}" for name, value in head.env.items()),
    ]
    about += [f"{party} is {target}" for party, target in head.apps.items()]
    yield from _wrapped(label("; ".join(filter(None, about)), 1_000), width, "  ")
    yield ""


def _arrow(
    entry: Entry,
    asked: Asked,
    half: int,
    *,
    many: bool,
    most: int | None,
) -> Iterator[str]:
    """One message: an arrow with its name, and under it what it says."""
    left = entry.party in (HOST, PERSON)
    who = f"{entry.party}: " if entry.party == PERSON or (many and not left) else ""
    name, detail = _name(entry, asked)
    to_the_right = entry.ours != left
    title, *more = _cut(who + name, half - 6)
    line = "─" * max(2, half - _columns(title) - 3)
    drawn = f"{title} {line}▶" if to_the_right else f"◀{line} {title}"
    if most is not None and _is_about_a_question(name):
        most = QUESTION_LINES
    for words in [
        drawn,
        *(f"  {each}" for each in more),
        *(f"  {each}" for each in _detail(detail, half - 3, most)),
    ]:
        yield f"{words}{' ' * (half - _columns(words))} │" if left else f"{' ' * half} │ {words}"


Named = tuple[str, str]  # what it is, and what it says

# What is no message, by its kind.
_KINDS: Mapping[str, Callable[[Json], Named]] = {
    "closed": lambda value: ("(ends)", ""),
    "raw": lambda value: ("(no JSON)", label(value, 4_000)),
    "fill": lambda value: (f"fills in the page, {value['press']}", _dump(value["fill"])),
    "screen": lambda value: ("sees", label(" ⏎ ".join(value), 1_000_000)),
    "keys": lambda value: (f"types {_dump(value)}", ""),
    "http": lambda value: (
        label(value["http"], 200),
        _dump(value["body"]) if "body" in value else "",
    ),
}


def _name(entry: Entry, asked: Asked) -> Named:
    value = entry.value
    if entry.kind in _KINDS:
        return _KINDS[entry.kind](value)
    if not isinstance(value, Mapping):
        return "?", _dump(value)
    if entry.party == PERSON:
        return (
            (f"event {label(value['type'], 80)}", _dump(value["properties"]))
            if "type" in value
            else ("answered", _dump(value))
        )
    if is_response(value):
        return _response(value, asked.get((entry.party, not entry.ours, str(value.get("id"))), {}))
    return _said(value)


def _response(value: Mapping[str, Json], request: Mapping[str, Json]) -> Named:
    method, result = request.get("method", ""), value.get("result")
    if method == PERMISSION and (pressed := _pressed(request, value)):
        return f"presses [{pressed}]", ""
    words = " ".join(filter(None, (label(method, 80), label(value.get("id"), 40))))
    if "error" in value:
        return f"error of {words}", _dump(value["error"])
    asks = result.get("inputRequests") if isinstance(result, Mapping) else None
    if isinstance(asks, Mapping) and all(
        isinstance(each, Mapping) and isinstance(each.get("params"), Mapping)
        for each in asks.values()
    ):
        return f"result of {words} asks", "; ".join(
            f"{label(name, 40)}: {_asks(each['params'])}" for name, each in asks.items()
        )
    return f"result of {words}", _dump(result)


def _said(value: Mapping[str, Json]) -> Named:
    """A request or a notification."""
    method = label(value.get("method", value.get("type", "?")), 80)
    said = value.get("params", value.get("payload"))
    if method == PERMISSION and (buttons := _buttons(value)):
        title = label(value["params"]["toolCall"].get("title"), 1_000)
        return f"{method} {label(value.get('id'), 40)}", " ".join(
            [title, *(f"[{name}]" for name in buttons.values())]
        )
    if method == UPDATE and isinstance(said, Mapping) and isinstance(said.get("update"), Mapping):
        update = dict(said["update"])
        return f"{method}: {label(update.pop('sessionUpdate', '?'), 80)}", _dump(update)
    about = said.get(_ABOUT.get(method, "")) if isinstance(said, Mapping) else None
    named = f"{method} {label(about, 80)}" if isinstance(about, str) else method
    words = f"{named} {label(value['id'], 40)}" if is_request(value) else named
    if method == FORM and isinstance(said, Mapping) and "requestedSchema" in said:
        return words, _asks(said)
    return words, "" if said in (None, {}) else _dump(said)


def _is_about_a_question(name: str) -> bool:
    return PERMISSION in name or "elicitation/" in name or name.endswith(" asks")


def _asks(params: Mapping[str, Json]) -> str:
    """A form: what it asks, and each field with all that there is to choose from, as far as it can
    be read; else as it is.
    """
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not all(
        isinstance(each, Mapping) for each in properties.values()
    ):
        return _dump(params)
    fields = [
        f"[{label(part.get('title', name), 200)}:"
        f" {' | '.join(_choices(part)) or label(part.get('type'), 40)}]"
        for name, part in properties.items()
    ]
    return " ".join([label(params.get("message"), 4_000), *fields])


def _choices(part: Mapping[str, Json]) -> list[str]:
    inside = part["items"] if isinstance(part.get("items"), Mapping) else part
    titled = inside.get("oneOf", inside.get("anyOf"))
    if isinstance(titled, list) and all(isinstance(each, Mapping) for each in titled):
        return [label(each.get("title", each.get("const")), 200) for each in titled]
    listed = part.get("enumNames", inside.get("enum"))
    return (
        [label(each, 200) for each in listed]
        if isinstance(listed, list)
        else ["Yes", "No"]
        if part.get("type") == "boolean"
        else []
    )


def _buttons(request: Mapping[str, Json]) -> dict[str, str]:
    """The buttons of an ACP permission: their labels by option; empty for what is no such
    request.
    """
    try:
        return {
            str(option["optionId"]): label(option["name"], 200)
            for option in request["params"]["options"]
            if request["params"]["toolCall"]
        }
    except (KeyError, TypeError):
        return {}


def _pressed(request: Mapping[str, Json], response: Mapping[str, Json]) -> str:
    try:
        return _buttons(request).get(str(response["result"]["outcome"]["optionId"]), "")
    except (KeyError, TypeError):
        return ""


def _dump(value: Json) -> str:
    if isinstance(value, Mapping):
        value = {name: value[name] for name in sorted(value, key=lambda name: _WEIGHT.get(name, 0))}
    return label(json.dumps(value, ensure_ascii=False), 1_000_000)


def _event(value: Mapping[str, Json]) -> str:
    said = " ".join(
        f"{name}={each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)}"
        for name, each in value.items()
        if name != "event"
    )
    return label(f"{value['event']} {said}", 1_000)


def _when(entry: Entry) -> str:
    return "" if entry.ms is None else f"{entry.ms} ms "


def _detail(words: str, width: int, most: int | None) -> Sequence[str]:
    lines = _cut(words, width) if words else []
    if most is None or len(lines) <= most:
        return lines
    left = sum(len(each) for each in lines[most:])
    return [*lines[:most], f"… [{left} more characters]"]


def _wrapped(words: str, width: int, indent: str) -> Iterator[str]:
    first, *rest = _cut(words, width - len(indent)) or [""]
    yield first
    for line in rest:
        yield indent + line


def _cut(words: str, width: int) -> list[str]:
    """`words` in lines of at most `width` columns, broken at spaces where there are some."""
    lines: list[str] = []
    line, columns = "", 0
    for letter in words:
        wide = _columns(letter)
        if columns + wide > width:
            space = line.rfind(" ")
            keep = space if space > width // 2 else len(line)
            lines.append(line[:keep].rstrip())
            line = line[keep:].lstrip()
            columns = _columns(line)
        line += letter
        columns += wide
    return [*lines, line] if line.strip() else lines


def _columns(words: str) -> int:
    return sum(
        (
            0
            if unicodedata.combining(letter)
            else 2
            if unicodedata.east_asian_width(letter) in "WF"
            else 1
        )
        for letter in words
    )
