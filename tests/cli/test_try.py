"""`abp-bridge try`: call an app from a command line; answer there or from a file."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import harness
from support.browser import type_on_the_page
from support.harness import environment
from support.paths import APPS
from support.puppets import scripted
from support.terminal import DOWN, ENTER, Screen

from abp_bridge.cli.parameters import ParameterError, read_parameters
from abp_bridge.cli.terminal_view import JsonView, Offer, Output, TextView, parameter_lines

Json = Any

TRY = [sys.executable, "-m", "abp_bridge", "try"]
ENV = environment()
EXOTIC = APPS / "exotic_server.py"
CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Delete it?"}}


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return harness.run("try", *arguments, env=env)


def asking(request: Json) -> list[str]:
    """The words that have the demo ask this."""
    return ["demo", "demo.ask", f"request={json.dumps(request)}"]


def written(folder: Path, *entries: Json) -> list[str]:
    path = folder / "answers.json"
    path.write_text(json.dumps(entries))
    return ["--answers", str(path)]


def events(ended: subprocess.CompletedProcess[str]) -> dict[str, Json]:
    """The last event of each kind."""
    lines = map(json.loads, ended.stdout.splitlines())
    return {line["event"]: line for line in lines}


def test_what_an_app_returns_hides_nothing_in_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    returned = "\x1b[2J\x9b31m\u202e\u2028\u200b\ud800 é"
    JsonView(Output(lambda _: None), "try").on_result("run", False, json.dumps({"value": returned}))
    line = capsys.readouterr().out
    assert json.loads(line)["data"] == {"value": returned}
    assert line.rstrip("\n").isprintable()
    assert "é" in line


def test_try_without_a_capability_lists_them() -> None:
    ended = run("demo")
    assert ended.returncode == 0, ended.stderr
    assert "Connected: ABP demo (demo)" in ended.stdout
    assert "--answers FILE" not in ended.stdout, "nothing is asked where nothing is called"
    listed = ended.stdout.split("  demo.tell\n")[1]
    assert "event: string\n" in listed
    assert "times: integer, may be left out\n" in listed
    assert "Next: abp-bridge try demo demo.trip" in listed


@pytest.mark.process
def test_try_suggests_the_next_call_without_naming_the_app() -> None:
    server = f"mcp:{shlex.join([sys.executable, str(EXOTIC), 'legacy'])}"
    listed = " ".join(run(server).stdout.split())
    assert "Next: abp-bridge try TARGET " in listed
    assert "(TARGET: the same as now)" in listed


@pytest.mark.process
def test_try_answers_a_call_from_a_file(tmp_path: Path) -> None:
    others = {"ABP_ANSWERS": "/nope", "ABP_ASK_ON": "terminal"}  # this command says who answers
    answers = written(tmp_path, {"match": "Delete", "value": True})
    told = events(ended := run(*asking(CONFIRM), *answers, "--json", **others))
    assert ended.returncode == 0, ended.stderr
    assert told["asked"]["message"] == "Delete it?"
    assert told["result"]["data"]["data"] == {"confirmed": True}
    assert told["account"]["questions"][0]["answerer"] == "file"


@pytest.mark.parametrize("given", [True, False])
def test_try_takes_true_and_false_for_a_destructive_confirm(given: bool, tmp_path: Path) -> None:
    params = {"message": "Go on?", "destructive": True}
    confirm = {"method": "elicitation/confirm", "params": params}
    answers = written(tmp_path, {"match": "Go on", "value": given})
    told = events(ended := run(*asking(confirm), *answers, "--json"))
    assert ended.returncode == 0, ended.stdout
    assert told["asked"]["fields"][0]["type"] == "choice"
    assert told["result"]["data"]["data"] == {"confirmed": given}
    assert told["result"]["data"]["metadata"]["answeredBy"] == "script"
    assert told["answered"]["by"] == "the answers file"


SECRET = {"method": "elicitation/input", "params": {"prompt": "Key?", "sensitive": True}}


@pytest.mark.network
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param(CONFIRM, "no entry answers it", id="a form"),
        pytest.param({**CONFIRM, "params": {"message": "Go?"}}, "entry 2 does not", id="a misfit"),
        pytest.param(SECRET, "no entry goes to a page", id="a page"),
    ],
)
def test_try_reports_to_the_app_that_no_entry_answers(
    request_: Json, why: str, tmp_path: Path
) -> None:
    answers = written(tmp_path, {"match": "else", "value": "x"}, {"match": "Go", "value": "x"})
    told = events(ended := run(*asking(request_), *answers, "--json"))
    assert ended.stdout.count('{"event": "asked"') == 1
    assert told["answered"]["outcome"] == "unsupported"
    assert told["answered"]["by"].startswith(f"nobody: {why}")
    [row] = told["account"]["questions"]
    assert (row["outcome"], row["answeredBy"]) == ("unsupported", "nobody")
    heard = told["result"]["data"]
    assert (heard["error"]["code"], heard["metadata"]["answeredBy"]) == ("NOT_SUPPORTED", "nobody")
    assert f"the host says that nobody answered: {why}" in heard["error"]["message"]


@pytest.mark.slow
def test_try_reports_a_timeout(tmp_path: Path) -> None:
    silent = written(tmp_path, {"action": "silence"})
    told = events(run(*asking({**CONFIRM, "timeout": 200}), *silent, "--json"))
    assert told["answered"]["outcome"] == "withdrawn"
    assert told["answered"]["by"].startswith("nobody: ")
    assert told["result"]["data"]["error"]["code"] == "TIMEOUT"
    [row] = told["account"]["questions"]
    assert (row["outcome"], row["answeredBy"]) == ("timed_out", "nobody")


def test_try_exit_code_reports_a_failed_call() -> None:
    ended = run("demo", "demo.fail")
    assert ended.returncode == 1
    assert "With --answers FILE it is answered from a file." in " ".join(ended.stdout.split())
    assert "demo.fail failed: PRINTER_JAM: The printer is jammed" in ended.stdout
    assert "Nothing was asked." in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "demo.ehco"], "no capability 'demo.ehco'. Did you mean demo.echo?"),
        (["demo", "text=a"], "'text=a' is a parameter: name the capability first, as in demo.trip"),
    ],
)
def test_try_answers_an_unknown_capability_with_the_nearest(
    arguments: list[str], words: str
) -> None:
    ended = run(*arguments, "--json")
    *_, last = map(json.loads, ended.stdout.splitlines())
    assert (last["event"], last["exitCode"], ended.returncode) == ("error", 2, 2)
    assert words in last["message"]
    assert last["message"] in ended.stderr


def test_try_names_an_app_that_cannot_be_started() -> None:
    ended = run("stdio:no-such-program")
    assert ended.returncode == 1
    assert "no-such-program" in ended.stderr
    assert "Traceback" not in ended.stderr


# --- at a terminal --------------------------------------------------------------------------------


@pytest.mark.terminal
def test_try_lets_the_user_choose_fill_in_and_answer() -> None:
    with Screen([*TRY, "demo"], ENV) as screen:
        screen.until("What shall be called?")
        screen.until("Esc cancels")
        screen.press(*"demo.as", ENTER)
        screen.until("The parameters of demo.ask")
        screen.until("Esc cancels")
        screen.press(json.dumps(CONFIRM), ENTER)
        screen.until("Delete it?")
        screen.until("Esc cancels")
        screen.press(DOWN, ENTER)
        screen.until("demo.ask returned:")
        screen.until("Esc cancels")
        screen.press(*"Nothing", ENTER)
        assert screen.end() == 0
    shown = screen.shown.split("── The account")[1]
    assert "Delete it?" in shown
    assert "person" in shown


@pytest.mark.terminal
def test_try_calls_nothing_whose_parameters_cannot_be_asked_for(tmp_path: Path) -> None:
    nowhere: Json = {"type": "object", "properties": {"only": {"$ref": "#/nope"}}}
    needs = {"wipe": {**nowhere, "required": ["only"]}, "look": nowhere}
    listed = [
        {"name": name, "description": name, "inputSchema": schema, "steps": [{"return": name}]}
        for name, schema in needs.items()
    ]
    app = {"app": {"id": "a", "name": "A"}, "capabilities": listed}
    (tmp_path / "app.json").write_text(json.dumps(app))
    with Screen([*TRY, scripted(tmp_path / "app.json")], ENV, columns=100) as screen:
        screen.until("Esc cancels")
        screen.press(ENTER)
        said = " ".join(screen.until("What shall be called?").split())
        assert "wipe: it needs only, such as only=.... It cannot be asked for here" in said
        assert "give it as words: abp-bridge try TARGET wipe only=..." in said
        screen.until("Esc cancels")
        screen.press(DOWN, ENTER)
        screen.until("look is called without parameters: none can be asked for")
        screen.until("look returned")
        screen.until("Esc cancels")
        screen.press(DOWN, DOWN, ENTER)
        assert screen.end() == 1
    assert "wipe returned" not in screen.shown


@pytest.mark.terminal
def test_try_hides_a_secret_that_is_typed() -> None:
    with Screen([*TRY, *asking(SECRET)], ENV) as screen:
        screen.until("Here: what is secret is not shown as it is typed")
        screen.press(DOWN, ENTER)
        screen.until("Key?")
        screen.until("Esc cancels")
        screen.press(*"hunter2", ENTER)
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0
    assert "hunter2" not in screen.shown.partition("demo.ask returned")[0]
    assert re.search(r"accepted +person +terminal", screen.shown)


@pytest.mark.terminal
def test_try_shows_the_link_of_the_page_without_a_browser() -> None:
    asked = {"method": "elicitation/input", "params": {"prompt": "Whose?"}}
    with Screen([*TRY, *asking(asked), "--on", "page"], ENV) as screen:
        screen.until("/open/")
        screen.until("\n")
        type_on_the_page(screen.shown, "Ada")
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0
    assert "Open this link:" in screen.shown
    assert "accept this" not in screen.shown
    assert re.search(r'data +\{"value": "Ada"\}', screen.shown), "what the app got, as it got it"


# Options of `serve`, which this command does not have.
NOT_ITS_OPTIONS = r"--page open|--tty|--notify|--ask-via-model|--questions-api"


# --- without a terminal ---------------------------------------------------------------------------


@pytest.mark.network
def test_try_without_a_surface_says_why_and_what_to_do() -> None:
    said = " ".join(run(*asking(SECRET)).stdout.split())
    assert said.partition("── demo.ask")[0].count("be asked") == 1
    assert "this is no terminal, and no browser can be opened" in said
    assert "--answers FILE" in said
    returned, _, account = said.partition("The account")
    for words in (returned.partition("demo.ask returned")[2], account):
        assert "page: not set up (--on page where a browser can be opened)" in words
    assert not re.search(NOT_ITS_OPTIONS, said)


@pytest.mark.process
def test_try_reports_a_browser_that_fails() -> None:
    said = " ".join(run(*asking(SECRET), BROWSER="/bin/false").stdout.split())
    assert "/bin/false failed" in said
    assert "be asked at a terminal (abp-bridge try in a terminal)" in said
    assert not re.search(NOT_ITS_OPTIONS, said)


# --- parameters -----------------------------------------------------------------------------------


SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Whose it is"},
        "count": {"type": "integer", "minimum": 1},
        "tags": {"type": "array"},
        "kind": {"enum": ["big", "small"]},
        "any": {},
    },
    "required": ["name"],
}


def test_parameter_takes_an_option_by_its_title() -> None:
    options = [{"const": "b", "title": "Blue"}, {"const": "Blue", "title": "Sky"}, {"const": "r"}]
    schema: Json = {"properties": {"colour": {"type": "string", "oneOf": options}}}
    (line,) = parameter_lines(schema)
    assert line == "colour: b (Blue) | Blue (Sky) | r, may be left out"
    for word, value in (("b", "b"), ("Sky", "Blue"), ("Blue", "Blue"), ("r", "r")):
        assert read_parameters([f"colour={word}"], schema) == {"colour": value}


def test_parameter_rejects_a_secret() -> None:
    schemas: list[Json] = [{"properties": {"user": {}}}, {"additionalProperties": True}, {}]
    for schema in schemas:
        with pytest.raises(ParameterError, match="pw is asked of you, and never passed") as raised:
            read_parameters(["pw=geheim"], schema, ["pw"])
        assert "geheim" not in str(raised.value)


def test_list_shows_what_the_user_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    room: Json = {"enum": ["in"], "oneOf": [{"const": "in", "title": "Inside"}]}
    schema: Json = {"properties": {"name": {"type": "string"}, "room": room}}
    offer = Offer("book", "book", "Books", schema, True, "", asks_first=True, asked=("name", "pw"))
    TextView(Output(lambda _: None), None).on_offers([offer])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  book (consequential: you are asked before each call)",
        "    Books",
        "    name: string, asked of you where it is left out",
        "    room: in (Inside), may be left out",
        "    pw: asked of you, never passed",
    ]
    JsonView(Output(lambda _: None), "try").on_offers([offer])
    [told] = json.loads(capsys.readouterr().out)["capabilities"]
    assert (told["needsApproval"], told["askedOfPerson"]) == (True, ["name", "pw"])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (['{"name": "Ada"}'], {"name": "Ada"}),
        (["name=12", "count=12"], {"name": "12", "count": 12}),
        (["name=a=b", 'tags=["x"]', "any=words", "kind=big"],
         {"name": "a=b", "tags": ["x"], "any": "words", "kind": "big"}),
    ],
)  # fmt: skip
def test_parameters_are_read_by_their_schema(words: list[str], given: Json) -> None:
    assert read_parameters(words, SCHEMA) == given


@pytest.mark.parametrize(
    "others", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}]
)
def test_parameters_of_an_open_schema_are_passed(others: Json) -> None:
    assert read_parameters(["name=Ada", "x=1"], {**SCHEMA, **others}) == {"name": "Ada", "x": 1}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "it needs name (string, Whose it is), such as name=..."),
        (["{"], "is not valid JSON"),
        (["Ada"], "'Ada' is no parameter: give name=value"),
        (["name=Ada", "cuont=1"], "it has no parameter cuont (is count meant?)"),
        (["name=Ada", "count=many"], "count must be integer, not 'many'"),
        (["name=Ada", "count=0"], "count must be at least 1"),
        (["name=Ada", "kind=huge"], "kind must be one of"),
        (["name=Ada", "name=Eve"], "name is given twice"),
    ],
)
def test_parameters_that_do_not_fit_are_named(words: list[str], problem: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read_parameters(words, SCHEMA)
    assert problem in str(raised.value)


def test_progress_without_a_total_has_no_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView(Output(lambda _: None), None)
    view.on_progress("book", 0, None, "the form is sent")
    view.on_progress("book", 3, None, "read")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["the", "form", "is", "sent"],
        ["3", "read"],
    ]
