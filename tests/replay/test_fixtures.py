"""Fixtures prove the matrix: each cell, what is suggested and described, and what apps tell, has a
conversation that shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fixture_maker.cases import CITIES, cases
from real_hosts.test_recordings import RECORDINGS, Recorded
from support import capabilities
from support.harness import PATIENCE, run
from support.notification_matrix import HINTS, NOTIFICATION_MATRIX, Hint, Trigger
from support.paths import FIXTURES

from abp_bridge.cli.matrix import WITHOUT
from abp_bridge.conformance.format import Entry, Recording, is_request, parse_recordings
from abp_bridge.core.matrix import (
    MATRIX,
    NOBODY,
    QuestionShape,
    Support,
    SurfaceVariant,
    find_cell,
    shape,
)
from abp_bridge.core.question import Field, FieldType, Kind, Question
from abp_bridge.core.surface import Surface
from abp_bridge.protocols.abp import decode_question

Json = Any


# --- what a fixture shows, read from what passed and not from what it says of itself --------------


@dataclass
class Shown:
    """One question of an app's, the answer that the app got, and what passed in between."""

    question: Question
    answer: Json
    forms: list[Json] = field(default_factory=list)  # elicitation/create of either protocol
    cards: list[Json] = field(default_factory=list)  # session/request_permission
    samplings: list[Json] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)  # of ABP, whole
    filled: list[Json] = field(default_factory=list)  # what was done on the bridge's own page
    screens: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    offered: list[Json] = field(default_factory=list)  # questions of the questions API
    replies: list[Json] = field(default_factory=list)  # and the answers of a program there
    told: list[str] = field(default_factory=list)  # what the model was told to ask
    brought: list[Json] = field(default_factory=list)  # and what it brought back
    messages: list[str] = field(default_factory=list)  # of an ACP agent
    prompts: list[str] = field(default_factory=list)  # of an ACP client

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
            or self.requests
            or self.filled
            or self.screens
            or self.offered
            or self.told
            or self.messages
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
    """As the bridge asks it: where a file is named, for permission to read it."""
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
    elif entry.sender == "host" and "error" in value:  # it has no buttons
        shown.cards.pop()
    elif entry.sender == "host" and value.get("method") == "session/prompt":
        shown.prompts += [block["text"] for block in value["params"]["prompt"]]


def _note_said(shown: Shown, said: Json) -> None:
    update = (said.get("params") or {}).get("update", {})
    if update.get("sessionUpdate") == "agent_message_chunk":
        shown.messages.append(update["content"]["text"])
    for request in [said, *said.get("result", {}).get("inputRequests", {}).values()]:
        lists = {
            "elicitation/create": shown.forms,
            "session/request_permission": shown.cards,
            "sampling/createMessage": shown.samplings,
        }
        if "id" in request and request.get("method") in METHODS:
            shown.requests.append(request)
        if (kept := lists.get(request.get("method", ""))) is not None:
            kept.append(request["params"])
    for part in said.get("result", {}).get("content", ()):
        if "abp_answer" in part.get("text", ""):
            shown.told.append(part["text"])


def agreed(fixture: Recording) -> str:
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
        and [option.partition(" — ")[0] for option in options] == shown.labels
        and not shown.filled
    )


SAFE = ("No, do not", "Do not allow")


def safe_first_form(shown: Shown) -> bool:
    """Two answers in words; the form stands on the first, which does no harm."""
    (part,) = shown.properties
    first, second = _options(part)
    return first in SAFE and second not in SAFE and part.get("default", first) == first


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
    schema: Mapping[str, Any] = question.fields[0].schema
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


def entry_by_entry(shown: Shown) -> bool:
    """Each entry of the list that the app got was asked for as such."""
    (entries,) = (each for each in shown.answer["data"]["value"].values() if isinstance(each, list))
    shows = (*shown.forms, *shown.cards, *shown.offered, *shown.messages)
    said = [json.dumps(each) for each in shows]
    numbers = range(1, len(entries) + 1)
    return len(entries) > 1 and all(any(f"Entry {n} " in each for each in said) for n in numbers)


def in_the_chat(shown: Shown) -> bool:
    """Said by the agent, with all that there is to choose from, and a prompt for each field."""
    said = "\n".join(shown.messages)
    return all(words in said for words in (shown.question.message, *shown.labels)) and len(
        shown.messages
    ) == len(shown.prompts) == len(shown.question.fields)


def by_the_model(shown: Shown) -> bool:
    return len(shown.told) == len(shown.brought) == 1 and shown.question.message in shown.told[0]


METHODS = {each.value for each in Kind}  # of ABP


def by_abp(shown: Shown) -> bool:
    """Asked as the app asks it, with all that there is to choose from."""
    [request] = shown.requests
    said = json.dumps(request, ensure_ascii=False)
    return request["method"] == shown.question.kind.value and all(
        words in said for words in (*shown.question.message.splitlines(), *shown.labels)
    )


def by_abps_confirm(shown: Shown) -> bool:
    return [request["method"] for request in shown.requests] == [Kind.CONFIRM.value]


HOW: dict[Surface, dict[str, Callable[[Shown], bool]]] = {
    Surface.MCP_FORM: {
        "": form,
        "as JSON text": text_form,
        "as options, the safe one first": safe_first_form,
        "a yes or no per option": yes_or_no_form,
        "one entry after the other": entry_by_entry,
    },
    Surface.ACP_FORM: {
        "": form,
        "as JSON text": text_form,
        "as options, the safe one first": safe_first_form,
        "one entry after the other": entry_by_entry,
    },
    Surface.MCP_URL: {"on a page of the bridge's own": page},
    Surface.ACP_URL: {"on a page of the bridge's own": page},
    Surface.PAGE: {"on a page of the bridge's own": page},
    Surface.ACP_PERMISSION: {
        "as options": buttons,
        "as options, the safe one first": safe_first,
        "by pages": paged,
        "as toggles": toggles,
        "one field after the other": field_by_field,
        "one entry after the other": entry_by_entry,
    },
    Surface.ACP_CHAT: {
        "as the next prompt": in_the_chat,
        "a prompt for each field": lambda shown: in_the_chat(shown) and len(shown.prompts) > 1,
        "one entry after the other": entry_by_entry,
        "as JSON in the next prompt": lambda shown: (
            in_the_chat(shown) and "JSON" in shown.messages[0] and shown.prompts[0].startswith("{")
        ),
    },
    Surface.TERMINAL: {
        "": terminal,
        "as JSON text": lambda shown: terminal(shown) and shown.typed[0].startswith("{"),
        "as a path": lambda shown: terminal(shown) and shown.typed[0].endswith("/policy.txt"),
    },
    Surface.QUESTIONS_API: {
        "": offered,
        "one entry after the other": entry_by_entry,
        "as typed text": offered_as_text,
        "as JSON text": lambda shown: (
            offered_as_text(shown) and "JSON" in json.dumps(shown.offered)
        ),
        "as options": offered_as_options,
        "as options, the safe one first": lambda shown: (
            offered_as_options(shown) and shown.offered[0]["options"][0]["label"] in SAFE
        ),
    },
    Surface.MOCK: {"": lambda shown: shown.nothing},
    Surface.MODEL_RELAY: {"in the model's words": by_the_model},
    Surface.ABP: {"": by_abp, "as a confirm": by_abps_confirm},
    Surface.MCP_SAMPLING: {"": lambda shown: len(shown.samplings) == 1 and not shown.forms},
    Surface.SAMPLING: {"": lambda shown: shown.nothing},
}


# --- the proofs -----------------------------------------------------------------------------------


def test_every_fixture_passes() -> None:
    played = run("replay", str(FIXTURES), timeout=20 * PATIENCE)
    assert played.returncode == 0, played.stdout
    assert (
        played.stdout.splitlines()[-1] == f"{len(list(FIXTURES.rglob('*.jsonl')))} passed, 0 failed"
    )


@dataclass(frozen=True)
class Claim:
    """What a fixture says that it proves, and which of its questions does."""

    path: Path
    proof: Mapping[str, str]
    place: int

    @property
    def fixture(self) -> Recording:
        return _fixture(self.path)


@cache
def _fixture(path: Path) -> Recording:
    (found,) = parse_recordings(path.read_text())
    return found


def claims(*members: str) -> list[Claim]:
    """Every claim that has these members."""
    found = [
        Claim(path, proof, place)
        for path in sorted(FIXTURES.rglob("*.jsonl"))
        for place, proof in enumerate(_fixture(path).head.proves)
    ]
    return [claim for claim in found if all(member in claim.proof for member in members)]


def named(claim: Claim) -> str:
    return f"{claim.path.relative_to(FIXTURES)}-{'-'.join(claim.proof.values())}"


CELLS = claims("surface", "version", "shape")
ASKED_SOMEBODY = [claim for claim in CELLS if claim.proof["surface"] != WITHOUT]


def test_each_cell_has_a_fixture() -> None:
    proven = {
        (claim.proof["surface"], claim.proof["version"], claim.proof["shape"])
        for claim in ASKED_SOMEBODY
    }
    assert proven == {
        (surface.value, version, shape.value)
        for (surface, version), row in MATRIX.items()
        for shape in row
    }


# fixture -> what its bridge is started with, and what passes there and nowhere else
WAYS_IN = {
    "mcp-legacy": ("mcp:{app}", "app", "method", "elicitation/create"),
    "mcp-modern": ("mcp:{app}", "bridge", "method", "server/discover"),
    "mcp-sampling": ("mcp:{app}", "app", "method", "sampling/createMessage"),
    "acp": ("acp:{app}", "app", "method", "session/request_permission"),
    "sampling-modern": ("stdio:{app}", "bridge", "resultType", "input_required"),
    "sampling-acp": ("stdio:{app}", "app model", "method", "session/request_permission"),
    "sampling-api": ("stdio:{app}", "bridge", "http", "POST /v1/messages"),
    "envelope": ("stdio:{app}", "app", "type", "elicitation/request"),
    "envelope-agent": ("stdio:{app}", "host", "type", "elicitation/response"),
    "webmcp-legacy": ("stdio:{app}", "app", "method", "elicitation/input"),
    "webmcp-modern": ("stdio:{app}", "bridge", "resultType", "input_required"),
    "webmcp-acp": ("stdio:{app}", "bridge", "method", "elicitation/create"),
}


def _members(message: Json, name: str) -> list[Json]:
    """What it has of that name, itself or its result."""
    result = message.get("result")
    return [message.get(name), result.get(name) if isinstance(result, dict) else None]


def test_each_other_way_in_has_a_fixture() -> None:
    shown = {path.stem: _fixture(path) for path in (FIXTURES / "apps").glob("*.jsonl")}
    assert set(shown) == set(WAYS_IN)
    for name, (target, sender, member, said) in WAYS_IN.items():
        assert shown[name].head.run[:3] == ("serve", "--app", target)
        assert [
            each
            for each in shown[name].entries
            if each.sender == sender and said in _members(each.value, member)
        ]


@pytest.mark.parametrize("claim", ASKED_SOMEBODY, ids=named)
def test_a_fixture_shows_what_the_matrix_says_of_its_cell(claim: Claim) -> None:
    surface, version = Surface(claim.proof["surface"]), claim.proof["version"]
    shown = questions(claim.fixture)[claim.place]
    assert shape(shown.question).value == claim.proof["shape"]
    assert version in ("", agreed(claim.fixture))
    cell = find_cell(shape(shown.question), SurfaceVariant(surface, version))
    if cell.support is Support.REFUSED:
        assert shown.answer["error"]["code"] == "NOT_SUPPORTED"
        assert f"{surface.value}: {cell.how}" in shown.answer["error"]["details"]["reason"]
        assert shown.nothing
        return
    assert shown.answer["success"]
    way = f"{surface.value} ({cell.how})" if cell.how else surface.value
    said = shown.answer["metadata"]["route"]
    # Several fields also say how each of them goes.
    assert (
        said.startswith(way.rstrip(")"))
        if claim.proof["shape"] == QuestionShape.FIELDS.value
        else said == way
    )
    assert HOW[surface][cell.how](shown)


def test_each_way_of_asking_in_the_matrix_has_its_evidence() -> None:
    ways = {
        (surface, cell.how)
        for (surface, _), row in MATRIX.items()
        for cell in row.values()
        if cell.asks
    }
    assert ways == {(surface, how) for surface, row in HOW.items() for how in row}


TREATED = {
    Support.NATIVE: {
        Surface.MCP_FORM,
        Surface.ACP_FORM,
        Surface.ABP,
        Surface.TERMINAL,
        Surface.QUESTIONS_API,
        Surface.MOCK,
        Surface.MCP_SAMPLING,
        Surface.SAMPLING,
    },
    Support.OUT_OF_BAND: {Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE},
}


@pytest.mark.parametrize("treatment", TREATED)
def test_what_is_native_and_what_is_out_of_band_has_one_meaning(treatment: Support) -> None:
    """Native is a surface's own way, without a word about how; out of band is the page, and nothing
    else is.
    """
    cells = [
        (surface, cell)
        for (surface, _), row in MATRIX.items()
        for cell in row.values()
        if cell.asks
    ]
    assert {surface for surface, cell in cells if cell.support is treatment} == TREATED[treatment]
    assert {(cell.how == "") for _, cell in cells if cell.support is Support.NATIVE} == {True}
    assert {cell.how for _, cell in cells if cell.support is Support.OUT_OF_BAND} == {
        "on a page of the bridge's own"
    }
    assert all(cell.how for _, cell in cells if cell.support is Support.DOWNGRADED)


@pytest.mark.parametrize(
    "claim", [claim for claim in CELLS if claim.proof["surface"] == WITHOUT], ids=named
)
def test_a_host_without_elicitation_is_never_answered_for(claim: Claim) -> None:
    shown = questions(claim.fixture)[claim.place]
    assert shape(shown.question).value == claim.proof["shape"]
    assert shown.nothing
    assert shown.answer["error"]["code"] == "NOT_SUPPORTED"
    reason = shown.answer["error"]["details"]["reason"]
    assert reason.startswith("Nobody could be asked: ")
    assert NOBODY in reason or "--page" in claim.fixture.head.run


def test_a_host_without_elicitation_has_a_fixture_for_each_shape() -> None:
    assert {claim.proof["shape"] for claim in CELLS if claim.proof["surface"] == WITHOUT} == {
        each.value for each in QuestionShape
    }


def heard(fixture: Recording) -> str:
    """All that the bridge said to the host and the app, and showed the person, since the app said
    something; and what they read and typed.
    """
    spoken = (
        place
        for place, entry in enumerate(fixture.entries)
        if entry.sender == "app" and "method" in entry.value
    )
    spoke = next(spoken, 0)  # an app that is not called says nothing
    said = [
        entry
        for entry in fixture.entries[spoke:]
        if entry.to in ("host", "person", "app") or entry.kind in ("fill", "keys")
    ]
    return "\n".join(
        f"{entry.to if entry.ours else entry.kind}: {json.dumps(entry.value, ensure_ascii=False)}"
        for entry in said
    )


def test_what_is_suggested_and_described_has_a_fixture_wherever_it_is_shown() -> None:
    proven = {
        (claim.proof["surface"], claim.proof["version"], claim.proof["hint"])
        for claim in claims("surface", "version", "hint")
    }
    assert proven == {
        (surface.value, version, hint.value)
        for (surface, version), row in HINTS.items()
        for hint in row
    }
    assert set(HINTS) == {
        column for column in MATRIX if column[0] not in (Surface.MCP_SAMPLING, Surface.SAMPLING)
    }


DEFAULT, ABOUT = Hint.DEFAULT, Hint.DESCRIPTION
SUGGESTED = '"reads": ["As it is printed there", "Suggested by who asks."], "fill": []'
# What is said of a hint in the matrix, and what is seen of it then.
HINTED: dict[tuple[Surface, Hint, str], str | tuple[str, ...]] = {
    (Surface.MCP_FORM, DEFAULT, ""): '"default": "Ann"',
    (
        Surface.MCP_FORM,
        DEFAULT,
        "in words, but for a yes or no",
    ): '"description": "As it is printed there (default: Ann)"',
    (Surface.MCP_FORM, ABOUT, ""): '"description": "As it is printed there',
    (Surface.ACP_FORM, DEFAULT, ""): '"default": "Ann"',
    (Surface.ACP_FORM, ABOUT, ""): '"description": "As it is printed there',
    (Surface.ABP, DEFAULT, ""): '"default": "Ann"',
    (Surface.ABP, ABOUT, ""): '"description": "As it is printed there',
    **{
        (surface, DEFAULT, "filled in, and said to be the app's"): SUGGESTED
        for surface in (Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE)
    },
    **{
        (surface, ABOUT, ""): '"reads": ["Both have Wi-Fi"'
        for surface in (Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE)
    },
    (
        Surface.ACP_PERMISSION,
        DEFAULT,
        "the first button, which says so; one that keeps it, of a short text or a number",
    ): (
        '"options": [{"optionId": "[option 3]", "name": "Second (default)"',
        '"options": [{"optionId": "[option 1]", "name": "Keep: Ann"',
    ),
    (Surface.ACP_PERMISSION, ABOUT, "in the card's text"): "Which class?\\n\\nBoth have Wi-Fi",
    (
        Surface.ACP_CHAT,
        DEFAULT,
        "in the message that asks",
    ): "on the card?\\n\\nAs it is printed there\\n\\nProposed by who asks: Ann",
    (Surface.ACP_CHAT, ABOUT, "in the message that asks"): "- Second (proposed)",
    (Surface.TERMINAL, DEFAULT, "Enter takes it"): '"Answer [Ann]:"]\nkeys: "\\n"',
    (Surface.TERMINAL, ABOUT, ""): '"As it is printed there"',
    (
        Surface.QUESTIONS_API,
        DEFAULT,
        "an option that says so",
    ): '{"label": "Ann", "description": "(suggested by who asks)"}',
    (Surface.QUESTIONS_API, ABOUT, "in words"): "on the card?\\n\\nAs it is printed there",
    (Surface.MOCK, DEFAULT, "what is written down is taken as it is"): '"route": "mock"',
    (Surface.MOCK, ABOUT, "what is written down is taken as it is"): '"route": "mock"',
    (
        Surface.MODEL_RELAY,
        DEFAULT,
        "in the schema that the model is given",
    ): '\\"default\\": \\"Ann\\"',
    (
        Surface.MODEL_RELAY,
        ABOUT,
        "in the schema that the model is given",
    ): '\\"description\\": \\"As it is printed there\\"',
}


@pytest.mark.parametrize("claim", claims("surface", "version", "hint"), ids=named)
def test_each_hint_is_shown_as_the_matrix_says(claim: Claim) -> None:
    surface, hint = Surface(claim.proof["surface"]), Hint(claim.proof["hint"])
    how = HINTS[surface, claim.proof["version"]][hint].how
    assert claim.proof["version"] in ("", agreed(claim.fixture))
    seen = HINTED[surface, hint, how]
    said = heard(claim.fixture)
    assert [each for each in ([seen] if isinstance(seen, str) else seen) if each not in said] == []
    assert {
        each.answer["metadata"]["route"].partition(" ")[0] for each in questions(claim.fixture)
    } == {surface.value}


def test_no_evidence_of_hints_is_left_over() -> None:
    assert set(HINTED) == {
        (surface, hint, route.how)
        for (surface, _), row in HINTS.items()
        for hint, route in row.items()
    }


LOG = (
    '"method": "notifications/message", "params": {"level": "%s", "logger": "stdio:app", "data":'
    ' {"event": "notifications/%s"'
)
SUMMED_UP = 'While it ran, the app told:\\n- %s"}], "isError": false'
TEXT = '{"type": "content", "content": {"type": "text", "text": '
IN_RESULT = (
    f'"status": "completed", "content": [{TEXT}"done"}}}}, {TEXT}"While it ran, the app'
    ' told:\\n- %s"'
)
NOTICE = '"sessionUpdate": "notice", "severity": "%s", "title": "%s'
TAKEN_DOWN = '"method": "notifications/cancelled", "params": {"requestId": "[id 4]"'
WITHDRAWN = '"method": "notifications/elicitation/withdrawn", "params": {"requestId": "[id 4]"'
CARD_DOWN = '"method": "$/cancel_request"'
STATE, STARTED, ERROR = (
    "seats is now 2",
    "started sync\\n- completed sync",
    "error RATE_LIMITED: Slow down.",
)
BOTH = (
    '"id": "q1", "result": {"success": true, "data": {"selected": "second"}',
    '"id": "q2", "result": {"success": true, "data": {"confirmed": true}',
)
CANCELLED = ('"success": false, "cancelled": true, "error": {"code": "USER_CANCELLED"',)

FORBIDDEN = (
    "May plan of",
    "USER_CANCELLED: plan was not called. It needs a person's approval (--confirm), and the user"
    " said no.",
)

# What is said of an event in the matrix, and all that is seen of it then.
SEEN: dict[tuple[Trigger, str], tuple[str, ...]] = {
    (Trigger.PROGRESS, "notifications/progress on the call's token"): tuple(
        '"method": "notifications/progress", "params": {"progressToken": "p1", "progress":'
        f" {number}"
        for number in (1, 2, 3)
    ),
    (Trigger.PROGRESS, "updates of the running tool call"): (
        (
            f'"toolCallId": "[tool 1]", "status": "in_progress", "content": [{TEXT}"33% · step 1 of'
            ' 3"}}]'
        ),
        '"_meta": {"toolNotification": {"type": "progress"',
    ),
    (Trigger.CAPABILITIES, "notifications/tools/list_changed"): (
        '"method": "notifications/tools/list_changed"}',
    ),
    (Trigger.CAPABILITIES, "notifications/tools/list_changed to those who listen"): (
        (
            '"method": "notifications/tools/list_changed", "params": {"_meta":'
            ' {"io.modelcontextprotocol/subscriptionId": "changes"'
        ),
    ),
    (Trigger.CAPABILITIES, "available_commands_update"): (
        (
            '"description": "Plan a trip", "input": {"hint": "JSON parameters, if it takes any"}},'
            ' {"name": "report"'
        ),
    ),
    (Trigger.STATE, "a resource, a log message, and at the end of the result"): (
        '"method": "notifications/resources/list_changed"',
        LOG % ("info", "state/changed"),
        SUMMED_UP % STATE,
    ),
    (
        Trigger.STATE,
        "a resource to those who listen, a log message, and at the end of the result",
    ): (
        (
            '"method": "notifications/resources/list_changed", "params": {"_meta":'
            ' {"io.modelcontextprotocol/subscriptionId": "changes"'
        ),
        LOG % ("info", "state/changed"),
        SUMMED_UP % STATE,
    ),
    (Trigger.STATE, "a notice where the client takes them, and in the result"): (
        NOTICE % ("info", STATE),
        IN_RESULT % STATE,
    ),
    (Trigger.OPERATION, "a log message, and at the end of the result"): (
        LOG % ("info", "operation/started"),
        LOG % ("info", "operation/completed"),
        SUMMED_UP % STARTED,
    ),
    (Trigger.OPERATION, "a tool call of its own"): (
        (
            '"sessionUpdate": "tool_call", "toolCallId": "[tool 2]", "title": "sync", "kind":'
            ' "other", "status": "in_progress"'
        ),
        '"sessionUpdate": "tool_call_update", "toolCallId": "[tool 2]", "status": "completed"',
    ),
    (Trigger.ERROR, "a log message, and at the end of the result"): (
        LOG % ("error", "error"),
        SUMMED_UP % ERROR,
    ),
    (Trigger.ERROR, "a notice where the client takes them, and in the result"): (
        NOTICE % ("error", ERROR),
        IN_RESULT % ERROR,
    ),
    (Trigger.DECLINED, "USER_CANCELLED"): (*CANCELLED, '"outcome": "declined"'),
    (Trigger.CANCELLED, "USER_CANCELLED"): (*CANCELLED, '"outcome": "cancelled"'),
    (Trigger.TIMEOUT, "the question is taken down by notifications/cancelled"): (
        TAKEN_DOWN,
        '"code": "TIMEOUT"',
    ),
    (Trigger.TIMEOUT, "the card is taken down by $/cancel_request"): (
        CARD_DOWN,
        '"code": "TIMEOUT"',
    ),
    (Trigger.TIMEOUT, "the next leg has the result, which says TIMEOUT"): (
        '"id": 1, "result": {"resultType": "input_required"',
        (
            '"id": 2, "result": {"resultType": "complete", "content": [{"type": "text", "text":'
            ' "TIMEOUT"}]'
        ),
    ),
    (Trigger.PREFERENCE, "the app's own"): (
        '"success": true, "data": {"value": "second"}, "metadata": {"answeredBy": "default"',
    ),
    (Trigger.HOST_CANCELS, "the question is taken down, the app hears capabilities/cancel"): (
        TAKEN_DOWN,
        '"method": "capabilities/cancel"',
    ),
    (Trigger.HOST_CANCELS, "the app hears capabilities/cancel"): (
        '"method": "capabilities/cancel"',
    ),
    (
        Trigger.HOST_CANCELS,
        "session/cancel: the card is taken down, the app hears capabilities/cancel",
    ): (
        CARD_DOWN,
        '"method": "capabilities/cancel"',
        '"stopReason": "cancelled"',
    ),
    (Trigger.APP_ENDS, "the question is taken down, the call fails"): (
        TAKEN_DOWN,
        '"text": "DISCONNECTED: The app is gone',
    ),
    (Trigger.APP_ENDS, "the card is taken down, the call fails"): (CARD_DOWN, '"status": "failed"'),
    (Trigger.APP_ENDS, "the next leg fails"): (
        (
            '"id": 2, "result": {"resultType": "complete", "content": [{"type": "text", "text":'
            ' "DISCONNECTED: The app is gone'
        ),
    ),
    (Trigger.TOGETHER, "both are asked, each has its own answer"): BOTH,
    (Trigger.PROGRESS, "notifications/progress of the agent's own callId"): tuple(
        f'"method": "notifications/progress", "params": {{"operationId": "c1", "progress": {number}'
        for number in (1, 2, 3)
    ),
    (Trigger.CAPABILITIES, "notifications/capabilities/list_changed"): (
        '"params": {"added": ["report"], "removed": [], "changed": []}',
    ),
    (Trigger.STATE, "notifications/state/changed"): (
        'host: {"jsonrpc": "2.0", "method": "notifications/state/changed", "params": {"field":'
        ' "seats"',
    ),
    (Trigger.OPERATION, "notifications/operation/started, completed"): tuple(
        f'host: {{"jsonrpc": "2.0", "method": "notifications/operation/{word}", "params":'
        ' {"operationId": "sync"'
        for word in ("started", "completed")
    ),
    (Trigger.ERROR, "notifications/error"): (
        'host: {"jsonrpc": "2.0", "method": "notifications/error", "params": {"code":'
        ' "RATE_LIMITED"',
    ),
    (Trigger.TIMEOUT, "the question is taken down by notifications/elicitation/withdrawn"): (
        WITHDRAWN,
        '"code": "TIMEOUT"',
    ),
    (Trigger.HOST_CANCELS, "capabilities/cancel: the question is taken down"): (
        WITHDRAWN,
        'app: {"jsonrpc": "2.0", "id": "[id 5]", "method": "capabilities/cancel"',
    ),
    (Trigger.APP_ENDS, "the question is taken down, and its call fails"): (
        WITHDRAWN,
        '"error": {"code": "DISCONNECTED"',
    ),
    (
        Trigger.CONFIRMED,
        "asked before the app hears of it; without a yes the result says so",
    ): FORBIDDEN,
    (Trigger.CONFIRMED, "asked before the app hears of it; without a yes the call fails"): (
        FORBIDDEN[0],
        '"code": "USER_CANCELLED", "message": "plan was not called.',
    ),
    (Trigger.TOGETHER, "both in one round, each has its own answer"): (
        '"inputRequests": {"[input 1]": {"method": "elicitation/create"',
        ', "[input 2]": {"method"',
        *BOTH,
    ),
}


@pytest.mark.parametrize("claim", claims("protocol", "event"), ids=named)
def test_each_event_reaches_its_hosts_as_the_matrix_says(claim: Claim) -> None:
    protocol, event = claim.proof["protocol"], Trigger(claim.proof["event"])
    if protocol == WITHOUT:
        assert event is Trigger.PREFERENCE
        protocol = "MCP 2025-11-25"
    assert protocol.partition(" ")[2] == agreed(claim.fixture)
    for each in SEEN[event, NOTIFICATION_MATRIX[protocol][event].how]:
        assert each in heard(claim.fixture)


@pytest.mark.parametrize(
    "claim",
    [each for each in claims("event") if each.proof["event"] == Trigger.CONFIRMED.value],
    ids=named,
)
def test_an_app_hears_nothing_of_a_call_that_nobody_allowed(claim: Claim) -> None:
    told = [entry.value for entry in claim.fixture.entries if entry.to == "app"]
    methods = {each.get("method") for each in told if isinstance(each, dict)}
    assert not methods & {"capabilities/call", "capabilities/cancel"}


def test_each_event_has_a_fixture_and_no_evidence_is_left_over() -> None:
    proven = {
        (claim.proof["protocol"], claim.proof["event"]) for claim in claims("protocol", "event")
    }
    assert proven - {(WITHOUT, Trigger.PREFERENCE.value)} == {
        (protocol, event.value) for protocol in NOTIFICATION_MATRIX for event in Trigger
    }
    assert set(SEEN) == {
        (event, route.how) for row in NOTIFICATION_MATRIX.values() for event, route in row.items()
    }


def test_a_preference_has_the_apps_own_default_where_nobody_can_be_asked() -> None:
    (claim,) = [
        claim for claim in claims("protocol", "event") if claim.proof["protocol"] == WITHOUT
    ]
    last = questions(claim.fixture)[-1]
    assert last.nothing
    assert (last.answer["data"], last.answer["metadata"]["answeredBy"]) == (
        {"value": "second"},
        "default",
    )


def test_each_fixture_has_the_conversation_that_makes_it() -> None:
    made = {FIXTURES / case.path for case in cases()} | {recorded.path for recorded in RECORDINGS}
    assert set(FIXTURES.rglob("*.jsonl")) == made


@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda recorded: recorded.name)
def test_what_a_real_host_did_names_the_host_as_it_is_recorded_today(recorded: Recorded) -> None:
    """Whoever pins another version records again: `make hosts ARGS=--record`."""
    (fixture,) = parse_recordings(recorded.path.read_text())
    assert fixture.head.shows == recorded.shows
    assert {proof["host"] for proof in fixture.head.proves} == {recorded.proof}


def test_what_a_host_does_in_its_own_way_is_proven_by_that_host_or_not_at_all(
    tmp_path: Path,
) -> None:
    cells = json.loads(
        run("matrix", "--format", "json", "--host", "acpx", "--fixture", cwd=FIXTURES.parent).stdout
    )["questions"]
    proof = {
        cell["shape"]: cell.get("fixture") for cell in cells if cell["surface"] == "acp-permission"
    }
    assert proof["select, more than 4"] == "fixtures/hosts/acpx/select-many.jsonl"
    assert proof["confirm"] == "fixtures/acp-permission/confirm.jsonl"
    codex = json.loads(
        run(
            "matrix", "--format", "json", "--host", "codex", "--fixture", cwd=FIXTURES.parent
        ).stdout
    )["questions"]
    assert {cell["shape"]: cell.get("fixture") for cell in codex if cell["surface"] == "mcp-url"}[
        "text"
    ] is None
    nothing = run("matrix", "--fixture", str(tmp_path))
    assert (nothing.returncode, "there is no fixture" in nothing.stderr) == (2, True)


# host -> (how it is asked about twelve cities, in how many steps until Lisbon is chosen)
TWELVE = {
    "codex": ("elicitation/create", 1),
    "zed": ("elicitation/create", 1),
    "zed-before-forms": ("session/request_permission", 4),
    "goose": ("elicitation/create", 1),
    "goose-legacy": ("elicitation/create", 1),
    "claude-code": ("elicitation/create", 1),
    "claude-code-legacy": ("elicitation/create", 1),
    "acpx": ("session/request_permission", 11),
}


@pytest.mark.parametrize("host", TWELVE)
def test_twelve_options_are_all_there_in_every_host(host: str) -> None:
    method, steps = TWELVE[host]
    (shown,) = questions(_fixture(FIXTURES / "hosts" / host / "select-many.jsonl"))
    asked = {"elicitation/create": shown.forms, "session/request_permission": shown.cards}[method]
    assert len(asked) == steps
    assert all(city in json.dumps(asked[0], ensure_ascii=False) for city in CITIES)
    assert shown.answer["data"] == {"selected": "Lisbon"}


def test_each_host_is_asked_about_twelve_cities() -> None:
    asked = {path.parent.name for path in (FIXTURES / "hosts").glob("*/select-many.jsonl")}
    assert asked == set(TWELVE)


def test_matrix_in_docs_is_the_one_of_the_code() -> None:
    page = (FIXTURES.parent / "docs" / "capabilities.md").read_text()
    assert capabilities.page() == page, "make docs"
    printed = run("matrix", "--format", "markdown", "--fixture", cwd=FIXTURES.parent).stdout
    assert all(f"| {shape.value} | " in printed for shape in QuestionShape)


def test_the_matrix_is_printed_for_a_host_and_for_programs() -> None:
    assert "options are asked one by one" in run("matrix", "--host", "acpx").stdout
    cells = json.loads(run("matrix", "--format", "json", "--host", "codex-mcp-client").stdout)[
        "questions"
    ]
    assert {
        cell["how"] for cell in cells if (cell["surface"], cell["shape"]) == ("mcp-form", "number")
    } == {"as text"}
    both = run("matrix", "--host", "Goose").stdout
    assert "Goose as an MCP host: " in both
    assert "Goose as an ACP client: " in both
    assert run("matrix", "--host", "Claude Code").stdout.startswith(
        "Claude Code: shows mcp-form, mcp-url"
    )
    assert json.loads(run("matrix", "--format", "json", "--host", "codex").stdout)[
        "host"
    ].startswith("Codex: ")
    assert run("matrix", "--host", "gemini").stdout.startswith(
        "Gemini CLI: shows nothing of its own, waits 600 s for a tool\n"
    )
    assert "Is goose-cli meant?" in run("matrix", "--host", "gose-cli").stderr
    unknown = run("matrix", "--host", "nobody")
    assert (unknown.returncode, "no profile is known of 'nobody'" in unknown.stderr) == (2, True)
