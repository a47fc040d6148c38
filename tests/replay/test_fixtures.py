"""Fixtures prove the matrix: each cell, hint and event has a conversation that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fixture_maker.cases import cases
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
        """No one was shown anything."""
        shown = (self.forms, self.cards, self.samplings, self.requests, self.filled, self.screens)
        return not any((*shown, self.offered, self.told, self.messages))


def questions(fixture: Recording) -> list[Shown]:
    """Each question of a fixture, in the order in which they were asked."""
    found: list[Shown] = []
    entries = list(fixture.entries)
    for place, entry in enumerate(entries):
        if entry.sender == "app" and is_request(entry.value):
            request = {name: entry.value[name] for name in ("method", "params")}
            found.append(Shown(_question(request), None))
            for each in entries[place + 1 :]:
                if each.to == "app" and each.value.get("id") == entry.value["id"]:
                    found[-1].answer = each.value["result"]
                    break
                _note(found[-1], each)
    return found


def _question(request: Json) -> Question:
    """As the bridge asks it: where a file is named, for permission to read it."""
    question = decode_question(request, id="", origin="")
    if "uri" not in request["params"]:
        return question
    return replace(question, fields=(Field("confirmed", FieldType.BOOLEAN, {}),))


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
        meta = value.get("params", {}).get("_meta", {}) if entry.sender == "host" else {}
        if asked := meta.get("io.modelcontextprotocol/protocolVersion"):
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
    if titled := part.get("oneOf", part.get("anyOf")):
        return [each["title"] for each in titled]
    names: Sequence[str] = part.get("enumNames", part.get("enum", []))
    return names


def text_form(shown: Shown) -> bool:
    types = [part["type"] for part in shown.properties]
    return types == ["string"] and "JSON" in json.dumps(shown.forms)


def yes_or_no_form(shown: Shown) -> bool:
    parts = [(part["type"], part["title"]) for part in shown.properties]
    return parts == [("boolean", label) for label in shown.labels]


def buttons(shown: Shown) -> bool:
    """Cards of four buttons at most. All options are buttons of the first, or in its text."""
    if any(len(names) > 4 for names in shown.names):
        return False
    said = json.dumps(shown.cards[0], ensure_ascii=False)
    labels = shown.labels or _count(shown.question)
    kinds = {option["kind"] for option in shown.cards[0]["options"]}
    return all(label in said for label in labels) and (
        bool(labels) or kinds == {"allow_once", "reject_once"}
    )


def _count(question: Question) -> list[str]:
    schema: Mapping[str, Any] = question.fields[0].schema
    if "maximum" not in schema:
        return []
    return [str(each) for each in range(schema["minimum"], schema["maximum"] + 1)]


def safe_first(shown: Shown) -> bool:
    return len(shown.cards) == 1 and shown.cards[0]["options"][0]["kind"] == "reject_once"


def paged(shown: Shown) -> bool:
    """Several cards of four buttons, with all options in the text of the first."""
    *pages, _ = shown.names
    said = json.dumps(shown.cards[0], ensure_ascii=False)
    full = all(len(names) == 4 and names[-1] == "More …" for names in pages)
    return bool(pages) and full and all(each in said for each in shown.labels)


def toggles(shown: Shown) -> bool:
    done = all(names[0].startswith("Done (") and len(names) <= 4 for names in shown.names)
    return len(shown.cards) > 1 and done


def field_by_field(shown: Shown) -> bool:
    """Each field has a card, and what comes of all of them is shown once more."""
    return len(shown.cards) > len(shown.question.fields) and "Send" in shown.names[-1]


def page(shown: Shown) -> bool:
    """Filled in on the page, with the question and all options; the host was shown no field."""
    (filled,) = shown.filled
    asked = [shown.question.message, *shown.labels]
    schemas = [form.get("requestedSchema", {}) for form in shown.forms]
    fields = any(schema.get("properties") for schema in schemas)
    others = fields or shown.offered or shown.screens
    return not others and all(words in filled["reads"] for words in asked)


def terminal(shown: Shown) -> bool:
    """Shown and typed at a terminal, with all options."""
    lines = "\n".join(shown.screens)
    asked = (shown.question.message, *shown.labels)
    return bool(shown.typed) and all(words in lines for words in asked)


def offered(shown: Shown) -> bool:
    """Offered to a program, with all options."""
    options = [option["label"] for each in shown.offered for option in each["options"]]
    counts = {len(shown.offered), len(shown.question.fields), len(shown.replies)}
    return options == shown.labels and len(counts) == 1


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
    """Said by the agent, with all options, and a prompt for each field."""
    said = "\n".join(shown.messages)
    counts = {len(shown.messages), len(shown.prompts), len(shown.question.fields)}
    asked = (shown.question.message, *shown.labels)
    return all(words in said for words in asked) and len(counts) == 1


def by_the_model(shown: Shown) -> bool:
    return len(shown.told) == len(shown.brought) == 1 and shown.question.message in shown.told[0]


METHODS = {each.value for each in Kind}  # of ABP


def by_abp(shown: Shown) -> bool:
    """Asked as the app asks it, with all options."""
    [request] = shown.requests
    said = json.dumps(request, ensure_ascii=False)
    asked = (*shown.question.message.splitlines(), *shown.labels)
    return request["method"] == shown.question.kind.value and all(words in said for words in asked)


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


@pytest.mark.process
def test_every_fixture_passes() -> None:
    played = run("replay", str(FIXTURES), timeout=20 * PATIENCE)
    assert played.returncode == 0, played.stdout
    lines = played.stdout.splitlines()
    skipped = [line for line in lines if line.startswith("skip  ")]
    assert all("needs extra '" in line for line in skipped)
    count = len(list(FIXTURES.rglob("*.jsonl"))) - len(skipped)
    more = f", {len(skipped)} skipped" if skipped else ""
    assert lines[-1] == f"{count} passed, 0 failed{more}"


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


# fixture -> what its bridge is started with, and what is in it and in no other
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


def test_each_kind_of_app_has_a_fixture() -> None:
    shown = {path.stem: _fixture(path) for path in (FIXTURES / "apps").glob("*.jsonl")}
    assert set(shown) == set(WAYS_IN)
    for name, (target, sender, member, said) in WAYS_IN.items():
        assert shown[name].head.run[:3] == ("serve", "--app", target)
        sent = (each.value for each in shown[name].entries if each.sender == sender)
        assert any(said in _members(value, member) for value in sent)


@pytest.mark.parametrize("claim", ASKED_SOMEBODY, ids=named)
def test_fixture_shows_what_the_matrix_says_of_its_cell(claim: Claim) -> None:
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


ASKING = {
    (surface, cell) for (surface, _), row in MATRIX.items() for cell in row.values() if cell.asks
}


def test_each_way_of_asking_has_its_evidence() -> None:
    ways = {(surface, cell.how) for surface, cell in ASKING}
    assert ways == {(surface, how) for surface, row in HOW.items() for how in row}


NATIVE = "mcp-form acp-form abp terminal questions-api mock mcp-sampling sampling"
TREATED = {Support.NATIVE: NATIVE, Support.OUT_OF_BAND: "mcp-url acp-url page"}


@pytest.mark.parametrize("treatment", TREATED)
def test_native_and_out_of_band_have_one_meaning(treatment: Support) -> None:
    """Native is the surface's own way, without a word about how; out of band is only the page."""
    treated = {surface.value for surface, cell in ASKING if cell.support is treatment}
    assert treated == set(TREATED[treatment].split())
    hows = {
        support: {cell.how for _, cell in ASKING if cell.support is support} for support in Support
    }
    assert hows[Support.NATIVE] == {""}
    assert hows[Support.OUT_OF_BAND] == {"on a page of the bridge's own"}
    assert "" not in hows[Support.DOWNGRADED]


@pytest.mark.parametrize(
    "claim", [claim for claim in CELLS if claim.proof["surface"] == WITHOUT], ids=named
)
def test_question_without_elicitation_is_never_answered(claim: Claim) -> None:
    shown = questions(claim.fixture)[claim.place]
    assert shape(shown.question).value == claim.proof["shape"]
    assert shown.nothing
    assert shown.answer["error"]["code"] == "NOT_SUPPORTED"
    reason = shown.answer["error"]["details"]["reason"]
    assert reason.startswith("Nobody could be asked: ")
    assert NOBODY in reason or "--page" in claim.fixture.head.run


def test_each_shape_without_elicitation_has_a_fixture() -> None:
    assert {claim.proof["shape"] for claim in CELLS if claim.proof["surface"] == WITHOUT} == {
        each.value for each in QuestionShape
    }


def heard(fixture: Recording) -> str:
    """All that the bridge said to the host and the app, and showed the user, since the app said
    something; and what they read and typed.
    """
    entries = fixture.entries
    said = (n for n, each in enumerate(entries) if each.sender == "app" and "method" in each.value)
    return "\n".join(
        f"{each.to if each.ours else each.kind}: {json.dumps(each.value, ensure_ascii=False)}"
        for each in entries[next(said, 0) :]  # an app that is not called says nothing
        if each.to in ("host", "person", "app") or each.kind in ("fill", "keys")
    )


def test_each_hint_has_a_fixture() -> None:
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
WRITTEN = "what is written down is taken as it is"
TO_MODEL = "in the schema that the model is given"
BUTTON = "the first button, which says so; one that keeps it, of a short text or a number"
PRINTED = '"description": "As it is printed there'
PAGES = (Surface.MCP_URL, Surface.ACP_URL, Surface.PAGE)
FORMS = (Surface.MCP_FORM, Surface.ACP_FORM, Surface.ABP)
# What the matrix says of a hint, and what is seen of it then.
HINTED: dict[tuple[Surface, Hint, str], tuple[str, ...]] = {
    **{(surface, DEFAULT, ""): ('"default": "Ann"',) for surface in FORMS},
    **{(surface, ABOUT, ""): (PRINTED,) for surface in FORMS},
    **{(page, DEFAULT, "filled in, and said to be the app's"): (SUGGESTED,) for page in PAGES},
    **{(page, ABOUT, ""): ('"reads": ["Both have Wi-Fi"',) for page in PAGES},
    **{(Surface.MOCK, hint, WRITTEN): ('"route": "mock"',) for hint in Hint},
    (Surface.MCP_FORM, DEFAULT, "in words, but for a yes or no"): (f'{PRINTED} (default: Ann)"',),
    (Surface.ACP_PERMISSION, DEFAULT, BUTTON): (
        '"options": [{"optionId": "[option 3]", "name": "Second (default)"',
        '"options": [{"optionId": "[option 1]", "name": "Keep: Ann"',
    ),
    (Surface.ACP_PERMISSION, ABOUT, "in the card's text"): ("Which class?\\n\\nBoth have Wi-Fi",),
    (Surface.ACP_CHAT, DEFAULT, "in the message that asks"): (
        "on the card?\\n\\nAs it is printed there\\n\\nProposed by who asks: Ann",
    ),
    (Surface.ACP_CHAT, ABOUT, "in the message that asks"): ("- Second (proposed)",),
    (Surface.TERMINAL, DEFAULT, "Enter takes it"): ('"Answer [Ann]:"]\nkeys: "\\n"',),
    (Surface.TERMINAL, ABOUT, ""): ('"As it is printed there"',),
    (Surface.QUESTIONS_API, DEFAULT, "an option that says so"): (
        '{"label": "Ann", "description": "(suggested by who asks)"}',
    ),
    (Surface.QUESTIONS_API, ABOUT, "in words"): ("on the card?\\n\\nAs it is printed there",),
    (Surface.MODEL_RELAY, DEFAULT, TO_MODEL): ('\\"default\\": \\"Ann\\"',),
    (Surface.MODEL_RELAY, ABOUT, TO_MODEL): ('\\"description\\": \\"As it is printed there\\"',),
}


@pytest.mark.parametrize("claim", claims("surface", "version", "hint"), ids=named)
def test_hint_is_shown_as_the_matrix_says(claim: Claim) -> None:
    surface, hint = Surface(claim.proof["surface"]), Hint(claim.proof["hint"])
    how = HINTS[surface, claim.proof["version"]][hint].how
    assert claim.proof["version"] in ("", agreed(claim.fixture))
    said = heard(claim.fixture)
    assert [each for each in HINTED[surface, hint, how] if each not in said] == []
    routes = [each.answer["metadata"]["route"] for each in questions(claim.fixture)]
    assert {route.partition(" ")[0] for route in routes} == {surface.value}


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
STOPPED = '"method": "capabilities/cancel"'
TIMED_OUT = '"code": "TIMEOUT"'
STATE, STARTED = "seats is now 2", "started sync\\n- completed sync"
ERROR = "error RATE_LIMITED: Slow down."
LISTED = '"method": "notifications/%s/list_changed"'
LISTENED = f'{LISTED}, "params": {{"_meta": {{"io.modelcontextprotocol/subscriptionId": "changes"'
NEXT_LEG = '"id": 2, "result": {"resultType": "complete", "content": [{"type": "text", "text": "%s'
GONE = "DISCONNECTED: The app is gone"
TO_HOST = 'host: {"jsonrpc": "2.0", "method": "notifications/%s", "params": {%s'
TOOL_CALL = '"sessionUpdate": "tool_call%s", "toolCallId": "[tool 2]", '
BOTH = (
    '"id": "q1", "result": {"success": true, "data": {"selected": "second"}',
    '"id": "q2", "result": {"success": true, "data": {"confirmed": true}',
)
CANCELLED = '"success": false, "cancelled": true, "error": {"code": "USER_CANCELLED"'
ASKED_FIRST = "asked before the app hears of it; without a yes the %s"
NOT_CALLED = (
    "USER_CANCELLED: plan was not called. It needs a person's approval (--confirm), and the user"
    " said no."
)
# event -> what the matrix says of it, and all that is seen of it then
EVENTS: dict[Trigger, dict[str, tuple[str, ...]]] = {
    Trigger.PROGRESS: {
        "notifications/progress on the call's token": tuple(
            '"method": "notifications/progress", "params": {"progressToken": "p1", "progress":'
            f" {number}"
            for number in (1, 2, 3)
        ),
        "updates of the running tool call": (
            f'"toolCallId": "[tool 1]", "status": "in_progress", "content": [{TEXT}"33% · step 1 of'
            ' 3"}}]',
            '"_meta": {"toolNotification": {"type": "progress"',
        ),
        "notifications/progress of the agent's own callId": tuple(
            f'"method": "notifications/progress", "params": {{"operationId": "c1", "progress": {n}'
            for n in (1, 2, 3)
        ),
    },
    Trigger.CAPABILITIES: {
        "notifications/tools/list_changed": (LISTED % "tools" + "}",),
        "notifications/tools/list_changed to those who listen": (LISTENED % "tools",),
        "available_commands_update": (
            '"description": "Plan a trip", "input": {"hint": "JSON parameters, if it takes any"}},'
            ' {"name": "report"',
        ),
        "notifications/capabilities/list_changed": (
            '"params": {"added": ["report"], "removed": [], "changed": []}',
        ),
    },
    Trigger.STATE: {
        "a resource, a log message, and at the end of the result": (
            LISTED % "resources",
            LOG % ("info", "state/changed"),
            SUMMED_UP % STATE,
        ),
        "a resource to those who listen, a log message, and at the end of the result": (
            LISTENED % "resources",
            LOG % ("info", "state/changed"),
            SUMMED_UP % STATE,
        ),
        "a notice where the client takes them, and in the result": (
            NOTICE % ("info", STATE),
            IN_RESULT % STATE,
        ),
        "notifications/state/changed": (TO_HOST % ("state/changed", '"field": "seats"'),),
    },
    Trigger.OPERATION: {
        "a log message, and at the end of the result": (
            LOG % ("info", "operation/started"),
            LOG % ("info", "operation/completed"),
            SUMMED_UP % STARTED,
        ),
        "a tool call of its own": (
            TOOL_CALL % "" + '"title": "sync", "kind": "other", "status": "in_progress"',
            TOOL_CALL % "_update" + '"status": "completed"',
        ),
        "notifications/operation/started, completed": tuple(
            TO_HOST % (f"operation/{word}", '"operationId": "sync"')
            for word in ("started", "completed")
        ),
    },
    Trigger.ERROR: {
        "a log message, and at the end of the result": (
            LOG % ("error", "error"),
            SUMMED_UP % ERROR,
        ),
        "a notice where the client takes them, and in the result": (
            NOTICE % ("error", ERROR),
            IN_RESULT % ERROR,
        ),
        "notifications/error": (TO_HOST % ("error", '"code": "RATE_LIMITED"'),),
    },
    Trigger.DECLINED: {"USER_CANCELLED": (CANCELLED, '"outcome": "declined"')},
    Trigger.CANCELLED: {"USER_CANCELLED": (CANCELLED, '"outcome": "cancelled"')},
    Trigger.TIMEOUT: {
        "the question is taken down by notifications/cancelled": (TAKEN_DOWN, TIMED_OUT),
        "the card is taken down by $/cancel_request": (CARD_DOWN, TIMED_OUT),
        "the next leg has the result, which says TIMEOUT": (
            '"id": 1, "result": {"resultType": "input_required"',
            NEXT_LEG % 'TIMEOUT"}]',
        ),
        "the question is taken down by notifications/elicitation/withdrawn": (WITHDRAWN, TIMED_OUT),
    },
    Trigger.PREFERENCE: {
        "the app's own": (
            '"success": true, "data": {"value": "second"}, "metadata": {"answeredBy": "default"',
        )
    },
    Trigger.HOST_CANCELS: {
        "the question is taken down, the app hears capabilities/cancel": (TAKEN_DOWN, STOPPED),
        "the app hears capabilities/cancel": (STOPPED,),
        "session/cancel: the card is taken down, the app hears capabilities/cancel": (
            CARD_DOWN,
            STOPPED,
            '"stopReason": "cancelled"',
        ),
        "capabilities/cancel: the question is taken down": (
            WITHDRAWN,
            f'app: {{"jsonrpc": "2.0", "id": "[id 5]", {STOPPED}',
        ),
    },
    Trigger.APP_ENDS: {
        "the question is taken down, the call fails": (TAKEN_DOWN, f'"text": "{GONE}'),
        "the card is taken down, the call fails": (CARD_DOWN, '"status": "failed"'),
        "the next leg fails": (NEXT_LEG % GONE,),
        "the question is taken down, and its call fails": (
            WITHDRAWN,
            '"error": {"code": "DISCONNECTED"',
        ),
    },
    Trigger.CONFIRMED: {
        ASKED_FIRST % "result says so": ("May plan of", NOT_CALLED),
        ASKED_FIRST % "call fails": (
            "May plan of",
            '"code": "USER_CANCELLED", "message": "plan was not called.',
        ),
    },
    Trigger.TOGETHER: {
        "both are asked, each has its own answer": BOTH,
        "both in one round, each has its own answer": (
            '"inputRequests": {"[input 1]": {"method": "elicitation/create"',
            ', "[input 2]": {"method"',
            *BOTH,
        ),
    },
}


@pytest.mark.parametrize("claim", claims("protocol", "event"), ids=named)
def test_event_reaches_the_host_as_the_matrix_says(claim: Claim) -> None:
    protocol, event = claim.proof["protocol"], Trigger(claim.proof["event"])
    if protocol == WITHOUT:
        assert event is Trigger.PREFERENCE
        protocol = "MCP 2025-11-25"
        last = questions(claim.fixture)[-1]
        assert last.nothing
        assert last.answer["data"] == {"value": "second"}
    assert protocol.partition(" ")[2] == agreed(claim.fixture)
    for each in EVENTS[event][NOTIFICATION_MATRIX[protocol][event].how]:
        assert each in heard(claim.fixture)
    if event is Trigger.CONFIRMED:
        told = [entry.value for entry in claim.fixture.entries if entry.to == "app"]
        methods = {each.get("method") for each in told if isinstance(each, dict)}
        assert not methods & {"capabilities/call", "capabilities/cancel"}


def test_each_event_has_a_fixture_and_no_evidence_is_left_over() -> None:
    proofs = [claim.proof for claim in claims("protocol", "event")]
    proven = {(proof["protocol"], proof["event"]) for proof in proofs}
    assert proven - {(WITHOUT, Trigger.PREFERENCE.value)} == {
        (protocol, event.value) for protocol in NOTIFICATION_MATRIX for event in Trigger
    }
    assert {event: set(row) for event, row in EVENTS.items()} == {
        event: {row[event].how for row in NOTIFICATION_MATRIX.values()} for event in Trigger
    }


def test_each_fixture_has_the_conversation_that_makes_it() -> None:
    made = {FIXTURES / case.path for case in cases()} | {recorded.path for recorded in RECORDINGS}
    assert set(FIXTURES.rglob("*.jsonl")) == made


@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda recorded: recorded.name)
def test_recording_names_the_current_version_of_its_host(recorded: Recorded) -> None:
    """Record again after you pin another version: `make hosts ARGS=--record`."""
    (fixture,) = parse_recordings(recorded.path.read_text())
    assert fixture.head.shows == recorded.shows
    assert {proof["host"] for proof in fixture.head.proves} == {recorded.proof}


def cells(*options: str) -> list[Json]:
    """What `abp-bridge matrix` prints of questions."""
    printed = run("matrix", "--format", "json", *options, cwd=FIXTURES.parent)
    return list(json.loads(printed.stdout)["questions"])


def test_matrix_names_the_fixture_of_the_host_itself(tmp_path: Path) -> None:
    acpx, codex = (
        {
            (cell["surface"], cell["shape"]): cell.get("fixture")
            for cell in cells("--host", host, "--fixture")
        }
        for host in ("acpx", "codex")
    )
    paged = acpx["acp-permission", "select, more than 4"]
    assert paged == "fixtures/hosts/acpx/select-many.jsonl"
    assert acpx["acp-permission", "confirm"] == "fixtures/acp-permission/confirm.jsonl"
    assert codex["mcp-url", "text"] is None
    nothing = run("matrix", "--fixture", str(tmp_path))
    assert (nothing.returncode, "there is no fixture" in nothing.stderr) == (2, True)


def test_matrix_in_docs_is_the_one_of_the_code() -> None:
    page = (FIXTURES.parent / "docs" / "capabilities.md").read_text()
    assert capabilities.page() == page, "make docs"
    printed = run("matrix", "--format", "markdown", "--fixture", cwd=FIXTURES.parent).stdout
    assert all(f"| {shape.value} | " in printed for shape in QuestionShape)


def test_matrix_is_printed_for_a_host() -> None:
    codex = {(each["surface"], each["shape"]): each["how"] for each in cells("--host", "codex")}
    assert codex["mcp-form", "number"] == "as text"
    starts = {
        "Claude Code": "Claude Code: shows mcp-form, mcp-url",
        "gemini": "Gemini CLI: shows nothing of its own, waits 600 s for a tool\n",
    }
    for host, start in starts.items():
        assert run("matrix", "--host", host).stdout.startswith(start)
    assert "options are asked one by one" in run("matrix", "--host", "acpx").stdout
    both = run("matrix", "--host", "Goose").stdout
    assert "Goose as an MCP host: " in both
    assert "Goose as an ACP client: " in both
    assert "Is goose-cli meant?" in run("matrix", "--host", "gose-cli").stderr
    unknown = run("matrix", "--host", "nobody")
    assert (unknown.returncode, "no profile is known of 'nobody'" in unknown.stderr) == (2, True)
