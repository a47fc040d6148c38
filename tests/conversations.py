"""Makes the fixtures that prove the matrix: `make fixtures`. Each is a real conversation, recorded by the bridge itself and reduced.

A cell gets the question of its row, and a host that has its column's surface only. What a row is asked and how a person answers it on a form, by
buttons and on the page stands in `ASKED`.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from abp_bridge.core.matrix import MATRIX, Column, Shape, Surface, route
from abp_bridge.record.reduce import reduce
from abp_bridge.record.replay import fill_in
from abp_bridge.record.trace import lines, read

Json = Any

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
APP = ROOT / "tests" / "apps" / "scripted.py"
PATIENCE = 20
TOLD = 0.6  # seconds in which the bridge has told everybody, and questions with a time of their own have ended
META = "io.modelcontextprotocol/"


@dataclass(frozen=True)
class Asked:
    """A row's question, and a person's answer to it: as content of a form, as buttons, and as controls of the page."""

    request: Json
    form: Mapping[str, Json] = field(default_factory=dict)
    buttons: tuple[str, ...] = ()
    page: tuple[Json, ...] = ()
    plain: Mapping[str, Json] | None = None  # the form's content where the matrix has another one


def _asked(method: str, **params: Json) -> Json:
    return {"method": method, "params": params}


def _input(prompt: str, **schema: Json) -> Json:
    return _asked("elicitation/input", prompt=prompt, schema=schema)


CITIES = ("Amsterdam", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Florence", "Geneva", "Helsinki", "Innsbruck", "Kraków", "Lisbon", "Madrid")
EXTRAS = [
    {"value": "bike", "label": "A bike"},
    {"value": "meal", "label": "A meal"},
    {"value": "wifi", "label": "Wi-Fi", "description": "On the train"},
]

ASKED: dict[Shape, Asked] = {
    Shape.TEXT: Asked(_input("Who travels?", type="string", minLength=2), {"value": "Ann"}, page=("Ann",)),
    Shape.FORMATTED_TEXT: Asked(
        _input("Where is the ticket sent?", type="string", format="email"), {"value": "ann@example.com"}, page=("ann@example.com",)
    ),
    Shape.NUMBER: Asked(_input("How many seats?", type="integer", minimum=1, maximum=6), {"value": 2}, ("2",), ("2",)),
    Shape.BOOLEAN: Asked(_input("A window seat?", type="boolean"), {"value": True}, ("Yes",), ("true",)),
    Shape.CONFIRM: Asked(_asked("elicitation/confirm", message="Book it?"), {"confirmed": True}, ("Yes",), ("true",)),
    Shape.CONFIRM_DESTRUCTIVE: Asked(
        _asked("elicitation/confirm", message="Delete all trips?", destructive=True), {"confirmed": True}, ("Delete",), ("true",)
    ),
    Shape.SELECT_FEW: Asked(
        _asked("elicitation/select", prompt="Which class?", options=["first", "second"]), {"selected": "second"}, ("second",), ("second",)
    ),
    Shape.SELECT_MANY: Asked(
        _asked("elicitation/select", prompt="Where to?", options=list(CITIES)), {"selected": "Lisbon"}, ("Lisbon",), ("Lisbon",)
    ),
    Shape.MULTI_SELECT: Asked(
        _asked("elicitation/select", prompt="What else?", options=EXTRAS, multiple=True),
        {"selected": ["bike", "wifi"]},
        ("A bike", "Wi-Fi", "Done"),
        (["bike", "wifi"],),
    ),
    Shape.FIELDS: Asked(
        _input(
            "Your seat, please",
            type="object",
            properties={"car": {"type": "integer", "minimum": 1, "maximum": 3}, "side": {"enum": ["aisle", "window"]}},
            required=["car", "side"],
        ),
        {"car": 3, "side": "aisle"},
        ("3", "aisle", "Send"),
        ("3", "aisle"),
    ),
    Shape.NESTED: Asked(
        _input(
            "Where do you live?",
            type="object",
            properties={
                "address": {"type": "object", "properties": {"street": {"type": "string"}, "town": {"type": "string"}}, "required": ["town"]}
            },
            required=["address"],
        ),
        {"address": '{"street": "Old Lane 1", "town": "Delft"}'},
        page=('{"street": "Old Lane 1", "town": "Delft"}',),
    ),
    Shape.SECRET: Asked(_input("The password of your account?", type="string", format="password"), page=("correct horse battery",)),
    Shape.FILE: Asked(_asked("elicitation/resource", prompt="A photo of you, please", type="image/png")),
    Shape.FILE_CONSENT: Asked(
        _asked("elicitation/resource", prompt="Your travel notes, please", uri="file://{folder}/notes.txt"), {"confirmed": True}, ("Yes",), ("true",)
    ),
    Shape.SAMPLING: Asked(_asked("sampling/create", task="Say good journey in four words.")),
}

FILES = {Shape.FILE_CONSENT: {"notes.txt": "Take the early train.\n"}}

# A question answers: a result for the host to give, or None for never.
Person = Callable[[str, Json], Any]


@dataclass(frozen=True)
class Case:
    """One fixture: a host that speaks `version` with these `capabilities`, its person, and what the app does."""

    path: str
    shows: str
    proves: Json
    protocol: str  # mcp, modern or acp
    version: str
    capabilities: Json
    steps: Json
    person: Person
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cancel: str = ""  # the host gives up when it has seen this method
    client: Mapping[str, str] = field(default_factory=lambda: {"name": "fixture", "version": "1"})


# --- the cases ------------------------------------------------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    for (surface, version), row in MATRIX.items():
        if surface.value in SPOKEN:
            for shape in row:
                if (surface, shape) not in LATER:
                    yield from _cell(surface, version, shape)
    for protocol, version in (("mcp", "2025-06-18"), ("mcp", "2025-11-25"), ("modern", "2026-07-28"), ("acp", "1")):
        yield from _outcomes(protocol, version)
        yield from _told(protocol, version)
    yield from _hosts()


# surface -> (protocol, what a host declares to have this one)
SPOKEN: dict[str, tuple[str, Json]] = {
    "mcp-form": ("mcp", {"elicitation": {"form": {}}}),
    "mcp-url": ("mcp", {"elicitation": {"url": {}}}),
    "mcp-sampling": ("mcp", {"sampling": {}}),
    "acp-form": ("acp", {"elicitation": {"form": {}}}),
    "acp-url": ("acp", {"elicitation": {"url": {}}}),
    "acp-permission": ("acp", {}),
}
# The page's own field for files is not there yet.
LATER = {(Surface.MCP_URL, Shape.FILE), (Surface.ACP_URL, Shape.FILE)}


def _cell(surface: Surface, version: str, shape: Shape) -> Iterator[Case]:
    cell = route(shape, Column(surface, version))
    protocol, capabilities = SPOKEN[surface.value]
    if version == "2025-06-18" and surface is Surface.MCP_FORM:
        capabilities = {"elicitation": {}}
    asked = ASKED[shape]
    how = f" ({cell.how})" if cell.how else ""
    ends = f"{cell.treatment.value}{how}"
    yield Case(
        path="/".join(filter(None, (surface.value, version, _file(shape)))),
        shows=f"{shape.value} on {surface.value} {version}".strip() + f": {ends}",
        proves={"surface": surface.value, "version": version, "shape": shape.value},
        protocol="modern" if version == "2026-07-28" else protocol,
        version=version or ("1" if protocol == "acp" else "2025-11-25"),
        capabilities=capabilities,
        steps=[{"ask": asked.request}],
        person=_person(asked),
        files=FILES.get(shape, {}),
        arguments=("--root", "{folder}") if shape in FILES else (),
    )


def _person(asked: Asked) -> Person:
    left = list(asked.buttons)

    def answer(method: str, params: Json) -> Any:
        if method == "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "Have a good journey!"}, "model": "a-model"}
        if method == "session/request_permission":
            shown = {option["name"].lstrip("☐☑ "): option["optionId"] for option in params["options"]}
            if len(shown) <= 2 and left and left[0] not in shown:  # a yes or no about one of the options
                about = params["toolCall"]["title"].rpartition("— ")[2].lstrip("☐☑ ")
                kind = "allow_once" if about.startswith(asked.buttons) else "reject_once"
                return {"outcome": {"outcome": "selected", "optionId": next(each["optionId"] for each in params["options"] if each["kind"] == kind)}}
            wanted = next((name for name in shown if name.startswith(left[0])), None)
            if wanted is not None:
                del left[0]
            return {"outcome": {"outcome": "selected", "optionId": shown[wanted or "More …"]}}
        if params.get("mode") == "url":
            return Filled({"action": "accept"}, params["url"], asked.page)
        properties = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": _fitting(asked, properties)}

    return answer


def _fitting(asked: Asked, properties: Json) -> Json:
    """What a person fills in: the content, or a yes for each option that is a field of its own."""
    content = {name: value for name, value in asked.form.items() if name in properties}
    if content:
        return content
    wanted = {each for value in asked.form.values() for each in (value if isinstance(value, list) else [value])}
    labels = {option["label"] for option in EXTRAS if option["value"] in wanted}
    return {name: part.get("title") in labels or name in wanted for name, part in properties.items()}


@dataclass(frozen=True)
class Filled:
    """What the host answers, and what the person does on the page then."""

    result: Json
    url: str
    values: tuple[Json, ...]


NAME = ASKED[Shape.TEXT].request
CONFIRM = ASKED[Shape.CONFIRM].request


def _outcomes(protocol: str, version: str) -> Iterator[Case]:
    """How a question can end without an answer."""
    acp = protocol == "acp"
    surface = "acp-permission" if acp else "mcp-form"
    capabilities: Json = {} if acp else {"elicitation": {} if version == "2025-06-18" else {"form": {}}}
    cancelled = {"outcome": {"outcome": "cancelled"}} if acp else {"action": "cancel"}

    def decline(method: str, params: Json) -> Any:
        if not acp:
            return {"action": "decline"}
        return {"outcome": {"outcome": "selected", "optionId": next(each["optionId"] for each in params["options"] if each["name"] == "Skip")}}

    def preferring(request: Json) -> Json:
        return {"method": "elicitation/preference", "params": {"prompt": "Which class?", "schema": request, "default": "second"}}

    few = ASKED[Shape.SELECT_FEW].request
    classes = {"enum": ["first", "second"]}
    made: list[tuple[str, str, Json, Person, str]] = [
        ("declined", "A declined question is no answer: the app is told that its user cancelled", [{"ask": few}], decline, ""),
        ("cancelled", "A dismissed question is no answer, and no 'no'", [{"ask": CONFIRM}], lambda method, params: cancelled, ""),
        ("timeout", "A question that nobody answers in time is taken down, and the app told", [{"ask": _timed(CONFIRM, 300)}], _never, ""),
        ("declined-preference", "A preference that nobody gives has the app's own default", [{"ask": preferring(classes)}], decline, ""),
        (
            "call-cancelled",
            "A host that gives up a call ends its question, and the app hears of it",
            [{"ask": CONFIRM}, {"wait": True}],
            _never,
            "question",
        ),
        ("two-at-once", "Two questions at the same time each get their own answer", [{"ask": [few, CONFIRM]}], _both(), ""),
        ("app-ends", "An app that ends while its question is open: the question is taken down, the call fails", [{"end": CONFIRM}], _never, ""),
    ]
    for name, shows, steps, person, cancel in made:
        if name == "app-ends" and protocol == "modern":
            continue  # nothing on the wire says when the bridge has heard of it
        yield Case(
            path="/".join(filter(None, (surface, "" if acp else version, "outcomes", f"{name}.jsonl"))),
            shows=f"{shows} ({surface} {'' if acp else version}".strip() + ")",
            proves={"surface": surface, "version": "" if acp else version, "outcome": name},
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=steps,
            person=person,
            cancel=cancel,
        )


def _timed(request: Json, milliseconds: int) -> Json:
    return {"method": request["method"], "params": {**request["params"], "timeout": milliseconds}}


def _never(method: str, params: Json) -> Any:
    return None


def _both() -> Person:
    few, confirm = _person(ASKED[Shape.SELECT_FEW]), _person(ASKED[Shape.CONFIRM])

    def answer(method: str, params: Json) -> Any:
        about = json.dumps(params)
        return (few if "Which class?" in about else confirm)(method, params)

    return answer


TELLS: dict[str, tuple[str, Json]] = {
    "progress": (
        "Progress rises on the call's own token",
        [{"tell": "notifications/progress", "params": {"progress": n, "total": 3, "status": f"step {n} of 3"}} for n in (1, 2, 3)],
    ),
    "capabilities-changed": ("One capability more: the host hears that there is another list", [{"grow": "report"}, {"ask": CONFIRM}]),
    "state-changed": (
        "A state of the app's is told, and summed up in the result",
        [{"tell": "notifications/state/changed", "params": {"field": "seats", "oldValue": 3, "newValue": 2}, "apart": True}],
    ),
    "operation": (
        "An operation begins and ends",
        [
            {"tell": "notifications/operation/started", "params": {"operationId": "sync", "capability": "sync"}, "apart": True},
            {"tell": "notifications/operation/completed", "params": {"operationId": "sync", "success": True}, "apart": True},
        ],
    ),
    "error": (
        "An error that the app tells, and that ends nothing",
        [{"tell": "notifications/error", "params": {"code": "RATE_LIMITED", "message": "Slow down."}, "apart": True}],
    ),
}


def _told(protocol: str, version: str) -> Iterator[Case]:
    acp = protocol == "acp"
    capabilities: Json = {"session": {"notices": {}}} if acp else {"elicitation": {}}
    for name, (shows, steps) in TELLS.items():
        yield Case(
            path=f"{'acp' if acp else f'mcp/{version}'}/{name}.jsonl",
            shows=f"{shows} ({'acp' if acp else f'mcp {version}'})",
            proves={"host": "acp" if acp else "mcp", "version": version, "tells": name},
            protocol=protocol,
            version=version,
            capabilities=capabilities,
            steps=steps,
            person=_person(ASKED[Shape.CONFIRM]),
        )


# Hosts as they show themselves on the wire: (what to call it, protocol, version, clientInfo, capabilities). Zed's is by its documentation.
_FORM_AND_URL: Json = {"form": {}, "url": {}}
_FILES: Json = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
HOSTS: tuple[tuple[str, str, str, Json, Json], ...] = (
    (
        "codex",
        "mcp",
        "2025-06-18",
        {"name": "codex-mcp-client", "title": "Codex", "version": "0.169.0"},
        {"experimental": {"codex/auth-change": {}}, "elicitation": _FORM_AND_URL},
    ),
    ("goose", "modern", "2026-07-28", {"name": "goose-cli", "version": "1.52.0"}, {"extensions": {}, "roots": {}, "sampling": {}, "elicitation": {}}),
    (
        "claude-code",
        "modern",
        "2026-07-28",
        {"name": "claude-code", "title": "Claude Code", "version": "2.1.316"},
        {"roots": {"listChanged": True}, "elicitation": _FORM_AND_URL},
    ),
    ("acpx", "acp", "1", {"name": "acpx", "version": "0.19.1"}, _FILES),
    ("zed", "acp", "1", {"name": "zed", "version": "1.0.0"}, _FILES),
)
_HOSTED = (Shape.NUMBER, Shape.CONFIRM_DESTRUCTIVE, Shape.SELECT_MANY, Shape.MULTI_SELECT, Shape.SECRET)


def _hosts() -> Iterator[Case]:
    """Real hosts: what becomes of a question there, and the answers of theirs that are no person's."""
    for name, protocol, version, client, capabilities in HOSTS:
        for shape in _HOSTED:
            yield _hosted(
                f"{name}/{_file(shape)}", f"{shape.value} in {name}", name, protocol, version, client, capabilities, _person(ASKED[shape]), shape
            )
    codex, acpx = HOSTS[0], HOSTS[3]
    empty: Json = {"action": "accept", "content": {}}
    yield _hosted(
        "codex/accepts-nothing.jsonl",
        "Codex's terminal accepts a form that it cannot show, with nothing in it: it is asked again, and then no answer is made up",
        *codex,
        lambda method, params: empty,
        Shape.NUMBER,
    )
    yield replace(
        _hosted(
            "codex/declines-by-itself.jsonl",
            "codex exec declines at once, without a person: the app is told who answered",
            *codex,
            lambda method, params: {"action": "decline"},
            Shape.CONFIRM,
        ),
        env={"ABP_PERSON_FLOOR": "60000"},
    )
    yield replace(
        _hosted(
            "acpx/approves-by-itself.jsonl",
            "acpx --approve-all allows at once: what cannot be undone is not confirmed by a policy",
            *acpx,
            _approve,
            Shape.CONFIRM_DESTRUCTIVE,
        ),
        env={"ABP_PERSON_FLOOR": "60000"},
    )


def _approve(method: str, params: Json) -> Any:
    """The first option that allows."""
    return {"outcome": {"outcome": "selected", "optionId": next(each["optionId"] for each in params["options"] if each["kind"] == "allow_once")}}


def _hosted(path: str, shows: str, name: str, protocol: str, version: str, client: Json, capabilities: Json, person: Person, shape: Shape) -> Case:
    return Case(
        path=f"hosts/{path}",
        shows=shows,
        proves={"host": f"{name} {client['version']}", "shape": shape.value},
        protocol=protocol,
        version=version,
        capabilities=capabilities,
        steps=[{"ask": ASKED[shape].request}],
        person=person,
        client=client,
    )


def _file(shape: Shape) -> str:
    return f"{shape.name.lower().replace('_', '-')}.jsonl"


# --- hosts ----------------------------------------------------------------------------------------------------------------------------------


class Bridge:
    """A recording bridge on its pipes, as its host sees it."""

    def __init__(self, case: Case, folder: str, trace: str) -> None:
        Path(folder, "steps.json").write_text(json.dumps(case.steps).replace("{folder}", folder))
        for name, text in case.files.items():
            Path(folder, name).write_text(text)
        arguments = [word.replace("{folder}", folder) for word in case.arguments]
        app = f"stdio:{shlex.join([sys.executable, str(APP), str(Path(folder, 'steps.json'))])}"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env = {**kept, "PYTHONPATH": str(ROOT), "ABP_PERSON_FLOOR": "0", **case.env}
        command = [sys.executable, "-m", "abp_bridge", "serve", "--app", app, "--record", trace, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=folder)
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
        """What came of the request `id`; what is asked meanwhile is answered as the case has it. None for a request that was given up."""
        while True:
            message = self.next()
            if message.get("id") == id and "method" not in message:
                return message
            if "method" in message and "id" in message:
                given = case.person(message["method"], message["params"])
                if isinstance(given, Filled):
                    self.send(id=message["id"], result=given.result)
                    fill_in(given.url, given.values, "send")
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
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def _legacy(bridge: Bridge, case: Case) -> None:
    bridge.answer_all(
        bridge.ask("initialize", {"protocolVersion": case.version, "capabilities": case.capabilities, "clientInfo": dict(case.client)}), case, _pass
    )
    bridge.send(method="notifications/initialized")
    call = bridge.ask("tools/call", {"name": "abp_call", "arguments": {"capability": "plan"}, "_meta": {"progressToken": "p1"}})

    def give_up() -> None:
        bridge.send(method="notifications/cancelled", params={"requestId": call, "reason": "the person pressed stop"})

    if bridge.answer_all(call, case, give_up) is None:
        time.sleep(TOLD)


def _modern(bridge: Bridge, case: Case) -> None:
    meta = {f"{META}protocolVersion": case.version, f"{META}clientCapabilities": case.capabilities, f"{META}logLevel": "info", "progressToken": "p1"}
    if case.client["name"] != "fixture":
        meta[f"{META}clientInfo"] = dict(case.client)
    params: Json = {"_meta": meta, "name": "abp_call", "arguments": {"capability": "plan"}}
    more: Json = {}
    while True:
        call = bridge.ask("tools/call", {**params, **more})
        message = bridge.answer_all(call, case, _pass)
        result = message.get("result", {})
        if result.get("resultType") != "input_required":
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
            bridge.send(method="notifications/cancelled", params={"requestId": call, "reason": "the person pressed stop"})
            time.sleep(TOLD)
            return
        if filled is not None:
            fill_in(filled.url, filled.values, "send")
        if not answers:  # nobody answers: the host comes back when it is too late
            time.sleep(TOLD)
            more.pop("inputResponses")


def _acp(bridge: Bridge, case: Case) -> None:
    bridge.answer_all(
        bridge.ask("initialize", {"protocolVersion": 1, "clientInfo": dict(case.client), "clientCapabilities": case.capabilities}), case, _pass
    )
    session = bridge.answer_all(bridge.ask("session/new", {"cwd": "/", "mcpServers": []}), case, _pass)["result"]["sessionId"]
    for words in ("/connect", "/plan"):
        prompt = bridge.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": words}]})
        bridge.answer_all(prompt, case, lambda: bridge.send(method="session/cancel", params={"sessionId": session}))


def _pass() -> None:
    """Nothing is given up."""


_HOSTS: dict[str, Callable[[Bridge, Case], None]] = {"mcp": _legacy, "modern": _modern, "acp": _acp}


# --- making -----------------------------------------------------------------------------------------------------------------------------------


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
        fixture = reduce(read(Path(trace).read_text())[-1], case.shows)
        head = replace(fixture.head, proves=(case.proves,), files=case.files, run=(*fixture.head.run, *case.arguments))
        return "".join(lines(replace(fixture, head=head)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(wanted: list[str]) -> int:
    made = 0
    for case in cases():
        if wanted and not any(word in case.path for word in wanted):
            continue
        path = FIXTURES / case.path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_text(make(case))
        except Exception as problem:
            print(f"{case.path}: {problem!r}")
            raise
        print(path.relative_to(ROOT))
        made += 1
    print(f"{made} fixtures")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
