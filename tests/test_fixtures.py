"""Fixtures prove the matrix: each cell, what is suggested and described, and what apps tell, has a conversation that shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import CITIES, FIXTURES, cases
from harness import PATIENCE, run
from hosts.recordings import RECORDINGS, Recorded

from abp_bridge.capabilities import WITHOUT
from abp_bridge.core.matrix import MATRIX, NOBODY, Column, Shape, Surface, Treatment, route
from abp_bridge.core.telling import HINTS, PROTOCOLS, TOLD, Event, Hint
from abp_bridge.record.trace import Recording, read

Json = Any


def test_every_fixture_passes() -> None:
    played = run("replay", str(FIXTURES), timeout=20 * PATIENCE)
    assert played.returncode == 0, played.stdout
    assert played.stdout.splitlines()[-1] == f"{len(list(FIXTURES.rglob('*.jsonl')))} passed, 0 failed"


def proofs(*members: str) -> dict[tuple[str, ...], tuple[Recording, int]]:
    """What the fixtures say they prove: a fixture, and which of its questions it is."""
    found: dict[tuple[str, ...], tuple[Recording, int]] = {}
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        (fixture,) = read(path.read_text())
        for place, proof in enumerate(fixture.head.proves):
            if all(member in proof for member in members):
                found.setdefault(tuple(proof[member] for member in members), (fixture, place))
    return found


CELLS = proofs("surface", "version", "shape")


@pytest.mark.parametrize(
    ("surface", "version", "shape"), [(surface, version, shape) for (surface, version), row in MATRIX.items() for shape in row], ids=str
)
def test_each_cell_has_a_fixture_that_shows_what_the_matrix_says(surface: Surface, version: str, shape: Shape) -> None:
    fixture, place = CELLS[surface.value, version, shape.value]
    cell, answer = route(shape, Column(surface, version)), answers(fixture)[place]
    if cell.treatment is Treatment.REFUSED:
        assert answer["error"]["code"] == "NOT_SUPPORTED"
        assert f"{surface.value}: {cell.how}" in answer["error"]["details"]["reason"]
    else:
        assert answer["success"]
        way = f"{surface.value} ({cell.how})" if cell.how else surface.value
        # Several fields also say how each of them goes.
        assert answer["metadata"]["route"].startswith(way.rstrip(")")) if shape is Shape.FIELDS else answer["metadata"]["route"] == way


@pytest.mark.parametrize("shape", Shape)
def test_a_host_without_elicitation_is_never_answered_for(shape: Shape) -> None:
    fixture, place = CELLS[WITHOUT, "", shape.value]
    answer = answers(fixture)[place]
    assert answer["error"]["code"] == "NOT_SUPPORTED"
    assert NOBODY in answer["error"]["details"]["reason"]


def answers(fixture: Recording) -> list[Json]:
    """What the app was told, question by question."""
    return [entry.value["result"] for entry in fixture.entries if entry.to == "app" and str(entry.value.get("id", "")).startswith("q")]


def heard(fixture: Recording) -> str:
    """All that the bridge said to the host and showed the person, and what they read."""
    said = [entry for entry in fixture.entries if entry.to in ("host", "person", "app") or entry.kind == "fill"]
    return "\n".join(f"{entry.to or entry.kind}: {json.dumps(entry.value, ensure_ascii=False)}" for entry in said)


DEFAULT, ABOUT = Hint.DEFAULT, Hint.DESCRIPTION
IN_A_FORM = {DEFAULT: '"default": "Ann"', ABOUT: '"description": "As it is printed there'}
ON_THE_PAGE = {
    DEFAULT: '"reads": ["As it is printed there", "Suggested by the app."], "fill": []',
    ABOUT: '"reads": ["Both have Wi-Fi"',
}
HINTED: dict[Surface, dict[Hint, str]] = {
    Surface.MCP_FORM: IN_A_FORM,
    Surface.ACP_FORM: IN_A_FORM,
    Surface.MCP_URL: ON_THE_PAGE,
    Surface.ACP_URL: ON_THE_PAGE,
    Surface.PAGE: ON_THE_PAGE,
    Surface.ACP_PERMISSION: {
        DEFAULT: '"options": [{"optionId": "[option 1]", "name": "Second (default)"',
        ABOUT: "Which class?\\n\\nBoth have Wi-Fi",
    },
    Surface.TERMINAL: {DEFAULT: '"Answer [Ann]:"', ABOUT: '"As it is printed there"'},
    Surface.QUESTIONS_API: {DEFAULT: '{"label": "Ann", "description": "(suggested by the app)"}', ABOUT: "on the card?\\n\\nAs it is printed there"},
    Surface.MOCK: {DEFAULT: '"route": "mock"', ABOUT: '"route": "mock"'},
    Surface.MODEL: {DEFAULT: '\\"default\\": \\"Ann\\"', ABOUT: '\\"description\\": \\"As it is printed there\\"'},
}
HINTS_FOUND = proofs("surface", "version", "hint")


@pytest.mark.parametrize(("surface", "version", "hint"), [(*column, hint) for column, row in HINTS.items() for hint in row], ids=str)
def test_each_hint_is_shown_as_the_matrix_says(surface: Surface, version: str, hint: Hint) -> None:
    fixture, _ = HINTS_FOUND[surface.value, version, hint.value]
    shown = "As it is printed there (default: Ann)" if (version, hint) == ("2025-06-18", DEFAULT) else HINTED[surface][hint]
    assert shown in heard(fixture)


def test_the_hints_of_every_surface_of_a_person_are_in_the_matrix() -> None:
    assert set(HINTS) == {column for column in MATRIX if column[0] is not Surface.MCP_SAMPLING}


LEGACY_TOLD = {
    Event.PROGRESS: '"method": "notifications/progress", "params": {"progressToken": "p1", "progress": 2',
    Event.CAPABILITIES: '"method": "notifications/tools/list_changed"',
    Event.STATE: '"method": "notifications/resources/list_changed"',
    Event.OPERATION: '"data": {"event": "notifications/operation/started"',
    Event.ERROR: '"level": "error", "logger": "stdio:app"',
    Event.DECLINED: '"code": "USER_CANCELLED"',
    Event.CANCELLED: '"code": "USER_CANCELLED"',
    Event.TIMEOUT: '"method": "notifications/cancelled"',
    Event.PREFERENCE: '"answeredBy": "default"',
    Event.HOST_CANCELS: '"method": "capabilities/cancel"',
    Event.APP_ENDS: '"method": "notifications/cancelled"',
    Event.TOGETHER: '"id": "q2", "result": {"success": true',
}
ACP_TOLD = LEGACY_TOLD | {
    Event.PROGRESS: '"_meta": {"toolNotification": {"type": "progress"',
    Event.CAPABILITIES: '"name": "report"',
    Event.STATE: '"sessionUpdate": "notice", "severity": "info", "title": "seats is now 2"',
    Event.OPERATION: '"sessionUpdate": "tool_call", "toolCallId": "[tool 2]", "title": "sync"',
    Event.ERROR: '"sessionUpdate": "notice", "severity": "error"',
    Event.TIMEOUT: '"method": "$/cancel_request"',
    Event.APP_ENDS: '"method": "$/cancel_request"',
}
MODERN_TOLD = LEGACY_TOLD | {
    Event.CAPABILITIES: '"method": "notifications/tools/list_changed", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "changes"',
    Event.TIMEOUT: '"code": "TIMEOUT"',
    Event.APP_ENDS: "DISCONNECTED: The app is gone",
    Event.TOGETHER: '"inputRequests": {"q1": {"method": "elicitation/create"',
}
SHOWN = {"MCP 2025-06-18": LEGACY_TOLD, "MCP 2025-11-25": LEGACY_TOLD, "MCP 2026-07-28": MODERN_TOLD, "ACP 1": ACP_TOLD}
EVENTS_FOUND = proofs("protocol", "event")


@pytest.mark.parametrize(("protocol", "event"), [(protocol, event) for protocol in PROTOCOLS for event in Event], ids=str)
def test_each_event_reaches_its_hosts_as_the_matrix_says(protocol: str, event: Event) -> None:
    assert TOLD[protocol][event].asks
    fixture, _ = EVENTS_FOUND[protocol, event.value]
    assert SHOWN[protocol][event] in heard(fixture)


def test_a_preference_has_the_apps_own_default_where_nobody_can_be_asked() -> None:
    fixture, _ = EVENTS_FOUND[WITHOUT, Event.PREFERENCE.value]
    last = answers(fixture)[-1]
    assert (last["data"], last["metadata"]["answeredBy"]) == ({"value": "second"}, "default")


def test_each_fixture_has_the_conversation_that_makes_it() -> None:
    made = {FIXTURES / case.path for case in cases()} | {recorded.path for recorded in RECORDINGS}
    assert set(FIXTURES.rglob("*.jsonl")) == made


@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda recorded: recorded.name)
def test_what_a_real_host_did_names_the_host_as_it_is_recorded_today(recorded: Recorded) -> None:
    """Whoever pins another version records again: `make hosts ARGS=--record`."""
    (fixture,) = read(recorded.path.read_text())
    assert fixture.head.shows == recorded.shows
    assert {proof["host"] for proof in fixture.head.proves} == {recorded.proof}


# host -> (how it is asked about twelve cities, in how many steps until Lisbon is chosen)
TWELVE = {
    "codex": ("elicitation/create", 1),
    "zed": ("elicitation/create", 1),
    "zed-before-forms": ("session/request_permission", 4),
    "goose-legacy": ("elicitation/create", 1),
    "claude-code-legacy": ("elicitation/create", 1),
    "acpx": ("session/request_permission", 11),
}


@pytest.mark.parametrize("host", TWELVE)
def test_twelve_options_are_all_there_in_every_host(host: str) -> None:
    method, steps = TWELVE[host]
    (fixture,) = read((FIXTURES / "hosts" / host / "select-many.jsonl").read_text())
    asked = [entry.value for entry in fixture.entries if entry.to == "host" and entry.value.get("method") == method]
    assert len(asked) == steps
    assert all(city in json.dumps(asked[0], ensure_ascii=False) for city in CITIES)
    assert any(entry.value.get("result", {}).get("data") == {"selected": "Lisbon"} for entry in fixture.entries if entry.to == "app")


def test_the_matrix_in_the_docs_is_the_one_that_is_routed_by() -> None:
    printed = run("matrix", "--format", "markdown", "--fixture", cwd=FIXTURES.parent)
    assert printed.stdout == (FIXTURES.parent / "docs" / "capabilities.md").read_text(), "make docs"


def test_the_matrix_is_printed_for_a_host_and_for_programs() -> None:
    assert "options are asked one by one" in run("matrix", "--host", "acpx").stdout
    cells = json.loads(run("matrix", "--format", "json", "--host", "codex-mcp-client").stdout)["questions"]
    assert {cell["how"] for cell in cells if (cell["surface"], cell["shape"]) == ("mcp-form", "number")} == {"as text"}
    unknown = run("matrix", "--host", "nobody")
    assert (unknown.returncode, "no profile is known of 'nobody'" in unknown.stderr) == (2, True)
