"""`abp-bridge check`: each rule by an app that breaks it, and the command as a person has it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.pages.server import web
from support.paths import APPS
from support.peer import PATIENCE

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

ENV = {
    name: os.environ[name]
    for name in ("PATH", "HOME", "LANG", "ABP_TOOL_CACHE")
    if name in os.environ
}
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


def test_an_app_that_keeps_every_rule_passes_all_that_are_for_it() -> None:
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


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_is_broken_is_told_with_its_problem(name: str) -> None:
    changed, status, words = BROKEN[name]
    (found,) = [each for each in check_all(replace(whole(), **changed)) if each.rule.name == name]
    assert found.status is status
    assert any(words in each for each in found.problems), found.problems


@pytest.mark.parametrize(("call", "name"), [("unknown", "responses"), ("called", "call")])
def test_a_call_that_is_not_answered_breaks_its_rule(call: str, name: str) -> None:
    missing: Json = {call: MISSING}
    facts = replace(whole(), unanswered={call: 2.0}, **missing)
    (found,) = [each for each in check_all(facts) if each.rule.name == name]
    assert (found.status, found.problems) == (Status.FAILED, ("it did not answer within 2 s",))


def judged(name: str, **changed: Json) -> tuple[Status, tuple[str, ...]]:
    (found,) = [each for each in check_all(replace(whole(), **changed)) if each.rule.name == name]
    return found.status, found.problems


@pytest.mark.parametrize("schema", [[1], "string", True, [], ""])
@pytest.mark.parametrize("member", ["listed", "initialize"])
def test_a_schema_is_judged_as_it_came(schema: Json, member: str) -> None:
    came: Json = {"capabilities": [{"name": "a", "inputSchema": schema}]}
    status, (problem,) = judged("schemas", **{member: came})
    assert status is Status.FAILED
    shown = schema if isinstance(schema, str) else json.dumps(schema)
    assert problem == f"a: inputSchema is {shown}, and no object"


def test_a_manifest_may_name_its_capabilities_by_texts() -> None:
    assert judged("manifest's capabilities", manifest={"capabilities": ["a"]}) == (
        Status.PASSED,
        (),
    )
    assert judged("manifest's capabilities", manifest={"capabilities": ["b", 5]}) == (
        Status.WARNING,
        (
            "the manifest names b, which the page does not list",
            "capability 2 of the manifest has no name",
        ),
    )


def test_what_nobody_could_see_is_not_checked() -> None:
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
def test_a_schema_that_is_none_is_named_by_its_place(schema: Json, words: str) -> None:
    assert any(words in each for each in find_schema_problems(schema))


def check(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "abp_bridge", "check", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**ENV, **env},
        check=False,
    )


@pytest.fixture(scope="module")
def web_site() -> Iterator[str]:
    with web() as site:
        yield site.here


def test_a_program_that_breaks_a_rule_is_told_its_cure(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked.get('params', {}).get('capability') == 'a':\n"
        "        continue\n"
        "    result = {'sessionId': 's', 'capabilities': [{'name': 'a'}]}\n"
        "    answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': result}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    ended = check(f"stdio:{sys.executable} {app}", "--call", "a", "--json", ABP_CALL_TIMEOUT="0.3s")
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


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ({"result": {"success": True}}, {"program", "initialize"}),
        ({"error": {"code": -32000, "message": "closed on Sundays"}}, {"program"}),
        (
            {"result": {"success": False, "error": {"code": "X", "message": "closed on Sundays"}}},
            {"program"},
        ),
    ],
    ids=["it says yes and nothing else", "it throws", "it refuses"],
)
def test_a_program_that_is_not_opened_is_told_why_and_nothing_it_never_said(
    answer: Json, failed: set[str], tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(ANSWERS)
    target = shlex.join([sys.executable, str(app), json.dumps(answer)])
    ended = check(f"stdio:{target}", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    checks = {each["name"]: each for each in json.loads(ended.stdout)["checks"]}
    statuses = {name: each["status"] for name, each in checks.items()}
    assert {name for name, status in statuses.items() if status == "failed"} == failed
    if "initialize" not in failed:
        assert "closed on Sundays" in checks["program"]["problems"][0]
        assert "warning" not in statuses.values()


def test_a_server_that_speaks_no_abp_is_judged_by_its_call_too(tmp_path: Path) -> None:
    server = (
        f"mcp:{sys.executable} {APPS / 'mcp_server.py'} {tmp_path / 'read'} {tmp_path / 'done'}"
    )
    ended = check(server, "--call", "look", "--json")
    told = {each["name"]: each["status"] for each in json.loads(ended.stdout)["checks"]}
    assert (told["call"], told["responses"]) == ("passed", "not checked")


def test_what_a_call_threw_is_told_as_try_tells_it() -> None:
    thrown = {"thrown": {"called"}, "failures": {"called": "TypeError: no y (at /app.js:3:1)"}}
    facts = replace(whole(), called={"message": "no y"}, **thrown)  # type: ignore[arg-type]
    (found,) = [each for each in check_all(facts) if each.rule.name == "call"]
    assert found.problems[0].startswith("it threw TypeError: no y (at /app.js:3:1), where ABP has")


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
    app = tmp_path_factory.mktemp("asking") / "app.py"
    app.write_text(ASKING)
    return f"stdio:{sys.executable} {app}"


def test_what_a_call_asks_is_answered_from_a_file(asking: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text('[{"match": "Whom", "value": "Ada"}]')
    ended = check(asking, "--call", "greet", "times=1", "--answers", str(answers), "--json")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    (call,) = [each for each in told["checks"] if each["name"] == "call"]
    assert call["problems"] == ["it answered Ada, which has no success that is true or false"]
    asked = {"method": "elicitation/input", "message": "Whom?", "outcome": "accepted"}
    assert (told["asked"], told["notes"]) == ([asked], [])


def test_what_is_declined_without_a_file_is_said(asking: str) -> None:
    ended = check(asking, "--call", "greet", "times=1")
    assert ended.returncode == 0, ended.stdout
    assert (
        "The call asked a question, which was declined: Whom? (elicitation/input). What it returns"
        " after an answer is not checked: --answers FILE has it answered."
    ) in ended.stdout
    assert "11 rules for other kinds of apps: manifest link, manifest," in ended.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gret", "times=1"], "no capability 'gret'. Did you mean greet? It has greet."),
        (["greet"], "greet: it needs times (integer), such as times=1"),
        (["times=1"], "'times=1' is a parameter: name the capability first, as in greet times=1"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_as_try_refuses_it(
    asking: str, words: list[str], said: str
) -> None:
    ended = check(asking, "--call", *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


@pytest.mark.parametrize(
    ("target", "problem", "step"),
    [
        ("{here}/no.html", "HTTP 404 at {here}/no.html", "The server is there, and has no such"),
        ("http://127.0.0.1:9/", "All connection attempts failed", "Start its server, or look at"),
        ("mcp+http://127.0.0.1:9/", "cannot be reached", "Start its server, or look at"),
    ],
)
def test_of_an_app_that_is_not_there_one_thing_is_said_and_what_to_do(
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


def test_what_a_page_wrote_of_its_tools_is_looked_at_as_it_is_written(web_site: str) -> None:
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


def test_a_page_is_looked_at_in_a_browser(web_site: str) -> None:
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
