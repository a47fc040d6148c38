"""Record what real hosts say into `fixtures/hosts/recorded/` (`make hosts ARGS=--record`).

Each is a short conversation with a scripted app, reduced and replayed at once. A fixture that says
the same as before is not written, so that `git diff` shows what has changed.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fixture_maker.cases import ASKED, PREFERENCE
from support.browser import type_on_the_page
from support.harness import run as run_bridge
from support.paths import FIXTURES, ROOT
from support.terminal import Pane

from abp_bridge.conformance.fixture import reduce
from abp_bridge.conformance.format import HOST, Entry, Recording, lines, parse_recordings
from abp_bridge.core.json_value import walk
from abp_bridge.core.matrix import QuestionShape

from . import hosts
from .hosts import COLOUR, DENIED, LEGACY, AppServer, Editor, Host, Runtime, accept, calling
from .stage import BRIDGE_ENV, Stage, await_that
from .terminals import PLAN, codex_tui, goose_session, terminal, type_steps

Json = Any

OWN = calling("AskUserQuestion", questions=[COLOUR])
KEY = "planted-key-91c2"
Play = Callable[[Stage], object]


# --- hosts that the checks do not have ------------------------------------------------------------


def acpx_at_a_terminal(stage: Stage) -> None:
    command = hosts.acpx_command(stage, [], "/plan", "--format", "quiet", "--approve-reads")
    with terminal(stage, stage.environment(**BRIDGE_ENV), *command) as pane:
        for city, answer in (("Amsterdam", "n"), ("Berlin", "n"), ("Copenhagen", "y")):
            type_steps(pane, f"{city}? / (y/N) [{answer} Enter]")
        pane.until("answered")


def goose_as_client(stage: Stage) -> None:
    """Goose starts an agent instead of a model: the bridge before Claude, without an app."""
    agent = stage.before(hosts.installed("claude"), app="")
    names = stage.home / "bin"
    names.mkdir()
    for name in ("claude-agent-acp", "claude-acp"):
        (names / name).write_text(f"#!/bin/sh\nexec {shlex.join(agent)}\n")
        (names / name).chmod(0o700)
    path = {"PATH": f"{names}:{os.environ['PATH']}"}
    env = hosts.claude_home(stage) | BRIDGE_ENV | hosts.goose_home(stage) | path
    options = ["--no-session", "--no-profile", "--provider", "claude-acp", "--model", "default"]
    hosts.run(stage, [stage.program, "run", *options, "--text", OWN], env)


def permission_denied(stage: Stage) -> None:
    agent, env = hosts.before_goose(stage, mode="approve")
    hosts.acpx_exec(stage, "--deny-all", PLAN, agent, env, DENIED)


def codex_acp(stage: Stage) -> None:
    """Codex asks before it calls a tool, and relays questions of its own server."""
    command, env = stage.before(stage.program, app=""), hosts.codex_home(stage) | BRIDGE_ENV
    with Editor(stage, command, env, stage.bridge(records=False), "trip") as codex:
        codex.result("session/set_mode", {"sessionId": codex.session, "modeId": "read-only"})
        nothing = calling("nothing")  # it does not wait for its servers: this gives them time
        codex.play(f"{nothing}\n{nothing}\n{PLAN}", accept(confirmed=True))


# --- conversations --------------------------------------------------------------------------------


def answering(opened: Host, *answers: Json) -> None:
    """A turn in which the user answers in order."""
    with opened as host:
        host.play(PLAN, *answers)


def on_the_page(opened: Host, *, first: bool = False) -> None:
    """A turn in which the user types a secret on the page. A link is accepted `first`."""
    with opened as host:
        host.begin_turn(PLAN)
        question = host.question()
        if first:
            question.answer({"action": "accept"})
        type_on_the_page(question.params.get("url") or question.params["message"], KEY)
        if not first:
            question.answer(accept())
        assert host.finish() in ("completed", "end_turn")


def given_up(opened: Host) -> None:
    """A turn that is cancelled while a question is open."""
    with opened as host:
        host.begin_turn(PLAN)
        host.question()
        host.cancel()
        assert host.finish() in ("interrupted", "cancelled")
        await_that(
            lambda: any(
                record.wire.received("notifications/cancelled") for record in host.stage.records()
            ),
            "the host did not cancel its call",
        )


def typing(opened: AbstractContextManager[Pane], steps: str) -> None:
    with opened as pane:
        type_steps(pane, steps)


def acpx_answering(
    stage: Stage,
    script: str,
    behind: Callable[[Stage], tuple[list[str], dict[str, str]]] | None,
    answer: Json,
) -> None:
    """A turn in acpx's library, which shows forms, with the bridge as or before the agent."""
    alone = stage.bridge(kind="acp"), stage.environment(**BRIDGE_ENV)
    agent, env = alone if behind is None else behind(stage)
    with Runtime(stage, agent, env, forms=True) as host:
        host.play(script, answer)


def _ask(*shapes: QuestionShape) -> Json:
    return [{"ask": ASKED[shape].request} for shape in shapes]


CITY, SEATS, EXTRAS, BOOK, DELETE, PASSWORD, SEAT = map(
    _ask,
    (
        QuestionShape.SELECT_MANY,
        QuestionShape.RANGE,
        QuestionShape.MULTI_SELECT,
        QuestionShape.CONFIRM,
        QuestionShape.CONFIRM_DESTRUCTIVE,
        QuestionShape.SECRET,
        QuestionShape.FIELDS,
    ),
)
BOTH = [{"ask": [ASKED[QuestionShape.SELECT_FEW].request, ASKED[QuestionShape.CONFIRM].request]}]
CLASS = [{"ask": PREFERENCE}]
WAITS = [*BOOK, {"wait": True}]


@dataclass(frozen=True)
class Recorded:
    """A fixture: the host, who was recorded, the steps of the app, and how it is played."""

    name: str
    heard: str
    steps: Json
    play: Play
    takes_time: bool = False

    @property
    def host(self) -> str:
        return self.heard.partition("{")[2].partition("}")[0]

    @property
    def path(self) -> Path:
        return FIXTURES / "hosts" / "recorded" / f"{self.name}.jsonl"

    @property
    def shows(self) -> str:
        """What the fixture says that it shows; write it there after a first recording."""
        if not self.path.exists():
            return self.name
        (recording,) = parse_recordings(self.path.read_text())
        return recording.head.shows

    @property
    def proof(self) -> str:
        return self.heard.format(
            **{name: package.version for name, package in hosts.PACKAGES.items()}
        )


EXEC, SERVER, TUI = ("codex {codex} " + mode for mode in ("exec", "app-server", "TUI"))
GOOSE, GOOSE_LEGACY, SESSION = (
    "goose {goose} " + mode for mode in ("acp", "acp, without the modern era", "session")
)
# A person of these tests does not read: by an editor without a profile, nobody could tell.
UNMEASURED: Json = {"ABP_PERSON_FLOOR": "0"}
ANY_TIME = {"ABP_PERSON_FLOOR": "0.001"}  # milliseconds: any host is slower
CLAUDE, CLAUDE_LEGACY = (
    "claude-agent-acp {claude}" + mode for mode in ("", ", without the modern era")
)
PRINT = "claude -p, of claude-agent-acp {claude}"
APPROVE, DENY, ASK, RUNTIME = (
    "acpx {acpx} " + mode for mode in ("--approve-all", "--deny-all", "in a terminal", "runtime")
)
BEFORE_CLAUDE, BEFORE_GOOSE = (", before " + agent for agent in (CLAUDE, "goose {goose}"))

RECORDINGS: tuple[Recorded, ...] = (
    Recorded(
        "codex-exec/declines-by-itself",
        EXEC,
        [*BOOK, *CLASS],
        lambda stage: hosts.codex_exec(stage, PLAN),
    ),
    Recorded(
        "codex-app-server/asked-again",
        SERVER,
        SEATS,
        lambda stage: answering(AppServer(stage), accept(value="seven"), accept(value="2")),
    ),
    Recorded(
        "codex-app-server/secret",
        SERVER,
        PASSWORD,
        lambda stage: on_the_page(AppServer(stage, ABP_PAGE="link")),
    ),
    Recorded(
        "codex-app-server/interrupted", SERVER, WAITS, lambda stage: given_up(AppServer(stage))
    ),
    Recorded(
        "codex-tui/select-many",
        TUI,
        CITY,
        lambda stage: typing(
            codex_tui(stage, **UNMEASURED),
            "12. Madrid [Down Down Down Down Down Down Down Down Down Down Enter]",
        ),
    ),
    Recorded(
        "codex-tui/multi-select",
        TUI,
        EXTRAS,
        lambda stage: typing(
            codex_tui(stage, **UNMEASURED), "Field 1/3 [1] / Field 2/3 [2] / Field 3/3 [1]"
        ),
    ),
    Recorded(
        "codex-tui/dismissed",
        TUI,
        BOOK,
        lambda stage: typing(codex_tui(stage, **UNMEASURED), "Book it? [Escape]"),
    ),
    Recorded(
        "goose-acp/two-at-once",
        GOOSE,
        BOTH,
        lambda stage: answering(
            hosts.goose(stage, **UNMEASURED), accept(selected="second"), accept(confirmed=True)
        ),
    ),
    Recorded(
        "goose-acp-legacy/confirm",
        GOOSE_LEGACY,
        BOOK,
        lambda stage: answering(hosts.goose(stage, **LEGACY, **UNMEASURED), accept(confirmed=True)),
    ),
    Recorded(
        "goose-acp-legacy/call-cancelled",
        GOOSE_LEGACY,
        WAITS,
        lambda stage: given_up(hosts.goose(stage, **LEGACY)),
    ),
    Recorded(
        "goose-session/select-many",
        SESSION,
        CITY,
        lambda stage: typing(
            goose_session(stage, **UNMEASURED),
            "Madrid [Down Down Down Down Down Down Down Down Down Down Enter]",
        ),
    ),
    Recorded(
        "goose-session/multi-select",
        SESSION,
        EXTRAS,
        lambda stage: typing(
            goose_session(stage, **UNMEASURED), "selected_1 [y] / selected_2 [n] / selected_3 [y]"
        ),
    ),
    Recorded(
        "goose-session/left-empty",
        SESSION,
        SEATS,
        lambda stage: typing(goose_session(stage, **UNMEASURED), "value ( [Enter]"),
    ),
    Recorded(
        "goose-acp-client/own-question",
        "goose {goose} as ACP client" + BEFORE_CLAUDE,
        [],
        goose_as_client,
    ),
    Recorded(
        "claude-acp/fields",
        CLAUDE,
        SEAT,
        lambda stage: answering(hosts.claude(stage), accept(car=3, side="aisle")),
    ),
    Recorded(
        "claude-acp/secret",
        CLAUDE,
        PASSWORD,
        lambda stage: on_the_page(hosts.claude(stage), first=True),
    ),
    Recorded(
        "claude-acp-legacy/confirm",
        CLAUDE_LEGACY,
        BOOK,
        lambda stage: answering(hosts.claude(stage, **LEGACY), accept(confirmed=True)),
    ),
    Recorded(
        "claude-acp-legacy/call-cancelled",
        CLAUDE_LEGACY,
        WAITS,
        lambda stage: given_up(hosts.claude(stage, **LEGACY)),
    ),
    Recorded(
        "claude-print/cancels-by-itself",
        PRINT,
        [*BOOK, *CLASS],
        lambda stage: hosts.claude_print(stage, PLAN),
    ),
    Recorded(
        "copilot-print/declines-by-itself",
        "copilot {copilot} -p",
        [*BOOK, *CLASS],
        lambda stage: hosts.copilot_print(stage, PLAN),
    ),
    Recorded(
        "fast-agent/dismisses-by-itself",
        "fast-agent {fastagent} go --message",
        [*BOOK, *CLASS],
        lambda stage: hosts.fast_agent_message(stage, PLAN, **ANY_TIME),
        takes_time=True,
    ),
    Recorded(
        "acpx/approve-all",
        APPROVE,
        CITY,
        lambda stage: hosts.acpx_exec(stage, "--approve-all", "/plan"),
    ),
    Recorded(
        "acpx/deny-all",
        DENY,
        _ask(QuestionShape.SELECT_FEW),
        lambda stage: hosts.acpx_exec(stage, "--deny-all", "/plan", code=DENIED),
    ),
    Recorded("acpx/terminal", ASK, CITY, acpx_at_a_terminal),
    Recorded(
        "acpx-runtime/select-many",
        RUNTIME,
        CITY,
        lambda stage: acpx_answering(stage, "/plan", None, accept(selected="Lisbon")),
    ),
    Recorded(
        "claude-behind/form",
        RUNTIME + BEFORE_CLAUDE,
        [],
        lambda stage: acpx_answering(stage, OWN, hosts.before_claude, accept(question_0="Blue")),
    ),
    Recorded(
        "claude-behind/approved",
        APPROVE + BEFORE_CLAUDE,
        [],
        lambda stage: hosts.acpx_exec(stage, "--approve-all", OWN, *hosts.before_claude(stage)),
    ),
    Recorded(
        "claude-behind/app-in-a-form",
        RUNTIME + BEFORE_CLAUDE,
        CITY,
        lambda stage: acpx_answering(stage, PLAN, hosts.before_claude, accept(selected="Lisbon")),
    ),
    Recorded(
        "claude-behind/app-approved",
        APPROVE + BEFORE_CLAUDE,
        DELETE,
        lambda stage: hosts.acpx_exec(stage, "--approve-all", PLAN, *hosts.before_claude(stage)),
    ),
    Recorded("goose-behind/permission", DENY + BEFORE_GOOSE, [], permission_denied),
    Recorded(
        "codex-behind/permission-and-form",
        "codex-acp {codexacp}, behind the proxy",
        BOOK,
        codex_acp,
    ),
)


# --- making ---------------------------------------------------------------------------------------


@pytest.fixture
def host(recording: Recorded) -> str:
    return recording.host


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_recording_of_a_real_host_plays_again(recording: Recorded, stage: Stage) -> None:
    stage.script(recording.steps)
    recording.play(stage)
    stage.referee()
    text = _fixture(recording, stage.traces())
    _holds_nothing_of_this_machine(text, stage)
    recording.path.parent.mkdir(parents=True, exist_ok=True)
    if not recording.path.exists() or _said(recording.path.read_text()) != _said(text):
        recording.path.write_text(text)
    again = run_bridge("replay", str(recording.path))
    assert again.returncode == 0, again.stdout


def _fixture(recorded: Recorded, recordings: Sequence[Recording]) -> str:
    recording = max(recordings, key=lambda each: len(each.entries))
    fixture = reduce(recording, recorded.shows)
    if recorded.takes_time:
        fixture = replace(fixture, entries=tuple(_taking_time(fixture.entries)))
    shapes = dict.fromkeys(
        each.value["shape"]
        for each in recording.entries
        if each.kind == "event" and each.value["event"] == "InputRequestEvent"
    )
    proves = tuple({"host": recorded.proof, "shape": shape} for shape in shapes) or (
        {"host": recorded.proof},
    )
    return "".join(lines(replace(fixture, head=replace(fixture.head, proves=proves))))


# Members under which hosts and agents put names of their own, which are others in each run.
_NAMES = ("id", "requestId", "progressToken", "sessionId", "toolCallId", "messageId")
_TIMES = re.compile(r"\b[\d.]+ m?s\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b")


def _said(text: str) -> Json:
    """What a fixture says: its head, and the messages of each side to each other, in order.

    Ids, times, and the order of sides that do not wait for each other are left out.
    """
    (fixture,) = parse_recordings(text)
    counts: defaultdict[str, int] = defaultdict(int)
    names: dict[tuple[str, Json], str] = {}
    for entry in sorted((each for each in fixture.entries if not each.ours), key=_way):
        for member, name in _names(entry.value):
            if (member, name) not in names:
                counts[member] += 1
                names[member, name] = f"{member} {counts[member]}"
    ways: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
    for entry in fixture.entries:
        ways[_way(entry)].append((entry.kind, _renamed(entry.value, names)))
    return fixture.head, dict(ways)


def _way(entry: Entry) -> tuple[str, str]:
    return entry.sender, entry.to


def _names(value: Json) -> Iterator[tuple[str, Json]]:
    for each in walk(value):
        if isinstance(each, Mapping):
            yield from (
                (name, each[name]) for name in _NAMES if isinstance(each.get(name), str | int)
            )


def _renamed(value: Json, names: Mapping[tuple[str, Json], str]) -> Json:
    if isinstance(value, Mapping):
        return {
            member: names[member, each]
            if member in _NAMES and isinstance(each, str | int) and (member, each) in names
            else _renamed(each, names)
            for member, each in value.items()
            if member != "created"
        }
    if isinstance(value, list):
        items = [_renamed(each, names) for each in value]
        are_named = all(isinstance(each, dict) and "name" in each for each in items)
        return sorted(items, key=str) if are_named else items  # Goose's own have no order
    return _TIMES.sub("...", value) if isinstance(value, str) else value


def _taking_time(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Have the host look again before each answer, so that the bridge waits for it."""
    look, seen = entries[:2]
    for at, entry in enumerate(entries):
        if entry.sender == HOST and "inputResponses" in entry.value.get("params", {}):
            yield from (
                replace(each, value={**each.value, "id": f"look-{at}"}) for each in (look, seen)
            )
        yield entry


def _holds_nothing_of_this_machine(text: str, stage: Stage) -> None:
    places = (tempfile.gettempdir(), Path.home(), ROOT, sys.prefix, stage.folder, stage.temporary)
    for word in (*map(str, places), socket.gethostname(), KEY):
        assert not re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text), (
            f"the fixture holds {word!r}"
        )
