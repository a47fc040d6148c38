"""Draw a recording as a sequence diagram: the host left, the bridge in the middle, apps and agents
right. It fits the given width; long values are cut, with the length that was left out. Pure.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from abp_bridge.conformance.format import (
    BRIDGE,
    HOST,
    MODEL,
    PERSON,
    Entry,
    Head,
    Recording,
    is_request,
    is_response,
)
from abp_bridge.core.json_value import JsonObject, JsonValue, as_list, as_object, to_text
from abp_bridge.core.sanitize import label
from abp_bridge.core.words import count_of

NARROWEST = 60  # columns: two arrows with a name on each
DETAIL_LINES = 3  # of what a message says, where it is no question
QUESTION_LINES = 40  # of what is asked, and of what comes of it
WHOLE = 1_000_000  # characters of what is shown whole: more than any line of a trace has
PERMISSION, UPDATE, FORM = "session/request_permission", "session/update", "elicitation/create"
# The member of a request's params that says what it is about.
_ABOUT = {"tools/call": "name", "capabilities/call": "capability", "resources/read": "uri"}
# What is asked and answered is worth the first lines, what goes with every message the last ones.
_WEIGHT = {"inputRequests": -1, "inputResponses": -1, "_meta": 1}

# By (party, whether the bridge asked, id): the requests so far.
Requests = Mapping[tuple[str, bool, str], JsonObject]
Named = tuple[str, str]  # what it is, and what it says


def draw(recording: Recording, width: int, *, full: bool = False) -> Iterator[str]:
    """Yield the lines of a drawing of `recording`, without line ends.

    Args:
        width: Columns, at least 60.
        full: Do not shorten anything.
    """
    width = max(NARROWEST, width)
    yield from _title(recording.head, width)
    parties = dict.fromkeys(each.party for each in recording.entries if each.party)
    right = [party for party in parties if party not in (HOST, PERSON)]
    half = (width - 3) // 2
    space = max(0, width - half - len(BRIDGE) - 2)
    yield (f"{HOST:<{half}} {BRIDGE} {', '.join(right):>{space}}".rstrip())
    requests: dict[tuple[str, bool, str], JsonObject] = {}
    for entry in recording.entries:
        if entry.kind == "message" and is_request(entry.value):
            requests[entry.party, entry.ours, str(entry.value["id"])] = entry.value
        if entry.kind == "event":
            when = "" if entry.ms is None else f"{entry.ms} ms "
            yield from _wrap(f"{when}· {_event(entry.value)}", width, "    ")
        else:
            yield from _arrow(entry, requests, half, many=len(right) > 1, full=full)
    if recording.unfinished:
        yield "(the last line of the file is cut off)"


def _title(head: Head, width: int) -> Iterator[str]:
    if head.shows:
        yield from _wrap(label(head.shows, 1_000), width, "")
    for cell in head.proves:
        yield from _wrap(f"proves {label(', '.join(filter(None, cell.values())))}", width, "  ")
    about = [
        head.host,
        " ".join(head.run),
        *(f"{name}={value}" for name, value in head.env.items()),
        *(f"{party} is {target}" for party, target in head.apps.items()),
    ]
    yield from _wrap(label("; ".join(filter(None, about)), 1_000), width, "  ")
    yield ""


def _arrow(entry: Entry, requests: Requests, half: int, *, many: bool, full: bool) -> Iterator[str]:
    """Draw one message: an arrow with its name, and its content below."""
    left = entry.party in (HOST, PERSON)
    who = f"{entry.party}: " if entry.party == PERSON or (many and not left) else ""
    name, detail = _name_message(entry, requests)
    to_the_right = entry.ours != left
    title, *more = _cut(who + name, half - 6)
    line = "─" * max(2, half - _columns(title) - 3)
    drawn = f"{title} {line}▶" if to_the_right else f"◀{line} {title}"
    most = QUESTION_LINES if _is_about_a_question(name) else DETAIL_LINES
    below = [*more, *_detail(detail, half - 3, None if full else most)]
    for words in (drawn, *(f"  {each}" for each in below)):
        space = " " * (half - _columns(words))
        yield f"{words}{space} │" if left else f"{' ' * half} │ {words}"


# What is no message, by its kind.
_KINDS: Mapping[str, Callable[[JsonObject], Named]] = {
    "closed": lambda said: ("(ends)", ""),
    "raw": lambda said: ("(no JSON)", label(said["raw"], 4_000)),
    "fill": lambda said: (f"fills in the page, {said['press']}", _dump(said["fill"])),
    "screen": lambda said: ("sees", label(" ⏎ ".join(map(str, as_list(said["screen"]))), WHOLE)),
    "keys": lambda said: (f"types {_dump(said['keys'])}", ""),
    "http": lambda said: (label(said["http"]), _dump(said["body"]) if "body" in said else ""),
}


def _name_message(entry: Entry, requests: Requests) -> Named:
    if entry.kind in _KINDS:
        return _KINDS[entry.kind](entry.members)
    if not isinstance(entry.value, Mapping):
        return "?", _dump(entry.value)
    message = as_object(entry.value)
    if entry.party == PERSON:
        if "type" not in message:
            return "answered", _dump(message)
        return f"event {label(message['type'], 80)}", _dump(message.get("properties"))
    is_plain = entry.party == MODEL and "jsonrpc" not in message
    if is_response(message) and not is_plain:
        request = requests.get((entry.party, not entry.ours, str(message.get("id"))), {})
        return _response(message, request)
    return _describe_message(message)


def _response(message: JsonObject, request: JsonObject) -> Named:
    method, result = label(request.get("method", ""), 80), as_object(message.get("result"))
    pressed = str(as_object(result.get("outcome")).get("optionId"))
    if method == PERMISSION and (button := _buttons(request).get(pressed)):
        return f"presses [{button}]", ""
    words = " ".join(filter(None, (method, label(message.get("id"), 40))))
    if "error" in message:
        return f"error of {words}", _dump(message["error"])
    if requests := as_object(result.get("inputRequests")):
        asked = [
            f"{label(name, 40)}: {_asks(as_object(each).get('params', each))}"
            for name, each in requests.items()
        ]
        return f"result of {words} asks", "; ".join(asked)
    return f"result of {words}", _dump(message.get("result"))


def _describe_message(message: JsonObject) -> Named:
    """Describe a request, a notification or a model API's message."""
    method = label(_first(message, ("method", "type", "http", "status")), 80) or "?"
    rest = {name: each for name, each in message.items() if name not in ("type", "jsonrpc")}
    said = message.get("params", message.get("payload", message.get("body")))
    if not message.keys() & {"method", "payload", "http", "status"}:
        return method, _dump(rest)
    params = as_object(said)
    id = [label(message["id"], 40)] if is_request(message) else []
    if method == PERMISSION and (buttons := _buttons(message)):
        title = label(as_object(params.get("toolCall")).get("title"), 1_000)
        shown = [title, *(f"[{name}]" for name in buttons.values())]
        return " ".join([method, *id]), " ".join(shown)
    if method == UPDATE and (update := as_object(params.get("update"))):
        rest = {name: each for name, each in update.items() if name != "sessionUpdate"}
        return f"{method}: {label(update.get('sessionUpdate', '?'), 80)}", _dump(rest)
    about = params.get(_ABOUT.get(method, ""))
    words = " ".join([method, *([label(about, 80)] if isinstance(about, str) else []), *id])
    if method == FORM:
        return words, _asks(said)
    return words, "" if said in (None, {}) else _dump(said)


def _first(message: JsonObject, names: Sequence[str]) -> JsonValue:
    return next((message[name] for name in names if name in message), "")


def _is_about_a_question(name: str) -> bool:
    return PERMISSION in name or "elicitation/" in name or name.endswith(" asks")


def _asks(params: JsonValue) -> str:
    """Describe a form: its message and each field with its choices; unreadable ones unchanged."""
    form = as_object(params)
    properties = as_object(form.get("requestedSchema")).get("properties")
    parts = {name: as_object(part) for name, part in as_object(properties).items()}
    if not isinstance(properties, Mapping) or not all(parts.values()):
        return _dump(params)
    fields = [
        f"[{label(part.get('title', name))}:"
        f" {' | '.join(_choices(part)) or label(part.get('type'), 40)}]"
        for name, part in parts.items()
    ]
    return " ".join([label(form.get("message"), 4_000), *fields])


def _choices(part: JsonObject) -> list[str]:
    inside = as_object(part.get("items")) or part
    if titled := as_list(inside.get("oneOf", inside.get("anyOf"))):
        choices = map(as_object, titled)
        return [label(each.get("title", each.get("const"))) for each in choices]
    named = as_list(part.get("enumNames", inside.get("enum")))
    yes_or_no = ("Yes", "No") if part.get("type") == "boolean" else ()
    return [label(each) for each in named or yes_or_no]


def _buttons(request: JsonObject) -> dict[str, str]:
    """Return the labels of an ACP permission's options by id; empty for other requests."""
    params = as_object(request.get("params"))
    options = map(as_object, as_list(params.get("options")) if params.get("toolCall") else ())
    return {str(each.get("optionId")): label(each.get("name", each)) for each in options}


def _dump(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        value = {name: value[name] for name in sorted(value, key=lambda name: _WEIGHT.get(name, 0))}
    return label(json.dumps(value, ensure_ascii=False), WHOLE)


def _event(event: JsonObject) -> str:
    said = [f"{name}={to_text(each)}" for name, each in event.items() if name != "event"]
    return label(" ".join([to_text(event["event"]), *said]), 1_000)


def _detail(words: str, width: int, most: int | None) -> Sequence[str]:
    lines = _cut(words, width) if words else []
    if most is None or len(lines) <= most:
        return lines
    left = sum(map(len, lines[most:]))
    return [*lines[:most], f"… [{count_of(left, 'more character')}]"]


def _wrap(words: str, width: int, indent: str) -> Iterator[str]:
    first, *rest = _cut(words, width - len(indent)) or [""]
    yield first
    for line in rest:
        yield indent + line


def _cut(words: str, width: int) -> list[str]:
    """Wrap `words` to `width` columns."""
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
    """Return the width of the words in a terminal."""
    wide = unicodedata.east_asian_width
    return sum(1 + (wide(char) in "WF") for char in words if not unicodedata.combining(char))
