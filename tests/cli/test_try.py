"""`abp-bridge try` through its public door: an app called from a command line, its questions
answered from a file or by real keys, and what is wrong said with what would be right.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.browser import type_on_the_page
from support.paths import APPS
from support.peer import PATIENCE
from support.puppets import scripted
from support.terminal import CTRL_C, DOWN, ENTER, Screen

from abp_bridge.cli.parameters import ParameterError, read_parameters
from abp_bridge.cli.terminal_view import JsonView, Offer, Output, TextView, parameter_lines

Json = Any

TRY = [sys.executable, "-m", "abp_bridge", "try"]
ENV = {
    name: os.environ[name]
    for name in ("PATH", "HOME", "LANG", "ABP_TOOL_CACHE")
    if name in os.environ
}
EXOTIC = APPS / "exotic_server.py"
CONFIRM = {"method": "elicitation/confirm", "params": {"message": "Delete it?"}}


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRY, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**ENV, **env},
        check=False,
    )


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


def test_without_a_capability_it_lists_them_with_their_parameters() -> None:
    ended = run("demo")
    assert ended.returncode == 0, ended.stderr
    assert "Connected: ABP demo (demo)" in ended.stdout
    assert "--answers FILE" not in ended.stdout, "nothing is asked where nothing is called"
    listed = ended.stdout.split("  demo.tell\n")[1]
    assert "event: string\n" in listed
    assert "times: integer, may be left out\n" in listed
    assert "Next: abp-bridge try demo demo.trip" in listed


def test_what_to_call_next_names_no_other_app_than_this_one() -> None:
    server = f"mcp:{shlex.join([sys.executable, str(EXOTIC), 'legacy'])}"
    listed = " ".join(run(server).stdout.split())
    assert "Next: abp-bridge try TARGET " in listed
    assert "(TARGET: the same as now)" in listed


def test_a_call_is_answered_from_a_file_and_accounted_for(tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text(json.dumps([{"match": "Delete", "value": True}]))
    asked = ["demo", "demo.ask", f"request={json.dumps(CONFIRM)}"]
    others = {"ABP_ANSWERS": "/nope", "ABP_ASK_ON": "terminal"}  # who answers is said here
    told = events(ended := run(*asked, "--answers", str(written), "--json", **others))
    assert ended.returncode == 0, ended.stderr
    assert told["asked"]["message"] == "Delete it?"
    assert told["result"]["data"]["data"] == {"confirmed": True}
    assert told["account"]["questions"][0]["answerer"] == "file"


WORDS = [
    "> 100 files will be deleted. Go on?",
    "Which are gone:\n\n  >= 3 days old\n> 5 MB\n>",
    "Sure?",
]


@pytest.mark.parametrize("asked", WORDS)
def test_what_an_app_asks_is_shown_as_it_wrote_it(asked: str, tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text("[true]")
    confirm = {"method": "elicitation/confirm", "params": {"message": asked}}
    call = ["demo", "demo.ask", f"request={json.dumps(confirm)}", "--answers", str(written)]
    assert events(run(*call, "--json"))["asked"]["message"] == asked


@pytest.mark.parametrize("given", [True, False])
def test_a_yes_that_cannot_be_undone_takes_true_and_false(given: bool, tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text(json.dumps([{"match": "Go on", "value": given}]))
    confirm = {
        "method": "elicitation/confirm",
        "params": {"message": "Go on?", "destructive": True},
    }
    asked = ["demo", "demo.ask", f"request={json.dumps(confirm)}", "--answers", str(written)]
    told = events(ended := run(*asked, "--json"))
    assert ended.returncode == 0, ended.stdout
    assert told["asked"]["fields"][0]["type"] == "choice"
    assert told["result"]["data"]["data"] == {"confirmed": given}
    assert told["result"]["data"]["metadata"]["answeredBy"] == "script"
    assert told["answered"]["by"] == "the answers file"


SECRET = {"method": "elicitation/input", "params": {"prompt": "Key?", "sensitive": True}}


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param(CONFIRM, "no entry answers it", id="a form"),
        pytest.param({**CONFIRM, "params": {"message": "Go?"}}, "entry 2 does not", id="a misfit"),
        pytest.param(SECRET, "no entry goes to a page", id="a page"),
    ],
)
def test_what_no_entry_answers_is_nobodys_to_the_app_too_and_asked_once(
    request_: Json, why: str, tmp_path: Path
) -> None:
    written = tmp_path / "answers.json"
    written.write_text('[{"match": "else", "value": "x"}, {"match": "Go", "value": "x"}]')
    asked = ["demo", "demo.ask", f"request={json.dumps(request_)}", "--answers", str(written)]
    ended = run(*asked, "--json")
    told = events(ended)
    assert ended.stdout.count('{"event": "asked"') == 1
    assert told["answered"]["outcome"] == "unsupported"
    assert told["answered"]["by"].startswith(f"nobody: {why}")
    [row] = told["account"]["questions"]
    assert (row["outcome"], row["answeredBy"]) == ("unsupported", "nobody")
    heard = told["result"]["data"]
    assert (heard["error"]["code"], heard["metadata"]["answeredBy"]) == ("NOT_SUPPORTED", "nobody")
    assert f"the host says that nobody answered: {why}" in heard["error"]["message"]


def test_what_an_entry_never_answers_is_nobodys_when_its_time_is_over(tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text('[{"action": "silence"}]')
    request = json.dumps({**CONFIRM, "timeout": 500})
    asked = ["demo", "demo.ask", f"request={request}", "--answers", str(written)]
    told = events(run(*asked, "--json"))
    assert told["answered"]["outcome"] == "withdrawn"
    assert told["answered"]["by"].startswith("nobody: ")
    assert told["result"]["data"]["error"]["code"] == "TIMEOUT"
    [row] = told["account"]["questions"]
    assert (row["outcome"], row["answeredBy"]) == ("timed_out", "nobody")


def test_what_an_app_returns_is_shown_as_it_is_whatever_flags_it_names(tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text('[{"match": "Which", "value": "serve --page open"}]')
    request = {"method": "elicitation/input", "params": {"prompt": "Which?"}}
    asked = ["demo", "demo.ask", f"request={json.dumps(request)}", "--answers", str(written)]
    told = events(run(*asked, "--json"))
    assert told["result"]["data"]["data"] == {"value": "serve --page open"}


def test_a_call_that_fails_is_an_exit_code_of_its_own() -> None:
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
def test_what_cannot_be_called_is_said_with_what_could_be(arguments: list[str], words: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert words in ended.stderr


def test_programs_read_why_it_ended_as_an_event() -> None:
    ended = run("demo", "demo.nope", "--json")
    *_, last = map(json.loads, ended.stdout.splitlines())
    assert (last["event"], last["exitCode"], ended.returncode) == ("error", 2, 2)
    assert last["message"] in ended.stderr


def test_an_app_that_is_not_there_is_said_by_its_name() -> None:
    ended = run("stdio:no-such-program")
    assert ended.returncode == 1
    assert "no-such-program" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_person_chooses_fills_in_and_is_asked_here() -> None:
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


def test_what_it_needs_and_cannot_be_asked_for_is_not_left_out_of_a_call(
    tmp_path: Path,
) -> None:
    nowhere: Json = {"type": "object", "properties": {"only": {"$ref": "#/nope"}}}
    needs = {"wipe": {**nowhere, "required": ["only"]}, "look": nowhere}
    listed = [
        {"name": name, "description": name, "inputSchema": schema, "steps": [{"return": name}]}
        for name, schema in needs.items()
    ]
    (tmp_path / "app.json").write_text(
        json.dumps({"app": {"id": "a", "name": "A"}, "capabilities": listed})
    )
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


def test_a_secret_is_typed_here_hidden_and_goes_through_no_host() -> None:
    with Screen([*TRY, "demo", "demo.ask", f"request={json.dumps(SECRET)}"], ENV) as screen:
        screen.until("Here: what is secret is not shown as it is typed")
        screen.press(DOWN, ENTER)
        screen.until("Key?")
        screen.until("Esc cancels")
        screen.press(*"hunter2", ENTER)
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0
    assert "hunter2" not in screen.shown.partition("demo.ask returned")[0]
    assert re.search(r"accepted +person +terminal", screen.shown)


def test_on_the_page_without_a_browser_the_link_stands_here() -> None:
    asked = {"method": "elicitation/input", "params": {"prompt": "Whose?"}}
    call = ["demo", "demo.ask", f"request={json.dumps(asked)}", "--on", "page"]
    with Screen([*TRY, *call], ENV) as screen:
        screen.until("/open/")
        screen.until("\n")
        type_on_the_page(screen.shown, "Ada")
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0
    assert "Open this link:" in screen.shown
    assert "accept this" not in screen.shown
    assert re.search(r'data +\{"value": "Ada"\}', screen.shown), "what the app got, as it got it"


# Of the bridge's: its person gives them to no command of these.
NOT_ITS_OPTIONS = r"--page open|--tty|--notify|--ask-via-model|--questions-api"
ASK_SECRET = ["demo", "demo.ask", f"request={json.dumps(SECRET)}"]


@pytest.mark.parametrize("columns", [80, 40])
def test_who_went_to_the_page_sees_until_when_it_waits_and_can_come_back(columns: int) -> None:
    with Screen([*TRY, *ASK_SECRET], ENV, columns=columns) as screen:
        screen.until("Esc cancels")
        screen.press(ENTER)
        screen.until("Ctrl-C cancels the")
        assert re.search(r"Waits for you on that page, until\s\d\d:\d\d;", screen.shown)
        screen.press(CTRL_C)
        screen.until("1 question: 1 cancelled.")
        assert screen.end() == 0
    assert "Ctrl-C once more ends" in screen.shown


@pytest.mark.parametrize("on", [(), ("--on", "page")], ids=["here", "on the page"])
def test_the_time_that_an_app_names_is_the_one_that_is_shown(on: tuple[str, ...]) -> None:
    short = {**SECRET, "timeout": 120_000}
    ask = ["demo", "demo.ask", f"request={json.dumps(short)}"]
    with Screen([*TRY, *ask, *on], ENV) as screen:
        if not on:
            screen.until("Esc cancels")
            screen.press(ENTER)
        screen.until("page, until ")
        near = [time.localtime(time.time() + 60 * minutes) for minutes in (1, 2, 3)]
        screen.until(":")
        assert screen.shown.rpartition("until ")[2][:5] in {time.strftime("%H:%M", t) for t in near}
        screen.press(CTRL_C)
        assert screen.end() == (130 if on else 0)


def test_an_address_that_an_app_wants_opened_is_not_told_as_a_page_of_the_bridges_own() -> None:
    server = shlex.join([sys.executable, str(EXOTIC), "legacy"])
    with Screen([*TRY, f"mcp:{server}", "url"], ENV) as screen:
        screen.until("Esc cancels")
        assert "It asks you to open https://" in screen.shown
        assert "page of the bridge's own" not in screen.shown
        assert "Here:" not in screen.shown
        screen.press(ENTER)
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0


def test_what_is_answered_on_the_page_is_waited_for_no_longer() -> None:
    with Screen([*TRY, *ASK_SECRET], ENV) as screen:
        screen.until("Esc cancels")
        screen.press(ENTER)
        screen.until("Ctrl-C cancels the")
        type_on_the_page(screen.shown, "hunter2")
        screen.until("1 question: 1 accepted")
        assert screen.end() == 0


def test_where_nobody_can_be_asked_it_says_why_and_what_would_do() -> None:
    said = " ".join(run(*ASK_SECRET).stdout.split())
    assert said.partition("── demo.ask")[0].count("be asked") == 1
    assert "this is no terminal, and no browser can be opened" in said
    assert "--answers FILE" in said
    returned, _, account = said.partition("The account")
    for words in (returned.partition("demo.ask returned")[2], account):
        assert "page: not set up (--on page where a browser can be opened)" in words
    assert not re.search(NOT_ITS_OPTIONS, said)


def test_a_browser_that_does_not_open_is_said_with_what_this_command_takes() -> None:
    said = " ".join(run(*ASK_SECRET, BROWSER="/bin/false").stdout.split())
    assert "/bin/false failed" in said
    assert "be asked at a terminal (abp-bridge try in a terminal)" in said
    assert not re.search(NOT_ITS_OPTIONS, said)


def test_programs_read_the_ways_to_be_asked_that_this_command_has() -> None:
    [row] = events(run(*ASK_SECRET, "--json"))["account"]["questions"]
    assert row["ways"] == [
        "--on page where a browser can be opened: you are asked on a page of the bridge's own",
        "abp-bridge try in a terminal: you are asked there",
    ]


def test_what_no_entry_answers_is_drawn_with_what_this_command_takes(tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text('["x"]')
    with Screen([*TRY, *ASK_SECRET, "--answers", str(written)], ENV) as screen:
        screen.until("1 question: 1 unsupported.")
        assert screen.end() == 0
    assert "(--on page where a browser can be opened)" in " ".join(screen.shown.split())
    assert not re.search(NOT_ITS_OPTIONS, screen.shown)


def test_while_a_file_answers_the_bridge_asks_nobody_beside_it(tmp_path: Path) -> None:
    written = tmp_path / "answers.json"
    written.write_text('["Ada"]')
    for variable in ("ABP_PAGE", "ABP_TTY"):
        ran = run(*ASK_SECRET, "--answers", str(written), **{variable: "open"})
        assert ran.stdout.count("● demo asks") == 1, ran


def test_input_that_is_piped_is_said_to_be_so() -> None:
    piped = ["sh", "-c", f"echo | {shlex.join([*TRY, *ASK_SECRET])}"]
    with Screen(piped, ENV) as screen:
        screen.until("stdin is no terminal")
        assert screen.end() == 0


def test_each_question_on_the_page_is_said_to_wait() -> None:
    with Screen([*TRY, *ASK_SECRET, "--on", "page"], {**ENV, "BROWSER": "/bin/true"}) as screen:
        screen.until("Waits for you on the page, until ")
        screen.until(": Key?")
        screen.press(CTRL_C)
        assert screen.end() == 130


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


def test_an_option_is_shown_and_taken_by_what_people_call_it() -> None:
    options = [{"const": "b", "title": "Blue"}, {"const": "Blue", "title": "Sky"}, {"const": "r"}]
    schema: Json = {"properties": {"colour": {"type": "string", "oneOf": options}}}
    (line,) = parameter_lines(schema)
    assert line == "colour: b (Blue) | Blue (Sky) | r, may be left out"
    for word, value in (("b", "b"), ("Sky", "Blue"), ("Blue", "Blue"), ("r", "r")):
        assert read_parameters([f"colour={word}"], schema) == {"colour": value}


def test_a_secret_in_a_call_is_refused_with_the_way_it_is_given() -> None:
    schemas: list[Json] = [{"properties": {"user": {}}}, {"additionalProperties": True}, {}]
    for schema in schemas:
        with pytest.raises(ParameterError, match="pw is asked of you, and never passed") as raised:
            read_parameters(["pw=geheim"], schema, ["pw"])
        assert "geheim" not in str(raised.value)


def test_what_its_person_is_asked_stands_with_what_a_tool_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
def test_parameters_are_read_as_their_schema_has_them(words: list[str], given: Json) -> None:
    assert read_parameters(words, SCHEMA) == given


@pytest.mark.parametrize(
    "others", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}]
)
def test_a_schema_that_takes_other_parameters_is_given_them(others: Json) -> None:
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
def test_parameters_that_do_not_fit_are_said_by_name(words: list[str], problem: str) -> None:
    with pytest.raises(ParameterError) as raised:
        read_parameters(words, SCHEMA)
    assert problem in str(raised.value)


def test_progress_that_counts_nothing_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView(Output(lambda _: None), None)
    view.on_progress("book", 0, None, "the form is sent")
    view.on_progress("book", 3, None, "read")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["the", "form", "is", "sent"],
        ["3", "read"],
    ]
