"""Which fixtures there are: a question for each cell of the matrix, and the conversations of the
tables.

A cell gets the question of its row, and a host that has its column's surface only. What is refused
stands together, and what is slow to start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from support.notification_matrix import Trigger

from abp_bridge.core.matrix import MATRIX, QuestionShape, SurfaceVariant, find_cell
from abp_bridge.core.surface import Surface

from .person import DISMISSED, Asked, Person, always, declines, forbids, never, person

Json = Any

PLAN: Json = {"name": "abp_call", "arguments": {"capability": "plan"}}


def _table(name: str) -> Json:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


QUESTIONS = {name: Asked(**row) for name, row in _table("questions").items()}
ASKED = {shape: QUESTIONS[shape.name] for shape in QuestionShape}
HOSTS: Json = _table("hosts")
CONVERSATIONS: Json = _table("conversations")
PREFERENCE: Json = QUESTIONS["PREFERENCE"].request
CITIES: Sequence[str] = ASKED[QuestionShape.SELECT_MANY].request["params"]["options"]


@dataclass(frozen=True)
class Case:
    """One fixture: a host that speaks `version` with these `capabilities`, its person, and what the
    app does.
    """

    steps: Json
    path: str = ""
    shows: str = ""
    proves: Json = ()
    protocol: str = "mcp"  # mcp, modern, acp, abp, envelope, or proxy: ACP, an agent behind it
    app: tuple[str, ...] = ()  # in place of the scripted one: what it speaks, and as a server
    server: tuple[str, ...] = ()  # behind the bridge: a program of the tests' apps, its arguments
    call: Json = field(default_factory=lambda: PLAN)
    prompt: str = "/plan"  # the same, as an ACP client's person says it
    version: str = "2025-11-25"
    capabilities: Json = field(default_factory=dict)
    person: Person = never
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: Json = field(default_factory=dict)  # what answers sampling, as `model.Model` has it
    patience: float | None = None  # seconds, of who plays it
    cancels: bool = False  # the host gives up when it is asked
    asked: tuple[Asked, ...] = ()  # in order: for a person at a terminal, or a program of theirs
    beside: str = ""  # who answers beside the host: a terminal, a program
    lists: bool = False  # the host looks at tools and resources, before and afterwards
    agent: Json = ()  # what the agent behind the bridge does when it is prompted
    listens: bool = False  # a modern host, to a stream of what changes
    mute: bool = False  # an ACP client that shows nothing that it is asked, only what is said
    typed: tuple[str, ...] = ()  # and what its person types then, prompt by prompt
    client: Mapping[str, str] = field(default_factory=lambda: {"name": "fixture", "version": "1"})


def cases() -> Iterator[Case]:
    for (surface, version), row in MATRIX.items():
        for name, shapes in _grouped(surface, version, list(row)):
            yield _cells(surface, version, name, shapes)
        if surface not in (Surface.MCP_SAMPLING, Surface.SAMPLING):
            yield _hinted(surface, version)
    yield from _pointers()
    yield _without()
    for protocol, version in PROTOCOLS:
        yield from _outcomes(protocol, version)
        yield from _told(protocol, version)
    yield from _behind()
    yield from _servers()
    yield from _apps()
    yield from _hosts()


# --- cells of the matrix --------------------------------------------------------------------------


# How a host, and who is there beside it, have one surface only.
SPOKEN: Json = _table("surfaces")
PROTOCOLS = (
    ("mcp", "2025-06-18"),
    ("mcp", "2025-11-25"),
    ("modern", "2026-07-28"),
    ("acp", "1"),
    ("abp", "0.1"),
)
# What comes together on a surface that is slow to start, or that has no protocol of a host's to
# show.
TOGETHER = (
    Surface.MCP_URL,
    Surface.ACP_URL,
    Surface.ACP_CHAT,
    Surface.PAGE,
    Surface.TERMINAL,
    Surface.QUESTIONS_API,
    Surface.MODEL_RELAY,
)
GROUPS = {
    **dict.fromkeys(["TEXT", "FORMATTED_TEXT", "NUMBER", "RANGE", "NESTED", "SECRET"], "typed"),
    **dict.fromkeys(
        ["BOOLEAN", "CONFIRM", "CONFIRM_DESTRUCTIVE", "SELECT_FEW", "SELECT_MANY", "MULTI_SELECT"],
        "chosen",
    ),
}


def on_surface(surface: Surface, version: str) -> Case:
    """A conversation without a question, in which there is this surface only."""
    spoken: dict[str, Any] = {"capabilities": {}, "protocol": "mcp", **SPOKEN[surface.value]}
    if version == "2025-06-18":
        spoken["capabilities"] = {"elicitation": {}}
    if version == "2026-07-28":
        spoken["protocol"] = "modern"
    spoken["arguments"] = tuple(spoken.get("arguments", ()))
    usual = dict(PROTOCOLS[-2:]).get(spoken["protocol"], "2025-11-25")
    return Case([], version=version or usual, **spoken)


def _grouped(
    surface: Surface, version: str, shapes: list[QuestionShape]
) -> Iterator[tuple[str, list[QuestionShape]]]:
    """The names of a column's fixtures, and what each shows."""
    groups: dict[str, list[QuestionShape]] = {}
    for shape in shapes:
        name = _name(shape)
        if not find_cell(shape, SurfaceVariant(surface, version)).asks:
            name = "refused"
        elif surface is Surface.MOCK:
            name = "written"
        elif surface in TOGETHER:
            name = GROUPS.get(shape.name, "fields-and-files")
        groups.setdefault(name, []).append(shape)
    yield from groups.items()


def _cells(surface: Surface, version: str, name: str, shapes: list[QuestionShape]) -> Case:
    spoken = on_surface(surface, version)
    asked = tuple(ASKED[shape] for shape in shapes)
    files = {path: text for each in asked for path, text in each.files.items()}
    if surface is Surface.MOCK:
        files["answers.json"] = json.dumps([_written(shape) for shape in shapes])
    written: tuple[str, ...] = ()
    if surface is Surface.SAMPLING and name != "refused":
        files["answers.json"] = json.dumps([{"match": "May this be sent", "value": "send"}])
        written = ("--answers", "{folder}/answers.json")
    env = dict(spoken.env)
    if surface is Surface.ACP_PERMISSION and name in ("refused", "hints"):
        env["ABP_ACP_CHAT"] = "false"  # else the chat asks it
    reads = ("--root", "{folder}") if QuestionShape.FILE_CONSENT in shapes else ()
    cell = {"surface": surface.value, "version": version}
    return replace(
        spoken,
        path="/".join(filter(None, (surface.value, version, f"{name}.jsonl"))),
        shows=_shown(surface, version, name, shapes),
        proves=[{**cell, "shape": shape.value} for shape in shapes],
        steps=[{"ask": each.request} for each in asked],
        person=person(*asked),
        files={**spoken.files, **files},
        env=env,
        arguments=(*spoken.arguments, *reads, *written),
        asked=asked,
        typed=_typed(asked) if spoken.mute and name != "refused" else (),
    )


def _typed(asked: Sequence[Asked]) -> tuple[str, ...]:
    """What somebody types to these, a prompt for each field."""
    rounds = (labels for each in asked for labels in each.rounds)
    return tuple(", ".join(label) for labels in rounds for label in labels)


def _shown(surface: Surface, version: str, name: str, shapes: list[QuestionShape]) -> str:
    where = f"{surface.value} {version}".strip()
    each = "; ".join(shape.value for shape in shapes)
    if name == "refused":
        return f"What {where} refuses, and why: {each}"
    if len(shapes) > 1:
        return f"{name.replace('-', ' ').capitalize()} on {where}: {each}"
    cell = find_cell(shapes[0], SurfaceVariant(surface, version))
    return f"{each} on {where}: {cell.support.value}" + (f" ({cell.how})" if cell.how else "")


def _written(shape: QuestionShape) -> Json:
    """The entry of an answers file."""
    asked = ASKED[shape]
    given: Json = {"content": dict(asked.form)}
    if shape is QuestionShape.SAMPLING:
        given = {"result": "Have a good journey!"}
    elif shape is QuestionShape.SECRET:
        given = {"value": "[secret]"}
    elif shape is QuestionShape.FILE:
        given = {"value": asked.page[0]}
    elif shape is QuestionShape.NESTED:
        given = {"content": {"address": json.loads(asked.form["address"])}}
    return {"match": asked.words, **given}


def _hinted(surface: Surface, version: str) -> Case:
    """What an app adds to a question: what it suggests, and what there is to know."""
    made = _cells(surface, version, "hints", [QuestionShape.SELECT_FEW])
    asked = (QUESTIONS["HINTED_TEXT"], QUESTIONS["HINTED_CHOICE"])
    cell = {"surface": surface.value, "version": version}
    entries = [{"match": each.words, "content": dict(each.form)} for each in asked]
    return replace(
        made,
        shows=f"An app's default, and what it describes, on {surface.value} {version}".strip(),
        proves=[{**cell, "hint": hint} for hint in ("default", "description")],
        steps=[{"ask": each.request} for each in asked],
        person=person(*asked),
        files={"answers.json": json.dumps(entries)} if surface is Surface.MOCK else {},
        asked=asked,
        typed=_typed(asked) if made.mute else (),
    )


def _name(shape: QuestionShape) -> str:
    return shape.name.lower().replace("_", "-")


# --- conversations of the tables ------------------------------------------------------------------


def _steps(steps: Json) -> Json:
    """Steps of the app, in which questions stand by their names."""

    def asked(name: Json) -> Json:
        return [asked(each) for each in name] if isinstance(name, list) else QUESTIONS[name].request

    return [
        {word: asked(value) if word in ("ask", "end") else value for word, value in step.items()}
        for step in steps
    ]


def _pointers() -> Iterator[Case]:
    """How a person is told of the page, where the host opens no address: by a form, and by a card.
    A model is not given its link.
    """
    secret = ASKED[QuestionShape.SECRET]
    ways: tuple[tuple[str, str, Surface], ...] = (
        ("by-form", "a form of the host's without fields", Surface.MCP_FORM),
        ("by-permission", "a card of an ACP client's with two buttons", Surface.ACP_PERMISSION),
    )
    for name, way, surface in ways:
        cell = {"surface": "page", "version": "", "shape": QuestionShape.SECRET.value}
        yield replace(
            on_surface(surface, ""),
            path=f"page/{name}.jsonl",
            shows=f"A secret on the page, which the person is pointed to by {way}",
            proves={**cell, "by": name},
            steps=[{"ask": secret.request}],
            person=person(secret),
            arguments=("--page",),
            asked=(secret,),
        )
    yield Case(
        path="page/not-by-model.jsonl",
        shows="A secret where only a model could be given the page's link: refused, and why",
        proves={**cell, "surface": "no elicitation"},
        steps=[{"ask": secret.request}],
        arguments=("--page",),
    )


def _without() -> Case:
    """An MCP host that declares no elicitation: nothing can be asked, and nothing is made up."""
    cell = {"surface": "no elicitation", "version": ""}
    requests = [*(ASKED[shape].request for shape in QuestionShape), PREFERENCE]
    return Case(
        path="mcp/2025-11-25/without-elicitation.jsonl",
        shows=(
            "A host that declares no elicitation: each question is refused with the reason, and a"
            " preference has the app's own default"
        ),
        proves=[
            *({**cell, "shape": shape.value} for shape in QuestionShape),
            {"protocol": "no elicitation", "event": Trigger.PREFERENCE.value},
        ],
        steps=[{"ask": request} for request in requests],
        files=ASKED[QuestionShape.FILE_CONSENT].files,
        arguments=("--root", "{folder}"),
    )


def _outcomes(protocol: str, version: str) -> Iterator[Case]:
    """How a question can end without an answer."""
    forms: Json = {"elicitation": {} if version == "2025-06-18" else {"form": {}}}
    cancelled: Json = {"action": "cancel"}
    where, capabilities, cancels = {
        "acp": (("acp-permission",), {}, {"outcome": {"outcome": "cancelled"}}),
        "abp": (("abp",), SPOKEN["abp"]["capabilities"], DISMISSED),
    }.get(protocol, (("mcp-form", version), forms, cancelled))
    people = {"declines": declines, "cancels": always(cancels), "never": never, "forbids": forbids}
    for name, row in CONVERSATIONS["outcomes"].items():
        both = person(ASKED[QuestionShape.SELECT_FEW], ASKED[QuestionShape.CONFIRM])
        yield Case(
            path="/".join((*where, "outcomes", f"{name}.jsonl")),
            shows=f"{row['shows']} ({' '.join(where)})",
            proves=_event(protocol, version, row),
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=_steps(row["steps"]),
            person=people[row["person"]] if "person" in row else both,
            cancels=row.get("cancels", False),
            arguments=tuple(row.get("arguments", ())),
            listens=protocol == "modern" and row.get("listens", False),
        )


def _told(protocol: str, version: str) -> Iterator[Case]:
    where, capabilities = {
        "acp": (("acp",), {"session": {"notices": {}}}),
        "abp": (("abp",), SPOKEN["abp"]["capabilities"]),
    }.get(protocol, (("mcp", version), {"elicitation": {}}))
    usual = Case([], protocol=protocol, version=version, capabilities=capabilities)
    for name, row in CONVERSATIONS["told"].items():
        yield replace(
            usual,
            path="/".join((*where, f"{name}.jsonl")),
            shows=f"{row['shows']} ({' '.join(where)})",
            proves=_event(protocol, version, row),
            steps=_steps(row["steps"]),
            person=person(ASKED[QuestionShape.CONFIRM]),
            listens=protocol == "modern" and row.get("listens", False),
        )
    if where[0] == "mcp":
        yield replace(
            usual,
            path=f"mcp/{version}/tools-and-resources.jsonl",
            shows=(
                "What there is to call and to read, before an app is connected and afterwards (mcp"
                f" {version})"
            ),
            proves=[],
            steps=CONVERSATIONS["told"]["state-changed"]["steps"],
            lists=True,
        )


def _event(protocol: str, version: str, row: Json) -> Json:
    return {
        "protocol": f"{protocol.replace('modern', 'mcp').upper()} {version}",
        "event": Trigger[row["event"]].value,
    }


def _behind() -> Iterator[Case]:
    """What an agent behind the proxy asks, and what an app asks that this agent uses."""
    for name, row in CONVERSATIONS["behind"].items():
        yield Case(
            path=f"acp-proxy/{name}.jsonl",
            shows=row["shows"],
            protocol="proxy",
            version="1",
            capabilities=row["capabilities"],
            steps=_steps([{"ask": row["app"]}] if "app" in row else []),
            person=person(QUESTIONS[row["asked"]]),
            arguments=tuple(row.get("arguments", ())),
            agent=row["agent"],
        )


def _servers() -> Iterator[Case]:
    """What a server behind the proxy asks."""
    for name, row in CONVERSATIONS["servers"].items():
        yield Case(
            [],
            path=f"mcp-proxy/{name}.jsonl",
            shows=row["shows"],
            protocol=row.get("protocol", "mcp"),
            version=row.get("version", "2025-11-25"),
            capabilities=row["capabilities"],
            person=always(row["answers"]) if "answers" in row else never,
            env=row.get("env", {}),
            asked=(QUESTIONS[row["asked"]],) if "asked" in row else (),
            beside=row.get("beside", ""),
            server=tuple(row["server"]),
            call={"name": row["tool"], "arguments": {}},
        )


def _apps() -> Iterator[Case]:
    """The other ways in of what asks, and of who answers: a fixture each."""
    for name, row in CONVERSATIONS["apps"].items():
        yield Case(
            _steps(row.get("steps", [])),
            path=f"apps/{name}.jsonl",
            shows=row["shows"],
            protocol=row.get("protocol", "mcp"),
            version=row.get("version", "2025-11-25"),
            capabilities=row["capabilities"],
            person=always(row["answers"]) if "answers" in row else never,
            app=tuple(row.get("app", ())),
            prompt=row.get("prompt", "/plan"),
            model=row.get("model", {}),
            patience=row.get("patience"),
            files=row.get("files", {}),
            arguments=tuple(row.get("arguments", ())),
            call={"name": "abp_call", "arguments": row["call"]} if "call" in row else PLAN,
        )


# --- real hosts, as they show themselves on the wire ----------------------------------------------

_HOSTED = ("RANGE", "CONFIRM_DESTRUCTIVE", "SELECT_MANY", "MULTI_SELECT", "SECRET")


def _hosts() -> Iterator[Case]:
    """What becomes of a question there, and the answers of theirs that are no person's."""
    for name, host in HOSTS.items():
        for shape in map(QuestionShape.__getitem__, host.get("asked", _HOSTED)):
            yield _hosted(name, _name(shape), f"{shape.value} in {name}", shape)
    for path, row in CONVERSATIONS["hosts"].items():
        host, _, name = path.partition("/")
        shape = QuestionShape[row["shape"]]
        asked = QUESTIONS[row.get("asked", row["shape"])]
        answers = always(row["always"]) if "always" in row else person(asked)
        made = _hosted(host, name, row["shows"], shape)
        yield replace(made, person=answers, env=row.get("env", {}))


def _hosted(host: str, name: str, shows: str, shape: QuestionShape) -> Case:
    row = HOSTS[host]
    return Case(
        path=f"hosts/{host}/{name}.jsonl",
        shows=shows + row.get("note", ""),
        proves={"host": f"{host} {row['client']['version']}", "shape": shape.value},
        steps=[{"ask": ASKED[shape].request}],
        person=person(ASKED[shape]),
        **{word: row[word] for word in ("protocol", "version", "capabilities", "client")},
    )
