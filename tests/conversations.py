"""Makes the fixtures that prove the matrix: `make fixtures`.

Each is a real conversation, recorded by the bridge itself and reduced.

A cell gets the question of its row, and a host that has its column's surface only. What a row is
asked and how a person answers it on a form, by buttons, on the page, at a terminal and through the
questions API stands in `ASKED`. What is refused stands together, and what is slow to start.
"""

from __future__ import annotations

import json
import os
import queue
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from abp_bridge.core.matrix import MATRIX, QuestionShape, Surface, SurfaceVariant, route
from abp_bridge.core.notification_matrix import Event
from abp_bridge.protocols.abp import decode_question
from abp_bridge.replay.fixture import reduce
from abp_bridge.replay.opencode_client import free_port
from abp_bridge.replay.page_driver import fill_in
from abp_bridge.replay.terminal_driver import Terminal
from abp_bridge.trace.format import BRIDGE, PERSON, Entry, lines, read
from abp_bridge.trace.redact.paths import replace_paths

Json = Any

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
APP = ROOT / "tests" / "support" / "apps" / "scripted.py"
AGENT = ROOT / "tests" / "support" / "apps" / "acp_agent.py"
PATIENCE = 20
QUIET = 0.2  # seconds after which a terminal has shown what it shows
# seconds in which the bridge has told everybody, and questions with a time of their own have ended
TOLD = 0.6
AT_ONCE = 4
META = "io.modelcontextprotocol/"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/open/[\w-]+")


@dataclass(frozen=True)
class Asked:
    """A row's question, and a person's answer to it: as content of a form, as buttons, as controls
    of the page, as keys and as labels.
    """

    request: Json
    form: Mapping[str, Json] = field(default_factory=dict)
    buttons: tuple[str, ...] = ()
    page: tuple[Json, ...] = ()
    press: str = "send"
    keys: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    reads: tuple[
        str, ...
    ] = ()  # what stands on the page, where that is shown: its controls are sent as they stand then


def _asked(method: str, **params: Json) -> Json:
    return {"method": method, "params": params}


def _input(prompt: str, **schema: Json) -> Json:
    return _asked("elicitation/input", prompt=prompt, schema=schema)


CITIES = (
    "Amsterdam",
    "Berlin",
    "Copenhagen",
    "Dublin",
    "Edinburgh",
    "Florence",
    "Geneva",
    "Helsinki",
    "Innsbruck",
    "Kraków",
    "Lisbon",
    "Madrid",
)
EXTRAS = [
    {"value": "bike", "label": "A bike"},
    {"value": "meal", "label": "A meal"},
    {"value": "wifi", "label": "Wi-Fi", "description": "On the train"},
]

HOME = '{"street": "Old Lane 1", "town": "Delft"}'
POLICY = {"content": "You are insured.\n", "mimeType": "text/plain", "filename": "policy.txt"}

ASKED: dict[QuestionShape, Asked] = {
    QuestionShape.TEXT: Asked(
        _input("Who travels?", type="string", minLength=2),
        {"value": "Ann"},
        page=("Ann",),
        keys=("Ann",),
        labels=(("Ann",),),
    ),
    QuestionShape.FORMATTED_TEXT: Asked(
        _input("Where is the ticket sent?", type="string", format="email"),
        {"value": "ann@example.com"},
        page=("ann@example.com",),
        keys=("ann@example.com",),
        labels=(("ann@example.com",),),
    ),
    QuestionShape.NUMBER: Asked(
        _input("How many kilometres, at most?", type="number", minimum=0),
        {"value": 812.5},
        page=("812.5",),
        keys=("812.5",),
        labels=(("812.5",),),
    ),
    QuestionShape.RANGE: Asked(
        _input("How many seats?", type="integer", minimum=1, maximum=6),
        {"value": 2},
        ("2",),
        ("2",),
        keys=("2",),
        labels=(("2",),),
    ),
    QuestionShape.BOOLEAN: Asked(
        _input("A window seat?", type="boolean"),
        {"value": True},
        ("Yes",),
        ("Yes",),
        keys=("1",),
        labels=(("Yes",),),
    ),
    QuestionShape.CONFIRM: Asked(
        _asked("elicitation/confirm", message="Book it?"),
        {"confirmed": True},
        ("Yes",),
        press="yes",
        keys=("1",),
        labels=(("Yes",),),
    ),
    QuestionShape.CONFIRM_DESTRUCTIVE: Asked(
        _asked("elicitation/confirm", message="Delete all trips?", destructive=True),
        {"confirmed": True},
        ("Delete",),
        press="yes",
        keys=("2",),
        labels=(("Delete",),),
    ),
    QuestionShape.SELECT_FEW: Asked(
        _asked("elicitation/select", prompt="Which class?", options=["first", "second"]),
        {"selected": "second"},
        ("second",),
        ("second",),
        keys=("2",),
        labels=(("second",),),
    ),
    QuestionShape.SELECT_MANY: Asked(
        _asked("elicitation/select", prompt="Where to?", options=list(CITIES)),
        {"selected": "Lisbon"},
        ("Lisbon",),
        ("Lisbon",),
        keys=("11",),
        labels=(("Lisbon",),),
    ),
    QuestionShape.MULTI_SELECT: Asked(
        _asked("elicitation/select", prompt="What else?", options=EXTRAS, multiple=True),
        {"selected": ["bike", "wifi"]},
        ("A bike", "Wi-Fi", "Done"),
        (["A bike", "Wi-Fi"],),
        keys=("1,3",),
        labels=(("A bike", "Wi-Fi"),),
    ),
    QuestionShape.FIELDS: Asked(
        _input(
            "Your seat, please",
            type="object",
            properties={
                "car": {"type": "integer", "minimum": 1, "maximum": 3},
                "side": {"enum": ["aisle", "window"]},
            },
            required=["car", "side"],
        ),
        {"car": 3, "side": "aisle"},
        ("3", "aisle", "Send"),
        ("3", "aisle"),
        keys=("3", "1"),
        labels=(("3",), ("aisle",)),
    ),
    QuestionShape.NESTED: Asked(
        _input(
            "Where do you live?",
            type="object",
            properties={
                "address": {
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "town": {"type": "string"}},
                    "required": ["town"],
                }
            },
            required=["address"],
        ),
        {"address": HOME},
        page=(HOME,),
        keys=(HOME,),
        labels=((HOME,),),
    ),
    QuestionShape.SECRET: Asked(
        _input("The password of your account?", type="string", format="password"),
        page=("correct horse battery",),
        keys=("correct horse battery",),
    ),
    QuestionShape.FILE: Asked(
        _asked("elicitation/resource", prompt="Your insurance policy, please", type="text/plain"),
        page=(POLICY,),
        keys=("{folder}/policy.txt",),
    ),
    QuestionShape.FILE_CONSENT: Asked(
        _asked(
            "elicitation/resource",
            prompt="Your travel notes, please",
            uri="file://{folder}/notes.txt",
        ),
        {"confirmed": True},
        ("Allow",),
        press="yes",
        keys=("2",),
        labels=(("Allow",),),
    ),
    QuestionShape.SAMPLING: Asked(
        _asked("sampling/create", task="Say good journey in four words.")
    ),
}

FILES = {
    QuestionShape.FILE_CONSENT: {"notes.txt": "Take the early train.\n"},
    QuestionShape.FILE: {"policy.txt": POLICY["content"]},
}

# A question answers: a result for the host to give, or None for never.
Person = Callable[[str, Json], Any]


@dataclass(frozen=True)
class Case:
    """One fixture: a host that speaks `version` with these `capabilities`, its person, and what the
    app does.
    """

    path: str
    shows: str
    proves: Json
    protocol: str  # mcp, modern, acp, or proxy: ACP with an agent behind the bridge
    version: str
    capabilities: Json
    steps: Json
    person: Person
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cancel: str = ""  # the host gives up when it has seen this method
    asked: tuple[Asked, ...] = ()  # in order: for a person at a terminal, or a program of theirs
    beside: str = ""  # who answers beside the host: a terminal, a program
    lists: bool = False  # the host looks at tools and resources, before and afterwards
    agent: Json = ()  # what the agent behind the bridge does when it is prompted
    listens: bool = False  # a modern host, to a stream of what changes
    client: Mapping[str, str] = field(default_factory=lambda: {"name": "fixture", "version": "1"})


# --- the cases ------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    for (surface, version), row in MATRIX.items():
        for name, shapes in _grouped(surface, version, list(row)):
            yield _cells(surface, version, name, shapes)
    yield from _pointers()
    yield _without()
    for surface, version in MATRIX:
        if surface is not Surface.MCP_SAMPLING:
            yield _hinted(surface, version)
    for protocol, version in (
        ("mcp", "2025-06-18"),
        ("mcp", "2025-11-25"),
        ("modern", "2026-07-28"),
        ("acp", "1"),
    ):
        yield from _outcomes(protocol, version)
        yield from _told(protocol, version)
    yield from _behind()
    yield from _hosts()


@dataclass(frozen=True)
class Spoken:
    """How a host, and who is there beside it, have one surface only."""

    protocol: str
    capabilities: Json
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""


_FORM: Json = {"elicitation": {"form": {}}}
SPOKEN: dict[Surface, Spoken] = {
    Surface.MCP_FORM: Spoken("mcp", _FORM),
    Surface.MCP_URL: Spoken("mcp", {"elicitation": {"url": {}}}),
    Surface.MCP_SAMPLING: Spoken("mcp", {"sampling": {}}),
    Surface.ACP_FORM: Spoken("acp", _FORM),
    Surface.ACP_URL: Spoken("acp", {"elicitation": {"url": {}}}),
    Surface.ACP_PERMISSION: Spoken("acp", {}),
    Surface.TERMINAL: Spoken("mcp", {}, ("--tty", "{tty}"), {"TERM": "dumb"}, "terminal"),
    Surface.PAGE: Spoken("mcp", _FORM, ("--page", "--ask-on", "page")),
    Surface.QUESTIONS_API: Spoken(
        "mcp", {}, ("--questions-api", "{port}"), {"ABP_QUESTIONS_PASSWORD": "let-me-in"}, "program"
    ),
    Surface.MOCK: Spoken("mcp", {}, ("--answers", "{folder}/answers.json")),
    Surface.MODEL: Spoken("mcp", {}, ("--ask-model",)),
}

TYPED = (
    QuestionShape.TEXT,
    QuestionShape.FORMATTED_TEXT,
    QuestionShape.NUMBER,
    QuestionShape.RANGE,
    QuestionShape.NESTED,
    QuestionShape.SECRET,
)
CHOSEN = (
    QuestionShape.BOOLEAN,
    QuestionShape.CONFIRM,
    QuestionShape.CONFIRM_DESTRUCTIVE,
    QuestionShape.SELECT_FEW,
    QuestionShape.SELECT_MANY,
    QuestionShape.MULTI_SELECT,
)
# What comes together on a surface that is slow to start, or that has no protocol of a host's to
# show.
TOGETHER = (
    Surface.MCP_URL,
    Surface.ACP_URL,
    Surface.PAGE,
    Surface.TERMINAL,
    Surface.QUESTIONS_API,
    Surface.MODEL,
)


def _grouped(
    surface: Surface, version: str, shapes: list[QuestionShape]
) -> Iterator[tuple[str, list[QuestionShape]]]:
    """The names of a column's fixtures, and what each shows."""
    asked = [shape for shape in shapes if route(shape, SurfaceVariant(surface, version)).asks]
    if surface is Surface.MOCK:
        yield "written", asked
    elif surface in TOGETHER:
        yield "typed", [shape for shape in asked if shape in TYPED]
        yield "chosen", [shape for shape in asked if shape in CHOSEN]
        yield "fields-and-files", [shape for shape in asked if shape not in (*TYPED, *CHOSEN)]
    else:
        for shape in asked:
            yield _name(shape), [shape]
    if refused := [shape for shape in shapes if shape not in asked]:
        yield "refused", refused


def _cells(surface: Surface, version: str, name: str, shapes: list[QuestionShape]) -> Case:
    spoken = SPOKEN[surface]
    capabilities = {"elicitation": {}} if version == "2025-06-18" else spoken.capabilities
    asked = tuple(ASKED[shape] for shape in shapes)
    files: dict[str, str] = {}
    for shape in shapes:
        files |= FILES.get(shape, {})
    if surface is Surface.MOCK:
        files["answers.json"] = json.dumps([_written(shape) for shape in shapes])
    protocol = "modern" if version == "2026-07-28" else spoken.protocol
    reads = ("--root", "{folder}") if QuestionShape.FILE_CONSENT in shapes else ()
    return Case(
        path="/".join(filter(None, (surface.value, version, f"{name}.jsonl"))),
        shows=_shown(surface, version, name, shapes),
        proves=[
            {"surface": surface.value, "version": version, "shape": shape.value} for shape in shapes
        ],
        protocol=protocol,
        version=version or ("1" if protocol == "acp" else "2025-11-25"),
        capabilities=capabilities,
        steps=[{"ask": each.request} for each in asked],
        person=_people(asked),
        files=files,
        arguments=(*spoken.arguments, *reads),
        env=spoken.env,
        asked=asked,
        beside=spoken.beside,
    )


def _shown(surface: Surface, version: str, name: str, shapes: list[QuestionShape]) -> str:
    where = f"{surface.value} {version}".strip()
    if name == "refused":
        return f"What {where} refuses, and why: {'; '.join(shape.value for shape in shapes)}"
    if len(shapes) > 1:
        return (
            f"{name.replace('-', ' ').capitalize()} on {where}:"
            f" {'; '.join(shape.value for shape in shapes)}"
        )
    cell = route(shapes[0], SurfaceVariant(surface, version))
    return f"{shapes[0].value} on {where}: {cell.support.value}" + (
        f" ({cell.how})" if cell.how else ""
    )


def _written(shape: QuestionShape) -> Json:
    """The entry of an answers file."""
    asked = ASKED[shape]
    said = asked.request["params"]
    about = {"match": said.get("prompt") or said.get("message") or said.get("task")}
    if shape is QuestionShape.SAMPLING:
        return {**about, "result": "Have a good journey!"}
    if shape is QuestionShape.SECRET:
        return {**about, "value": "[secret]"}
    if shape is QuestionShape.FILE:
        return {**about, "value": POLICY}
    return {
        **about,
        "content": (
            {"address": json.loads(HOME)} if shape is QuestionShape.NESTED else dict(asked.form)
        ),
    }


def _pointers() -> Iterator[Case]:
    """How a person is told of the page, where the host opens no address: by a form, by a card, and
    by the model.
    """
    secret = ASKED[QuestionShape.SECRET]
    ways: tuple[tuple[str, str, str, str, Json], ...] = (
        ("by-form", "a form of the host's without fields", "mcp", "2025-11-25", _FORM),
        ("by-permission", "a card of an ACP client's with two buttons", "acp", "1", {}),
        ("by-model", "the model, which passes its link on", "mcp", "2025-11-25", {}),
    )
    for name, way, protocol, version, capabilities in ways:
        yield Case(
            path=f"page/{name}.jsonl",
            shows=f"A secret on the page, which the person is pointed to by {way}",
            proves={
                "surface": "page",
                "version": "",
                "shape": QuestionShape.SECRET.value,
                "by": name,
            },
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=[{"ask": secret.request}],
            person=_person(secret),
            arguments=("--page",),
            asked=(secret,),
        )


PREFERENCE: Json = {
    "method": "elicitation/preference",
    "params": {
        "prompt": "Which class?",
        "schema": {"enum": ["first", "second"]},
        "default": "second",
    },
}


def _without() -> Case:
    """An MCP host that declares no elicitation: nothing can be asked, and nothing is made up."""
    return Case(
        path="mcp/2025-11-25/without-elicitation.jsonl",
        shows=(
            "A host that declares no elicitation: each question is refused with the reason, and a"
            " preference has the app's own default"
        ),
        proves=[
            *(
                {"surface": "no elicitation", "version": "", "shape": shape.value}
                for shape in QuestionShape
            ),
            {"protocol": "no elicitation", "event": Event.PREFERENCE.value},
        ],
        protocol="mcp",
        version="2025-11-25",
        capabilities={},
        steps=[
            {"ask": each}
            for each in (*(ASKED[shape].request for shape in QuestionShape), PREFERENCE)
        ],
        person=_never,
        files=FILES[QuestionShape.FILE_CONSENT],
        arguments=("--root", "{folder}"),
    )


# What an app adds to a question: what it suggests, and what there is to know.
HINTED = (
    Asked(
        _input(
            "Which name is on the card?",
            type="string",
            default="Ann",
            description="As it is printed there",
        ),
        {"value": "Ann"},
        keys=("",),
        labels=(("Ann",),),
        reads=("As it is printed there", "Suggested by the app."),
    ),
    Asked(
        _input(
            "Which class?",
            type="string",
            oneOf=[{"const": "1", "title": "First"}, {"const": "2", "title": "Second"}],
            default="2",
            description="Both have Wi-Fi",
        ),
        {"value": "2"},
        ("Second",),
        keys=("",),
        reads=("Both have Wi-Fi", "suggested by the app"),
        labels=(("Second",),),
    ),
)


def _hinted(surface: Surface, version: str) -> Case:
    made = _cells(surface, version, "hints", [QuestionShape.SELECT_FEW])
    asked = HINTED[1:] if surface is Surface.ACP_PERMISSION else HINTED
    named = [
        {"surface": surface.value, "version": version, "hint": hint}
        for hint in ("default", "description")
    ]
    entries = [
        {"match": each.request["params"]["prompt"], "content": dict(each.form)} for each in asked
    ]
    return replace(
        made,
        shows=f"An app's default, and what it describes, on {surface.value} {version}".strip(),
        proves=named,
        steps=[{"ask": each.request} for each in asked],
        person=_people(asked),
        files={"answers.json": json.dumps(entries)} if surface is Surface.MOCK else {},
        asked=asked,
    )


def _people(asked: Sequence[Asked]) -> Person:
    """Each question has a person of its own."""
    people = [(each.request["params"], _person(each)) for each in asked]

    def answer(method: str, params: Json) -> Any:
        about = json.dumps(params, ensure_ascii=False)
        for said, person in people:
            if (said.get("prompt") or said.get("message") or said.get("task")) in about:
                return person(method, params)
        raise AssertionError(about)

    return answer


def _person(asked: Asked) -> Person:
    left = list(asked.buttons)

    def answer(method: str, params: Json) -> Any:
        if method == "sampling/createMessage":
            return {
                "role": "assistant",
                "content": {"type": "text", "text": "Have a good journey!"},
                "model": "a-model",
            }
        if (link := LINK.search(json.dumps(params))) is not None:
            result = (
                {"action": "accept"} if params.get("mode") == "url" else None
            )  # whoever is pointed there goes there
            return Filled(result, link[0], asked.page, asked.press)
        if method == "session/request_permission":
            shown = {
                option["name"].lstrip("☐☑ "): option["optionId"] for option in params["options"]
            }
            if (
                len(shown) <= 2 and left and left[0] not in shown
            ):  # a yes or no about one of the options
                about = params["toolCall"]["title"].rpartition("— ")[2].lstrip("☐☑ ")
                kind = "allow_once" if about.startswith(asked.buttons) else "reject_once"
                return {
                    "outcome": {
                        "outcome": "selected",
                        "optionId": next(
                            each["optionId"] for each in params["options"] if each["kind"] == kind
                        ),
                    }
                }
            wanted = next((name for name in shown if name.startswith(left[0])), None)
            if wanted is not None:
                del left[0]
            return {"outcome": {"outcome": "selected", "optionId": shown[wanted or "More …"]}}
        if method == "told":
            return dict(asked.form)
        properties = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": _fitting(asked, properties)}

    return answer


def _fitting(asked: Asked, properties: Json) -> Json:
    """What a person fills in: the content, or a yes for each option that is a field of its own."""
    content = {name: value for name, value in asked.form.items() if name in properties}
    if content:
        return content
    wanted = {
        each
        for value in asked.form.values()
        for each in (value if isinstance(value, list) else [value])
    }
    labels = {option["label"] for option in EXTRAS if option["value"] in wanted}
    return {
        name: part.get("title") in labels or name in wanted for name, part in properties.items()
    }


@dataclass(frozen=True)
class Filled:
    """What the host answers, None for nothing, and what the person does on the page then."""

    result: Json
    url: str
    values: tuple[Json, ...]
    press: str = "send"

    def fill_in(self) -> None:
        fill_in(self.url, self.values, self.press)


NAME = ASKED[QuestionShape.TEXT].request
CONFIRM = ASKED[QuestionShape.CONFIRM].request


def _outcomes(protocol: str, version: str) -> Iterator[Case]:
    """How a question can end without an answer."""
    acp = protocol == "acp"
    surface = "acp-permission" if acp else "mcp-form"
    capabilities: Json = (
        {} if acp else {"elicitation": {} if version == "2025-06-18" else {"form": {}}}
    )
    cancelled = {"outcome": {"outcome": "cancelled"}} if acp else {"action": "cancel"}

    def decline(method: str, params: Json) -> Any:
        if not acp:
            return {"action": "decline"}
        return {
            "outcome": {
                "outcome": "selected",
                "optionId": next(
                    each["optionId"] for each in params["options"] if each["name"] == "Skip"
                ),
            }
        }

    few = ASKED[QuestionShape.SELECT_FEW].request
    made: list[tuple[str, str, Json, Person, str]] = [
        (
            "declined",
            "A declined question is no answer: the app is told that its user cancelled",
            [{"ask": few}],
            decline,
            "",
        ),
        (
            "cancelled",
            "A dismissed question is no answer, and no 'no'",
            [{"ask": CONFIRM}],
            lambda method, params: cancelled,
            "",
        ),
        (
            "timeout",
            "A question that nobody answers in time is taken down, and the app told",
            [{"ask": _timed(CONFIRM, 300)}],
            _never,
            "",
        ),
        (
            "declined-preference",
            "A preference that nobody gives has the app's own default",
            [{"ask": PREFERENCE}],
            decline,
            "",
        ),
        (
            "call-cancelled",
            "A host that gives up a call ends its question, and the app hears of it",
            [{"ask": CONFIRM}, {"wait": True}],
            _never,
            "question",
        ),
        (
            "two-at-once",
            "Two questions at the same time each get their own answer",
            [{"ask": [few, CONFIRM]}],
            _both(),
            "",
        ),
        (
            "app-ends",
            (
                "An app that ends while its question is open: the question is taken down, the call"
                " fails"
            ),
            [{"end": CONFIRM}],
            _never,
            "",
        ),
    ]
    for name, shows, steps, person, cancel in made:
        yield Case(
            path="/".join(
                filter(None, (surface, "" if acp else version, "outcomes", f"{name}.jsonl"))
            ),
            shows=f"{shows} ({surface} {'' if acp else version}".strip() + ")",
            proves={
                "protocol": f"{'ACP' if acp else 'MCP'} {version}",
                "event": EVENTS[name].value,
            },
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=steps,
            person=person,
            cancel=cancel,
            listens=protocol == "modern" and name == "app-ends",
        )


def _timed(request: Json, milliseconds: int) -> Json:
    return {"method": request["method"], "params": {**request["params"], "timeout": milliseconds}}


def _never(method: str, params: Json) -> Any:
    return None


def _both() -> Person:
    few, confirm = _person(ASKED[QuestionShape.SELECT_FEW]), _person(ASKED[QuestionShape.CONFIRM])

    def answer(method: str, params: Json) -> Any:
        about = json.dumps(params)
        return (few if "Which class?" in about else confirm)(method, params)

    return answer


TELLS: dict[str, tuple[str, Json]] = {
    "progress": (
        "Progress rises on the call's own token",
        [
            {
                "tell": "notifications/progress",
                "params": {"progress": n, "total": 3, "status": f"step {n} of 3"},
            }
            for n in (1, 2, 3)
        ],
    ),
    "capabilities-changed": (
        "One capability more: the host hears that there is another list",
        [{"grow": "report"}, {"ask": CONFIRM}],
    ),
    "state-changed": (
        "A state of the app's is told, and summed up in the result",
        [
            {
                "tell": "notifications/state/changed",
                "params": {"field": "seats", "oldValue": 3, "newValue": 2},
                "apart": True,
            }
        ],
    ),
    "operation": (
        "An operation begins and ends",
        [
            {
                "tell": "notifications/operation/started",
                "params": {"operationId": "sync", "capability": "sync"},
                "apart": True,
            },
            {
                "tell": "notifications/operation/completed",
                "params": {"operationId": "sync", "success": True},
                "apart": True,
            },
        ],
    ),
    "error": (
        "An error that the app tells, and that ends nothing",
        [
            {
                "tell": "notifications/error",
                "params": {"code": "RATE_LIMITED", "message": "Slow down."},
                "apart": True,
            }
        ],
    ),
}


EVENTS = {
    "declined": Event.DECLINED,
    "cancelled": Event.CANCELLED,
    "timeout": Event.TIMEOUT,
    "declined-preference": Event.PREFERENCE,
    "call-cancelled": Event.HOST_CANCELS,
    "two-at-once": Event.TOGETHER,
    "app-ends": Event.APP_ENDS,
    "progress": Event.PROGRESS,
    "capabilities-changed": Event.CAPABILITIES,
    "state-changed": Event.STATE,
    "operation": Event.OPERATION,
    "error": Event.ERROR,
}


def _told(protocol: str, version: str) -> Iterator[Case]:
    acp = protocol == "acp"
    capabilities: Json = {"session": {"notices": {}}} if acp else {"elicitation": {}}
    for name, (shows, steps) in TELLS.items():
        yield Case(
            path=f"{'acp' if acp else f'mcp/{version}'}/{name}.jsonl",
            shows=f"{shows} ({'acp' if acp else f'mcp {version}'})",
            proves={
                "protocol": f"{'ACP' if acp else 'MCP'} {version}",
                "event": EVENTS[name].value,
            },
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=steps,
            person=_person(ASKED[QuestionShape.CONFIRM]),
            listens=protocol == "modern" and name in ("capabilities-changed", "state-changed"),
        )
    if not acp:
        yield Case(
            path=f"mcp/{version}/tools-and-resources.jsonl",
            shows=(
                "What there is to call and to read, before an app is connected and afterwards (mcp"
                f" {version})"
            ),
            proves=[],
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=TELLS["state-changed"][1],
            person=_never,
            lists=True,
        )


USES: Json = [{"call": "abp_call", "arguments": {"capability": "plan"}}]
WHERE_TO: Json = {
    "elicit": {
        "mode": "form",
        "message": "Where to?",
        "requestedSchema": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": list(CITIES)}},
            "required": ["city"],
        },
    }
}
WHO: Json = {
    "elicit": {
        "mode": "form",
        "message": "Who travels?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    }
}


def _behind() -> Iterator[Case]:
    """What an agent behind the proxy asks, and what an app asks that this agent uses."""
    many, secret = ASKED[QuestionShape.SELECT_MANY], ASKED[QuestionShape.SECRET]
    city, name = (
        replace(many, form={"city": "Lisbon"}),
        Asked(_input("Who travels?", type="string"), {"name": "Ann"}, page=("Ann",)),
    )
    url: Json = {"elicitation": {"form": {}, "url": {}}}
    made: tuple[tuple[str, str, Json, Json, Json, Asked, tuple[str, ...]], ...] = (
        (
            "app-by-buttons",
            "An app that the agent uses asks the editor, by pages of buttons",
            {},
            many.request,
            USES,
            many,
            (),
        ),
        (
            "app-in-a-form",
            "An app that the agent uses asks the editor, in a form of its own",
            _FORM,
            many.request,
            USES,
            many,
            (),
        ),
        (
            "app-for-a-secret",
            "A secret goes past the editor and the agent, from the page to the app",
            url,
            secret.request,
            USES,
            secret,
            (),
        ),
        (
            "agent-in-a-form",
            "An agent's form passes to an editor that has forms",
            _FORM,
            None,
            [WHERE_TO],
            city,
            (),
        ),
        (
            "agent-by-buttons",
            "An agent's form is pages of buttons in an editor that has no forms",
            {},
            None,
            [WHERE_TO],
            city,
            (),
        ),
        (
            "agent-on-the-page",
            "An agent's form that no buttons can carry is answered on the page",
            {},
            None,
            [WHO],
            name,
            ("--page",),
        ),
        (
            "agent-refused",
            "An agent's form that nobody can be shown is cancelled, and nothing is made up",
            {},
            None,
            [WHO],
            name,
            (),
        ),
    )
    for file, shows, capabilities, request, agent, asked, arguments in made:
        yield Case(
            path=f"acp-proxy/{file}.jsonl",
            shows=shows,
            proves=[],
            protocol="proxy",
            version="1",
            capabilities=capabilities,
            steps=[] if request is None else [{"ask": request}],
            person=_person(asked),
            arguments=arguments,
            agent=agent,
        )


# Hosts as they show themselves on the wire: (what to call it, protocol, version, clientInfo,
# capabilities). All but Zed's are recorded ones.
_FORM_AND_URL: Json = {"form": {}, "url": {}}
_FILES: Json = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
_ZED: Json = {
    **_FILES,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}, "notices": {}},
    "elicitation": _FORM_AND_URL,
}
HOSTS: tuple[tuple[str, str, str, Json, Json], ...] = (
    (
        "codex",
        "mcp",
        "2025-06-18",
        {"name": "codex-mcp-client", "title": "Codex", "version": "0.169.0"},
        {"experimental": {"codex/auth-change": {}}, "elicitation": _FORM_AND_URL},
    ),
    (
        "goose",
        "modern",
        "2026-07-28",
        {"name": "goose-cli", "version": "1.52.0"},
        {"extensions": {}, "roots": {}, "sampling": {}, "elicitation": {}},
    ),
    (
        "claude-code",
        "modern",
        "2026-07-28",
        {"name": "claude-code", "title": "Claude Code", "version": "2.1.316"},
        {"roots": {"listChanged": True}, "elicitation": _FORM_AND_URL},
    ),
    ("acpx", "acp", "1", {"name": "acpx", "version": "0.19.1"}, _FILES),
    ("zed", "acp", "1", {"name": "zed", "title": "Zed", "version": "unknown"}, _ZED),
)
# The same hosts in another era: (what to call it, whose handshake it has otherwise, protocol,
# version, capabilities where they are others).
ELSEWHEN: tuple[tuple[str, int, str, str, Json], ...] = (
    ("goose-legacy", 1, "mcp", "2025-11-25", None),
    ("claude-code-legacy", 2, "mcp", "2025-11-25", None),
    ("zed-before-forms", 4, "acp", "1", _FILES),
)
NOT_RECORDED = {
    "zed": " (as Zed's source has its handshake; not recorded)",
    "zed-before-forms": " (assumed: Zed before it had forms; not recorded)",
}
_HOSTED = (
    QuestionShape.RANGE,
    QuestionShape.CONFIRM_DESTRUCTIVE,
    QuestionShape.SELECT_MANY,
    QuestionShape.MULTI_SELECT,
    QuestionShape.SECRET,
)


def _hosts() -> Iterator[Case]:
    """Real hosts: what becomes of a question there, and the answers of theirs that are no
    person's.
    """
    for name, protocol, version, client, capabilities in HOSTS:
        for shape in _HOSTED:
            yield _hosted(
                f"{name}/{_name(shape)}.jsonl",
                f"{shape.value} in {name}",
                name,
                protocol,
                version,
                client,
                capabilities,
                _person(ASKED[shape]),
                shape,
            )
    for name, which, protocol, version, others in ELSEWHEN:
        _, _, _, client, usual = HOSTS[which]
        yield _hosted(
            f"{name}/select-many.jsonl",
            f"{QuestionShape.SELECT_MANY.value} in {name}",
            name,
            protocol,
            version,
            client,
            others or usual,
            _person(ASKED[QuestionShape.SELECT_MANY]),
            QuestionShape.SELECT_MANY,
        )
    codex, acpx = HOSTS[0], HOSTS[3]
    empty: Json = {"action": "accept", "content": {}}
    yield _hosted(
        "codex/accepts-nothing.jsonl",
        "Codex's terminal accepts a form that it cannot show, with nothing in it: it is asked"
        " again, and then no answer is made up",
        *codex,
        lambda method, params: empty,
        QuestionShape.NUMBER,
    )
    yield _hosted(
        "acpx/the-last-option.jsonl",
        "The last of twelve options in acpx is reached by a no to all others",
        *acpx,
        _person(
            replace(
                ASKED[QuestionShape.SELECT_MANY], form={"selected": "Madrid"}, buttons=("Madrid",)
            )
        ),
        QuestionShape.SELECT_MANY,
    )
    yield replace(
        _hosted(
            "codex/declines-by-itself.jsonl",
            "codex exec declines at once, without a person: the app is told who answered",
            *codex,
            lambda method, params: {"action": "decline"},
            QuestionShape.CONFIRM,
        ),
        env={"ABP_PERSON_FLOOR": "60000"},
    )
    yield replace(
        _hosted(
            "acpx/approves-by-itself.jsonl",
            "acpx --approve-all allows at once: what cannot be undone is not confirmed by a policy",
            *acpx,
            _approve,
            QuestionShape.CONFIRM_DESTRUCTIVE,
        ),
        env={"ABP_PERSON_FLOOR": "60000"},
    )


def _approve(method: str, params: Json) -> Any:
    """The first option that allows."""
    return {
        "outcome": {
            "outcome": "selected",
            "optionId": next(
                each["optionId"] for each in params["options"] if each["kind"] == "allow_once"
            ),
        }
    }


def _hosted(
    path: str,
    shows: str,
    name: str,
    protocol: str,
    version: str,
    client: Json,
    capabilities: Json,
    person: Person,
    shape: QuestionShape,
) -> Case:
    return Case(
        path=f"hosts/{path}",
        shows=shows + NOT_RECORDED.get(name, ""),
        proves={"host": f"{name} {client['version']}", "shape": shape.value},
        protocol=protocol,
        version=version,
        capabilities=capabilities,
        steps=[{"ask": ASKED[shape].request}],
        person=person,
        client=client,
    )


def _name(shape: QuestionShape) -> str:
    return shape.name.lower().replace("_", "-")


# --- hosts ----------------------------------------------------------------------------------------


class Nobody:
    """Who is there beside the host.

    `before` is what they do before anything is asked, `groups` what each question has them do.
    """

    def __init__(self, case: Case, folder: str) -> None:
        self.before: list[Entry] = []
        self.groups: list[list[Entry]] = []
        self._case = case
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.answer, daemon=True)

    def replace_paths(self, word: str) -> str:
        return word

    def begin(self) -> None:
        self._thread.start()

    def answer(self) -> None:
        """Answer what is asked, until it ends."""

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)


class AtTerminal(Nobody):
    """A person who reads and types."""

    def __init__(self, case: Case, folder: str) -> None:
        super().__init__(case, folder)
        self._terminal = Terminal()

    def replace_paths(self, word: str) -> str:
        return word.replace("{tty}", self._terminal.name)

    def answer(self) -> None:
        for asked in self._case.asked:
            made: list[Entry] = []
            for keys in asked.keys:
                if not self._shown(made, prompt=True):
                    return
                self._terminal.type(keys.replace("{folder}", self._folder) + "\n", PATIENCE)
                secret = asked is ASKED[QuestionShape.SECRET]
                made.append(
                    Entry(
                        "keys",
                        ("[secret]" if secret else keys.replace("{folder}", "[folder]")) + "\n",
                        PERSON,
                        BRIDGE,
                    )
                )
            if asked is self._case.asked[-1]:  # else it comes together with the next question
                self._shown(made, prompt=False)
            self.groups.append(made)

    def _shown(self, made: list[Entry], *, prompt: bool) -> bool:
        while not self._ended.is_set():
            quiet = not select.select([self._terminal.fd], [], [], QUIET)[0]
            if quiet and self._terminal.lines and (self._terminal.is_at_prompt or not prompt):
                made.append(
                    Entry(
                        "screen",
                        [line.replace(self._folder, "[folder]") for line in self._terminal.lines],
                        BRIDGE,
                        PERSON,
                    )
                )
                self._terminal.clear()
                return True
            if not quiet:
                self._terminal.read()
        return False

    def close(self) -> None:
        super().close()
        self._terminal.close()


class AtProgram(Nobody):
    """A program at the questions API, that follows its events."""

    def __init__(self, case: Case, folder: str) -> None:
        super().__init__(case, folder)
        self._port = free_port()
        self._headers = {"Authorization": f"Bearer {case.env['ABP_QUESTIONS_PASSWORD']}"}
        self._names: dict[str, str] = {}
        self._ready = threading.Event()

    def replace_paths(self, word: str) -> str:
        return word.replace("{port}", str(self._port))

    def begin(self) -> None:
        super().begin()
        assert self._ready.wait(PATIENCE)

    def answer(self) -> None:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as following:
            following.request("GET", "/event", headers=self._headers)
            with following.getresponse() as stream:
                self.before += [
                    Entry("http", {"http": "GET /event"}, PERSON, BRIDGE),
                    self._event(stream),
                ]
                self._ready.set()
                for asked in self._case.asked:
                    if (event := self._event(stream)) is None:
                        return
                    self.groups.append([event, *self._reply(asked), self._event(stream)])

    def _event(self, stream: HTTPResponse) -> Any:
        while line := stream.readline():
            if (
                line.startswith(b"data: ")
                and (event := json.loads(line[6:]))["type"] != "server.heartbeat"
            ):
                self._said = event["properties"]
                properties = replace_paths(
                    self._named(event["properties"]), {self._folder: "[folder]"}
                )
                return Entry(
                    "message", {**event, "id": "[any]", "properties": properties}, BRIDGE, PERSON
                )
        return None

    def _named(self, said: Json) -> Json:
        words = {"id": "question", "requestID": "question", "sessionID": "session"}
        made = dict(said)
        for name, word in words.items():
            if name in made:
                count = sum(each.startswith(f"[{word}") for each in self._names.values())
                made[name] = self._names.setdefault(made[name], f"[{word} {count + 1}]")
        return made

    def _reply(self, asked: Asked) -> list[Entry]:
        body = {"answers": [list(each) for each in asked.labels]}
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as connection:
            connection.request(
                "POST", f"/question/{self._said['id']}/reply", json.dumps(body), self._headers
            )
            with connection.getresponse() as response:
                said = {"status": response.status, "body": json.loads(response.read())}
        path = f"POST /question/{self._names[self._said['id']]}/reply"
        return [
            Entry("http", {"http": path, "body": body}, PERSON, BRIDGE),
            Entry("message", said, BRIDGE, PERSON),
        ]

    def close(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)


_BESIDE: dict[str, type[Nobody]] = {"": Nobody, "terminal": AtTerminal, "program": AtProgram}


class Bridge:
    """A recording bridge on its pipes, as its host sees it."""

    def __init__(self, case: Case, folder: str, trace: str) -> None:
        Path(folder, "steps.json").write_text(json.dumps(case.steps).replace("{folder}", folder))
        for name, text in case.files.items():
            Path(folder, name).write_text(text)
        self.beside = _BESIDE[case.beside](case, folder)
        arguments = [
            self.beside.replace_paths(word).replace("{folder}", folder) for word in case.arguments
        ]
        app = f"stdio:{shlex.join([sys.executable, str(APP), str(Path(folder, 'steps.json'))])}"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env = {**kept, "PYTHONPATH": str(ROOT), "ABP_PERSON_FLOOR": "0", **case.env}
        role, agent = (
            ("acp", ("--", sys.executable, str(AGENT), "--plain"))
            if case.protocol == "proxy"
            else ("serve", ())
        )
        command = [
            sys.executable,
            "-m",
            "abp_bridge",
            role,
            "--app",
            app,
            "--record",
            trace,
            *arguments,
            *agent,
        ]
        with open(Path(folder, "stderr"), "wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                cwd=folder,
            )
        self.said: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.serial = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put(None)

    def send(self, **message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Json) -> int:
        self.serial += 1
        self.send(id=self.serial, method=method, params=params)
        return self.serial

    def next(self) -> Json:
        message = self.said.get(timeout=PATIENCE)
        assert message is not None, "the bridge ended"
        return message

    def answer_all(self, id: int, case: Case, give_up: Callable[[], None]) -> Json:
        """What came of the request `id`; what is asked meanwhile is answered as the case has it.

        None for a request that was given up.
        """
        while True:
            message = self.next()
            if message.get("id") == id and "method" not in message:
                return message
            if "method" in message and "id" in message:
                given = case.person(message["method"], message["params"])
                if isinstance(given, Filled):
                    if given.result is not None:
                        self.send(id=message["id"], result=given.result)
                    given.fill_in()
                elif given is not None:
                    self.send(id=message["id"], result=given)
                elif case.cancel:
                    give_up()
                    if case.protocol != "acp":
                        return None

    def end(self) -> None:
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0

    def close(self) -> None:
        """However it went, nothing is left of it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.beside.close()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def _legacy(bridge: Bridge, case: Case) -> None:
    bridge.answer_all(
        bridge.ask(
            "initialize",
            {
                "protocolVersion": case.version,
                "capabilities": case.capabilities,
                "clientInfo": dict(case.client),
            },
        ),
        case,
        _pass,
    )
    bridge.send(method="notifications/initialized")
    _look(bridge, case, {}, "tools/list", "resources/list")
    if case.beside == "program":  # it listens before anything is asked
        bridge.answer_all(
            bridge.ask("tools/call", {"name": "abp_connect", "arguments": {}}), case, _pass
        )
    bridge.beside.begin()
    call = bridge.ask(
        "tools/call",
        {"name": "abp_call", "arguments": {"capability": "plan"}, "_meta": {"progressToken": "p1"}},
    )

    def give_up() -> None:
        bridge.send(
            method="notifications/cancelled",
            params={"requestId": call, "reason": "the person pressed stop"},
        )

    message = bridge.answer_all(call, case, give_up)
    if message is None:
        time.sleep(TOLD)
    _look(bridge, case, {}, "tools/list", "resources/list")
    while message is not None and (more := _told_to_model(case, message)) is not None:
        message = bridge.answer_all(bridge.ask("tools/call", more), case, give_up)


def _look(bridge: Bridge, case: Case, params: Json, *methods: str) -> None:
    """A host that looks what there is: and reads the first resource, if there is one."""
    for method in methods if case.lists else ():
        found = bridge.answer_all(bridge.ask(method, params), case, _pass)["result"]
        for resource in found.get("resources", [])[:1]:
            bridge.answer_all(
                bridge.ask("resources/read", {**params, "uri": resource["uri"]}), case, _pass
            )


def _told_to_model(case: Case, message: Json) -> Json:
    """What a model does with what the result of a call has it do: asks its user, or sends them to
    the page. None for a result that is one.
    """
    words = json.dumps(message.get("result", {}).get("content", ""), ensure_ascii=False).replace(
        '\\"', '"'
    )
    if (question := re.search(r'abp_answer with {"question": "([^"]+)"', words)) is not None:
        return {
            "name": "abp_answer",
            "arguments": {
                "question": question[1],
                "content": case.person("told", {"words": words}),
            },
        }
    if LINK.search(words) is None:
        return None
    case.person("told", {"words": words}).fill_in()
    call = re.search(r'{"call": "([^"]+)"}', words)
    assert call is not None, words
    return {"name": "abp_wait", "arguments": {"call": call[1]}}


def _modern(bridge: Bridge, case: Case) -> None:
    meta = {
        f"{META}protocolVersion": case.version,
        f"{META}clientCapabilities": case.capabilities,
        f"{META}logLevel": "info",
        "progressToken": "p1",
    }
    if case.client["name"] != "fixture":
        meta[f"{META}clientInfo"] = dict(case.client)
    params: Json = {"_meta": meta, "name": "abp_call", "arguments": {"capability": "plan"}}
    more: Json = {}
    if case.listens:
        wanted = {"toolsListChanged": True, "resourcesListChanged": True}
        bridge.send(
            id="changes",
            method="subscriptions/listen",
            params={"_meta": meta, "notifications": wanted},
        )
        bridge.next()
    _look(bridge, case, {"_meta": meta}, "tools/list", "resources/list")
    while True:
        call = bridge.ask("tools/call", {**params, **more})
        message = bridge.answer_all(call, case, _pass)
        result = message.get("result", {})
        if result.get("resultType") != "input_required":
            _look(bridge, case, {"_meta": meta}, "tools/list", "resources/list")
            return
        answers: Json = {}
        filled: Filled | None = None
        for key, request in result["inputRequests"].items():
            given = case.person(request["method"], request["params"])
            if isinstance(given, Filled):
                given, filled = given.result, given
            if given is not None:
                answers[key] = given
        more = {"requestState": result["requestState"], "inputResponses": answers}
        if case.cancel:
            call = bridge.ask("tools/call", {**params, "requestState": result["requestState"]})
            bridge.send(
                method="notifications/cancelled",
                params={"requestId": call, "reason": "the person pressed stop"},
            )
            time.sleep(TOLD)
            return
        if filled is not None:
            filled.fill_in()
        if not answers:  # nobody answers: the host comes back when it is too late
            while (
                case.listens and bridge.next().get("method") != "notifications/tools/list_changed"
            ):
                pass
            time.sleep(TOLD)
            more.pop("inputResponses")


def _acp(bridge: Bridge, case: Case) -> None:
    bridge.answer_all(
        bridge.ask(
            "initialize",
            {
                "protocolVersion": 1,
                "clientInfo": dict(case.client),
                "clientCapabilities": case.capabilities,
            },
        ),
        case,
        _pass,
    )
    session = bridge.answer_all(
        bridge.ask("session/new", {"cwd": "/", "mcpServers": []}), case, _pass
    )["result"]["sessionId"]
    for words in ("/connect", "/plan"):
        prompt = bridge.ask(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": words}]}
        )
        bridge.answer_all(
            prompt,
            case,
            lambda: bridge.send(method="session/cancel", params={"sessionId": session}),
        )


def _proxied(bridge: Bridge, case: Case) -> None:
    client = {
        "protocolVersion": 1,
        "clientInfo": dict(case.client),
        "clientCapabilities": case.capabilities,
    }
    bridge.answer_all(bridge.ask("initialize", client), case, _pass)
    session = bridge.answer_all(
        bridge.ask("session/new", {"cwd": "/", "mcpServers": []}), case, _pass
    )["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": json.dumps(case.agent)}]}
    bridge.answer_all(bridge.ask("session/prompt", prompt), case, _pass)


def _pass() -> None:
    """Nothing is given up."""


_HOSTS: dict[str, Callable[[Bridge, Case], None]] = {
    "mcp": _legacy,
    "modern": _modern,
    "acp": _acp,
    "proxy": _proxied,
}


# --- making ---------------------------------------------------------------------------------------


def make(case: Case) -> str:
    """The text of one fixture."""
    folder = tempfile.mkdtemp(prefix="abp-fixture-")
    try:
        trace = str(Path(folder, "trace"))
        bridge = Bridge(case, folder, trace)
        try:
            _HOSTS[case.protocol](bridge, case)
            bridge.end()
        finally:
            bridge.close()
        recording = read(Path(trace).read_text())[-1]
        whole = replace(
            recording, entries=tuple(_with_what_was_beside(recording.entries, bridge.beside))
        )
        fixture = reduce(whole, case.shows, looking=case.lists)
        asked_there = iter(case.asked)
        named = (_as_named(entry) if entry.party == PERSON else entry for entry in fixture.entries)
        entries = tuple(
            _reading(entry, next(asked_there, None)) if entry.kind == "fill" else entry
            for entry in named
        )
        proves = tuple(case.proves) if isinstance(case.proves, list) else (case.proves,)
        env = {
            name: value for name, value in fixture.head.env.items() if name == "ABP_PERSON_FLOOR"
        } | dict(case.env)
        head = replace(
            fixture.head,
            proves=proves,
            files=case.files,
            run=_with(case.arguments, fixture.head.run),
            env=env,
        )
        return "".join(lines(replace(fixture, head=head, entries=entries)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_named(entry: Entry) -> Entry:
    """What a program saw and said has its words in brackets already, and they are meant."""
    return replace(entry, value=_meant(entry.value)) if entry.kind in ("message", "http") else entry


def _meant(value: Json) -> Json:
    if isinstance(value, str):
        return value.replace("[[", "[")
    if isinstance(value, dict):
        return {name: _meant(each) for name, each in value.items()}
    return [_meant(each) for each in value] if isinstance(value, list) else value


def _with(arguments: Sequence[str], run: Sequence[str]) -> tuple[str, ...]:
    """The bridge's arguments, before those of the agent."""
    own = run.index("--") if "--" in run else len(run)
    return (*run[:own], *arguments, *run[own:])


def _reading(entry: Entry, asked: Asked | None) -> Entry:
    """What a person sent on the page, and what must stand there: what is asked, and all that there
    is to choose from.
    """
    if asked is None:
        return entry
    value, said = entry.value, asked.request["params"]
    if asked.reads:
        return replace(
            entry,
            value={"open": value["open"], "reads": list(asked.reads), "fill": [], "press": "send"},
        )
    question = decode_question(asked.request, id="", origin="")
    labels = [choice.label for field in question.fields for choice in field.choices]
    reads = [said.get("prompt") or said.get("message"), *labels]
    return replace(
        entry,
        value={
            "open": value["open"],
            "reads": reads,
            **{name: each for name, each in value.items() if name != "open"},
        },
    )


def _with_what_was_beside(entries: Sequence[Entry], beside: Nobody) -> Iterator[Entry]:
    """A trace, with what a person saw and did elsewhere before the app had its answer."""
    groups = list(beside.groups)
    before = list(beside.before)
    for entry in entries:
        if (
            before
            and entry.kind == "message"
            and entry.sender == "host"
            and entry.value.get("params", {}).get("name") == "abp_call"
        ):
            yield from before
            before.clear()
        if (
            groups
            and entry.kind == "message"
            and entry.to == "app"
            and str(entry.value.get("id")).startswith("q")
        ):
            yield from groups.pop(0)
        yield entry


def main(wanted: list[str]) -> int:
    chosen = [case for case in cases() if not wanted or any(word in case.path for word in wanted)]
    with ThreadPoolExecutor(AT_ONCE) as several:
        for case, text in zip(chosen, several.map(_made, chosen), strict=True):
            path = FIXTURES / case.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(path.relative_to(ROOT))
    print(f"{len(chosen)} fixtures")
    return 0


def _made(case: Case) -> str:
    try:
        return make(case)
    except Exception:
        print(f"{case.path} cannot be made", file=sys.stderr)
        raise


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
