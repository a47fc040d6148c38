"""`abp-bridge check`: each rule by an app that breaks it, and the command."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.harness import run
from support.pages.server import web
from support.paths import APPS

from abp_bridge.cli.check_rules import (
    RULES,
    Facts,
    Kind,
    Status,
    Step,
    check_all,
    find_schema_problems,
)
from abp_bridge.core.capability import Capability
from abp_bridge.core.question import MISSING

Json = Any

APP: Json = {"id": "t", "name": "T", "version": "1"}
LISTED: Json = [{"name": "a", "description": "A", "inputSchema": {"type": "object"}}]
FAILED: Json = {
    "success": False,
    "error": {"code": "UNKNOWN_CAPABILITY", "message": "m", "retryable": False},
}
FEATURES: Json = dict.fromkeys(
    ("notifications", "progress", "elicitation", "dynamicCapabilities"), True
)
OPENED: Json = {
    "sessionId": "s",
    "protocolVersion": "0.1",
    "app": APP,
    "capabilities": LISTED,
    "features": FEATURES,
}
CONFIRM: Json = {"method": "elicitation/confirm", "params": {"message": "Sure?"}}


FORM: Json = {
    "name": "book",
    "description": "Books",
    "attributes": ["toolname", "tooldescription", "action"],
    "fields": [{"name": "day", "words": "Day", "asked": True, "attributes": ["name"]}],
}
TOOL: Json = {"name": "read", "problem": "", "members": ["name"], "annotations": ["readOnlyHint"]}


def written(tool: Json = TOOL, *forms: Json) -> Json:
    return {"tools": [tool], "forms": [*forms, {"attributes": ["id"], "fields": []}]}


def whole() -> Facts:
    """An app that keeps every rule."""
    return Facts(
        Kind.PAGE,
        manifest={"abp": "0.1", "app": APP, "capabilities": [{"name": "a"}]},
        initialize=OPENED,
        listed=LISTED,
        unknown=FAILED,
        called={"success": True, "data": 1},
        shutdown=None,
        asked=[CONFIRM],
        capabilities=[Capability("a", "A", {"type": "object"})],
        written=written(TOOL, FORM),
    )


def test_app_that_keeps_every_rule_passes() -> None:
    assert {each.status for each in check_all(whole()) if Kind.PAGE in each.rule.kinds} == {
        Status.PASSED
    }


BARE: Json = {"id": "t", "name": "T"}
TWICE: Json = [{"name": "a"}, {"name": "a"}]
BROKEN: dict[str, tuple[dict[str, Json], Status, str]] = {
    "address": ({"step": Step.REACHED, "problem": "refused"}, Status.FAILED, "refused"),
    "manifest link": ({"step": Step.LINK, "problem": "No <link>"}, Status.FAILED, "No <link>"),
    "manifest": ({"step": Step.MANIFEST, "problem": "HTTP 404"}, Status.FAILED, "HTTP 404"),
    "manifest's content": ({"step": Step.CONTENT, "problem": "comma"}, Status.FAILED, "comma"),
    "manifest fields": ({"manifest": {"app": BARE}}, Status.FAILED, "app.version"),
    "browser": ({"step": Step.BROWSER, "problem": "no sandbox"}, Status.FAILED, "no sandbox"),
    "session": ({"step": Step.SESSION, "problem": "it refused"}, Status.FAILED, "it refused"),
    "program": (
        {"kind": Kind.PIPE, "step": Step.SESSION, "problem": "it ended"},
        Status.FAILED,
        "it ended",
    ),
    "initialize": ({"initialize": {**OPENED, "app": {"id": "t"}}}, Status.FAILED, "app.name"),
    "version": ({"initialize": {**OPENED, "protocolVersion": 7}}, Status.WARNING, "is 7"),
    "features": ({"initialize": {**OPENED, "features": {}}}, Status.WARNING, "features.progress"),
    "capabilities": ({"listed": TWICE}, Status.WARNING, "a is listed twice"),
    "manifest's capabilities": ({"listed": [{"name": "b"}]}, Status.WARNING, "names a, which"),
    "descriptions": ({"capabilities": [Capability("a")]}, Status.WARNING, "a has none"),
    "schemas": (
        {"capabilities": [Capability("a", "A", {"type": "text"})]},
        Status.FAILED,
        "a: inputSchema.type is text",
    ),
    "responses": ({"unknown": None}, Status.FAILED, "has no success that is true or false"),
    "unknown capability": ({"unknown": {"success": True}}, Status.WARNING, "it answered"),
    "call": ({"called": {"success": False, "error": {}}}, Status.FAILED, "error.code is missing"),
    "questions": ({"asked": [{"method": "ask/me"}]}, Status.FAILED, "ask/me"),
    "members": (
        {"asked": [{"method": "elicitation/select", "params": {"message": "?", "optoins": []}}]},
        Status.WARNING,
        "elicitation/select: the params have 'optoins', which is nothing; 'options' is",
    ),
    "error codes": (
        {"called": {"success": False, "error": {"code": "no paper"}}},
        Status.WARNING,
        "'no paper' is none",
    ),
    "shutdown": ({"thrown": {"shutdown"}}, Status.FAILED, "it threw"),
    "console": ({"console": ["x is not a function"]}, Status.WARNING, "x is not a function"),
    "tools": ({"written": written(TOOL, FORM, FORM)}, Status.FAILED, "book: 2 forms have this"),
    "tool fields": (
        {"written": written(TOOL, {**FORM, "fields": [{"words": "Day", "asked": True}]})},
        Status.WARNING,
        "book: 'Day' has no name",
    ),
    "tool words": (
        {"written": written({**TOOL, "annotations": ["readOnly"]})},
        Status.WARNING,
        "read has the annotation 'readOnly', which is nothing; 'readOnlyHint' is",
    ),
}  # fmt: skip


def test_every_rule_is_broken_below() -> None:
    assert list(BROKEN) == [rule.name for rule in RULES]


def judged(name: str, **changed: Json) -> tuple[Status, tuple[str, ...]]:
    (found,) = [each for each in check_all(replace(whole(), **changed)) if each.rule.name == name]
    return found.status, found.problems


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rule_is_reported_with_its_problem(name: str) -> None:
    changed, expected, words = BROKEN[name]
    status, problems = judged(name, **changed)
    assert status is expected
    assert any(words in each for each in problems), problems


@pytest.mark.parametrize(("call", "name"), [("unknown", "responses"), ("called", "call")])
def test_call_without_an_answer_breaks_its_rule(call: str, name: str) -> None:
    found = judged(name, **{call: MISSING, "unanswered": {call: 2.0}})
    assert found == (Status.FAILED, ("it did not answer within 2 s",))


@pytest.mark.parametrize("schema", [[1], "string", True, ""])
@pytest.mark.parametrize("member", ["listed", "initialize"])
def test_schema_that_is_no_object_is_reported(schema: Json, member: str) -> None:
    came: Json = {"capabilities": [{"name": "a", "inputSchema": schema}]}
    shown = schema if isinstance(schema, str) else json.dumps(schema)
    problem = f"a: inputSchema is {shown}, and no object"
    assert judged("schemas", **{member: came}) == (Status.FAILED, (problem,))


def test_manifest_may_name_its_capabilities_by_texts() -> None:
    known = {"capabilities": ["a"]}
    assert judged("manifest's capabilities", manifest=known) == (Status.PASSED, ())
    problems = (
        "the manifest names b, which the page does not list",
        "capability 2 of the manifest has no name",
    )
    unknown = {"capabilities": ["b", 5]}
    assert judged("manifest's capabilities", manifest=unknown) == (Status.WARNING, problems)


def test_rules_that_cannot_be_checked_are_not() -> None:
    found = check_all(Facts(Kind.PAGE, step=Step.REACHED, problem="it is not there"))
    told = {each.rule.name: each.status for each in found}
    assert told.pop("address") is Status.FAILED
    assert set(told.values()) == {Status.NOT_CHECKED}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": {"required": "b"}}}, "inputSchema.properties.a.required is no list"),
        ({"properties": [1]}, "inputSchema.properties is no object"),
        ({"properties": {"a": 1}}, "inputSchema.properties.a is no schema"),
        ({"properties": {"a": {"enum": "x"}}}, "inputSchema.properties.a.enum is no list"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"type": "string"}, "is of type string, and not of object"),
    ],
)
def test_invalid_schema_is_named_by_its_place(schema: Json, words: str) -> None:
    assert any(words in each for each in find_schema_problems(schema))


def check(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run("check", *arguments, env=env)


def statuses(ended: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The status of each rule, by `--json`."""
    return {each["name"]: each["status"] for each in json.loads(ended.stdout)["checks"]}


@pytest.fixture(scope="module")
def web_site() -> Iterator[str]:
    with web() as site:
        yield site.here


SILENT = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("params", {}).get("capability") == "a":
        continue
    result = {"sessionId": "s", "capabilities": [{"name": "a"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def started(folder: Path, code: str, *words: str) -> str:
    """An app that runs this code."""
    (folder / "app.py").write_text(code)
    return f"stdio:{shlex.join([sys.executable, str(folder / 'app.py'), *words])}"


@pytest.mark.process
def test_check_tells_how_to_fix_a_broken_rule(tmp_path: Path) -> None:
    app = started(tmp_path, SILENT)
    ended = check(app, "--call", "a", "--json", ABP_CALL_TIMEOUT="0.3s")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    broken = {each["name"]: each for each in told["checks"] if each["status"] == "failed"}
    assert set(broken) == {"initialize", "responses", "call"}
    assert broken["call"]["problems"] == ["it did not answer within 0.3 s"]
    assert broken["initialize"]["problems"][0] == "app.id is missing, or no text"
    assert "Return {sessionId, protocolVersion" in broken["initialize"]["cure"]
    assert not told["passed"]


ANSWERS = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **json.loads(sys.argv[1])}), flush=True)
"""


REFUSED = {"code": "X", "message": "closed on Sundays"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ({"result": {"success": True}}, {"program", "initialize"}),
        ({"error": {"code": -32000, "message": "closed on Sundays"}}, {"program"}),
        ({"result": {"success": False, "error": REFUSED}}, {"program"}),
    ],
    ids=["it says yes and nothing else", "it throws", "it refuses"],
)
def test_check_says_why_a_program_cannot_be_opened(
    answer: Json, failed: set[str], tmp_path: Path
) -> None:
    ended = check(started(tmp_path, ANSWERS, json.dumps(answer)), "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    found = statuses(ended)
    assert {name for name, status in found.items() if status == "failed"} == failed
    if "initialize" not in failed:
        assert "closed on Sundays" in ended.stdout
        assert "warning" not in found.values()


@pytest.mark.process
def test_check_judges_an_mcp_server_by_its_call(tmp_path: Path) -> None:
    files = [str(tmp_path / "read"), str(tmp_path / "done")]
    server = f"mcp:{shlex.join([sys.executable, str(APPS / 'mcp_server.py'), *files])}"
    found = statuses(check(server, "--call", "look", "--json"))
    assert (found["call"], found["responses"]) == ("passed", "not checked")


def test_check_reports_what_a_call_threw() -> None:
    thrown: Json = {
        "called": {"message": "no y"},
        "thrown": {"called"},
        "failures": {"called": "TypeError: no y (at /app.js:3:1)"},
    }
    _, problems = judged("call", **thrown)
    assert problems[0].startswith("it threw TypeError: no y (at /app.js:3:1), where ABP has")


# Asks, and forgets the success once it is answered.
ASKING = """\
import json, sys
listed = [{"name": "greet", "description": "Greet", "inputSchema": {
    "type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}}]
opened = {"sessionId": "s", "protocolVersion": "0.1", "capabilities": listed,
          "app": {"id": "t", "name": "T", "version": "1"}}
failed = {"success": False, "error": {"code": "CANCELLED", "message": "m", "retryable": False}}
def say(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "capabilities/call" and asked["params"]["capability"] == "greet":
        call = asked["id"]
        say(id="q", method="elicitation/input", params={"prompt": "Whom?"})
    elif method == "capabilities/call":
        failed["error"]["code"] = "UNKNOWN_CAPABILITY"
        say(id=asked["id"], result=failed)
    elif method:
        say(id=asked["id"], result=listed if method == "capabilities/list" else opened)
    else:
        answered = asked["result"]["success"]
        say(id=call, result=asked["result"]["data"]["value"] if answered else failed)
"""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> str:
    return started(tmp_path_factory.mktemp("asking"), ASKING)


@pytest.mark.process
def test_check_answers_a_question_of_the_call_from_a_file(asking: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text('[{"match": "Whom", "value": "Ada"}]')
    ended = check(asking, "--call", "greet", "times=1", "--answers", str(answers), "--json")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    (call,) = [each for each in told["checks"] if each["name"] == "call"]
    assert call["problems"] == ["it answered Ada, which has no success that is true or false"]
    asked = {"method": "elicitation/input", "message": "Whom?", "outcome": "accepted"}
    assert (told["asked"], told["notes"]) == ([asked], [])


@pytest.mark.process
def test_check_declines_a_question_without_a_file(asking: str) -> None:
    ended = check(asking, "--call", "greet", "times=1")
    assert ended.returncode == 0, ended.stdout
    assert (
        "The call asked a question, which was declined: Whom? (elicitation/input). What it returns"
        " after an answer is not checked: --answers FILE has it answered."
    ) in ended.stdout
    assert "11 rules for other kinds of apps: manifest link, manifest," in ended.stdout


@pytest.mark.network
@pytest.mark.parametrize(
    ("target", "problem", "step"),
    [
        ("{here}/no.html", "HTTP 404 at {here}/no.html", "The server is there, and has no such"),
        ("http://127.0.0.1:9/", "All connection attempts failed", "Start its server, or look at"),
        ("mcp+http://127.0.0.1:9/", "cannot be reached", "Start its server, or look at"),
    ],
)
def test_check_of_a_missing_app_says_one_thing(
    target: str, problem: str, step: str, web_site: str
) -> None:
    target, problem = (each.format(here=web_site) for each in (target, problem))
    ended = check(target)
    assert ended.returncode == 1
    _, _, rule, said, cure, others, _, counts = ended.stdout.splitlines()
    assert rule.startswith("FAILED       the app is there")
    assert problem in said
    assert step in cure
    assert others == "not checked  25 rules, until that is mended (--json names them)"
    assert counts == "0 passed, 1 failed, 0 to look at, 25 not checked."


@pytest.mark.browser
def test_check_looks_at_the_tools_of_a_page_as_written(web_site: str) -> None:
    ended = check(f"{web_site}/misspelt.html", ABP_CHROME_SANDBOX="0")
    assert ended.returncode == 1
    for said in (
        "read: the browser did not take it: InvalidStateError: Duplicate tool name",
        "broken: the browser did not take it: Error: Not to be looked at",
        "book: 2 forms have this toolname",
        "its form has no toolname, but 'toolnmae', and is no tool without",
        "book: 'guests' has no name",
        "read has the annotation 'readonlyHint', which is nothing; 'readOnlyHint' is",
        "read has the annotation 'destructiveHint', which is nothing; there are readOnlyHint",
        "read has 'desciption', which is nothing; 'description' is",
        "book: a field has 'toolparamdescripton', which is nothing; 'toolparamdescription' is",
        "Not looked at, beyond the first 500 of each: 5 tools, 4 forms, 3 fields.",
    ):
        assert said in ended.stdout
    assert ended.stdout.count("toolnmae") == 1


@pytest.mark.browser
def test_check_looks_at_a_page_in_a_browser(web_site: str) -> None:
    ended = check(f"{web_site}/workshop.html", ABP_CHROME_SANDBOX="0")
    assert ended.returncode == 1
    assert "FAILED       initialize answers" in ended.stdout
    assert "- app.version is missing, or no text" in ended.stdout
    assert "Cure: Return {sessionId, protocolVersion" in ended.stdout
    assert "passed       the page's head links to its manifest" in ended.stdout
    assert "warning      a capability that is not there" in ended.stdout
    assert "not checked  the call is answered" in ended.stdout
    assert (
        "None of its capabilities was called: what a call asks and answers is not checked. --call "
    ) in ended.stdout
