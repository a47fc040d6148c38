"""What a fixture shows of each of its questions, read from what passed and not from what the
fixture says of itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from abp_bridge.core.matrix import Surface
from abp_bridge.core.question import Field, FieldType, Question
from abp_bridge.protocols.abp import decode_question
from abp_bridge.trace.format import Entry, Recording, is_request

Json = Any


@dataclass
class Shown:
    """One question of an app's, the answer that the app got, and what passed in between."""

    question: Question
    answer: Json
    forms: list[Json] = field(default_factory=list)  # elicitation/create of either protocol
    cards: list[Json] = field(default_factory=list)  # session/request_permission
    samplings: list[Json] = field(default_factory=list)
    filled: list[Json] = field(default_factory=list)  # what was done on the bridge's own page
    screens: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    offered: list[Json] = field(default_factory=list)  # questions of the questions API
    replies: list[Json] = field(default_factory=list)  # and the answers of a program there
    told: list[str] = field(default_factory=list)  # what the model was told to ask
    brought: list[Json] = field(default_factory=list)  # and what it brought back

    @property
    def properties(self) -> list[Json]:
        """The fields of the only form."""
        (form,) = self.forms
        return list(form["requestedSchema"]["properties"].values())

    @property
    def names(self) -> list[list[str]]:
        """The buttons, card by card."""
        return [[option["name"] for option in card["options"]] for card in self.cards]

    @property
    def labels(self) -> list[str]:
        """What there is to choose from."""
        return [choice.label for each in self.question.fields for choice in each.choices]

    @property
    def nothing(self) -> bool:
        """Nobody was shown anything."""
        return not (
            self.forms
            or self.cards
            or self.samplings
            or self.filled
            or self.screens
            or self.offered
            or self.told
        )


def questions(fixture: Recording) -> list[Shown]:
    """Each question of a fixture, in the order in which they were asked."""
    found: list[Shown] = []
    entries = list(fixture.entries)
    for place, entry in enumerate(entries):
        if entry.sender == "app" and is_request(entry.value):
            id, request = (
                entry.value["id"],
                {name: entry.value[name] for name in ("method", "params")},
            )
            answered = next(
                (
                    n
                    for n, each in enumerate(entries)
                    if n > place and each.to == "app" and each.value.get("id") == id
                ),
                len(entries),
            )
            answer = entries[answered].value["result"] if answered < len(entries) else None
            found.append(Shown(_question(request), answer))
            for each in entries[place + 1 : answered]:
                _note(found[-1], each)
    return found


def _question(request: Json) -> Question:
    """As the bridge asks it: where a file is named, for leave to read it."""
    question = decode_question(request, id="", origin="")
    named = "uri" in request["params"]
    return (
        replace(question, fields=(Field("confirmed", FieldType.BOOLEAN, {}),))
        if named
        else question
    )


def _note(shown: Shown, entry: Entry) -> None:
    value = entry.value
    if entry.kind == "fill":
        shown.filled.append(value)
    elif entry.kind == "screen":
        shown.screens += value
    elif entry.kind == "keys":
        shown.typed.append(value.rstrip("\n"))
    elif entry.kind == "http":
        shown.replies += value.get("body", {}).get("answers", [])
    elif entry.to == "person" and value.get("type") == "question.asked":
        shown.offered += value["properties"]["questions"]
    elif entry.to == "host":
        _note_said(shown, value)
    elif entry.sender == "host" and value.get("params", {}).get("name") == "abp_answer":
        shown.brought.append(value["params"]["arguments"]["content"])


def _note_said(shown: Shown, said: Json) -> None:
    for request in [said, *said.get("result", {}).get("inputRequests", {}).values()]:
        lists = {
            "elicitation/create": shown.forms,
            "session/request_permission": shown.cards,
            "sampling/createMessage": shown.samplings,
        }
        if (kept := lists.get(request.get("method", ""))) is not None:
            kept.append(request["params"])
    for part in said.get("result", {}).get("content", ()):
        if "abp_answer" in part.get("text", ""):
            shown.told.append(part["text"])


def version(fixture: Recording) -> str:
    """The version of the host's protocol that was agreed on."""
    for entry in fixture.entries:
        value = entry.value if entry.kind == "message" else {}
        if entry.to == "host" and "protocolVersion" in value.get("result", {}):
            return str(value["result"]["protocolVersion"])
        if entry.sender == "host" and (
            asked := value.get("params", {})
            .get("_meta", {})
            .get("io.modelcontextprotocol/protocolVersion")
        ):
            return str(asked)
    raise AssertionError("no version was agreed on")


# --- what a cell of the matrix looks like ---------------------------------------------------------

TYPES = {
    FieldType.TEXT: "string",
    FieldType.NUMBER: "number",
    FieldType.INTEGER: "integer",
    FieldType.BOOLEAN: "boolean",
    FieldType.CHOICE: "string",
    FieldType.CHOICES: "array",
}


def form(shown: Shown) -> bool:
    """One form, in which each field is what the app asked for, with all of its options."""
    kinds = [part["type"] for part in shown.properties]
    options = [option for part in shown.properties for option in _options(part.get("items", part))]
    return (
        kinds == [TYPES[each.type] for each in shown.question.fields]
        and options == shown.labels
        and not shown.filled
    )


def _options(part: Mapping[str, Json]) -> Sequence[str]:
    titled = part.get("oneOf", part.get("anyOf"))
    return (
        [each["title"] for each in titled]
        if titled
        else part.get("enumNames", part.get("enum", []))
    )


def text_form(shown: Shown) -> bool:
    return [part["type"] for part in shown.properties] == ["string"] and "JSON" in json.dumps(
        shown.forms
    )


def yes_or_no_form(shown: Shown) -> bool:
    return [part["type"] for part in shown.properties] == ["boolean"] * len(shown.labels) and [
        part["title"] for part in shown.properties
    ] == shown.labels


def buttons(shown: Shown) -> bool:
    """Cards of four buttons at most; all that there is to choose from is a button of the first, or
    stands in its text.
    """
    said = json.dumps(shown.cards[0], ensure_ascii=False)
    labels = shown.labels or _count(shown.question)
    yes_or_no = {option["kind"] for option in shown.cards[0]["options"]} == {
        "allow_once",
        "reject_once",
    }
    return all(len(names) <= 4 for names in shown.names) and (
        all(label in said for label in labels) if labels else yes_or_no
    )


def _count(question: Question) -> list[str]:
    schema = question.fields[0].schema
    return (
        [str(each) for each in range(schema["minimum"], schema["maximum"] + 1)]
        if "maximum" in schema
        else []
    )


def safe_first(shown: Shown) -> bool:
    return len(shown.cards) == 1 and shown.cards[0]["options"][0]["kind"] == "reject_once"


def paged(shown: Shown) -> bool:
    """More than one card of four buttons, in whose text all that there is stands."""
    said = json.dumps(shown.cards[0], ensure_ascii=False)
    return (
        len(shown.cards) > 1
        and all(len(names) == 4 and names[-1] == "More …" for names in shown.names[:-1])
        and all(each in said for each in shown.labels)
    )


def toggles(shown: Shown) -> bool:
    return (
        len(shown.cards) > 1
        and all(names[0].startswith("Done (") for names in shown.names)
        and all(len(names) <= 4 for names in shown.names)
    )


def field_by_field(shown: Shown) -> bool:
    """Each field has a card, and what comes of all of them is shown once more."""
    return len(shown.cards) > len(shown.question.fields) and "Send" in shown.names[-1]


def page(shown: Shown) -> bool:
    """Filled in on the page, where the question stands and all that there is to choose from; the
    host was shown nothing that can be filled in.
    """
    (filled,) = shown.filled
    asked = [shown.question.message, *shown.labels]
    if not all(words in filled["reads"] for words in asked):
        return False
    fields = [
        part
        for form in shown.forms
        for part in form.get("requestedSchema", {}).get("properties", {})
    ]
    return not fields and not shown.offered and not shown.screens


def terminal(shown: Shown) -> bool:
    """Shown and typed at a terminal, with all that there is to choose from."""
    lines = "\n".join(shown.screens)
    return (
        bool(shown.typed)
        and shown.question.message in lines
        and all(label in lines for label in shown.labels)
    )


def offered(shown: Shown) -> bool:
    """Offered to a program, with all that there is to choose from."""
    options = [option["label"] for each in shown.offered for option in each["options"]]
    return options == shown.labels and len(shown.offered) == len(shown.question.fields) == len(
        shown.replies
    )


def offered_as_text(shown: Shown) -> bool:
    return [(each["options"], each["custom"]) for each in shown.offered] == [([], True)]


def offered_as_options(shown: Shown) -> bool:
    return [(len(each["options"]), each["custom"]) for each in shown.offered] == [(2, False)]


def by_the_model(shown: Shown) -> bool:
    return len(shown.told) == len(shown.brought) == 1 and shown.question.message in shown.told[0]


HOW: dict[Surface, dict[str, Callable[[Shown], bool]]] = {
    Surface.MCP_FORM: {
        "": form,
        "as JSON text": text_form,
        "a yes or no per option": yes_or_no_form,
    },
    Surface.ACP_FORM: {"": form, "as JSON text": text_form},
    Surface.MCP_URL: {"on a page of the bridge's own": page},
    Surface.ACP_URL: {"on a page of the bridge's own": page},
    Surface.PAGE: {"on a page of the bridge's own": page},
    Surface.ACP_PERMISSION: {
        "as options": buttons,
        "as options, the safe one first": safe_first,
        "by pages": paged,
        "as toggles": toggles,
        "one field after the other": field_by_field,
    },
    Surface.TERMINAL: {
        "": terminal,
        "as JSON text": lambda shown: terminal(shown) and shown.typed[0].startswith("{"),
        "as a path": lambda shown: terminal(shown) and shown.typed[0].endswith("/policy.txt"),
    },
    Surface.QUESTIONS_API: {
        "": offered,
        "as typed text": offered_as_text,
        "as JSON text": lambda shown: (
            offered_as_text(shown) and "JSON" in json.dumps(shown.offered)
        ),
        "as options": offered_as_options,
        "as options, the safe one first": lambda shown: (
            offered_as_options(shown) and shown.offered[0]["options"][0]["label"] == "No, do not"
        ),
    },
    Surface.MOCK: {"": lambda shown: shown.nothing},
    Surface.MODEL: {"in the model's words": by_the_model},
    Surface.MCP_SAMPLING: {"": lambda shown: len(shown.samplings) == 1 and not shown.forms},
}
